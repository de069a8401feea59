"""Reading, changing and deleting stored memories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

from zapomni_db.exceptions import ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.filters import where
from zapomni_db.falkordb.schema import HnswOptions, ensure_vector_index
from zapomni_db.falkordb.spaces import (
    CLAIM,
    SLOT_ROW,
    active_slot,
    claim,
    claim_values,
)
from zapomni_db.falkordb.storing import CREATE_CHUNKS, chunk_rows, group_of
from zapomni_db.falkordb.values import (
    content_hash,
    digest,
    from_json,
    from_time,
    to_json,
    to_time,
)
from zapomni_db.models import (
    MemoryFilter,
    MemoryPage,
    MemoryPatch,
    MemoryRecord,
    MemorySummary,
)

__all__ = ["deletion", "get", "list_page", "summaries", "update"]

PREVIEW_CHARS = 100

# A character that FalkorDB cannot keep is written as two: the preview is cut once more here.
_SUMMARY = """
RETURN m.id, left(m.text, 200), m.length, m.metadata, m.project, m.source, m.kind, m.tags,
    m.pinned, m.parent, m.position, m.occurred_at, m.created_at, m.updated_at, m.superseded_by,
    outdegree(m, 'HAS_CHUNK')
"""


async def get(session: Session, memory_id: str) -> MemoryRecord | None:
    rows = await session.read("MATCH (m:Memory {id: $id})" + _SUMMARY + ", m.text", id=memory_id)
    if not rows:
        return None
    *summary, text = rows[0]
    return MemoryRecord(text=text, **dict(_to_summary(summary)))


async def summaries(session: Session, memory_ids: Sequence[str]) -> dict[str, MemorySummary]:
    rows = await session.read(
        "MATCH (m:Memory) WHERE m.id IN $ids" + _SUMMARY, ids=list(memory_ids)
    )
    return {row[0]: _to_summary(row) for row in rows}


async def list_page(session: Session, filters: MemoryFilter, limit: int, offset: int) -> MemoryPage:
    condition, values = where(filters)
    total = await session.read(f"MATCH (m:Memory) WHERE {condition} RETURN count(m)", **values)
    rows = await session.read(
        f"MATCH (m:Memory) WHERE {condition} WITH m"
        " ORDER BY m.pinned DESC, m.occurred_at DESC, m.key DESC SKIP $offset LIMIT $limit"
        + _SUMMARY,
        limit=limit,
        offset=offset,
        **values,
    )
    return MemoryPage(items=[_to_summary(row) for row in rows], total=total[0][0])


def _to_summary(row: Sequence[Any]) -> MemorySummary:
    memory_id, preview, length, metadata, project, source, kind, tags = row[:8]
    pinned, parent, position, occurred, created, updated, superseded_by, chunk_count = row[8:]
    return MemorySummary.model_construct(
        memory_id=memory_id,
        preview=preview[:PREVIEW_CHARS],
        length=length,
        metadata=from_json(metadata),
        project=project,
        source=source,
        kind=kind,
        tags=tags,
        pinned=pinned,
        parent=parent,
        position=position,
        occurred_at=from_time(occurred),
        created_at=from_time(created),
        updated_at=from_time(updated),
        superseded_by=superseded_by,
        chunk_count=chunk_count,
    )


async def update(session: Session, hnsw: HnswOptions, memory_id: str, patch: MemoryPatch) -> bool:
    rows = await session.read("MATCH (m:Memory {id: $id}) RETURN m.parent", id=memory_id)
    if not rows:
        return False
    changes = _changes(memory_id, rows[0][0], patch)
    if patch.text is not None:
        return await _replace_text(session, hnsw, memory_id, patch, changes)
    written = await session.write(
        "MATCH (s:Store) MATCH (m:Memory {id: $id})"
        " SET s.version = s.version + 1 SET m += $changes RETURN 1",
        id=memory_id,
        changes=changes,
    )
    return bool(written)


def _changes(memory_id: str, parent: str, patch: MemoryPatch) -> dict[str, Any]:
    """Return the properties a patch sets. A memory's parent never changes, so it may be known."""
    changes: dict[str, Any] = {"updated_at": to_time(datetime.now(UTC))}
    for name in ("project", "source", "kind", "pinned"):
        if (value := getattr(patch, name)) is not None:
            changes[name] = value
    if patch.metadata is not None:
        changes["metadata"] = to_json(patch.metadata)
    if patch.tags is not None:
        changes["tags"] = sorted(set(patch.tags))
    if patch.project is not None:
        changes["project_hash"] = digest(patch.project)
        changes["group"] = group_of(memory_id, patch.project, parent)
    if patch.text is not None:
        changes["text"] = patch.text
        changes["length"] = len(patch.text)
        changes["content_hash"] = content_hash(patch.text)
    return changes


async def _replace_text(
    session: Session,
    hnsw: HnswOptions,
    memory_id: str,
    patch: MemoryPatch,
    changes: dict[str, Any],
) -> bool:
    chunks = patch.chunks
    if not chunks:
        raise ValidationError("A new text needs its chunks; the list cannot be empty", "VAL_001")
    while True:
        active, _ = await active_slot(session)
        slot = claim(active, chunks, patch.space)
        if slot.space is not None:
            await ensure_vector_index(session, slot.vectors, slot.space.dimension, hnsw)
        keys = count(1)
        rows = await chunk_rows(chunks, keys)
        written = await session.write(
            f"OPTIONAL MATCH (e:EmbeddingSpace {{active: true}}) WITH {SLOT_ROW} AS active"
            " WHERE active = $active"
            + (f" WITH 1 AS go {CLAIM} WITH e" if slot.number else "")
            + _EXCHANGE_CHUNKS
            + CREATE_CHUNKS.format(vectors=slot.vectors, tokens=slot.tokens)
            + " RETURN 1 LIMIT 1",
            id=memory_id,
            active=active.as_row(),
            changes=changes,
            chunks=rows,
            keys=next(keys),
            words=sum(row["size"] for row in rows),
            **claim_values(slot, is_active=True),
        )
        if written:
            return True
        if not await session.read("MATCH (m:Memory {id: $id}) RETURN 1", id=memory_id):
            return False


_EXCHANGE_CHUNKS = """
MATCH (s:Store) MATCH (m:Memory {id: $id})
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(old:Chunk)
WITH s, m, s.keys AS base, collect(old) AS olds, toInteger(sum(old.size)) AS gone
SET s.version = s.version + 1, s.keys = base + $keys, s.words = s.words + $words - gone,
    s.chunks = s.chunks + size($chunks) - size(olds)
SET m += $changes
FOREACH (old IN olds | DELETE old)
WITH m, base UNWIND $chunks AS y
"""

# Deleting the newer memory brings the older one back.
_DELETE = """
MATCH (s:Store) MATCH (m:Memory {id: $id})
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(c:Chunk)
WITH s, m, collect(c) AS chunks, toInteger(sum(c.size)) AS gone
SET s.version = s.version + 1, s.words = s.words - gone, s.chunks = s.chunks - size(chunks)
FOREACH (c IN chunks | DELETE c)
DELETE m
WITH count(s) AS found WHERE found > 0
OPTIONAL MATCH (older:Memory {superseded_by: $id})
SET older.superseded_by = null, older.superseded_at = null
RETURN DISTINCT found
"""


def deletion(memory_id: str) -> Callable[[Session], Awaitable[bool]]:
    """Return the work of deleting a memory, which may take several attempts."""
    was_seen = False

    async def delete(session: Session) -> bool:
        nonlocal was_seen
        here = bool(await session.read("MATCH (m:Memory {id: $id}) RETURN 1", id=memory_id))
        if here:
            was_seen = True
            return bool(await session.write(_DELETE, id=memory_id)) or session.is_repeated
        # The attempt whose answer we never got has deleted it.
        return was_seen

    return delete
