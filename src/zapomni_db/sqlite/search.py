"""The two search arms: words by FTS5, meaning by exact cosine. Filters are part of the query."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import LiteralString

from zapomni_db.exceptions import ValidationError
from zapomni_db.models import (
    BM25SearchResult,
    MemoryFilter,
    TextSearchRequest,
    VectorSearchRequest,
    VectorSearchResult,
)
from zapomni_db.sqlite.filters import where
from zapomni_db.sqlite.rows import from_json, to_json
from zapomni_db.sqlite.spaces import active_space
from zapomni_db.sqlite.vector_cache import VectorCache

__all__ = ["by_vector", "by_words"]


def by_words(connection: sqlite3.Connection, request: TextSearchRequest) -> list[BM25SearchResult]:
    expression = _match_expression(request.terms)
    if not expression:
        return []
    selection, values = _selection(request.filters)
    # Ids are ranked first and texts read after: the sorter would copy every matching text.
    scores = dict(
        connection.execute(
            "SELECT rowid, -bm25(chunks_fts) AS score FROM chunks_fts WHERE chunks_fts MATCH ?"
            + selection
            + " ORDER BY score DESC, rowid LIMIT ?",
            [expression, *values, request.limit],
        ).fetchall()
    )
    return [
        BM25SearchResult.model_construct(
            chunk_id=str(row[0]),
            memory_id=row[1],
            text=row[2],
            metadata=from_json(row[3]),
            bm25_score=scores[row[0]],
        )
        for row in _hits(connection, scores)
    ]


_SUPERSEDED = (
    "SELECT c.id FROM memories m JOIN chunks c ON c.memory_key = m.key"
    " WHERE m.superseded_by IS NOT NULL"
)
_MATCHING = "SELECT c.id FROM memories m JOIN chunks c ON c.memory_key = m.key WHERE "


def _selection(filters: MemoryFilter) -> tuple[LiteralString, list[object]]:
    """Return the filter as a condition on chunk ids: one set, instead of two joins per match.

    The plus keeps the word index in the lead: with a plain rowid, SQLite would run the whole
    word query once for every id of the set.
    """
    if filters == MemoryFilter():
        return " AND +rowid NOT IN (" + _SUPERSEDED + ")", []
    condition, values = where(filters)
    return " AND +rowid IN (" + _MATCHING + condition + ")", values


def _match_expression(terms: Iterable[str]) -> str:
    """Quote every term, so that nothing a user types is FTS5 syntax."""
    quoted = ('"' + term.replace("\0", " ").replace('"', '""') + '"' for term in terms)
    return " OR ".join(quoted)


def by_vector(
    connection: sqlite3.Connection, cache: VectorCache, request: VectorSearchRequest
) -> list[VectorSearchResult]:
    active = active_space(connection)
    if active is None:
        return []
    space_key, space = active
    if len(request.query_embedding) != space.dimension:
        raise ValidationError(
            f"query embedding dimension must be {space.dimension}, "
            f"got {len(request.query_embedding)}",
            "VAL_003",
        )
    only, without = _selected(connection, request.filters)
    found = cache.search(
        connection, space_key, request.query_embedding, request.limit, only=only, without=without
    )
    scores = {chunk_id: score for chunk_id, score in found if score >= request.min_similarity}
    return [
        VectorSearchResult.model_construct(
            chunk_id=str(row[0]),
            memory_id=row[1],
            text=row[2],
            metadata=from_json(row[3]),
            similarity_score=min(max(scores[row[0]], 0.0), 1.0),
        )
        for row in _hits(connection, scores)
    ]


def _selected(
    connection: sqlite3.Connection, filters: MemoryFilter
) -> tuple[set[int] | None, set[int] | None]:
    """Return the chunks that alone count, or else those that do not."""
    if filters == MemoryFilter():
        return None, {row[0] for row in connection.execute(_SUPERSEDED)}
    condition, values = where(filters)
    return {row[0] for row in connection.execute(_MATCHING + condition, values)}, None


def _hits(
    connection: sqlite3.Connection, scores: dict[int, float]
) -> list[tuple[int, str, str, str]]:
    rows = connection.execute(
        "SELECT c.id, m.id, c.text, m.metadata FROM chunks c JOIN memories m"
        " ON m.key = c.memory_key WHERE c.id IN (SELECT value FROM json_each(?))",
        (to_json(list(scores)),),
    ).fetchall()
    return sorted(rows, key=lambda row: (-scores[row[0]], row[0]))
