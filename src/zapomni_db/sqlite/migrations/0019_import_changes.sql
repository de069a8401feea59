-- What an import changed, so that it can be taken back, and what files no longer have.

ALTER TABLE import_items ADD COLUMN file BLOB;  -- hash of the path, of what follows a file
ALTER TABLE import_items ADD COLUMN is_gone INTEGER NOT NULL DEFAULT 0;  -- 1: it no longer has it
CREATE INDEX import_items_by_file ON import_items (source, file) WHERE file IS NOT NULL;

CREATE TABLE import_changes (
    batch      TEXT NOT NULL,
    memory     TEXT NOT NULL,
    source     TEXT NOT NULL,
    native     BLOB NOT NULL,
    hash       BLOB,              -- of the text before
    trusted    INTEGER NOT NULL,  -- whether it was
    was_at     INTEGER NOT NULL,  -- when it was changed last before this, in microseconds since 1970
    changed_at INTEGER,           -- when this changed it; NULL: that was interrupted
    PRIMARY KEY (batch, memory)
) WITHOUT ROWID;
