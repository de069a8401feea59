"""Copies of a database file: made while others write, checked, and restored. Standard library only.

A plain copy of the file misses what is still in its log, which may be everything. SQLite's own
backup reads one snapshot of file and log together and blocks no writer.

Apart from `damage`, which imports more: a hook that migrates the file makes a copy first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import LiteralString

from zapomni_db.exceptions import SchemaError, TransactionError, ValidationError
from zapomni_db.sqlite.connection import connect, fetch_value, translated
from zapomni_db.sqlite.migrations import APPLICATION_ID, LATEST_VERSION, migrate

__all__ = [
    "FOLDER",
    "copy_damaged",
    "copy_database",
    "count_rows",
    "exclusive_folder",
    "install",
    "is_ours",
    "make_name",
    "stage",
    "sync_folder",
]

FOLDER = "backups"
# How long a restore waits for writers of other processes before it gives up, unchanged.
WAIT_SECONDS = 30.0
# After a restore the log of changes continues this much later, so that vector caches of other
# processes reload.
LOG_JUMP = 1_000_000

_COUNT: LiteralString = 'SELECT count(*) FROM "{}"'
_NEWEST_CHANGE: LiteralString = "SELECT coalesce(max(seq), 0) FROM vector_log"

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def make_name(stem: str, reason: str, now: datetime | None = None) -> str:
    """Return a file name that says when and why a copy was made, and sorts by time."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{stem}-{moment:%Y%m%dT%H%M%SZ}-{reason}.db"


@contextmanager
def exclusive_folder(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Create a private folder if there is none, and keep other processes from copying into it.

    Raises:
        BlockingIOError: Another process has it and `wait` is false.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def copy_database(source: Path, target: Path, *, compact: bool = False) -> dict[str, int]:
    """Copy a database that others may be writing to, check the copy, and name it at the end.

    The copy is one file without a log, readable by the user alone. Until it is checked and on disk
    it has another name, so a file called `target` is always whole.

    Args:
        source: The database.
        target: The copy, in a folder that the caller has for itself (see
            `exclusive_folder`): what a killed process left half made there is removed.
        compact: Leave out free space. Needs room for two copies meanwhile.

    Returns:
        How many rows each table has.

    Raises:
        SchemaError: The source is damaged: a copy of it would be, too.
        DatabaseError: It cannot be read, or the copy cannot be written.
    """
    for left in target.parent.glob("*Z-*.db*.part*"):
        left.unlink(missing_ok=True)
    part = target.with_name(target.name + ".part")
    whole = target.with_name(target.name + ".whole.part")
    try:
        with translated("backup"):
            counts = _snapshot(source, whole if compact else part)
            if compact:
                _create(part)
                with closing(connect(whole)) as connection:
                    connection.execute("VACUUM INTO ?", (str(part),))
                whole.unlink()
            _check(part, counts)
            with part.open("rb") as copied:
                os.fsync(copied.fileno())
            part.replace(target)
            sync_folder(target.parent)
    finally:
        for left in (part, whole):
            for suffix in ("", "-journal", "-wal", "-shm"):
                left.with_name(left.name + suffix).unlink(missing_ok=True)
    return counts


def _snapshot(source: Path, target: Path) -> dict[str, int]:
    _create(target)
    with closing(connect(source)) as connection, closing(connect(target)) as copy:
        # Rows are counted in the very snapshot that is copied: in one step, so that a writer
        # cannot make SQLite begin again and again.
        connection.execute("BEGIN")
        counts = count_rows(connection)
        connection.backup(copy, pages=-1)
        connection.execute("COMMIT")
        # Without a log the copy is one file, and reading it writes nothing next to it.
        copy.execute("PRAGMA journal_mode = DELETE")
    return counts


def _create(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _check(path: Path, counts: dict[str, int]) -> None:
    with closing(connect(path)) as copy:
        verdict = fetch_value(copy, "PRAGMA integrity_check(1)")
        if verdict != "ok" or count_rows(copy) != counts:
            raise SchemaError(
                "The copy did not pass SQLite's integrity check, so it was deleted. The database "
                "itself is damaged: run `zapomni doctor`.",
                "SCHEMA_004",
            )


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the rows of every table; the parts of word indexes are left out."""
    tables = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        " ORDER BY name"
    ).fetchall()
    virtual = tuple(f"{name}_" for name, sql in tables if sql.startswith("CREATE VIRTUAL"))
    return {
        name: fetch_value(connection, _COUNT.format(name.replace('"', '""')))
        for name, sql in tables
        if not sql.startswith("CREATE VIRTUAL") and not name.startswith(virtual or "\0")
    }


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_ours(path: Path) -> bool:
    """Return whether a file is a database of Zapomni, by its header alone."""
    with path.open("rb") as stream:
        header = stream.read(100)
    return (
        header.startswith(b"SQLite format 3\0")
        and int.from_bytes(header[68:72], "big") == APPLICATION_ID
    )


def stage(file: Path, folder: Path) -> tuple[Path, dict[str, int]]:
    """Copy a file into a private folder, check it there and bring it to the latest schema.

    The file itself is only read. If it is a plain copy with its log next to it, the log counts.

    Returns:
        The copy and how many rows each of its tables has.

    Raises:
        ValidationError: It is no backup of Zapomni, was made by a newer version, or is damaged.
    """
    staged = folder / "staged.db"
    with translated("reading the backup"):
        shutil.copyfile(file, staged)
        if (log := file.with_name(file.name + "-wal")).exists():
            shutil.copyfile(log, staged.with_name(staged.name + "-wal"))
        if not is_ours(staged):
            raise ValidationError("This file is not a backup of Zapomni.", "VAL_004")
        try:
            with closing(connect(staged)) as connection:
                version = fetch_value(connection, "PRAGMA user_version")
                if version > LATEST_VERSION:
                    raise ValidationError(
                        f"This backup was made by a newer version of Zapomni (schema {version}, "
                        f"this one knows {LATEST_VERSION}). Upgrade Zapomni first.",
                        "VAL_003",
                    )
                if fetch_value(connection, "PRAGMA integrity_check(1)") != "ok":
                    raise ValidationError("This backup is damaged.", "VAL_004")
                connection.execute("PRAGMA journal_mode = DELETE")
                migrate(connection)
                return staged, count_rows(connection)
        except sqlite3.DatabaseError as error:
            if (getattr(error, "sqlite_errorcode", 0) & 0xFF) not in (
                sqlite3.SQLITE_CORRUPT,
                sqlite3.SQLITE_NOTADB,
            ):
                raise
            raise ValidationError(
                "This backup is damaged.", "VAL_004", original_exception=error
            ) from error


def install(staged: Path, live: Path) -> None:
    """Put a staged database in the place of the live one.

    Its contents are replaced in one transaction, in the same file: processes that have it open
    continue with it, readers finish in the old state and then see the new one, writers wait. A
    crash leaves the old state or the new one. Only a file that is no database is replaced itself.

    Raises:
        TransactionError: Another process did not release it; nothing was changed.
        DatabaseError: It could not be written; nothing was changed.
    """
    if live.exists():
        try:
            _replace_contents(staged, live)
        except SchemaError:
            pass
        else:
            return
    with translated("restore"), exclusive_folder(live.parent):
        for suffix in ("-wal", "-shm"):
            live.with_name(live.name + suffix).unlink(missing_ok=True)
        with staged.open("rb") as stream:
            os.fsync(stream.fileno())
        staged.replace(live)
        sync_folder(live.parent)


def _replace_contents(staged: Path, live: Path) -> None:
    with translated("restore"), closing(connect(live)) as target:
        newest = 0
        # Fails before anything is written if the file is no database.
        if target.execute("SELECT 1 FROM sqlite_master WHERE name = 'vector_log'").fetchone():
            newest = fetch_value(target, _NEWEST_CHANGE)
        with closing(connect(staged)) as source:
            _outdate_caches(source, newest)
            until = time.monotonic() + WAIT_SECONDS

            def give_up(status: int, _remaining: int, _total: int) -> None:
                if status & 0xFF in _BUSY and time.monotonic() > until:
                    raise TransactionError(
                        "Another process is writing to the database. Nothing was restored; try "
                        "again.",
                        "TXN_002",
                    )

            source.backup(target, pages=-1, progress=give_up)
        target.execute("PRAGMA journal_mode = WAL")
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _outdate_caches(staged: sqlite3.Connection, newest: int) -> None:
    """Make vector caches reload that know the log of the contents being replaced."""
    own = fetch_value(staged, _NEWEST_CHANGE)
    staged.execute("DELETE FROM vector_log")
    staged.execute(
        "INSERT INTO vector_log (seq, chunk_id) VALUES (?, 0)", (max(own, newest) + LOG_JUMP,)
    )


def copy_damaged(live: Path, folder: Path) -> Path:
    """Copy a database that SQLite cannot read, and its log, byte by byte; return the copy."""
    with translated("copying the damaged file"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for suffix in ("-wal", ""):
            part = live.with_name(live.name + suffix)
            if part.exists():
                copy = folder / part.name
                _create(copy)
                shutil.copyfile(part, copy)
        sync_folder(folder)
    return folder / live.name
