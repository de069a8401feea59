"""The recall log: what was given to agents and people, when, and whether it was used.

A file of its own, `recalls.db` in the home folder: a recall neither waits for those who write
memories nor changes the file whose changes empty the cache of answers. Losing a row is better than
a slow or failed recall: what cannot be written at once is dropped, and no function here that
records or reads for a hook raises. Standard library only: hooks import this.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH108, PTH110, PTH112, PTH118

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, LiteralString

    Item = tuple[str, str, int, float | None]
    Redact = Callable[[str], tuple[str, int]]
else:
    import _sqlite3 as sqlite3  # without `datetime`, which a hook does not need

__all__ = [
    "RECALLS",
    "UNUSED_AFTER",
    "ItemFeedback",
    "Recall",
    "RecallUse",
    "adopt_recalls",
    "feedback",
    "given_in_session",
    "open_log",
    "purge_recalls",
    "recalled_items",
    "record_batch",
    "record_recall",
    "record_use",
    "scrub_log",
    "sweep_recalls",
    "unused_items",
]

RECALLS = "recalls.db"
"""The log's name in the home folder."""

UNUSED_AFTER = 5
"""Given in this many sessions and used in none, an item counts as not useful."""

# A hook waits no longer for another writer.
BUSY_SECONDS = 0.05
# What is used later than this was not used because it was given.
USED_WITHIN = 86_400
# A turn that lasts longer loses what tools gave at its beginning.
ADOPTED_WITHIN = 6 * 3_600
MOST_QUERY_CHARS = 2_000
MOST_AT_ONCE = 1_000
VERSION = 1

_SCHEMA: tuple[LiteralString, ...] = (
    """
CREATE TABLE recalls (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,  -- seconds since 1970
    client  TEXT NOT NULL,     -- the host or program that asked
    session TEXT NOT NULL,     -- '': not known
    project TEXT NOT NULL,     -- its key; '': none
    how     TEXT NOT NULL,     -- session_start, prompt, failure, tool, command or page
    query   TEXT NOT NULL,     -- without secrets
    tokens  INTEGER NOT NULL
)""",
    "CREATE INDEX recalls_by_time ON recalls (at)",
    "CREATE INDEX recalls_by_session ON recalls (session, at)",
    """
CREATE TABLE recall_items (
    recall_id INTEGER NOT NULL REFERENCES recalls (id) ON DELETE CASCADE,
    position  INTEGER NOT NULL,  -- 1 is the first
    item      TEXT NOT NULL,     -- id of the memory or observation
    kind      TEXT NOT NULL,     -- memory or observation
    tokens    INTEGER NOT NULL,
    evidence  REAL,
    used_at   INTEGER,
    used_how  TEXT,              -- opened, cited or named
    PRIMARY KEY (recall_id, position)
) WITHOUT ROWID""",
    "CREATE INDEX recall_items_by_item ON recall_items (item, recall_id)",
)


class Recall:
    """Items given on one occasion."""

    __slots__ = ("client", "how", "items", "moment", "project", "query", "session")

    def __init__(
        self,
        moment: float,
        client: str,
        session: str,
        project: str,
        how: str,
        query: str,
        items: Iterable[Item],
    ) -> None:
        """Describe a recall.

        Args:
            moment: Seconds since 1970.
            client: The host or program.
            session: Its id; empty if it is not known.
            project: Its key; empty for none.
            how: session_start, prompt, failure, tool, command or page.
            query: What was asked; empty at the start of a session.
            items: Id, kind (memory or observation), tokens and evidence, best first.
        """
        self.moment = moment
        self.client = client
        self.session = session
        self.project = project
        self.how = how
        self.query = query
        self.items = list(items)


class RecallUse:
    """Items that were opened, cited or named."""

    __slots__ = ("how", "items", "moment", "session")

    def __init__(self, moment: float, session: str, how: str, items: Iterable[str]) -> None:
        """Describe a use; without a session it counts for every recall of the last day."""
        self.moment = moment
        self.session = session
        self.how = how
        self.items = list(items)


class ItemFeedback:
    """In how many sessions an item was given unasked, and how often it was used after it was given.

    Given on any occasion and used counts as used; only what was given unasked counts as given.
    """

    __slots__ = ("given", "used")

    def __init__(self, given: int = 0, used: int = 0) -> None:
        self.given = given
        self.used = used

    @property
    def is_unused(self) -> bool:
        """Whether it was given often enough and never used."""
        return not self.used and self.given >= UNUSED_AFTER


# --- Writing ------------------------------------------------------------------------------

_INSERT: LiteralString = """
INSERT INTO recalls (at, client, session, project, how, query, tokens)
VALUES (?, ?, ?, ?, ?, ?, ?)"""
_INSERT_ITEM: LiteralString = """
INSERT INTO recall_items (recall_id, position, item, kind, tokens, evidence)
VALUES (?, ?, ?, ?, ?, ?)"""

# An item counts as used in the recalls of its session, and in those whose session is not known.
_USE: LiteralString = """
UPDATE recall_items SET used_at = ?1, used_how = ?2
WHERE item IN (SELECT value FROM json_each(?3)) AND used_at IS NULL AND recall_id IN
    (SELECT id FROM recalls WHERE at BETWEEN ?1 - ?4 AND ?1 + 1
        AND (session = ?5 OR session = '' OR ?5 = ''))"""

# A client's name begins with the host's or contains it: claude-code, codex-mcp-client.
_ADOPT: LiteralString = """
UPDATE recalls SET session = ? WHERE session = '' AND how = 'tool' AND project = ? AND at >= ?
    AND instr(lower(client), ?) > 0"""

_DELETE_ITEMS_BEFORE: LiteralString = """
DELETE FROM recall_items WHERE recall_id IN (SELECT id FROM recalls WHERE at < ?)"""
_DELETE_BEFORE: LiteralString = "DELETE FROM recalls WHERE at < ?"

_SELECT_MATCHING: LiteralString = "SELECT id FROM recalls WHERE "
# Recalls that gave one of these items.
_SELECT_GIVEN: LiteralString = """
SELECT DISTINCT recall_id FROM recall_items WHERE item IN (SELECT value FROM json_each(?))"""
_DELETE_ITEMS: LiteralString = """
DELETE FROM recall_items WHERE recall_id IN (SELECT value FROM json_each(?))"""
_DELETE: LiteralString = "DELETE FROM recalls WHERE id IN (SELECT value FROM json_each(?))"


def record_recall(home: str, recall: Recall, redact: Redact) -> bool:
    """Write one recall; return whether it was written. Never raises, hardly ever waits.

    Args:
        home: The home folder.
        recall: What was given; one without items is not written.
        redact: `Redactor.redact`: secrets in the query are masked first.
    """
    return record_batch(home, [recall], redact)


def record_use(home: str, use: RecallUse) -> bool:
    """Count items as used if they were given before; return whether it was written."""
    # There is no secret in an id.
    return record_batch(home, [use], lambda text: (text, 0))


def record_batch(
    home: str,
    entries: Sequence[Recall | RecallUse],
    redact: Redact,
    *,
    wait: float = BUSY_SECONDS,
) -> bool:
    """Write several recalls and uses at once, in their order; return whether they were written."""
    entries = [entry for entry in entries if entry.items]
    if not entries:
        return False
    try:
        connection = open_log(home, wait=wait)
        if connection is None:
            return False
        try:
            connection.execute("BEGIN IMMEDIATE")
            for entry in entries:
                if isinstance(entry, Recall):
                    _write(connection, entry, redact)
                else:
                    at, given = int(entry.moment), _list(entry.items)
                    values = (at, entry.how, given, USED_WITHIN, entry.session)
                    connection.execute(_USE, values)
            connection.execute("COMMIT")
        finally:
            connection.close()  # undoes what was not committed
    except (sqlite3.Error, OSError, ValueError):
        return False
    return True


def _write(connection: sqlite3.Connection, recall: Recall, redact: Redact) -> None:
    tokens = sum(tokens for _, _, tokens, _ in recall.items)
    # Cut after masking: the rest of a secret would not be recognized.
    query = redact(recall.query)[0][:MOST_QUERY_CHARS] if recall.query else ""
    texts = (recall.client, recall.session, recall.project, recall.how, query)
    row = (
        int(recall.moment),
        *(text.encode("utf-8", "replace").decode() for text in texts),
        tokens,
    )
    key = connection.execute(_INSERT, row).lastrowid
    connection.executemany(
        _INSERT_ITEM,
        [(key, place, *item) for place, item in enumerate(recall.items, 1)],
    )


def _list(values: Iterable[str | int]) -> str:
    import json  # a hook that only records a recall does without

    return json.dumps(list(values))


def sweep_recalls(home: str, days: int, now: float) -> int:
    """Delete recalls that are older than this many days, 0 for none; return how many."""
    if not days:
        return 0
    try:
        connection = open_log(home, create=False)
        if connection is None:
            return 0
        before = int(now) - days * 86_400
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_DELETE_ITEMS_BEFORE, (before,))
            deleted = connection.execute(_DELETE_BEFORE, (before,)).rowcount
            connection.execute("COMMIT")
        finally:
            connection.close()
    except (sqlite3.Error, OSError):
        return 0
    return deleted


def purge_recalls(
    connection: sqlite3.Connection,
    *,
    items: Sequence[str] = (),
    session: str | None = None,
    projects: Sequence[str] | None = None,
    before: int | None = None,
    search: str | None = None,
) -> int:
    """Delete recalls that gave one of the items, or that match every other part given.

    Returns:
        How many. `scrub_log` removes what is left of them in the file.
    """
    clauses: list[LiteralString] = []
    values: list[object] = []
    if session is not None:
        clauses.append("session = ?")
        values.append(session)
    if projects is not None:
        clauses.append("project IN (SELECT value FROM json_each(?))")
        values.append(_list(projects))
    if before is not None:
        clauses.append("at < ?")
        values.append(before)
    if search:
        clauses.append(
            "instr(lower(query || ' ' || client || ' ' || session || ' ' || project), lower(?)) > 0"
        )
        values.append(search)
    matching: LiteralString = " AND ".join(clauses) or "0"
    connection.execute("BEGIN IMMEDIATE")
    chosen = [key for (key,) in connection.execute(_SELECT_MATCHING + matching, values)]
    for start in range(0, len(items), MOST_AT_ONCE):
        given = _list(items[start : start + MOST_AT_ONCE])
        chosen += [key for (key,) in connection.execute(_SELECT_GIVEN, (given,))]
    keys = _list(sorted(set(chosen)))
    connection.execute(_DELETE_ITEMS, (keys,))
    deleted = connection.execute(_DELETE, (keys,)).rowcount
    connection.execute("COMMIT")
    return deleted


def scrub_log(connection: sqlite3.Connection) -> bool:
    """Remove every trace of deleted rows; return False if a reader kept it from being complete."""
    connection.execute("PRAGMA temp_store = FILE")
    connection.execute("VACUUM")
    ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return not busy


def adopt_recalls(home: str, host: str, session: str, project: str, now: float) -> bool:
    """Count what tools gave to a host in a project as given in the session that answers now.

    MCP does not say which session calls a tool. Of two sessions of one host in one project, the
    first to answer gets all of it. Never raises.
    """
    path = os.path.join(home, RECALLS)
    if not session or not os.path.exists(path):
        return False
    name = host.partition("-")[0]
    values = (session, project, int(now) - ADOPTED_WITHIN, name)
    try:
        connection = open_log(home, create=False)
        if connection is None:
            return False
        try:
            return connection.execute(_ADOPT, values).rowcount > 0
        finally:
            connection.close()
    except (sqlite3.Error, OSError):
        return False


# --- Opening ------------------------------------------------------------------------------


def open_log(
    home: str, *, create: bool = True, read_only: bool = False, wait: float = BUSY_SECONDS
) -> sqlite3.Connection | None:
    """Open the log; None if there is none, if a newer version made it, or if it was damaged.

    A damaged log is deleted: nothing in it is worth a repair. The caller closes the connection.

    Args:
        home: The home folder, which must exist.
        create: Make the log if there is none.
        read_only: Open it for reading alone.
        wait: Seconds to wait for another writer.

    Raises:
        sqlite3.Error: It is busy, or cannot be opened or written.
        OSError: It cannot be created or deleted.
    """
    path = os.path.join(home, RECALLS)
    if not os.path.exists(path):
        if read_only or not create or not os.path.isdir(home):
            return None
        try:  # noqa: SIM105 - a hook does without contextlib
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:  # another process was first
            pass
    mode = "ro" if read_only else "rw"
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(
        f"file:{name}?mode={mode}",
        timeout=wait,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    try:
        if _is_ready(connection, read_only=read_only):
            return connection
        connection.close()
        return None  # noqa: TRY300 - both ends of one question
    except sqlite3.DatabaseError as error:
        connection.close()
        damaged = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        if read_only or getattr(error, "sqlite_errorcode", 0) & 0xFF not in damaged:
            raise
        for end in ("", "-wal", "-shm"):
            if os.path.exists(path + end):
                os.unlink(path + end)
        return None
    except BaseException:
        connection.close()
        raise


def _is_ready(connection: sqlite3.Connection, *, read_only: bool) -> bool:
    """Set the connection up, and make the tables if there are none."""
    ((version,),) = connection.execute("PRAGMA user_version")
    if version > VERSION or (read_only and not version):
        return False
    if read_only:
        return True
    if not version:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        ((version,),) = connection.execute("PRAGMA user_version")
        if not version:
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    # After a loss of power the log may be damaged; then it begins again.
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA secure_delete = ON")
    return True


# --- Reading ------------------------------------------------------------------------------

_IN_SESSION: LiteralString = """
SELECT DISTINCT i.item FROM recalls r JOIN recall_items i ON i.recall_id = r.id
WHERE r.session = ?"""

_UNUSED: LiteralString = """
SELECT DISTINCT i.item, i.kind FROM recalls r JOIN recall_items i ON i.recall_id = r.id
WHERE r.session = ? AND r.at >= ? AND i.used_at IS NULL"""

_FEEDBACK: LiteralString = """
SELECT i.item,
    count(DISTINCT CASE WHEN r.how IN ('session_start', 'prompt', 'failure')
        THEN CASE r.session WHEN '' THEN CAST(r.id AS TEXT) ELSE r.session END END),
    count(i.used_at)
FROM recall_items i JOIN recalls r ON r.id = i.recall_id
WHERE i.item IN (SELECT value FROM json_each(?)) GROUP BY i.item"""


_ITEMS: LiteralString = "SELECT DISTINCT item FROM recall_items"
_FIRST: LiteralString = "SELECT min(at) FROM recalls"


def recalled_items(home: str, reaches: float) -> set[str] | None:
    """Return the ids of all items in the log; None if the log does not reach back to a moment."""
    ((first,),) = _read(home, _FIRST) or [(None,)]
    if first is None or first > reaches:
        return None
    return {item for (item,) in _read(home, _ITEMS)}


def given_in_session(home: str, session: str) -> set[str]:
    """Return the ids of all that a session was given, on any occasion. Never raises."""
    if not session:
        return set()
    return {item for (item,) in _read(home, _IN_SESSION, session)}


def unused_items(home: str, session: str, now: float) -> list[tuple[str, str]]:
    """Return id and kind of what a session was given of late and did not use. Never raises."""
    return _read(home, _UNUSED, session, int(now) - USED_WITHIN) if session else []


def feedback(home: str, ids: Iterable[str]) -> dict[str, ItemFeedback]:
    """Return of each item how often it was given and used. Never raises.

    An item that was never given is not in the answer.
    """
    wanted = list(ids)
    if not wanted:
        return {}
    rows = _read(home, _FEEDBACK, _list(wanted))
    return {item: ItemFeedback(given, used) for item, given, used in rows}


def _read(home: str, statement: LiteralString, *values: object) -> list[Any]:
    try:
        connection = open_log(home, read_only=True)
        if connection is None:
            return []
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()
    except (sqlite3.Error, OSError):
        return []
