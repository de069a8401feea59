-- Projects whose prompts and failures bring back no memories; '*' is every project that is not named.
CREATE TABLE recall_switches (
    project TEXT PRIMARY KEY,
    prompts INTEGER NOT NULL
) WITHOUT ROWID;
