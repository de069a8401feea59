-- What the user decided about a project. A hook that meets an older schema makes this table itself
-- (`project_folders.RULES_TABLE`).
CREATE TABLE IF NOT EXISTS project_rules (
    project  TEXT PRIMARY KEY,            -- its key
    private  INTEGER NOT NULL DEFAULT 0,  -- 1: shown in no answer to another project
    excluded INTEGER NOT NULL DEFAULT 0   -- 1: hooks record nothing of it
) WITHOUT ROWID;

-- Memories that were given a project's key because they carried its name, so that it can be undone.
CREATE TABLE IF NOT EXISTS project_matches (
    memory_id TEXT PRIMARY KEY,
    name      TEXT NOT NULL,  -- what the memory carried before
    project   TEXT NOT NULL   -- the key it was given
) WITHOUT ROWID;
