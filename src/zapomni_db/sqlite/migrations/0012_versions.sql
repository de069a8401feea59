-- A random number for the present state of memories and one for that of observations: answers are
-- cached as long as it stays. Not a count: a restored copy brings the numbers of its own state back.
CREATE TABLE state_versions (
    part    TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO state_versions (part, version) VALUES ('memories', random()), ('observations', random());

-- Changes of passages, vectors and the graph are made by the engine, which sets the number itself.
CREATE TRIGGER memories_version_insert AFTER INSERT ON memories BEGIN
    UPDATE state_versions SET version = random() WHERE part = 'memories';
END;
CREATE TRIGGER memories_version_update AFTER UPDATE ON memories BEGIN
    UPDATE state_versions SET version = random() WHERE part = 'memories';
END;
CREATE TRIGGER memories_version_delete AFTER DELETE ON memories BEGIN
    UPDATE state_versions SET version = random() WHERE part = 'memories';
END;

-- A new observation has a higher id: hooks need not do more than insert it.
CREATE TRIGGER observations_version_update
AFTER UPDATE OF project, pinned, content ON observations BEGIN
    UPDATE state_versions SET version = random() WHERE part = 'observations';
END;
CREATE TRIGGER observations_version_delete AFTER DELETE ON observations BEGIN
    UPDATE state_versions SET version = random() WHERE part = 'observations';
END;
CREATE TRIGGER projects_version_update AFTER UPDATE ON projects BEGIN
    UPDATE state_versions SET version = random() WHERE part = 'observations';
END;
CREATE TRIGGER aliases_version_insert AFTER INSERT ON project_aliases BEGIN
    UPDATE state_versions SET version = random() WHERE part = 'observations';
END;
CREATE TRIGGER aliases_version_delete AFTER DELETE ON project_aliases BEGIN
    UPDATE state_versions SET version = random() WHERE part = 'observations';
END;
