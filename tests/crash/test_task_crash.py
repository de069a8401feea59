"""Eight workers killed at random: every task ends once, and whatever was begun twice says so."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from task_workers import TASK_TYPE, open_manager, work_forever

from zapomni_db.sqlite.connection import prepare_file

pytestmark = pytest.mark.anyio

# `make soak` asks for more.
CYCLES = int(os.environ.get("KILL_CYCLES", "100"))
WORKERS = 8
TASKS = max(300, CYCLES * 3)

# The database itself keeps the record: no worker could, and be killed at any moment.
WATCH = """
CREATE TABLE ends (id TEXT, status TEXT, attempt INTEGER);
CREATE TABLE strangers (id TEXT, message TEXT, attempt INTEGER);
CREATE TRIGGER watch_ends AFTER UPDATE ON tasks WHEN new.finished_at IS NOT NULL BEGIN
    INSERT INTO ends VALUES (new.id, new.status, new.attempts);
END;
CREATE TRIGGER watch_reports AFTER UPDATE ON tasks
WHEN new.message <> old.message AND new.message <> 'attempt ' || new.attempts BEGIN
    INSERT INTO strangers VALUES (new.id, new.message, new.attempts);
END;
"""


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["zapomni_core.scheduler.task_manager", "zapomni_db.sqlite.tasks", "task_workers"]
    )
    return context


@pytest.fixture
def folder(tmp_path):
    """A folder in memory where there is one: a kill is no loss of power."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as made:
        yield Path(made)


class Crew:
    """Eight processes, of which there are always eight, whatever is done to them."""

    def __init__(self, processes, database: Path, report: Path) -> None:
        self._processes = processes
        self._args = (str(database), str(report))
        self._report = report
        self._workers = [self._hire() for _ in range(WORKERS)]

    def _hire(self):
        worker = self._processes.Process(target=work_forever, args=self._args)
        worker.start()
        return worker

    def ready(self) -> int:
        return len(self._report.read_text().splitlines()) if self._report.exists() else 0

    def kill_one(self, dice: random.Random) -> None:
        number = dice.randrange(WORKERS)
        os.kill(self._workers[number].pid, signal.SIGKILL)
        self._workers[number].join(180)
        self._workers[number] = self._hire()

    def dismiss(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.join(180)


async def wait_for(condition) -> None:
    for _ in range(12_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the workers never came so far")


async def kill_at_random(crew: Crew, dice: random.Random) -> None:
    for cycle in range(CYCLES):
        # Not faster than workers start, or none would ever get to work.
        await wait_for(lambda: crew.ready() >= cycle)  # noqa: B023 - called before it changes
        await asyncio.sleep(dice.random() * 0.03)
        crew.kill_one(dice)


async def test_workers_killed_at_random_end_every_task_once(processes, folder):
    database, dice = folder / "zapomni.db", random.Random(6)
    prepare_file(database)
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(WATCH)
    manager = open_manager(database)
    ids = [
        await manager.submit_task(TASK_TYPE, {"number": number, "steps": dice.randrange(1, 16)})
        for number in range(TASKS)
    ]
    crew = Crew(processes, database, folder / "report")
    try:
        began = time.monotonic()
        await kill_at_random(crew, dice)
        async with asyncio.timeout(900):
            for task_id in ids:
                async for _ in manager.watch(task_id):
                    pass
        took = time.monotonic() - began
    finally:
        crew.dismiss()
        await manager.close()

    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tasks = connection.execute(
            "SELECT id, status, attempts, losses, failures, json_extract(result, '$.attempt')"
            " FROM tasks"
        ).fetchall()
        ends = connection.execute("SELECT id, status FROM ends").fetchall()
        strangers = connection.execute("SELECT count(*) FROM strangers").fetchone()[0]

    assert {task[0] for task in tasks} == set(ids)
    assert {task[1] for task in tasks} == {"completed"}
    # Once each, by whoever claimed it last; and nobody else ever reported.
    assert sorted(ends) == sorted((task_id, "completed") for task_id in ids)
    assert all(finisher == attempts for _, _, attempts, _, _, finisher in tasks)
    assert strangers == 0
    # Every attempt that was lost is there to see.
    assert all(attempts == losses + 1 for _, _, attempts, losses, _, _ in tasks)
    retried = sum(attempts > 1 for _, _, attempts, _, _, _ in tasks)
    assert retried > 0
    assert {task[4] for task in tasks} == {0}
    print(
        f"{CYCLES} kills, {len(ids)} tasks, {retried} of them begun again, "
        f"{max(task[2] for task in tasks)} attempts at most, {took:.0f} s"
    )
