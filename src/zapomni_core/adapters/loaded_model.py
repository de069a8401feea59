"""What models in this process have in common: loaded when needed, asked in threads, dropped."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

__all__ = ["LoadedModel"]

M = TypeVar("M")
T = TypeVar("T")


class LoadedModel(ABC, Generic[M]):
    """A model that is loaded with the first text, and again after it was dropped.

    Args:
        threads: How many texts it reads at once.
        thread_name: What its threads are called.
    """

    def __init__(self, threads: int, thread_name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=thread_name)
        self._loading = threading.Lock()
        self._model: M | None = None
        self._used_at = 0.0

    @abstractmethod
    def _load(self) -> M:
        """Read the model from its files; called by one thread at a time."""

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._model is not None

    def release_idle(self, seconds: float) -> bool:
        """Drop the model if no text came for so long; the next one loads it again."""
        with self._loading:
            if self._model is None or time.monotonic() - self._used_at < seconds:
                return False
            self._model = None
            return True

    async def close(self) -> None:
        """Let the threads go."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _loaded(self) -> M:
        with self._loading:
            self._used_at = time.monotonic()
            if self._model is None:
                self._model = self._load()
            return self._model

    async def _work(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in one of the threads; the event loop stays free."""
        context = contextvars.copy_context()  # errors carry the operation's correlation id
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, context.run, function, *args)
