"""What was imported, in the local file, whichever engine stores the memories.

A step stores observations, which records they came from, how far the file was read and the report
so far in one transaction: a process that is killed has done a step or has not.
"""

from __future__ import annotations

import sqlite3
from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, LiteralString, NamedTuple

from zapomni_db.sqlite.connection import fetch_value
from zapomni_db.sqlite.file import SqliteFile, reading, writing
from zapomni_db.sqlite.observations_write import ROW_ERRORS, store_row
from zapomni_db.values import from_json, to_json

__all__ = ["ImportBatch", "ImportChange", "ImportFile", "ImportItem", "SqliteImports"]

_BATCH: Final[LiteralString] = "id, source, state, request, counts, started_at, ended_at"

GET_BATCH: Final[LiteralString] = "SELECT " + _BATCH + " FROM import_batches WHERE id = ?"
LIST_BATCHES: Final[LiteralString] = (
    "SELECT " + _BATCH + " FROM import_batches ORDER BY started_at DESC, length(id) DESC, id DESC"
)
RUNNING_BATCH: Final[LiteralString] = (
    "SELECT "
    + _BATCH
    + " FROM import_batches WHERE source = ? AND request = ? AND state = 'running'"
)
BATCHES_OF_DAY: Final[LiteralString] = "SELECT id FROM import_batches WHERE id LIKE ? || '%'"
INSERT_BATCH: Final[LiteralString] = """
INSERT INTO import_batches (id, source, state, request, counts, started_at)
VALUES (?, ?, 'running', ?, '{}', ?)"""
SET_COUNTS: Final[LiteralString] = "UPDATE import_batches SET counts = ? WHERE id = ?"
SET_STATE: Final[LiteralString] = "UPDATE import_batches SET state = ?, ended_at = ? WHERE id = ?"
DELETE_BATCH: Final[LiteralString] = "DELETE FROM import_batches WHERE id = ?"

GET_ITEM: Final[LiteralString] = """
SELECT observation, memory, hash, batch FROM import_items WHERE source = ? AND native = ?"""
PUT_ITEM: Final[LiteralString] = """
INSERT INTO import_items (source, native, batch, observation, memory, hash)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (source, native) DO UPDATE SET hash = excluded.hash WHERE memory = excluded.memory"""
# A memory that an earlier import stored and the user deleted since.
REPLACE_ITEM: Final[LiteralString] = """
INSERT OR REPLACE INTO import_items (source, native, batch, memory) VALUES (?, ?, ?, ?)"""
ITEMS_OF_BATCH: Final[LiteralString] = """
SELECT observation, memory FROM import_items WHERE batch = ?"""
DELETE_ITEMS: Final[LiteralString] = "DELETE FROM import_items WHERE batch = ?"

PLACE_ITEM: Final[LiteralString] = """
UPDATE import_items SET file = ?1, is_gone = 0
WHERE source = ?2 AND native = ?3 AND (file IS NOT ?1 OR is_gone)"""
ITEMS_OF_FILE: Final[LiteralString] = """
SELECT native, memory FROM import_items WHERE source = ? AND file = ? AND memory IS NOT NULL"""
MARK_GONE: Final[LiteralString] = """
UPDATE import_items SET is_gone = 1 WHERE source = ? AND native = ?"""
GONE_ITEMS: Final[LiteralString] = """
SELECT file, memory FROM import_items
WHERE source = ? AND file IS NOT NULL AND is_gone AND memory IS NOT NULL ORDER BY native"""

BEGIN_CHANGE: Final[LiteralString] = """
INSERT OR IGNORE INTO import_changes (batch, memory, source, native, hash, trusted, was_at)
SELECT ?, memory, source, native, hash, ?, ? FROM import_items WHERE source = ? AND native = ?"""
END_CHANGE: Final[LiteralString] = """
UPDATE import_changes SET changed_at = ? WHERE batch = ? AND memory = ?"""
CHANGES_OF_BATCH: Final[LiteralString] = """
SELECT memory, trusted, was_at, changed_at FROM import_changes WHERE batch = ?"""
RETURN_HASH: Final[LiteralString] = """
UPDATE import_items SET hash = c.hash FROM import_changes c
WHERE c.batch = ? AND import_items.source = c.source AND import_items.native = c.native"""
DELETE_CHANGES: Final[LiteralString] = "DELETE FROM import_changes WHERE batch = ?"

_FILE: Final[LiteralString] = "path, inode, size, mtime, head, byte_offset, since"
LIST_FILES: Final[LiteralString] = "SELECT " + _FILE + " FROM import_files WHERE source = ?"
PUT_FILE: Final[LiteralString] = """
INSERT INTO import_files (source, batch, path, inode, size, mtime, head, byte_offset, since)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (source, path) DO UPDATE SET batch = excluded.batch, inode = excluded.inode,
    size = excluded.size, mtime = excluded.mtime, head = excluded.head,
    byte_offset = excluded.byte_offset, since = excluded.since"""
DELETE_FILES: Final[LiteralString] = """
DELETE FROM import_files WHERE source = (SELECT source FROM import_batches WHERE id = ?)"""

# When the prompts of a session were given.
PROMPTS: Final[LiteralString] = """
SELECT timestamp, id FROM observations WHERE session_id = ? AND +obs_type = 'user_prompt'
ORDER BY timestamp, id"""

# When hooks captured the first and the last event of a session.
CAPTURED: Final[LiteralString] = """
SELECT min(timestamp), max(timestamp) FROM observations o WHERE session_id = ? AND NOT EXISTS
    (SELECT 1 FROM import_items i WHERE i.observation = o.id)"""


# Whether more is known of a session than what the user said.
WITH_WORK: Final[LiteralString] = """
SELECT EXISTS (
    SELECT 1 FROM observations WHERE session_id = ? AND +obs_type <> 'user_prompt')"""


class ImportBatch(NamedTuple):
    """One run of an import, from its start to its end, however often it was interrupted."""

    id: str
    source: str
    state: str
    request: dict[str, Any]
    counts: dict[str, Any]
    started_at: int
    ended_at: int | None


class ImportItem(NamedTuple):
    """What became of a record."""

    observation: int | None
    memory: str | None
    hash: bytes | None
    batch: str


class ImportChange(NamedTuple):
    """A memory that an import changed."""

    memory: str
    trusted: int
    """Whether it was before."""
    was_at: int
    """When it was changed last before, in microseconds since 1970."""
    changed_at: int | None
    """When the import changed it; None: it was interrupted then."""


class ImportFile(NamedTuple):
    """How far a file was read, and how it is recognized."""

    path: str
    inode: int
    size: int
    """When it was read to its end; -1: it was not yet."""
    mtime: int
    head: bytes
    byte_offset: int
    since: int


def _batch(row: Sequence[Any]) -> ImportBatch:
    name, source, state, request, counts, started, ended = row
    return ImportBatch(name, source, state, from_json(request), from_json(counts), started, ended)


def get_batch(connection: sqlite3.Connection, batch_id: str) -> ImportBatch | None:
    """Return a batch; None if there is none of this id."""
    row = connection.execute(GET_BATCH, (batch_id,)).fetchone()
    return None if row is None else _batch(row)


def list_batches(connection: sqlite3.Connection) -> list[ImportBatch]:
    """Return all batches, the newest first."""
    return [_batch(row) for row in connection.execute(LIST_BATCHES)]


def find_running(
    connection: sqlite3.Connection, source: str, request: Mapping[str, Any]
) -> ImportBatch | None:
    """Return the batch of the same request that was not ended."""
    row = connection.execute(RUNNING_BATCH, (source, to_json(dict(request)))).fetchone()
    return None if row is None else _batch(row)


def begin_batch(
    connection: sqlite3.Connection, source: str, request: Mapping[str, Any], now: int
) -> ImportBatch:
    """Add a batch and return it; its id is the day and a number."""
    day = f"i-{datetime.fromtimestamp(now, UTC):%Y%m%d}-"
    numbers = [int(name[len(day) :]) for (name,) in connection.execute(BATCHES_OF_DAY, (day,))]
    name = f"{day}{max(numbers, default=0) + 1}"
    connection.execute(INSERT_BATCH, (name, source, to_json(dict(request)), now))
    return ImportBatch(name, source, "running", dict(request), {}, now, None)


def end_batch(
    connection: sqlite3.Connection, batch_id: str, counts: Mapping[str, Any], now: int
) -> None:
    """Close a batch with its report."""
    connection.execute(SET_COUNTS, (to_json(dict(counts)), batch_id))
    connection.execute(SET_STATE, ("done", now, batch_id))


def drop_batch(connection: sqlite3.Connection, batch_id: str) -> None:
    """Delete a batch that stored nothing."""
    connection.execute(DELETE_BATCH, (batch_id,))


def list_files(connection: sqlite3.Connection, source: str) -> dict[str, ImportFile]:
    """Return the files of a source that were read, by their path."""
    return {row[0]: ImportFile(*row) for row in connection.execute(LIST_FILES, (source,))}


def get_items(
    connection: sqlite3.Connection, source: str, natives: Sequence[bytes]
) -> dict[bytes, ImportItem]:
    """Return those of the records that were imported before."""
    found = {}
    for native in natives:
        row = connection.execute(GET_ITEM, (source, native)).fetchone()
        if row is not None:
            found[native] = ImportItem(*row)
    return found


def find_captured(connection: sqlite3.Connection, session_id: str) -> tuple[int, int] | None:
    """Return when hooks captured the first and the last event of a session; None: they did not."""
    first, last = connection.execute(CAPTURED, (session_id,)).fetchone()
    return None if first is None else (first, last)


def has_work(connection: sqlite3.Connection, session_id: str) -> bool:
    """Return whether a session is stored with more than its prompts."""
    return bool(fetch_value(connection, WITH_WORK, (session_id,)))


def store_observations(
    connection: sqlite3.Connection, source: str, batch_id: str, rows: Sequence[tuple[bytes, Any]]
) -> Counter[str]:
    """Store rows of observations, in order; return what became of them by its name.

    `stored`, `duplicate` (imported before), or why a row was not stored, see `store_row`.
    """
    became: Counter[str] = Counter()
    prompts: dict[str, list[tuple[int, int]]] = {}
    for native, row in rows:
        if connection.execute(GET_ITEM, (source, native)).fetchone() is not None:
            became["duplicate"] += 1
            continue
        connection.execute("SAVEPOINT one_row")
        try:
            session = row["session_id"]
            if session not in prompts:
                prompts[session] = connection.execute(PROMPTS, (session,)).fetchall()
            stored = store_row(connection, row, prompts[session])
        except ROW_ERRORS:
            connection.execute("ROLLBACK TO one_row")
            stored = "refused"
        connection.execute("RELEASE one_row")
        is_stored = isinstance(stored, int)
        if isinstance(stored, int) and row["obs_type"] == "user_prompt":
            insort(prompts[session], (row["timestamp"], stored))
        became["stored" if is_stored else str(stored)] += 1
        if stored != "excluded":
            # An excluded project may be included later.
            found = stored if is_stored else None
            connection.execute(PUT_ITEM, (source, native, batch_id, found, None, None))
    return became


def store_step(
    connection: sqlite3.Connection,
    source: str,
    batch_id: str,
    rows: Sequence[tuple[bytes, Any]],
    memories: Sequence[tuple[bytes, str | None, bytes]],
    file: ImportFile,
    counts: Mapping[str, Any],
) -> Counter[str]:
    """Store one step of an import; return what became of the rows, which is counted, too.

    Args:
        connection: In a transaction for writing.
        source: The name of the source.
        batch_id: The batch.
        rows: Hashes of records, and their observations.
        memories: Hashes of records, the memories that were stored of them, and hashes of the texts.
        file: How far the file is read now.
        counts: The report without these rows.
    """
    became = store_observations(connection, source, batch_id, rows)
    for native, memory_id, text_hash in memories:
        connection.execute(PUT_ITEM, (source, native, batch_id, None, memory_id, text_hash))
    connection.execute(PUT_FILE, (source, batch_id, *file))
    merged = add_counts(counts, became)
    connection.execute(SET_COUNTS, (to_json(merged), batch_id))
    return became


def add_memories(
    connection: sqlite3.Connection, source: str, batch_id: str, memory_ids: Sequence[str]
) -> None:
    """Note memories that a batch stored under the ids they had elsewhere."""
    connection.executemany(
        REPLACE_ITEM, [(source, one.encode(), batch_id, one) for one in memory_ids]
    )


def note_file(connection: sqlite3.Connection, source: str, file: ImportFile) -> None:
    """Store how far a file is read, if there was nothing new in it."""
    connection.execute(PUT_FILE, (source, "", *file))


def place_items(
    connection: sqlite3.Connection, source: str, file: bytes, natives: Sequence[bytes]
) -> None:
    """Note which records a file has now, and that those which it had otherwise are gone."""
    connection.executemany(PLACE_ITEM, [(file, source, native) for native in natives])
    had = connection.execute(ITEMS_OF_FILE, (source, file)).fetchall()
    gone = {native for native, _ in had} - set(natives)
    connection.executemany(MARK_GONE, [(source, native) for native in gone])


def list_of_file(connection: sqlite3.Connection, source: str, file: bytes) -> list[str]:
    """Return the memories of the records that a file had."""
    found = connection.execute(ITEMS_OF_FILE, (source, file)).fetchall()
    return [memory for _, memory in found]


def list_gone(connection: sqlite3.Connection, source: str) -> list[tuple[bytes, str]]:
    """Return the memories whose records are no longer in their files, with the files."""
    return connection.execute(GONE_ITEMS, (source,)).fetchall()


def begin_change(
    connection: sqlite3.Connection,
    batch_id: str,
    source: str,
    native: bytes,
    was_at: int,
    *,
    trusted: bool,
) -> None:
    """Note that a batch is about to change the memory of a record, and how it was."""
    connection.execute(BEGIN_CHANGE, (batch_id, trusted, was_at, source, native))


def end_change(
    connection: sqlite3.Connection, batch_id: str, memory_id: str, changed_at: int
) -> None:
    """Note that a batch has changed a memory."""
    connection.execute(END_CHANGE, (changed_at, batch_id, memory_id))


def list_changes(connection: sqlite3.Connection, batch_id: str) -> list[ImportChange]:
    """Return what a batch changed."""
    return [ImportChange(*row) for row in connection.execute(CHANGES_OF_BATCH, (batch_id,))]


def add_counts(counts: Mapping[str, Any], became: Mapping[str, int]) -> dict[str, Any]:
    """Return a report with what became of some rows added to it."""
    merged = {**counts, "skipped": dict(counts.get("skipped", {}))}
    merged["observations"] = merged.get("observations", 0) + became.get("stored", 0)
    merged["kept"] = merged.get("kept", 0) + became.get("stored", 0)
    merged["duplicates"] = (
        merged.get("duplicates", 0) + became.get("duplicate", 0) + became.get("known", 0)
    )
    for reason, words in SKIPPED.items():
        if became.get(reason):
            merged["skipped"][words] = merged["skipped"].get(words, 0) + became[reason]
    return merged


SKIPPED: Final[Mapping[str, str]] = {
    "excluded": "excluded project",
    "empty": "empty session",
    "repeated": "repetition",
    "refused": "not storable",
}
"""Why a row is not stored, in the words of a report."""


def list_imported(connection: sqlite3.Connection, batch_id: str) -> tuple[list[int], list[str]]:
    """Return the observations and the memories of a batch."""
    observations, memories = [], []
    for observation, memory in connection.execute(ITEMS_OF_BATCH, (batch_id,)):
        if observation is not None:
            observations.append(observation)
        if memory is not None:
            memories.append(memory)
    return observations, memories


def forget_batch(connection: sqlite3.Connection, batch_id: str, now: int) -> None:
    """Forget what a batch imported, so that it can be imported again."""
    connection.execute(DELETE_FILES, (batch_id,))
    connection.execute(RETURN_HASH, (batch_id,))
    connection.execute(DELETE_CHANGES, (batch_id,))
    connection.execute(DELETE_ITEMS, (batch_id,))
    connection.execute(SET_STATE, ("undone", now, batch_id))


class SqliteImports(SqliteFile):
    """Reads and writes what was imported. The first call opens the file."""

    threads = 1
    opened_by_first_call = True

    get_batch = reading("reading imports", get_batch)
    list_batches = reading("reading imports", list_batches)
    find_running = reading("reading imports", find_running)
    begin_batch = writing("writing imports", begin_batch)
    end_batch = writing("writing imports", end_batch)
    drop_batch = writing("writing imports", drop_batch)
    list_files = reading("reading imports", list_files)
    get_items = reading("reading imports", get_items)
    find_captured = reading("reading imports", find_captured)
    has_work = reading("reading imports", has_work)
    store_step = writing("importing", store_step)
    note_file = writing("importing", note_file)
    add_memories = writing("importing", add_memories)
    place_items = writing("importing", place_items)
    list_of_file = reading("reading imports", list_of_file)
    list_gone = reading("reading imports", list_gone)
    begin_change = writing("importing", begin_change)
    end_change = writing("importing", end_change)
    list_changes = reading("reading imports", list_changes)
    list_imported = reading("reading imports", list_imported)
    forget_batch = writing("undoing an import", forget_batch)
