"""Small ways to fill a graph for tests."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from builders import memory, vector
from zapomni_db.graph_models import EdgeQuery, EntityQuery, ExtractedChunk, GraphScope
from zapomni_db.models import EntityData, MemoryPatch, RelationshipData

EVERYTHING = GraphScope()
READER = "reader-1"
PG, POSTGRES = "TECHNOLOGY:pg", "TECHNOLOGY:postgresql"
REDIS, SHOP = "TECHNOLOGY:redis", "TECHNOLOGY:shop"


def day(year: int, month: int, day_of_month: int = 1) -> datetime:
    return datetime(year, month, day_of_month, tzinfo=UTC)


def entity(name: str, kind: str = "TECHNOLOGY", **fields) -> EntityData:
    defaults = {"entity_id": f"{kind}:{name.lower()}", "confidence": 0.9, "source": "rules"}
    return EntityData(name=name, type=kind, **{**defaults, **fields})


def mentioned(text: str, name: str, kind: str = "TECHNOLOGY", surface: str = "") -> EntityData:
    words = surface or name
    start = text.index(words)
    return entity(name, kind, surface=words, start_char=start, end_char=start + len(words))


def stated(text: str, source: EntityData, kind: str, target: EntityData, /, **fields):
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


async def works_at(storage, firm, when, fields=None, **more) -> str:
    return await learn(
        storage,
        f"Anna works at {firm}, {when:%Y}",
        [("Anna", "PERSON"), (firm, "ORG")],
        [("Anna", "WORKS_AT", firm, {"exclusive": True, **more})],
        occurred_at=when,
        **(fields or {}),
    )


async def fill_store(storage) -> dict[str, str]:
    """Let everything happen to memories and the graph that can; return some memories by name."""
    told = [
        entity("Shop", description="what we sell", confidence=1 / 3),
        EntityData(entity_id="odd 'id\" \\", name="a\0b", type="", confidence=0.1 + 0.2),
    ]
    fact = stated("we say so", told[0], "HAS", told[1], strength=1 / 7, valid_from=day(2020, 2),
                  valid_to=day(2031, 1), exclusive=True)  # fmt: skip
    await storage.store_entities(told, [fact])
    ids = {}
    ids["changed"] = await learn(
        storage,
        "Shop uses Redis.",
        ["Shop", "Redis"],
        [("Shop", "USES", "Redis", {"strength": 0.1 + 0.2})],
        occurred_at=day(2025, 1),
        tags=["b", "a"],
        metadata={"n": 1},
    )
    changed = memory("Shop uses Redis and Varnish now.", vector(1))
    await storage.update_memory(
        ids["changed"], MemoryPatch(text=changed.text, chunks=changed.chunks, space=changed.space)
    )
    await storage.update_memory(ids["changed"], MemoryPatch(tags=["c"], pinned=True))
    await read(storage, ids["changed"], ["Shop", "Varnish"], [("Shop", "USES", "Varnish")])
    ids["past"] = await learn(
        storage, "Shop used Lighttpd.", ["Shop", "Lighttpd"], [("Shop", "USED", "Lighttpd")]
    )
    plain = memory("Nothing to see here.")
    await storage.update_memory(ids["past"], MemoryPatch(text=plain.text, chunks=plain.chunks))
    await works_at(storage, "Acme", day(2024, 1))
    await works_at(storage, "Brill", day(2025, 6), valid_from=day(2025, 7))
    await works_at(storage, "Cern", day(2025, 8), valid_to=day(2019, 1))
    older = await learn(
        storage,
        "psql: postgres and pg",
        [("PostgreSQL", "TECHNOLOGY", "postgres"), ("PG", "TECHNOLOGY", "pg"), "psql"],
        occurred_at=day(2025, 2),
    )
    await storage.store_memory(memory("newer", supersedes=older, occurred_at=day(2025, 3)))
    await learn(storage, "PG and PostgreSQL", ["PG", "PostgreSQL"])
    await storage.merge_entities("TECHNOLOGY:psql", PG)
    await storage.merge_entities(PG, POSTGRES)
    await storage.merge_entities(REDIS, SHOP)
    await storage.undo_merge(REDIS)
    two = await storage.store_memory(memory("first Rust | second", vector(1), vector(0, 1)))
    unread = await storage.get_unread(READER, EVERYTHING, None, 99)
    (first,) = [chunk for chunk in unread if chunk.memory_id == two and "Rust" in chunk.text]
    await storage.store_extractions("reader-2", [extracted(first, ["Rust"])])
    return ids


async def read_graph(storage) -> dict[str, object]:
    """What a user sees of the graph."""
    found: dict[str, object] = {}
    for when in (None, day(2024, 6), day(2025, 2), day(2018, 1)):
        entities = await storage.find_entities(EntityQuery(as_of=when, limit=99))
        ids = sorted(e.entity_id for e in entities)
        edges = sorted(await storage.get_edges(ids, EdgeQuery(as_of=when)))
        evidence = await storage.get_evidence([edge.key for edge in edges], when, 9)
        mentions = await storage.get_mentions(ids, when, 9)
        found[str(when)] = (
            entities,
            [(e.key, pytest.approx(e.strength), e.support) for e in edges],
            {k: [s.model_copy(update={"chunk_id": None}) for s in v] for k, v in evidence.items()},
            {i: [m[1:] for m in named] for i, named in mentions.items()},
        )
    found["stats"] = await storage.get_graph_stats(READER)
    found["unread"] = [c.text for c in await storage.get_unread(READER, EVERYTHING, None, 99)]
    return found
