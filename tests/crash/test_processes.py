"""Many processes at once, and processes killed for real."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
from writers import add_forever, add_some, read_until, text_of

from figures import note
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest, ListRequest
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

# `make soak` asks for more.
CYCLES = int(os.environ.get("KILL_CYCLES", "100"))
ADDS = int(os.environ.get("CROWD_ADDS", "20"))


@pytest.fixture(scope="module")
def processes():
    """Processes that start in milliseconds, because their imports are done already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["zapomni_core.engine", "writers"])
    return context


def read_report(report: Path) -> tuple[set[str], dict[str, str]]:
    """Return the keys tried and the ids acknowledged by key."""
    tried, acknowledged = set(), {}
    lines = report.read_text(encoding="utf-8").split("\n") if report.exists() else []
    for line in lines[:-1]:  # what follows the last newline was cut off by a kill
        word, key, *rest = line.split()
        if word == "try":
            tried.add(key)
        else:
            acknowledged[key] = rest[0]
    return tried, acknowledged


def wait_for(report: Path, start: str, count: int) -> None:
    """Wait until so many lines of the report start like this, or the writer has begun at all."""
    deadline = time.monotonic() + 180
    while not report.exists() or report.read_text(encoding="utf-8").count(start) < count:
        assert time.monotonic() < deadline, "the writer never came so far"
        time.sleep(0.001)


def kill_at_random(processes, home: Path, report: Path, cycles: int) -> None:
    dice = random.Random(20)
    for cycle in range(cycles):
        writer = processes.Process(
            target=add_forever, args=(str(home), str(report), f"cycle{cycle}")
        )
        writer.start()
        # On a busy machine a writer is slow: count what it did instead of the time it had.
        wait_for(report, f"ack cycle{cycle}-", dice.randrange(4))
        time.sleep(dice.random() * 0.01)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(180)


async def test_kill_9_loses_nothing_acknowledged_and_leaves_nothing_half(processes, tmp_path):
    home, report = tmp_path / "home", tmp_path / "report"

    kill_at_random(processes, home, report, CYCLES)

    tried, acknowledged = read_report(report)
    assert len(acknowledged) >= CYCLES
    async with await create_engine(load_settings({}, home=home, embedder="none")) as engine:
        for key, memory_id in acknowledged.items():
            assert (await engine.memories.get(memory_id)).text == text_of(key)
        assert await engine.storage.check_integrity() == {}
        # A client that was killed before its answer came would retry: nothing may double.
        answers = await engine.add_memories(
            [AddMemoryRequest(text=text_of(key), idempotency_key=key) for key in sorted(tried)]
        )
        assert (await engine.memories.list_memories(ListRequest())).total == len(tried)
        by_key = dict(zip(sorted(tried), answers, strict=True))
        assert all(by_key[key].memory_id == old for key, old in acknowledged.items())
    unacknowledged = sum(a.status == "replayed" for a in answers) - len(acknowledged)
    note(
        "durable-writes",
        "kill -9",
        f"{CYCLES:,} kills, {len(acknowledged):,} acknowledged, 0 lost, "
        f"{unacknowledged:,} stored unanswered and not stored twice",
    )


async def test_readers_see_all_that_is_acknowledged_and_no_error_while_writers_are_killed(
    processes, tmp_path
):
    home, report, stop = tmp_path / "home", tmp_path / "report", tmp_path / "stop"
    dice = random.Random(21)
    readers: list = []

    def start_reader() -> None:
        reader = processes.Process(target=read_until, args=(str(home), str(report), str(stop)))
        reader.start()
        readers.append(reader)

    killed = []
    start_reader()
    start_reader()
    for cycle in range(CYCLES // 10):
        writer = processes.Process(
            target=add_forever, args=(str(home), str(report), f"cycle{cycle}")
        )
        writer.start()
        wait_for(report, f"ack cycle{cycle}-", dice.randrange(1, 4))
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(180)
        if cycle % 5 == 4:
            # A reader that dies in the middle of its snapshot is in no one's way either.
            victim = readers.pop(0)
            os.kill(victim.pid, signal.SIGKILL)
            victim.join(180)
            killed.append(victim.exitcode)
            start_reader()
    wait_for(report.with_name("read"), "\n", 2)
    stop.touch()
    for reader in readers:
        reader.join(900)

    assert [reader.exitcode for reader in readers] == [0, 0]
    assert set(killed) <= {-signal.SIGKILL}
    _, acknowledged = read_report(report)
    async with await create_engine(load_settings({}, home=home, embedder="none")) as engine:
        for key, memory_id in acknowledged.items():
            assert (await engine.memories.get(memory_id)).text == text_of(key)
        assert await engine.storage.check_integrity() == {}


async def test_eight_processes_may_write_at_once(processes, tmp_path):
    home, report = tmp_path / "home", tmp_path / "report"
    writers = [
        processes.Process(target=add_some, args=(str(home), str(report), f"writer{n}", ADDS))
        for n in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(900)

    assert [writer.exitcode for writer in writers] == [0] * 8
    _, acknowledged = read_report(report)
    assert len(acknowledged) == 8 * ADDS
    async with await create_engine(load_settings({}, home=home, embedder="none")) as engine:
        assert (await engine.memories.list_memories(ListRequest())).total == 8 * ADDS
        assert await engine.storage.check_integrity() == {}
