"""Live updates: one stream of server-sent events says what has changed, pages fetch it.

While a tab listens, the versions of memories, observations and tasks are read about once a second,
whichever process changes them. Nothing is read while no tab listens.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress

from zapomni_core.engine import ZapomniEngine
from zapomni_core.exceptions import ZapomniError

__all__ = ["Live"]

POLL_SECONDS = 1.0
# A server is asked less often than a file is read.
SERVER_POLL_SECONDS = 5.0
HEARTBEAT_SECONDS = 15.0


class Live:
    """Notifies open tabs of changes.

    Args:
        engine: Whose memories, observations and tasks.
        seconds: How long between two reads.
    """

    def __init__(self, engine: ZapomniEngine, seconds: float = POLL_SECONDS) -> None:
        self._engine = engine
        self._seconds = seconds
        self._listeners: set[asyncio.Queue[str]] = set()
        self._poller: asyncio.Task[None] | None = None
        self._seen: dict[str, object] | None = None
        self._last_used = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """How long no tab has listened and no page was asked for."""
        return 0.0 if self._listeners else time.monotonic() - self._last_used

    def touch(self) -> None:
        """Note that a page was asked for."""
        self._last_used = time.monotonic()

    async def close(self) -> None:
        """Stop reading, and end every stream."""
        if self._poller is not None:
            self._poller.cancel()
            with suppress(asyncio.CancelledError):
                await self._poller
        for listener in self._listeners:
            listener.put_nowait("")

    async def stream(self) -> AsyncIterator[str]:
        """Yield events for one tab until it leaves."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.add(queue)
        if self._poller is None or self._poller.done():
            self._seen = None
            self._poller = asyncio.create_task(self._poll())
        try:
            yield "retry: 3000\nevent: hello\ndata: {}\n\n"
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if not event:
                    return
                yield event
        finally:
            self._listeners.discard(queue)
            self.touch()

    async def _poll(self) -> None:
        while self._listeners:
            # A server that is down, or a file that is locked, is read the next time.
            with suppress(ZapomniError):
                self._announce(await self._read())
            await asyncio.sleep(self._seconds)

    def _announce(self, now: dict[str, object]) -> None:
        """Say what is not as it was seen last."""
        seen, self._seen = self._seen or now, now
        changed = [name for name, version in now.items() if version != seen[name]]
        if changed:
            event = f"event: change\ndata: {json.dumps(changed)}\n\n"
            for listener in self._listeners:
                listener.put_nowait(event)

    async def _read(self) -> dict[str, object]:
        tasks = await self._engine.tasks.list_tasks(limit=5)
        return {
            "memories": await self._engine.storage.get_version(),
            "observations": await self._engine.observations.get_version(),
            "tasks": [(one.task_id, one.status, one.done, one.updated_at) for one in tasks],
        }
