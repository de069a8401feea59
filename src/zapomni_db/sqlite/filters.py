"""MemoryFilter as SQL. The clauses are constants; values are always bound."""

from __future__ import annotations

from typing import LiteralString

from zapomni_db.models import MemoryFilter
from zapomni_db.sqlite.rows import to_time

__all__ = ["where"]


_EQUAL: dict[str, LiteralString] = {
    "project": "m.project = ?",
    "source": "m.source = ?",
    "kind": "m.kind = ?",
    "parent": "m.parent = ?",
    "pinned": "m.pinned = ?",
}
_TAGGED: LiteralString = (
    "EXISTS (SELECT 1 FROM memory_tags t WHERE t.tag = ? AND t.memory_key = m.key)"
)


def where(filters: MemoryFilter) -> tuple[LiteralString, list[object]]:
    """Return an SQL condition on the table `m` and its parameters."""
    clauses: list[LiteralString] = []
    values: list[object] = []
    if not filters.include_superseded:
        clauses.append("m.superseded_by IS NULL")
    for field, clause in _EQUAL.items():
        if (wanted := getattr(filters, field)) is not None:
            clauses.append(clause)
            values.append(wanted)
    if filters.since is not None:
        clauses.append("m.occurred_at >= ?")
        values.append(to_time(filters.since))
    if filters.until is not None:
        clauses.append("m.occurred_at < ?")
        values.append(to_time(filters.until))
    for tag in filters.tags:
        clauses.append(_TAGGED)
        values.append(tag)
    return " AND ".join(clauses) or "TRUE", values
