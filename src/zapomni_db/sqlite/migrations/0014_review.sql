-- The inbox of `zapomni review`: what waits for the user's decision, and what was decided, so that it
-- is not asked again. A hook that meets an older schema makes the first table itself
-- (`review_items.TABLE`): candidates are written when a prompt is.
CREATE TABLE IF NOT EXISTS review_items (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        TEXT NOT NULL,     -- candidate, duplicate, contradiction, replaced, …
    subject     TEXT NOT NULL,     -- ids of memories; of a candidate its project and words
    project     TEXT NOT NULL,     -- key; '': none
    text        TEXT NOT NULL,     -- of a candidate, without secrets
    observation INTEGER,           -- the prompt that a candidate was said in
    priority    REAL NOT NULL,     -- the highest is shown first
    state       TEXT NOT NULL,     -- open, or what was decided
    undo        TEXT,              -- JSON: what takes the decision back; no text of a memory
    created_at  INTEGER NOT NULL,  -- seconds since 1970
    decided_at  INTEGER,
    UNIQUE (kind, subject)
);
CREATE INDEX review_items_open ON review_items (priority, id) WHERE state = 'open';
CREATE INDEX review_items_by_observation ON review_items (observation)
    WHERE observation IS NOT NULL;

-- A candidate has the words of its prompt, and is deleted with it.
CREATE TRIGGER review_items_forget AFTER DELETE ON observations BEGIN
    DELETE FROM review_items WHERE observation = old.id;
END;

-- How far the memories were compared.
CREATE TABLE review_state (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
