"""Everything at once on one database: writers, hooks, an index, a graph, searches. No errors."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from recorders import record_some
from writers import add_some, search_until

from figures import note
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import ListRequest
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

# `make soak` asks for 16 processes of 100 memories each.
PROCESSES = int(os.environ.get("CROWD_PROCESSES", "4"))
ADDS = int(os.environ.get("CROWD_ADDS", "10"))


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["zapomni_core.engine", "zapomni_cli.record", "writers"])
    return context


def run_again_and_again(stop: Path, failures: list[str], *commands: tuple[str, ...]) -> None:
    """Run commands of the user until there is a file `stop`; each at least once."""
    while True:
        for command in commands:
            done = subprocess.run(
                [sys.executable, "-m", "zapomni_cli", *command],
                capture_output=True,
                timeout=600,
                check=False,
            )
            if done.returncode or done.stderr:
                failures.append(f"{command[0]} {done.returncode}: {done.stderr.decode()}")
        if stop.exists():
            return


async def test_writers_hooks_index_graph_and_searches_at_once_have_no_error_of_any_kind(
    processes, tmp_path, private_home, monkeypatch
):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    home, report, hooks = private_home, tmp_path / "report", tmp_path / "hooks"
    stop, work = tmp_path / "stop", tmp_path / "work"
    work.mkdir()
    for number in range(20):
        body = f"def deploy_{number}():\n    return deploy_{number - 1 if number else 0}()\n"
        (work / f"part{number}.py").write_text(body * 10, encoding="utf-8")
    writers = [
        processes.Process(target=add_some, args=(str(home), str(report), f"adder{n}", ADDS))
        for n in range(PROCESSES)
    ]
    writers += [
        processes.Process(target=record_some, args=(str(home), str(hooks), f"hook{n}", ADDS))
        for n in range(max(1, PROCESSES // 4))
    ]
    searchers = [
        processes.Process(target=search_until, args=(str(home), str(stop))) for _ in range(2)
    ]
    failures: list[str] = []
    commands = [
        [("index", str(work), "--json")],
        [("graph", "build"), ("graph", "status", "--json")],
        [("search", "deploy", "--json"), ("status", "--json"), ("recent", "--all", "--json")],
    ]
    users = [
        threading.Thread(target=run_again_and_again, args=(stop, failures, *chosen))
        for chosen in commands
    ]
    for runner in [*writers, *searchers, *users]:
        runner.start()
    for writer in writers:
        writer.join(1800)
    stop.touch()
    for runner in [*searchers, *users]:
        runner.join(600)

    assert failures == [], "\n".join(failures)
    assert {process.exitcode for process in [*writers, *searchers]} == {0}
    lines = hooks.read_text(encoding="utf-8").splitlines()
    assert {line.split()[2] for line in lines if line.startswith("ack")} == {"0"}
    assert report.read_text(encoding="utf-8").count("ack ") == PROCESSES * ADDS
    settings = load_settings({}, home=home, embedder="none")
    async with await create_engine(settings) as engine:
        # The files of the index are memories of their own kind, which a list leaves out.
        assert (await engine.memories.list_memories(ListRequest())).total == PROCESSES * ADDS
        assert await engine.storage.check_integrity() == {}
    note(
        "many-processes",
        "all at once",
        f"{PROCESSES} processes of {ADDS} memories, {len(lines) // 2:,} events of hooks, "
        "index, graph and searches meanwhile: 0 errors",
    )
