"""Hooks at once and hooks killed: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

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
from recorders import record_forever, record_one, record_some

from zapomni_db.sqlite.connection import prepare_file

# `make soak` asks for more.
CYCLES = int(os.environ.get("KILL_CYCLES", "100"))
EVENTS = int(os.environ.get("CROWD_ADDS", "40"))


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["zapomni_cli.record", "recorders", "writers"])
    return context


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in memory where there is one: a kill is no loss of power."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as made:
        monkeypatch.setenv("ZAPOMNI_HOME", str(Path(made) / "home"))
        yield Path(made)


def reported(report: Path, word: str) -> list[str]:
    lines = report.read_text(encoding="utf-8").split("\n")[:-1]
    return [line.split()[1] for line in lines if line.startswith(word)]


def contents(home: Path) -> list[str]:
    """Drain the spool by further events, then return every prompt but theirs."""
    for number in range(100):
        assert record_one(f"last-{number}") == 0
        if not list((home / "spool").glob("*.json")):
            break
    with closing(sqlite3.connect(home / "zapomni.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = connection.execute("SELECT content FROM observations").fetchall()
        words = connection.execute(
            "SELECT count(*) FROM observations_fts WHERE observations_fts MATCH 'prompt'"
        ).fetchone()[0]
    assert words == len(found)
    return [text.removeprefix("prompt ") for (text,) in found if "last-" not in text]


def test_sixteen_processes_at_once_lose_no_event_and_double_none(processes, folder):
    home, report = folder / "home", folder / "report"
    writers = [
        processes.Process(target=record_some, args=(str(home), str(report), f"w{n}", EVENTS))
        for n in range(16)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(900)

    assert [writer.exitcode for writer in writers] == [0] * 16
    lines = report.read_text(encoding="utf-8").split("\n")
    assert {line.split()[2] for line in lines if line.startswith("ack")} == {"0"}
    waiting = len(list((home / "spool").glob("*.json")))
    stored = contents(home)
    assert len(stored) == len(set(stored)) == 16 * EVENTS
    print(f"{16 * EVENTS} rows; {waiting} of them waited in the spool at the end")


def wait_for_lines(report: Path, count: int) -> None:
    """Wait until so many lines are reported; give up after three minutes."""
    deadline = time.monotonic() + 180
    while report.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline, "the writers never came so far"
        time.sleep(0.001)


def test_kill_9_loses_nothing_acknowledged_and_doubles_nothing(processes, folder):
    home, report = folder / "home", folder / "report"
    dice = random.Random(4)
    report.touch()
    # Making the file takes longer than the writers live; what is asked here is about writing.
    prepare_file(home / "zapomni.db")
    for cycle in range(0, CYCLES, 2):
        pair = [
            processes.Process(
                target=record_forever, args=(str(home), str(report), f"c{cycle + number}")
            )
            for number in range(2)
        ]
        before = report.read_bytes().count(b"\n")
        for writer in pair:
            writer.start()
        # How far they come is counted, not timed: of three lines one is an acknowledgement.
        wait_for_lines(report, before + 1 + cycle // 2 % 3)
        for writer in pair:
            time.sleep(dice.random() * 0.02)
            os.kill(writer.pid, signal.SIGKILL)
        for writer in pair:
            writer.join(180)

    tried, acknowledged = reported(report, "try"), reported(report, "ack")
    assert len(acknowledged) >= CYCLES // 6
    stored = contents(home)
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored) <= set(tried)
    unanswered = len(stored) - len(acknowledged)
    print(f"{CYCLES} kills, {len(acknowledged)} acknowledged, {unanswered} stored unanswered")
