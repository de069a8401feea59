"""Indexed code as the store takes and returns it: repositories, files, symbols, citations.

Lines count from 1 and include the last one; bytes are offsets into a file's UTF-8 text.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import ConfigDict, Field

from zapomni_db.models import FrozenModel
from zapomni_db.symbols import Symbol

__all__ = [
    "CODE_KIND",
    "CheckedCitation",
    "Citation",
    "CodeEdge",
    "CodeFile",
    "CodeRepository",
    "CodeSymbol",
    "EdgeRow",
    "FailureAfter",
    "FileData",
    "FileEdit",
    "FileSummary",
    "IndexedFile",
    "PassagePlace",
    "SymbolQuery",
]

CODE_KIND = "code"
"""The kind of memories that are files of an indexed repository."""


class _CodeModel(FrozenModel):
    # A validation message must not quote a path.
    model_config = ConfigDict(hide_input_in_errors=True)


# --- What is indexed --------------------------------------------------------------------


class CodeRepository(_CodeModel):
    """A folder that was indexed. Its root, with every link resolved, is its identity."""

    key: int = Field(exclude=True)
    root: str
    name: str
    project: str
    """The key its observations and memories have as their project."""
    tag: str
    """What its files are tagged with."""
    commit: str = ""
    """The commit that was checked out when it was indexed, if git knows it."""
    reader: str = Field(default="", exclude=True)
    """Which version of the parsers read it; another one reads it again."""
    is_resolved: bool = Field(default=False, exclude=True)
    """Whether references were resolved since files last changed."""
    indexed_at: datetime | None = None
    """When it was last indexed completely."""
    files: int = 0
    lines: int = 0
    symbols: int = 0


class CodeFile(NamedTuple):
    """What is stored about a file. Not a pydantic model: a run reads all of them."""

    key: int
    path: str
    memory_id: str
    stamp: str
    """The same as on disk means the same contents; "" means that it must be read again."""
    content_hash: str
    """"" while what is stored for it is incomplete."""
    is_empty: bool
    """Whether it contains nothing, so that no memory is stored for it."""


class PassagePlace(NamedTuple):
    """Where a passage of a file is."""

    digest: str
    """Of its text."""
    symbol: int
    """Which of the file's symbols it belongs to."""
    start_line: int
    end_line: int


class FileData(NamedTuple):
    """Everything read from one file."""

    key: int
    stamp: str
    content_hash: str
    language: str
    lines: int
    has_errors: bool
    symbols: tuple[Symbol, ...]
    passages: tuple[PassagePlace, ...]
    facts: str
    """What the call graph needs to know of it, packed."""
    mentions: tuple[str, ...]
    """The names its references depend on."""


class EdgeRow(NamedTuple):
    """A reference to be stored, from a symbol of the file it is stored for."""

    caller: str
    """A qualified name; "" is the file itself."""
    kind: str
    callee: tuple[str, str] | None
    """Path and qualified name, if it is known which symbol is meant."""
    name: str
    strength: float
    line: int


# --- What is asked for ------------------------------------------------------------------


class SymbolQuery(_CodeModel):
    """Which symbols; every condition given must hold."""

    repositories: list[int] | None = None
    name: str | None = None
    """Qualified, or the end of a qualified name."""
    path: str | None = None
    """The file's path, or the end of one."""
    body_hash: str | None = None
    kind: str | None = None
    limit: int = 20


class CodeSymbol(_CodeModel):
    """Something with a name in a file; the file itself is a symbol of kind `module`."""

    id: int
    repository: str
    """The root of its repository."""
    path: str
    name: str
    qualified_name: str
    kind: str
    signature: str
    docstring: str
    decorators: list[str]
    start_line: int
    end_line: int
    start_byte: int = Field(exclude=True)
    end_byte: int = Field(exclude=True)
    content_hash: str = Field(exclude=True)
    body_hash: str = Field(exclude=True)
    depth: int = 0
    """How many symbols contain it."""


class CodeEdge(_CodeModel):
    """One symbol refers to another: it calls, inherits from, is decorated by, overrides or uses it.

    `register`: a decorator, whose name this is, hands the other one on.
    """

    kind: str
    caller: CodeSymbol
    callee: CodeSymbol | None
    """None when it is not known which symbol is meant."""
    name: str
    """The last name of what is written there."""
    strength: float
    line: int


class IndexedFile(NamedTuple):
    """The file that a memory of code was made from."""

    root: str
    path: str
    language: str
    passages: list[PassagePlace]
    symbols: list[CodeSymbol]


class FileSummary(_CodeModel):
    """An indexed file in a list."""

    path: str
    language: str
    lines: int
    symbols: int
    """Without the file itself."""


# --- Citations --------------------------------------------------------------------------


class Citation(_CodeModel):
    """Code that a memory refers to, as it was when the memory was stored."""

    root: str
    """The folder `path` starts from: the repository's root."""
    path: str
    symbol: str = ""
    """A qualified name; empty: the file, or its lines."""
    start_line: int = 0
    end_line: int = 0
    """0: the whole file."""
    given: bool = True
    """Whether the caller gave it; otherwise it was found in the memory's text."""
    file_hash: str
    content_hash: str
    """Of what is cited: the file, the lines or the symbol."""
    body_hash: str = ""
    """Of a symbol without its name."""
    twins: list[str] = []
    """Other symbols that had the same body then, as `path:name`."""
    commit: str = ""
    structure: str = ""
    """Its structure and a sample of its lines, packed; empty: it was not kept."""
    state: str = ""
    """What the last check said about it, in words; empty: nothing that matters."""


class CheckedCitation(_CodeModel):
    """Code that a memory refers to, and whether it has changed."""

    repository: str
    path: str
    symbol: str = ""
    start_line: int = 0
    end_line: int = 0
    place: Literal["same", "moved", "gone"]
    """Whether it is where it was, is elsewhere or has another name, or is nowhere."""
    content: Literal["", "same", "reworded", "changed"]
    """Whether it does what it did; `reworded`: with other comments, formatting, docstrings or
    annotations. Empty: it is gone."""
    status: Literal["fresh", "changed", "moved", "gone"]
    """Both in one word; `fresh`: in its place, and the same or reworded."""
    now: str = ""
    """Where it is now, as `path:symbol` or `path:L10-L20`, if that is elsewhere."""
    changed: list[str] = []
    """Of changed code, what: `signature`, `body`."""
    share: float | None = None
    """Of changed code, which share of its lines is not there any more; None: not known."""
    since: str = ""
    """Of changed code, the commit that changed it first, or `uncommitted`; empty: not known."""
    message: str = ""
    """The first line of that commit's message."""
    commit: str = ""
    """The commit that was checked out when the memory was stored."""
    content_hash: str = Field(default="", exclude=True)
    """Of what was cited."""

    @property
    def cites(self) -> str:
        """Return what is cited as people write it: `path:symbol` or `path:L10-L20`."""
        if self.symbol or not self.start_line:
            return f"{self.path}:{self.symbol}" if self.symbol else self.path
        last = f"-L{self.end_line}" if self.end_line > self.start_line else ""
        return f"{self.path}:L{self.start_line}{last}"

    @property
    def what(self) -> str:
        """Return in words what changed, since when and why; empty if nothing did."""
        if self.content != "changed":
            return ""
        parts = [" and ".join(self.changed)] if self.changed else []
        if self.share:
            parts.append(f"{max(1, round(100 * self.share))} % of its lines")
        if self.since:
            message = f": {self.message}" if self.message else ""
            is_committed = self.since != "uncommitted"
            parts.append(f"since {self.since[:10]}{message}" if is_committed else "not committed")
        return ", ".join(parts)


# --- What agents did to it --------------------------------------------------------------


class FailureAfter(_CodeModel):
    """Something that failed after an edit."""

    observation_id: int
    timestamp: int
    content: str


class FileEdit(_CodeModel):
    """An edit of a file by an agent: when, in which session, what for, and what failed after."""

    observation_id: int
    timestamp: int
    session_id: str
    host: str
    tool: str
    content: str
    prompt: str
    """What the user had asked for; empty if that is not known."""
    failures: list[FailureAfter]
    """Until the file was edited again, in the same session."""
