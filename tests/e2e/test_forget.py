"""`zapomni forget`: by id and in bulk, back from the trash, and so that nothing is left."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from command import UNKNOWN, add, answer, as_json, on_terminal, refused, zapomni

WORD = "quagmirewombat"


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def listed(*options: str) -> set[str]:
    return {
        item["preview"] for item in as_json("list", "--all", "--limit", "100", *options)["items"]
    }


def raw_bytes(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


@pytest.fixture
def shop():
    """Memories of two projects and of none, by a short name."""
    made = {
        "old": ("Shop: builds run on Jenkins.", "--when", "2024-03-01", "--tag", "ci"),
        "new": ("Shop: builds run on Buildkite.", "--when", "2026-03-01", "--tag", "ci"),
        "note": ("Shop: the mascot is a heron.", "--when", "2024-05-01", "--kind", "fun"),
        "pinned": ("Shop: call Ada first.", "--when", "2024-05-02", "--pin"),
    }
    ids = {name: add(*given, "--project", "shop") for name, given in made.items()}
    ids["bank"] = add("Bank: builds run on Travis.", "--project", "bank", "--tag", "ci")
    ids["global"] = add("Builds need a lock file.", "--global", "--tag", "ci")
    return ids


def test_filters_select_what_is_forgotten_and_undo_brings_it_back(shop, private_home):
    before = listed()
    done = zapomni("forget", "--project", "shop", "--before", "2025-01-01", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"Forgot 2 memories.\n"
    said = done.stderr.decode()
    assert "Projects: shop 2" in said
    assert "Kinds: note 1, fun 1" in said or "Kinds: fun 1, note 1" in said
    assert "Shop: the mascot is a heron." in said
    assert "1 pinned one stays; --pinned selects them." in said
    assert "In the trash for 30 days: zapomni forget --undo f-1" in said
    assert before - listed() == {"Shop: builds run on Jenkins.", "Shop: the mascot is a heron."}
    assert as_json("search", "heron", "--in", "memories", "--all")["results"] == []

    (row,) = answer("forget", "--trash").splitlines()
    batch, _, why, count, sample = row.split("\t")
    assert (batch, why, count) == ("f-1", "forget", "2 memories")
    assert "mascot is a heron" in sample
    (as_data,) = as_json("forget", "--trash")
    assert (as_data["batch"], as_data["count"]) == ("f-1", 2)

    assert answer("forget", "--undo", "f-1") == "Restored 2 memories.\n"
    assert listed() == before
    assert "Nothing to restore" in answer("forget", "--undo", "f-1")
    assert as_json("forget", "--undo", "f-1")["restored"] == 0
    assert answer("forget", "--trash") == ""


def test_each_filter_of_search_selects(shop, private_home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def found(*filters: str) -> set[str]:
        done = zapomni("forget", *filters)
        assert done.returncode == 2, done.stderr
        lines = done.stderr.decode().splitlines()
        names = {memory_id: name for name, memory_id in shop.items()}
        return {
            names[line.split()[0]]
            for line in lines
            if line.split()[:1] and line.split()[0] in names
        }

    assert found("--tag", "ci", "--all") == {"old", "new", "bank", "global"}
    assert found("--project", "shop") == {"old", "new", "note"}
    assert found("--project", "shop", "--pinned") == {"pinned"}
    assert found("--kind", "fun", "--all") == {"note"}
    assert found("--project", "shop", "--since", "2024-04-01", "--until", "2025-01-01") == {"note"}
    answer("update", shop["new"], "--supersedes", shop["old"])
    assert found("--project", "shop", "--tag", "ci") == {"old", "new"}
    assert len(listed("--superseded")) == 6


def test_what_cannot_be_meant_is_refused_and_deletes_nothing(shop, private_home):
    before = listed()
    for args in (
        (),
        ("--all",),
        (shop["old"], "--project", "shop"),
        (shop["old"], "--trash"),
        ("--undo", "f-1", "--trash"),
        ("--undo", "f-1", "--now"),
        ("--undo", "12"),
        ("--kind", "code", "--yes"),
        ("--before", "soon", "--yes"),
        (shop["old"],),
    ):
        refused(2, "forget", *args)
    refused(3, "forget", shop["old"], UNKNOWN, "--yes")
    assert "zapomni forget --trash" in refused(3, "forget", "--undo", "f-99")
    assert answer("forget", "--kind", "nothing", "--all", "--yes") == "Forgot 0 memories.\n"
    assert listed() == before


def test_a_terminal_shows_counts_and_asks(shop):
    code, shown = on_terminal("forget", "--project", "shop", typed="n\n")
    assert (code, "Delete 3 memories?" in shown) == (130, True)
    code, shown = on_terminal("forget", "--project", "shop", typed="y\n")
    assert (code, "Forgot 3 memories." in shown) == (0, True)


@pytest.mark.parametrize("way", ["id", "filter", "trash", "trashed id"])
def test_now_leaves_no_byte_in_the_home(private_home, way):
    memory_id = add(f"The word is {WORD}.", "--tag", WORD, "--metadata", f'{{"a": "{WORD}"}}')
    add("We deploy on Tuesdays.")
    answer("update", memory_id, "--text", f"Now it is {WORD} and more.")
    answer("backup")
    answer("forget", add(f"Another {WORD}."), "--yes")
    assert WORD.encode() in raw_bytes(private_home)
    if way in ("trash", "trashed id"):
        answer("forget", memory_id, "--yes")
    if way == "filter":
        shown = answer("forget", "--tag", WORD, "--all", "--now", "--yes")
    elif way == "trash":
        shown = answer("forget", "--trash", "--now", "--yes")
    else:
        shown = answer("forget", memory_id, "--now", "--yes")
    assert "Purged" in shown
    assert "in the backup" in shown
    answer("forget", "--trash", "--now", "--yes")
    assert WORD.encode() not in raw_bytes(private_home)
    assert answer("forget", "--trash") == ""
    assert listed() == {"We deploy on Tuesdays."}


def test_purge_shows_the_trash_and_leaves_nothing_of_it(private_home):
    memory_id = add(f"The word is {WORD}.")
    answer("forget", memory_id, "--yes")
    shown = answer("purge", "--in", "memories", "--search", WORD)
    assert shown.split("\t")[:2] == [memory_id, "note in the trash"]
    assert answer("purge", "--in", "memories", "--search", WORD, "--yes").startswith("Purged 1")
    assert WORD.encode() not in raw_bytes(private_home)
    assert "emptied" in refused(3, "forget", "--undo", "f-1")


def test_an_old_batch_is_emptied_by_the_next_writer(private_home):
    answer("forget", add(f"The word is {WORD}."), "--yes")
    with closing(sqlite3.connect(private_home / "zapomni.db")) as db, db:
        db.execute("UPDATE trash_batches SET made_at = made_at - 31 * 86400")
    assert answer("forget", "--trash") == ""
    answer("forget", add("Another."), "--yes")
    (left,) = as_json("forget", "--trash")
    assert left["batch"] == "f-2"
    refused(3, "forget", "--undo", "f-1")


KILLED = """
import asyncio, os, signal, sys
from zapomni_core.engine import create_engine
from zapomni_core.settings import load_settings
from zapomni_db.sqlite.storage import SqliteStorage
from zapomni_db.sqlite.deletions import SqliteTrash

owner, step, undo, *ids = sys.argv[1:]
kind = {"storage": SqliteStorage, "trash": SqliteTrash}[owner.split("-")[0]]
original = getattr(kind, step)

async def killed(self, *args, **kwargs):
    if owner.endswith("after"):
        await original(self, *args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(kind, step, killed)

async def main():
    async with await create_engine(load_settings()) as engine:
        await (engine.trash.undo("f-1") if undo == "undo" else engine.trash.put(ids))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("owner", "step", "undo"),
    [
        ("trash-before", "put", ""),
        ("trash-after", "put", ""),
        ("storage-before", "delete_memories", ""),
        ("storage-after", "delete_memories", ""),
        ("storage-before", "restore_memories", "undo"),
        ("storage-after", "restore_memories", "undo"),
        ("trash-before", "take_out", "undo"),
        ("trash-after", "take_out", "undo"),
    ],
)
def test_a_kill_between_any_two_steps_loses_nothing(private_home, owner, step, undo):
    older = add("We deploy on Tuesdays.", "--tag", "a")
    newer = add("We deploy on Thursdays.", "--supersedes", older, "--tag", "b")
    before = [as_json("get", one) for one in (older, newer)]
    if undo:
        answer("forget", older, newer, "--yes")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, owner, step, undo, older, newer],
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr

    if not undo:
        # Wherever it was killed, forgetting again completes it, and each is somewhere.
        present = [one for one in (older, newer) if zapomni("get", one).returncode == 0]
        if present:
            answer("forget", *present, "--yes")
    for batch in as_json("forget", "--trash"):
        answer("forget", "--undo", batch["batch"])
    assert [as_json("get", one) for one in (older, newer)] == before
    assert json.loads(answer("list", "--json"))["total"] == 1
    assert as_json("forget", "--trash") == []
