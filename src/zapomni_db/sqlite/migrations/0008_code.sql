-- Code: what stands in indexed repositories, who refers to whom, and which memories cite what.
-- The texts and vectors are memories like any other. Times are microseconds since 1970 UTC.

CREATE TABLE code_repositories (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    root       TEXT NOT NULL UNIQUE,   -- every link resolved: two worktrees are two
    name       TEXT NOT NULL,
    project    TEXT NOT NULL,
    tag        TEXT NOT NULL,
    head       TEXT NOT NULL DEFAULT '',
    reader     TEXT NOT NULL DEFAULT '',
    -- 1 from before files change until all references are resolved: after a crash all are again.
    unresolved INTEGER NOT NULL DEFAULT 1,
    indexed_at INTEGER,                -- NULL until it was read to its end
    files      INTEGER NOT NULL DEFAULT 0,
    lines      INTEGER NOT NULL DEFAULT 0,
    symbols    INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE code_files (
    key            INTEGER PRIMARY KEY AUTOINCREMENT,
    repository_key INTEGER NOT NULL REFERENCES code_repositories (key) ON DELETE CASCADE,
    path           TEXT NOT NULL,
    memory_id      TEXT NOT NULL UNIQUE,
    stamp          TEXT NOT NULL DEFAULT '',
    -- Empty from before its memory is written until all of it is: after a crash it is read again.
    content_hash   TEXT NOT NULL DEFAULT '',
    language       TEXT NOT NULL DEFAULT '',
    lines          INTEGER NOT NULL DEFAULT 0,
    has_errors     INTEGER NOT NULL DEFAULT 0,
    is_empty       INTEGER NOT NULL DEFAULT 0,
    UNIQUE (repository_key, path)
);
CREATE INDEX code_files_by_content ON code_files (content_hash);

-- Apart from code_files, which every run reads whole.
CREATE TABLE code_file_data (
    file_key INTEGER PRIMARY KEY REFERENCES code_files (key) ON DELETE CASCADE,
    passages TEXT NOT NULL,            -- JSON: hash of the text, symbol, first and last line
    facts    TEXT NOT NULL,
    mentions TEXT NOT NULL             -- names it depends on, each between two line ends
);

-- A symbol keeps its key while its file has its qualified name, or its body under a new one.
CREATE TABLE code_symbols (
    key            INTEGER PRIMARY KEY AUTOINCREMENT,
    file_key       INTEGER NOT NULL REFERENCES code_files (key) ON DELETE CASCADE,
    position       INTEGER NOT NULL,
    name           TEXT NOT NULL,
    qualified_name TEXT NOT NULL,
    kind           TEXT NOT NULL,
    signature      TEXT NOT NULL,
    docstring      TEXT NOT NULL,
    decorators     TEXT NOT NULL,      -- JSON array
    start_line     INTEGER NOT NULL,
    end_line       INTEGER NOT NULL,
    start_byte     INTEGER NOT NULL,
    end_byte       INTEGER NOT NULL,
    content_hash   TEXT NOT NULL,
    body_hash      TEXT NOT NULL,
    depth          INTEGER NOT NULL,
    UNIQUE (file_key, qualified_name)
);
CREATE INDEX code_symbols_by_name ON code_symbols (name COLLATE NOCASE);
CREATE INDEX code_symbols_by_body ON code_symbols (body_hash);

CREATE TABLE code_edges (
    file_key   INTEGER NOT NULL REFERENCES code_files (key) ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    caller_key INTEGER NOT NULL,
    callee_key INTEGER,                -- NULL: only its name is known
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    strength   REAL NOT NULL,
    line       INTEGER NOT NULL,
    PRIMARY KEY (file_key, position)
) WITHOUT ROWID;
CREATE INDEX code_edges_by_callee ON code_edges (callee_key) WHERE callee_key IS NOT NULL;
CREATE INDEX code_edges_by_name ON code_edges (name);

-- By id, for the memories may live in another store.
CREATE TABLE code_citations (
    key          INTEGER PRIMARY KEY AUTOINCREMENT,
    memory_id    TEXT NOT NULL,
    root         TEXT NOT NULL,
    path         TEXT NOT NULL,
    symbol       TEXT NOT NULL,
    start_line   INTEGER NOT NULL,
    end_line     INTEGER NOT NULL,
    given        INTEGER NOT NULL,     -- 0: found in the memory's text
    file_hash    TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    body_hash    TEXT NOT NULL,
    twins        TEXT NOT NULL,        -- JSON array: who had the same body
    head         TEXT NOT NULL
);
CREATE INDEX code_citations_by_memory ON code_citations (memory_id);
