"""What the processes of the task tests run: workers as `zapomni serve` has them."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from zapomni_core.scheduler.task_manager import TaskManager
from zapomni_db.sqlite.tasks import SqliteTasks

__all__ = ["TASK_TYPE", "open_manager", "work_forever"]

TASK_TYPE = "steps"
# Long enough for a worker that waits for its turn on a busy machine.
LEASE_SECONDS = 3.0


def open_manager(database: Path) -> TaskManager:
    """Return a manager that knows the type of task the tests use."""
    manager = TaskManager(SqliteTasks(database), lease_seconds=LEASE_SECONDS, poll_seconds=0.2)
    manager.register(TASK_TYPE, _steps)
    return manager


async def _steps(params, context):
    """Take some steps, saying at each whose they are."""
    attempt = context.claim.attempt
    for number in range(params["steps"]):
        await context.report(number, params["steps"], f"attempt {attempt}")
        await asyncio.sleep(random.random() * 0.02)
    return {"attempt": attempt}


def work_forever(database: str, report: str) -> None:
    """Work until killed; say so when ready."""

    async def work() -> None:
        manager = open_manager(Path(database))
        manager.start()
        log = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"{os.getpid()}\n".encode())
        await asyncio.Event().wait()

    asyncio.run(work())
