"""The two search arms: words by our own stems, meaning by exact cosine.

Both are worked out by the server, filters included; only what was found comes back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from zapomni_db.exceptions import ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.filters import where
from zapomni_db.falkordb.places import passages
from zapomni_db.falkordb.schema import require_word_index
from zapomni_db.falkordb.spaces import active_slot
from zapomni_db.falkordb.values import Vector
from zapomni_db.falkordb.words import as_document, as_query, stems_of
from zapomni_db.models import (
    BM25SearchResult,
    MemoryFilter,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
    VectorSearchResult,
)

__all__ = [
    "by_vector",
    "by_words",
    "matches",
    "rank_by_vector",
    "rank_by_words",
    "similarities",
]

# As SQLite has them: both engines rank alike.
K1, B = 1.2, 0.75
LEAST_WEIGHT = 1e-6

# Fewer vectors are compared one by one; of more, those the vector index finds, when nothing is
# filtered. It is asked for more than is wanted, and misses hardly any of the best then.
INDEX_FROM = 20_000
INDEX_AT_LEAST = 200
SAMPLE = 2_000

_MATCHING = """
UNWIND $phrases AS p
CALL db.idx.fulltext.queryNodes('Chunk', p.query) YIELD node AS c
WITH p, c WHERE p.is_word OR c.words CONTAINS p.text
"""


def _phrases(terms: Iterable[str]) -> list[dict[str, Any]]:
    """Return each term that has any words as the index reads it, with its number."""
    return [
        {"number": number, "query": as_query(stems), "text": as_document(stems),
         "is_word": len(stems) == 1}
        for number, stems in enumerate(stems_of(list(terms)))
        if stems
    ]  # fmt: skip


async def rank_by_words(session: Session, request: TextSearchRequest) -> dict[str, float]:
    phrases = _phrases(request.terms)
    if not phrases:
        return {}
    condition, values = where(request.filters)
    rows = await session.read(
        f"""
        {_MATCHING}
        WITH p, collect(c) AS found MATCH (s:Store)
        WITH p, found, CASE WHEN s.words > 0 AND s.chunks > 0
                THEN s.words * 1.0 / s.chunks ELSE 1.0 END AS average,
            CASE WHEN s.chunks > size(found) THEN
                log((s.chunks - size(found) + 0.5) / (size(found) + 0.5)) ELSE 0.0 END AS weight
        UNWIND found AS c
        MATCH (m:Memory)-[:HAS_CHUNK]->(c) WHERE {condition}
        WITH c, CASE WHEN weight > 0 THEN weight ELSE $least END AS weight,
            size(split(c.words, p.text)) - 1 AS f, 1 - $b + $b * c.size / average AS length
        WITH c, sum(weight * f * ($k1 + 1) / (f + $k1 * length)) AS score
        RETURN c.id, score ORDER BY score DESC, c.key LIMIT $limit
        """,
        phrases=phrases,
        least=LEAST_WEIGHT,
        k1=K1,
        b=B,
        limit=request.limit,
        **values,
    )
    if not rows:
        await require_word_index(session)
    return dict(rows)


async def matches(
    session: Session, phrases: Sequence[str], limit: int
) -> dict[str, frozenset[str] | None]:
    found: dict[str, frozenset[str] | None] = dict.fromkeys(phrases, frozenset())
    asked = _phrases(phrases)
    if not asked:
        return found
    # Counted first: to gather a word's passages costs far more, and of common ones for nothing.
    counts = await session.read(_MATCHING + "RETURN p.number, count(c)", phrases=asked)
    for number, count in counts:
        if count > limit:
            found[phrases[number]] = None
    few = [phrase for phrase in asked if found[phrases[phrase["number"]]] is not None]
    rows = await session.read(
        # One string comes back much faster than many.
        _MATCHING + "RETURN p.number, string.join(collect(c.id), ',')",
        phrases=few,
    )
    return found | {phrases[number]: frozenset(ids.split(",")) for number, ids in rows}


_VECTORS = """
MATCH (e:EmbeddingSpace {active: true}) WHERE e.dimension = $dimension
WITH e, vecf32($query) AS q
"""
_BEST = """
WITH e, c, 1 - vec.cosineDistance(c[e.vectors], q) AS score WHERE score >= $least
RETURN c.id, score ORDER BY score DESC, c.key LIMIT $limit
"""


async def rank_by_vector(session: Session, request: VectorSearchRequest) -> VectorRanking:
    count = await _count_vectors(session, request.query_embedding)
    if not count:
        return VectorRanking(scores={})
    scores, (mean, deviation, among) = await asyncio.gather(
        _nearest(session, request, count), _spread(session, request, count)
    )
    return VectorRanking.model_construct(scores=scores, mean=mean, deviation=deviation, count=among)


async def _count_vectors(session: Session, query: Sequence[float]) -> int:
    """Return about how many chunks a vector may be compared with; 0 if it says nothing.

    Raises:
        ValidationError: It has another dimension than those that are stored.
    """
    slot, chunks = await active_slot(session)
    if slot.space is None:
        return 0
    if len(query) != slot.space.dimension:
        raise ValidationError(
            f"query embedding dimension must be {slot.space.dimension}, got {len(query)}",
            "VAL_003",
        )
    return chunks if 0.0 < math.hypot(*query) < math.inf else 0


async def _nearest(session: Session, request: VectorSearchRequest, count: int) -> dict[str, float]:
    if count > INDEX_FROM and request.filters == MemoryFilter():
        near = await _nearest_by_index(session, request)
        if len(near) >= request.limit:
            return near
    condition, values = where(request.filters)
    rows = await session.read(
        f"{_VECTORS} MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk)"
        f" WHERE c[e.vectors] IS NOT NULL AND {condition} WITH e, q, c {_BEST}",
        **_asked(request),
        **values,
    )
    return dict(rows)


def _asked(request: VectorSearchRequest) -> dict[str, Any]:
    return {
        "query": Vector(request.query_embedding),
        "dimension": len(request.query_embedding),
        "least": request.min_similarity,
        "limit": request.limit,
    }


async def _nearest_by_index(session: Session, request: VectorSearchRequest) -> dict[str, float]:
    condition, values = where(request.filters)
    try:
        rows = await session.read(
            f"{_VECTORS} CALL db.idx.vector.queryNodes('Chunk', e.vectors, $near, q)"
            " YIELD node AS c MATCH (m:Memory)-[:HAS_CHUNK]->(c)"
            f" WHERE {condition} WITH e, q, c {_BEST}",
            near=max(INDEX_AT_LEAST, 2 * request.limit),
            **_asked(request),
            **values,
        )
    except ResponseError:
        # It is still being built.
        return {}
    return dict(rows)


async def _spread(
    session: Session, request: VectorSearchRequest, count: int
) -> tuple[float, float, int]:
    """Return mean and deviation of the cosines of all that counts, and how many that are.

    Of many, an even share is enough to know that.
    """
    condition, values = where(request.filters)
    step = max(1, count // SAMPLE)
    rows = await session.read(
        f"{_VECTORS} MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk)"
        f" WHERE c.key % $step = 0 AND c[e.vectors] IS NOT NULL AND {condition}"
        " WITH 1 - vec.cosineDistance(c[e.vectors], q) AS score"
        " RETURN avg(score), stDevP(score), count(score)",
        query=Vector(request.query_embedding),
        dimension=len(request.query_embedding),
        step=step,
        **values,
    )
    mean, deviation, sampled = rows[0]
    return mean or 0.0, deviation or 0.0, sampled * step


async def similarities(
    session: Session, query: Sequence[float], chunk_ids: Sequence[str]
) -> dict[str, float]:
    if not await _count_vectors(session, query):
        return {}
    rows = await session.read(
        f"{_VECTORS} MATCH (c:Chunk) WHERE c.id IN $ids AND c[e.vectors] IS NOT NULL"
        " RETURN c.id, 1 - vec.cosineDistance(c[e.vectors], q)",
        query=Vector(query),
        dimension=len(query),
        ids=list(chunk_ids),
    )
    return dict(rows)


async def by_words(session: Session, request: TextSearchRequest) -> list[BM25SearchResult]:
    scores = await rank_by_words(session, request)
    found = await passages(session, list(scores))
    return [
        BM25SearchResult.model_construct(**dict(found[chunk_id]), bm25_score=score)
        for chunk_id, score in scores.items()
        if chunk_id in found
    ]


async def by_vector(session: Session, request: VectorSearchRequest) -> list[VectorSearchResult]:
    count = await _count_vectors(session, request.query_embedding)
    scores = await _nearest(session, request, count) if count else {}
    found = await passages(session, list(scores))
    return [
        VectorSearchResult.model_construct(
            **dict(found[chunk_id]), similarity_score=min(max(score, 0.0), 1.0)
        )
        for chunk_id, score in scores.items()
        if chunk_id in found
    ]
