"""The way every layer writes a log event: a name and fields, given to one sink.

It is in the leaf so that all layers share it, and imports nothing, so that it costs nothing.
`zapomni_core.infra.logging` sets the sink that writes JSON lines on stderr. A program that uses
this package alone gets the events in the standard library's `logging`, and the fields in
`record.fields`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Logger", "Sink", "get_logger", "set_sink"]

DEBUG, INFO, WARNING, ERROR, CRITICAL = 10, 20, 30, 40, 50
"""As in the standard library."""

Sink = Callable[[int, str, str, dict[str, Any]], None]
"""Takes level, logger, event and fields. Fields are ids, counts, names and codes, never text."""

_sink: Sink | None = None
_threshold = DEBUG


def set_sink(sink: Sink, threshold: int) -> None:
    """Give every event from this level up to the sink, whichever layer writes it."""
    global _sink, _threshold
    _sink, _threshold = sink, threshold


def get_logger(name: str) -> Logger:
    """Return the logger of a module; free until it writes."""
    return Logger(name)


class Logger:
    """Writes events with fields: `log.info("memory_added", chunks=3)`."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def has_debug(self) -> bool:
        """Whether a debug event would be written: for fields that cost something to know."""
        return _threshold <= DEBUG

    def debug(self, event: str, **fields: Any) -> None:
        """Write what helps to find a fault."""
        self._write(DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Write that something went as it should."""
        self._write(INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Write that something works, but worse than it should."""
        self._write(WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Write that an operation failed."""
        self._write(ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Write that an operation failed, with the exception being handled."""
        self._write(ERROR, event, {"exc_info": True, **fields})

    def critical(self, event: str, **fields: Any) -> None:
        """Write that nothing works."""
        self._write(CRITICAL, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if level >= _threshold:
            (_sink or _to_standard_logging)(level, self._name, event, fields)


def _to_standard_logging(level: int, name: str, event: str, fields: dict[str, Any]) -> None:
    import logging  # only in programs that use this package without the core

    exc_info = fields.pop("exc_info", None)
    logging.getLogger(name).log(level, event, exc_info=exc_info, extra={"fields": fields})
