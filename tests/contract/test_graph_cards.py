"""Cards of entities and ways between them, on both engines."""

from __future__ import annotations

import itertools

import pytest

from graph_builders import READER, day, learn, works_at
from zapomni_core.modules.graph import PathRequest, RelatedRequest
from zapomni_core.modules.graph.reading import find_path, get_card

pytestmark = pytest.mark.anyio


class Reader:
    """What a card needs of an extractor."""

    version = READER

    async def recognize(self, _text: str) -> list[object]:
        return []


async def card(storage, name, hidden=(), **asked):
    return await get_card(storage, Reader(), RelatedRequest(entity=name, **asked), hidden)


async def path(storage, source, target, hidden=(), **asked):
    request = PathRequest(source=source, target=target, **asked)
    return await find_path(storage, Reader(), request, hidden)


def way(found) -> list[tuple[str, str, str]]:
    return [(step.source, step.type, step.target) for step in found.steps]


async def test_a_card_has_relationships_by_what_they_say_and_what_has_ended(storage):
    await works_at(storage, "Acme", day(2024, 1))
    await works_at(storage, "Brill", day(2025, 6))
    await learn(
        storage,
        "Anna, Shop, 2025 and src/shop.py",
        [("Anna", "PERSON"), "Shop", ("2025", "DATE"), ("src/shop.py", "FILE")],
        [
            ("Anna", "RELATED_TO", "Shop", {"strength": 1.0}),
            ("Anna", "RELATED_TO", "2025", {"strength": 1.0}),
        ],
        occurred_at=day(2025, 7),
    )

    found = await card(storage, "Anna")

    assert [(one.type, one.target) for one in found.relationships] == [
        ("WORKS_AT", "Brill"),
        ("RELATED_TO", "Shop"),
    ]
    (ended,) = found.ended
    assert (ended.target, ended.replaced_by, ended.forward) == ("Acme", ["Brill"], True)
    assert ended.evidence.valid_to == day(2025, 6)
    assert (found.first_mentioned, found.last_mentioned) == (day(2024, 1), day(2025, 7))
    assert found.files == ["src/shop.py"]
    assert found.memories[0].title == "Anna works at Brill, 2025"
    assert len(found.memories) == 3
    (incoming,) = (await card(storage, "Brill")).relationships
    assert not incoming.forward


async def test_hidden_memories_are_in_no_card_and_on_no_way(storage):
    await learn(storage, "Shop uses Redis", ["Shop", "Redis"], [("Shop", "USES", "Redis")])
    private = await learn(
        storage,
        "Redis runs on Linux in src/a.py",
        ["Redis", "Linux", ("src/a.py", "FILE")],
        [("Redis", "RUNS_ON", "Linux")],
        project="private",
    )

    found = await card(storage, "Redis", ["private"])

    assert [one.source for one in found.relationships] == ["Shop"]
    assert private not in [one.memory_id for one in found.memories]
    assert found.files == []
    await learn(storage, "Linux", ["Linux"])
    assert way(await path(storage, "Shop", "Linux", ["private"])) == []
    assert len(way(await path(storage, "Shop", "Linux"))) == 2


async def test_a_way_that_says_how_is_better_than_a_shorter_one_that_does_not(storage):
    await learn(storage, "Shop and Linux", ["Shop", "Linux"], [("Shop", "RELATED_TO", "Linux")])
    await learn(storage, "Shop uses Redis", ["Shop", "Redis"], [("Shop", "USES", "Redis")])
    await learn(storage, "Redis on Linux", ["Redis", "Linux"], [("Redis", "RUNS_ON", "Linux")])

    found = await path(storage, "Linux", "Shop")

    assert way(found) == [("Redis", "RUNS_ON", "Linux"), ("Shop", "USES", "Redis")]
    assert [step.forward for step in found.steps] == [False, False]
    assert [one.title for one in found.memories] == ["Redis on Linux", "Shop uses Redis"]


async def test_no_way_leads_through_a_date(storage):
    for name in ("Shop", "Linux"):
        await learn(
            storage,
            f"{name} in 2025",
            [name, ("2025", "DATE")],
            [(name, "RELEASED_IN", "2025")],
        )

    found = await path(storage, "Shop", "Linux")

    assert (way(found), found.notice is not None) == ([], True)
    assert len(way(await path(storage, "Shop", "2025"))) == 1


async def test_long_chains_are_found_up_to_six_steps(storage):
    names = [f"Part{number}" for number in range(8)]
    for one, other in itertools.pairwise(names):
        await learn(storage, f"{one} uses {other}", [one, other], [(one, "USES", other)])

    assert len(way(await path(storage, "Part0", "Part6"))) == 6
    assert way(await path(storage, "Part0", "Part7")) == []
    await storage.merge_entities("TECHNOLOGY:part1", "TECHNOLOGY:part6")
    assert len(way(await path(storage, "Part0", "Part7"))) == 2


async def test_a_name_of_two_entities_is_asked_back(storage):
    await learn(storage, "Mercury", [("Mercury", "PLACE")])
    await learn(storage, "Mercury too", [("Mercury", "TECHNOLOGY"), "too"])

    found = await path(storage, "too", "Mercury")

    assert {one.type for one in found.candidates} == {"PLACE", "TECHNOLOGY"}
    assert (await card(storage, "Mercury")).entity is None
