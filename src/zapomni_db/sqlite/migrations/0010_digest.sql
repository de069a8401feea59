-- When a memory expires, where it came from and whether its text may be given to agents unasked; and
-- the digest: the memories that hooks may give to a session, whichever engine stores the memories.

ALTER TABLE memories ADD COLUMN expires_at INTEGER;
ALTER TABLE memories ADD COLUMN origin TEXT NOT NULL DEFAULT '';  -- '': the user's own
ALTER TABLE memories ADD COLUMN trusted INTEGER NOT NULL DEFAULT 1;

CREATE TABLE memory_digest (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    memory_id  TEXT NOT NULL UNIQUE,
    project    TEXT NOT NULL,
    kind       TEXT NOT NULL,
    class      TEXT NOT NULL,     -- pinned, preference, decision, rule or note
    text       TEXT NOT NULL,     -- short, without secrets
    updated_at INTEGER NOT NULL,
    expires_at INTEGER
);
CREATE INDEX memory_digest_by_class ON memory_digest (class, project, updated_at);

CREATE VIRTUAL TABLE memory_digest_fts USING fts5 (
    text, content='memory_digest', content_rowid='key',
    tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER memory_digest_fts_insert AFTER INSERT ON memory_digest BEGIN
    INSERT INTO memory_digest_fts (rowid, text) VALUES (new.key, new.text);
END;
CREATE TRIGGER memory_digest_fts_delete AFTER DELETE ON memory_digest BEGIN
    INSERT INTO memory_digest_fts (memory_digest_fts, rowid, text)
    VALUES ('delete', old.key, old.text);
END;

-- Memories of this file whose digest is out of date. A number for each change, so that one made
-- while the digest is written is not lost.
CREATE TABLE digest_queue (
    key       INTEGER PRIMARY KEY AUTOINCREMENT,
    memory_id TEXT NOT NULL
);
CREATE TRIGGER digest_queue_insert AFTER INSERT ON memories WHEN new.kind <> 'code' BEGIN
    INSERT INTO digest_queue (memory_id) VALUES (new.id);
END;
CREATE TRIGGER digest_queue_update
AFTER UPDATE OF content_hash, project, kind, pinned, superseded_by, expires_at, trusted ON memories
WHEN new.kind <> 'code' BEGIN
    INSERT INTO digest_queue (memory_id) VALUES (new.id);
END;
CREATE TRIGGER digest_queue_delete AFTER DELETE ON memories BEGIN
    DELETE FROM memory_digest WHERE memory_id = old.id;
END;
INSERT INTO digest_queue (memory_id)
    SELECT id FROM memories WHERE kind <> 'code' AND superseded_by IS NULL;

-- Which store the digest was made from, and that store's version at the time.
CREATE TABLE digest_state (
    store   TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;
