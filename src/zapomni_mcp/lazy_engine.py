"""The engine of a served session: opened by the first call that needs memories."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from zapomni_core.exceptions import ZapomniError
from zapomni_mcp.exceptions import ToolExecutionError

if TYPE_CHECKING:
    # Its import takes longer than a host should wait for the answer to `initialize`.
    from zapomni_core.engine import ZapomniEngine

__all__ = ["LazyEngine"]


class LazyEngine:
    """Opens the engine when it is first needed; a failed opening is tried again next time."""

    def __init__(self, open_engine: Callable[[], Awaitable[ZapomniEngine]]) -> None:
        self._open = open_engine
        self._engine: ZapomniEngine | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> ZapomniEngine:
        """Return the engine, opened.

        Raises:
            ToolExecutionError: TOOL_002, it could not be started.
        """
        async with self._lock:
            if self._engine is None:
                try:
                    self._engine = await self._open()
                except ZapomniError:
                    raise
                except Exception as error:
                    raise ToolExecutionError(
                        "The memory engine could not be started.",
                        "TOOL_002",
                        original_exception=error,
                    ) from error
            return self._engine

    async def close(self) -> None:
        """Close the engine if it was opened."""
        if self._engine is not None:
            await self._engine.close()
