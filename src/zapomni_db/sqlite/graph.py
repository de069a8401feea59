"""Entities and relationships."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from zapomni_db.models import EntityData, RelationshipData

__all__ = ["export_entities", "export_relationships", "store"]


def store(
    connection: sqlite3.Connection,
    entities: Sequence[EntityData],
    relationships: Sequence[RelationshipData],
) -> int:
    """Upsert both; a relationship to an entity nobody stored violates a constraint."""
    connection.executemany(
        "INSERT INTO entities (id, name, type, description, confidence, source)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name,"
        " type = excluded.type, description = excluded.description,"
        " confidence = excluded.confidence, source = excluded.source",
        [(e.entity_id, e.name, e.type, e.description, e.confidence, e.source) for e in entities],
    )
    connection.executemany(
        "INSERT INTO relationships (source_id, target_id, type, strength, evidence)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (source_id, target_id, type)"
        " DO UPDATE SET strength = excluded.strength, evidence = excluded.evidence",
        [
            (r.source_entity_id, r.target_entity_id, r.relationship_type, r.strength, r.evidence)
            for r in relationships
        ],
    )
    return len(entities)


def export_entities(
    connection: sqlite3.Connection, after: str | None, limit: int
) -> list[EntityData]:
    rows = connection.execute(
        "SELECT id, name, type, description, confidence, source FROM entities"
        " WHERE id > coalesce(?, '') ORDER BY id LIMIT ?",
        (after, limit),
    )
    names = ("entity_id", "name", "type", "description", "confidence", "source")
    return [EntityData(**dict(zip(names, row, strict=True))) for row in rows]


def export_relationships(
    connection: sqlite3.Connection, after: tuple[str, str, str] | None, limit: int
) -> list[RelationshipData]:
    rows = connection.execute(
        "SELECT source_id, target_id, type, strength, evidence FROM relationships"
        " WHERE (source_id, target_id, type) > (?, ?, ?)"
        " ORDER BY source_id, target_id, type LIMIT ?",
        (*(after or ("", "", "")), limit),
    )
    names = ("source_entity_id", "target_entity_id", "relationship_type", "strength", "evidence")
    return [RelationshipData(**dict(zip(names, row, strict=True))) for row in rows]
