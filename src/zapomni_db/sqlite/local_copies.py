"""Projects, sessions, observations and indexed code, for exports and copies, and back.

An object of an export has the names of the columns. Numbers that only this file knows are replaced
by what every file knows: an observation by the hash of its event, its prompt by the hash of the
prompt's event.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, LiteralString

from zapomni_db.sqlite.observation_search import dict_rows
from zapomni_db.sqlite.project_folders import change_rule, list_rules
from zapomni_db.values import from_json, to_json

__all__ = [
    "CODE_TABLES",
    "clear_code",
    "export_code",
    "export_observations",
    "export_projects",
    "export_sessions",
    "has_other_code",
    "import_code",
    "import_observations",
    "import_projects",
    "import_sessions",
    "list_months",
]

# --- Projects ---------------------------------------------------------------------------

_PROJECTS: LiteralString = "SELECT key, name, injection, created_at FROM projects ORDER BY key"
_ALIASES: LiteralString = "SELECT project_key, alias FROM project_aliases ORDER BY alias"
_INSERT_PROJECT: LiteralString = """
INSERT OR IGNORE INTO projects (key, name, injection, created_at)
VALUES (:key, :name, :injection, :created_at)"""
_INSERT_ALIAS: LiteralString = """
INSERT OR IGNORE INTO project_aliases (alias, project_key) VALUES (?, ?)"""


def export_projects(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return all projects by key, with their other keys and what the user decided about them."""
    aliases: dict[str, list[str]] = {}
    for key, alias in connection.execute(_ALIASES):
        aliases.setdefault(key, []).append(alias)
    rules = list_rules(connection)
    found = []
    for row in dict_rows(connection, _PROJECTS):
        private, excluded = rules.get(row["key"], (False, False))
        more = {"aliases": aliases.get(row["key"], []), "private": private, "excluded": excluded}
        found.append({**row, "injection": bool(row["injection"]), **more})
    return found


def import_projects(connection: sqlite3.Connection, projects: Sequence[dict[str, Any]]) -> int:
    """Add the projects that are not here; return how many.

    One that is here keeps its name. What is private elsewhere is private here.
    """
    added = 0
    for project in projects:
        is_new = connection.execute(_INSERT_PROJECT, project).rowcount == 1
        added += is_new
        if is_new:
            for alias in project["aliases"]:
                connection.execute(_INSERT_ALIAS, (alias, project["key"]))
        if project["private"]:
            change_rule(connection, project["key"], "private", on=True)
        if is_new and project["excluded"]:
            change_rule(connection, project["key"], "excluded", on=True)
    return added


# --- Observations and their sessions ----------------------------------------------------

_MONTHS: LiteralString = """
SELECT DISTINCT strftime('%Y-%m', timestamp, 'unixepoch') FROM observations
WHERE (?1 IS NULL OR project IN (SELECT value FROM json_each(?1))) ORDER BY 1"""
# The columns of an exported observation, of one month.
_OBSERVATIONS: LiteralString = """
SELECT o.session_id, o.project, o.host, o.timestamp, o.obs_type, o.source_event, o.tool_name,
    o.file_path, o.content, o.metadata, o.signature, o.pinned, lower(hex(o.event_hash)) event_hash,
    (SELECT lower(hex(p.event_hash)) FROM observations p WHERE p.id = o.prompt_id) prompt
FROM observations o
WHERE o.timestamp >= CAST(strftime('%s', ?1 || '-01') AS INTEGER)
    AND o.timestamp < CAST(strftime('%s', ?1 || '-01', '+1 month') AS INTEGER)
    AND (?2 IS NULL OR o.project IN (SELECT value FROM json_each(?2)))
ORDER BY o.timestamp, event_hash"""
_SESSIONS: LiteralString = """
SELECT id, project, host, branch, started_at, last_at, ended_at FROM sessions
WHERE (?1 IS NULL OR project IN (SELECT value FROM json_each(?1))) ORDER BY id"""
_INSERT_SESSION: LiteralString = """
INSERT OR IGNORE INTO sessions (id, project, host, branch, started_at, last_at, ended_at)
VALUES (:id, :project, :host, :branch, :started_at, :last_at, :ended_at)"""
_INSERT_OBSERVATION: LiteralString = """
INSERT OR IGNORE INTO observations
    (session_id, project, host, timestamp, obs_type, source_event, tool_name, file_path, content,
     metadata, signature, pinned, event_hash)
VALUES (:session_id, :project, :host, :timestamp, :obs_type, :source_event, :tool_name, :file_path,
     :content, :metadata, :signature, :pinned, :event)"""
_LINK_PROMPT: LiteralString = """
UPDATE observations SET prompt_id = (SELECT id FROM observations WHERE event_hash = ?2)
WHERE event_hash = ?1 AND prompt_id IS NULL"""


def _chosen(projects: Sequence[str] | None) -> str | None:
    return None if projects is None else to_json(list(projects))


def list_months(connection: sqlite3.Connection, projects: Sequence[str] | None) -> list[str]:
    """Return the months that have observations, such as `2026-11`."""
    return [month for (month,) in connection.execute(_MONTHS, (_chosen(projects),))]


def export_observations(
    connection: sqlite3.Connection, month: str, projects: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return the observations of a month, by time."""
    found = []
    for row in dict_rows(connection, _OBSERVATIONS, (month, _chosen(projects))):
        metadata = None if row["metadata"] is None else from_json(row["metadata"])
        found.append({**row, "metadata": metadata, "pinned": bool(row["pinned"])})
    return found


def import_observations(
    connection: sqlite3.Connection, observations: Sequence[dict[str, Any]]
) -> int:
    """Add the observations whose events are not here; return how many.

    Those they were prompted by are linked if they are here or among them.
    """
    added = 0
    for one in observations:
        metadata = None if one["metadata"] is None else to_json(one["metadata"])
        given = {**one, "metadata": metadata, "event": bytes.fromhex(one["event_hash"])}
        added += connection.execute(_INSERT_OBSERVATION, given).rowcount
    links = [
        (bytes.fromhex(one["event_hash"]), bytes.fromhex(one["prompt"]))
        for one in observations
        if one["prompt"]
    ]
    connection.executemany(_LINK_PROMPT, links)
    return added


def export_sessions(
    connection: sqlite3.Connection, projects: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return the sessions by id."""
    return dict_rows(connection, _SESSIONS, (_chosen(projects),))


def import_sessions(connection: sqlite3.Connection, sessions: Sequence[dict[str, Any]]) -> None:
    """Add the sessions that are not here."""
    connection.executemany(_INSERT_SESSION, sessions)


# --- Indexed code, as it is -------------------------------------------------------------

# Each comes after those it refers to. All of it is in local files of one schema.
CODE_TABLES: tuple[LiteralString, ...] = (
    "code_repositories",
    "code_files",
    "code_file_data",
    "code_symbols",
    "code_edges",
    "code_citations",
)


def export_code(
    connection: sqlite3.Connection, table: LiteralString, offset: int, limit: int
) -> list[tuple[Any, ...]]:
    """Return rows of a table of code, in the order of its key."""
    rows = connection.execute(
        "SELECT * FROM " + table + " ORDER BY 1, 2 LIMIT ? OFFSET ?", (limit, offset)
    )
    return rows.fetchall()


def has_other_code(connection: sqlite3.Connection, roots: Sequence[str]) -> bool:
    """Return whether a repository is indexed that is none of these."""
    rows = connection.execute("SELECT root FROM code_repositories")
    return any(root not in roots for (root,) in rows)


def clear_code(connection: sqlite3.Connection) -> None:
    """Delete all indexed code and citations."""
    for table in reversed(CODE_TABLES):
        connection.execute("DELETE FROM " + table)


def import_code(
    connection: sqlite3.Connection, table: LiteralString, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Add rows to a table of code as they are."""
    if rows:
        places: LiteralString = ", ".join(["?"] * len(rows[0]))
        connection.executemany("INSERT INTO " + table + " VALUES (" + places + ")", rows)
