"""The tools that add, search, read, change and delete memories.

A tool parses its arguments, calls the engine and formats the answer. Failures are turned into
messages in one place, `zapomni_mcp.server`. `text` is never `str | None`: the SDK tries to read
such an argument as JSON first, and a text that happens to be JSON could not be stored.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from zapomni_core.infra.recall_log import RecalledItem, count_tokens
from zapomni_core.interfaces import (
    AddMemoryRequest,
    SearchRequest,
    UpdateMemoryRequest,
)
from zapomni_core.shared.compact import without_empty
from zapomni_core.shared.fencing import DATA_NOTICE, fence
from zapomni_core.workflows.agent_answer import SearchAnswer, answer_text, fence_hits, fit
from zapomni_db.models import MemoryStats
from zapomni_mcp.connection import current_folder
from zapomni_mcp.lazy_engine import LazyEngine
from zapomni_mcp.tools.building import (
    ADDS,
    CHANGES,
    READS,
    as_tools,
    log_recall,
    to_result,
    with_zone,
)
from zapomni_mcp.tools.memory_answers import (
    Added,
    Changed,
    Deleted,
    MemoryInfo,
    MemoryText,
    added,
    info,
    part,
)

__all__ = ["build_tools", "read_memory"]

Ctx = Context[LazyEngine]

# --- Arguments --------------------------------------------------------------------------

MemoryId = Annotated[str, Field(min_length=1, max_length=100)]
Project = Annotated[str, Field(max_length=1000)]
Source = Annotated[str, Field(max_length=1000)]
Kind = Annotated[str, Field(max_length=32)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
Tags = Annotated[list[Tag], Field(max_length=50)]
Metadata = dict[str, Any]
MaxTokens = Annotated[int, Field(ge=200, le=50_000)]
Place = Annotated[str, Field(min_length=1, max_length=1000)]
Cites = Annotated[list[Place], Field(max_length=50)]


# --- Tools ------------------------------------------------------------------------------


async def add_memory(  # noqa: PLR0913 - every argument is part of the tool's schema
    ctx: Ctx,
    *,
    text: Annotated[str, Field(min_length=1, max_length=10_000_000)],
    project: Annotated[Project, Field(description='If not this; "*": global.')] = "",
    source: Annotated[Source, Field(description="A file, URL, meeting, ...")] = "",
    kind: Annotated[Kind, Field(description="note, decision, preference, ...")] = "note",
    tags: Tags | None = None,
    metadata: Metadata | None = None,
    pinned: Annotated[bool, Field(description="Always show it first.")] = False,
    parent: Annotated[
        str,
        Field(max_length=200, description="Its conversation or document."),
    ] = "",
    position: Annotated[int, Field(ge=0)] = 0,
    occurred_at: Annotated[datetime, Field(description="If not now.")] | None = None,
    expires_at: datetime | None = None,
    supersedes: Annotated[
        str, Field(max_length=100, description="Id of the memory it replaces.")
    ] = "",
    cites: Annotated[Cites, Field(description="Code: path, path:symbol, path:L10-L20.")]
    | None = None,
    idempotency_key: Annotated[
        str, Field(max_length=200, description="Makes a retry harmless.")
    ] = "",
    redact: Annotated[bool, Field(description="Mask secrets first.")] = False,
) -> Annotated[CallToolResult, Added]:
    """Remember: save a note, decision, preference, fact, fix or document for later sessions.

    The same text twice is stored once. Correct an old one with update_memory or supersedes.
    With cites, a recall says whether that code changed.
    """
    engine = await ctx.request_context.lifespan_context.get()
    request = AddMemoryRequest(
        text=text,
        metadata=metadata or {},
        project=project,
        source=source,
        kind=kind,
        tags=tags or [],
        pinned=pinned,
        parent=parent,
        position=position,
        occurred_at=with_zone(occurred_at),
        expires_at=with_zone(expires_at),
        supersedes=supersedes or None,
        idempotency_key=idempotency_key or None,
        cites=cites or [],
        folder=current_folder(),
        agent=True,
        redact=redact,
    )
    return to_result(added(await engine.add_memory(request)))


async def search_memory(  # noqa: PLR0913 - every argument is part of the tool's schema
    ctx: Ctx,
    *,
    query: Annotated[str, Field(min_length=1, max_length=10_000)],
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
    offset: Annotated[int, Field(ge=0, le=1000)] = 0,
    project: Annotated[Project, Field(description='If not this; "*": all.')] = "",
    source: Source = "",
    kind: Annotated[Kind, Field(description="Or type of observation.")] = "",
    tags: Annotated[Tags, Field(description="All of these.")] | None = None,
    session: Annotated[str, Field(max_length=200, description="Or conversation, document.")] = "",
    path: Annotated[str, Field(max_length=1000, description="File or folder, or its end.")] = "",
    since: datetime | None = None,
    until: datetime | None = None,
    as_of: Annotated[datetime, Field(description="True then.")] | None = None,
    known_at: Annotated[datetime, Field(description="Stored by then.")] | None = None,
    within: Literal["everything", "memories", "observations"] = "everything",
    max_tokens: MaxTokens = 2000,
    explain: bool = False,
) -> Annotated[CallToolResult, SearchAnswer]:
    """Recall what is known: decisions, preferences, facts, fixes, notes, documents.

    Ask in plain words. Observations and code are ranked along. get_memory reads a hit whole,
    timeline what surrounds an observation.
    """
    engine = await ctx.request_context.lifespan_context.get()
    wanted = {
        "project": project,
        "source": source,
        "kind": kind,
        "tags": tags,
        "session": session,
        "path": path,
        "since": with_zone(since),
        "until": with_zone(until),
        "as_of": with_zone(as_of),
        "known_at": with_zone(known_at),
    }
    request = SearchRequest(
        query=query,
        limit=limit,
        offset=offset,
        filters={name: value for name, value in wanted.items() if value} or None,
        within=within,
        folder=current_folder(),
        agent=True,
        explain=explain,
        beside=True,
    )
    answer = fit(await engine.search_memory(request), offset, max_tokens)
    passages = fence_hits(answer)
    log_recall(
        engine.recalls,
        query,
        [
            RecalledItem(
                hit.get("memory_id", ""),
                hit.get("observation_id"),
                count_tokens(passage),
                hit["evidence"],
            )
            for hit, passage in zip(answer["results"], passages, strict=True)
        ],
    )
    return to_result(answer, answer_text(answer, passages))


async def get_memory(
    ctx: Ctx,
    memory_id: MemoryId,
    offset: Annotated[int, Field(ge=0)] = 0,
    max_tokens: MaxTokens = 4000,
) -> Annotated[CallToolResult, MemoryText]:
    """Read one memory whole by its id: text, date, source, tags, metadata.

    Long texts come in parts; read on at next_offset.
    """
    engine = await ctx.request_context.lifespan_context.get()
    record = await engine.get_memory(memory_id)
    answer = part(record, await engine.citations.get(memory_id), offset, max_tokens)
    shown = without_empty(answer)
    passage = fence(answer.text, **{name: shown[name] for name in shown if name in _SHOWN})
    item = RecalledItem(memory_id, tokens=count_tokens(passage))
    log_recall(engine.recalls, "", [item], opened=[item])
    return to_result(answer, "\n\n".join([DATA_NOTICE, passage, answer.note or ""]).strip())


async def update_memory(  # noqa: PLR0913 - every argument is part of the tool's schema
    ctx: Ctx,
    *,
    memory_id: MemoryId,
    text: str = "",
    project: Project | None = None,
    source: Source | None = None,
    kind: Kind | None = None,
    tags: Tags | None = None,
    metadata: Metadata | None = None,
    pinned: bool | None = None,
    expires_at: datetime | None = None,
    supersedes: Annotated[list[MemoryId], Field(max_length=50)] | None = None,
    cites: Cites | None = None,
    redact: bool = False,
) -> Annotated[CallToolResult, Changed]:
    """Change or correct a stored memory in place; arguments as in add_memory.

    What is not given stays; tags, metadata, cites are replaced.
    """
    engine = await ctx.request_context.lifespan_context.get()
    request = UpdateMemoryRequest(
        memory_id=memory_id,
        text=text or None,
        metadata=metadata,
        project=project,
        source=source,
        kind=kind,
        tags=tags,
        pinned=pinned,
        expires_at=with_zone(expires_at),
        supersedes=supersedes,
        cites=cites,
        folder=current_folder(),
        agent=True,
        redact=redact,
    )
    record = await engine.update_memory(request)
    return to_result(Changed(**info(record), notice=record.notice))


async def delete_memory(ctx: Ctx, memory_id: MemoryId) -> Annotated[CallToolResult, Deleted]:
    """Forget: move one stored memory, by its id, to the trash. Undo within 30 days."""
    engine = await ctx.request_context.lifespan_context.get()
    batch = (await engine.delete_memory(memory_id)).batch
    return to_result(Deleted(memory_id=memory_id, undo=f"zapomni forget --undo {batch}"))


async def get_stats(ctx: Ctx) -> Annotated[CallToolResult, MemoryStats]:
    """Status of the memory store: memories, passages, size, model, pending vectors."""
    engine = await ctx.request_context.lifespan_context.get()
    return to_result(MemoryStats.model_validate(await engine.get_stats()))


async def read_memory(memory_id: str, ctx: Ctx) -> str:
    """One stored memory, whole, as quoted data."""
    engine = await ctx.request_context.lifespan_context.get()
    record = await engine.get_memory(memory_id)
    shown = without_empty(MemoryInfo(**info(record)))
    item = RecalledItem(memory_id, tokens=count_tokens(record.text))
    log_recall(engine.recalls, "", [item], opened=[item])
    passage = fence(record.text, **{name: shown[name] for name in shown if name in _SHOWN})
    return f"{DATA_NOTICE}\n\n{passage}"


def build_tools() -> list[Tool]:
    """Return the tools of this family."""
    return as_tools(
        (
            (add_memory, "Remember", ADDS),
            (search_memory, "Recall", READS),
            (get_memory, "Read a memory", READS),
            (update_memory, "Change a memory", CHANGES),
            (delete_memory, "Forget a memory", CHANGES),
            (get_stats, "Statistics", READS),
        )
    )


# --- Formatting -------------------------------------------------------------------------

_SHOWN = {
    "memory_id",
    "created_at",
    "updated_at",
    "source",
    "project",
    "kind",
    "tags",
    "citations",
}
