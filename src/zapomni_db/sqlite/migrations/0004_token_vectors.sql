-- Compact vectors of a passage's single tokens, for late interaction. Apart from chunk_vectors,
-- which are read whole, while these are read for a few candidates only.

CREATE TABLE chunk_tokens (
    chunk_id  INTEGER NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    space_key INTEGER NOT NULL REFERENCES embedding_spaces (key),
    tokens    BLOB NOT NULL,
    PRIMARY KEY (chunk_id, space_key)
);
