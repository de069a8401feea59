"""Facts hold from a day to a day; the newer one wins, and nothing is lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import memory
from graph_builders import READER, day, learn
from zapomni_db.graph_models import EdgeKey, EdgeQuery

pytestmark = pytest.mark.anyio

ANNA = "PERSON:anna"
PEOPLE = {"exclusive": True}


async def says(storage, firm: str, when, **stated) -> str:
    return await learn(
        storage,
        f"Anna works at {firm}, noted {when:%d %B %Y}.",
        [("Anna", "PERSON"), (firm, "ORG")],
        [("Anna", "WORKS_AT", firm, {"exclusive": True, **stated})],
        occurred_at=when,
    )


async def works_at(storage, as_of=None) -> list[str]:
    found = await storage.get_edges([ANNA], EdgeQuery(as_of=as_of))
    assert all(edge.key.type == "WORKS_AT" for edge in found)
    return sorted(edge.key.target_id.removeprefix("ORG:") for edge in found)


async def span(storage, firm: str, as_of) -> tuple:
    key = EdgeKey(ANNA, f"ORG:{firm}", "WORKS_AT")
    (one, *_) = (await storage.get_evidence([key], as_of, 5))[key]
    return one.valid_from, one.valid_to


async def test_a_newer_fact_ends_the_older_one_and_both_are_still_there(storage):
    await says(storage, "Acme", day(2024, 1))
    await says(storage, "Brill", day(2025, 6))

    assert await works_at(storage) == ["brill"]
    assert await works_at(storage, day(2025, 3)) == ["acme"]
    assert await works_at(storage, day(2023, 12)) == []
    assert await span(storage, "acme", day(2025, 3)) == (day(2024, 1), day(2025, 6))
    assert await span(storage, "brill", None) == (day(2025, 6), None)
    stats = await storage.get_graph_stats(READER)
    assert (stats.relationships, stats.closed_relationships) == (1, 1)
    from_the_other_end = await storage.get_edges(["ORG:acme"], EdgeQuery())
    assert from_the_other_end == []


async def test_the_order_in_which_memories_are_read_does_not_matter(storage):
    await says(storage, "Brill", day(2025, 6))
    await says(storage, "Acme", day(2024, 1))

    assert await works_at(storage) == ["brill"]
    assert await works_at(storage, day(2025, 3)) == ["acme"]


async def test_deleting_the_newer_memory_lets_the_older_fact_go_on(storage):
    await says(storage, "Acme", day(2024, 1))
    newer = await says(storage, "Brill", day(2025, 6))

    await storage.delete_memory(newer)

    assert await works_at(storage) == ["acme"]


async def test_a_fact_may_come_back(storage):
    await says(storage, "Acme", day(2022, 1))
    await says(storage, "Brill", day(2023, 1))
    await says(storage, "Acme", day(2024, 1))

    assert await works_at(storage) == ["acme"]
    assert await works_at(storage, day(2023, 6)) == ["brill"]
    assert await works_at(storage, day(2022, 6)) == ["acme"]


async def test_relationships_that_are_not_exclusive_stand_side_by_side(storage):
    for firm, year in (("Acme", 2024), ("Brill", 2025)):
        await says(storage, firm, day(year, 1), exclusive=False)

    assert await works_at(storage) == ["acme", "brill"]


async def test_the_dates_of_the_sentence_come_before_those_of_the_memory(storage):
    await says(storage, "Acme", day(2025, 1), valid_from=day(2019, 1), valid_to=day(2021, 1))
    await says(storage, "Brill", day(2025, 1), valid_from=day(2021, 3))

    assert await works_at(storage) == ["brill"]
    assert await works_at(storage, day(2020, 1)) == ["acme"]
    assert await works_at(storage, day(2021, 2)) == []
    assert await span(storage, "acme", day(2020, 1)) == (day(2019, 1), day(2021, 1))


async def test_what_was_over_when_it_was_told_has_no_known_beginning(storage):
    await says(storage, "Brill", day(2022, 1))
    await says(storage, "Acme", day(2025, 1), valid_to=day(2021, 1))

    assert await works_at(storage) == ["brill"]
    assert await works_at(storage, day(2015, 1)) == ["acme"]
    assert await span(storage, "acme", day(2015, 1)) == (None, day(2021, 1))


async def test_what_is_announced_holds_from_its_day_on(storage):
    start = day(2030, 1)
    await says(storage, "Acme", day(2024, 1))
    await says(storage, "Brill", day(2024, 2), valid_from=start)
    await says(storage, "Acme", day(2024, 3))

    assert await works_at(storage) == ["acme"]
    assert await works_at(storage, start - timedelta(days=1)) == ["acme"]
    assert await works_at(storage, start + timedelta(days=1)) == ["brill"]


async def test_merged_subjects_and_objects_share_their_facts(storage):
    await says(storage, "Acme", day(2024, 1))
    await learn(
        storage,
        "A. Smith works at Brill",
        [("A. Smith", "PERSON"), ("Brill", "ORG")],
        [("A. Smith", "WORKS_AT", "Brill", PEOPLE)],
        occurred_at=day(2025, 1),
    )
    assert await works_at(storage) == ["acme"]

    await storage.merge_entities("PERSON:a. smith", ANNA)
    assert await works_at(storage) == ["brill"]
    assert await works_at(storage, day(2024, 6)) == ["acme"]

    await storage.merge_entities("ORG:brill", "ORG:acme")
    assert await works_at(storage) == ["acme"]
    key = EdgeKey(ANNA, "ORG:acme", "WORKS_AT")
    found = (await storage.get_evidence([key], None, 5))[key]
    assert [(e.valid_from, e.valid_to) for e in found] == [
        (day(2025, 1), None),
        (day(2024, 1), None),
    ]


async def test_what_a_superseded_memory_said_no_longer_ends_anything(storage):
    await says(storage, "Acme", day(2024, 1))
    wrong = await says(storage, "Brill", day(2025, 1))
    await storage.store_memory(memory("Never mind.", supersedes=wrong, occurred_at=day(2025, 2)))

    assert await works_at(storage, day(2024, 6)) == ["acme"]
    assert await works_at(storage, day(2025, 1, 15)) == ["brill"]
    assert await works_at(storage) == ["acme"]
