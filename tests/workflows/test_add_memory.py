from __future__ import annotations

import asyncio
import os

import pytest

from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.interfaces import (
    AddMemoryRequest,
    ListRequest,
    MemoryEngine,
    SearchRequest,
    UpdateMemoryRequest,
)
from zapomni_core.modules.memories import service as workflow
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

# `make soak` adds five megabytes.
SIZES = [375_000, *map(int, os.environ.get("LONG_TEXTS", "").split())]


def add(text, **fields):
    return AddMemoryRequest(text=text, **fields)


async def found(engine, query, **fields):
    response = await engine.search_memory(SearchRequest(query=query, **fields))
    return [result.text for result in response.results]


async def test_the_engine_is_what_the_doors_expect(engine):
    contract: MemoryEngine = engine
    assert isinstance(contract, ZapomniEngine)


async def test_a_note_is_found_by_other_words_than_it_uses(engine):
    note = "The nightly build broke because the certificate had expired."
    await engine.add_memory(add(note))
    await engine.add_memory(add("Lunch is at noon on Fridays."))

    assert (await found(engine, "why did CI fail, TLS?"))[0] == note
    assert (await found(engine, "expired certificate"))[0] == note


async def test_an_answer_says_what_was_stored(engine):
    response = await engine.add_memory(add("x" * 300))

    assert response.status == "created"
    assert response.chunks_created >= 1
    assert response.text_preview == "x" * 100
    assert response.pending_vectors == 0
    assert response.notice is None


async def test_adding_twice_answers_with_the_first_id_and_says_so(engine):
    first = await engine.add_memory(add("only once"))
    again = await engine.add_memory(add("only once"))

    assert again.memory_id == first.memory_id
    assert again.status == "duplicate"
    assert again.chunks_created == 0
    assert "already stored" in again.notice


async def test_a_retry_with_the_same_key_never_duplicates(engine):
    requests = [add("retried", idempotency_key="key-1") for _ in range(5)]

    answers = await asyncio.gather(*(engine.add_memory(request) for request in requests))

    assert len({answer.memory_id for answer in answers}) == 1
    assert sorted(answer.status for answer in answers) == ["created", *["replayed"] * 4]


async def test_a_batch_is_answered_in_order_across_transactions(engine, monkeypatch):
    monkeypatch.setattr(workflow, "STORE_AT_ONCE", 3)
    texts = [f"entry number {n % 5}" for n in range(8)]

    answers = await engine.add_memories([add(text) for text in texts])

    assert [answer.text_preview for answer in answers] == texts
    statuses = [answer.status for answer in answers]
    assert statuses == ["created"] * 5 + ["duplicate"] * 3
    assert answers[5].memory_id == answers[0].memory_id


async def test_a_bad_item_in_a_batch_stores_nothing_of_it(engine):
    with pytest.raises(ValidationError):
        await engine.add_memories([add("good"), add("   ")])

    assert (await engine.memories.list_memories(ListRequest())).total == 0


async def test_source_and_tags_in_the_metadata_can_be_filtered_by(engine):
    await engine.add_memory(
        add("tagged", metadata={"source": "chat", "tags": ["a", "b"], "other": 1})
    )

    page = await engine.memories.list_memories(
        ListRequest(filters={"tags": ["a"], "source": "chat"})
    )

    assert page.items[0].metadata == {"source": "chat", "tags": ["a", "b"], "other": 1}


async def test_a_memory_can_replace_an_older_one(engine):
    old = await engine.add_memory(add("Deploys happen on Monday."))
    new = await engine.add_memory(add("Deploys happen on Thursday.", supersedes=old.memory_id))

    assert await found(engine, "when do we deploy") == ["Deploys happen on Thursday."]
    assert (await engine.memories.get(old.memory_id)).superseded_by == new.memory_id


async def test_changing_a_text_changes_what_finds_it(engine):
    added = await engine.add_memory(add("The mascot is a hedgehog."))

    record = await engine.update_memory(
        UpdateMemoryRequest(memory_id=added.memory_id, text="The mascot is an octopus.")
    )

    assert record.text == "The mascot is an octopus."
    assert await found(engine, "hedgehog") == ["The mascot is an octopus."]  # by meaning
    assert await found(engine, "octopus") == ["The mascot is an octopus."]
    assert await engine.storage.check_integrity() == {}


async def test_pinning_changes_nothing_else(engine):
    added = await engine.add_memory(add("pin me", tags=["t"], metadata={"a": 1}))

    record = await engine.update_memory(UpdateMemoryRequest(memory_id=added.memory_id, pinned=True))

    assert record.pinned
    assert (record.text, record.tags, record.metadata) == ("pin me", ["t"], {"a": 1})


@pytest.mark.parametrize("size", SIZES)
async def test_a_long_text_is_kept_at_once_and_its_vectors_follow(engine, size):
    line = "Line {} of a long log says that everything is fine today.\n"
    text = "".join(line.format(n) for n in range(size // 50))[: size - 40]
    text += "\nthe needle is a purple submarine"

    response = await engine.add_memory(add(text))

    assert response.pending_vectors == response.chunks_created > 256
    assert "background" in response.notice
    assert (await engine.memories.get(response.memory_id)).text == text
    assert "purple submarine" in (await found(engine, "purple submarine"))[0]


async def test_vectors_of_a_long_text_are_made_in_the_background(engine, monkeypatch):
    monkeypatch.setattr(workflow, "EMBED_AT_ONCE", 2)
    text = "\n\n".join(f"Paragraph {n}. " + "Words about nothing much. " * 40 for n in range(8))
    await engine.add_memory(add(text + "\n\nThe vehicle under water is painted violet."))
    assert (await engine.get_stats())["pending_vectors"] > 2

    engine.memories.keep_filling_vectors()
    await engine.memories._filler

    assert (await engine.get_stats())["pending_vectors"] == 0
    assert "under water" in (await found(engine, "colour of the submarine"))[0]


async def test_without_a_model_a_note_is_kept_and_found_by_words_and_gets_its_vector_later(
    private_home, tmp_path
):
    without = load_settings(models_dir=str(tmp_path / "no models here"))
    async with await create_engine(without) as engine:
        response = await engine.add_memory(add("The parrot is called Gustav."))
        answer = await engine.search_memory(SearchRequest(query="parrot"))

    assert response.pending_vectors == 1
    assert "zapomni models pull" in response.notice
    assert answer.results[0].memory_id == response.memory_id

    async with await create_engine(load_settings()) as engine:
        assert await engine.memories.fill_pending() == 1
        assert await found(engine, "name of our bird") == ["The parrot is called Gustav."]


async def test_a_missing_model_is_said_in_a_search_that_needed_it(engine, tmp_path):
    await engine.add_memory(add("The parrot is called Gustav."))
    without = load_settings(models_dir=str(tmp_path / "no models here"))

    async with await create_engine(without) as wordy:
        answer = await wordy.search_memory(SearchRequest(query="parrot"))

    assert [r.text for r in answer.results] == ["The parrot is called Gustav."]
    assert "words only" in answer.notice
    assert "zapomni models pull" in answer.notice


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (add(""), "VAL_001"),
        (add(" \n\t"), "VAL_001"),
        (add("x" * 10_000_001), "VAL_003"),
        (add("lone surrogate \ud800"), "VAL_004"),
        (add("x", metadata={"bytes": b"no"}), "VAL_002"),
        (add("x", metadata={"nan": float("nan")}), "VAL_002"),
        (add("x", metadata={"long": "y" * 100_001}), "VAL_003"),
        (add("x", metadata={"surrogate": "\ud800"}), "VAL_004"),
        (add("x", tags=["t"] * 2 + [str(n) for n in range(60)]), "VAL_003"),
        (add("x", tags=[" "]), "VAL_001"),
        (add("x", kind="Not A Kind"), "VAL_004"),
        (add("x", project="p" * 1001), "VAL_003"),
        (add("x", idempotency_key=" "), "VAL_001"),
    ],
)
async def test_bad_input_is_refused_with_its_code_and_keeps_nothing(wordy_engine, request_, code):
    with pytest.raises(ValidationError) as caught:
        await wordy_engine.add_memory(request_)

    assert caught.value.error_code == code
    assert (await wordy_engine.memories.list_memories(ListRequest())).total == 0


@pytest.mark.parametrize(("depth", "fits"), [(10, True), (11, False), (100_000, False)])
async def test_metadata_may_be_ten_deep(wordy_engine, depth, fits):
    nested: dict = {}
    for _ in range(depth - 1):
        nested = {"a": nested}
    request = AddMemoryRequest.model_construct(
        **{**dict(add(f"depth {depth}")), "metadata": {"a": nested}}
    )

    if fits:
        assert (await wordy_engine.add_memory(request)).status == "created"
    else:
        with pytest.raises(ValidationError, match="max depth"):
            await wordy_engine.add_memory(request)


async def test_unknown_ids_are_said_to_be_unknown(wordy_engine):
    for call in (
        wordy_engine.memories.get("nobody"),
        wordy_engine.delete_memory("nobody"),
        wordy_engine.update_memory(UpdateMemoryRequest(memory_id="nobody", pinned=True)),
        wordy_engine.add_memory(add("x", supersedes="nobody")),
    ):
        with pytest.raises(NotFoundError) as caught:
            await call
        assert caught.value.error_code == "MEM_001"
    with pytest.raises(ValidationError):
        await wordy_engine.memories.get(" ")


async def test_messages_never_quote_what_was_given(wordy_engine):
    secret = "hunter2-canary"
    bad = [
        add(secret, kind=secret.upper()),
        add(secret + "\ud800"),
        add(secret, metadata={secret: b"x"}),
        add(secret, supersedes=secret),
        add(secret, tags=[secret * 40]),
    ]
    for request in bad:
        with pytest.raises((ValidationError, NotFoundError)) as caught:
            await wordy_engine.add_memory(request)
        assert secret not in str(caught.value.to_dict()).lower()
