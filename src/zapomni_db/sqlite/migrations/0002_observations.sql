-- What agents did, captured by their hooks. Times are whole seconds since 1970 UTC.

CREATE TABLE projects (
    key        TEXT PRIMARY KEY,   -- normalized git remote, root commit, or canonical path
    name       TEXT NOT NULL,      -- what people call it; not unique
    injection  INTEGER NOT NULL DEFAULT 1,  -- 0: no context at session start
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Other keys of the same project: a moved folder, a renamed remote.
CREATE TABLE project_aliases (
    alias       TEXT PRIMARY KEY,
    project_key TEXT NOT NULL REFERENCES projects (key) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    project    TEXT NOT NULL,
    host       TEXT NOT NULL,
    branch     TEXT NOT NULL DEFAULT '',
    started_at INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    ended_at   INTEGER
) WITHOUT ROWID;
CREATE INDEX sessions_by_project ON sessions (project, last_at);

CREATE TABLE observations (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id   TEXT NOT NULL,
    project      TEXT NOT NULL,
    host         TEXT NOT NULL,
    -- The user_prompt this was done for; NULL before the first one.
    prompt_id    INTEGER,
    timestamp    INTEGER NOT NULL,
    obs_type     TEXT NOT NULL,
    source_event TEXT NOT NULL,
    tool_name    TEXT,
    file_path    TEXT,
    content      TEXT NOT NULL,
    metadata     TEXT,             -- JSON object
    signature    TEXT,             -- of an error: equal for the same failure
    pinned       INTEGER NOT NULL DEFAULT 0,
    -- The event's own identity, so that a repeated delivery is stored once.
    event_hash   BLOB NOT NULL UNIQUE
);
CREATE INDEX observations_by_session ON observations (session_id, id);
CREATE INDEX observations_by_project ON observations (project, timestamp);
CREATE INDEX observations_by_type ON observations (obs_type, timestamp);
CREATE INDEX observations_by_time ON observations (timestamp);
CREATE INDEX observations_by_file ON observations (file_path, timestamp) WHERE file_path IS NOT NULL;
CREATE INDEX observations_by_prompt ON observations (prompt_id) WHERE prompt_id IS NOT NULL;
CREATE INDEX observations_by_signature ON observations (project, signature)
    WHERE signature IS NOT NULL;

CREATE VIRTUAL TABLE observations_fts USING fts5 (
    content, file_path, content='observations', content_rowid='id',
    tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER observations_fts_insert AFTER INSERT ON observations BEGIN
    INSERT INTO observations_fts (rowid, content, file_path)
    VALUES (new.id, new.content, new.file_path);
END;
CREATE TRIGGER observations_fts_delete AFTER DELETE ON observations BEGIN
    INSERT INTO observations_fts (observations_fts, rowid, content, file_path)
    VALUES ('delete', old.id, old.content, old.file_path);
END;

-- Captured, redacted, spooled, drained, lost: per host, for `zapomni status`.
CREATE TABLE capture_counters (
    host    TEXT NOT NULL,
    name    TEXT NOT NULL,
    value   INTEGER NOT NULL DEFAULT 0,
    last_at INTEGER,
    PRIMARY KEY (host, name)
) WITHOUT ROWID;
