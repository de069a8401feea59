"""Deleting observations and memories: by retention, above a ceiling, or without any trace.

Standard library only: hooks import this.

Deleting a row does not remove its text from the disk. Its words stay in older segments of the word
index until those are merged, copies made when pages were split stay in the pages' slack, and
the log still has every version. `scrub` removes all three.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final, LiteralString

from zapomni_db.sqlite import trash
from zapomni_db.sqlite.connection import CHANGE_VERSION, release_pages, write_transaction

__all__ = [
    "RETENTION_DAYS",
    "USAGE_BY_TYPE",
    "PurgeSelection",
    "delete_memories",
    "delete_mentions",
    "delete_observations",
    "delete_trash",
    "find_due",
    "find_memories",
    "find_observations",
    "find_trash",
    "is_sweep_due",
    "item_ids",
    "project_keys",
    "sample",
    "sample_trash",
    "scrub",
    "sweep",
]

# Days an observation stays, by type. What explains later work stays longest.
RETENTION_DAYS: Final[Mapping[str, int]] = {
    "git_commit": 730,
    "git_push": 730,
    "file_write": 365,
    "file_edit": 365,
    "session_start": 365,
    "session_end": 365,
    "session_compact": 365,
    "session_resume": 365,
    "session_clear": 365,
    "user_prompt": 365,
    "user_answer": 365,
    "assistant_message": 365,
    "marker": 365,
    "command": 180,
    "command_error": 180,
    "github": 180,
    "file_read": 90,
    "search": 90,
    "mcp_call": 90,
    "web_fetch": 90,
    "web_search": 90,
    "task_spawn": 90,
    "tool_other": 90,
    "other": 90,
}
DEFAULT_MAX_BYTES: Final = 512_000_000
DAY: Final = 86_400
# A write lock is held for one batch at a time: hooks may be waiting.
BATCH: Final = 500
SAMPLE_CHARS: Final = 100
# Under this key `capture_counters` remembers the last sweep: no host has an empty name.
SWEEP_KEY: Final = ("", "swept")


# About how much an observation takes; 250 is for a row's numbers, its hash and the indexes.
OBSERVATION_BYTES: Final[LiteralString] = (
    "(250 + length(CAST(content AS BLOB)) + coalesce(length(CAST(metadata AS BLOB)), 0)"
    " + 2 * coalesce(length(CAST(file_path AS BLOB)), 0))"
)

# The beginnings of some memories.
SAMPLE_MEMORIES: Final[LiteralString] = """
SELECT id, kind, substr(preview, 1, ?) FROM memories
WHERE key IN (SELECT value FROM json_each(?)) ORDER BY key"""

# The beginnings of some observations.
SAMPLE_OBSERVATIONS: Final[LiteralString] = """
SELECT CAST(id AS TEXT), obs_type, substr(content, 1, ?) FROM observations
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"""

# The beginnings of some memories in the trash.
SAMPLE_TRASH: Final[LiteralString] = """
SELECT memory_id, kind || ' in the trash', substr(preview, 1, ?) FROM trash
WHERE memory_id IN (SELECT value FROM json_each(?)) ORDER BY stored_at"""

# The memories `m` of a project: its key, its name or an alias.
OF_PROJECT: Final[LiteralString] = (
    "(m.project = ? OR m.project IN (SELECT key FROM projects WHERE name = ?)"
    " OR m.project IN (SELECT project_key FROM project_aliases WHERE alias = ?)"
    " OR m.project IN (SELECT a.alias FROM project_aliases a JOIN projects p"
    " ON p.key = a.project_key WHERE ? IN (p.key, p.name)))"
)

# The ids of some memories.
MEMORY_IDS: Final[LiteralString] = """
SELECT id FROM memories WHERE key IN (SELECT value FROM json_each(?))"""

# The projects of a name, and those joined under an alias.
PROJECT_KEYS: Final[LiteralString] = """
SELECT key FROM projects WHERE name = ?
UNION SELECT project_key FROM project_aliases WHERE alias = ?"""

# The sessions of some observations, as JSON.
SESSIONS_OF: Final[LiteralString] = """
SELECT json_group_array(DISTINCT session_id) FROM observations
WHERE id IN (SELECT value FROM json_each(?))"""

# Observations that were made for a prompt that is deleted.
UNLINK_PROMPTS: Final[LiteralString] = """
UPDATE observations SET prompt_id = NULL WHERE prompt_id IN (SELECT value FROM json_each(?))"""

DELETE_OBSERVATIONS: Final[LiteralString] = """
DELETE FROM observations WHERE id IN (SELECT value FROM json_each(?))"""

DELETE_EMPTY_SESSIONS: Final[LiteralString] = """
DELETE FROM sessions WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM observations o WHERE o.session_id = sessions.id)"""

# Projects of which only a name is left; one with a setting of the user's stays.
DELETE_EMPTY_PROJECTS: Final[LiteralString] = """
DELETE FROM projects WHERE injection = 1
    AND NOT EXISTS (SELECT 1 FROM observations o WHERE o.project = projects.key)
    AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.project = projects.key)
    AND NOT EXISTS (SELECT 1 FROM project_aliases a WHERE a.project_key = projects.key)
    AND NOT EXISTS (SELECT 1 FROM project_rules r WHERE r.project = projects.key
        AND (r.private OR r.excluded))
    AND NOT EXISTS (SELECT 1 FROM memory_digest d WHERE d.project = projects.key)"""

# Folders of a project that has nothing; with memories, wherever they are stored, they stay: another
# folder would be the first one.
DELETE_EMPTY_FOLDERS: Final[LiteralString] = """
DELETE FROM project_folders WHERE NOT EXISTS
    (SELECT 1 FROM observations o WHERE o.project = project_folders.project)
    AND NOT EXISTS (SELECT 1 FROM memory_digest d WHERE d.project = project_folders.project)"""

# An older schema, under a hook, has no digest yet: then nothing is known to be empty.
HAS_DIGEST: Final[LiteralString] = """
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'memory_digest'"""

# A memory's rows, in this order: chunks first, so that triggers delete their words and vectors.
# The code tables refer to memories by id, not by key.
DELETE_CHUNKS: Final[LiteralString] = """
DELETE FROM chunks WHERE memory_key IN (SELECT value FROM json_each(?))"""
DELETE_CODE_FILES: Final[LiteralString] = """
DELETE FROM code_files WHERE memory_id IN
    (SELECT id FROM memories WHERE key IN (SELECT value FROM json_each(?)))"""
DELETE_CITATIONS: Final[LiteralString] = """
DELETE FROM code_citations WHERE memory_id IN
    (SELECT id FROM memories WHERE key IN (SELECT value FROM json_each(?)))"""
DELETE_REVIEW_ITEMS: Final[LiteralString] = """
DELETE FROM review_items WHERE kind <> 'candidate' AND EXISTS
    (SELECT 1 FROM memories m JOIN json_each(?) chosen ON m.key = chosen.value
     WHERE instr(review_items.subject, m.id) > 0)"""
# Other devices have to purge them, too; the next sync says so.
NOTE_PURGED: Final[LiteralString] = """
INSERT INTO deletions (memory_id, deleted_at, purged)
SELECT id, max(?2, updated_at + 1000), 1 FROM memories
WHERE key IN (SELECT value FROM json_each(?1)) AND kind <> 'code'
ON CONFLICT (memory_id) DO UPDATE SET deleted_at = max(deleted_at, excluded.deleted_at),
    purged = 1, same_as = '', supersedes = '[]', device = '', undone_at = NULL"""
# What is purged in the trash was deleted before.
MARK_PURGED: Final[LiteralString] = """
UPDATE deletions SET purged = 1, supersedes = '[]', undone_at = NULL
WHERE memory_id IN (SELECT value FROM json_each(?))"""
DELETE_WRITERS: Final[LiteralString] = """
DELETE FROM memory_writers WHERE memory_id IN
    (SELECT id FROM memories WHERE key IN (SELECT value FROM json_each(?)))"""
NOTE_TRASH_PURGED: Final[LiteralString] = """
INSERT INTO deletions (memory_id, deleted_at, purged)
SELECT memory_id, ?2, 1 FROM trash
WHERE memory_id IN (SELECT value FROM json_each(?1)) AND kind <> 'code'
ON CONFLICT (memory_id) DO UPDATE SET deleted_at = max(deleted_at, excluded.deleted_at),
    purged = 1, same_as = '', supersedes = '[]', device = '', undone_at = NULL"""
DELETE_TRASHED_WRITERS: Final[LiteralString] = """
DELETE FROM memory_writers WHERE memory_id IN (SELECT value FROM json_each(?))"""
DELETE_TRASHED_ITEMS: Final[LiteralString] = """
DELETE FROM review_items WHERE kind <> 'candidate' AND EXISTS
    (SELECT 1 FROM json_each(?) chosen WHERE instr(review_items.subject, chosen.value) > 0)"""
DELETE_MEMORIES: Final[LiteralString] = """
DELETE FROM memories WHERE key IN (SELECT value FROM json_each(?))"""

# Merging a word index into one segment, which drops deleted words.
OPTIMIZE_WORDS: Final[tuple[LiteralString, ...]] = (
    "INSERT INTO observations_fts (observations_fts) VALUES ('optimize')",
    "INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')",
    "INSERT INTO memory_digest_fts (memory_digest_fts) VALUES ('optimize')",
)

# A little of the same, after a sweep.
MERGE_WORDS: Final[LiteralString] = (
    "INSERT INTO observations_fts (observations_fts, rank) VALUES ('merge', 200)"
)

LAST_SWEEP: Final[LiteralString] = """
SELECT last_at FROM capture_counters WHERE host = ? AND name = ? AND last_at IS NOT NULL"""

MARK_SWEPT: Final[LiteralString] = """
INSERT INTO capture_counters (host, name, value, last_at) VALUES (?, ?, ?, ?)
ON CONFLICT (host, name)
    DO UPDATE SET value = value + excluded.value, last_at = excluded.last_at"""

TYPES: Final[LiteralString] = "SELECT DISTINCT obs_type FROM observations"

# Observations of a type that are older than a moment, with their sizes.
EXPIRED: Final[LiteralString] = (
    "SELECT id, " + OBSERVATION_BYTES + " FROM observations"
    " WHERE obs_type = ? AND timestamp < ? AND pinned = 0"
)

USAGE_BY_TYPE: Final[LiteralString] = (
    "SELECT obs_type, count(*), total("
    + OBSERVATION_BYTES
    + ") FROM observations GROUP BY obs_type ORDER BY 3 DESC, obs_type"
)
"""Counts observations by type, with about how much they take."""
TOTAL_BYTES: Final[LiteralString] = "SELECT total(" + OBSERVATION_BYTES + ") FROM observations"

# Observations that may be deleted, the oldest first, with their sizes.
OLDEST: Final[LiteralString] = (
    "SELECT id, " + OBSERVATION_BYTES + " FROM observations WHERE pinned = 0 ORDER BY timestamp, id"
)


@dataclass(frozen=True)
class PurgeSelection:
    """Which rows to purge; every part given must match. Nothing given selects nothing."""

    ids: tuple[str, ...] = ()
    session: str | None = None
    project: str | None = None
    obs_type: str | None = None
    before: int | None = None
    """Seconds since 1970: only what is older."""
    search: str | None = None
    """Text that must occur, also inside a word; ASCII letters in any case."""

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))


def find_observations(connection: sqlite3.Connection, selection: PurgeSelection) -> dict[int, bool]:
    """Return the ids selected, and of each whether it is pinned."""
    clauses: list[LiteralString] = []
    values: list[object] = []

    def add(clause: LiteralString, *bound: object) -> None:
        clauses.append(clause)
        values.extend(bound)

    if selection.ids:
        # An id that is no number matches nothing.
        add(
            "id IN (SELECT value FROM json_each(?))",
            json.dumps([int(one) for one in selection.ids if one.isascii() and one.isdigit()]),
        )
    if selection.session is not None:
        add("session_id = ?", selection.session)
    if selection.project is not None:
        add(
            "(project = ? OR project IN (SELECT key FROM projects WHERE name = ?)"
            " OR project IN (SELECT project_key FROM project_aliases WHERE alias = ?))",
            *[selection.project] * 3,
        )
    if selection.obs_type is not None:
        add("obs_type = ?", selection.obs_type)
    if selection.before is not None:
        add("timestamp < ?", selection.before)
    if selection.search:
        add(
            "instr(lower(content || ' ' || coalesce(file_path, '') || ' '"
            " || coalesce(metadata, '') || ' ' || coalesce(signature, '') || ' '"
            " || coalesce(tool_name, '') || ' ' || session_id || ' ' || source_event),"
            " lower(?)) > 0",
            selection.search,
        )
    if not clauses:
        return {}
    rows = connection.execute(
        "SELECT id, pinned FROM observations WHERE " + " AND ".join(clauses) + " ORDER BY id",
        values,
    )
    return {key: bool(pinned) for key, pinned in rows}


def find_memories(connection: sqlite3.Connection, selection: PurgeSelection) -> dict[int, bool]:
    """Return the keys of the memories selected, and of each whether it is pinned."""
    clauses: list[LiteralString] = []
    values: list[object] = []
    if selection.ids:
        clauses.append("m.id IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(selection.ids))
    if selection.project is not None:
        clauses.append(OF_PROJECT)
        values.extend([selection.project] * 4)
    if selection.before is not None:
        clauses.append("m.created_at < ?")
        values.append(selection.before * 1_000_000)
    if selection.search:
        # A memory's earlier texts count, too.
        clauses.append(
            "(instr(lower(t.text || ' ' || m.metadata || ' ' || m.source || ' ' || m.kind"
            " || ' ' || m.parent || ' ' || coalesce(m.idempotency_key, '')), lower(?)) > 0"
            " OR EXISTS (SELECT 1 FROM memory_tags g WHERE g.memory_key = m.key"
            " AND instr(lower(g.tag), lower(?)) > 0)"
            " OR EXISTS (SELECT 1 FROM chunks c WHERE c.memory_key = m.key"
            " AND instr(lower(c.metadata || ' ' || c.context), lower(?)) > 0)"
            " OR EXISTS (SELECT 1 FROM memory_history h WHERE h.memory_key = m.key"
            " AND instr(lower(coalesce(h.text, '') || ' ' || h.fields), lower(?)) > 0))"
        )
        values.extend([selection.search] * 4)
    if not clauses:
        return {}
    rows = connection.execute(
        "SELECT m.key, m.pinned FROM memories m JOIN memory_texts t ON t.memory_key = m.key"
        " WHERE " + " AND ".join(clauses) + " ORDER BY m.key",
        values,
    )
    return {key: bool(pinned) for key, pinned in rows}


def find_trash(connection: sqlite3.Connection, selection: PurgeSelection) -> dict[str, bool]:
    """Return the ids of the memories selected in the trash, and of each whether it is pinned."""
    clauses: list[LiteralString] = []
    values: list[object] = []
    if selection.ids:
        clauses.append("m.memory_id IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(selection.ids))
    if selection.project is not None:
        clauses.append(OF_PROJECT)
        values.extend([selection.project] * 4)
    if selection.before is not None:
        clauses.append("m.stored_at < ?")
        values.append(selection.before * 1_000_000)
    if not clauses and not selection.search:
        return {}
    condition = " AND ".join(clauses) or "true"
    return trash.find_trashed(connection, condition, values, selection.search)


def sample_trash(
    connection: sqlite3.Connection, memory_ids: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Return the id, the kind and the beginning of memories in the trash."""
    return connection.execute(SAMPLE_TRASH, (SAMPLE_CHARS, json.dumps(list(memory_ids)))).fetchall()


def sample(
    connection: sqlite3.Connection, keys: Sequence[int], *, memories: bool
) -> list[tuple[str, str, str]]:
    """Return the id, the kind and the beginning of the memories or observations of these keys."""
    statement = SAMPLE_MEMORIES if memories else SAMPLE_OBSERVATIONS
    return connection.execute(statement, (SAMPLE_CHARS, json.dumps(list(keys)))).fetchall()


def item_ids(connection: sqlite3.Connection, keys: Sequence[int], *, memories: bool) -> list[str]:
    """Return the ids under which the recall log has the memories or observations of these keys."""
    if not memories:
        return [str(key) for key in keys]
    return [one for (one,) in connection.execute(MEMORY_IDS, (json.dumps(list(keys)),))]


def project_keys(connection: sqlite3.Connection, project: str | None) -> list[str]:
    """Return the keys of the projects that a key, a name or an alias means, itself among them."""
    if project is None:
        return []
    rows = connection.execute(PROJECT_KEYS, [project] * 2)
    return list(dict.fromkeys([project, *(key for (key,) in rows)]))


def delete_observations(connection: sqlite3.Connection, ids: Sequence[int]) -> int:
    """Delete observations in small transactions, and sessions left without any."""
    connection.execute("PRAGMA secure_delete = ON")
    deleted = 0
    for start in range(0, len(ids), BATCH):
        chosen = json.dumps(list(ids[start : start + BATCH]))
        with write_transaction(connection):
            sessions = connection.execute(SESSIONS_OF, (chosen,)).fetchone()
            connection.execute(UNLINK_PROMPTS, (chosen,))
            deleted += connection.execute(DELETE_OBSERVATIONS, (chosen,)).rowcount
            connection.execute(DELETE_EMPTY_SESSIONS, sessions)
            if connection.execute(HAS_DIGEST).fetchone():
                connection.execute(DELETE_EMPTY_PROJECTS)
                connection.execute(DELETE_EMPTY_FOLDERS)
    return deleted


def delete_memories(connection: sqlite3.Connection, keys: Sequence[int]) -> int:
    """Delete memories with their passages, words and vectors, in small transactions."""
    connection.execute("PRAGMA secure_delete = ON")
    deleted = 0
    for start in range(0, len(keys), BATCH):
        chosen = json.dumps(list(keys[start : start + BATCH]))
        with write_transaction(connection):
            connection.execute(DELETE_CHUNKS, (chosen,))
            connection.execute(DELETE_CODE_FILES, (chosen,))
            connection.execute(DELETE_CITATIONS, (chosen,))
            connection.execute(DELETE_REVIEW_ITEMS, (chosen,))
            connection.execute(NOTE_PURGED, (chosen, time.time_ns() // 1000))
            connection.execute(DELETE_WRITERS, (chosen,))
            deleted += connection.execute(DELETE_MEMORIES, (chosen,)).rowcount
    return deleted


def delete_trash(connection: sqlite3.Connection, memory_ids: Sequence[str], now: int) -> int:
    """Delete memories from the trash, with what other tables have of them."""
    connection.execute("PRAGMA secure_delete = ON")
    deleted = 0
    for start in range(0, len(memory_ids), BATCH):
        batch = memory_ids[start : start + BATCH]
        with write_transaction(connection):
            chosen = json.dumps(list(batch))
            connection.execute(NOTE_TRASH_PURGED, (chosen, now * 1_000_000))
            connection.execute(DELETE_TRASHED_WRITERS, (chosen,))
            connection.execute(DELETE_TRASHED_ITEMS, (chosen,))
            deleted += trash.delete_trashed(connection, batch, now)
    return deleted


# Text about memories and about agents' work in other tables than their own.
_MENTIONS_OF_MEMORIES: Final[Mapping[str, LiteralString]] = {
    "entities": "DELETE FROM graph_entities"
    " WHERE instr(lower(name || ' ' || description || ' ' || source), lower(?)) > 0",
    "statements": "DELETE FROM graph_evidence"
    " WHERE instr(lower(coalesce(text, '') || ' ' || source), lower(?)) > 0",
    "names of entities": "DELETE FROM graph_mentions"
    " WHERE instr(lower(coalesce(alias, '')), lower(?)) > 0",
    "code files": "DELETE FROM code_files WHERE instr(lower(path), lower(?1)) > 0"
    " OR key IN (SELECT file_key FROM code_symbols WHERE instr(lower(qualified_name || ' ' ||"
    " signature || ' ' || docstring || ' ' || decorators), lower(?1)) > 0)"
    " OR key IN (SELECT file_key FROM code_edges WHERE instr(lower(name), lower(?1)) > 0)"
    " OR key IN (SELECT file_key FROM code_file_data"
    " WHERE instr(lower(passages || ' ' || facts || ' ' || mentions), lower(?1)) > 0)",
    "citations": "DELETE FROM code_citations"
    " WHERE instr(lower(root || ' ' || path || ' ' || symbol), lower(?)) > 0",
    "review items": "DELETE FROM review_items WHERE kind <> 'candidate'"
    " AND instr(lower(subject || ' ' || project), lower(?)) > 0",
}
_MENTIONS_OF_WORK: Final[Mapping[str, LiteralString]] = {
    "tasks": "DELETE FROM tasks WHERE finished_at IS NOT NULL AND instr(lower(params || ' ' ||"
    " message || ' ' || coalesce(result, '') || ' ' || coalesce(error, '')), lower(?)) > 0",
    "candidates": "DELETE FROM review_items WHERE kind = 'candidate'"
    " AND instr(lower(text || ' ' || subject || ' ' || project), lower(?)) > 0",
    "imported files": "DELETE FROM import_files WHERE instr(lower(path), lower(?)) > 0",
    "imports": "UPDATE import_batches SET request = '{}', counts = '{}'"
    " WHERE instr(lower(request || ' ' || counts), lower(?)) > 0",
    "branches": "UPDATE sessions SET branch = '' WHERE instr(lower(branch), lower(?)) > 0",
}


def delete_mentions(connection: sqlite3.Connection, text: str, *, memories: bool) -> dict[str, int]:
    """Delete a text from the tables around memories or observations; return what it was in."""
    connection.execute("PRAGMA secure_delete = ON")
    found = {}
    statements = _MENTIONS_OF_MEMORIES if memories else _MENTIONS_OF_WORK
    with write_transaction(connection):
        for name, statement in statements.items():
            if count := connection.execute(statement, (text,)).rowcount:
                found[name] = count
        if memories and found:
            connection.execute(CHANGE_VERSION)
    return found


def scrub(connection: sqlite3.Connection) -> bool:
    """Remove every trace of deleted text from the file and its log.

    Returns False if a reader kept the log from being emptied: the database itself is clean, the log
    will be when that reader has ended and `scrub` is called again.
    """
    connection.execute("PRAGMA secure_delete = ON")
    for statement in OPTIMIZE_WORDS:
        with write_transaction(connection):
            connection.execute(statement)
    # Slack inside pages is not reached by secure_delete; only a rewrite of the file is.
    connection.execute("PRAGMA temp_store = FILE")
    connection.execute("VACUUM")
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def is_sweep_due(connection: sqlite3.Connection, now: int) -> bool:
    """Return whether the last complete sweep was a day ago or more."""
    swept = connection.execute(LAST_SWEEP, SWEEP_KEY).fetchall()
    return all(now - last_at >= DAY for (last_at,) in swept)


def sweep(
    connection: sqlite3.Connection,
    now: int,
    *,
    retention_days: Mapping[str, int] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_rows: int = 5000,
) -> int:
    """Delete what `find_due` finds, at most `max_rows`; the next call deletes the rest.

    The trash is emptied of what is too old, too.

    Returns:
        How many were deleted.
    """
    with write_transaction(connection):
        trash.empty_expired(connection, now)
    due = find_due(connection, now, retention_days=retention_days, max_bytes=max_bytes)
    deleted = delete_observations(connection, due[:max_rows])
    if len(due) <= max_rows:
        with write_transaction(connection):
            connection.execute(MARK_SWEPT, (*SWEEP_KEY, deleted, now))
    if deleted:
        with write_transaction(connection):
            connection.execute(MERGE_WORDS)
            release_pages(connection, 2000)
    return deleted


def find_due(
    connection: sqlite3.Connection,
    now: int,
    *,
    retention_days: Mapping[str, int] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> list[int]:
    """Return observations past the days of their type, then the oldest above the ceiling.

    Pinned ones stay. A type without days stays as long as `other`; 0 days means for ever.
    """
    days = {**RETENTION_DAYS, **(retention_days or {})}
    due: dict[int, int] = {}
    for (obs_type,) in connection.execute(TYPES).fetchall():
        if lasts := days.get(obs_type, days["other"]):
            due.update(connection.execute(EXPIRED, (obs_type, now - lasts * DAY)).fetchall())
    (total,) = connection.execute(TOTAL_BYTES).fetchone()
    excess = total - sum(due.values()) - max_bytes
    if excess <= 0:
        return list(due)
    for key, size in connection.execute(OLDEST):
        if excess <= 0:
            break
        if key not in due:
            due[key] = size
            excess -= size
    return list(due)
