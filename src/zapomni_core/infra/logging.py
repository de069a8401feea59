"""JSON log lines on stderr; stdout belongs to the MCP protocol.

A line carries ids, counts, names and codes, never what the user stored or asked. An exception
is its type, its error code and where it happened: messages of foreign exceptions quote values,
absolute paths name people. structlog is imported with the first line that is written, because
importing it costs a quarter of a second. Loggers come from `zapomni_db.logs`: the storage layer
imports nothing from here, and its events arrive as whole as ours.
"""

from __future__ import annotations

import errno
import logging
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from functools import cache
from typing import Any

from zapomni_core.infra.correlation import current_correlation_id
from zapomni_db.logs import Logger, get_logger, set_sink

__all__ = ["Logger", "describe_exception", "get_logger", "setup_logging"]

MAX_FRAMES = 25
MAX_CAUSES = 5


def setup_logging(level: str = "INFO") -> None:
    """Write our lines from `level` up, and other libraries' warnings, as JSON on stderr."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    set_sink(_write_line, threshold)
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, _LibraryHandler)]:
        root.removeHandler(handler)
    libraries = max(threshold, logging.WARNING)
    root.addHandler(_LibraryHandler(libraries))
    root.setLevel(libraries)
    logging.captureWarnings(capture=True)


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Say what failed and where, without any value the exception may carry."""
    described = _describe_one(error)
    causes: list[dict[str, Any]] = []
    cause = _cause_of(error)
    while cause is not None and len(causes) < MAX_CAUSES:
        causes.append(_describe_one(cause))
        cause = _cause_of(cause)
    return {**described, "caused_by": causes} if causes else described


def _describe_one(error: BaseException) -> dict[str, Any]:
    frames = [
        f"{frame.f_globals.get('__name__', '?')}:{frame.f_code.co_name}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    described: dict[str, Any] = {"error_type": type(error).__name__}
    code = getattr(error, "error_code", None) or _system_reason(error)
    if code:
        described["error_code"] = code
    return {**described, "frames": frames[-MAX_FRAMES:]}


def _cause_of(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        first: BaseException = error.exceptions[0]
        return first
    return error.__cause__ or error.__context__


def _system_reason(error: BaseException) -> str | None:
    """Return the name of the system's own error code, such as ENOSPC or SQLITE_BUSY."""
    if isinstance(error, OSError):
        return errno.errorcode.get(error.errno or 0)
    name = getattr(error, "sqlite_errorname", None)
    return name if isinstance(name, str) else None


def _add_correlation_id(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    event.setdefault("correlation_id", current_correlation_id())
    return event


def _describe_exc_info(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    exc_info = event.pop("exc_info", None)
    if exc_info is True:
        exc_info = sys.exc_info()
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if isinstance(error, BaseException):
        for key, value in describe_exception(error).items():
            event.setdefault(key, value)
    return event


def _type_name(value: object) -> str:
    # A value that is no plain JSON may print anything: an exception its message, a path itself.
    return type(value).__name__


@cache
def _pipeline() -> Any:
    import structlog

    # wrap_logger instead of configure: a program that embeds us keeps its own structlog set-up.
    return structlog.wrap_logger(
        _Stderr(),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_correlation_id,
            _describe_exc_info,
            structlog.processors.JSONRenderer(default=_type_name),
        ],
        wrapper_class=structlog.BoundLogger,
    )


def _write_line(level: int, name: str, event: str, fields: dict[str, Any]) -> None:
    getattr(_pipeline(), logging.getLevelName(level).lower())(event, logger=name, **fields)


# What is written before setup_logging was called.
set_sink(_write_line, logging.WARNING)


class _Stderr:
    """Where structlog's lines end: whatever stderr is at that moment."""

    def msg(self, line: str) -> None:
        # A host that closed our stderr must not make a memory fail.
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    debug = info = warning = error = critical = msg


class _LibraryHandler(logging.Handler):
    """Writes other libraries' warnings as place and type: their texts quote values."""

    def emit(self, record: logging.LogRecord) -> None:
        write = _pipeline().error if record.levelno >= logging.ERROR else _pipeline().warning
        where = f"{record.module}:{record.funcName}:{record.lineno}"
        write("library_message", logger=record.name, where=where, exc_info=record.exc_info)
