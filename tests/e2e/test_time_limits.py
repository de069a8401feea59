"""A call of a tool ends in time, and what it was doing is done whole or not at all."""

from __future__ import annotations

import pytest

import servers
from serving import serving

pytestmark = pytest.mark.anyio


async def test_a_tool_that_waits_for_a_silent_service_is_stopped(tmp_path):
    with servers.serve(lambda request: servers.Answer({}, hang=True)) as silent:
        given = {
            "ZAPOMNI_EMBEDDER": "ollama",
            "ZAPOMNI_OLLAMA_HOST": silent.url,
            "ZAPOMNI_TOOL_TIMEOUT_SECONDS": "6",
        }
        async with serving(tmp_path, **given) as zapomni:
            told = await zapomni.refused("add_memory", text="never stored")
            assert "TOOL_003" in told
            assert "longer than 6 seconds" in told
            stats = await zapomni.call("get_stats")
            assert (stats["total_memories"], stats["pending_vectors"]) == (0, 0)
            failed = [line["error_code"] for line in zapomni.lines("tool_failed")]
            assert failed == ["TOOL_003"]
