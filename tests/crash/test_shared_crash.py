"""kill -9 of the shared process or of a client at random moments: nothing acknowledged is lost.

Six kills in every test run; `SHARED_KILLS=200 pytest tests/crash/test_shared_crash.py` for the bar.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from sharing import (
    SharingHost,
    describe,
    end_shared_processes,
    start_process,
    wait_until_ended,
)

KILLS = int(os.environ.get("SHARED_KILLS", "6"))
CALLS = 6


@pytest.fixture(params=["sqlite", "falkordb"])
def home(request, monkeypatch):
    folder = Path(tempfile.mkdtemp(prefix="zapomni-test-"))
    monkeypatch.setenv("ZAPOMNI_HOME", str(folder / "home"))
    monkeypatch.setenv("ZAPOMNI_SHARE", "true")
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    if request.param == "falkordb":
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph")
        monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{server.socket}?graph={graph}")
    yield folder / "home"
    end_shared_processes()
    shutil.rmtree(folder)


def test_no_acknowledged_memory_is_lost_and_the_next_call_works(home):
    seed = int(os.environ.get("SHARED_SEED", "14"))
    chance = random.Random(seed)
    start_process()
    killed, bystander = SharingHost(), SharingHost()
    stored: dict[str, str] = {}
    refused = 0  # how often a kill hit a write
    longest = 0.02
    for kill in range(KILLS):
        texts = [f"The ship number {kill}-{n} leaves at dawn." for n in range(CALLS)]
        calls = {killed.begin_call("add_memory", text=text): text for text in texts}
        asked = killed.begin_call("search_memory", query="ship")
        started = time.monotonic()
        time.sleep(chance.uniform(0, longest))
        of_process = chance.random() < 0.5
        if of_process:
            # The process may have been killed in the round before and not have started yet.
            if (shared := describe()) is not None:
                os.kill(shared["pid"], signal.SIGKILL)
                wait_until_ended(shared["pid"])
        else:
            killed.drain()
            killed.kill()
        for number, text in calls.items():
            if not of_process and number not in killed.answers:
                continue
            answer = killed.answer(number)
            if "error" in answer:
                assert "It may have been done" in answer["error"]["message"]
                refused += 1
            else:
                assert not answer["result"]["isError"], answer
                stored[answer["result"]["structuredContent"]["memory_id"]] = text
        if of_process:
            # What only reads is asked again, so the host does not notice.
            assert not killed.answer(asked)["result"]["isError"]
        else:
            killed = SharingHost()
        longest = min(0.2, max(0.02, time.monotonic() - started))
        # The next call works, for the client that was hit and for the other.
        after = f"The boat number {kill} leaves at dusk."
        stored[killed.add(after)] = after
        again = f"The raft number {kill} leaves at noon."
        stored[bystander.add(again)] = again

    for memory_id, text in stored.items():
        assert bystander.call("get_memory", memory_id=memory_id)["text"] == text, seed
    # A call that was answered with an error was done once or not at all.
    total = bystander.call("get_stats")["total_memories"]
    assert len(stored) <= total <= KILLS * (CALLS + 2), seed
    print(f"shared process: {KILLS} kills, {refused} writes refused, {len(stored)} stored")
    killed.close()
    bystander.close()
