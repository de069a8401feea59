"""The say of the graph, and of names without one, in a search."""

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


async def keep_without_graph(engine, *texts) -> None:
    await engine.add_memories([AddMemoryRequest(text=text) for text in texts])


async def keep(engine, *texts) -> None:
    await keep_without_graph(engine, *texts)
    task_id = await engine.graph.build(BuildGraphRequest())
    await engine.tasks.run_task(task_id, lambda _: None)


async def search(engine, query=QUESTION, **request):
    asked = SearchRequest(query=query, explain=True, **request)
    return (await engine.search_memory(asked)).results


def shares(results, boost="graph") -> dict[str, float]:
    return {hit.text: hit.explanation["boosts"][boost] for hit in results}


async def test_what_the_best_passage_names_leads_to_the_rest_of_the_answer(engine):
    await keep(engine, *NOISE, FIRST, SECOND)

    found = await search(engine, limit=5)

    assert found[0].text == FIRST
    assert SECOND in [hit.text for hit in found]
    share = shares(found)
    assert share[SECOND] == pytest.approx(0.2)
    # The three passages that links start from keep their lead; no other gains as much.
    assert sum(share[text] >= share[SECOND] for text in share if text in NOISE) <= 2
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

    assert found["Anna Berger: I started pottery."] == pytest.approx(0.05)
    assert found["Tomas Novak: Anna Berger, how is pottery going?"] == 0


async def test_links_never_come_before_what_they_start_from_and_are_no_evidence(engine):
    await keep(engine, *NOISE, FIRST, SECOND, "Priya Nair paints.", "Priya Nair runs.")

    found = await search(engine, limit=8)
    without = {hit.text: hit for hit in await search(engine, limit=8, graph=False)}

    share = shares(found)
    assert share[found[0].text] == max(share.values()) > 0
    assert found[0].text == next(iter(without))
    both = [hit for hit in found if hit.text in without]
    assert both
    assert all(hit.evidence == without[hit.text].evidence for hit in both)


async def test_turns_of_a_conversation_are_not_linked(engine):
    turns = ["Anna: The billing scheduler was written by Priya Nair.", "Tom: Oh.", "Anna: Yes."]
    requests = [
        AddMemoryRequest(text=text, parent="talk", position=n) for n, text in enumerate(turns)
    ]
    await engine.add_memories(requests)
    await keep(engine, SECOND, *NOISE)

    found = shares(await search(engine, "Who wrote the billing scheduler?", limit=9))

    assert turns[0] in found
    assert set(found.values()) == {0.0}


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


async def test_names_of_the_best_passage_lead_on_without_a_graph(engine):
    await keep_without_graph(engine, *NOISE, FIRST, SECOND, "Priya Patel lives in Porto.")

    found = await search(engine, limit=5)

    assert [hit.text for hit in found[:2]] == [FIRST, SECOND]
    share = shares(found, "names")
    assert share[FIRST] == share[SECOND] == pytest.approx(0.3)
    assert share.get("Priya Patel lives in Porto.", 0.0) == 0


async def test_names_add_nothing_where_the_graph_says_as_much(engine):
    await keep_without_graph(engine, *NOISE, FIRST, SECOND)
    by_names = {hit.text: hit.score for hit in await search(engine, limit=5)}
    await keep(engine)

    found = await search(engine, limit=5)

    graph, names = shares(found), shares(found, "names")
    assert graph[SECOND] + names[SECOND] == pytest.approx(0.3)
    assert {hit.text: hit.score for hit in found} == pytest.approx(by_names)


async def test_names_of_turns_lead_nowhere(engine):
    turns = ["Anna: The billing scheduler was written by Priya Nair.", "Tom: Oh.", "Anna: Yes."]
    await engine.add_memories(
        [AddMemoryRequest(text=text, parent="talk", position=n) for n, text in enumerate(turns)]
    )
    await keep_without_graph(engine, SECOND, *NOISE)

    found = shares(await search(engine, "Who wrote the billing scheduler?", limit=9), "names")

    assert turns[0] in found
    assert set(found.values()) == {0.0}


async def test_without_a_graph_nothing_changes(engine):
    await keep_without_graph(engine, *NOISE, FIRST, SECOND)

    with_graph = await search(engine)
    without = await search(engine, graph=False)

    assert [hit.score for hit in with_graph] == [hit.score for hit in without]


@pytest.mark.parametrize("query", ["?!", "half \ud83d character", "x " * 5000, "Ω" * 3000])
async def test_odd_questions_are_answered(engine, query):
    await keep(engine, FIRST)
    await search(engine, query)


async def test_nouns_of_german_lead_nowhere(engine):
    question = "Wer hat den Planer der Abrechnung geschrieben?"
    first = "Der Planer der Abrechnung wurde von uns als Python Paket geschrieben."
    other = "Das wird mit dem Python Paket gebaut."
    await keep_without_graph(engine, *NOISE, first, other)

    found = await search(engine, question, limit=9)

    assert found[0].text == first
    assert set(shares(found, "names").values()) == {0.0}
