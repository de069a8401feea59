"""Conversions between Python values and what SQLite stores, and filters as SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from zapomni_db.values import from_json, from_time, sha256_of, to_json, to_time

if TYPE_CHECKING:
    from zapomni_db.models import MemoryFilter

__all__ = [
    "content_hash",
    "from_json",
    "from_time",
    "in_path",
    "text_hash",
    "to_json",
    "to_time",
    "where",
]


def content_hash(text: str) -> bytes:
    """Identify a memory's exact text."""
    return sha256_of(text)


def text_hash(text: str) -> bytes:
    """Identify a chunk's exact text; half the length is plenty for a cache key."""
    return content_hash(text)[:16]


# --- Conditions: clauses are constants, values are always bound ------------------------


_EQUAL: dict[str, LiteralString] = {
    "project": "m.project = ?",
    "source": "m.source = ?",
    "kind": "m.kind = ?",
    "not_kind": "m.kind <> ?",
    "parent": "m.parent = ?",
    "pinned": "m.pinned = ?",
}
_TAGGED: LiteralString = (
    "EXISTS (SELECT 1 FROM memory_tags t WHERE t.tag = ? AND t.memory_key = m.key)"
)
# No memory that was known and true at the time replaced it.
_NOT_REPLACED: LiteralString = (
    "NOT EXISTS (SELECT 1 FROM memories n WHERE n.key = m.superseded_by"
    " AND n.occurred_at <= ? AND n.created_at <= ?)"
)


def where(filters: MemoryFilter) -> tuple[LiteralString, list[object]]:
    """Return an SQL condition on the table `m` and its parameters."""
    from zapomni_db.models import NEVER  # a hook needs no filters of memories

    clauses: list[LiteralString] = []
    values: list[object] = []
    if filters.as_of is not None or filters.known_at is not None:
        true_by = to_time(filters.as_of or NEVER)
        known_by = to_time(filters.known_at or NEVER)
        clauses += ["m.occurred_at <= ?", "m.created_at <= ?", _NOT_REPLACED]
        values += [true_by, known_by] * 2
    elif not filters.include_superseded:
        clauses.append("m.superseded_by IS NULL")
    for field, clause in _EQUAL.items():
        if (wanted := getattr(filters, field)) is not None:
            clauses.append(clause)
            values.append(wanted)
    if filters.projects is not None:
        clauses.append("m.project IN (SELECT value FROM json_each(?))")
        values.append(to_json(filters.projects))
    if filters.not_projects:
        clauses.append("m.project NOT IN (SELECT value FROM json_each(?))")
        values.append(to_json(filters.not_projects))
    if filters.since is not None:
        clauses.append("m.occurred_at >= ?")
        values.append(to_time(filters.since))
    if filters.until is not None:
        clauses.append("m.occurred_at < ?")
        values.append(to_time(filters.until))
    if filters.path is not None:
        clause, paths = in_path("m.source", filters.path)
        clauses.append(clause)
        values += paths
    for tag in filters.tags:
        clauses.append(_TAGGED)
        values.append(tag)
    return " AND ".join(clauses) or "TRUE", values


def in_path(column: LiteralString, path: str) -> tuple[LiteralString, list[object]]:
    """Return the condition that a column names this file or something in this folder.

    A path counts whole or by its end: `auth.py` is `src/auth.py`, `src` is all below it.
    """
    trimmed = path.strip("/")
    end = trimmed.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    like: LiteralString = " OR " + column + " LIKE ? ESCAPE '\\'"
    clause: LiteralString = "(" + column + " IN (?, ?)" + like + like + like + ")"
    return clause, [path, trimmed, f"%/{end}", f"{end}/%", f"%/{end}/%"]
