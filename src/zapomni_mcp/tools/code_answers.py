"""Answers of the tools for code, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from zapomni_core.modules.codebase import CallsResponse, CodeHit
from zapomni_core.shared.fencing import DATA_NOTICE, fence
from zapomni_core.workflows.agent_answer import CHARS_PER_TOKEN
from zapomni_db.code_models import CodeEdge, CodeSymbol, FileEdit
from zapomni_mcp.tools.building import to_result

__all__ = [
    "Calls",
    "FoundCode",
    "OutlineAnswer",
    "SymbolSource",
    "call_of",
    "calls_answer",
    "edit_text",
    "fitting",
    "info_of",
    "outline_line",
    "place_of",
    "quote_candidates",
    "quoted_result",
    "within",
]

LINE_CHARS = 200

# --- Answers ----------------------------------------------------------------------------


class FoundCode(BaseModel):
    """Passages of code, best first."""

    results: list[CodeHit]
    omitted: int = Field(description="Results left out to keep within max_tokens.")
    note: str | None


class OutlineAnswer(BaseModel, title="Outline"):
    """A file's symbols in order."""

    repository: str
    path: str
    state: str = Field(description="fresh, changed since it was indexed, or gone.")
    lines: list[str] = Field(description="First line, then signature, indented by nesting.")
    candidates: list[str] = Field(
        default=[], description="The choices, if several files have this path."
    )
    omitted: int = Field(description="Symbols left out to keep within max_tokens.")


class SymbolInfo(BaseModel):
    """The place of a symbol."""

    id: int
    kind: str
    name: str = Field(description="Qualified; absent: the file itself.")
    path: str
    start_line: int
    end_line: int
    signature: str


class SymbolSource(BaseModel):
    """A symbol with its source as it is now."""

    symbol: SymbolInfo | None = Field(description="Absent if the name may mean several.")
    candidates: list[SymbolInfo] = Field(
        default=[], description="The choices, if the name may mean several."
    )
    docstring: str
    source: str
    truncated: bool
    state: str = Field(description="fresh, changed since it was indexed, or gone.")
    edits: list[FileEdit] = Field(
        default=[], description="By agents, the last first, if history was asked."
    )
    note: str | None


class Call(BaseModel):
    """One symbol refers to another."""

    kind: str = Field(description="call, inherit or decorate")
    symbol: SymbolInfo | None = Field(description="Who, or whom; absent if only a name is known.")
    name: str
    path: str
    line: int
    strength: float = Field(description="1 by scope or import, less by type, 0.1 by name alone.")


class Calls(BaseModel):
    """Who refers to a symbol, or whom it refers to."""

    symbol: SymbolInfo | None = Field(description="Absent if the name may mean several.")
    candidates: list[SymbolInfo] = Field(
        default=[], description="The choices, if the name may mean several."
    )
    calls: list[Call]
    more: bool


# --- Formatting -------------------------------------------------------------------------


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= LINE_CHARS else joined[: LINE_CHARS - 1] + "…"


def info_of(symbol: CodeSymbol) -> SymbolInfo:
    fields = symbol.model_dump(include=set(SymbolInfo.model_fields) - {"name"})
    return SymbolInfo(**fields, name=symbol.qualified_name)


def place_of(symbol: CodeSymbol) -> str:
    return f"{symbol.path}:{symbol.start_line}-{symbol.end_line} {symbol.qualified_name}".rstrip()


def outline_line(symbol: CodeSymbol) -> str:
    indent = "  " * max(symbol.depth - 1, 0)
    head = symbol.signature or f"{symbol.kind} {symbol.name}"
    return f"{symbol.start_line} {indent}{_one_line(head)}"


def fitting(lines: list[str], max_tokens: int) -> list[str]:
    room = int(max_tokens * CHARS_PER_TOKEN) - len(DATA_NOTICE)
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if kept and room < 0:
            break
        kept.append(line)
    return kept


def within(hits: list[CodeHit], max_tokens: int) -> list[CodeHit]:
    """Return what fits, from the first on, and the first in any case."""
    room = int(max_tokens * CHARS_PER_TOKEN) - len(DATA_NOTICE)
    kept: list[CodeHit] = []
    for hit in hits:
        room -= len(hit.model_dump_json())
        if kept and room < 0:
            break
        kept.append(hit)
    return kept


def quote_candidates(candidates: Iterable[CodeSymbol]) -> str:
    lines = [f"{one.id} {one.kind} {place_of(one)}" for one in candidates]
    return fence("\n".join(lines), kind="candidates")


def edit_text(edit: FileEdit) -> str:
    moment = datetime.fromtimestamp(edit.timestamp, UTC).isoformat()
    lines = [f"{moment} {edit.host} session {edit.session_id}"]
    lines += [f"asked: {edit.prompt}"] if edit.prompt else []
    lines.append(f"did: {edit.content}")
    lines += [f"then failed (#{f.observation_id}): {f.content}" for f in edit.failures]
    return "\n".join(lines)


def call_of(edge: CodeEdge, other: CodeSymbol | None) -> Call:
    return Call(
        kind=edge.kind,
        symbol=other and info_of(other),
        name=edge.name,
        path=edge.caller.path,
        line=edge.line,
        strength=edge.strength,
    )


def calls_answer(found: CallsResponse, calls: list[Call]) -> CallToolResult:
    answer = Calls(
        symbol=found.symbol and info_of(found.symbol),
        candidates=[info_of(one) for one in found.candidates],
        calls=calls,
        more=found.more,
    )
    lines = []
    for call in calls:
        who = f"{call.symbol.path}:{call.symbol.name}" if call.symbol else call.name
        lines.append(_one_line(f"{call.strength:.2f} {call.kind} {call.path}:{call.line} {who}"))
    quoted = [quote_candidates(found.candidates)] if found.candidates else []
    quoted += [fence("\n".join(lines), kind="calls")] if lines else []
    note = "None that is known." if found.symbol and not lines else None
    return quoted_result(answer, quoted, note)


def quoted_result(answer: BaseModel, quoted: Iterable[str], note: str | None) -> CallToolResult:
    text = "\n\n".join(part for part in (DATA_NOTICE, *quoted, note) if part)
    return to_result(answer, text)
