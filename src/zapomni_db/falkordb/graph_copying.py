"""The graph on its way to another store."""

from __future__ import annotations

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph_walk import ENTITY, to_entity
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["export_entities", "export_relationships"]


async def export_entities(session: Session, after: str | None, limit: int) -> list[EntityData]:
    rows = await session.read(
        "MATCH (e:Entity) WHERE e.given AND e.id > $after"
        f" RETURN {ENTITY} ORDER BY e.id LIMIT $limit",
        after=after or "",
        limit=limit,
    )
    return [to_entity(row) for row in rows]


async def export_relationships(
    session: Session, after: tuple[str, str, str] | None, limit: int
) -> list[RelationshipData]:
    source, target, kind = after or ("", "", "")
    rows = await session.read(
        "MATCH (a:Entity)-[k:RELATES]->(b:Entity)"
        " WHERE k.memory IS NULL AND (a.id > $source OR (a.id = $source AND (b.id > $target"
        " OR (b.id = $target AND k.type > $kind))))"
        " RETURN a.id, b.id, k.type, coalesce(k.strength_exact, k.strength), k.text"
        " ORDER BY a.id, b.id, k.type LIMIT $limit",
        source=source,
        target=target,
        kind=kind,
        limit=limit,
    )
    return [
        RelationshipData(
            source_entity_id=row[0],
            target_entity_id=row[1],
            relationship_type=row[2],
            strength=float(row[3]),
            evidence=row[4],
        )
        for row in rows
    ]
