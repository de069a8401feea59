"""TaskManager: long work that outlives the call, and the process, that asked for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any

from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.retry import RetryPolicy
from zapomni_core.scheduler.runner import TaskHandler, TaskRunner
from zapomni_core.settings import Settings
from zapomni_core.shared.validation import validate_id
from zapomni_db.models import TaskStatus
from zapomni_db.sqlite.tasks import SqliteTasks
from zapomni_db.task_models import Claim

__all__ = ["TaskManager", "open_tasks"]

log = get_logger(__name__)

WATCH_SECONDS = 0.25
FINISHED = ("completed", "failed", "cancelled")

Show = Callable[[TaskStatus], None]
"""Called with a task's status whenever it may have changed."""


def open_tasks(settings: Settings) -> TaskManager:
    """Return the tasks of this machine. They need no engine, and no server behind it."""
    return TaskManager(SqliteTasks(settings.observations_path))


class TaskManager:
    """Queues tasks, reports their progress, and works on them when asked to.

    Tasks are kept in the store: they survive restarts, every process sees them, and when the
    process that works on one dies, the next worker goes on with it. A task ends once: only the
    process that holds its latest claim can report or finish.

    Args:
        store: Where tasks are kept.
        lease_seconds: How long a silent process is waited for before its task is taken over.
        poll_seconds: How often a worker looks for tasks of other processes.
        policy: Which errors are tried again, how often, and after which pauses.
    """

    def __init__(
        self,
        store: SqliteTasks,
        *,
        lease_seconds: float = 30.0,
        poll_seconds: float = 30.0,
        policy: RetryPolicy | None = None,
    ) -> None:
        self._store = store
        self._runner = TaskRunner(store, policy or RetryPolicy(), lease_seconds)
        self._poll_seconds = poll_seconds
        self._handlers: dict[str, TaskHandler] = {}
        self._submitted = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self.is_working = False  # Whether the worker of `start` is at a task.

    def register(self, task_type: str, handler: TaskHandler) -> None:
        """Say what does the work of a task type. See `TaskHandler` for what it must keep to."""
        self._handlers[task_type] = handler

    # --- asking -------------------------------------------------------------------------

    async def submit_task(self, task_type: str, params: Mapping[str, Any] | None = None) -> str:
        """Queue a task and return its id at once.

        The same type and parameters while such a task waits or runs return that one's id. With a
        worker in this process it starts now.

        Raises:
            ValidationError: The type is unknown, or the parameters are no JSON.
        """
        if task_type not in self._handlers:
            raise ValidationError("There is no task of this type", "VAL_003")
        task_id = await self._store.submit(task_type, params or {})
        self._submitted.set()
        return task_id

    @operation()
    async def get_task_status(self, task_id: str) -> TaskStatus:
        """Return how a task is getting on.

        Raises:
            NotFoundError: No task has this id, or it was forgotten.
        """
        return _found(await self._store.get(validate_id(task_id, "task_id")))

    async def list_tasks(self, status: str | None = None, limit: int = 20) -> list[TaskStatus]:
        """Return tasks, the newest first."""
        return await self._store.list_tasks(status, limit)

    @operation()
    async def cancel_task(self, task_id: str) -> TaskStatus:
        """Stop a task: at once if no worker has claimed it, else when its worker reports next.

        What it stored so far stays. A task that has ended stays as it is.

        Raises:
            NotFoundError: No task has this id.
        """
        return _found(await self._store.cancel(validate_id(task_id, "task_id")))

    async def stop_work(self, task_type: str, params: Mapping[str, Any]) -> bool:
        """Cancel the unfinished task of this type with these parameters, and wait for its end.

        Returns:
            Whether there was one. A worker that died is waited for until its lease expires.
        """
        found = False
        while task_id := await self._store.find_unfinished(task_type, params):
            found = True
            if (await self.cancel_task(task_id)).status not in FINISHED:
                await asyncio.sleep(WATCH_SECONDS)
        return found

    async def retry_task(self, task_id: str) -> TaskStatus:
        """Queue a failed or cancelled task again and return it, or the same work already queued.

        Raises:
            NotFoundError: No task has this id.
            ValidationError: It is completed, or not finished yet.
        """
        status = _found(await self._store.retry(task_id))
        self._submitted.set()
        return status

    async def watch(self, task_id: str) -> AsyncIterator[TaskStatus]:
        """Yield a task's status now and after every change, until it has ended."""
        last: TaskStatus | None = None
        while True:
            status = await self.get_task_status(task_id)
            if status != last:
                yield status
            if status.status in FINISHED:
                return
            last = status
            await asyncio.sleep(WATCH_SECONDS)

    # --- working ------------------------------------------------------------------------

    def start(self) -> None:
        """Work in the background from now on: what is submitted here at once, others' in turn."""
        if self._worker is None:
            # A context of its own: tasks have nothing to do with the call that opened the engine.
            self._worker = asyncio.create_task(self._work_forever(), context=Context())

    async def close(self) -> None:
        """Stop working, give back what was begun, and release the store."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        await self._store.close()

    async def run_task(self, task_id: str, show: Show) -> TaskStatus:
        """Work on one task here, or watch who does, until it has ended.

        Cancelling this while the task is worked on here cancels the task.
        """
        while True:
            status = await self.get_task_status(task_id)
            show(status)
            if status.status in FINISHED:
                return status
            claim = await self._claim(task_id)
            if claim is None:
                await asyncio.sleep(WATCH_SECONDS)
                continue
            try:
                await self._run_shown(claim, show)
            except asyncio.CancelledError:
                await self.cancel_task(task_id)
                raise

    async def run_all(self, show: Show) -> None:
        """Work until the queue is empty.

        Waits for what pauses before another attempt, and one lease for what others work on: who
        is silent for so long is dead.
        """
        patience = time.monotonic() + self._runner.lease_seconds
        while True:
            claim = await self._claim()
            if claim is not None:
                await self._run_shown(claim, show)
                patience = time.monotonic() + self._runner.lease_seconds
                continue
            queue = await self._store.read_queue(list(self._handlers))
            if queue.due_in is None or (not queue.pending and time.monotonic() > patience):
                return
            await asyncio.sleep(min(queue.due_in, WATCH_SECONDS))

    async def _work_forever(self) -> None:
        while True:
            self._submitted.clear()
            pause = self._poll_seconds
            try:
                claim = await self._claim()
                if claim is not None:
                    self.is_working = True
                    try:
                        await self._run(claim)
                    finally:
                        self.is_working = False
                    continue
                due_in = (await self._store.read_queue(list(self._handlers))).due_in
                pause = pause if due_in is None else min(due_in, pause)
            except Exception:
                # Whatever it was, the next task may fare better.
                log.exception("task_worker_failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._submitted.wait(), pause)

    async def _claim(self, task_id: str | None = None) -> Claim | None:
        types = list(self._handlers)
        return await self._store.claim(types, self._runner.lease_seconds, task_id)

    async def _run(self, claim: Claim) -> None:
        await self._runner.run(claim, self._handlers[claim.task_type])

    async def _run_shown(self, claim: Claim, show: Show) -> None:
        work = asyncio.create_task(self._run(claim))
        try:
            while not work.done():
                show(await self.get_task_status(claim.task_id))
                await asyncio.wait({work}, timeout=WATCH_SECONDS)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        work.result()
        show(await self.get_task_status(claim.task_id))


def _found(status: TaskStatus | None) -> TaskStatus:
    if status is None:
        raise NotFoundError("No task has this id.", "TASK_001")
    return status
