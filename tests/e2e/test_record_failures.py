"""`zapomni record` when something is wrong: events nobody can store, databases nobody can write.

As hosts run it: a process, its input, its exit code. Capture goes on after each of them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import zapomni_cli
from command import limited_hook, patient_hook
from command import zapomni as run_command
from zapomni_core.modules.observations import HOSTS
from zapomni_core.modules.observations.spool import SPOOL_FOLDER, spool_state
from zapomni_db.sqlite import LATEST_VERSION

NUMBER = iter(range(10**9))
START = {
    "claude-code": {"hook_event_name": "SessionStart", "source": "startup", "session_id": "n"},
    "codex": {"hook_event_name": "SessionStart", "source": "startup", "session_id": "n"},
    "gemini": {"hook_event_name": "SessionStart", "source": "startup", "session_id": "n"},
    "cursor": {"hook_event_name": "sessionStart", "conversation_id": "n"},
}


def prompt(text: str = "please go on", **fields) -> dict:
    base = {"session_id": "s", "cwd": "/nowhere/app", "hook_event_name": "UserPromptSubmit"}
    return {**base, "prompt_id": f"p{next(NUMBER)}", "prompt": text, **fields}


def failure(tool: str, **fields) -> dict:
    base = {"session_id": "s", "cwd": "/nowhere/app", "hook_event_name": "PostToolUseFailure"}
    return {**base, "tool_use_id": f"t{next(NUMBER)}", "tool_name": tool, "error": "no", **fields}


def marker(text: str) -> dict:
    return {"session_id": "s", "cwd": "/nowhere/app", "event": "marker", "text": text}


def run(given: dict, *options: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*patient_hook(), *options],
        input=json.dumps(given).encode(),
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **env},
    )


def stored(given: dict, *options: str) -> None:
    done = run(given, *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def zapomni(*words: str) -> subprocess.CompletedProcess[str]:
    done = run_command(*words)
    said, told = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, said, told)


def contents(home: Path) -> list[str]:
    with closing(sqlite3.connect(home / "zapomni.db")) as connection:
        found = connection.execute("SELECT content FROM observations ORDER BY id").fetchall()
    return [content for (content,) in found]


def write_spooled(home: Path, name: str, row: object) -> None:
    folder = home / SPOOL_FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(row), encoding="ascii")


def spooled_row(**fields: object) -> dict[str, object]:
    number = next(NUMBER)
    row: dict[str, object] = {
        "host": "claude-code",
        "session_id": "s",
        "project": "/nowhere/app",
        "project_name": "app",
        "branch": "",
        "timestamp": 1_790_000_000,
        "obs_type": "command_error",
        "source_event": "PostToolUseFailure",
        "tool_name": "Bash",
        "file_path": None,
        "content": f"waiting {number}",
        "metadata": None,
        "signature": None,
        "event_hash": f"{number:032x}",
        "repeat": "",
        "redactions": 0,
    }
    return {**row, **fields}


def damage(home: Path) -> None:
    (home / "zapomni.db").write_bytes(b"this is not a database at all" * 1000)
    for suffix in ("-wal", "-shm"):
        (home / f"zapomni.db{suffix}").unlink(missing_ok=True)


# --- Events that no database takes as they come -------------------------------------------


@pytest.mark.parametrize("tool", ["\ud800", "x\x00y", "a\x1b[31mb", "\x9b2J", "b" * 5_000_000])
def test_a_hostile_tool_name_is_cleaned_in_every_field_and_capture_goes_on(tool, private_home):
    stored(failure(tool))
    stored(prompt("after it"))
    assert contents(private_home)[-1] == "after it"
    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection:
        connection.text_factory = bytes
        found = connection.execute(
            "SELECT tool_name, content, signature, metadata FROM observations ORDER BY id LIMIT 1"
        ).fetchone()
    for value in filter(None, found):
        text = value.decode()
        assert len(text) <= 8192
        assert not any((ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160 for c in text)
    assert spool_state(str(private_home)) == {"waiting": 0, "bad": 0, "dropped": 0}


def test_a_secret_in_a_tool_name_reaches_no_field(private_home):
    secret = "gh" + "p_" + "a1B2c3D4e5F6" * 3
    stored(failure(f"deploy {secret}", tool_input={"note": "x"}))
    stored(failure(f"mcp__x__{secret[:4]} {secret}"))
    assert secret.encode() not in b"".join(
        path.read_bytes() for path in private_home.iterdir() if path.is_file()
    )
    assert len(contents(private_home)) == 2


def test_a_poisoned_spool_of_an_earlier_version_heals(private_home):
    """A lone surrogate in one row made every later call roll the whole batch back."""
    stored(prompt("before"))
    write_spooled(private_home, "00000000000000000001-1", spooled_row(signature="\ud800: no"))
    write_spooled(private_home, "00000000000000000002-1", spooled_row(content="good"))
    write_spooled(private_home, "00000000000000000003-1", spooled_row(branch="\udfff\x00x"))
    poisoned = spooled_row(content="half\ud800 a\x00b\x9b", metadata='{"a": "\ud800"}')
    write_spooled(private_home, "00000000000000000004-1", poisoned)
    stored(prompt("after"))
    found = contents(private_home)
    assert (found[0], found[2], found[4:]) == ("before", "good", ["half? ab", "after"])
    assert spool_state(str(private_home)) == {"waiting": 0, "bad": 0, "dropped": 0}


def test_bad_rows_are_put_aside_one_by_one_counted_and_shown(private_home):
    stored(prompt("before"))
    bad = [spooled_row(content=None), spooled_row(event_hash="xyz"), [1], spooled_row(session_id=3)]
    for position, row in enumerate(bad):
        write_spooled(private_home, f"{2 * position:020d}-1", row)
        write_spooled(private_home, f"{2 * position + 1:020d}-1", spooled_row())
    (private_home / SPOOL_FOLDER / "00000000000000000000-2.json.bad").write_text(
        "{", encoding="ascii"
    )
    stored(prompt("after"))
    found = contents(private_home)
    assert (found[0], found[-1], len(found)) == ("before", "after", 6)
    assert spool_state(str(private_home)) == {"waiting": 0, "bad": 5, "dropped": 0}
    for path in (private_home / SPOOL_FOLDER).rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077 or path.name.endswith(".json")
    captured = json.loads(zapomni("status", "--json").stdout)["observations"]
    assert (captured["bad_in_spool"], captured["lost"]) == (5, 4)
    assert "5 put aside in spool/bad" in zapomni("status").stdout
    checks = json.loads(zapomni("doctor", "--json").stdout)["checks"]
    spool = next(check for check in checks if check["name"] == "spool")
    assert spool["status"] == "failed"
    assert "5 put aside" in spool["detail"]


def test_a_row_the_database_itself_refuses_is_put_aside_and_the_rest_goes_in(private_home):
    stored(prompt("before"))
    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection, connection:
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON observations WHEN new.content LIKE 'odd%'"
            " BEGIN SELECT raise(ABORT, 'refused'); END"
        )
    write_spooled(private_home, "00000000000000000001-1", spooled_row(content="odd one"))
    write_spooled(private_home, "00000000000000000002-1", spooled_row(content="good one"))
    stored(prompt("odd too"))
    stored(prompt("after"))
    assert contents(private_home) == ["before", "good one", "after"]
    assert spool_state(str(private_home))["bad"] == 2


def test_the_spool_has_a_ceiling_and_says_what_it_refused(private_home):
    stored(prompt("before"))
    sound = (private_home / "zapomni.db").read_bytes()
    damage(private_home)
    for _ in range(9_999):
        write_spooled(private_home, f"{next(NUMBER):020d}-1", spooled_row())
    stored(prompt("the last one"))
    done = run(prompt("one too many"))
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"spool is full" in done.stderr
    assert spool_state(str(private_home)) == {"waiting": 10_000, "bad": 0, "dropped": 1}
    (private_home / "zapomni.db").write_bytes(sound)
    stored(prompt("after"))
    assert "1, the spool was full" in zapomni("status").stdout
    assert "1 dropped" in zapomni("doctor").stdout


# --- A database that cannot be written ----------------------------------------------------


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_a_damaged_database_never_blocks_an_agent(host, private_home):
    stored(marker("before"))
    damage(private_home)
    given = {
        "cline": {
            "hookName": "prompt_submit",
            "taskId": "t",
            "workspaceRoots": ["/nowhere/app"],
            "userPromptSubmit": {"prompt": "waiting"},
        },
        "copilot": {"timestamp": 1790000000000, "cwd": "/nowhere/app", "prompt": "waiting"},
        "cursor": {"hook_event_name": "beforeSubmitPrompt", "conversation_id": "c"},
        "gemini": {"hook_event_name": "BeforeAgent", "timestamp": "2026-09-21T14:13:20Z"},
        "opencode": {"hook_event_name": "chat.message"},
        "windsurf": {"agent_action_name": "pre_user_prompt", "trajectory_id": "t"},
        "generic": marker("waiting"),
    }.get(host, {})
    event = {**prompt("waiting"), **given, "tool_info": {"user_prompt": "waiting"}}
    stored(event, "--host", host)
    assert spool_state(str(private_home))["waiting"] == 1
    (private_home / "zapomni.db").unlink()
    stored(marker("after"))
    assert contents(private_home) == ["waiting", "after"]


def test_without_a_host_a_damaged_database_is_exit_code_2_and_the_event_waits(private_home):
    stored(marker("before"))
    damage(private_home)
    stored(prompt("detected"))  # A host's own form needs no option.
    done = run(marker("plain"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"zapomni doctor" in done.stderr
    assert done.stderr.count(b"\n") == 1
    (private_home / "zapomni.db").unlink()
    stored(marker("after"))
    assert contents(private_home) == ["detected", "plain", "after"]


def said(host: str, output: bytes) -> str:
    given = json.loads(output)
    if host == "cursor":
        return given["additional_context"]
    return given["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize("host", sorted(START))
def test_a_new_session_says_in_one_line_that_the_database_is_damaged(host, private_home):
    stored(marker("before"))
    damage(private_home)
    done = run({"cwd": "/nowhere/app", **START[host]}, "--host", host)
    assert (done.returncode, done.stderr) == (0, b"")
    line = said(host, done.stdout)
    assert "\n" not in line
    assert "damaged" in line
    assert "zapomni doctor" in line


def test_hooks_do_not_write_into_a_newer_schema_and_a_new_session_says_so(private_home):
    stored(prompt("before"))
    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection:
        connection.execute(f"PRAGMA user_version = {LATEST_VERSION + 1}")
    before = (private_home / "zapomni.db").read_bytes()
    stored(prompt("waiting"), "--host", "claude-code")
    done = run({"cwd": "/nowhere/app", **START["claude-code"]})
    assert done.returncode == 0
    assert "newer Zapomni" in said("claude-code", done.stdout)
    stored({**prompt(), "hook_event_name": "SessionEnd"})
    assert (private_home / "zapomni.db").read_bytes() == before
    assert spool_state(str(private_home))["waiting"] == 3
    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection:
        connection.execute(f"PRAGMA user_version = {LATEST_VERSION}")
    stored(prompt("after"))
    assert len(contents(private_home)) == 5


# --- Whatever keeps a hook waiting, it leaves in time -------------------------------------
#
# No clock is asserted: without the limit these processes would wait for ever, or until killed.


def start(*options: str, **env: str) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*limited_hook(), *options], env={**os.environ, **env}, **pipes)


def finish(process: subprocess.Popen[bytes], given: bytes | None = None) -> tuple[int, bytes]:
    """Wait without closing standard input; `given` is written to it first."""
    try:
        if given is not None:
            process.stdin.write(given)
            process.stdin.flush()
        code = process.wait(180)
    finally:
        process.kill()
    with process:
        return code, process.stderr.read()


@pytest.mark.parametrize("name", ["UserPromptSubmit", "SessionEnd"])
def test_an_input_that_is_never_closed_is_read_when_it_is_whole(name, private_home):
    stored(prompt("before"))
    given = json.dumps(prompt("whole", hook_event_name=name)).encode()
    assert finish(start(), given) == (0, b"")
    stored(prompt("after"))
    assert contents(private_home)[-1] == "after"
    assert len(contents(private_home)) == 3


@pytest.mark.parametrize("given", [b"", b'{"session_id": "s", "cwd": "/p", "hook_event'])
def test_an_input_that_never_comes_whole_is_refused(given, private_home):
    code, told = finish(start(), given)
    assert code == 1
    assert told == b"zapomni record: event refused: standard input was not closed in time\n"
    stored(prompt("after"))
    assert contents(private_home) == ["after"]


@pytest.mark.parametrize("name", ["UserPromptSubmit", "SessionStart", "SessionEnd"])
def test_a_lock_that_is_never_released_sends_the_event_to_the_spool(name, private_home):
    """The first call of all makes the database, and waits for whoever else is making it."""
    private_home.mkdir()
    folder = os.open(private_home, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        given = json.dumps(prompt(hook_event_name=name)).encode()
        assert finish(start(), given) == (0, b"")
        assert spool_state(str(private_home))["waiting"] == 1
    finally:
        os.close(folder)
    stored(prompt("after"))
    # The end of a session without work is worth no row.
    assert len(contents(private_home)) == (1 if name == "SessionEnd" else 2)


def test_a_repository_that_cannot_be_read_in_time_costs_no_event(private_home, tmp_path):
    git = tmp_path / "work" / ".git"
    git.mkdir(parents=True)
    for name in ("HEAD", "config", "commondir"):
        os.mkfifo(git / name)  # Whoever opens it for reading waits for a writer.
    given = prompt("in a strange place", cwd=str(tmp_path / "work"))
    assert finish(start(), json.dumps(given).encode()) == (0, b"")
    stored(prompt("after"))
    assert contents(private_home) == ["in a strange place", "after"]


SLOW_DISK = """
#define _GNU_SOURCE
#include <unistd.h>
int fsync(int fd) { sleep(300); return 0; }
int fdatasync(int fd) { sleep(300); return 0; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_disk_that_does_not_answer_costs_no_event(private_home, tmp_path):
    stored(prompt("before"))
    (tmp_path / "slow.c").write_text(SLOW_DISK, encoding="ascii")
    library = str(tmp_path / "slow.so")
    build = ["cc", "-shared", "-fPIC", "-o", library, str(tmp_path / "slow.c")]
    subprocess.run(build, check=True, timeout=300)
    given = json.dumps(prompt("meanwhile")).encode()
    assert finish(start(LD_PRELOAD=library), given) == (0, b"")
    stored(prompt("after"))
    assert contents(private_home) == ["before", "meanwhile", "after"]


# --- Events of a size no host should send -------------------------------------------------

SIZE = 30 * 1024 * 1024


def tool(name: str, given: object, **fields) -> dict:
    event = prompt(hook_event_name="PostToolUse", tool_use_id=f"t{next(NUMBER)}", **fields)
    return {**event, "tool_name": name, "tool_input": given}


def with_text(event: dict, text: bytes) -> bytes:
    """Write an event with a text in place of @: as JSON it would be in memory four times."""
    return json.dumps(event).encode().replace(b"@", text)


def huge_events() -> Iterator[tuple[str, bytes]]:
    words = (b"lorem ipsum password=x token secret key aws " * (SIZE // 44 + 1))[:SIZE]
    wide = b"a" * (SIZE - 4) + "\U0001f600".encode()
    output = tool("Bash", {"command": "make"}, tool_response={"stdout": "@"})
    failed = {"hook_event_name": "PostToolUseFailure", "error": "-----BEGIN PRIVATE@"}
    broken = {**tool("Bash", {"command": words[: SIZE // 4].decode()}), **failed}
    edits = [{"old_string": "@", "new_string": "a@"}] * 15
    edited = tool("MultiEdit", {"file_path": "/p/a.py", "edits": edits})
    yield "prompt", with_text(prompt("@"), words)
    yield "no blanks", with_text(prompt("@"), b"a" * SIZE)
    yield "wide", with_text(prompt("@"), wide)
    yield "output", with_text(output, words)
    yield "failure", with_text(broken, words[: SIZE // 2])
    yield "edits", with_text(edited, words[:1_000_000])
    yield "cwd", with_text(prompt(cwd="@"), b"/a" * 3_000_000)
    yield "session", with_text(prompt(session_id="@"), b"s" * 6_000_000)
    head = json.dumps(tool("mcp__a__b", None)).encode().removesuffix(b"null}")
    yield "lists", head + b"[" + b"[]," * (SIZE // 3) + b"[]]}"
    yield "objects", head + b"[" + b'{"":0},' * (SIZE // 7) + b"[]]}"
    yield "quotes", head + b'"' + b'\\",' * (SIZE // 3)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits as Linux has them")
def test_thirty_megabytes_cost_bounded_time_and_memory(private_home, tmp_path):
    stored(prompt("before"))
    # As hooks run, but without their clock: what it stops depends on what else the machine does.
    source = Path(zapomni_cli.__file__).parent.parent
    code = f"import sys; sys.path.insert(0, {str(source)!r}); from zapomni_cli.record import main"
    hook = [sys.executable, "-I", "-S", "-c", f"{code}; sys.exit(main([]))"]
    limited = ["sh", "-c", 'ulimit -v 700000 && ulimit -t 10 && exec "$0" "$@"', *hook]
    refused = []
    for name, data in huge_events():
        file = tmp_path / "event.json"
        file.write_bytes(data)
        with file.open("rb") as stream:
            done = subprocess.run(
                limited, stdin=stream, capture_output=True, timeout=120, check=False
            )
        assert done.returncode in {0, 1}, (name, done)
        assert b"not stored" not in done.stderr, (name, done)
        if done.returncode:
            refused.append(name)
        stored(prompt(f"after {name}"))
    assert refused == ["lists", "objects", "quotes"]
    assert spool_state(str(private_home)) == {"waiting": 0, "bad": 0, "dropped": 0}
    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection:
        longest = connection.execute(
            "SELECT max(length(project)), max(length(session_id)), max(length(content)),"
            " max(length(coalesce(file_path, '')))  FROM observations"
        ).fetchone()
    assert max(longest) <= 2000
    assert len(contents(private_home)) == 20


# --- What is counted ----------------------------------------------------------------------


def test_a_long_file_is_recorded_with_its_true_number_of_lines(private_home):
    text = "".join(f"line = {number}\n" for number in range(20_000))
    hunk = {"lines": [f"+{line}" for line in text.splitlines()] + ["-gone"] * 3}
    write = tool("Write", {"file_path": "/nowhere/app/a.py", "content": text})
    update = tool("Write", {"file_path": "/nowhere/app/b.py", "content": text})
    edit = {"file_path": "/nowhere/app/c.py", "old_string": "x", "new_string": text}
    patch = "*** Begin Patch\n*** Add File: d.py\n" + "".join(
        f"+{line}\n" for line in text.splitlines()
    )
    stored(write)
    stored({**update, "tool_response": {"type": "update", "structuredPatch": [hunk]}})
    stored(tool("Edit", edit))
    stored(tool("apply_patch", {"input": patch + "*** End Patch\n"}))
    counts = [content.split("\n")[0] for content in contents(private_home)]
    assert counts == ["a.py +20000 -0", "b.py +20000 -3", "c.py +20000 -1", "d.py +20000 -0"]


def test_status_shows_which_agents_are_connected_and_when_the_last_event_came(private_home):
    (private_home.parent / ".claude").mkdir()
    stored(prompt())
    shown = json.loads(zapomni("status", "--json").stdout)
    assert shown["connected"] == {"claude-code": False}
    assert shown["observations"]["last_event"] is not None
    assert "claude-code (not connected)" in zapomni("status").stdout
    zapomni("init", "--host", "claude-code", "--yes")
    assert json.loads(zapomni("status", "--json").stdout)["connected"] == {"claude-code": True}
