"""Checked by mypy, never run: the types a user of `import zapomni` gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import zapomni


async def use_the_asynchronous_engine() -> None:
    async with zapomni.open(home="memory") as memory:
        assert_type(memory, zapomni.ZapomniEngine)
        added = await memory.add_memory(zapomni.AddMemoryRequest(text="one"))
        assert_type(added, zapomni.AddMemoryResponse)
        found = await memory.search_memory(zapomni.SearchRequest(query="one"))
        assert_type(found.results, list[zapomni.SearchResult])
    assert_type(await zapomni.open(), zapomni.ZapomniEngine)


def use_the_blocking_engine(settings: zapomni.Settings) -> None:
    with zapomni.open_sync(settings) as memory:
        assert_type(memory, zapomni.SyncEngine)
        request = zapomni.AddMemoryRequest(text="one")
        assert_type(memory.add_memory(request), zapomni.AddMemoryResponse)
        assert_type(memory.get_memory("id"), zapomni.MemoryRecord)
        assert_type(memory.get_stats(), dict[str, Any])
        assert_type(memory.get_history("id", as_of=None), list[zapomni.MemoryVersion])
        assert_type(memory.graph.export("graphml"), Iterator[str])
        assert_type(
            memory.graph.get_related(zapomni.RelatedRequest(entity="Ada")), zapomni.RelatedResponse
        )
        assert_type(memory.code.list_repositories(), list[zapomni.CodeRepository])
        assert_type(memory.tasks.list_tasks("failed"), list[zapomni.TaskStatus])
        assert_type(memory.observations.sessions(None, limit=5), list[zapomni.SessionSummary])
        assert_type(memory.citations.list_stale(), list[zapomni.StaleMemory])
        assert_type(memory.memories.get_stats(), zapomni.MemoryStats)
        memory.tasks.start()


def be_warned_of_mistakes(memory: zapomni.SyncEngine) -> None:
    zapomni.opne()  # type: ignore[attr-defined]
    memory.get_memory()  # type: ignore[call-arg]
    memory.add_memory("a text is no request")  # type: ignore[arg-type]
    memory.tasks.list_tasks(status=3)  # type: ignore[arg-type]


def know_what_an_error_carries(error: zapomni.ZapomniError) -> str:
    assert_type(error.is_transient, bool)
    return error.error_code
