"""`zapomni import NAME` for every store and every agent: what comes in, once, without secrets."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from command import zapomni
from foreign_stores import SECRET, STORES

NO_MODEL = {"ZAPOMNI_EMBEDDER": "none"}


def run(*args: str) -> dict:
    done = zapomni("import", *args, "--json", **NO_MODEL)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def search(text: str) -> str:
    done = zapomni("search", text, "--all", "--json", **NO_MODEL)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def stored(home: Path) -> tuple[list, list]:
    """Return what is in the database."""
    with closing(sqlite3.connect(home / "zapomni.db")) as database:
        memories = database.execute(
            "SELECT preview, kind, origin, trusted, superseded_by, occurred_at FROM memories"
            " ORDER BY id"
        ).fetchall()
        observations = database.execute(
            "SELECT content, obs_type, timestamp, project FROM observations ORDER BY id"
        ).fetchall()
    return memories, observations


@pytest.mark.parametrize("name", STORES)
def test_a_store_is_imported_once_without_secrets(name, tmp_path, private_home):
    store, source = STORES[name], name.split(" ", 1)[0]
    user = tmp_path / "home"
    path = store.build(user)
    files = [path] if path.is_file() else sorted(path.rglob("*.*"))
    # First a file that was cut short, as a copy that is still under way.
    whole = {one: one.read_bytes() for one in files if one.is_file() and not one.is_symlink()}
    for file, content in whole.items():
        if file.suffix not in (".zip", ".db", ".vscdb") and ".obsidian" not in file.parts:
            file.write_bytes(content[: len(content) * 2 // 3])
    begun = zapomni("import", source, "--path", str(path), "--yes", "--json", **NO_MODEL)
    for file, content in whole.items():
        file.write_bytes(content)
    first = json.loads(begun.stdout) if begun.returncode == 0 else {"memories": 0}
    rest = run(source, "--path", str(path), "--yes")
    memories, observations = stored(private_home)
    assert (len(memories), len(observations)) == (store.memories, store.observations), rest
    assert first["memories"] + rest["memories"] == store.memories
    assert {(origin, trusted) for _, _, origin, trusted, *_ in memories} <= {
        (f"import:{source}", 0)
    }

    again = run(source, "--path", str(path), "--yes")
    assert (again["kept"], again["updated"], again["batch"]) == (0, 0, None)
    assert stored(private_home) == (memories, observations)
    kept = {phrase: found for phrase in store.phrases if (found := search(phrase))}
    assert all(phrase in found for phrase, found in kept.items()), kept
    for file in private_home.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_what_is_in_its_usual_place_is_listed(tmp_path, monkeypatch):
    user = tmp_path / "home"
    for store in STORES.values():
        store.build(user)
    monkeypatch.chdir(user / "shop")
    found = {one["name"]: one for one in json.loads(zapomni("import", "--json").stdout)}
    assert found.keys() >= {name.split(" ", 1)[0] for name in STORES}
    assert {name: one["records"] for name, one in found.items() if one["files"] == 1} == {
        "aider": 1, "chatgpt": 1, "claude-ai": 1, "claude-mem": 6, "cursor": 1,
        "mcp-memory": 1, "mcp-memory-service": 4, "mem0": 3, "opencode": 1,
    }  # fmt: skip
    assert (found["copilot"]["files"], found["copilot"]["records"]) == (2, 2)
    assert found["claude-mem"]["oldest"].startswith("2026-05-01")


def test_what_a_running_program_wrote_since_is_imported(tmp_path):
    path = STORES["mcp-memory-service"].build(tmp_path / "home")
    named = ("mcp-memory-service", "--path", str(path), "--yes")
    with closing(sqlite3.connect(path)) as owner:
        owner.execute("PRAGMA wal_autocheckpoint = 0")
        assert run(*named)["memories"] == 3
        assert run(*named)["unchanged"] == 1
        before = path.stat()
        owner.execute(
            "INSERT INTO memories (content_hash, content, created_at) VALUES ('n', ?, 1777630000)",
            ("Alerts go to the night shift",),
        )
        owner.commit()
        # It is in the log only, and the database as it was.
        assert (path.stat().st_mtime_ns, path.stat().st_size) == (
            before.st_mtime_ns, before.st_size,
        )  # fmt: skip
        assert run(*named)["memories"] == 1
    assert "night shift" in search("Alerts go to the night shift")


@pytest.mark.parametrize("history_first", [True, False])
def test_history_and_export_of_mem0_are_one_memory(history_first, tmp_path, private_home):
    history = STORES["mem0"].build(tmp_path)
    export = tmp_path / "all.json"
    export.write_text(
        json.dumps(
            {"results": [{"id": "m1", "memory": "Drinks coffee in the morning", "user_id": "anna",
                          "metadata": {"project": "kitchen"}}]}
        ),
        "utf-8",
    )  # fmt: skip
    for path in (history, export) if history_first else (export, history):
        run("mem0", "--path", str(path), "--yes")

    def current() -> list[str]:
        return [text for text, *_, by, _ in stored(private_home)[0] if by is None]

    assert sorted(text for text in current() if "morning" in text) == [
        "Drinks coffee in the morning"
    ]
    with closing(sqlite3.connect(history)) as database, database:
        database.execute(
            "INSERT INTO history (id, memory_id, event, new_memory, created_at, is_deleted)"
            " VALUES ('h9', 'm1', 'UPDATE', 'Drinks water in the morning', '2026-05-03', 0)"
        )
    run("mem0", "--path", str(history), "--yes")
    assert [text for text in current() if "morning" in text] == ["Drinks water in the morning"]


def test_a_note_that_changes_changes_its_memory(tmp_path, private_home):
    vault = STORES["obsidian"].build(tmp_path / "home")
    run("obsidian", "--path", str(vault), "--yes")
    (vault / "Deep" / "Starter.md").write_text("# Starter\nFed once a week in the cold.\n")
    assert run("obsidian", "--path", str(vault), "--yes")["updated"] == 1
    assert "Fed once a week" in search("Starter in the cold")
    assert len(stored(private_home)[0]) == 2


@pytest.mark.parametrize("source", sorted({name.split(" ", 1)[0] for name in STORES}))
def test_a_path_of_another_format_gets_an_error_that_says_what_to_name(source, tmp_path):
    other = tmp_path / "holiday.json"
    other.write_text('{"photos": []}')
    done = zapomni("import", source, "--path", str(other), "--yes")
    assert done.returncode == 2
    assert b"name " in done.stderr, done.stderr


def test_records_that_are_too_much_for_a_memory_are_cut_not_lost(tmp_path, private_home):
    deep: list = []
    for _ in range(200):
        deep = [deep]
    records = [
        {"memory": "A text with a \0 in it", "metadata": {"a\0": ["b\0"], "n": float("nan")}},
        {"memory": "Half a character \ud800", "metadata": {"half": {"\ud800": "\ud800"}}},
        {"memory": "Sixty categories", "categories": [f"tag{n} {'x' * 300}" for n in range(60)]},
        {"memory": "Deep metadata", "metadata": {"deep": deep}},
        {"memory": "Wide metadata", "metadata": {f"k{n}": "x" * 900 for n in range(500)}},
        {"memory": "Long names", "metadata": {"project": "p" * 3000, SECRET: [SECRET]}},
        {"memory": "A secret name", "metadata": {"project": f"p {SECRET}"}},
    ]
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps([{"id": f"r{n}", **one} for n, one in enumerate(records)]))
    graph = tmp_path / "memory.jsonl"
    name = f"{SECRET} {'N' * 900}"
    entity = {"type": "entity", "name": name, "entityType": "", "observations": ["is long"]}
    graph.write_text(json.dumps(entity) + "\n")
    report = run("mem0", "--path", str(path), "--yes")
    assert (report["memories"], report["skipped"]) == (7, {})
    assert run("mcp-memory", "--path", str(graph), "--yes")["memories"] == 1
    assert run("mem0", "--path", str(path), "--yes")["kept"] == 0
    assert "Sixty categories" in search("Sixty categories")
    for file in private_home.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
