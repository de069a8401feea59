"""Codex itself, with the plugin; `test_life.py` has the rest."""

from __future__ import annotations

import pytest
from clients import ROOT, Machine, contexts
from endpoints import Call, Say, serve_provider

CLIENT = "codex"
CONFIG = """
model = "gpt-5.5"
model_provider = "local"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


@pytest.fixture
def provider(machine):
    with serve_provider([]) as provider:
        folder = machine.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(CONFIG.format(url=provider.url))
        machine.run(CLIENT, "plugin", "marketplace", "add", str(ROOT / "plugins"))
        machine.run(CLIENT, "plugin", "add", "zapomni@zapomni")
        yield provider


def codex(machine: Machine, *args: str) -> None:
    options = ("--skip-git-repo-check", "--dangerously-bypass-hook-trust")
    machine.run(CLIENT, "exec", *options, *args, LOCAL_KEY="not-a-key")


def test_the_plugin_records_what_happens_and_gives_the_next_session_its_context(machine, provider):
    provider.steps += [
        Call("exec_command", {"cmd": "echo broken; exit 3"}),
        Call("exec_command", {"cmd": "echo mended"}),
        Call("apply_patch", text="*** Begin Patch\n*** Add File: a.txt\n+one\n*** End Patch\n"),
        Say("The parser is faster now."),
    ]
    codex(machine, "Make the parser faster")
    assert machine.sessions()["Make the parser faster"] == [
        ("session_start", "Session started: startup"),
        ("user_prompt", "Make the parser faster"),
        ("command_error", "echo broken; exit 3\nbroken"),
        ("command", "echo mended"),
        ("file_write", "a.txt +1 -0\n+ one"),
        ("assistant_message", "The parser is faster now."),
        ("session_end", "Session ended: other"),
    ]
    codex(machine, "And the lexer?")
    assert contexts(provider.requests[-1][1]) == 1
