"""Projects observations belong to, and joining two that are one. Standard library only."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from zapomni_db.exceptions import ValidationError
from zapomni_db.sqlite.observation_reads import ACTIVE_SESSION
from zapomni_db.sqlite.project_folders import list_untrusted

__all__ = ["KnownProject", "join_projects", "list_projects"]


class KnownProject(NamedTuple):
    """A project, what it is called, its other keys, and how much is known of it."""

    key: str
    name: str
    aliases: list[str]
    observations: int
    sessions: int
    last_at: int | None
    injection: bool
    untrusted_folders: list[str]


def list_projects(connection: sqlite3.Connection) -> list[KnownProject]:
    """Return all projects, the one used last first."""
    rows = connection.execute(
        "SELECT p.key, p.name, p.injection,"
        " (SELECT count(*) FROM observations o WHERE o.project = p.key),"
        " (SELECT count(*) FROM sessions s WHERE s.project = p.key AND " + ACTIVE_SESSION + "),"
        " (SELECT max(last_at) FROM sessions s WHERE s.project = p.key) AS last"
        " FROM projects p ORDER BY last DESC NULLS LAST, p.key"
    ).fetchall()
    aliases: dict[str, list[str]] = {}
    for alias, key in connection.execute("SELECT alias, project_key FROM project_aliases"):
        aliases.setdefault(key, []).append(alias)
    untrusted = list_untrusted(connection)
    return [
        KnownProject(
            key,
            name,
            sorted(aliases.get(key, [])),
            seen,
            sessions,
            last,
            bool(on),
            untrusted.get(key, []),
        )
        for key, name, on, seen, sessions, last in rows
    ]


def join_projects(connection: sqlite3.Connection, other: str, main: str) -> int:
    """Make `other` another key of `main`, now and for what comes; return how many rows moved.

    Raises:
        ValidationError: They are the same, or `main` is nobody's key.
    """
    if other == main:
        raise ValidationError("a project cannot be joined with itself", "VAL_004")
    if connection.execute("SELECT 1 FROM projects WHERE key = ?", (main,)).fetchone() is None:
        raise ValidationError("no project has this key; see `zapomni projects`", "VAL_004")
    connection.execute(
        "UPDATE project_aliases SET project_key = ? WHERE project_key = ?", (main, other)
    )
    connection.execute("INSERT OR REPLACE INTO project_aliases VALUES (?, ?)", (other, main))
    moved = connection.execute(
        "UPDATE observations SET project = ? WHERE project = ?", (main, other)
    ).rowcount
    connection.execute("UPDATE sessions SET project = ? WHERE project = ?", (main, other))
    connection.execute(
        "UPDATE OR REPLACE project_folders SET project = ? WHERE project = ?", (main, other)
    )
    connection.execute("DELETE FROM projects WHERE key = ?", (other,))
    return moved
