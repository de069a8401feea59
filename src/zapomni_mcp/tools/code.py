"""The tools for code: index_codebase, search_code, outline, get_symbol, find_callers, find_callees.

The contents of files are returned as quoted data: a comment may be written for a model.
"""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from zapomni_core.modules.codebase import (
    CallsRequest,
    CodeSearchRequest,
    IndexRequest,
    OutlineRequest,
    SymbolRequest,
)
from zapomni_core.shared.fencing import DATA_NOTICE, fence
from zapomni_core.workflows.agent_answer import CHARS_PER_TOKEN
from zapomni_mcp.connection import current_folder
from zapomni_mcp.lazy_engine import LazyEngine
from zapomni_mcp.tools.building import ADDS, READS, as_tools, to_result
from zapomni_mcp.tools.code_answers import (
    Calls,
    FoundCode,
    OutlineAnswer,
    SymbolSource,
    call_of,
    calls_answer,
    edit_text,
    fitting,
    info_of,
    outline_line,
    place_of,
    quote_candidates,
    quoted_result,
    within,
)
from zapomni_mcp.tools.graph import Begun
from zapomni_mcp.tools.memories import MaxTokens

__all__ = ["build_code_tools"]

Ctx = Context[LazyEngine]

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


# --- Tools ------------------------------------------------------------------------------


async def index_codebase(
    ctx: Ctx,
    path: Annotated[
        str, Field(max_length=1000, description="The repository's folder, if not this one.")
    ] = ".",
    confirm: Annotated[
        bool, Field(description="Only if the user wants the whole home folder indexed.")
    ] = False,
) -> Annotated[CallToolResult, Begun]:
    """Index a repository's code, or update its index after changes.

    Then search_memory finds code (kind `code`) and memories can cite it. Starts a background
    task; returns its id.
    """
    folder = current_folder()
    request = IndexRequest(path=path, folder=folder, roots=[folder], confirmed=confirm)
    engine = await ctx.request_context.lifespan_context.get()
    return to_result(Begun(task_id=await engine.code.index(request)))


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
    engine = await ctx.request_context.lifespan_context.get()
    request = CodeSearchRequest(
        query=query, path=path, language=language, kind=kind, limit=limit, **_scope(repository)
    )
    found = await engine.code.search(request)
    kept = within(found.hits, max_tokens)
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
    return quoted_result(answer, passages, answer.note)


async def outline(
    ctx: Ctx,
    path: Annotated[
        str, Field(min_length=1, max_length=1000, description="The file; its path's end is enough.")
    ],
    repository: Repository = "",
    max_tokens: MaxTokens = 2000,
) -> Annotated[CallToolResult, OutlineAnswer]:
    """See a file's classes, functions and sections in a few lines instead of reading it whole."""
    engine = await ctx.request_context.lifespan_context.get()
    found = await engine.code.get_outline(OutlineRequest(path=path, **_scope(repository)))
    lines = [outline_line(symbol) for symbol in found.symbols[1:]]
    kept = fitting(lines, max_tokens)
    answer = OutlineAnswer(
        repository=found.repository,
        path=found.path,
        state=found.state,
        lines=kept,
        candidates=found.candidates,
        omitted=len(lines) - len(kept),
    )
    note = f"{answer.omitted} more left out: raise max_tokens." if answer.omitted else None
    lines = kept or found.candidates
    return quoted_result(
        answer, [fence("\n".join(lines), path=found.path, state=found.state)], note
    )


async def get_symbol(
    ctx: Ctx,
    name: SymbolName,
    history: Annotated[
        bool, Field(description="Also who edited it, in which session, why, and what failed after.")
    ] = False,
    repository: Repository = "",
    max_tokens: MaxTokens = 4000,
) -> Annotated[CallToolResult, SymbolSource]:
    """Read a function, class, method or section: its exact source as it is in the file now."""
    engine = await ctx.request_context.lifespan_context.get()
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
        symbol=found.symbol and info_of(found.symbol),
        candidates=[info_of(one) for one in found.candidates],
        docstring=found.symbol.docstring[:1000] if found.symbol else "",
        source=source,
        truncated=len(source) < len(found.source),
        state=found.state,
        edits=found.edits,
        note=" ".join(notes) or None,
    )
    quoted = [quote_candidates(found.candidates)] if found.candidates else []
    if found.symbol is not None:
        quoted.append(fence(source, place=place_of(found.symbol), state=found.state))
    quoted += [fence(edit_text(edit), kind="edit", id=edit.observation_id) for edit in found.edits]
    return quoted_result(answer, quoted, answer.note)


async def find_callers(
    ctx: Ctx,
    name: SymbolName,
    limit: Annotated[int, Field(ge=1, le=200, description="Most callers.")] = 30,
    repository: Repository = "",
) -> Annotated[CallToolResult, Calls]:
    """Find what calls, overrides, inherits from or uses a symbol by name, before you change it."""
    engine = await ctx.request_context.lifespan_context.get()
    request = CallsRequest(name=name, limit=limit, **_scope(repository))
    found = await engine.code.find_callers(request)
    return calls_answer(found, [call_of(edge, edge.caller) for edge in found.edges])


async def find_callees(
    ctx: Ctx,
    name: SymbolName,
    limit: Annotated[int, Field(ge=1, le=200, description="Most callees.")] = 30,
    repository: Repository = "",
) -> Annotated[CallToolResult, Calls]:
    """Find what a symbol calls, overrides, inherits from or uses by name, in order of lines."""
    engine = await ctx.request_context.lifespan_context.get()
    request = CallsRequest(name=name, limit=limit, **_scope(repository))
    found = await engine.code.find_callees(request)
    return calls_answer(found, [call_of(edge, edge.callee) for edge in found.edges])


def build_code_tools(*, every_tool: bool) -> list[Tool]:
    """Return the tools of this family."""
    usual = ((index_codebase, "Index a repository", ADDS),)
    more = (
        (search_code, "Search code", READS),
        (outline, "Outline a file", READS),
        (get_symbol, "Read a symbol", READS),
        (find_callers, "Find callers", READS),
        (find_callees, "Find callees", READS),
    )
    return as_tools((*usual, *(more if every_tool else ())))


def _scope(repository: str) -> dict[str, str]:
    return {"repository": repository, "folder": current_folder()}
