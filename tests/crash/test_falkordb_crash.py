"""The FalkorDB server killed in the midst of writes: what it acknowledged is there, whole."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from itertools import count

import pytest
from writers import text_of

from builders import memory, vector
from zapomni_db.exceptions import DatabaseError
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.falkordb.server import LocalServer, start_server, stop_server

pytestmark = pytest.mark.anyio

# `make soak` asks for more.
CYCLES = int(os.environ.get("SERVER_KILL_CYCLES", "5"))
WRITERS = 4


def passages(key: str):
    """A memory of one to six passages that can be told from its key alone."""
    words = text_of(key).split()[: random.Random(key).randrange(10, 60)]
    parts = [" ".join(words[at : at + 10]) for at in range(0, len(words), 10)]
    return memory(" | ".join(parts), *[vector(1, n) for n in range(len(parts))],
                  idempotency_key=key)  # fmt: skip


class Cycle:
    """Writers at work on a server, until it is killed."""

    def __init__(self, number: int, server: LocalServer) -> None:
        self._number = number
        self._server = server
        self._keys = count()
        self._wanted = random.Random(number).randrange(1, 20)
        self._enough = asyncio.Event()
        self.tried: list[str] = []
        self.acknowledged: dict[str, str] = {}

    async def run(self) -> None:
        async with FalkorDBClient(unix_socket=str(self._server.socket), max_retries=0) as client:
            writers = [asyncio.create_task(self._write(client)) for _ in range(WRITERS)]
            await self._enough.wait()
            await asyncio.sleep(random.Random(-self._number).random() * 0.02)
            os.kill(self._server.pid, signal.SIGKILL)
            await asyncio.gather(*writers)

    async def _write(self, client: FalkorDBClient) -> None:
        while True:
            key = f"{self._number}-{next(self._keys)}"
            self.tried.append(key)
            try:
                self.acknowledged[key] = await client.store_memory(passages(key))
            except DatabaseError:
                return
            if len(self.acknowledged) >= self._wanted:
                self._enough.set()


async def test_kill_9_of_the_server_loses_nothing_acknowledged_and_leaves_nothing_half(tmp_path):
    folder = tmp_path / "server"
    acknowledged: dict[str, str] = {}
    unanswered = 0
    try:
        for number in range(CYCLES):
            cycle = Cycle(number, start_server(folder))
            await cycle.run()
            acknowledged |= cycle.acknowledged
            unanswered += await look(start_server(folder), cycle)
        async with FalkorDBClient(unix_socket=str(start_server(folder).socket)) as client:
            for key, memory_id in acknowledged.items():
                assert (await client.get_memory(memory_id)).text == passages(key).text
            total = (await client.get_stats())["total_memories"]
    finally:
        stop_server(folder)
    assert len(acknowledged) >= CYCLES
    assert total == len(acknowledged) + unanswered
    print(f"{CYCLES} kills, {len(acknowledged)} acknowledged, {unanswered} stored unanswered")


async def look(server: LocalServer, cycle: Cycle) -> int:
    """See that all that was acknowledged is there, and the rest whole or not at all.

    Returns how many are there that nobody was told of.
    """
    async with FalkorDBClient(unix_socket=str(server.socket)) as client:
        assert await client.check_integrity() == {}
        unanswered = 0
        for key in cycle.tried:
            given = passages(key)
            found = await client.find_existing("", given.text, key)
            if key in cycle.acknowledged:
                assert found.memory_id == cycle.acknowledged[key]
            if found is not None:
                kept = await client.get_memory(found.memory_id)
                assert (kept.text, kept.chunk_count) == (given.text, len(given.chunks))
                unanswered += key not in cycle.acknowledged
        return unanswered
