"""Work that is done whole or not begun, though its caller may be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from zapomni_core.infra.logging import get_logger

__all__ = ["Uninterrupted"]

T = TypeVar("T")
log = get_logger(__name__)


class Uninterrupted:
    """Runs work to its end, whatever becomes of its caller.

    A time limit and a host that takes its request back both cancel a call wherever it is. What
    takes two writes, in one store and in another, must not end between them.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns; a cancelled caller still waits for its end."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._finished)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # A caller that is cancelled again and again is let go; the work goes on without it.
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
            raise

    async def close(self) -> None:
        """Wait for what is still running."""
        if self._running:
            await asyncio.wait(self._running)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        # Asked for here, so that nothing is printed about an error whose caller has left.
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("uninterrupted_work_failed", error_type=type(error).__name__)
