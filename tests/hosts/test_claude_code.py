"""Claude Code itself, with the plugin, and what is not in `test_life.py`."""

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


def test_the_plugin_records_what_happens_and_gives_the_next_session_its_context(machine, provider):
    found = "The importer reads orders.csv twice, so totals double."
    machine.run("zapomni", "add", "we deploy on Tuesdays", ZAPOMNI_EMBEDDER="none")
    provider.steps += [
        Call("Bash", {"command": "echo broken; exit 3"}),
        Call("Bash", {"command": "echo mended"}),
        Say(f"Great, found it.\n\n{found}\n\nLet me know!"),
    ]
    claude(machine, provider, *WITH_PLUGIN, "-p", "Why do totals double?")
    assert machine.sessions()["Why do totals double?"] == [
        ("session_start", "Session started: startup"),
        ("user_prompt", "Why do totals double?"),
        ("command_error", "echo broken; exit 3\nbroken"),
        ("command", "echo mended"),
        ("assistant_message", found),
        ("session_end", "Session ended: other"),
    ]
    before = len(provider.requests)
    claude(machine, provider, *WITH_PLUGIN, "-p", "What day is it?")
    first = provider.requests[before][1]
    assert contexts(first) == 1
    # Without being asked for.
    assert "we deploy on Tuesdays" in str(first)
    assert found in str(first)


def test_a_list_of_servers_leaves_no_session(machine, provider):
    # Hooks of plugins are not run for it; those in the settings are.
    machine.run("zapomni", "init", "--host", "claude-code", "--yes")
    claude(machine, provider, "mcp", "list")
    assert [event["hook_event_name"] for event in machine.events()] == ["SessionEnd"]
    assert machine.sessions() == {}
