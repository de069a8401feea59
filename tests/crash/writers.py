"""What the processes of the crash tests run. They report by appending to a file."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_core.settings import load_settings

__all__ = ["add_forever", "add_some", "text_of"]


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
