"""A search reads one state of the store, whatever other processes add and delete meanwhile."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from pathlib import Path

import pytest

from builders import SPACE, memory, vector
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.modules.memories import EmbeddingChain
from zapomni_core.settings import load_settings
from zapomni_core.workflows.search_everything import Searcher
from zapomni_db.models import VectorSearchRequest
from zapomni_db.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.anyio

SEARCHES = int(os.environ.get("SNAPSHOT_SEARCHES", "150"))


class DisturbedStorage(SqliteStorage):
    """The real store; between two statements of a search another connection changes the file."""

    def __init__(self, path: Path, other: SqliteStorage) -> None:
        super().__init__(path)
        self.other = other
        self.after_count = self.after_ranking = None

    async def begin_search(self, phrases, limit):
        found = await super().begin_search(phrases, limit)
        after_count, self.after_count = self.after_count, None
        if after_count is not None:
            await after_count(self.other)
        return found

    async def get_hits(self, memory_ids, chunk_ids, **wanted):
        if self.after_ranking is not None:
            await self.after_ranking(self.other)
        return await super().get_hits(memory_ids, chunk_ids, **wanted)


@pytest.fixture
async def disturbed(tmp_path, anyio_backend):
    path = tmp_path / "zapomni.db"
    async with SqliteStorage(path) as other, DisturbedStorage(path, other) as storage:
        yield storage


async def search(storage, query):
    nothing = EmbeddingChain([], storage.get_embeddings, None)
    return await Searcher(storage, nothing).search(SearchRequest(query=query))


async def test_what_is_added_between_two_statements_is_not_half_in_the_answer(disturbed):
    stored = await disturbed.store_memory(memory("the zebra of the first state"))

    async def add_many(other):
        await other.store_memories([memory(f"zebra number {n} came later") for n in range(8)])

    disturbed.after_count = add_many
    response = await search(disturbed, "zebra")

    assert [hit.memory_id for hit in response.results] == [stored]


async def test_what_is_deleted_between_two_statements_is_still_whole_in_the_answer(disturbed):
    stored = await disturbed.store_memory(memory("the zebra of the first state"))

    async def delete(other):
        assert await other.delete_memory(stored)

    disturbed.after_ranking = delete
    response = await search(disturbed, "zebra")
    disturbed.after_ranking = None

    assert [hit.text for hit in response.results] == ["the zebra of the first state"]
    assert response.total == response.count == 1
    assert (await search(disturbed, "zebra")).count == 0


async def test_the_vectors_of_a_snapshot_stay_when_another_search_has_read_newer_ones(tmp_path):
    near = VectorSearchRequest(query_embedding=vector(1.0), min_similarity=-1.0)
    async with SqliteStorage(tmp_path / "zapomni.db") as storage:
        first = await storage.store_memory(memory("first", vector(1.0)))
        async with storage.snapshot() as older:
            assert [hit.text for hit in await older.vector_search(near)] == ["first"]
            await storage.delete_memory(first)
            await storage.store_memory(memory("second", vector(1.0)))
            assert [hit.text for hit in await storage.vector_search(near)] == ["second"]
            assert [hit.text for hit in await older.vector_search(near)] == ["first"]
        assert [hit.text for hit in await storage.vector_search(near)] == ["second"]


async def test_a_vector_without_direction_is_near_nothing(tmp_path):
    async with SqliteStorage(tmp_path / "zapomni.db") as storage:
        await storage.store_memory(memory("sound", vector(1.0)))
        zeros = VectorSearchRequest.model_construct(
            query_embedding=[0.0] * SPACE.dimension, limit=5, min_similarity=-1.0,
            filters=VectorSearchRequest(query_embedding=vector(1.0)).filters,
        )  # fmt: skip

        assert await storage.vector_search(zeros) == []


async def test_a_search_given_up_in_the_middle_leaves_no_transaction_open(tmp_path):
    async with SqliteStorage(tmp_path / "zapomni.db") as storage:
        await storage.store_memory(memory("a note"))
        for _ in range(20):
            async with storage.snapshot() as reader:
                given_up = asyncio.ensure_future(reader.count_pending(None))
                await asyncio.sleep(0)
                given_up.cancel()
        await storage.store_memory(memory("another note"))
        async with storage.snapshot() as reader:
            assert await reader.count_chunks() == 2


def churn(home: str, started, stop, prefix: str) -> None:
    """Add and delete until it is time to stop."""

    async def work() -> None:
        async with await create_engine(load_settings({}, home=home, embedder="none")) as engine:
            round_ = 0
            while not stop.is_set():
                requests = [
                    AddMemoryRequest(text=f"zebra stripe {prefix} {round_} {n}") for n in range(6)
                ]
                for added in await engine.add_memories(requests):
                    await engine.delete_memory(added.memory_id)
                round_ += 1
                started.set()

    asyncio.run(work())


async def test_searches_do_not_fail_while_other_processes_add_and_delete(tmp_path):
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    home = tmp_path / "home"
    async with await create_engine(load_settings({}, home=home, embedder="none")) as engine:
        await engine.add_memory(AddMemoryRequest(text="the zebra that stays"))
        started = [context.Event() for _ in range(2)]
        writers = [
            context.Process(target=churn, args=(str(home), event, stop, f"writer{n}"))
            for n, event in enumerate(started)
        ]
        for writer in writers:
            writer.start()
        try:
            assert all([await asyncio.to_thread(event.wait, 120) for event in started])
            for _ in range(SEARCHES):
                response = await engine.search_memory(SearchRequest(query="zebra stripe", limit=50))
                assert "the zebra that stays" in {hit.text for hit in response.results}
                assert response.count == response.total
        finally:
            stop.set()
            for writer in writers:
                writer.join(900)
        assert [writer.exitcode for writer in writers] == [0, 0]
