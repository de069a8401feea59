-- A second space (active = 2) has vectors of the passages that the model of the first does not read.
-- `seen`: up to which chunk passages were checked for that.

ALTER TABLE embedding_spaces ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;
