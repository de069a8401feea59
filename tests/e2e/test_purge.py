from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from zapomni_cli import main
from zapomni_cli.spool import spool

# Looks like nothing that is redacted, and occurs nowhere else.
WORD = "quagmirewombat"


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def zapomni(*args: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "zapomni_cli", *args],
        input=given,
        capture_output=True,
        timeout=120,
        check=False,
    )


def run(*args: str) -> str:
    """Run a command in this process; faster than starting another."""
    done = CliRunner().invoke(main.cli, args)
    assert done.exit_code == 0, done.output
    return done.stdout


def as_json(*args: str):
    return json.loads(run(*args, "--json"))


def exit_code(*args: str) -> int:
    return zapomni(*args).returncode


def capture(home: Path, text: str, session: str = "s1", event: str = "UserPromptSubmit") -> None:
    from zapomni_cli.record import hook_command

    payload = {"session_id": session, "cwd": str(home.parent), "hook_event_name": event}
    done = subprocess.run(
        hook_command("claude-code"),
        input=json.dumps({**payload, "prompt": text}).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def raw_bytes(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


def ids(home: Path) -> list[str]:
    db = sqlite3.connect(home / "zapomni.db")
    found = [str(row[0]) for row in db.execute("SELECT id FROM observations ORDER BY id")]
    db.close()
    return found


def row_for_the_spool(text: str) -> dict[str, object]:
    return {
        "host": "claude-code",
        "session_id": "s9",
        "project": "/p",
        "project_name": "p",
        "branch": "",
        "timestamp": 1_800_000_000,
        "obs_type": "user_prompt",
        "source_event": "UserPromptSubmit",
        "tool_name": None,
        "file_path": None,
        "content": text,
        "metadata": None,
        "signature": None,
        "event_hash": "00" * 16,
        "repeat": "",
        "redactions": 0,
    }


def test_a_purge_shows_first_and_with_yes_leaves_no_byte(private_home):
    capture(private_home, f"The {WORD} must go")
    capture(private_home, "This one stays")
    assert WORD.encode() in raw_bytes(private_home)

    shown = zapomni("purge", "--search", WORD)
    assert WORD.encode() in shown.stdout
    assert b"1 observation would be deleted" in shown.stderr
    assert WORD.encode() in raw_bytes(private_home)

    done = zapomni("purge", "--search", WORD.upper(), "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"Purged 1 observation.\n"
    assert WORD.encode() not in raw_bytes(private_home)
    assert as_json("status")["observations"]["total"] == 1


def test_copies_made_by_zapomni_and_the_spool_are_purged_too(private_home):
    capture(private_home, f"The {WORD} must go")
    (private_home / "backups").mkdir()
    db = sqlite3.connect(private_home / "zapomni.db")
    db.execute("VACUUM INTO ?", (str(private_home / "backups" / "monday.db"),))
    db.close()
    spool(str(private_home), row_for_the_spool(f"waiting {WORD}"))
    (private_home / "spool" / "x.json.bad").write_text(f"torn {WORD}")

    answer = as_json("purge", "--search", WORD, "--yes")

    assert answer["deleted"] == 2
    assert answer["backups"] == {"monday.db": 1}
    assert answer["spool_files"] == 1
    assert WORD.encode() not in raw_bytes(private_home)


def test_purge_selects_by_session_type_age_and_id(private_home):
    for number in range(4):
        capture(private_home, f"Prompt number {number}", session=f"s{number % 2}")
    first, *rest = ids(private_home)

    assert as_json("purge", "--session", "s1")["found"] == 2
    assert as_json("purge", "--type", "file_read")["found"] == 0
    assert as_json("purge", "--older-than", "1h")["found"] == 0
    assert as_json("purge", "--older-than", "2100-01-01")["found"] == 4
    assert as_json("purge", "--project", private_home.parent.name, "--session", "s0")["found"] == 2
    assert as_json("purge", "--id", first, "--yes")["deleted"] == 1
    assert ids(private_home) == rest


def test_pinned_observations_stay_unless_they_are_named(private_home):
    capture(private_home, f"{WORD} one")
    capture(private_home, f"{WORD} two")
    first, second = ids(private_home)
    run("pin", "--observation", first)

    done = zapomni("purge", "--search", WORD, "--yes")
    assert b"1 pinned one stay" in done.stderr
    assert ids(private_home) == [first]
    assert as_json("status")["observations"]["pinned"] == 1

    assert as_json("pin", "--observation", first, "--off") == {"id": int(first), "pinned": False}
    run("pin", "--observation", first)
    assert as_json("purge", "--search", WORD, "--pinned", "--yes")["deleted"] == 1
    assert exit_code("pin", "--observation", second) == 3


def test_a_purged_memory_leaves_no_byte_and_neither_does_a_forgotten_one(private_home):
    run("add", "An ordinary note")
    purged = run("add", f"The {WORD} note " + "with many words " * 300).strip()
    assert as_json("purge", "--in", "memories", "--search", WORD)["found"] == 1
    assert as_json("purge", "--in", "memories", "--id", purged, "--yes")["deleted"] == 1
    assert WORD.encode() not in raw_bytes(private_home)
    assert exit_code("get", purged) == 3

    forgotten = run("add", f"Another {WORD}").strip()
    run("forget", forgotten, "--yes")
    assert as_json("purge", "--traces", "--yes")["deleted"] == 0
    assert WORD.encode() not in raw_bytes(private_home)
    assert as_json("status")["memories"] == 1


def test_what_has_expired_goes_and_settings_say_what_that_is(private_home, monkeypatch):
    capture(private_home, "Old and done")
    db = sqlite3.connect(private_home / "zapomni.db", isolation_level=None)
    db.execute("UPDATE observations SET timestamp = timestamp - 400 * 86400")
    db.close()
    monkeypatch.setenv("ZAPOMNI_OBSERVATION_RETENTION_DAYS", '{"user_prompt": 0}')
    assert as_json("purge", "--expired", "--yes")["deleted"] == 0
    monkeypatch.delenv("ZAPOMNI_OBSERVATION_RETENTION_DAYS")
    assert as_json("purge", "--expired")["found"] == 1
    assert as_json("purge", "--expired", "--yes")["deleted"] == 1
    assert ids(private_home) == []


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([], 2),
        (["--yes"], 2),
        (["--expired", "--traces"], 2),
        (["--expired", "--session", "s"], 2),
        (["--search", "ab"], 2),
        (["--search", ""], 2),
        (["--older-than", "soon"], 2),
        (["--in", "memories", "--session", "s"], 2),
        (["--id", "42", "--yes"], 3),
        (["--id", "x"], 3),
    ],
)
def test_a_purge_nobody_can_mean_is_refused(args, code):
    assert main.run(["purge", *args]) == code


def test_a_reader_in_the_way_is_told_with_what_to_do(private_home):
    capture(private_home, f"The {WORD} must go")
    reader = sqlite3.connect(private_home / "zapomni.db")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM observations").fetchone()
    try:
        done = zapomni("purge", "--search", WORD, "--yes")
    finally:
        reader.close()
    assert done.returncode == 1
    assert b"--traces" in done.stderr
    assert exit_code("purge", "--traces", "--yes") == 0
    assert WORD.encode() not in raw_bytes(private_home)


def test_status_says_zero_of_everything_before_the_first_capture(private_home):
    captured = as_json("status")["observations"]
    numbers = ("total", "pinned", "sessions", "bytes", "redacted", "spooled", "lost")
    assert {name: captured[name] for name in numbers} == dict.fromkeys(numbers, 0)
    assert captured["waiting_in_spool"] == 0
    assert "lost events\t0\n" in run("status")


def test_status_shows_types_hosts_and_what_waits(private_home):
    capture(private_home, "A prompt")
    spool(str(private_home), row_for_the_spool("waiting"))
    shown = run("status")
    assert "  user_prompt\t1, 0.000 MB\n" in shown
    assert "  from claude-code\t1, last 20" in shown
    assert "spooled events\t0, 1 waiting\n" in shown
