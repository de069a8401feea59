"""Agents share one process: it is started, shared, survives and ends without anyone's help."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from command import answer, as_json, patient_hook, zapomni
from project_shapes import git
from serving import piped
from sharing import (
    PATIENCE,
    SERVE,
    SharingHost,
    describe,
    end_shared_processes,
    is_running,
    start_process,
    wait_until_ended,
)
from zapomni_core.infra.sharing import ShareKey, ask, connect

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


@pytest.fixture(scope="module")
def lasting():
    """A home folder and the process that serves it, for all tests that leave both as they are."""
    folder, pids = Path(tempfile.mkdtemp(prefix="zapomni-test-")), set()
    yield folder, pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        wait_until_ended(pid)
    shutil.rmtree(folder)


@pytest.fixture
def same_home(lasting, home, monkeypatch):
    """The lasting home folder: its one memory is that the zebra lives in Lisbon, if any."""
    folder, pids = lasting
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("ZAPOMNI_HOME", str(folder / "home"))
    yield folder / "home"
    pids.add(describe()["pid"])
    monkeypatch.setenv("ZAPOMNI_HOME", str(home))  # The one that ends with this test.


@pytest.fixture
def unmeasured(monkeypatch):
    """Start processes without coverage: it loads modules too."""
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)


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


def test_the_socket_and_its_folder_are_the_users_alone(start, same_home):
    start()

    assert stat.S_IMODE((same_home / "run").stat().st_mode) == 0o700
    assert stat.S_IMODE((same_home / "run" / "zapomni.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE((same_home / "run" / "zapomni.log").stat().st_mode) == 0o600


@pytest.mark.usefixtures("unmeasured")
def test_what_a_host_starts_loads_neither_the_sdk_nor_numpy(start, same_home):
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
    mine, theirs = describe(), describe(ZAPOMNI_CHUNK_SIZE="100")
    assert (mine["connections"], theirs["connections"]) == (1, 2)
    assert mine["pid"] != theirs["pid"]
    end_shared_processes(ZAPOMNI_CHUNK_SIZE="100")


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
    pid = start_process(process__WATCH_SECONDS=0.05)

    start().add("The zebra lives in Lisbon.")
    assert start().found("zebra") == {"The zebra lives in Lisbon."}

    # That there was no home folder yet is no reason to end.
    shared = describe()
    assert (shared["pid"], shared["connections"]) == (pid, 2)
    (folder,) = temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "zapomni.sock").is_socket()
    # Nothing of it stays there when it ends.
    pid = describe()["pid"]
    os.kill(pid, signal.SIGTERM)
    wait_until_ended(pid)
    assert list(temporary.iterdir()) == []


def test_status_and_doctor_show_the_process(start, home):
    assert as_json("status")["shared_process"] is None
    assert "none runs" in answer("status")

    start()

    assert as_json("status")["shared_process"]["connections"] == 1
    pid = describe()["pid"]
    assert f"process {pid}, 1 connected, model not loaded" in answer("status")
    checks = {check["name"]: check for check in as_json("doctor")["checks"]}
    assert checks["shared process"]["status"] == "ok"
    os.kill(pid, signal.SIGSTOP)
    try:
        output = zapomni("doctor").stdout.decode()
    finally:
        os.kill(pid, signal.SIGCONT)
    (pattern,) = re.findall(r'Run `pkill -KILL -f "(.*)"`', output)
    assert pattern == f"zapomni_mcp.shared_process {home / 'run'}/"
    if Path("/proc").exists():
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        assert pattern in command


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_real_client_is_served_in_both_eras_and_after_a_crash(home, mode):
    async with piped(mode=mode) as client:
        added = await client.call_tool("add_memory", {"text": "The zebra lives in Lisbon."})
        assert not added.is_error
        pid = (await asyncio.to_thread(describe))["pid"]
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(wait_until_ended, pid)

        found = await client.call_tool("search_memory", {"query": "zebra"})

        assert [hit["text"] for hit in found.structured_content["results"]] == [
            "The zebra lives in Lisbon."
        ]
        assert len((await client.list_tools()).tools) > 10


# --- What is done to the home folder ----------------------------------------------------


def test_a_home_folder_that_is_replaced_is_the_one_written_to(start, home):
    there = answer("add", "The zebra of another home.", ZAPOMNI_HOME=str(home.parent / "another"))
    assert there
    host = start()
    host.add("The zebra of the old home.")
    home.rename(home.parent / "away")
    (home.parent / "another").rename(home)

    host.add("The zebra that came later.")

    assert host.found("zebra") == {"The zebra of another home.", "The zebra that came later."}
    shutil.rmtree(home.parent / "away")


def test_a_message_of_ten_megabytes_passes_whole(start, same_home):
    host = start()

    assert "VAL_" in host.refused("add_memory", text="x" * 10_000_001)
    assert host.ask("ping")["result"] == {}


# --- Questions --------------------------------------------------------------------------


@pytest.mark.usefixtures("unmeasured")
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


# --- Lifetime ---------------------------------------------------------------------------


def test_it_survives_its_clients_and_their_process_groups(start, home):
    first, second = start(), start()
    shared = describe()["pid"]

    first.kill()

    second.add("The zebra lives in Lisbon.")
    second.close()
    assert is_running(shared)
    assert start().found("zebra") == {"The zebra lives in Lisbon."}
    assert describe()["pid"] == shared
    # It is no client's child, so that a host that ends a tree of processes does not find it.
    if Path("/proc").exists():
        parent = Path(f"/proc/{shared}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        assert int(parent.split()[1]) not in (first.process.pid, second.process.pid, os.getpid())


def serving_with(**constants):
    """Return the command of a server with other constants in its proxy."""
    changed = "; ".join(f"proxy.{name} = {value}" for name, value in constants.items())
    code = (
        f"import sys; from zapomni_cli import proxy; {changed}\n"
        "sys.argv = ['zapomni', 'serve']; from zapomni_cli.__main__ import main; main()"
    )
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("socket_is_gone", [False, True])
def test_a_process_that_hangs_is_not_waited_for(start, home, socket_is_gone):
    start().add("The zebra lives in Lisbon.")
    pid = describe()["pid"]
    os.kill(pid, signal.SIGSTOP)
    if socket_is_gone:
        (home / "run" / "zapomni.sock").unlink()
    else:
        os.utime(home / "run" / "zapomni.sock", (0, 0))  # It was started long ago.
    try:
        # As long as for one that starts, it would wait for an hour.
        host = start(command=serving_with(START_SECONDS=3600))
        assert host.found("zebra") == {"The zebra lives in Lisbon."}
        host.add("The zebra likes Lisbon.")
    finally:
        os.kill(pid, signal.SIGCONT)

    if socket_is_gone:
        wait_until_ended(pid)
    assert start().found("zebra") == {"The zebra lives in Lisbon.", "The zebra likes Lisbon."}
    # It is shared again, or another one is.
    assert (describe()["pid"] == pid) is not socket_is_gone


def test_a_process_that_starts_is_waited_for(start, home):
    start(command=serving_with(START_SECONDS=3600, ANSWER_SECONDS=0.001))

    assert describe()["connections"] == 1


def test_it_ends_when_it_is_idle_and_the_next_call_starts_it_again(start, home):
    # Longer than a busy machine takes to start the host.
    pid = start_process(process__IDLE_SECONDS=10.0)
    host = start()
    host.add("The zebra lives in Lisbon.")

    wait_until_ended(pid)

    assert describe() is None
    assert host.found("zebra") == {"The zebra lives in Lisbon."}
    assert describe()["pid"] != pid


def test_it_gives_way_to_a_newer_version_and_finishes_what_it_began(start, home):
    pid = start_process(process__VERSION="0.0.9")
    code = (
        "import sys; from zapomni_core.infra import sharing; sharing.VERSION = '0.0.9'\n"
        "sys.argv = ['zapomni', 'serve']; from zapomni_cli.__main__ import main; main()"
    )
    old = start(command=[sys.executable, "-c", code])
    assert describe()["pid"] == pid
    calls = [old.begin_call("add_memory", text=f"The zebra number {n}.") for n in range(30)]

    new = start()

    # Every call is answered once, whichever process did it.
    assert [old.answer(number)["result"]["isError"] for number in calls] == [False] * 30
    assert old.found("zebra") == new.found("zebra") == {f"The zebra number {n}." for n in range(30)}
    wait_until_ended(pid)
    assert describe()["connections"] == 2


def test_changed_settings_reach_the_agents_that_are_connected(start, home):
    first = start()
    first.add("The zebra lives in Lisbon.")
    old = describe()["pid"]
    (home / "config.toml").write_text("chunk_size = 100\n", encoding="utf-8")

    second = start()

    assert second.found("zebra") == first.found("zebra") == {"The zebra lives in Lisbon."}
    wait_until_ended(old)
    assert describe()["connections"] == 2


def test_it_ends_when_its_home_folder_is_removed_and_the_next_call_makes_a_new_one(start, home):
    host = start()
    host.add("The zebra of the old home.")
    pid = describe()["pid"]
    assert host.found("zebra")  # The recall is written later, unless its home is gone.
    shutil.rmtree(home)

    wait_until_ended(pid)

    assert not home.exists()
    host.add("The zebra of the new home.")
    assert host.found("zebra") == {"The zebra of the new home."}
    assert as_json("stats")["total_memories"] == 1


def test_it_ends_on_a_signal_and_loses_no_call(start, home):
    host = start()
    pid = describe()["pid"]
    calls = [host.begin_call("add_memory", text=f"The zebra number {n}.") for n in range(30)]

    os.kill(pid, 15)

    assert [host.answer(number)["result"]["isError"] for number in calls] == [False] * 30
    assert len(host.found("zebra")) == 30
    wait_until_ended(pid)


def test_a_model_that_is_not_used_is_dropped_and_loaded_again(start, home, model, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "local")
    pid = start_process(upkeep__MODEL_IDLE_SECONDS=1.0)
    host = start()
    host.add("The zebra lives in Lisbon.")

    until = time.monotonic() + PATIENCE
    while describe()["model_loaded"]:
        assert time.monotonic() < until, "the model is still there"
        time.sleep(0.05)

    found = host.call("search_memory", query="where is the striped animal")["results"]
    assert found[0]["text"] == "The zebra lives in Lisbon."
    assert describe()["pid"] == pid
    assert "model_released" in (home / "run" / "zapomni.log").read_text(encoding="utf-8")


# --- Clients among each other -----------------------------------------------------------


def test_a_client_that_floods_and_does_not_read_leaves_the_others_served(start, same_home):
    flooding, other = start(), start()
    numbers = list(range(1000, 1400))
    is_sent = threading.Event()

    def flood() -> None:
        # Requests and answers are larger than all pipes and queues on the way.
        params = {"_meta": {"padding": "x" * 20_000}}
        ask = {"jsonrpc": "2.0", "method": "tools/list", "params": params}
        for number in numbers:
            flooding.send({**ask, "id": number})
        is_sent.set()

    thread = threading.Thread(target=flood)
    thread.start()
    other.add("The zebra lives in Lisbon.")
    assert other.found("zebra") == {"The zebra lives in Lisbon."}
    # What is not read yet stays in the client's own pipe; nothing grows in the process.
    assert not is_sent.is_set()

    answered = [flooding.receive()["id"] for _ in numbers]
    thread.join()
    assert sorted(answered) == numbers


def test_a_cancelled_call_is_that_clients_alone(start, home):
    first, second = start(), start()
    begun = [first.begin_call("add_memory", text=f"The zebra number {n}.") for n in range(40)]
    same = [second.begin_call("add_memory", text=f"The horse number {n}.") for n in range(40)]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    first.send(*({**cancel, "params": {"requestId": number}} for number in begun[20:]))

    assert [second.answer(number)["result"]["isError"] for number in same] == [False] * 40
    assert [first.answer(number)["result"]["isError"] for number in begun[:20]] == [False] * 20
    assert first.ask("ping")["result"] == {}


def test_a_client_that_sends_nonsense_ends_alone(start, same_home):
    host = start()
    key = ShareKey(os.environ)
    path = key.socket_in(key.folder(), own=False)
    for sent in (
        b"",
        b"\n",
        b"[]\n",
        b"not json\n",
        b"\xff\xfe\n",
        b'{"kind":"mcp"}\n',
        b"x" * 1000,
    ):
        connection = connect(path, PATIENCE)
        connection.sendall(sent)
        connection.close()
    connection = connect(path, PATIENCE)
    with pytest.raises(OSError):  # noqa: PT011 - a closed pipe has several
        while True:
            connection.sendall(b"x" * (1 << 16))
    connection.close()

    host.add("The zebra lives in Lisbon.")
    assert host.found("zebra") == {"The zebra lives in Lisbon."}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_answered(start, home):
    start()
    for folder in (home.parent, home, home / "run"):
        folder.chmod(0o777)
    (home / "run" / "zapomni.sock").chmod(0o777)
    code = f"""
import os, socket, sys
os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.settimeout(60)
s.connect({str(home / "run" / "zapomni.sock")!r})
try:
    s.sendall(b'{{"zapomni": 1, "kind": "status"}}\\n')
    print(len(s.recv(100)))
except ConnectionError:
    print(0)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "0"


def test_each_client_has_its_own_folder(start, home, tmp_path):
    for name in ("red", "blue"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.py").write_text("def f(): pass\n", encoding="utf-8")
        git(tmp_path / name, "init", "-q")
    red, blue = start(cwd=tmp_path / "red"), start(cwd=tmp_path / "blue")

    red.add("The zebra is red.")
    blue.add("The zebra is blue.")
    assert red.found("zebra") == {"The zebra is red."}
    assert blue.found("zebra") == {"The zebra is blue."}
    everywhere = blue.call("search_memory", query="zebra", within="memories", project="*")
    assert {hit["project"] for hit in everywhere["results"]} == {"red", "blue"}
    assert red.call("index_codebase")["task_id"]
    assert blue.call("index_codebase", path=str(tmp_path / "blue"))["task_id"]
    assert "folder" in red.refused("index_codebase", path=str(tmp_path / "blue"))

    for folder, host in (("red", red), ("blue", blue)):
        event = {
            "session_id": folder, "cwd": str(tmp_path / folder), "prompt_id": folder,
            "hook_event_name": "UserPromptSubmit", "prompt": f"paint it {folder}",
        }  # fmt: skip
        subprocess.run(patient_hook(), input=json.dumps(event).encode(), check=True)
        (found,) = host.call("search", query="paint")["result"]
        assert f"paint it {folder}" in json.dumps(found)


def test_secrets_of_every_clients_environment_are_found(start, same_home):
    first = start()
    first.add("The zebra lives in Lisbon.")
    second = start(SERVICE_PASSWORD="synthetic-value-47")

    text = "The service opens with synthetic-value-47 only."
    notice = second.call("add_memory", text=text)["notice"]

    assert "secret" in notice
