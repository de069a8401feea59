-- Memories that were forgotten and can come back, whichever engine stores the others.

CREATE TABLE trash_batches (
    key       INTEGER PRIMARY KEY AUTOINCREMENT,  -- the batch is named f-KEY
    why       TEXT NOT NULL,                      -- which command or tool made it
    made_at   INTEGER NOT NULL,                   -- seconds since 1970
    undone_at INTEGER
);

CREATE TABLE trash (
    memory_id TEXT PRIMARY KEY,
    batch     INTEGER NOT NULL REFERENCES trash_batches (key) ON DELETE CASCADE,
    project   TEXT NOT NULL,
    kind      TEXT NOT NULL,
    preview   TEXT NOT NULL,
    pinned    INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,   -- when the memory was added, in microseconds since 1970
    record    TEXT NOT NULL,      -- JSON: all that was stored of it but its vectors
    vectors   TEXT NOT NULL       -- JSON: the vectors of its passages, as base64
);
CREATE INDEX trash_by_batch ON trash (batch);

-- Who superseded whom, as long as one of the two is in the trash.
CREATE TABLE trash_links (
    older TEXT NOT NULL,
    newer TEXT NOT NULL,
    PRIMARY KEY (older, newer)
) WITHOUT ROWID;
