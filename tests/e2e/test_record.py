"""`zapomni record` as agents run it: a process, its input, its exit code and its silence."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from command import as_json, patient_hook
from zapomni_cli.record import hook_command

SAMPLES = Path(__file__).parents[1] / "fixtures" / "hooks"
MODULE = [sys.executable, "-m", "zapomni_cli", "record"]
NUMBER = iter(range(10**9))


def event(**fields) -> dict:
    base = {"session_id": "s", "cwd": "/nowhere/app", "hook_event_name": "UserPromptSubmit"}
    return {**base, "prompt_id": f"p{next(NUMBER)}", "prompt": "please go on", **fields}


def run(given: dict | bytes, command: list[str] | None = None, **env: str):
    data = given if isinstance(given, bytes) else json.dumps(given).encode()
    return subprocess.run(
        command or patient_hook(),
        input=data,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **env},
    )


def stored(given: dict | bytes, command: list[str] | None = None, **env: str) -> None:
    done = run(given, command, **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def rows(home: Path, query: str = "SELECT content FROM observations ORDER BY id") -> list[tuple]:
    with closing(sqlite3.connect(home / "zapomni.db")) as connection:
        return connection.execute(query).fetchall()


def test_every_sample_goes_through_and_only_a_session_start_may_speak(private_home):
    for path in sorted([*SAMPLES.glob("*.json"), *SAMPLES.glob("documented/*.json")]):
        done = run(path.read_bytes())
        assert (done.returncode, done.stderr) == (0, b""), path.name
        if "sessionstart" not in path.name.lower():
            assert done.stdout == b"", path.name
    assert len(rows(private_home)) == 29
    for path in [private_home, *private_home.rglob("*")]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@pytest.mark.parametrize("command", [None, MODULE], ids=["installed hook line", "module"])
def test_nothing_outside_the_standard_library_is_imported(command, tmp_path):
    program = (
        "import sys, os, atexit\n"
        "from zapomni_cli import record\n"
        "record.main([])\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*sorted(names - set(sys.stdlib_module_names) - {'__main__'}))"
    )
    if command is None:
        source = Path(hook_command()[-1]).parent.parent
        program = f"import sys\nsys.path.append({str(source)!r})\n{program}"
        command = [*hook_command()[:3], "-c", program]
    else:
        command = [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}\n{program}"]
    for given in (
        event(),
        event(hook_event_name="SessionStart", source="startup"),
        event(hook_event_name="SessionEnd"),
        event(hook_event_name="PostToolUse", tool_name="Bash", tool_input={"command": "git push"}),
        event(hook_event_name="PostToolUseFailure", tool_name="Bash", error="Exit code 1\nx"),
    ):
        done = run(given, command)
        ours = {"zapomni_cli", "zapomni_core", "zapomni_db"}
        assert set(done.stdout.decode().split("\n")[-2].split()) == ours, done


@pytest.mark.parametrize(
    "given",
    [
        {"tool_name": "Bash", "tool_input": {"command": "make"}},
        {"tool_name": "Edit", "tool_input": {"file_path": "/p/a.py", "old_string": "a"}},
        {"tool_name": "Bash", "tool_input": {"command": "export API_TOKEN=" + "ab12" * 8}},
        {"hook_event_name": "PostToolUseFailure", "tool_name": "Bash", "error": "Exit code 1\nx"},
    ],
    ids=["command", "edit", "secret", "failure"],
)
def test_an_ordinary_event_does_not_pay_for_what_it_does_not_need(given, private_home):
    stored(event())  # It makes the database.
    (private_home / "config.toml").write_text('embedder = "none"\n', "utf-8")
    program, *rest = hook_command()
    done = run(
        event(**{"hook_event_name": "PostToolUse", **given}), [program, "-X", "importtime", *rest]
    )
    loaded = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    assert "zapomni_core.shared.redaction" in loaded
    dear = {"dataclasses", "datetime", "fnmatch", "importlib", "json", "pathlib", "subprocess"}
    assert not loaded & (dear | {"hashlib", "threading", "tomllib", "typing", "warnings"})
    stored(event())  # What came too late on a busy machine is taken over.
    assert len(rows(private_home)) == 3


def test_a_failure_that_returns_is_answered_without_dear_imports(private_home):
    failure = {"hook_event_name": "PostToolUseFailure", "tool_name": "Bash"}
    failure |= {"tool_input": {"command": "make"}, "error": "Exit code 1\nerror: no such symbol"}
    for number in range(2):
        stored(event(tool_use_id=f"t{number}", **failure))
    program, *rest = hook_command()
    done = run(event(tool_use_id="t2", **failure), [program, "-X", "importtime", *rest])
    loaded = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    assert "zapomni_core.workflows.recall_unasked" in loaded
    assert not loaded & {"dataclasses", "datetime", "importlib", "pathlib", "threading", "typing"}


@pytest.mark.parametrize(
    "name", ["private_paths", '"private_paths"', '"private\\u005fpaths"', "'private_paths'"]
)
def test_a_setting_is_found_however_its_name_is_written(name, private_home):
    private_home.mkdir(mode=0o700)
    config = private_home / "config.toml"
    config.write_text('embedder = "none"\n', "utf-8")
    read = {"hook_event_name": "PostToolUse", "tool_name": "Read"}
    stored(event(**read, tool_input={"file_path": "/p/a.map"}))
    config.write_text(f'embedder = "none"\n{name} = ["*.chart"]\n', "utf-8")
    stored(event(**read, tool_input={"file_path": "/p/a.chart"}))
    stored(event(**read, tool_input={"file_path": "/p/b.map"}))
    assert [path for (path,) in rows(private_home, "SELECT file_path FROM observations")] == [
        "/p/a.map",
        "/p/b.map",
    ]


def test_the_command_and_the_module_record_too_without_click(private_home):
    for command in (MODULE, [str(Path(sys.executable).with_name("zapomni")), "record"]):
        if Path(command[0]).exists():
            stored(event(), [*command, "--host", "claude-code"])
    program = [sys.executable, "-X", "importtime", "-m", "zapomni_cli", "record"]
    assert b"click" not in run(event(), program).stderr
    stored(event())  # What came too late on a busy machine is taken over.
    assert rows(private_home)[0] == ("please go on",)


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"not json",
        b"[1, 2]",
        b'"text"',
        b'{"session_id": "s"',
        b"\xff\xfe{}",
        b'{"session_id": "\xc3\x28"}',
        b"[" * 10_000 + b"]" * 10_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"session_id": "s", "cwd": "/p"}',
        b'{"session_id": "", "cwd": "/p", "hook_event_name": "Stop"}',
        b'{"n": ' + b"9" * 100_000 + b"}",
    ],
    ids=str,
)
def test_what_is_no_event_is_refused_in_one_line(given, private_home):
    done = run(given)
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr
    assert not (private_home / "zapomni.db").exists()


def test_fifty_megabytes_are_refused_quietly():
    text = b"x" * (50 * 1024 * 1024)
    done = run(b'{"session_id": "s", "cwd": "/p", "event": "marker", "text": "' + text + b'"}')
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"too large" in done.stderr


def test_an_unknown_option_or_host_is_refused():
    assert run(event(), [*patient_hook(), "--host", "emacs"]).returncode == 1
    assert run(event(), [*patient_hook(), "--what"]).returncode == 1


def test_a_repeated_delivery_is_stored_once(private_home):
    given = event()
    for _ in range(3):
        stored(given)
    stored({**given, "prompt_id": "another"})
    assert len(rows(private_home)) == 2


def test_the_same_read_or_search_within_the_window_is_stored_once(private_home):
    def tool(name: str, session: str = "s", **given: str) -> None:
        fields = {"hook_event_name": "PostToolUse", "tool_name": name, "tool_input": given}
        stored(event(**fields, session_id=session, tool_use_id=f"t{next(NUMBER)}"))

    for _ in range(2):
        tool("Read", file_path="/p/a.py")
        tool("Grep", pattern="def", path="/p")
        tool("Grep", pattern="def")
    tool("Grep", pattern="class", path="/p")
    tool("Read", file_path="/p/b.py")
    tool("Read", session="other", file_path="/p/a.py")
    assert len(rows(private_home)) == 6
    repeated = rows(private_home, "SELECT value FROM capture_counters WHERE name = 'repeated'")
    assert repeated == [(3,)]


def test_actions_belong_to_the_prompt_they_were_done_for(private_home):
    tool = {"hook_event_name": "PostToolUse", "tool_name": "Bash"}
    stored(event(**tool, tool_input={"command": "before"}))
    stored(event(prompt="first"))
    stored(event(**tool, tool_use_id="t1", tool_input={"command": "a"}))
    stored(event(prompt="second"))
    stored(event(**tool, tool_use_id="t2", tool_input={"command": "b"}))
    stored(event(**tool, tool_use_id="t3", tool_input={"command": "c"}, session_id="other"))
    query = (
        "SELECT o.content, p.content FROM observations o LEFT JOIN observations p"
        " ON p.id = o.prompt_id WHERE o.obs_type = 'command' ORDER BY o.id"
    )
    expected = [("before", None), ("a", "first"), ("b", "second"), ("c", None)]
    assert rows(private_home, query) == expected


def test_a_session_has_a_start_an_end_and_goes_on_when_resumed(private_home):
    stored(event())
    stored(event(hook_event_name="SessionEnd", reason="logout"))
    query = "SELECT project, host, ended_at IS NOT NULL FROM sessions"
    assert rows(private_home, query) == [("/nowhere/app", "claude-code", 1)]
    stored(event(prompt="one more thing"))
    assert rows(private_home, query) == [("/nowhere/app", "claude-code", 0)]


def shown(*args: str):
    return as_json(*args)


def start(source: str, session: str = "s", **fields) -> dict:
    base = {"session_id": session, "cwd": "/nowhere/app", "hook_event_name": "SessionStart"}
    return {**base, "source": source, **fields}


def test_a_session_in_which_nothing_was_done_leaves_nothing(private_home):
    stored(event(session_id="work"))
    before = [rows(private_home), rows(private_home, "SELECT * FROM sessions")]
    # What Claude Code sends for `claude mcp list`: the end of a session that never began.
    lone = SAMPLES / "claude-code-2.1.325" / "claude-code_SessionEnd-of-mcp-list.json"
    stored(lone.read_bytes())
    assert "/home/dev/project" not in str(rows(private_home, "SELECT * FROM projects"))
    # One that was opened and closed again, and one that is still open.
    end = {"cwd": "/nowhere/app", "hook_event_name": "SessionEnd", "reason": "other"}
    for session in ("closed", "open"):
        assert run(start("startup", session)).returncode == 0
    stored({**end, "session_id": "closed"})
    assert rows(private_home) == [*before[0], ("Session started: startup",)]

    listed = shown("sessions", "--all")
    assert [entry["session_id"] for entry in listed] == ["work"]
    assert shown("status")["observations"]["sessions"] == 1
    assert [entry["sessions"] for entry in shown("projects")] == [1]

    stored({**end, "session_id": "open"})
    assert [rows(private_home), rows(private_home, "SELECT * FROM sessions")] == before


def gives(payload: dict, command: list[str] | None = None) -> bool:
    done = run(payload, command)
    assert (done.returncode, done.stderr) == (0, b"")
    return b"Recent Context" in done.stdout


def test_a_session_is_given_its_context_once_until_it_loses_it(private_home):
    stored(event(session_id="earlier", prompt="rewrite the parser of the importer"))
    assert gives(start("startup"))
    assert not gives(start("startup"))
    stored(event(prompt="and the lexer"))
    assert not gives(start("resume"))
    assert not gives(start("resume", seconds_since_last_response=3))

    compacted = start("compact", prompt_id="c1", model="m")
    assert gives(compacted)
    assert not gives(compacted)  # A second hook for the same event.
    assert not gives(start("resume", seconds_since_last_response=4))
    assert gives(start("compact", prompt_id="c2", model="m"))


@pytest.mark.parametrize("host", ["gemini", "qwen"])
def test_hosts_that_drop_the_context_on_resuming_are_given_it_again(private_home, host):
    hook = [*patient_hook(), "--host", host]
    stored(event(session_id="earlier", prompt="rewrite the parser of the importer"))
    stamp = "2026-11-16T09:06:0{}.127Z"
    assert gives(start("startup", timestamp=stamp.format(0)), hook)
    resumed = start("resume", timestamp=stamp.format(1))
    assert gives(resumed, hook)
    assert not gives(resumed, hook)


def test_a_session_is_not_given_its_own_prompt(private_home):
    # Copilot CLI reports the first prompt before the start.
    stored(event(prompt="rewrite the parser of the importer"))
    assert not gives(start("startup"))
    assert gives(start("startup", "another"))


def test_a_resumed_session_that_was_never_given_a_context_gets_it_once(private_home):
    stored(event(session_id="earlier", prompt="rewrite the parser of the importer"))
    assert gives(start("resume", "old"))
    assert not gives(start("resume", "old", seconds_since_last_response=3))


def test_an_alias_leads_to_its_project(private_home):
    stored(event())
    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection, connection:
        connection.execute("INSERT INTO projects VALUES ('main', 'main', 1, 0)")
        connection.execute("INSERT INTO project_aliases VALUES ('/nowhere/app', 'main')")
    stored(event())
    query = "SELECT project FROM observations ORDER BY id"
    assert rows(private_home, query) == [("/nowhere/app",), ("main",)]


def test_a_locked_database_sends_events_to_the_spool_and_the_next_call_drains_it(private_home):
    stored(event(prompt="first"))
    with closing(sqlite3.connect(private_home / "zapomni.db", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        secret = "gh" + "p_" + "a1B2c3D4e5F6" * 3
        waiting = event(prompt=f"second {secret}")
        stored(waiting)
        stored(event(prompt="third"))
        spooled = sorted((private_home / "spool").iterdir())
        assert len(spooled) == 2
        for path in spooled:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert secret.encode() not in path.read_bytes()
        holder.execute("ROLLBACK")
    (private_home / "spool" / "00000000000000000001-1.part").touch()
    # An event that is ignored drains too; what is delivered again is known already.
    stored(event(hook_event_name="Stop"))
    assert len(rows(private_home)) == 3
    stored(waiting)
    contents = [content for (content,) in rows(private_home)]
    assert contents[0] == "first"
    assert contents[1].startswith("second [REDACTED:github-pat:")
    assert contents[2:] == ["third"]
    assert list((private_home / "spool").iterdir()) == []
    counters = dict(rows(private_home, "SELECT name, value FROM capture_counters"))
    assert counters == {"captured": 3, "redacted": 1, "spooled": 2, "drained": 2}


def test_a_spooled_file_nobody_can_read_is_counted_as_lost_and_set_aside(private_home):
    stored(event())
    (private_home / "spool").mkdir()
    (private_home / "spool" / "00000000000000000001-1.json").write_text("{", encoding="utf-8")
    stored(event())
    stored(event())
    lost = rows(private_home, "SELECT value FROM capture_counters WHERE name = 'lost'")
    assert lost == [(1,)]
    assert [path.name for path in (private_home / "spool").iterdir()] == ["bad"]
    assert len(list((private_home / "spool" / "bad").iterdir())) == 1


def test_the_setting_storage_is_followed(tmp_path, private_home):
    stored(event(), ZAPOMNI_STORAGE=str(tmp_path / "elsewhere.db"))
    assert (tmp_path / "elsewhere.db").exists()
    private_home.joinpath("config.toml").write_text(
        f'storage = "sqlite:///{tmp_path}/third.db"', encoding="utf-8"
    )
    stored(event())
    assert (tmp_path / "third.db").exists()
    assert not (private_home / "zapomni.db").exists()


def test_nothing_is_written_where_the_agent_works(tmp_path, private_home):
    work = tmp_path / "work"
    work.mkdir()
    stored(event(cwd=str(work)))
    assert list(work.iterdir()) == []
    assert rows(private_home, "SELECT key, name FROM projects") == [(str(work), "work")]


def test_a_home_that_cannot_be_written_is_exit_code_1(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = run(event(), ZAPOMNI_HOME=str(tmp_path / "file" / "home"))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.count(b"\n") == 1


# --- The context of a new session -------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "start"),
    [
        ("claude-code", {}),
        ("codex", {"model": "m", "permission_mode": "default"}),
        ("gemini", {"timestamp": "2026-01-01T00:00:00Z"}),
    ],
)
def test_a_new_session_is_told_as_its_host_wants_it(host, start):
    stored(event(prompt="rewrite the parser of the importer"))
    given = event(hook_event_name="SessionStart", source="startup", session_id="new", **start)
    done = run(given, patient_hook(host))
    assert (done.returncode, done.stderr) == (0, b"")
    told = json.loads(done.stdout)["hookSpecificOutput"]
    assert told["hookEventName"] == "SessionStart"
    assert "rewrite the parser" in told["additionalContext"]
    assert len(told["additionalContext"]) < 8000


def test_cursor_and_plain_programs_have_their_own_way():
    stored(event(prompt="rewrite the parser of the importer"))
    cursor = {"hook_event_name": "sessionStart", "conversation_id": "c", "cwd": "/nowhere/app"}
    assert "rewrite the parser" in json.loads(run(cursor).stdout)["additional_context"]
    plain = {"event": "session_start", "session_id": "x", "cwd": "/nowhere/app"}
    assert b"rewrite the parser" in run(plain).stdout


def test_a_new_session_is_told_even_while_the_database_is_locked(private_home):
    stored(event(prompt="rewrite the parser of the importer"))
    with closing(sqlite3.connect(private_home / "zapomni.db", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        done = run(event(hook_event_name="SessionStart", source="clear", session_id="new"))
        assert b"rewrite the parser" in done.stdout
    assert done.returncode == 0


def test_a_rule_in_a_prompt_waits_in_the_inbox_once_and_becomes_no_memory(private_home):
    stored(event(prompt="fix the login bug"))
    stored(event(prompt="Looks good. From now on use pnpm instead of npm."))
    stored(event(session_id="later", prompt="from now on use pnpm instead of npm"))
    spooled = event(prompt="never push to main")
    with closing(sqlite3.connect(private_home / "zapomni.db", isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        stored(spooled)
    stored(event(prompt="what is next?"))
    query = "SELECT kind, text, state, observation IS NOT NULL FROM review_items ORDER BY id"
    assert rows(private_home, query) == [
        ("candidate", "From now on use pnpm instead of npm.", "open", 1),
        ("candidate", "Never push to main", "open", 1),
    ]
    assert rows(private_home, "SELECT count(*) FROM memories") == [(0,)]


def test_a_hook_that_meets_an_older_database_makes_the_inbox(private_home):
    stored(event())
    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection:
        connection.executescript(
            "DROP TRIGGER review_items_forget; DROP TABLE review_items;"
            " DROP TABLE review_state; PRAGMA user_version = 13"
        )
    stored(event(prompt="Always run make lint before pushing."))
    assert rows(private_home, "SELECT text FROM review_items") == [
        ("Always run make lint before pushing.",)
    ]
