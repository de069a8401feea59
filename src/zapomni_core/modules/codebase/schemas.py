"""Requests and responses about code."""

from __future__ import annotations

from typing import Literal

from zapomni_db.code_models import CheckedCitation, CodeEdge, CodeSymbol, FileEdit, FileSummary
from zapomni_db.models import FrozenModel

__all__ = [
    "CallsRequest",
    "CallsResponse",
    "CitingMemory",
    "CodeFolder",
    "CodeHit",
    "CodeSearchRequest",
    "CodeSearchResponse",
    "FolderRequest",
    "FolderResponse",
    "IndexRequest",
    "OutlineRequest",
    "OutlineResponse",
    "StaleMemory",
    "SymbolRequest",
    "SymbolResponse",
]


class IndexRequest(FrozenModel):
    """Which folder to index."""

    path: str
    folder: str
    """Where a relative path starts."""
    roots: list[str] | None = None
    """It must lie in one of these, unless the setting `code_roots` says otherwise; None: any."""
    confirmed: bool = False
    """Whether the user said that the whole home folder is meant."""


class _Scoped(FrozenModel):
    repository: str = ""
    """The root, name or project of an indexed repository; `*`: all of them."""
    folder: str = ""
    """Without a repository: the one this folder lies in, or all if it lies in none."""


class CodeSearchRequest(_Scoped):
    """A question about code; every filter given must hold."""

    query: str
    path: str = ""
    """A file or folder, or the end of its path."""
    language: str = ""
    kind: str = ""
    """What is looked for: function, method, class, section, ..."""
    limit: int = 10


class FolderRequest(_Scoped):
    """Which folder of a repository to list; empty: its root."""

    path: str = ""


class OutlineRequest(_Scoped):
    """Which file to outline: its path, or the end of it."""

    path: str


class SymbolRequest(_Scoped):
    """Which symbol: a name, the end of a qualified one, `path:name`, or an id."""

    name: str
    history: bool = False
    """Whether to include what agents did to it."""


class CallsRequest(_Scoped):
    """Whose callers or callees; a name as for a symbol."""

    name: str
    limit: int = 50


State = Literal["fresh", "changed", "gone"]
"""Whether the file is as it was indexed, has changed since, or is not there any more."""


class CodeHit(FrozenModel):
    """A passage of code, and the symbol it belongs to."""

    id: int
    """The symbol's."""
    repository: str
    path: str
    language: str
    kind: str
    name: str
    """Qualified; empty: the file itself."""
    signature: str
    start_line: int
    end_line: int
    score: float
    text: str


class CodeSearchResponse(FrozenModel):
    """Passages, best first."""

    hits: list[CodeHit]
    notice: str | None = None


class CodeFolder(FrozenModel):
    """A folder in a list, with all below it."""

    path: str
    files: int
    lines: int


class FolderResponse(FrozenModel):
    """What a folder has in it, as it was indexed."""

    repository: str
    path: str
    folders: list[CodeFolder] = []
    files: list[FileSummary] = []


class OutlineResponse(FrozenModel):
    """A file's symbols in order, as they are now."""

    repository: str = ""
    path: str = ""
    state: State = "fresh"
    symbols: list[CodeSymbol] = []
    candidates: list[str] = []
    """The choices, if several files have this path."""


class SymbolResponse(FrozenModel):
    """A symbol with its source as it is now."""

    symbol: CodeSymbol | None
    """None if the name may mean several."""
    candidates: list[CodeSymbol] = []
    source: str = ""
    state: State = "fresh"
    edits: list[FileEdit] = []
    """What agents did to it, the last edit first, if asked for."""
    edits_of_file: bool = False
    """Whether no edit names the symbol, so that these are the file's."""


class CallsResponse(FrozenModel):
    """Who refers to a symbol, or whom it refers to."""

    symbol: CodeSymbol | None
    """None if the name may mean several."""
    candidates: list[CodeSymbol] = []
    edges: list[CodeEdge] = []
    more: bool = False


class CitingMemory(FrozenModel):
    """A memory that cites code, and what became of that."""

    memory_id: str
    preview: str
    kind: str
    citations: list[CheckedCitation]
    """Those of the code that was asked for."""
    is_fresh: bool
    """Whether all of them are as they were."""


class StaleMemory(FrozenModel):
    """A memory that cites code which has changed, is elsewhere or gone."""

    memory_id: str
    preview: str
    project: str
    citations: list[CheckedCitation]
    """Those that are not fresh."""
    recalls: int = 0
    """How often it was recalled or used."""
