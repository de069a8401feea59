"""CPU seconds of the code itself, whatever watches the tests."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Measured:
    """What a block cost, once it has ended."""

    cpu_seconds = 0.0


@contextmanager
def measured() -> Iterator[Measured]:
    """Measure a block without coverage, and without a search for other tests' garbage."""
    result, watcher = Measured(), sys.gettrace()
    gc.disable()
    sys.settrace(None)
    began = time.process_time()
    try:
        yield result
    finally:
        result.cpu_seconds = time.process_time() - began
        sys.settrace(watcher)
        gc.enable()
