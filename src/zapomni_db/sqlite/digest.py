"""The digest: memories that may be given to a session, short and without secrets.

It is in the local file whichever engine stores the memories, so that a hook reads it without one.
Standard library only: hooks import this.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from typing import LiteralString

    Describe = Callable[[str, bool, str], tuple[str, str]]
else:
    import _sqlite3 as sqlite3  # without `datetime`, which a hook does not need

__all__ = [
    "CLASSES",
    "LOADED_BY_HOSTS",
    "DigestEntry",
    "apply_entries",
    "drain_queue",
    "givable_memories",
    "kind_of",
    "match_memories",
    "memory_texts",
    "read_digest",
    "requeue",
    "session_memories",
    "stale_memories",
]

CLASSES = ("pinned", "preference", "decision", "rule", "fact", "note")
"""What a memory is to a new session, the most important first; notes are only searched."""
LOADED_BY_HOSTS: LiteralString = "import:instructions"
"""The origin of files that hosts load by themselves: to other hosts they would be orders."""
MICROSECONDS = 1_000_000
# More memories of one class and project than any context has room for.
MOST_OF_A_CLASS = 30
# Values in one statement; old versions of SQLite take no more than 999.
MOST_TERMS = 64


class DigestEntry:
    """One memory of the digest. Times are microseconds since 1970."""

    __slots__ = (
        "expires_at", "kind", "memory_class", "memory_id", "project", "text", "updated_at"
    )  # fmt: skip

    def __init__(
        self,
        memory_id: str,
        project: str,
        kind: str,
        memory_class: str,
        text: str,
        updated_at: int,
        expires_at: int | None,
    ) -> None:
        self.memory_id = memory_id
        self.project = project
        self.kind = kind
        self.memory_class = memory_class
        self.text = text
        self.updated_at = updated_at
        self.expires_at = expires_at


# --- Reading: what hooks call -------------------------------------------------------------

_ENTRY: LiteralString = (
    "d.memory_id, d.project, d.kind, d.class, d.text, d.updated_at, d.expires_at"
)
_CURRENT: LiteralString = "(d.expires_at IS NULL OR d.expires_at > ?)"

# The keys and names under which the memories of a project may be stored: its keys, and what the
# user calls it.
_PROJECT_NAMES: LiteralString = """
SELECT project_key FROM project_aliases WHERE alias = ?1
UNION SELECT alias FROM project_aliases WHERE project_key IN
    (SELECT ?1 UNION SELECT project_key FROM project_aliases WHERE alias = ?1)
UNION SELECT name FROM projects WHERE key IN
    (SELECT ?1 UNION SELECT project_key FROM project_aliases WHERE alias = ?1)"""

# The newest memories of one class in one project.
_OF_CLASS: LiteralString = (
    "SELECT " + _ENTRY + " FROM memory_digest d WHERE d.class = ? AND d.project = ? AND "
    + _CURRENT + " ORDER BY d.updated_at DESC, d.key DESC LIMIT ?"
)  # fmt: skip

# Memories of one project whose code was changed or gone when it was last checked.
_STALE: LiteralString = (
    "SELECT " + _ENTRY + ", group_concat(c.state, ', ') FROM code_citations c"
    " JOIN memory_digest d ON d.memory_id = c.memory_id"
    " WHERE c.state <> '' AND d.project = ? AND " + _CURRENT + " GROUP BY d.memory_id LIMIT ?"
)

# Memories that have any of the words, best first.
_MATCHING: LiteralString = (
    "SELECT " + _ENTRY + ", -bm25(memory_digest_fts) FROM memory_digest_fts"
    " CROSS JOIN memory_digest d ON d.key = memory_digest_fts.rowid"
    " WHERE memory_digest_fts MATCH ? AND " + _CURRENT
)


# Those of some memories that may be given.
_BY_ID: LiteralString = (
    "SELECT " + _ENTRY + " FROM memory_digest d WHERE d.memory_id = ? AND " + _CURRENT
)
_TEXT: LiteralString = "SELECT memory_id, text FROM memory_digest WHERE memory_id = ?"


def project_names(connection: sqlite3.Connection, project: str) -> list[str]:
    """Return all keys and names that a project's memories may have, its own first."""
    found = [name for (name,) in connection.execute(_PROJECT_NAMES, (project,))]
    return list(dict.fromkeys(name for name in (project, *found) if name))


def session_memories(connection: sqlite3.Connection, project: str, now: float) -> list[DigestEntry]:
    """Return the memories a new session of a project may be given, the most important first.

    First the project's, then the global ones; in each pinned ones, preferences, decisions,
    rules and facts, the newest first. Expired ones are left out, and so are plain notes.

    Args:
        connection: The local file, open for reading.
        project: The project's key; empty for global memories alone.
        now: Seconds since 1970.
    """
    found: list[DigestEntry] = []
    moment = int(now * MICROSECONDS)
    try:
        scopes = [*(project_names(connection, project) if project else ()), ""]
        for own in (scopes[:-1], scopes[-1:]):
            for memory_class in CLASSES[:-1]:
                rows: list[DigestEntry] = []
                for name in own:
                    given = (memory_class, name, moment, MOST_OF_A_CLASS)
                    rows += [DigestEntry(*row) for row in connection.execute(_OF_CLASS, given)]
                rows.sort(key=lambda entry: -entry.updated_at)
                found += rows[:MOST_OF_A_CLASS]
    except sqlite3.OperationalError as error:
        if not _is_missing(error):
            raise
    return found


def stale_memories(
    connection: sqlite3.Connection, project: str, now: float
) -> list[tuple[DigestEntry, str]]:
    """Return the memories of a project whose code changed, as the last check found, and how.

    Args:
        connection: The local file, open for reading.
        project: The project's key; empty for global memories alone.
        now: Seconds since 1970.
    """
    found: list[tuple[DigestEntry, str]] = []
    moment = int(now * MICROSECONDS)
    try:
        for name in [*(project_names(connection, project) if project else ()), ""]:
            rows = connection.execute(_STALE, (name, moment, MOST_OF_A_CLASS))
            found += [(DigestEntry(*row[:-1]), row[-1]) for row in rows]
    except sqlite3.OperationalError as error:
        if not _is_missing(error):
            raise
    return found


def match_memories(
    connection: sqlite3.Connection,
    terms: Sequence[str],
    project: str,
    limit: int,
    now: float | None = None,
) -> list[tuple[DigestEntry, float]]:
    """Return memories of a project and global ones that have any of the words, best first.

    Args:
        connection: The local file, open for reading.
        terms: Words or phrases; nothing in them is syntax.
        project: The project's key; empty for global memories alone.
        limit: How many at most.
        now: Seconds since 1970; None: the clock's.

    Returns:
        Entries with their BM25 score, higher is better.
    """
    words = [term.replace("\0", " ").replace('"', '""') for term in terms[:MOST_TERMS]]
    words = [word for word in words if any(map(str.isalnum, word))]
    if not words:
        return []
    if now is None:
        import time

        now = time.time()
    try:
        scopes = [*(project_names(connection, project) if project else ()), ""]
        among: LiteralString = ", ".join(["?"] * len(scopes))
        rows = connection.execute(
            _MATCHING
            + " AND d.project IN ("
            + among
            + ") ORDER BY bm25(memory_digest_fts) LIMIT ?",
            (" OR ".join(f'"{word}"' for word in words), int(now * MICROSECONDS), *scopes, limit),
        ).fetchall()
    except sqlite3.OperationalError as error:
        if not _is_missing(error):
            raise
        return []
    return [(DigestEntry(*entry), score) for *entry, score in rows]


def givable_memories(
    connection: sqlite3.Connection, ids: Iterable[str], project: str, now: float
) -> dict[str, DigestEntry]:
    """Return those of some memories that a session of a project may be given unasked.

    Args:
        connection: The local file, open for reading.
        ids: Of memories that were found in another way.
        project: The project's key; empty for global memories alone.
        now: Seconds since 1970.
    """
    found: dict[str, DigestEntry] = {}
    moment = int(now * MICROSECONDS)
    try:
        scopes = {*(project_names(connection, project) if project else ()), ""}
        for memory_id in ids:
            for row in connection.execute(_BY_ID, (memory_id, moment)):
                entry = DigestEntry(*row)
                if entry.project in scopes:
                    found[memory_id] = entry
    except sqlite3.OperationalError as error:
        if not _is_missing(error):
            raise
    return found


def memory_texts(connection: sqlite3.Connection, memory_ids: Sequence[str]) -> dict[str, str]:
    """Return the short texts of those memories that may be given to a session."""
    found: dict[str, str] = {}
    try:
        for memory_id in memory_ids:
            found.update(connection.execute(_TEXT, (memory_id,)))
    except sqlite3.OperationalError as error:
        if not _is_missing(error):
            raise
    return found


def _is_missing(error: sqlite3.OperationalError) -> bool:
    """Return whether a hook met a file that the engine has not migrated yet."""
    return "no such table" in str(error) or "no such column" in str(error)


# --- Writing ------------------------------------------------------------------------------

_DELETE: LiteralString = "DELETE FROM memory_digest WHERE memory_id = ?"
_INSERT: LiteralString = """
INSERT INTO memory_digest (memory_id, project, kind, class, text, updated_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?)"""

_QUEUED: LiteralString = "SELECT key, memory_id FROM digest_queue ORDER BY key LIMIT ?"
_DEQUEUE: LiteralString = "DELETE FROM digest_queue WHERE key = ?"
# A memory of this file, if it may be given to a session.
_SOURCE: LiteralString = (
    """
SELECT m.project, m.kind, m.pinned, t.text, m.updated_at, m.expires_at, m.source, m.parent
FROM memories m JOIN memory_texts t ON t.memory_key = m.key
WHERE m.id = ? AND m.superseded_by IS NULL AND m.trusted AND m.kind <> 'code' AND m.origin <> '"""
    + LOADED_BY_HOSTS
    + "'"
)

_KNOWN: LiteralString = "SELECT memory_id, updated_at FROM memory_digest"
_STATE: LiteralString = "SELECT store, version FROM digest_state"
_FORGET_STATE: LiteralString = "DELETE FROM digest_state"
_SET_STATE: LiteralString = "INSERT INTO digest_state (store, version) VALUES (?, ?)"
_DELETE_ALL: LiteralString = "DELETE FROM memory_digest"
_FORGET_QUEUE: LiteralString = "DELETE FROM digest_queue"
_QUEUE_ALL: LiteralString = """
INSERT INTO digest_queue (memory_id)
SELECT id FROM memories WHERE kind <> 'code' AND superseded_by IS NULL"""


def kind_of(kind: str, source: str, parent: str) -> str:
    """Return the kind that decides the class: what was read somewhere is a document.

    A page from the network or a passage of a conversation states no rule of the user's, whatever
    it says; the user may still pin it.
    """
    return "document" if parent or "://" in source else kind


def drain_queue(connection: sqlite3.Connection, describe: Describe, limit: int) -> int:
    """Bring the entries of queued memories up to date; return how many were queued.

    For memories in the same file: they are read in the transaction that writes the digest.

    Args:
        connection: In a transaction.
        describe: Returns the class and the short text of a memory by its kind, whether it is
            pinned, and its text.
        limit: How many changes at most.
    """
    if connection.execute(_STATE).fetchone() is not None:
        requeue(connection)  # Another engine's memories were digested last.
    queued = connection.execute(_QUEUED, (limit,)).fetchall()
    for memory_id in dict.fromkeys(memory_id for _, memory_id in queued):
        connection.execute(_DELETE, (memory_id,))
        found = connection.execute(_SOURCE, (memory_id,)).fetchone()
        if found is not None:
            project, kind, pinned, text, updated_at, expires_at, source, parent = found
            memory_class, short = describe(kind_of(kind, source, parent), bool(pinned), text)
            _insert(
                connection,
                DigestEntry(memory_id, project, kind, memory_class, short, updated_at, expires_at),
            )
    connection.executemany(_DEQUEUE, [(key,) for key, _ in queued])
    return len(queued)


def requeue(connection: sqlite3.Connection) -> None:
    """Forget all entries, and queue every memory of this file."""
    for statement in (_DELETE_ALL, _FORGET_STATE, _FORGET_QUEUE, _QUEUE_ALL):
        connection.execute(statement)


def apply_entries(
    connection: sqlite3.Connection,
    entries: Iterable[DigestEntry],
    removed: Iterable[str],
    state: tuple[str, int] | None = None,
) -> None:
    """Write entries of memories that another engine stores, and delete those of others.

    Args:
        connection: In a transaction.
        entries: Replace those of the same memories.
        removed: Memories that may no longer be given.
        state: The store and its version, if the digest is complete now.
    """
    for memory_id in removed:
        connection.execute(_DELETE, (memory_id,))
    for entry in entries:
        connection.execute(_DELETE, (entry.memory_id,))
        _insert(connection, entry)
    if state is not None:
        connection.execute(_FORGET_STATE)
        connection.execute(_SET_STATE, state)


def _insert(connection: sqlite3.Connection, entry: DigestEntry) -> None:
    connection.execute(
        _INSERT,
        (
            entry.memory_id,
            entry.project,
            entry.kind,
            entry.memory_class,
            entry.text,
            entry.updated_at,
            entry.expires_at,
        ),
    )


def read_digest(connection: sqlite3.Connection) -> tuple[dict[str, int], dict[str, int]]:
    """Return when each memory of the digest was changed, and the store's version it is from."""
    known = dict(connection.execute(_KNOWN).fetchall())
    return known, dict(connection.execute(_STATE).fetchall())
