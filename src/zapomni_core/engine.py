"""ZapomniEngine: the modules, and the use cases that cross them; `create_engine` builds it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from zapomni_core.adapters.chunkers import SemanticChunker
from zapomni_core.adapters.embedders import adapt_embedder, build_cache, build_embedders
from zapomni_core.adapters.storages import open_storage
from zapomni_core.adapters.tokenizer import LazyTokenizer
from zapomni_core.exceptions import ZapomniError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.home import secure_home
from zapomni_core.infra.locations import observations_path
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.memory import return_memory
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
    parse_filters,
)
from zapomni_core.modules.observations import Observations
from zapomni_core.scheduler.task_manager import TaskManager, open_tasks
from zapomni_core.settings import Settings, load_settings
from zapomni_core.workflows.add_memory import MemoryWriter
from zapomni_core.workflows.projects import Projects, show_project
from zapomni_core.workflows.search_everything import Searcher
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import MemoryPage, MemoryRecord
from zapomni_db.sqlite.code import SqliteCode
from zapomni_db.sqlite.digest_file import SqliteDigest

if TYPE_CHECKING:
    from zapomni_core.adapters.local_embedder import LocalEmbedder
    from zapomni_core.modules.codebase import CodeMemory
    from zapomni_core.modules.graph import GraphExtractor, KnowledgeGraph
    from zapomni_core.shared.redaction import Redactor
    from zapomni_core.workflows.check_health import Health
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

BACKUP_AFTER_SECONDS = 5
BACKUP_CHECK_SECONDS = 3600
MODEL_IDLE_SECONDS = 300.0

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
    embeddings = EmbeddingChain(embedders, storage.get_embeddings, cache)
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


def _read_key(settings: Settings) -> bytes:
    """Return the key that links two mentions of a masked secret."""
    try:
        from zapomni_core.infra.capture_key import capture_key

        return capture_key(str(settings.home))
    except OSError:
        return os.urandom(32)  # The disk takes nothing: then nothing is linked either.


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
        self._settings = settings
        self._chunker = chunker
        self._code = code or SqliteCode(observations_path(settings))
        self.observations = observations or Observations(settings)
        self._reranker = reranker
        digest = Digest(
            SqliteDigest(observations_path(settings)),
            storage,
            str(settings.server or ""),
            lambda: self._redactor,
        )
        self.memories = Memories(
            storage, embedder, self._choose_chunker, lambda: self._redactor, digest
        )
        self.citations = Citations(self._code, storage, str(settings.home))
        self.projects = Projects(self.observations, storage, self.memories)
        self._writer = MemoryWriter(self.memories, self.citations, self.projects)
        self._searcher = Searcher(
            storage,
            embedder,
            observations,
            reranker,
            self.citations,
            self.projects,
            self.memories.answers,
        )
        # Not the methods themselves: that would import both modules.
        self.tasks.register(
            "build_graph", lambda params, task: self.graph.run_build(params, task.report)
        )
        self.tasks.register(
            "index_codebase", lambda given, task: self.code.run_index(given, task.report)
        )
        self.tasks.register(
            "import_source", lambda given, task: self.imports.run(given, task.report)
        )
        self.recalls = recall_log(settings)
        self._background: list[asyncio.Task[None]] = []

    def _choose_chunker(self, kind: str, source: str) -> TextChunker:
        if kind != "document" or not source:
            return self._chunker
        # A file of code is split at its symbols; the parser is imported for files only.
        from zapomni_core.modules.codebase import ASTChunker

        return ASTChunker(source, self._chunker, self._settings.chunk_size)

    @cached_property
    def _redactor(self) -> Redactor:
        # Only what adds texts needs it: a search does not import its rules.
        from zapomni_core.shared.redaction import Redactor

        return Redactor(os.environ, _read_key(self._settings))

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """The knowledge graph of memories."""
        # Imported when it is needed: most commands need none.
        from zapomni_core.modules.graph import KnowledgeGraph

        create = partial(create_extractor, self._settings)

        async def reach(
            folder: str, wanted: str, agent: bool
        ) -> tuple[list[str] | None, list[str]]:
            found = await self.observations.reach(folder, wanted, agent=agent)
            return found.projects, found.hidden

        return KnowledgeGraph(self.storage, create, self.tasks.submit_task, reach)

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
            self._searcher.search,
            self._redactor,
        )

    @cached_property
    def trash(self) -> Trash:
        """What was forgotten and can come back."""
        from zapomni_core.workflows.trash import Trash
        from zapomni_db.sqlite.trash_file import SqliteTrash

        return Trash(
            SqliteTrash(observations_path(self._settings)),
            self.storage,
            self.memories,
            self.citations,
            self.projects,
        )

    @cached_property
    def review(self) -> ReviewInbox:
        """What waits for the user's decision."""
        from zapomni_core.workflows.review import ReviewInbox
        from zapomni_db.sqlite.review import SqliteReview

        return ReviewInbox(
            SqliteReview(observations_path(self._settings)),
            self.storage,
            self._writer,
            self.trash,
            self.citations,
            self.projects,
            lambda: self._redactor,
            str(self._settings.home),
        )

    @cached_property
    def health(self) -> Health:
        """Whether everything works."""
        from zapomni_core.workflows.check_health import Health

        return Health(
            self._settings,
            self.storage,
            self.memories,
            self.observations,
            self._writer,
            self._searcher,
        )

    @cached_property
    def exports(self) -> Exports:
        """Memories written out: a folder of files, lines of JSON."""
        from zapomni_core.workflows.export_memories import Exports
        from zapomni_db.sqlite.deletions import SqliteDeletions

        deletions = SqliteDeletions(observations_path(self._settings))
        return Exports(self.storage, self.citations, self.projects, deletions, self._settings)

    @cached_property
    def record_imports(self) -> RecordImports:
        """Memories read from an export."""
        from zapomni_core.workflows.import_records import RecordImports
        from zapomni_db.sqlite.imports import SqliteImports

        return RecordImports(
            self.storage,
            self.observations,
            SqliteImports(observations_path(self._settings)),
            self._settings,
            self.merges,
        )

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
            lambda: self._redactor,
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
            lambda: self._redactor,
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

        return Imports(
            SqliteImports(observations_path(self._settings)),
            self._settings,
            self._writer,
            self.trash,
            self.tasks.submit_task,
            lambda: self._redactor,
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
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.memories.close()
        await self.tasks.close()
        if "graph" in vars(self):
            await self.graph.close()
        if "review" in vars(self):
            await self.review.close()
        if "exports" in vars(self):
            await self.exports.deletions.close()
        if "record_imports" in vars(self):
            await self.record_imports.imports.close()
        if "imports" in vars(self):
            await self.imports.close()
        if "trash" in vars(self):
            await self.trash.close()
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
        from zapomni_core.workflows.backup import back_up  # few calls need it

        active = await self.storage.get_space()
        configured = [await one.space() for one in self.memories.embeddings.embedders[:1]]
        if active is not None and configured not in ([], [active]):
            await back_up(self._settings, reason="before-reembed")
        return await self.memories.reembed(progress)

    # --- memories, in the words of the library -----------------------------------------------

    async def get_memory(self, memory_id: str) -> MemoryRecord:
        """Return a memory with its whole text."""
        (record,) = await self.projects.name([await self.memories.get(memory_id)])
        return record

    async def list_memories(self, request: ListRequest) -> MemoryPage:
        """List memories, pinned first, then newest first."""
        filters, reach = await self.projects.narrow(parse_filters(request.filters), request.folder)
        narrowed = request.model_copy(update={"filters": filters})
        page = await self.memories.list_memories(narrowed)
        elsewhere = 0
        if reach.has_elsewhere:
            others = [*(reach.projects or ()), *reach.hidden]
            there = filters.model_copy(update={"projects": None, "not_projects": others})
            listed = await self.memories.list_memories(ListRequest(limit=1, filters=there))
            elsewhere = listed.total
        items = await self.projects.name(page.items)
        return MemoryPage(items=items, total=page.total, elsewhere=elsewhere)

    async def get_history(
        self, memory_id: str, as_of: datetime | None = None
    ) -> list[MemoryVersion]:
        """Return the versions of a memory, oldest first, or what it was at a time."""
        names = await self.observations.names()
        return [
            version.model_copy(
                update={
                    "fields": {
                        **version.fields,
                        "project": show_project(version.fields["project"], names),
                    }
                }
            )
            for version in await self.memories.get_history(memory_id, as_of)
        ]

    # --- long-lived processes ---------------------------------------------------------------

    def start_background_work(self) -> None:
        """Run tasks, fill in missing vectors, watch a storage server and make daily backups."""
        if self._settings.server is not None:
            self.memories.keep_checking_storage(self._settings.health_check_seconds)
        self.memories.keep_filling_vectors()
        if not self._background:
            self._background = [
                asyncio.create_task(self._back_up_daily()),
                asyncio.create_task(self._release_idle_models()),
                asyncio.create_task(self.memories.catch_up_digest()),
            ]
        self.tasks.start()

    @property
    def has_model(self) -> bool:
        """Whether a model is in memory."""
        return any(local.is_loaded for local in self._local_embedders())

    def learn_secrets(self, environ: Mapping[str, str]) -> None:
        """Find the secrets of another process's environment in texts, too."""
        self._redactor.learn(environ)

    def _local_embedders(self) -> list[LocalEmbedder]:
        if not self.memories.embeddings.embedders:
            return []
        from zapomni_core.adapters.local_embedder import LocalEmbedder

        found = self.memories.embeddings.embedders
        return [one for one in found if isinstance(one, LocalEmbedder)]

    async def _release_idle_models(self) -> None:
        while True:
            await asyncio.sleep(MODEL_IDLE_SECONDS / 5)
            released = [one.release_idle(MODEL_IDLE_SECONDS) for one in self._local_embedders()]
            if any(released):
                logger.info("model_released")
                await asyncio.to_thread(return_memory)

    async def _back_up_daily(self) -> None:
        await asyncio.sleep(BACKUP_AFTER_SECONDS)  # The call that opened the engine comes first.
        while True:
            await self.back_up_if_due()
            await self._empty_trash()
            await asyncio.sleep(BACKUP_CHECK_SECONDS)

    async def _empty_trash(self) -> None:
        try:
            await self.trash.empty_expired()
        except ZapomniError as error:
            logger.warning("trash_not_emptied", error_code=error.error_code)

    @operation()
    async def back_up_if_due(self) -> None:
        """Make the day's backup if the last one is a day old."""
        from zapomni_core.workflows.backup import back_up_if_due  # few calls need it

        await back_up_if_due(self._settings)
