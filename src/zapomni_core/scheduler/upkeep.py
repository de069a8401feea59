"""What a long-lived process does by itself: vectors, checks, backups, trash, models."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from zapomni_core.adapters.loaded_model import LoadedModel
from zapomni_core.exceptions import ZapomniError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.logging import get_logger
from zapomni_core.modules.memories import Memories
from zapomni_core.settings import Settings

if TYPE_CHECKING:
    from zapomni_core.workflows.trash import Trash

__all__ = ["Upkeep"]

BACKUP_AFTER_SECONDS = 5
BACKUP_CHECK_SECONDS = 3600
MODEL_IDLE_SECONDS = 300.0

logger = get_logger(__name__)


class Upkeep:
    """The background work of an engine that stays open; tasks have a worker of their own.

    Args:
        settings: Say how often the server is checked, and whether there are daily backups.
        memories: What has vectors to fill in, and a digest.
        get_trash: Returns the trash, opened when it is to be emptied.
    """

    def __init__(
        self, settings: Settings, memories: Memories, get_trash: Callable[[], Trash]
    ) -> None:
        self.settings = settings
        self.memories = memories
        self.get_trash = get_trash
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Fill in missing vectors, watch a storage server, back up daily, drop idle models."""
        if self.settings.server is not None:
            self.memories.keep_checking_storage(self.settings.health_check_seconds)
        self.memories.keep_filling_vectors()
        if not self._running:
            self._running = [
                asyncio.create_task(self._work_daily()),
                asyncio.create_task(self._release_idle_models()),
                asyncio.create_task(self.memories.catch_up_digest()),
            ]

    async def close(self) -> None:
        """Stop; what has begun to be written is written."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def local_models(self) -> list[LoadedModel[Any]]:
        """Return the embedders whose model is held in this process."""
        embeddings = self.memories.embeddings
        models: list[object] = [*embeddings.embedders, *getattr(embeddings.second, "models", ())]
        return [model for model in models if isinstance(model, LoadedModel)]

    async def _release_idle_models(self) -> None:
        while True:
            await asyncio.sleep(MODEL_IDLE_SECONDS / 5)
            released = [one.release_idle(MODEL_IDLE_SECONDS) for one in self.local_models()]
            if any(released):
                logger.info("model_released")
                await asyncio.to_thread(_return_memory)

    async def _work_daily(self) -> None:
        from zapomni_core.workflows.backup import back_up_if_due

        await asyncio.sleep(BACKUP_AFTER_SECONDS)  # The call that opened the engine comes first.
        while True:
            with operation():
                await back_up_if_due(self.settings)
            try:
                await self.get_trash().empty_expired()
            except ZapomniError as error:
                logger.warning("trash_not_emptied", error_code=error.error_code)
            await self.memories.tidy()
            await asyncio.sleep(BACKUP_CHECK_SECONDS)


def _return_memory() -> None:
    """Collect garbage, and have the allocator return what is free."""
    gc.collect()
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):  # musl has no malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
