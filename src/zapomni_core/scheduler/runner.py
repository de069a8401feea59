"""One attempt at one task: the claim is kept alive while the handler works, then settled."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from zapomni_core.exceptions import DatabaseError
from zapomni_core.infra.correlation import current_correlation_id, operation
from zapomni_core.infra.error_messages import sanitize_error_for_user
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.retry import RetryPolicy, retry_with_backoff
from zapomni_db.sqlite.tasks import SqliteTasks
from zapomni_db.task_models import Claim, Hold, Progress

__all__ = ["TaskContext", "TaskHandler", "TaskRunner"]

log = get_logger(__name__)

# Progress is stored at most this often: a handler may report as often as it likes.
REPORT_SECONDS = 0.5
# How long a handler that was cancelled may take before its task is given to others.
STOP_SECONDS = 5.0


class TaskContext:
    """What a handler reports to.

    When a user cancels the task, or another process has taken it over, the handler is cancelled
    as asyncio cancels: `report` raises `asyncio.CancelledError`, and so does any other wait within
    a third of the lease. Let it pass; what was stored so far is kept.
    """

    def __init__(self, store: SqliteTasks, claim: Claim, lease_seconds: float) -> None:
        self.claim = claim
        self.progress: Progress | None = None
        self._share = claim.share
        self.hold: Hold = "held"
        self._store = store
        self._lease = lease_seconds
        self._next_write = 0.0
        self._work: asyncio.Task[str | None] | None = None

    async def report(self, done: int, total: int | None = None, message: str = "") -> None:
        """Say how far the work is, in units of its own; the message carries no stored text.

        What is stored never goes back: what earlier attempts did is added, and a phase that counts
        anew waits until it is further than the one before.

        Raises:
            asyncio.CancelledError: The task was cancelled or taken over.
        """
        earlier = self.claim.share
        if total is not None:
            before = round(total * earlier / (1 - earlier)) if earlier < 1 else 0
            done, total = done + before, total + before
        share = done / total if total else 0.0
        if share >= self._share:
            self._share = share
            self.progress = Progress(done, total, message)
        elif self.progress is not None:
            self.progress = self.progress._replace(message=message)
        if time.monotonic() >= self._next_write:
            self._next_write = time.monotonic() + REPORT_SECONDS
            await self._renew()
        else:
            await asyncio.sleep(0)  # Others get their turn, however busy the handler is.

    def start(self, handler: TaskHandler) -> asyncio.Task[str | None]:
        """Call the handler; what it returns comes out as JSON."""

        async def work() -> str | None:
            result = await handler(self.claim.params, self)
            return None if result is None else json.dumps(result, allow_nan=False)

        self._work = asyncio.create_task(work())
        return self._work

    async def keep_alive(self) -> None:
        """Renew the claim until this is cancelled."""
        while True:
            await asyncio.sleep(self._lease / 3)
            await self._renew()

    async def _renew(self) -> None:
        try:
            self.hold = await self._store.renew(self.claim, self._lease, self.progress)
        except DatabaseError as error:
            # Busy, or the disk is full. Until another process takes over, the claim is still ours.
            log.warning("task_progress_not_stored", error_code=error.error_code)
            return
        if self.hold != "held" and self._work is not None:
            self._work.cancel()
            await asyncio.sleep(0)  # Raises here if it is the handler that reports.


TaskHandler = Callable[[dict[str, Any], TaskContext], Awaitable[Any]]
"""Does the work of one task type; returns its result, a JSON value without stored text.

After a crash it is called again for the same task, perhaps while an attempt that was taken over
is still ending: what it stores must be the same after one call or several. So it works in small
steps, stores each at once, reports after each, and skips what is there already. It must leave the
event loop free between steps, because the claim is renewed there.
"""


@dataclass(frozen=True)
class TaskRunner:
    """Makes attempts at tasks."""

    store: SqliteTasks
    policy: RetryPolicy
    """Which errors are worth another attempt, how many there are, and the pauses between."""
    lease_seconds: float
    """How long a silent process is waited for before others take its task over."""

    async def run(self, claim: Claim, handler: TaskHandler) -> None:
        """Make one attempt and settle it: completed, failed, cancelled, or queued again.

        Cancelled itself, it stops the handler and gives the task back: others go on with it.
        """
        with operation():
            log.info("task_started", **_about(claim))
            context = TaskContext(self.store, claim, self.lease_seconds)
            work = context.start(handler)
            heartbeat = asyncio.create_task(context.keep_alive())
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                work.cancel()
                await asyncio.wait({work}, timeout=STOP_SECONDS)
                await self._settle("task_given_back", self.store.give_back, claim, None, 0.0)
                raise
            finally:
                heartbeat.cancel()
            await self._conclude(context, work)

    async def _conclude(self, context: TaskContext, work: asyncio.Task[str | None]) -> None:
        finish, claim = self.store.finish, context.claim
        if not work.cancelled() and work.exception() is None:
            end = (claim, "completed", context.progress, work.result())
            await self._settle("task_completed", finish, *end)
        elif context.hold == "cancelled":
            await self._settle("task_cancelled", finish, claim, "cancelled", context.progress)
        elif context.hold == "lost":
            log.warning("task_taken_over", **_about(claim))
        else:
            # A handler that cancelled itself failed as well.
            error = asyncio.CancelledError() if work.cancelled() else work.exception()
            assert error is not None
            await self._fail(context, error)

    async def _fail(self, context: TaskContext, error: BaseException) -> None:
        claim = context.claim
        log.error("task_attempt_failed", exc_info=error, **_about(claim))
        shown = sanitize_error_for_user(error, current_correlation_id() or "")
        words = f"{shown['error']} {shown['suggested_action']}"
        reason = (shown["error_code"], f"{words} (correlation id {shown['correlation_id']})")
        failures = claim.failures + 1
        if self.policy.allows(error) and failures < self.policy.max_attempts:
            pause = self.policy.delay(failures)
            await self._settle("task_queued_again", self.store.give_back, claim, reason, pause)
        else:
            end = (claim, "failed", context.progress, None, reason)
            await self._settle("task_failed", self.store.finish, *end)

    async def _settle(
        self, event: str, change: Callable[..., Awaitable[bool]], claim: Claim, *how: Any
    ) -> None:
        try:
            held = await retry_with_backoff(change, self.policy, claim, *how)
        except DatabaseError:
            # Logged already. The claim runs out, and the next attempt finds most of it done.
            return
        log.info(event if held else "task_taken_over", **_about(claim))


def _about(claim: Claim) -> dict[str, Any]:
    return {"task_id": claim.task_id, "task_type": claim.task_type, "attempt": claim.attempt}
