"""Codex itself, with the plugin: failures are failures, and the context is given once."""

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


def test_a_failing_command_is_stored_as_a_failure(machine, provider):
    provider.steps += [
        Call("exec_command", {"cmd": "echo broken; exit 3"}),
        Call("exec_command", {"cmd": "echo mended"}),
        Call("apply_patch", text="*** Begin Patch\n*** Add File: a.txt\n+one\n*** End Patch\n"),
        Say("Done."),
    ]
    codex(machine, "Make the parser faster")
    assert machine.sessions()["Make the parser faster"] == [
        ("session_start", "Session started: startup"),
        ("user_prompt", "Make the parser faster"),
        ("command_error", "echo broken; exit 3\nbroken"),
        ("command", "echo mended"),
        ("file_write", "a.txt +1 -0\n+ one"),
        ("session_end", "Session ended: other"),
    ]


def test_the_model_has_the_context_once_however_often_a_session_is_resumed(machine, provider):
    provider.steps += [Call("exec_command", {"cmd": "echo one"}), Say("Done.")]
    codex(machine, "Write the importer")
    # So full that Codex compacts before the next turn.
    provider.steps += [Say("Done.", tokens=250_000)]
    codex(machine, "Make the parser faster")
    assert contexts(provider.requests[-1][1]) == 1
    for prompt in ("And the lexer", "What is left?"):
        codex(machine, "resume", "--last", prompt)
        assert contexts(provider.requests[-1][1]) == 1
    kinds = [kind for kind, _ in machine.sessions()["Make the parser faster"]]
    assert kinds.count("session_compact") == 1
