-- Memories, their passages, word index, vectors and the graph.
-- Times are microseconds since 1970 UTC. Never edit this file: add the next number.

CREATE TABLE memories (
    key             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL UNIQUE,
    content_hash    BLOB NOT NULL,
    project         TEXT NOT NULL,
    source          TEXT NOT NULL,
    kind            TEXT NOT NULL,
    pinned          INTEGER NOT NULL DEFAULT 0,
    metadata        TEXT NOT NULL,
    preview         TEXT NOT NULL,
    length          INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    -- Deleting the newer memory brings the older one back.
    superseded_by   INTEGER REFERENCES memories (key) ON DELETE SET NULL,
    idempotency_key TEXT UNIQUE
);
CREATE INDEX memories_by_content ON memories (content_hash, project);
CREATE INDEX memories_by_project ON memories (project, created_at);
CREATE INDEX memories_by_time ON memories (created_at);
CREATE INDEX memories_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;

-- Apart from memories, so that filters and listings never read long texts.
CREATE TABLE memory_texts (
    memory_key INTEGER PRIMARY KEY REFERENCES memories (key) ON DELETE CASCADE,
    text       TEXT NOT NULL
);

CREATE TABLE memory_tags (
    tag        TEXT NOT NULL,
    memory_key INTEGER NOT NULL REFERENCES memories (key) ON DELETE CASCADE,
    PRIMARY KEY (tag, memory_key)
) WITHOUT ROWID;
CREATE INDEX memory_tags_by_memory ON memory_tags (memory_key);

CREATE TABLE chunks (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    memory_key     INTEGER NOT NULL REFERENCES memories (key) ON DELETE CASCADE,
    position       INTEGER NOT NULL,
    start_char     INTEGER NOT NULL,
    end_char       INTEGER NOT NULL,
    text           TEXT NOT NULL,
    text_hash      BLOB NOT NULL,
    metadata       TEXT NOT NULL,
    -- 1 while the chunk has no vector in the active embedding space.
    vector_pending INTEGER NOT NULL DEFAULT 1,
    UNIQUE (memory_key, position)
);
CREATE INDEX chunks_by_text ON chunks (text_hash);
CREATE INDEX chunks_pending ON chunks (id) WHERE vector_pending = 1;

CREATE VIRTUAL TABLE chunks_fts USING fts5 (
    text, content='chunks', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER chunks_fts_insert AFTER INSERT ON chunks BEGIN
    INSERT INTO chunks_fts (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER chunks_fts_delete AFTER DELETE ON chunks BEGIN
    INSERT INTO chunks_fts (chunks_fts, rowid, text) VALUES ('delete', old.id, old.text);
END;

CREATE TABLE embedding_spaces (
    key       INTEGER PRIMARY KEY AUTOINCREMENT,
    model     TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    sha256    TEXT NOT NULL,
    active    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (model, dimension, sha256)
);
CREATE UNIQUE INDEX one_active_space ON embedding_spaces (active) WHERE active = 1;

CREATE TABLE chunk_vectors (
    chunk_id  INTEGER NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    space_key INTEGER NOT NULL REFERENCES embedding_spaces (key),
    vector    BLOB NOT NULL,
    PRIMARY KEY (chunk_id, space_key)
);

-- Tells vector caches in other processes what changed; old entries are pruned.
CREATE TABLE vector_log (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    chunk_id INTEGER NOT NULL
);
CREATE TRIGGER vector_log_insert AFTER INSERT ON chunk_vectors BEGIN
    INSERT INTO vector_log (chunk_id) VALUES (new.chunk_id);
END;
CREATE TRIGGER vector_log_delete AFTER DELETE ON chunk_vectors BEGIN
    INSERT INTO vector_log (chunk_id) VALUES (old.chunk_id);
END;

CREATE TABLE entities (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    type        TEXT NOT NULL,
    description TEXT NOT NULL,
    confidence  REAL NOT NULL,
    source      TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE relationships (
    source_id TEXT NOT NULL REFERENCES entities (id) ON DELETE CASCADE,
    target_id TEXT NOT NULL REFERENCES entities (id) ON DELETE CASCADE,
    type      TEXT NOT NULL,
    strength  REAL NOT NULL,
    evidence  TEXT NOT NULL,
    PRIMARY KEY (source_id, target_id, type)
) WITHOUT ROWID;
CREATE INDEX relationships_by_target ON relationships (target_id);
