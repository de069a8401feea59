"""An import that is killed at any moment continues: complete, and nothing twice."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import sqlite3
import sys
from pathlib import Path

import pytest

import transcripts
from zapomni_core.engine import create_engine
from zapomni_core.settings import load_settings
from zapomni_core.workflows import import_sources
from zapomni_core.workflows.import_sources import ImportRequest

KILLS = 20


def import_all(folder: str, environment: dict[str, str]) -> None:
    """Import, in a process that may be killed; small steps, so that there are many moments."""
    os.environ.update(environment)
    import_sources.STEP_ITEMS = 10

    async def work() -> None:
        async with await create_engine(load_settings()) as engine:
            request = ImportRequest("claude-code", path=folder)
            await engine.imports.run(vars(request), import_sources._report_nothing)

    asyncio.run(work())


def compare(home: Path, expected: list[list]) -> None:
    """Compare table by table, so that a failure shows what is missing and what is too much."""
    for found, wanted in zip(stored(home), expected, strict=True):
        assert [one for one in wanted if one not in found] == []
        assert [one for one in found if one not in wanted] == []
        assert found == wanted


def stored(home: Path) -> list[list]:
    database = sqlite3.connect(home / "zapomni.db")
    try:
        return [
            database.execute(query).fetchall()
            for query in (
                "SELECT session_id, timestamp, content FROM observations ORDER BY 1, 2, 3",
                "SELECT kind, preview FROM memories ORDER BY 1, 2",
                "SELECT native FROM import_items ORDER BY 1",
                "SELECT path, size, byte_offset FROM import_files ORDER BY 1",
            )
        ]
    finally:
        database.close()


@pytest.mark.skipif(sys.platform != "linux", reason="forks from a server")
def test_an_import_killed_at_twenty_moments_is_complete_and_has_nothing_twice(tmp_path):
    folder = tmp_path / "projects"
    transcripts.write_all(folder)
    transcripts.long_session(60, "33333333-3333-4333-8333-333333333333").write(
        folder / "-w-shop" / "33333333-3333-4333-8333-333333333333.jsonl"
    )
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["zapomni_core.engine", "zapomni_core.workflows.import_sources"])
    environment = {
        "HOME": str(tmp_path),
        "ZAPOMNI_HOME": str(tmp_path / "straight"),
        "ZAPOMNI_MODELS_DIR": str(tmp_path / "none"),
        "ZAPOMNI_SHARE": "false",
    }

    def run(seconds: float | None) -> bool:
        home = Path(environment["ZAPOMNI_HOME"])
        home.mkdir(mode=0o700, exist_ok=True)
        # The same in all homes: it is part of how a masked secret is written.
        (home / "capture.key").write_bytes(b"k" * 32)
        worker = forks.Process(target=import_all, args=(str(folder), environment))
        worker.start()
        worker.join(seconds)
        ended = worker.exitcode is not None
        if not ended:
            worker.kill()
            worker.join()
        elif worker.exitcode != 0:
            raise AssertionError(f"exit code {worker.exitcode}")
        return ended

    assert run(None)
    expected = stored(tmp_path / "straight")
    environment["ZAPOMNI_HOME"] = str(tmp_path / "killed")
    chance = random.Random(17)
    killed = 0
    while killed < KILLS:
        # One that ended before it was killed is as good as any; the next begins anew.
        if run(chance.uniform(0.05, 0.6)):
            compare(tmp_path / "killed", expected)
            (tmp_path / "killed").rename(tmp_path / f"done-{chance.random()}")
        else:
            killed += 1
    assert run(None)
    compare(tmp_path / "killed", expected)
    batches = sqlite3.connect(tmp_path / "killed" / "zapomni.db").execute(
        "SELECT count(*) FROM import_batches"
    )
    assert batches.fetchone() == (1,)
