"""The eleven conditions under which the specification refuses a memory, and what is just allowed.

The server of this client does not exist: whatever is refused is refused without it.
"""

from __future__ import annotations

import math

import pytest

from builders import memory, specified
from zapomni_db.exceptions import DatabaseConnectionError, ValidationError
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.falkordb.schema import HnswOptions
from zapomni_db.models import Chunk, Memory, MemoryPatch

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret-value"


def nested(levels: int, kind: type = dict):
    value: object = SECRET
    for _ in range(levels):
        value = {"k": value} if kind is dict else [value]
    return {"k": value}


def changed(base: Memory | None = None, **fields) -> Memory:
    return (base or specified(SECRET)).model_copy(update=fields)


def circle() -> dict:
    going_round: dict = {}
    going_round["again"] = going_round
    return going_round


CONDITIONS = {
    "1_empty_text": [
        (changed(text=""), "text cannot be empty", "VAL_001"),
        (changed(text=" \t\n\u3000"), "text cannot be empty", "VAL_001"),
    ],
    "2_text_too_long": [
        (changed(text=SECRET + "x" * 1_000_000), "text exceeds max length (1,000,000)", "VAL_003"),
    ],
    "3_empty_chunks": [
        (changed(chunks=[]), "chunks list cannot be empty", "VAL_001"),
        (changed(chunks=[], embeddings=[]), "chunks list cannot be empty", "VAL_001"),
    ],
    "4_too_many_chunks": [
        (specified(SECRET, chunks=101), "too many chunks (max 100)", "VAL_003"),
    ],
    "5_chunks_embeddings_mismatch": [
        (
            changed(embeddings=[[0.1] * 768] * 2),
            "chunks and embeddings count mismatch (1 chunks, 2 embeddings)",
            "VAL_003",
        ),
        (changed(embeddings=[]), "embeddings list cannot be empty", "VAL_001"),
    ],
    "6_wrong_embedding_dimension": [
        (changed(embeddings=[[]]), "embedding 0 dimension must be 768, got 0", "VAL_003"),
        (
            changed(embeddings=[[0.1] * 384]),
            "embedding 0 dimension must be 768, got 384",
            "VAL_003",
        ),
        (
            changed(embeddings=[[SECRET] + [0.1] * 767]),
            "embedding 0 contains non-numeric values",
            "VAL_002",
        ),
        (
            changed(embeddings=[[math.nan] + [0.1] * 767]),
            "embedding 0 contains values that are not finite",
            "VAL_003",
        ),
        (
            changed(embeddings=[[-math.inf] + [0.1] * 767]),
            "embedding 0 contains values that are not finite",
            "VAL_003",
        ),
    ],
    "7_invalid_chunk_index": [
        (
            changed(chunks=[Chunk(text=SECRET, index=1)]),
            "chunk index mismatch: expected 0, got 1",
            "VAL_003",
        ),
        (
            changed(
                specified(chunks=2),
                chunks=[Chunk(text="a", index=0), Chunk(text="b", index=0)],
            ),
            "chunk index mismatch: expected 1, got 0",
            "VAL_003",
        ),
    ],
    "8_empty_chunk_text": [
        (changed(chunks=[Chunk(text=" ", index=0)]), "chunk 0 text cannot be empty", "VAL_001"),
    ],
    "9_non_serializable_metadata": [
        (
            changed(metadata={SECRET: b"x"}),
            "metadata not JSON-serializable: Object of type bytes is not JSON serializable",
            "VAL_002",
        ),
    ],
    "10_metadata_too_large": [
        (changed(metadata={"k": SECRET * 6000}), "metadata exceeds max size (100 KB)", "VAL_003"),
    ],
    "11_metadata_too_deep": [
        (changed(metadata=nested(11)), "metadata nesting exceeds max depth (10)", "VAL_003"),
        (changed(metadata=nested(11, list)), "metadata nesting exceeds max depth (10)", "VAL_003"),
        (changed(metadata=nested(5000)), "metadata nesting exceeds max depth (10)", "VAL_003"),
        (changed(metadata=circle()), "metadata nesting exceeds max depth (10)", "VAL_003"),
    ],
}


@pytest.fixture
def nowhere(tmp_path) -> FalkorDBClient:
    return FalkorDBClient(unix_socket=str(tmp_path / "nobody-listens"), max_retries=0)


def test_there_are_eleven_conditions():
    assert [int(name.split("_")[0]) for name in CONDITIONS] == list(range(1, 12))


@pytest.mark.parametrize(
    ("given", "reason", "code"),
    [
        pytest.param(*case, id=f"{name}_{number}")
        for name, cases in CONDITIONS.items()
        for number, case in enumerate(cases)
    ],
)
async def test_a_memory_is_refused_before_the_database_is_asked(nowhere, given, reason, code):
    with pytest.raises(ValidationError) as refused:
        await nowhere.add_memory(given)
    with pytest.raises(ValidationError) as refused_in_batch:
        await nowhere.add_memories_batch([specified(), given])

    assert refused.value.message == f"Validation failed for memory: {reason}"
    assert refused.value.error_code == code
    assert not refused.value.is_transient
    assert SECRET not in str(refused.value.to_dict())
    assert refused_in_batch.value.message == refused.value.message


@pytest.mark.parametrize(
    "given",
    [
        specified("x"),
        specified("x" * 1_000_000),
        specified(chunks=100),
        changed(embeddings=[[1] * 768]),
        changed(embeddings=[[0.0] * 768]),
        changed(metadata=nested(9)),
        changed(metadata={}),
    ],
    ids=["short", "longest", "most_chunks", "whole_numbers", "zeros", "deepest", "no_metadata"],
)
async def test_what_is_just_allowed_reaches_the_database(nowhere, given):
    with pytest.raises(DatabaseConnectionError):
        await nowhere.add_memory(given)


async def test_a_text_with_half_a_character_is_refused(client):
    with pytest.raises(ValidationError, match="not valid UTF-8"):
        await client.add_memory(specified("half \ud800"))


@pytest.mark.parametrize(
    "options",
    [
        {"graph_name": ""},
        {"graph_name": "  "},
        {"graph_name": "nul\0inside"},
        {"graph_name": "line\nbreak"},
        {"graph_name": "turned\u202earound"},
        {"graph_name": "x" * 201},
        {"pool_size": 0},
        {"max_retries": -1},
        {"timeout": 0},
        {"timeout": math.nan},
        {"dimension": 0},
    ],
    ids=str,
)
def test_a_client_that_cannot_work_is_refused(options):
    with pytest.raises(ValidationError, match=next(iter(options))):
        FalkorDBClient(**options)


@pytest.mark.parametrize("options", [{"m": 1}, {"ef_construction": 0}, {"ef_runtime": 5000}])
def test_an_index_that_cannot_work_is_refused(options):
    with pytest.raises(ValidationError, match=next(iter(options))):
        HnswOptions(**options)


async def test_changes_may_be_given_as_a_mapping(client):
    memory_id = await client.add_memory(specified())

    assert await client.update_memory(memory_id, {"source": "docs", "tags": ["b", "a"]})

    kept = await client.get_memory(memory_id)
    assert (kept.source, kept.tags) == ("docs", ["a", "b"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"embedding": [1.0]}, "can be changed"), ({"pinned": SECRET}, "wrong type: pinned")],
)
async def test_changes_that_cannot_be_are_refused(nowhere, changes, message):
    with pytest.raises(ValidationError, match=message) as refused:
        await nowhere.update_memory("any", changes)

    assert SECRET not in refused.value.message


async def test_a_memory_to_be_stored_needs_its_chunks(client):
    with pytest.raises(ValidationError, match="chunks list cannot be empty"):
        await client.store_memory(memory("text").model_copy(update={"chunks": []}))


async def test_a_new_text_needs_its_chunks(client):
    memory_id = await client.add_memory(specified())

    with pytest.raises(ValidationError, match="needs its chunks"):
        await client.update_memory(memory_id, MemoryPatch(text="new"))
