"""The recall log: what is written, what is dropped, what counts for an item."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import time

import pytest

from zapomni_cli.retention import read_recall_days
from zapomni_core.infra.recall_log import RecalledItem, RecallLog
from zapomni_core.modules.observations.uses import find_uses
from zapomni_core.settings import load_settings
from zapomni_core.shared.redaction import Redactor
from zapomni_db.sqlite.recalls import (
    RECALLS,
    Recall,
    RecallUse,
    feedback,
    given_in_session,
    open_log,
    purge_recalls,
    record_batch,
    record_recall,
    record_use,
    scrub_log,
    sweep_recalls,
)

NOW = 1_800_000_000
# Synthetic, of the shape of a token.
TOKEN = "ghp_" + "abcdEFGH1234" * 3
REDACT = Redactor({}, b"k" * 32).redact


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "recalled"
    path.mkdir()
    return path


def given(*items: str, session="s1", how="session_start", at=NOW, query="", project="p"):
    rows = [(item, "memory", 10, 0.5) for item in items]
    return Recall(at, "claude-code", session, project, how, query, rows)


def rows(home, statement):
    with sqlite3.connect(home / RECALLS) as connection:
        found = connection.execute(statement).fetchall()
    connection.close()
    return found


def test_a_recall_is_written_with_all_that_was_given_to_a_private_file(folder):
    items = [("m1", "memory", 12, 0.9), ("77", "observation", 5, None)]
    recall = Recall(NOW, "codex", "s1", "root:a", "prompt", "how do we deploy", items)

    assert record_recall(str(folder), recall, REDACT)

    assert rows(folder, "SELECT at, client, session, project, how, query, tokens FROM recalls") == [
        (NOW, "codex", "s1", "root:a", "prompt", "how do we deploy", 17)
    ]
    assert rows(folder, "SELECT item, kind, tokens, evidence FROM recall_items") == items
    assert given_in_session(str(folder), "s1") == {"m1", "77"}
    assert given_in_session(str(folder), "s2") == set()
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_secret_in_a_query_is_masked_before_it_is_written(folder):
    record_recall(str(folder), given("m1", query=f"what is {TOKEN} for"), REDACT)

    assert TOKEN.encode() not in (folder / RECALLS).read_bytes()
    ((query,),) = rows(folder, "SELECT query FROM recalls")
    assert query.startswith("what is [")


def test_secrets_learned_before_anything_waits_are_masked_later(folder):
    secret = "plainwords" + "7Qx" * 6  # Only the name of the variable says that it is one.
    log = RecallLog(folder, 0)
    log.learn({"ACME_API_KEY": secret})
    log.flush()
    log.add("tool", f"deploy {secret}", [RecalledItem("m1")], client="codex", folder=str(folder))
    log.flush()

    ((query,),) = rows(folder, "SELECT query FROM recalls")
    assert query.startswith("deploy [")
    assert secret not in query


def test_a_recall_of_nothing_leaves_no_row_and_no_file(folder):
    assert not record_recall(str(folder), given(), REDACT)
    assert list(folder.iterdir()) == []
    assert not record_recall(str(folder / "missing"), given("m1"), REDACT)
    assert list(folder.iterdir()) == []


def test_a_recall_is_dropped_while_another_process_writes(folder):
    home = str(folder)
    record_recall(home, given("m1"), REDACT)
    writer = open_log(home)
    writer.execute("BEGIN IMMEDIATE")
    assert not record_recall(home, given("m2"), REDACT)
    assert given_in_session(home, "s1") == {"m1"}
    writer.close()
    assert record_recall(home, given("m2"), REDACT)


def test_a_log_that_cannot_be_written_or_read_stops_no_one(folder):
    home = str(folder)
    (folder / RECALLS).mkdir()
    assert not record_recall(home, given("m1"), REDACT)
    assert given_in_session(home, "s1") == set()
    assert feedback(home, ["m1"]) == {}
    assert sweep_recalls(home, 1, NOW) == 0


def test_a_damaged_log_begins_again(folder):
    home = str(folder)
    (folder / RECALLS).write_bytes(b"no database " * 1000)
    assert not record_recall(home, given("m1"), REDACT)
    assert record_recall(home, given("m2"), REDACT)
    assert given_in_session(home, "s1") == {"m2"}


def test_a_log_of_a_newer_version_stays_as_it_is(folder):
    home = str(folder)
    record_recall(home, given("m1"), REDACT)
    with sqlite3.connect(folder / RECALLS) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert not record_recall(home, given("m2"), REDACT)
    assert feedback(home, ["m1"]) == {}


def test_half_a_character_in_a_query_does_not_lose_the_recall(folder):
    assert record_recall(str(folder), given("m1", query="half \ud83d"), REDACT)


def test_given_in_five_sessions_and_never_used_counts_against_an_item(folder):
    home = str(folder)
    for number in range(5):
        record_recall(home, given("m1", "m2", session=f"s{number}"), REDACT)
        # Compaction gives it again: that is the same session.
        record_recall(home, given("m3", session="s0"), REDACT)
        record_recall(home, given("m4", session=f"s{number}", how="tool"), REDACT)
    record_use(home, RecallUse(NOW + 60, "s4", "cited", ["m2"]))

    found = feedback(home, ["m1", "m2", "m3", "m4", "m5"])

    assert {item: (one.given, one.used) for item, one in found.items()} == {
        "m1": (5, 0),
        "m2": (5, 1),
        "m3": (1, 0),
        "m4": (0, 0),
    }
    assert [item for item, one in found.items() if one.is_unused] == ["m1"]


@pytest.mark.parametrize(
    ("use", "used"),
    [
        (RecallUse(NOW + 60, "s1", "opened", ["m1"]), 1),
        (RecallUse(NOW + 60, "", "opened", ["m1"]), 1),
        (RecallUse(NOW + 60, "s2", "opened", ["m1"]), 0),
        (RecallUse(NOW - 60, "s1", "opened", ["m1"]), 0),
        (RecallUse(NOW + 2 * 86_400, "s1", "opened", ["m1"]), 0),
        (RecallUse(NOW + 60, "s1", "opened", ["m2"]), 0),
    ],
)
def test_a_use_counts_after_an_item_was_given_in_its_session(folder, use, used):
    home = str(folder)
    record_recall(home, given("m1"), REDACT)
    record_use(home, use)
    assert feedback(home, ["m1"])["m1"].used == used


def test_a_batch_is_written_in_its_order(folder):
    home = str(folder)
    use = RecallUse(NOW + 1, "s1", "opened", ["m1"])
    assert record_batch(home, [given("m1"), use, given("m1", at=NOW + 2)], REDACT)
    assert rows(folder, "SELECT recall_id, used_how FROM recall_items") == [
        (1, "opened"),
        (2, None),
    ]


def test_what_is_past_its_retention_is_swept(folder):
    home = str(folder)
    record_batch(home, [given("m1", at=NOW - 10 * 86_400), given("m2")], REDACT)
    assert sweep_recalls(home, 0, NOW) == 0
    assert sweep_recalls(home, 9, NOW) == 1
    assert rows(folder, "SELECT item FROM recall_items") == [("m2",)]


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        ({"items": ["m1"]}, {"m2", "m3"}),
        ({"session": "s2"}, {"m1", "m3"}),
        ({"projects": ["q"]}, {"m1", "m2"}),
        ({"search": "WOMBAT"}, {"m2", "m3"}),
        ({"before": NOW}, {"m2", "m3"}),
        ({"session": "s2", "search": "wombat"}, {"m1", "m2", "m3"}),
        ({}, {"m1", "m2", "m3"}),
    ],
)
def test_purged_recalls_leave_no_byte(folder, selection, left):
    home = str(folder)
    first = given("m1", at=NOW - 1, query="quagmirewombat")
    batch = [first, given("m2", session="s2"), given("m3", session="s3", project="q")]
    record_batch(home, batch, REDACT)
    log = open_log(home)
    assert purge_recalls(log, **selection) == 3 - len(left)
    assert scrub_log(log)
    log.close()
    assert {item for (item,) in rows(folder, "SELECT item FROM recall_items")} == left
    found = b"quagmirewombat" in (folder / RECALLS).read_bytes()
    assert found == ("m1" in left)


def test_many_processes_record_at_once_and_none_fails(folder):
    program = (
        "import sys, time\n"
        "from zapomni_db.sqlite.recalls import *\n"
        "for n in range(20):\n"
        "    items = [(f'{sys.argv[2]}-{n}', 'memory', 1, None)]\n"
        "    recall = Recall(time.time(), 'c', 's', '', 'prompt', 'q', items)\n"
        "    record_recall(sys.argv[1], recall, lambda text: (text, 0))\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(folder), str(n)]) for n in range(3)
    ]
    assert [process.wait(300) for process in running] == [0, 0, 0]
    assert record_recall(str(folder), given("last", session="s", at=time.time()), REDACT)
    assert "last" in given_in_session(str(folder), "s")


def test_recording_loads_little_of_the_standard_library(folder):
    program = (
        "import sqlite3, sys, time\n"
        "before = set(sys.modules)\n"
        "from zapomni_db.sqlite.recalls import *\n"
        "recall = Recall(time.time(), 'c', 's', '', 'prompt', 'q', [('m', 'memory', 1, None)])\n"
        "assert record_recall(sys.argv[1], recall, lambda text: (text, 0))\n"
        "assert given_in_session(sys.argv[1], 's') == {'m'}\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    command = [sys.executable, "-I", "-c", program, str(folder)]
    loaded = subprocess.run(command, capture_output=True, check=True, timeout=300, text=True)
    assert set(loaded.stdout.split()) <= {
        "__future__",
        "zapomni_db",
        "zapomni_db.sqlite",
        "zapomni_db.sqlite.recalls",
    }


MEMORY = "6f1c2a9e-1f0a-4a53-9d43-0f6f3c1b8a77"
RULE = "Deploys of the shop run on Tuesdays at noon; Friday deploys are forbidden."


@pytest.mark.parametrize(
    ("message", "used"),
    [
        (f"See {MEMORY}.", {"cited": [MEMORY], "named": []}),
        ("According to 6F1C2A9E it is so.", {"cited": [MEMORY], "named": []}),
        ("Tuesdays are fine for the shop.", {"cited": [], "named": []}),
        ("So deploys of the shop run on tuesdays.", {"cited": [], "named": [MEMORY]}),
        ("As #42 shows, it failed.", {"cited": ["42"], "named": []}),
        ("As #421 shows, it failed; 42 times.", {"cited": [], "named": []}),
        ("I ran `make release-wheel` again.", {"cited": [], "named": ["42"]}),
        ("I did it in the middle of the night.", {"cited": [], "named": []}),
        ("", {"cited": [], "named": []}),
    ],
)
def test_an_answer_uses_what_it_cites_or_repeats(message, used):
    given = {MEMORY: RULE, "42": "make release-wheel", "43": "x", "44": "Left in the middle of the"}
    assert find_uses(message, given) == used


@pytest.mark.parametrize(
    ("environ", "config"),
    [
        ({}, ""),
        ({}, "recall_retention_days = 7"),
        ({"ZAPOMNI_RECALL_RETENTION_DAYS": "0"}, "recall_retention_days = 7"),
    ],
)
def test_a_hook_reads_the_same_retention_as_the_settings(folder, environ, config):
    (folder / "config.toml").write_text(config, encoding="utf-8")
    expected = load_settings(environ, home=folder).recall_retention_days
    assert read_recall_days(str(folder), environ) == expected


@pytest.mark.parametrize("days", ["-1", "soon"])
def test_a_hook_deletes_nothing_by_a_retention_that_is_no_number_of_days(folder, days):
    with pytest.raises(ValueError, match=r"recall_retention_days|soon"):
        read_recall_days(str(folder), {"ZAPOMNI_RECALL_RETENTION_DAYS": days})
