"""What memories were before they were changed or superseded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.values import from_json, from_time, to_json
from zapomni_db.graph_models import MemoryVersion
from zapomni_db.history_rules import FIELDS, Replaced, in_order, versions_of, what_changes
from zapomni_db.models import MemoryPatch

__all__ = ["RECORD", "STATE", "to_state", "version_rows", "versions"]

STATE: LiteralString = (
    "[m.metadata, m.project, m.source, m.kind, m.tags, m.pinned, m.text, m.content_hash]"
)
"""What of a memory `m` has a history."""

RECORD: LiteralString = (
    "FOREACH (v IN $replaced | CREATE (m)-[:WAS]->(:Version {key: base + v.key,"
    " replaced_at: v.replaced_at, fields: v.fields, text: v.text}))"
)
"""Keeps what a memory `m` was, from `version_rows` and the number `base`."""


def to_state(row: Sequence[Any]) -> dict[str, Any]:
    """Read what `STATE` returned."""
    metadata, *others = row[: len(FIELDS)]
    state = dict(zip(FIELDS, (from_json(metadata), *others), strict=True))
    return {**state, "text": row[len(FIELDS)]}


def version_rows(state: dict[str, Any], patch: MemoryPatch, now: int) -> list[dict[str, Any]]:
    """Return what `RECORD` is to keep before a patch: nothing if it changes nothing."""
    if (before := what_changes(state, patch)) is None:
        return []
    fields, text = before
    return [{"key": 1, "replaced_at": now, "fields": to_json(fields), "text": text}]


_BEFORE: LiteralString = "MATCH (m:Memory) WHERE m.superseded_by IN $ids RETURN m.id"
_AFTER: LiteralString = (
    "MATCH (m:Memory) WHERE m.id IN $ids AND m.superseded_by IS NOT NULL RETURN m.superseded_by"
)
_VERSIONS: LiteralString = """
MATCH (m:Memory) WHERE m.id IN $ids
OPTIONAL MATCH (newer:Memory {id: m.superseded_by})
OPTIONAL MATCH (m)-[:WAS]->(v:Version)
WITH m, newer, v ORDER BY v.key DESC
WITH m, newer, collect([v.replaced_at, v.fields, v.text]) AS changes
"""
_VERSION: LiteralString = f"m.id, {STATE}, changes, m.created_at, newer.created_at, newer.id"


async def versions(session: Session, memory_id: str) -> list[MemoryVersion]:
    """Return what a memory was and is, and all that it superseded or that superseded it."""
    line = {memory_id}
    for step in (_BEFORE, _AFTER):
        border = {memory_id}
        while border:
            border = {row[0] for row in await session.read(step, ids=sorted(border))} - line
            line |= border
    rows = await session.read_list(_VERSIONS, _VERSION, ids=sorted(line))
    return in_order(version for row in rows for version in _versions_of(row))


def _versions_of(row: Sequence[Any]) -> Sequence[MemoryVersion]:
    memory_id, state, changes, created, superseded, superseded_by = row
    return list(
        versions_of(
            memory_id,
            to_state(state),
            [
                Replaced(from_time(at), from_json(fields), text)
                for at, fields, text in changes
                if at is not None
            ],
            from_time(created),
            None if superseded is None else from_time(superseded),
            superseded_by,
        )
    )
