"""The graph and what memories were go from any engine to any other, and nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from builders import memory, vector
from graph_builders import EVERYTHING, READER, day, entity, extracted, learn, read, stated
from zapomni_core.workflows.copy_storage import compare_storages, copy_storage
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.graph_models import EdgeKey, EdgeQuery, EntityQuery
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import EntityData, MemoryPatch
from zapomni_db.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.anyio

ANNA, ACME, PG = "PERSON:anna", "ORG:acme", "TECHNOLOGY:pg"
POSTGRES, REDIS, SHOP = "TECHNOLOGY:postgresql", "TECHNOLOGY:redis", "TECHNOLOGY:shop"


@pytest.fixture(params=["to-sqlite", "to-falkordb"])
async def other(request, storage, tmp_path) -> AsyncIterator[StorageProvider]:
    """An empty store of either engine, beside the one that is tested."""
    if request.param == "to-sqlite":
        async with SqliteStorage(tmp_path / "other" / "zapomni.db") as opened:
            yield opened
    else:
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph") + "-other"
        async with FalkorDBClient(unix_socket=str(server.socket), graph_name=graph) as opened:
            yield opened
            await opened.drop_graph()


async def works_at(storage, firm, when, fields=None, **more) -> str:
    return await learn(
        storage,
        f"Anna works at {firm}, {when:%Y}",
        [("Anna", "PERSON"), (firm, "ORG")],
        [("Anna", "WORKS_AT", firm, {"exclusive": True, **more})],
        occurred_at=when,
        **(fields or {}),
    )


async def fill(storage) -> dict[str, str]:
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


async def everything(storage) -> dict[str, object]:
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


async def copy(source, target) -> None:
    await copy_storage(source, target, lambda done, total: None)


async def test_what_was_read_merged_and_changed_arrives(storage, other):
    ids = await fill(storage)

    await copy(storage, other)

    original, arrived = await compare_storages(storage, other, lambda done, total: None)
    assert original == arrived
    assert original.versions == 3
    graph = await other.get_graph_stats("any")
    assert original.entities == (await other.get_stats())["total_entities"] > 2
    assert original.relationships == graph.relationships + graph.closed_relationships > 1
    assert (original.mentions, original.sentences, original.merges) == (14, 6, 3)
    assert await everything(other) == await everything(storage)
    assert await other.check_integrity() == {}
    for memory_id in ids.values():
        assert await other.get_history(memory_id) == await storage.get_history(memory_id)


async def test_a_copy_made_again_changes_nothing_and_one_cut_short_goes_on(storage, other):
    await fill(storage)
    memories = await storage.export_memories(None, 4)
    await other.import_memories(memories.items)
    some = await storage.export_readings(None, 2)
    await other.import_readings(some.items)
    assert await other.check_integrity() == {}

    for _ in range(2):
        await copy(storage, other)
        original, arrived = await compare_storages(storage, other, lambda done, total: None)
        assert original == arrived


async def test_a_copy_lives_on_as_the_original_would(storage, other):
    ids = await fill(storage)
    await copy(storage, other)

    for store in (storage, other):
        await store.delete_memory(ids["past"])
        await store.undo_merge(PG)
        await works_at(store, "Delta", day(2026, 1), {"memory_id": "delta"})

    assert await everything(other) == await everything(storage)
    key = EdgeKey(SHOP, "TECHNOLOGY:lighttpd", "USED")
    assert await other.get_evidence([key], day(2025, 11), 9) == {key: []}


async def test_what_was_read_in_a_memory_deleted_meanwhile_is_passed_over(storage, other):
    await fill(storage)
    page = await storage.export_readings(None, 99)

    await other.import_readings(page.items)

    assert await other.find_entities(EntityQuery()) == []
    assert await other.check_integrity() == {}


async def test_readings_come_page_by_page_in_the_order_of_their_memories(storage):
    await fill(storage)
    whole = (await storage.export_readings(None, 99)).items

    found, after = [], None
    while True:
        page = await storage.export_readings(after, 2)
        found += page.items
        if (after := page.after) is None:
            break

    assert found == whole
    assert len(found) == 8
