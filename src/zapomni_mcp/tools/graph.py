"""The tools of the knowledge graph: build_graph and get_related, and those that look after it.

Names and sentences come from memories: in the text block they are fenced as quoted data, in the
structured answer a notice says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from zapomni_core.modules.graph import (
    BuildGraphRequest,
    MergeResponse,
    PathRequest,
    PathStep,
    RelatedEntity,
    RelatedRequest,
)
from zapomni_core.shared.fencing import DATA_NOTICE, fence
from zapomni_core.workflows.agent_answer import CHARS_PER_TOKEN
from zapomni_db.graph_models import Entity, EntityQuery, GraphStats, MemoryVersion
from zapomni_mcp.connection import current_folder
from zapomni_mcp.lazy_engine import LazyEngine
from zapomni_mcp.tools.building import ADDS, READS, as_tools, to_result, with_zone
from zapomni_mcp.tools.memories import MaxTokens, MemoryId, Project
from zapomni_mcp.tools.memory_answers import Id

__all__ = ["build_graph_tools"]

Ctx = Context[LazyEngine]

SENTENCE_CHARS = 300
Format = Literal["graphml", "cytoscape", "cypher", "jsonld"]

# --- Arguments --------------------------------------------------------------------------

EntityName = Annotated[str, Field(min_length=1, max_length=500, description="Name, alias or id.")]
Type = Annotated[str, Field(min_length=1, max_length=100)]


# --- Answers ----------------------------------------------------------------------------


class Begun(BaseModel):
    """A task that works in the background."""

    task_id: Id
    note: str = "Follow it with get_task_status, which can wait for its end."


class Related(BaseModel):
    """What is related to an entity, the strongest way first."""

    entity: Entity | None = Field(description="Absent if the name may mean several.")
    candidates: list[Entity] = Field(
        default=[], description="The choices, if the name may mean several."
    )
    related: list[RelatedEntity]
    omitted: int = Field(description="Entities left out to keep within max_tokens.")
    note: str | None


class EntityConnection(BaseModel):
    """The most convincing way from one entity to another."""

    source: Entity | None = Field(description="Absent if its name may mean several.")
    target: Entity | None = Field(description="Absent if its name may mean several.")
    candidates: list[Entity] = Field(
        default=[], description="The choices, if a name may mean several."
    )
    steps: list[PathStep] = Field(description="In order; empty: nothing connects them.")
    note: str | None


class Entities(BaseModel):
    """Entities, best match first."""

    entities: list[Entity]


class Exported(BaseModel):
    """A file with the graph."""

    path: str
    format: str
    bytes: int


class History(BaseModel):
    """Versions of a memory, oldest first."""

    versions: list[MemoryVersion] = Field(description="A text that does not fit is cut.")
    omitted: int = Field(description="Older versions left out to keep within max_tokens.")


# --- Tools ------------------------------------------------------------------------------


async def build_graph(
    ctx: Ctx,
    project: Project = "",
    memory_ids: Annotated[list[MemoryId], Field(min_length=1, max_length=1000)] | None = None,
) -> Annotated[CallToolResult, Begun]:
    """Build or update the knowledge graph: read memories, all or some, that are new to it.

    Run it after adding memories, before get_related. Starts a background task; returns its id.
    """
    engine = await ctx.request_context.lifespan_context.get()
    request = BuildGraphRequest(project=project or None, memory_ids=memory_ids)
    task_id = await engine.graph.build(request, current_folder(), agent=True)
    return to_result(Begun(task_id=task_id))


async def get_related(
    ctx: Ctx,
    *,
    entity: EntityName,
    depth: Annotated[int, Field(ge=1, le=3)] = 2,
    types: Annotated[
        list[Type],
        Field(max_length=20, description="Only these: USES, WORKS_AT, FIXES, ..."),
    ]
    | None = None,
    as_of: datetime | None = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 10,
    max_tokens: MaxTokens = 2000,
) -> Annotated[CallToolResult, Related]:
    """Explore the knowledge graph: how a person, project, technology or file relates to others.

    For "who works on X", "what depends on Y", and with as_of "what was true in March". Returns
    the path to each and the sentences that state it. If a name is ambiguous, ask again with a
    candidate's id.
    """
    request = RelatedRequest(
        entity=entity, depth=depth, types=types or [], as_of=with_zone(as_of), limit=limit
    )
    engine = await ctx.request_context.lifespan_context.get()
    found = await engine.graph.get_related(request, current_folder())
    hits = [
        hit.model_copy(update={"path": [_short_step(step) for step in hit.path]})
        for hit in found.related
    ]
    kept = _within(hits, max_tokens)
    notes = [found.notice] if found.notice else []
    if len(kept) < len(hits):
        notes.append(f"{len(hits) - len(kept)} more left out: raise max_tokens or name types.")
    answer = Related(
        entity=found.entity,
        candidates=found.candidates,
        related=kept,
        omitted=len(hits) - len(kept),
        note=" ".join(notes) or None,
    )
    lines = [_entity_line(one) for one in (found.entity, *found.candidates) if one is not None]
    lines += [line for hit in kept for line in _hit_lines(hit)]
    return _answer(answer, lines, answer.note)


async def find_path(
    ctx: Ctx, source: EntityName, target: EntityName, as_of: datetime | None = None
) -> Annotated[CallToolResult, EntityConnection]:
    """Explain how two entities of the knowledge graph are connected, step by step.

    For "what has X to do with Y". Each step has the sentences that state it.
    """
    request = PathRequest(source=source, target=target, as_of=with_zone(as_of))
    engine = await ctx.request_context.lifespan_context.get()
    found = await engine.graph.find_path(request, current_folder())
    answer = EntityConnection(
        source=found.source,
        target=found.target,
        candidates=found.candidates,
        steps=[_short_step(step) for step in found.steps],
        note=found.notice,
    )
    lines = [_entity_line(one) for one in found.candidates]
    lines += [line for step in answer.steps for line in _step_lines(step)]
    return _answer(answer, lines, answer.note)


async def find_entities(
    ctx: Ctx,
    query: Annotated[
        str, Field(max_length=500, description="A name, an alias or part of one; empty: all.")
    ] = "",
    types: Annotated[
        list[Type], Field(max_length=20, description="PERSON, ORG, TECHNOLOGY, FILE, ...")
    ]
    | None = None,
    as_of: datetime | None = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
) -> Annotated[CallToolResult, Entities]:
    """Find entities of the knowledge graph by name; without a query the most mentioned ones."""
    engine = await ctx.request_context.lifespan_context.get()
    wanted = EntityQuery(text=query, types=types or [], as_of=with_zone(as_of), limit=limit)
    found = await engine.graph.find_entities(wanted, current_folder())
    note = None if found else "Nothing found. build_graph reads memories into the graph."
    return _answer(Entities(entities=found), map(_entity_line, found), note)


async def graph_status(ctx: Ctx) -> Annotated[CallToolResult, GraphStats]:
    """Size of the knowledge graph: entities and relationships by type, passages still unread."""
    engine = await ctx.request_context.lifespan_context.get()
    return to_result(await engine.graph.get_status())


async def export_graph(
    ctx: Ctx,
    format: Annotated[Format, Field(description="What the file is for.")] = "graphml",  # noqa: A002
) -> Annotated[CallToolResult, Exported]:
    """Write the knowledge graph to a new temporary file for Gephi, Cytoscape, Neo4j or the web."""
    engine = await ctx.request_context.lifespan_context.get()
    pieces = engine.graph.export(format, current_folder())
    size = 0
    with tempfile.NamedTemporaryFile(
        "wb", prefix="zapomni-graph-", suffix=f".{format}", delete=False
    ) as file:
        try:
            async for piece in pieces:
                size += file.write(piece.encode())
        except BaseException:
            Path(file.name).unlink()  # noqa: ASYNC240 - a moment's work
            raise
    return to_result(Exported(path=file.name, format=format, bytes=size))


async def merge_entities(
    ctx: Ctx, source: EntityName, into: EntityName
) -> Annotated[CallToolResult, MergeResponse]:
    """Merge two entities of the knowledge graph that are the same thing; undo_merge parts them."""
    engine = await ctx.request_context.lifespan_context.get()
    return _merge_answer(await engine.graph.merge(source, into, current_folder()))


async def undo_merge(
    ctx: Ctx,
    entity: Annotated[
        str, Field(max_length=500, description="Which was merged; empty: the newest merge.")
    ] = "",
) -> Annotated[CallToolResult, MergeResponse]:
    """Undo a merge_entities: the two entities are separate again, as before."""
    engine = await ctx.request_context.lifespan_context.get()
    return _merge_answer(await engine.graph.undo(entity or None, current_folder()))


async def get_history(
    ctx: Ctx, memory_id: MemoryId, as_of: datetime | None = None, max_tokens: MaxTokens = 4000
) -> Annotated[CallToolResult, History]:
    """See what a memory was before it was updated or superseded, or what it was at a time."""
    engine = await ctx.request_context.lifespan_context.get()
    found = await engine.get_history(memory_id, with_zone(as_of))
    kept = _newest(found, max_tokens)
    lines = [
        f"{version.valid_from.isoformat()} to "
        f"{'now' if version.valid_to is None else version.valid_to.isoformat()}"
        f" ({version.memory_id}):\n{version.text}\n"
        for version in kept
    ]
    note = None if found else "The memory did not exist then."
    return _answer(History(versions=kept, omitted=len(found) - len(kept)), lines, note)


def build_graph_tools(*, every_tool: bool) -> list[Tool]:
    """Return the tools of this family."""
    usual = (
        (build_graph, "Build the knowledge graph", ADDS),
        (get_related, "Explore the knowledge graph", READS),
    )
    more = (
        (find_path, "Explain a connection", READS),
        (find_entities, "Find entities", READS),
        (graph_status, "Size of the graph", READS),
        (export_graph, "Export the graph", ADDS),
        (merge_entities, "Merge two entities", ADDS),
        (undo_merge, "Undo a merge", ADDS),
        (get_history, "History of a memory", READS),
    )
    return as_tools((*usual, *(more if every_tool else ())))


# --- Formatting -------------------------------------------------------------------------


def _within(hits: list[RelatedEntity], max_tokens: int) -> list[RelatedEntity]:
    """Return what fits, from the first on, and the first in any case."""
    room = int(max_tokens * CHARS_PER_TOKEN)
    kept: list[RelatedEntity] = []
    for hit in hits:
        room -= len(hit.model_dump_json())
        if kept and room < 0:
            break
        kept.append(hit)
    return kept


def _newest(versions: list[MemoryVersion], max_tokens: int) -> list[MemoryVersion]:
    """Return the newest that fit, and as much of the first that does not."""
    room = int(max_tokens * CHARS_PER_TOKEN)
    kept: list[MemoryVersion] = []
    for version in reversed(versions):
        if room <= 0:
            break
        kept.insert(0, version.model_copy(update={"text": version.text[:room]}))
        room -= len(version.text) + len(str(version.fields))
    return kept


def _short_step(step: PathStep) -> PathStep:
    said = [one.model_copy(update={"text": _one_line(one.text)}) for one in step.evidence]
    return step.model_copy(update={"evidence": said})


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= SENTENCE_CHARS else joined[: SENTENCE_CHARS - 1] + "…"


def _entity_line(entity: Entity) -> str:
    also = f", also {', '.join(entity.aliases)}" if entity.aliases else ""
    return _one_line(
        f"{entity.name} ({entity.type}, id {entity.entity_id}, {entity.mentions} mentions{also})"
    )


def _hit_lines(hit: RelatedEntity) -> Iterable[str]:
    yield _one_line(
        f"{hit.distance} away, {hit.score:.2f}: {hit.name} ({hit.type}, id {hit.entity_id})"
    )
    for step in hit.path:
        yield from _step_lines(step)


def _step_lines(step: PathStep) -> Iterable[str]:
    yield f"  {_one_line(step.source)} -{step.type}-> {_one_line(step.target)}"
    for one in step.evidence:
        since = one.valid_from.date().isoformat() if one.valid_from else "?"
        until = one.valid_to.date().isoformat() if one.valid_to else "now"
        yield f"    {since} to {until}, memory {one.memory_id}: {one.text}"


def _merge_answer(done: MergeResponse) -> CallToolResult:
    return _answer(done, [f"{_one_line(done.source)} / {_one_line(done.target)}"], None)


def _answer(answer: BaseModel, lines: Iterable[str], note: str | None) -> CallToolResult:
    quoted = fence("\n".join(lines), kind="graph")
    text = "\n\n".join(part for part in (DATA_NOTICE, quoted, note) if part)
    return to_result(answer, text)
