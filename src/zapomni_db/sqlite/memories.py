"""Storing, reading, changing and deleting memories: functions over one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from zapomni_db.exceptions import NotFoundError, ValidationError
from zapomni_db.graph_models import MemoryVersion
from zapomni_db.models import (
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
from zapomni_db.rules import Replaced, replaced_fields, sort_versions, versions_of
from zapomni_db.sqlite.rows import (
    content_hash,
    from_json,
    from_time,
    text_hash,
    to_blob,
    to_json,
    to_time,
    where,
)
from zapomni_db.sqlite.vectors import claim_space, count_pending, read_active_space

__all__ = [
    "close_evidence",
    "delete_memory",
    "find_existing",
    "get_history",
    "get_memory",
    "get_stats",
    "get_summaries",
    "insert_memory",
    "list_memories",
    "store_memories",
    "update_memory",
]


PREVIEW_CHARS = 100
# Of nine values each: the oldest SQLite takes no more than 999 in a statement.
CHUNKS_AT_ONCE = 100

_INSERT_CHUNKS = (
    "INSERT INTO chunks (memory_key, position, start_char, end_char, text, text_hash, metadata,"
    " context, vector_pending) VALUES "
)
_CHUNK_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"

_SUMMARY = """
SELECT m.key, m.id, m.preview, m.length, m.metadata, m.project, m.source, m.kind, m.pinned,
       m.parent, m.position, m.occurred_at, m.created_at, m.updated_at,
       (SELECT newer.id FROM memories newer WHERE newer.key = m.superseded_by),
       (SELECT count(*) FROM chunks c WHERE c.memory_key = m.key)
FROM memories m
"""


def store_memories(
    connection: sqlite3.Connection, memories: Sequence[MemoryData]
) -> list[StoredMemory]:
    """Insert what is new; answer for the rest with what is there."""
    return [_store_one(connection, memory) for memory in memories]


def _store_one(connection: sqlite3.Connection, memory: MemoryData) -> StoredMemory:
    existing = find_existing(
        connection,
        memory.project,
        memory.text,
        memory.idempotency_key,
        memory.parent,
        memory.position,
    )
    if existing is not None:
        return existing
    insert_memory(connection, memory, memory.timestamp)
    return StoredMemory(memory_id=memory.memory_id)


def insert_memory(connection: sqlite3.Connection, memory: MemoryData, updated_at: datetime) -> int:
    """Store a memory whatever is there already, and return its key."""
    key = connection.execute(
        "INSERT INTO memories (id, content_hash, project, source, kind, pinned, metadata, preview,"
        " length, parent, position, occurred_at, created_at, updated_at, idempotency_key)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
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
        ),
    ).lastrowid
    assert key is not None
    connection.execute("INSERT INTO memory_texts VALUES (?, ?)", (key, memory.text))
    _insert_tags(connection, key, memory.tags)
    _insert_chunks(connection, key, memory.chunks, memory.space)
    if memory.supersedes is not None:
        _supersede(connection, memory.supersedes, key)
    return key


def find_existing(
    connection: sqlite3.Connection,
    project: str,
    text: str,
    idempotency_key: str | None,
    parent: str = "",
    position: int = 0,
) -> StoredMemory | None:
    """Find what the same key, or the same live text in the same place, is kept under."""
    digest = content_hash(text)
    if idempotency_key is not None:
        row = connection.execute(
            "SELECT id, content_hash FROM memories WHERE idempotency_key = ?", (idempotency_key,)
        ).fetchone()
        if row is not None:
            if row[1] != digest:
                raise ValidationError(
                    "The idempotency key was already used for another text; use a new key.",
                    "VAL_004",
                )
            return StoredMemory(memory_id=row[0], status="replayed")
    row = connection.execute(
        "SELECT id FROM memories"
        " WHERE content_hash = ? AND project = ? AND parent = ? AND position = ?"
        " AND superseded_by IS NULL ORDER BY key LIMIT 1",
        (digest, project, parent, position),
    ).fetchone()
    return None if row is None else StoredMemory(memory_id=row[0], status="duplicate")


def _insert_tags(connection: sqlite3.Connection, key: int, tags: Iterable[str]) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO memory_tags (tag, memory_key) VALUES (?, ?)",
        [(tag, key) for tag in tags],
    )


def _insert_chunks(
    connection: sqlite3.Connection,
    key: int,
    chunks: Sequence[ChunkData],
    space: EmbeddingSpace | None,
) -> None:
    # Before every statement FTS5 writes out what it has gathered: a row each takes twice as long.
    for start in range(0, len(chunks), CHUNKS_AT_ONCE):
        rows = [_chunk_row(key, chunk) for chunk in chunks[start : start + CHUNKS_AT_ONCE]]
        connection.execute(
            _INSERT_CHUNKS + ", ".join([_CHUNK_ROW] * len(rows)), tuple(chain.from_iterable(rows))
        )
    embedded = [chunk for chunk in chunks if chunk.embedding is not None]
    if embedded:
        _insert_vectors(connection, key, embedded, space)


def _chunk_row(key: int, chunk: ChunkData) -> tuple[Any, ...]:
    return (
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


def _insert_vectors(
    connection: sqlite3.Connection,
    key: int,
    chunks: Sequence[ChunkData],
    space: EmbeddingSpace | None,
) -> None:
    claimed = space or EmbeddingSpace(model="unknown", dimension=len(chunks[0].embedding or ()))
    space_key = claim_space(connection, claimed)
    found = connection.execute("SELECT position, id FROM chunks WHERE memory_key = ?", (key,))
    ids = dict(found.fetchall())
    connection.executemany(
        "INSERT INTO chunk_vectors (chunk_id, space_key, vector) VALUES (?, ?, ?)",
        [
            (ids[one.index], space_key, to_blob(one.embedding or (), claimed.dimension, one.index))
            for one in chunks
        ],
    )
    connection.executemany(
        "INSERT INTO chunk_tokens (chunk_id, space_key, tokens) VALUES (?, ?, ?)",
        [(ids[one.index], space_key, one.tokens) for one in chunks if one.tokens],
    )


def _supersede(connection: sqlite3.Connection, older_id: str, newer_key: int) -> None:
    changed = connection.execute(
        "UPDATE memories SET superseded_by = ? WHERE id = ?", (newer_key, older_id)
    ).rowcount
    if changed == 0:
        raise NotFoundError("No memory has the id given in supersedes; nothing was stored.")


def get_memory(connection: sqlite3.Connection, memory_id: str) -> MemoryRecord | None:
    row = connection.execute(_SUMMARY + " WHERE m.id = ?", (memory_id,)).fetchone()
    if row is None:
        return None
    text = connection.execute(
        "SELECT text FROM memory_texts WHERE memory_key = ?", (row[0],)
    ).fetchone()[0]
    summary = _to_summary(connection, row)
    return MemoryRecord(text=text, **dict(summary))


def get_summaries(
    connection: sqlite3.Connection, memory_ids: Sequence[str]
) -> dict[str, MemorySummary]:
    rows = connection.execute(
        _SUMMARY + " WHERE m.id IN (SELECT value FROM json_each(?))", (to_json(list(memory_ids)),)
    ).fetchall()
    return {row[1]: _to_summary(connection, row) for row in rows}


def list_memories(
    connection: sqlite3.Connection, filters: MemoryFilter, limit: int, offset: int
) -> MemoryPage:
    condition, values = where(filters)
    total = connection.execute(
        "SELECT count(*) FROM memories m WHERE " + condition, values
    ).fetchone()[0]
    rows = connection.execute(
        _SUMMARY
        + " WHERE "
        + condition
        + " ORDER BY m.pinned DESC, m.occurred_at DESC, m.key DESC LIMIT ? OFFSET ?",
        [*values, limit, offset],
    ).fetchall()
    return MemoryPage(items=[_to_summary(connection, row) for row in rows], total=total)


def _to_summary(connection: sqlite3.Connection, row: tuple[Any, ...]) -> MemorySummary:
    key, memory_id, preview, length, metadata, project, source, kind, pinned = row[:9]
    parent, position, occurred, created, updated, superseded_by, chunk_count = row[9:]
    tags = connection.execute(
        "SELECT tag FROM memory_tags WHERE memory_key = ? ORDER BY tag", (key,)
    )
    return MemorySummary.model_construct(
        memory_id=memory_id,
        preview=preview,
        length=length,
        metadata=from_json(metadata),
        project=project,
        source=source,
        kind=kind,
        tags=[tag for (tag,) in tags],
        pinned=bool(pinned),
        parent=parent,
        position=position,
        occurred_at=from_time(occurred),
        created_at=from_time(created),
        updated_at=from_time(updated),
        superseded_by=superseded_by,
        chunk_count=chunk_count,
    )


def update_memory(connection: sqlite3.Connection, memory_id: str, patch: MemoryPatch) -> bool:
    row = connection.execute("SELECT key FROM memories WHERE id = ?", (memory_id,)).fetchone()
    if row is None:
        return False
    key, now = row[0], to_time(datetime.now(UTC))
    _record_version(connection, key, patch, now)
    connection.execute(
        "UPDATE memories SET metadata = coalesce(?, metadata), project = coalesce(?, project),"
        " source = coalesce(?, source), kind = coalesce(?, kind), pinned = coalesce(?, pinned),"
        " updated_at = ? WHERE key = ?",
        (
            None if patch.metadata is None else to_json(patch.metadata),
            patch.project,
            patch.source,
            patch.kind,
            None if patch.pinned is None else int(patch.pinned),
            now,
            key,
        ),
    )
    if patch.tags is not None:
        connection.execute("DELETE FROM memory_tags WHERE memory_key = ?", (key,))
        _insert_tags(connection, key, patch.tags)
    if patch.text is not None and not _has_text(connection, key, patch.text):
        close_evidence(connection, key, now)
        _replace_text(connection, key, patch.text, patch.chunks or [], patch.space)
    return True


def _has_text(connection: sqlite3.Connection, key: int, text: str) -> bool:
    row = connection.execute("SELECT content_hash FROM memories WHERE key = ?", (key,)).fetchone()
    return bool(row[0] == content_hash(text))


def _replace_text(
    connection: sqlite3.Connection,
    key: int,
    text: str,
    chunks: Sequence[ChunkData],
    space: EmbeddingSpace | None,
) -> None:
    connection.execute(
        "UPDATE memories SET content_hash = ?, preview = ?, length = ? WHERE key = ?",
        (content_hash(text), text[:PREVIEW_CHARS], len(text), key),
    )
    connection.execute("UPDATE memory_texts SET text = ? WHERE memory_key = ?", (text, key))
    connection.execute("DELETE FROM chunks WHERE memory_key = ?", (key,))
    _insert_chunks(connection, key, chunks, space)


def delete_memory(connection: sqlite3.Connection, memory_id: str) -> bool:
    row = connection.execute("SELECT key FROM memories WHERE id = ?", (memory_id,)).fetchone()
    if row is None:
        return False
    # Chunks go first by name, so that their word index and vectors go by their triggers.
    connection.execute("DELETE FROM chunks WHERE memory_key = ?", row)
    connection.execute("DELETE FROM memories WHERE key = ?", row)
    return True


# --- History ---------------------------------------------------------------------------


def _record_version(connection: sqlite3.Connection, key: int, patch: MemoryPatch, now: int) -> None:
    """Keep what a patch is about to change."""
    if (before := replaced_fields(_current(connection, key), patch)) is not None:
        fields, text = before
        connection.execute(
            "INSERT INTO memory_history (memory_key, replaced_at, fields, text)"
            " VALUES (?, ?, ?, ?)",
            (key, now, to_json(fields), text),
        )


def _current(connection: sqlite3.Connection, key: int) -> dict[str, Any]:
    metadata, project, source, kind, pinned, text = connection.execute(
        "SELECT m.metadata, m.project, m.source, m.kind, m.pinned, t.text FROM memories m"
        " JOIN memory_texts t ON t.memory_key = m.key WHERE m.key = ?",
        (key,),
    ).fetchone()
    tags = connection.execute(
        "SELECT tag FROM memory_tags WHERE memory_key = ? ORDER BY tag", (key,)
    )
    return {
        "metadata": from_json(metadata),
        "project": project,
        "source": source,
        "kind": kind,
        "tags": [tag for (tag,) in tags],
        "pinned": bool(pinned),
        "text": text,
    }


def close_evidence(connection: sqlite3.Connection, key: int, now: int) -> None:
    """Let what a text states end now, and keep its sentences: the passages are about to go."""
    rows = connection.execute(
        "SELECT v.key, c.text, v.start_char, v.end_char FROM graph_evidence v"
        " JOIN chunks c ON c.id = v.chunk_id WHERE v.memory_key = ?",
        (key,),
    ).fetchall()
    connection.executemany(
        "UPDATE graph_evidence SET chunk_id = NULL, text = ?,"
        " withdrawn = coalesce(withdrawn, ?) WHERE key = ?",
        [(text[start:end], now, evidence) for evidence, text, start, end in rows],
    )


# Those that superseded it, one after the other, and all that it superseded.
_LINE = """
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
"""


def get_history(connection: sqlite3.Connection, memory_id: str) -> list[MemoryVersion]:
    return sort_versions(
        version
        for row in connection.execute(_LINE, {"id": memory_id}).fetchall()
        for version in _versions_of(connection, *row)
    )


def _versions_of(
    connection: sqlite3.Connection,
    key: int,
    memory_id: str,
    created: int,
    superseded: int | None,
    superseded_by: str | None,
) -> Iterator[MemoryVersion]:
    changes = connection.execute(
        "SELECT replaced_at, fields, text FROM memory_history WHERE memory_key = ?"
        " ORDER BY key DESC",
        (key,),
    ).fetchall()
    return versions_of(
        memory_id,
        _current(connection, key),
        [Replaced(from_time(at), from_json(fields), text) for at, fields, text in changes],
        from_time(created),
        None if superseded is None else from_time(superseded),
        superseded_by,
    )


# --- Counting ---------------------------------------------------------------------------


def get_stats(connection: sqlite3.Connection, path: Path) -> MemoryStats:
    counts = connection.execute(
        "SELECT (SELECT count(*) FROM memories WHERE kind <> 'code'),"
        " (SELECT count(*) FROM chunks),"
        " (SELECT count(*) FROM graph_entities WHERE root IS NULL),"
        " (SELECT count(*) FROM memories WHERE kind = 'code')"
    ).fetchone()
    active = read_active_space(connection)
    return MemoryStats(
        total_memories=counts[0],
        total_chunks=counts[1],
        total_entities=counts[2],
        code_files=counts[3],
        database_size_mb=round(_bytes_on_disk(path) / 1e6, 3),
        graph_name=path.stem,
        engine="sqlite",
        schema_version=connection.execute("PRAGMA user_version").fetchone()[0],
        pending_vectors=count_pending(connection, None),
        embedding_model=active[1].model if active else None,
        embedding_dimension=active[1].dimension if active else None,
    )


def _bytes_on_disk(path: Path) -> int:
    parts = (path, path.with_name(path.name + "-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())
