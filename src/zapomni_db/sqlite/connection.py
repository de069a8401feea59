"""How a database file is opened, locked and left. Standard library only.

Every write runs in BEGIN IMMEDIATE: a transaction that reads first and writes later fails at
once when another process has written in between, whatever the busy timeout says.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zapomni_db.exceptions import (
    DatabaseConnectionError,
    DatabaseError,
    QueryError,
    SchemaError,
    TransactionError,
)
from zapomni_db.sqlite.migrations import APPLICATION_ID, LATEST_VERSION, migrate

__all__ = ["connect", "prepare_file", "read_transaction", "translated", "write_transaction"]

BUSY_TIMEOUT_MS = 5000

_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    # An acknowledged write must survive the loss of power, not only of the process.
    "PRAGMA synchronous = FULL",
    # On macOS an fsync leaves the data in the drive's own memory; elsewhere these change nothing.
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    # Several connections a process: what each one keeps adds up.
    "PRAGMA cache_size = -8192",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
)


def prepare_file(path: Path) -> None:
    """Create the file if there is none, migrate it if it is old, make it private."""
    with translated("open"):
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, parents=True)
        # Locking the folder makes simultaneous first starts take turns without a lock file.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            _make_private(path)
            connection = connect(path)
            try:
                _initialize(connection, path)
            finally:
                connection.close()
        finally:
            os.close(folder)


def _make_private(path: Path) -> None:
    # Never open a file that is there: closing it would drop the locks of every connection this
    # process has to it, and who closes the database elsewhere would take away its log.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _initialize(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    if not empty and not ours:
        raise SchemaError(
            "The storage file is an SQLite database of another program. "
            "Point the setting storage at a file of its own.",
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
    connection.execute("PRAGMA journal_mode = WAL")
    if version < LATEST_VERSION:
        if not empty:
            _copy_before_migration(path)
        migrate(connection)


def _copy_before_migration(path: Path) -> None:
    # Imported where it is needed: a version is new only once.
    from zapomni_db.sqlite.backups import FOLDER, copy_database, exclusive_folder, make_name

    folder = path.parent / FOLDER
    with exclusive_folder(folder):
        copy_database(path, folder / make_name(path.stem, "before-migration"))
        for old in sorted(folder.glob("*-before-migration.db"))[:-3]:
            old.unlink()


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection with the house rules. The caller owns it."""
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False
    )
    try:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def write_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All of it or nothing of it; keep it short, hooks may be waiting."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        # A full disk or an I/O error may already have rolled back.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def read_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Several reads that see one state of the database."""
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


@contextmanager
def translated(operation: str) -> Iterator[None]:
    """Turn SQLite's and the system's errors into ours; their own messages may quote a path."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(operation, error) from error
    except OSError as error:
        raise DatabaseConnectionError(
            f"The database cannot be used during {operation}: {os.strerror(error.errno or 0)}. "
            "Check that its folder exists, is yours and is writable.",
            "CONN_003" if isinstance(error, PermissionError) else "CONN_001",
            original_exception=error,
        ) from error


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
        return DatabaseError(
            f"The disk is full: {operation} was undone, nothing is lost. Free some space.",
            "DB_002",
            original_exception=error,
        )
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
