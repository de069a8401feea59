"""Cards of files, symbols and decisions: what memories say, joined with what sessions did."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from command import add, answer, as_json, record_here, refused
from graph_builders import read
from zapomni_core.settings import load_settings
from zapomni_db.sqlite.storage import SqliteStorage

SESSION = "5e551011-2222-4333-8444-555555555555"
COMMAND = "pytest -q tests/test_auth.py"
GIT = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com"]


def event(folder: Path, name: str, session: str = SESSION, **fields) -> None:
    base = {"session_id": session, "cwd": str(folder), "transcript_path": "", "permission_mode": ""}
    told = json.dumps({**base, "hook_event_name": name, **fields}).encode()
    code, complaint = record_here(told, "--host", "claude-code")
    assert (code, complaint) == (0, "")


def run(folder: Path, command: str, stdout: str, number: str, session: str = SESSION) -> None:
    event(
        folder,
        "PostToolUse",
        session,
        tool_name="Bash",
        tool_use_id=number,
        tool_input={"command": command},
        tool_response={"stdout": stdout, "stderr": "", "interrupted": False},
    )


def edit(folder: Path, path: str, number: str, session: str = SESSION) -> None:
    event(
        folder,
        "PostToolUse",
        session,
        tool_name="Edit",
        tool_use_id=number,
        tool_input={
            "file_path": str(folder / path),
            "old_string": "    return token == 'never'",
            "new_string": "    return token in tokens",
        },
        tool_response={"filePath": str(folder / path)},
    )


async def name_decision(memory_id: str, name: str) -> None:
    """Let a memory be a decision record, whatever the rules read in it."""
    async with SqliteStorage(load_settings().database_path) as storage:
        await read(storage, memory_id, [(name, "DECISION")])


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A repository in which a session repaired a file after a failure, and committed it."""
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "auth.py").write_text("def check_token(token):\n    return token in tokens\n")
    (folder / "src" / "other.py").write_text("x = 1\n")
    monkeypatch.chdir(folder)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*GIT, *command], check=True)
    event(folder, "SessionStart", source="startup")
    event(folder, "UserPromptSubmit", prompt="Tokens must be looked up.")
    event(
        folder,
        "PostToolUseFailure",
        tool_name="Bash",
        tool_use_id="1",
        tool_input={"command": COMMAND},
        error="Exit code 1\nFAILED tests/test_auth.py::test_token - AssertionError",
    )
    edit(folder, "src/auth.py", "2")
    run(folder, COMMAND, "1 passed", "3")
    run(folder, "git commit -am 'Look tokens up'", "[main abc1234] Look tokens up", "4")
    return folder


def test_a_file_that_no_memory_names_has_a_card(shop, monkeypatch):
    card = as_json("graph", "show", "src/auth.py")

    assert (card["entity"]["name"], card["entity"]["type"]) == ("src/auth.py", "FILE")
    assert card["place"]["path"] == "src/auth.py"
    (work,) = card["work"]
    assert (work["session_id"], work["host"], work["edits"]) == (SESSION, "claude-code", 1)
    assert work["prompts"] == ["Tokens must be looked up."]
    assert work["failure"]["command"] == COMMAND
    assert "AssertionError" in work["failure"]["message"]
    assert work["passed"]["id"] > work["failure"]["id"]
    assert work["failed_after"] is None
    (commit,) = work["commits"]
    assert (commit["commit"], commit["subject"]) == ("abc1234", "Look tokens up")
    shown = answer("graph", "show", "src/auth.py")
    for part in ("asked: Tokens must be looked up.", f"after it failed: {COMMAND}", "passed: "):
        assert part in shown
    assert "committed: " in shown
    assert f"session {SESSION[:8]}" in shown
    # From another folder of the project, and one that nothing was done about.
    monkeypatch.chdir(shop / "src")
    assert len(as_json("graph", "show", "auth.py")["work"]) == 1
    assert "no session was seen editing it" in answer("graph", "show", "other.py")
    assert "GRAPH_001" in refused(3, "graph", "show", "missing.py")
    assert "GRAPH_001" in refused(3, "graph", "show", "/etc/passwd")


def test_a_file_is_joined_with_what_cites_and_names_it_and_the_session_that_decided(shop):
    cites = add("Tokens are looked up, never compared.", "--kind", "decision",
                "--cites", "src/auth.py")  # fmt: skip
    names = add("The cache of src/auth.py is Redis.")
    run(shop, "git status", "", "5")
    answer("graph", "build")

    card = as_json("graph", "show", "src/auth.py")

    (citing,) = card["cited_by"]
    assert (citing["memory_id"], citing["kind"], citing["status"]) == (cites, "decision", "fresh")
    assert names in [one["memory_id"] for one in card["memories"]]
    assert len(card["work"]) == 1
    asked = card["sessions"][cites]
    assert (asked["session_id"], asked["prompt"]) == (SESSION, "Tokens must be looked up.")
    shown = answer("graph", "show", "src/auth.py")
    assert "Tokens are looked up, never compared." in shown.partition("Cited by")[2]
    assert f"in session {SESSION[:8]} of claude-code: Tokens must" in shown
    (shop / "src" / "auth.py").write_text("def check_token(token):\n    return False\n")
    assert as_json("graph", "show", "src/auth.py")["cited_by"][0]["status"] == "changed"


def test_an_indexed_symbol_has_a_card_and_a_wrong_name_leads_to_it(shop):
    answer("index", ".")
    add("Never log tokens.", "--cites", "src/auth.py:check_token")

    card = as_json("graph", "show", "check_token")

    assert (card["place"]["path"], card["place"]["symbol"]) == ("src/auth.py", "check_token")
    assert [one["title"] for one in card["cited_by"]] == ["Never log tokens."]
    assert [one["session_id"] for one in card["work"]] == [SESSION]
    assert "src/auth.py:1  def check_token(token)" in answer("graph", "show", "check_token")
    assert "check_token" in refused(3, "graph", "show", "chek_token")
    (shop / "src" / "other.py").write_text("def check_token(token):\n    return token\n")
    answer("index", ".")
    assert "src/other.py:check_token" in refused(3, "graph", "show", "check_token")
    asked = as_json("graph", "show", "src/other.py:check_token")
    assert asked["place"]["path"] == "src/other.py"


def test_another_project_and_an_old_failure_are_not_mixed_in(shop, tmp_path, monkeypatch):
    other = tmp_path / "elsewhere"
    (other / "src").mkdir(parents=True)
    (other / "src" / "auth.py").write_text("")
    subprocess.run([*GIT, "init", "-q", str(other)], check=True)
    second = "0ther011-2222-4333-8444-555555555555"
    event(other, "UserPromptSubmit", second, prompt="First this.")
    run(other, "make", "", "1", second)
    event(
        other,
        "PostToolUseFailure",
        second,
        tool_name="Bash",
        tool_use_id="2",
        tool_input={"command": "flake8"},
        error="Exit code 1\nE501 line too long",
    )
    event(other, "UserPromptSubmit", second, prompt="Then that.")
    edit(other, "src/auth.py", "3", second)

    assert [one["session_id"] for one in as_json("graph", "show", "src/auth.py")["work"]] == [
        SESSION
    ]
    monkeypatch.chdir(other)
    (work,) = as_json("graph", "show", "src/auth.py")["work"]
    # It failed for another prompt and never passed: the edit is no answer to it.
    assert (work["session_id"], work["failure"]) == (second, None)


def test_commits_of_an_imported_history_are_shown_with_their_authors(shop):
    (shop / "src" / "auth.py").write_text("def check_token(token):\n    return bool(token)\n")
    subprocess.run([*GIT, "commit", "-qam", "Any token will do"], check=True)
    answer("import", "git", "--yes")

    commits = as_json("graph", "show", "src/auth.py")["commits"]

    assert [one["subject"] for one in commits] == ["Any token will do", "Begin"]
    assert {one["author"] for one in commits} == {"Ada"}
    decided = add("ADR-8: any token will do.", "--cites", "src/auth.py")
    asyncio.run(name_decision(decided, "ADR-8"))
    assert as_json("graph", "show", "ADR-8")["commits"] == commits
    assert [c["subject"] for c in as_json("graph", "show", "src/other.py")["commits"]] == ["Begin"]


def test_a_decision_shows_the_sessions_that_worked_on_its_files(shop):
    decided = add("ADR-7: tokens are looked up.", "--kind", "decision", "--cites", "src/auth.py")
    run(shop, "git status", "", "5")

    asyncio.run(name_decision(decided, "ADR-7"))

    card = as_json("graph", "show", "ADR-7")

    assert card["files"] == ["src/auth.py"]
    (work,) = card["work"]
    assert (work["session_id"], work["failure"]["command"]) == (SESSION, COMMAND)
    assert card["sessions"][decided]["session_id"] == SESSION
    assert [one["memory_id"] for one in card["memories"]] == [decided]


def test_private_projects_stay_in_their_own_folder(shop, tmp_path, monkeypatch):
    answer("projects", "--private", "shop")
    monkeypatch.chdir(tmp_path)

    assert "GRAPH_001" in refused(3, "graph", "show", "src/auth.py")
    monkeypatch.chdir(shop)
    assert len(as_json("graph", "show", "src/auth.py")["work"]) == 1


def test_memories_on_a_server_are_joined_with_sessions_of_this_machine(
    falkordb_server, falkordb_graph, shop, monkeypatch
):
    monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{falkordb_server.socket}?graph={falkordb_graph}")
    cites = add("Tokens are looked up.", "--cites", "src/auth.py")
    add("Redis is the cache of src/auth.py.")
    answer("graph", "build")

    card = as_json("graph", "show", "src/auth.py")

    assert [one["memory_id"] for one in card["cited_by"]] == [cites]
    assert [one["session_id"] for one in card["work"]] == [SESSION]
    assert card["entity"]["mentions"] == 1
