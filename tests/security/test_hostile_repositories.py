"""Capture and index never execute anything a repository says: a canary that must never appear."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress

import pytest
from hostile_repositories import SETUPS, TRAPS, Trap

from command import answer, patient_hook, record_here
from zapomni_core.exceptions import ValidationError
from zapomni_core.infra import git as guarded
from zapomni_core.infra.projects import head_commit, project_of
from zapomni_core.modules.codebase import SourceTree

EVENTS = [
    {"hook_event_name": "SessionStart", "source": "startup"},
    {"hook_event_name": "SessionStart", "source": "compact"},
    {"hook_event_name": "UserPromptSubmit", "prompt": "go on with it please"},
    {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    {
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "git commit -m x"},
        "tool_response": {"stdout": "[main 1234567] x", "stderr": ""},
    },
    {
        "hook_event_name": "PostToolUseFailure",
        "tool_name": "Edit",
        "tool_input": {"file_path": "a.py"},
        "error": "no such file",
    },
    {"hook_event_name": "SubagentStop", "agent_type": "x", "last_assistant_message": "done"},
    {"hook_event_name": "PostCompact", "compact_summary": "what was done"},
    {"hook_event_name": "Notification", "message": "waiting"},
    {"hook_event_name": "Stop"},
    {"hook_event_name": "SessionEnd", "reason": "exit"},
]
# Where a process of the command line itself adds something to the functions it calls.
INDEXED = [
    "filter_clean",
    "racy_archive",
    "fsmonitor",
    "promisor_by_include",
    "around_embedded_bare",
]


@pytest.fixture
def trap(tmp_path):
    folder = tmp_path / "trap"
    folder.mkdir()
    return Trap(folder)


def test_there_are_more_than_two_dozen_set_ups():
    assert len(SETUPS) >= 24
    assert TRAPS.keys() <= SETUPS.keys()


@pytest.mark.parametrize("name", TRAPS)
def test_the_trap_is_armed(trap, name):
    folder = SETUPS[name](trap)
    trap.canary.unlink(missing_ok=True)
    subprocess.run(
        ["git", *TRAPS[name]],
        cwd=folder,
        env={**os.environ, **trap.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert trap.canary.exists()


@pytest.mark.parametrize("name", SETUPS)
def test_no_question_to_git_runs_a_command(trap, name, monkeypatch):
    folder = SETUPS[name](trap)
    trap.canary.unlink(missing_ok=True)
    for variable, value in trap.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(folder)

    root = project_of(str(folder)).root
    guarded.list_root_commits(root)
    guarded.changed_files(root)
    guarded.list_files(root)
    head = head_commit(str(folder))
    for commit in list(guarded.read_commits(root, head, 2)):
        for file in commit.files or ["a.py"]:
            guarded.read_file_history(root, commit.sha, head, file, 2)
    guarded.count_commits(root, head)
    for part in {root, str(folder)}:
        with suppress(ValidationError), SourceTree(part) as tree:  # A bare one is refused.
            list(tree.files())

    assert not trap.canary.exists()


@pytest.mark.parametrize("name", SETUPS)
def test_no_event_of_a_host_runs_a_command(trap, name, private_home, monkeypatch):
    folder = SETUPS[name](trap)
    trap.canary.unlink(missing_ok=True)
    for variable, value in trap.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(folder)
    payloads = [
        json.dumps({"session_id": "s", "cwd": str(folder), "tool_use_id": str(number), **event})
        for number, event in enumerate(EVENTS)
    ]

    # As a host runs it; then every other event, in this process.
    done = subprocess.run(
        patient_hook("claude-code"),
        input=payloads[0].encode(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert not trap.canary.exists()
    for payload in payloads:
        # Root commits are remembered; every event has to find this one itself.
        (private_home / "roots.json").unlink(missing_ok=True)
        assert record_here(payload.encode(), "--host", "claude-code") == (0, "")
        assert not trap.canary.exists(), payload


@pytest.mark.parametrize("name", INDEXED)
def test_no_index_of_a_repository_runs_a_command(trap, name):
    folder = SETUPS[name](trap)
    trap.canary.unlink(missing_ok=True)
    answer("index", str(folder), "--json", ZAPOMNI_EMBEDDER="none", **trap.environment)
    assert not trap.canary.exists()


@pytest.mark.parametrize("name", INDEXED)
def test_no_import_of_a_repository_runs_a_command(trap, name, monkeypatch):
    folder = SETUPS[name](trap)
    (folder / "CLAUDE.md").write_text("Use tabs.\n", "utf-8")
    trap.canary.unlink(missing_ok=True)
    monkeypatch.chdir(folder)
    for source in ("git", "adr", "instructions"):
        answer("import", source, "--yes", ZAPOMNI_EMBEDDER="none", **trap.environment)
    assert not trap.canary.exists()


def test_only_commands_that_compare_no_contents_can_be_asked(tmp_path):
    for command in ("status", "diff-files", "diff", "fetch", "config", "-c"):
        with pytest.raises(ValueError, match="not on the list"):
            guarded._run(str(tmp_path), [command])
