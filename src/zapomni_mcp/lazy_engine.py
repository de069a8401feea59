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
        self._opening: asyncio.Task[ZapomniEngine] | None = None

    @property
    def opened(self) -> ZapomniEngine | None:
        """The engine, if it is open."""
        opening = self._opening
        if opening is None or not opening.done() or _has_failed(opening):
            return None
        return opening.result()

    async def get(self) -> ZapomniEngine:
        """Return the engine, opened; a call that is cancelled does not stop the opening.

        Raises:
            ToolExecutionError: TOOL_002, it could not be started.
        """
        if self._opening is None or _has_failed(self._opening):
            self._opening = asyncio.ensure_future(self._try_to_open())
        return await asyncio.shield(self._opening)

    async def close(self) -> None:
        """Close the engine if it was opened."""
        if self._opening is None:
            return
        await asyncio.wait([self._opening])
        if self.opened is not None:
            await self.opened.close()

    async def _try_to_open(self) -> ZapomniEngine:
        try:
            return await self._open()
        except ZapomniError:
            raise
        except Exception as error:
            raise ToolExecutionError(
                "The memory engine could not be started.", "TOOL_002", original_exception=error
            ) from error


def _has_failed(opening: asyncio.Task[ZapomniEngine]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)
