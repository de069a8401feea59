"""A memory that was deleted and is stored again is what it was, on every engine."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import memory, vector
from graph_builders import fill_store, learn, read_graph
from zapomni_core.workflows.copy_storage import compare_storages
from zapomni_db.graph_models import EntityQuery
from zapomni_db.models import MemoryFilter, MemoryPatch

pytestmark = pytest.mark.anyio


async def contents(storage):
    found, _ = await compare_storages(storage, storage, lambda _done, _total: None)
    return found


async def everything(storage) -> list[str]:
    filters = MemoryFilter(include_superseded=True)
    page = await storage.list_memories(filters, 1000, 0)
    return [one.memory_id for one in page.items]


def links_of(found) -> list[tuple[str, str]]:
    links = {(one.memory.memory_id, one.superseded_by) for one in found if one.superseded_by}
    for one in found:
        older = [one.memory.supersedes, *one.memory.also_supersedes]
        links |= {(other, one.memory.memory_id) for other in older if other}
    return sorted(links)


async def delete(storage, ids):
    found = await storage.export_whole(ids)
    deleted = await storage.delete_memories(
        {one.memory.memory_id: one.memory.updated_at for one in found}
    )
    assert sorted(deleted) == sorted(ids)
    return found


async def test_all_memories_deleted_and_restored_are_the_same_byte_for_byte(storage):
    await fill_store(storage)
    before, graph = await contents(storage), await read_graph(storage)
    assert before.sha256
    found = await delete(storage, await everything(storage))
    assert (await contents(storage)).memories == 0
    links = links_of(found)
    assert links

    await storage.restore_memories(found, links)
    assert await contents(storage) == before
    assert await read_graph(storage) == graph
    assert await storage.check_integrity() == {}
    await storage.restore_memories(found, links)  # as after a kill: once more
    assert await contents(storage) == before


@pytest.mark.parametrize("chosen", [0, 1, 2])
async def test_each_memory_alone_comes_back_into_its_line(storage, chosen):
    first = await learn(storage, "We use Redis", ["Redis"])
    second = await learn(storage, "We use Kafka", ["Kafka"], supersedes=first)
    third = await learn(storage, "We use NATS", ["NATS"], supersedes=second)
    before = await contents(storage)
    entities = await storage.find_entities(EntityQuery(limit=99))

    (one,) = await delete(storage, [[first, second, third][chosen]])
    assert await contents(storage) != before
    await storage.restore_memories([one], links_of([one]))
    assert await contents(storage) == before
    assert await storage.find_entities(EntityQuery(limit=99)) == entities


async def test_links_of_memories_restored_apart_are_made_when_both_are_here(storage):
    older = await storage.store_memory(memory("We use Redis", vector(0.1)))
    newer = await storage.store_memory(memory("We use Kafka", vector(0.2), supersedes=older))
    links = [(older, newer)]
    (first,) = await delete(storage, [older])
    (second,) = await delete(storage, [newer])

    await storage.restore_memories([first], links)
    assert (await storage.get_summaries([older]))[older].superseded_by is None
    await storage.restore_memories([second], links)
    assert (await storage.get_summaries([older]))[older].superseded_by == newer


async def test_a_memory_changed_meanwhile_is_neither_deleted_nor_overwritten(storage):
    memory_id = await storage.store_memory(memory("We use Redis", vector(0.1), tags=["a"]))
    (whole,) = await storage.export_whole([memory_id])
    await storage.update_memory(memory_id, MemoryPatch(tags=["b"]))
    changed = whole.memory.updated_at
    assert await storage.delete_memories({memory_id: changed}) == []

    await storage.restore_memories([whole], [])
    assert (await storage.get_memory(memory_id)).tags == ["b"]
    assert await storage.delete_memories({"nothing": changed - timedelta(days=1)}) == []
    assert await storage.export_whole(["nothing"]) == []


async def test_a_later_successor_is_not_replaced_by_a_restored_one(storage):
    older = await storage.store_memory(memory("We use Redis", vector(0.1)))
    newer = await storage.store_memory(memory("We use Kafka", vector(0.2), supersedes=older))
    (whole,) = await delete(storage, [newer])
    other = await storage.store_memory(memory("We use NATS", vector(0.3), supersedes=older))

    await storage.restore_memories([whole], [(older, newer)])
    assert (await storage.get_summaries([older]))[older].superseded_by == other
