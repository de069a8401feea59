"""The statements behind recent work, sessions, failures and a session's context.

Standard library only: a hook process runs them when a session starts, so none may read more rows
than it names.
"""

from __future__ import annotations

from zapomni_db.sqlite.observations_write import COURSE
from zapomni_db.sqlite.project_folders import (
    PROJECT_OF_ALIAS,
    hidden_projects,
    untrusted_folders,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence
    from typing import LiteralString, NamedTuple
else:
    from zapomni_db.named_rows import NamedTuple

__all__ = [
    "ACTIVE_SESSION",
    "COLUMNS",
    "Fix",
    "ObservationRow",
    "RecurringFailure",
    "ReturningFailure",
    "aliases_of",
    "branches_of",
    "command_of",
    "count_actions",
    "has_unknown_outcome",
    "names_of_projects",
    "newest",
    "recent",
    "recurring_failures",
    "returning_failure",
    "rows_by_id",
    "switched_off",
]

SCANNED = 5000  # Rows read to find enough different files.
RUNS_AFTER = 500  # Rows after a failure among which its command may succeed.
TRIES = 3  # Appearances of a failure for which a fix is searched.
CHANGES = 3  # Changes named as a fix.


class ObservationRow(NamedTuple):
    """A row of the table `observations`: the values of COLUMNS."""

    id: int
    timestamp: int
    session_id: str
    project: str
    obs_type: str
    source_event: str
    tool_name: str | None
    content: str
    file_path: str | None
    metadata: str | None
    host: str
    prompt_id: int | None
    pinned: int


class Fix(NamedTuple):
    """A run that succeeded after a failure, and the changes made in between."""

    run_id: int
    changes: list[int]


class RecurringFailure(NamedTuple):
    """A failure that happened more than once."""

    project: str
    signature: str
    command: str
    times: int
    sessions: int
    first_id: int
    last_id: int
    fix: Fix | None
    still_open: bool


class ReturningFailure(NamedTuple):
    """What is known about a failure that has just happened again."""

    project: str
    first_id: int
    times: int
    failed: _Failed
    fix: Fix | None


class _Failed(NamedTuple):
    """One appearance of a failure."""

    id: int
    session_id: str
    content: str
    metadata: str | None
    timestamp: int


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

# What agents did. The history of a repository is what its authors wrote: it is searched, and given
# to no session unasked.
OF_AGENTS: LiteralString = "host <> 'git-history'"

# The newest observations of all projects.
NEWEST: LiteralString = (
    "SELECT " + COLUMNS + " FROM observations WHERE " + OF_AGENTS
    + " ORDER BY timestamp DESC, id DESC LIMIT ?"
)  # fmt: skip

# The newest observations of one project.
NEWEST_OF_PROJECT: LiteralString = (
    "SELECT " + COLUMNS + " FROM observations WHERE project = ? AND " + OF_AGENTS
    + " ORDER BY timestamp DESC, id DESC LIMIT ?"
)  # fmt: skip

# One observation; few ids are asked for, one after the other.
BY_ID: LiteralString = "SELECT " + COLUMNS + " FROM observations WHERE id = ?"

# All other keys of a project.
ALIASES: LiteralString = "SELECT alias FROM project_aliases WHERE project_key = ? ORDER BY alias"

# Projects whose context is switched off.
SWITCHED_OFF: LiteralString = "SELECT key FROM projects WHERE injection = 0"

# What projects are called, by each of their keys.
PROJECT_NAMES: LiteralString = """
SELECT key, name FROM projects
UNION ALL SELECT a.alias, p.name FROM project_aliases a JOIN projects p ON p.key = a.project_key"""

# The branch a session was on.
BRANCH: LiteralString = "SELECT branch FROM sessions WHERE id = ?"

# The latest appearances of a failure.
APPEARANCES: LiteralString = """
SELECT id, session_id, content, metadata, timestamp FROM observations
WHERE project = ? AND signature = ? ORDER BY id DESC LIMIT 100"""

# The observation of an event.
EVENT_ID: LiteralString = "SELECT id FROM observations WHERE event_hash = ?"

# Edits, and runs of commands that may be the one given, after a moment.
RUNS: LiteralString = """
SELECT id, obs_type, content, metadata FROM (
    SELECT id, obs_type, content, metadata, timestamp FROM observations
    WHERE project = ?1 AND timestamp >= ?2 ORDER BY timestamp, id LIMIT ?3)
WHERE obs_type IN ('file_edit', 'file_write') OR obs_type = 'command'
    AND (substr(content, 1, length(?4)) = ?4 OR instr(metadata, '"command"'))
ORDER BY timestamp, id"""


# Commands that succeeded between two observations, the last ones first: by id, so that a hook reads
# what is in between and not every command there is.
COMMANDS_BETWEEN: LiteralString = """
SELECT id, content, metadata FROM observations NOT INDEXED
WHERE project = ? AND id > ? AND id < ? AND obs_type = 'command' AND signature IS NULL
ORDER BY id DESC LIMIT 20"""


def aliases_of(connection: sqlite3.Connection, key: str) -> list[str]:
    """Return a project's key, given any of its keys, followed by its other keys."""
    found = connection.execute(PROJECT_OF_ALIAS, (key,)).fetchone()
    (main,) = found or (key,)
    others = connection.execute(ALIASES, (main,))
    return [main, *(alias for (alias,) in others if alias != main)]


def switched_off(connection: sqlite3.Connection) -> set[str]:
    """Return the projects whose context is not to be injected."""
    return {key for (key,) in connection.execute(SWITCHED_OFF)}


def names_of_projects(connection: sqlite3.Connection) -> dict[str, str]:
    """Return what each project is called, by its key."""
    return dict(connection.execute(PROJECT_NAMES).fetchall())


def branches_of(connection: sqlite3.Connection, sessions: Iterable[str]) -> dict[str, str]:
    """Return the branch of each of these sessions that exists."""
    branches: dict[str, str] = {}
    for session in sessions:
        if found := connection.execute(BRANCH, (session,)).fetchone():
            (branches[session],) = found
    return branches


def rows_by_id(connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, ObservationRow]:
    """Return those of the rows that exist."""
    found = (connection.execute(BY_ID, (rowid,)).fetchone() for rowid in ids)
    return {row.id: row for row in (ObservationRow._make(values) for values in found if values)}


def newest(
    connection: sqlite3.Connection, projects: Sequence[str] | None, scanned: int
) -> Iterator[ObservationRow]:
    """Yield rows newest first, of some projects or of all, at most `scanned` of them."""
    if projects is None:
        cursors = [connection.execute(NEWEST, (scanned,))]
    else:
        given = [(project, scanned) for project in projects]
        cursors = [connection.execute(NEWEST_OF_PROJECT, values) for values in given]
    rows = [map(ObservationRow._make, cursor) for cursor in cursors]
    if len(rows) == 1:
        return rows[0]
    from heapq import merge  # a hook pays for imports
    from itertools import islice

    return islice(merge(*rows, key=lambda row: (row.timestamp, row.id), reverse=True), scanned)


def recent(
    connection: sqlite3.Connection, projects: Sequence[str] | None, limit: int
) -> list[ObservationRow]:
    """Return the newest rows, one per file; a project's own first, then others' to fill up.

    A project without observations and a folder that is not trusted are not filled up.
    """
    seen: set[tuple[str, str]] = set()
    local = _first_per_file(newest(connection, projects, SCANNED), seen, limit)
    if projects is None or not local or len(local) == limit:
        return local
    if untrusted_folders(connection).intersection(projects):
        return local
    hidden = hidden_projects(connection).union(projects)
    others = (row for row in newest(connection, None, SCANNED) if row.project not in hidden)
    return local + _first_per_file(others, seen, limit - len(local))


def _first_per_file(
    rows: Iterable[ObservationRow], seen: set[tuple[str, str]], limit: int
) -> list[ObservationRow]:
    chosen: list[ObservationRow] = []
    for row in rows:
        if row.file_path is not None:
            file = (row.project, row.file_path)
            if file in seen:
                continue
            seen.add(file)
        chosen.append(row)
        if len(chosen) == limit:
            break
    return chosen


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


def commands_between(
    connection: sqlite3.Connection, project: str, after: int, before: int
) -> list[tuple[int, str]]:
    """Return ids and texts of the commands that succeeded in between, the last ones first."""
    rows = connection.execute(COMMANDS_BETWEEN, (project, after, before)).fetchall()
    return [
        (rowid, command_of(content, metadata))
        for rowid, content, metadata in rows
        if not has_unknown_outcome(metadata)
    ]


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
    """Return whether a command neither failed nor passed, as far as its host reported."""
    return metadata is not None and '"outcome": "unknown"' in metadata


def recurring_failures(
    connection: sqlite3.Connection, projects: Sequence[str] | None, limit: int
) -> list[RecurringFailure]:
    """Return failures seen more than once, the last one first, with what fixed them."""
    marks: LiteralString = ", ".join(["?"] * len(projects or ()))
    among: LiteralString = "" if projects is None else "project IN (" + marks + ") AND "
    groups = connection.execute(
        "SELECT project, signature, count(*), min(id), max(id) FROM observations WHERE " + among +
        "signature IS NOT NULL GROUP BY project, signature HAVING count(*) > 1"
        " ORDER BY max(id) DESC LIMIT ?",
        [*(projects or ()), limit],
    ).fetchall()  # fmt: skip
    found = []
    for project, signature, times, first, last in groups:
        appearances = [
            _Failed._make(row) for row in connection.execute(APPEARANCES, (project, signature))
        ]
        command = command_of(appearances[0].content, appearances[0].metadata)
        sessions = len({failed.session_id for failed in appearances})
        fix = until = None
        for failed in appearances[:TRIES]:
            # A run after the next appearance of the failure would be that one's fix.
            if fix := _fix_after(connection, project, failed, command, until):
                break
            until = failed.id
        still_open = fix is None or fix.run_id < last
        found.append(
            RecurringFailure(
                project, signature, command, times, sessions, first, last, fix, still_open
            )
        )
    return found


def returning_failure(
    connection: sqlite3.Connection, projects: Sequence[str], signature: str, event_hash: str
) -> ReturningFailure | None:
    """Return what came of a failure that has happened before; None if it is new.

    Args:
        connection: The local file.
        projects: The keys of the project.
        signature: Of the failure.
        event_hash: The event that has just reported it, stored or not.
    """
    (now,) = connection.execute(EVENT_ID, (bytes.fromhex(event_hash),)).fetchone() or (None,)
    for project in projects:
        appearances = [
            failed
            for failed in map(
                _Failed._make, connection.execute(APPEARANCES, (project, signature)).fetchall()
            )
            if failed.id != now
        ]
        if not appearances:
            continue
        until = now
        for failed in appearances[: 2 * TRIES]:
            command = command_of(failed.content, failed.metadata)
            # A run after the next appearance of the failure would be that one's fix.
            if fix := _fix_after(connection, project, failed, command, until):
                return ReturningFailure(project, appearances[-1].id, len(appearances), failed, fix)
            until = failed.id
        return ReturningFailure(project, appearances[-1].id, len(appearances), appearances[0], None)
    return None


def _fix_after(
    connection: sqlite3.Connection, project: str, failed: _Failed, command: str, until: int | None
) -> Fix | None:
    """Find the next successful run of the command, and what was changed before it."""
    changes: list[int] = []
    rows = connection.execute(RUNS, (project, failed.timestamp, RUNS_AFTER, command))
    for rowid, obs_type, content, metadata in rows:
        if rowid <= failed.id:
            continue
        if until is not None and rowid >= until:
            return None
        if obs_type in ("file_edit", "file_write"):
            changes.append(rowid)
        elif not has_unknown_outcome(metadata) and command_of(content, metadata) == command:
            return Fix(rowid, changes[-CHANGES:])
    return None
