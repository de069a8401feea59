"""MemoryFilter as Cypher. The clauses are constants; values are always parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, LiteralString

from zapomni_db.falkordb.values import digest, to_time
from zapomni_db.models import MemoryFilter

__all__ = ["where"]

# What is asked, how it reads, and what the question is compared with.
_CLAUSES: dict[str, tuple[LiteralString, Callable[[Any], Any]]] = {
    "project": ("m.project_hash = $project", digest),
    "source": ("m.source = $source", str),
    "kind": ("m.kind = $kind", str),
    "not_kind": ("m.kind <> $not_kind", str),
    "parent": ("m.parent = $parent", str),
    "pinned": ("m.pinned = $pinned", bool),
    "since": ("m.occurred_at >= $since", to_time),
    "until": ("m.occurred_at < $until", to_time),
    "as_of": (
        "m.created_at <= $as_of AND (m.superseded_at IS NULL OR m.superseded_at > $as_of)",
        to_time,
    ),
}
# A path counts whole or by its end: `auth.py` is `src/auth.py`, `src` is all below it.
_IN_PATH: LiteralString = (
    "(m.source IN [$path, $path_end] OR m.source ENDS WITH ('/' + $path_end)"
    " OR m.source STARTS WITH ($path_end + '/') OR m.source CONTAINS ('/' + $path_end + '/'))"
)
_TAGGED: LiteralString = "$tag{} IN m.tags"


def where(filters: MemoryFilter) -> tuple[str, dict[str, Any]]:
    """Return a condition on the node `m` and its parameters."""
    clauses: list[str] = []
    values: dict[str, Any] = {}
    if not filters.include_superseded and filters.as_of is None:
        clauses.append("m.superseded_by IS NULL")
    for field, (clause, convert) in _CLAUSES.items():
        if (wanted := getattr(filters, field)) is not None:
            clauses.append(clause)
            values[field] = convert(wanted)
    if filters.path is not None:
        clauses.append(_IN_PATH)
        values |= {"path": filters.path, "path_end": filters.path.strip("/")}
    # Not `all(tag IN $tags ...)`: after a WITH, FalkorDB 4.16 gets it wrong without a word.
    for number, tag in enumerate(filters.tags):
        clauses.append(_TAGGED.format(number))
        values[f"tag{number}"] = tag
    return " AND ".join(clauses) or "true", values
