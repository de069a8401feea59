"""Memories whole, on their way to another store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zapomni_db.copy_models import MemoryCopy, MemoryExport, VersionCopy
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.spaces import SLOT_ROW, slot_of
from zapomni_db.falkordb.values import from_json, from_time, from_tokens
from zapomni_db.models import ChunkData, EmbeddingSpace

__all__ = ["export"]

_MEMORIES = """
MATCH (m:Memory) WHERE m.key > $after
WITH m ORDER BY m.key LIMIT $limit
OPTIONAL MATCH (older:Memory {superseded_by: m.id})
OPTIONAL MATCH (m)-[:WAS]->(v:Version)
WITH m, older, v ORDER BY v.key
WITH m, older, collect([v.replaced_at, v.fields, v.text]) AS versions
RETURN m.key, m.id, m.text, m.metadata, m.project, m.source, m.kind, m.tags, m.pinned,
    m.idempotency_key, m.parent, m.position, m.occurred_at, m.created_at, m.updated_at, older.id,
    versions
ORDER BY m.key
"""

# A row per memory: a server may be set to cut answers at so many rows, without a word.
_CHUNKS = f"""
OPTIONAL MATCH (e:EmbeddingSpace {{active: true}})
WITH e MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE m.id IN $ids
WITH e, m, c ORDER BY c.key
WITH e, m, collect([c.text, c.index, c.start_char, c.end_char, c.metadata, c.context,
    c[e.vectors], c[e.tokens]]) AS chunks
RETURN m.id, {SLOT_ROW}, chunks
"""


async def export(session: Session, after: str | None, limit: int) -> MemoryExport:
    rows = await session.read(_MEMORIES, after=int(after or 0), limit=limit)
    chunks: dict[str, list[ChunkData]] = {}
    space = None
    for memory_id, slot, found in await session.read(_CHUNKS, ids=[row[1] for row in rows]):
        space = slot_of(slot).space
        chunks[memory_id] = [_to_chunk(chunk) for chunk in found]
    # One without chunks was deleted between the two questions.
    items = [_to_copy(row, own, space) for row in rows if (own := chunks.get(row[1]))]
    return MemoryExport(items=items, after=str(rows[-1][0]) if rows else None)


def _to_copy(
    row: Sequence[Any], chunks: list[ChunkData], space: EmbeddingSpace | None
) -> MemoryCopy:
    _, memory_id, text, metadata, project, source, kind, tags, pinned = row[:9]
    idempotency_key, parent, position, occurred, created, updated, supersedes, versions = row[9:]
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
        tags=tags,
        pinned=pinned,
        idempotency_key=idempotency_key,
        supersedes=supersedes,
        parent=parent,
        position=position,
        occurred_at=from_time(occurred),
        space=space if any(chunk.embedding for chunk in chunks) else None,
        history=[
            VersionCopy(replaced_at=from_time(at), fields=from_json(fields), text=text)
            for at, fields, text in versions
            if at is not None
        ],
    )


def _to_chunk(row: Sequence[Any]) -> ChunkData:
    text, index, start, end, metadata, context, vector, tokens = row
    return ChunkData(
        text=text,
        index=index,
        start_char=start,
        end_char=end,
        metadata=from_json(metadata),
        context=context,
        embedding=vector,
        tokens=from_tokens(tokens),
    )
