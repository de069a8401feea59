"""Which passages no extraction is stored for."""

from __future__ import annotations

from typing import Any, LiteralString

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.values import digest, from_time
from zapomni_db.graph_models import GraphScope, UnreadChunk

__all__ = ["count_unread", "unread"]

# Code has a graph of its own, made by parsers.
_UNREAD: LiteralString = (
    "MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE m.kind <> 'code'"
    " AND (c.extractor IS NULL OR c.extractor <> $extractor)"
)


async def unread(
    session: Session, extractor: str, scope: GraphScope, after: str | None, limit: int
) -> list[UnreadChunk]:
    condition, values = _in_scope(scope)
    # If the last passage is gone, we begin anew: what was read since is not unread any more.
    rows = await session.read(
        "OPTIONAL MATCH (last:Chunk {id: $after}) WITH coalesce(last.key, -1) AS last "
        + _UNREAD
        + condition
        + " AND c.key > last WITH m, c ORDER BY c.key LIMIT $limit"
        " OPTIONAL MATCH (m)-[:HAS_CHUNK {index: c.index - 1}]->(p:Chunk)"
        " RETURN c.id, m.id, c.text, m.said, p.end_char - c.start_char ORDER BY c.key",
        extractor=extractor,
        after=after or "",
        limit=limit,
        **values,
    )
    return [
        UnreadChunk.model_construct(
            chunk_id=chunk_id,
            memory_id=memory_id,
            text=text,
            said_at=from_time(said),
            repeated=max(repeated or 0, 0),
        )
        for chunk_id, memory_id, text, said, repeated in rows
    ]


async def count_unread(session: Session, extractor: str, scope: GraphScope) -> int:
    condition, values = _in_scope(scope)
    rows = await session.read(
        _UNREAD + condition + " RETURN count(c)", extractor=extractor, **values
    )
    return int(rows[0][0])


def _in_scope(scope: GraphScope) -> tuple[LiteralString, dict[str, Any]]:
    condition: LiteralString = ""
    values: dict[str, Any] = {}
    if scope.project is not None:
        condition += " AND m.project_hash = $project"
        values["project"] = digest(scope.project)
    if scope.memory_ids is not None:
        condition += " AND m.id IN $ids"
        values["ids"] = scope.memory_ids
    return condition, values
