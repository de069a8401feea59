"""CodeMemory: the service of this module, one method per use case."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zapomni_core.exceptions import NotFoundError, ProcessingError, ValidationError
from zapomni_core.infra.correlation import operation
from zapomni_core.interfaces import SearchRequest, SearchResponse, TextChunker
from zapomni_core.modules.codebase.schemas import (
    CallsRequest,
    CallsResponse,
    CodeSearchRequest,
    CodeSearchResponse,
    FolderRequest,
    FolderResponse,
    IndexRequest,
    OutlineRequest,
    OutlineResponse,
    SymbolRequest,
    SymbolResponse,
)
from zapomni_core.settings import Settings
from zapomni_core.shared.folders import is_home, lies_in, real_path
from zapomni_core.shared.privacy import PrivatePaths
from zapomni_core.shared.redaction import Redactor
from zapomni_db.code_models import CodeRepository
from zapomni_db.interfaces import StorageProvider
from zapomni_db.sqlite.code import SqliteCode

if TYPE_CHECKING:
    from zapomni_core.modules.codebase.index import FillVectors, Indexer, Report

__all__ = ["CodeMemory"]


# While nothing changes, watching takes no more than a twentieth of a core.
WATCH_SECONDS, WATCH_SHARE = 1.0, 20

Submit = Callable[[str, Mapping[str, Any]], Awaitable[str]]
"""Queues a task of a type with parameters and returns its id."""
StopWork = Callable[[str, Mapping[str, Any]], Awaitable[bool]]
"""Cancels the unfinished task of a type with parameters; returns whether there was one."""
Search = Callable[[SearchRequest], Awaitable[SearchResponse]]


@dataclass(frozen=True)
class CodeMemory:
    """Indexes, searches and reads code; doors call it as `engine.code`.

    What parses code is imported when it is needed: most calls never do.
    """

    store: SqliteCode
    storage: StorageProvider
    fill_vectors: FillVectors | None
    chunker: TextChunker
    settings: Settings
    submit: Submit
    stop_work: StopWork
    search_memory: Search
    redactor: Redactor

    # --- indexing -----------------------------------------------------------------------

    @operation()
    async def index(self, request: IndexRequest) -> str:
        """Begin to index a folder, or to bring its index up to date; return the task's id."""
        if importlib.util.find_spec("tree_sitter") is None:
            raise ProcessingError("The extra code is not installed", "CODE_003")
        path = real_path(request.path, request.folder)
        self._check_allowed(path, request.roots)
        if not request.confirmed and is_home(path):
            raise ValidationError(
                "This is the home folder or holds it, with everything in it; name a repository,"
                " or confirm that all of it is meant",
                "VAL_003",
            )
        root = await asyncio.to_thread(_checked_root, path)
        return await self.submit("index_codebase", {"root": root})

    def _check_allowed(self, root: str, roots: list[str] | None) -> None:
        allowed = [str(path) for path in self.settings.code_roots] or roots
        if allowed is None:
            return
        if not any(lies_in(root, real_path(one)) for one in allowed):
            raise ValidationError(
                "This folder is not one of those that may be indexed from here; the setting"
                " code_roots names them",
                "VAL_003",
            )

    async def run_index(self, params: dict[str, Any], report: Report) -> dict[str, Any]:
        """Do the work of an `index_codebase` task."""
        return await self._indexer().index(params["root"], report)

    async def watch(self, root: str) -> AsyncIterator[None]:
        """Yield at once, and then whenever a file of a folder has changed."""
        from zapomni_core.modules.codebase.search import fingerprint

        seen = ""
        while True:
            began = time.monotonic()
            now = await asyncio.to_thread(fingerprint, root)
            took = time.monotonic() - began
            if now != seen:
                seen = now
                yield
            await asyncio.sleep(max(WATCH_SECONDS, WATCH_SHARE * took))

    @operation()
    async def list_repositories(self) -> list[CodeRepository]:
        """Return what was indexed."""
        return await self.store.list_repositories()

    @operation()
    async def forget(self, repository: str, folder: str) -> CodeRepository:
        """Take a repository out of the index, with all its passages.

        A task that is indexing it is stopped first: it would put files back.
        """
        known = await self.store.list_repositories()
        root = real_path(repository, folder)
        found = [r for r in known if r.root in (root, repository)]
        found = found or [r for r in known if repository in (r.name, r.project)]
        if len(found) > 1:
            raise ValidationError("Several repositories have this name; give its folder", "VAL_004")
        root = found[0].root if found else root
        stopped = await self.stop_work("index_codebase", {"root": root})
        indexed = [r for r in await self.store.list_repositories() if r.root == root]
        if indexed:
            await self._indexer().forget(indexed[0])
            return indexed[0]
        if stopped:  # before its first file
            return CodeRepository(key=0, root=root, name=Path(root).name, project="", tag="")
        raise NotFoundError("No such repository is indexed.", "CODE_002")

    def _indexer(self) -> Indexer:
        from zapomni_core.modules.codebase.index import Indexer

        return Indexer(
            self.storage,
            self.store,
            self.fill_vectors,
            self.chunker,
            self.settings.chunk_size,
            self.redactor,
            PrivatePaths(self.settings.private_paths),
        )

    # --- asking -------------------------------------------------------------------------

    @operation()
    async def search(self, request: CodeSearchRequest) -> CodeSearchResponse:
        """Find code by words, by parts of identifiers and by meaning."""
        from zapomni_core.modules.codebase.search import search_code

        return await search_code(self.store, self.search_memory, request)

    @operation()
    async def list_files(self, request: FolderRequest) -> FolderResponse:
        """Return the folders and files in a folder of one repository."""
        from zapomni_core.modules.codebase.search import list_files

        return await list_files(self.store, request)

    @operation()
    async def get_outline(self, request: OutlineRequest) -> OutlineResponse:
        """Return the symbols of a file."""
        from zapomni_core.modules.codebase.search import get_outline

        return await get_outline(self.store, request)

    @operation()
    async def get_symbol(self, request: SymbolRequest) -> SymbolResponse:
        """Return a symbol with its exact source."""
        from zapomni_core.modules.codebase.search import get_symbol

        return await get_symbol(self.store, self.storage, request)

    @operation()
    async def find_callers(self, request: CallsRequest) -> CallsResponse:
        """Return who refers to a symbol."""
        from zapomni_core.modules.codebase.search import find_calls

        return await find_calls(self.store, self.store.get_callers, request)

    @operation()
    async def find_callees(self, request: CallsRequest) -> CallsResponse:
        """Return whom a symbol refers to."""
        from zapomni_core.modules.codebase.search import find_calls

        return await find_calls(self.store, self.store.get_callees, request)


def _checked_root(path: str) -> str:
    """Return where a folder really is, if it can be indexed.

    Raises:
        ValidationError: It is missing, no folder, not readable, or a bare repository.
    """
    from zapomni_core.modules.codebase.tree import SourceTree

    with SourceTree(Path(path)) as tree:
        root = str(tree.path)
    if root.encode("utf-8", "ignore").decode() != root:
        raise ValidationError("The folder's name is not valid UTF-8", "VAL_004")
    return root
