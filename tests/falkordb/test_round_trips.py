"""How often one search asks the server: on another machine each round trip costs milliseconds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from builders import memory, vector
from graph_builders import read
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.modules.memories import MemoryRanker, Question
from zapomni_core.settings import load_settings
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.models import (
    MemoryFilter,
    QueryEmbedding,
    TextSearchRequest,
    VectorSearchRequest,
)

pytestmark = pytest.mark.anyio

# Calls of the store, and commands: a call that needs places asks for the rest afterwards.
MOST_CALLS, MOST_COMMANDS = 10, 12


def count_commands(admin) -> int:
    """Return how many commands the server ran for clients, those of this function left out."""
    stats = admin.info("commandstats")
    return sum(row["calls"] for name, row in stats.items() if name != "cmdstat_info")


async def test_a_search_makes_twelve_round_trips_at_most(
    falkordb_server, falkordb_graph, admin, events
):
    """The engine as a user gets it: real model, graph, neighbors, a second hop that finds more.

    Several hits are numbered, and a passage says that it replaces one: successors are looked up.
    """
    storage = f"unix://{falkordb_server.socket}?graph={falkordb_graph}"
    texts = [f"Chapter {n} of the handbook: who wrote the billing plan?" for n in range(110)]
    texts.append("The billing scheduler in zone kestrel-7 was written by Priya Nair last spring.")
    texts.append("Priya Nair keeps the kestrel-7 notes in Lisbon.")
    requests = [AddMemoryRequest(text=t, parent="book", position=n) for n, t in enumerate(texts)]
    requests.insert(0, AddMemoryRequest(text="A new handbook.\n\nReplaces chapter 500."))
    async with await create_engine(load_settings(storage=storage)) as engine:
        for added in (await engine.add_memories(requests))[-2:]:
            await read(engine.storage, added.memory_id, ["Priya Nair"])
        await engine.search_memory(SearchRequest(query="what opens connections"))
        events.clear()
        before = count_commands(admin)

        found = await engine.search_memory(SearchRequest(query="Who wrote the billing scheduler?"))

        asked = count_commands(admin) - before
    # Citations are read from the local file.
    calls = [
        fields["operation"]
        for event, fields in events
        if event == "database_operation" and fields["engine"] == "falkordb"
    ]
    assert found.results[0].text == texts[-2]
    assert {"rank_by_words", "rank_by_vector", "get_pool", "get_hop", "get_hits"} <= set(calls)
    assert calls.count("find_hits") == 1
    assert calls.count("get_surroundings") == 2, "the hop found more"
    assert len(calls) <= MOST_CALLS, " ".join(calls)
    assert asked <= MOST_COMMANDS, " ".join(calls)


async def test_every_read_of_a_search_is_one_round_trip(client, admin):
    ids = []
    for number in range(3):
        made = memory(f"zebra {number} | next to it", vector(1.0, number), vector(0.5, number))
        ids.append(await client.store_memory(made))
    await client.get_space()
    now = datetime.now(UTC)
    words = TextSearchRequest(terms=["zebra"])
    asked = VectorSearchRequest(query_embedding=vector(1.0))
    chunks = list(await client.rank_by_words(words))
    for ask in (
        client.get_version,
        client.get_space,
        client.count_chunks,
        lambda: client.find_matches(["zebra", "next", "absent"], 1),
        lambda: client.rank_by_words(words),
        lambda: client.rank_by_vector(asked),
        lambda: client.get_similarities(vector(1.0), chunks),
        lambda: client.get_places(chunks, MemoryFilter()),
        lambda: client.get_members(chunks),
        lambda: client.get_passages(chunks),
        lambda: client.get_tokens(chunks),
        lambda: client.find_named(["zebra"], now),
        lambda: client.get_named(chunks, now),
        lambda: client.get_mentions(["x"], now, 3),
        lambda: client.get_summaries(ids),
        client.get_state,
        lambda: client.begin_search(["zebra", "next", "absent"], 1),
        lambda: client.get_pool(chunks, chunks, ["zebra"], now, chunks),
        lambda: client.get_hop(chunks, ["x"], now, 3),
        lambda: client.get_hits(ids, chunks, beginning=9, cosines=True, others=chunks),
        lambda: client.find_hits(words),
    ):
        before = count_commands(admin)
        await ask()
        assert count_commands(admin) - before == 1


async def test_a_read_of_nothing_does_not_ask_the_server(client, admin):
    await client.store_memory(memory("zebra", vector(1.0)))
    await client.get_space()
    before = count_commands(admin)

    assert await client.find_matches([], 1) == {}
    assert await client.get_similarities(vector(1.0), []) == {}
    assert await client.get_places([], MemoryFilter()) == {}
    assert await client.get_members([]) == {}
    assert await client.get_passages([]) == {}
    assert await client.get_tokens([]) == {}
    assert await client.find_named([], None) == []
    assert await client.get_named([], None) == {}
    assert await client.get_mentions([], None, 3) == {}
    assert await client.get_summaries([]) == {}
    assert await client.get_pool([], [], [], None) == ({}, {}, [], {})
    assert await client.get_hits([], []) == ({}, {}, {}, {}, 0)
    assert await client.find_hits(TextSearchRequest(terms=[])) == ({}, {})

    assert count_commands(admin) == before


async def test_words_and_vectors_are_asked_at_once(client):
    """Twenty of each, over ten connections: they do not disturb each other."""
    for number in range(5):
        await client.store_memory(memory(f"zebra {number}", vector(1.0, number)))
    words = TextSearchRequest(terms=["zebra"])
    near = VectorSearchRequest(query_embedding=vector(1.0))
    one = await client.rank_by_words(words), await client.rank_by_vector(near)

    many = await asyncio.gather(
        *(
            asyncio.gather(client.rank_by_words(words), client.rank_by_vector(near))
            for _ in "x" * 20
        )
    )

    assert all(tuple(both) == one for both in many)


class MeetingClient(FalkorDBClient):
    """The real client; neither arm of a search is answered before the other one was asked."""

    async def rank_by_words(self, request):
        return await self.meet("words", "vectors", super().rank_by_words(request))

    async def rank_by_vector(self, request):
        return await self.meet("vectors", "words", super().rank_by_vector(request))

    async def meet(self, own, other, answer):
        asked = self.__dict__.setdefault(
            "asked", {"words": asyncio.Event(), "vectors": asyncio.Event()}
        )
        asked[own].set()
        await asyncio.wait_for(asked[other].wait(), 180)
        return await answer


async def test_a_search_asks_for_words_and_vectors_concurrently(falkordb_server, falkordb_graph):
    where = {"unix_socket": str(falkordb_server.socket), "graph_name": falkordb_graph}
    async with MeetingClient(**where) as client:
        await client.store_memory(memory("zebra", vector(1.0)))
        asked = QueryEmbedding(vector=vector(1.0))
        question = Question("zebra", ["zebra"], MemoryFilter(), 5, embedding=asked, total=1)

        assert len(await MemoryRanker(client).rank(question)) == 1
