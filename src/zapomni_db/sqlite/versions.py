"""The numbers of the present state of memories and of observations, for the cache of answers."""

from __future__ import annotations

import sqlite3
from typing import Final, LiteralString

from zapomni_db.sqlite.connection import fetch_value

__all__ = ["CHANGE_VERSION", "read_observations_version", "read_version"]

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
