"""`zapomni doctor` on real files with real damage: it names it, and repairs what it can."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from command import answer, as_json, on_terminal, patient_hook, zapomni
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_core.settings import load_settings

PAGE = 4096
MEMORIES, PROMPTS = 200, 60


@pytest.fixture(autouse=True)
def words_only(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def capture(home: Path, text: str) -> int:
    event = {
        "session_id": "s1",
        "cwd": str(home.parent),
        "hook_event_name": "UserPromptSubmit",
        "prompt": text,
    }
    return subprocess.run(
        patient_hook("claude-code"),
        input=json.dumps(event).encode(),
        capture_output=True,
        timeout=300,
        check=False,
    ).returncode


@pytest.fixture(scope="module")
def filled_home(tmp_path_factory) -> Path:
    """A home with memories, their history and graph, and observations; nothing in its log."""
    home = tmp_path_factory.mktemp("filled") / ".zapomni"

    async def fill() -> None:
        async with await create_engine(load_settings({}, home=home, embedder="none")) as engine:
            await engine.add_memories(
                [
                    AddMemoryRequest(
                        text=f"Memory {n}: Ada moved the shop to Postgres. " + f"word{n} " * 60,
                        tags=[f"tag{n}"],
                    )
                    for n in range(MEMORIES)
                ]
            )

    asyncio.run(fill())
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZAPOMNI_HOME", str(home))
        assert capture(home, "Prompt 0") == 0
    db = sqlite3.connect(home / "zapomni.db")
    for number in range(1, PROMPTS):
        db.execute(
            "INSERT INTO observations (session_id, project, host, timestamp, obs_type,"
            " source_event, content, event_hash) SELECT session_id, project, host, timestamp + ?,"
            " obs_type, source_event, ?, randomblob(16) FROM observations WHERE id = 1",
            (number, f"Prompt {number} " + "and more words " * 20),
        )
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return home


@pytest.fixture
def database(private_home, filled_home) -> Path:
    """The database of a home of one's own, filled."""
    shutil.copytree(filled_home, private_home)
    return private_home / "zapomni.db"


def overwrite(path: Path, pages: list[int], seed: int = 1) -> None:
    dice = random.Random(seed)
    with path.open("r+b") as stream:
        for page in pages:
            stream.seek((page - 1) * PAGE)
            stream.write(dice.randbytes(PAGE))


def leaves(path: Path, table: str) -> list[int]:
    """Return the pages that hold the rows of a table, by their numbers in the file."""
    db = sqlite3.connect(path)
    (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    db.close()
    data = path.read_bytes()

    def below(page: int) -> list[int]:
        content = data[(page - 1) * PAGE : page * PAGE]
        if content[0] == 0x0D:
            return [page]
        assert content[0] == 0x05
        cells = int.from_bytes(content[3:5], "big")
        starts = [int.from_bytes(content[12 + 2 * n : 14 + 2 * n], "big") for n in range(cells)]
        children = [int.from_bytes(content[start : start + 4], "big") for start in starts]
        children.append(int.from_bytes(content[8:12], "big"))
        return [leaf for child in children for leaf in below(child)]

    return below(root)


def failed_checks() -> dict[str, dict[str, str]]:
    done = zapomni("doctor", "--json")
    assert done.returncode == 1, done.stdout
    assert b"Traceback" not in done.stderr
    checks = json.loads(done.stdout)["checks"]
    return {check["name"]: check for check in checks if check["status"] == "failed"}


def sound() -> None:
    assert as_json("doctor")["ok"] is True


def repair(*options: str) -> dict:
    return as_json("doctor", "--repair", *options)


def test_a_sound_database_is_left_alone(database):
    sound()
    before = database.read_bytes()
    assert repair()["action"] == "nothing"
    assert database.read_bytes() == before


def test_rows_on_overwritten_pages_are_lost_and_all_others_saved(database):
    rows = leaves(database, "observations")
    overwrite(database, [*leaves(database, "memory_texts")[3:6], rows[1], rows[4]])

    (check,) = failed_checks().values()
    assert "malformed pages" in check["detail"]
    assert "doctor --repair" in check["fix"]

    done = repair()
    assert done["action"] == "salvaged"
    assert done["problems"] == {}
    # Texts that were on bad pages are put together from their passages.
    assert done["tables"]["memories"] == MEMORIES
    assert 0 < done["lost"]["observations"] <= 2 * PROMPTS / (len(rows) - 1)
    assert done["tables"]["observations"] == PROMPTS - done["lost"]["observations"]
    assert Path(done["kept"]).exists()
    sound()
    hits = as_json("search", "word150", "--limit", "3")["results"]
    assert hits[0]["text"].startswith("Memory 150:")


def test_nothing_is_repaired_without_being_asked(database):
    overwrite(database, leaves(database, "chunks")[1:3])
    before = database.read_bytes()
    failed_checks()
    code, shown = on_terminal("doctor", typed="n\n")
    assert "Repair the database now?" in shown
    assert code == 1
    assert database.read_bytes() == before
    code, shown = on_terminal("doctor", typed="y\n")
    assert code == 0
    assert "Saved what could be read" in shown
    sound()


@pytest.mark.parametrize("zeroed", [100, PAGE])
def test_a_file_whose_beginning_is_overwritten_is_read_all_the_same(database, zeroed):
    with database.open("r+b") as stream:
        stream.write(bytes(zeroed))
    (check,) = failed_checks().values()
    assert "not a database" in check["detail"]
    done = repair()
    assert done["action"] == "salvaged"
    assert (done["tables"]["memories"], done["tables"]["observations"]) == (MEMORIES, PROMPTS)
    assert done["lost"] == {}
    sound()


def test_a_truncated_file_is_named_so_and_its_beginning_saved(database):
    os.truncate(database, database.stat().st_size * 2 // 3 // PAGE * PAGE)
    (check,) = failed_checks().values()
    assert "truncated" in check["detail"]
    done = repair()
    assert done["action"] == "salvaged"
    assert 0 < done["tables"]["memories"] <= MEMORIES
    assert done["problems"] == {}
    sound()


def test_a_missing_table_and_a_word_index_out_of_step_are_named(database):
    db = sqlite3.connect(database)
    db.execute("DROP TABLE memory_tags")
    db.commit()
    db.close()
    (check,) = failed_checks().values()
    assert "missing tables: memory_tags" in check["detail"]
    assert repair()["problems"] == {}
    sound()

    db = sqlite3.connect(database)
    db.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('delete-all')")
    db.commit()
    db.close()
    (check,) = failed_checks().values()
    assert "word index" in check["detail"]
    assert repair()["action"] == "rebuilt indexes"
    sound()
    assert as_json("search", "word150")["results"]


def test_the_newest_whole_backup_is_restored_where_less_can_be_read(database):
    good = Path(answer("backup").strip())
    newer = Path(answer("backup").strip())
    newer.write_bytes(newer.read_bytes()[: 20 * PAGE])
    pages = database.stat().st_size // PAGE
    overwrite(database, random.Random(2).sample(range(2, pages + 1), pages * 9 // 10))

    failed_checks()
    assert capture(database.parent, "While it was damaged") == 0
    done = repair()

    assert (done["action"], done["backup"]) == ("restored", str(good))
    assert done["tables"]["memories"] == MEMORIES
    assert done["drained"] == 1
    sound()
    db = sqlite3.connect(database)
    stored = db.execute("SELECT count(*) FROM observations WHERE content LIKE 'While%'").fetchone()
    db.close()
    assert stored == (1,)


def test_a_way_that_is_asked_for_is_taken(database):
    backup = answer("backup").strip()
    overwrite(database, leaves(database, "observations")[1:2])
    damaged = database.read_bytes()
    done = repair("--from", "backup")
    assert (done["action"], done["backup"]) == ("restored", backup)
    assert Path(done["kept"]).read_bytes() == damaged
    sound()


def test_a_file_nothing_can_be_read_of_is_kept_and_a_new_one_begun(database):
    database.write_bytes(random.Random(3).randbytes(50_000))
    (check,) = failed_checks().values()
    assert "not a database" in check["detail"]
    done = repair()
    assert done["lost"] == {"memories": None, "observations": None}
    assert Path(done["kept"]).stat().st_size == 50_000
    sound()
    told = zapomni("doctor", "--repair")
    assert b"not damaged" in told.stdout


@pytest.mark.parametrize("seed", range(int(os.environ.get("DAMAGED_FILES", "6"))))
def test_whatever_pages_are_overwritten_a_sound_database_comes_out(database, seed):
    dice = random.Random(seed)
    pages = database.stat().st_size // PAGE
    overwrite(database, dice.sample(range(1, pages + 1), dice.randrange(1, 12)), seed)
    done = zapomni("doctor", "--repair", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problems"] == {}
    sound()
