"""Which folders are given what is stored under a project's key. Standard library only, for hooks.

A key is what a folder claims to be, and anyone can write it into a folder. So the first folder of a
project is trusted, and another one that claims the same project only if it is the same folder,
moved, or a worktree that a trusted repository itself lists, or if the user trusts it. What happens
in a folder that is not trusted is stored under the folder's path, and nothing else is shown there.

What the user decided about a project is here too: a private one is shown in no answer to another
project, of an excluded one hooks record nothing.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import LiteralString
else:
    import _sqlite3 as sqlite3  # without `datetime`, which a hook does not need

__all__ = [
    "PROJECT_OF_ALIAS",
    "RULES_TABLE",
    "TABLE",
    "change_rule",
    "hidden_projects",
    "is_excluded",
    "list_rules",
    "list_untrusted",
    "note_folder",
    "private_projects",
    "project_for",
    "trust_folder",
    "trusted_folders",
    "untrusted_folders",
]

# As migration 9 has it.
TABLE: LiteralString = """
CREATE TABLE IF NOT EXISTS project_folders (
    folder   TEXT NOT NULL,
    project  TEXT NOT NULL,     -- the key the folder claims
    identity TEXT NOT NULL,     -- what the file system calls the folder, wherever it is moved
    trusted  INTEGER NOT NULL,  -- 0: waits for the user's word
    first_at INTEGER NOT NULL,
    PRIMARY KEY (folder, project)
) WITHOUT ROWID"""

# A folder of a project; one that is trusted stays trusted.
PUT: LiteralString = """
INSERT INTO project_folders (folder, project, identity, trusted, first_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (folder, project) DO UPDATE SET
    identity = excluded.identity, trusted = max(trusted, excluded.trusted)"""

# For homes made before folders were recorded: observations of a project have paths.
SEEN_BEFORE: LiteralString = """
SELECT 1 FROM (
    SELECT project FROM observations
    WHERE file_path >= ?1 || '/' AND file_path < ?1 || '0' LIMIT 20000
) WHERE project = ?2 LIMIT 1"""

# The project that a key belongs to, if it is not the project's own.
PROJECT_OF_ALIAS: LiteralString = "SELECT project_key FROM project_aliases WHERE alias = ?"

# The folders that are trusted with a project.
TRUSTED: LiteralString = """
SELECT folder, identity FROM project_folders WHERE project = ? AND trusted"""

# Whether a project has observations.
IS_USED: LiteralString = "SELECT 1 FROM observations WHERE project = ? LIMIT 1"

# What is recorded of a folder that claims a project.
RECORDED: LiteralString = """
SELECT trusted, identity FROM project_folders WHERE folder = ? AND project = ?"""

# All folders that are not trusted.
UNTRUSTED: LiteralString = """
SELECT project, folder FROM project_folders WHERE NOT trusted ORDER BY folder"""

# What a folder recorded for itself becomes the project's.
MOVE_OBSERVATIONS: LiteralString = "UPDATE observations SET project = ? WHERE project = ?"
MOVE_SESSIONS: LiteralString = "UPDATE sessions SET project = ? WHERE project = ?"
DELETE_PROJECT: LiteralString = "DELETE FROM projects WHERE key = ?"
# Memories of the folder carry its path: it is another key of the project now.
ADD_ALIAS: LiteralString = """
INSERT OR IGNORE INTO project_aliases (alias, project_key)
SELECT ?, key FROM projects WHERE key = ?"""


def project_for(
    connection: sqlite3.Connection, key: str, folder: str, identity: str = "", main: str = ""
) -> tuple[str, bool]:
    """Return the project whose observations a folder is given, and whether it is the one it claims.

    Args:
        connection: Any; nothing is written.
        key: The project the folder claims to be.
        folder: The top folder of its checkout; "" if folders do not count.
        identity: What the file system calls it.
        main: The main work tree, if that one lists this folder as its worktree.
    """
    rows = connection.execute(PROJECT_OF_ALIAS, (key,))
    project = next((str(found) for (found,) in rows), key)
    if not folder or folder == key:
        return project, True
    trusted = _is_trusted(connection, project, folder, identity, main)
    return (project, True) if trusted else (folder, False)


def _is_trusted(
    connection: sqlite3.Connection, project: str, folder: str, identity: str, main: str
) -> bool:
    try:
        known = connection.execute(TRUSTED, (project,)).fetchall()
    except sqlite3.OperationalError:
        known = []  # An older schema, and no hook was there since.
    for other, its_identity in known:
        if other in (folder, main) or (identity and identity == its_identity):
            return True
    if known:
        return False
    if connection.execute(IS_USED, (project,)).fetchone() is None:
        return True  # The first folder of a new project.
    return connection.execute(SEEN_BEFORE, (folder, project)).fetchone() is not None


def note_folder(
    connection: sqlite3.Connection, key: str, folder: str, identity: str, main: str
) -> str:
    """Return the project that events of a folder are stored under, and record the folder."""
    project, trusted = project_for(connection, key, folder, identity, main)
    if not folder or folder == key:
        return project
    claimed = project if trusted else _claimed(connection, key)
    seen = connection.execute(RECORDED, (folder, claimed)).fetchone()
    if seen != (trusted, identity):
        now = int(time.time())
        connection.execute(PUT, (folder, claimed, identity, trusted, now))
        if trusted and main:
            # It lists this folder, and this folder names it: they are one repository.
            connection.execute(PUT, (main, claimed, "", trusted, now))
    return project


def _claimed(connection: sqlite3.Connection, key: str) -> str:
    project, _ = project_for(connection, key, "")
    return project


def trust_folder(connection: sqlite3.Connection, key: str, folder: str, identity: str) -> int:
    """Trust a folder with the project it claims; return how many of its observations join it."""
    project = _claimed(connection, key)
    connection.execute(PUT, (folder, project, identity, 1, int(time.time())))
    if folder in (key, project):
        return 0
    moved = connection.execute(MOVE_OBSERVATIONS, (project, folder)).rowcount
    connection.execute(MOVE_SESSIONS, (project, folder))
    connection.execute(DELETE_PROJECT, (folder,))
    connection.execute(ADD_ALIAS, (folder, project))
    return moved


def trusted_folders(connection: sqlite3.Connection, project: str) -> list[str]:
    """Return the folders that are trusted with a project."""
    try:
        return [folder for folder, _ in connection.execute(TRUSTED, (project,))]
    except sqlite3.OperationalError:
        return []  # An older schema, and no hook was there since.


def list_untrusted(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the folders that the user has not trusted yet, by the project they claim."""
    try:
        rows = connection.execute(UNTRUSTED).fetchall()
    except sqlite3.OperationalError:
        return {}  # An older schema, and no hook was there since.
    found: dict[str, list[str]] = {}
    for project, folder in rows:
        found.setdefault(project, []).append(folder)
    return found


def untrusted_folders(connection: sqlite3.Connection) -> set[str]:
    """Return the folders that are not trusted: their observations are shown nowhere else."""
    return {folder for folders in list_untrusted(connection).values() for folder in folders}


# --- Rules ------------------------------------------------------------------------------

# As migration 13 has it.
RULES_TABLE: LiteralString = """
CREATE TABLE IF NOT EXISTS project_rules (
    project  TEXT PRIMARY KEY,
    private  INTEGER NOT NULL DEFAULT 0,
    excluded INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID"""

# Whether a project, known by any of its keys, or a folder is excluded.
EXCLUDED: LiteralString = """
SELECT 1 FROM project_rules WHERE excluded AND project IN
    (?1, ?2, (SELECT project_key FROM project_aliases WHERE alias = ?1))"""

# Private projects, by all of their keys.
PRIVATE: LiteralString = """
SELECT project FROM project_rules WHERE private
UNION SELECT a.alias FROM project_rules r JOIN project_aliases a ON a.project_key = r.project
    WHERE r.private"""

RULES: LiteralString = "SELECT project, private, excluded FROM project_rules"
PUT_PRIVATE: LiteralString = """
INSERT INTO project_rules (project, private) VALUES (?, ?)
ON CONFLICT (project) DO UPDATE SET private = excluded.private"""
PUT_EXCLUDED: LiteralString = """
INSERT INTO project_rules (project, excluded) VALUES (?, ?)
ON CONFLICT (project) DO UPDATE SET excluded = excluded.excluded"""


def is_excluded(connection: sqlite3.Connection, key: str, folder: str) -> bool:
    """Return whether hooks record nothing of a project, or of what is done in a folder."""
    return connection.execute(EXCLUDED, (key, folder)).fetchone() is not None


def private_projects(connection: sqlite3.Connection) -> set[str]:
    """Return the keys of all projects that no answer to another project shows."""
    try:
        return {key for (key,) in connection.execute(PRIVATE)}
    except sqlite3.OperationalError:
        return set()  # An older schema, and no hook was there since.


def hidden_projects(connection: sqlite3.Connection) -> set[str]:
    """Return what no answer to another project shows: private projects, untrusted folders."""
    return private_projects(connection) | untrusted_folders(connection)


def list_rules(connection: sqlite3.Connection) -> dict[str, tuple[bool, bool]]:
    """Return of each project with a rule whether it is private, and whether excluded."""
    try:
        rows = connection.execute(RULES).fetchall()
    except sqlite3.OperationalError:
        return {}
    return {key: (bool(private), bool(excluded)) for key, private, excluded in rows}


def change_rule(connection: sqlite3.Connection, key: str, rule: str, *, on: bool) -> None:
    """Make a project `private` or `excluded`, or end that."""
    statement = PUT_PRIVATE if rule == "private" else PUT_EXCLUDED
    connection.execute(statement, (key, int(on)))
