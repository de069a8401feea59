"""What the core asks of the store of code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from zapomni_db.code_models import (
    Citation,
    CodeEdge,
    CodeFile,
    CodeRepository,
    CodeSymbol,
    EdgeRow,
    FileData,
    FileEdit,
    PassagePlace,
    SymbolQuery,
)

__all__ = ["CitationStore", "CodeIndexStore", "CodeReadStore", "CodeStore", "FactReader", "Place"]


class Place(NamedTuple):
    """The file a memory of code stands for."""

    root: str
    path: str
    language: str
    passages: list[PassagePlace]
    symbols: list[CodeSymbol]


class FactReader(Protocol):
    """What the files of a repository say about each other, for one thread at a time.

    Implemented by `zapomni_db.sqlite.code_facts.SqliteFacts`.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def paths(self) -> list[str]:
        """Return the paths of all files."""
        ...

    def facts(self, path: str) -> str | None:
        """Return what a file says, packed; None if there is no such file."""
        ...

    def named(self, name: str) -> list[tuple[str, str]]:
        """Return path and qualified name of all symbols of this bare name."""
        ...

    def mentioning(self, name: str) -> list[str]:
        """Return the files that mention a name."""
        ...


class CodeIndexStore(Protocol):
    """Keeps what stands in repositories. Repositories never touch each other.

    A file is begun before its memory is written and stored after: whatever ends the process in
    between, `get_files` tells of it and the next run does it again.
    """

    async def list_repositories(self) -> list[CodeRepository]:
        """Return what was indexed, by root."""
        ...

    async def open_repository(self, root: str, name: str, project: str) -> CodeRepository:
        """Return a repository by its root, new or known, under its current name."""
        ...

    async def begin_changes(self, key: int) -> None:
        """Say that files are about to change, so that references have to be resolved after."""
        ...

    async def finish_repository(self, key: int, commit: str, reader: str) -> None:
        """Say that a repository was read to its end just now, and its references resolved."""
        ...

    async def forget_repository(self, key: int) -> None:
        """Forget a repository; its memories are the caller's to delete."""
        ...

    async def get_files(self, repository: int) -> list[CodeFile]:
        """Return all files of a repository, by path."""
        ...

    async def begin_files(self, repository: int, paths: Sequence[str]) -> list[CodeFile]:
        """Say that these files are about to be written; new ones get an id for their memory."""
        ...

    async def move_file(self, key: int, path: str) -> None:
        """Give a file another path; it stays the same file, and is begun."""
        ...

    async def find_origin(self, among: Sequence[int], hashes: Sequence[str]) -> int | None:
        """Return which of these files has at least half of its symbols, and of these, in common."""
        ...

    async def store_files(self, files: Sequence[FileData]) -> None:
        """Store what stands in files, all of it or nothing.

        Symbols that are still there, or there under another name, keep their ids. Of those that
        are not, whoever refers to them is left with their names.
        """
        ...

    async def set_stamps(self, stamps: Mapping[int, str]) -> None:
        """Note that files were touched, though their contents are the same."""
        ...

    async def remove_files(self, keys: Sequence[int]) -> None:
        """Forget files with all that stands in them."""
        ...

    def read_facts(self, repository: int) -> FactReader:
        """Open what files say about each other, to be read and closed in one thread."""
        ...

    async def get_facts(self, keys: Sequence[int]) -> dict[int, str]:
        """Return what files say about others, packed."""
        ...

    async def store_edges(self, repository: int, edges: Mapping[str, Sequence[EdgeRow]]) -> None:
        """Store whom the symbols of these files refer to, in the place of what was known."""
        ...


class CodeReadStore(Protocol):
    """Answers questions about code."""

    async def find_symbols(self, query: SymbolQuery) -> list[CodeSymbol]:
        """Return the symbols that match, the best first."""
        ...

    async def get_symbol(self, symbol_id: int) -> CodeSymbol | None:
        """Return a symbol by its id."""
        ...

    async def suggest_names(self, repositories: Sequence[int] | None, name: str) -> list[str]:
        """Return names that are like one nobody has."""
        ...

    async def find_files(
        self, repositories: Sequence[int] | None, path: str
    ) -> list[tuple[str, CodeFile]]:
        """Return root and file of those with this path, or whose path ends so."""
        ...

    async def find_copies(self, repository: int, content_hash: str) -> list[str]:
        """Return the paths of the files with these contents."""
        ...

    async def get_outline(self, file_key: int) -> list[CodeSymbol]:
        """Return a file's symbols in order, the file itself first."""
        ...

    async def get_callers(self, symbol: CodeSymbol, limit: int) -> list[CodeEdge]:
        """Return who refers to a symbol, the surest first; then who writes its name."""
        ...

    async def get_callees(self, symbol: CodeSymbol, limit: int) -> list[CodeEdge]:
        """Return whom a symbol, or what stands in it, refers to, in order of lines."""
        ...

    async def get_places(self, memory_ids: Sequence[str]) -> dict[str, Place]:
        """Return which files memories of code stand for."""
        ...

    async def get_edits(self, paths: Sequence[str], limit: int) -> list[FileEdit]:
        """Return the newest edits of a file by agents, the last one first."""
        ...


class CitationStore(Protocol):
    """Keeps which code memories speak of."""

    async def set_citations(self, memory_id: str, citations: Sequence[Citation]) -> None:
        """Let these be all of a memory's citations; none forgets them."""
        ...

    async def get_citations(self, memory_ids: Sequence[str]) -> dict[str, list[Citation]]:
        """Return the citations of those memories that have any."""
        ...

    async def list_cited(self) -> list[str]:
        """Return the ids of all memories that cite code."""
        ...


class CodeStore(CodeIndexStore, CodeReadStore, CitationStore, Protocol):
    """Code in the local file, whatever engine holds the memories.

    Implemented by `zapomni_db.sqlite.code.SqliteCode`.
    """

    async def close(self) -> None:
        """Release files and threads. Safe to call again."""
        ...
