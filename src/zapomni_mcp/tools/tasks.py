"""The tools that follow and stop background tasks: get_task_status, cancel_task."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from zapomni_core.shared.compact import is_empty
from zapomni_db.models import TaskStatus
from zapomni_mcp.lazy_engine import LazyEngine
from zapomni_mcp.tools.building import ADDS, READS, as_tools, to_result
from zapomni_mcp.tools.memory_answers import Id

__all__ = ["build_task_tools"]

Ctx = Context[LazyEngine]

TaskId = Annotated[str, Field(min_length=1, max_length=100)]


class TaskAnswer(TaskStatus):
    """How far a background task is."""

    task_id: Id
    result: dict[str, Any] | None = None


async def get_task_status(
    ctx: Ctx,
    task_id: TaskId,
    wait_seconds: Annotated[float, Field(ge=0, le=300)] = 0,
) -> Annotated[CallToolResult, TaskAnswer]:
    """Follow a task that build_graph or index_codebase began: progress (0 to 1), result or error.

    With wait_seconds it waits for the end: better than asking repeatedly.
    """
    engine = await ctx.request_context.lifespan_context.get()
    status = await engine.tasks.get_task_status(task_id)
    reported = -1.0
    with anyio.move_on_after(wait_seconds):
        async for status in engine.tasks.watch(task_id):
            # The protocol wants every number above the last.
            if status.progress > reported:
                reported = status.progress
                words = status.message or status.status
                await ctx.report_progress(status.progress, 1.0, words)
    return _answer(status)


async def cancel_task(ctx: Ctx, task_id: TaskId) -> Annotated[CallToolResult, TaskAnswer]:
    """Stop or abort a background task; what it has stored so far stays.

    A task that no worker has claimed is cancelled at once, a running one at its next step: then
    cancel_requested is true until it has stopped. A task that has ended stays as it is.
    """
    engine = await ctx.request_context.lifespan_context.get()
    return _answer(await engine.tasks.cancel_task(task_id))


def _answer(status: TaskStatus) -> CallToolResult:
    result = status.result
    # A handler of another program's may return anything.
    objects = {
        "params": status.params or {},
        "result": result if isinstance(result, dict) else {"value": result},
    }
    lean = {
        name: {key: item for key, item in value.items() if not is_empty(item)}
        for name, value in objects.items()
    }
    return to_result(TaskAnswer(**{**dict(status), **lean}))


def build_task_tools(*, every_tool: bool) -> list[Tool]:
    """Return the tools of this family."""
    usual = ((get_task_status, "Follow a task", READS),)
    more = ((cancel_task, "Stop a task", ADDS),)
    return as_tools((*usual, *(more if every_tool else ())))
