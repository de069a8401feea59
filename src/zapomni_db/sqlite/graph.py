"""Entities and relationships."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from zapomni_db.models import EntityData, RelationshipData

__all__ = ["store"]


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
