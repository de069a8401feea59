"""The tool for the inbox: review_memories."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from zapomni_core.shared.fencing import DATA_NOTICE, fence
from zapomni_mcp.connection import current_folder
from zapomni_mcp.exceptions import ValidationError
from zapomni_mcp.lazy_engine import LazyEngine
from zapomni_mcp.tools.building import CHANGES, as_tools, to_result

__all__ = ["build_review_tools"]

Ctx = Context[LazyEngine]


class WaitingMemory(BaseModel):
    """A memory that an item is about."""

    memory_id: str
    text: str
    kind: str
    created_at: datetime
    recalls: int


class WaitingItem(BaseModel):
    """Something that waits for a decision."""

    id: int
    kind: str
    project: str
    text: str = Field(description="What a candidate says.")
    why: str
    memories: list[WaitingMemory] = Field(default=[], description="Older first.")
    choices: list[str]
    state: str = Field(description="open, or what was decided.")


class InboxAnswer(BaseModel):
    """What waits, or the item that was decided."""

    items: list[WaitingItem]
    total: int
    counts: dict[str, int]


async def review_memories(
    ctx: Ctx,
    *,
    kind: Literal[
        "", "candidate", "contradiction", "replaced", "duplicate", "stale_citation", "untrusted",
        "never_recalled",
    ] = "",
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
    offset: Annotated[int, Field(ge=0)] = 0,
    item: Annotated[int, Field(ge=1, description="The item to decide.")] | None = None,
    decision: Literal["", "keep", "supersede", "merge", "forget", "not_a_conflict", "undo"] = "",
) -> Annotated[CallToolResult, InboxAnswer]:  # fmt: skip
    """Show what waits in the user's inbox, or decide one item as the user asked.

    Candidates (said in prompts, no memories yet), contradictions, duplicates, replaced memories,
    changed citations, untrusted sources, memories recalled by no one. keep makes a memory of a
    candidate; supersede and merge let the newer of two replace the older; forget fills the trash.
    Decide only what the user decided; trusting is the user's alone.
    """
    engine = await ctx.request_context.lifespan_context.get()
    folder = current_folder()
    if (item is None) != (not decision):
        raise ValidationError("item and decision go together", "VAL_001")
    if item is not None:
        if decision == "undo":
            decided = await engine.review.undo(item, folder=folder, agent=True)
        else:
            decided = await engine.review.decide(item, decision, folder=folder, agent=True)
        shown, counts, total = [decided], {}, 1
    else:
        page = await engine.review.list_items(
            [kind] if kind else [], limit, offset, folder=folder, agent=True
        )
        shown, counts, total = page.items, page.counts, page.total
    items = [WaitingItem.model_validate(one.model_dump()) for one in shown]
    answer = InboxAnswer(items=items, total=total, counts=counts)
    passages = [
        fence(
            "\n".join(filter(None, (one.text, *(memory.text for memory in one.memories)))),
            id=one.id,
            kind=one.kind,
            why=one.why,
            state=one.state,
            choices=one.choices,
            memory_ids=[memory.memory_id for memory in one.memories],
        )
        for one in items
    ]
    return to_result(answer, "\n\n".join([DATA_NOTICE, *(passages or ["Nothing waits."])]))


def build_review_tools(*, every_tool: bool) -> list[Tool]:
    """Return the tools of this family."""
    return as_tools(((review_memories, "Review the inbox", CHANGES),)) if every_tool else []
