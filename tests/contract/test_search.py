from __future__ import annotations

import math
import random

import pytest

from builders import SPACE, memory, vector
from zapomni_core.exceptions import ValidationError
from zapomni_db.models import (
    ChunkVector,
    EmbeddingSpace,
    EntityData,
    MemoryFilter,
    RelationshipData,
    TextSearchRequest,
    VectorSearchRequest,
)

pytestmark = pytest.mark.anyio


def near(query, limit=10, min_similarity=-1.0, **filters):
    return VectorSearchRequest(
        query_embedding=query,
        limit=limit,
        min_similarity=min_similarity,
        filters=MemoryFilter(**filters),
    )


def words(*terms, limit=10, **filters):
    return TextSearchRequest(terms=list(terms), limit=limit, filters=MemoryFilter(**filters))


async def test_scores_are_the_exact_cosines_best_first(storage):
    dice = random.Random(7)
    vectors = [[dice.gauss(0, 1) for _ in range(4)] for _ in range(200)]
    await storage.store_memories([memory(f"m{i}", v) for i, v in enumerate(vectors)])
    query = [dice.gauss(0, 1) for _ in range(4)]

    hits = await storage.vector_search(near(query, limit=20))

    def cosine(v):
        return sum(a * b for a, b in zip(v, query, strict=True)) / (
            math.hypot(*v) * math.hypot(*query)
        )

    expected = sorted(range(200), key=lambda i: -cosine(vectors[i]))[:20]
    assert [hit.text for hit in hits] == [f"m{i}" for i in expected]
    assert hits[0].similarity_score == pytest.approx(cosine(vectors[expected[0]]), abs=1e-5)


async def test_hits_below_the_asked_similarity_are_left_out(storage):
    await storage.store_memories([memory("near", vector(1)), memory("far", vector(0, 1))])

    hits = await storage.vector_search(near(vector(1), min_similarity=0.5))

    assert [hit.text for hit in hits] == ["near"]


async def test_a_crowd_in_another_project_never_hides_the_only_hit(storage):
    crowd = [memory(f"the answer {i}", vector(1, i / 1000), project="a") for i in range(60)]
    await storage.store_memories([*crowd, memory("the answer too", vector(1, 5), project="b")])

    by_vector = await storage.vector_search(near(vector(1), limit=5, project="b"))
    by_words = await storage.bm25_search(words("answer", limit=5, project="b"))

    assert [hit.text for hit in by_vector] == ["the answer too"]
    assert [hit.text for hit in by_words] == ["the answer too"]


async def test_words_match_in_any_inflection_and_rank_by_rarity(storage):
    await storage.store_memories(
        [memory("deploying the server"), memory("the server sleeps"), memory("nothing here")]
    )

    hits = await storage.bm25_search(words("server", "deployed"))

    assert [hit.text for hit in hits] == ["deploying the server", "the server sleeps"]
    assert hits[0].bm25_score > hits[1].bm25_score


@pytest.mark.parametrize(
    "term",
    ["AND", "OR", "NOT", "NEAR(", '"', '""', "*", "(", ")", "C++", "foo-bar", "a:b", "^x", "🧠",
     "\0", "-", "{", "日本", "x" * 1_000_000, "'; DROP TABLE memories; --"],
)  # fmt: skip
async def test_no_term_is_ever_syntax(storage, term):
    await storage.store_memory(memory("C++ foo-bar AND 日本 🧠"))

    hits = await storage.bm25_search(words(term, "foo"))

    assert [hit.text for hit in hits] == ["C++ foo-bar AND 日本 🧠"]


async def test_no_terms_find_nothing(storage):
    await storage.store_memory(memory("something"))

    assert await storage.bm25_search(words()) == []


async def test_a_query_vector_of_the_wrong_dimension_is_refused(storage):
    await storage.store_memory(memory("four", vector(1)))

    with pytest.raises(ValidationError, match="dimension must be 4, got 3"):
        await storage.vector_search(near([1.0, 0.0, 0.0]))


async def test_a_store_without_vectors_finds_nothing_by_meaning(storage):
    await storage.store_memory(memory("words only"))

    assert await storage.vector_search(near(vector(1))) == []


async def test_pending_chunks_become_searchable_when_their_vectors_arrive(storage):
    await storage.store_memory(memory("waits for its vector"))
    (waiting,) = await storage.get_pending(None, 10)

    arrived = ChunkVector(chunk_id=waiting.chunk_id, embedding=vector(1))
    await storage.store_vectors(SPACE, [arrived])

    assert await storage.count_pending(SPACE) == 0
    assert await storage.get_space() == SPACE
    hits = await storage.vector_search(near(vector(1)))
    assert [hit.text for hit in hits] == ["waits for its vector"]


async def test_a_vector_for_a_chunk_deleted_meanwhile_is_passed_over(storage):
    memory_id = await storage.store_memory(memory("gone soon"))
    (waiting,) = await storage.get_pending(None, 10)
    await storage.delete_memory(memory_id)

    arrived = ChunkVector(chunk_id=waiting.chunk_id, embedding=vector(1))
    await storage.store_vectors(SPACE, [arrived])

    assert await storage.vector_search(near(vector(1))) == []
    assert await storage.check_integrity() == {}


async def test_vectors_already_stored_serve_as_the_cache_for_their_space(storage):
    await storage.store_memory(memory("known", vector(0, 1)))

    found = await storage.get_embeddings(SPACE, ["known", "unknown"])
    elsewhere = await storage.get_embeddings(EmbeddingSpace(model="x", dimension=4), ["known"])

    assert list(found) == ["known"]
    assert found["known"].vector == pytest.approx(vector(0, 1))
    assert elsewhere == {}


async def test_token_vectors_come_with_their_chunk_and_go_with_it(storage):
    given = memory("with tokens", vector(1))
    packed = given.chunks[0].model_copy(update={"tokens": b"packed"})
    memory_id = await storage.store_memory(given.model_copy(update={"chunks": [packed]}))
    (hit,) = await storage.vector_search(near(vector(1)))

    assert await storage.get_tokens([hit.chunk_id]) == {hit.chunk_id: b"packed"}
    assert (await storage.get_embeddings(SPACE, ["with tokens"]))["with tokens"].tokens == b"packed"

    await storage.delete_memory(memory_id)
    assert await storage.get_tokens([hit.chunk_id]) == {}


async def test_token_vectors_that_come_later_are_kept_too(storage):
    await storage.store_memory(memory("later"))
    (waiting,) = await storage.get_pending(None, 1)

    await storage.store_vectors(
        SPACE, [ChunkVector(chunk_id=waiting.chunk_id, embedding=vector(1), tokens=b"late")]
    )

    assert await storage.get_tokens([waiting.chunk_id]) == {waiting.chunk_id: b"late"}


async def test_switching_the_space_waits_for_the_last_vector_and_drops_the_old(storage):
    await storage.store_memories([memory("a", vector(1)), memory("b", vector(0, 1))])
    target = EmbeddingSpace(model="new-model", dimension=2)
    first, second = await storage.get_pending(target, 10)

    await storage.store_vectors(target, [ChunkVector(chunk_id=first.chunk_id, embedding=[1, 0])])
    assert await storage.activate_space(target) == 1
    assert await storage.get_space() == SPACE
    assert len(await storage.vector_search(near(vector(1)))) == 2

    await storage.store_vectors(target, [ChunkVector(chunk_id=second.chunk_id, embedding=[0, 1])])
    assert await storage.activate_space(target) == 0
    assert await storage.get_space() == target
    hits = await storage.vector_search(near([1.0, 0.1]))
    assert [hit.text for hit in hits] == ["a", "b"]
    assert await storage.get_embeddings(SPACE, ["a"]) == {}
    assert await storage.check_integrity() == {}


async def test_entities_are_created_once_and_updated_after(storage):
    redis = EntityData(entity_id="e1", name="Redis", type="TECHNOLOGY", confidence=0.5)
    cache = EntityData(entity_id="e2", name="cache", type="CONCEPT", confidence=0.9)
    uses = RelationshipData(
        source_entity_id="e1", target_entity_id="e2", relationship_type="USES", strength=0.7
    )

    assert await storage.store_entities([redis, cache], [uses]) == 2
    assert await storage.store_entities([redis.model_copy(update={"confidence": 1.0})], []) == 1

    assert (await storage.get_stats())["total_entities"] == 2


@pytest.mark.parametrize("parent", ["nul\0chat", "\"}'", "\u202e\ufffd"])
async def test_odd_names_of_parents_and_projects_do_not_matter(storage, parent):
    for position, text in enumerate(("hello", "goodbye")):
        given = memory(text, vector(1), parent=parent, position=position, project=f"p{parent}")
        await storage.store_memory(given)
    found = await storage.rank_by_words(words("hello", "goodbye", limit=9))
    places = await storage.get_places(list(found), MemoryFilter())
    assert [(p.group_size, len(p.neighbours)) for p in places.values()] == [(2, 1), (2, 1)]


async def test_passages_know_their_neighbours_within_a_memory_and_across_a_conversation(storage):
    await storage.store_memory(
        memory("one | two | three", vector(1), vector(0, 1), vector(0, 0, 1))
    )
    for position, text in [(1, "hello"), (2, "how are you"), (5, "fine")]:
        await storage.store_memory(memory(text, vector(1), parent="chat", position=position))
    everything = await storage.rank_by_words(
        words("one", "two", "three", "hello", "fine", "you", limit=20)
    )

    places = await storage.get_places(list(everything), MemoryFilter(parent="chat"))
    texts = {c: p.text for c, p in (await storage.get_passages(list(everything))).items()}

    beside = {
        texts[c]: ([texts[n] for n in place.neighbours], place.group_size)
        for c, place in places.items()
    }
    assert beside == {
        "one": (["two"], 3),
        "two": (["one", "three"], 3),
        "three": (["two"], 3),
        "hello": (["how are you"], 3),
        "how are you": (["hello", "fine"], 3),
        "fine": (["how are you"], 3),
    }
    assert {texts[c] for c, p in places.items() if p.selected} == {"hello", "how are you", "fine"}
    groups = {texts[c]: place.group for c, place in places.items()}
    assert groups["hello"] == groups["fine"] != groups["one"] == groups["three"]
    positions = {texts[c]: place.position for c, place in places.items()}
    assert positions == {
        "one": 0, "two": 1, "three": 2, "hello": 1, "how are you": 2, "fine": 5
    }  # fmt: skip


async def test_scores_can_be_had_for_chosen_chunks_alone(storage):
    await storage.store_memories([memory("a", vector(1)), memory("b", vector(0, 1)), memory("c")])
    ranked = await storage.rank_by_words(words("a", "b", "c"))

    scores = await storage.get_similarities(vector(1), list(ranked))

    assert sorted(scores.values()) == [pytest.approx(0.0), pytest.approx(1.0)]
