"""The graph on a server many use at once, and on one that is cut off in the midst of it."""

from __future__ import annotations

import asyncio

import pytest

from builders import memory
from graph_builders import EVERYTHING, READER, day, entity, extracted, learn, read, stated
from zapomni_db.exceptions import SchemaError
from zapomni_db.falkordb import FalkorDBClient, graph, memories
from zapomni_db.falkordb.graph import DELETE_STATEMENTS
from zapomni_db.falkordb.graph_reads import _BY_NAME
from zapomni_db.falkordb.memories import END_EVIDENCE
from zapomni_db.graph_models import EdgeKey, EdgeQuery, EntityQuery, GraphScope
from zapomni_db.models import MemoryPatch

pytestmark = pytest.mark.anyio

PG, POSTGRES, SHOP = "TECHNOLOGY:pg", "TECHNOLOGY:postgresql", "TECHNOLOGY:shop"


async def shop(storage, text: str = "Shop uses PostgreSQL", **fields) -> str:
    facts = [("Shop", "USES", "PostgreSQL")]
    return await learn(storage, text, ["Shop", "PostgreSQL"], facts, **fields)


# --- Cut off ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["cut_requests", "cut_answers"])
async def test_every_change_of_the_graph_survives_a_cut_connection(
    proxy, falkordb_graph, pauses, where
):
    """Each is cut once, before the server sees it or after: it is done exactly once."""
    async with FalkorDBClient(unix_socket=str(proxy.path), graph_name=falkordb_graph) as client:
        memory_id = await client.store_memory(memory("Shop uses PostgreSQL"))

        async def cut(work):
            pauses.clear()
            setattr(proxy, where, 1)
            answer = await work
            assert pauses == [1]
            return answer

        facts = [("Shop", "USES", "PostgreSQL")]
        await cut(read(client, memory_id, ["Shop", "PostgreSQL"], facts))
        told = entity("PG")
        await cut(client.store_entities([told], [stated("so", told, "IS", told)]))
        await cut(client.store_entities([told], [stated("so", told, "IS", told)]))
        merge = await cut(client.merge_entities(PG, POSTGRES))
        assert (merge.source_id, merge.target_id) == (PG, POSTGRES)
        await client.merge_entities(SHOP, POSTGRES)
        undone = await cut(client.undo_merge(None))
        assert undone.source_id == SHOP
        changed = memory("Shop uses PG now")
        patch = MemoryPatch(text=changed.text, chunks=changed.chunks)
        assert await cut(client.update_memory(memory_id, patch))
        readings, merges = await client.get_readings([memory_id]), await client.export_merges()
        await cut(client.import_readings(readings))
        await cut(client.import_merges(merges))

        assert await client.get_readings([memory_id]) == readings
        assert await client.export_merges() == merges
        assert [merge.undone_at is None for merge in merges] == [True, False]
        assert len(await client.get_history(memory_id)) == 2
        assert len(await client.export_relationships(None, 9)) == 1
        assert await client.check_integrity() == {}


# --- At once ----------------------------------------------------------------------------


async def test_many_at_once_lose_nothing_and_leave_nothing_behind(falkordb_server, falkordb_graph):
    """Readers, changes, deletions and merges of the same entities meet on one server."""

    async def work(number: int) -> None:
        where = str(falkordb_server.socket)
        async with FalkorDBClient(unix_socket=where, graph_name=falkordb_graph) as client:
            kept = await shop(client, f"Shop uses PostgreSQL, says {number}")
            gone = await learn(client, f"Shop and Thing{number}", ["Shop", f"Thing{number}"])
            changed = memory(f"Shop and PG, says {number}")
            patch = MemoryPatch(text=changed.text, chunks=changed.chunks)
            await asyncio.gather(
                client.delete_memory(gone),
                client.update_memory(kept, patch),
                client.store_entities([entity(f"Told{number}")], []),
            )
            await read(client, kept, ["Shop", "PG"], [("Shop", "USES", "PG")])
            if number == 0:
                await client.merge_entities(SHOP, "TECHNOLOGY:told0")

    await asyncio.gather(*(work(number) for number in range(8)))

    where = str(falkordb_server.socket)
    async with FalkorDBClient(unix_socket=where, graph_name=falkordb_graph) as client:
        assert await client.check_integrity() == {}
        stats = await client.get_graph_stats(READER)
        assert (stats.entities, stats.mentions, stats.merges) == (9, 16, 1)
        (edge,) = await client.get_edges(["TECHNOLOGY:told0"], EdgeQuery())
        assert (edge.key, edge.support) == (EdgeKey("TECHNOLOGY:told0", PG, "USES"), 8)
        key = EdgeKey(SHOP, POSTGRES, "USES")
        assert stats.closed_relationships == 1
        assert await client.get_evidence([key], None, 9) == {key: []}


@pytest.mark.parametrize("what", ["deleted", "changed", "superseded", "merged"])
async def test_what_changes_between_looking_and_writing_is_seen(client, monkeypatch, what):
    older = await shop(client, occurred_at=day(2025, 1))
    memory_id = await client.store_memory(memory("PG serves Shop", occurred_at=day(2025, 2)))
    changed = memory("PG served Shop")
    meanwhile = {
        "deleted": lambda: client.delete_memory(memory_id),
        "changed": lambda: client.update_memory(
            memory_id, MemoryPatch(text=changed.text, chunks=changed.chunks)
        ),
        "superseded": lambda: client.store_memory(
            memory("newer", supersedes=memory_id, occurred_at=day(2025, 3))
        ),
        "merged": lambda: client.merge_entities(SHOP, POSTGRES),
    }[what]
    look, looks = graph.read_graph_state, []

    async def look_and_wait(session):
        looked = await look(session)
        looks.append(looked)
        if len(looks) == 1:
            with monkeypatch.context() as unwatched:
                unwatched.setattr(graph, "read_graph_state", look)
                await meanwhile()
        return looked

    monkeypatch.setattr(graph, "read_graph_state", look_and_wait)
    (chunk,) = await client.get_unread(READER, GraphScope(memory_ids=[memory_id]), None, 9)
    facts = [("PG", "SERVES", "Shop")]
    await client.store_extractions(READER, [extracted(chunk, ["PG", "Shop"], facts)])

    assert len(looks) == 2
    found = {e.name for e in await client.find_entities(EntityQuery())}
    if what in ("deleted", "changed", "superseded"):
        assert found == {"Shop", "PostgreSQL"}
    else:
        assert found == {"PG", "PostgreSQL"}
    then = await client.get_edges([PG], EdgeQuery(as_of=day(2025, 2, 15)))
    assert bool(then) is (what in ("superseded", "merged"))
    assert await client.check_integrity() == {}
    await client.delete_memory(older)
    assert await client.check_integrity() == {}


async def test_storing_memories_does_not_disturb_who_reads_them(client, monkeypatch):
    memory_id = await client.store_memory(memory("Shop"))
    look, looks = graph.read_graph_state, []

    async def look_and_wait(session):
        looks.append(await look(session))
        await client.store_memory(memory("another"))
        return looks[-1]

    monkeypatch.setattr(graph, "read_graph_state", look_and_wait)
    await read(client, memory_id, ["Shop"])

    assert len(looks) == 1
    assert await client.count_unread(READER, EVERYTHING) == 1


# --- The server itself ------------------------------------------------------------------


async def test_a_graph_of_an_earlier_schema_is_refused_and_left_alone(
    client, admin, falkordb_server, falkordb_graph
):
    admin.execute_command("GRAPH.QUERY", falkordb_graph, "MATCH (s:Store) SET s.schema = 1")
    other = FalkorDBClient(unix_socket=str(falkordb_server.socket), graph_name=falkordb_graph)
    with pytest.raises(SchemaError, match="Choose another name") as refused:
        await other.connect()
    assert refused.value.error_code == "SCHEMA_003"
    await other.close()


async def test_a_server_that_cuts_long_answers_shows_the_graph_whole(own_server, own_admin):
    """The official image cuts at 10,000 rows without a word; here it is at 2."""
    own_admin.execute_command("GRAPH.CONFIG", "SET", "RESULTSET_SIZE", 2)
    names = [f"Thing{number}" for number in range(6)]
    facts = [(one, "USES", other) for one in names for other in names[:2] if one != other]
    works = [(one, "WORKS_AT", names[0], {"exclusive": True}) for one in names[1:]]
    ids = [f"TECHNOLOGY:{name.lower()}" for name in names]
    async with FalkorDBClient(unix_socket=str(own_server.socket)) as client:
        memory_id = await learn(client, " ".join(names), names, [*facts, *works])
        for merged in ids[2:]:
            await client.merge_entities(merged, ids[1])
        assert (await client.get_entities(ids[1:]))[ids[5]].merged_ids == ids[2:]
        for _ in ids[2:]:
            await client.undo_merge(None)
        for tag in "abc":
            await client.update_memory(memory_id, MemoryPatch(tags=[tag]))

        assert len(await client.find_entities(EntityQuery())) == 6
        assert len(await client.find_entities(EntityQuery(text="thign"))) == 6
        assert len(await client.get_entities(ids)) == 6
        assert len(await client.get_names(["TECHNOLOGY"])) == 6
        assert len(await client.export_merges()) == 4
        assert len(await client.get_history(memory_id)) == 4
        edges = await client.get_edges(ids, EdgeQuery())
        assert len(edges) == 15
        evidence = await client.get_evidence([edge.key for edge in edges], None, 9)
        assert all(len(sentences) == 1 for sentences in evidence.values())
        assert (await client.get_graph_stats(READER)).relationships == 15
        again = await read(client, memory_id, names, [*facts, *works], reader="another")
        assert again == (0, 0, 0)
        await client.delete_memory(memory_id)
        assert (await client.get_stats())["total_entities"] == 0


@pytest.mark.parametrize(
    ("statement", "edge"),
    [
        ('CYPHER id="x" ' + memories._DELETE, "[v:RELATES]"),
        ('CYPHER older="x" ended=1 WITH $older AS older, $ended AS ended' + END_EVIDENCE
         + "RETURN 1", "[v:RELATES]"),
        ('CYPHER rows=[{chunk: "c", key: 1}] UNWIND $rows AS x' + DELETE_STATEMENTS + "RETURN 1",
         "[v:RELATES]"),
        ('CYPHER ids=["x"] ' + graph._STATEMENTS + " RETURN v", "[v:RELATES]"),
        ('CYPHER hash="x" now=1 types=[] ' + _BY_NAME + "RETURN e", "[m:MENTIONS]"),
    ],
    ids=["delete", "end", "replace", "look", "alias"],
)  # fmt: skip
async def test_sentences_and_other_names_are_found_by_an_index(
    client, admin, falkordb_graph, statement, edge
):
    """However many there are. The server falls back to all of them without a word."""
    plan = "\n".join(admin.execute_command("GRAPH.EXPLAIN", falkordb_graph, statement))
    assert f"Edge By Index Scan | {edge}" in plan
    assert "All Node Scan" not in plan
    assert "Label Scan | (@" not in plan
