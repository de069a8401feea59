"""Turns of a conversation are ordered by what was said just before them; nothing else is."""

from __future__ import annotations

import pytest

from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.modules.memories import ranking
from zapomni_core.modules.memories.conversation import WEIGHTS
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

TALK = (
    ("Anna", "Good morning! How was the weekend in the mountains?"),
    ("Ben", "Rainy, but the hut was warm and we cooked a lot."),
    ("Anna", "By the way, which port does the staging database listen on?"),
    ("Ben", "5433, because the old one is still running."),
    ("Anna", "Thanks, then I will change the dashboard today."),
    ("Ben", "The dashboard also needs the new colors."),
)
QUESTION = "What port is staging on?"
ANSWER = TALK[3][1]


def turns(parent="talk", *, prefix=False, **names):
    """The talk as memories: who said it is before the text, or in the metadata by these names."""
    return [
        AddMemoryRequest(
            text=f"{speaker}: {text}" if prefix else text,
            parent=parent,
            position=10 * number,
            metadata={key: made(speaker) for key, made in names.items()},
        )
        for number, (speaker, text) in enumerate(TALK)
    ]


async def search(engine, query=QUESTION):
    return (await engine.search_memory(SearchRequest(query=query, explain=True))).results


@pytest.mark.parametrize(
    "said",
    [
        {"speaker": str},
        {"role": {"Anna": "user", "Ben": "assistant"}.get},
        {"prefix": True},
    ],
    ids=["speaker", "role", "prefix"],
)
async def test_an_answer_ranks_above_the_question_it_answers(engine, said):
    await engine.add_memories(turns(**said))

    found = await search(engine)

    assert found[0].text.endswith(ANSWER)
    assert found[0].explanation["turn_order"].keys() == WEIGHTS.keys()
    sums = [sum(hit.explanation["turn_order"].values()) for hit in found]
    assert sums == sorted(sums, reverse=True)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


async def test_both_engines_order_alike(engine, falkordb_server, falkordb_graph):
    address = f"unix://{falkordb_server.socket}?graph={falkordb_graph}"
    await engine.add_memories(turns(speaker=str))
    async with await create_engine(load_settings(storage=address)) as other:
        await other.add_memories(turns(speaker=str))
        on_server = await search(other)

    here = await search(engine)

    assert [hit.text for hit in on_server] == [hit.text for hit in here]
    for one, same in zip(on_server, here, strict=True):
        assert one.explanation["turn_order"] == pytest.approx(
            same.explanation["turn_order"], abs=0.01
        )


async def test_passages_of_a_document_keep_their_order(engine):
    await engine.add_memories(turns())

    found = await search(engine)

    assert found[0].text == TALK[2][1]
    assert all("turn_order" not in hit.explanation for hit in found)


async def test_whatever_is_no_turn_keeps_its_place_among_turns(engine, monkeypatch):
    note = AddMemoryRequest(text="The staging database listens on a port of its own, see Ben.")
    await engine.add_memories([note, *turns(speaker=str)])
    with_order = await search(engine)
    monkeypatch.setattr(ranking, "order_turns", lambda *given: given[2])

    without = await search(engine, QUESTION + " ")

    place = [hit.text for hit in without].index(note.text)
    assert [hit.text for hit in with_order].index(note.text) == place
    assert [hit.score for hit in with_order] == [hit.score for hit in without]
    # How sure a hit is does not depend on its place.
    assert {hit.text: hit.evidence for hit in with_order} == {
        hit.text: hit.evidence for hit in without
    }


async def test_who_said_it_is_found_by_name(engine):
    await engine.add_memories(turns(speaker=str))

    found = (await engine.search_memory(SearchRequest(query="Ben colors"))).results

    assert found[0].text == TALK[5][1]
    by_name = (await engine.search_memory(SearchRequest(query="Anna", explain=True))).results
    assert {hit.text for hit in by_name if "bm25" in hit.explanation["arms"]} == {
        text for speaker, text in TALK if speaker == "Anna"
    }


async def test_what_answers_a_question_for_a_list_need_not_be_near_by(engine):
    await engine.add_memories(turns(speaker=str))

    (one, *_) = await search(engine, "What color does the dashboard need?")
    (several, *_) = await search(engine, "What things did Ben say about the dashboard?")

    assert one.explanation["turn_order"]["apart"] == 0
    stretch = several.explanation["turn_order"]["stretch"]
    assert several.explanation["turn_order"]["apart"] == pytest.approx(
        stretch * WEIGHTS["apart"] / WEIGHTS["stretch"], abs=0.01
    )


def meeting(third):
    """A talk about a budget, about other things, and about the budget again."""
    budget = (
        "The budget of the printer is small.",
        "I said: the budget of the printer.",
        "In May.",
    )
    other = [
        f"Next is item {n}: the {w}." for n, w in enumerate("roof door lamp sink desk".split())
    ]
    said = [
        *budget,
        *other,
        *other[::-1],
        "Then somebody raised the printer budget.",
        "Good to know.",
    ]
    names = ("Anna", "Ben", third)
    return [
        AddMemoryRequest(text=f"{names[n % 3]}: {text}", parent="weekly", position=n)
        for n, text in enumerate(said)
    ]


@pytest.mark.parametrize(("third", "is_meeting"), [("Cleo", True), ("Ben", False)])
async def test_the_first_hits_in_a_meeting_are_of_different_places(engine, third, is_meeting):
    said = meeting(third)
    await engine.add_memories(said)

    found = await search(engine, "What was said about the budget of the printer?")

    places = [[one.text for one in said].index(hit.text) for hit in found]
    assert (abs(places[0] - places[1]) > 4) is is_meeting
    sums = [sum(hit.explanation["turn_order"].values()) for hit in found]
    assert (sums == sorted(sums, reverse=True)) is not is_meeting
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


async def test_what_is_like_the_best_turns_of_other_conversations_ranks_higher(engine):
    said = {
        "june": ("Ben: We went camping by the lake with the tent.", "Anna: How lovely, Ben!"),
        "july": ("Ben: The tent stood by the river, we camped again.", "Anna: I am jealous."),
        "may": ("Ben: The invoice of the dentist came today.", "Anna: Is it high?"),
    }
    await engine.add_memories(
        [
            AddMemoryRequest(text=text, parent=parent, position=n)
            for parent, texts in said.items()
            for n, text in enumerate(texts)
        ]
    )

    one = await search(engine, "Where did Ben go camping?")
    several = await search(engine, "Which trips did Ben go on?")

    alike = {hit.text: hit.explanation["turn_order"]["alike"] for hit in several}
    assert alike[said["july"][0]] > max(0, alike[said["may"][0]])
    share = WEIGHTS["members"] / WEIGHTS["alike"]
    for hit in several:
        signals = hit.explanation["turn_order"]
        assert signals["members"] == pytest.approx(share * signals["alike"], abs=0.01)
    assert {hit.explanation["turn_order"]["members"] for hit in one} == {0}


async def test_the_name_of_who_speaks_is_no_topic(engine):
    await engine.add_memories(turns(prefix=True))

    found = await search(engine, "What colors did Ben mention?")

    signals = {hit.text: hit.explanation["turn_order"] for hit in found}
    greeting = f"Ben: {TALK[1][1]}"
    lost = {
        text: one["tokens"] / WEIGHTS["tokens"] - one["topic"] / WEIGHTS["topic"]
        for text, one in signals.items()
    }
    assert lost[greeting] > lost[f"Anna: {TALK[0][1]}"]


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("Who performed at the concert of Anna's club?", True),
        ("Which band played at the club?", True),
        ("How was the concert at the club?", False),
        ("Who performed with Fabrikam Trio at the concert?", False),
    ],
)
async def test_who_and_which_are_answered_by_a_name_that_the_question_does_not_have(
    engine, question, named
):
    said = ("Anna: The concert at the club was great!", "Ben: Anna, who played? Was it the band?")
    said = (*said, "Anna: It was the Fabrikam Trio, and Ben would have liked them.")
    await engine.add_memories(
        [AddMemoryRequest(text=t, parent="club", position=n) for n, t in enumerate(said)]
    )

    found = await search(engine, question)

    by_text = {hit.text: hit.explanation["turn_order"]["name"] for hit in found}
    assert by_text == {said[0]: 0, said[1]: 0, said[2]: WEIGHTS["name"] * named}


async def test_without_a_model_the_order_is_by_words(wordy_engine):
    await wordy_engine.add_memories(turns(speaker=str))

    found = await search(wordy_engine)

    assert found[0].text == TALK[2][1]
    assert "turn_order" not in found[0].explanation
