"""`zapomni export`: one file per memory, written only when it changes."""

from __future__ import annotations

import json
import os
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
