"""Limits and formats. Messages name the field, never what was in it."""

from __future__ import annotations

import json
import re
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError as PydanticValidationError

from zapomni_core.exceptions import ValidationError
from zapomni_core.interfaces import AddMemoryRequest, UpdateMemoryRequest
from zapomni_core.shared.dates import EARLIEST, LATEST, in_calendar
from zapomni_core.shared.text import has_nul
from zapomni_core.shared.validation import validate_id
from zapomni_db.code_models import CODE_KIND
from zapomni_db.models import NEVER, MemoryFilter

__all__ = [
    "check_moment",
    "check_query",
    "parse_filters",
    "validate_add",
    "validate_update",
    "without_code",
]

MAX_TEXT_CHARS = 10_000_000
MAX_METADATA_BYTES = 100_000
MAX_METADATA_DEPTH = 10
MAX_NAME_CHARS = 200
MAX_SOURCE_CHARS = 1000
MAX_TAGS = 50
MAX_SUPERSEDED = 50
_CHANGEABLE = (
    "text", "metadata", "project", "source", "kind", "tags", "pinned", "cites", "expires_at",
    "trusted", "supersedes",
)  # fmt: skip

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def validate_add(request: AddMemoryRequest) -> AddMemoryRequest:
    """Check a request; `source` and `tags` given in the metadata count as the fields."""
    _check_text(request.text)
    _check_metadata(request.metadata)
    source, tags = request.metadata.get("source"), request.metadata.get("tags")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        tags = []
    lifted = request.model_copy(
        update={
            "source": request.source or (source if isinstance(source, str) else ""),
            "tags": _clean_tags(request.tags or tags),
        }
    )
    _check_names(
        project=lifted.project, source=lifted.source, parent=lifted.parent, origin=lifted.origin
    )
    _check_kind(lifted.kind)
    if not 0 <= request.position < 2**31:
        raise ValidationError("position must be a number from 0 up", "VAL_003")
    for field in ("occurred_at", "expires_at"):
        _check_time(field, getattr(request, field))
    if request.idempotency_key is not None:
        if not request.idempotency_key.strip():
            raise ValidationError("idempotency_key cannot be empty; leave it out", "VAL_001")
        _check_names(idempotency_key=request.idempotency_key)
    return lifted


def validate_update(request: UpdateMemoryRequest) -> UpdateMemoryRequest:
    """Check a request for changes."""
    if not request.redact and all(getattr(request, name) is None for name in _CHANGEABLE):
        raise ValidationError(
            f"Nothing to change: give at least one of {', '.join(_CHANGEABLE)}", "VAL_001"
        )
    if request.text is not None:
        _check_text(request.text)
    if request.metadata is not None:
        _check_metadata(request.metadata)
    _check_names(project=request.project or "", source=request.source or "")
    if request.kind is not None:
        _check_kind(request.kind)
    if request.expires_at != NEVER:
        _check_time("expires_at", request.expires_at)
    changes: dict[str, Any] = {}
    if request.supersedes is not None:
        if len(request.supersedes) > MAX_SUPERSEDED:
            raise ValidationError(f"supersedes exceeds {MAX_SUPERSEDED} ids", "VAL_003")
        changes["supersedes"] = [validate_id(one) for one in dict.fromkeys(request.supersedes)]
    if request.tags is not None:
        changes["tags"] = _clean_tags(request.tags)
    return request.model_copy(update=changes)


def _check_time(field: str, moment: datetime | None) -> None:
    if moment is not None and moment.tzinfo is None:
        raise ValidationError(f"{field} needs a time zone, such as Z at its end", "VAL_004")
    check_moment(field, moment)


def without_code(filters: MemoryFilter) -> MemoryFilter:
    """Leave files of repositories out, unless a kind is asked for."""
    if filters.kind is not None or filters.not_kind is not None:
        return filters
    return filters.model_copy(update={"not_kind": CODE_KIND})


def parse_filters(filters: MemoryFilter | dict[str, Any] | None) -> MemoryFilter:
    """Return checked filters, given as a model or by name."""
    if not filters:
        return MemoryFilter()
    parsed = filters if isinstance(filters, MemoryFilter) else _read_filters(filters)
    for name in ("since", "until", "as_of", "known_at"):
        check_moment(name, getattr(parsed, name))
    if parsed.since and parsed.until and parsed.since >= parsed.until:
        raise ValidationError("Invalid filter: since must be before until", "VAL_003")
    named = ("project", "source", "kind", "not_kind", "parent", "path")
    _check_names(**{name: getattr(parsed, name) or "" for name in named})
    return parsed.model_copy(update={"tags": _clean_tags(parsed.tags)})


def _read_filters(filters: dict[str, Any]) -> MemoryFilter:
    given = dict(filters)
    if "session" in given:
        # A session is a parent: conversations, sessions and documents are all asked for alike.
        given["parent"] = given.pop("session")
    for name in given:
        if name not in MemoryFilter.model_fields:
            near = get_close_matches(str(name), MemoryFilter.model_fields, n=1, cutoff=0.0)[0]
            raise ValidationError(
                f"Unknown filter; did you mean {near!r}? "
                f"Filters are: {', '.join(MemoryFilter.model_fields)}.",
                "VAL_004",
            )
    try:
        return MemoryFilter.model_validate(given)
    except PydanticValidationError as error:
        problems = "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors())
        raise ValidationError(
            f"Invalid filter: {problems}", "VAL_002", original_exception=error
        ) from error


def _check_text(text: str) -> None:
    if not text.strip():
        raise ValidationError("text cannot be empty", "VAL_001")
    if len(text) > MAX_TEXT_CHARS:
        raise ValidationError(
            f"text exceeds max length ({MAX_TEXT_CHARS:,} characters); split it and add the parts",
            "VAL_003",
            details={"length": len(text)},
        )
    _check_utf8("text", text)


def check_moment(field: str, moment: datetime | None) -> None:
    """Refuse a moment that some time zone could not show."""
    if moment is not None and not in_calendar(moment):
        raise ValidationError(
            f"{field} must be between {EARLIEST:%Y-%m-%d} and {LATEST:%Y-%m-%d}", "VAL_003"
        )


def check_query(query: str) -> None:
    """Refuse a question that has no words at all, or a character no text has."""
    if not query.strip():
        raise ValidationError("query cannot be empty", "VAL_001")
    _check_nul("query", query)


def _check_nul(field: str, value: Any) -> None:
    if has_nul(value):
        raise ValidationError(f"{field} has a NUL character; take it out", "VAL_004")


def _check_utf8(field: str, value: str) -> None:
    _check_nul(field, value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValidationError(
            f"{field} is not valid UTF-8 (a lone surrogate at character {error.start})",
            "VAL_004",
        ) from None


def _check_metadata(metadata: dict[str, Any]) -> None:
    if _depth(metadata) > MAX_METADATA_DEPTH:
        raise ValidationError(
            f"metadata nesting exceeds max depth ({MAX_METADATA_DEPTH})", "VAL_003"
        )
    try:
        encoded = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValidationError(
            "metadata is not JSON: use text, numbers, true/false, null, lists and objects",
            "VAL_002",
            original_exception=error,
        ) from error
    _check_utf8("metadata", encoded)
    _check_nul("metadata", metadata)
    if len(encoded.encode()) > MAX_METADATA_BYTES:
        raise ValidationError("metadata exceeds max size (100 KB)", "VAL_003")


def _depth(value: Any) -> int:
    """Measure nesting without recursion: hostile input must not exhaust the stack."""
    deepest, stack = 0, [(value, 0)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        if deepest > MAX_METADATA_DEPTH:
            break
        if isinstance(item, dict):
            stack.extend((child, depth + 1) for child in item.values())
        elif isinstance(item, list | tuple):
            stack.extend((child, depth + 1) for child in item)
    return deepest


def _check_names(**names: str) -> None:
    for field, value in names.items():
        limit = MAX_SOURCE_CHARS if field in ("project", "source", "path") else MAX_NAME_CHARS
        if len(value) > limit:
            raise ValidationError(f"{field} exceeds {limit} characters", "VAL_003")
        _check_utf8(field, value)


def _check_kind(kind: str) -> None:
    if not _KIND.fullmatch(kind):
        raise ValidationError(
            "kind must be a lower-case word of up to 32 characters, such as note or decision",
            "VAL_004",
        )
    if kind == CODE_KIND:
        raise ValidationError(
            "kind code is what indexed files have; use another, such as snippet", "VAL_004"
        )


def _clean_tags(tags: list[str]) -> list[str]:
    cleaned = list(dict.fromkeys(tag.strip() for tag in tags))
    if len(cleaned) > MAX_TAGS:
        raise ValidationError(f"tags exceed {MAX_TAGS}", "VAL_003")
    if not all(cleaned):
        raise ValidationError("a tag cannot be empty", "VAL_001")
    for tag in cleaned:
        _check_names(tag=tag)
    return cleaned
