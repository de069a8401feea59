"""Opening, locking and closing a database file. Standard library only.

Every write runs in BEGIN IMMEDIATE: a transaction that reads first and writes later fails at
once when another process has written in between, whatever the busy timeout says.

A connection knows its file by device and inode. When the home folder is removed or replaced, open
connections write to a file without a name: a write is acknowledged only if its file is still the
one at the path. That is checked with `stat` alone: opening the database and closing it again would
drop the locks of every connection this process has to it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, LiteralString
from urllib.parse import quote

from zapomni_db.exceptions import (
    DatabaseConnectionError,
    DatabaseError,
    QueryError,
    SchemaError,
    TransactionError,
)
from zapomni_db.sqlite.migrations import APPLICATION_ID, LATEST_VERSION, migrate

__all__ = [
    "CHANGE_VERSION",
    "Connection",
    "DatabaseReplacedError",
    "check_frozen",
    "connect",
    "fetch_value",
    "file_identity",
    "prepare_file",
    "read_observations_version",
    "read_transaction",
    "read_version",
    "release_pages",
    "replaced",
    "translated",
    "write_transaction",
]


# How long a lock may stay with one holder before we give up.
BUSY_TIMEOUT_MS = 5000
# How long we wait for our turn while other writers commit.
QUEUE_SECONDS = 60.0
# How often a file that is being replaced is opened again.
OPEN_ATTEMPTS = 5

_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    # An acknowledged write must survive the loss of power, not only of the process.
    "PRAGMA synchronous = FULL",
    # On macOS an fsync leaves the data in the drive's own memory; elsewhere these change nothing.
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    # A process has several connections: their caches add up.
    "PRAGMA cache_size = -8192",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
)


# Errors of opening a database on a disk that is full or cannot be written to.
_UNWRITABLE = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
# With less than this free, SQLite cannot extend its files.
FULL_BELOW_BYTES = 256 * 1024


class DatabaseReplacedError(DatabaseConnectionError):
    """The file was removed or replaced while it was in use; nothing was acknowledged."""


class Connection(sqlite3.Connection):
    """A connection that knows which file it has open."""

    file: str = ""
    identity: tuple[int, int] | None = None
    """Device and inode."""
    writable: bool = True
    frozen: tuple[int, ...] | None = None
    """Set if SQLite reads it without locks: how the file was when it was opened."""

    def is_current(self) -> bool:
        """Return whether the open file is the file at the path, and unchanged if it is frozen."""
        if self.frozen is not None:
            return _frozen_state(self.file) == self.frozen
        return file_identity(self.file) == self.identity


def file_identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of the file at a path; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - with every read: a Path costs more than the call
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _frozen_state(path: str) -> tuple[int, ...] | None:
    """Return what changes when a process writes to the file; None if one may be doing so."""
    try:
        found = os.stat(path)  # noqa: PTH116
        with suppress(FileNotFoundError):
            if os.stat(path + "-wal").st_size:  # noqa: PTH116
                return None
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def prepare_file(path: Path) -> None:
    """Create the file if there is none, migrate it if it is old, make it private.

    A file that is up to date stays unchanged where nothing can be written.
    """
    with translated("open", path):
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # two may start at once
        # Locking the folder makes simultaneous first starts take turns without a lock file.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            # Never open a file that exists: closing it would drop the locks of every connection
            # this process has to it, and another process that closes the database would delete
            # its log.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            if path.stat().st_mode & 0o077:
                with suppress(OSError):  # a read-only disk; doctor names the mode
                    path.chmod(0o600)
            connection = connect(path)
            try:
                _initialize(connection, path)
            finally:
                connection.close()
        finally:
            os.close(folder)


def _initialize(connection: sqlite3.Connection, path: Path) -> None:
    version = fetch_value(connection, "PRAGMA user_version")
    empty = fetch_value(connection, "SELECT count(*) FROM sqlite_master") == 0
    ours = fetch_value(connection, "PRAGMA application_id") == APPLICATION_ID
    if not empty and not ours:
        raise SchemaError(
            "The storage file is an SQLite database of another program. "
            "Point the setting storage at a separate file.",
            "SCHEMA_004",
        )
    if version > LATEST_VERSION:
        raise SchemaError(
            f"The database was made by a newer version of Zapomni (schema {version}, "
            f"this one knows {LATEST_VERSION}). Upgrade Zapomni; nothing was changed.",
            "SCHEMA_003",
        )
    if empty:
        # Has to come before WAL, and before the first table.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    if version == LATEST_VERSION and isinstance(connection, Connection) and connection.frozen:
        return
    connection.execute("PRAGMA journal_mode = WAL")
    if version < LATEST_VERSION:
        if not empty:
            # Imported where it is needed: a migration is rare.
            from zapomni_db.sqlite.backups import FOLDER, copy_database, exclusive_folder, make_name

            folder = path.parent / FOLDER
            with exclusive_folder(folder):
                copy_database(path, folder / make_name(path.stem, "before-migration"))
                for old in sorted(folder.glob("*-before-migration.db"))[:-3]:
                    old.unlink()
        migrate(connection)


def connect(
    path: Path, *, read_only: bool = False, pragmas: Sequence[LiteralString] | None = None
) -> Connection:
    """Open a connection to a file that exists: the one way to do so. The caller closes it.

    Where the disk is full or read-only, the connection reads only. Reading a database in WAL mode
    takes two files next to it. Where these cannot be made, and no log with changes is there, SQLite
    is asked to read the file as one that does not change; `Connection.is_current` checks that.
    """
    pragmas = _PRAGMAS if pragmas is None else pragmas
    try:
        return _open(path, "ro" if read_only else "rw", pragmas)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _UNWRITABLE or not path.is_file():
            raise
        if not read_only:
            try:
                return connect(path, read_only=True, pragmas=pragmas)
            except sqlite3.Error:
                raise error from None
        before = _frozen_state(str(path))
        if before is None:
            raise
        connection = _open(path, "ro&immutable=1", pragmas)
        connection.frozen = before
        if not connection.is_current():
            connection.close()
            raise
        return connection


def _open(path: Path, mode: str, pragmas: Sequence[LiteralString]) -> Connection:
    """Open the file at the path and remember which file that was."""
    # As an URI, because a plain open would create an empty file where there is none.
    address = f"file:{quote(os.fsencode(path))}?mode={mode}"
    for _ in range(OPEN_ATTEMPTS):
        before = file_identity(str(path))
        connection = sqlite3.connect(
            address,
            timeout=BUSY_TIMEOUT_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
            factory=Connection,
        )
        try:
            for pragma in pragmas:
                connection.execute(pragma)
            # SQLite opens the log with the first read: what cannot be read fails here.
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except BaseException:
            connection.close()
            raise
        connection.file, connection.identity = str(path), before
        connection.writable = mode == "rw"
        if before is not None and connection.is_current():
            return connection
        connection.close()
    raise replaced("open")


# A few free pages are for the next writes.
KEPT_PAGES = 16


def release_pages(connection: sqlite3.Connection, most: int) -> int:
    """Return free pages to the file system, at most so many; return how many."""
    free = fetch_value(connection, "PRAGMA freelist_count")
    for _ in range(min(free - KEPT_PAGES, most)):
        # With a larger number `execute` would stop after the first page all the same.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return int(free - fetch_value(connection, "PRAGMA freelist_count"))


def fetch_value(
    connection: sqlite3.Connection,
    statement: LiteralString,
    values: Sequence[object] | Mapping[str, object] = (),
) -> Any:
    """Return the only column of the first row; None if there is no row."""
    row = connection.execute(statement, values).fetchone()
    if row is None:
        return None
    (value,) = row
    return value


def replaced(operation: str) -> DatabaseReplacedError:
    return DatabaseReplacedError(
        f"The database file was removed or replaced during {operation}; nothing was stored in the "
        "one that is there now. Try again.",
        "CONN_008",
    )


@contextmanager
def write_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run a block that is stored completely or not at all; keep it short, hooks may be waiting.

    Raises:
        DatabaseReplacedError: It was committed to a file that is no longer the one at the path.
        TransactionError: TXN_001, it failed and could not be undone; close the connection.
    """
    _begin_writing(connection)
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException as error:
        # A full disk or an I/O error may already have rolled back.
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error as failed:
                raise TransactionError(
                    "A write failed and could not be undone at once. Nothing of it is stored: "
                    "closing the connection undoes it.",
                    "TXN_001",
                    original_exception=failed,
                ) from error
        raise
    if isinstance(connection, Connection) and not connection.is_current():
        raise replaced("a write")


def _begin_writing(connection: sqlite3.Connection) -> None:
    """Take the write lock, with the same chance for every writer.

    SQLite's own waiting sleeps longer and longer between tries, up to 100 ms: one waiting writer
    may starve among a dozen that return at once. Trying every few milliseconds is fair. While
    others commit, the queue moves and we stay in it; we give up when one holder keeps the lock
    longer than the connection's busy timeout.
    """
    patience = fetch_value(connection, "PRAGMA busy_timeout") / 1000
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        version = None
        asked = moved = time.monotonic()
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                now = time.monotonic()
                with suppress(sqlite3.OperationalError):
                    seen = fetch_value(connection, "PRAGMA data_version")
                    if seen != version:
                        version, moved = seen, now
                if now - moved >= patience or now - asked >= QUEUE_SECONDS:
                    raise
            else:
                return
            time.sleep((1 + os.urandom(1)[0] / 32) / 1000)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(patience * 1000)}")


@contextmanager
def read_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run several reads that see one state of the database."""
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")
    check_frozen(connection)


def check_frozen(connection: sqlite3.Connection) -> None:
    """Raise if a file that is read without locks was written to meanwhile."""
    if (
        isinstance(connection, Connection)
        and connection.frozen is not None
        and not connection.is_current()
    ):
        raise TransactionError(
            "The database was written to while it was read without locks. Try again.", "TXN_002"
        )


@contextmanager
def translated(operation: str, path: Path | None = None) -> Iterator[None]:
    """Turn SQLite's and the system's errors into ours; their own messages may quote a path.

    With the path, a failure on a disk without room is called that.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if path is not None and code in _UNWRITABLE and _is_full(path):
            raise _full(operation, error) from error
        raise _translate(operation, error) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise _full(operation, error) from error
        raise DatabaseConnectionError(
            f"The database cannot be used during {operation}: {os.strerror(error.errno or 0)}. "
            "Check that its folder exists, is yours and is writable.",
            "CONN_003" if isinstance(error, PermissionError) else "CONN_001",
            original_exception=error,
        ) from error


def _is_full(path: Path) -> bool:
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return False
    # A read-only disk is not called full, though some have no free block.
    writable = not found.f_flag & os.ST_RDONLY
    return writable and found.f_bavail * found.f_frsize < FULL_BELOW_BYTES


def _full(operation: str, error: Exception) -> DatabaseError:
    return DatabaseError(
        f"The disk is full: {operation} was undone, nothing is lost. Free some space.",
        "DB_002",
        original_exception=error,
    )


def _translate(operation: str, error: sqlite3.Error) -> DatabaseError:
    # Extended codes carry the primary code in their low byte.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return TransactionError(
            f"The database stayed locked by another process during {operation}. "
            "Nothing was written; try again.",
            "TXN_002",
            original_exception=error,
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return SchemaError(
            f"The database file is damaged or not a database (found during {operation}). "
            "Run `zapomni doctor`, and restore a copy if it confirms the damage.",
            "SCHEMA_004",
            original_exception=error,
        )
    if code == sqlite3.SQLITE_FULL:
        return _full(operation, error)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return DatabaseConnectionError(
            f"The database cannot be opened or written during {operation}. "
            "Check that its folder exists, is yours, is writable and not read-only.",
            "CONN_003",
            original_exception=error,
        )
    if code == sqlite3.SQLITE_IOERR:
        return DatabaseError(
            f"The disk reported an error: {operation} was undone. Check the disk.",
            "DB_003",
            original_exception=error,
        )
    if isinstance(error, sqlite3.IntegrityError):
        return QueryError(
            f"A constraint was violated during {operation}; nothing was written.",
            "QUERY_004",
            original_exception=error,
        )
    return QueryError(
        f"The database refused a statement during {operation}.",
        "QUERY_001",
        original_exception=error,
    )


# --- The state of the file, as a number -------------------------------------------------


CHANGE_VERSION: Final[LiteralString] = (
    "UPDATE state_versions SET version = random() WHERE part = 'memories'"
)
"""Run in every transaction that changes memories, their passages, vectors or graph."""

_VERSION: Final[LiteralString] = "SELECT version FROM state_versions WHERE part = 'memories'"

# The newest observation counts, too: hooks insert without changing the number.
_OBSERVATIONS_VERSION: Final[LiteralString] = """
SELECT coalesce((SELECT max(id) FROM observations), 0), version
FROM state_versions WHERE part = 'observations'"""

_NEWEST_OBSERVATION: Final[LiteralString] = "SELECT coalesce(max(id), 0) FROM observations"


def read_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes with memories and the graph, whichever process changes them."""
    return int(fetch_value(connection, _VERSION))


def read_observations_version(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return numbers that change with observations and the names of projects."""
    try:
        newest, version = connection.execute(_OBSERVATIONS_VERSION).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        # An older file, only read so far: what changes more than adding rows migrates it first.
        return int(fetch_value(connection, _NEWEST_OBSERVATION)), 0
    return newest, version
