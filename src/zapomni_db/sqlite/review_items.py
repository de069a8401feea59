"""What hooks write into the inbox of `zapomni review`. Standard library only, and little of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from typing import LiteralString

__all__ = ["TABLE", "add_candidates"]

# More open candidates than anyone reads; older ones are dropped.
MOST_CANDIDATES = 500

# As migration 14 has it.
TABLE: LiteralString = """
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
)"""

# A candidate, unless the user said the same before, decided or not.
_INSERT: LiteralString = """
INSERT OR IGNORE INTO review_items
    (kind, subject, project, text, observation, priority, state, created_at)
VALUES ('candidate', ?, ?, ?, ?, 0, 'open', ?)"""

_DROP_OLDEST: LiteralString = """
DELETE FROM review_items WHERE id IN
    (SELECT id FROM review_items WHERE kind = 'candidate' AND state = 'open'
     ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?)"""


def add_candidates(
    connection: sqlite3.Connection,
    texts: Sequence[str],
    project: str,
    observation: int | None,
    when: int,
) -> None:
    """Put sentences of a prompt into the inbox, in the caller's transaction."""
    connection.execute(TABLE)
    for text in texts:
        # The same words in another case or spacing are the same.
        words = " ".join(text.casefold().strip(" .!").split())
        connection.execute(_INSERT, (f"{project}\n{words}", project, text, observation, when))
    connection.execute(_DROP_OLDEST, (MOST_CANDIDATES,))
