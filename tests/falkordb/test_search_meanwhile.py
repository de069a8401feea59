"""The server has no snapshots: a search bears what others add and delete between its reads."""

from __future__ import annotations

import pytest

from builders import memory, vector
from zapomni_core.interfaces import SearchRequest
from zapomni_core.modules.memories import EmbeddingChain, MemoryRanker, Question
from zapomni_core.workflows.search_everything import Searcher
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.models import EmbeddingSpace, MemoryFilter, QueryEmbedding

pytestmark = pytest.mark.anyio


class DisturbedClient(FalkorDBClient):
    """The real client; after a search has counted, and before it reads texts, others write."""

    after_count = before_texts = None

    async def begin_search(self, phrases, limit):
        found = await super().begin_search(phrases, limit)
        after_count, self.after_count = self.after_count, None
        if after_count is not None:
            await after_count()
        return found

    async def get_hits(self, memory_ids, chunk_ids, **wanted):
        if self.before_texts is not None:
            await self.before_texts()
        return await super().get_hits(memory_ids, chunk_ids, **wanted)


@pytest.fixture
async def disturbed(anyio_backend, falkordb_server, falkordb_graph):
    where = {"unix_socket": str(falkordb_server.socket), "graph_name": falkordb_graph}
    async with DisturbedClient(**where) as opened:
        yield opened


async def search(storage, query):
    nothing = EmbeddingChain([], storage.get_embeddings, None)
    return await Searcher(storage, nothing).search(SearchRequest(query=query))


async def test_a_search_bears_adds_and_deletes_between_its_reads(disturbed, client):
    stored = await disturbed.store_memory(memory("the zebra of the first state"))

    async def add_many():
        await client.store_memories([memory(f"zebra number {n} came later") for n in range(8)])

    async def delete():
        assert await client.delete_memory(stored)

    disturbed.after_count, disturbed.before_texts = add_many, delete
    response = await search(disturbed, "zebra")

    assert response.count == len(response.results)
    assert stored not in {hit.memory_id for hit in response.results}


async def test_a_search_bears_that_the_model_changes_between_its_reads(disturbed, client):
    await disturbed.store_memory(memory("the zebra", vector(1.0)))
    smaller = EmbeddingSpace(model="another-model", dimension=2, sha256="11")

    async def switch():
        from zapomni_db.models import ChunkVector

        pending = await client.get_pending(smaller, 10)
        made = [ChunkVector(chunk_id=chunk.chunk_id, embedding=[1.0, 0.0]) for chunk in pending]
        await client.store_vectors(smaller, made)
        assert await client.activate_space(smaller) == 0

    disturbed.after_count = switch
    asked = QueryEmbedding(vector=vector(1.0))
    question = Question("zebra", ["zebra"], MemoryFilter(), 5, embedding=asked, total=1)
    _, question.matches = await disturbed.begin_search(question.phrases, question.common)
    ranked = await MemoryRanker(disturbed).rank(question)

    assert len(ranked) == 1
