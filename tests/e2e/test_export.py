"""`zapomni export`: one file per memory, written only when it changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import NOTE, zapomni

pytestmark = pytest.mark.usefixtures("_words_only")


@pytest.fixture
def _words_only(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def add(text: str, *args: str) -> str:
    done = zapomni("add", text, "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["memory_id"]


def export(*args: str | Path) -> dict:
    done = zapomni("export", *map(str, args), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def record(folder: Path, memory_id: str) -> dict:
    return json.loads((folder / "memories" / memory_id[:2] / f"{memory_id}.json").read_bytes())


def test_exporting_twice_writes_nothing_and_a_change_writes_one_file(tmp_path):
    folder = tmp_path / "out"
    first = add(NOTE, "--tag", "b", "--tag", "a", "--kind", "decision")
    second = add("Another one.")
    assert export(folder)["written"] == 2
    before = files(folder)
    assert export(folder)["unchanged"] == 2
    assert files(folder) == before
    assert record(folder, first)["tags"] == ["a", "b"]
    assert "history" not in record(folder, first)
    assert list(record(folder, first)) == sorted(record(folder, first))
    zapomni("update", second, "--text", "Another one, changed.")
    assert export(folder)["written"] == 1
    changed = {name for name, now in files(folder).items() if before.get(name) != now}
    assert changed == {f"memories/{second[:2]}/{second}.json"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in [folder, *folder.rglob("*")])
    assert str(folder) in (Path(os.environ["ZAPOMNI_HOME"]) / "exports.jsonl").read_text()


def as_json(*args: str | Path) -> dict:
    done = zapomni(*map(str, args), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def other_home(tmp_path, monkeypatch):
    """Move to another home, which is empty."""

    def move() -> None:
        monkeypatch.setenv("ZAPOMNI_HOME", str(tmp_path / "other"))

    return move


def test_another_home_imports_an_export_verbatim_and_can_trust_it_or_take_it_back(
    tmp_path, other_home
):
    folder, lines = tmp_path / "out", tmp_path / "out.jsonl"
    secret = "ghp_" + "a1B2" * 9
    first = add("We chose Postgres.", "--kind", "decision")
    second = add(f"The token is {secret}.", "--supersedes", first)
    zapomni("update", second, "--text", f"The new token is {secret}.")
    assert export(folder, "--with", "all")["written"] == 2
    assert as_json("export", "--jsonl", lines, "--with", "all")["written"] == 2
    assert as_json("export", "--jsonl", lines, "--with", "all")["unchanged"] == 2
    printed = zapomni("export", "--jsonl", "-", "--with", "all").stdout
    assert printed == lines.read_bytes()
    before = files(folder)
    other_home()
    assert as_json("import", folder, "--dry-run")["added"] == 2
    assert as_json("list")["total"] == 0
    printed = zapomni("import", str(folder))
    assert b"Imported 2 memories." in printed.stdout
    assert b"secrets" in printed.stderr
    assert secret.encode() not in printed.stderr
    again = tmp_path / "again"
    export(again, "--with", "all")
    assert {k: v for k, (v, _) in files(again).items()} == {k: v for k, (v, _) in before.items()}
    assert as_json("import", lines)["unchanged"] == 2
    (batch,) = as_json("import", "--batches")
    assert not as_json("get", second)["trusted"]
    zapomni("import", "--trust", batch["id"])
    assert as_json("get", second)["trusted"]
    # Trusting is no change of the memory.
    assert export(again, "--with", "all")["written"] == 0
    zapomni("import", "--undo", batch["id"], "--yes")
    assert as_json("list")["total"] == 0


def test_what_agents_did_is_exported_and_imported_on_request_only(tmp_path, other_home):
    event = {"session_id": "s", "cwd": str(tmp_path), "hook_event_name": "UserPromptSubmit"}
    given = json.dumps({**event, "prompt": "Why do deploys fail?"}).encode()
    assert zapomni("record", given=given).returncode == 0
    add(NOTE)
    out = tmp_path / "out"
    assert export(out)["observations"] == 0
    assert not (out / "observations").exists()
    report = export(out, "--with", "observations", "--with", "projects")
    assert report["observations"] == 1
    other_home()
    assert as_json("import", out)["observations"] == 0
    assert b"deploys fail" not in zapomni("recent", "--all").stdout
    assert as_json("import", out, "--observations")["observations"] == 1
    assert as_json("import", out, "--observations")["observations"] == 0
    assert b"deploys fail" in zapomni("recent", "--all").stdout


def test_what_is_no_export_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    for args in (["export"], ["import"]):
        done = zapomni(*args, str(tmp_path / "notes"))
        assert done.returncode == 2
        assert b"no export of Zapomni" in done.stderr
    assert zapomni("export").returncode == 2
    done = zapomni("export", "--jsonl", str(tmp_path / "missing" / "x.jsonl"))
    assert done.returncode == 2
    assert b"missing or may not be written to" in done.stderr
    assert zapomni("import", str(tmp_path / "missing.jsonl")).returncode == 2


def test_an_export_is_named_once_by_a_purge(tmp_path):
    add(NOTE)
    for _ in range(2):
        export(tmp_path / "out")
    lines = (Path(os.environ["ZAPOMNI_HOME"]) / "exports.jsonl").read_text().splitlines()
    assert len(lines) == 1
    done = zapomni("purge", "--search", "Tuesdays", "--in", "all", "--yes")
    assert str(tmp_path / "out").encode() in done.stdout + done.stderr


def test_an_export_that_is_killed_leaves_whole_files_and_is_completed_by_the_next(tmp_path):
    moments = dict.fromkeys(("created_at", "updated_at", "occurred_at"), "2026-01-31T12:00:00Z")
    lines = [{"format": 1, "zapomni": "export"}]
    lines += [{"id": f"note-{n:04}", "text": f"Note {n}.", **moments} for n in range(300)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert as_json("import", tmp_path / "in.jsonl")["added"] == 300
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "zapomni_cli", "export", str(folder)]
    killed = 0
    for _ in range(2):
        before = len(list(folder.rglob("*.json")))
        child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while child.poll() is None and len(list(folder.rglob("*.json"))) <= before + 5:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        killed += child.poll() is None
        child.kill()
        child.wait(60)
        for path in folder.rglob("*.json"):
            json.loads(path.read_bytes())
    assert killed
    report = export(folder)
    assert len(list((folder / "memories").rglob("*.json"))) == report["memories"] == 300
    assert not list(folder.rglob(".zapomni-part-*"))
