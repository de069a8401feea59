"""The search arms: words by FTS5, meaning by exact cosine, and the entities that passages name.

Filters are part of the query.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, combinations
from typing import Any, LiteralString, NamedTuple

from zapomni_db.exceptions import ValidationError
from zapomni_db.models import (
    BM25SearchResult,
    Hits,
    IndexedChunk,
    MemoryFilter,
    MemorySummary,
    Mention,
    Passage,
    Place,
    Surroundings,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
    VectorSearchResult,
)
from zapomni_db.spelling import MOST_TEXTS, allowed_distance, distance, nearest_word
from zapomni_db.sqlite.connection import fetch_value, read_version
from zapomni_db.sqlite.memories import get_beginnings, get_summaries
from zapomni_db.sqlite.rows import from_time, to_json, to_time, where
from zapomni_db.sqlite.vectors import VectorCache, get_cosines, get_tokens, read_active_space

__all__ = [
    "MENTIONED",
    "Caches",
    "PlaceCache",
    "bm25_search",
    "count_chunks",
    "count_memories",
    "find_matches",
    "find_named",
    "find_near_words",
    "get_contexts",
    "get_members",
    "get_mentions",
    "get_named",
    "get_passages",
    "get_places",
    "get_similarities",
    "get_surroundings",
    "has_mentions",
    "merge_words",
    "rank_by_vector",
    "rank_by_words",
    "read_hits",
    "read_hop",
    "read_pool",
    "store_contexts",
    "to_moment",
    "vector_search",
]


# The chunks of memories that satisfy a condition, and those that no search without filters shows.
_MATCHING: LiteralString = """
SELECT c.id FROM memories m JOIN chunks c ON c.memory_key = m.key WHERE """
_SUPERSEDED: LiteralString = _MATCHING + "m.superseded_by IS NOT NULL"
# A list of chunk ids given as JSON.
_GIVEN: LiteralString = "(SELECT CAST(value AS INTEGER) FROM json_each(?))"

# Of common words, so many are looked for together: the rarest.
MOST_TOGETHER = 4
REACH = 1000
_REACH: LiteralString = """
SELECT max(rowid) FROM (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT ?)"""
_RANK_BY_WORDS: LiteralString = """
SELECT rowid, -bm25(chunks_fts) AS score FROM chunks_fts WHERE chunks_fts MATCH ?"""
# One long row is read in a third of the time of thousands of short ones.
_MATCHES: LiteralString = """
SELECT (SELECT group_concat(rowid) FROM
    (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH asked.value LIMIT ?))
FROM json_each(?) asked"""
# Counting reads a whole index; the largest id is there at once.
_LARGEST_ID: LiteralString = "SELECT coalesce(max(id), 0) FROM chunks"
_PASSAGES: LiteralString = (
    "SELECT c.id, m.id, c.text, m.metadata FROM chunks c JOIN memories m ON m.key = c.memory_key"
    " WHERE c.id IN " + _GIVEN
)


def rank_by_words(connection: sqlite3.Connection, request: TextSearchRequest) -> dict[str, float]:
    if not request.terms:
        return {}
    selection, values = _selection(_simplified(connection, request.filters))
    statement = _RANK_BY_WORDS + selection + " ORDER BY score DESC, rowid LIMIT ?"
    expressions = [_match_expression(request.terms)]
    if request.together and len(request.terms) > 1:
        expressions = _expressions_together(connection, request.terms)
    found: list[tuple[int, float]] = []
    for expression in expressions:
        found = connection.execute(statement, [expression, *values, request.limit]).fetchall()
        if len(found) == request.limit:
            break
    return {str(chunk_id): score for chunk_id, score in found}


def _expressions_together(connection: sqlite3.Connection, terms: Sequence[str]) -> list[str]:
    """Return what finds passages that have all of the rarest words, all but one, ... any.

    How rare a word is follows from how far the first passages that have it reach.
    """
    words = [_match_expression([term]) for term in terms]
    reach = {word: fetch_value(connection, _REACH, (word, REACH)) or 0 for word in words}
    rarest = sorted(reach, key=lambda word: -reach[word])[:MOST_TOGETHER]
    return [
        " OR ".join(f"({' AND '.join(some)})" for some in combinations(rarest, number))
        for number in range(len(rarest), 0, -1)
    ]


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
    return " OR ".join(map(_quote, terms))


def _quote(term: str) -> str:
    return '"' + term.replace("\0", " ").replace('"', '""') + '"'


def rank_by_vector(
    connection: sqlite3.Connection, cache: VectorCache, request: VectorSearchRequest
) -> VectorRanking:
    space_key = _checked_space(connection, request.query_embedding, second=request.second)
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
    *,
    second: bool = False,
) -> dict[str, float]:
    space_key = _checked_space(connection, query_embedding, second=second)
    if space_key is None:
        return {}
    return cache.compare(connection, space_key, query_embedding, chunk_ids)


def get_surroundings(
    connection: sqlite3.Connection,
    caches: Caches,
    chunk_ids: Sequence[str],
    filters: MemoryFilter,
    query: Sequence[float] | None,
    *,
    around: Sequence[str],
    members: bool,
    tokens: bool,
) -> Surroundings:
    known = caches.places.get(connection)
    reader = _PlaceReader(connection, filters, known)
    places = reader.read(chunk_ids)
    wanted = (places[i] for i in around if i in places)
    near = {*chain.from_iterable([place.neighbours for place in wanted])} - places.keys()
    if near:
        places |= reader.read(sorted(near))
    selected = [place for place in places.values() if place.selected]
    ids = [place.chunk_id for place in selected]
    scored = {*ids, *chain.from_iterable([place.neighbours for place in selected])}
    similar = {}
    if query and ids:
        similar = get_similarities(connection, caches.vectors, query, list(scored))
    found = Surroundings(
        places,
        reader.members(selected) if members else {},
        similar,
        known.read_tokens(connection, ids) if tokens else {},
    )
    caches.places.forget_many()
    return found


def read_pool(
    connection: sqlite3.Connection,
    places: PlaceCache,
    token_ids: Sequence[str],
    chunk_ids: Sequence[str],
    names: Sequence[str],
    as_of: datetime | None,
    passage_ids: Sequence[str] = (),
) -> tuple[dict[str, bytes], dict[str, list[Mention]], list[str], dict[str, Passage]]:
    known = places.get(connection)
    pool = (
        known.read_tokens(connection, token_ids),
        get_named(connection, chunk_ids, as_of) if chunk_ids else {},
        find_named(connection, names, as_of) if names else [],
        known.read_passages(connection, passage_ids),
    )
    places.forget_many()
    return pool


def read_hop(
    connection: sqlite3.Connection,
    places: PlaceCache,
    chunk_ids: Sequence[str],
    entity_ids: Sequence[str],
    as_of: datetime | None,
    limit: int,
) -> tuple[dict[str, Passage], dict[str, list[Mention]]]:
    passages = places.get(connection).read_passages(connection, chunk_ids)
    if not entity_ids:
        return passages, {}
    return passages, get_mentions(connection, entity_ids, as_of, limit)


def read_hits(
    connection: sqlite3.Connection,
    places: PlaceCache,
    memory_ids: Sequence[str],
    chunk_ids: Sequence[str],
    *,
    beginning: int,
    cosines: bool,
    others: Sequence[str],
    filters: MemoryFilter | None,
) -> Hits:
    known = places.get(connection)
    summaries = known.read_summaries(connection, memory_ids)
    passages = known.read_passages(connection, chunk_ids)
    long = [one.memory_id for one in summaries.values() if one.chunk_count > 1]
    lone = [
        chunk_id
        for chunk_id, passage in passages.items()
        if passage.memory_id in summaries and not summaries[passage.memory_id].parent
    ]
    hits = Hits(
        summaries,
        passages,
        get_beginnings(connection, long, beginning) if beginning and long else {},
        get_cosines(connection, lone) if cosines and len(lone) > 1 else {},
        count_memories(connection, others, filters or MemoryFilter()) if others else 0,
    )
    places.forget_many()
    return hits


def find_matches(
    connection: sqlite3.Connection, phrases: Sequence[str], limit: int
) -> dict[str, frozenset[str] | None]:
    expressions = to_json(list(map(_quote, phrases)))
    found: dict[str, frozenset[str] | None] = {}
    rows = connection.execute(_MATCHES, (limit + 1, expressions))
    for phrase, (ids,) in zip(phrases, rows, strict=True):
        matches = ids.split(",") if ids else []
        found[phrase] = None if len(matches) > limit else frozenset(matches)
    return found


# Each write leaves a segment, and a word is looked up in every one: in ten it takes four times as
# long as in one. The second number is about that of pages.
_SEGMENTS: LiteralString = "SELECT count(DISTINCT segid), count(*) FROM chunks_fts_idx"
_MERGE: LiteralString = "INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('merge', ?)"
FEW_SEGMENTS = 3
# Of 1.5 million passages; larger indexes are left to what SQLite merges with each write.
MOST_PAGES = 100_000
# Merged in one transaction: a few milliseconds.
MERGED_PAGES = 64


def merge_words(connection: sqlite3.Connection) -> bool:
    """Take a step towards a word index of one segment; return whether there was one to take."""
    segments, pages = connection.execute(_SEGMENTS).fetchone()
    if segments <= FEW_SEGMENTS or pages > MOST_PAGES:
        return False
    before = connection.total_changes
    connection.execute(_MERGE, (-MERGED_PAGES,))  # negative: whatever the segments' sizes
    return connection.total_changes - before > 1  # as SQLite documents that it is done


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


_CONTEXTS: LiteralString = """
SELECT id, text, context FROM chunks WHERE id > ? ORDER BY id LIMIT ?"""
# The index does not have the old words by itself: it is given them, to forget them.
_FORGET_WORDS: LiteralString = """
INSERT INTO chunks_fts (chunks_fts, rowid, text, context)
SELECT 'delete', id, text, context FROM chunks WHERE id = ?"""
_SET_CONTEXT: LiteralString = "UPDATE chunks SET context = ? WHERE id = ?"
_INDEX_WORDS: LiteralString = """
INSERT INTO chunks_fts (rowid, text, context) SELECT id, text, context FROM chunks WHERE id = ?"""


def get_contexts(
    connection: sqlite3.Connection, after: str | None, limit: int
) -> list[IndexedChunk]:
    rows = connection.execute(_CONTEXTS, (int(after or 0), limit))
    return [IndexedChunk(str(chunk_id), text, context) for chunk_id, text, context in rows]


def store_contexts(connection: sqlite3.Connection, contexts: Mapping[str, str]) -> None:
    for chunk_id, context in contexts.items():
        connection.execute(_FORGET_WORDS, (int(chunk_id),))
        connection.execute(_SET_CONTEXT, (context, int(chunk_id)))
        connection.execute(_INDEX_WORDS, (int(chunk_id),))


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


# All chunks of parents, each given by the key of one of its memories, and of memories: one
# long row is read in a third of the time of many short ones. `parent <> ''` is for the index, which
# holds only memories that have one.
_OF_PARENTS: LiteralString = """
SELECT (
    SELECT group_concat(place) FROM (
        SELECT c.id || ',' || m.position || ',' || c.position AS place
        FROM memories one
            JOIN memories m ON m.project = one.project AND m.parent = one.parent
            JOIN chunks c ON c.memory_key = m.key
        WHERE one.key = g.value AND m.parent <> ''
        ORDER BY m.position, m.key, c.position))
FROM json_each(?) g"""
_OF_MEMORIES: LiteralString = """
SELECT (
    SELECT group_concat(id) FROM (
        SELECT id FROM chunks WHERE memory_key = g.value ORDER BY position))
FROM json_each(?) g"""
# Where chunks are: in which memory and parent; the condition of the filters follows.
_PLACES: LiteralString = """
SELECT c.id, m.id, m.key, m.parent, m.project, m.occurred_at, m.position, c.position,"""
_PLACES_OF: LiteralString = (
    " FROM chunks c JOIN memories m ON m.key = c.memory_key WHERE c.id IN " + _GIVEN
)


class _ChunkGroup:
    """The chunks of a parent, or of a memory without one, in order."""

    __slots__ = ("_at", "_places", "_positions", "ids")

    def __init__(
        self, ids: list[str], places: Sequence[str] = (), positions: Sequence[str] = ()
    ) -> None:
        self.ids = ids
        self._at = {chunk_id: at for at, chunk_id in enumerate(ids)}
        # Of its memory in the parent, and of the chunk in the memory: compared, so text will do.
        self._places, self._positions = places, positions

    def neighbors_of(self, chunk_id: str) -> tuple[str | None, str | None]:
        """Return the chunks next to one: of its memory, or else of its parent's next memory."""
        ids, at, last = self.ids, self._at[chunk_id], len(self.ids)
        before, after = at - 1, at + 1
        if places := self._places:
            # Memories at the same place do not follow each other.
            if self._positions[at] == "0":
                while before >= 0 and places[before] == places[at]:
                    before -= 1
            if after < last and self._positions[after] == "0":
                while after < last and places[after] == places[at]:
                    after += 1
        return ids[before] if before >= 0 else None, ids[after] if after < last else None


# So many places, and chunks of groups, are kept for the next search: about 3 MB ...
MOST_PLACES = 10_000
# ... and so many bytes of token vectors, texts and what is known of their memories.
MOST_BYTES = 4_000_000


class _KnownPlaces:
    """Where chunks are in one state of the file, and what a search reads of the best ones."""

    __slots__ = ("bytes", "groups", "passages", "places", "size", "state", "summaries", "tokens")

    def __init__(self, state: object) -> None:
        self.state = state
        self.groups: dict[str, _ChunkGroup] = {}
        self.places: dict[tuple[object, ...], dict[str, Place]] = {}
        """By the condition and values of the filter."""
        self.tokens: dict[str, bytes] = {}
        """Empty: it has none."""
        self.passages: dict[str, Passage] = {}
        self.summaries: dict[str, MemorySummary] = {}
        self.size = 0
        self.bytes = 0

    def read_tokens(
        self, connection: sqlite3.Connection, chunk_ids: Sequence[str]
    ) -> dict[str, bytes]:
        known = self.tokens
        if new := [chunk_id for chunk_id in chunk_ids if chunk_id not in known]:
            found = get_tokens(connection, new)
            known.update((chunk_id, found.get(chunk_id, b"")) for chunk_id in new)
            self.bytes += sum(map(len, found.values()))
            self.size += len(new)
        return {chunk_id: tokens for chunk_id in chunk_ids if (tokens := known[chunk_id])}

    def read_passages(
        self, connection: sqlite3.Connection, chunk_ids: Sequence[str]
    ) -> dict[str, Passage]:
        known = self.passages
        if new := [chunk_id for chunk_id in chunk_ids if chunk_id not in known]:
            found = get_passages(connection, new)
            known.update(found)
            self.bytes += sum(len(p.text) + len(p.stored_metadata) for p in found.values())
            self.size += len(found)
        return {i: known[i] for i in sorted({*chunk_ids}, key=int) if i in known}

    def read_summaries(
        self, connection: sqlite3.Connection, memory_ids: Sequence[str]
    ) -> dict[str, MemorySummary]:
        known = self.summaries
        if new := [memory_id for memory_id in memory_ids if memory_id not in known]:
            found = get_summaries(connection, new)
            known.update(found)
            self.bytes += sum(len(s.preview) + len(str(s.metadata)) for s in found.values())
            self.size += len(found)
        return {i: known[i] for i in memory_ids if i in known}


class PlaceCache:
    """Where chunks are and what they contain, for as long as no process changes memories.

    Searches come to the same parents again and again: reading and dividing them takes longer than
    anything else that a search asks of the file.
    """

    def __init__(self) -> None:
        self._known = _KnownPlaces(None)

    def get(self, connection: sqlite3.Connection) -> _KnownPlaces:
        """Return what is known of the state that the connection reads."""
        state = getattr(connection, "identity", None), read_version(connection)
        known = self._known
        if known.state != state:
            known = self._known = _KnownPlaces(state)
        return known

    def forget_many(self) -> None:
        """Begin anew if it has become too much to keep."""
        if self._known.size > MOST_PLACES or self._known.bytes > MOST_BYTES:
            self._known = _KnownPlaces(None)


class Caches(NamedTuple):
    """What searches keep in memory."""

    vectors: VectorCache
    places: PlaceCache


class _PlaceReader:
    """Reads where chunks are, each group once."""

    def __init__(
        self, connection: sqlite3.Connection, filters: MemoryFilter, known: _KnownPlaces
    ) -> None:
        self._connection = connection
        self._condition, self._values = where(filters)
        self._known = known
        self._groups = known.groups
        self._places = known.places.setdefault((self._condition, *self._values), {})
        known.size += 1  # filters come in any number

    def read(self, chunk_ids: Sequence[str]) -> dict[str, Place]:
        """Return the places of chunks, in the order of their numbers."""
        known = self._places
        if new := [chunk_id for chunk_id in chunk_ids if chunk_id not in known]:
            self._read_new(new)
        return {i: known[i] for i in sorted({*chunk_ids}, key=int) if i in known}

    def _read_new(self, chunk_ids: list[str]) -> None:
        rows = self._connection.execute(
            _PLACES + self._condition + _PLACES_OF, [*self._values, to_json(chunk_ids)]
        ).fetchall()
        self._read_groups(rows)
        self._known.size += len(rows)
        places, groups = self._places, self._groups
        for number, memory_id, key, parent, project, occurred, place, position, selected in rows:
            name = f"{project}\0{parent}" if parent else f"\0{key}"
            chunk_id, group = str(number), groups[name]
            before, after = group.neighbors_of(chunk_id)
            places[chunk_id] = Place(
                chunk_id,
                memory_id,
                name,
                len(group.ids),
                place if parent else position,
                before,
                after,
                tuple(filter(None, (before, after))),
                from_time(occurred),
                bool(selected),
            )

    def members(self, places: Iterable[Place]) -> dict[str, list[str]]:
        groups = self._groups
        return {group: groups[group].ids for group in {place.group for place in places}}

    def _read_groups(self, rows: Sequence[tuple[Any, ...]]) -> None:
        parents: dict[str, int] = {}
        keys: dict[str, int] = {}
        for _, _, key, parent, project, *_ in rows:
            if parent:
                parents[f"{project}\0{parent}"] = key
            else:
                keys[f"\0{key}"] = key
        for statement, wanted in ((_OF_PARENTS, parents), (_OF_MEMORIES, keys)):
            new = {name: one for name, one in wanted.items() if name not in self._groups}
            if new:
                found = self._connection.execute(statement, (to_json(list(new.values())),))
                for name, (listed,) in zip(new, found, strict=True):
                    parts = listed.split(",")
                    self._groups[name] = (
                        _ChunkGroup(parts)
                        if wanted is keys
                        else _ChunkGroup(parts[::3], parts[1::3], parts[2::3])
                    )
                    self._known.size += len(self._groups[name].ids)


def get_members(connection: sqlite3.Connection, chunk_ids: Sequence[str]) -> dict[str, list[str]]:
    places = _PlaceReader(connection, MemoryFilter(), _KnownPlaces(None))
    return places.members(places.read(chunk_ids).values())


def get_places(
    connection: sqlite3.Connection, chunk_ids: Sequence[str], filters: MemoryFilter
) -> dict[str, Place]:
    return _PlaceReader(connection, filters, _KnownPlaces(None)).read(chunk_ids)


def _checked_space(
    connection: sqlite3.Connection, query: Sequence[float], *, second: bool = False
) -> int | None:
    active = read_active_space(connection, second=second)
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
) -> tuple[list[int] | None, list[int]]:
    """Return the only chunks that are compared, if not all are, and those that are not."""
    if filters == MemoryFilter():
        return None, [chunk_id for (chunk_id,) in connection.execute(_SUPERSEDED)]
    condition, values = where(filters)
    return [chunk_id for (chunk_id,) in connection.execute(_MATCHING + condition, values)], []


def get_passages(connection: sqlite3.Connection, chunk_ids: Sequence[str]) -> dict[str, Passage]:
    rows = connection.execute(_PASSAGES, (to_json(list(chunk_ids)),))
    return {
        (name := str(chunk_id)): Passage(name, memory_id, text, metadata)
        for chunk_id, memory_id, text, metadata in rows
    }


# --- What only the specification asks for -----------------------------------------------


def bm25_search(
    connection: sqlite3.Connection, request: TextSearchRequest
) -> list[BM25SearchResult]:
    scores = rank_by_words(connection, request)
    found = get_passages(connection, list(scores))
    return [
        BM25SearchResult.model_construct(**_hit_fields(found[chunk_id]), bm25_score=score)
        for chunk_id, score in scores.items()
    ]


def vector_search(
    connection: sqlite3.Connection, cache: VectorCache, request: VectorSearchRequest
) -> list[VectorSearchResult]:
    scores = rank_by_vector(connection, cache, request).scores
    found = get_passages(connection, list(scores))
    return [
        VectorSearchResult.model_construct(
            **_hit_fields(found[chunk_id]), similarity_score=min(max(score, 0.0), 1.0)
        )
        for chunk_id, score in scores.items()
        if chunk_id in found
    ]


def _hit_fields(passage: Passage) -> dict[str, Any]:
    return {
        "chunk_id": passage.chunk_id,
        "memory_id": passage.memory_id,
        "text": passage.text,
        "metadata": passage.metadata,
    }


# --- Which passages name which entities; a merged entity is read as its root ------------


MENTIONED: LiteralString = "since <= :now AND (withdrawn IS NULL OR withdrawn > :now)"
"""A condition on mentions at the time `:now`; no other table has columns of these names."""


_HAS_MENTIONS: LiteralString = "SELECT EXISTS (SELECT 1 FROM graph_mentions)"


def has_mentions(connection: sqlite3.Connection) -> bool:
    """Return whether any passage names an entity: few stores have a graph."""
    return bool(fetch_value(connection, _HAS_MENTIONS))


def to_moment(as_of: datetime | None) -> int:
    """Return the time asked for; None is now."""
    return to_time(as_of or datetime.now(UTC))


# The roots of all entities with one of these names or aliases.
_NAMED: LiteralString = (
    "WITH asked AS (SELECT value FROM json_each(:names)),"
    " found AS (SELECT key FROM graph_entities WHERE folded IN asked"
    " UNION SELECT entity_key FROM graph_mentions WHERE folded IN asked AND " + MENTIONED + ")"
    " SELECT DISTINCT coalesce(r.id, e.id) FROM found f JOIN graph_entities e ON e.key = f.key"
    " LEFT JOIN graph_entities r ON r.key = e.root ORDER BY 1"
)


def find_named(
    connection: sqlite3.Connection, names: Sequence[str], as_of: datetime | None
) -> list[str]:
    bound = {"names": to_json(list(names)), "now": to_moment(as_of)}
    return [entity_id for (entity_id,) in connection.execute(_NAMED, bound)]


# Entities by id with their root's id and type, and all entities merged into that root.
_LEAVES_BY_ID: LiteralString = """
SELECT a.id, r.id, r.type, l.key FROM graph_entities a
JOIN graph_entities r ON r.key = coalesce(a.root, a.key)
JOIN graph_entities l ON l.key = r.key OR l.root = r.key
WHERE a.id IN (SELECT value FROM json_each(?))"""
# The newest passages that name an entity.
_OF_ENTITY: LiteralString = (
    "SELECT chunk_id, min(start_char) FROM graph_mentions WHERE entity_key = :key AND "
    + MENTIONED
    + " GROUP BY chunk_id ORDER BY chunk_id DESC LIMIT :limit"
)


def get_mentions(
    connection: sqlite3.Connection,
    entity_ids: Sequence[str],
    as_of: datetime | None,
    limit: int,
) -> dict[str, list[Mention]]:
    found: dict[str, list[Mention]] = {entity_id: [] for entity_id in entity_ids}
    rows = connection.execute(_LEAVES_BY_ID, (to_json(list(entity_ids)),)).fetchall()
    now = to_moment(as_of)
    for asked, root, kind, key in rows:
        for chunk_id, start in connection.execute(
            _OF_ENTITY, {"key": key, "now": now, "limit": limit}
        ):
            found[asked].append(Mention(str(chunk_id), root, kind, start))
    for asked, mentions in found.items():
        newest = sorted(mentions, key=lambda m: (-int(m.chunk_id), m.start_char))
        first = {mention.chunk_id: mention for mention in reversed(newest)}
        found[asked] = sorted(first.values(), key=lambda m: -int(m.chunk_id))[:limit]
    return found


# The entities that passages name, each once per passage.
_OF_CHUNKS: LiteralString = (
    "SELECT m.chunk_id, coalesce(r.id, e.id), coalesce(r.type, e.type), min(m.start_char)"
    " FROM graph_mentions m JOIN graph_entities e ON e.key = m.entity_key"
    " LEFT JOIN graph_entities r ON r.key = e.root"
    " WHERE m.chunk_id IN (SELECT CAST(value AS INTEGER) FROM json_each(:chunks)) AND "
    + MENTIONED
    + " GROUP BY 1, 2 ORDER BY 1, 4"
)


def get_named(
    connection: sqlite3.Connection, chunk_ids: Sequence[str], as_of: datetime | None
) -> dict[str, list[Mention]]:
    found: dict[str, list[Mention]] = {}
    bound = {"chunks": to_json(list(chunk_ids)), "now": to_moment(as_of)}
    for chunk_id, entity_id, kind, start in connection.execute(_OF_CHUNKS, bound):
        mention = Mention(str(chunk_id), entity_id, kind, start)
        found.setdefault(mention.chunk_id, []).append(mention)
    return found
