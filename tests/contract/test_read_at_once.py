"""What a search reads at once is what single reads return."""

from __future__ import annotations

import pytest

from builders import memory, vector
from graph_builders import read
from zapomni_db.models import MemoryFilter, MemoryPatch, TextSearchRequest, VectorSearchRequest

pytestmark = pytest.mark.anyio


async def test_surroundings_are_what_single_reads_return(storage):
    for number in range(6):
        text = f"zebra {number} | stripe {number}"
        made = memory(text, vector(1.0, number), vector(0.5, number))
        changes = {"parent": "talk" if number < 4 else "", "position": number}
        changes["kind"] = "note" if number != 2 else "log"
        await storage.store_memory(made.model_copy(update=changes))
    ids = sorted((await storage.find_matches(["zebra"], 100))["zebra"])
    filters = MemoryFilter(not_kind="log")

    around = await storage.get_surroundings(
        ids, filters, vector(1.0), around=ids[:2], members=True, tokens=True
    )

    places = await storage.get_places(list(around.places), filters)
    selected = [place for place in places.values() if place.selected]
    near = {neighbor for i in ids[:2] for neighbor in places[i].neighbours}
    scored = {place.chunk_id for place in selected}
    scored |= {neighbor for place in selected for neighbor in place.neighbours}
    members = await storage.get_members([place.chunk_id for place in selected])
    assert around.places == places
    assert set(places) == {*ids, *near}
    assert 0 < len(selected) < len(places)
    assert {g: sorted(m) for g, m in around.members.items()} == {
        g: sorted(m) for g, m in members.items()
    }
    assert around.similarities == await storage.get_similarities(vector(1.0), sorted(scored))
    assert around.tokens == await storage.get_tokens([place.chunk_id for place in selected])
    alone = await storage.get_surroundings(ids, filters, None)
    assert (set(alone.places), alone[1:]) == (set(ids), ({}, {}, {}))


async def test_surroundings_follow_every_change(storage):
    def turn(number):
        made = memory(f"zebra {number}", vector(1.0, number))
        return made.model_copy(update={"parent": "talk", "position": number})

    async def followers():
        ids = sorted((await storage.find_matches(["zebra"], 100))["zebra"])
        around = await storage.get_surroundings(ids, MemoryFilter(), None, members=True)
        (members,) = around.members.values()
        assert around.places == await storage.get_places(ids, MemoryFilter())
        assert {place.group_size for place in around.places.values()} == {len(members)}
        at = {place.chunk_id: place.position for place in around.places.values()}
        return {place.position: at.get(place.after) for place in around.places.values()}

    await storage.store_memories([turn(0), turn(2)])
    assert await followers() == {0: 2, 2: None}
    middle = await storage.store_memory(turn(1))
    assert await followers() == {0: 1, 1: 2, 2: None}
    await storage.delete_memory(middle)
    assert await followers() == {0: 2, 2: None}


async def test_state_and_hits_are_what_single_reads_return(storage):
    ids = [await storage.store_memory(memory(f"zebra {n}", vector(1.0, n))) for n in range(3)]
    chunks = sorted((await storage.find_matches(["zebra"], 100))["zebra"])

    state = await storage.get_state()

    assert state.version == await storage.get_version()
    assert (state.space, state.chunks) == (await storage.get_space(), 3)
    hits = await storage.get_hits(ids, chunks[:2])
    assert hits.summaries == await storage.get_summaries(ids)
    assert hits.passages == await storage.get_passages(chunks[:2])
    assert hits[2:] == ({}, {}, 0)
    begun = state, await storage.find_matches(["zebra", "absent"], 2)
    assert await storage.begin_search(["zebra", "absent"], 2) == begun
    async with storage.snapshot() as view:
        assert (await view.get_state())[1:] == state[1:]


async def test_pool_and_hop_are_what_single_reads_return(storage):
    ids = [await storage.store_memory(memory(f"Redis {n}", vector(1.0, n))) for n in range(3)]
    for memory_id in ids[:2]:
        await read(storage, memory_id, ["Redis"])
    chunks = sorted((await storage.find_matches(["redis"], 100))["redis"])
    (entity,) = named = await storage.find_named(["redis", "absent"], None)

    pool = await storage.get_pool(chunks, chunks, ["redis", "absent"], None, chunks[:2])
    passages, mentions = await storage.get_hop(chunks[1:], [entity, "absent"], None, 1)

    assert pool == (
        await storage.get_tokens(chunks),
        await storage.get_named(chunks, None),
        named,
        await storage.get_passages(chunks[:2]),
    )
    assert len(pool[1]) == 2
    assert passages == await storage.get_passages(chunks[1:])
    assert mentions == await storage.get_mentions([entity, "absent"], None, 1)
    assert (len(mentions[entity]), mentions["absent"]) == (1, [])
    assert await storage.get_hop(chunks, [], None, 1) == (await storage.get_passages(chunks), {})


async def test_hits_are_read_again_after_their_memory_was_changed(storage):
    memory_id = await storage.store_memory(memory("zebra", vector(1.0)))
    chunks = list((await storage.find_matches(["zebra"], 100))["zebra"])
    before = (await storage.get_hits([memory_id], chunks)).summaries[memory_id]

    await storage.update_memory(memory_id, MemoryPatch(metadata={"seen": 1}, tags=["striped"]))

    after = (await storage.get_hits([memory_id], chunks)).summaries[memory_id]
    assert (before.metadata, before.tags) == ({}, [])
    assert (after.metadata, after.tags) == ({"seen": 1}, ["striped"])
    await storage.delete_memory(memory_id)
    assert (await storage.get_hits([memory_id], chunks))[:2] == ({}, {})


async def test_cosines_are_those_of_the_vectors_as_they_are_now(storage):
    first = await storage.store_memory(memory("zebra one", vector(1.0)))
    await storage.store_memory(memory("zebra two", vector(1.0, 1)))
    request = VectorSearchRequest(query_embedding=vector(1.0), limit=5)
    before = (await storage.rank_by_vector(request)).scores

    await storage.delete_memory(first)
    await storage.store_memory(memory("zebra three", vector(1.0)))

    (two,) = (await storage.find_matches(["two"], 9))["two"]
    (three,) = (await storage.find_matches(["three"], 9))["three"]
    cosines = await storage.get_similarities(vector(1.0), [two, three])
    assert cosines == pytest.approx({two: before[two], three: 1.0})


async def test_a_store_whose_passages_name_no_entity_says_so_if_it_knows(storage):
    memory_id = await storage.store_memory(memory("Redis is fast", vector(1.0)))
    knows = type(storage).__name__ == "SqliteStorage"
    assert (await storage.get_state()).has_graph is not knows

    await read(storage, memory_id, ["Redis"])

    assert (await storage.get_state()).has_graph


async def test_what_compares_hits_is_read_with_them(storage):
    made = [
        memory("zebra one", vector(1.0, 0.0)),
        memory("zebra two", vector(1.0, 1.0)),
        memory("zebra talk", vector(1.0, 0.0), parent="talk"),
        memory("zebra long | and more", vector(0.0, 1.0), vector(1.0, 0.0)),
        memory("zebra away", vector(1.0, 0.0), project="away"),
    ]
    ids = [await storage.store_memory(one) for one in made]
    chunks = sorted((await storage.find_matches(["zebra"], 100))["zebra"])
    passages = await storage.get_passages(chunks)
    own = {passages[chunk_id].memory_id: chunk_id for chunk_id in chunks}
    one, two, talk, long, away = (own[memory_id] for memory_id in ids)

    hits = await storage.get_hits(
        ids[:4],
        [one, two, talk, long],
        beginning=5,
        cosines=True,
        others=chunks,
        filters=MemoryFilter(not_projects=[""]),
    )

    assert hits.beginnings == await storage.get_beginnings([ids[3]], 5)
    assert hits.cosines == {
        frozenset((one, two)): pytest.approx(0.7071, abs=1e-4),
        frozenset((one, long)): pytest.approx(0.0, abs=1e-4),
        frozenset((two, long)): pytest.approx(0.7071, abs=1e-4),
    }
    assert hits.elsewhere == 1
    assert (await storage.get_hits([], [], others=[away, one, long])).elsewhere == 3


async def test_hits_are_found_with_their_memories_best_first(storage):
    for text in ("zebra and many other words", "zebra zebra", "nothing", "zebra of another kind"):
        await storage.store_memory(memory(text, vector(1.0)))
    request = TextSearchRequest(terms=["zebra", "of another"], limit=2)
    ranked = await storage.rank_by_words(request)

    summaries, passages = await storage.find_hits(request)

    assert list(passages) == list(ranked)
    assert passages == await storage.get_passages(list(ranked))
    assert summaries == await storage.get_summaries([p.memory_id for p in passages.values()])
    assert await storage.find_hits(TextSearchRequest(terms=["absent"])) == ({}, {})
    assert await storage.find_hits(TextSearchRequest(terms=[])) == ({}, {})
