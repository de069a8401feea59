"""An import that is killed at any moment continues: complete, and nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import random
import re
import signal
import sqlite3
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import source_files
import transcripts
from zapomni_core.engine import create_engine
from zapomni_core.settings import load_settings
from zapomni_core.workflows import import_sources
from zapomni_core.workflows.import_sources import ImportRequest

KILLS = 20
MEMORIES = """
SELECT m.kind, m.preview, (SELECT n.preview FROM memories n WHERE n.key = m.superseded_by)
FROM memories m ORDER BY 1, 2"""


def import_all(source: str, folder: str, environment: dict[str, str], steps: Connection) -> None:
    """Import, in a process that may be killed; small steps, so that there are many moments."""
    os.environ.update(environment)
    import_sources.STEP_ITEMS = 10

    async def report(*_: object) -> None:
        steps.send_bytes(b"a step")
        await asyncio.sleep(0)

    async def work() -> None:
        async with await create_engine(load_settings()) as engine:
            await engine.imports.run(vars(ImportRequest(source, path=folder)), report)

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
                MEMORIES,
                "SELECT native FROM import_items ORDER BY 1",
                "SELECT path, size, byte_offset FROM import_files ORDER BY 1",
            )
        ]
    finally:
        database.close()


def write_claude_code(folder: Path) -> None:
    transcripts.write_all(folder)
    transcripts.long_session(60, "33333333-3333-4333-8333-333333333333").write(
        folder / "-w-shop" / "33333333-3333-4333-8333-333333333333.jsonl"
    )


def write_codex(folder: Path) -> None:
    """Write a session that is read from its start each time, with memories among the rest."""
    file = source_files.write_rollouts(folder.parent, Path("/w/shop"))
    first, *rest = source_files.rollout("/w/shop")
    lines = [source_files.jsonl([first])]
    for turn in range(20):
        # The same again, in another minute and with other calls.
        text = source_files.jsonl(rest).replace(b"T10:00", b"T10:%02d" % turn)
        text = re.sub(rb'"call_(\d)"', rb'"call_\1_%d"' % turn, text)
        lines.append(text.replace(b"faster", b"fast %d" % turn))
    folder.mkdir()
    (folder / file.name).write_bytes(b"".join(lines))
    os.utime(folder / file.name, (1_780_000_000, 1_780_000_000))


def write_decisions(folder: Path) -> None:
    """Write records that replace each other, each one a file and a memory of its own."""
    folder.mkdir()
    for number in range(1, 31):
        status = f"Superseded by {number + 1}" if number % 3 else "Accepted"
        text = f"# {number}. Choice {number}\n\nDate: 2026-01-01\n\n## Status\n\n{status}\n"
        (folder / f"{number:04}-choice.md").write_text(text, "utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="forks from a server")
@pytest.mark.parametrize(
    ("source", "write", "kills"),
    [
        ("claude-code", write_claude_code, KILLS),
        ("codex", write_codex, KILLS // 2),
        ("adr", write_decisions, KILLS // 2),
    ],
)
def test_an_import_killed_at_twenty_moments_is_complete_and_has_nothing_twice(
    tmp_path, source, write, kills
):
    folder = tmp_path / "projects"
    write(folder)
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["zapomni_core.engine", "zapomni_core.workflows.import_sources"])
    environment = {
        "HOME": str(tmp_path),
        "ZAPOMNI_HOME": str(tmp_path / "straight"),
        "ZAPOMNI_MODELS_DIR": str(tmp_path / "none"),
        "ZAPOMNI_SHARE": "false",
    }

    def run(kill_after: int | None, pause: float = 0) -> bool:
        """Import; kill it so many steps later, and a moment. Return whether it ended before."""
        home = Path(environment["ZAPOMNI_HOME"])
        home.mkdir(mode=0o700, exist_ok=True)
        # The same in all homes: it is part of how a masked secret is written.
        (home / "capture.key").write_bytes(b"k" * 32)
        ours, theirs = forks.Pipe(duplex=False)
        worker = forks.Process(target=import_all, args=(source, str(folder), environment, theirs))
        worker.start()
        theirs.close()
        seen = 0
        with contextlib.suppress(EOFError):
            while kill_after is None or seen < kill_after:
                ours.recv_bytes()
                seen += 1
        time.sleep(pause)
        if kill_after is not None:
            worker.kill()
        worker.join()
        ours.close()
        if worker.exitcode not in (0, -signal.SIGKILL):
            raise AssertionError(f"exit code {worker.exitcode}")
        return worker.exitcode == 0

    assert run(None)
    expected = stored(tmp_path / "straight")
    environment["ZAPOMNI_HOME"] = str(tmp_path / "killed")
    chance = random.Random(17)
    killed = 0
    while killed < kills:
        # One that ended before it was killed is as good as any; the next begins anew.
        if run(chance.randint(0, 4), chance.uniform(0, 0.02)):
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
