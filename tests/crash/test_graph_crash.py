"""A process that reads memories into the graph is killed for real, again and again."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import time
from asyncio import to_thread
from contextlib import closing

import pytest
from graph_readers import read_everything

from benchmarks.graph import memory_of, note
from zapomni_core.settings import load_settings
from zapomni_db.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.anyio

MEMORIES = 400
KILLS = 6

# All that is derived, by what it is and not by the keys it happens to have.
STATE = """
SELECT 'entity', id, name, type, '' FROM graph_entities
UNION ALL SELECT 'mention', c.text, m.start_char, m.end_char, e.id FROM graph_mentions m
    JOIN chunks c ON c.id = m.chunk_id JOIN graph_entities e ON e.key = m.entity_key
UNION ALL SELECT 'edge', s.id, t.id, r.type, r.support || ' ' || r.weight
    FROM graph_relationships r JOIN graph_entities s ON s.key = r.source_key
    JOIN graph_entities t ON t.key = r.target_key
UNION ALL SELECT 'merge', source_id, target_id, '', '' FROM graph_merges
ORDER BY 1, 2, 3, 4, 5
"""


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["graph_readers"])
    return context


def rows(home, sql):
    with closing(sqlite3.connect(home / "zapomni.db", timeout=180)) as connection:
        return connection.execute(sql).fetchall()


def read_count(home) -> int:
    return rows(home, "SELECT count(*) FROM graph_extractions")[0][0]


def kill_in_the_middle(processes, home, wanted: int) -> None:
    reader = processes.Process(target=read_everything, args=(str(home),))
    reader.start()
    deadline = time.monotonic() + 120
    while read_count(home) < wanted and reader.is_alive():
        assert time.monotonic() < deadline, "the reader never came so far"
        time.sleep(0.001)
    os.kill(reader.pid, signal.SIGKILL)
    reader.join()


async def test_a_graph_whose_readers_were_killed_is_the_same_and_complete(processes, tmp_path):
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    async with SqliteStorage(load_settings({}, home=calm).database_path) as storage:
        await storage.store_memories([memory_of(note(n), n) for n in range(MEMORIES)])
    shutil.copytree(calm, stormy)
    await to_thread(read_everything, str(calm))

    dice = random.Random(6)
    for wanted in sorted(dice.sample(range(1, MEMORIES - 50), KILLS)):
        kill_in_the_middle(processes, stormy, wanted)
        assert 0 < read_count(stormy) < MEMORIES
    rest = await to_thread(read_everything, str(stormy))
    again = await to_thread(read_everything, str(stormy))

    assert rest["passages_read"] > 0
    assert rows(stormy, STATE) == rows(calm, STATE)
    assert (again["entities_added"], again["relationships_added"], again["passages_read"]) == (
        0, 0, 0,
    )  # fmt: skip
    async with SqliteStorage(load_settings({}, home=stormy).database_path) as storage:
        assert await storage.check_integrity() == {}
