"""Reading, changing and deleting stored memories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

from zapomni_db.exceptions import ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.filters import where
from zapomni_db.falkordb.graph_guard import SWEEP
from zapomni_db.falkordb.history import RECORD, STATE, to_state, version_rows
from zapomni_db.falkordb.schema import HnswOptions, ensure_vector_index
from zapomni_db.falkordb.spaces import CLAIM, SLOT_ROW, active_slot, claim, claim_values
from zapomni_db.falkordb.storing import CREATE_CHUNKS, END_EVIDENCE
from zapomni_db.falkordb.storing_rows import chunk_rows, group_of
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
    while True:
        rows = await session.read(
            f"MATCH (s:Store) MATCH (m:Memory {{id: $id}}) RETURN s.graph, m.parent, {STATE}",
            id=memory_id,
        )
        if not rows:
            return False
        seen, parent, found = rows[0]
        state = to_state(found)
        changes = _changes(memory_id, parent, patch)
        values = {
            "id": memory_id,
            "seen": seen,
            "changes": changes,
            "replaced": version_rows(state, patch, changes["updated_at"]),
        }
        if patch.text is None or patch.text == state["text"]:
            done = bool(await session.write(_CHANGE, **values))
        else:
            done = await _replace_text(session, hnsw, patch, values)
        if done:
            return True


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


_CHANGE = (
    "MATCH (s:Store) WHERE s.graph = $seen MATCH (m:Memory {id: $id}) WITH s, m, s.keys AS base"
    " SET s.version = s.version + 1, s.graph = s.graph + 1, s.keys = base + 1"
    f" SET m += $changes {RECORD} RETURN 1"
)


async def _replace_text(
    session: Session, hnsw: HnswOptions, patch: MemoryPatch, values: dict[str, Any]
) -> bool:
    """Exchange the text and its passages; False if something was changed since we looked."""
    chunks = patch.chunks
    if not chunks:
        raise ValidationError("A new text needs its chunks; the list cannot be empty", "VAL_001")
    active, _ = await active_slot(session)
    slot = claim(active, chunks, patch.space)
    if slot.space is not None:
        await ensure_vector_index(session, slot.vectors, slot.space.dimension, hnsw)
    # The first number is the version's.
    keys = count(2)
    rows = await chunk_rows(chunks, keys)
    values["changes"]["said"] = values["changes"]["updated_at"]
    written = await session.write(
        f"OPTIONAL MATCH (e:EmbeddingSpace {{active: true}}) WITH {SLOT_ROW} AS active"
        " WHERE active = $active"
        + (f" WITH 1 AS go {CLAIM} WITH e" if slot.number else "")
        + _EXCHANGE_CHUNKS
        + CREATE_CHUNKS.format(vectors=slot.vectors, tokens=slot.tokens)
        + " RETURN 1 LIMIT 1",
        active=active.as_row(),
        chunks=rows,
        keys=next(keys),
        words=sum(row["size"] for row in rows),
        **values,
        **claim_values(slot, is_active=True),
    )
    return bool(written)


# What the old text states ends now; its sentences stay, with the passages' names they are gone.
_EXCHANGE_CHUNKS = f"""
MATCH (s:Store) WHERE s.graph = $seen MATCH (m:Memory {{id: $id}})
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(:Chunk)-[:MENTIONS]->(named:Entity)
WITH s, m, collect(DISTINCT named.id) AS names
OPTIONAL MATCH ()-[v:RELATES {{memory: $id}}]->() WHERE v.chunk IS NOT NULL
SET v.chunk = null, v.withdrawn = coalesce(v.withdrawn, $changes.updated_at)
WITH s, m, names, count(v) AS ended
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(old:Chunk)
WITH s, m, names, s.keys AS base, collect(old) AS olds, toInteger(sum(old.size)) AS gone
SET s.version = s.version + 1, s.graph = s.graph + 1, s.keys = base + $keys,
    s.words = s.words + $words - gone, s.chunks = s.chunks + size($chunks) - size(olds)
SET m += $changes
FOREACH (old IN olds | DELETE old)
{RECORD}
WITH m, base, names UNWIND names + [''] AS x {SWEEP}
WITH m, base, count(*) AS swept UNWIND $chunks AS y
"""

# Deleting the newer memory brings the older one back.
_DELETE = f"""
MATCH (s:Store) MATCH (m:Memory {{id: $id}})
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(:Chunk)-[:MENTIONS]->(named:Entity)
WITH s, m, collect(DISTINCT named.id) AS names
OPTIONAL MATCH ()-[v:RELATES {{memory: $id}}]->()
WITH s, m, names, collect(v) AS sentences, collect(startNode(v).id) + collect(endNode(v).id) AS ends
OPTIONAL MATCH (m)-[:WAS]->(version:Version)
WITH s, m, names, sentences, ends, collect(version) AS versions
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(c:Chunk)
WITH s, m, names + ends AS names, sentences, versions, collect(c) AS chunks,
    toInteger(sum(c.size)) AS gone
SET s.version = s.version + 1, s.graph = s.graph + 1, s.words = s.words - gone,
    s.chunks = s.chunks - size(chunks)
FOREACH (v IN sentences | DELETE v)
FOREACH (v IN versions | DELETE v)
FOREACH (c IN chunks | DELETE c)
DELETE m
WITH names UNWIND names + [''] AS x WITH DISTINCT x {SWEEP}
WITH count(*) AS found WHERE found > 0
OPTIONAL MATCH (o:Memory {{superseded_by: $id}})
SET o.superseded_by = null, o.superseded_at = null
WITH o.id AS older, null AS ended
{END_EVIDENCE}
RETURN 1 LIMIT 1
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
