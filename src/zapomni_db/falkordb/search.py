"""The two search arms: words by our own stems, meaning by exact cosine.

Both are worked out by the server, filters included; only what was found comes back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from redis.exceptions import ResponseError

from zapomni_db.exceptions import ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.schema import require_word_index
from zapomni_db.falkordb.spaces import active_slot
from zapomni_db.falkordb.values import (
    Vector,
    as_document,
    as_query,
    from_json,
    from_time,
    stems_of,
    where,
)
from zapomni_db.models import (
    MemoryFilter,
    Passage,
    Place,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
)

__all__ = [
    "find_matches",
    "get_members",
    "get_passages",
    "get_places",
    "get_similarities",
    "rank_by_vector",
    "rank_by_words",
    "search_vectors",
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


async def find_matches(
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


async def get_similarities(
    session: Session, query_embedding: Sequence[float], chunk_ids: Sequence[str]
) -> dict[str, float]:
    if not await _count_vectors(session, query_embedding):
        return {}
    rows = await session.read(
        f"{_VECTORS} MATCH (c:Chunk) WHERE c.id IN $ids AND c[e.vectors] IS NOT NULL"
        " RETURN c.id, 1 - vec.cosineDistance(c[e.vectors], q)",
        query=Vector(query_embedding),
        dimension=len(query_embedding),
        ids=list(chunk_ids),
    )
    return dict(rows)


async def search_vectors(session: Session, request: VectorSearchRequest) -> dict[str, float]:
    """Return the scores of the nearest chunks, by chunk id, best first."""
    count = await _count_vectors(session, request.query_embedding)
    return await _nearest(session, request, count) if count else {}


# --- Where passages stand: their texts, what they belong to, what stands beside them ---


MOST_MEMBERS = 20_000


async def get_passages(session: Session, chunk_ids: Sequence[str]) -> dict[str, Passage]:
    rows = await session.read(
        "MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids"
        " RETURN c.id, m.id, c.text, m.metadata",
        ids=list(chunk_ids),
    )
    return {
        chunk_id: Passage.model_construct(
            chunk_id=chunk_id, memory_id=memory_id, text=text, metadata=from_json(metadata)
        )
        for chunk_id, memory_id, text, metadata in rows
    }


_GROUPS = """
MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids
WITH DISTINCT m.group AS group
MATCH (m:Memory {group: group})-[:HAS_CHUNK]->(c:Chunk)
"""


async def get_members(session: Session, chunk_ids: Sequence[str]) -> dict[str, list[str]]:
    rows = await session.read(
        # One string per group comes back much faster than a row per passage.
        _GROUPS + "WITH group, c LIMIT $most RETURN group, string.join(collect(c.id), ',')",
        ids=list(chunk_ids),
        most=MOST_MEMBERS,
    )
    return {group: ids.split(",") for group, ids in rows}


async def get_places(
    session: Session, chunk_ids: Sequence[str], filters: MemoryFilter
) -> dict[str, Place]:
    condition, values = where(filters)
    rows, groups = await asyncio.gather(
        session.read(
            "MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids"
            f" RETURN c.id, m.id, m.group, m.occurred_at, {condition}",
            ids=list(chunk_ids),
            **values,
        ),
        session.read(
            _GROUPS + "WITH group, m, c ORDER BY c.index"
            " WITH group, m, string.join(collect(c.id), ',') AS ids ORDER BY m.position"
            " RETURN group, string.join(collect(toString(m.position) + ':' + ids), ';')",
            ids=list(chunk_ids),
        ),
    )
    beside: dict[str, tuple[str | None, str | None]] = {}
    sizes: dict[str, int] = {}
    for group, written in groups:
        found = _beside(_read_group(written))
        beside |= found
        sizes[group] = len(found)
    return {
        chunk_id: Place(
            chunk_id, memory_id, group, sizes[group], *beside[chunk_id], from_time(at), selected
        )
        for chunk_id, memory_id, group, at, selected in rows
        # Between the two questions it may have been deleted.
        if chunk_id in beside
    }


def _read_group(written: str) -> list[list[list[str]]]:
    """Return the passages of each memory, and the memories of each position, in order."""
    memories = (memory.split(":") for memory in written.split(";"))
    by_position: dict[str, list[list[str]]] = {}
    for position, ids in memories:
        by_position.setdefault(position, []).append(ids.split(","))
    return list(by_position.values())


def _beside(
    positions: Sequence[Sequence[Sequence[str]]],
) -> dict[str, tuple[str | None, str | None]]:
    """Return what stands before and after each passage.

    That is the next one of its memory, or else of the next memory at another position.
    """
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for memories in positions:
        for ids in memories:
            after |= dict(pairwise(ids))
            before |= {later: earlier for earlier, later in pairwise(ids)}
    for earlier, later in pairwise(positions):
        before |= {ids[0]: earlier[0][-1] for ids in later}
        after |= {ids[-1]: later[0][0] for ids in earlier}
    every = (chunk_id for memories in positions for ids in memories for chunk_id in ids)
    return {chunk_id: (before.get(chunk_id), after.get(chunk_id)) for chunk_id in every}
