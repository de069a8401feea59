"""Two entities become one, in texts to come too, and can be parted again exactly."""

from __future__ import annotations

import pytest

from builders import memory
from graph_builders import READER, entity, learn
from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_db.graph_models import EdgeQuery, EntityQuery

pytestmark = pytest.mark.anyio

POSTGRES, PG, SHOP = "TECHNOLOGY:postgresql", "TECHNOLOGY:pg", "TECHNOLOGY:shop"


async def two(storage) -> tuple[str, str]:
    first = await learn(
        storage, "Shop uses PostgreSQL", ["Shop", "PostgreSQL"], [("Shop", "USES", "PostgreSQL")]
    )
    second = await learn(storage, "PG serves Shop", ["Shop", "PG"], [("PG", "SERVES", "Shop")])
    return first, second


async def state(storage):
    found = await storage.find_entities(EntityQuery())
    edges = await storage.get_edges([SHOP], EdgeQuery())
    return (
        sorted((e.name, e.mentions, tuple(e.merged_ids)) for e in found),
        sorted(edge.key for edge in edges),
    )


async def test_merged_entities_are_one_and_undo_restores_them_exactly(storage):
    await two(storage)
    before = await state(storage)

    merge = await storage.merge_entities(PG, POSTGRES)

    names, edges = await state(storage)
    assert (merge.source_id, merge.target_id, merge.automatic) == (PG, POSTGRES, False)
    assert names == [("PostgreSQL", 2, (PG,)), ("Shop", 2, ())]
    assert edges == [(POSTGRES, SHOP, "SERVES"), (SHOP, POSTGRES, "USES")]
    assert [e.name for e in await storage.find_entities(EntityQuery(text="pg"))] == ["PostgreSQL"]
    asked = await storage.get_entities([PG, POSTGRES])
    assert {e.entity_id for e in asked.values()} == {POSTGRES}
    assert asked[PG].aliases == ["PG"]
    assert await storage.get_edges([PG], EdgeQuery()) == await storage.get_edges(
        [POSTGRES], EdgeQuery()
    )
    assert len((await storage.get_mentions([PG], None, 9))[PG]) == 2
    stats = await storage.get_graph_stats(READER)
    assert (stats.entities, stats.relationships, stats.merges) == (2, 2, 1)
    assert [e.name for e in await storage.list_entities(None, 9)] == ["PostgreSQL", "Shop"]

    assert (await storage.undo_merge(None)).source_id == PG

    assert await state(storage) == before
    assert await storage.undo_merge(None) is None


async def test_what_is_said_after_a_merge_belongs_to_it_and_is_parted_by_undo(storage):
    await two(storage)
    await storage.merge_entities(PG, POSTGRES)
    await learn(storage, "PG again", ["PG"])
    (found,) = await storage.find_entities(EntityQuery(text="PostgreSQL"))
    assert found.mentions == 3

    await storage.undo_merge(PG)

    mentions = {e.name: e.mentions for e in await storage.find_entities(EntityQuery())}
    assert mentions == {"PG": 2, "PostgreSQL": 1, "Shop": 2}


async def test_merges_chain_and_come_apart_in_any_order(storage):
    await two(storage)
    await learn(storage, "psql too", ["psql"])
    await storage.merge_entities("TECHNOLOGY:psql", PG)
    await storage.merge_entities(PG, POSTGRES)
    (found,) = await storage.find_entities(EntityQuery(text="psql"))
    assert (found.entity_id, found.mentions) == (POSTGRES, 3)

    await storage.undo_merge(PG)
    (found,) = await storage.find_entities(EntityQuery(text="psql"))
    assert (found.entity_id, found.mentions) == (PG, 2)

    await storage.undo_merge("TECHNOLOGY:psql")
    (found,) = await storage.find_entities(EntityQuery(text="psql"))
    assert (found.name, found.mentions) == ("psql", 1)


async def test_a_relationship_between_merged_entities_is_none(storage):
    await learn(storage, "PG is PostgreSQL", ["PG", "PostgreSQL"], [("PG", "IS", "PostgreSQL")])
    await storage.merge_entities(PG, POSTGRES)

    assert await storage.get_edges([POSTGRES], EdgeQuery()) == []
    assert (await storage.get_graph_stats(READER)).relationships == 0


async def test_a_merge_is_remembered_while_one_of_the_two_is_gone(storage):
    first, second = await two(storage)
    await storage.merge_entities(PG, POSTGRES)

    await storage.delete_memory(first)
    (found,) = await storage.find_entities(EntityQuery(text="pg"))
    assert (found.name, found.merged_ids) == ("PG", [])
    await learn(storage, "PostgreSQL returns", ["PostgreSQL"])
    (found,) = await storage.find_entities(EntityQuery(text="pg"))
    assert (found.name, found.merged_ids) == ("PostgreSQL", [PG])

    await storage.delete_memory(second)
    (found,) = await storage.find_entities(EntityQuery(text="PostgreSQL"))
    assert found.merged_ids == []
    await learn(storage, "PG returns", ["PG"])
    (found,) = await storage.find_entities(EntityQuery(text="PostgreSQL"))
    assert found.merged_ids == [PG]


async def test_merging_with_nobody_or_with_itself_is_refused(storage):
    await two(storage)
    with pytest.raises(NotFoundError):
        await storage.merge_entities(PG, "TECHNOLOGY:nobody")
    with pytest.raises(NotFoundError):
        await storage.merge_entities("TECHNOLOGY:nobody", PG)
    with pytest.raises(ValidationError):
        await storage.merge_entities(PG, PG)
    await storage.merge_entities(PG, POSTGRES)
    with pytest.raises(ValidationError):
        await storage.merge_entities(POSTGRES, PG)


async def test_a_merge_can_be_turned_round_once_its_target_is_gone(storage):
    first, _ = await two(storage)
    await storage.merge_entities(PG, POSTGRES)
    await storage.delete_memory(first)
    await storage.merge_entities(PG, SHOP)

    await learn(storage, "PostgreSQL returns", ["PostgreSQL"])

    (found,) = await storage.find_entities(EntityQuery(text="PG"))
    assert found.name == "Shop"
    assert await storage.check_integrity() == {}


async def test_what_an_extractor_holds_to_be_one_is_merged_until_somebody_parts_it(storage):
    await learn(storage, "PostgreSQL", ["PostgreSQL"])
    await learn(storage, "Postgersql", ["Postgersql"], same=[("TECHNOLOGY:postgersql", POSTGRES)])
    (found,) = await storage.find_entities(EntityQuery(text="postgersql"))
    assert found.name == "PostgreSQL"

    assert await storage.undo_merge(None) is None
    assert (await storage.undo_merge("TECHNOLOGY:postgersql")).automatic
    await learn(
        storage, "Postgersql again", ["Postgersql"], same=[("TECHNOLOGY:postgersql", POSTGRES)]
    )

    (found,) = await storage.find_entities(EntityQuery(text="postgersql"))
    assert (found.name, found.mentions) == ("Postgersql", 2)


async def test_an_extractor_does_not_change_what_somebody_merged(storage):
    await two(storage)
    await storage.merge_entities(PG, SHOP)

    await learn(storage, "PG PostgreSQL", ["PG", "PostgreSQL"], same=[(PG, POSTGRES)])

    assert (await storage.get_entities([PG]))[PG].entity_id == SHOP


async def test_what_stands_for_something_told_is_listed_though_nobody_speaks_of_it_now(storage):
    older = await learn(storage, "PG serves", ["PG"])
    await storage.store_entities([entity("PostgreSQL")], [])
    await storage.merge_entities(POSTGRES, PG)
    await storage.store_memory(memory("Never mind.", supersedes=older))

    assert [e.name for e in await storage.list_entities(None, 9)] == ["PG"]
    assert [e.name for e in await storage.find_entities(EntityQuery())] == ["PG"]
    assert (await storage.get_graph_stats(READER)).entities == 1
