"""Searching chunks: by words with BM25 over our own stems, by vectors with exact cosines.

The server computes both, filters included; only the hits come back. Each function asks the server
once, except where it says otherwise: what a search needs together is one statement, made of the
statements of the single reads. Any number of them may run at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, LiteralString, NamedTuple

from redis.exceptions import ResponseError

from zapomni_db.exceptions import ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph_reads import (
    MENTIONS_OF_CHUNKS,
    MENTIONS_OF_ENTITIES,
    NAMED,
    to_mentions,
    to_moment,
)
from zapomni_db.falkordb.memories import (
    LONG_BEGINNINGS,
    SUMMARIES,
    SUMMARY,
    to_beginnings,
    to_summaries,
)
from zapomni_db.falkordb.schema import require_word_index
from zapomni_db.falkordb.spaces import (
    STATE,
    TOKENS,
    active_slot,
    get_state,
    get_tokens,
    to_state,
    to_tokens_by_id,
)
from zapomni_db.falkordb.values import Vector, as_document, as_query, digest, stems_of, where
from zapomni_db.models import (
    Hits,
    MemoryFilter,
    MemorySummary,
    Mention,
    Passage,
    Place,
    StoreState,
    Surroundings,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
)
from zapomni_db.spelling import MOST_TEXTS, nearest_word
from zapomni_db.values import from_time

__all__ = [
    "begin_search",
    "find_hits",
    "find_matches",
    "find_near_words",
    "get_hits",
    "get_hop",
    "get_members",
    "get_passages",
    "get_places",
    "get_pool",
    "get_similarities",
    "get_surroundings",
    "rank_by_vector",
    "rank_by_words",
    "search_vectors",
]

# --- Words ------------------------------------------------------------------------------

# As SQLite has them: both engines rank alike.
K1, B = 1.2, 0.75
LEAST_WEIGHT = 1e-6

# Finds the chunks `c` that contain a phrase `p`.
_MATCHING: LiteralString = """
UNWIND $phrases AS p
CALL db.idx.fulltext.queryNodes('Chunk', p.query) YIELD node AS c
WITH p, c WHERE p.is_word OR c.words CONTAINS p.text
"""
# Finds the ids of the chunks that contain each phrase; of frequent phrases it only counts them:
# collecting a phrase's chunks costs far more. One string comes back much faster than many.
_RARE_MATCHES: LiteralString = f"""
{_MATCHING}
WITH p, count(c) AS number
CALL {{
    WITH p, number WITH p WHERE number <= $limit
    CALL db.idx.fulltext.queryNodes('Chunk', p.query) YIELD node AS c
    WITH p, c WHERE p.is_word OR c.words CONTAINS p.text
    RETURN string.join(collect(c.id), ',') AS ids
}}
RETURN collect([p.number, number, ids]) AS matches
"""
# Finds the state of the store, and those chunks.
_STATE_AND_MATCHES: LiteralString = (
    f"{STATE} CALL {{ {_RARE_MATCHES} }} RETURN slot, chunks, version, second, matches"
)
# Weighs each phrase by how rare it is; continues with its chunks `c` and their memories `m`.
_WEIGHED: LiteralString = f"""
{_MATCHING}
WITH p, collect(c) AS found MATCH (s:Store)
WITH p, found, CASE WHEN s.words > 0 AND s.chunks > 0
        THEN s.words * 1.0 / s.chunks ELSE 1.0 END AS average,
    CASE WHEN s.chunks > size(found) THEN
        log((s.chunks - size(found) + 0.5) / (size(found) + 0.5)) ELSE 0.0 END AS weight
UNWIND found AS c
MATCH (m:Memory)-[:HAS_CHUNK]->(c)
"""
# Scores those chunks with BM25.
_BM25: LiteralString = """
WITH c, CASE WHEN weight > 0 THEN weight ELSE $least END AS weight,
    size(split(c.words, p.text)) - 1 AS f, 1 - $b + $b * c.size / average AS length
WITH c, sum(weight * f * ($k1 + 1) / (f + $k1 * length)) AS score
"""
_BEST: LiteralString = " RETURN c.id, score ORDER BY score DESC, c.key LIMIT $limit"
# The best of them as passages with their memories.
_BEST_HITS: LiteralString = f"""
WITH c, score ORDER BY score DESC, c.key LIMIT $limit
MATCH (m:Memory)-[:HAS_CHUNK]->(c)
RETURN [c.id, m.id, c.text, m.metadata], [{SUMMARY}] ORDER BY score DESC, c.key
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
    """Asks twice if nothing was found: then it also checks that the index exists."""
    phrases = _phrases(request.terms)
    if not phrases:
        return {}
    rows = await _read_best(session, request, phrases, _BEST)
    if not rows:
        await require_word_index(session)
    return dict(rows)


async def find_hits(
    session: Session, request: TextSearchRequest
) -> tuple[dict[str, MemorySummary], dict[str, Passage]]:
    phrases = _phrases(request.terms)
    rows = await _read_best(session, request, phrases, _BEST_HITS) if phrases else []
    return to_summaries([memory for _, memory in rows]), _to_passages([own for own, _ in rows])


async def _read_best(
    session: Session,
    request: TextSearchRequest,
    phrases: Sequence[dict[str, Any]],
    returned: LiteralString,
) -> Sequence[Any]:
    condition, values = where(request.filters)
    return await session.read(
        f"{_WEIGHED} WHERE {condition} {_BM25} {returned}",
        phrases=phrases,
        least=LEAST_WEIGHT,
        k1=K1,
        b=B,
        limit=request.limit,
        **values,
    )


async def find_matches(
    session: Session, phrases: Sequence[str], limit: int
) -> dict[str, frozenset[str] | None]:
    asked = _phrases(phrases)
    ((rows,),) = await session.read(_RARE_MATCHES, phrases=asked, limit=limit) if asked else [[[]]]
    return _to_matches(phrases, limit, rows)


async def begin_search(
    session: Session, phrases: Sequence[str], limit: int
) -> tuple[StoreState, dict[str, frozenset[str] | None]]:
    asked = _phrases(phrases)
    if not asked:
        return await get_state(session), _to_matches(phrases, limit, [])
    ((*state, rows),) = await session.read_store(_STATE_AND_MATCHES, phrases=asked, limit=limit)
    return to_state(session, state), _to_matches(phrases, limit, rows)


# Finds texts that have a word like another.
_TEXTS_LIKE: LiteralString = """
CALL db.idx.fulltext.queryNodes('Chunk', $query) YIELD node AS c
MATCH (m:Memory)-[:HAS_CHUNK]->(c)
"""


async def find_near_words(
    session: Session, words: Sequence[str], filters: MemoryFilter
) -> dict[str, str]:
    """Asks once for each word."""
    condition, values = where(filters)
    found: dict[str, str] = {}
    for word, stems in zip(words, stems_of(list(words)), strict=True):
        if len(stems) != 1:
            continue
        rows = await session.read(
            f"{_TEXTS_LIKE} WHERE {condition} RETURN c.text LIMIT $limit",
            # Ends of words change with their letters: the stem may be farther away than the word.
            query=f"%%{stems[0]}%%",
            limit=MOST_TEXTS * 4,
            **values,
        )
        if near := nearest_word(word, [text for (text,) in rows]):
            found[word] = near
    return found


def _to_matches(
    phrases: Sequence[str], limit: int, rows: Sequence[Any]
) -> dict[str, frozenset[str] | None]:
    """Return what `_RARE_MATCHES` found, by phrase."""
    found: dict[str, frozenset[str] | None] = dict.fromkeys(phrases, frozenset())
    for number, count, ids in rows:
        found[phrases[number]] = None if count > limit else frozenset(ids.split(","))
    return found


# --- Vectors ----------------------------------------------------------------------------

# Fewer vectors are compared one by one; of more, those the vector index finds, when nothing is
# filtered. The index is asked for more than is wanted: then it misses hardly any of the best.
INDEX_FROM = 20_000
INDEX_AT_LEAST = 200
SAMPLE = 2_000

# Finds the active space and in which property its vectors are: none if the dimension is another.
_SPACE: LiteralString = """
MATCH (s:Store) OPTIONAL MATCH (e:EmbeddingSpace) WHERE e[$which] = true
WITH s.chunks AS chunks, e.dimension AS dimension, vecf32($query) AS q,
    CASE WHEN e.dimension = $dimension THEN e.vectors ELSE '' END AS vectors
"""
# Begins to compare with every chunk that has a vector.
_EVERY_VECTOR: LiteralString = (
    "WITH vectors, q MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c[vectors] IS NOT NULL"
)
# Begins to compare with the chunks that the vector index finds.
_INDEXED_VECTORS: LiteralString = (
    "WITH vectors, q CALL db.idx.vector.queryNodes('Chunk', vectors, $near, q) YIELD node AS c"
    " MATCH (m:Memory)-[:HAS_CHUNK]->(c) WHERE true"
)
# Collects the nearest chunks.
_NEAREST: LiteralString = """
WITH c, 1 - vec.cosineDistance(c[vectors], q) AS score WHERE score >= $least
WITH c, score ORDER BY score DESC, c.key LIMIT $limit
RETURN collect([c.id, score]) AS nearest
"""
# Begins to compare with an even sample of the chunks: enough to know how cosines are distributed.
_STEP: LiteralString = """
WITH vectors, q,
    CASE WHEN chunks > $sample THEN toInteger(floor(chunks * 1.0 / $sample)) ELSE 1 END AS step
"""
_SAMPLED_VECTORS: LiteralString = f"""
{_STEP} MATCH (c:Chunk) WHERE c.key % step = 0
WITH vectors, q, step, c MATCH (m:Memory)-[:HAS_CHUNK]->(c) WHERE c[vectors] IS NOT NULL
"""
# The same where an index finds few memories: half as fast among all, many times as fast then.
_SAMPLED_VECTORS_OF_PROJECT: LiteralString = f"""
{_STEP} MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk)
WHERE c.key % step = 0 AND c[vectors] IS NOT NULL
"""
# Returns mean and deviation of the cosines, and of about how many chunks they are.
_SPREAD: LiteralString = """
WITH step, 1 - vec.cosineDistance(c[vectors], q) AS score
RETURN avg(score) AS mean, stDevP(score) AS deviation, sum(step) AS compared
"""
# Compares with chunks by id, and finds the token vectors of some.
_SIMILARITIES: LiteralString = f"""
{_SPACE}
OPTIONAL MATCH (c:Chunk) WHERE c.id IN $ids AND c[vectors] IS NOT NULL
WITH dimension, collect(CASE WHEN c IS NOT NULL THEN
    [c.id, 1 - vec.cosineDistance(c[vectors], q)] END) AS similarities
CALL {{ {TOKENS} }}
RETURN dimension, similarities, tokens
"""


async def rank_by_vector(session: Session, request: VectorSearchRequest) -> VectorRanking:
    """Asks again if the vector index is used and finds too few."""
    if not await _is_comparable(session, request.query_embedding, second=request.second):
        return VectorRanking(scores={})
    condition, values = where(request.filters)
    in_project = request.filters.project is not None or request.filters.projects is not None
    sampled = _SAMPLED_VECTORS_OF_PROJECT if in_project else _SAMPLED_VECTORS
    spread = f"CALL {{ WITH chunks, vectors, q {sampled} AND {condition} {_SPREAD} }}"
    columns = "mean, deviation, compared"
    answer = await _read_nearest(session, request, condition, values, spread, columns)
    nearest, mean, deviation, compared = answer
    return VectorRanking.model_construct(
        scores=dict(nearest),
        mean=mean or 0.0,
        deviation=deviation or 0.0,
        count=int(compared or 0),
    )


async def search_vectors(session: Session, request: VectorSearchRequest) -> dict[str, float]:
    """Return the scores of the nearest chunks, by chunk id, best first."""
    if not await _is_comparable(session, request.query_embedding):
        return {}
    condition, values = where(request.filters)
    (nearest,) = await _read_nearest(session, request, condition, values, "", "")
    return dict(nearest)


async def _is_comparable(session: Session, query: Sequence[float], *, second: bool = False) -> bool:
    """Return whether a vector has a direction; see that the number of chunks is known."""
    has_direction = 0.0 < math.hypot(*query) < math.inf
    if not second and (not has_direction or session.known.chunks is None):
        slot, _ = await active_slot(session)
        _check_dimension(query, slot.space.dimension if slot.space else None)
    return has_direction


def _check_dimension(query: Sequence[float], dimension: int | None) -> None:
    """Refuse a vector of another dimension than those that are stored."""
    if dimension is not None and len(query) != dimension:
        raise ValidationError(
            f"query embedding dimension must be {dimension}, got {len(query)}", "VAL_003"
        )


async def _read_nearest(
    session: Session,
    request: VectorSearchRequest,
    condition: str,
    values: dict[str, Any],
    also: str,
    columns: str,
) -> list[Any]:
    """Return the nearest chunks, then the columns of another part of the same statement."""
    asked = {
        "query": Vector(request.query_embedding),
        "dimension": len(request.query_embedding),
        "least": request.min_similarity,
        "limit": request.limit,
        "sample": SAMPLE,
        "which": "second" if request.second else "active",
        "near": max(INDEX_AT_LEAST, 2 * request.limit),
        **values,
    }
    returned = f" RETURN dimension, chunks, nearest{', ' if columns else ''}{columns}"
    # Enough of the nearest that are in these projects are the nearest of these projects.
    is_open = request.filters.in_every_project() == MemoryFilter()
    # The second space has no index: its passages are a part of all.
    many = (session.known.chunks or 0) > INDEX_FROM and is_open and not request.second
    answer: list[Any] = []
    for source in (_INDEXED_VECTORS, _EVERY_VECTOR) if many else (_EVERY_VECTOR,):
        nearest = f"CALL {{ WITH vectors, q {source} AND {condition} {_NEAREST} }}"
        try:
            rows = await session.read_store(f"{_SPACE}{nearest}{also}{returned}", **asked)
        except ResponseError:
            if source is _EVERY_VECTOR:
                raise
            # The index is still being built, or there is none.
            continue
        ((dimension, chunks, *answer),) = rows
        _check_dimension(request.query_embedding, dimension)
        session.known.chunks = chunks
        if len(answer[0]) >= request.limit:
            break
    return answer


async def get_similarities(
    session: Session,
    query_embedding: Sequence[float],
    chunk_ids: Sequence[str],
    *,
    second: bool = False,
) -> dict[str, float]:
    similarities, _ = await _read_scores(session, query_embedding, chunk_ids, [], second=second)
    return similarities


async def _read_scores(
    session: Session,
    query_embedding: Sequence[float] | None,
    chunk_ids: Sequence[str],
    token_ids: Sequence[str],
    *,
    second: bool = False,
) -> tuple[dict[str, float], dict[str, bytes]]:
    """Return how near some chunks are, and the token vectors of some."""
    compare = (
        query_embedding
        and chunk_ids
        and await _is_comparable(session, query_embedding, second=second)
    )
    if not compare or not query_embedding:
        return {}, await get_tokens(session, token_ids)
    ((dimension, similarities, tokens),) = await session.read_store(
        _SIMILARITIES,
        query=Vector(query_embedding),
        dimension=len(query_embedding),
        which="second" if second else "active",
        ids=list(chunk_ids),
        token_ids=list(token_ids),
    )
    _check_dimension(query_embedding, dimension)
    return dict(similarities), to_tokens_by_id(tokens)


# --- Passages: texts, groups, neighbors -------------------------------------------------

MAX_MEMBERS = 20_000

# Finds the texts of chunks.
_PASSAGES: LiteralString = (
    "MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids"
    " RETURN collect([c.id, m.id, c.text, m.metadata]) AS passages"
)
# Compares chunks of memories without a parent with each other.
_COSINES: LiteralString = """
MATCH (e:EmbeddingSpace {active: true}) MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk)
WHERE c.id IN $compared AND m.parent = '' AND c[e.vectors] IS NOT NULL
WITH e.vectors AS vectors, collect(c) AS found
UNWIND found AS a UNWIND found AS b WITH vectors, a, b WHERE a.key < b.key
RETURN collect([a.id, b.id, 1 - vec.cosineDistance(a[vectors], b[vectors])]) AS cosines
"""
# Finds the memories and the texts of hits and what compares them, and counts other memories; the
# condition of the filters takes the place of %s.
_HITS: LiteralString = f"""
CALL {{ {SUMMARIES} }} CALL {{ {_PASSAGES} }} CALL {{ {LONG_BEGINNINGS} }} CALL {{ {_COSINES} }}
CALL {{
    MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $others AND %s
    RETURN count(DISTINCT m) AS elsewhere
}}
RETURN summaries, passages, beginnings, cosines, elsewhere
"""
# Finds the texts of the best chunks, and the chunks that mention their entities.
_HOP: LiteralString = (
    f"CALL {{ {_PASSAGES} }} CALL {{ {MENTIONS_OF_ENTITIES} }} RETURN passages, mentions"
)
# Finds token vectors, mentions and texts of chunks, and the entities that a question names.
_POOL: LiteralString = (
    f"CALL {{ {TOKENS} }} CALL {{ {MENTIONS_OF_CHUNKS} }} CALL {{ {NAMED} }}"
    " CALL { MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $passage_ids"
    " RETURN collect([c.id, m.id, c.text, m.metadata]) AS passages }"
    " RETURN tokens, mentions, named, passages"
)
# Finds all chunks of the groups of chunks. One string comes back much faster than many.
_MEMBERS: LiteralString = """
MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids
WITH DISTINCT m.group AS group
MATCH (m:Memory {group: group})-[:HAS_CHUNK]->(c:Chunk)
WITH group, c LIMIT $most RETURN group, string.join(collect(c.id), ',')
"""
# Collects chunks by group, with all memories of the group in order; the condition of the filters
# takes the place of %s. Of each memory: its position, when it was, whether the filters select it,
# its chunks. An id of a memory contains no control character.
_GROUPS: LiteralString = """
MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids
WITH m.group AS group, collect(c.id) AS found
CALL {
    WITH group MATCH (m:Memory {group: group})-[:HAS_CHUNK]->(c:Chunk)
    WITH m, c ORDER BY c.index
    WITH m, string.join(collect(c.id), ',') AS ids ORDER BY m.position
    RETURN string.join(collect(m.id), '\n') AS memory_ids,
        string.join(collect(toString(m.position) + ':' + toString(m.occurred_at)
            + CASE WHEN %s THEN ':1:' ELSE ':0:' END + ids), ';') AS members
}
RETURN group, found, memory_ids, members
"""


async def get_passages(session: Session, chunk_ids: Sequence[str]) -> dict[str, Passage]:
    if not chunk_ids:
        return {}
    ((passages,),) = await session.read(_PASSAGES, ids=list(chunk_ids))
    return _to_passages(passages)


def _to_passages(rows: Sequence[Any]) -> dict[str, Passage]:
    """Return what `_PASSAGES` found, by the chunks' ids."""
    return {
        chunk_id: Passage(chunk_id, memory_id, text, metadata)
        for chunk_id, memory_id, text, metadata in rows
    }


async def get_members(session: Session, chunk_ids: Sequence[str]) -> dict[str, list[str]]:
    if not chunk_ids:
        return {}
    rows = await session.read(_MEMBERS, ids=list(chunk_ids), most=MAX_MEMBERS)
    return {group: ids.split(",") for group, ids in rows}


async def get_places(
    session: Session, chunk_ids: Sequence[str], filters: MemoryFilter
) -> dict[str, Place]:
    groups = await _read_groups(session, chunk_ids, filters)
    return {chunk_id: group.place(chunk_id) for group in groups for chunk_id in group.found}


async def get_surroundings(
    session: Session,
    chunk_ids: Sequence[str],
    filters: MemoryFilter,
    query_embedding: Sequence[float] | None,
    *,
    around: Sequence[str] = (),
    members: bool = False,
    tokens: bool = False,
) -> Surroundings:
    """Asks for the groups, then for what scores the chunks."""
    groups = {group.name: group for group in await _read_groups(session, chunk_ids, filters)}
    places = {i: group.place(i) for group in groups.values() for i in group.found}
    # Neighbors are in the same groups.
    for place in [places[i] for i in around if i in places]:
        for neighbor in place.neighbours:
            places.setdefault(neighbor, groups[place.group].place(neighbor))
    selected = [place for place in places.values() if place.selected]
    ids = [place.chunk_id for place in selected]
    scored = {*ids, *(neighbor for place in selected for neighbor in place.neighbours)}
    similarities, vectors = await _read_scores(
        session, query_embedding, sorted(scored), ids if tokens else []
    )
    shown: dict[str, list[str]] = {}
    # As many chunks as `get_members` returns at most.
    room = MAX_MEMBERS
    for name in dict.fromkeys(place.group for place in selected) if members else ():
        if room:
            shown[name] = list(groups[name].chunks)[:room]
            room -= len(shown[name])
    return Surroundings(places, shown, similarities, vectors)


async def get_pool(
    session: Session,
    token_ids: Sequence[str],
    chunk_ids: Sequence[str],
    names: Sequence[str],
    as_of: datetime | None,
    passage_ids: Sequence[str] = (),
) -> tuple[dict[str, bytes], dict[str, list[Mention]], list[str], dict[str, Passage]]:
    if not (token_ids or chunk_ids or names or passage_ids):
        return {}, {}, [], {}
    ((tokens, mentions, named, passages),) = await session.read(
        _POOL,
        token_ids=list(token_ids),
        ids=list(chunk_ids),
        hashes=[digest(name) for name in names],
        now=to_moment(as_of),
        passage_ids=list(passage_ids),
    )
    found = _to_passages(passages)
    return to_tokens_by_id(tokens), to_mentions(mentions), sorted(named), found


async def get_hop(
    session: Session,
    chunk_ids: Sequence[str],
    entity_ids: Sequence[str],
    as_of: datetime | None,
    limit: int,
) -> tuple[dict[str, Passage], dict[str, list[Mention]]]:
    ((passages, mentions),) = await session.read(
        _HOP,
        ids=list(chunk_ids),
        entities=list(entity_ids),
        now=to_moment(as_of),
        limit=limit,
    )
    found: dict[str, list[Mention]] = {entity_id: [] for entity_id in entity_ids}
    found |= to_mentions(mentions)
    return _to_passages(passages), found


async def get_hits(
    session: Session,
    memory_ids: Sequence[str],
    chunk_ids: Sequence[str],
    *,
    beginning: int = 0,
    cosines: bool = False,
    others: Sequence[str] = (),
    filters: MemoryFilter | None = None,
) -> Hits:
    if not (memory_ids or chunk_ids or others):
        return Hits({}, {}, {}, {}, 0)
    condition, values = where(filters or MemoryFilter())
    ((summaries, passages, beginnings, near, elsewhere),) = await session.read(
        _HITS % condition,
        memory_ids=list(memory_ids),
        ids=list(chunk_ids),
        length=beginning,
        compared=list(chunk_ids) if cosines else [],
        others=list(others),
        **values,
    )
    return Hits(
        to_summaries(summaries),
        _to_passages(passages),
        to_beginnings(beginnings, beginning),
        {frozenset((one, other)): cosine for one, other, cosine in near},
        elsewhere,
    )


class _GroupMemory(NamedTuple):
    """A memory of a group."""

    memory_id: str
    occurred_at: int
    selected: bool
    """Whether the filter lets its chunks through."""
    position: int
    chunks: list[str]


class _Group(NamedTuple):
    """Memories of one parent, or one memory that has none."""

    name: str
    found: list[str]
    """The chunks that were asked for."""
    chunks: dict[str, _GroupMemory]
    """The memory of every chunk, in order."""
    before: dict[str, str]
    after: dict[str, str]

    def place(self, chunk_id: str) -> Place:
        memory = self.chunks[chunk_id]
        before, after = self.before.get(chunk_id), self.after.get(chunk_id)
        return Place(
            chunk_id,
            memory.memory_id,
            self.name,
            len(self.chunks),
            memory.chunks.index(chunk_id) if self.name == memory.memory_id else memory.position,
            before,
            after,
            tuple(filter(None, (before, after))),
            from_time(memory.occurred_at),
            memory.selected,
        )


async def _read_groups(
    session: Session, chunk_ids: Sequence[str], filters: MemoryFilter
) -> list[_Group]:
    """Return the groups of chunks.

    The neighbor of a chunk is the next one of its memory, or else of the next memory at another
    position.
    """
    if not chunk_ids:
        return []
    condition, values = where(filters)
    groups: list[_Group] = []
    for name, found, memory_ids, members in await session.read(
        _GROUPS % condition, ids=list(chunk_ids), **values
    ):
        by_position: dict[str, list[_GroupMemory]] = {}
        for memory_id, member in zip(memory_ids.split("\n"), members.split(";"), strict=True):
            position, at, selected, ids = member.split(":")
            memory = _GroupMemory(
                memory_id, int(at), selected == "1", int(position), ids.split(",")
            )
            by_position.setdefault(position, []).append(memory)
        group = _Group(name, found, {}, {}, {})
        for memories in by_position.values():
            for memory in memories:
                group.chunks.update(dict.fromkeys(memory.chunks, memory))
                group.after.update(pairwise(memory.chunks))
                group.before.update((later, earlier) for earlier, later in pairwise(memory.chunks))
        for earlier, later in pairwise(by_position.values()):
            group.before.update((memory.chunks[0], earlier[0].chunks[-1]) for memory in later)
            group.after.update((memory.chunks[-1], later[0].chunks[0]) for memory in earlier)
        groups.append(group)
    return groups
