"""ZapomniEngine: the modules, and the use cases that cross them; `create_engine` builds it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import cache, cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from zapomni_core.adapters.chunkers import SemanticChunker
from zapomni_core.adapters.embedders import (
    adapt_embedder,
    build_cache,
    build_embedders,
    build_second,
)
from zapomni_core.adapters.storages import open_storage
from zapomni_core.adapters.tokenizer import LazyTokenizer
from zapomni_core.infra.capture_key import load_redactor
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.home import secure_home
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.recall_log import recall_log
from zapomni_core.interfaces import (
    AddMemoryRequest,
    AddMemoryResponse,
    Embedder,
    ListRequest,
    Reranker,
    SearchRequest,
    SearchResponse,
    TextChunker,
    UpdatedMemory,
    UpdateMemoryRequest,
)
from zapomni_core.modules.codebase import Citations
from zapomni_core.modules.memories import (
    Digest,
    EmbeddingChain,
    Memories,
    Progress,
)
from zapomni_core.modules.observations import Observations
from zapomni_core.scheduler.task_manager import TaskManager, open_tasks
from zapomni_core.scheduler.upkeep import Upkeep
from zapomni_core.settings import Settings, load_settings
from zapomni_core.workflows.add_memory import MemoryWriter
from zapomni_core.workflows.projects import Projects
from zapomni_core.workflows.search_everything import Searcher
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import MemoryPage, MemoryRecord
from zapomni_db.sqlite.code import SqliteCode
from zapomni_db.sqlite.digest_file import SqliteDigest

if TYPE_CHECKING:
    from zapomni_core.modules.codebase import CodeMemory
    from zapomni_core.modules.graph import GraphExtractor, KnowledgeGraph
    from zapomni_core.workflows.check_health import Health
    from zapomni_core.workflows.entity_cards import EntityCards
    from zapomni_core.workflows.export_memories import Exports
    from zapomni_core.workflows.import_records import RecordImports
    from zapomni_core.workflows.import_sources import Imports
    from zapomni_core.workflows.markdown_notes import MarkdownNotes
    from zapomni_core.workflows.merge_memories import MemoryMerges
    from zapomni_core.workflows.review import ReviewInbox
    from zapomni_core.workflows.sync import Sync
    from zapomni_core.workflows.trash import Trash, TrashBatch
    from zapomni_db.graph_models import MemoryVersion

__all__ = ["ZapomniEngine", "create_engine", "create_extractor", "open_storage"]

logger = get_logger(__name__)


async def create_engine(settings: Settings, *, wait: bool = True) -> ZapomniEngine:
    """Build an engine from settings, connected and ready. Close it when done.

    Without `wait` a storage server that is down is connected to later, when it is needed.
    """
    if secure_home(str(settings.home), allow_open=settings.allow_open_home):
        logger.warning("home_open_to_others")
    # Before numpy is imported: on products as small as ours, threads cost more than they give.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    tokenizer = LazyTokenizer(settings.models_path)
    chunker = SemanticChunker(tokenizer, settings.chunk_size, settings.chunk_overlap)
    embedders, cache = build_embedders(settings), build_cache(settings)
    reranker = None
    if settings.reranker is not None:
        from zapomni_core.adapters.cross_encoder import CrossEncoder  # few have one

        reranker = CrossEncoder(settings.reranker.expanduser())
    storage = await open_storage(settings, wait=wait)
    second = build_second(settings)
    embeddings = EmbeddingChain(embedders, storage.get_embeddings, cache, second=second)
    return ZapomniEngine(
        storage,
        chunker,
        embeddings,
        settings=settings,
        observations=Observations(settings),
        reranker=reranker,
    )


def create_extractor(settings: Settings) -> GraphExtractor:
    """Build the extractor that the settings name. Close it when done.

    Raises:
        ConfigurationError: The setting `extractor` needs another one, or gazetteer.txt is wrong.
    """
    from zapomni_core.adapters.extractors import build_extraction_model
    from zapomni_core.modules.graph import GraphExtractor, RuleExtractor, load_gazetteer

    rules = RuleExtractor(load_gazetteer(settings.home / "gazetteer.txt"))
    return GraphExtractor(rules, build_extraction_model(settings))


class ZapomniEngine:
    """The memory engine that every door calls; each module's own operations are its attributes.

    Args:
        storage: The store of memories, connected.
        chunker: Splits texts.
        embedder: Makes vectors: anything with `async embed(texts)`, or a chain of embedders.
            Without one, memories are found by words alone.
        settings: Decides how texts are split and read into the graph; None: the user's.
        tasks: Background work.
        code: The store of symbols, references and citations.
        observations: What agents did; if given, it is searched together with memories.
        reranker: Reads the best hits again.
    """

    def __init__(
        self,
        storage: StorageProvider,
        chunker: TextChunker,
        embedder: Embedder | EmbeddingChain | None = None,
        *,
        settings: Settings | None = None,
        tasks: TaskManager | None = None,
        code: SqliteCode | None = None,
        observations: Observations | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        settings = settings or load_settings()
        if not isinstance(embedder, EmbeddingChain):
            embedders = [] if embedder is None else [adapt_embedder(embedder)]
            embedder = EmbeddingChain(embedders, lambda *asked: storage.get_embeddings(*asked))  # noqa: PLW0108
        self.storage = storage
        self.tasks = tasks or open_tasks(settings)
        self.observations = observations or Observations(settings)
        self.recalls = recall_log(settings)
        self._settings = settings
        self._chunker = chunker
        self._reranker = reranker
        # The one file of this machine, whichever engine holds the memories.
        self._file = file = settings.observations_path
        self._code = code or SqliteCode(file)
        # Only what adds texts needs its rules: a search does not import them.
        self._redactor = cache(partial(load_redactor, str(settings.home)))
        server = str(settings.server or "")
        digest = Digest(SqliteDigest(file), storage, server, self._redactor)
        self.memories = Memories(storage, embedder, self._choose_chunker, self._redactor, digest)
        self.citations = Citations(self._code, storage, str(settings.home))
        self.projects = Projects(self.observations, storage, self.memories)
        self._writer = MemoryWriter(self.memories, self.citations, self.projects)
        answers = self.memories.answers
        self._searcher = Searcher(
            storage, embedder, observations, reranker, self.citations, self.projects, answers
        )
        self._upkeep = Upkeep(settings, self.memories, lambda: self.trash)
        self._opened = AsyncExitStack()  # What is opened when it is first used.
        # Not the methods themselves: that would import their modules.
        run = self.tasks.register
        run("build_graph", lambda given, task: self.graph.run_build(given, task.report))
        run("index_codebase", lambda given, task: self.code.run_index(given, task.report))
        run("import_source", lambda given, task: self.imports.run(given, task.report))

    def _choose_chunker(self, kind: str, source: str) -> TextChunker:
        if kind != "document" or not source:
            return self._chunker
        # A file of code is split at its symbols; the parser is imported for files only.
        from zapomni_core.modules.codebase import ASTChunker

        return ASTChunker(source, self._chunker, self._settings.chunk_size)

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """The knowledge graph of memories."""
        # Imported when it is needed, as the parts below are: most commands need none.
        from zapomni_core.modules.graph import KnowledgeGraph

        create = partial(create_extractor, self._settings)
        submit, reach = self.tasks.submit_task, self.projects.reach
        names = self.observations.names
        graph = KnowledgeGraph(self.storage, create, submit, reach, names)
        self._opened.push_async_callback(graph.close)
        return graph

    @cached_property
    def cards(self) -> EntityCards:
        """What is known about an entity, a file or a symbol."""
        from zapomni_core.workflows.entity_cards import EntityCards

        return EntityCards(
            self.graph, lambda: self.code, self.citations, self.observations, self.storage
        )

    @cached_property
    def code(self) -> CodeMemory:
        """The code of indexed repositories."""
        from zapomni_core.modules.codebase import CodeMemory

        return CodeMemory(
            self._code,
            self.storage,
            self.memories.fill_pending if self.memories.embeddings.embedders else None,
            self._chunker,
            self._settings,
            self.tasks.submit_task,
            self.tasks.stop_work,
            self._searcher.search,
            self._redactor(),
        )

    @cached_property
    def trash(self) -> Trash:
        """What was forgotten and can come back."""
        from zapomni_core.workflows.trash import Trash
        from zapomni_db.sqlite.deletions import SqliteTrash

        file = SqliteTrash(self._file)
        trash = Trash(file, self.storage, self.memories, self.citations, self.projects)
        self._opened.push_async_callback(trash.close)
        return trash

    @cached_property
    def review(self) -> ReviewInbox:
        """What waits for the user's decision."""
        from zapomni_core.workflows.review import ReviewInbox
        from zapomni_db.sqlite.review import SqliteReview

        file = SqliteReview(self._file)
        self._opened.push_async_callback(file.close)
        return ReviewInbox(
            file,
            self.storage,
            self._writer,
            self.trash,
            self.citations,
            self.projects,
            self._redactor,
            str(self._settings.home),
        )

    @cached_property
    def health(self) -> Health:
        """Whether everything works."""
        from zapomni_core.workflows.check_health import Health

        rooms = self.storage, self.memories, self.observations
        return Health(self._settings, *rooms, self._writer, self._searcher)

    @cached_property
    def exports(self) -> Exports:
        """Memories written out: a folder of files, lines of JSON."""
        from zapomni_core.workflows.export_memories import Exports
        from zapomni_db.sqlite.deletions import SqliteDeletions

        deletions = SqliteDeletions(self._file)
        self._opened.push_async_callback(deletions.close)
        return Exports(self.storage, self.citations, self.projects, deletions, self._settings)

    @cached_property
    def record_imports(self) -> RecordImports:
        """Memories read from an export."""
        from zapomni_core.workflows.import_records import RecordImports
        from zapomni_db.sqlite.imports import SqliteImports

        imports = SqliteImports(self._file)
        self._opened.push_async_callback(imports.close)
        return RecordImports(self.storage, self.observations, imports, self._settings, self.merges)

    @cached_property
    def merges(self) -> MemoryMerges:
        """Memories of other devices."""
        from zapomni_core.workflows.merge_memories import MemoryMerges

        return MemoryMerges(
            self.storage,
            self.memories,
            self.citations,
            self.observations,
            self.exports.deletions,
            self._settings,
            self.trash,
            self._redactor,
        )

    @cached_property
    def notes(self) -> MarkdownNotes:
        """Memories as Markdown notes in a folder."""
        from zapomni_core.workflows.markdown_notes import MarkdownNotes

        return MarkdownNotes(
            self.storage,
            self._writer,
            self.trash,
            self.exports,
            self.record_imports.imports,
            self._settings,
            self._redactor,
        )

    @cached_property
    def sync(self) -> Sync:
        """Memories shared through a git repository."""
        from zapomni_core.workflows.sync import Sync

        return Sync(self.merges, self._settings)

    @cached_property
    def imports(self) -> Imports:
        """What other programs keep on this machine."""
        from zapomni_core.workflows.import_sources import Imports
        from zapomni_db.sqlite.imports import SqliteImports

        file = SqliteImports(self._file)
        self._opened.push_async_callback(file.close)
        return Imports(
            file,
            self._settings,
            self._writer,
            self.trash,
            self.tasks.submit_task,
            self._redactor,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop background work between two batches and release everything."""
        await self._upkeep.close()
        await self.memories.close()
        await self.tasks.close()
        await self._opened.aclose()
        await self._code.close()
        if self._reranker is not None:
            await self._reranker.close()
        await self.observations.close()
        await self.storage.close()
        await asyncio.to_thread(self.recalls.flush)

    # --- use cases that cross modules -----------------------------------------------------

    @operation()
    async def add_memory(self, request: AddMemoryRequest) -> AddMemoryResponse:
        """Store a text, with the code that it cites."""
        (response,) = await self._writer.add([request])
        return response

    @operation()
    async def add_memories(self, requests: Sequence[AddMemoryRequest]) -> list[AddMemoryResponse]:
        """Store many texts: all are validated first, then stored in small batches, in order."""
        return await self._writer.add(requests)

    @operation()
    async def update_memory(self, request: UpdateMemoryRequest) -> UpdatedMemory:
        """Change a memory and return its new state."""
        return await self._writer.update(request)

    @operation()
    async def delete_memory(self, memory_id: str) -> TrashBatch:
        """Move a memory into the trash; `engine.trash.undo` brings it back within 30 days."""
        return await self.trash.put([memory_id], "delete_memory")

    @operation()
    async def search_memory(self, request: SearchRequest) -> SearchResponse:
        """Find passages and observations by meaning and by words."""
        return await self._searcher.answer(request)

    @operation()
    async def get_stats(self) -> dict[str, Any]:
        """Return the fields of `MemoryStats` (a dictionary, as the specification has it)."""
        return (await self.memories.get_stats()).model_dump()

    @operation()
    async def reembed(self, progress: Progress | None = None) -> int:
        """Move every vector to the configured embedder; return how many were made.

        If that is another model than the stored vectors', a backup is made first.
        """
        from zapomni_core.workflows.backup import back_up_before_reembedding

        await back_up_before_reembedding(self._settings, self.storage, self.memories.embeddings)
        return await self.memories.reembed(progress)

    # --- memories, in the words of the library -----------------------------------------------

    async def get_memory(self, memory_id: str) -> MemoryRecord:
        """Return a memory with its whole text."""
        (record,) = await self.projects.name([await self.memories.get(memory_id)])
        return record

    async def list_memories(self, request: ListRequest) -> MemoryPage:
        """List memories, pinned first, then newest first."""
        return await self.projects.list_memories(request)

    async def get_history(
        self, memory_id: str, as_of: datetime | None = None
    ) -> list[MemoryVersion]:
        """Return the versions of a memory, oldest first, or what it was at a time."""
        return await self.projects.get_history(memory_id, as_of)

    # --- long-lived processes ---------------------------------------------------------------

    def start_background_work(self) -> None:
        """Run tasks, fill in missing vectors, watch a storage server and make daily backups."""
        self._upkeep.start()
        self.tasks.start()

    @property
    def has_model(self) -> bool:
        """Whether a model is in memory."""
        return any(model.is_loaded for model in self._upkeep.local_models())

    def learn_secrets(self, environ: Mapping[str, str]) -> None:
        """Find the secrets of another process's environment in texts, too."""
        self._redactor().learn(environ)

    @operation()
    async def back_up_if_due(self) -> None:
        """Make the day's backup if the last one is a day old."""
        from zapomni_core.workflows.backup import back_up_if_due  # few calls need it

        await back_up_if_due(self._settings)
