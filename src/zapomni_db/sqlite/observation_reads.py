"""The statements behind recent work, sessions and failures. Standard library only.

A hook process runs them when a session starts, so none may look at more rows than it names.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Any, LiteralString, NamedTuple

from zapomni_db.sqlite.observations_write import COURSE
from zapomni_db.sqlite.project_folders import untrusted_folders

__all__ = [
    "ACTIVE_SESSION",
    "COLUMNS",
    "Fix",
    "Recurring",
    "Row",
    "aliases_of",
    "command_of",
    "count_actions",
    "has_unknown_outcome",
    "newest",
    "recent",
    "recurring_failures",
    "switched_off",
]

Row = tuple[Any, ...]
"""The values of COLUMNS."""

COLUMNS: LiteralString = (
    "id, timestamp, session_id, project, obs_type, source_event, tool_name, content, file_path,"
    " metadata, host, prompt_id, pinned"
)
# Of a session `s`: whether anything was done in it; a start or an end alone is nothing.
ACTIVE_SESSION: LiteralString = (
    "EXISTS (SELECT 1 FROM observations w WHERE w.session_id = s.id AND +w.obs_type NOT IN "
    + COURSE
    + ")"
)
PATH = 8  # Where the path is among the columns.
PROJECT = 3

SCANNED = 5000  # Rows looked at to find enough different files.
RUNS_AFTER = 500  # Rows after a failure among which its command may succeed.
TRIES = 3  # Appearances of a failure that are looked at for a fix.
CHANGES = 3  # Changes named as a fix.


class Fix(NamedTuple):
    """A run that succeeded after a failure, and the changes made in between."""

    run_id: int
    changes: list[int]


class Recurring(NamedTuple):
    """A failure that came back."""

    project: str
    signature: str
    command: str
    times: int
    sessions: int
    first_id: int
    last_id: int
    fix: Fix | None
    still_open: bool


def aliases_of(connection: sqlite3.Connection, key: str) -> list[str]:
    """Return a project's key, by one of its keys, with all its others."""
    row = connection.execute(
        "SELECT project_key FROM project_aliases WHERE alias = ?", (key,)
    ).fetchone()
    main = row[0] if row else key
    others = connection.execute(
        "SELECT alias FROM project_aliases WHERE project_key = ? ORDER BY alias", (main,)
    )
    return [main, *(alias for (alias,) in others if alias != main)]


def switched_off(connection: sqlite3.Connection) -> set[str]:
    """Return the projects whose context is not to be injected."""
    return {key for (key,) in connection.execute("SELECT key FROM projects WHERE injection = 0")}


def newest(
    connection: sqlite3.Connection, projects: Sequence[str] | None, scanned: int
) -> Iterator[Row]:
    """Give rows newest first, a project's or everybody's, at most `scanned` of them."""
    if projects is None:
        yield from connection.execute(
            "SELECT " + COLUMNS + " FROM observations ORDER BY timestamp DESC, id DESC LIMIT ?",
            (scanned,),
        )
        return
    cursors = [
        connection.execute(
            "SELECT " + COLUMNS + " FROM observations WHERE project = ?"
            " ORDER BY timestamp DESC, id DESC LIMIT ?",
            (project, scanned),
        )
        for project in projects
    ]
    if len(cursors) == 1:
        yield from cursors[0]
        return
    rows = merge(*cursors, key=lambda row: (row[1], row[0]), reverse=True)
    yield from (row for _, row in zip(range(scanned), rows, strict=False))


def recent(connection: sqlite3.Connection, projects: Sequence[str] | None, limit: int) -> list[Row]:
    """Return the newest rows, one per file; a project's own first, then others' to fill up.

    Nothing fills up a project without observations, and a folder that is not trusted: these have no
    context.
    """
    seen: set[tuple[str, str]] = set()
    local = _first_per_file(newest(connection, projects, SCANNED), seen, limit)
    if projects is None or not local or len(local) == limit:
        return local
    hidden = untrusted_folders(connection)
    if hidden.intersection(projects):
        return local
    hidden.update(projects)
    others = (row for row in newest(connection, None, SCANNED) if row[PROJECT] not in hidden)
    return local + _first_per_file(others, seen, limit - len(local))


def _first_per_file(rows: Iterable[Row], seen: set[tuple[str, str]], limit: int) -> list[Row]:
    kept: list[Row] = []
    for row in rows:
        if row[PATH] is not None:
            file = (row[PROJECT], row[PATH])
            if file in seen:
                continue
            seen.add(file)
        kept.append(row)
        if len(kept) == limit:
            break
    return kept


def count_actions(connection: sqlite3.Connection, prompts: Sequence[int]) -> dict[int, int]:
    """Return how much was done for each of these prompts, if anything was."""
    marks: LiteralString = ", ".join(["?"] * len(prompts))
    return dict(
        connection.execute(
            "SELECT prompt_id, count(*) FROM observations WHERE prompt_id IN (" + marks + ")"
            " AND id <> prompt_id GROUP BY prompt_id",
            list(prompts),
        ).fetchall()
    )


# --- Failures ---------------------------------------------------------------------------


def command_of(content: str, metadata: str | None) -> str:
    """Return the command an observation is about."""
    if metadata and '"command"' in metadata:
        import json

        try:
            command = json.loads(metadata).get("command")
        except (ValueError, AttributeError):
            command = None
        if isinstance(command, str) and command.strip():
            return command.strip()
    return content.split("\n", 1)[0].strip()


def has_unknown_outcome(metadata: str | None) -> bool:
    """Return whether nothing says how a command ended: it neither failed nor passed."""
    return metadata is not None and '"outcome": "unknown"' in metadata


def recurring_failures(
    connection: sqlite3.Connection, projects: Sequence[str] | None, limit: int
) -> list[Recurring]:
    """Return failures seen more than once, the last one first, with what fixed them."""
    marks: LiteralString = ", ".join(["?"] * len(projects or ()))
    mine: LiteralString = "" if projects is None else "project IN (" + marks + ") AND "
    groups = connection.execute(
        "SELECT project, signature, count(*), min(id), max(id) FROM observations WHERE " + mine +
        "signature IS NOT NULL GROUP BY project, signature HAVING count(*) > 1"
        " ORDER BY max(id) DESC LIMIT ?",
        [*(projects or ()), limit],
    ).fetchall()  # fmt: skip
    return [_recurring(connection, *group) for group in groups]


def _recurring(
    connection: sqlite3.Connection, project: str, signature: str, times: int, first: int, last: int
) -> Recurring:
    rows = connection.execute(
        "SELECT id, session_id, content, metadata, timestamp FROM observations"
        " WHERE project = ? AND signature = ? ORDER BY id DESC LIMIT 100",
        (project, signature),
    ).fetchall()
    command = command_of(rows[0][2], rows[0][3])
    sessions = len({row[1] for row in rows})
    fix = None
    for tried, row in enumerate(rows[:TRIES]):
        # A run after the failure that came next would be that one's fix.
        until = rows[tried - 1][0] if tried else None
        if fix := _fix_after(connection, project, row, command, until):
            break
    still_open = fix is None or fix.run_id < last
    return Recurring(project, signature, command, times, sessions, first, last, fix, still_open)


def _fix_after(
    connection: sqlite3.Connection, project: str, failed: Row, command: str, until: int | None
) -> Fix | None:
    """Find the next successful run of the command, and what was changed before it."""
    rows = connection.execute(
        "SELECT id, obs_type, content, metadata FROM (SELECT id, obs_type,"
        " content, metadata, timestamp FROM observations"
        " WHERE project = ?1 AND timestamp >= ?2 ORDER BY timestamp, id LIMIT ?3)"
        " WHERE obs_type IN ('file_edit', 'file_write') OR obs_type = 'command'"
        " AND (substr(content, 1, length(?4)) = ?4 OR instr(metadata, '\"command\"'))"
        " ORDER BY timestamp, id",
        (project, failed[4], RUNS_AFTER, command),
    )
    changes: list[int] = []
    for rowid, kind, content, metadata in rows:
        if rowid <= failed[0]:
            continue
        if until is not None and rowid >= until:
            return None
        if kind in ("file_edit", "file_write"):
            changes.append(rowid)
        elif not has_unknown_outcome(metadata) and command_of(content, metadata) == command:
            return Fix(rowid, changes[-CHANGES:])
    return None
