-- Words a passage should be found by though they do not stand in it: its date, the parts of its
-- identifiers, pairs of characters of scripts without blanks.

DROP TRIGGER chunks_fts_insert;
DROP TRIGGER chunks_fts_delete;
DROP TABLE chunks_fts;

ALTER TABLE chunks ADD COLUMN context TEXT NOT NULL DEFAULT '';

CREATE VIRTUAL TABLE chunks_fts USING fts5 (
    text, context, content='chunks', content_rowid='id',
    tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER chunks_fts_insert AFTER INSERT ON chunks BEGIN
    INSERT INTO chunks_fts (rowid, text, context) VALUES (new.id, new.text, new.context);
END;
CREATE TRIGGER chunks_fts_delete AFTER DELETE ON chunks BEGIN
    INSERT INTO chunks_fts (chunks_fts, rowid, text, context)
    VALUES ('delete', old.id, old.text, old.context);
END;
INSERT INTO chunks_fts (chunks_fts) VALUES ('rebuild');
