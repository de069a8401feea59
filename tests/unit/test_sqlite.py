"""What is particular to the SQLite engine: the file, its schema, its cache."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from builders import SPACE, memory, vector
from zapomni_core.exceptions import (
    DatabaseConnectionError,
    DatabaseError,
    SchemaError,
    TransactionError,
)
from zapomni_db.models import (
    EmbeddingSpace,
    MemoryFilter,
    TextSearchRequest,
    VectorSearchRequest,
)
from zapomni_db.sqlite import backups, connection, migrations
from zapomni_db.sqlite import vectors as vectors_module
from zapomni_db.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "new folder" / "zapomni.db"


def near(query):
    return VectorSearchRequest(query_embedding=query, min_similarity=-1.0)


async def texts_near(storage, query):
    return [hit.text for hit in await storage.vector_search(near(query))]


def schema_of(file: Path) -> set[str]:
    with sqlite3.connect(file) as db:
        rows = db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    db.close()
    return {row[0] for row in rows}


async def test_files_and_folder_are_private_whatever_the_umask(path):
    before = os.umask(0)
    try:
        async with SqliteStorage(path) as storage:
            await storage.store_memory(memory("private"))
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()}
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert modes == {"zapomni.db": 0o600, "zapomni.db-wal": 0o600, "zapomni.db-shm": 0o600}


async def test_a_file_left_open_to_others_is_closed_to_them(path):
    async with SqliteStorage(path):
        pass
    path.chmod(0o644)

    async with SqliteStorage(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_opening_the_file_again_leaves_the_locks_of_those_who_have_it_open(path):
    """Else another process that closes it takes itself for the last, and the log away from us."""
    look = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
        " print(db.execute('SELECT count(*) FROM memories').fetchone()[0]); db.close()"
    )

    def count_elsewhere() -> int:
        command = [sys.executable, "-c", look, path]
        return int(subprocess.run(command, check=True, capture_output=True).stdout)

    async with SqliteStorage(path) as storage:
        await storage.store_memory(memory("before"))
        async with SqliteStorage(path):
            pass
        assert count_elsewhere() == 1
        assert path.with_name("zapomni.db-wal").exists()
        await storage.store_memory(memory("after"))
        assert count_elsewhere() == 2


async def test_the_house_rules_hold_on_every_connection(path):
    connection.prepare_file(path)
    db = connection.connect(path)

    def pragma(name):
        return db.execute(f"PRAGMA {name}").fetchone()[0]

    try:
        assert pragma("journal_mode") == "wal"
        assert pragma("synchronous") == 2  # FULL
        assert pragma("foreign_keys") == 1
        assert pragma("auto_vacuum") == 2  # INCREMENTAL
        assert pragma("busy_timeout") == 5000
    finally:
        db.close()


async def test_migrations_replayed_one_by_one_give_the_fresh_schema(tmp_path, monkeypatch):
    fresh = tmp_path / "fresh.db"
    connection.prepare_file(fresh)
    replayed = tmp_path / "replayed.db"
    latest = migrations.LATEST_VERSION
    for version in range(1, latest + 1):
        for module in (migrations, connection, backups):
            monkeypatch.setattr(module, "LATEST_VERSION", version)
        connection.prepare_file(replayed)

    assert schema_of(replayed) == schema_of(fresh)
    scripts = sorted(Path(migrations.__file__).parent.glob("*.sql"))
    assert [int(script.name[:4]) for script in scripts] == list(range(1, latest + 1))


async def test_a_failing_migration_changes_nothing(path, monkeypatch):
    monkeypatch.setattr(
        migrations, "_statements", lambda _: iter(["CREATE TABLE half (x)", "NOT SQL"])
    )

    with pytest.raises(SchemaError, match="unchanged") as caught:
        await SqliteStorage(path).connect()

    assert caught.value.error_code == "SCHEMA_003"
    assert schema_of(path) == set()


async def test_a_database_from_a_newer_version_is_refused_untouched(path):
    connection.prepare_file(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 999")
    db.close()
    before = path.read_bytes()

    with pytest.raises(SchemaError, match="newer version") as caught:
        await SqliteStorage(path).connect()

    assert caught.value.error_code == "SCHEMA_003"
    assert path.read_bytes() == before


async def test_another_programs_database_is_refused(tmp_path):
    file = tmp_path / "other.db"
    db = sqlite3.connect(file)
    db.execute("CREATE TABLE precious (x)")
    db.close()

    with pytest.raises(SchemaError, match="another program"):
        await SqliteStorage(file).connect()

    assert schema_of(file) == {"CREATE TABLE precious (x)"}


async def test_a_file_that_is_no_database_is_refused_untouched(tmp_path):
    file = tmp_path / "zapomni.db"
    file.write_bytes(b"this is not a database, but somebody's letter " * 100)
    before = file.read_bytes()

    with pytest.raises(SchemaError, match="damaged or not a database") as caught:
        await SqliteStorage(file).connect()

    assert caught.value.error_code == "SCHEMA_004"
    assert str(file) not in str(caught.value)
    assert file.read_bytes() == before


async def test_damage_is_found_by_the_integrity_check(path):
    async with SqliteStorage(path) as storage:
        await storage.store_memories([memory(f"note {i}", vector(1, i)) for i in range(50)])
    db = sqlite3.connect(path)
    db.execute("DELETE FROM memory_texts WHERE memory_key = 1")
    db.execute("UPDATE chunk_vectors SET vector = x'00' WHERE chunk_id = 2")
    db.execute("UPDATE chunks SET text = 'changed behind the index' WHERE id = 3")
    db.execute("UPDATE chunks SET vector_pending = 0 WHERE id = 4")
    db.execute("DELETE FROM chunk_vectors WHERE chunk_id = 4")
    db.commit()
    db.close()

    async with SqliteStorage(path) as storage:
        problems = await storage.check_integrity()

    assert set(problems) == {
        "memories without text",
        "vectors of the wrong size",
        "word index",
        "passages wrongly marked as having a vector",
    }


async def test_a_torn_page_is_reported_not_followed(path):
    async with SqliteStorage(path) as storage:
        await storage.store_memories([memory(f"note {i} " * 50) for i in range(200)])
    with path.open("r+b") as file:
        file.seek(8 * 4096)
        file.write(os.urandom(40 * 4096))

    with pytest.raises(SchemaError) as caught:
        async with SqliteStorage(path) as storage:
            await storage.list_memories(MemoryFilter(), 1000, 0)
            await storage.check_integrity()

    assert caught.value.error_code == "SCHEMA_004"


async def test_a_full_disk_loses_nothing_and_says_so(path):
    async with SqliteStorage(path) as storage:
        kept = await storage.store_memory(memory("kept before the disk was full"))

        def limit_pages(db):
            pages = db.execute("PRAGMA page_count").fetchone()[0]
            db.execute(f"PRAGMA max_page_count = {pages + 2}")

        for _ in range(8):  # every worker thread's connection
            await storage.read("limiting", limit_pages)
        with pytest.raises(DatabaseError, match="disk is full") as caught:
            for number in range(50):
                await storage.store_memory(memory(f"too much {number} " * 2000))
        assert caught.value.error_code == "DB_002"

    async with SqliteStorage(path) as storage:
        assert (await storage.get_memory(kept)).text == "kept before the disk was full"
        assert await storage.check_integrity() == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without permission")
def test_a_place_one_may_not_write_to_is_a_clear_error():
    # Not tmp_path: its parents are closed to everybody else anyway.
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        connection.prepare_file(folder / "zapomni.db")
        os.seteuid(65534)
        try:
            with pytest.raises(DatabaseConnectionError, match="is yours, is writable") as caught:
                connection.prepare_file(folder / "zapomni.db")
        finally:
            os.seteuid(0)

    assert caught.value.error_code == "CONN_003"
    assert name not in str(caught.value)


async def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with pytest.raises(DatabaseConnectionError) as caught:
        await SqliteStorage(tmp_path / "file" / "zapomni.db").connect()

    assert str(tmp_path) not in str(caught.value)


async def test_a_write_waits_its_turn_as_long_as_others_commit(path, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 5000)
    async with SqliteStorage(path) as storage:
        began = threading.Event()

        def hog() -> None:
            # Longer in all than a lock may stay; the pauses between are too short to slip into.
            db = connection.connect(path)
            for number in range(60):
                db.execute("BEGIN IMMEDIATE")
                began.set()
                db.execute("CREATE TABLE IF NOT EXISTS hog (n)")
                db.execute("INSERT INTO hog VALUES (?)", (number,))
                time.sleep(0.1)
                db.execute("COMMIT")
            db.close()

        hogging = asyncio.create_task(asyncio.to_thread(hog))
        await asyncio.to_thread(began.wait, 180)
        assert await storage.store_memory(memory("in its turn"))
        await hogging


async def test_a_lock_held_too_long_is_a_transient_error(path, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 20)
    async with SqliteStorage(path) as storage:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(TransactionError, match="try again") as caught:
                await storage.store_memory(memory("waiting"))
        finally:
            other.execute("ROLLBACK")
            other.close()
        assert caught.value.is_transient
        assert caught.value.error_code == "TXN_002"
        await storage.store_memory(memory("now it works"))


async def test_a_write_that_cannot_be_undone_says_so_and_leaves_nothing(path):
    def forbid_rollback(action, first, *_rest):
        is_rollback = action == sqlite3.SQLITE_TRANSACTION and first == "ROLLBACK"
        return sqlite3.SQLITE_DENY if is_rollback else sqlite3.SQLITE_OK

    def fail(opened):
        opened.execute("INSERT INTO projects (key, name, created_at) VALUES ('half', 'half', 0)")
        opened.set_authorizer(forbid_rollback)
        raise RuntimeError("in the middle")

    async with SqliteStorage(path) as storage:
        with pytest.raises(TransactionError) as caught:
            await storage.write("storing", fail)
        assert caught.value.error_code == "TXN_001"
        await storage.store_memory(memory("now it works"))
        assert await storage.check_integrity() == {}


async def test_vectors_written_changed_and_deleted_elsewhere_are_noticed(path):
    async with SqliteStorage(path) as reader, SqliteStorage(path) as writer:
        first = await writer.store_memory(memory("first", vector(1)))
        assert await texts_near(reader, vector(1)) == ["first"]

        await writer.store_memories([memory(f"more {i}", vector(0, 1, i)) for i in range(100)])
        assert len(await reader.vector_search(near(vector(0, 1)))) == 10
        assert await texts_near(reader, vector(1)) == await texts_near(writer, vector(1))

        await writer.delete_memory(first)
        assert "first" not in await texts_near(reader, vector(1))


async def test_far_more_vectors_than_before_are_noticed_at_once(path):
    async with SqliteStorage(path) as reader, SqliteStorage(path) as writer:
        await writer.store_memory(memory("first", vector(1)))
        assert await texts_near(reader, vector(1)) == ["first"]
        # An import by another process, between two questions.
        await writer.store_memories([memory(f"more {i}", vector(0, 1, i)) for i in range(500)])
        everything = near(vector(0, 1)).model_copy(update={"limit": 600, "min_similarity": -1.0})
        assert len(await reader.vector_search(everything)) == 501


async def test_a_cache_that_missed_pruned_changes_reloads_whole(path, monkeypatch):
    async with SqliteStorage(path) as reader, SqliteStorage(path) as writer:
        gone = await writer.store_memory(memory("gone", vector(1)))
        assert await texts_near(reader, vector(1)) == ["gone"]
        monkeypatch.setattr(vectors_module, "LOG_ENTRIES_KEPT", 2)
        await writer.delete_memory(gone)
        for number in range(5):
            await writer.store_memory(memory(f"new {number}", vector(1, number)))

        found = await texts_near(reader, vector(1))

    assert sorted(found) == [f"new {n}" for n in range(5)]


async def test_the_cache_agrees_with_the_file_after_any_mix_of_changes(path):
    async with SqliteStorage(path) as storage:
        ids = [
            await storage.store_memory(memory(f"m{i}", vector(1, i % 7, i % 3))) for i in range(40)
        ]
        await storage.vector_search(near(vector(1)))
        for memory_id in ids[::3]:
            await storage.delete_memory(memory_id)
        await storage.store_memories([memory(f"n{i}", vector(1, i)) for i in range(90)])
        cached = await storage.vector_search(
            VectorSearchRequest(query_embedding=vector(1, 2), limit=500, min_similarity=-1)
        )
    async with SqliteStorage(path) as fresh:
        loaded = await fresh.vector_search(
            VectorSearchRequest(query_embedding=vector(1, 2), limit=500, min_similarity=-1)
        )

    assert [(h.text, h.similarity_score) for h in cached] == [
        (h.text, pytest.approx(h.similarity_score)) for h in loaded
    ]
    assert len(cached) == 26 + 90


WIDE = EmbeddingSpace(model="wide", dimension=100)


@pytest.fixture
def few_are_many(monkeypatch):
    """Lets 500 vectors be as many as a large home has."""
    monkeypatch.setattr(vectors_module, "MANY_VECTORS", 500)
    monkeypatch.setattr(vectors_module, "NEAR_AT_LEAST", 300)


def clustered(count: int) -> list[list[float]]:
    dice = random.Random(3)
    centres = [[dice.gauss(0, 1) for _ in range(100)] for _ in range(20)]
    return [[x + dice.gauss(0, 0.7) for x in centres[n % 20]] for n in range(count)]


def exactly(vectors: list[list[float]], query: list[float], limit: int) -> list[float]:
    matrix = np.array(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True)
    return sorted(matrix @ query / np.linalg.norm(query), reverse=True)[:limit]


@pytest.mark.usefixtures("few_are_many")
async def test_of_very_many_vectors_the_nearest_are_still_found(path):
    vectors = clustered(1500)
    async with SqliteStorage(path) as storage:
        made = [memory(f"m{n}", v, space=WIDE, project=f"p{n % 3}") for n, v in enumerate(vectors)]
        await storage.store_memories(made)
        for query in vectors[:10]:
            asked = {"query_embedding": query, "limit": 10, "min_similarity": -1}
            found = await storage.rank_by_vector(VectorSearchRequest(**asked))
            narrow = MemoryFilter(project="p1")
            own = await storage.rank_by_vector(VectorSearchRequest(**asked, filters=narrow))
            assert list(found.scores.values()) == pytest.approx(
                exactly(vectors, query, 10), abs=1e-4
            )
            own_best = exactly(vectors[1::3], query, 10)
            assert list(own.scores.values()) == pytest.approx(own_best, abs=1e-4)
            assert (found.count, own.count) == (1500, 500)
            nearly = await storage.get_similarities(query, list(found.scores))
            assert nearly == pytest.approx(found.scores, abs=0.01)


@pytest.mark.usefixtures("few_are_many")
async def test_very_many_vectors_agree_with_the_file_after_any_mix_of_changes(path):
    vectors = clustered(1200)
    asked = VectorSearchRequest(query_embedding=vectors[0], limit=2000, min_similarity=-1)
    async with SqliteStorage(path) as storage:
        made = [memory(f"m{n}", v, space=WIDE) for n, v in enumerate(vectors[:800])]
        ids = [one.memory_id for one in await storage.store_memories(made)]
        await storage.rank_by_vector(asked)
        for memory_id in {*ids[::3], *ids[-5:]}:
            await storage.delete_memory(memory_id)
        more = [memory(f"n{n}", v, space=WIDE) for n, v in enumerate(vectors[800:])]
        await storage.store_memories(more)
        cached = await storage.rank_by_vector(asked)
        nearly = await storage.get_similarities(vectors[0], list(cached.scores))
    async with SqliteStorage(path) as fresh:
        loaded = await fresh.rank_by_vector(asked)

    assert cached.scores == pytest.approx(loaded.scores)
    assert nearly == pytest.approx(cached.scores, abs=0.01)
    assert cached.count == len(cached.scores)


@pytest.mark.usefixtures("few_are_many")
async def test_very_many_vectors_of_which_some_are_not_packed_yet_are_all_found(path):
    vectors = clustered(700)
    asked = VectorSearchRequest(query_embedding=vectors[0], limit=700, min_similarity=-1)
    async with SqliteStorage(path) as storage:
        made = [memory(f"m{n}", v, space=WIDE) for n, v in enumerate(vectors)]
        await storage.store_memories(made)
        packed = await storage.rank_by_vector(asked)
    db = sqlite3.connect(path, isolation_level=None)
    # As an older version stored them, amid others: the first rows read at once have both.
    for number in range(50, 150):
        blob = array("f", vectors[number - 1]).tobytes()
        db.execute("UPDATE chunk_vectors SET vector = ? WHERE chunk_id = ?", (blob, number))
    db.execute("UPDATE chunk_tokens SET rest = NULL WHERE chunk_id BETWEEN 50 AND 149")
    db.close()
    async with SqliteStorage(path) as fresh:
        mixed = await fresh.rank_by_vector(asked)

    assert (mixed.count, len(mixed.scores)) == (700, len(packed.scores)) == (700, 700)
    assert mixed.scores == pytest.approx(packed.scores, abs=0.01)


async def test_vectors_of_an_older_home_are_found_and_packed_little_by_little(path):
    vectors = clustered(30)
    asked = VectorSearchRequest(query_embedding=vectors[0], limit=50, min_similarity=-1)
    async with SqliteStorage(path) as storage:
        made = [memory(f"m{n}", v, space=WIDE) for n, v in enumerate(vectors)]
        await storage.store_memories(made)
    # As version 21 stored them: float32, and a row of tokens only where there are some.
    db = sqlite3.connect(path, isolation_level=None)
    for number, one in enumerate(vectors, 1):
        blob = array("f", one).tobytes()
        db.execute("UPDATE chunk_vectors SET vector = ? WHERE chunk_id = ?", (blob, number))
    db.execute("ALTER TABLE chunk_tokens DROP COLUMN rest")
    db.execute("DELETE FROM chunk_tokens WHERE chunk_id > 20")
    db.execute("DROP TABLE unpacked_vectors")
    db.execute("PRAGMA user_version = 21")

    async with SqliteStorage(path) as storage:
        before = await storage.rank_by_vector(asked)
        assert await storage.check_integrity() == {}
        await storage.store_memory(memory("new", clustered(31)[-1], space=WIDE))
        sizes = []
        while await storage.write("packing", vectors_module.pack_old_vectors, 7):
            sizes += db.execute("SELECT sum(length(vector)) FROM chunk_vectors").fetchone()
        again = await storage.rank_by_vector(asked)
        assert await storage.check_integrity() == {}
    async with SqliteStorage(path) as fresh:
        after = await fresh.rank_by_vector(asked)
        assert await fresh.tidy() == 0
    db.close()

    assert sizes == sorted(sizes, reverse=True)
    assert (len(sizes), sizes[-1]) == (5, 31 * 108)
    assert len(before.scores) == 30
    assert after.scores == pytest.approx(again.scores, abs=1e-4)
    assert {i: again.scores[i] for i in before.scores} == before.scores


async def test_of_common_words_those_passages_are_ranked_that_have_most_of_them(path):
    words = ["amber", "birch", "cedar", "delta", "ember"]
    texts = [" ".join(words[:n]) + f" n{i}" for n in range(1, 6) for i in range(10)]
    async with SqliteStorage(path) as storage:
        await storage.store_memories([memory(text) for text in texts])
        for limit, least in ((10, 4), (25, 3), (40, 2), (60, 1)):
            asked = TextSearchRequest(terms=words, limit=limit, together=True)
            found = await storage.get_passages(list(await storage.rank_by_words(asked)))
            counts = [len(passage.text.split()) - 1 for passage in found.values()]
            assert (min(counts), len(counts)) == (least, min(limit, 50))
        assert await storage.rank_by_words(asked.model_copy(update={"terms": ["amber"]}))
        assert await storage.rank_by_words(asked.model_copy(update={"terms": ["none", "no"]})) == {}


async def test_the_segments_of_the_word_index_become_one_and_the_same_is_found(path):
    asked = TextSearchRequest(terms=["amber", "n3", "n9"], limit=50)
    async with SqliteStorage(path) as storage:
        for number in range(14):
            await storage.store_memory(memory(f"amber n{number} " + "filler " * number))
        before = await storage.rank_by_words(asked)
        db = sqlite3.connect(path, isolation_level=None)
        count = "SELECT count(DISTINCT segid) FROM chunks_fts_idx"
        (scattered,) = db.execute(count).fetchone()
        steps = await storage.tidy()
        (merged,) = db.execute(count).fetchone()
        db.close()

        assert (scattered, merged) == (14, 1)
        assert steps > 0
        assert await storage.tidy() == 0
        assert await storage.rank_by_words(asked) == before
        assert await storage.check_integrity() == {}


async def test_tidying_gives_back_the_room_of_what_was_deleted(path):
    async with SqliteStorage(path) as storage:
        for stored in await storage.store_memories(
            [memory(f"n{i}" + " x" * 999) for i in range(99)]
        ):
            await storage.delete_memory(stored.memory_id)
        db = sqlite3.connect(path, isolation_level=None)
        (before,) = db.execute("PRAGMA page_count").fetchone()
        (free,) = db.execute("PRAGMA freelist_count").fetchone()
        assert await storage.tidy() > 0
        (after,) = db.execute("PRAGMA page_count").fetchone()
        (left,) = db.execute("PRAGMA freelist_count").fetchone()
        db.close()

        assert free > connection.KEPT_PAGES >= left
        assert after <= before - (free - connection.KEPT_PAGES)
        assert await storage.tidy() == 0
        assert await storage.check_integrity() == {}


async def test_using_a_closed_store_is_a_clear_error(path):
    storage = SqliteStorage(path)

    with pytest.raises(DatabaseError, match="not connected"):
        await storage.get_memory("x")

    await storage.close()
    await storage.connect()
    await storage.connect()
    assert await storage.get_space() is None
    await storage.store_memory(memory("works", vector(1)))
    assert await storage.get_space() == SPACE
    await storage.close()


def test_a_commit_reaches_the_disk_and_not_only_the_drives_memory(path):
    connection.prepare_file(path)
    opened = connection.connect(path)
    pragmas = ("synchronous", "fullfsync", "checkpoint_fullfsync")
    assert [opened.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas] == [2, 1, 1]
    opened.close()


def test_two_first_starts_may_create_the_folder_at_the_same_moment(tmp_path, monkeypatch):
    # The other start creates it right after this one has seen that there is none.
    monkeypatch.setattr(Path, "exists", lambda _self: False)

    connection.prepare_file(tmp_path / "zapomni.db")

    assert connection.file_identity(tmp_path / "zapomni.db") is not None
