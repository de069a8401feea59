"""Storing events of hooks. Standard library only, and little of it: a hook pays for imports.

The rules of `connection` hold here too; only the busy timeout is shorter: a hook that cannot write
soon leaves its event in the spool instead of keeping an agent waiting.
"""

from __future__ import annotations

import os
import time

from zapomni_db.sqlite import APPLICATION_ID, LATEST_VERSION
from zapomni_db.sqlite.project_folders import RULES_TABLE, is_excluded, note_folder
from zapomni_db.sqlite.project_folders import TABLE as FOLDERS_TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from typing import Any, LiteralString
else:
    # All that `sqlite3` has but its converters of dates, for which it loads `datetime`.
    import _sqlite3 as sqlite3

__all__ = [
    "COURSE",
    "NewerSchemaError",
    "claim_context",
    "connect_for_capture",
    "count_lost",
    "find_first_failure",
    "is_busy",
    "is_damaged",
    "store_captured",
    "store_row",
]

BUSY_MS = 150
REPEAT_SECONDS = 300
# The schema has had these tables since then.
OBSERVATIONS_VERSION = 2
FOLDERS_VERSION = 9
RULES_VERSION = 13

# Errors that a single row can cause; any other one is the database's.
ROW_ERRORS = (
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)

# A new observation, unless its event is stored already.
INSERT_OBSERVATION: LiteralString = """
INSERT OR IGNORE INTO observations
    (session_id, project, host, prompt_id, timestamp, obs_type, source_event, tool_name,
     file_path, content, metadata, signature, event_hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

# A project seen for the first time.
INSERT_PROJECT: LiteralString = """
INSERT OR IGNORE INTO projects (key, name, created_at) VALUES (?, ?, ?)"""

# A session that continues has not ended; one that another event ended stays where it started.
UPSERT_SESSION: LiteralString = """
INSERT INTO sessions (id, project, host, branch, started_at, last_at, ended_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)
ON CONFLICT (id) DO UPDATE SET
    started_at = min(started_at, excluded.started_at),
    last_at = max(last_at, excluded.last_at),
    branch = CASE WHEN excluded.branch != '' THEN excluded.branch ELSE branch END,
    ended_at = CASE
        WHEN excluded.ended_at IS NOT NULL THEN excluded.ended_at
        WHEN ended_at <= excluded.last_at THEN NULL
        ELSE ended_at END"""

# Types that mark the course of a session; one with no other observation is empty.
COURSE: LiteralString = (
    "('session_start', 'session_end', 'session_resume', 'session_clear', 'session_compact')"
)

# Whether anything was done in a session.
HAS_WORK: LiteralString = (
    "SELECT 1 FROM observations WHERE session_id = ? AND (pinned OR +obs_type NOT IN "
    + COURSE
    + ") LIMIT 1"
)

# Whether a session was given its context.
CONTEXT_GIVEN: LiteralString = (
    "SELECT 1 FROM observations WHERE session_id = ? AND +obs_type IN "
    + COURSE
    + " AND json_extract(metadata, '$.context') LIMIT 1"
)

# One statement, so that of two hooks for one event only one succeeds.
MARK_CONTEXT: LiteralString = """
UPDATE observations SET metadata = json_set(coalesce(metadata, '{}'), '$.context', json('true'))
WHERE event_hash = ? AND json_extract(metadata, '$.context') IS NULL"""

# The prompt that a session works on.
LATEST_PROMPT: LiteralString = """
SELECT id FROM observations WHERE session_id = ? AND +obs_type = 'user_prompt'
ORDER BY id DESC LIMIT 1"""

# Adds to a counter of a host.
COUNT: LiteralString = """
INSERT INTO capture_counters (host, name, value, last_at) VALUES (?, ?, ?, ?)
ON CONFLICT (host, name) DO UPDATE SET
    value = value + excluded.value, last_at = max(last_at, excluded.last_at)"""

# The first of a failure's latest appearances in a project, but for an event.
FIRST_FAILURE: LiteralString = """
SELECT min(id) FROM (
    SELECT id, event_hash FROM observations
    WHERE project = ? AND signature = ? ORDER BY id DESC LIMIT 100)
WHERE event_hash IS NOT ?"""

# Whether the event of an observation is stored already.
IS_STORED: LiteralString = "SELECT 1 FROM observations WHERE event_hash = ?"

# Whether a session was given its context with an event.
CONTEXT_OF_EVENT: LiteralString = """
SELECT json_extract(metadata, '$.context') FROM observations WHERE event_hash = ?"""

# A session in which nothing was done.
DELETE_OBSERVATIONS_OF_SESSION: LiteralString = "DELETE FROM observations WHERE session_id = ?"
DELETE_SESSION: LiteralString = "DELETE FROM sessions WHERE id = ?"

# Whether a session has an observation like this one in a span of time, by path or by type.
# The plus signs keep the planner on the index that is narrow for any size of the table.
SEEN_PATH: LiteralString = """
SELECT 1 FROM observations WHERE file_path = ?1 AND timestamp BETWEEN ?2 AND ?3
    AND +session_id = ?4 AND +obs_type = ?5 AND (?6 IS NULL OR content = ?6) LIMIT 1"""

SEEN_TYPE: LiteralString = """
SELECT 1 FROM observations WHERE obs_type = ?5 AND timestamp BETWEEN ?2 AND ?3
    AND +session_id = ?4 AND file_path IS ?1 AND (?6 IS NULL OR content = ?6) LIMIT 1"""


class NewerSchemaError(Exception):
    """The database was made by a newer version of Zapomni; a hook must not write into it."""


class CaptureConnection(sqlite3.Connection):
    """A connection that knows which file it has open, by device and inode."""

    file = ""
    identity: tuple[int, int] | None = None

    def is_current(self) -> bool:
        """Return whether the open file is still the one at the path."""
        return _identity(self.file) == self.identity


def _identity(path: str) -> tuple[int, int] | None:
    # Only stat: to open and close the file would drop this process's locks on it.
    try:
        found = os.stat(path)  # noqa: PTH116 - the hook path does without pathlib
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connect_for_capture(path: str) -> sqlite3.Connection:
    """Open a database that is ready for captures, making it so if it is not.

    Raises:
        sqlite3.Error: It is busy, damaged or cannot be opened.
        NewerSchemaError: A newer version made it.
        ZapomniError: It could not be created or migrated.
    """
    # Opened as an URI, because a plain open would create an empty file of the wrong mode.
    address = (
        "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23") + "?mode=rw"
    )
    identity = _identity(path)
    try:
        connection = _open(address)
    except sqlite3.OperationalError:
        connection = None
    if connection is not None:
        connection.file, connection.identity = path, identity
        try:
            ready = _ready(connection)
        except BaseException:
            connection.close()
            raise
        if ready:
            return connection
        connection.close()
    from pathlib import Path

    from zapomni_db.sqlite.connection import prepare_file

    prepare_file(Path(path))
    identity = _identity(path)
    connection = _open(address)
    connection.file, connection.identity = path, identity
    _set_durability(connection)
    return connection


def _open(address: str) -> CaptureConnection:
    return sqlite3.connect(
        address,
        timeout=BUSY_MS / 1000,
        isolation_level=None,
        uri=True,
        factory=CaptureConnection,
    )


def _set_durability(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    # On macOS an fsync leaves the data in the drive's own memory.
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA checkpoint_fullfsync = ON")


def _ready(connection: sqlite3.Connection) -> bool:
    _set_durability(connection)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    ours = application == APPLICATION_ID
    if ours and version > LATEST_VERSION:
        raise NewerSchemaError
    ready: bool = ours and version >= OBSERVATIONS_VERSION
    if ready and version < FOLDERS_VERSION:
        connection.execute(FOLDERS_TABLE)
    if ready and version < RULES_VERSION:
        connection.execute(RULES_TABLE)
    return ready


def is_busy(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damaged(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def store_captured(
    connection: sqlite3.Connection,
    rows: Sequence[Mapping[str, Any]],
    *,
    from_spool: bool = False,
    seconds: float = 60,
) -> tuple[int, list[int]]:
    """Store rows in order in one transaction; one that cannot be stored does not stop the others.

    A row whose event is stored already, or that repeats a recent one, is dropped.

    Args:
        connection: From `connect_for_capture`.
        rows: As `zapomni record` makes them and the spool stores them.
        from_spool: Whether they waited in the spool.
        seconds: No further row is begun after so long.

    Returns:
        How many rows were processed, from the first, and the positions of those no database takes.

    Raises:
        sqlite3.Error: Nothing was stored, or not in the file at the path.
    """
    processed, refused = 0, []
    until = time.monotonic() + seconds
    connection.execute("BEGIN IMMEDIATE")
    try:
        for position, row in enumerate(rows):
            if position and time.monotonic() > until:
                break
            connection.execute("SAVEPOINT one_row")
            try:
                became = store_row(connection, row)
                _count(connection, row, became, from_spool=from_spool)
            except ROW_ERRORS:
                connection.execute("ROLLBACK TO one_row")
                refused.append(position)
            connection.execute("RELEASE one_row")
            processed += 1
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if isinstance(connection, CaptureConnection) and not connection.is_current():
        # It was stored in a file that was removed or replaced: the caller spools the rows.
        raise sqlite3.OperationalError("the database was replaced")
    return processed, refused


def store_row(
    connection: sqlite3.Connection,
    row: Mapping[str, Any],
    prompts: Sequence[tuple[int, int]] | None = None,
) -> int | str:
    """Store one row in the transaction that is open; return its id, or why it was not stored.

    The reasons: `excluded` (its project is), `empty` (the end of a session in which nothing was
    done), `repeated` (like a recent one), `known` (its event is stored already).

    Args:
        connection: In a transaction for writing.
        row: As `zapomni record` makes them.
        prompts: The times and ids of its session's prompts, sorted, if it did not happen just now.
    """
    folder, identity = row.get("folder") or "", row.get("identity") or ""
    main = row.get("main_folder") or ""
    if is_excluded(connection, row["project"], folder):
        return "excluded"
    project = note_folder(connection, row["project"], folder, identity, main)
    session, when, host = row["session_id"], row["timestamp"], row["host"]
    ended = when if row["obs_type"] == "session_end" else None
    if ended and connection.execute(HAS_WORK, (session,)).fetchone() is None:
        # Hosts report ends of sessions in which nothing was done; `claude mcp list` is one.
        connection.execute(DELETE_OBSERVATIONS_OF_SESSION, (session,))
        connection.execute(DELETE_SESSION, (session,))
        return "empty"
    if project in (row["project"], folder):
        connection.execute(INSERT_PROJECT, (project, row["project_name"], when))
    connection.execute(UPSERT_SESSION, (session, project, host, row["branch"], when, ended))
    event_hash = bytes.fromhex(row["event_hash"])
    if _repeats(connection, row):
        # A second delivery of the same event is no repetition.
        known = connection.execute(IS_STORED, (event_hash,)).fetchone()
        return "repeated" if known is None else "known"
    prompt = None
    if prompts is not None:
        earlier = [found for moment, found in prompts if moment <= when]
        prompt = earlier[-1] if earlier and row["obs_type"] != "user_prompt" else None
    elif row["obs_type"] != "user_prompt":
        (prompt,) = connection.execute(LATEST_PROMPT, (session,)).fetchone() or (None,)
    texts = ("obs_type", "source_event", "tool_name", "file_path", "content", "metadata")
    values = (session, project, host, prompt, when, *(row[name] for name in texts))
    inserted = connection.execute(INSERT_OBSERVATION, (*values, row["signature"], event_hash))
    if not inserted.rowcount:
        return "known"
    if candidates := row.get("candidates"):
        from zapomni_db.sqlite.review_items import add_candidates

        add_candidates(connection, candidates, project, inserted.lastrowid, when)
    stored = inserted.lastrowid
    assert stored is not None
    return stored


def _count(
    connection: sqlite3.Connection, row: Mapping[str, Any], became: int | str, *, from_spool: bool
) -> None:
    """Count what a host delivered."""
    host, when = row["host"], row["timestamp"]
    if became == "repeated":
        connection.execute(COUNT, (host, "repeated", 1, when))
    if isinstance(became, str):
        return
    connection.execute(COUNT, (host, "captured", 1, when))
    if row["redactions"]:
        connection.execute(COUNT, (host, "redacted", row["redactions"], when))
    if from_spool:
        connection.execute(COUNT, (host, "spooled", 1, when))
        connection.execute(COUNT, (host, "drained", 1, when))


def claim_context(connection: sqlite3.Connection, row: Mapping[str, Any], *, lost: bool) -> bool:
    """Return whether the session of this start may be given its context now, and mark it.

    Args:
        connection: From `connect_for_capture`.
        row: The session's start, stored or waiting in the spool.
        lost: Whether the session no longer has the context it was given before.
    """
    if not lost and connection.execute(CONTEXT_GIVEN, (row["session_id"],)).fetchone():
        return False
    event_hash = bytes.fromhex(row["event_hash"])
    try:
        if connection.execute(MARK_CONTEXT, (event_hash,)).rowcount:
            return True
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
    # A row that is marked is a second delivery; one that is missing waits in the spool.
    (given,) = connection.execute(CONTEXT_OF_EVENT, (event_hash,)).fetchone() or (None,)
    return not given


def find_first_failure(
    connection: sqlite3.Connection, project: str, row: Mapping[str, Any]
) -> int | None:
    """Return where the failure of this row appeared first in a project; None if it is new."""
    given = (project, row["signature"], bytes.fromhex(row["event_hash"]))
    first: int | None
    (first,) = connection.execute(FIRST_FAILURE, given).fetchone()
    return first


def _repeats(connection: sqlite3.Connection, row: Mapping[str, Any]) -> bool:
    if not row["repeat"]:
        return False
    when, path = row["timestamp"], row["file_path"]
    content = row["content"] if row["repeat"] == "content" else None
    query = SEEN_TYPE if path is None else SEEN_PATH
    given = (path, when - REPEAT_SECONDS, when, row["session_id"], row["obs_type"], content)
    return connection.execute(query, given).fetchone() is not None


def count_lost(connection: sqlite3.Connection, number: int, when: int) -> None:
    """Count events that were put aside because no database takes them."""
    connection.execute(COUNT, ("spool", "lost", number, when))
