"""MemoryFilter as SQL. The clauses are constants; values are always bound."""

from __future__ import annotations

from typing import LiteralString

from zapomni_db.models import MemoryFilter
from zapomni_db.sqlite.rows import to_time

__all__ = ["where"]


def where(filters: MemoryFilter) -> tuple[LiteralString, list[object]]:
    """Return an SQL condition on the table `m` and its parameters."""
    clauses: list[LiteralString] = []
    values: list[object] = []

    def add(clause: LiteralString, *bound: object) -> None:
        clauses.append(clause)
        values.extend(bound)

    if not filters.include_superseded:
        add("m.superseded_by IS NULL")
    if filters.project is not None:
        add("m.project = ?", filters.project)
    if filters.source is not None:
        add("m.source = ?", filters.source)
    if filters.kind is not None:
        add("m.kind = ?", filters.kind)
    if filters.parent is not None:
        add("m.parent = ?", filters.parent)
    if filters.pinned is not None:
        add("m.pinned = ?", int(filters.pinned))
    if filters.since is not None:
        add("m.occurred_at >= ?", to_time(filters.since))
    if filters.until is not None:
        add("m.occurred_at < ?", to_time(filters.until))
    for tag in filters.tags:
        add("EXISTS (SELECT 1 FROM memory_tags t WHERE t.tag = ? AND t.memory_key = m.key)", tag)
    return " AND ".join(clauses) or "TRUE", values
