"""What only the SQLite engine has: its migration, its checks, its locks."""

from __future__ import annotations

import sqlite3

import pytest

from builders import memory
from graph_builders import EVERYTHING, READER, extracted, learn
from zapomni_db.graph_models import EdgeQuery
from zapomni_db.models import MemoryPatch
from zapomni_db.sqlite import connection, migrations
from zapomni_db.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path):
    return tmp_path / "zapomni.db"


async def test_what_older_versions_stored_is_in_the_graph_after_the_migration(
    path, monkeypatch, anyio_backend
):
    monkeypatch.setattr(migrations, "LATEST_VERSION", 6)
    monkeypatch.setattr(connection, "LATEST_VERSION", 6)
    connection.prepare_file(path)
    with sqlite3.connect(path) as old:
        old.executemany(
            "INSERT INTO entities VALUES (?, ?, 'TECHNOLOGY', '', 0.9, 'rules')",
            [("a", "Shop"), ("b", "Redis")],
        )
        old.execute("INSERT INTO relationships VALUES ('a', 'b', 'USES', 0.7, 'Shop uses Redis')")
    old.close()
    monkeypatch.undo()

    async with SqliteStorage(path) as storage:
        (edge,) = await storage.get_edges(["a"], EdgeQuery())
        (evidence,) = (await storage.get_evidence([edge.key], None, 3))[edge.key]

        assert (edge.key, edge.strength, edge.support) == (("a", "b", "USES"), 0.7, 1)
        assert (evidence.text, evidence.valid_from) == ("Shop uses Redis", None)
        assert [e.name for e in await storage.list_entities(None, 9)] == ["Shop", "Redis"]
        assert await storage.check_integrity() == {}


async def test_the_check_finds_entities_and_relationships_nothing_supports(path, anyio_backend):
    async with SqliteStorage(path) as storage:
        await learn(storage, "Shop uses Redis", ["Shop", "Redis"], [("Shop", "USES", "Redis")])
        with sqlite3.connect(path) as broken:
            broken.execute(
                "INSERT INTO graph_entities (id, name, folded, type, description, confidence,"
                " source) VALUES ('x', 'x', 'x', 'x', '', 1, '')"
            )
            broken.execute("UPDATE graph_relationships SET support = 7")
        broken.close()

        problems = await storage.check_integrity()

    assert set(problems) == {
        "entities that nothing mentions",
        "relationships with the wrong support",
    }


async def test_a_circle_of_merges_leaves_everybody_himself(path, anyio_backend):
    async with SqliteStorage(path) as storage:
        first = await learn(storage, "Redis", ["Redis"])
        await learn(storage, "Valkey", ["Valkey"])
        redis, valkey = "TECHNOLOGY:redis", "TECHNOLOGY:valkey"
        await storage.merge_entities(redis, valkey)
        await storage.delete_memory(first)
        await learn(storage, "Kafka", ["Kafka"])
        await storage.merge_entities(valkey, "TECHNOLOGY:kafka")
        with sqlite3.connect(path) as broken:
            broken.execute(
                "INSERT INTO graph_merges (source_id, target_id, automatic, merged_at)"
                " VALUES ('TECHNOLOGY:kafka', ?, 0, 0)",
                (redis,),
            )
        broken.close()

        await learn(storage, "Redis again", ["Redis"])

        names = [e.name for e in await storage.list_entities(None, 9)]
        assert "Redis" in names


async def test_two_readers_of_one_passage_store_it_once(path, anyio_backend):
    async with SqliteStorage(path) as one, SqliteStorage(path) as other:
        await one.store_memory(memory("Shop uses Redis"))
        (chunk,) = await one.get_unread(READER, EVERYTHING, None, 9)
        found = extracted(chunk, ["Shop", "Redis"], [("Shop", "USES", "Redis")])

        first = await one.store_extractions(READER, [found])
        second = await other.store_extractions(READER, [found])

        assert (first, second) == ((2, 1, 2), (0, 0, 0))
        assert await one.check_integrity() == {}


async def test_deleting_everything_empties_every_table_of_the_graph(path, anyio_backend):
    async with SqliteStorage(path) as storage:
        facts = [("Shop", "USES", "Redis")]
        ids = [
            await learn(storage, f"Shop uses Redis {n}", ["Shop", "Redis"], facts) for n in range(3)
        ]
        newer = memory("Shop uses Redis 9", supersedes=ids[0])
        ids.append(await storage.store_memory(newer))
        changed = memory("Shop is closed")
        patch = MemoryPatch(text=changed.text, chunks=changed.chunks)
        await storage.update_memory(ids[1], patch)
        for memory_id in ids:
            await storage.delete_memory(memory_id)
    with sqlite3.connect(path) as db:
        left = {
            table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for (table,) in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND"
                " (name LIKE 'graph_%' OR name = 'memory_history')"
            ).fetchall()
        }
    db.close()
    assert set(left.values()) == {0}
    assert len(left) == 7
