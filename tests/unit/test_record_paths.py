"""The ways an event takes through `record`, walked in this process."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
from contextlib import closing
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from zapomni_cli import record
from zapomni_cli.recording import record as command
from zapomni_core.modules.observations.spool import spool_state
from zapomni_db.sqlite import observations_write


@pytest.fixture
def send(monkeypatch, private_home):
    def send(given: dict | bytes, *options: str) -> int:
        data = given if isinstance(given, bytes) else json.dumps(given).encode()
        stream = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", stream)
        return record.main(list(options))

    monkeypatch.setattr(observations_write, "BUSY_MS", 1)
    return send


def marker(text: str, **fields) -> dict:
    return {"session_id": "s", "cwd": "/nowhere/app", "event": "marker", "text": text, **fields}


def contents(home) -> list[str]:
    with closing(sqlite3.connect(home / "zapomni.db")) as connection:
        found = connection.execute("SELECT content FROM observations ORDER BY id").fetchall()
    return [content for (content,) in found]


def test_while_the_database_is_locked_events_wait_in_order(send, private_home):
    assert send(marker("one")) == 0
    with closing(sqlite3.connect(private_home / "zapomni.db", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        assert [send(marker(text)) for text in ("two", "three")] == [0, 0]
    files = sorted((private_home / "spool").glob("*.json"))
    waiting = [json.loads(file.read_bytes())["content"] for file in files]
    assert waiting == ["two", "three"]
    assert send(marker("four")) == 0
    assert contents(private_home) == ["one", "two", "three", "four"]
    assert spool_state(str(private_home)) == {"waiting": 0, "bad": 0, "dropped": 0}


def test_damage_is_told_and_the_event_waits_for_a_sound_database(send, private_home, capsys):
    assert send(marker("one")) == 0
    (private_home / "zapomni.db").write_bytes(b"nonsense" * 4096)
    assert send(marker("two")) == 2
    assert capsys.readouterr().err.count("\n") == 1
    (private_home / "zapomni.db").unlink()
    assert send(marker("three")) == 0
    assert contents(private_home) == ["two", "three"]


def test_a_database_of_another_program_is_left_alone(send, private_home):
    private_home.mkdir()
    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection, connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = (private_home / "zapomni.db").read_bytes()
    assert send(marker("one")) == 0
    assert (private_home / "zapomni.db").read_bytes() == before
    assert spool_state(str(private_home))["waiting"] == 1


def test_an_unreadable_spooled_file_is_set_aside_and_counted(send, private_home):
    assert send(marker("one")) == 0
    (private_home / "spool").mkdir()
    for number, text in enumerate(("{", "[]", '{"event_hash": "xyz"}', '{"event_hash": 3}')):
        (private_home / "spool" / f"{number:020d}-1.json").write_text(text, encoding="utf-8")
    assert send(marker("two")) == 0
    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection:
        query = "SELECT value FROM capture_counters WHERE name = 'lost'"
        assert connection.execute(query).fetchone() == (4,)


def test_a_damaged_key_is_replaced(send, private_home):
    assert send(marker("one")) == 0
    (private_home / "capture.key").write_bytes(b"short")
    assert send(marker("two")) == 0
    assert len((private_home / "capture.key").read_bytes()) == 32
    names = sorted(path.name for path in private_home.iterdir())
    assert names == ["capture.key", "zapomni.db"]


@pytest.mark.parametrize("config", ["storage = 'other.db'", "storage = ", "[x]", "storage = 3"])
def test_odd_settings_do_not_stop_the_capture(send, private_home, config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    private_home.mkdir()
    (private_home / "config.toml").write_text(config, encoding="utf-8")
    assert send(marker("one")) == 0


def test_a_server_as_storage_leaves_captures_in_the_local_file(send, private_home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_STORAGE", "falkordb://host:6379/memories")
    assert send(marker("one")) == 0
    assert contents(private_home) == ["one"]


def test_the_context_comes_as_the_host_wants_it_and_only_at_a_start(send, capfdbinary):
    assert send(marker("rewrote the importer of the shop")) == 0
    assert capfdbinary.readouterr().out == b""
    start = {"session_id": "n", "cwd": "/nowhere/app", "hook_event_name": "SessionStart"}
    for host in ("claude-code", "codex", "gemini"):
        assert send({**start, "session_id": host}, "--host", host) == 0
        told = json.loads(capfdbinary.readouterr().out)["hookSpecificOutput"]
        assert "importer" in told["additionalContext"]
    assert send({**start, "hook_event_name": "sessionStart", "conversation_id": "c"}) == 0
    assert "importer" in json.loads(capfdbinary.readouterr().out)["additional_context"]
    assert send({"timestamp": 1704614400000, "cwd": "/nowhere/app", "source": "new"}) == 0
    assert "importer" in json.loads(capfdbinary.readouterr().out)["additionalContext"]
    windsurf = {"agent_action_name": "pre_user_prompt", "trajectory_id": "t", "tool_info": {}}
    assert send({**windsurf, "cwd": "/nowhere/app"}) == 0
    assert capfdbinary.readouterr().out == b""


def test_a_context_that_cannot_be_made_is_no_reason_to_fail(send, monkeypatch, capfdbinary):
    from zapomni_core.modules.observations import context

    def broken(*_):
        raise RuntimeError

    monkeypatch.setattr(context, "session_context", broken)
    start = {"session_id": "n", "cwd": "/nowhere/app", "hook_event_name": "SessionStart"}
    assert send(start) == 0
    assert capfdbinary.readouterr() == (b"", b"")


def test_the_end_of_a_session_sweeps_once_a_day(send, private_home):
    old = 1_500_000_000
    assert send(marker("very old", timestamp=old)) == 0
    assert send({"session_id": "s", "cwd": "/nowhere/app", "event": "session_end"}) == 0
    assert contents(private_home) == ["Session ended: other"]


def test_unexpected_errors_are_one_line(send, monkeypatch, capsys):
    monkeypatch.setattr(record, "read_event", lambda *_: 1 / 0)
    assert send(marker("one")) == 1
    monkeypatch.setattr(record, "read_event", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert send(marker("one")) == 1
    assert capsys.readouterr().err == "zapomni record: event not stored: ZeroDivisionError\n"


def test_the_click_command_hands_over(private_home):
    given = json.dumps(marker("by hand"))
    done = CliRunner().invoke(command, ["--host", "generic"], input=given)
    assert (done.exit_code, done.output) == (0, "")
    assert contents(private_home) == ["by hand"]


@pytest.mark.parametrize(
    ("name", "limit"), [("SessionEnd", 1.0), ("SessionStart", 2.0), ("Stop", 2.0)]
)
def test_a_hook_has_two_seconds_and_one_where_hosts_kill_early(name, limit, send, monkeypatch):
    watched = []
    fake = SimpleNamespace(start_new_thread=lambda _, given: watched.append(given[1]))
    monkeypatch.setattr(record, "_thread", fake)
    given = {"session_id": "s", "cwd": "/nowhere/app", "hook_event_name": name}
    stream = SimpleNamespace(buffer=io.BytesIO(json.dumps(given).encode()), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stream)
    assert record.main([], in_time=True) == 0
    assert [seconds + record.GRACE for seconds in watched] == [limit]


def test_an_event_that_could_not_be_read_in_time_is_recorded_as_such(monkeypatch):
    secret = "gh" + "p_" + "a1B2c3D4e5F6" * 3
    job = record._Job(0.0, outdated=False)
    given = {"session_id": "s", "cwd": "/nowhere/app", "hook_event_name": "PostToolUse"}
    job.event = record.read_event({**given, "tool_name": f"deploy {secret}", "tool_input": {}})
    row = record._unfinished_row(job, job.event)
    assert (row["project"], row["project_name"]) == ("/nowhere/app", "app")
    assert row["content"].endswith(": not read in time")
    assert secret not in json.dumps(row)


@pytest.mark.parametrize("moment", [10**400, -(10**400), 1e308, 2**63, -1, "9999-12-31T23:59:59Z"])
def test_a_time_outside_of_the_calendar_is_replaced_by_the_present(moment, send, private_home):
    assert send(marker("one", timestamp=moment)) == 0
    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection:
        (stored,) = connection.execute("SELECT timestamp FROM observations").fetchone()
    assert 1_700_000_000 < stored < 10**10
