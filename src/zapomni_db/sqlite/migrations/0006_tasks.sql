-- Long work done in the background, by whichever process has time for it.
-- Times are microseconds since 1970 UTC.

CREATE TABLE tasks (
    key              INTEGER PRIMARY KEY AUTOINCREMENT,
    id               TEXT NOT NULL UNIQUE,
    type             TEXT NOT NULL,
    params           TEXT NOT NULL,              -- JSON object
    same_work        BLOB NOT NULL,              -- hash of type and params
    status           TEXT NOT NULL DEFAULT 'pending',
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    -- The number of the latest claim: only who has it may report or finish.
    attempts         INTEGER NOT NULL DEFAULT 0,
    failures         INTEGER NOT NULL DEFAULT 0, -- attempts that ended in an error
    losses           INTEGER NOT NULL DEFAULT 0, -- attempts whose process fell silent
    -- When anybody may claim it: at once, after a pause, or when the holder's lease runs out.
    due_at           INTEGER NOT NULL,
    done             INTEGER NOT NULL DEFAULT 0,
    total            INTEGER,
    message          TEXT NOT NULL DEFAULT '',
    result           TEXT,                       -- JSON
    error            TEXT,
    error_code       TEXT,
    created_at       INTEGER NOT NULL,
    started_at       INTEGER,
    updated_at       INTEGER NOT NULL,
    finished_at      INTEGER                     -- NULL while it is pending or running
);
-- The same work is not queued twice, unless what is under way is being cancelled.
CREATE UNIQUE INDEX tasks_same_work ON tasks (same_work)
    WHERE finished_at IS NULL AND cancel_requested = 0;
CREATE INDEX tasks_open ON tasks (key) WHERE finished_at IS NULL;
CREATE INDEX tasks_finished ON tasks (finished_at) WHERE finished_at IS NOT NULL;
