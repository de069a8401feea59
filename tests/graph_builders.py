"""Small ways to fill a graph for tests."""

from __future__ import annotations

from datetime import UTC, datetime

from builders import memory
from zapomni_db.graph_models import ExtractedChunk, GraphScope
from zapomni_db.models import EntityData, RelationshipData

EVERYTHING = GraphScope()
READER = "reader-1"


def day(year: int, month: int, day_of_month: int = 1) -> datetime:
    return datetime(year, month, day_of_month, tzinfo=UTC)


def entity(name: str, kind: str = "TECHNOLOGY", **fields) -> EntityData:
    defaults = {"entity_id": f"{kind}:{name.lower()}", "confidence": 0.9, "source": "rules"}
    return EntityData(name=name, type=kind, **{**defaults, **fields})


def mentioned(text: str, name: str, kind: str = "TECHNOLOGY", surface: str = "") -> EntityData:
    words = surface or name
    start = text.index(words)
    return entity(name, kind, surface=words, start_char=start, end_char=start + len(words))


def stated(text: str, source: EntityData, kind: str, target: EntityData, **fields):
    defaults = {"strength": 0.8, "source": "rules", "start_char": 0, "end_char": len(text)}
    return RelationshipData(
        source_entity_id=source.entity_id,
        target_entity_id=target.entity_id,
        relationship_type=kind,
        evidence=text,
        **{**defaults, **fields},
    )


async def learn(storage, text: str, names=(), facts=(), same=(), reader=READER, **fields):
    """Store a memory and its graph; names are (name, type) or names of technologies.

    A fact is (source, type, target) by name, and perhaps a dictionary of more.
    """
    memory_id = await storage.store_memory(memory(text, **fields))
    await read(storage, memory_id, names, facts, same, reader)
    return memory_id


async def read(storage, memory_id: str, names=(), facts=(), same=(), reader=READER):
    """Store the graph of a memory of one passage."""
    scope = GraphScope(memory_ids=[memory_id])
    (chunk,) = await storage.get_unread(reader, scope, None, 10)
    return await storage.store_extractions(
        reader, [extracted(chunk, names, facts)], [tuple(pair) for pair in same]
    )


def extracted(chunk, names=(), facts=()) -> ExtractedChunk:
    found = {}
    for name in names:
        parts = (name,) if isinstance(name, str) else name
        found[parts[0]] = mentioned(chunk.text, *parts)
    return ExtractedChunk(
        chunk_id=chunk.chunk_id,
        entities=list(found.values()),
        relationships=[
            stated(chunk.text, found[source], kind, found[target], **(more[0] if more else {}))
            for source, kind, target, *more in facts
        ],
    )
