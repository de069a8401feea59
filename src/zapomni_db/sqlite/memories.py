"""Storing, reading, updating and deleting memories, their history and their number."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

from zapomni_db.code_models import CODE_KIND
from zapomni_db.exceptions import ValidationError
from zapomni_db.models import (
    NEVER,
    ChunkData,
    EmbeddingSpace,
    MemoryData,
    MemoryFilter,
    MemoryPage,
    MemoryPatch,
    MemoryRecord,
    MemoryStats,
    MemorySummary,
    StoredMemory,
)
from zapomni_db.rules import (
    Replaced,
    refuse_superseding,
    replaced_fields,
    sort_versions,
    versions_of,
)
from zapomni_db.sqlite.connection import fetch_value
from zapomni_db.sqlite.packing import pack_vectors
from zapomni_db.sqlite.rows import (
    content_hash,
    from_json,
    from_time,
    text_hash,
    to_json,
    to_time,
    where,
)
from zapomni_db.sqlite.vectors import claim_space, count_pending, get_space
from zapomni_db.values import write_time

if TYPE_CHECKING:
    from zapomni_db.graph_models import MemoryVersion

__all__ = [
    "count_by_project",
    "delete_memories",
    "delete_memory",
    "find_existing",
    "get_beginnings",
    "get_history",
    "get_memory",
    "get_stats",
    "get_summaries",
    "insert_memory",
    "list_memories",
    "overwrite_memory",
    "store_memories",
    "supersede",
    "update_memory",
]


PREVIEW_CHARS = 100
# Nine values each: old versions of SQLite take no more than 999 in a statement.
CHUNKS_PER_STATEMENT = 100

# --- Storing ----------------------------------------------------------------------------

# Which memory was stored under an idempotency key.
_BY_IDEMPOTENCY_KEY: LiteralString = """
SELECT id, content_hash FROM memories WHERE idempotency_key = ?"""

# The memory with the same text in the same place that nothing superseded.
_SAME_TEXT: LiteralString = """
SELECT id FROM memories
WHERE content_hash = ? AND project = ? AND parent = ? AND position = ? AND superseded_by IS NULL
ORDER BY key LIMIT 1"""

# A new memory, without its text, tags and chunks.
_INSERT_MEMORY: LiteralString = """
INSERT INTO memories (key, id, content_hash, project, source, kind, pinned, metadata, preview,
    length, parent, position, occurred_at, created_at, updated_at, idempotency_key, expires_at,
    origin, trusted)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

_INSERT_TEXT: LiteralString = "INSERT INTO memory_texts (memory_key, text) VALUES (?, ?)"
_INSERT_TAG: LiteralString = "INSERT OR IGNORE INTO memory_tags (memory_key, tag) VALUES (?, ?)"

# Several chunks at once, each a row of values.
_INSERT_CHUNKS: LiteralString = """
INSERT INTO chunks (memory_key, position, start_char, end_char, text, text_hash, metadata, context,
    vector_pending) VALUES """
_CHUNK_VALUES: LiteralString = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"

_CHUNK_IDS: LiteralString = "SELECT position, id FROM chunks WHERE memory_key = ?"
_INSERT_VECTOR: LiteralString = """
INSERT INTO chunk_vectors (chunk_id, space_key, vector) VALUES (?, ?, ?)"""
_INSERT_TOKENS: LiteralString = """
INSERT INTO chunk_tokens (chunk_id, space_key, tokens, rest) VALUES (?, ?, ?, ?)"""
# A memory replaces only what was stored before it, so that no two replace each other.
_SUPERSEDE: LiteralString = """
UPDATE memories SET superseded_by = :key WHERE id = :older AND key < :key"""


def store_memories(
    connection: sqlite3.Connection, memories: Sequence[MemoryData]
) -> list[StoredMemory]:
    """Insert the memories that are new; return those that exist as duplicates or replays."""
    stored = []
    for memory in memories:
        existing = find_existing(
            connection,
            memory.project,
            memory.text,
            memory.idempotency_key,
            memory.parent,
            memory.position,
        )
        if existing is None:
            insert_memory(connection, memory, memory.timestamp)
        stored.append(existing or StoredMemory(memory_id=memory.memory_id))
    return stored


def find_existing(
    connection: sqlite3.Connection,
    project: str,
    text: str,
    idempotency_key: str | None,
    parent: str = "",
    position: int = 0,
) -> StoredMemory | None:
    """Return the memory with the same key, or with the same current text in the same place."""
    digest = content_hash(text)
    if idempotency_key is not None:
        row = connection.execute(_BY_IDEMPOTENCY_KEY, (idempotency_key,)).fetchone()
        if row is not None:
            memory_id, stored_digest = row
            if stored_digest != digest:
                raise ValidationError(
                    "The idempotency key was already used for another text; use a new key.",
                    "VAL_004",
                )
            return StoredMemory(memory_id=memory_id, status="replayed")
    memory_id = fetch_value(connection, _SAME_TEXT, (digest, project, parent, position))
    return None if memory_id is None else StoredMemory(memory_id=memory_id, status="duplicate")


def insert_memory(
    connection: sqlite3.Connection,
    memory: MemoryData,
    updated_at: datetime,
    key: int | None = None,
) -> int:
    """Store a memory without looking for duplicates, and return its key; None: a new one."""
    key = connection.execute(
        _INSERT_MEMORY,
        (
            key,
            memory.memory_id,
            content_hash(memory.text),
            memory.project,
            memory.source,
            memory.kind,
            int(memory.pinned),
            to_json(memory.metadata),
            memory.text[:PREVIEW_CHARS],
            len(memory.text),
            memory.parent,
            memory.position,
            to_time(memory.occurred_at or memory.timestamp),
            to_time(memory.timestamp),
            to_time(updated_at),
            memory.idempotency_key,
            None if memory.expires_at is None else to_time(memory.expires_at),
            memory.origin,
            int(memory.trusted),
        ),
    ).lastrowid
    assert key is not None
    connection.execute(_INSERT_TEXT, (key, memory.text))
    connection.executemany(_INSERT_TAG, [(key, tag) for tag in memory.tags])
    _insert_chunks(connection, key, memory.chunks, memory.space)
    supersede(connection, key, [] if memory.supersedes is None else [memory.supersedes])
    return key


def supersede(connection: sqlite3.Connection, key: int, older: Sequence[str]) -> None:
    """Mark memories as replaced by the one with this key."""
    for one in older:
        if connection.execute(_SUPERSEDE, {"key": key, "older": one}).rowcount == 0:
            known = fetch_value(connection, _KEY, (one,)) is not None
            raise refuse_superseding(is_known=known)


def _insert_chunks(
    connection: sqlite3.Connection,
    key: int,
    chunks: Sequence[ChunkData],
    space: EmbeddingSpace | None,
) -> None:
    # FTS5 writes out what it has gathered before every statement: one per chunk is half as fast.
    for start in range(0, len(chunks), CHUNKS_PER_STATEMENT):
        rows = [
            (
                key,
                chunk.index,
                chunk.start_char,
                chunk.end_char,
                chunk.text,
                text_hash(chunk.text),
                to_json(chunk.metadata) if chunk.metadata else "{}",
                chunk.context,
                int(chunk.embedding is None),
            )
            for chunk in chunks[start : start + CHUNKS_PER_STATEMENT]
        ]
        connection.execute(
            _INSERT_CHUNKS + ", ".join([_CHUNK_VALUES] * len(rows)),
            tuple(chain.from_iterable(rows)),
        )
    embedded = [chunk for chunk in chunks if chunk.embedding is not None]
    if not embedded:
        return
    claimed = space or EmbeddingSpace(model="unknown", dimension=len(embedded[0].embedding or ()))
    space_key = claim_space(connection, claimed)
    ids = dict(connection.execute(_CHUNK_IDS, (key,)).fetchall())
    packed = pack_vectors(
        [one.embedding or () for one in embedded],
        claimed.dimension,
        [one.index for one in embedded],
    )
    connection.executemany(
        _INSERT_VECTOR,
        [
            (ids[one.index], space_key, vector.upper)
            for one, vector in zip(embedded, packed, strict=True)
        ],
    )
    connection.executemany(
        _INSERT_TOKENS,
        [
            (ids[one.index], space_key, one.tokens or b"", vector.lower)
            for one, vector in zip(embedded, packed, strict=True)
        ],
    )


# --- Reading ----------------------------------------------------------------------------

# The columns of `_to_summary`.
_SUMMARY: LiteralString = """
SELECT m.key, m.id, m.preview, m.length, m.metadata, m.project, m.source, m.kind, m.pinned,
       m.parent, m.position, m.occurred_at, m.created_at, m.updated_at,
       m.expires_at, m.origin, m.trusted,
       (SELECT newer.id FROM memories newer WHERE newer.key = m.superseded_by),
       (SELECT count(*) FROM chunks c WHERE c.memory_key = m.key),
       (SELECT json_group_array(tag) FROM
           (SELECT tag FROM memory_tags WHERE memory_key = m.key ORDER BY tag))
FROM memories m
"""
_TEXT: LiteralString = "SELECT text FROM memory_texts WHERE memory_key = ?"
_BEGINNINGS: LiteralString = """
SELECT m.id, substr(t.text, 1, ?) FROM memories m JOIN memory_texts t ON t.memory_key = m.key
WHERE m.id IN (SELECT value FROM json_each(?))"""
_TAGS: LiteralString = "SELECT tag FROM memory_tags WHERE memory_key = ? ORDER BY tag"


def get_memory(connection: sqlite3.Connection, memory_id: str) -> MemoryRecord | None:
    row = connection.execute(_SUMMARY + " WHERE m.id = ?", (memory_id,)).fetchone()
    if row is None:
        return None
    key, *_ = row
    text = fetch_value(connection, _TEXT, (key,))
    return MemoryRecord(text=text, **dict(_to_summary(row)))


def get_summaries(
    connection: sqlite3.Connection, memory_ids: Sequence[str]
) -> dict[str, MemorySummary]:
    rows = connection.execute(
        _SUMMARY + " WHERE m.id IN (SELECT value FROM json_each(?))", (to_json(list(memory_ids)),)
    ).fetchall()
    found = [_to_summary(row) for row in rows]
    return {summary.memory_id: summary for summary in found}


def get_beginnings(
    connection: sqlite3.Connection, memory_ids: Sequence[str], length: int
) -> dict[str, str]:
    return dict(connection.execute(_BEGINNINGS, (length, to_json(list(memory_ids)))))


_LISTED: LiteralString = " ORDER BY m.pinned DESC, m.occurred_at DESC, m.key DESC"


def list_memories(
    connection: sqlite3.Connection, filters: MemoryFilter, limit: int, offset: int
) -> MemoryPage:
    condition, values = where(filters)
    total = fetch_value(connection, "SELECT count(*) FROM memories m WHERE " + condition, values)
    # Sorted by their keys first: what else is read of a memory is read for one page only.
    rows = connection.execute(
        _SUMMARY
        + " WHERE m.key IN (SELECT m.key FROM memories m WHERE "
        + condition
        + _LISTED
        + " LIMIT ? OFFSET ?)"
        + _LISTED,
        [*values, limit, offset],
    ).fetchall()
    items = [_to_summary(row) for row in rows]
    return MemoryPage(items=items, total=total)


_COUNT_BY_PROJECT: LiteralString = """
SELECT project, count(*) FROM memories WHERE kind <> ? GROUP BY project"""


def count_by_project(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute(_COUNT_BY_PROJECT, (CODE_KIND,)))


def _to_summary(row: tuple[Any, ...]) -> MemorySummary:
    # Unpacked at once: a search reads many of these.
    (
        _, memory_id, preview, length, metadata, project, source, kind, pinned,
        parent, position, occurred, created, updated, expires, origin, trusted,
        superseded_by, chunk_count, tags,
    ) = row  # fmt: skip
    return MemorySummary.from_fields(
        memory_id=memory_id,
        preview=preview,
        length=length,
        metadata={} if metadata == "{}" else from_json(metadata),
        project=project,
        project_key="",
        source=source,
        kind=kind,
        tags=[] if tags == "[]" else from_json(tags),
        pinned=bool(pinned),
        parent=parent,
        position=position,
        occurred_at=from_time(occurred),
        created_at=from_time(created),
        updated_at=from_time(updated),
        expires_at=None if expires is None else from_time(expires),
        origin=origin,
        trusted=bool(trusted),
        superseded_by=superseded_by,
        chunk_count=chunk_count,
    )


# --- Updating and deleting --------------------------------------------------------------

_KEY: LiteralString = "SELECT key FROM memories WHERE id = ?"
_UPDATED_AT: LiteralString = "SELECT updated_at FROM memories WHERE key = ?"
_CONTENT_HASH: LiteralString = "SELECT content_hash FROM memories WHERE key = ?"

# The fields that are given; None leaves one unchanged.
_UPDATE_FIELDS: LiteralString = """
UPDATE memories SET metadata = coalesce(?, metadata), project = coalesce(?, project),
    source = coalesce(?, source), kind = coalesce(?, kind), pinned = coalesce(?, pinned),
    trusted = coalesce(?, trusted), updated_at = ?
WHERE key = ?"""
_UPDATE_EXPIRY: LiteralString = "UPDATE memories SET expires_at = ? WHERE key = ?"

_UPDATE_TEXT_FIELDS: LiteralString = """
UPDATE memories SET content_hash = ?, preview = ?, length = ? WHERE key = ?"""
_UPDATE_TEXT: LiteralString = "UPDATE memory_texts SET text = ? WHERE memory_key = ?"
_DELETE_TAGS: LiteralString = "DELETE FROM memory_tags WHERE memory_key = ?"
_DELETE_CHUNKS: LiteralString = "DELETE FROM chunks WHERE memory_key = ?"
_DELETE_MEMORY: LiteralString = "DELETE FROM memories WHERE key = ?"


def update_memory(connection: sqlite3.Connection, memory_id: str, patch: MemoryPatch) -> bool:
    key = fetch_value(connection, _KEY, (memory_id,))
    if key is None:
        return False
    # Later than the change before it, also if that was made by a device whose clock is ahead.
    updated = fetch_value(connection, _UPDATED_AT, (key,))
    now = max(to_time(datetime.now(UTC)), updated + 1000)
    if patch == MemoryPatch(trusted=patch.trusted):
        now = updated  # To trust it is a decision of this home, no change of the memory.
    if (before := replaced_fields(_read_current(connection, key), patch)) is not None:
        replaced, old_text = before
        connection.execute(_INSERT_VERSION, (key, now, to_json(replaced), old_text))
    metadata = None if patch.metadata is None else to_json(patch.metadata)
    pinned = None if patch.pinned is None else int(patch.pinned)
    trusted = None if patch.trusted is None else int(patch.trusted)
    connection.execute(
        _UPDATE_FIELDS,
        (metadata, patch.project, patch.source, patch.kind, pinned, trusted, now, key),
    )
    if patch.expires_at is not None:
        expires = None if patch.expires_at == NEVER else to_time(patch.expires_at)
        connection.execute(_UPDATE_EXPIRY, (expires, key))
    if patch.tags is not None:
        connection.execute(_DELETE_TAGS, (key,))
        connection.executemany(_INSERT_TAG, [(key, tag) for tag in patch.tags])
    supersede(connection, key, patch.supersedes or [])
    if patch.text is not None:
        replace_text(connection, key, patch.text, patch.chunks or [], patch.space, now)
    return True


def replace_text(
    connection: sqlite3.Connection,
    key: int,
    text: str,
    chunks: Sequence[ChunkData],
    space: EmbeddingSpace | None,
    now: int,
) -> None:
    """Give a memory another text; the same one changes nothing."""
    if fetch_value(connection, _CONTENT_HASH, (key,)) == content_hash(text):
        return
    _close_evidence(connection, key, now)
    fields = (content_hash(text), text[:PREVIEW_CHARS], len(text))
    connection.execute(_UPDATE_TEXT_FIELDS, (*fields, key))
    connection.execute(_UPDATE_TEXT, (text, key))
    connection.execute(_DELETE_CHUNKS, (key,))
    _insert_chunks(connection, key, chunks, space)


# Everything but the text, the tags and what superseded it.
_OVERWRITE: LiteralString = """
UPDATE memories SET metadata = ?, project = ?, source = ?, kind = ?, pinned = ?, parent = ?,
    position = ?, occurred_at = ?, created_at = ?, updated_at = ?, idempotency_key = ?,
    expires_at = ?, origin = ?, trusted = ?
WHERE key = ?"""


def overwrite_memory(
    connection: sqlite3.Connection, key: int, memory: MemoryData, updated_at: datetime
) -> None:
    """Make a stored memory this one, but for its history and what supersedes it."""
    connection.execute(
        _OVERWRITE,
        (
            to_json(memory.metadata),
            memory.project,
            memory.source,
            memory.kind,
            int(memory.pinned),
            memory.parent,
            memory.position,
            to_time(memory.occurred_at or memory.timestamp),
            to_time(memory.timestamp),
            to_time(updated_at),
            memory.idempotency_key,
            None if memory.expires_at is None else to_time(memory.expires_at),
            memory.origin,
            int(memory.trusted),
            key,
        ),
    )
    connection.execute(_DELETE_TAGS, (key,))
    connection.executemany(_INSERT_TAG, [(key, tag) for tag in memory.tags])
    replace_text(connection, key, memory.text, memory.chunks, memory.space, to_time(updated_at))


def delete_memory(connection: sqlite3.Connection, memory_id: str) -> bool:
    key = fetch_value(connection, _KEY, (memory_id,))
    if key is None:
        return False
    # Chunks are deleted by name, so that triggers remove them from the word index and the vectors.
    connection.execute(_DELETE_CHUNKS, (key,))
    connection.execute(_DELETE_MEMORY, (key,))
    return True


def delete_memories(connection: sqlite3.Connection, unchanged: Mapping[str, datetime]) -> list[str]:
    return [
        memory_id
        for memory_id, at in unchanged.items()
        if (key := fetch_value(connection, _KEY, (memory_id,))) is not None
        and fetch_value(connection, _UPDATED_AT, (key,)) == to_time(at)
        and delete_memory(connection, memory_id)
    ]


# --- History ----------------------------------------------------------------------------

# What a memory is now: all that a version records.
_CURRENT: LiteralString = """
SELECT m.metadata, m.project, m.source, m.kind, m.pinned, m.expires_at, m.trusted, t.text
FROM memories m JOIN memory_texts t ON t.memory_key = m.key WHERE m.key = ?"""

_INSERT_VERSION: LiteralString = """
INSERT INTO memory_history (memory_key, replaced_at, fields, text) VALUES (?, ?, ?, ?)"""
_VERSIONS: LiteralString = """
SELECT replaced_at, fields, text FROM memory_history WHERE memory_key = ? ORDER BY key DESC"""

# The evidence of a memory's current text, with the passages that contain it.
_EVIDENCE: LiteralString = """
SELECT v.key, c.text, v.start_char, v.end_char
FROM graph_evidence v JOIN chunks c ON c.id = v.chunk_id WHERE v.memory_key = ?"""
_CLOSE_EVIDENCE: LiteralString = """
UPDATE graph_evidence SET chunk_id = NULL, text = ?, withdrawn = coalesce(withdrawn, ?)
WHERE key = ?"""

# A memory, those that superseded it one after the other, and all that it superseded.
_SUCCESSION: LiteralString = """
WITH RECURSIVE
newer (key) AS (
    SELECT key FROM memories WHERE id = :id
    UNION
    SELECT m.superseded_by FROM memories m JOIN newer n ON m.key = n.key
    WHERE m.superseded_by IS NOT NULL
),
older (key) AS (
    SELECT key FROM memories WHERE id = :id
    UNION
    SELECT m.key FROM memories m JOIN older o ON m.superseded_by = o.key
)
SELECT m.key, m.id, m.created_at, s.created_at, s.id FROM memories m
LEFT JOIN memories s ON s.key = m.superseded_by
WHERE m.key IN (SELECT key FROM newer UNION SELECT key FROM older)
ORDER BY m.key
"""


def _read_current(connection: sqlite3.Connection, key: int) -> dict[str, Any]:
    row = connection.execute(_CURRENT, (key,)).fetchone()
    metadata, project, source, kind, pinned, expires, trusted, text = row
    return {
        "metadata": from_json(metadata),
        "project": project,
        "source": source,
        "kind": kind,
        "tags": [tag for (tag,) in connection.execute(_TAGS, (key,))],
        "pinned": bool(pinned),
        "expires_at": None if expires is None else write_time(from_time(expires)),
        "trusted": bool(trusted),
        "text": text,
    }


def _close_evidence(connection: sqlite3.Connection, key: int, now: int) -> None:
    """End what a text states and store its sentences: the passages are about to be deleted."""
    rows = connection.execute(_EVIDENCE, (key,)).fetchall()
    connection.executemany(
        _CLOSE_EVIDENCE, [(text[start:end], now, evidence) for evidence, text, start, end in rows]
    )


def get_history(connection: sqlite3.Connection, memory_id: str) -> list[MemoryVersion]:
    versions: list[MemoryVersion] = []
    rows = connection.execute(_SUCCESSION, {"id": memory_id}).fetchall()
    for key, version_of, created, superseded, superseded_by in rows:
        changes = connection.execute(_VERSIONS, (key,)).fetchall()
        versions += versions_of(
            version_of,
            _read_current(connection, key),
            [Replaced(from_time(at), from_json(fields), text) for at, fields, text in changes],
            from_time(created),
            None if superseded is None else from_time(superseded),
            superseded_by,
        )
    return sort_versions(versions)


# --- Counting ---------------------------------------------------------------------------

_COUNTS: LiteralString = """
SELECT (SELECT count(*) FROM memories WHERE kind <> 'code'),
    (SELECT count(*) FROM chunks),
    (SELECT count(*) FROM graph_entities WHERE root IS NULL),
    (SELECT count(*) FROM memories WHERE kind = 'code')"""


def get_stats(connection: sqlite3.Connection, path: Path) -> MemoryStats:
    memories, chunks, entities, code_files = connection.execute(_COUNTS).fetchone()
    space = get_space(connection)
    files = (path, path.with_name(path.name + "-wal"))
    size = sum(file.stat().st_size for file in files if file.exists())
    return MemoryStats(
        total_memories=memories,
        total_chunks=chunks,
        total_entities=entities,
        code_files=code_files,
        database_size_mb=round(size / 1e6, 3),
        graph_name=path.stem,
        engine="sqlite",
        schema_version=fetch_value(connection, "PRAGMA user_version"),
        pending_vectors=count_pending(connection, None),
        embedding_model=space.model if space else None,
        embedding_dimension=space.dimension if space else None,
    )
