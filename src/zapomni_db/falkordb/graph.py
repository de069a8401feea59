"""Entities, how they relate, and the way from one to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from zapomni_db.exceptions import QueryError, ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.values import check_id, exact_number
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["RelatedEntity", "export_entities", "export_relationships", "related", "store"]

DEEPEST = 10


class RelatedEntity(NamedTuple):
    """An entity and how many relationships away it is."""

    entity: EntityData
    distance: int


# All of it is written, or nothing if an end of a relationship is not there.
_ENTITIES = """
UNWIND $ends AS id OPTIONAL MATCH (e:Entity {id: id})
WITH count(e) AS found WHERE found = size($ends)
MATCH (s:Store) SET s.version = s.version + 1
WITH s
FOREACH (x IN $entities | MERGE (e:Entity {id: x.id})
    SET e.name = x.name, e.type = x.type, e.description = x.description,
    e.confidence = x.confidence, e.confidence_exact = x.confidence_exact, e.source = x.source)
WITH s
"""
_RELATIONSHIPS = """
UNWIND $relationships AS r
MATCH (a:Entity {id: r.source}), (b:Entity {id: r.target})
MERGE (a)-[k:RELATES {type: r.type}]->(b)
SET k.strength = r.strength, k.strength_exact = r.strength_exact, k.evidence = r.evidence
"""


async def store(
    session: Session, entities: Sequence[EntityData], relationships: Sequence[RelationshipData]
) -> int:
    """Create or update both at once."""
    for entity in entities:
        check_id("entity_id", entity.entity_id)
    given = {entity.entity_id for entity in entities}
    ends = {r.source_entity_id for r in relationships} | {r.target_entity_id for r in relationships}
    written = await session.write(
        _ENTITIES + (_RELATIONSHIPS if relationships else "") + "RETURN DISTINCT s.version",
        ends=sorted(ends - given),
        entities=[_entity_row(entity) for entity in entities],
        relationships=[_relationship_row(relationship) for relationship in relationships],
    )
    if not written:
        raise QueryError(
            "A constraint was violated during storing entities: a relationship names an entity "
            "nobody stored; nothing was written.",
            "QUERY_004",
        )
    return len(entities)


def _entity_row(entity: EntityData) -> dict[str, Any]:
    return {
        "id": entity.entity_id,
        "name": entity.name,
        "type": entity.type,
        "description": entity.description,
        "confidence": entity.confidence,
        "confidence_exact": exact_number(entity.confidence),
        "source": entity.source,
    }


def _relationship_row(relationship: RelationshipData) -> dict[str, Any]:
    return {
        "source": relationship.source_entity_id,
        "target": relationship.target_entity_id,
        "type": relationship.relationship_type,
        "strength": relationship.strength,
        "strength_exact": exact_number(relationship.strength),
        "evidence": relationship.evidence,
    }


_ENTITY = (
    "e.id, e.name, e.type, e.description, coalesce(e.confidence_exact, e.confidence), e.source"
)


def _to_entity(row: Sequence[Any]) -> EntityData:
    entity_id, name, kind, description, confidence, source = row
    return EntityData(
        entity_id=entity_id,
        name=name,
        type=kind,
        description=description,
        confidence=float(confidence),
        source=source,
    )


async def related(session: Session, entity_id: str, depth: int, limit: int) -> list[RelatedEntity]:
    """Go from an entity along relationships in either direction, step by step."""
    if not 1 <= depth <= DEEPEST:
        raise ValidationError(f"depth must be from 1 to {DEEPEST}, got {depth}", "VAL_003")
    if limit < 1:
        raise ValidationError(f"limit must be at least 1, got {limit}", "VAL_003")
    found: list[RelatedEntity] = []
    seen = border = [entity_id]
    for distance in range(1, depth + 1):
        rows = await session.read(
            "MATCH (a:Entity)-[:RELATES]-(e:Entity) WHERE a.id IN $border AND NOT e.id IN $seen"
            f" WITH DISTINCT e ORDER BY e.id LIMIT $limit RETURN {_ENTITY}",
            border=border,
            seen=seen,
            limit=limit - len(found),
        )
        found += [RelatedEntity(_to_entity(row), distance) for row in rows]
        border = [row[0] for row in rows]
        seen = seen + border
        if not border or len(found) >= limit:
            break
    return found


async def export_entities(session: Session, after: str | None, limit: int) -> list[EntityData]:
    rows = await session.read(
        f"MATCH (e:Entity) WHERE e.id > $after RETURN {_ENTITY} ORDER BY e.id LIMIT $limit",
        after=after or "",
        limit=limit,
    )
    return [_to_entity(row) for row in rows]


async def export_relationships(
    session: Session, after: tuple[str, str, str] | None, limit: int
) -> list[RelationshipData]:
    source, target, kind = after or ("", "", "")
    rows = await session.read(
        "MATCH (a:Entity)-[k:RELATES]->(b:Entity)"
        " WHERE a.id > $source OR (a.id = $source AND (b.id > $target"
        " OR (b.id = $target AND k.type > $kind)))"
        " RETURN a.id, b.id, k.type, coalesce(k.strength_exact, k.strength), k.evidence"
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
