from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command import patient_hook
from observation_rows import observe, open_database
from zapomni_core.engine import create_engine
from zapomni_core.exceptions import EmbeddingError, ValidationError
from zapomni_core.interfaces import (
    AddMemoryRequest,
    ListRequest,
    SearchRequest,
    SearchResult,
    UpdateMemoryRequest,
)
from zapomni_core.settings import load_settings
from zapomni_db.models import MemoryFilter

pytestmark = pytest.mark.anyio


async def search(engine, query, **fields):
    return await engine.search_memory(SearchRequest(query=query, **fields))


async def test_a_hit_has_every_field_of_its_kind_in_order(engine):
    await engine.add_memory(AddMemoryRequest(text="Our database runs on port 5432."))
    (hit,) = (await search(engine, "database port")).results
    assert list(vars(hit)) == list(SearchResult.model_fields)
    assert SearchResult.model_validate(hit.model_dump()) == hit


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
        (SearchRequest(query="a\0b"), "VAL_004"),
        (SearchRequest(query="x", filters={"project": "a\0b"}), "VAL_004"),
        (SearchRequest(query="x", filters={"as_of": "9999-12-31T23:59:59Z"}), "VAL_003"),
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
    "AND", "a AND", '"', '"unbalanced', "*", "(", ")", "NEAR(a b)", "C++", "foo-bar", "🧠",
    "the of and", "!!!", "-", "日本", "مرحبا", "\u202eabc", "\ud800", "col:val", "^a",
    "x" * 1_000_000, "word " * 200_000, "'; DROP TABLE memories; --", "%", "_", "\\", "{a}",
]  # fmt: skip


@pytest.mark.parametrize("query", ODD_QUERIES, ids=lambda q: ascii(q[:20]))
async def test_any_query_text_is_answered(engine, query):
    await engine.add_memory(AddMemoryRequest(text="C++ foo-bar and 日本 🧠"))

    response = await search(engine, query)

    assert response.count in (0, 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(min_size=1))
def test_no_fuzzed_query_raises_anything_but_validation_errors(query, fuzz_loop):
    run, engine = fuzz_loop
    try:
        run(search(engine, query))
    except ValidationError:
        assert not query.strip() or "\0" in query


@pytest.fixture
def fuzz_loop():
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


async def test_a_question_in_other_letters_has_the_same_answer(engine):
    await engine.add_memory(AddMemoryRequest(text="The first answer is blue."))
    first = await search(engine, "Which colour?")
    assert await search(engine, "which  colour") is first
    assert await search(engine, "which colour", limit=3) is not first
    assert await search(engine, "which colours") is not first


async def test_a_hook_event_empties_no_answer_about_memories(wordy_engine, private_home):
    await wordy_engine.add_memory(AddMemoryRequest(text="The first answer is blue."))
    memories = await search(wordy_engine, "blue", within="memories")
    everything = await search(wordy_engine, "blue")

    payload = {"session_id": "s1", "cwd": str(private_home), "hook_event_name": "UserPromptSubmit"}
    done = await asyncio.to_thread(
        subprocess.run,
        patient_hook("claude-code"),
        input=json.dumps({**payload, "prompt": "Paint it blue"}).encode(),
        capture_output=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert await search(wordy_engine, "blue", within="memories") is memories
    found = await search(wordy_engine, "blue")
    assert (everything.count, found.count) == (1, 2)
    assert await search(wordy_engine, "blue") is found


async def test_every_change_of_a_memory_or_observation_empties_answers_about_it(wordy_engine):
    added = await wordy_engine.add_memory(AddMemoryRequest(text="The first answer is blue."))
    with closing(open_database(load_settings().database_path)) as db:
        observed = observe(db, "user_prompt", "Paint it blue")
        first = await search(wordy_engine, "blue")
        assert first.count == 2
        db.execute("UPDATE observations SET pinned = 1 WHERE id = ?", (observed,))
        found = (await search(wordy_engine, "blue")).results
        assert [hit.pinned for hit in found if hit.observation_id] == [True]
        observe(db, "session_start", "startup", session_id="empty")
        db.execute("DELETE FROM observations WHERE id = ?", (observed,))
    assert (await search(wordy_engine, "blue")).count == 1

    change = UpdateMemoryRequest(memory_id=added.memory_id, tags=["colour"])
    before = await search(wordy_engine, "blue", within="memories")
    await wordy_engine.update_memory(change)
    (hit,) = (await search(wordy_engine, "blue", within="memories")).results
    assert (before.results[0].tags, hit.tags) == ([], ["colour"])


async def test_an_explanation_says_what_spoke_for_a_hit(engine):
    await engine.add_memory(AddMemoryRequest(text="Deploys run on Tuesdays.", parent="p"))
    for number in range(5):
        await engine.add_memory(
            AddMemoryRequest(text=f"Fridays are quiet, {number}.", parent="p", position=number + 1)
        )

    response = await search(engine, "when do deploys run", explain=True)

    why = response.results[0].explanation
    assert why["arms"]["bm25"]["score"] > 0
    assert why["arms"]["cosine"]["score"] > 0.3
    assert why["arms"]["tokens"] == {"score": 1.0, "rank": 1}
    assert why["arms"]["unit"] == why["arms"]["bm25"], "the earlier name"
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


# --- what agents did ---------------------------------------------------------------------


@pytest.fixture
def done(tmp_path):
    """A database in which an agent did something, beside the memories."""
    with closing(open_database(load_settings().database_path)) as db:
        yield db


async def test_what_was_kept_and_what_was_done_are_ranked_together(engine, done):
    await engine.add_memory(AddMemoryRequest(text="Deploys run through the blue pipeline."))
    await engine.add_memory(AddMemoryRequest(text="Lunch is at noon."))
    prompt = observe(done, "user_prompt", "deploy the blue pipeline to staging")

    found = await search(engine, "how does the blue pipeline deploy")

    assert [hit.observation_id for hit in found.results[:2]] == [None, prompt]
    hit = found.results[1]
    assert (hit.memory_id, hit.kind, hit.parent) == ("", "user_prompt", "session-1")
    assert found.total == found.count
    assert not found.more


async def test_either_can_be_asked_for_alone(wordy_engine, done):
    await wordy_engine.add_memory(AddMemoryRequest(text="the kettle is red"))
    number = observe(done, "command", "boil kettle")

    kept = await search(wordy_engine, "kettle", within="memories")
    seen = await search(wordy_engine, "kettle", within="observations")

    assert [hit.text for hit in kept.results] == ["the kettle is red"]
    assert [hit.observation_id for hit in seen.results] == [number]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"kind": "command"}, {"make kettle"}),
        ({"session": "s2"}, {"edit kettle.py", "a kettle note"}),
        ({"path": "src/kettle.py"}, {"edit kettle.py"}),
        ({"project": "github.com/acme/other"}, {"test kettle"}),
        ({"pinned": True}, {"make kettle"}),
        ({"tags": ["x"]}, set()),
        ({"source": "chat"}, set()),
        ({"since": datetime(2025, 1, 2, tzinfo=UTC)}, {"test kettle", "a kettle note"}),
        ({"until": datetime(2025, 1, 2, tzinfo=UTC)}, {"make kettle", "edit kettle.py"}),
        ({"as_of": datetime(2025, 1, 1, 12, tzinfo=UTC)}, {"make kettle", "edit kettle.py"}),
    ],
)
async def test_filters_mean_the_same_for_both(wordy_engine, done, filters, expected):
    first, second = (int(datetime(2025, 1, day, 9, tzinfo=UTC).timestamp()) for day in (1, 3))
    observe(done, "command", "make kettle", timestamp=first, pinned=1)
    observe(done, "file_edit", "edit kettle.py", timestamp=first, session_id="s2",
            file_path="/w/src/kettle.py")  # fmt: skip
    observe(done, "test", "test kettle", timestamp=second, project="github.com/acme/other")
    await wordy_engine.add_memory(AddMemoryRequest(text="a kettle note", parent="s2"))

    found = await search(wordy_engine, "kettle", filters=filters)

    assert {hit.text for hit in found.results} == expected


async def test_the_same_command_is_one_find_however_often_it_ran(wordy_engine, done):
    numbers = [observe(done, "command", "pytest tests/kettle") for _ in range(30)]
    other = observe(done, "command", "ls kettle and teapot and cup")

    found = await search(wordy_engine, "kettle")

    assert [hit.observation_id for hit in found.results] == [numbers[-1], other]


async def test_an_answer_is_not_reused_after_something_was_done(wordy_engine, done):
    assert (await search(wordy_engine, "kettle")).count == 0
    observe(done, "command", "boil kettle")

    assert (await search(wordy_engine, "kettle")).count == 1


async def test_pages_join_however_far_one_reads(wordy_engine, done):
    await wordy_engine.add_memories(
        [
            AddMemoryRequest(text=f"apple pie number {n} " + "and more " * (n % 7))
            for n in range(300)
        ]
    )
    for number in range(40):
        observe(done, "command", f"bake apple {number}")

    whole = await search(wordy_engine, "apple pie", limit=500)
    joined = []
    while page := (await search(wordy_engine, "apple pie", limit=7, offset=len(joined))).results:
        joined += [hit.chunk_id for hit in page]

    assert joined == [hit.chunk_id for hit in whole.results]
    assert len(set(joined)) == whole.total == 340
    assert not whole.more
    scores = [hit.score for hit in whole.results]
    assert scores == sorted(scores, reverse=True)


async def test_a_hit_can_come_with_what_stands_beside_it(wordy_engine):
    texts = ["Anna: Any news?", "Ben: The kettle broke.", "Anna: Oh no."]
    for position, text in enumerate(texts):
        await wordy_engine.add_memory(AddMemoryRequest(text=text, parent="chat", position=position))

    hits = {hit.text: hit for hit in (await search(wordy_engine, "kettle", beside=True)).results}

    assert [hits[texts[1]].before, hits[texts[1]].after] == [texts[0], texts[2]]
    assert [hits[texts[0]].before, hits[texts[0]].after] == ["", texts[1]]
    assert (await search(wordy_engine, "kettle")).results[0].after == ""


async def test_what_was_believed_then_can_be_asked(wordy_engine):
    old = await wordy_engine.add_memory(AddMemoryRequest(text="The database is MySQL."))
    between = datetime.now(UTC)
    await wordy_engine.add_memory(
        AddMemoryRequest(text="The database is Postgres.", supersedes=old.memory_id)
    )

    now = await search(wordy_engine, "database")
    then = await search(wordy_engine, "database", filters={"as_of": between})

    assert [hit.text for hit in now.results] == ["The database is Postgres."]
    assert [hit.text for hit in then.results] == ["The database is MySQL."]


# --- what can fail on the way -------------------------------------------------------------


async def test_an_embedder_that_dies_in_mid_search_leaves_the_words(engine):
    await engine.add_memory(AddMemoryRequest(text="The kettle is red."))
    assert (await search(engine, "kettle")).notice is None

    class Dead:
        name = model_id = "local"

        async def space(self):
            raise EmbeddingError("The model is gone.", "EMB_003")

        async def embed_query(self, text):
            raise EmbeddingError("The model is gone.", "EMB_003")

        async def close(self):
            pass

    engine.memories.embeddings.embedders[:] = [Dead()]
    response = await search(engine, "red kettle")

    assert [hit.text for hit in response.results] == ["The kettle is red."]
    assert response.notice.startswith("Searched by words only")


async def test_filters_may_be_given_as_a_model_or_by_name(wordy_engine):
    for project in ("a", "b"):
        request = AddMemoryRequest(text=f"the zebra of {project}", project=project)
        await wordy_engine.add_memory(request)

    for filters in (MemoryFilter(project="b"), {"project": "b"}):
        asked = SearchRequest(query="zebra", filters=filters)
        listed = ListRequest(filters=filters)

        found = await wordy_engine.search_memory(asked)
        page = await wordy_engine.list_memories(listed)

        assert asked.filters == listed.filters == MemoryFilter(project="b")
        assert [hit.project for hit in found.results] == ["b"]
        assert [one.project for one in page.items] == ["b"]
