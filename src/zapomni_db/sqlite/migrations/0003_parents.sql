-- A memory may be a part of something longer, and tell of another day than it was stored on.

ALTER TABLE memories ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE memories ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memories ADD COLUMN occurred_at INTEGER NOT NULL DEFAULT 0;
UPDATE memories SET occurred_at = created_at;

CREATE INDEX memories_by_parent ON memories (parent, project, position) WHERE parent <> '';
DROP INDEX memories_by_project;
DROP INDEX memories_by_time;
CREATE INDEX memories_by_project ON memories (project, occurred_at);
CREATE INDEX memories_by_time ON memories (occurred_at);
