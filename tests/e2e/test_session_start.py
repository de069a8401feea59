"""A new session, by the hook that hosts run: what was stored arrives, whatever stores it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import answer, as_json, patient_hook
from zapomni_core.settings import load_settings
from zapomni_db.sqlite.recalls import given_in_session

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.context import find, read_events

FOUND_OUT = "The importer reads orders.csv twice, so totals double."


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def send(name: str, folder: Path, session: str = "one", **fields) -> str:
    payload = {"session_id": session, "cwd": str(folder), "hook_event_name": name, **fields}
    done = subprocess.run(
        patient_hook("claude-code"),
        input=json.dumps(payload).encode(),
        capture_output=True,
        timeout=120,
        check=True,
        env=os.environ,
    )
    return done.stdout.decode()


def start(folder: Path, session: str, source: str = "startup") -> str:
    printed = send("SessionStart", folder, session, source=source)
    return json.loads(printed)["hookSpecificOutput"]["additionalContext"] if printed else ""


@pytest.mark.parametrize("engine", ["sqlite", "falkordb"])
def test_a_plain_note_that_states_a_rule_arrives_without_the_agent_asking(
    project, engine, request, monkeypatch
):
    if engine == "falkordb":
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph")
        monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{server.socket}?graph={graph}")
    memory_id = answer("add", "we deploy on Tuesdays").strip()
    answer("add", "The parser is recursive.")
    text = start(project, "one")
    assert "we deploy on Tuesdays" in text
    assert "recursive" not in text
    assert memory_id in given_in_session(str(load_settings().home), "one")

    answer("add", "we deploy on Wednesdays", "--supersedes", memory_id)
    text = start(project, "two")
    assert "Wednesdays" in text
    assert "Tuesdays" not in text


def test_what_a_newer_memory_says_is_over_is_not_given(project):
    old = answer("add", "We deploy on Tuesdays.").strip()
    answer("add", "We freeze the code on Tuesdays in December.")
    assert "We deploy on Tuesdays." in start(project, "one")
    answer("add", "We deploy on Thursdays now, no longer deploy on Tuesdays.")
    text = start(project, "two")
    assert "Thursdays now" in text
    assert "in December" in text
    assert "We deploy on Tuesdays." not in text
    answer("pin", old)
    assert "We deploy on Tuesdays." in start(project, "three")


@pytest.mark.parametrize("engine", ["sqlite", "falkordb"])
def test_a_memory_whose_code_changed_is_marked_until_it_is_said_to_be_still_true(
    project, engine, request, monkeypatch
):
    if engine == "falkordb":
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph")
        monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{server.socket}?graph={graph}")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    code = project / "tax.py"
    code.write_text("def tax(price):\n    return price // 5\n", encoding="utf-8")
    note = answer("add", "The prices were rounded down in May.", "--cites", "tax.py:tax").strip()
    answer("add", "we round taxes", "--cites", "tax.py:tax")
    code.write_text("# Down.\ndef tax(price: int) -> int:\n    return price // 5\n", "utf-8")
    assert answer("doctor", "--memories") == ""
    assert "rounded" not in start(project, "one")

    code.write_text("def tax(price, rate):\n    return price // 5\n", encoding="utf-8")
    assert "changed (signature" in answer("doctor", "--memories")
    text = start(project, "two")
    assert "Memories whose code changed" in text
    mark = "(code it cites: tax.py:tax changed (signature))"
    assert f"{mark} The prices were rounded down in May." in text
    assert f"{mark} we round taxes" in text

    waiting = as_json("review", "--kind", "stale_citation")["items"]
    chosen = [one["id"] for one in waiting if one["memories"][0]["memory_id"] == note]
    answer("review", "--decide", f"{chosen[0]}=keep")
    assert "rounded" not in start(project, "three")


def test_what_was_found_out_is_given_and_found(project):
    send("UserPromptSubmit", project, prompt="Why do totals double?", prompt_id="p1")
    send("Stop", project, last_assistant_message=f"Great.\n\n{FOUND_OUT}\n\nLet me know!")
    own = {"tool_name": "mcp__zapomni__search_memory", "tool_input": {"query": "totals double"}}
    send("PostToolUse", project, **own, tool_response="nothing", tool_use_id="t1")
    send("SessionEnd", project, reason="other")
    assert FOUND_OUT in start(project, "two")
    found = as_json("search", "what did we find out about totals")["results"]
    assert ("assistant_message", FOUND_OUT) in [(one["kind"], one["text"]) for one in found]
    assert {one["kind"] for one in found} == {"assistant_message", "user_prompt"}


def test_the_reason_of_each_line_is_shown_and_a_setting_allows_more(project, monkeypatch):
    for number in range(30):
        answer("add", f"Never call step {number} twice. " + "because of the order " * 8)
    few = as_json("context")
    assert len(json.dumps(few["text"])) <= 3600
    reasons = answer("context", "--why")
    assert reasons.count("rule, ") == len(few["lines"])
    monkeypatch.setenv("ZAPOMNI_CONTEXT_TOKENS", "2000")
    assert len(as_json("context")["lines"]) > len(few["lines"])
    assert len(start(project, "one")) > 3600


def test_a_transcript_is_replayed_as_the_host_reported_it(tmp_path):
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "refused", "is_error": True}
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cat /old/a"}}
    command = "<command-name>/go</command-name><command-args>now</command-args>"
    rows = [
        {"type": "user", "cwd": "/old", "message": {"content": command}},
        {"type": "assistant", "message": {"content": [call]}},
        {"type": "user", "message": {"content": [result]}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "No."}]}},
        {"type": "progress"},
    ]
    file = tmp_path / "talk.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    events = list(read_events(file, "/new"))
    names = [event["hook_event_name"] for event in events]
    assert names == ["SessionStart", "UserPromptSubmit", "PostToolUseFailure", "Stop", "SessionEnd"]
    assert events[1]["prompt"] == "/go now"
    assert events[2]["tool_input"] == {"command": "cat /new/a"}
    assert find([{"what": "x", "words": ["a", "b"]}], ["A b", "a"]) == {"x (a)": ["A b"]}
