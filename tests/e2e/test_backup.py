"""Backups and restores as a user makes them, while other processes are at work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from writers import add_forever

from command import add, answer, as_json, refused, until, zapomni
from servers import Answer, serve
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.settings import load_settings
from zapomni_db.sqlite import connection, migrations

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def words_only(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def memories_in(path: Path) -> int:
    db = sqlite3.connect(path)
    try:
        return db.execute("SELECT count(*) FROM memories").fetchone()[0]
    finally:
        db.close()


def test_a_backup_of_a_live_database_is_whole_where_a_plain_copy_is_empty(private_home, tmp_path):
    async def fifty_memories() -> tuple[int, dict]:
        async with await create_engine(load_settings()) as engine:
            await engine.add_memories([AddMemoryRequest(text=f"Note {n}.") for n in range(50)])
            shutil.copyfile(private_home / "zapomni.db", tmp_path / "plain.db")
            return await asyncio.to_thread(as_json, "backup")

    made = asyncio.run(fifty_memories())
    assert made["tables"]["memories"] == made["tables"]["memory_texts"] == 50
    assert memories_in(Path(made["path"])) == 50
    with pytest.raises((sqlite3.Error, AssertionError)):
        assert memories_in(tmp_path / "plain.db") == 50


def test_backups_made_while_others_write_are_checked_private_and_hold_no_half(
    private_home, tmp_path
):
    writer = SPAWN.Process(
        target=add_forever, args=(str(private_home), str(tmp_path / "report"), "w")
    )
    writer.start()
    try:
        until(
            lambda: (tmp_path / "report").exists() and b"ack" in (tmp_path / "report").read_bytes()
        )
        made = [as_json("backup", *(["--compact"] if n % 2 else [])) for n in range(4)]
    finally:
        writer.kill()
        writer.join()
    counts = []
    for copy in made:
        path = Path(copy["path"])
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent == private_home / "backups"
        db = sqlite3.connect(path)
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (count,) = db.execute(
            "SELECT count(*) FROM memories JOIN memory_texts ON memory_key = memories.key"
        ).fetchone()
        db.close()
        assert count == copy["tables"]["memories"] == copy["tables"]["memory_texts"]
        counts.append(count)
    assert counts == sorted(counts)
    # One file each: no log, no half-made copy.
    assert {path.suffix for path in (private_home / "backups").iterdir()} == {".db"}
    assert (private_home / "backups").stat().st_mode & 0o777 == 0o700


def test_a_backup_that_is_killed_leaves_no_file_under_a_backups_name(private_home):
    async def some() -> None:
        async with await create_engine(load_settings(embedder="none")) as engine:
            texts = [f"Note {n} " + "many words " * 20 for n in range(300)]
            await engine.add_memories([AddMemoryRequest(text=text) for text in texts])

    asyncio.run(some())
    with contextlib.closing(sqlite3.connect(private_home / "zapomni.db")) as db:
        db.execute("UPDATE memory_texts SET text = text || hex(randomblob(20000))")
        db.commit()
    folder = private_home / "backups"
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-m", "zapomni_cli", "backup"])
        until(lambda child=child: child.poll() is not None or any(folder.glob("*.part")))
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=300)
    for path in folder.glob("*.db"):
        assert memories_in(path) == 300
    done = as_json("backup")
    assert done["tables"]["memories"] == 300
    assert not list(folder.glob("*.part*"))


def test_restore_brings_everything_back_and_can_be_taken_back(private_home):
    first = add("The first note.")
    backup = answer("backup").strip()
    second = add("The second note.")

    told = zapomni("restore", backup, "--yes")
    assert told.stdout.startswith(b"Restored 1 memory, 1 passage")
    assert [m["memory_id"] for m in as_json("list")["items"]] == [first]

    (before,) = re.findall(r"before: (.+)", told.stderr.decode())
    assert as_json("restore", Path(before).name, "--yes")["problems"] == {}
    assert {m["memory_id"] for m in as_json("list")["items"]} == {first, second}
    assert memories_in(Path(before)) == 2


def test_a_restore_asks_first_and_without_a_file_lists_what_there_is(private_home):
    add("A note.")
    assert "no backup yet" in zapomni("restore").stderr.decode()
    backup = answer("backup").strip()
    assert refused(130, "restore", backup, given=b"n\n")
    (listed,) = as_json("restore")
    assert (listed["path"], listed["reason"]) == (backup, "manual")
    assert Path(backup).name in answer("restore")


def test_processes_that_have_the_file_open_see_what_was_restored(private_home):
    async def story() -> None:
        async with await create_engine(load_settings()) as engine:
            old = (
                await engine.add_memory(AddMemoryRequest(text="Deploys are on Tuesday."))
            ).memory_id
            backup = (await asyncio.to_thread(answer, "backup")).strip()
            new = await engine.add_memory(AddMemoryRequest(text="Deploys are on Friday."))
            found = await engine.search_memory(SearchRequest(query="deploys"))
            assert {hit.memory_id for hit in found.results} == {old, new.memory_id}

            await asyncio.to_thread(answer, "restore", backup, "--yes")

            found = await engine.search_memory(SearchRequest(query="deploys"))
            assert {hit.memory_id for hit in found.results} == {old}
            # Acknowledged into the file everyone sees.
            later = await engine.add_memory(AddMemoryRequest(text="Deploys are on Monday."))
            shown = await asyncio.to_thread(as_json, "get", later.memory_id)
            assert shown["text"] == "Deploys are on Monday."

    asyncio.run(story())


def vectors(request) -> Answer:
    """Answer as an OpenAI-compatible server whose vectors know two subjects."""
    data = [
        {"index": n, "embedding": [1.0, 0.1] if "cat" in text else [0.1, 1.0]}
        for n, text in enumerate(request.body["input"])
    ]
    return Answer({"model": request.body["model"], "data": data})


def test_a_vector_cache_of_another_process_does_not_outlive_a_restore(private_home, monkeypatch):
    with serve(vectors) as server:
        monkeypatch.setenv("ZAPOMNI_EMBEDDER", "openai")
        monkeypatch.setenv("ZAPOMNI_OPENAI_BASE_URL", server.url + "/v1")
        monkeypatch.setenv("ZAPOMNI_EMBEDDING_MODEL", "one")

        async def story() -> None:
            async with await create_engine(load_settings()) as engine:
                await engine.add_memory(AddMemoryRequest(text="dog"))
                backup = (await asyncio.to_thread(answer, "backup")).strip()
                await engine.add_memory(AddMemoryRequest(text="cat"))
                await engine.search_memory(SearchRequest(query="cat"))

                await asyncio.to_thread(answer, "restore", backup, "--yes")

                # Takes the key that the lost memory had.
                await engine.add_memory(AddMemoryRequest(text="another dog"))
                question = SearchRequest(query="a cat-like thing", explain=True)
                found = await engine.search_memory(question)
                async with await create_engine(load_settings()) as fresh:
                    wanted = await fresh.search_memory(question)
                assert found.results == wanted.results

        asyncio.run(story())


def test_a_switch_of_models_makes_a_backup_first_and_filling_in_makes_none(
    private_home, monkeypatch
):
    with serve(vectors) as server:
        monkeypatch.setenv("ZAPOMNI_EMBEDDER", "openai")
        monkeypatch.setenv("ZAPOMNI_OPENAI_BASE_URL", server.url + "/v1")
        monkeypatch.setenv("ZAPOMNI_EMBEDDING_MODEL", "one")
        add("dog")
        answer("models", "reembed")
        assert as_json("restore") == []
        answer("models", "reembed", ZAPOMNI_EMBEDDING_MODEL="two")
    (backup,) = as_json("restore")
    assert backup["reason"] == "before-reembed"
    assert memories_in(Path(backup["path"])) == 1


@pytest.mark.parametrize("kind", ["text", "foreign", "newer", "cut", "itself", "missing"])
def test_a_file_that_is_no_backup_of_ours_is_refused_and_nothing_changes(
    kind, private_home, tmp_path
):
    add("A note " + "with many words " * 300)
    file = Path(answer("backup").strip())
    before = (private_home / "zapomni.db").read_bytes()
    said = "not a backup of Zapomni"
    if kind == "text":
        file.write_text("no database", encoding="utf-8")
    elif kind == "foreign":
        file = tmp_path / "foreign.db"
        sqlite3.connect(file).execute("CREATE TABLE memories (x)").connection.close()
    elif kind == "newer":
        db = sqlite3.connect(file)
        db.execute("PRAGMA user_version = 999")
        db.close()
        said = "newer version"
    elif kind == "cut":
        os.truncate(file, 40_000)
        said = "backup is damaged"
    elif kind == "itself":
        file, said = private_home / "zapomni.db", "the database itself"
    else:
        file, said = tmp_path / "none.db", "no such file"
    assert said in refused(2, "restore", str(file), "--yes")
    assert (private_home / "zapomni.db").read_bytes() == before
    assert not [backup for backup in as_json("restore") if backup["reason"] != "manual"]


def test_a_migration_makes_a_backup_first(private_home, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(migrations, "LATEST_VERSION", migrations.LATEST_VERSION - 1)
        older.setattr(connection, "LATEST_VERSION", migrations.LATEST_VERSION)
        connection.prepare_file(private_home / "zapomni.db")
    assert as_json("restore") == []  # Listing opens nothing.
    assert as_json("stats")["schema_version"] == migrations.LATEST_VERSION
    (backup,) = as_json("restore")
    assert backup["reason"] == "before-migration"
    db = sqlite3.connect(backup["path"])
    assert db.execute("PRAGMA user_version").fetchone()[0] == migrations.LATEST_VERSION - 1
    db.close()
    # An old backup comes back in the new schema.
    as_json("restore", backup["path"], "--yes")
    assert as_json("stats")["schema_version"] == migrations.LATEST_VERSION


def test_a_worker_makes_one_backup_a_day_and_keeps_seven_days_and_four_weeks(private_home):
    add("A note.")
    answer("backup")
    folder = private_home / "backups"
    now = datetime.now(UTC)
    for age in range(2, 90):
        (folder / f"zapomni-{now - timedelta(days=age):%Y%m%dT%H%M%SZ}-daily.db").touch()
    (folder / "zapomni-20200101T000000Z-manual.db").touch()
    (folder / "my own copy.db").touch()
    zapomni("tasks", "run", ZAPOMNI_DAILY_BACKUPS="false")
    assert len(list(folder.glob("*-daily.db"))) == 88

    zapomni("tasks", "run")
    zapomni("tasks", "run")

    names = sorted(path.name for path in folder.glob("*-daily.db"))
    days = [datetime.strptime(name[8:16], "%Y%m%d").replace(tzinfo=UTC) for name in names]
    assert len(set(days)) == len(days)
    newest = [now - timedelta(days=age) for age in (0, 2, 3, 4, 5, 6, 7)]
    assert {f"{day:%Y%m%d}" for day in newest} <= {name[8:16] for name in names}
    weeks = {f"{day:%G-%V}" for day in days}
    assert len(weeks) == 4
    assert 7 <= len(names) <= 11
    assert memories_in(folder / names[-1]) == 1
    # The user's own stay.
    assert len(list(folder.glob("*-manual.db"))) == 2
    assert (folder / "my own copy.db").exists()


def test_keep_deletes_the_users_older_copies_in_that_folder(private_home, tmp_path):
    add("A note.")
    target = tmp_path / "usb"
    for _ in range(3):
        answer("backup", "--to", str(target))
    done = as_json("backup", "--to", str(target), "--keep", "2")
    assert len(done["removed"]) == 2
    assert len(list(target.iterdir())) == 2
    assert not (private_home / "backups").exists()


def test_serving_makes_the_days_backup(private_home):
    async def story() -> None:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "zapomni_cli", "serve"], env=dict(os.environ)
        )
        async with Client(server) as client:
            await client.call_tool("add_memory", {"text": "A note."})
            folder = private_home / "backups"
            await asyncio.to_thread(until, lambda: any(folder.glob("*-daily.db")))

    asyncio.run(story())
    (backup,) = as_json("restore")
    assert backup["reason"] == "daily"
    assert json.loads(answer("stats", "--json"))["total_memories"] == 1


def test_nothing_stored_is_nothing_to_back_up(private_home):
    assert "nothing to back up" in refused(1, "backup")
