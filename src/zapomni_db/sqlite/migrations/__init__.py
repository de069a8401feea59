"""Numbered migrations: `NNNN_name.sql` files, applied in order, never edited."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from zapomni_db.exceptions import SchemaError
from zapomni_db.sqlite import APPLICATION_ID, LATEST_VERSION

__all__ = ["APPLICATION_ID", "LATEST_VERSION", "migrate"]


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema to the latest version, each step in its own transaction."""
    for version in range(1, LATEST_VERSION + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Read inside the lock: another process may have migrated while we waited.
            ((applied,),) = connection.execute("PRAGMA user_version")
            if applied < version:
                for statement in _statements(version):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {version}")
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_ERROR:
                raise
            raise SchemaError(
                f"Migration {version} failed; the database is unchanged.",
                "SCHEMA_003",
                original_exception=error,
            ) from error


def _statements(version: int) -> Iterator[str]:
    """Split a script at its statements' ends; `executescript` would commit on its own."""
    (script,) = Path(__file__).parent.glob(f"{version:04d}_*.sql")
    statement = ""
    for line in script.read_text(encoding="utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
