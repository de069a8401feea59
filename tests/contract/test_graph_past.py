"""What held of an entity once, and since when it is mentioned, on both engines."""

from __future__ import annotations

import pytest

from builders import memory
from graph_builders import day, learn, works_at

pytestmark = pytest.mark.anyio

ANNA = "PERSON:anna"


def ended(past) -> list[tuple[str, str, str]]:
    return [(key.source_id, key.type, key.target_id) for key, _ in past.ended]


async def test_what_something_newer_replaced_has_ended_when_that_began(storage):
    await works_at(storage, "Acme", day(2024, 1))
    await works_at(storage, "Brill", day(2025, 6))
    await works_at(storage, "Cern", day(2026, 2))

    past = await storage.get_past(ANNA, None, 10)

    assert ended(past) == [
        (ANNA, "WORKS_AT", "ORG:brill"),
        (ANNA, "WORKS_AT", "ORG:acme"),
    ]
    assert [sentence.valid_to for _, sentence in past.ended] == [day(2026, 2), day(2025, 6)]
    assert past.ended[0].sentence.text == "Anna works at Brill, 2025"
    assert (past.first_at, past.last_at) == (day(2024, 1), day(2026, 2))
    assert ended(await storage.get_past("ORG:acme", None, 10)) == [(ANNA, "WORKS_AT", "ORG:acme")]
    assert len((await storage.get_past(ANNA, None, 1)).ended) == 1


async def test_it_is_as_of_a_day(storage):
    await works_at(storage, "Acme", day(2024, 1))
    await works_at(storage, "Brill", day(2025, 6))

    before = await storage.get_past(ANNA, day(2025, 1), 10)

    assert (ended(before), before.last_at) == ([], day(2024, 1))


async def test_what_a_superseded_memory_stated_has_ended_unless_another_states_it(storage):
    shop = "TECHNOLOGY:shop"
    facts = ["Shop", "Redis"], [("Shop", "USES", "Redis"), ("Redis", "RELATED_TO", "Shop")]
    old = await learn(storage, "Shop uses Redis", *facts, occurred_at=day(2025, 1))
    await storage.store_memory(memory("gone", supersedes=old, occurred_at=day(2025, 3)))

    past = await storage.get_past(shop, None, 10, without=["RELATED_TO"])
    assert ended(past) == [(shop, "USES", "TECHNOLOGY:redis")]
    assert past.ended[0].sentence.valid_to == day(2025, 3)
    assert len((await storage.get_past(shop, None, 10)).ended) == 2

    await learn(storage, "Shop uses Redis again", *facts, occurred_at=day(2025, 5))
    assert ended(await storage.get_past(shop, None, 10)) == []


async def test_a_sentence_that_gives_its_end_and_merged_entities_count(storage):
    await learn(
        storage,
        "Shop ran on PG until 2020",
        ["Shop", "PG"],
        [("Shop", "RUNS_ON", "PG", {"valid_from": day(2018, 1), "valid_to": day(2020, 1)})],
        occurred_at=day(2025, 1),
    )
    await learn(storage, "Shop runs on PostgreSQL", ["Shop", "PostgreSQL"],
                [("Shop", "RUNS_ON", "PostgreSQL")])  # fmt: skip
    shop = "TECHNOLOGY:shop"
    (one,) = (await storage.get_past(shop, None, 10)).ended
    assert (one.sentence.valid_from, one.sentence.valid_to) == (day(2018, 1), day(2020, 1))

    await storage.merge_entities("TECHNOLOGY:pg", "TECHNOLOGY:postgresql")

    assert ended(await storage.get_past(shop, None, 10)) == []


async def test_what_hidden_memories_say_is_not_there(storage):
    await works_at(storage, "Acme", day(2024, 1), {"project": "private"})
    await works_at(storage, "Brill", day(2025, 6))

    past = await storage.get_past(ANNA, None, 10, hidden=["private"])

    assert (ended(past), past.first_at) == ([], day(2025, 6))
    unknown = await storage.get_past("PERSON:nemo", None, 10)
    assert (unknown.first_at, unknown.ended) == (None, [])
