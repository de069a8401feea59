"""Memories whole, on their way to another store and from one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from zapomni_db.copy_models import MemoryCopy, MemoryExport, VersionCopy
from zapomni_db.models import ChunkData, EmbeddingSpace
from zapomni_db.sqlite.memories import insert
from zapomni_db.sqlite.rows import from_blob, from_json, from_time, to_json, to_time
from zapomni_db.sqlite.spaces import active_space

__all__ = ["export", "import_"]

_MEMORIES = """
SELECT m.key, m.id, t.text, m.metadata, m.project, m.source, m.kind, m.pinned,
       m.idempotency_key, m.parent, m.position, m.occurred_at, m.created_at, m.updated_at,
       (SELECT older.id FROM memories older WHERE older.superseded_by = m.key)
FROM memories m JOIN memory_texts t ON t.memory_key = m.key
WHERE m.key > ? ORDER BY m.key LIMIT ?
"""

_CHUNKS = """
SELECT c.text, c.position, c.start_char, c.end_char, c.metadata, c.context, v.vector, k.tokens
FROM chunks c
LEFT JOIN chunk_vectors v ON v.chunk_id = c.id AND v.space_key = ?
LEFT JOIN chunk_tokens k ON k.chunk_id = c.id AND k.space_key = v.space_key
WHERE c.memory_key = ? ORDER BY c.position
"""


def export(connection: sqlite3.Connection, after: str | None, limit: int) -> MemoryExport:
    active = active_space(connection)
    rows = connection.execute(_MEMORIES, (int(after or 0), limit)).fetchall()
    items = [_to_copy(connection, row, active) for row in rows]
    return MemoryExport(items=items, after=str(rows[-1][0]) if rows else None)


def _to_copy(
    connection: sqlite3.Connection,
    row: tuple[Any, ...],
    active: tuple[int, EmbeddingSpace] | None,
) -> MemoryCopy:
    key, memory_id, text, metadata, project, source, kind, pinned = row[:8]
    idempotency_key, parent, position, occurred, created, updated, supersedes = row[8:]
    space_key, space = active or (0, None)
    chunks = [_to_chunk(part) for part in connection.execute(_CHUNKS, (space_key, key))]
    tags = connection.execute(
        "SELECT tag FROM memory_tags WHERE memory_key = ? ORDER BY tag", (key,)
    )
    return MemoryCopy(
        memory_id=memory_id,
        text=text,
        chunks=chunks,
        metadata=from_json(metadata),
        timestamp=from_time(created),
        updated_at=from_time(updated),
        project=project,
        source=source,
        kind=kind,
        tags=[tag for (tag,) in tags],
        pinned=bool(pinned),
        idempotency_key=idempotency_key,
        supersedes=supersedes,
        parent=parent,
        position=position,
        occurred_at=from_time(occurred),
        space=space if any(chunk.embedding for chunk in chunks) else None,
        history=_history(connection, key),
    )


def _history(connection: sqlite3.Connection, key: int) -> list[VersionCopy]:
    rows = connection.execute(
        "SELECT replaced_at, fields, text FROM memory_history WHERE memory_key = ? ORDER BY key",
        (key,),
    )
    return [
        VersionCopy(replaced_at=from_time(at), fields=from_json(fields), text=text)
        for at, fields, text in rows
    ]


def _to_chunk(row: tuple[Any, ...]) -> ChunkData:
    text, index, start, end, metadata, context, vector, tokens = row
    return ChunkData(
        text=text,
        index=index,
        start_char=start,
        end_char=end,
        metadata=from_json(metadata),
        context=context,
        embedding=None if vector is None else from_blob(vector),
        tokens=tokens,
    )


def import_(connection: sqlite3.Connection, memories: Sequence[MemoryCopy]) -> None:
    for memory in memories:
        key = insert(connection, memory, memory.updated_at)
        connection.executemany(
            "INSERT INTO memory_history (memory_key, replaced_at, fields, text)"
            " VALUES (?, ?, ?, ?)",
            [
                (key, to_time(version.replaced_at), to_json(version.fields), version.text)
                for version in memory.history
            ],
        )
