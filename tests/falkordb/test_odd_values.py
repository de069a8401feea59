"""Whatever a user writes is a value: never a statement, never a name, never lost."""

from __future__ import annotations

import math
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import memory, specified, vector
from zapomni_db.exceptions import NotFoundError, ValidationError
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.falkordb.values import Vector, from_cell, parameters
from zapomni_db.models import (
    EntityData,
    MemoryFilter,
    RelationshipData,
    TextSearchRequest,
)

pytestmark = pytest.mark.anyio

CYPHER = [
    "'}) DETACH DELETE m //",
    '"}) MATCH (n) DETACH DELETE n //',
    "\\",
    '\\"',
    "\\' OR 1=1",
    "` MATCH (n) DELETE n //",
    "$id",
    "CYPHER id='x' MATCH (n) DELETE n",
    "*/ MATCH (n) DELETE n /*",
    "\n\r\t\x0b\x1a\x1a0\x1a1",
    "a\0b\0",
    "null",
    "{a: 1}",
    "@words:{x} | -y ~z %q% [1 2] (a)",
    "\u2028\ufeff\U0010ffff",
]
GRAPHS = [
    "two words", "it's", 'a "quoted" one', "back`tick", "{tag}", "[1]", "$name", "semi;colon",
    "*", "../up", "日本語", "🧠", "a,b", "CYPHER x=1", "%s", "\\", "telemetry{zapomni}",
]  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
async def test_a_graph_may_have_any_visible_name(falkordb_server, name):
    own = f"{name} {uuid.uuid4()}"
    async with FalkorDBClient(unix_socket=str(falkordb_server.socket), graph_name=own) as client:
        memory_id = await client.store_memory(memory("here", vector(1)))

        assert (await client.get_memory(memory_id)).text == "here"
        assert (await client.get_stats())["graph_name"] == own
        assert await client.check_integrity() == {}
        await client.drop_graph()
        assert await client.get_memory(memory_id) is None
        await client.drop_graph()


@pytest.mark.parametrize("text", CYPHER)
async def test_cypher_in_any_value_is_only_a_value(client, text):
    bystander = await client.store_memory(memory("unharmed"))
    given_memory = memory(
        text, vector(1), metadata={text: [text]}, project=text, source=text, kind=text,
        tags=[text], idempotency_key=text, parent=text, position=1,
    )  # fmt: skip
    chunk = given_memory.chunks[0].model_copy(update={"context": text, "metadata": {text: text}})
    memory_id = await client.store_memory(given_memory.model_copy(update={"chunks": [chunk]}))

    kept = await client.get_memory(memory_id)
    assert (kept.text, kept.metadata, kept.project) == (text, {text: [text]}, text)
    assert (kept.source, kept.kind, kept.tags, kept.parent) == (text, text, [text], text)
    wanted = MemoryFilter(project=text, source=text, kind=text, tags=[text], parent=text)
    assert (await client.list_memories(wanted, 10, 0)).total == 1
    (exported,) = [
        one for one in (await client.export_memories(None, 10)).items if one.memory_id == memory_id
    ]
    assert exported.chunks[0].metadata == {text: text}
    assert exported.chunks[0].context == text
    assert exported.idempotency_key == text

    assert await client.update_memory(memory_id, {"source": text, "metadata": {text: text}})
    assert await client.get_memory(text) is None
    assert not await client.delete_memory(text)
    with pytest.raises(NotFoundError):
        await client.store_memory(memory("newer", supersedes=text))
    await client.bm25_search(TextSearchRequest(terms=[text], filters=wanted))
    await client.find_matches([text], 10)
    entity = EntityData(entity_id="e", name=text, type=text, description=text, confidence=0.1)
    relation = RelationshipData(
        source_entity_id="e", target_entity_id="e", relationship_type=text, strength=1.0,
        evidence=text,
    )  # fmt: skip
    await client.store_entities([entity], [relation])
    assert await client.export_entities(None, 10) == [entity]
    assert await client.export_relationships(None, 10) == [relation]
    assert (await client.get_memory(bystander)).text == "unharmed"
    assert await client.check_integrity() == {}


@pytest.mark.parametrize("text", CYPHER)
async def test_cypher_in_a_specified_memory_is_only_a_value(client, text):
    padded = f"x{text}"  # some of these are blank

    memory_id = await client.add_memory(specified(padded, metadata={"k": text}))

    kept = await client.get_memory(memory_id)
    assert (kept.text, kept.metadata) == (padded, {"k": text})


plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=values)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_comes_back_from_the_server_as_it_went(admin, falkordb_graph, value):
    answer = admin.execute_command(
        "GRAPH.QUERY", falkordb_graph, parameters({"value": value}) + "RETURN $value", "--compact"
    )

    assert from_cell(answer[1][0][0]) == value


@given(vector=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_vector_comes_back_as_the_same_float32(admin, falkordb_graph, vector):
    answer = admin.execute_command(
        "GRAPH.QUERY", falkordb_graph,
        parameters({"value": Vector(vector)}) + "RETURN vecf32($value)", "--compact",
    )  # fmt: skip

    assert [float(number) for number in answer[1][0][0][1]] == vector


@pytest.mark.parametrize(
    "bad",
    [
        {"a b": 1},
        {"x=1 MATCH (n) DELETE n //": 1},
        {"": 1},
        {"a`": 1},
        {"ok": {"not ok": 1}},
        {"ok": {"a`b": 1}},
        {"ok": math.nan},
        {"ok": math.inf},
        {"ok": 2**63},
        {"ok": b"bytes"},
        {"ok": object},
        {"ok": {1, 2}},
        {"ok": "half \udc00"},
    ],
    ids=str,
)
async def test_a_parameter_that_is_no_value_is_refused(client, bad):
    with pytest.raises(ValidationError):
        await client.graph_query("RETURN 1", bad)


async def test_a_query_answers_with_rows_by_name(client):
    memory_id = await client.add_memory(specified("one\0", chunks=2))

    result = await client.graph_query(
        "MATCH (m:Memory {id: $id})-[e:HAS_CHUNK]->(c) RETURN m, e, c.index AS place, $extra"
        " ORDER BY place",
        {"id": memory_id, "extra": [1, 2.5, "x", None, True, {"k": "nul\0"}]},
    )

    assert result.row_count == 2
    assert [row["place"] for row in result.rows] == [0, 1]
    assert result.rows[0]["m"].properties["text"] == "one\0"
    assert result.rows[0]["e"].relation == "HAS_CHUNK"
    assert result.rows[0]["$extra"] == [1, 2.5, "x", None, True, {"k": "nul\0"}]
    assert (await client.graph_query("MATCH (n:Nobody) RETURN n")).rows == []


@pytest.mark.parametrize("bad", ["", " x", "x ", "a\nb", "a\0b", "x" * 201])
async def test_an_id_no_index_could_tell_from_another_is_refused(client, bad):
    with pytest.raises(ValidationError, match="memory_id"):
        await client.store_memory(memory("text", memory_id=bad))
    with pytest.raises(ValidationError, match="entity_id"):
        await client.store_entities(
            [EntityData(entity_id=bad, name="n", type="T", confidence=1.0)], []
        )
    assert await client.get_memory(bad) is None
