"""SqliteObservations: what agents did, on a connection that cannot write."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from zapomni_db.exceptions import NotFoundError, ValidationError
from zapomni_db.observation_models import (
    Failure,
    Observation,
    ObservationMatch,
    ObservationPreview,
    ObservationQuery,
    SessionStory,
    SessionSummary,
    Timeline,
)
from zapomni_db.sqlite import observation_reads as reads
from zapomni_db.sqlite.connection import (
    Connection,
    connect,
    prepare_file,
    read_transaction,
    translated,
    write_transaction,
)
from zapomni_db.sqlite.observation_search import MAX_LIMIT, check, match, previews, search
from zapomni_db.sqlite.project_folders import project_for, untrusted_folders
from zapomni_db.values import from_json, to_json

__all__ = ["SqliteObservations", "connect_read_only", "set_injection"]

T = TypeVar("T")

THREADS = 2
MAX_IDS = 50
MAX_NEIGHBOURS = 100
SCHEMA = 2  # The version that brought observations.

_PRAGMAS = (
    "PRAGMA query_only = ON",
    "PRAGMA busy_timeout = 5000",
    "PRAGMA cache_size = -16384",
    "PRAGMA mmap_size = 268435456",
    "PRAGMA temp_store = MEMORY",
)


def connect_read_only(path: Path) -> Connection | None:
    """Open a connection that cannot write; None if nothing was captured yet."""
    if not path.is_file():
        return None
    connection = connect(path, read_only=True, pragmas=_PRAGMAS)
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] >= SCHEMA:
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


def set_injection(path: Path, key: str, name: str, *, on: bool) -> None:
    """Switch the context at a session's start on or off for a project."""
    prepare_file(path)
    with translated("switching"):
        connection = connect(path)
        try:
            with write_transaction(connection):
                key = reads.aliases_of(connection, key)[0]
                connection.execute(
                    "INSERT INTO projects (key, name, injection, created_at) VALUES (?, ?, ?, ?)"
                    " ON CONFLICT (key) DO UPDATE SET injection = excluded.injection",
                    (key, name, int(on), int(time.time())),
                )
        finally:
            connection.close()


class SqliteObservations:
    """The ObservationStore on the file `zapomni record` writes to.

    Calls run on worker threads with a read-only connection each. Until the file exists every
    answer is empty, and the next call looks again; a file that was replaced is opened again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._connections: list[Connection] = []
        self._pool: ThreadPoolExecutor | None = None
        self._watching = threading.Lock()
        self._watcher: Connection | None = None
        self._watched = 0

    async def close(self) -> None:
        """Close every connection. Safe to call again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)
            while self._connections:
                self._connections.pop().close()
            self._local = threading.local()
        with self._watching:
            if self._watcher is not None:
                self._watcher.close()
                self._watcher = None

    async def project_keys(self, name: str) -> list[str]:
        """Return the keys a project is kept under, given one of them or its name."""
        name = name.encode("utf-8", "replace").decode()
        return await self._read("reading", lambda db: _project_keys(db, name), [name])

    async def folder_project(
        self, key: str, folder: str, identity: str, main: str
    ) -> tuple[str, bool]:
        """Return the project whose observations a folder is given, and whether it is trusted."""
        return await self._read(
            "reading", lambda db: project_for(db, key, folder, identity, main), (key, True)
        )

    async def search(self, query: ObservationQuery) -> list[ObservationPreview]:
        """Return the observations that match, best first."""
        # Checked here too: a wrong query is wrong before anything was captured as well.
        check(query)
        return await self._read("searching", lambda db: search(db, query), [])

    async def match(self, terms: Sequence[str], query: ObservationQuery) -> list[ObservationMatch]:
        """Return observations that have any of the terms, best first."""
        return await self._read("searching", lambda db: match(db, terms, query), [])

    async def get_version(self) -> int:
        """Return a number that changes with every write by any process."""
        with self._watching, translated("watching", self.path):
            if self._watcher is not None and not self._watcher.is_current():
                self._watcher.close()
                self._watcher = None
            if self._watcher is None:
                self._watcher = connect_read_only(self.path)
                self._watched += 1
            if self._watcher is None:
                return 0
            # Another file begins to count anew.
            version = int(self._watcher.execute("PRAGMA data_version").fetchone()[0])
            return self._watched << 40 | version

    async def get_observations(self, ids: Sequence[int]) -> list[Observation]:
        """Return those of the observations that exist, in the order of `ids`."""
        if not ids:
            raise ValidationError("ids array must not be empty", "VAL_001")
        if len(ids) > MAX_IDS:
            raise ValidationError(f"at most {MAX_IDS} ids per request", "VAL_003")
        return await self._read("reading", lambda db: _by_ids(db, ids), [])

    async def timeline(self, anchor: int, before: int = 5, after: int = 5) -> Timeline:
        """Return an observation with its neighbours in the same session."""
        found = await self._read("reading", lambda db: _timeline(db, anchor, before, after), None)
        if found is None:
            raise NotFoundError("anchor observation not found")
        return found

    async def recent(self, projects: Sequence[str] | None, limit: int = 30) -> list[Observation]:
        """Return what was done last, newest first; a project's own before all others'."""
        capped = _capped(limit)
        return await self._read(
            "reading", lambda db: [_observation(r) for r in reads.recent(db, projects, capped)], []
        )

    async def sessions(
        self, projects: Sequence[str] | None, limit: int = 20, offset: int = 0
    ) -> list[SessionSummary]:
        """Return sessions, the last used first."""
        capped = _capped(limit)
        return await self._read("reading", lambda db: _sessions(db, projects, capped, offset), [])

    async def session(self, session_id: str, limit: int = 500) -> SessionStory:
        """Return all that was done in a session, in order."""
        session_id = session_id.encode("utf-8", "replace").decode()
        story = await self._read("reading", lambda db: _story(db, session_id, limit), None)
        if story is None:
            raise NotFoundError("session not found")
        return story

    async def failures(self, projects: Sequence[str] | None, limit: int = 10) -> list[Failure]:
        """Return errors that came back, with what fixed them."""
        capped = _capped(limit)
        return await self._read(
            "reading",
            lambda db: [
                _failure(db, found) for found in reads.recurring_failures(db, projects, capped)
            ],
            [],
        )

    async def _read(self, operation: str, work: Callable[[sqlite3.Connection], T], empty: T) -> T:
        def run() -> T:
            with translated(operation, self.path):
                connection = self._connection()
                if connection is None:
                    return empty
                with read_transaction(connection):
                    return work(connection)

        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="zapomni-observations")
        return await asyncio.get_running_loop().run_in_executor(self._pool, run)

    def _connection(self) -> Connection | None:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is not None and not connection.is_current():
            self._connections.remove(connection)
            connection.close()
            connection = self._local.connection = None
        if connection is None:
            connection = connect_read_only(self.path)
            if connection is not None:
                self._local.connection = connection
                self._connections.append(connection)
        return connection


def _capped(limit: int) -> int:
    if limit < 1:
        raise ValidationError("limit must be at least 1", "VAL_003")
    return min(limit, MAX_LIMIT)


# --- One observation and its neighbours ---------------------------------------------------

_SELECT = "SELECT " + reads.COLUMNS + " FROM observations WHERE "


def _observation(values: tuple[Any, ...]) -> Observation:
    row = reads.ObservationRow._make(values)
    fields: dict[str, Any] = row._asdict()
    fields["metadata"] = None if row.metadata is None else from_json(row.metadata)
    fields["pinned"] = bool(row.pinned)
    return Observation.model_construct(**fields)


def _by_ids(connection: sqlite3.Connection, ids: Sequence[int]) -> list[Observation]:
    rows = connection.execute(
        _SELECT + "id IN (SELECT value FROM json_each(?))", (to_json(list(ids)),)
    )
    found = {row[0]: _observation(row) for row in rows}
    return [found[rowid] for rowid in ids if rowid in found]


def _timeline(
    connection: sqlite3.Connection, anchor: int, before: int, after: int
) -> Timeline | None:
    if before < 0 or after < 0:
        raise ValidationError("before and after must not be negative", "VAL_003")
    before, after = min(before, MAX_NEIGHBOURS), min(after, MAX_NEIGHBOURS)
    found = _by_ids(connection, [anchor])
    if not found:
        return None
    session = found[0].session_id
    earlier = connection.execute(
        _SELECT + "session_id = ? AND id < ? ORDER BY id DESC LIMIT ?", (session, anchor, before)
    ).fetchall()
    later = connection.execute(
        _SELECT + "session_id = ? AND id > ? ORDER BY id LIMIT ?", (session, anchor, after)
    )
    return Timeline(
        anchor=found[0],
        before=[_observation(row) for row in reversed(earlier)],
        after=[_observation(row) for row in later],
    )


# --- Projects, sessions, failures -----------------------------------------------------------


def _project_keys(connection: sqlite3.Connection, name: str) -> list[str]:
    keys = reads.aliases_of(connection, name)
    known = connection.execute("SELECT 1 FROM projects WHERE key = ?", (keys[0],)).fetchone()
    if known or len(keys) > 1:
        return keys
    named = connection.execute("SELECT key FROM projects WHERE name = ?", (name,))
    # What a folder that is not trusted calls itself must not hide the project of that name.
    hidden = untrusted_folders(connection)
    found = [key for (key,) in named if key not in hidden]
    if len(found) > 1:
        raise ValidationError(
            "several projects have this name; give the project's key, as observations show it",
            "VAL_003",
        )
    return reads.aliases_of(connection, found[0]) if found else keys


_SESSION = (
    "SELECT s.id, s.project, coalesce(p.name, s.project), s.host, s.branch, s.started_at,"
    " s.last_at, s.ended_at FROM sessions s LEFT JOIN projects p ON p.key = s.project"
)
_COUNTS = (
    "SELECT count(*), coalesce(sum(obs_type = 'user_prompt'), 0),"
    " coalesce(sum(obs_type IN ('file_edit', 'file_write')), 0),"
    " coalesce(sum(obs_type = 'command_error' OR signature IS NOT NULL), 0),"
    " coalesce(sum(obs_type = 'git_commit'), 0)"
    " FROM (SELECT obs_type, signature FROM observations WHERE session_id = ? LIMIT 5000)"
)
_FIRST_PROMPT = (
    "SELECT substr(content, 1, 120) FROM observations"
    " WHERE session_id = ? AND obs_type = 'user_prompt' ORDER BY id LIMIT 1"
)


def _sessions(
    connection: sqlite3.Connection, projects: Sequence[str] | None, limit: int, offset: int
) -> list[SessionSummary]:
    if projects is None:
        rows = connection.execute(
            _SESSION + " WHERE " + reads.ACTIVE_SESSION + " ORDER BY s.last_at DESC, s.id"
            " LIMIT ? OFFSET ?",
            (limit, offset),
        )
    else:
        rows = connection.execute(
            _SESSION
            + " WHERE s.project IN (SELECT value FROM json_each(?)) AND "
            + reads.ACTIVE_SESSION
            + " ORDER BY s.last_at DESC, s.id LIMIT ? OFFSET ?",
            (to_json(list(projects)), limit, offset),
        )
    return [_summary(connection, row) for row in rows.fetchall()]


def _summary(connection: sqlite3.Connection, row: tuple[Any, ...]) -> SessionSummary:
    counts = connection.execute(_COUNTS, (row[0],)).fetchone()
    prompt = connection.execute(_FIRST_PROMPT, (row[0],)).fetchone()
    fields = (*row, *counts, prompt[0] if prompt else "")
    return SessionSummary(**dict(zip(SessionSummary.model_fields, fields, strict=True)))


def _story(connection: sqlite3.Connection, session_id: str, limit: int) -> SessionStory | None:
    rows = connection.execute(
        _SESSION + " WHERE s.id >= ? AND s.id < ? ORDER BY s.id LIMIT 2",
        (session_id, session_id + "\U0010ffff"),
    ).fetchall()
    if not rows or not session_id:
        return None
    if rows[0][0] != session_id and len(rows) > 1:
        raise ValidationError("several sessions begin with this id; give more of it", "VAL_003")
    summary = _summary(connection, rows[0])
    told = connection.execute(
        _SELECT + "session_id = ? ORDER BY id LIMIT ?", (summary.session_id, limit)
    )
    observations = [_observation(row) for row in told]
    omitted = max(summary.observations - len(observations), 0)
    return SessionStory(summary=summary, observations=observations, omitted=omitted)


def _failure(connection: sqlite3.Connection, found: reads.RecurringFailure) -> Failure:
    fix = found.fix
    (last,) = previews(connection, [found.last_id])
    return Failure(
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
