"""SqliteTrash: the trash in the local file, for the engine's own processes."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from zapomni_db.sqlite import trash
from zapomni_db.sqlite.deletions import note_deletions, undo_deletions
from zapomni_db.sqlite.file import SqliteFile, reading, writing

__all__ = ["SqliteTrash"]

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
