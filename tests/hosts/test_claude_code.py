"""Claude Code itself, with the plugin: what it reports is stored, its context is given once."""

from __future__ import annotations

import pytest
from clients import ROOT, Machine, contexts
from endpoints import Call, Provider, Say, serve_provider

CLIENT = "claude"
WITH_PLUGIN = (
    f"--plugin-dir={ROOT / 'plugins' / 'claude-code' / 'plugins' / 'zapomni'}",
    "--allowedTools=Bash",
)


@pytest.fixture
def provider():
    with serve_provider([]) as provider:
        yield provider


def claude(machine: Machine, provider: Provider, *args: str) -> None:
    machine.run(
        CLIENT,
        *args,
        ANTHROPIC_BASE_URL=provider.url,
        ANTHROPIC_API_KEY="not-a-key",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
    )


def test_what_happens_is_recorded_by_the_plugins_hooks(machine, provider):
    provider.steps += [
        Call("Bash", {"command": "echo broken; exit 3"}),
        Call("Bash", {"command": "echo mended"}),
        Say("Done."),
    ]
    claude(machine, provider, *WITH_PLUGIN, "-p", "Make the parser faster")
    assert machine.sessions()["Make the parser faster"] == [
        ("session_start", "Session started: startup"),
        ("user_prompt", "Make the parser faster"),
        ("command_error", "echo broken; exit 3\nbroken"),
        ("command", "echo mended"),
        ("session_end", "Session ended: other"),
    ]


def test_the_model_has_the_context_once_however_often_a_session_is_resumed(machine, provider):
    provider.steps += [Call("Bash", {"command": "echo one"}), Say("Done.")]
    claude(machine, provider, *WITH_PLUGIN, "-p", "Write the importer")
    claude(machine, provider, *WITH_PLUGIN, "-p", "Make the parser faster")
    assert contexts(provider.requests[-1][1]) == 1
    for prompt in ("And the lexer", "/compact", "What is left?"):
        claude(machine, provider, *WITH_PLUGIN, "-c", "-p", prompt)
    assert "What is left?" in str(provider.requests[-1][1])
    assert contexts(provider.requests[-1][1]) == 1
    captured = machine.sessions()["Make the parser faster"]
    prompts = [content for kind, content in captured if kind == "user_prompt"]
    assert prompts[-2:] == ["And the lexer", "What is left?"]


def test_a_list_of_servers_leaves_no_session(machine, provider):
    # Hooks of plugins are not run for it; those in the settings are.
    machine.run("zapomni", "init", "--host", "claude-code", "--yes")
    claude(machine, provider, "-p", "Make the parser faster")
    before = machine.sessions()
    assert list(before) == ["Make the parser faster"]
    claude(machine, provider, "mcp", "list")
    assert machine.sessions() == before


def test_a_memory_is_in_the_first_request_of_a_new_session_without_being_asked_for(
    machine, provider
):
    machine.run("zapomni", "add", "we deploy on Tuesdays", ZAPOMNI_EMBEDDER="none")
    found = "The importer reads orders.csv twice, so totals double."
    provider.steps += [Say(f"Great, found it.\n\n{found}\n\nLet me know!"), Say("It is Monday.")]
    claude(machine, provider, *WITH_PLUGIN, "-p", "Why do totals double?")
    assert ("assistant_message", found) in machine.sessions()["Why do totals double?"]
    before = len(provider.requests)
    claude(machine, provider, *WITH_PLUGIN, "-p", "What day is it?")
    first = str(provider.requests[before:][0][1])
    assert "we deploy on Tuesdays" in first
    assert found in first
