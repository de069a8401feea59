"""The ten edge cases of the specification of add_memory.

Those that are refused before the database is asked are given to a client whose server does not
exist: had it been asked, another error would have come.
"""

from __future__ import annotations

import pytest

from builders import specified
from zapomni_db.exceptions import (
    DatabaseConnectionError,
    DatabaseError,
    TransactionError,
    ValidationError,
)
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.models import Chunk, Memory, TextSearchRequest

pytestmark = pytest.mark.anyio


@pytest.fixture
def nowhere(tmp_path) -> FalkorDBClient:
    return FalkorDBClient(unix_socket=str(tmp_path / "nobody-listens"), max_retries=0)


async def test_add_memory_empty_text(nowhere):
    memory = specified("dummy").model_copy(update={"text": " \n"})

    with pytest.raises(ValidationError, match="text cannot be empty"):
        await nowhere.add_memory(memory)


async def test_add_memory_text_too_long(nowhere):
    with pytest.raises(ValidationError, match=r"exceeds max length \(1,000,000\)"):
        await nowhere.add_memory(specified("x" * 1_000_001))


async def test_add_memory_count_mismatch(nowhere):
    memory = specified(chunks=2).model_copy(update={"embeddings": [[0.1] * 768] * 3})

    with pytest.raises(ValidationError, match=r"count mismatch \(2 chunks, 3 embeddings\)"):
        await nowhere.add_memory(memory)


@pytest.mark.parametrize("dimension", [0, 1, 512, 767, 769, 1536])
async def test_add_memory_wrong_embedding_dimension(nowhere, dimension):
    memory = specified(chunks=2).model_copy(update={"embeddings": [[0.1] * 768, [0.1] * dimension]})

    with pytest.raises(
        ValidationError, match=f"embedding 1 dimension must be 768, got {dimension}$"
    ):
        await nowhere.add_memory(memory)


async def test_add_memory_too_many_chunks(nowhere):
    with pytest.raises(ValidationError, match=r"too many chunks \(max 100\)"):
        await nowhere.add_memory(specified(chunks=101))


async def test_add_memory_empty_chunks(nowhere):
    with pytest.raises(ValidationError, match="chunks list cannot be empty"):
        await nowhere.add_memory(Memory(text="Test text", chunks=[], embeddings=[]))


@pytest.mark.parametrize("value", [b"bytes", object(), {1, 2}, 1j, print])
async def test_add_memory_non_serializable_metadata(nowhere, value):
    with pytest.raises(ValidationError, match="metadata not JSON-serializable: ") as refused:
        await nowhere.add_memory(specified(metadata={"a": [value]}))

    assert refused.value.error_code == "VAL_002"


async def test_add_memory_connection_lost(proxy, falkordb_graph, pauses, count_memories):
    """The server writes, the answer is lost: what is tried again is not stored again."""
    async with FalkorDBClient(unix_socket=str(proxy.path), graph_name=falkordb_graph) as client:
        await client.add_memory(specified("before"))
        proxy.writes, proxy.cut_answers = 0, 2

        memory_id = await client.add_memory(specified("once", chunks=3))

        assert (await client.get_memory(memory_id)).chunk_count == 3
        assert await client.check_integrity() == {}
    assert pauses == [1]
    assert count_memories() == 2 + 4
    assert proxy.writes == 1


async def test_add_memory_commit_fails(client, admin, falkordb_graph, count_memories):
    """A constraint is violated at the end: all is rolled back, and the client stays usable."""
    admin.execute_command("GRAPH.QUERY", falkordb_graph, "CREATE INDEX FOR (c:Chunk) ON (c.size)")
    admin.execute_command(
        "GRAPH.CONSTRAINT", "CREATE", falkordb_graph, "UNIQUE", "NODE", "Chunk",
        "PROPERTIES", 1, "size",
    )  # fmt: skip
    pending = "CALL db.constraints() YIELD status WHERE status <> 'OPERATIONAL' RETURN count(*)"
    while (await client.graph_query(pending)).rows != [{"count(*)": 0}]:
        pass
    chunks = [Chunk(text=text, index=i) for i, text in enumerate(["one", "two words", "odd"])]

    with pytest.raises(TransactionError, match="commit failed: ") as failed:
        await client.add_memory(specified(chunks=3).model_copy(update={"chunks": chunks}))

    assert failed.value.message.startswith("Transaction error during add_memory: ")
    assert isinstance(failed.value, DatabaseError)
    assert not failed.value.is_transient
    assert count_memories() == 0
    await client.add_memory(specified("afterwards"))
    hits = await client.bm25_search(TextSearchRequest(terms=["afterwards"]))
    assert [hit.text for hit in hits] == ["afterwards"]


async def test_add_memory_metadata_too_large(nowhere):
    room = 100_000 - len('{"data": ""}')

    with pytest.raises(ValidationError, match=r"metadata exceeds max size \(100 KB\)"):
        await nowhere.add_memory(specified(metadata={"data": "x" * (room + 1)}))
    with pytest.raises(DatabaseConnectionError):  # as large as it may be: the server is asked
        await nowhere.add_memory(specified(metadata={"data": "x" * room}))
