from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path

import pytest

from command import answer as run
from command import as_json, patient_hook, zapomni
from zapomni_core.infra.places import PLACES, find_files
from zapomni_core.modules.observations.spool import spool_row
from zapomni_core.settings import load_settings

# Looks like nothing that is redacted, and occurs nowhere else.
WORD = "quagmirewombat"


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def exit_code(*args: str) -> int:
    return zapomni(*args).returncode


def capture(home: Path, text: str, session: str = "s1", event: str = "UserPromptSubmit") -> None:
    payload = {"session_id": session, "cwd": str(home.parent), "hook_event_name": event}
    done = subprocess.run(
        patient_hook("claude-code"),
        input=json.dumps({**payload, "prompt": text}).encode(),
        capture_output=True,
        timeout=300,
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
    spool_row(str(private_home), row_for_the_spool(f"waiting {WORD}"))
    (private_home / "spool" / "x.json.bad").write_text(f"torn {WORD}")

    answer = as_json("purge", "--search", WORD, "--yes")

    assert answer["deleted"] == 2
    assert answer["backups"] == {"monday.db": 1}
    assert answer["spool_files"] == 1
    assert WORD.encode() not in raw_bytes(private_home)


def test_text_planted_in_every_way_leaves_no_byte_and_what_is_out_of_reach_is_named(
    private_home, tmp_path, monkeypatch
):
    home = private_home
    monkeypatch.chdir(tmp_path)
    # Ways in: memories with every field, a change, a file, code, the graph, tasks.
    first = run("add", f"We met the {WORD} in Paris.", "--tag", f"{WORD}-tag").strip()
    run("add", "Two", "--source", f"{WORD}.txt", "--kind", f"{WORD}kind")
    run("add", "Three", "--metadata", json.dumps({"who": WORD}))
    changed = run("add", f"Before the change: {WORD}").strip()
    run("update", changed, "--text", "After the change")
    (tmp_path / "note.md").write_text(f"# {WORD}\n\nA file about the {WORD}.", encoding="utf-8")
    run("add", "--file", str(tmp_path / "note.md"))
    source = tmp_path / "repository"
    source.mkdir()
    text = f'def {WORD}():\n    """About the {WORD}."""\n    return other_{WORD}()\n'
    (source / "code.py").write_text(text, encoding="utf-8")
    run("index", str(source))
    run("add", f"It is done by `{WORD}`.", "--cites", str(source / "code.py"))
    run("graph", "build")
    stays = run("add", "An ordinary note that stays.").strip()
    # Ways in: hooks, the spool, and what the spool put aside.
    capture(home, f"A prompt about {WORD}. Always remember the {WORD}. Never forget the {WORD}.")
    capture(home, "A prompt that stays", session="s2")
    spool_row(str(home), row_for_the_spool(f"waiting {WORD}"))
    (home / "spool" / "bad").mkdir(exist_ok=True)
    (home / "spool" / "bad" / "1.json").write_text(f"torn {WORD}", encoding="utf-8")
    # Copies of it all.
    backup = as_json("backup")["path"]
    run("backup", "--compact")
    run("restore", backup, "--yes")
    (home / "backups" / "zapomni-20260101T000000Z-manual.db.part").write_text(WORD)
    (home / "roots.json").write_text(json.dumps({f"/{WORD}/.git": "1", "/kept/.git": "2"}))
    # Out of reach.
    exported = tmp_path / "graph.graphml"
    run("graph", "export", "--to", str(exported))
    elsewhere = as_json("backup", "--to", str(tmp_path / "usb"))["path"]
    (home / "gazetteer.txt").write_text(f"{WORD}: person", encoding="utf-8")
    assert WORD.encode() in raw_bytes(home)

    done = zapomni("purge", "--in", "all", "--search", WORD, "--yes", "--json")

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    named = {entry["path"] for entry in answer["unreachable"]}
    assert named == {str(exported), elsewhere, str(home / "gazetteer.txt")}
    (home / "gazetteer.txt").unlink()
    left = [path for path in home.rglob("*") if path.is_file() and holds(path, WORD)]
    assert left == []
    # The rest is there, in the copies as well.
    assert [memory["memory_id"] for memory in as_json("list")["items"]] == [stays]
    assert as_json("status")["observations"]["total"] == 1
    assert json.loads((home / "roots.json").read_text()) == {"/kept/.git": "2"}
    assert exit_code("get", first) == 3
    assert as_json("restore", backup, "--yes")["tables"]["memories"] == 1


def holds(path: Path, word: str) -> bool:
    return word.encode() in path.read_bytes().lower()


def test_a_purge_makes_no_backup_and_names_what_is_encrypted(private_home):
    run("add", f"The {WORD} note")
    (private_home / "backups").mkdir(mode=0o700)
    sealed = private_home / "backups" / "zapomni-20260101T000000Z-manual.db.enc"
    sealed.write_bytes(b"sealed")
    shown = as_json("purge", "--in", "memories", "--search", WORD)
    assert [entry["path"] for entry in shown["unreachable"]] == [str(sealed)]
    done = zapomni("purge", "--in", "memories", "--search", WORD, "--yes")
    assert str(sealed) in done.stderr.decode()
    assert list((private_home / "backups").iterdir()) == [sealed]


def test_what_another_selection_left_is_named_after_a_search(private_home):
    run("add", f"The {WORD} note")
    capture(private_home, f"The {WORD} prompt")
    answer = as_json("purge", "--search", WORD, "--yes")
    assert answer["deleted"] == 1
    (left,) = [entry for entry in answer["unreachable"] if entry["path"].endswith("zapomni.db")]
    assert "--in all" in left["why"]


def test_every_file_in_the_home_folder_is_in_the_table_of_places(private_home):
    run("add", "A note")
    capture(private_home, "A prompt")
    run("backup")
    run("init", "--host", "cursor", "--yes")
    settings = load_settings()
    known = {path for place in PLACES for path in find_files(settings, place)}
    assert {path for path in private_home.rglob("*") if path.is_file()} <= known


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
    run("forget", "--trash", "--now", "--yes")
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
    assert exit_code("purge", *args) == code


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
    spool_row(str(private_home), row_for_the_spool("waiting"))
    shown = run("status")
    assert "  user_prompt\t1, 0.000 MB\n" in shown
    assert "  from claude-code\t1, last 20" in shown
    assert "spooled events\t0, 1 waiting\n" in shown
