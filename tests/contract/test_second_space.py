"""A second space next to the active one: vectors of the passages that its model does not read."""

from __future__ import annotations

from array import array

import pytest

from builders import SPACE, memory, vector
from zapomni_core.modules.memories import MemoryRanker, Question
from zapomni_db.exceptions import ValidationError
from zapomni_db.models import (
    ChunkVector,
    EmbeddingSpace,
    MemoryFilter,
    TextSearchRequest,
    VectorSearchRequest,
)

pytestmark = pytest.mark.anyio

FIRST = SPACE
SECOND = EmbeddingSpace(model="second", dimension=2)
THIRD = EmbeddingSpace(model="third", dimension=2)


async def store(storage, *texts):
    for text in texts:
        await storage.store_memory(memory(text, vector(1)))


def asked(vector, **options):
    return VectorSearchRequest(query_embedding=vector, min_similarity=-1.0, **options)


async def test_chunks_are_offered_to_the_second_space_once(storage):
    await store(storage, "one", "two")
    first = await storage.get_unseen(SECOND, 1)
    assert [chunk.text for chunk in first] == ["one"]
    await storage.store_second(SECOND, [], first[0].chunk_id)
    rest = await storage.get_unseen(SECOND, 10)
    assert [chunk.text for chunk in rest] == ["two"]
    await storage.store_second(
        SECOND, [ChunkVector(chunk_id=rest[0].chunk_id, embedding=[0.0, 1.0])], rest[0].chunk_id
    )
    assert await storage.get_unseen(SECOND, 10) == []
    await store(storage, "three")
    assert [chunk.text for chunk in await storage.get_unseen(SECOND, 10)] == ["three"]


async def test_both_spaces_are_searched_each_by_its_own_vectors(storage):
    await store(storage, "one", "two")
    one, two = await storage.get_unseen(SECOND, 10)
    before = await storage.get_version()
    await storage.store_second(
        SECOND, [ChunkVector(chunk_id=two.chunk_id, embedding=[0.0, 1.0])], two.chunk_id
    )
    assert await storage.get_version() != before
    state = await storage.get_state()
    assert (state.space, state.second) == (FIRST, SECOND)
    found = await storage.rank_by_vector(asked([0.0, 1.0], second=True))
    assert found.scores == pytest.approx({two.chunk_id: 1.0})
    assert found.count == 1
    ids = [one.chunk_id, two.chunk_id]
    near = await storage.get_similarities([1.0, 1.0], ids, second=True)
    assert near == pytest.approx({two.chunk_id: 0.5**0.5})
    assert len((await storage.rank_by_vector(asked(vector(1)))).scores) == 2
    assert len(await storage.get_similarities(vector(1), ids)) == 2
    with pytest.raises(ValidationError):
        await storage.rank_by_vector(asked(vector(1), second=True))


async def test_without_a_second_space_nothing_is_near_in_it(storage):
    await store(storage, "one")
    assert (await storage.get_state()).second is None
    assert (await storage.rank_by_vector(asked([0.0, 1.0], second=True))).scores == {}
    (one,) = await storage.get_unseen(SECOND, 10)
    assert await storage.get_similarities([0.0, 1.0], [one.chunk_id], second=True) == {}


async def test_some_vectors_of_the_second_space_are_read_at_once(storage):
    assert await storage.sample_second(10) == b""
    await store(storage, "one", "two", "three")
    chunks = await storage.get_unseen(SECOND, 10)
    assert await storage.sample_second(10) == b""
    made = [
        ChunkVector(chunk_id=chunk.chunk_id, embedding=embedding)
        for chunk, embedding in zip(chunks[1:], ([0.0, 1.0], [1.0, 0.0]), strict=True)
    ]
    await storage.store_second(SECOND, made, chunks[-1].chunk_id)
    numbers = array("f", await storage.sample_second(10))
    assert sorted(zip(numbers[::2], numbers[1::2], strict=True)) == [(0.0, 1.0), (1.0, 0.0)]
    assert len(array("f", await storage.sample_second(1))) == SECOND.dimension


async def test_a_search_counts_less_what_all_passages_of_the_second_space_differ_in(storage):
    space = EmbeddingSpace(model="second", dimension=16)
    # All lie along the first direction, one way or the other; one has something else, too.
    others = [[(-1.0) ** number, *[0.0] * 15] for number in range(40)]
    target = [0.6, 0.8, *[0.0] * 14]
    await store(storage, *(f"passage {number}" for number in range(41)))
    chunks = await storage.get_unseen(space, 100)
    made = [
        ChunkVector(chunk_id=chunk.chunk_id, embedding=embedding)
        for chunk, embedding in zip(chunks, [*others, target], strict=True)
    ]
    await storage.store_second(space, made, chunks[-1].chunk_id)
    question = [0.92, 0.39, *[0.0] * 14]
    nearest = (await storage.rank_by_vector(asked(question, second=True))).scores
    assert next(iter(nearest)) != chunks[-1].chunk_id
    ranker = MemoryRanker(storage)
    ranked = await ranker.rank(Question("?", [], MemoryFilter(), 3, second=question, total=41))
    assert ranked[0].chunk_id == chunks[-1].chunk_id
    # Evidence is by the cosine as it is, which does not depend on what else is stored.
    assert ranked[0].second == pytest.approx(0.864, abs=0.01)
    assert ranker.contrast.count == 41


async def test_the_second_space_outlives_a_switch_of_the_first(storage):
    await store(storage, "one")
    (one,) = await storage.get_unseen(SECOND, 10)
    made = ChunkVector(chunk_id=one.chunk_id, embedding=[0.0, 1.0])
    await storage.store_second(SECOND, [made], one.chunk_id)
    other = EmbeddingSpace(model="other", dimension=4)
    await storage.store_vectors(
        other, [ChunkVector(chunk_id=one.chunk_id, embedding=vector(0, 0, 1))]
    )
    assert await storage.activate_space(other) == 0
    state = await storage.get_state()
    assert (state.space, state.second) == (other, SECOND)
    assert await storage.get_similarities([0.0, 1.0], [one.chunk_id], second=True)


async def test_another_second_space_takes_its_place(storage):
    await store(storage, "one")
    (one,) = await storage.get_unseen(SECOND, 10)
    for space in (SECOND, THIRD):
        made = ChunkVector(chunk_id=one.chunk_id, embedding=[0.0, 1.0])
        await storage.store_second(space, [made], one.chunk_id)
        assert (await storage.get_state()).second == space


async def test_the_additional_words_of_chunks_are_replaced(storage):
    await store(storage, "one", "two", "three")
    first = await storage.get_contexts(None, 2)
    assert [(chunk.text, chunk.context) for chunk in first] == [("one", ""), ("two", "")]
    rest = await storage.get_contexts(first[-1].chunk_id, 2)
    assert [chunk.text for chunk in rest] == ["three"]
    two = first[1].chunk_id
    before = await storage.rank_by_words(TextSearchRequest(terms=["one"]))
    for context in ("zwei deux", "deux"):
        await storage.store_contexts({two: context})
    found = await storage.find_matches(["zwei", "deux", "two"], 5)
    assert found == {"zwei": frozenset(), "deux": frozenset({two}), "two": frozenset({two})}
    assert [chunk.context for chunk in await storage.get_contexts(None, 2)] == ["", "deux"]
    # A longer neighbor makes a passage shorter than the average.
    after = await storage.rank_by_words(TextSearchRequest(terms=["one"]))
    assert after.keys() == before.keys()
    assert await storage.check_integrity() == {}
