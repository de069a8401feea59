"""SqliteCode: the whole CodeStore in the local file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from zapomni_db.code_models import (
    Citation,
    CodeEdge,
    CodeFile,
    CodeRepository,
    CodeSymbol,
    EdgeRow,
    FileData,
    FileEdit,
    SymbolQuery,
)
from zapomni_db.code_store import Place
from zapomni_db.sqlite import code_citations, code_reads, code_writes
from zapomni_db.sqlite.code_facts import SqliteFacts
from zapomni_db.sqlite.file import SqliteFile

__all__ = ["SqliteCode"]

T = TypeVar("T")


class SqliteCode(SqliteFile):
    """Repositories, symbols, references and citations; opened by the first call."""

    async def _run(self, work: Callable[[], T]) -> T:
        await self.connect()
        return await super()._run(work)

    # --- writing ------------------------------------------------------------------------

    async def list_repositories(self) -> list[CodeRepository]:
        """Return what was indexed."""
        return await self._read("reading code", code_writes.repositories)

    async def open_repository(self, root: str, name: str, project: str) -> CodeRepository:
        """Return a repository by its root, new or known."""
        return await self._write("indexing code", code_writes.open_repository, root, name, project)

    async def begin_changes(self, key: int) -> None:
        """Say that files are about to change."""
        await self._write("indexing code", code_writes.begin_changes, key)

    async def finish_repository(self, key: int, commit: str, reader: str) -> None:
        """Say that a repository was read to its end just now."""
        await self._write("indexing code", code_writes.finish, key, commit, reader)

    async def forget_repository(self, key: int) -> None:
        """Forget a repository."""
        await self._write("forgetting code", code_writes.forget, key)

    async def get_files(self, repository: int) -> list[CodeFile]:
        """Return all files of a repository."""
        return await self._read("reading code", code_writes.files, repository)

    async def begin_files(self, repository: int, paths: Sequence[str]) -> list[CodeFile]:
        """Say that these files are about to be written."""
        return await self._write("indexing code", code_writes.begin_files, repository, paths)

    async def move_file(self, key: int, path: str) -> None:
        """Give a file another path."""
        await self._write("indexing code", code_writes.move_file, key, path)

    async def find_origin(self, among: Sequence[int], hashes: Sequence[str]) -> int | None:
        """Return which of these files has half of its symbols in common."""
        return await self._read("reading code", code_writes.find_origin, among, hashes)

    async def store_files(self, files: Sequence[FileData]) -> None:
        """Store what stands in files."""
        await self._write("indexing code", code_writes.store_files, files)

    async def set_stamps(self, stamps: Mapping[int, str]) -> None:
        """Note that files were touched."""
        await self._write("indexing code", code_writes.set_stamps, stamps)

    async def remove_files(self, keys: Sequence[int]) -> None:
        """Forget files."""
        await self._write("indexing code", code_writes.remove_files, keys)

    def read_facts(self, repository: int) -> SqliteFacts:
        """Open what files say about each other."""
        return SqliteFacts(self.path, repository)

    async def get_facts(self, keys: Sequence[int]) -> dict[int, str]:
        """Return what files say about others."""
        return await self._read("reading code", code_writes.facts, keys)

    async def store_edges(self, repository: int, edges: Mapping[str, Sequence[EdgeRow]]) -> None:
        """Store whom the symbols of these files refer to."""
        await self._write("indexing code", code_writes.store_edges, repository, edges)

    # --- reading ------------------------------------------------------------------------

    async def find_symbols(self, query: SymbolQuery) -> list[CodeSymbol]:
        """Return the symbols that match."""
        return await self._read("reading code", code_reads.find_symbols, query)

    async def get_symbol(self, symbol_id: int) -> CodeSymbol | None:
        """Return a symbol by its id."""
        return await self._read("reading code", code_reads.get_symbol, symbol_id)

    async def suggest_names(self, repositories: Sequence[int] | None, name: str) -> list[str]:
        """Return names that are like one nobody has."""
        return await self._read("reading code", code_reads.suggest_names, repositories, name)

    async def find_files(
        self, repositories: Sequence[int] | None, path: str
    ) -> list[tuple[str, CodeFile]]:
        """Return files by path, or by the end of one."""
        return await self._read("reading code", code_reads.find_files, repositories, path)

    async def find_copies(self, repository: int, content_hash: str) -> list[str]:
        """Return the paths of the files with these contents."""
        return await self._read("reading code", code_reads.find_copies, repository, content_hash)

    async def get_outline(self, file_key: int) -> list[CodeSymbol]:
        """Return a file's symbols."""
        return await self._read("reading code", code_reads.outline, file_key)

    async def get_callers(self, symbol: CodeSymbol, limit: int) -> list[CodeEdge]:
        """Return who refers to a symbol."""
        return await self._read("reading code", code_reads.callers, symbol, limit)

    async def get_callees(self, symbol: CodeSymbol, limit: int) -> list[CodeEdge]:
        """Return whom a symbol refers to."""
        return await self._read("reading code", code_reads.callees, symbol, limit)

    async def get_places(self, memory_ids: Sequence[str]) -> dict[str, Place]:
        """Return which files memories of code stand for."""
        return await self._read("reading code", code_reads.places, memory_ids)

    async def get_edits(self, paths: Sequence[str], limit: int) -> list[FileEdit]:
        """Return the newest edits of a file by agents."""
        return await self._read("reading observations", code_reads.edits, paths, limit)

    # --- citations ----------------------------------------------------------------------

    async def set_citations(self, memory_id: str, citations: Sequence[Citation]) -> None:
        """Let these be all of a memory's citations."""
        await self._write("citing code", code_citations.set_citations, memory_id, citations)

    async def get_citations(self, memory_ids: Sequence[str]) -> dict[str, list[Citation]]:
        """Return the citations of memories."""
        return await self._read("reading citations", code_citations.citations, memory_ids)

    async def list_cited(self) -> list[str]:
        """Return the ids of all memories that cite code."""
        return await self._read("reading citations", code_citations.cited)
