"""What every family of tools is built with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel

from zapomni_core.shared.dates import EARLIEST, LATEST, in_calendar
from zapomni_mcp.exceptions import ValidationError

__all__ = ["ADDS", "CHANGES", "READS", "as_tools", "to_result", "with_zone"]

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

_Described = tuple[Callable[..., Any], str, ToolAnnotations]
"""A function, its title, and what it does to what is stored."""


def as_tools(described: Iterable[_Described]) -> list[Tool]:
    """Make tools of functions; each refuses arguments it does not know."""
    tools = [
        Tool.from_function(function, title=title, annotations=annotations)
        for function, title, annotations in described
    ]
    for tool in tools:
        tool.parameters["additionalProperties"] = False
    return tools


def to_result(answer: BaseModel, text: str) -> CallToolResult:
    """Answer twice: as data for programs, and as a text for models."""
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=answer.model_dump(mode="json"),
    )


def with_zone(moment: datetime | None) -> datetime | None:
    """Return a moment with its time zone, UTC if it names none.

    Raises:
        ValidationError: Some time zone could not show it.
    """
    if moment is None:
        return None
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if not in_calendar(zoned):
        raise ValidationError(
            f"a time must be between {EARLIEST:%Y-%m-%d} and {LATEST:%Y-%m-%d}", "VAL_003"
        )
    return zoned
