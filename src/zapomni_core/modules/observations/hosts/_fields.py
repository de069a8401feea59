"""Reads JSON of unknown shape: every getter returns the right type, whatever came."""

from __future__ import annotations

from zapomni_core.shared.quick_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "PayloadError",
    "flag",
    "integer",
    "items",
    "mapping",
    "pairs",
    "parsed",
    "required",
    "seconds",
    "text",
    "words",
]


class PayloadError(ValueError):
    """The event lacks something without which it cannot be stored."""


def required(payload: dict[str, Any], *names: str) -> tuple[str, ...]:
    """Return non-empty strings, or say which are missing."""
    missing = [name for name in names if not text(payload, name)]
    if missing:
        raise PayloadError(f"missing or not a string: {', '.join(missing)}")
    return tuple(payload[name] for name in names)


def text(values: dict[str, Any], *names: str) -> str:
    """Return the first of these fields that is a non-empty string."""
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def integer(values: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = values.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
            return value
    return None


def flag(values: dict[str, Any], name: str) -> bool:
    return values.get(name) is True


def mapping(values: dict[str, Any], name: str) -> dict[str, Any]:
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def items(values: dict[str, Any], name: str) -> list[Any]:
    value = values.get(name)
    return value if isinstance(value, list) else []


def parsed(value: Any) -> dict[str, Any]:
    """Return an object, also one that came as JSON text."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            value = loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def pairs(edits: list[Any]) -> list[tuple[str, str]]:
    """Return old and new text of each edit."""
    return [
        (text(edit, "old_string", "oldText", "old"), text(edit, "new_string", "newText", "new"))
        for edit in edits
        if isinstance(edit, dict)
    ]


def words(value: Any) -> str:
    """Return the text of a content list such as [{"type": "text", "text": "…"}]."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    parts = [text(part, "text") if isinstance(part, dict) else "" for part in value]
    return "\n".join(filter(None, parts))


def seconds(value: Any) -> int | None:
    """Read a time: ISO text, seconds or milliseconds since 1970."""
    if isinstance(value, str) and len(value) < 40:
        from datetime import datetime

        try:
            value = datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value > 1e14:
        return None
    if value > 1e11:
        value /= 1000
    # Outside of these years a clock is wrong, and a wrong clock is worse than ours.
    return int(value) if 1e9 < value < 1e10 else None
