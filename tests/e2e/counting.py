"""A task type that counts, known to every process a test starts."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import zapomni_core.engine as engine_module
from zapomni_core.scheduler.task_manager import TaskManager
from zapomni_core.settings import load_settings
from zapomni_db.models import TaskStatus
from zapomni_db.sqlite.tasks import SqliteTasks

__all__ = ["counting", "queue", "status_of", "wait_until"]

# Runs before anything else in every Python that is started with this folder on its path.
SITE = """
import asyncio

import zapomni_core.engine as engine_module
from zapomni_core.scheduler.task_manager import TaskManager

TaskManager.__init__.__kwdefaults__["lease_seconds"] = 2.0
create = engine_module.create_engine

async def count(params, context):
    for number in range(params["to"]):
        await context.report(number, params["to"], f"counted [{number}]")
        await asyncio.sleep(params.get("pause", 0))
    if params.get("fail"):
        raise ValueError("secret words")
    return {"counted": params["to"]}

async def create_engine(settings, **how):
    engine = await create(settings, **how)
    engine.tasks.register("count", count)
    return engine

engine_module.create_engine = create_engine
"""


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and every one started from here on know the task type `count`."""
    monkeypatch.setattr(engine_module, "create_engine", engine_module.create_engine)
    defaults = TaskManager.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "lease_seconds", defaults["lease_seconds"])
    exec(SITE, {})
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    path = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *([path] if path else [])]))
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def queue(**params: object) -> str:
    """Queue a task that counts and leave it to whoever works."""

    async def submit() -> str:
        store = SqliteTasks(load_settings().database_path)
        try:
            return await store.submit("count", params)
        finally:
            await store.close()

    return asyncio.run(submit())


def status_of(task_id: str) -> TaskStatus:
    async def get() -> TaskStatus | None:
        store = SqliteTasks(load_settings().database_path)
        try:
            return await store.get(task_id)
        finally:
            await store.close()

    found = asyncio.run(get())
    assert found is not None
    return found


def wait_until(task_id: str, wanted: Callable[[TaskStatus], bool]) -> TaskStatus:
    deadline = time.monotonic() + 180
    while not wanted(status := status_of(task_id)):
        assert time.monotonic() < deadline, f"the task never came so far: {status}"
        time.sleep(0.05)
    return status
