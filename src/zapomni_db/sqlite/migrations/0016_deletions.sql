-- What other devices have to know when memories are merged, whichever engine stores them: which
-- memories were deleted, who wrote what came from elsewhere, and which devices are trusted. No text.
CREATE TABLE deletions (
    memory_id  TEXT PRIMARY KEY,
    deleted_at INTEGER NOT NULL,            -- later than the last change of the memory
    undone_at  INTEGER,                     -- restored from the trash
    purged     INTEGER NOT NULL DEFAULT 0,  -- nothing of it may be left anywhere
    same_as    TEXT NOT NULL DEFAULT '',    -- the memory that has the same text
    supersedes TEXT NOT NULL DEFAULT '[]',  -- JSON: what it had replaced
    device     TEXT NOT NULL DEFAULT ''     -- '': this one
) WITHOUT ROWID;

-- The device whose change a memory had from another home; a later change is this home's own.
CREATE TABLE memory_writers (
    memory_id  TEXT PRIMARY KEY,
    updated_at INTEGER NOT NULL,
    device     TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE sync_devices (
    device     TEXT PRIMARY KEY,
    trusted    INTEGER NOT NULL DEFAULT 0,
    first_seen INTEGER NOT NULL             -- seconds since 1970
) WITHOUT ROWID;
