"""Mutated hook events, and after each of them a good one that must be stored."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from mutator import mutate

from command import record_here
from figures import note
from zapomni_core.modules.observations import HOSTS
from zapomni_core.modules.observations.spool import spool_state

# `make soak` asks for more.
EVENTS = int(os.environ.get("MUTATED_EVENTS", "250"))
FIRST = int(os.environ.get("MUTATED_FIRST", "0"))


@pytest.fixture
def home(monkeypatch):
    """A home in memory where there is one: nothing here is about the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        monkeypatch.setenv("ZAPOMNI_HOME", made)
        yield Path(made)


def send(data: bytes, host: str | None) -> tuple[int, str]:
    return record_here(data, *(["--host", host] if host else []))


def good(number: int) -> bytes:
    event = {"session_id": "good", "cwd": "/nowhere/app", "hook_event_name": "UserPromptSubmit"}
    return json.dumps({**event, "prompt_id": f"g{number}", "prompt": f"good {number}"}).encode()


def test_capture_goes_on_after_every_mutated_event(home):
    codes: Counter[int] = Counter()
    assert send(good(-1), None) == (0, "")
    with closing(sqlite3.connect(home / "zapomni.db")) as connection:
        for number in range(FIRST, FIRST + EVENTS):
            # Mostly the host its own fields name, sometimes a wrong one.
            dice = random.Random(-number)
            host = dice.choice(sorted(HOSTS)) if dice.random() < 0.2 else None
            code, told = send(mutate(number), host)
            named = f"event {number} with host {host}: {told}"
            assert code in {0, 1}, named
            assert told.count("\n") == code, named
            assert "not stored" not in told, named
            codes[code] += 1
            assert send(good(number), None) == (0, ""), named
            newest = "SELECT content FROM observations ORDER BY id DESC LIMIT 1"
            assert connection.execute(newest).fetchone() == (f"good {number}",), named
        found = check_rows(connection)
    assert spool_state(str(home)) == {"waiting": 0, "bad": 0, "dropped": 0}
    assert min(codes[0], codes[1]) > EVENTS / 20
    note(
        "capture-cleaned",
        "mutated events",
        f"{EVENTS}, {found} of them stored, {codes[1]} refused; capture continued after each",
    )


def check_rows(connection: sqlite3.Connection) -> int:
    """Check that every stored row is one that readers can bear; return how many there are."""
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.text_factory = bytes
    rows = connection.execute(
        "SELECT timestamp, session_id, project, host, obs_type, source_event, tool_name, file_path,"
        " content, metadata, signature FROM observations WHERE session_id <> 'good'"
    ).fetchall()
    for timestamp, *texts in rows:
        assert 0 < timestamp < 10**10
        for value in filter(None, texts):
            text = value.decode("utf-8")
            assert len(text) <= 8192
            assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in text)
    return len(rows)
