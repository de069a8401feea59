-- Which folders may see what is stored under a project's key. A hook that meets an older schema makes
-- this table itself (`project_folders.TABLE`): a migration copies the database first, and a hook has
-- no time for that.
CREATE TABLE IF NOT EXISTS project_folders (
    folder   TEXT NOT NULL,
    project  TEXT NOT NULL,     -- the key the folder claims
    identity TEXT NOT NULL,     -- what the file system calls the folder, wherever it is moved
    trusted  INTEGER NOT NULL,  -- 0: waits for the user's word
    first_at INTEGER NOT NULL,
    PRIMARY KEY (folder, project)
) WITHOUT ROWID;
