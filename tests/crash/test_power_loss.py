"""Power is lost at any moment: nothing acknowledged is gone, nothing half, nothing damaged."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import power
import pytest
from recorders import record_one

from builders import SPACE, memory, vector
from figures import note
from zapomni_core.modules.memories import reembed
from zapomni_db.models import EmbeddingSpace, MemoryPatch
from zapomni_db.sqlite import connection, damage, migrations, purging
from zapomni_db.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.skipif(power.why_not() is not None, reason=power.why_not() or "")

# `make soak` asks for twenty times as many.
POINTS = int(os.environ.get("POWER_POINTS", "150"))

State = dict[str, tuple[str, int]]


def read_state(db: sqlite3.Connection) -> State:
    """Return every memory's text and how many passages it has, by id."""
    rows = db.execute(
        "SELECT m.id, t.text, (SELECT count(*) FROM chunks c WHERE c.memory_key = m.key)"
        " FROM memories m JOIN memory_texts t ON t.memory_key = m.key"
    )
    return {name: (text, chunks) for name, text, chunks in rows}


def look(path: Path) -> State:
    db = connection.connect(path)
    try:
        return read_state(db)
    finally:
        db.close()


def read_files(path: Path) -> dict[str, bytes]:
    parts = [path.with_name(path.name + end) for end in ("", "-wal")]
    return {part.name: part.read_bytes() for part in parts if part.exists()}


def judge(
    recording: power.Recording,
    path: Path,
    start: dict[str, bytes],
    check: Callable[[sqlite3.Connection, object], str | None],
    share: float,
    seed: int = 7,
) -> list[str]:
    """Cut the power at many places and return what was wrong after each restart."""
    wrong = []
    recording.running = False
    points = max(1, int(POINTS * share))
    for crash in power.crashes(recording, points, seed, start):
        shutil.rmtree(path.parent)
        path.parent.mkdir(mode=0o700)
        for name, content in crash.files.items():
            path.with_name(name).write_bytes(content)
        try:
            connection.prepare_file(path)
            db = connection.connect(path)
            try:
                problem = str(dict(damage.check_integrity(db)) or "") or check(db, crash.mark)
            finally:
                db.close()
        except Exception as error:  # noqa: BLE001 - whatever stops a restart is damage
            problem = f"cannot be opened: {error!r}"
        if problem:
            wrong.append(f"{crash.mode} at {crash.place}: {problem}")
    return wrong


def note_points(promise: str, what: str, share: float) -> None:
    note(promise, what, f"{int(POINTS * share):,} places, 0 lost, 0 half, 0 damaged")


def write_much(path: Path, share: float) -> list[str]:
    """Add, update and delete, each acknowledged; then cut the power and compare."""
    states: list[State] = [{}]
    connection.prepare_file(path)
    start = read_files(path)
    dice = random.Random(11)

    async def work(recording: power.Recording) -> None:
        async with SqliteStorage(path) as storage:
            recording.mark(0)
            live: list[str] = []
            for number in range(120):
                what = dice.choice(["add", "add", "update", "delete"]) if live else "add"
                if what == "add":
                    parts = dice.randrange(1, 6)
                    words = " | ".join(f"note {number} part {i} " * 30 for i in range(parts))
                    made = memory(words, *[vector(1, i) for i in range(parts)])
                    live.append(await storage.store_memory(made))
                elif what == "update":
                    text = f"changed {number} " * dice.randrange(1, 400)
                    new = memory(text, vector(0, 1))
                    patch = MemoryPatch(text=text, chunks=new.chunks, space=SPACE)
                    assert await storage.update_memory(dice.choice(live), patch)
                else:
                    gone = live.pop(dice.randrange(len(live)))
                    assert await storage.delete_memory(gone)
                states.append(await asyncio.to_thread(look, path))
                recording.mark(number + 1)
                if number % 40 == 39:
                    # What SQLite does by itself after a thousand pages.
                    db = connection.connect(path)
                    db.execute("PRAGMA wal_checkpoint(RESTART)")
                    db.close()

    def check(db: sqlite3.Connection, mark: object) -> str | None:
        acknowledged = mark if isinstance(mark, int) else 0
        found = read_state(db)
        if found in states[acknowledged : acknowledged + 2]:
            return None
        return "acknowledged lost" if found in states else "half of a write"

    with power.record(path.parent) as recording:
        asyncio.run(work(recording))
        return judge(recording, path, start, check, share)


def test_no_write_that_was_acknowledged_is_lost_and_none_is_half(tmp_path):
    assert write_much(tmp_path / "home" / "zapomni.db", 0.5) == []
    note_points("durable-writes", "power lost while adding, updating and deleting", 0.5)


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_the_shim_finds_the_loss_where_there_is_one(tmp_path, monkeypatch, synchronous):
    weaker = f"PRAGMA synchronous = {synchronous}"
    pragmas = [weaker if "synchronous" in p else p for p in connection._PRAGMAS]
    assert weaker in pragmas
    monkeypatch.setattr(connection, "_PRAGMAS", tuple(pragmas))
    monkeypatch.setattr("test_power_loss.POINTS", 100)

    wrong = write_much(tmp_path / "home" / "zapomni.db", 0.6)

    assert [line for line in wrong if line.endswith("acknowledged lost")]


def test_no_event_that_a_hook_acknowledged_is_lost(private_home):
    path = private_home / "zapomni.db"
    connection.prepare_file(path)
    start = read_files(path)

    def check(db: sqlite3.Connection, mark: object) -> str | None:
        stored = [text for (text,) in db.execute("SELECT content FROM observations ORDER BY id")]
        acknowledged = mark if isinstance(mark, int) else 0
        expected = [f"prompt {number}" for number in range(len(stored))]
        if stored != expected:
            return "events are half or out of order"
        return None if len(stored) >= acknowledged else "acknowledged lost"

    with power.record(path.parent) as recording:
        # A server that has the file open: else the end of each hook would write out the log.
        server = connection.connect(path)
        read_state(server)
        for number in range(40):
            assert record_one(str(number)) == 0
            recording.mark(number + 1)
        server.close()
        assert judge(recording, path, start, check, 0.1) == []
    note_points("durable-capture", "power lost while hooks record", 0.1)


def test_a_migration_that_is_cut_off_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "home" / "zapomni.db"
    with monkeypatch.context() as old:
        old.setattr(migrations, "LATEST_VERSION", 1)
        old.setattr(connection, "LATEST_VERSION", 1)
        connection.prepare_file(path)
    db = connection.connect(path)
    with connection.write_transaction(db):
        for key in range(1, 41):
            text = f"old note {key} " * 40
            db.execute(
                "INSERT INTO memories (key, id, content_hash, project, source, kind, metadata,"
                " preview, length, created_at, updated_at)"
                " VALUES (?, ?, ?, '', '', 'note', '{}', ?, ?, 1, 1)",
                (key, f"id-{key}", bytes(32), text[:20], len(text)),
            )
            db.execute("INSERT INTO memory_texts VALUES (?, ?)", (key, text))
            db.execute(
                "INSERT INTO chunks (memory_key, position, start_char, end_char, text, text_hash,"
                " metadata) VALUES (?, 0, 0, ?, ?, ?, '{}')",
                (key, len(text), text, bytes(32)),
            )
    before = read_state(db)
    db.close()
    start = read_files(path)
    latest = migrations.LATEST_VERSION
    assert latest > 1

    def check(db: sqlite3.Connection, _mark: object) -> str | None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version != latest:
            return f"version {version}"
        return None if read_state(db) == before else "memories lost"

    with power.record(path.parent) as recording:
        connection.prepare_file(path)
        assert judge(recording, path, start, check, 0.15) == []
    note_points("durable-writes", "power lost during a migration", 0.15)


def test_a_purge_that_is_cut_off_leaves_every_memory_whole_or_gone(tmp_path):
    path = tmp_path / "home" / "zapomni.db"

    async def fill() -> None:
        async with SqliteStorage(path) as storage:
            for number in range(60):
                word = "unwanted" if number % 3 == 0 else "wanted"
                text = f"{word} {number} " * 60
                await storage.store_memory(memory(text, vector(1, number)))

    asyncio.run(fill())
    start, before = read_files(path), look(path)
    kept = {name: row for name, row in before.items() if row[0].startswith("wanted")}
    assert 0 < len(kept) < len(before)

    def check(db: sqlite3.Connection, mark: object) -> str | None:
        found = read_state(db)
        if mark == "purged" and found != kept:
            return "purged memories are back"
        whole = kept.items() <= found.items() <= before.items()
        return None if whole else "a memory is lost or half"

    with power.record(path.parent) as recording:
        db = connection.connect(path)
        chosen = purging.find_memories(db, purging.PurgeSelection(search="unwanted"))
        assert purging.delete_memories(db, list(chosen)) == len(before) - len(kept)
        assert purging.scrub(db) is True
        recording.mark("purged")
        db.close()
        assert judge(recording, path, start, check, 0.15) == []
    note_points("durable-writes", "power lost during a purge", 0.15)


class OtherModel:
    """An embedding chain of one model, whose vectors have three dimensions."""

    SPACE = EmbeddingSpace(model="other-model", dimension=3, sha256="11")

    class Made:
        def __init__(self, texts: list[str]) -> None:
            self.space = OtherModel.SPACE
            self.texts = [OtherModel.Vector() for _ in texts]

    class Vector:
        vector, tokens = (1.0, 0.0, 0.0), None

    @property
    def embedders(self) -> list[OtherModel]:
        return [self]

    async def space(self) -> EmbeddingSpace:
        return self.SPACE

    async def embed(self, texts: list[str], _space: object, _code: object) -> OtherModel.Made:
        return self.Made(texts)


def test_a_change_of_models_that_is_cut_off_mixes_and_loses_nothing(tmp_path):
    path = tmp_path / "home" / "zapomni.db"

    async def fill() -> None:
        async with SqliteStorage(path) as storage:
            for number in range(80):
                await storage.store_memory(memory(f"note {number} " * 40, vector(1, number)))

    async def change(recording: power.Recording) -> None:
        async with SqliteStorage(path) as storage:
            assert await reembed(storage, OtherModel()) == 80
            recording.mark("changed")

    asyncio.run(fill())
    start, before = read_files(path), look(path)

    def check(db: sqlite3.Connection, mark: object) -> str | None:
        if read_state(db) != before:
            return "memories lost"
        model, vectors = db.execute(
            "SELECT s.model, (SELECT count(*) FROM chunk_vectors v WHERE v.space_key = s.key)"
            " FROM embedding_spaces s WHERE s.active = 1"
        ).fetchone()
        if mark == "changed" and model != "other-model":
            return "the old model is back"
        return None if vectors == 80 else f"{vectors} vectors of {model}"

    with power.record(path.parent) as recording:
        asyncio.run(change(recording))
        assert judge(recording, path, start, check, 0.1) == []
    note_points("durable-writes", "power lost during a change of models", 0.1)
