"""The twenty scenarios of the specification of add_memory, against a real server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid

import pytest

from builders import specified
from zapomni_db.exceptions import (
    DatabaseConnectionError,
    DatabaseError,
    TransactionError,
    ValidationError,
)
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.models import Chunk, Memory

pytestmark = pytest.mark.anyio


# --- happy path -------------------------------------------------------------------------


async def test_add_memory_success_minimal(client):
    memory = specified("Python is a programming language")

    memory_id = await client.add_memory(memory)

    assert len(memory_id) == 36
    assert str(uuid.UUID(memory_id)) == memory_id
    result = await client.graph_query(
        "MATCH (m:Memory {id: $id}) RETURN m.text, m.metadata, m.created_at", {"id": memory_id}
    )
    assert result.row_count == 1
    assert result.rows[0]["m.text"] == memory.text
    assert result.rows[0]["m.metadata"] == "{}"
    assert abs(result.rows[0]["m.created_at"] / 1e6 - time.time()) < 60
    result = await client.graph_query(
        "MATCH (m:Memory {id: $id})-[e:HAS_CHUNK]->(c:Chunk)"
        " RETURN c.text, c.index, e.index, c.embedding",
        {"id": memory_id},
    )
    (row,) = result.rows
    assert (row["c.text"], row["c.index"], row["e.index"]) == (memory.text, 0, 0)
    assert row["c.embedding"] == pytest.approx(memory.embeddings[0])


async def test_add_memory_success_multiple_chunks(client):
    memory = Memory(
        text="Python is great for AI",
        chunks=[Chunk(text="Python is great", index=0), Chunk(text="great for AI", index=1)],
        embeddings=[[0.1] * 768, [0.2] * 768],
        metadata={"source": "user"},
    )

    memory_id = await client.add_memory(memory)

    result = await client.graph_query(
        "MATCH (m:Memory {id: $id})-[:HAS_CHUNK]->(c:Chunk) RETURN count(c)", {"id": memory_id}
    )
    assert result.rows[0]["count(c)"] == 2
    result = await client.graph_query(
        "MATCH (m:Memory {id: $id})-[:HAS_CHUNK]->(c:Chunk) RETURN c.index ORDER BY c.index",
        {"id": memory_id},
    )
    assert result.rows == [{"c.index": 0}, {"c.index": 1}]


async def test_add_memory_success_with_rich_metadata(client):
    metadata = {
        "source": "documentation",
        "tags": ["python", "ai", "programming"],
        "timestamp": "2025-11-23T10:00:00Z",
        "url": "https://example.com/docs",
        "author": "John Doe",
        "version": 1.0,
        "nested": {"key1": "value1", "key2": [1, 2, 3]},
    }

    memory_id = await client.add_memory(specified(metadata=metadata))

    result = await client.graph_query(
        "MATCH (m:Memory {id: $id}) RETURN m.metadata", {"id": memory_id}
    )
    assert json.loads(result.rows[0]["m.metadata"]) == metadata
    assert (await client.get_memory(memory_id)).metadata == metadata


async def test_add_memory_success_max_chunks(client):
    memory = Memory(
        text="Long document",
        chunks=[Chunk(text=f"chunk {i}", index=i) for i in range(100)],
        embeddings=[[float(i) / 100] * 768 for i in range(100)],
    )

    memory_id = await client.add_memory(memory)

    result = await client.graph_query(
        "MATCH (m:Memory {id: $id})-[:HAS_CHUNK]->(c) RETURN count(c)", {"id": memory_id}
    )
    assert result.rows[0]["count(c)"] == 100
    # The first embedding is all zeros: it is not put where it would poison searches.
    assert await client.count_pending(None) == 1
    assert await client.check_integrity() == {}


# --- validation -------------------------------------------------------------------------


async def refuse(client: FalkorDBClient, memory: Memory, message: str) -> None:
    """See the memory refused, with this message, and nothing changed."""
    before = await client.get_version()

    with pytest.raises(ValidationError) as refused:
        await client.add_memory(memory)

    assert refused.value.message == f"Validation failed for memory: {message}"
    assert not refused.value.is_transient
    assert await client.get_version() == before
    assert (await client.get_stats())["total_memories"] == 0


async def test_add_memory_empty_text_raises(client):
    for text in ("", "   ", "\n\t"):
        memory = specified("dummy").model_copy(update={"text": text})
        await refuse(client, memory, "text cannot be empty")


async def test_add_memory_text_too_long_raises(client):
    await refuse(client, specified("x" * 1_000_001), "text exceeds max length (1,000,000)")


async def test_add_memory_chunks_embeddings_mismatch_raises(client):
    memory = specified(chunks=3).model_copy(update={"embeddings": [[0.1] * 768, [0.2] * 768]})

    await refuse(client, memory, "chunks and embeddings count mismatch (3 chunks, 2 embeddings)")


async def test_add_memory_wrong_embedding_dimension_raises(client):
    memory = specified().model_copy(update={"embeddings": [[0.1] * 512]})

    await refuse(client, memory, "embedding 0 dimension must be 768, got 512")


async def test_add_memory_too_many_chunks_raises(client):
    await refuse(client, specified(chunks=101), "too many chunks (max 100)")


async def test_add_memory_empty_chunks_raises(client):
    await refuse(client, specified(chunks=0), "chunks list cannot be empty")


async def test_add_memory_non_serializable_metadata_raises(client):
    await refuse(
        client,
        specified(metadata={"binary": b"bytes data"}),
        "metadata not JSON-serializable: Object of type bytes is not JSON serializable",
    )


async def test_add_memory_metadata_too_large_raises(client):
    await refuse(
        client, specified(metadata={"data": "x" * 200_000}), "metadata exceeds max size (100 KB)"
    )


async def test_add_memory_invalid_chunk_index_raises(client):
    chunks = [Chunk(text="A", index=0), Chunk(text="B", index=2)]
    memory = specified(chunks=2).model_copy(update={"chunks": chunks})

    await refuse(client, memory, "chunk index mismatch: expected 1, got 2")


# --- the database fails -----------------------------------------------------------------


async def test_add_memory_connection_lost_retries_and_succeeds(
    proxy, falkordb_graph, pauses, count_memories
):
    async with FalkorDBClient(unix_socket=str(proxy.path), graph_name=falkordb_graph) as client:
        await client.add_memory(specified("first"))
        proxy.writes, proxy.cut_requests = 0, 2

        memory_id = await client.add_memory(specified("second"))

        assert (await client.get_memory(memory_id)).text == "second"
    assert proxy.writes == 3
    assert pauses == [1, 2]
    assert count_memories() == 4


async def test_add_memory_connection_lost_retries_exhausted_raises(own_server, pauses):
    async with FalkorDBClient(unix_socket=str(own_server.socket), max_retries=3) as client:
        await client.add_memory(specified())
        os.kill(own_server.pid, signal.SIGKILL)

        with pytest.raises(DatabaseError) as lost:
            await client.add_memory(specified())

    assert lost.value.message.startswith(
        "Database error during add_memory: connection failed after 3 retries: "
    )
    assert lost.value.is_transient
    assert isinstance(lost.value, DatabaseConnectionError)
    assert pauses == [1, 2, 4]


async def test_add_memory_transaction_commit_fails_raises(
    client, admin, falkordb_graph, count_memories
):
    forbid_twice(admin, falkordb_graph, "Memory", "length")
    await client.add_memory(specified("ten chars."))

    with pytest.raises(TransactionError) as failed:
        await client.add_memory(specified("ten others"))

    assert failed.value.message.startswith("Transaction error during add_memory: commit failed: ")
    assert count_memories() == 2
    assert await client.check_integrity() == {}


async def test_add_memory_rollback_on_error(client, admin, falkordb_graph, count_memories):
    forbid_twice(admin, falkordb_graph, "Chunk", "text")
    await client.add_memory(specified("taken"))
    chunks = [Chunk(text=text, index=i) for i, text in enumerate(["new", "newer", "taken"])]
    memory = specified(chunks=3).model_copy(update={"chunks": chunks})
    before = await client.get_stats()

    with pytest.raises(DatabaseError):
        await client.add_memory(memory)

    assert await client.get_stats() == before
    assert count_memories() == 2
    assert await client.check_integrity() == {}


def forbid_twice(admin, graph: str, label: str, name: str) -> None:
    """Let a commit fail for real: no two nodes may have the same."""
    admin.execute_command("GRAPH.QUERY", graph, f"CREATE INDEX FOR (n:{label}) ON (n.{name})")
    admin.execute_command(
        "GRAPH.CONSTRAINT", "CREATE", graph, "UNIQUE", "NODE", label, "PROPERTIES", 1, name
    )
    deadline = time.monotonic() + 180
    pending = "CALL db.constraints() YIELD status WHERE status <> 'OPERATIONAL' RETURN count(*)"
    while admin.execute_command("GRAPH.RO_QUERY", graph, pending)[1] != [[0]]:
        assert time.monotonic() < deadline, "the constraint never came into force"


# --- performance ------------------------------------------------------------------------


async def is_within(client: FalkorDBClient, chunks: int, milliseconds: float) -> bool:
    """Say whether one of forty is as fast: a busy machine is not what is measured."""
    for number in range(40):
        memory = specified(f"Performance test {number}", chunks=chunks)
        started = time.perf_counter()
        await client.add_memory(memory)
        if (time.perf_counter() - started) * 1000 < milliseconds:
            return True
    return False


async def test_add_memory_performance_within_sla(client):
    assert await is_within(client, 5, 500)


async def test_add_memory_large_input_performance(client):
    assert await is_within(client, 100, 2000)


async def test_add_memory_concurrent_operations(client):
    async def add_one(i: int) -> str:
        return await client.add_memory(specified(f"Concurrent memory {i}", value=float(i) / 10))

    memory_ids = await asyncio.gather(*[add_one(i) for i in range(10)])

    assert len(set(memory_ids)) == 10
    assert (await client.get_stats())["total_memories"] == 10
    assert await client.check_integrity() == {}
