-- What was imported from other programs: so that nothing is imported twice, a run that was killed
-- continues, and a batch can be undone. No text: ids are hashed, paths are those of the files read.
CREATE TABLE import_batches (
    id         TEXT PRIMARY KEY,   -- i-20261116-1
    source     TEXT NOT NULL,
    state      TEXT NOT NULL,      -- running, done, undone
    request    TEXT NOT NULL,      -- JSON: what was asked for
    counts     TEXT NOT NULL,      -- JSON: the report so far
    started_at INTEGER NOT NULL,   -- seconds since 1970
    ended_at   INTEGER
) WITHOUT ROWID;

CREATE TABLE import_items (
    source      TEXT NOT NULL,
    native      BLOB NOT NULL,     -- hash of the id that the record has in its source
    batch       TEXT NOT NULL,
    observation INTEGER,           -- what became of it; both empty: nothing was stored
    memory      TEXT,
    hash        BLOB,              -- of the text of a memory that follows its record
    PRIMARY KEY (source, native)
) WITHOUT ROWID;
CREATE INDEX import_items_by_batch ON import_items (batch);
CREATE INDEX import_items_by_observation ON import_items (observation)
    WHERE observation IS NOT NULL;

CREATE TABLE import_files (
    source      TEXT NOT NULL,
    path        TEXT NOT NULL,
    inode       INTEGER NOT NULL,
    size        INTEGER NOT NULL,  -- when it was read to its end; -1: it was not yet
    mtime       INTEGER NOT NULL,  -- nanoseconds since 1970
    head        BLOB NOT NULL,     -- hash of how it begins
    byte_offset INTEGER NOT NULL,  -- up to here it was read
    since       INTEGER NOT NULL,  -- records before this moment were left out; 0: none
    batch       TEXT NOT NULL,
    PRIMARY KEY (source, path)
) WITHOUT ROWID;
