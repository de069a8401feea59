"""What every engine does alike to keep what memories were before they were changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from zapomni_db.graph_models import MemoryVersion
from zapomni_db.models import MemoryPatch

__all__ = ["FIELDS", "Replaced", "in_order", "versions_of", "what_changes"]

FIELDS = ("metadata", "project", "source", "kind", "tags", "pinned")


class Replaced(NamedTuple):
    """What a change took away: the changed fields as they were, and the text if it changed."""

    replaced_at: datetime
    fields: dict[str, Any]
    text: str | None


def what_changes(
    before: Mapping[str, Any], patch: MemoryPatch
) -> tuple[dict[str, Any], str | None] | None:
    """Return the fields a patch changes and the text if it does, as they are; None if nothing."""
    fields = {
        name: before[name]
        for name in FIELDS
        if (given := getattr(patch, name)) is not None
        and (sorted(set(given)) if name == "tags" else given) != before[name]
    }
    text = before["text"] if patch.text is not None and patch.text != before["text"] else None
    return (fields, text) if fields or text is not None else None


def versions_of(
    memory_id: str,
    state: Mapping[str, Any],
    changes: Iterable[Replaced],
    created: datetime,
    superseded: datetime | None,
    superseded_by: str | None,
) -> Iterator[MemoryVersion]:
    """Yield versions, newest first, from what a memory is and its changes, newest first.

    Each version knows only what the next one changed.
    """
    current = dict(state)
    until = superseded
    for replaced_at, before, text in [*changes, Replaced(created, {}, None)]:
        yield MemoryVersion(
            memory_id=memory_id,
            text=current["text"],
            fields={name: current[name] for name in FIELDS},
            valid_from=replaced_at,
            valid_to=until,
            changed=[*before, *(["text"] if text is not None else [])],
            superseded_by=superseded_by if until == superseded else None,
        )
        current |= before
        current["text"] = text if text is not None else current["text"]
        until = replaced_at


def in_order(versions: Iterable[MemoryVersion]) -> list[MemoryVersion]:
    """Return versions, oldest first; of two that begin at once, the one that ended first."""
    return sorted(versions, key=lambda v: (v.valid_from, v.valid_to is None, v.valid_to))
