"""The tools for code: index_codebase, search_code, outline, get_symbol, find_callers, find_callees.

Everything that stands in files is handed on as quoted data: a comment may be written for a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from zapomni_core.code_interfaces import (
    CallsRequest,
    CallsResponse,
    CodeHit,
    CodeSearchRequest,
    IndexRequest,
    OutlineRequest,
    SymbolRequest,
)
from zapomni_db.code_models import CodeEdge, CodeSymbol, FileEdit
from zapomni_mcp.fencing import DATA_NOTICE, fence
from zapomni_mcp.tools.graph import Begun
from zapomni_mcp.tools.memories import EngineGetter, MaxTokens
from zapomni_mcp.tools.memory_answers import CHARS_PER_TOKEN

__all__ = ["build_code_tools"]

Ctx = Context[EngineGetter]

LINE_CHARS = 200
SHORTEST_SOURCE = 400

# --- Arguments --------------------------------------------------------------------------

Repository = Annotated[
    str,
    Field(
        max_length=1000,
        description="Folder, name or project of an indexed repository; `*` means all. Left out: "
        "the one the server was started in.",
    ),
]
SymbolName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1000,
        description="A name (check_token), the end of a qualified one (Session.get), path:name or "
        "an id.",
    ),
]
CodePath = Annotated[
    str, Field(max_length=1000, description="A file or folder; the end of a path is enough.")
]


# --- Answers ----------------------------------------------------------------------------


class FoundCode(BaseModel):
    """Passages of code, best first."""

    data_notice: str = DATA_NOTICE
    results: list[CodeHit]
    omitted: int = Field(description="Results left out to keep within max_tokens.")
    note: str | None


class Outline(BaseModel):
    """A file's symbols in order."""

    data_notice: str = DATA_NOTICE
    repository: str
    path: str
    state: str = Field(description="fresh, changed since it was indexed, or gone.")
    lines: list[str] = Field(description="First line, then signature, indented by nesting.")
    candidates: list[str] = Field(description="The choices, if several files have this path.")
    omitted: int = Field(description="Symbols left out to keep within max_tokens.")


class SymbolInfo(BaseModel):
    """Where a symbol stands."""

    id: int
    kind: str
    name: str = Field(description="Qualified; empty: the file itself.")
    path: str
    start_line: int
    end_line: int
    signature: str


class SymbolSource(BaseModel):
    """A symbol with its source as it is now."""

    data_notice: str = DATA_NOTICE
    symbol: SymbolInfo | None = Field(description="null if the name may mean several.")
    candidates: list[SymbolInfo] = Field(description="The choices, if the name may mean several.")
    docstring: str
    source: str
    truncated: bool
    state: str = Field(description="fresh, changed since it was indexed, or gone.")
    edits: list[FileEdit] = Field(description="By agents, the last first, if history was asked.")
    note: str | None


class Call(BaseModel):
    """One symbol refers to another."""

    kind: str = Field(description="call, inherit or decorate")
    symbol: SymbolInfo | None = Field(description="Who, or whom; null if only a name is known.")
    name: str
    path: str
    line: int
    strength: float = Field(description="1 by scope or import, less by type, 0.1 by name alone.")


class Calls(BaseModel):
    """Who refers to a symbol, or whom it refers to."""

    data_notice: str = DATA_NOTICE
    symbol: SymbolInfo | None = Field(description="null if the name may mean several.")
    candidates: list[SymbolInfo] = Field(description="The choices, if the name may mean several.")
    calls: list[Call]
    more: bool


# --- Tools ------------------------------------------------------------------------------


async def index_codebase(
    ctx: Ctx,
    path: Annotated[
        str, Field(max_length=1000, description="The repository's folder; left out: this one.")
    ] = ".",
    confirm: Annotated[
        bool, Field(description="Only if the user wants the whole home folder indexed.")
    ] = False,
) -> Begun:
    """Index a repository's code, or bring its index up to date after changes.

    Starts a background task and returns its id at once; only files that changed are read. After
    it, search_memory finds code beside memories (kind `code`), and memories can cite code.
    """
    folder = str(Path.cwd())
    request = IndexRequest(path=path, folder=folder, roots=[folder], confirmed=confirm)
    engine = await ctx.request_context.lifespan_context()
    return Begun(task_id=await engine.code.index(request))


async def search_code(
    ctx: Ctx,
    *,
    query: Annotated[
        str, Field(min_length=1, max_length=10_000, description="A question, words, identifiers.")
    ],
    path: CodePath = "",
    language: Annotated[
        str, Field(max_length=50, description="Only this language: python, go, typescript, ...")
    ] = "",
    kind: Annotated[
        str, Field(max_length=50, description="Only such symbols: function, method, class, ...")
    ] = "",
    limit: Annotated[int, Field(ge=1, le=50, description="Most results.")] = 10,
    repository: Repository = "",
    max_tokens: MaxTokens = 2000,
) -> Annotated[CallToolResult, FoundCode]:
    """Find code by meaning, by words and by parts of identifiers.

    Returns passages with file, lines and the symbol each belongs to; get_symbol reads one whole.
    """
    engine = await ctx.request_context.lifespan_context()
    request = CodeSearchRequest(
        query=query, path=path, language=language, kind=kind, limit=limit, **_scope(repository)
    )
    found = await engine.code.search(request)
    kept = _within(found.hits, max_tokens)
    omitted = len(found.hits) - len(kept)
    notes = [found.notice] if found.notice else []
    if not found.hits:
        notes.append("Nothing found. Try other words or fewer filters.")
    if omitted:
        notes.append(f"{omitted} more left out: raise max_tokens.")
    answer = FoundCode(results=kept, omitted=omitted, note=" ".join(notes) or None)
    passages = [
        fence(hit.text, place=f"{hit.path}:{hit.start_line}-{hit.end_line}", kind=hit.kind,
              name=hit.name, id=hit.id, score=hit.score)
        for hit in kept
    ]  # fmt: skip
    return _answer(answer, passages, answer.note)


async def outline(
    ctx: Ctx,
    path: Annotated[
        str, Field(min_length=1, max_length=1000, description="The file; its path's end is enough.")
    ],
    repository: Repository = "",
    max_tokens: MaxTokens = 2000,
) -> Annotated[CallToolResult, Outline]:
    """See a file's classes, functions and sections in a few lines instead of reading it whole."""
    engine = await ctx.request_context.lifespan_context()
    found = await engine.code.get_outline(OutlineRequest(path=path, **_scope(repository)))
    lines = [_outline_line(symbol) for symbol in found.symbols[1:]]
    kept = _fitting(lines, max_tokens)
    answer = Outline(
        repository=found.repository,
        path=found.path,
        state=found.state,
        lines=kept,
        candidates=found.candidates,
        omitted=len(lines) - len(kept),
    )
    note = f"{answer.omitted} more left out: raise max_tokens." if answer.omitted else None
    told = kept or found.candidates
    return _answer(answer, [fence("\n".join(told), path=found.path, state=found.state)], note)


async def get_symbol(
    ctx: Ctx,
    name: SymbolName,
    history: Annotated[
        bool, Field(description="Also who edited it, in which session, why, and what failed after.")
    ] = False,
    repository: Repository = "",
    max_tokens: MaxTokens = 4000,
) -> Annotated[CallToolResult, SymbolSource]:
    """Read a function, class, method or section: its exact source as it stands in the file now."""
    engine = await ctx.request_context.lifespan_context()
    request = SymbolRequest(name=name, history=history, **_scope(repository))
    found = await engine.code.get_symbol(request)
    room = max(int(max_tokens * CHARS_PER_TOKEN) - len(DATA_NOTICE), SHORTEST_SOURCE)
    source = found.source[:room]
    notes = []
    if len(source) < len(found.source):
        notes.append("The source is cut; raise max_tokens.")
    if found.edits_of_file:
        notes.append("No edit names the symbol; these are its file's.")
    answer = SymbolSource(
        symbol=found.symbol and _info(found.symbol),
        candidates=[_info(one) for one in found.candidates],
        docstring=found.symbol.docstring[:1000] if found.symbol else "",
        source=source,
        truncated=len(source) < len(found.source),
        state=found.state,
        edits=found.edits,
        note=" ".join(notes) or None,
    )
    quoted = [_candidates(found.candidates)] if found.candidates else []
    if found.symbol is not None:
        quoted.append(fence(source, place=_place(found.symbol), state=found.state))
    quoted += [fence(_edit(edit), kind="edit", id=edit.observation_id) for edit in found.edits]
    return _answer(answer, quoted, answer.note)


async def find_callers(
    ctx: Ctx,
    name: SymbolName,
    limit: Annotated[int, Field(ge=1, le=200, description="Most callers.")] = 30,
    repository: Repository = "",
) -> Annotated[CallToolResult, Calls]:
    """Find who calls, inherits from or is decorated by a symbol, before you change it."""
    engine = await ctx.request_context.lifespan_context()
    request = CallsRequest(name=name, limit=limit, **_scope(repository))
    found = await engine.code.find_callers(request)
    return _calls_answer(found, [_call(edge, edge.caller) for edge in found.edges])


async def find_callees(
    ctx: Ctx,
    name: SymbolName,
    limit: Annotated[int, Field(ge=1, le=200, description="Most callees.")] = 30,
    repository: Repository = "",
) -> Annotated[CallToolResult, Calls]:
    """Find whom a symbol calls, inherits from or is decorated by, in the order of its lines."""
    engine = await ctx.request_context.lifespan_context()
    request = CallsRequest(name=name, limit=limit, **_scope(repository))
    found = await engine.code.find_callees(request)
    return _calls_answer(found, [_call(edge, edge.callee) for edge in found.edges])


def build_code_tools(*, every_tool: bool) -> list[Tool]:
    """Return the tools of this family; each refuses arguments it does not know."""
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    adds = ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    usual = [(index_codebase, "Index a repository", adds)]
    more = [
        (search_code, "Search code", reads),
        (outline, "Outline a file", reads),
        (get_symbol, "Read a symbol", reads),
        (find_callers, "Find callers", reads),
        (find_callees, "Find callees", reads),
    ]
    tools = [
        Tool.from_function(function, title=title, annotations=annotations)
        for function, title, annotations in (*usual, *(more if every_tool else ()))
    ]
    for tool in tools:
        tool.parameters["additionalProperties"] = False
    return tools


# --- Formatting -------------------------------------------------------------------------


def _scope(repository: str) -> dict[str, str]:
    return {"repository": repository, "folder": str(Path.cwd())}


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= LINE_CHARS else joined[: LINE_CHARS - 1] + "…"


def _info(symbol: CodeSymbol) -> SymbolInfo:
    fields = symbol.model_dump(include=set(SymbolInfo.model_fields) - {"name"})
    return SymbolInfo(**fields, name=symbol.qualified_name)


def _place(symbol: CodeSymbol) -> str:
    return f"{symbol.path}:{symbol.start_line}-{symbol.end_line} {symbol.qualified_name}".rstrip()


def _outline_line(symbol: CodeSymbol) -> str:
    indent = "  " * max(symbol.depth - 1, 0)
    head = symbol.signature or f"{symbol.kind} {symbol.name}"
    return f"{symbol.start_line} {indent}{_one_line(head)}"


def _fitting(lines: list[str], max_tokens: int) -> list[str]:
    room = int(max_tokens * CHARS_PER_TOKEN) - len(DATA_NOTICE)
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if kept and room < 0:
            break
        kept.append(line)
    return kept


def _within(hits: list[CodeHit], max_tokens: int) -> list[CodeHit]:
    """Keep what fits, from the first on, and the first in any case."""
    room = int(max_tokens * CHARS_PER_TOKEN) - len(DATA_NOTICE)
    kept: list[CodeHit] = []
    for hit in hits:
        room -= len(hit.model_dump_json())
        if kept and room < 0:
            break
        kept.append(hit)
    return kept


def _candidates(candidates: Iterable[CodeSymbol]) -> str:
    lines = [f"{one.id} {one.kind} {_place(one)}" for one in candidates]
    return fence("\n".join(lines), kind="candidates")


def _edit(edit: FileEdit) -> str:
    moment = datetime.fromtimestamp(edit.timestamp, UTC).isoformat()
    lines = [f"{moment} {edit.host} session {edit.session_id}"]
    lines += [f"asked: {edit.prompt}"] if edit.prompt else []
    lines.append(f"did: {edit.content}")
    lines += [f"then failed (#{f.observation_id}): {f.content}" for f in edit.failures]
    return "\n".join(lines)


def _call(edge: CodeEdge, other: CodeSymbol | None) -> Call:
    return Call(
        kind=edge.kind,
        symbol=other and _info(other),
        name=edge.name,
        path=edge.caller.path,
        line=edge.line,
        strength=edge.strength,
    )


def _calls_answer(found: CallsResponse, calls: list[Call]) -> CallToolResult:
    answer = Calls(
        symbol=found.symbol and _info(found.symbol),
        candidates=[_info(one) for one in found.candidates],
        calls=calls,
        more=found.more,
    )
    lines = []
    for call in calls:
        who = f"{call.symbol.path}:{call.symbol.name}" if call.symbol else call.name
        lines.append(_one_line(f"{call.strength:.2f} {call.kind} {call.path}:{call.line} {who}"))
    quoted = [_candidates(found.candidates)] if found.candidates else []
    quoted += [fence("\n".join(lines), kind="calls")] if lines else []
    note = "None that is known." if found.symbol and not lines else None
    return _answer(answer, quoted, note)


def _answer(answer: BaseModel, quoted: Iterable[str], note: str | None) -> CallToolResult:
    text = "\n\n".join(part for part in (DATA_NOTICE, *quoted, note) if part)
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=answer.model_dump(mode="json"),
    )
