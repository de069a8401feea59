"""What the processes of the crash tests run. They report by appending to a file."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest, ListRequest, SearchRequest
from zapomni_core.settings import load_settings

__all__ = ["add_forever", "add_some", "read_until", "search_until", "text_of"]


def text_of(key: str) -> str:
    """A text of several passages that can be told from its key alone."""
    dice = random.Random(key)
    words = [f"{key}-{dice.randrange(10**6)}" for _ in range(dice.randrange(40, 400))]
    return " ".join(words)


def add_forever(home: str, report: str, prefix: str) -> None:
    """Add memories until killed, reporting each key before the add and its id after."""
    asyncio.run(_add(home, report, prefix, 10**9))


def add_some(home: str, report: str, prefix: str, count: int) -> None:
    """Add so many memories and end."""
    asyncio.run(_add(home, report, prefix, count))


async def _add(home: str, report: str, prefix: str, count: int) -> None:
    log = os.open(Path(report), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with await create_engine(load_settings({}, home=home, embedder="none")) as engine:
        for number in range(count):
            key = f"{prefix}-{number}"
            os.write(log, f"try {key}\n".encode())
            answer = await engine.add_memory(
                AddMemoryRequest(text=text_of(key), idempotency_key=key)
            )
            os.write(log, f"ack {key} {answer.memory_id}\n".encode())


def read_until(home: str, report: str, stop: str) -> None:
    """Read what others acknowledged last, again and again, until there is a file `stop`."""
    asyncio.run(_read(home, Path(report), Path(stop)))


async def _read(home: str, report: Path, stop: Path) -> None:
    log = os.open(report.with_name("read"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with await create_engine(load_settings({}, home=home, embedder="none")) as engine:
        while not _is_there(stop):
            for key, memory_id in _last_acknowledged(report):
                assert (await engine.memories.get(memory_id)).text == text_of(key)
                found = await engine.search_memory(SearchRequest(query=text_of(key)[:60]))
                assert memory_id in {hit.memory_id for hit in found.results}
            page = await engine.memories.list_memories(ListRequest(limit=5))
            os.write(log, f"{page.total}\n".encode())


def search_until(home: str, stop: str) -> None:
    """Search for words that many memories have, until there is a file `stop`."""
    asyncio.run(_search(home, Path(stop)))


async def _search(home: str, stop: Path) -> None:
    async with await create_engine(load_settings({}, home=home, embedder="none")) as engine:
        for number in range(10**9):
            await engine.search_memory(SearchRequest(query=f"adder{number % 16} prompt deploy"))
            if _is_there(stop):
                return


def _is_there(path: Path) -> bool:
    return path.exists()


def _last_acknowledged(report: Path) -> list[tuple[str, str]]:
    """Return the last keys and ids; what follows the last line end was cut off by a kill."""
    lines = report.read_text(encoding="utf-8").split("\n")[:-1] if report.exists() else []
    words = [line.split() for line in lines[-20:]]
    return [(key, rest[0]) for word, key, *rest in words if word == "ack"]
