"""The graph and what memories were go from any engine to any other, and nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from graph_builders import (
    PG,
    SHOP,
    day,
    fill_store,
    read_graph,
    works_at,
)
from zapomni_core.workflows.copy_storage import compare_storages, copy_storage
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.graph_models import EdgeKey, EntityQuery
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import MemoryFilter
from zapomni_db.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.anyio

ANNA, ACME = "PERSON:anna", "ORG:acme"


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


async def copy(source, target) -> None:
    await copy_storage(source, target, lambda done, total: None)


async def test_what_was_read_merged_and_changed_arrives(storage, other):
    ids = await fill_store(storage)

    await copy(storage, other)

    original, arrived = await compare_storages(storage, other, lambda done, total: None)
    assert original == arrived
    assert original.versions == 3
    graph = await other.get_graph_stats("any")
    assert original.entities == (await other.get_stats())["total_entities"] > 2
    assert original.relationships == graph.relationships + graph.closed_relationships > 1
    assert (original.mentions, original.sentences, original.merges) == (14, 6, 3)
    assert await read_graph(other) == await read_graph(storage)
    assert await other.check_integrity() == {}
    for memory_id in ids.values():
        assert await other.get_history(memory_id) == await storage.get_history(memory_id)


async def test_a_copy_made_again_changes_nothing_and_one_cut_short_goes_on(storage, other):
    await fill_store(storage)
    memories = await storage.export_memories(None, 4)
    await other.import_memories(memories.items)
    some = await storage.get_readings([one.memory_id for one in memories.items[:2]])
    await other.import_readings(some)
    assert await other.check_integrity() == {}

    for _ in range(2):
        await copy(storage, other)
        original, arrived = await compare_storages(storage, other, lambda done, total: None)
        assert original == arrived


async def test_a_copy_lives_on_as_the_original_would(storage, other):
    ids = await fill_store(storage)
    await copy(storage, other)

    for store in (storage, other):
        await store.delete_memory(ids["past"])
        await store.undo_merge(PG)
        await works_at(store, "Delta", day(2026, 1), {"memory_id": "delta"})

    assert await read_graph(other) == await read_graph(storage)
    key = EdgeKey(SHOP, "TECHNOLOGY:lighttpd", "USED")
    assert await other.get_evidence([key], day(2025, 11), 9) == {key: []}


async def test_what_was_read_in_a_memory_deleted_meanwhile_is_passed_over(storage, other):
    await fill_store(storage)
    ids = await storage.list_ids(MemoryFilter(include_superseded=True))

    await other.import_readings(await storage.get_readings(ids))

    assert await other.find_entities(EntityQuery()) == []
    assert await other.check_integrity() == {}


async def test_readings_are_given_by_id_for_memories_that_were_read(storage):
    await fill_store(storage)
    ids = await storage.list_ids(MemoryFilter(include_superseded=True))
    found = await storage.get_readings(["missing", *ids])
    assert {one.memory_id for one in found} <= set(ids)
    assert len(found) == 8
    assert await storage.get_readings([found[0].memory_id]) == found[:1]
