-- A vector has 16 bits a number: the upper 8 in chunk_vectors, which searches hold in memory, the
-- lower 8 here, read for the nearest only. Those below a row are float32 without a rest: packing
-- them here would keep a large home waiting.

ALTER TABLE chunk_tokens ADD COLUMN rest BLOB;

CREATE TABLE unpacked_vectors (row INTEGER NOT NULL);
INSERT INTO unpacked_vectors SELECT coalesce(max(rowid), -1) + 1 FROM chunk_vectors;
