-- The knowledge graph, tied to the passages it was read from, and what memories were before.

-- What a memory was before each change.
CREATE TABLE memory_history (
    key         INTEGER PRIMARY KEY AUTOINCREMENT,
    memory_key  INTEGER NOT NULL REFERENCES memories (key) ON DELETE CASCADE,
    replaced_at INTEGER NOT NULL,
    fields      TEXT NOT NULL,     -- JSON object: the changed fields as they were
    text        TEXT               -- the text as it was, if it changed
);
CREATE INDEX memory_history_by_memory ON memory_history (memory_key, key);

CREATE TABLE graph_entities (
    key         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    name        TEXT NOT NULL,
    folded      TEXT NOT NULL,     -- the name without regard to case and blanks
    type        TEXT NOT NULL,
    description TEXT NOT NULL,
    confidence  REAL NOT NULL,
    source      TEXT NOT NULL,
    given       INTEGER NOT NULL DEFAULT 0,  -- 1: told by a caller, needs no passage
    -- What it was merged into, in the end; NULL: it stands for itself.
    root        INTEGER REFERENCES graph_entities (key) ON DELETE SET NULL
);
CREATE INDEX graph_entities_by_name ON graph_entities (folded);
CREATE INDEX graph_entities_by_root ON graph_entities (root) WHERE root IS NOT NULL;

CREATE TABLE graph_mentions (
    chunk_id   INTEGER NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    start_char INTEGER NOT NULL,
    end_char   INTEGER NOT NULL,
    entity_key INTEGER NOT NULL REFERENCES graph_entities (key) ON DELETE CASCADE,
    confidence REAL NOT NULL,
    source     TEXT NOT NULL,
    alias      TEXT,               -- the words that stand there, if they are not the name
    folded     TEXT,               -- the same without regard to case and blanks
    since      INTEGER NOT NULL,
    withdrawn  INTEGER,            -- when its memory was superseded
    PRIMARY KEY (chunk_id, start_char, end_char, entity_key)
) WITHOUT ROWID;
CREATE INDEX graph_mentions_by_entity
    ON graph_mentions (entity_key, chunk_id, since, withdrawn, confidence);
CREATE INDEX graph_mentions_by_alias ON graph_mentions (folded) WHERE folded IS NOT NULL;
CREATE INDEX graph_mentions_aliases ON graph_mentions (entity_key, folded, alias)
    WHERE folded IS NOT NULL;

CREATE TABLE graph_relationships (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    source_key INTEGER NOT NULL REFERENCES graph_entities (key) ON DELETE CASCADE,
    target_key INTEGER NOT NULL REFERENCES graph_entities (key) ON DELETE CASCADE,
    type       TEXT NOT NULL,
    exclusive  INTEGER NOT NULL,   -- 1: the source has one such relationship at a time
    support    INTEGER NOT NULL DEFAULT 0,
    strength   REAL NOT NULL DEFAULT 0,
    weight     REAL NOT NULL DEFAULT 0,  -- in which order they are looked at
    UNIQUE (source_key, target_key, type)
);
CREATE INDEX graph_relationships_out ON graph_relationships (source_key, weight);
CREATE INDEX graph_relationships_in ON graph_relationships (target_key, weight);

-- Who says so. One row per relationship and sentence.
CREATE TABLE graph_evidence (
    key              INTEGER PRIMARY KEY AUTOINCREMENT,
    relationship_key INTEGER NOT NULL REFERENCES graph_relationships (key) ON DELETE CASCADE,
    memory_key       INTEGER REFERENCES memories (key) ON DELETE CASCADE,
    chunk_id         INTEGER REFERENCES chunks (id) ON DELETE CASCADE,
    start_char       INTEGER NOT NULL,
    end_char         INTEGER NOT NULL,
    text             TEXT,         -- where there is no passage (any more) to read it from
    strength         REAL NOT NULL,
    source           TEXT NOT NULL,
    said             INTEGER NOT NULL,
    since            INTEGER NOT NULL,
    until            INTEGER,      -- if the sentence says so
    withdrawn        INTEGER       -- when its memory was changed or superseded
);
CREATE INDEX graph_evidence_by_relationship
    ON graph_evidence (relationship_key, since, until, withdrawn, strength);
CREATE INDEX graph_evidence_by_chunk ON graph_evidence (chunk_id);
CREATE INDEX graph_evidence_by_memory ON graph_evidence (memory_key);

-- Which passages were read, and by what.
CREATE TABLE graph_extractions (
    chunk_id  INTEGER PRIMARY KEY REFERENCES chunks (id) ON DELETE CASCADE,
    extractor TEXT NOT NULL
);

-- Which entities are one. By id, for a decision outlives the passages that name the entities.
CREATE TABLE graph_merges (
    key       INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    automatic INTEGER NOT NULL,
    merged_at INTEGER NOT NULL,
    undone_at INTEGER
);
CREATE UNIQUE INDEX graph_merges_by_source ON graph_merges (source_id) WHERE undone_at IS NULL;
CREATE INDEX graph_merges_by_target ON graph_merges (target_id) WHERE undone_at IS NULL;

-- What nothing supports any more goes, whatever took the support away.
CREATE TRIGGER graph_mention_gone AFTER DELETE ON graph_mentions BEGIN
    DELETE FROM graph_entities WHERE key = old.entity_key AND given = 0
        AND NOT EXISTS (SELECT 1 FROM graph_mentions WHERE entity_key = old.entity_key)
        AND NOT EXISTS (SELECT 1 FROM graph_relationships WHERE source_key = old.entity_key)
        AND NOT EXISTS (SELECT 1 FROM graph_relationships WHERE target_key = old.entity_key);
END;
CREATE TRIGGER graph_evidence_come AFTER INSERT ON graph_evidence BEGIN
    UPDATE graph_relationships SET support = support + 1,
        strength = max(strength, new.strength),
        weight = 1 - (1 - max(strength, new.strength)) / (1 + 0.1 * support)
        WHERE key = new.relationship_key;
END;
CREATE TRIGGER graph_evidence_gone AFTER DELETE ON graph_evidence BEGIN
    DELETE FROM graph_relationships WHERE key = old.relationship_key AND support = 1;
    UPDATE graph_relationships SET support = support - 1, strength =
        (SELECT max(strength) FROM graph_evidence WHERE relationship_key = old.relationship_key)
        WHERE key = old.relationship_key;
    UPDATE graph_relationships SET weight = 1 - (1 - strength) / (1 + 0.1 * (support - 1))
        WHERE key = old.relationship_key;
END;
CREATE TRIGGER graph_relationship_gone AFTER DELETE ON graph_relationships BEGIN
    DELETE FROM graph_entities WHERE key IN (old.source_key, old.target_key) AND given = 0
        AND NOT EXISTS (SELECT 1 FROM graph_mentions WHERE entity_key = graph_entities.key)
        AND NOT EXISTS (SELECT 1 FROM graph_relationships WHERE source_key = graph_entities.key)
        AND NOT EXISTS (SELECT 1 FROM graph_relationships WHERE target_key = graph_entities.key);
END;

-- A superseded memory's evidence ends where its successor begins, and is back if that goes.
CREATE TRIGGER graph_memory_superseded AFTER UPDATE OF superseded_by ON memories
WHEN old.superseded_by IS NOT new.superseded_by BEGIN
    UPDATE graph_mentions
        SET withdrawn = (SELECT occurred_at FROM memories WHERE key = new.superseded_by)
        WHERE chunk_id IN (SELECT id FROM chunks WHERE memory_key = new.key);
    UPDATE graph_evidence
        SET withdrawn = (SELECT occurred_at FROM memories WHERE key = new.superseded_by)
        WHERE memory_key = new.key AND chunk_id IS NOT NULL;
END;

INSERT INTO graph_entities (id, name, folded, type, description, confidence, source, given)
    SELECT id, name, lower(name), type, description, confidence, source, 1 FROM entities;
INSERT INTO graph_relationships (source_key, target_key, type, exclusive)
    SELECT s.key, t.key, r.type, 0 FROM relationships r
    JOIN graph_entities s ON s.id = r.source_id JOIN graph_entities t ON t.id = r.target_id;
INSERT INTO graph_evidence
    (relationship_key, start_char, end_char, text, strength, source, said, since)
    SELECT g.key, 0, 0, r.evidence, r.strength, 'unknown', -62135596800000000,
        -62135596800000000 FROM relationships r
    JOIN graph_entities s ON s.id = r.source_id JOIN graph_entities t ON t.id = r.target_id
    JOIN graph_relationships g
        ON g.source_key = s.key AND g.target_key = t.key AND g.type = r.type;
DROP TABLE relationships;
DROP TABLE entities;
