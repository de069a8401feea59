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

from zapomni_core.interfaces import (
    AddMemoryRequest,
    SearchRequest,
    UpdateMemoryRequest,
)
from zapomni_core.shared.fencing import DATA_NOTICE, fence
from zapomni_db.models import MemoryStats
from zapomni_mcp.connection import current_folder
from zapomni_mcp.lazy_engine import LazyEngine
from zapomni_mcp.tools.building import ADDS, CHANGES, READS, as_tools, to_result, with_zone
from zapomni_mcp.tools.memory_answers import (
    Added,
    Changed,
    Deleted,
    MemoryInfo,
    MemoryText,
    SearchAnswer,
    fit,
    info,
    part,
)

__all__ = ["build_tools", "read_memory"]

Ctx = Context[LazyEngine]

# --- Arguments --------------------------------------------------------------------------

MemoryId = Annotated[
    str, Field(min_length=1, max_length=100, description="The memory's id, from add or search.")
]
Project = Annotated[str, Field(max_length=200, description="Project the memory belongs to.")]
Source = Annotated[
    str, Field(max_length=1000, description="Where it comes from: a file, a URL, a meeting.")
]
Kind = Annotated[
    str, Field(max_length=32, description="What it is: note, decision, preference, fact, bug.")
]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
Tags = Annotated[list[Tag], Field(max_length=50, description="Labels to filter by later.")]
AllTags = Annotated[
    list[Tag], Field(max_length=50, description="Only memories that carry all of these.")
]
Metadata = Annotated[
    dict[str, Any], Field(description="Any JSON object: at most 100 KB and 10 levels deep.")
]
MaxTokens = Annotated[
    int, Field(ge=200, le=50_000, description="Longest answer, in tokens (estimated).")
]
Place = Annotated[str, Field(min_length=1, max_length=1000)]
Cites = Annotated[
    list[Place],
    Field(max_length=50, description="Code it cites: path, path:symbol or path:L10-L20."),
]
Redact = Annotated[bool, Field(description="Mask secrets (keys, passwords) before storing.")]
Moment = Annotated[datetime, Field(description="ISO 8601; without a time zone it means UTC.")]


# --- Tools ------------------------------------------------------------------------------


async def add_memory(  # noqa: PLR0913 - every argument is part of the tool's schema
    ctx: Ctx,
    *,
    text: Annotated[
        str, Field(min_length=1, max_length=10_000_000, description="What to remember, verbatim.")
    ],
    project: Project = "",
    source: Source = "",
    kind: Kind = "note",
    tags: Tags | None = None,
    metadata: Metadata | None = None,
    pinned: Annotated[bool, Field(description="Show it first, always.")] = False,
    parent: Annotated[
        str,
        Field(max_length=200, description="The conversation, session or document it is part of."),
    ] = "",
    position: Annotated[int, Field(ge=0, description="Its place in its parent.")] = 0,
    occurred_at: Annotated[
        datetime, Field(description="When it happened, if not now. ISO 8601, UTC by default.")
    ]
    | None = None,
    supersedes: Annotated[
        str, Field(max_length=100, description="Id of the memory this one replaces.")
    ] = "",
    cites: Cites | None = None,
    idempotency_key: Annotated[
        str, Field(max_length=200, description="Repeat the same key to make a retry harmless.")
    ] = "",
    redact: Redact = False,
) -> Added:
    """Remember: save, store or persist a note, decision, preference, fact, fix or document.

    It goes to long-term memory and is there in later sessions. Storing the same text twice
    returns the id it already has. To correct an old memory use update_memory, or supersedes.
    With cites, recalling it later says whether that code has changed since.
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
        supersedes=supersedes or None,
        idempotency_key=idempotency_key or None,
        cites=cites or [],
        folder=current_folder(),
        redact=redact,
    )
    answer = await engine.add_memory(request)
    return Added.model_validate(answer, from_attributes=True)


async def search_memory(  # noqa: PLR0913 - every argument is part of the tool's schema
    ctx: Ctx,
    *,
    query: Annotated[
        str, Field(min_length=1, max_length=10_000, description="A question or keywords.")
    ],
    limit: Annotated[int, Field(ge=1, le=50, description="Most results.")] = 10,
    offset: Annotated[int, Field(ge=0, le=1000, description="Results to skip.")] = 0,
    project: Project = "",
    source: Source = "",
    kind: Annotated[
        str,
        Field(max_length=32, description="Only this kind of memory, or type of observation."),
    ] = "",
    tags: AllTags | None = None,
    session: Annotated[
        str, Field(max_length=200, description="Only this conversation, session or document.")
    ] = "",
    path: Annotated[
        str, Field(max_length=1000, description="Only this file or folder: a path or its end.")
    ] = "",
    since: Moment | None = None,
    until: Moment | None = None,
    as_of: Annotated[
        datetime, Field(description="The state at that time: what was known, not yet replaced.")
    ]
    | None = None,
    within: Annotated[
        Literal["everything", "memories", "observations"],
        Field(description="Memories, observations, or both and code ranked together."),
    ] = "everything",
    max_tokens: MaxTokens = 2000,
    explain: Annotated[bool, Field(description="Say why each result ranked.")] = False,
) -> Annotated[CallToolResult, SearchAnswer]:
    """Recall: search, find or look up what is known from earlier sessions.

    Finds notes, decisions, preferences, facts, past fixes and documents by meaning and by
    words, and along with them what agents did: commands, errors, edits, prompts. Returns the best
    passages with id, date, source and score; get_memory reads one whole, timeline shows what
    happened around an observation.
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
    }
    # A folder that claims to be another's project sees no observations but its own.
    scope = None if within == "memories" else await engine.observations.scope(current_folder())
    request = SearchRequest(
        query=query,
        limit=limit,
        offset=offset,
        filters={name: value for name, value in wanted.items() if value} or None,
        within=within,
        observed_in=None if scope is None or scope.trusted else [scope.key],
        explain=explain,
        beside=True,
    )
    answer = fit(await engine.search_memory(request), offset, max_tokens)
    passages = [
        fence(hit.text, **hit.model_dump(mode="json", exclude={"text"}, exclude_none=True))
        for hit in answer.results
    ]
    return to_result(answer, "\n\n".join([DATA_NOTICE, *passages, answer.note or ""]).strip())


async def get_memory(
    ctx: Ctx,
    memory_id: MemoryId,
    offset: Annotated[int, Field(ge=0, description="Character to start at.")] = 0,
    max_tokens: MaxTokens = 4000,
) -> Annotated[CallToolResult, MemoryText]:
    """Read one memory whole by its id: full text, date, source, tags and metadata.

    A long text comes in parts; next_offset says where to read on.
    """
    engine = await ctx.request_context.lifespan_context.get()
    record = await engine.memories.get(memory_id)
    answer = part(record, await engine.citations.get(memory_id), offset, max_tokens)
    shown = _SHOWN | ({"citations"} if answer.citations else set())
    passage = fence(answer.text, **answer.model_dump(mode="json", include=shown))
    return to_result(answer, "\n\n".join([DATA_NOTICE, passage, answer.note or ""]).strip())


async def update_memory(  # noqa: PLR0913 - every argument is part of the tool's schema
    ctx: Ctx,
    *,
    memory_id: MemoryId,
    text: Annotated[
        str, Field(max_length=10_000_000, description="The new text; empty leaves it as it is.")
    ] = "",
    project: Project | None = None,
    source: Source | None = None,
    kind: Kind | None = None,
    tags: Tags | None = None,
    metadata: Metadata | None = None,
    pinned: Annotated[bool, Field(description="Show it first, always.")] | None = None,
    cites: Cites | None = None,
    redact: Redact = False,
) -> Changed:
    """Change, correct or edit a stored memory in place: text, tags, project, source or pin.

    What is not given stays as it is; tags, metadata and cites are replaced whole.
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
        cites=cites,
        folder=current_folder(),
        redact=redact,
    )
    record = await engine.update_memory(request)
    return Changed(**info(record), notice=record.notice)


async def delete_memory(ctx: Ctx, memory_id: MemoryId) -> Deleted:
    """Forget: delete or remove one stored memory for good, by its id. This cannot be undone."""
    engine = await ctx.request_context.lifespan_context.get()
    await engine.delete_memory(memory_id)
    return Deleted(memory_id=memory_id)


async def get_stats(ctx: Ctx) -> MemoryStats:
    """Status of the memory store: how many memories and passages, size, model, pending vectors."""
    engine = await ctx.request_context.lifespan_context.get()
    return await engine.memories.get_stats()


async def read_memory(memory_id: str, ctx: Ctx) -> str:
    """One stored memory, whole, as quoted data."""
    engine = await ctx.request_context.lifespan_context.get()
    record = await engine.memories.get(memory_id)
    shown = MemoryInfo(**info(record)).model_dump(mode="json", include=_SHOWN)
    return f"{DATA_NOTICE}\n\n{fence(record.text, **shown)}"


def build_tools() -> list[Tool]:
    """Return the tools of this family."""
    return as_tools(
        (
            (add_memory, "Remember something", ADDS),
            (search_memory, "Search memories", READS),
            (get_memory, "Read a memory", READS),
            (update_memory, "Change a memory", CHANGES),
            (delete_memory, "Forget a memory", CHANGES),
            (get_stats, "Memory statistics", READS),
        )
    )


# --- Formatting -------------------------------------------------------------------------

_SHOWN = {"memory_id", "created_at", "updated_at", "source", "project", "kind", "tags"}
