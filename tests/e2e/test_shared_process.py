"""Agents share one process: it is started, shared, survives and ends without anyone's help."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sharing import SERVE, SharingHost, describe, end_shared_processes
from zapomni_core.infra.sharing import ShareKey, ask

HEAVY = {"mcp", "numpy", "pydantic", "click", "asyncio", "json", "socket", "subprocess"}


@pytest.fixture
def home(monkeypatch):
    """A home folder whose path is short enough for a socket, and no process left behind."""
    folder = Path(tempfile.mkdtemp(prefix="zapomni-test-"))
    monkeypatch.setenv("ZAPOMNI_HOME", str(folder / "home"))
    monkeypatch.setenv("ZAPOMNI_SHARE", "true")
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    yield folder / "home"
    end_shared_processes()
    shutil.rmtree(folder)


@pytest.fixture
def start(home):
    """Start hosts that are closed after the test."""
    hosts = []

    def start_one(*options, **given) -> SharingHost:
        hosts.append(SharingHost(*options, **given))
        return hosts[-1]

    yield start_one
    for host in hosts:
        host.close()


# --- Sharing ----------------------------------------------------------------------------


def test_agents_share_one_process_and_see_each_others_memories(start, home):
    first, second = start(), start()

    first.add("The zebra lives in Lisbon.")

    assert second.found("zebra") == {"The zebra lives in Lisbon."}
    shared = describe()
    assert shared["connections"] == 2
    assert shared["clients"] == ["test-host", "test-host"]
    assert shared["pid"] not in (first.process.pid, second.process.pid)
    # Memories, tools and instructions are those of a server without sharing.
    alone = start("--no-share")
    assert alone.found("zebra") == {"The zebra lives in Lisbon."}
    assert alone.ask("tools/list")["result"] == first.ask("tools/list")["result"]
    assert describe()["connections"] == 2


def test_the_socket_and_its_folder_are_the_users_alone(start, home):
    start()

    assert stat.S_IMODE((home / "run").stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "run" / "zapomni.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "run" / "zapomni.log").stat().st_mode) == 0o600


def test_what_a_host_starts_loads_neither_the_sdk_nor_numpy(start, home):
    start()
    host = start(command=[sys.executable, "-X", "importtime", *SERVE[1:]])

    host.add("The zebra lives in Lisbon.")
    if Path("/proc").exists():
        status = Path(f"/proc/{host.process.pid}/status").read_text(encoding="utf-8")
        (resident,) = [line.split()[1] for line in status.splitlines() if "VmRSS" in line]
        assert int(resident) < 25_000

    host.process.stdin.close()
    written = host.process.stderr.read().decode()
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in written.splitlines()}
    assert "zapomni_cli" in imported
    assert imported & HEAVY == set()


def test_many_agents_that_start_at_once_start_one_process(start, home):
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda _: start().call("get_stats"), range(5)))

    assert describe()["connections"] == 5
    log = (home / "run" / "zapomni.log").read_text(encoding="utf-8")
    assert log.count('"shared_process_started"') == 1


def test_agents_with_other_settings_share_another_process(start, home):
    first = start()
    other = start(ZAPOMNI_CHUNK_SIZE="100")
    another = start(ZAPOMNI_CHUNK_SIZE="100")

    first.add("The zebra lives in Lisbon.")

    assert other.found("zebra") == another.found("zebra") == {"The zebra lives in Lisbon."}
    mine, theirs = describe(), describe(own=True, ZAPOMNI_CHUNK_SIZE="100")
    assert (mine["connections"], theirs["connections"]) == (1, 2)
    assert mine["pid"] != theirs["pid"]
    os.kill(theirs["pid"], 9)


@pytest.mark.parametrize("way", ["option", "environment", "config", "no folder"])
def test_where_nothing_is_shared_the_server_answers_by_itself(start, home, way, monkeypatch):
    home.mkdir(mode=0o700)
    if way == "environment":
        monkeypatch.setenv("ZAPOMNI_SHARE", "false")
    if way == "config":
        monkeypatch.delenv("ZAPOMNI_SHARE")
        (home / "config.toml").write_text("share = false\n", encoding="utf-8")
    if way == "no folder":
        (home / "run").write_text("a file where the folder would be", encoding="utf-8")

    host = start(*["--no-share"] * (way == "option"))

    host.add("The zebra lives in Lisbon.")
    assert host.found("zebra") == {"The zebra lives in Lisbon."}
    assert describe() is None
    assert (home / "run").is_dir() is False


def test_a_home_folder_with_a_long_path_has_its_socket_elsewhere(start, home, monkeypatch):
    long = home / ("long" * 30)
    monkeypatch.setenv("ZAPOMNI_HOME", str(long))
    temporary = home.parent / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))

    start().add("The zebra lives in Lisbon.")
    assert start().found("zebra") == {"The zebra lives in Lisbon."}

    assert describe()["connections"] == 2
    (folder,) = temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "zapomni.sock").is_socket()
    end_shared_processes()


# --- Questions --------------------------------------------------------------------------


def test_a_program_asks_without_loading_the_engine(start, home):
    host = start()
    host.call("add_memory", text="The zebra lives in Lisbon.", project="zoo")
    host.call("add_memory", text="The zebra lives in Porto.", project="farm")
    key = ShareKey(os.environ)

    found = ask(key, {"request": "search", "query": "where does the zebra live"}, 60)
    assert {hit["text"] for hit in found["results"]} == {
        "The zebra lives in Lisbon.", "The zebra lives in Porto.",
    }  # fmt: skip
    question = {"request": "search", "query": "zebra", "limit": 1, "filters": {"project": "farm"}}
    (hit,) = ask(key, question, 60)["results"]
    assert hit["text"] == "The zebra lives in Porto."
    assert hit["memory_id"]
    assert hit["score"] > 0

    # A wrong question, one that is not known, and one for which there is no time.
    assert ask(key, {"request": "search"}, 60) is None
    assert ask(key, {"request": "purge"}, 60) is None
    assert ask(key, {"request": "search", "query": "zebra"}, 0) is None
    code = (
        "import sys; from zapomni_core.infra import sharing\n"
        f"print(*[m for m in {sorted(HEAVY)} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_no_process_is_started_by_a_question(home):
    assert ask(ShareKey(os.environ), {"request": "search", "query": "zebra"}, 60) is None
    assert describe() is None
    assert not home.exists()
