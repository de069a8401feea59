"""`zapomni db copy`: everything arrives, however often the way was interrupted."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from builders import memory
from command import on_terminal, zapomni
from zapomni_cli.main import cli, run
from zapomni_core.workflows.copy_storage import compare_storages, copy_storage
from zapomni_db.falkordb.server import start_server, stop_server
from zapomni_db.models import (
    EmbeddingSpace,
    EntityData,
    MemoryData,
    MemoryPatch,
    RelationshipData,
)
from zapomni_db.sqlite.storage import SqliteStorage

SPACE = EmbeddingSpace(model="test-model", dimension=32, sha256="5e")
# The long version: COPY_MEMORIES=5000
COUNT = int(os.environ.get("COPY_MEMORIES", "120"))
START = datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC)


def memories(count: int, seed: int = 7) -> Iterator[MemoryData]:
    """Memories with something of everything, the same ones each time."""
    chance = random.Random(seed)
    earlier: list[str] = []
    for number in range(count):
        vectors = [_vector(chance) if chance.random() < 0.9 else None for _ in range(2)]
        made = memory(
            f"note {number} über Ünïcode \N{ROCKET} | 'quoted' \\ \"more\" {chance.random()}",
            *vectors,
            memory_id=f"{number:08d}-0000-4000-8000-000000000000",
            timestamp=START + timedelta(seconds=number, microseconds=number),
            occurred_at=START - timedelta(days=number) if number % 3 else None,
            metadata={"n": number, "f": chance.random(), "deep": [{"x": None}, True, "{}"]},
            project=f"project {number % 5}",
            source=chance.choice(["", "meeting", "mail"]),
            kind=chance.choice(["note", "decision"]),
            tags=chance.sample(["a", "b", "c d", "é"], number % 4),
            pinned=number % 11 == 0,
            idempotency_key=f"key {number}" if number % 2 else None,
            supersedes=chance.choice(earlier) if number % 7 == 6 else None,
            parent=f"talk {number % 20}" if number % 3 == 0 else "",
            position=number,
            space=SPACE if any(vectors) else None,
        )
        chunks = [
            chunk.model_copy(
                update={
                    "tokens": chance.randbytes(48) if chunk.embedding else None,
                    "context": f"2024 {number}",
                    "metadata": {"page": number},
                }
            )
            for chunk in made.chunks
        ]
        earlier.append(made.memory_id)
        yield made.model_copy(update={"chunks": chunks})


def _vector(chance: random.Random) -> list[float]:
    return [chance.gauss(0, 1) for _ in range(SPACE.dimension)]


def fill(path: Path, count: int) -> None:
    async def work() -> None:
        async with SqliteStorage(path) as storage:
            made = list(memories(count))
            for start in range(0, count, 250):
                await storage.store_memories(made[start : start + 250])
            await storage.update_memory(made[1].memory_id, MemoryPatch(kind="changed"))
            entities = [
                EntityData(entity_id=f"e{n}", name=f"N {n}", type="t", confidence=n / 7, source="s")
                for n in range(7)
            ]
            related = [
                RelationshipData(
                    source_entity_id=f"e{n}",
                    target_entity_id=f"e{n - 1}",
                    relationship_type="KNOWS",
                    strength=1 / (n + 1),
                    evidence="it is said",
                )
                for n in range(1, 7)
            ]
            await storage.store_entities(entities, related)

    asyncio.run(work())


def copy(source: str | Path, target: str | Path) -> dict[str, str]:
    done = CliRunner().invoke(cli, ["db", "copy", str(source), str(target)])
    assert done.exit_code == 0, done.output
    return dict(line.split("\t") for line in done.stdout.splitlines())


@pytest.fixture
def refused(capsys):
    def check(code: int, *args: str | Path) -> str:
        assert run(["db", "copy", *map(str, args)]) == code
        return capsys.readouterr().err

    return check


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "memories.db"
    fill(path, COUNT)
    return path


@pytest.fixture
def source(tmp_path, filled) -> Path:
    """A database of one's own to copy from."""
    return shutil.copytree(filled.parent, tmp_path / "source") / filled.name


@pytest.fixture(params=["sqlite", "falkordb"])
def target(request, tmp_path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "target" / "copy.db")
    server = request.getfixturevalue("falkordb_server")
    return f"unix://{server.socket}?graph={request.getfixturevalue('falkordb_graph')}"


def test_there_and_back_everything_is_the_same(source, target, tmp_path):
    first = copy(source, target)
    assert (first["memories"], first["passages"]) == (str(COUNT), str(2 * COUNT))
    assert (first["entities"], first["relationships"]) == ("7", "6")
    assert 0 < int(first["vectors"]) < 2 * COUNT
    back = copy(target, tmp_path / "back" / "back.db")
    assert back == first


def test_a_second_run_copies_what_came_since(source, target):
    copy(source, target)

    async def add() -> None:
        async with SqliteStorage(source) as storage:
            await storage.store_memory(memory("one more"))

    asyncio.run(add())
    assert copy(source, target)["memories"] == str(COUNT + 1)


def test_a_destination_with_other_memories_is_left_alone(target, tmp_path, refused):
    other = tmp_path / "other" / "other.db"
    fill(other, 3)
    copy(other, target)
    elsewhere = tmp_path / "elsewhere" / "x.db"

    async def add() -> None:
        async with SqliteStorage(elsewhere) as storage:
            await storage.store_memory(memory("something else"))

    asyncio.run(add())
    assert "not in the source" in refused(2, elsewhere, target)
    assert copy(other, target)["memories"] == "3"


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A database of many memories, which copies only read."""
    path = tmp_path_factory.mktemp("big") / "big.db"
    fill(path, 700)
    return path


def test_a_copy_killed_again_and_again_is_whole_in_the_end(big, target):
    command = [sys.executable, "-m", "zapomni_cli", "db", "copy", str(big), target]
    killed = 0
    for _ in range(3):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = kept(target)
        while child.poll() is None and kept(target) <= before:
            time.sleep(0.03)
        if child.poll() is None:
            killed += 1
            child.kill()
        child.wait()
    assert killed
    found = copy(big, target)
    assert (found["memories"], found["passages"]) == ("700", "1400")


def kept(target: str) -> int:
    """How many memories the destination has, read behind everybody's back."""
    if not target.startswith("unix://"):
        if not Path(target).exists():
            return 0
        with closing(sqlite3.connect(target)) as connection:
            try:
                return connection.execute("SELECT count(*) FROM memories").fetchone()[0]
            except sqlite3.OperationalError:
                return 0
    where, _, graph = target.removeprefix("unix://").partition("?graph=")
    with redis.Redis(unix_socket_path=where, decode_responses=True) as client:
        if graph not in client.execute_command("GRAPH.LIST"):
            return 0
        query = "MATCH (m:Memory) RETURN count(m)"
        return client.execute_command("GRAPH.QUERY", graph, query)[1][0][0]


def test_a_difference_is_reported(source, target, refused, monkeypatch):
    async def copy_and_lose_one(origin, goal, progress):
        there = await copy_storage(origin, goal, progress)
        page = await goal.export_memories(None, 1)
        await goal.delete_memory(page.items[0].memory_id)
        return there

    monkeypatch.setattr("zapomni_cli.db.copy_storage", copy_and_lose_one)
    assert "not the same as its source" in refused(1, source, target)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "patch", [MemoryPatch(kind="x"), MemoryPatch(metadata={}), MemoryPatch(tags=["x"])]
)
async def test_a_change_too_small_for_counts_is_found_by_the_hash(source, tmp_path, patch):
    target = tmp_path / "t" / "t.db"
    async with SqliteStorage(source) as origin, SqliteStorage(target) as goal:
        await copy_storage(origin, goal, lambda *_: None)
        first, second = await compare_storages(origin, goal, lambda *_: None)
        assert first == second
        (chosen,) = (await goal.export_memories(None, 1)).items
        await goal.update_memory(chosen.memory_id, patch)
        first, second = await compare_storages(origin, goal, lambda *_: None)
        assert first != second
        # The change itself is kept as a version.
        assert replace(second, sha256=first.sha256, versions=first.versions) == first


def test_what_is_configured_needs_no_name_on_the_command_line(source, target, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_STORAGE", target)
    assert copy(source, "configured")["memories"] == str(COUNT)


def test_a_server_that_cuts_long_answers_loses_nothing(source, tmp_path):
    """The official image cuts at 10,000 rows; here it is at 100."""
    server = start_server(tmp_path / "s")
    try:
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.execute_command("GRAPH.CONFIG", "SET", "RESULTSET_SIZE", 100)
        asyncio.run(_add_long(source))
        first = copy(source, f"unix://{server.socket}")
        assert int(first["passages"]) == 2 * COUNT + 300
        assert copy(f"unix://{server.socket}", tmp_path / "back" / "back.db") == first
    finally:
        stop_server(server.folder)


async def _add_long(path: Path) -> None:
    text = " | ".join(f"part {number}" for number in range(300))
    async with SqliteStorage(path) as storage:
        await storage.store_memory(memory(text, *[None] * 300))


def test_source_and_destination_must_differ_and_exist(source, tmp_path, refused):
    assert "the same" in refused(2, source, source)
    assert "does not exist" in refused(2, tmp_path / "missing.db", source)
    assert not (tmp_path / "missing.db").exists()


def test_progress_is_shown_to_people_only(source, tmp_path):
    code, shown = on_terminal("db", "copy", str(source), str(tmp_path / "t" / "t.db"))
    assert code == 0
    assert re.search(rf"(Copying|Comparing).*{COUNT}", shown)
    assert "hold the same" in shown


def test_the_report_counts_what_the_store_counts(target, tmp_path, monkeypatch):
    """Entities and relationships that were read in memories count too, merged ones as one."""
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    home = tmp_path / "graph-home"
    (folder := tmp_path / "code").mkdir()
    (folder / "pay.py").write_text("def pay():\n    return 1\n", encoding="utf-8")

    def command(*args: str) -> str:
        done = CliRunner().invoke(cli, list(args), env={"ZAPOMNI_HOME": str(home)})
        assert done.exit_code == 0, done.output
        return done.stdout

    for person in ("Ada Lovelace", "Grace Hopper", "Alan Turing"):
        command("add", f"{person} works at Acme Corp in London and uses PostgreSQL and Redis.")
    command("add", "Zürich GmbH is a customer of Acme Corp since 2024-05-01.")
    command("index", str(folder))
    command("graph", "build")
    command("graph", "merge", "Redis", "PostgreSQL")
    counted = json.loads(command("graph", "status", "--json"))
    stats = json.loads(command("stats", "--json"))

    report = copy(home / "zapomni.db", target)

    with closing(sqlite3.connect(home / "zapomni.db")) as db:
        (stored,) = db.execute("SELECT count(*) FROM graph_entities WHERE root IS NULL").fetchone()
    # Dates, and names that are no nodes yet, are copied too.
    assert int(report["entities"]) == stats["total_entities"] == stored > counted["entities"] > 5
    edges = counted["relationships"] + counted["closed_relationships"]
    # Pairs of names that may yet turn out to be related are copied, too.
    assert int(report["relationships"]) > edges > 2
    assert int(report["mentions"]) == counted["mentions"] > 5
    assert int(report["memories"]) == stats["total_memories"] + stats["code_files"] == 5
    assert int(report["passages"]) == stats["total_chunks"]
    assert int(report["merges"]) == counted["merges"] == 1


def test_observations_and_code_are_copied_on_request_and_compared(tmp_path, monkeypatch, refused):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    monkeypatch.setenv("ZAPOMNI_HOME", str(tmp_path / "one"))
    (folder := tmp_path / "code").mkdir()
    (folder / "pay.py").write_text(
        "def pay():\n    return charge()\n\ndef charge():\n    return 1\n"
    )
    source, target = tmp_path / "one" / "zapomni.db", tmp_path / "two" / "zapomni.db"
    zapomni("index", str(folder))
    zapomni("add", "pay.py:pay charges the card.", "--cites", str(folder / "pay.py") + ":pay")
    for prompt in ("first prompt", "second prompt"):
        event = {"session_id": "s", "cwd": str(folder), "hook_event_name": "UserPromptSubmit"}
        done = zapomni("record", given=json.dumps({**event, "prompt": prompt}).encode())
        assert done.returncode == 0, done.stderr

    def copied(*more: str | Path) -> dict:
        done = zapomni("db", "copy", str(source), *map(str, more), "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    plain = copied(tmp_path / "plain" / "zapomni.db")
    assert "observations" not in plain
    both = ("--with", "observations", "--with", "code")
    report = copied(target, *both)
    assert report["same"] is True
    assert report["observations"] == 2
    assert report["code_symbols"] >= 2
    assert report["code_citations"] >= 1
    # Again: nothing is doubled.
    assert copied(target, *both) == {**report, "there": report["memories"]}

    def answers(home: Path) -> list[object]:
        recent = zapomni("recent", "--all", "--json", ZAPOMNI_HOME=str(home)).stdout
        callers = zapomni("code", "callers", "charge", "--json", ZAPOMNI_HOME=str(home)).stdout
        assert b"second prompt" in recent
        assert b"pay" in callers
        return [callers]

    assert answers(tmp_path / "two") == answers(tmp_path / "one")
    assert "same local file" in refused(2, source, "falkordb://127.0.0.1:1/x", *both)
