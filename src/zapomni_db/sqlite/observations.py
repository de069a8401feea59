"""Observations in the local file: the file itself, and functions over a connection to it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, LiteralString, NamedTuple, ParamSpec, TypeVar

from zapomni_db.exceptions import ValidationError
from zapomni_db.observation_models import (
    ActivityCount,
    CaptureOverview,
    Failure,
    HostActivity,
    KnownProject,
    Observation,
    OutlineStep,
    SessionGroup,
    SessionStory,
    SessionSummary,
    Timeline,
)
from zapomni_db.sqlite import observation_reads as reads
from zapomni_db.sqlite.connection import (
    Connection,
    connect,
    fetch_value,
    prepare_file,
    read_observations_version,
    read_transaction,
    translated,
    write_transaction,
)
from zapomni_db.sqlite.digest import project_names
from zapomni_db.sqlite.observation_search import dict_rows, previews
from zapomni_db.sqlite.project_folders import (
    change_rule,
    list_rules,
    list_untrusted,
    note_folder,
    private_projects,
    untrusted_folders,
)
from zapomni_db.values import from_json, to_json

__all__ = [
    "ObservationFile",
    "Reach",
    "add_matches",
    "count_activity",
    "count_sessions",
    "count_usage",
    "delete_matches",
    "find_project",
    "find_reach",
    "get_capture",
    "get_observations",
    "get_outline",
    "get_session",
    "get_timeline",
    "is_noted",
    "join_projects",
    "list_failures",
    "list_matches",
    "list_projects",
    "list_recent",
    "list_sessions",
    "note_project",
    "open_for_writing",
    "open_read_only",
    "pin_observation",
    "project_keys",
    "rule_project",
    "switch_context",
]

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 2
SCHEMA = 2  # The version that brought observations.
COUNTERS = ("redacted", "spooled", "drained", "lost")

_PRAGMAS = (
    "PRAGMA query_only = ON",
    "PRAGMA busy_timeout = 5000",
    "PRAGMA cache_size = -16384",
    "PRAGMA mmap_size = 268435456",
    "PRAGMA temp_store = MEMORY",
)


# --- The file ---------------------------------------------------------------------------


class ObservationFile:
    """The local file that hooks write to, opened by the first call.

    Reads run on worker threads with a read-only connection each. Until the file exists every
    answer is empty, and the next call checks again; a file that was replaced is opened again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._connections: list[Connection] = []
        self._pool: ThreadPoolExecutor | None = None

    async def close(self) -> None:
        """Close every connection. Safe to call again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)
        # What was read on the caller's own thread opened one without the pool.
        while self._connections:
            self._connections.pop().close()
        self._local = threading.local()

    async def read(
        self,
        empty: T,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function with a connection that cannot write; `empty` if nothing was captured."""
        return await self._run(partial(self.read_here, empty, function, *args, **kwargs))

    def read_here(
        self,
        empty: T,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Read on the caller's own thread: handing a small read to another one costs more."""
        with translated("reading observations", self.path):
            connection = self._reader()
            if connection is None:
                return empty
            with read_transaction(connection):
                return function(connection, *args, **kwargs)

    async def write(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function in one transaction that writes; the file is created if there is none."""

        def run() -> T:
            with open_for_writing(self.path) as connection, write_transaction(connection):
                return function(connection, *args, **kwargs)

        return await self._run(run)

    async def get_version(self) -> tuple[int, ...]:
        """Return numbers that change with observations, whichever process changes them."""
        return self.read_here((), read_observations_version)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="zapomni-observations")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _reader(self) -> Connection | None:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is not None and not connection.is_current():
            self._connections.remove(connection)
            connection.close()
            connection = self._local.connection = None
        if connection is None:
            connection = open_read_only(self.path)
            if connection is not None:
                self._local.connection = connection
                self._connections.append(connection)
        return connection


def open_read_only(path: Path) -> Connection | None:
    """Open a connection that cannot write; None if nothing was captured yet."""
    if not path.is_file():
        return None
    connection = connect(path, read_only=True, pragmas=_PRAGMAS)
    try:
        if fetch_value(connection, "PRAGMA user_version") >= SCHEMA:
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


@contextmanager
def open_for_writing(path: Path) -> Iterator[Connection]:
    """Open the file, created and migrated as needed, for one piece of work."""
    prepare_file(path)
    with translated("writing observations", path), closing(connect(path)) as connection:
        yield connection


# --- Observations and their neighbors -----------------------------------------------------

# Some observations, whole.
BY_IDS: LiteralString = (
    "SELECT " + reads.COLUMNS + " FROM observations WHERE id IN (SELECT value FROM json_each(?))"
)

# What came before an observation in its session, the nearest first. By time: what was imported or
# waited in the spool has a later id than what came after it.
BEFORE: LiteralString = (
    "SELECT " + reads.COLUMNS + " FROM observations"
    " WHERE session_id = ? AND (timestamp, id) < (?, ?) ORDER BY timestamp DESC, id DESC LIMIT ?"
)

# What came after an observation in its session.
AFTER: LiteralString = (
    "SELECT " + reads.COLUMNS + " FROM observations"
    " WHERE session_id = ? AND (timestamp, id) > (?, ?) ORDER BY timestamp, id LIMIT ?"
)

# A session's observations from its first one.
OF_SESSION: LiteralString = (
    "SELECT " + reads.COLUMNS + " FROM observations WHERE session_id = ?"
    " ORDER BY timestamp, id LIMIT ? OFFSET ?"
)

PIN: LiteralString = "UPDATE observations SET pinned = ? WHERE id = ?"


def _observation(row: reads.ObservationRow) -> Observation:
    fields: dict[str, Any] = row._asdict()
    fields["metadata"] = None if row.metadata is None else from_json(row.metadata)
    fields["pinned"] = bool(row.pinned)
    return Observation.model_construct(**fields)


def _select(
    connection: sqlite3.Connection, statement: LiteralString, *values: object
) -> list[Observation]:
    rows = connection.execute(statement, values)
    return [_observation(reads.ObservationRow._make(row)) for row in rows]


def get_observations(connection: sqlite3.Connection, ids: Sequence[int]) -> list[Observation]:
    """Return those of the observations that exist, in the order of `ids`."""
    found = {item.id: item for item in _select(connection, BY_IDS, to_json(list(ids)))}
    return [found[rowid] for rowid in ids if rowid in found]


def get_timeline(
    connection: sqlite3.Connection, anchor_id: int, before: int, after: int
) -> Timeline | None:
    """Return an observation with its neighbors in the same session; None if it does not exist."""
    found = get_observations(connection, [anchor_id])
    if not found:
        return None
    (anchor,) = found
    here = (anchor.session_id, anchor.timestamp, anchor_id)
    earlier = _select(connection, BEFORE, *here, before)
    later = _select(connection, AFTER, *here, after)
    return Timeline(anchor=anchor, before=earlier[::-1], after=later)


def list_recent(
    connection: sqlite3.Connection, projects: Sequence[str] | None, limit: int
) -> list[Observation]:
    """Return the newest observations, one per file; a project's own before all others'."""
    return [_observation(row) for row in reads.recent(connection, projects, limit)]


def list_failures(
    connection: sqlite3.Connection, projects: Sequence[str] | None, limit: int
) -> list[Failure]:
    """Return errors that came back, with what fixed them."""
    failures = []
    for found in reads.recurring_failures(connection, projects, limit):
        fix = found.fix
        (last,) = previews(connection, [found.last_id])
        failures.append(
            Failure(
                project=found.project,
                signature=found.signature,
                command=found.command,
                times=found.times,
                sessions=found.sessions,
                last=last,
                still_open=found.still_open,
                fixed_by=previews(connection, fix.changes) if fix else [],
                passed=previews(connection, [fix.run_id])[0] if fix else None,
            )
        )
    return failures


def pin_observation(connection: sqlite3.Connection, observation_id: int, *, pinned: bool) -> bool:
    """Pin or unpin an observation; False if there is none with this id."""
    return connection.execute(PIN, (int(pinned), observation_id)).rowcount == 1


# --- Sessions ---------------------------------------------------------------------------

SESSION: LiteralString = """
SELECT s.id AS session_id, s.project, coalesce(p.name, s.project) AS project_name, s.host, s.branch,
    s.started_at, s.last_at, s.ended_at
FROM sessions s LEFT JOIN projects p ON p.key = s.project"""

# Sessions in which something was done, the last used first: of projects ?1, of a host ?2, used
# since ?3, begun before ?4; what is NULL limits nothing.
SESSIONS: LiteralString = (
    SESSION + " WHERE (?1 IS NULL OR s.project IN (SELECT value FROM json_each(?1)))"
    " AND (?2 IS NULL OR s.host = ?2) AND (?3 IS NULL OR s.last_at >= ?3)"
    " AND (?4 IS NULL OR s.started_at < ?4) AND "
    + reads.ACTIVE_SESSION
    + " ORDER BY s.last_at DESC, s.id LIMIT ?5 OFFSET ?6"
)

# How many sessions hosts had in projects.
SESSION_GROUPS: LiteralString = (
    "SELECT s.project, s.host, count(*) AS sessions FROM sessions s WHERE "
    + reads.ACTIVE_SESSION
    + " GROUP BY s.project, s.host"
)

# Two sessions whose id begins with a text: more are not needed to know that it is ambiguous.
SESSIONS_BY_PREFIX: LiteralString = SESSION + " WHERE s.id >= ? AND s.id < ? ORDER BY s.id LIMIT 2"

# What was done in a session, in numbers.
SESSION_COUNTS: LiteralString = """
SELECT count(*) AS observations,
    coalesce(sum(obs_type = 'user_prompt'), 0) AS prompts,
    coalesce(sum(obs_type IN ('file_edit', 'file_write')), 0) AS edits,
    coalesce(sum(obs_type = 'command_error' OR signature IS NOT NULL), 0) AS errors,
    coalesce(sum(obs_type = 'git_commit'), 0) AS commits
FROM (SELECT obs_type, signature FROM observations WHERE session_id = ? LIMIT 5000)"""

# The plus keeps SQLite from reading every prompt there is by the index of types.
FIRST_PROMPT: LiteralString = """
SELECT substr(content, 1, 120) FROM observations
WHERE session_id = ? AND +obs_type = 'user_prompt' ORDER BY timestamp, id LIMIT 1"""


def list_sessions(
    connection: sqlite3.Connection,
    projects: Sequence[str] | None,
    limit: int,
    offset: int,
    *,
    host: str | None = None,
    since: int | None = None,
    until: int | None = None,
) -> list[SessionSummary]:
    """Return sessions, the last used first."""
    among = None if projects is None else to_json(list(projects))
    rows = dict_rows(connection, SESSIONS, (among, host, since, until, limit, offset))
    return [_summary(connection, row) for row in rows]


def count_sessions(connection: sqlite3.Connection) -> list[SessionGroup]:
    """Return how many sessions hosts had in projects."""
    return [SessionGroup(**row) for row in dict_rows(connection, SESSION_GROUPS)]


def _summary(connection: sqlite3.Connection, session: dict[str, Any]) -> SessionSummary:
    key = (session["session_id"],)
    (counts,) = dict_rows(connection, SESSION_COUNTS, key)
    prompt = fetch_value(connection, FIRST_PROMPT, key) or ""
    return SessionSummary(**session, **counts, first_prompt=prompt)


def get_session(
    connection: sqlite3.Connection, session_id: str, limit: int, offset: int = 0
) -> SessionStory | None:
    """Return all that was done in a session, in order; None if there is no such session.

    Raises:
        ValidationError: Several sessions begin with this id.
    """
    rows = dict_rows(connection, SESSIONS_BY_PREFIX, (session_id, session_id + "\U0010ffff"))
    if not rows or not session_id:
        return None
    if rows[0]["session_id"] != session_id and len(rows) > 1:
        raise ValidationError("several sessions begin with this id; give more of it", "VAL_003")
    summary = _summary(connection, rows[0])
    observations = _select(connection, OF_SESSION, summary.session_id, limit, offset)
    omitted = max(summary.observations - offset - len(observations), 0)
    return SessionStory(summary=summary, observations=observations, omitted=omitted)


# A session's observations in short, from its first one.
OUTLINE: LiteralString = """
SELECT id, timestamp, obs_type, file_path, prompt_id, pinned,
    coalesce(CASE WHEN obs_type = 'git_commit' AND json_valid(metadata)
        THEN substr(json_extract(metadata, '$.commit_message'), 1, 200) END,
        substr(content, 1, 200)) AS summary,
    obs_type = 'command_error' OR signature IS NOT NULL AS failed,
    CASE WHEN obs_type IN ('command', 'command_error')
        THEN coalesce(metadata, '') END AS command_facts
FROM observations WHERE session_id = ? ORDER BY timestamp, id LIMIT ?"""
OUTLINED = 20_000


def get_outline(connection: sqlite3.Connection, session_id: str) -> list[OutlineStep]:
    """Return the observations of a session in short, in order."""
    steps = []
    for row in dict_rows(connection, OUTLINE, (session_id, OUTLINED)):
        facts = row.pop("command_facts")
        failed = bool(row.pop("failed"))
        is_command = facts is not None
        command = reads.command_of(row["summary"], facts) if is_command else ""
        passed = is_command and not failed and not reads.has_unknown_outcome(facts)
        pinned = bool(row.pop("pinned"))
        steps.append(
            OutlineStep(**row, command=command, failed=failed, passed=passed, pinned=pinned)
        )
    return steps


# --- Projects ---------------------------------------------------------------------------

PROJECTS_BY_NAME: LiteralString = "SELECT key FROM projects WHERE name = ?"
PROJECT_EXISTS: LiteralString = "SELECT 1 FROM projects WHERE key = ?"
ALL_ALIASES: LiteralString = "SELECT alias, project_key FROM project_aliases ORDER BY alias"

# All projects with what is known of each, the last used first.
PROJECTS: LiteralString = (
    "SELECT p.key, p.name, p.injection,"
    " (SELECT count(*) FROM observations o WHERE o.project = p.key) AS observations,"
    " (SELECT count(*) FROM sessions s WHERE s.project = p.key AND "
    + reads.ACTIVE_SESSION
    + ") AS sessions,"
    " (SELECT max(last_at) FROM sessions s WHERE s.project = p.key) AS last_at"
    " FROM projects p ORDER BY last_at DESC NULLS LAST, p.key"
)

# The project's setting whether new sessions are given a context.
SWITCH_CONTEXT: LiteralString = """
INSERT INTO projects (key, name, injection, created_at) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET injection = excluded.injection"""

# Joining ?1 into ?2: its keys, its rows, its sessions, its folders, and the project itself.
JOIN_ALIASES: LiteralString = "UPDATE project_aliases SET project_key = ?2 WHERE project_key = ?1"
JOIN_KEY: LiteralString = "INSERT OR REPLACE INTO project_aliases VALUES (?1, ?2)"
JOIN_OBSERVATIONS: LiteralString = "UPDATE observations SET project = ?2 WHERE project = ?1"
JOIN_SESSIONS: LiteralString = "UPDATE sessions SET project = ?2 WHERE project = ?1"
JOIN_FOLDERS: LiteralString = (
    "UPDATE OR REPLACE project_folders SET project = ?2 WHERE project = ?1"
)
# A rule of either is one of both.
JOIN_RULES: LiteralString = """
INSERT INTO project_rules (project, private, excluded)
SELECT ?2, private, excluded FROM project_rules WHERE project = ?1
ON CONFLICT (project) DO UPDATE SET private = max(private, excluded.private),
    excluded = max(project_rules.excluded, excluded.excluded)"""
DELETE_RULES: LiteralString = "DELETE FROM project_rules WHERE project = ?1"
DELETE_PROJECT: LiteralString = "DELETE FROM projects WHERE key = ?1"

NOTE_PROJECT: LiteralString = """
INSERT INTO projects (key, name, created_at) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING"""
IS_TRUSTED: LiteralString = """
SELECT 1 FROM project_folders WHERE folder = ? AND project = ? AND trusted"""


def project_keys(connection: sqlite3.Connection, name: str) -> list[str]:
    """Return the keys of a project, given one of them, or of all that have this name."""
    keys = reads.aliases_of(connection, name)
    if len(keys) > 1 or connection.execute(PROJECT_EXISTS, keys).fetchone():
        return keys
    # What a folder that is not trusted calls itself must not hide the project of that name.
    hidden = untrusted_folders(connection)
    found = [key for (key,) in connection.execute(PROJECTS_BY_NAME, (name,)) if key not in hidden]
    return [key for one in found for key in reads.aliases_of(connection, one)] or keys


def note_project(
    connection: sqlite3.Connection, key: str, name: str, folder: str, identity: str, main: str
) -> str:
    """Return the project that memories of a folder belong to, and record both."""
    project = note_folder(connection, key, folder, identity, main)
    connection.execute(NOTE_PROJECT, (project, name, int(time.time())))
    return project


def is_noted(connection: sqlite3.Connection, key: str, folder: str) -> bool:
    """Return whether a project is recorded, with this folder if there is one."""
    if connection.execute(PROJECT_EXISTS, (key,)).fetchone() is None:
        return False
    if not folder or folder == key:
        return True
    try:
        return connection.execute(IS_TRUSTED, (folder, key)).fetchone() is not None
    except sqlite3.OperationalError:
        return False  # An older schema.


def find_project(connection: sqlite3.Connection, wanted: str, own: str) -> str:
    """Return the key of the project with this key or name; the name itself if there is none.

    Raises:
        ValidationError: Several have this name, and `own` is none of them.
    """
    found = project_keys(connection, wanted)
    mains = list(dict.fromkeys(reads.aliases_of(connection, key)[0] for key in found))
    if own in mains:
        return own
    if len(mains) > 1:
        raise ValidationError(
            "several projects have this name; give the key, as `zapomni projects` shows it",
            "VAL_003",
        )
    return mains[0]


class Reach(NamedTuple):
    """Which projects may answer a question."""

    projects: list[str] | None
    """What memories and observations of them carry, empty: global; None: all but `hidden`."""
    hidden: list[str] = []
    """Private projects, and folders that are not trusted, other than the asking one."""
    has_elsewhere: bool = False
    """Whether the question was not for a project by name, so that there may be more elsewhere."""


def find_reach(
    connection: sqlite3.Connection, own: str, wanted: str, *, is_bound: bool, is_open: bool
) -> Reach:
    """Return which projects may answer a question.

    Args:
        connection: Any; nothing is written.
        own: The key of the project that asks; empty if none does.
        wanted: A project's key or name; `*` for all; empty for the one that asks and global ones.
        is_bound: Whether it is given its own and global memories, whatever it wants.
        is_open: Whether a private project may be asked for by name.
    """
    if is_bound:
        return Reach([own, ""])
    mine = project_names(connection, own) if own else []
    private = private_projects(connection)
    # Memories may carry a private project's name instead of its key.
    hidden = {name for key in private for name in project_names(connection, key)}
    hidden |= untrusted_folders(connection)
    others = sorted(hidden.difference(mine))
    if not wanted and own:
        return Reach([*mine, ""], others, has_elsewhere=True)
    if wanted in ("", "*"):
        return Reach(None, others)
    named = dict.fromkeys([*project_keys(connection, wanted), wanted])
    return Reach([key for key in named if is_open or key not in others], others)


def list_projects(connection: sqlite3.Connection) -> list[KnownProject]:
    """Return all projects, the last used first."""
    aliases: dict[str, list[str]] = {}
    for alias, key in connection.execute(ALL_ALIASES):
        aliases.setdefault(key, []).append(alias)
    untrusted = list_untrusted(connection)
    rules = list_rules(connection)
    found = []
    for row in dict_rows(connection, PROJECTS):
        private, excluded = rules.get(row["key"], (False, False))
        found.append(
            KnownProject(
                **row,
                private=private,
                excluded=excluded,
                aliases=aliases.get(row["key"], []),
                untrusted_folders=untrusted.get(row["key"], []),
            )
        )
    return found


def join_projects(connection: sqlite3.Connection, other: str, main: str) -> int:
    """Make `other` another key of `main`, now and later; return how many observations moved.

    Raises:
        ValidationError: They are the same, or no project has the key `main`.
    """
    if other == main:
        raise ValidationError("a project cannot be joined with itself", "VAL_004")
    if connection.execute(PROJECT_EXISTS, (main,)).fetchone() is None:
        raise ValidationError("no project has this key; see `zapomni projects`", "VAL_004")
    moved = 0
    for statement in (JOIN_ALIASES, JOIN_KEY, JOIN_OBSERVATIONS, JOIN_SESSIONS, JOIN_FOLDERS):
        changed = connection.execute(statement, (other, main)).rowcount
        moved = changed if statement is JOIN_OBSERVATIONS else moved
    connection.execute(JOIN_RULES, (other, main))
    connection.execute(DELETE_RULES, (other,))
    connection.execute(DELETE_PROJECT, (other,))
    return moved


def switch_context(connection: sqlite3.Connection, key: str, name: str, *, on: bool) -> None:
    """Switch the context of a project's new sessions on or off."""
    main, *_ = reads.aliases_of(connection, key)
    connection.execute(SWITCH_CONTEXT, (main, name, int(on), int(time.time())))


def rule_project(
    connection: sqlite3.Connection, key: str, name: str, rule: str, *, on: bool
) -> None:
    """Make a project `private` or `excluded`, or end that."""
    main, *_ = reads.aliases_of(connection, key)
    if name:
        connection.execute(NOTE_PROJECT, (main, name, int(time.time())))
    change_rule(connection, main, rule, on=on)


ADD_MATCH: LiteralString = """
INSERT INTO project_matches (memory_id, name, project) VALUES (?, ?, ?)
ON CONFLICT (memory_id) DO UPDATE SET project = excluded.project"""
MATCHES: LiteralString = "SELECT memory_id, name, project FROM project_matches ORDER BY memory_id"
DELETE_MATCH: LiteralString = "DELETE FROM project_matches WHERE memory_id = ?"


def add_matches(
    connection: sqlite3.Connection, memory_ids: Sequence[str], name: str, project: str
) -> None:
    """Record that memories are given a project's key because they carried its name."""
    connection.executemany(ADD_MATCH, [(one, name, project) for one in memory_ids])


def list_matches(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return the memories that were given a key, the name each carried, and the key."""
    return connection.execute(MATCHES).fetchall()


def delete_matches(connection: sqlite3.Connection, memory_ids: Sequence[str]) -> None:
    """Forget that memories were given a key."""
    connection.executemany(DELETE_MATCH, [(one,) for one in memory_ids])


# --- Activity ---------------------------------------------------------------------------

# How much was done per project and quarter of an hour: exact days in every time zone.
ACTIVITY: LiteralString = """
SELECT project, timestamp / 900 * 900 AS at, count(*) AS observations FROM observations
WHERE timestamp >= ? AND timestamp < ? GROUP BY project, timestamp / 900 ORDER BY at"""

ALL_OBSERVATIONS: LiteralString = "SELECT count(*) FROM observations"

# What hooks of a host delivered and when; what was imported has sessions alone.
HOST_ACTIVITY: LiteralString = """
SELECT host, max(captured) AS captured, max(sessions) AS sessions, max(last_at) AS last_at FROM (
    SELECT host, value AS captured, 0 AS sessions, last_at FROM capture_counters
    WHERE name = 'captured' AND host <> ''
    UNION ALL SELECT host, 0, count(*), max(last_at) FROM sessions GROUP BY host)
WHERE last_at IS NOT NULL GROUP BY host ORDER BY max(last_at) DESC, host"""


def count_activity(
    connection: sqlite3.Connection, projects: Sequence[str] | None, since: int, until: int
) -> list[ActivityCount]:
    """Return how much was done per project and quarter of an hour, by time."""
    found = [ActivityCount(**row) for row in dict_rows(connection, ACTIVITY, (since, until))]
    return [one for one in found if projects is None or one.project in projects]


def get_capture(connection: sqlite3.Connection) -> CaptureOverview:
    """Return how much is captured, and by which hosts."""
    return CaptureOverview(
        fetch_value(connection, ALL_OBSERVATIONS),
        fetch_value(connection, ACTIVE_SESSIONS),
        [HostActivity(**row) for row in dict_rows(connection, HOST_ACTIVITY)],
    )


# --- Usage ------------------------------------------------------------------------------

USAGE_BY_HOST: LiteralString = """
SELECT host, count(*), max(timestamp) FROM observations GROUP BY host ORDER BY host"""

# What hooks counted; the empty host is the sweep's.
COUNTED: LiteralString = """
SELECT host, name, value, last_at FROM capture_counters WHERE host <> '' ORDER BY host"""
PINNED: LiteralString = "SELECT count(*) FROM observations WHERE pinned = 1"
ACTIVE_SESSIONS: LiteralString = "SELECT count(*) FROM sessions s WHERE " + reads.ACTIVE_SESSION


def count_usage(connection: sqlite3.Connection) -> dict[str, Any]:
    """Count observations, their bytes by type, and what each host delivered."""
    from zapomni_db.sqlite.purging import USAGE_BY_TYPE

    by_type = {
        obs_type: {"count": count, "bytes": int(size)}
        for obs_type, count, size in connection.execute(USAGE_BY_TYPE)
    }
    hosts: dict[str, dict[str, Any]] = {
        host: {"observations": count, "last_at": last_at}
        for host, count, last_at in connection.execute(USAGE_BY_HOST)
    }
    for host, name, value, last_at in connection.execute(COUNTED):
        counters = hosts.setdefault(host, {"observations": 0, "last_at": None})
        counters[name] = value
        if name == "captured" and last_at is not None:
            counters["last_at"] = max(last_at, counters["last_at"] or 0)
    return {
        "total": sum(entry["count"] for entry in by_type.values()),
        "pinned": fetch_value(connection, PINNED),
        "sessions": fetch_value(connection, ACTIVE_SESSIONS),
        "bytes": sum(entry["bytes"] for entry in by_type.values()),
        "by_type": by_type,
        "hosts": hosts,
        **{name: sum(found.get(name, 0) for found in hosts.values()) for name in COUNTERS},
    }
