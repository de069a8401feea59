from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import pytest

from builders import memory, vector
from zapomni_cli.retention import read_limits
from zapomni_core.exceptions import ConfigurationError
from zapomni_core.settings import load_settings
from zapomni_db.sqlite import purging
from zapomni_db.sqlite.connection import connect, prepare_file
from zapomni_db.sqlite.migrations import LATEST_VERSION
from zapomni_db.sqlite.observations import count_usage, pin_observation
from zapomni_db.sqlite.purging import DAY, PurgeSelection, find_memories, find_observations, sweep
from zapomni_db.sqlite.storage import SqliteStorage

NOW = 1_800_000_000
SECRET = "zyxwvutsecret"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "zapomni.db"


@pytest.fixture
def db(path: Path):
    prepare_file(path)
    connection = connect(path)
    yield connection
    connection.close()


def observe(db: sqlite3.Connection, content: str, **fields) -> int:
    row = {
        "session_id": "s1",
        "project": "shop",
        "host": "claude-code",
        "timestamp": NOW,
        "obs_type": "command",
        "source_event": "PostToolUse",
        "content": content,
        **fields,
    }
    row["event_hash"] = hashlib.sha256(repr(sorted(row.items())).encode()).digest()
    db.execute("INSERT OR IGNORE INTO projects VALUES (?, 'app', 1, 0)", (row["project"],))
    db.execute(
        "INSERT OR IGNORE INTO sessions (id, project, host, started_at, last_at)"
        " VALUES (?, ?, 'claude-code', 0, 0)",
        (row["session_id"], row["project"]),
    )
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    statement = f"INSERT INTO observations ({names}) VALUES ({marks})"
    key = db.execute(statement, tuple(row.values())).lastrowid
    assert key is not None
    return key


def left(db: sqlite3.Connection) -> list[int]:
    return [row[0] for row in db.execute("SELECT id FROM observations ORDER BY id")]


def words_of(db: sqlite3.Connection, index: str) -> set[str]:
    db.execute(f"CREATE VIRTUAL TABLE temp.words_{index} USING fts5vocab(main, {index}, row)")
    return {row[0] for row in db.execute(f"SELECT term FROM temp.words_{index}")}


def raw_bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


# --- What is selected --------------------------------------------------------------------


def test_every_part_of_a_selection_must_match(db):
    first = observe(db, "pytest -x", session_id="a", timestamp=NOW - 100 * DAY)
    second = observe(db, "pytest -q", session_id="a")
    third = observe(db, "ls", session_id="b", project="other", obs_type="search")

    for selection, expected in (
        (PurgeSelection(session="a"), [first, second]),
        (PurgeSelection(project="other"), [third]),
        (PurgeSelection(obs_type="command", before=NOW - 30 * DAY), [first]),
        (PurgeSelection(search="PYTEST", session="a", before=NOW), [first]),
        (PurgeSelection(ids=(str(second), str(third)), project="shop"), [second]),
        (PurgeSelection(ids=("no number",)), []),
        (PurgeSelection(search="nowhere"), []),
    ):
        assert list(find_observations(db, selection)) == expected, selection


def test_nothing_given_selects_nothing(db):
    observe(db, "anything")
    assert not PurgeSelection()
    assert find_observations(db, PurgeSelection()) == {}
    assert find_memories(db, PurgeSelection()) == {}


def test_a_project_is_selected_by_its_key_its_name_or_an_alias(db):
    key = observe(db, "ls", project="github.com/ada/app")
    db.execute("INSERT INTO project_aliases VALUES ('/old/app', 'github.com/ada/app')")
    for name in ("github.com/ada/app", "app", "/old/app"):
        assert list(find_observations(db, PurgeSelection(project=name))) == [key]


@pytest.mark.parametrize("field", ["content", "file_path", "metadata", "signature"])
def test_text_is_searched_wherever_it_can_be(db, field):
    row = {"content": "nothing", field: f'{{"k": "a{SECRET}b"}}'}
    key = observe(db, **row)
    assert list(find_observations(db, PurgeSelection(search=SECRET.upper()))) == [key]


# --- What is left after deleting ---------------------------------------------------------


def test_deleting_takes_empty_sessions_and_projects_along_and_unlinks_prompts(db):
    prompt = observe(db, "fix it", obs_type="user_prompt", session_id="a")
    done = observe(db, "fixed", session_id="a", prompt_id=prompt)
    other = observe(db, "elsewhere", session_id="b", project="gone")

    assert purging.delete_observations(db, [prompt, other]) == 2

    assert db.execute("SELECT id, prompt_id FROM observations").fetchall() == [(done, None)]
    assert [row[0] for row in db.execute("SELECT id FROM sessions")] == ["a"]
    assert [row[0] for row in db.execute("SELECT key FROM projects")] == ["shop"]


def test_a_project_with_a_setting_of_its_own_outlives_its_observations(db):
    key = observe(db, "private", project="quiet")
    db.execute("UPDATE projects SET injection = 0")
    purging.delete_observations(db, [key])
    assert [row[0] for row in db.execute("SELECT key FROM projects")] == ["quiet"]


def test_no_byte_and_no_word_of_a_purged_observation_is_left(db, path):
    # Enough rows that pages split, and long ones that overflow: both leave copies behind.
    for number in range(600):
        text = f"{SECRET}{number} " + "filler words " * (number % 200)
        observe(db, text if number % 3 else f"ordinary {number}", file_path=f"/p/{number}.py")
    assert SECRET.encode() in raw_bytes(path)
    found = list(find_observations(db, PurgeSelection(search=SECRET)))
    assert len(found) == 400

    purging.delete_observations(db, found)
    assert purging.scrub(db) is True

    assert SECRET.encode() not in raw_bytes(path)
    assert path.with_name(path.name + "-wal").stat().st_size == 0
    words = words_of(db, "observations_fts")
    assert "ordinari" in words
    assert not any(word.startswith(SECRET[:5]) for word in words)
    assert len(left(db)) == 200
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    check = "INSERT INTO observations_fts (observations_fts, rank) VALUES ('integrity-check', 1)"
    db.execute(check)


@pytest.mark.anyio
async def test_no_byte_and_no_word_of_a_purged_memory_is_left(path):
    async with SqliteStorage(path) as storage:
        kept = await storage.store_memory(memory("ordinary words", vector(1)))
        await storage.store_memory(memory(f"the {SECRET} | and more", vector(1), vector(0, 1)))
        for number in range(50):
            await storage.store_memory(memory(f"{SECRET}{number} " + "long " * number * 50))
    db = connect(path)
    try:
        found = list(find_memories(db, PurgeSelection(search=SECRET)))
        assert purging.delete_memories(db, found) == 51
        assert purging.scrub(db) is True
        assert SECRET.encode() not in raw_bytes(path)
        assert words_of(db, "chunks_fts") == {"ordinari", "word"}
        assert db.execute("SELECT id FROM memories").fetchall() == [(kept,)]
        assert db.execute("SELECT count(*) FROM chunk_vectors").fetchone() == (1,)
    finally:
        db.close()


def test_a_reader_in_the_way_is_told_and_a_second_scrub_finishes(db, path):
    key = observe(db, SECRET)
    db.execute("PRAGMA busy_timeout = 50")
    reader = connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM observations").fetchone()

    purging.delete_observations(db, [key])
    assert purging.scrub(db) is False

    reader.close()
    assert purging.scrub(db) is True
    assert SECRET.encode() not in raw_bytes(path)


# --- Retention ---------------------------------------------------------------------------


def test_each_type_is_kept_as_long_as_the_table_says(db):
    kept = []
    for obs_type, days in {**purging.RETENTION_DAYS, "unheard_of": 90}.items():
        observe(db, "old", obs_type=obs_type, timestamp=NOW - days * DAY - 1)
        kept.append(observe(db, "young", obs_type=obs_type, timestamp=NOW - days * DAY))

    assert sweep(db, NOW) == len(kept)

    assert left(db) == kept


def test_pinned_observations_are_never_swept(db):
    key = observe(db, "remember this", timestamp=0)
    assert pin_observation(db, key, pinned=True)
    assert sweep(db, NOW, max_bytes=0) == 0
    assert pin_observation(db, key, pinned=False)
    assert sweep(db, NOW) == 1
    assert not pin_observation(db, key, pinned=True)


def test_days_of_ones_own_win_and_zero_means_for_ever(db):
    old = observe(db, "commit", obs_type="git_commit", timestamp=0)
    observe(db, "ls", timestamp=NOW - 2 * DAY)
    assert sweep(db, NOW, retention_days={"git_commit": 0, "command": 1}) == 1
    assert left(db) == [old]


def test_above_the_ceiling_the_oldest_go_first(db):
    keys = [observe(db, "x" * 750, timestamp=NOW - 100 + number) for number in range(10)]
    assert sweep(db, NOW, max_bytes=4000) == 6
    assert left(db) == keys[6:]


def test_a_sweep_is_due_once_a_day_and_again_at_once_when_it_did_not_finish(db):
    for number in range(7):
        observe(db, f"old {number}", timestamp=0)
    assert purging.is_sweep_due(db, NOW)

    assert sweep(db, NOW, max_rows=5) == 5
    assert purging.is_sweep_due(db, NOW)
    assert sweep(db, NOW, max_rows=5) == 2

    assert not purging.is_sweep_due(db, NOW + DAY - 1)
    assert purging.is_sweep_due(db, NOW + DAY)


def test_a_sweep_gives_pages_back(db, path):
    for number in range(500):
        observe(db, f"{number} " + "x" * 2000, timestamp=0)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    before = path.stat().st_size

    sweep(db, NOW)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    assert path.stat().st_size < before / 4


# --- Counting, settings, imports ---------------------------------------------------------


def test_usage_counts_by_type_and_host_and_is_zero_before_anything_happened(db):
    empty = count_usage(db)
    assert (empty["total"], empty["lost"], empty["by_type"], empty["hosts"]) == (0, 0, {}, {})

    observe(db, "x" * 100, file_path="/p/a")
    observe(db, "y", host="codex", obs_type="search", timestamp=NOW + 5)
    for row in (("codex", "captured", 1, NOW + 6), ("codex", "redacted", 3, NOW)):
        db.execute("INSERT INTO capture_counters VALUES (?, ?, ?, ?)", row)
    sweep(db, NOW)

    counted = count_usage(db)
    assert (counted["total"], counted["sessions"], counted["redacted"]) == (2, 1, 3)
    assert counted["by_type"]["command"] == {"count": 1, "bytes": 358}
    assert counted["hosts"] == {
        "claude-code": {"observations": 1, "last_at": NOW},
        "codex": {"observations": 1, "last_at": NOW + 6, "captured": 1, "redacted": 3},
    }
    assert LATEST_VERSION >= 2


def test_retention_is_set_as_json_or_as_a_table(tmp_path):
    environ = {"ZAPOMNI_OBSERVATION_RETENTION_DAYS": '{"command": 7}'}
    assert load_settings(environ).observation_retention_days == {"command": 7}
    (tmp_path / "config.toml").write_text("observation_retention_days = {search = 0}")
    assert load_settings({}, home=tmp_path).observation_retention_days == {"search": 0}


@pytest.mark.parametrize(
    ("environ", "config"),
    [
        ({}, ""),
        ({}, "observations_max_mb = 7\nobservation_retention_days = {command = 0}"),
        ({"ZAPOMNI_OBSERVATIONS_MAX_MB": "9"}, "observations_max_mb = 7"),
        ({"ZAPOMNI_OBSERVATION_RETENTION_DAYS": '{"search": 3}'}, ""),
    ],
)
def test_a_hook_reads_the_same_limits_as_the_settings(tmp_path, environ, config):
    (tmp_path / "config.toml").write_text(config)
    settings = load_settings(environ, home=tmp_path)
    assert read_limits(str(tmp_path), environ) == {
        "retention_days": settings.observation_retention_days,
        "max_bytes": settings.observations_max_mb * 1_000_000,
    }


@pytest.mark.parametrize(
    "environ",
    [
        {"ZAPOMNI_OBSERVATION_RETENTION_DAYS": "[]"},
        {"ZAPOMNI_OBSERVATION_RETENTION_DAYS": '{"command": -1}'},
        {"ZAPOMNI_OBSERVATION_RETENTION_DAYS": "{"},
        {"ZAPOMNI_OBSERVATIONS_MAX_MB": "0"},
        {"ZAPOMNI_OBSERVATIONS_MAX_MB": "much"},
    ],
)
def test_a_hook_deletes_nothing_by_a_limit_nobody_can_mean(tmp_path, environ):
    with pytest.raises(ValueError, match=r"."):
        read_limits(str(tmp_path), environ)


@pytest.mark.parametrize("value", ['{"comand": 7}', '{"command": -1}', "seven", "[1]"])
def test_a_retention_nobody_can_mean_is_refused(value):
    with pytest.raises(ConfigurationError, match="observation_retention_days"):
        load_settings({"ZAPOMNI_OBSERVATION_RETENTION_DAYS": value})
