"""ZapomniEngine: one short method per use case. `create_engine` puts the machine together."""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from zapomni_core.adapters.chunkers import SemanticChunker
from zapomni_core.adapters.embedders import build_cache, build_embedders
from zapomni_core.adapters.storages import open_storage
from zapomni_core.adapters.tokenizer import LazyTokenizer
from zapomni_core.exceptions import (
    EmbeddingError,
    NotFoundError,
    ValidationError,
    ZapomniError,
)
from zapomni_core.infra.cancelling import Uninterrupted
from zapomni_core.infra.capture_key import capture_key
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.home import secure_home
from zapomni_core.infra.locations import observations_path
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import (
    AddMemoryRequest,
    AddMemoryResponse,
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
    EmbeddingChain,
    Progress,
    fill_pending,
    parse_filters,
    reembed,
    without_code,
)
from zapomni_core.scheduler.task_manager import TaskManager
from zapomni_core.settings import Settings
from zapomni_core.shared.redaction import Redactor
from zapomni_core.shared.validation import validate_page
from zapomni_core.workflows.add_memory import Writer
from zapomni_core.workflows.search_everything import Searcher
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import MemoryPage, MemoryRecord, MemoryStats, TaskStatus
from zapomni_db.observation_store import ObservationStore
from zapomni_db.sqlite.code import SqliteCode
from zapomni_db.sqlite.observations import SqliteObservations
from zapomni_db.sqlite.tasks import SqliteTasks

if TYPE_CHECKING:
    from zapomni_core.modules.codebase import CodeMemory, StaleMemory
    from zapomni_core.modules.graph import GraphExtractor, KnowledgeGraph
    from zapomni_db.code_models import CheckedCitation
    from zapomni_db.graph_models import MemoryVersion

__all__ = ["ZapomniEngine", "create_engine", "create_extractor", "open_storage"]

LATENCIES_KEPT = 100
ANSWERS_KEPT = 128
BACKUP_AFTER_SECONDS = 5
BACKUP_CHECK_SECONDS = 3600

# What of a request for changes is no change itself.
_NOT_CHANGED = {"memory_id", "folder", "redact"}

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
    storage = await open_storage(settings, wait=wait)
    embeddings = EmbeddingChain(embedders, storage.get_embeddings, cache)
    local = observations_path(settings)
    return ZapomniEngine(
        storage,
        chunker,
        embeddings,
        tasks=TaskManager(SqliteTasks(local)),
        settings=settings,
        code=SqliteCode(local),
        observations=SqliteObservations(local),
        reranker=_build_reranker(settings),
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
        return capture_key(str(settings.home))
    except OSError:
        return os.urandom(32)  # The disk takes nothing: then nothing is linked either.


def _build_reranker(settings: Settings) -> Reranker | None:
    if settings.reranker is None:
        return None
    from zapomni_core.adapters.cross_encoder import CrossEncoder  # few have one

    return CrossEncoder(settings.reranker.expanduser())


class ZapomniEngine:
    """The memory engine every door calls.

    Args:
        storage: Where memories live, connected.
        chunker: What splits texts.
        embeddings: What makes vectors; without an embedder, words alone are searched.
        tasks: Long work, done in the background.
        settings: What decides how texts are read into the graph.
        code: Where symbols, references and citations are kept.
        observations: What agents did, searched together with memories.
        reranker: What reads the best hits again.
    """

    def __init__(
        self,
        storage: StorageProvider,
        chunker: TextChunker,
        embeddings: EmbeddingChain,
        *,
        tasks: TaskManager,
        settings: Settings,
        code: SqliteCode,
        observations: ObservationStore | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        self.storage = storage
        self.tasks = tasks
        self._observations = observations
        self._reranker = reranker
        self._embeddings = embeddings
        self._uninterrupted = Uninterrupted()
        self._redactor = Redactor(os.environ, _read_key(settings))
        self._writer = Writer(
            storage,
            chunker,
            embeddings,
            settings.chunk_size,
            self._uninterrupted,
            self._redactor,
        )
        self._searcher = Searcher(storage, embeddings, observations, reranker)
        self._code = code
        self._citations = Citations(code, storage)
        self._chunker = chunker
        self._settings = settings
        # Not the methods themselves: that would import both.
        tasks.register(
            "build_graph", lambda params, task: self.graph.run_build(params, task.report)
        )
        tasks.register(
            "index_codebase", lambda given, task: self.code.run_index(given, task.report)
        )
        self._latencies: deque[float] = deque(maxlen=LATENCIES_KEPT)
        self._answers = _Answers()
        self._keeps_filling = False
        self._filler: asyncio.Task[None] | None = None
        self._backups: asyncio.Task[None] | None = None
        self._pinger: asyncio.Task[None] | None = None

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """The knowledge graph of memories."""
        # Imported for those who ask for it: most commands do not, and each starts anew.
        from zapomni_core.modules.graph import KnowledgeGraph

        create = partial(create_extractor, self._settings)
        return KnowledgeGraph(self.storage, create, self.tasks.submit_task)

    @cached_property
    def code(self) -> CodeMemory:
        """The code of indexed repositories."""
        from zapomni_core.modules.codebase import CodeMemory

        return CodeMemory(
            self._code,
            self.storage,
            self.fill_pending if self._embeddings.embedders else None,
            self._chunker,
            self._settings,
            self.tasks.submit_task,
            self._searcher.search,
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
        for task in (self._filler, self._backups, self._pinger):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._uninterrupted.close()
        await self.tasks.close()
        if "graph" in vars(self):
            await self.graph.close()
        await self._embeddings.close()
        await self._code.close()
        if self._reranker is not None:
            await self._reranker.close()
        if self._observations is not None:
            await self._observations.close()
        await self.storage.close()

    @operation()
    async def add_memory(self, request: AddMemoryRequest) -> AddMemoryResponse:
        """Keep a text."""
        (response,) = await self.add_memories([request])
        return response

    @operation()
    async def add_memories(self, requests: Sequence[AddMemoryRequest]) -> list[AddMemoryResponse]:
        """Keep many texts, in order."""
        started = time.perf_counter()
        given = [await self._citations.read_given(r.cites, r.folder) for r in requests]
        checked = await self._writer.check(requests)

        async def keep_citations(number: int, response: AddMemoryResponse) -> None:
            asked = checked[number].request
            await self._citations.keep(
                response.memory_id, asked.text, asked.project, asked.folder, given[number]
            )

        responses = await self._writer.add(checked, keep_citations)
        logger.info(
            "memories_added",
            memory_ids=[r.memory_id for r in responses[:10]],
            count=len(responses),
            created=sum(r.status == "created" for r in responses),
            text_chars=sum(len(r.text) for r in requests),
            chunks=sum(r.chunks_created for r in responses),
            pending_vectors=sum(r.pending_vectors for r in responses),
            duration_ms=_milliseconds_since(started),
        )
        if self._keeps_filling:
            self.keep_filling_vectors()
        return responses

    @operation()
    async def search_memory(self, request: SearchRequest) -> SearchResponse:
        """Find passages by meaning and by words."""
        started = time.perf_counter()
        # Read before the search: a write that comes between makes the answer old, not new.
        version = await self._version()
        question = repr(request)  # JSON could not carry half of a surrogate pair
        known = self._answers.get(question, version)
        response = await self._searcher.search(request) if known is None else known
        if known is None:
            self._answers.put(question, version, response)
        self._latencies.append((time.perf_counter() - started) * 1000)
        logger.info(
            "memories_searched",
            query_chars=len(request.query),
            within=request.within,
            filters=sorted(request.filters or ()),
            limit=request.limit,
            offset=request.offset,
            memory_ids=[hit.memory_id for hit in response.results[:10] if hit.memory_id],
            count=response.count,
            total=response.total,
            is_repeated=known is not None,
            is_complete=response.notice is None,
            duration_ms=_milliseconds_since(started),
        )
        # Neither is part of the kept answer: embedders and files change without any write.
        if self._embeddings.unused and request.within != "observations":
            notice = f"{response.notice or ''} {self._embeddings.unused}".strip()
            response = response.model_copy(update={"notice": notice})
        return await self._citations.annotate(response)

    @operation()
    async def get_memory(self, memory_id: str) -> MemoryRecord:
        """Return a memory whole."""
        record = await self.storage.get_memory(_checked_id(memory_id))
        if record is None:
            raise NotFoundError("No memory has this id.")
        return record

    @operation()
    async def update_memory(self, request: UpdateMemoryRequest) -> UpdatedMemory:
        """Change a memory and return it as it is now."""
        started = time.perf_counter()
        _checked_id(request.memory_id)
        given = None
        if request.cites is not None:
            given = await self._citations.read_given(request.cites, request.folder)

        async def keep_citations(record: MemoryRecord) -> None:
            if given is not None or request.text is not None:
                memory_id = record.memory_id
                kept = await self._citations.keep_given(memory_id) if given is None else given
                await self._citations.keep(
                    memory_id, record.text, record.project, request.folder, kept
                )

        record = await self._writer.update(request, keep_citations)
        logger.info(
            "memory_updated",
            memory_id=record.memory_id,
            fields=sorted(request.model_dump(exclude_none=True, exclude=_NOT_CHANGED)),
            text_chars=None if request.text is None else len(request.text),
            duration_ms=_milliseconds_since(started),
        )
        return record

    @operation()
    async def delete_memory(self, memory_id: str) -> None:
        """Delete a memory for good."""
        started = time.perf_counter()
        checked_id = _checked_id(memory_id)

        async def delete() -> None:
            if not await self.storage.delete_memory(checked_id):
                raise NotFoundError("No memory has this id.")
            await self._citations.forget(checked_id)

        await self._uninterrupted.run(delete())
        logger.info(
            "memory_deleted",
            memory_id=checked_id,
            duration_ms=_milliseconds_since(started),
        )

    @operation()
    async def get_citations(self, memory_id: str) -> list[CheckedCitation]:
        """Return the code a memory speaks of, and whether that is still as it was."""
        checked_id = _checked_id(memory_id)
        return (await self._citations.check([checked_id])).get(checked_id, [])

    @operation()
    async def list_stale(self) -> list[StaleMemory]:
        """Return the memories that speak of code which is not as it was."""
        return await self._citations.list_stale()

    @operation()
    async def get_history(
        self, memory_id: str, as_of: datetime | None = None
    ) -> list[MemoryVersion]:
        """Return what a memory was and is, or what it was at a time."""
        found = await self.storage.get_history(_checked_id(memory_id))
        if not found:
            raise NotFoundError("No memory has this id.")
        if as_of is None:
            return found
        return [
            version
            for version in found
            if version.valid_from <= as_of
            and (version.valid_to is None or as_of < version.valid_to)
        ]

    @operation()
    async def list_memories(self, request: ListRequest) -> MemoryPage:
        """List memories, pinned first, then newest first."""
        validate_page(request.limit, request.offset)
        # Thousands of files would hide what somebody kept.
        filters = without_code(parse_filters(request.filters))
        return await self.storage.list_memories(filters, request.limit, request.offset)

    @operation()
    async def get_stats(self) -> dict[str, Any]:
        """Return the fields of MemoryStats."""
        stats = MemoryStats(
            **await self.storage.get_stats(),
            cache_hit_rate=self._embeddings.hit_rate,
            search_cache_hit_rate=self._answers.hit_rate,
            avg_query_latency_ms=_mean(self._latencies),
        )
        mismatch = self._embeddings.find_mismatch(stats.embedding_model)
        stats = stats.model_copy(update={"notice": mismatch})
        return stats.model_dump()

    @operation()
    async def fill_pending(self, progress: Progress | None = None) -> int:
        """Make the vectors still missing; return how many."""
        return await fill_pending(self.storage, self._embeddings, progress)

    @operation()
    async def reembed(self, progress: Progress | None = None) -> int:
        """Move every vector to the configured embedder; return how many were made.

        If that means another model than the stored vectors', a backup is made first.
        """
        from zapomni_core.workflows.backup import back_up  # few calls need it

        active = await self.storage.get_space()
        configured = [await one.space() for one in self._embeddings.embedders[:1]]
        if active is not None and configured not in ([], [active]):
            await back_up(self._settings, reason="before-reembed")
        return await reembed(self.storage, self._embeddings, progress)

    @operation()
    async def check_integrity(self) -> Mapping[str, str]:
        """Return what is wrong with the store, by the name of the check."""
        return await self.storage.check_integrity()

    @operation()
    async def get_task_status(self, task_id: str) -> TaskStatus:
        """Return how a background task is getting on."""
        return await self.tasks.get_task_status(_checked_id(task_id, "task_id"))

    @operation()
    async def cancel_task(self, task_id: str) -> TaskStatus:
        """Stop a background task."""
        return await self.tasks.cancel_task(_checked_id(task_id, "task_id"))

    def watch_task(self, task_id: str) -> AsyncIterator[TaskStatus]:
        """Yield a task's status now and after every change, until it has ended."""
        return self.tasks.watch(_checked_id(task_id, "task_id"))

    async def _version(self) -> tuple[int, int]:
        done = 0 if self._observations is None else await self._observations.get_version()
        return await self.storage.get_version(), done

    def keep_filling_vectors(self) -> None:
        """Make missing vectors in the background, now and after every add.

        For long-lived processes; a command that ends at once calls `fill_pending` instead.
        """
        self._keeps_filling = True
        if self._embeddings.embedders and (self._filler is None or self._filler.done()):
            self._filler = asyncio.create_task(self._fill_quietly())

    def keep_daily_backups(self) -> None:
        """Copy the database once a day in the background, for processes that live long."""
        if self._backups is None:
            self._backups = asyncio.create_task(self._back_up_daily())

    async def _back_up_daily(self) -> None:
        await asyncio.sleep(BACKUP_AFTER_SECONDS)  # The call that opened the engine comes first.
        while True:
            await self.back_up_if_due()
            await asyncio.sleep(BACKUP_CHECK_SECONDS)

    @operation()
    async def back_up_if_due(self) -> None:
        """Make the day's backup if the last one is a day old."""
        from zapomni_core.workflows.backup import back_up_if_due  # few calls need it

        await back_up_if_due(self._settings)

    def keep_checking_storage(self) -> None:
        """Ask a storage server every so often whether it answers, and connect again if it does.

        For long-lived processes. A file needs no such question.
        """
        if self._settings.server is not None and self._pinger is None:
            self._pinger = asyncio.create_task(self._check_storage())

    async def _check_storage(self) -> None:
        answered = True
        while True:
            await asyncio.sleep(self._settings.health_check_seconds)
            with operation():
                answers = await self.storage.health_check()
                if answers and not answered:
                    logger.info("storage_answers_again")
                    if self._keeps_filling:
                        self.keep_filling_vectors()
                elif answered and not answers:
                    logger.error("storage_does_not_answer")
            answered = answers

    async def _fill_quietly(self) -> None:
        try:
            done = await self.fill_pending()
        except EmbeddingError as error:
            logger.warning("vectors_still_pending", error_code=error.error_code)
        except ZapomniError as error:
            logger.error("filling_vectors_failed", error_code=error.error_code)  # noqa: TRY400
        else:
            if done:
                logger.info("pending_vectors_filled", count=done)


class _Answers:
    """The last answers, good until anything is written by anybody."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[tuple[int, int], SearchResponse]] = OrderedDict()
        self._asked = 0
        self._hits = 0

    @property
    def hit_rate(self) -> float | None:
        return self._hits / self._asked if self._asked else None

    def get(self, question: str, version: tuple[int, int]) -> SearchResponse | None:
        self._asked += 1
        kept = self._kept.get(question)
        if kept is None or kept[0] != version:
            return None
        self._hits += 1
        self._kept.move_to_end(question)
        return kept[1]

    def put(self, question: str, version: tuple[int, int], response: SearchResponse) -> None:
        # An answer that lacked the model must not outlive its return.
        if response.notice is None:
            self._kept[question] = (version, response)
            if len(self._kept) > ANSWERS_KEPT:
                self._kept.popitem(last=False)


def _checked_id(given: str, name: str = "memory_id") -> str:
    if not given.strip():
        raise ValidationError(f"{name} cannot be empty", "VAL_001")
    if "\0" in given:
        raise ValidationError(f"{name} has a NUL character; take it out", "VAL_004")
    return given.strip()


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)


def _mean(values: Sequence[float] | deque[float]) -> float | None:
    return round(sum(values) / len(values), 2) if values else None
