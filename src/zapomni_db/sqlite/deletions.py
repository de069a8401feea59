"""What is forgotten, and what other devices have to know: deletions, writers, trusted devices.

In the local file, whichever engine stores the memories. The statements of the trash are in `trash`,
which hooks import: their daily sweep empties it, too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Final, LiteralString, NamedTuple

from zapomni_db.sqlite import trash
from zapomni_db.sqlite.file import SqliteFile, reading, writing
from zapomni_db.values import from_json, to_json

__all__ = [
    "Deletion",
    "SqliteDeletions",
    "SqliteTrash",
    "SyncDevice",
    "list_deletions",
    "note_deletions",
    "undo_deletions",
]


MILLISECOND: Final = 1000
DAY: Final = 86_400_000_000

# Deleting is a change: it is later than the one before it, whatever the clock says.
NOTE: Final[LiteralString] = """
INSERT INTO deletions (memory_id, deleted_at, purged, supersedes) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (memory_id) DO UPDATE SET deleted_at = max(deleted_at, excluded.deleted_at),
    purged = max(purged, excluded.purged), supersedes = excluded.supersedes,
    same_as = '', device = '', undone_at = NULL"""
UNDO: Final[LiteralString] = """
UPDATE deletions SET undone_at = max(?1, deleted_at + 1000)
WHERE memory_id IN (SELECT value FROM json_each(?2)) AND purged = 0"""
PUT: Final[LiteralString] = """
INSERT OR REPLACE INTO deletions
    (memory_id, deleted_at, undone_at, purged, same_as, supersedes, device)
VALUES (?, ?, ?, ?, ?, ?, ?)"""
LIST: Final[LiteralString] = """
SELECT memory_id, deleted_at, undone_at, purged, same_as, supersedes, device FROM deletions
ORDER BY memory_id"""
PRUNE: Final[LiteralString] = "DELETE FROM deletions WHERE deleted_at < ?"

PUT_WRITER: Final[LiteralString] = """
INSERT OR REPLACE INTO memory_writers (memory_id, updated_at, device) VALUES (?, ?, ?)"""
LIST_WRITERS: Final[LiteralString] = "SELECT memory_id, updated_at, device FROM memory_writers"
DELETE_WRITERS: Final[LiteralString] = """
DELETE FROM memory_writers WHERE memory_id IN (SELECT value FROM json_each(?))"""

SEE_DEVICE: Final[LiteralString] = """
INSERT OR IGNORE INTO sync_devices (device, first_seen) VALUES (?, ?)"""
TRUST_DEVICE: Final[LiteralString] = """
INSERT INTO sync_devices (device, trusted, first_seen) VALUES (?, 1, ?)
ON CONFLICT (device) DO UPDATE SET trusted = 1"""
LIST_DEVICES: Final[LiteralString] = """
SELECT device, trusted, first_seen FROM sync_devices ORDER BY first_seen, device"""


class Deletion(NamedTuple):
    """A deleted memory; times in microseconds since 1970."""

    memory_id: str
    deleted_at: int
    undone_at: int | None = None
    purged: bool = False
    same_as: str = ""
    """The memory that has the same text, if it was deleted for that."""
    supersedes: tuple[str, ...] = ()
    device: str = ""
    """Where it was deleted; empty: here."""


class SyncDevice(NamedTuple):
    """A device whose memories were merged into this home."""

    device: str
    trusted: bool
    first_seen: int


def note_deletions(
    connection: sqlite3.Connection,
    deleted: Mapping[str, int],
    now: int,
    *,
    purged: bool = False,
    supersedes: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Note that memories are deleted: their ids, and when each was changed last."""
    replaced = supersedes or {}
    for memory_id, updated_at in deleted.items():
        at = max(now, updated_at + MILLISECOND)
        older = to_json(sorted(replaced.get(memory_id, ())))
        connection.execute(NOTE, (memory_id, at, int(purged), older))


def undo_deletions(connection: sqlite3.Connection, ids: Collection[str], now: int) -> None:
    """Note that deleted memories are back; what was purged stays purged."""
    connection.execute(UNDO, (now, to_json(sorted(ids))))


def list_deletions(connection: sqlite3.Connection) -> list[Deletion]:
    """Return all that is known to be deleted, also what was restored since."""
    return [
        Deletion(memory_id, at, undone, bool(purged), same_as, tuple(from_json(older)), device)
        for memory_id, at, undone, purged, same_as, older, device in connection.execute(LIST)
    ]


def put_deletions(connection: sqlite3.Connection, deletions: Sequence[Deletion]) -> None:
    """Store deletions as they are."""
    connection.executemany(
        PUT,
        [
            (
                one.memory_id,
                one.deleted_at,
                one.undone_at,
                int(one.purged),
                one.same_as,
                to_json(sorted(one.supersedes)),
                one.device,
            )
            for one in deletions
        ],
    )
    connection.execute(DELETE_WRITERS, (to_json([one.memory_id for one in deletions]),))


def prune_deletions(connection: sqlite3.Connection, before: int) -> int:
    """Forget deletions of long ago; return how many."""
    return connection.execute(PRUNE, (before,)).rowcount


def list_writers(connection: sqlite3.Connection) -> dict[str, tuple[int, str]]:
    """Return which device made the change of which time, by memory."""
    return {key: (at, device) for key, at, device in connection.execute(LIST_WRITERS)}


def put_writers(
    connection: sqlite3.Connection, writers: Sequence[tuple[str, int, str]], now: int
) -> None:
    """Note who wrote memories that were merged, and that these devices were seen."""
    connection.executemany(PUT_WRITER, writers)
    connection.executemany(SEE_DEVICE, [(device, now) for device in {one[2] for one in writers}])


def list_devices(connection: sqlite3.Connection) -> list[SyncDevice]:
    """Return the devices whose memories were merged here, in the order they were seen."""
    rows = connection.execute(LIST_DEVICES)
    return [SyncDevice(device, bool(trusted), seen) for device, trusted, seen in rows]


def trust_device(connection: sqlite3.Connection, device: str, now: int) -> None:
    """Trust what a device writes, from now on."""
    connection.execute(TRUST_DEVICE, (device, now))


class SqliteDeletions(SqliteFile):
    """Reads and writes what merging needs. The first call opens the file."""

    threads = 1
    opened_by_first_call = True

    note = writing("noting deletions", note_deletions)
    undo = writing("noting deletions", undo_deletions)
    list_all = reading("reading deletions", list_deletions)
    put = writing("noting deletions", put_deletions)
    prune = writing("noting deletions", prune_deletions)
    list_writers = reading("reading devices", list_writers)
    put_writers = writing("noting devices", put_writers)
    list_devices = reading("reading devices", list_devices)
    trust_device = writing("noting devices", trust_device)


# --- The trash --------------------------------------------------------------------------


MICROSECONDS = 1_000_000


def take_out(
    connection: sqlite3.Connection, batch: int, changed_at: Mapping[str, int], now: int
) -> None:
    """Remove memories that are stored again, and note that for other devices."""
    trash.take_out(connection, batch, changed_at, now)
    undo_deletions(connection, changed_at.keys(), now * MICROSECONDS)


class SqliteTrash(SqliteFile):
    """Reads and writes the trash. The first call opens the file."""

    threads = 1
    opened_by_first_call = True

    put = writing("filling the trash", trash.put)
    note_deletions = writing("noting deletions", note_deletions)
    list_batches = reading("reading the trash", trash.list_batches)
    get_batch = reading("reading the trash", trash.get_batch)
    get_rows = reading("reading the trash", trash.get_rows)
    list_trashed = reading("reading the trash", trash.list_trashed)
    list_unnoted = reading("reading the trash", trash.list_unnoted)
    take_out = writing("restoring from the trash", take_out)
    delete_trashed = writing("emptying the trash", trash.delete_trashed)
    empty_expired = writing("emptying the trash", trash.empty_expired)
