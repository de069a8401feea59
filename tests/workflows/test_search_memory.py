from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zapomni_core.engine import create_engine
from zapomni_core.exceptions import ValidationError
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio


async def search(engine, query, **fields):
    return await engine.search_memory(SearchRequest(query=query, **fields))


async def test_each_memory_appears_once_by_its_best_passage(engine):
    long = "\n\n".join(
        f"Section {n}. " + ("The database is Postgres. " * 20 if n == 3 else "Filler text. " * 40)
        for n in range(6)
    )
    await engine.add_memory(AddMemoryRequest(text=long))
    await engine.add_memory(AddMemoryRequest(text="Our database runs on port 5432."))

    response = await search(engine, "which database")

    assert response.count == len(response.results) == 2
    assert len({r.memory_id for r in response.results}) == 2
    by_length = max(response.results, key=lambda r: len(r.text))
    assert "Postgres" in by_length.text


async def test_pages_join_without_gap_or_overlap(wordy_engine):
    await wordy_engine.add_memories(
        [AddMemoryRequest(text=f"apple pie number {n}") for n in range(25)]
    )

    whole = await search(wordy_engine, "apple", limit=25)
    pages = [await search(wordy_engine, "apple", limit=10, offset=o) for o in (0, 10, 20)]

    joined = [r.memory_id for page in pages for r in page.results]
    assert joined == [r.memory_id for r in whole.results]
    assert [page.count for page in pages] == [10, 10, 5]


async def test_a_long_memory_full_of_hits_does_not_crowd_out_the_others(wordy_engine):
    book = "\n\n".join(f"Chapter {n} about whales. " + "whale " * 150 for n in range(120))
    await wordy_engine.add_memory(AddMemoryRequest(text=book))
    for number in range(8):
        await wordy_engine.add_memory(
            AddMemoryRequest(text=f"A note that mentions one whale, once, in passing: {number}.")
        )

    response = await search(wordy_engine, "whale", limit=9)

    assert response.count == 9


async def test_results_carry_what_an_agent_needs(engine):
    added = await engine.add_memory(
        AddMemoryRequest(
            text="Use uv for installs.", tags=["tools"], source="chat", project="p",
            kind="decision", metadata={"url": "https://example.org"}, pinned=True,
        )
    )  # fmt: skip

    (hit,) = (await search(engine, "package installer")).results

    assert hit.memory_id == added.memory_id
    assert (hit.tags, hit.source, hit.project, hit.kind) == (["tools"], "chat", "p", "decision")
    assert hit.metadata == {"url": "https://example.org"}
    assert hit.pinned
    assert 0 < hit.score <= 1
    assert 0 < hit.similarity_score <= 1
    assert hit.created_at.tzinfo is not None


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (SearchRequest(query=""), "VAL_001"),
        (SearchRequest(query=" \n"), "VAL_001"),
        (SearchRequest(query="x", limit=0), "VAL_003"),
        (SearchRequest(query="x", limit=-1), "VAL_003"),
        (SearchRequest(query="x", limit=1001), "VAL_003"),
        (SearchRequest(query="x", offset=-1), "VAL_003"),
        (SearchRequest(query="x", filters={"projekt": "p"}), "VAL_004"),
        (SearchRequest(query="x", filters={"since": "yesterday"}), "VAL_002"),
        (SearchRequest(query="x", filters={"since": "2025-01-01T00:00:00"}), "VAL_002"),
        (SearchRequest(query="x", filters={"tags": "not-a-list"}), "VAL_002"),
        (SearchRequest(query="x", filters={"project": 3}), "VAL_002"),
        (
            SearchRequest(
                query="x",
                filters={"since": "2025-02-01T00:00:00Z", "until": "2025-01-01T00:00:00Z"},
            ),
            "VAL_003",
        ),
    ],
)
async def test_a_bad_request_is_refused_with_its_code(wordy_engine, request_, code):
    with pytest.raises(ValidationError) as caught:
        await wordy_engine.search_memory(request_)

    assert caught.value.error_code == code


async def test_an_unknown_filter_suggests_the_nearest(wordy_engine):
    with pytest.raises(ValidationError, match="did you mean 'project'"):
        await search(wordy_engine, "x", filters={"projekt": "p"})


ODD_QUERIES = [
    "AND", "a AND", '"', '"unbalanced', "*", "(", ")", "NEAR(a b)", "C++", "foo-bar", "🧠", "\0",
    "a\0b", "the of and", "!!!", "-", "日本", "مرحبا", "\u202eabc", "\ud800", "col:val", "^a",
    "x" * 1_000_000, "word " * 200_000, "'; DROP TABLE memories; --", "%", "_", "\\", "{a}",
]  # fmt: skip


@pytest.mark.parametrize("query", ODD_QUERIES, ids=lambda q: ascii(q[:20]))
async def test_any_query_text_is_answered(engine, query):
    await engine.add_memory(AddMemoryRequest(text="C++ foo-bar and 日本 🧠"))

    response = await search(engine, query)

    assert response.count in (0, 1)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(min_size=1))
def test_no_fuzzed_query_raises_anything_but_validation_errors(query, fuzz_loop):
    run, engine = fuzz_loop
    try:
        run(search(engine, query))
    except ValidationError:
        assert not query.strip()


@pytest.fixture
def fuzz_loop():
    import asyncio

    loop = asyncio.new_event_loop()
    engine = loop.run_until_complete(create_engine(load_settings(embedder="none")))
    loop.run_until_complete(engine.add_memory(AddMemoryRequest(text="some text 0 a é 中 x")))
    yield loop.run_until_complete, engine
    loop.run_until_complete(engine.close())
    loop.close()


async def test_a_repeated_question_is_answered_from_memory_until_anybody_writes(engine):
    await engine.add_memory(AddMemoryRequest(text="The first answer is blue."))
    first = await search(engine, "which colour")
    assert await search(engine, "which colour") is first
    assert (await engine.get_stats())["search_cache_hit_rate"] == 0.5

    async with await create_engine(load_settings()) as other_process:
        await other_process.add_memory(AddMemoryRequest(text="The second colour is green."))

    assert (await search(engine, "which colour")).count == 2
    await engine.delete_memory(first.results[0].memory_id)
    assert (await search(engine, "which colour")).count == 1


async def test_an_explanation_says_what_spoke_for_a_hit(engine):
    await engine.add_memory(AddMemoryRequest(text="Deploys run on Tuesdays.", parent="p"))
    for number in range(5):
        await engine.add_memory(
            AddMemoryRequest(text=f"Fridays are quiet, {number}.", parent="p", position=number + 1)
        )

    response = await search(engine, "when do deploys run", explain=True)

    why = response.results[0].explanation
    assert why["arms"]["unit"] > 0
    assert why["arms"]["cosine"] > 0.3
    assert why["arms"]["tokens"] == 1.0
    assert set(why["weights"]) == {"words", "tokens", "vectors"}
    assert (await search(engine, "when do deploys run")).results[0].explanation is None


async def test_an_answer_beside_the_words_of_the_question_is_found(wordy_engine):
    for position, text in enumerate(
        ["Anna: What did you name the puppy?", "Ben: Biscuit!", "Anna: It rained all week."]
    ):
        await wordy_engine.add_memory(AddMemoryRequest(text=text, parent="chat", position=position))
    for number in range(30):
        await wordy_engine.add_memory(AddMemoryRequest(text=f"Unrelated note number {number}."))

    found = [hit.text for hit in (await search(wordy_engine, "puppy name", limit=3)).results]

    assert found[0].startswith("Anna: What did you name")
    assert "Ben: Biscuit!" in found


async def test_reciprocal_rank_fusion_can_be_asked_for(engine):
    await engine.add_memories(
        [AddMemoryRequest(text=t) for t in ("Red foxes sleep.", "The moon is round.")]
    )

    response = await search(engine, "foxes", fusion="rrf")

    assert response.results[0].text == "Red foxes sleep."


async def test_a_question_that_names_a_day_prefers_that_day(engine):
    for day in (3, 8, 21):
        await engine.add_memory(
            AddMemoryRequest(
                text=f"Standup: we talked about the release, part {day}.",
                occurred_at=datetime(2025, 5, day, 9, tzinfo=UTC),
            )
        )

    response = await search(engine, "what did we talk about on 8 May 2025")

    assert response.results[0].occurred_at.day == 8
