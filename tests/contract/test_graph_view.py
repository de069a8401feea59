"""A part of the graph to look at, on both engines: what is chosen, in which order, and when."""

from __future__ import annotations

import pytest

from graph_builders import READER, day, learn
from zapomni_core.exceptions import EntityNotFoundError, ValidationError
from zapomni_core.modules.graph import GraphViewRequest
from zapomni_core.modules.graph.reading import get_view

pytestmark = pytest.mark.anyio

SHOP = "TECHNOLOGY:shop"


class Reader:
    """What a view needs of an extractor."""

    version = READER

    async def recognize(self, _text: str) -> list[object]:
        return []


async def view(storage, hidden=(), **asked):
    return await get_view(storage, Reader(), GraphViewRequest(**asked), hidden)


async def shop(storage) -> None:
    """Shop uses PostgreSQL and Redis; Redis is named with Kafka, and Kafka runs on Linux."""
    await learn(
        storage,
        "Shop uses PostgreSQL",
        ["Shop", "PostgreSQL"],
        [("Shop", "USES", "PostgreSQL")],
        occurred_at=day(2026, 1),
    )
    await learn(
        storage,
        "Shop uses Redis since May.",
        ["Shop", "Redis"],
        [("Shop", "USES", "Redis")],
        occurred_at=day(2026, 5),
    )
    await learn(
        storage, "Redis, Kafka, Shop", ["Redis", "Kafka"], [("Redis", "RELATED_TO", "Kafka")]
    )
    await learn(storage, "Kafka runs on Linux", ["Kafka", "Linux"], [("Kafka", "RUNS_ON", "Linux")])


def names(found) -> list[str]:
    return [one.name for one in found.entities]


async def test_the_best_connected_come_first_and_typed_relationships_before_others(storage):
    await shop(storage)

    found = await view(storage)

    assert names(found)[0] == "Shop"
    assert set(names(found)) == {"Shop", "PostgreSQL", "Redis", "Kafka", "Linux"}
    assert [one.type for one in found.relationships][-1] == "RELATED_TO"
    said = {(one.source, one.target): one.evidence[0].text for one in found.relationships}
    assert said["Shop", "PostgreSQL"] == "Shop uses PostgreSQL"
    assert (found.more, found.entity) == (0, None)


async def test_a_limit_says_how_many_are_left(storage):
    await shop(storage)

    found = await view(storage, limit=2)

    assert (len(found.entities), found.more) == (2, 3)
    assert all({one.source, one.target} <= set(names(found)) for one in found.relationships)


async def test_steps_widen_a_view_and_an_opened_entity_adds_its_own(storage):
    await shop(storage)

    one = await view(storage, entity="Shop")
    two = await view(storage, entity="Shop", depth=2)
    opened = await view(storage, entity="Shop", opened=["TECHNOLOGY:kafka"])

    assert names(one)[0] == "Shop"
    assert set(names(one)) == {"Shop", "PostgreSQL", "Redis"}
    assert set(names(two)) == {"Shop", "PostgreSQL", "Redis", "Kafka"}
    assert set(names(opened)) == {"Shop", "PostgreSQL", "Redis", "Kafka", "Linux"}
    assert {o.name: o.distance for o in two.entities}["Kafka"] == 2


async def test_a_view_is_as_of_a_day_and_of_types(storage):
    await shop(storage)
    await learn(
        storage,
        "Anna owns Shop",
        [("Anna", "PERSON"), "Shop"],
        [("Anna", "OWNS", "Shop")],
    )

    before = await view(storage, entity="Shop", as_of=day(2026, 4))
    people = await view(storage, entity="Shop", types=["PERSON"])

    assert "Redis" not in names(before)
    assert names(people) == ["Shop", "Anna"]
    with pytest.raises(EntityNotFoundError):
        await view(storage, entity="Shop", as_of=day(2001, 1))


async def test_what_was_merged_is_named(storage):
    await shop(storage)
    await storage.merge_entities("TECHNOLOGY:kafka", "TECHNOLOGY:redis")

    found = await view(storage, entity="Redis")

    assert found.merged == {"TECHNOLOGY:kafka": "Kafka"}
    assert {"Shop", "Linux"} <= set(names(found))


async def test_dates_and_addresses_are_not_in_the_picture_unless_asked_for(storage):
    await shop(storage)
    for name in ("Shop", "Erlang"):
        await learn(
            storage,
            f"{name} 3.2",
            [name, ("3.2", "VERSION")],
            [(name, "RELATED_TO", "3.2")],
        )

    whole, near = await view(storage), await view(storage, entity="Shop", depth=3)

    assert "3.2" not in names(whole) + names(near)
    assert "Erlang" not in names(near)
    assert names(await view(storage, entity="3.2"))[0] == "3.2"
    assert "3.2" in names(await view(storage, entity="Shop", types=["VERSION"]))


@pytest.mark.parametrize("wrong", [{"limit": 301}, {"limit": 0}, {"depth": 4}])
async def test_a_view_has_bounds(storage, wrong):
    with pytest.raises(ValidationError):
        await view(storage, entity="Shop", **wrong)
