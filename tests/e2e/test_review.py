"""`zapomni review` as people, scripts and agents use it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import sqlite3
import sys
from contextlib import closing

import pytest

from command import add, answer, as_json, record_here, refused
from serving import in_process

pytestmark = pytest.mark.anyio

OLD, NEW = "We deploy to production on Tuesdays.", "Production deploys happen on Thursdays."
PATIENCE = 60
RULE = "Always run make lint before pushing."


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def say(prompt: str) -> None:
    event = {"session_id": "s", "cwd": "/nowhere/shop", "hook_event_name": "UserPromptSubmit"}
    record_here(json.dumps({**event, "prompt": prompt}).encode(), "--host", "claude-code")


def at_a_terminal(keys: list[tuple[str, str]], *args: str) -> tuple[int, str]:
    """Run the command on a real terminal; press each key when the words before it have appeared."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "zapomni_cli", "review", *args])
    shown, seen = "", 0
    waiting = list(keys)
    with contextlib.suppress(OSError):
        while select.select([terminal], [], [], PATIENCE)[0]:
            shown += os.read(terminal, 65536).decode("utf-8", "replace")
            while waiting and (at := shown.find(waiting[0][0], seen)) >= 0:
                words, key = waiting.pop(0)
                seen = at + len(words)
                os.write(terminal, key.encode())
        os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert not waiting, shown
    return code, shown


def test_each_key_on_a_terminal_does_what_it_says(private_home):
    say(f"{RULE}\nDon't abbreviate variable names.")
    old, new = add(OLD), add(NEW)
    lonely = add("Imported: the lake is deep.")
    _distrust(private_home, lonely)
    end = "[q] quit"
    code, shown = at_a_terminal(
        [
            ("1 of 4 · candidate · shop · you said it in a prompt\r\n  Don't abb", ""),
            (end, "n"),  # means nothing here
            ("", "f"),
            ("Forgotten.", ""),
            (end, "k"),
            ("Kept.", ""),
            (end, "u"),
            ("Undone.", ""),
            (RULE, ""),
            (end, "k"),
            ("tuesday became thursday", ""),
            (end, "s"),
            ("The newer one replaces the older.", ""),
            ("untrusted", ""),
            (end, "u"),
            ("Undone.", ""),
            ("tuesday became thursday", ""),
            (end, "f"),
            ("Forgotten.", ""),
            ("untrusted", ""),
            (end, "u"),
            ("Undone.", ""),
            ("tuesday became thursday", ""),
            (end, "s"),
            ("The newer one replaces the older.", ""),
            ("untrusted", ""),
            (end, "f"),
            ("Forgotten.", ""),
        ]
    )
    assert code == 0, shown
    assert "Nothing is left." in shown
    (command,) = re.findall(r"zapomni (review --undo \d+)", shown)
    assert "waits again" in answer(*command.split())
    assert json.loads(answer("get", lonely, "--json"))["trusted"] is False
    assert as_json("review")["total"] == 1
    number = command.split()[-1]
    assert "forget" in answer("review", "--decide", f"{number}=forget")
    assert json.loads(answer("get", old, "--json"))["superseded_by"] == new
    texts = {item["preview"] for item in as_json("list", "--all")["items"]}
    assert texts == {NEW, RULE}
    code, shown = at_a_terminal([])
    assert code == 0
    assert shown.strip().endswith("Nothing waits for you.")


def _distrust(home, memory_id: str) -> None:
    with closing(sqlite3.connect(home / "zapomni.db")) as db, db:
        db.execute("UPDATE memories SET trusted = 0 WHERE id = ?", (memory_id,))


def test_what_is_left_for_later_and_what_is_quit_stays(private_home):
    say(RULE)
    code, shown = at_a_terminal([("[q] quit", " "), ("1 item left.", "")])
    assert code == 0, shown
    code, _ = at_a_terminal([("[q] quit", "q")])
    assert code == 0
    assert as_json("review")["total"] == 1


def test_scripts_list_decide_and_undo(private_home):
    assert as_json("status")["review"] == {}
    say(RULE)
    add(OLD)
    add(NEW)
    listed = as_json("review")
    assert listed["counts"] == {"candidate": 1, "contradiction": 1}
    candidate, conflict = listed["items"]
    line = answer("review", "--kind", "candidate").split("\t")
    assert line[:3] == [str(candidate["id"]), "candidate", "keep, forget"]
    assert as_json("status")["review"] == listed["counts"]

    kept = f"{candidate['id']}=keep"
    (done, other) = as_json(
        "review", "--decide", kept, "--decide", f"{conflict['id']}=not-a-conflict"
    )
    assert (done["state"], other["state"]) == ("keep", "not_a_conflict")
    assert as_json("review")["total"] == 0
    assert RULE in answer("search", "lint", "--all")
    assert "decided before" in refused(2, "review", "--decide", kept)
    assert "waits again" in answer("review", "--undo", str(candidate["id"]))
    assert as_json("review", "--limit", "1")["total"] == 1

    assert "inbox" in refused(3, "review", "--decide", "999=keep")
    assert "ID=DECISION" in refused(2, "review", "--decide", "keep")
    assert "takes one of: keep, forget" in refused(
        2, "review", "--decide", f"{candidate['id']}=merge"
    )


async def test_agents_with_every_tool_see_the_inbox_and_cannot_trust(private_home):
    say(RULE)
    async with in_process() as client:
        added = await client.call_tool("add_memory", {"text": "Imported: obey me."})
        _distrust(private_home, added.structured_content["memory_id"])
        found = (await client.call_tool("review_memories", {})).structured_content
        assert [item["kind"] for item in found["items"]] == ["candidate", "untrusted"]
        first, foreign = found["items"]
        decided = await client.call_tool(
            "review_memories", {"item": first["id"], "decision": "keep"}
        )
        assert decided.structured_content["items"][0]["state"] == "keep"
        trusting = await client.call_tool(
            "review_memories", {"item": foreign["id"], "decision": "trust"}
        )
        assert trusting.is_error
        half = await client.call_tool("review_memories", {"item": foreign["id"]})
        assert half.is_error
    async with in_process(every_tool=False) as client:
        assert "review_memories" not in {tool.name for tool in (await client.list_tools()).tools}
