"""The trash: memories that were forgotten, in the local file, whichever engine stores the others.

Standard library only in what it does: `zapomni purge` and the hooks' daily sweep empty it, too.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, LiteralString, NamedTuple

__all__ = [
    "TRASH_DAYS",
    "TrashBatchRow",
    "TrashRow",
    "delete_trashed",
    "empty_expired",
    "find_trashed",
    "get_batch",
    "get_rows",
    "list_batches",
    "list_trashed",
    "list_unnoted",
    "put",
    "take_out",
]

TRASH_DAYS: Final = 30
DAY: Final = 86_400
SAMPLES: Final = 3

HAS_TRASH: Final[LiteralString] = """
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'trash'"""

INSERT_BATCH: Final[LiteralString] = "INSERT INTO trash_batches (why, made_at) VALUES (?, ?)"
# A memory is in the trash once: as it was when it was last forgotten.
INSERT: Final[LiteralString] = """
INSERT OR REPLACE INTO trash
    (memory_id, batch, project, kind, preview, pinned, stored_at, record, vectors)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
INSERT_LINK: Final[LiteralString] = "INSERT OR IGNORE INTO trash_links (older, newer) VALUES (?, ?)"

BATCHES: Final[LiteralString] = """
SELECT b.key, b.why, b.made_at, b.undone_at, count(t.memory_id)
FROM trash_batches b LEFT JOIN trash t ON t.batch = b.key """
LIST_BATCHES: Final[LiteralString] = BATCHES + "GROUP BY b.key HAVING count(t.memory_id) > 0"
GET_BATCH: Final[LiteralString] = BATCHES + "WHERE b.key = ? GROUP BY b.key"
SAMPLE: Final[LiteralString] = """
SELECT preview FROM trash WHERE batch = ? ORDER BY stored_at DESC LIMIT ?"""
ROWS: Final[LiteralString] = """
SELECT memory_id, project, kind, preview, pinned, stored_at, record, vectors FROM trash
WHERE batch = ? ORDER BY stored_at, memory_id LIMIT ?"""
LINKS: Final[LiteralString] = """
SELECT older, newer FROM trash_links WHERE older IN (SELECT value FROM json_each(?1))
    OR newer IN (SELECT value FROM json_each(?1)) ORDER BY older, newer"""
ALL_IDS: Final[LiteralString] = "SELECT memory_id FROM trash"
FIND_IDS: Final[LiteralString] = """
SELECT memory_id FROM trash WHERE memory_id IN (SELECT value FROM json_each(?))"""

# Files of code are indexed on each device.
UNNOTED: Final[LiteralString] = """
SELECT memory_id, (SELECT json_group_array(older) FROM trash_links WHERE newer = memory_id)
FROM trash WHERE kind <> 'code' AND NOT EXISTS
    (SELECT 1 FROM deletions d WHERE d.memory_id = trash.memory_id AND d.undone_at IS NULL)"""

DELETE: Final[LiteralString] = """
DELETE FROM trash WHERE memory_id IN (SELECT value FROM json_each(?))"""
DELETE_LINKS: Final[LiteralString] = """
DELETE FROM trash_links WHERE older NOT IN (SELECT memory_id FROM trash)
    AND newer NOT IN (SELECT memory_id FROM trash)"""
# An undone batch is known for as long as the others: undoing it again says so.
DELETE_BATCHES: Final[LiteralString] = """
DELETE FROM trash_batches WHERE key NOT IN (SELECT batch FROM trash)
    AND (undone_at IS NULL OR made_at < ?)"""
MARK_UNDONE: Final[LiteralString] = "UPDATE trash_batches SET undone_at = ? WHERE key = ?"
EXPIRED: Final[LiteralString] = """
SELECT memory_id FROM trash WHERE batch IN (SELECT key FROM trash_batches WHERE made_at < ?)"""

# Items of the inbox that were decided by forgetting a memory: asked again if it comes back, and
# for good if it does not.
REOPEN_ITEMS: Final[LiteralString] = """
UPDATE review_items SET state = 'open', decided_at = NULL, undo = NULL
WHERE state = 'forget' AND kind <> 'candidate' AND EXISTS
    (SELECT 1 FROM json_each(?) chosen WHERE instr(review_items.subject, chosen.value) = 1)"""
CLOSE_ITEMS: Final[LiteralString] = """
UPDATE review_items SET undo = NULL WHERE state = 'forget' AND kind <> 'candidate' AND EXISTS
    (SELECT 1 FROM json_each(?) chosen WHERE instr(review_items.subject, chosen.value) = 1)"""


# The inbox compares memories that were changed since: those that came back are among them.
COMPARE_AGAIN: Final[LiteralString] = "UPDATE review_state SET value = min(value, ?)"


class TrashRow(NamedTuple):
    """A memory in the trash."""

    memory_id: str
    project: str
    kind: str
    preview: str
    pinned: int
    stored_at: int
    record: str
    vectors: str


class TrashBatchRow(NamedTuple):
    """What was forgotten at once."""

    key: int
    why: str
    made_at: int
    undone_at: int | None
    memories: int
    """How many of it are in the trash."""
    samples: tuple[str, ...] = ()


def put(
    connection: sqlite3.Connection,
    batch: int | None,
    why: str,
    rows: Sequence[TrashRow],
    links: Collection[tuple[str, str]],
    now: int,
) -> int:
    """Store memories that are about to be deleted; return the key of their batch, None: a new one.

    What is older than `TRASH_DAYS` is deleted.
    """
    empty_expired(connection, now)
    if batch is None:
        batch = connection.execute(INSERT_BATCH, (why, now)).lastrowid
        assert batch is not None
    for row in rows:
        memory_id, *others = row
        connection.execute(INSERT, (memory_id, batch, *others))
    connection.executemany(INSERT_LINK, sorted(links))
    return batch


def list_batches(connection: sqlite3.Connection, now: int) -> list[TrashBatchRow]:
    """Return what is in the trash, the oldest first."""
    found = []
    for row in connection.execute(LIST_BATCHES).fetchall():
        batch = TrashBatchRow(*row)
        if batch.made_at >= now - TRASH_DAYS * DAY:
            samples = connection.execute(SAMPLE, (batch.key, SAMPLES))
            found.append(batch._replace(samples=tuple(text for (text,) in samples)))
    return found


def get_batch(connection: sqlite3.Connection, batch: int) -> TrashBatchRow | None:
    """Return a batch, also an undone one."""
    row = connection.execute(GET_BATCH, (batch,)).fetchone()
    return None if row is None else TrashBatchRow(*row)


def get_rows(
    connection: sqlite3.Connection, batch: int, limit: int
) -> tuple[list[TrashRow], list[tuple[str, str]]]:
    """Return the next memories of a batch, and who superseded whom among them and others."""
    rows = [TrashRow(*row) for row in connection.execute(ROWS, (batch, limit))]
    ids = json.dumps([row.memory_id for row in rows])
    return rows, connection.execute(LINKS, (ids,)).fetchall()


def list_trashed(connection: sqlite3.Connection, memory_ids: Sequence[str] | None) -> list[str]:
    """Return which of the memories are in the trash; None: all that are."""
    if memory_ids is None:
        return [one for (one,) in connection.execute(ALL_IDS)]
    return [one for (one,) in connection.execute(FIND_IDS, (json.dumps(list(memory_ids)),))]


def list_unnoted(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return memories whose deletion other devices are not shown, with what they superseded."""
    return {
        memory_id: json.loads(older) for memory_id, older in connection.execute(UNNOTED).fetchall()
    }


def take_out(
    connection: sqlite3.Connection,
    batch: int,
    changed_at: Mapping[str, int],
    now: int,
) -> None:
    """Remove memories that are stored again; a batch that is empty then was undone.

    Args:
        connection: The file.
        batch: Their batch.
        changed_at: When each of them was last changed, in microseconds, by its id.
        now: Seconds since 1970.
    """
    chosen = json.dumps(list(changed_at))
    connection.execute(DELETE, (chosen,))
    connection.execute(DELETE_LINKS)
    connection.execute(REOPEN_ITEMS, (chosen,))
    connection.execute(COMPARE_AGAIN, (min(changed_at.values()) - 1,))
    left = get_batch(connection, batch)
    if left is not None and not left.memories:
        connection.execute(MARK_UNDONE, (now, batch))


# --- Emptying ---------------------------------------------------------------------------


def delete_trashed(connection: sqlite3.Connection, memory_ids: Sequence[str], now: int) -> int:
    """Delete memories from the trash for good; return how many."""
    chosen = json.dumps(list(memory_ids))
    deleted = connection.execute(DELETE, (chosen,)).rowcount
    connection.execute(DELETE_LINKS)
    connection.execute(DELETE_BATCHES, (now - TRASH_DAYS * DAY,))
    connection.execute(CLOSE_ITEMS, (chosen,))
    return deleted


def empty_expired(connection: sqlite3.Connection, now: int) -> int:
    """Delete what was forgotten more than `TRASH_DAYS` ago; return how many memories."""
    if connection.execute(HAS_TRASH).fetchone() is None:
        return 0  # An older schema, under a hook.
    expired = [one for (one,) in connection.execute(EXPIRED, (now - TRASH_DAYS * DAY,))]
    return delete_trashed(connection, expired, now) if expired else 0


# Times and ids are no text to search for.
_NO_TEXT: Final = frozenset(
    "memory_id entity_id source_entity_id target_entity_id supersedes also_supersedes timestamp"
    " updated_at occurred_at expires_at replaced_at said_at withdrawn_at valid_from valid_to"
    " file_hash content_hash body_hash commit".split()
)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name not in _NO_TEXT:
                yield name
                yield from _texts(one)


def find_trashed(
    connection: sqlite3.Connection,
    condition: LiteralString,
    values: Sequence[object],
    search: str | None,
) -> dict[str, bool]:
    """Return the memories in the trash that a purge selects, and of each whether it is pinned.

    Args:
        connection: The file.
        condition: Which rows of `trash m`.
        values: The condition's.
        search: Text that must occur in what is stored of a memory, in any case.
    """
    wanted = None if search is None else _lower(search)
    rows = connection.execute(
        "SELECT m.memory_id, m.pinned, m.record FROM trash m WHERE " + condition + " ORDER BY 1",
        values,
    )
    return {
        memory_id: bool(pinned)
        for memory_id, pinned, record in rows
        if wanted is None or any(wanted in _lower(text) for text in _texts(json.loads(record)))
    }


def _lower(text: str) -> str:
    """Return a text with ASCII letters in lower case, as SQLite's `lower` does."""
    return "".join(c.lower() if c.isascii() else c for c in text)
