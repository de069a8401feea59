"""The way from one entity to others, whatever the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from zapomni_db.exceptions import ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.models import EntityData

__all__ = ["ENTITY", "RelatedEntity", "related", "to_entity"]

DEEPEST = 10


class RelatedEntity(NamedTuple):
    """An entity and how many relationships away it is."""

    entity: EntityData
    distance: int


ENTITY = "e.id, e.name, e.type, e.description, coalesce(e.confidence_exact, e.confidence), e.source"


def to_entity(row: Sequence[Any]) -> EntityData:
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
            f" WITH DISTINCT e ORDER BY e.id LIMIT $limit RETURN {ENTITY}",
            border=border,
            seen=seen,
            limit=limit - len(found),
        )
        found += [RelatedEntity(to_entity(row), distance) for row in rows]
        border = [row[0] for row in rows]
        seen = seen + border
        if not border or len(found) >= limit:
            break
    return found
