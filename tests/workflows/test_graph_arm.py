"""The graph's say in a search."""

from __future__ import annotations

import pytest

from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.modules.graph import BuildGraphRequest
from zapomni_core.modules.memories import graph_arm
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

QUESTION = "In which city sits the author of the billing scheduler?"
FIRST = "The billing scheduler was written by Priya Nair last spring."
SECOND = "Priya Nair lives in Lisbon."
NOISE = [
    f"The author of chapter {n} praised the city council and its scheduler." for n in range(60)
]


@pytest.fixture
async def engine(anyio_backend):
    async with await create_engine(load_settings(embedder="none")) as opened:
        yield opened


async def keep(engine, *texts) -> None:
    await engine.add_memories([AddMemoryRequest(text=text) for text in texts])
    task_id = await engine.graph.build(BuildGraphRequest())
    await engine.tasks.run_task(task_id, lambda _: None)


async def search(engine, query=QUESTION, **request):
    asked = SearchRequest(query=query, explain=True, **request)
    return (await engine.search_memory(asked)).results


def shares(results) -> dict[str, float]:
    return {hit.text: hit.explanation["boosts"]["graph"] for hit in results}


async def test_what_the_best_passage_names_leads_to_the_rest_of_the_answer(engine):
    await keep(engine, *NOISE, FIRST, SECOND)

    found = await search(engine, limit=5)

    assert found[0].text == FIRST
    assert SECOND in [hit.text for hit in found]
    share = shares(found)
    assert share[SECOND] == pytest.approx(0.2)
    assert all(share[text] < share[SECOND] for text in share if text in NOISE)
    without = shares(await search(engine, limit=5, graph=False))
    assert set(without.values()) == {0.0}


async def test_a_passage_that_begins_with_what_is_asked_about_is_preferred(engine):
    await keep(
        engine,
        "Anna Berger: I started pottery.",
        "Tomas Novak: Anna Berger, how is pottery going?",
        *[f"Tomas Novak: note {n} about Anna Berger." for n in range(50)],
    )

    found = shares(await search(engine, "What hobby has Anna Berger's pottery become?", limit=5))

    assert found["Anna Berger: I started pottery."] == pytest.approx(0.1)
    assert found["Tomas Novak: Anna Berger, how is pottery going?"] == 0


async def test_what_everybody_names_and_days_link_nothing(engine):
    await keep(
        engine,
        FIRST.replace("last spring", "with Kafka on 2024-03-05"),
        "The boat was painted on 2024-03-05.",
        *[f"Kafka topic number {n}" for n in range(graph_arm.RARE + 1)],
    )

    found = shares(await search(engine, limit=50))

    assert set(found.values()) == {0.0}


async def test_a_search_does_not_wait_for_a_slow_graph(engine, monkeypatch):
    await keep(engine, *NOISE, FIRST, SECOND)
    monkeypatch.setattr(graph_arm, "SECONDS", -1)

    assert set(shares(await search(engine, limit=5)).values()) == {0.0}


async def test_without_a_graph_nothing_changes(engine):
    requests = [AddMemoryRequest(text=text) for text in (*NOISE, FIRST, SECOND)]
    await engine.add_memories(requests)

    with_graph = await search(engine)
    without = await search(engine, graph=False)

    assert [hit.score for hit in with_graph] == [hit.score for hit in without]


@pytest.mark.parametrize("query", ["?!", "half \ud83d character", "x " * 5000, "Ω" * 3000])
async def test_odd_questions_are_answered(engine, query):
    await keep(engine, FIRST)
    await search(engine, query)
