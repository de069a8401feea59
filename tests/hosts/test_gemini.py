"""Gemini CLI itself, connected by `zapomni init`: only the user's words are the user's words."""

from __future__ import annotations

import json

import pytest
from clients import Machine, contexts
from endpoints import Call, Provider, Say, serve_provider

CLIENT = "gemini"


@pytest.fixture
def provider(machine):
    settings = machine.home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    own = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
    }
    settings.write_text(json.dumps(own))
    machine.run("zapomni", "init", "--host", "gemini", "--yes")
    with serve_provider([]) as provider:
        yield provider


def gemini(machine: Machine, provider: Provider, *args: str) -> None:
    machine.run(
        CLIENT,
        "--model=gemini-2.5-flash",
        "--yolo",
        "--skip-trust",
        *args,
        GEMINI_API_KEY="not-a-key",
        GOOGLE_GEMINI_BASE_URL=provider.url,
    )


def test_what_happens_is_recorded_and_no_compaction_is_made_up(machine, provider):
    provider.steps += [
        Call("run_shell_command", {"command": "echo broken; exit 3"}),
        Call("run_shell_command", {"command": "echo mended"}),
        Say("Done."),
    ]
    gemini(machine, provider, "-p", "Make the parser faster")
    assert machine.sessions()["Make the parser faster"] == [
        ("session_start", "Session started: startup"),
        ("user_prompt", "Make the parser faster"),
        ("command_error", "echo broken; exit 3\nbroken"),
        ("command", "echo mended"),
        ("session_end", "Session ended: exit"),
    ]


def test_the_context_before_a_prompt_is_not_stored_with_it(machine, provider):
    gemini(machine, provider, "-p", "Write the importer of invoices")
    gemini(machine, provider, "-p", "Make the parser faster")
    assert contexts(provider.requests[-1][1]) == 1
    # A resumed conversation comes without it.
    gemini(machine, provider, "--resume", "latest", "-p", "And the lexer")
    assert contexts(provider.requests[-1][1]) == 1
    captured = machine.sessions()
    assert ("user_prompt", "And the lexer") in captured.pop("Make the parser faster")
    assert list(captured) == ["Write the importer of invoices"]
