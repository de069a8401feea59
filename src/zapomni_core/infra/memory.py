"""Memory that is no longer used goes back to the system."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

__all__ = ["return_memory"]


def return_memory() -> None:
    """Collect garbage, and have the allocator return what is free."""
    gc.collect()
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):  # musl has no malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
