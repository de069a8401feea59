"""Work in threads that is not left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["run_to_end"]

P = ParamSpec("P")
T = TypeVar("T")


async def run_to_end(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread; who is cancelled meanwhile goes on when the function has ended.

    A thread cannot be stopped: whatever it uses must not be closed under its hands.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise
