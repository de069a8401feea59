"""`zapomni.open_sync`: the same engine for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from functools import cached_property, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from zapomni._open import choose_settings
from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.modules.codebase import Citations, CodeMemory
from zapomni_core.modules.graph import KnowledgeGraph
from zapomni_core.modules.memories import Memories
from zapomni_core.modules.observations import Observations
from zapomni_core.scheduler.task_manager import TaskManager
from zapomni_core.settings import Settings
from zapomni_core.workflows.trash import Trash

__all__ = [
    "SyncCitations",
    "SyncCode",
    "SyncEngine",
    "SyncGraph",
    "SyncMemories",
    "SyncObservations",
    "SyncTasks",
    "SyncTrash",
    "open_sync",
]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_END: Any = object()


def open_sync(settings: Settings | None = None, /, **values: Any) -> SyncEngine:
    """Open the memory: `with zapomni.open_sync() as memory`. Its methods block.

    Safe to call from any thread, also from several at once. Without `with`, call `close`.

    Args:
        settings: All settings at once; the environment and config.toml are then not read.
        values: Single settings by name. They win over the environment and config.toml.

    Raises:
        ConfigurationError: A setting is unknown or has an impossible value.
    """
    chosen = choose_settings(settings, values)
    loop = _LoopThread()
    try:
        return SyncEngine(loop.run(create_engine(chosen)), loop)
    except BaseException:
        loop.close()
        raise


class _LoopThread:
    """An event loop in a background thread; callers in other threads wait for its results.

    The thread is a daemon: a program that forgets to close the memory still ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[Future[Any]] = set()
        self._closed = False
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def serve() -> None:
            stop = asyncio.Event()
            started.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()

        # `asyncio.run` also cancels what is left and ends the loop's own threads.
        self._thread = threading.Thread(
            target=lambda: asyncio.run(serve()), name="zapomni", daemon=True
        )
        self._thread.start()
        self._loop, self._stop = started.result()

    @property
    def can_wait(self) -> bool:
        """Whether `run` would wait: not after the end, and not in the loop's own thread."""
        return not self._closed and threading.current_thread() is not self._thread

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the loop and return its result, or raise its error."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("A callback cannot call the memory that called it: it would wait")
        with self._lock:
            if self._closed:
                work.close()
                raise RuntimeError("The memory is closed")
            call = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._calls.add(call)
        try:
            return call.result()
        except CancelledError:
            if self._closed:
                raise RuntimeError("The memory was closed during this call") from None
            raise
        finally:
            call.cancel()  # An interrupted caller (Ctrl-C) interrupts the work too.
            with self._lock:
                self._calls.discard(call)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Cancel calls of other threads, run a last coroutine, and end the thread."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("A callback cannot close the memory that called it")
        with self._lock:
            is_first, self._closed = not self._closed, True
            if is_first:
                for call in self._calls:
                    call.cancel()
        try:
            if is_first and last is not None:
                asyncio.run_coroutine_threadsafe(last(), self._loop).result()
        finally:
            if is_first:
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()


class _Blocking(Generic[T]):
    """A part of the engine, and the loop its coroutines run in."""

    def __init__(self, part: T, loop: _LoopThread) -> None:
        self._part = part
        self._loop = loop


def _blocking(
    method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[_Blocking[T], P], R]:
    """Return a method that waits for the result of an asynchronous one."""

    @wraps(method)
    def call(self: _Blocking[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop.run(method(self._part, *args, **kwargs))

    return call


def _blocking_iterator(
    method: Callable[Concatenate[T, P], AsyncIterator[R]],
) -> Callable[Concatenate[_Blocking[T], P], Iterator[R]]:
    """Return a method whose iterator waits for each item of an asynchronous one."""

    @wraps(method)
    def call(self: _Blocking[T], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        items = method(self._part, *args, **kwargs)

        async def fetch() -> R:
            return await anext(items, _END)

        while (item := self._loop.run(fetch())) is not _END:
            try:
                yield item
            except GeneratorExit:
                if isinstance(items, AsyncGenerator) and self._loop.can_wait:
                    self._loop.run(items.aclose())
                raise

    return call


def _in_loop(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[_Blocking[T], P], R]:
    """Return a method that runs an ordinary one inside the loop, where it can start tasks."""

    @wraps(method)
    def call(self: _Blocking[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        async def run() -> R:
            return method(self._part, *args, **kwargs)

        return self._loop.run(run())

    return call


class SyncMemories(_Blocking[Memories]):
    """What concerns memories alone, as `memory.memories`.

    To add, update, delete or reembed call the engine: it also keeps citations and makes backups.
    """

    complete_id = _blocking(Memories.complete_id)
    fill_pending = _blocking(Memories.fill_pending)
    get = _blocking(Memories.get)
    get_history = _blocking(Memories.get_history)
    get_stats = _blocking(Memories.get_stats)
    list_memories = _blocking(Memories.list_memories)
    reindex_words = _blocking(Memories.reindex_words)


class SyncGraph(_Blocking[KnowledgeGraph]):
    """The knowledge graph, as `memory.graph`."""

    build = _blocking(KnowledgeGraph.build)
    export = _blocking_iterator(KnowledgeGraph.export)
    find_entities = _blocking(KnowledgeGraph.find_entities)
    find_path = _blocking(KnowledgeGraph.find_path)
    get_card = _blocking(KnowledgeGraph.get_card)
    get_picture = _blocking(KnowledgeGraph.get_picture)
    get_related = _blocking(KnowledgeGraph.get_related)
    get_status = _blocking(KnowledgeGraph.get_status)
    get_view = _blocking(KnowledgeGraph.get_view)
    merge = _blocking(KnowledgeGraph.merge)
    read_memory = _blocking(KnowledgeGraph.read_memory)
    undo = _blocking(KnowledgeGraph.undo)


class SyncCode(_Blocking[CodeMemory]):
    """The code of indexed repositories, as `memory.code`."""

    find_callees = _blocking(CodeMemory.find_callees)
    find_callers = _blocking(CodeMemory.find_callers)
    forget = _blocking(CodeMemory.forget)
    get_outline = _blocking(CodeMemory.get_outline)
    get_symbol = _blocking(CodeMemory.get_symbol)
    index = _blocking(CodeMemory.index)
    list_files = _blocking(CodeMemory.list_files)
    list_repositories = _blocking(CodeMemory.list_repositories)
    search = _blocking(CodeMemory.search)
    watch = _blocking_iterator(CodeMemory.watch)


class SyncCitations(_Blocking[Citations]):
    """The code that memories cite, as `memory.citations`."""

    find_citing = _blocking(Citations.find_citing)
    get = _blocking(Citations.get)
    list_stale = _blocking(Citations.list_stale)


class SyncObservations(_Blocking[Observations]):
    """What agents did, as `memory.observations`."""

    activity = _blocking(Observations.activity)
    capture = _blocking(Observations.capture)
    commits_of = _blocking(Observations.commits_of)
    context = _blocking(Observations.context)
    count_sessions = _blocking(Observations.count_sessions)
    delete = _blocking(Observations.delete)
    add_matches = _blocking(Observations.add_matches)
    delete_matches = _blocking(Observations.delete_matches)
    drain_spool = _blocking(Observations.drain_spool)
    everywhere = _blocking(Observations.everywhere)
    failures = _blocking(Observations.failures)
    find_paths = _blocking(Observations.find_paths)
    get = _blocking(Observations.get)
    join_projects = _blocking(Observations.join_projects)
    matches = _blocking(Observations.matches)
    names = _blocking(Observations.names)
    outline = _blocking(Observations.outline)
    pin = _blocking(Observations.pin)
    place = _blocking(Observations.place)
    project_keys = _blocking(Observations.project_keys)
    projects = _blocking(Observations.projects)
    purge = _blocking(Observations.purge)
    reach = _blocking(Observations.reach)
    recent = _blocking(Observations.recent)
    rule = _blocking(Observations.rule)
    scope = _blocking(Observations.scope)
    search = _blocking(Observations.search)
    session = _blocking(Observations.session)
    session_at = _blocking(Observations.session_at)
    sessions = _blocking(Observations.sessions)
    sweep = _blocking(Observations.sweep)
    switch_context = _blocking(Observations.switch_context)
    switch_prompt_recall = _blocking(Observations.switch_prompt_recall)
    switches = _blocking(Observations.switches)
    timeline = _blocking(Observations.timeline)
    trust = _blocking(Observations.trust)
    usage = _blocking(Observations.usage)
    work_on = _blocking(Observations.work_on)


class SyncTasks(_Blocking[TaskManager]):
    """Background tasks, as `memory.tasks`."""

    cancel_task = _blocking(TaskManager.cancel_task)
    get_task_status = _blocking(TaskManager.get_task_status)
    list_tasks = _blocking(TaskManager.list_tasks)
    retry_task = _blocking(TaskManager.retry_task)
    run_all = _blocking(TaskManager.run_all)
    run_task = _blocking(TaskManager.run_task)
    start = _in_loop(TaskManager.start)
    stop_work = _blocking(TaskManager.stop_work)
    submit_task = _blocking(TaskManager.submit_task)
    watch = _blocking_iterator(TaskManager.watch)


class SyncTrash(_Blocking[Trash]):
    """What was forgotten and can come back, as `memory.trash`."""

    empty_expired = _blocking(Trash.empty_expired)
    find = _blocking(Trash.find)
    list_batches = _blocking(Trash.list_batches)
    purge = _blocking(Trash.purge)
    put = _blocking(Trash.put)
    select = _blocking(Trash.select)
    undo = _blocking(Trash.undo)
    unlink = _blocking(Trash.unlink)


class SyncEngine(_Blocking[ZapomniEngine]):
    """The memory engine with methods that block; made by `open_sync`."""

    add_memories = _blocking(ZapomniEngine.add_memories)
    add_memory = _blocking(ZapomniEngine.add_memory)
    back_up_if_due = _blocking(ZapomniEngine.back_up_if_due)
    delete_memory = _blocking(ZapomniEngine.delete_memory)
    get_history = _blocking(ZapomniEngine.get_history)
    get_memory = _blocking(ZapomniEngine.get_memory)
    get_stats = _blocking(ZapomniEngine.get_stats)
    list_memories = _blocking(ZapomniEngine.list_memories)
    reembed = _blocking(ZapomniEngine.reembed)
    search_memory = _blocking(ZapomniEngine.search_memory)
    start_background_work = _in_loop(ZapomniEngine.start_background_work)
    update_memory = _blocking(ZapomniEngine.update_memory)

    @cached_property
    def memories(self) -> SyncMemories:
        """What concerns memories alone."""
        return SyncMemories(self._part.memories, self._loop)

    @cached_property
    def graph(self) -> SyncGraph:
        """The knowledge graph of memories."""
        return SyncGraph(self._part.graph, self._loop)

    @cached_property
    def code(self) -> SyncCode:
        """The code of indexed repositories."""
        return SyncCode(self._part.code, self._loop)

    @cached_property
    def citations(self) -> SyncCitations:
        """The code that memories cite, and whether it has changed."""
        return SyncCitations(self._part.citations, self._loop)

    @cached_property
    def observations(self) -> SyncObservations:
        """What agents did, captured by their hooks."""
        return SyncObservations(self._part.observations, self._loop)

    @cached_property
    def tasks(self) -> SyncTasks:
        """Background tasks."""
        return SyncTasks(self._part.tasks, self._loop)

    @cached_property
    def trash(self) -> SyncTrash:
        """What was forgotten and can come back."""
        return SyncTrash(self._part.trash, self._loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop background work, release everything and end the thread. Twice is once."""
        self._loop.close(self._part.close)
