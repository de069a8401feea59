"""How often a search asks its store: each call is a round trip to a server."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from project_shapes import git
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.modules.graph import BuildGraphRequest
from zapomni_db.models import MemoryFilter

pytestmark = pytest.mark.anyio

MOST_CALLS = 10
NOISE = [f"Chapter {n} of the handbook: who wrote the billing plan?" for n in range(200)]
FIRST = "The billing scheduler in zone kestrel-7 was written by Priya Nair last spring."
SECOND = "Priya Nair keeps the kestrel-7 notes in Lisbon."


class CountingStorage:
    """The real store, and a list of what it was asked."""

    def __init__(self, storage, calls: list[str]) -> None:
        self._storage = storage
        self._calls = calls

    @asynccontextmanager
    async def snapshot(self):
        async with self._storage.snapshot() as view:
            yield CountingStorage(view, self._calls)

    def __getattr__(self, name: str):
        method = getattr(self._storage, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def counted(*args, **kwargs):
            self._calls.append(name)
            return await method(*args, **kwargs)

        return counted


async def test_a_search_with_every_arm_asks_the_store_ten_times_at_most(engine):
    await engine.add_memories([AddMemoryRequest(text=text) for text in (*NOISE, FIRST, SECOND)])
    task_id = await engine.graph.build(BuildGraphRequest())
    await engine.tasks.run_task(task_id, lambda _: None)
    calls: list[str] = []
    storage = CountingStorage(engine.storage, calls)
    engine._searcher = replace(engine._searcher, storage=storage)

    found = await engine.search_memory(
        SearchRequest(query="Who wrote the billing scheduler?", explain=True)
    )

    assert found.results[0].text == FIRST
    assert {"rank_by_vector", "rank_by_words", "get_hop", "get_pool"} <= set(calls)
    assert calls.count("get_surroundings") == 2, "the hop found more"
    assert "find_hits" not in calls, "nothing says that it replaces anything"
    assert len(calls) <= MOST_CALLS, calls


async def test_turns_lead_nowhere(engine):
    talk = [
        AddMemoryRequest(text=text, parent="talk", position=n, metadata={"speaker": "Anna"})
        for n, text in enumerate(("Hello.", FIRST, "Good night.", SECOND, *NOISE[:20]))
    ]
    await engine.add_memories(talk)
    calls: list[str] = []
    storage = CountingStorage(engine.storage, calls)
    engine._searcher = replace(engine._searcher, storage=storage)

    found = await engine.search_memory(SearchRequest(query="Who wrote the billing scheduler?"))

    assert found.results[0].text == FIRST
    assert "get_hop" not in calls
    assert calls.count("get_surroundings") == 1


async def test_successors_and_other_projects_are_among_the_ten(engine, tmp_path):
    git(tmp_path, "init", "-q")
    replacing = "A new plan.\n\nReplaces chapter 500."
    await engine.add_memories([AddMemoryRequest(text=t) for t in (*NOISE[:150], FIRST, SECOND)])
    for text in (FIRST, replacing):
        await engine.add_memory(AddMemoryRequest(text=text, project="elsewhere"))
    await engine.search_memory(SearchRequest(query="notes", folder=str(tmp_path)))
    calls: list[str] = []
    engine._searcher = replace(engine._searcher, storage=CountingStorage(engine.storage, calls))

    found = await engine.search_memory(
        SearchRequest(query="Who wrote the billing scheduler?", folder=str(tmp_path))
    )

    assert (found.results[0].text, found.elsewhere) == (FIRST, 1)
    assert calls.count("find_hits") == 1
    assert calls.count("get_surroundings") == 2, "the hop found more"
    assert len(calls) <= MOST_CALLS, calls


async def test_a_store_that_was_empty_at_the_last_search_is_searched_by_meaning(engine):
    assert (await engine.search_memory(SearchRequest(query="billing"))).count == 0
    await engine.add_memory(AddMemoryRequest(text=FIRST))

    (found,) = (await engine.search_memory(SearchRequest(query="who made the invoices"))).results

    assert found.similarity_score > 0


async def test_an_answer_from_the_cache_asks_the_store_once(engine):
    await engine.add_memory(AddMemoryRequest(text=FIRST))
    request = SearchRequest(query="billing")
    first = await engine.search_memory(request)
    calls: list[str] = []
    engine._searcher = replace(engine._searcher, storage=CountingStorage(engine.storage, calls))

    assert await engine.search_memory(request) == first
    assert calls == ["get_state"]


async def test_what_is_read_at_once_is_what_single_reads_return(engine):
    texts = [*NOISE[:20], FIRST, SECOND]
    requests = [AddMemoryRequest(text=t, parent="talk", position=n) for n, t in enumerate(texts)]
    added = await engine.add_memories(requests)
    storage = engine.storage
    ids = list((await storage.find_matches(["handbook"], 100))["handbook"])[:8]
    vector = (await engine.memories.embeddings.embed_query("Lisbon")).vector
    filters = MemoryFilter()

    around = await storage.get_surroundings(
        ids, filters, vector, around=ids[:2], members=True, tokens=True
    )

    places = await storage.get_places(list(around.places), filters)
    near = {neighbor for i in ids[:2] for neighbor in places[i].neighbours}
    scored = {*places, *(neighbor for place in places.values() for neighbor in place.neighbours)}
    assert around.places == places
    assert set(places) == {*ids, *near}
    assert around.members == await storage.get_members(list(places))
    assert around.similarities == await storage.get_similarities(vector, sorted(scored))
    assert around.tokens == await storage.get_tokens(list(places))
    state = await storage.get_state()
    space, chunks = await storage.get_space(), await storage.count_chunks()
    assert state == (await storage.get_version(), space, chunks, None, False)
    memories = [one.memory_id for one in added[:3]]
    hits = await storage.get_summaries(memories), await storage.get_passages(ids), {}, {}, 0
    assert await storage.get_hits(memories, ids) == hits


async def test_what_a_caller_does_to_a_result_is_not_in_the_next_one(engine):
    await engine.add_memories([AddMemoryRequest(text=FIRST, metadata={"a": 1}, tags=["x"])])
    (found,) = (await engine.search_memory(SearchRequest(query="billing scheduler"))).results
    found.metadata["b"] = 2
    found.tags.append("y")

    (again,) = (await engine.search_memory(SearchRequest(query="Who wrote billing?"))).results

    assert (again.metadata, again.tags) == ({"a": 1}, ["x"])
