"""The inbox of `zapomni review` in the local file, whichever engine stores the memories."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, LiteralString, NamedTuple

from zapomni_db.sqlite.file import SqliteFile, reading, writing
from zapomni_db.values import from_json, to_json

__all__ = ["OPEN", "REVIEW_KINDS", "NewReviewItem", "ReviewRow", "SqliteReview"]

REVIEW_KINDS: Final = (
    "candidate",
    "contradiction",
    "replaced",
    "duplicate",
    "stale_citation",
    "untrusted",
    "never_recalled",
)
"""What an item is about, in the order in which items are shown."""

OPEN: Final = "open"

_COLUMNS: Final[LiteralString] = (
    "id, kind, subject, project, text, priority, state, undo, created_at, decided_at"
)
# Kinds in their order, in each the most recalled first, then the newest.
_ORDER: Final[LiteralString] = """
ORDER BY CASE kind WHEN 'candidate' THEN 0 WHEN 'contradiction' THEN 1 WHEN 'replaced' THEN 2
    WHEN 'duplicate' THEN 3 WHEN 'stale_citation' THEN 4 WHEN 'untrusted' THEN 5 ELSE 6 END,
    priority DESC, id DESC"""
_AMONG: Final[LiteralString] = """
WHERE state = 'open' AND kind IN (SELECT value FROM json_each(?1))
    AND (?2 IS NULL OR project IN (SELECT value FROM json_each(?2)))
    AND project NOT IN (SELECT value FROM json_each(?3))"""

LIST_OPEN: Final[LiteralString] = (
    "SELECT " + _COLUMNS + " FROM review_items" + _AMONG + _ORDER + " LIMIT ?4 OFFSET ?5"
)
COUNT_OPEN: Final[LiteralString] = (
    "SELECT kind, count(*) FROM review_items" + _AMONG + " GROUP BY kind"
)
GET: Final[LiteralString] = "SELECT " + _COLUMNS + " FROM review_items WHERE id = ?"
OPEN_SUBJECTS: Final[LiteralString] = """
SELECT id, kind, subject FROM review_items WHERE state = 'open' AND kind <> 'candidate'"""

# What was decided stays decided.
UPSERT: Final[LiteralString] = """
INSERT INTO review_items (kind, subject, project, text, priority, state, created_at)
VALUES (?, ?, ?, '', ?, 'open', ?)
ON CONFLICT (kind, subject) DO UPDATE SET
    priority = excluded.priority, project = excluded.project WHERE state = 'open'"""

DECIDE: Final[LiteralString] = """
UPDATE review_items SET state = ?, decided_at = ?, undo = NULL WHERE id = ? AND state = 'open'"""
SET_UNDO: Final[LiteralString] = "UPDATE review_items SET undo = ? WHERE id = ?"
REOPEN: Final[LiteralString] = """
UPDATE review_items SET state = 'open', decided_at = NULL, undo = NULL WHERE id = ?"""
DELETE: Final[LiteralString] = """
DELETE FROM review_items WHERE id IN (SELECT value FROM json_each(?))"""

GET_STATE: Final[LiteralString] = "SELECT value FROM review_state WHERE name = ?"
SET_STATE: Final[LiteralString] = """
INSERT INTO review_state (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value"""


class NewReviewItem(NamedTuple):
    """Something that waits for a decision about memories."""

    kind: str
    subject: str
    """The ids of the memories, older first, and perhaps what is the matter."""
    project: str
    priority: float


class ReviewRow(NamedTuple):
    """An item of the inbox as it is stored."""

    id: int
    kind: str
    subject: str
    project: str
    text: str
    priority: float
    state: str
    undo: str | None
    created_at: int
    decided_at: int | None

    @property
    def memory_ids(self) -> list[str]:
        """Return the memories it is about; none if it is a candidate."""
        return [] if self.kind == "candidate" else self.subject.partition(" | ")[0].split()

    @property
    def to_undo(self) -> dict[str, Any] | None:
        """Return what takes the decision back; None if nothing does."""
        return None if self.undo is None else from_json(self.undo)


def list_open(
    connection: sqlite3.Connection,
    kinds: Sequence[str],
    projects: Sequence[str] | None,
    hidden: Sequence[str],
    limit: int,
    offset: int,
) -> list[ReviewRow]:
    """Return a page of what waits, of these kinds and projects; None: of all but `hidden`."""
    given = (*_among(kinds, projects, hidden), limit, offset)
    return [ReviewRow(*row) for row in connection.execute(LIST_OPEN, given)]


def count_open(
    connection: sqlite3.Connection,
    kinds: Sequence[str] = REVIEW_KINDS,
    projects: Sequence[str] | None = None,
    hidden: Sequence[str] = (),
) -> dict[str, int]:
    """Count what waits by its kind."""
    found = dict(connection.execute(COUNT_OPEN, _among(kinds, projects, hidden)))
    return {kind: found[kind] for kind in REVIEW_KINDS if kind in found}


def _among(
    kinds: Sequence[str], projects: Sequence[str] | None, hidden: Sequence[str]
) -> tuple[str, str | None, str]:
    only = None if projects is None else to_json(list(projects))
    return to_json(list(kinds)), only, to_json(list(hidden))


def get_item(connection: sqlite3.Connection, item_id: int) -> ReviewRow | None:
    """Return an item, decided or not."""
    row = connection.execute(GET, (item_id,)).fetchone()
    return None if row is None else ReviewRow(*row)


def list_subjects(connection: sqlite3.Connection) -> dict[int, tuple[str, str]]:
    """Return the kind and the subject of all that waits and is about memories, by its id."""
    return {key: (kind, subject) for key, kind, subject in connection.execute(OPEN_SUBJECTS)}


def put_items(
    connection: sqlite3.Connection,
    items: Collection[NewReviewItem],
    ended: Collection[int],
    state: Mapping[str, int],
    now: int,
) -> None:
    """Add items that are new, delete those that are no longer so, and note how far we are."""
    for item in items:
        connection.execute(UPSERT, (*item, now))
    connection.execute(DELETE, (to_json(sorted(ended)),))
    for name, value in state.items():
        connection.execute(SET_STATE, (name, value))


def get_state(connection: sqlite3.Connection, name: str) -> int:
    """Return a number noted by `put_items`; 0 if there is none."""
    (value,) = connection.execute(GET_STATE, (name,)).fetchone() or (0,)
    return int(value)


def decide(connection: sqlite3.Connection, item_id: int, decision: str, now: int) -> bool:
    """Close an item; False if it was decided meanwhile."""
    return connection.execute(DECIDE, (decision, now, item_id)).rowcount > 0


def set_undo(connection: sqlite3.Connection, item_id: int, undo: Mapping[str, Any]) -> None:
    """Note what takes a decision back."""
    connection.execute(SET_UNDO, (to_json(dict(undo)), item_id))


def reopen(connection: sqlite3.Connection, item_id: int) -> None:
    """Let an item wait again."""
    connection.execute(REOPEN, (item_id,))


class SqliteReview(SqliteFile):
    """Reads and writes the inbox. The first call opens the file."""

    threads = 1
    opened_by_first_call = True

    list_open = reading("reading the inbox", list_open)
    count_open = reading("reading the inbox", count_open)
    get_item = reading("reading the inbox", get_item)
    list_subjects = reading("reading the inbox", list_subjects)
    get_state = reading("reading the inbox", get_state)
    put_items = writing("writing the inbox", put_items)
    decide = writing("writing the inbox", decide)
    set_undo = writing("writing the inbox", set_undo)
    reopen = writing("writing the inbox", reopen)
