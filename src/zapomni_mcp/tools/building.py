"""What every family of tools is built with."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel

from zapomni_core.infra.recall_log import RecalledItem, RecallLog
from zapomni_core.shared.compact import without_empty
from zapomni_core.shared.dates import EARLIEST, LATEST, in_calendar
from zapomni_core.shared.fencing import DATA_NOTICE
from zapomni_mcp.connection import current_client, current_folder
from zapomni_mcp.exceptions import ValidationError

__all__ = [
    "ADDS",
    "CHANGES",
    "READS",
    "answer_data",
    "as_tools",
    "log_recall",
    "to_result",
    "with_zone",
]

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(destructive_hint=False, idempotent_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False)

LISTED_LENGTH = 10_000

_Described = tuple[Callable[..., Any], str, ToolAnnotations]
"""A function, its title, and what it does to what is stored."""


def as_tools(described: Iterable[_Described]) -> list[Tool]:
    """Make tools of functions; each refuses arguments it does not know.

    A function returns `to_result` of the model that its annotation names. Every session pays for
    descriptions and schemas, so they hold what a caller needs and nothing that pydantic adds.
    """
    tools = [
        Tool.from_function(
            function, title=title, description=_description(function), annotations=annotations
        )
        for function, title, annotations in described
    ]
    for tool in tools:
        tool.parameters = _input_schema(tool.parameters)
        metadata = tool.fn_metadata
        if metadata.output_schema is None:
            raise TypeError(f"{tool.name} does not say what it returns")
        # The models check answers when they are made. Without its empty fields an answer fits the
        # schema and no longer the model.
        metadata.output_schema, metadata.output_model = _output_schema(metadata.output_schema), None
    return tools


def log_recall(
    log: RecallLog,
    query: str,
    items: Iterable[RecalledItem],
    *,
    opened: Iterable[RecalledItem] = (),
) -> None:
    """Note what a tool is about to answer, and what the agent opened by calling it."""
    log.use(opened)
    log.add("tool", query, items, client=current_client(), folder=current_folder())


def to_result(
    answer: BaseModel | dict[str, Any], text: str = "", *, notice: str = DATA_NOTICE
) -> CallToolResult:
    """Answer twice: as data for programs, and as a text for models.

    Some hosts hand the data to the model instead of the text, so both say that they are quoted.

    Args:
        answer: What is returned, or its data; lists without a default are there even if they are
            empty.
        text: The same with every quotation fenced. Without it the text is the data, as JSON.
        notice: What to keep in mind when reading it.
    """
    data = answer if isinstance(answer, dict) else answer_data(answer)
    data = {"data_notice": notice, **data}
    return CallToolResult(
        content=[TextContent(type="text", text=text or json.dumps(data, ensure_ascii=False))],
        structured_content=data,
    )


def answer_data(answer: BaseModel) -> dict[str, Any]:
    """Return an answer as JSON data without empty fields, but with the lists it is about."""
    lists: dict[str, Any] = {
        name: []
        for name, field in type(answer).model_fields.items()
        if field.is_required() and getattr(answer, name) == []
    }
    return {**without_empty(answer), **lists}


def _description(function: Callable[..., Any]) -> str:
    """Return the docstring, one line per paragraph."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


# --- Schemas ----------------------------------------------------------------------------


def _input_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of arguments without what helps no caller: titles, empty defaults, null.

    Nor does it list the lengths that only a broken call exceeds. All of it is accepted or refused
    as the function's own types say.
    """
    properties = {}
    for name, argument in schema["properties"].items():
        default = argument.get("default")
        short = _without_lengths(_shorten(argument, nullable=default is not None))
        properties[name] = {**short, "default": default} if default else short
    lean = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**lean, "required": schema["required"]} if "required" in schema else lean


def _without_lengths(schema: dict[str, Any]) -> dict[str, Any]:
    lean = {
        key: value
        for key, value in schema.items()
        if key not in ("minLength", "minItems", "maxItems")
        and not (key == "maxLength" and value < LISTED_LENGTH)
    }
    if "items" in lean:
        lean["items"] = _without_lengths(lean["items"])
    if "anyOf" in lean:
        lean["anyOf"] = [_without_lengths(kind) for kind in lean["anyOf"]]
    return lean


def _output_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an answer that has lost its empty fields."""
    lean = _answer_schema(schema)
    lists = [
        name
        for name in schema.get("required", ())
        if schema["properties"][name].get("type") == "array"
    ]
    lean["properties"] = {"data_notice": {"type": "string"}, **lean["properties"]}
    lean["required"] = ["data_notice", *lists, *lean.get("required", ())]
    if "$defs" in schema:
        lean["$defs"] = {name: _answer_schema(part) for name, part in schema["$defs"].items()}
    return lean


def _answer_schema(schema: dict[str, Any]) -> dict[str, Any]:
    fields = schema["properties"]
    lean = {"type": "object", "properties": {name: _shorten(fields[name]) for name in fields}}
    required = [name for name in schema.get("required", ()) if not _may_be_empty(fields[name])]
    return {**lean, "required": required} if required else lean


def _may_be_empty(field: dict[str, Any]) -> bool:
    if "anyOf" in field or field.get("type") in ("array", "object"):
        return True
    return field.get("type") == "string" and not field.keys() & {"enum", "format", "minLength"}


def _shorten(schema: dict[str, Any], *, nullable: bool = False) -> dict[str, Any]:
    """Return a schema without titles and defaults, and if it is not nullable without null."""
    lean = {key: value for key, value in schema.items() if key not in ("title", "default")}
    if lean.get("additionalProperties") is True:
        del lean["additionalProperties"]
    if "items" in lean:
        lean["items"] = _shorten(lean["items"])
    if "anyOf" in lean:
        kinds = [_shorten(kind) for kind in lean.pop("anyOf")]
        if not nullable:
            kinds.remove({"type": "null"})
        lean = {**kinds[0], **lean} if len(kinds) == 1 else {"anyOf": kinds, **lean}
    return lean


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
