"""The tools that follow and stop background tasks: get_task_status, cancel_task."""

from __future__ import annotations

from typing import Annotated

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from pydantic import Field

from zapomni_db.models import TaskStatus
from zapomni_mcp.lazy_engine import LazyEngine
from zapomni_mcp.tools.building import ADDS, READS, as_tools

__all__ = ["build_task_tools"]

Ctx = Context[LazyEngine]

TaskId = Annotated[
    str,
    Field(min_length=1, max_length=100, description="The task's id, from the tool that began it."),
]


async def get_task_status(
    ctx: Ctx,
    task_id: TaskId,
    wait_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=300,
            description="Wait up to so long for it to end, with progress notifications.",
        ),
    ] = 0,
) -> TaskStatus:
    """Follow a background task, such as building the graph: progress, result or error.

    status is pending, running, completed, failed or cancelled; progress goes from 0 to 1. Tasks
    outlive sessions and crashes: a stalled one is taken over. Wait instead of asking repeatedly.
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
    return status


async def cancel_task(ctx: Ctx, task_id: TaskId) -> TaskStatus:
    """Stop or abort a background task; what it has stored so far stays.

    A task that no worker has claimed is cancelled at once, a running one at its next step: then
    cancel_requested is true until it has stopped. A task that has ended stays as it is.
    """
    engine = await ctx.request_context.lifespan_context.get()
    return await engine.tasks.cancel_task(task_id)


def build_task_tools(*, every_tool: bool) -> list[Tool]:
    """Return the tools of this family."""
    usual = ((get_task_status, "Follow a task", READS),)
    more = ((cancel_task, "Stop a task", ADDS),)
    return as_tools((*usual, *(more if every_tool else ())))
