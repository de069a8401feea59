"""The two search arms: words by FTS5, meaning by exact cosine. Filters are part of the query."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import LiteralString

from zapomni_db.exceptions import ValidationError
from zapomni_db.models import (
    BM25SearchResult,
    MemoryFilter,
    Passage,
    Place,
    Surroundings,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
    VectorSearchResult,
)
from zapomni_db.spelling import MOST_TEXTS, allowed_distance, distance, nearest_word
from zapomni_db.sqlite.connection import fetch_value
from zapomni_db.sqlite.rows import from_json, from_time, to_json, where
from zapomni_db.sqlite.vectors import VectorCache, get_tokens, read_active_space

__all__ = [
    "bm25_search",
    "count_chunks",
    "count_memories",
    "find_matches",
    "find_near_words",
    "get_members",
    "get_passages",
    "get_places",
    "get_similarities",
    "get_surroundings",
    "rank_by_vector",
    "rank_by_words",
    "vector_search",
]

# The chunks of memories that satisfy a condition, and those that no search without filters shows.
_MATCHING: LiteralString = """
SELECT c.id FROM memories m JOIN chunks c ON c.memory_key = m.key WHERE """
_SUPERSEDED: LiteralString = _MATCHING + "m.superseded_by IS NOT NULL"
# A list of chunk ids given as JSON.
_GIVEN: LiteralString = "(SELECT CAST(value AS INTEGER) FROM json_each(?))"

_RANK_BY_WORDS: LiteralString = """
SELECT rowid, -bm25(chunks_fts) AS score FROM chunks_fts WHERE chunks_fts MATCH ?"""
# One long row is read in a third of the time of thousands of short ones.
_MATCHES: LiteralString = """
SELECT count(*), group_concat(rowid) FROM
    (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT ?)"""
# Counting reads a whole index; the largest id is there at once.
_LARGEST_ID: LiteralString = "SELECT coalesce(max(id), 0) FROM chunks"
_PASSAGES: LiteralString = (
    "SELECT c.id, m.id, c.text, m.metadata FROM chunks c JOIN memories m ON m.key = c.memory_key"
    " WHERE c.id IN " + _GIVEN
)


def rank_by_words(connection: sqlite3.Connection, request: TextSearchRequest) -> dict[str, float]:
    expression = _match_expression(request.terms)
    if not expression:
        return {}
    selection, values = _selection(_simplified(connection, request.filters))
    rows = connection.execute(
        _RANK_BY_WORDS + selection + " ORDER BY score DESC, rowid LIMIT ?",
        [expression, *values, request.limit],
    )
    return {str(chunk_id): score for chunk_id, score in rows}


# The projects that memories carry, one step in the index for each.
_PROJECTS: LiteralString = """
WITH RECURSIVE found (project) AS (
    SELECT min(project) FROM memories
    UNION ALL
    SELECT (SELECT min(m.project) FROM memories m WHERE m.project > found.project)
    FROM found WHERE found.project IS NOT NULL)
SELECT project FROM found WHERE project IS NOT NULL"""


def _simplified(connection: sqlite3.Connection, filters: MemoryFilter) -> MemoryFilter:
    """Return a filter without its projects if they are all there are.

    Memories of one project and of none are searched as fast as without a filter.
    """
    if filters.projects is None and not filters.not_projects:
        return filters
    allowed = None if filters.projects is None else frozenset(filters.projects)
    for (project,) in connection.execute(_PROJECTS):
        if (allowed is not None and project not in allowed) or project in filters.not_projects:
            return filters
    return filters.model_copy(update={"projects": None, "not_projects": []})


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


def rank_by_vector(
    connection: sqlite3.Connection, cache: VectorCache, request: VectorSearchRequest
) -> VectorRanking:
    space_key = _checked_space(connection, request.query_embedding)
    if space_key is None:
        return VectorRanking(scores={})
    only, without = _selected(connection, _simplified(connection, request.filters))
    found = cache.search(
        connection, space_key, request.query_embedding, request.limit, only=only, without=without
    )
    scores = {str(c): score for c, score in found.best if score >= request.min_similarity}
    return VectorRanking.model_construct(
        scores=scores, mean=found.mean, deviation=found.deviation, count=found.among
    )


def get_similarities(
    connection: sqlite3.Connection,
    cache: VectorCache,
    query_embedding: Sequence[float],
    chunk_ids: Sequence[str],
) -> dict[str, float]:
    space_key = _checked_space(connection, query_embedding)
    if space_key is None:
        return {}
    only = {int(chunk_id) for chunk_id in chunk_ids}
    found = cache.search(connection, space_key, query_embedding, len(only), only=only)
    return {str(chunk_id): score for chunk_id, score in found.best}


def get_surroundings(
    connection: sqlite3.Connection,
    cache: VectorCache,
    chunk_ids: Sequence[str],
    filters: MemoryFilter,
    query: Sequence[float] | None,
    *,
    around: Sequence[str],
    members: bool,
    tokens: bool,
) -> Surroundings:
    places = get_places(connection, chunk_ids, filters)
    wanted = (places[i] for i in around if i in places)
    near = {neighbor for place in wanted for neighbor in place.neighbours} - places.keys()
    if near:
        places |= get_places(connection, sorted(near), filters)
    selected = [place for place in places.values() if place.selected]
    ids = [place.chunk_id for place in selected]
    scored = {*ids, *(neighbor for place in selected for neighbor in place.neighbours)}
    return Surroundings(
        places,
        get_members(connection, ids) if members and ids else {},
        get_similarities(connection, cache, query, sorted(scored)) if query and ids else {},
        get_tokens(connection, ids) if tokens and ids else {},
    )


def find_matches(
    connection: sqlite3.Connection, phrases: Sequence[str], limit: int
) -> dict[str, frozenset[str] | None]:
    found: dict[str, frozenset[str] | None] = {}
    for phrase in phrases:
        values = (_match_expression([phrase]), limit + 1)
        count, ids = connection.execute(_MATCHES, values).fetchone()
        found[phrase] = None if count > limit else frozenset(ids.split(",") if ids else ())
    return found


# What the word index has: each stem with the number of its passages, and where it is. Tables of
# this connection, without content of their own.
_VOCABULARY: LiteralString = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.chunk_stems USING fts5vocab (main, chunks_fts, row)"""
_PLACES_OF_STEMS: LiteralString = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.chunk_stem_places
USING fts5vocab (main, chunks_fts, instance)"""
_STEMS_LIKE: LiteralString = """
SELECT term, doc FROM temp.chunk_stems
WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ?"""
_TEXTS_WITH_STEMS: LiteralString = """
SELECT c.text FROM chunks c JOIN memories m ON m.key = c.memory_key
WHERE c.id IN (SELECT doc FROM temp.chunk_stem_places WHERE term = ? LIMIT 1000) AND """
# An ending that the index cuts off is no longer than this.
LONGEST_ENDING = 4
# So many stems are looked up for each misspelt word.
NEAR_STEMS = 5
# Of so many passages all stems with one of the first two letters are compared.
FEW_CHUNKS = 5000


def find_near_words(
    connection: sqlite3.Connection, words: Sequence[str], filters: MemoryFilter
) -> dict[str, str]:
    connection.execute(_VOCABULARY)
    connection.execute(_PLACES_OF_STEMS)
    condition, values = where(filters)
    found: dict[str, str] = {}
    for word in words:
        texts: list[str] = []
        for stem in _near_stems(connection, word):
            rows = connection.execute(
                _TEXTS_WITH_STEMS + condition + " LIMIT ?", [stem, *values, MOST_TEXTS]
            )
            texts += [text for (text,) in rows]
        if near := nearest_word(word, texts):
            found[word] = near
    return found


def _near_stems(connection: sqlite3.Connection, word: str) -> list[str]:
    """Return the stems that are nearest to a word, the frequent ones first.

    One of the first two letters is right, in a large store both, whatever their order: the whole
    vocabulary would take too long to read.
    """
    most = allowed_distance(word)
    letters = {*word}
    near: list[tuple[int, int, str]] = []
    beginnings = [*word[:2]]
    if count_chunks(connection) > FEW_CHUNKS:
        beginnings = [word[:2], word[0] + word[2], word[1] + word[0], word[1:3]]
    for first in dict.fromkeys(beginnings):
        shortest = len(word) - LONGEST_ENDING - most
        end = first[:-1] + chr(ord(first[-1]) + 1)
        values = (first, end, shortest, len(word) + most)
        for stem, count in connection.execute(_STEMS_LIKE, values):
            # The index writes a final y as i.
            if len({*stem} - letters) <= most + 1:
                wrong = distance(word, stem, beginning=True)
                if wrong <= most + stem.endswith("i"):
                    near.append((wrong - len(stem), -count, stem))
    return [stem for _, _, stem in sorted(near)[:NEAR_STEMS]]


def count_chunks(connection: sqlite3.Connection) -> int:
    return int(fetch_value(connection, _LARGEST_ID))


_COUNT_MEMORIES: LiteralString = (
    "SELECT count(DISTINCT m.key) FROM chunks c JOIN memories m ON m.key = c.memory_key"
    " WHERE c.id IN " + _GIVEN + " AND "
)


def count_memories(
    connection: sqlite3.Connection, chunk_ids: Sequence[str], filters: MemoryFilter
) -> int:
    """Return how many memories chunks belong to, of those that the filter selects."""
    condition, values = where(filters)
    return int(
        fetch_value(connection, _COUNT_MEMORIES + condition, [to_json(list(chunk_ids)), *values])
    )


# All chunks of the parents that these chunks belong to, or of their memories if they have none.
_MEMBERS: LiteralString = """
WITH wanted AS (
    SELECT DISTINCT m.project, m.parent, CASE WHEN m.parent = '' THEN m.key END AS key
    FROM chunks c JOIN memories m ON m.key = c.memory_key WHERE c.id IN
    (SELECT CAST(value AS INTEGER) FROM json_each(?)))
SELECT project, parent, key, group_concat(id) FROM (
    SELECT w.project, w.parent, 0 AS key, c.id FROM wanted w
        JOIN memories m ON m.parent = w.parent AND m.parent <> '' AND m.project = w.project
        JOIN chunks c ON c.memory_key = m.key WHERE w.parent <> ''
    UNION ALL
    SELECT '', '', w.key, c.id FROM wanted w JOIN chunks c ON c.memory_key = w.key
        WHERE w.parent = ''
    LIMIT 20000)
GROUP BY project, parent, key
"""


def get_members(connection: sqlite3.Connection, chunk_ids: Sequence[str]) -> dict[str, list[str]]:
    rows = connection.execute(_MEMBERS, (to_json(list(chunk_ids)),))
    return {_group(project, parent, key): ids.split(",") for project, parent, key, ids in rows}


def _group(project: object, parent: object, key: object) -> str:
    return f"{project}\0{parent}" if parent else f"\0{key}"


def _checked_space(connection: sqlite3.Connection, query: Sequence[float]) -> int | None:
    active = read_active_space(connection)
    if active is None:
        return None
    key, space = active
    if len(query) != space.dimension:
        raise ValidationError(
            f"query embedding dimension must be {space.dimension}, got {len(query)}", "VAL_003"
        )
    return key


def _selected(
    connection: sqlite3.Connection, filters: MemoryFilter
) -> tuple[set[int] | None, set[int] | None]:
    """Return the only chunks that are compared, or else those that are not."""
    if filters == MemoryFilter():
        return None, {chunk_id for (chunk_id,) in connection.execute(_SUPERSEDED)}
    condition, values = where(filters)
    return {chunk_id for (chunk_id,) in connection.execute(_MATCHING + condition, values)}, None


def get_passages(connection: sqlite3.Connection, chunk_ids: Sequence[str]) -> dict[str, Passage]:
    rows = connection.execute(_PASSAGES, (to_json(list(chunk_ids)),))
    return {
        str(chunk_id): Passage.model_construct(
            chunk_id=str(chunk_id), memory_id=memory_id, text=text, metadata=from_json(metadata)
        )
        for chunk_id, memory_id, text, metadata in rows
    }


# Where chunks are: in which memory and parent, next to which chunks, among how many; the condition
# of the filters follows. `parent <> ''` is for the index, which holds only memories that have one.
# The neighbor of a passage is the next one of its memory, or else of its parent's next memory.
_PLACES: LiteralString = """
SELECT c.id, m.id, m.key, m.parent, m.project, m.occurred_at,
    coalesce(
        (SELECT p.id FROM chunks p WHERE p.memory_key = c.memory_key
            AND p.position = c.position - 1),
        CASE WHEN m.parent <> '' THEN
            (SELECT p.id FROM memories b JOIN chunks p ON p.memory_key = b.key
             WHERE b.parent = m.parent AND b.parent <> '' AND b.project = m.project
                 AND b.position < m.position
             ORDER BY b.position DESC, p.position DESC LIMIT 1) END),
    coalesce(
        (SELECT n.id FROM chunks n WHERE n.memory_key = c.memory_key
            AND n.position = c.position + 1),
        CASE WHEN m.parent <> '' THEN
            (SELECT n.id FROM memories b JOIN chunks n ON n.memory_key = b.key
             WHERE b.parent = m.parent AND b.parent <> '' AND b.project = m.project
                 AND b.position > m.position
             ORDER BY b.position, n.position LIMIT 1) END),
    CASE WHEN m.parent <> ''
        THEN (SELECT count(*) FROM memories b JOIN chunks s ON s.memory_key = b.key
              WHERE b.parent = m.parent AND b.parent <> '' AND b.project = m.project)
        ELSE (SELECT count(*) FROM chunks b WHERE b.memory_key = m.key) END,
"""
_PLACES_OF: LiteralString = (
    " FROM chunks c JOIN memories m ON m.key = c.memory_key WHERE c.id IN " + _GIVEN
)


def get_places(
    connection: sqlite3.Connection, chunk_ids: Sequence[str], filters: MemoryFilter
) -> dict[str, Place]:
    condition, values = where(filters)
    rows = connection.execute(_PLACES + condition + _PLACES_OF, [*values, to_json(list(chunk_ids))])
    return {
        str(chunk_id): Place(
            str(chunk_id),
            memory_id,
            _group(project, parent, key),
            size,
            None if before is None else str(before),
            None if after is None else str(after),
            from_time(occurred),
            bool(selected),
        )
        for (
            chunk_id, memory_id, key, parent, project, occurred, before, after, size, selected,
        ) in rows
    }  # fmt: skip


# --- What only the specification asks for -----------------------------------------------


def bm25_search(
    connection: sqlite3.Connection, request: TextSearchRequest
) -> list[BM25SearchResult]:
    scores = rank_by_words(connection, request)
    found = get_passages(connection, list(scores))
    return [
        BM25SearchResult.model_construct(**dict(found[chunk_id]), bm25_score=score)
        for chunk_id, score in scores.items()
    ]


def vector_search(
    connection: sqlite3.Connection, cache: VectorCache, request: VectorSearchRequest
) -> list[VectorSearchResult]:
    scores = rank_by_vector(connection, cache, request).scores
    found = get_passages(connection, list(scores))
    return [
        VectorSearchResult.model_construct(
            **dict(found[chunk_id]), similarity_score=min(max(score, 0.0), 1.0)
        )
        for chunk_id, score in scores.items()
        if chunk_id in found
    ]
