"""What this engine does beyond the contract, and how."""

from __future__ import annotations

import asyncio
import random
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import SPACE, memory, specified, vector
from zapomni_db.exceptions import NotFoundError, ValidationError
from zapomni_db.falkordb import FalkorDBClient, search, values
from zapomni_db.falkordb.schema import CURRENT_VERSION, HnswOptions
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    ChunkVector,
    EmbeddingSpace,
    EntityData,
    MemoryFilter,
    MemoryPatch,
    RelationshipData,
    VectorSearchRequest,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def another(falkordb_server, falkordb_graph):
    """Make further clients of the same graph."""

    def make(**options) -> FalkorDBClient:
        return FalkorDBClient(
            unix_socket=str(falkordb_server.socket), graph_name=falkordb_graph, **options
        )

    return make


def test_it_is_a_storage_provider(another):
    promised: StorageProvider = another()
    assert promised is not None


async def test_it_connects_by_itself_when_first_used(another):
    client = another()

    memory_id = await client.add_memory(specified())

    assert await client.health_check()
    assert (await client.get_memory(memory_id)).text == "Test"
    await client.close()


async def test_many_first_clients_at_once_make_one_store(another, admin, falkordb_graph):
    clients = [another() for _ in range(8)]
    try:
        await asyncio.gather(*(client.connect() for client in clients))
        await asyncio.gather(
            *(client.store_memory(memory(f"m{n}")) for n, client in enumerate(clients))
        )

        stores = admin.execute_command(
            "GRAPH.RO_QUERY", falkordb_graph, "MATCH (s:Store) RETURN count(s), max(s.schema)"
        )
        assert stores[1] == [[1, CURRENT_VERSION]]
        assert (await clients[0].get_stats())["total_memories"] == 8
        assert await clients[0].check_integrity() == {}
    finally:
        await asyncio.gather(*(client.close() for client in clients))


async def test_indexes_are_there_after_connecting_and_in_use(another):
    options = HnswOptions(m=24, ef_construction=200, ef_runtime=90)
    async with another(hnsw=options) as client, another() as again:
        await client.add_memory(specified())
        await again.add_memory(specified("twice"))

        result = await again.graph_query(
            "CALL db.indexes() YIELD label, types, options, status"
            " RETURN label, types, options, status"
        )
        by_label = {row["label"]: row for row in result.rows}
        assert {row["status"] for row in result.rows} == {"OPERATIONAL"}
        assert by_label["Chunk"]["types"]["words"] == ["FULLTEXT"]
        assert by_label["Chunk"]["types"]["embedding"] == ["VECTOR"]
        assert by_label["Chunk"]["options"]["embedding"] == {
            "dimension": 768, "similarityFunction": "cosine", "M": 24, "efConstruction": 200,
            "efRuntime": 90,
        }  # fmt: skip
        assert by_label["Memory"]["types"]["id"] == ["RANGE"]
        unique = await client.graph_query(
            "CALL db.constraints() YIELD label, properties, status"
            " WHERE status = 'OPERATIONAL' RETURN label, properties"
        )
        assert {(row["label"], *row["properties"]) for row in unique.rows} >= {
            ("Memory", "id"), ("Chunk", "id"), ("Entity", "id"), ("Memory", "idempotency_hash"),
        }  # fmt: skip


async def test_every_property_is_declared_before_it_is_used(client):
    """A name that came with a statement that failed would be mixed up by the server."""
    await client.store_memory(memory("without any vector"))
    old = await client.store_memory(
        memory("one | two", vector(1), None, tags=["t"], idempotency_key="k")
    )
    await client.store_memory(memory("newer", vector(0, 1), supersedes=old))
    await client.update_memory(old, MemoryPatch(text="new", chunks=memory("new").chunks))
    entity = EntityData(entity_id="e", name="n", type="T", confidence=1 / 3)
    relation = RelationshipData(
        source_entity_id="e", target_entity_id="e", relationship_type="R", strength=1 / 3
    )
    await client.store_entities([entity], [relation])
    other = EmbeddingSpace(model="other", dimension=2)
    (waiting, *_) = await client.get_pending(other, 10)
    given_vector = ChunkVector(chunk_id=waiting.chunk_id, embedding=[1.0, 0.0], tokens=b"t")
    await client.store_vectors(other, [given_vector])

    used = await client.graph_query("CALL db.propertyKeys()")
    declared = await client.graph_query("MATCH (n:Names) RETURN keys(n) AS names")

    assert {row["propertyKey"] for row in used.rows} == set(declared.rows[0]["names"])


async def test_a_batch_is_one_statement_and_all_or_nothing(client):
    before = await client.get_version()

    ids = await client.add_memories_batch([specified(f"m{n}", chunks=3) for n in range(5)])

    assert len(set(ids)) == 5
    assert await client.get_version() == before + 1
    assert (await client.get_summaries(ids)).keys() == set(ids)
    assert (await client.get_stats())["total_chunks"] == 15
    assert await client.add_memories_batch([]) == []
    with pytest.raises(ValidationError):
        await client.add_memories_batch([specified("fine"), specified(chunks=0)])
    assert (await client.get_stats())["total_memories"] == 5


async def test_equal_texts_given_to_add_memory_are_separate_memories(client):
    first, second = await client.add_memory(specified()), await client.add_memory(specified())

    assert first != second
    assert (await client.get_stats())["total_memories"] == 2


async def test_every_write_by_anybody_changes_the_version(client, another):
    async with another() as other:
        seen = {await other.get_version()}

        async def changed() -> bool:
            version = await other.get_version()
            return not (version in seen or seen.add(version))

        memory_id = await client.store_memory(memory("a | b", vector(1), None))
        assert await changed()
        await client.update_memory(memory_id, {"pinned": True})
        assert await changed()
        (waiting,) = await client.get_pending(None, 10)
        await client.store_vectors(
            SPACE, [ChunkVector(chunk_id=waiting.chunk_id, embedding=vector(1))]
        )
        assert await changed()
        await client.store_entities(
            [EntityData(entity_id="e", name="n", type="T", confidence=1.0)], []
        )
        assert await changed()
        await client.delete_memory(memory_id)
        assert await changed()
        await client.get_stats()
        assert not await changed()


async def test_the_same_text_from_many_at_once_is_stored_once(client, another):
    clients = [another() for _ in range(4)]
    try:
        answers = await asyncio.gather(
            *(
                clients[n % 4].store_memories(
                    [memory(f"same {n % 3}", idempotency_key=f"k{n % 3}")]
                )
                for n in range(24)
            )
        )
    finally:
        await asyncio.gather(*(one.close() for one in clients))

    stored = [answer[0] for answer in answers]
    assert len({one.memory_id for one in stored}) == 3
    assert sorted(one.status for one in stored) == ["created"] * 3 + ["replayed"] * 21
    assert (await client.get_stats())["total_memories"] == 3
    assert await client.check_integrity() == {}


async def test_the_first_of_two_models_at_once_wins(client, another):
    spaces = [EmbeddingSpace(model=f"model {n}", dimension=4) for n in range(6)]
    results = await asyncio.gather(
        *(
            client.store_memory(memory(f"by {space.model}", vector(1), space=space))
            for space in spaces
        ),
        return_exceptions=True,
    )

    assert sum(isinstance(result, str) for result in results) == 1
    assert sum(isinstance(result, ValidationError) for result in results) == 5
    assert (await client.get_space()) in spaces
    assert (await client.get_stats())["total_memories"] == 1


async def test_a_plan_made_for_another_state_writes_nothing(client, another):
    """What a client saw last is outdated: it looks again, and what it writes is whole."""
    old = await client.store_memory(memory("old"))
    async with another() as other:
        await other.store_memory(memory("the first vector", vector(1)))

        new = await client.store_memory(memory("new", supersedes=old))
        assert (await client.get_memory(old)).superseded_by == new
        await other.delete_memory(new)
        with pytest.raises(NotFoundError):
            await client.store_memory(memory("newest", supersedes=new))
        (again,) = await client.store_memories([memory("the first vector", vector(1))])

    assert again.status == "duplicate"
    assert (await client.list_memories(MemoryFilter(), 10, 0)).total == 2
    assert await client.check_integrity() == {}


async def test_logs_carry_ids_counts_and_retries_but_no_words(client, events):
    memory_id = await client.add_memory(specified("a secret", metadata={"author": "a secret"}))

    (stored,) = [fields for event, fields in events if event == "memories_stored"]
    assert stored["memory_ids"] == [memory_id]
    assert (stored["chunks"], stored["metadata_keys"], stored["retries"]) == (1, ["author"], 0)
    assert stored["duration_ms"] > 0
    assert "secret" not in str(events)


async def test_a_retry_and_its_count_are_in_the_log(proxy, falkordb_graph, pauses, events):
    async with FalkorDBClient(unix_socket=str(proxy.path), graph_name=falkordb_graph) as client:
        proxy.cut_requests = 2
        await client.add_memory(specified("kept"))

    retries = [fields for event, fields in events if event == "database_retry"]
    assert [retry["attempt"] for retry in retries] == [1, 2]
    assert {retry["operation"] for retry in retries} == {"add_memory"}
    assert all(retry["error_type"] and retry["duration_ms"] >= 0 for retry in retries)
    (stored,) = [fields for event, fields in events if event == "memories_stored"]
    assert stored["retries"] == 2


# --- graph --------------------------------------------------------------------------------


@pytest.fixture
async def web(client):
    """a - b - c - d, and e beside a; f alone."""
    await client.store_entities(
        [EntityData(entity_id=i, name=i.upper(), type="T", confidence=0.5) for i in "abcdef"],
        [
            RelationshipData(
                source_entity_id=one, target_entity_id=two, relationship_type="R", strength=1.0
            )
            for one, two in ["ab", "cb", "cd", "ea", "aa"]
        ],
    )
    return client


@pytest.mark.parametrize(
    ("start", "depth", "expected"),
    [
        ("a", 1, [("b", 1), ("e", 1)]),
        ("a", 2, [("b", 1), ("e", 1), ("c", 2)]),
        ("a", 10, [("b", 1), ("e", 1), ("c", 2), ("d", 3)]),
        ("f", 3, []),
        ("nobody", 3, []),
    ],
)
async def test_related_entities_are_found_nearest_first(web, start, depth, expected):
    found = await web.get_related(start, depth)

    assert [(one.entity.entity_id, one.distance) for one in found] == expected


async def test_no_more_related_entities_than_asked_for(web):
    assert len(await web.get_related("a", 10, limit=3)) == 3
    with pytest.raises(ValidationError, match="depth must be from 1 to 10"):
        await web.get_related("a", 11)
    with pytest.raises(ValidationError, match="limit must be at least 1"):
        await web.get_related("a", 1, limit=0)


# --- many vectors ---------------------------------------------------------------------------


async def test_of_very_many_the_index_chooses_and_scores_stay_exact(client, monkeypatch):
    monkeypatch.setattr(search, "INDEX_FROM", 100)
    dice = random.Random(3)
    vectors = [[dice.gauss(0, 1) for _ in range(4)] for _ in range(400)]
    ids = [one.memory_id for one in await client.store_memories(
        [memory(f"m{n}", v) for n, v in enumerate(vectors)]
    )]  # fmt: skip
    request = VectorSearchRequest(query_embedding=vectors[0], limit=50, min_similarity=-1.0)

    by_index = await client.rank_by_vector(request)
    everything = request.model_copy(update={"filters": MemoryFilter(include_superseded=True)})
    one_by_one = await client.rank_by_vector(everything)

    assert by_index.scores == one_by_one.scores
    assert one_by_one.mean == pytest.approx(by_index.mean, abs=0.1)
    # Most of what the index finds is superseded: then every vector is compared after all.
    nearest = [hit.memory_id for hit in await client.vector_search(request)]
    await client.store_memories([memory(f"new {i}", supersedes=i) for i in ids if i in nearest])
    left = await client.vector_search(request.model_copy(update={"limit": 200}))
    assert len(left) == 200
    assert not {hit.memory_id for hit in left} & set(nearest)


async def test_while_the_index_is_missing_every_vector_is_compared(
    client, monkeypatch, admin, falkordb_graph
):
    monkeypatch.setattr(search, "INDEX_FROM", 1)
    await client.store_memories([memory(f"m{n}", vector(1, n)) for n in range(5)])
    admin.execute_command(
        "GRAPH.QUERY", falkordb_graph, "DROP VECTOR INDEX FOR (c:Chunk) ON (c.embedding)"
    )

    request = VectorSearchRequest(query_embedding=vector(1), limit=3, min_similarity=-1.0)
    hits = await client.vector_search(request)

    assert [hit.text for hit in hits] == ["m0", "m1", "m2"]


async def test_an_index_of_another_dimension_is_made_anew(client, admin, falkordb_graph):
    admin.execute_command(
        "GRAPH.QUERY", falkordb_graph,
        "CREATE VECTOR INDEX FOR (c:Chunk) ON (c.embedding)"
        " OPTIONS {dimension: 99, similarityFunction: 'cosine'}",
    )  # fmt: skip

    await client.store_memory(memory("four dimensions", vector(1)))

    indexes = await client.graph_query(
        "CALL db.indexes() YIELD label, options WHERE label = 'Chunk' RETURN options"
    )
    assert indexes.rows[0]["options"]["embedding"]["dimension"] == 4


# --- words ----------------------------------------------------------------------------------


def stems_by_fts5(text: str) -> list[str]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "CREATE VIRTUAL TABLE f USING fts5 (t, tokenize='porter unicode61 remove_diacritics 2');"
        "CREATE VIRTUAL TABLE v USING fts5vocab (f, instance);"
    )
    connection.execute("INSERT INTO f VALUES (?)", (text,))
    found = connection.execute("SELECT term FROM v ORDER BY offset").fetchall()
    connection.close()
    return [term for (term,) in found]


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_there_are_as_many_words_as_the_other_engine_has_and_none_is_syntax(texts):
    found = values.stems_of(texts)

    assert [len(stems) for stems in found] == [len(stems_by_fts5(text)) for text in texts]
    for stem in (stem for stems in found for stem in stems):
        assert stem.isascii()
        assert stem.replace("_", "").isalnum()
        assert len(stem) <= 70 * 2


def test_words_are_stemmed_folded_and_kept_in_order():
    assert values.stems_of(["Deploying Servers, deployed!", "", "naïve Größe"]) == [
        ["deploi", "server", "deploi"],
        [],
        ["naiv", "_" + "groß".encode().hex()],
    ]


def test_a_very_long_word_is_still_one_word():
    (stems,) = values.stems_of(["x" * 1_000_000 + " y"])

    assert len(stems) == 2
    assert len(stems[0]) == 65
