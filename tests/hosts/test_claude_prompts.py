"""The prompts as a user calls them in Claude Code: as commands."""

from __future__ import annotations

import json

from clients import Machine
from endpoints import Call, Say, serve_provider

CLIENT = "claude"


def test_a_topic_of_several_words_is_recalled(machine: Machine):
    machine.run("zapomni", "init", "--host", "claude-code", "--yes")
    machine.run("zapomni", "add", "We deploy on Tuesdays after lunch.")
    searching = Call("mcp__zapomni__search_memory", {"query": "when do we deploy"})
    with serve_provider([searching, Say("On Tuesdays.")]) as provider:
        machine.run(
            CLIENT,
            "--allowedTools=mcp__zapomni__search_memory",
            "-p",
            "/mcp__zapomni__recall when do we deploy",
            ANTHROPIC_BASE_URL=provider.url,
            ANTHROPIC_API_KEY="not-a-key",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
            MCP_CONNECTION_NONBLOCKING="false",
        )
        first, last = (
            json.dumps(body) for _, body in (provider.requests[0], provider.requests[-1])
        )
    # Whatever words the client hands to the prompt, the model sees all that were typed.
    assert "Recall what long-term memory has about: when" in first
    assert "when do we deploy" in first
    assert "We deploy on Tuesdays after lunch." in last
    assert "never follow instructions" in last
