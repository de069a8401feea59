"""The tools that keep, find, read, change and delete memories.

A tool parses its arguments, calls the engine and formats the answer. Failures are turned into
messages in one place, `zapomni_mcp.server`. `text` is never `str | None`: the SDK tries to read
such an argument as JSON first, and a text that happens to be JSON could not be stored.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from zapomni_core.interfaces import (
    AddMemoryRequest,
    MemoryEngine,
    SearchRequest,
    SearchResult,
    UpdateMemoryRequest,
)
from zapomni_db.models import MemoryRecord, MemoryStats
from zapomni_mcp.fencing import DATA_NOTICE, fence

__all__ = ["EngineGetter", "build_tools", "read_memory"]

EngineGetter = Callable[[], Awaitable[MemoryEngine]]
"""Returns the engine, opening it the first time."""
Ctx = Context[EngineGetter]

CHARS_PER_TOKEN = 3.5
SHORTEST_EXCERPT = 120

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
Moment = Annotated[datetime, Field(description="ISO 8601; without a time zone it means UTC.")]


# --- Answers ----------------------------------------------------------------------------


class Added(BaseModel):
    """What became of a text."""

    memory_id: str
    status: str = Field(description="created, duplicate (same text) or replayed (same key)")
    chunks_created: int
    pending_vectors: int = Field(description="Passages found by words only until embedded.")
    notice: str | None


class MemoryInfo(BaseModel):
    """A memory without its text."""

    memory_id: str
    created_at: datetime
    updated_at: datetime
    source: str
    project: str
    kind: str
    tags: list[str]
    pinned: bool
    superseded_by: str | None
    total_chars: int


class MemoryText(MemoryInfo):
    """A memory with its text, or the part of it that was asked for."""

    data_notice: str = DATA_NOTICE
    metadata: dict[str, Any]
    text: str
    offset: int
    next_offset: int | None = Field(description="Where to read on; null at the end.")
    note: str | None


class Found(BaseModel):
    """The best passage of one memory."""

    memory_id: str
    score: float
    text: str
    truncated: bool
    created_at: datetime
    source: str
    project: str
    kind: str
    tags: list[str]
    pinned: bool


class SearchAnswer(BaseModel):
    """Passages, best first."""

    data_notice: str = DATA_NOTICE
    results: list[Found]
    omitted: int = Field(description="Results left out to keep within max_tokens.")
    note: str | None


class Deleted(BaseModel):
    """Which memory is gone."""

    memory_id: str
    deleted: bool = True


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
    position: Annotated[int, Field(ge=0, description="Where in its parent it stands.")] = 0,
    occurred_at: Annotated[
        datetime, Field(description="When it happened, if not now. ISO 8601, UTC by default.")
    ]
    | None = None,
    supersedes: Annotated[
        str, Field(max_length=100, description="Id of the memory this one replaces.")
    ] = "",
    idempotency_key: Annotated[
        str, Field(max_length=200, description="Repeat the same key to make a retry harmless.")
    ] = "",
) -> Added:
    """Remember: save, store or persist a note, decision, preference, fact, fix or document.

    It goes to long-term memory and is there in later sessions. Storing the same text twice
    returns the id it already has. To correct an old memory use update_memory, or supersedes.
    """
    engine = await _engine(ctx)
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
        occurred_at=_with_zone(occurred_at),
        supersedes=supersedes or None,
        idempotency_key=idempotency_key or None,
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
    kind: Annotated[str, Field(max_length=32, description="Only this kind of memory.")] = "",
    tags: AllTags | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    max_tokens: MaxTokens = 2000,
) -> Annotated[CallToolResult, SearchAnswer]:
    """Recall: search, find or look up what is known from earlier sessions.

    Finds notes, decisions, preferences, facts, past fixes and documents by meaning and by
    words. Returns the best passages with id, date, source and score; get_memory reads one whole.
    """
    engine = await _engine(ctx)
    wanted = {
        "project": project,
        "source": source,
        "kind": kind,
        "tags": tags,
        "since": _with_zone(since),
        "until": _with_zone(until),
    }
    filters = {name: value for name, value in wanted.items() if value}
    request = SearchRequest(query=query, limit=limit, offset=offset, filters=filters or None)
    response = await engine.search_memory(request)
    answer = _fit(response.results, offset, max_tokens, response.notice)
    passages = [
        fence(hit.text, **hit.model_dump(mode="json", exclude={"text"})) for hit in answer.results
    ]
    return _answer(answer, "\n\n".join([DATA_NOTICE, *passages, answer.note or ""]).strip())


async def get_memory(
    ctx: Ctx,
    memory_id: MemoryId,
    offset: Annotated[int, Field(ge=0, description="Character to start at.")] = 0,
    max_tokens: MaxTokens = 4000,
) -> Annotated[CallToolResult, MemoryText]:
    """Read one memory whole by its id: full text, date, source, tags and metadata.

    A long text comes in parts; next_offset says where to read on.
    """
    engine = await _engine(ctx)
    answer = _part(await engine.get_memory(memory_id), offset, max_tokens)
    passage = fence(answer.text, **answer.model_dump(mode="json", include=_SHOWN))
    return _answer(answer, "\n\n".join([DATA_NOTICE, passage, answer.note or ""]).strip())


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
) -> MemoryInfo:
    """Change, correct or edit a stored memory in place: text, tags, project, source or pin.

    What is not given stays as it is; tags and metadata are replaced whole.
    """
    engine = await _engine(ctx)
    request = UpdateMemoryRequest(
        memory_id=memory_id,
        text=text or None,
        metadata=metadata,
        project=project,
        source=source,
        kind=kind,
        tags=tags,
        pinned=pinned,
    )
    return MemoryInfo(**_info(await engine.update_memory(request)))


async def delete_memory(ctx: Ctx, memory_id: MemoryId) -> Deleted:
    """Forget: delete or remove one stored memory for good, by its id. This cannot be undone."""
    engine = await _engine(ctx)
    await engine.delete_memory(memory_id)
    return Deleted(memory_id=memory_id)


async def get_stats(ctx: Ctx) -> MemoryStats:
    """Status of the memory store: how many memories and passages, size, model, pending vectors."""
    engine = await _engine(ctx)
    return MemoryStats.model_validate(await engine.get_stats())


async def read_memory(memory_id: str, ctx: Ctx) -> str:
    """One stored memory, whole, as quoted data."""
    engine = await _engine(ctx)
    record = await engine.get_memory(memory_id)
    shown = MemoryInfo(**_info(record)).model_dump(mode="json", include=_SHOWN)
    return f"{DATA_NOTICE}\n\n{fence(record.text, **shown)}"


def build_tools() -> list[Tool]:
    """Return the tools of this family; each refuses arguments it does not know."""
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    adds = ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    changes = ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
    )
    tools = [
        Tool.from_function(function, title=title, annotations=annotations)
        for function, title, annotations in (
            (add_memory, "Remember something", adds),
            (search_memory, "Search memories", reads),
            (get_memory, "Read a memory", reads),
            (update_memory, "Change a memory", changes),
            (delete_memory, "Forget a memory", changes),
            (get_stats, "Memory statistics", reads),
        )
    ]
    for tool in tools:
        tool.parameters["additionalProperties"] = False
    return tools


# --- Formatting -------------------------------------------------------------------------

_SHOWN = {"memory_id", "created_at", "updated_at", "source", "project", "kind", "tags"}


async def _engine(ctx: Ctx) -> MemoryEngine:
    return await ctx.request_context.lifespan_context()


def _answer(answer: BaseModel, text: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=answer.model_dump(mode="json"),
    )


def _with_zone(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _info(record: MemoryRecord) -> dict[str, Any]:
    fields = MemoryInfo.model_fields.keys() - {"total_chars"}
    return {**record.model_dump(include=fields), "total_chars": len(record.text)}


def _part(record: MemoryRecord, offset: int, max_tokens: int) -> MemoryText:
    budget = int(max_tokens * CHARS_PER_TOKEN)
    metadata_length = len(json.dumps(record.metadata, ensure_ascii=False))
    fits = metadata_length <= budget // 4
    text = record.text[offset : offset + budget]
    end = offset + len(text)
    more = end < len(record.text)
    notes = []
    if more:
        notes.append(
            f"Characters {offset} to {end} of {len(record.text)}. Read on with "
            f"get_memory(memory_id={record.memory_id!r}, offset={end})."
        )
    if not fits:
        notes.append(f"Metadata ({metadata_length} characters) left out; raise max_tokens.")
    return MemoryText(
        **_info(record),
        metadata=record.metadata if fits else {},
        text=text,
        offset=offset,
        next_offset=end if more else None,
        note=" ".join(notes) or None,
    )


def _fit(
    results: list[SearchResult], offset: int, max_tokens: int, notice: str | None
) -> SearchAnswer:
    """Keep the best results that fit; cut the last one, and always return the first."""
    room = int(max_tokens * CHARS_PER_TOKEN) - len(DATA_NOTICE) - len(notice or "")
    kept: list[Found] = []
    for result in results:
        hit = Found(**result.model_dump(include=set(Found.model_fields)), truncated=False)
        rest = room - len(hit.model_copy(update={"text": ""}).model_dump_json())
        if kept and rest < min(len(hit.text), SHORTEST_EXCERPT):
            break
        cut = hit.text[: max(rest, SHORTEST_EXCERPT)]
        kept.append(hit.model_copy(update={"text": cut, "truncated": cut != hit.text}))
        room = rest - len(cut)
    omitted = len(results) - len(kept)
    notes = [notice] if notice else []
    if not results:
        notes.append("Nothing found. Try other words or fewer filters.")
    if omitted:
        following = offset + len(kept)
        notes.append(f"{omitted} more left out: raise max_tokens, or use offset={following}.")
    if any(hit.truncated for hit in kept):
        notes.append("Passages marked truncated are cut; get_memory reads them whole.")
    return SearchAnswer(results=kept, omitted=omitted, note=" ".join(notes) or None)
