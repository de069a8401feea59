"""Reading the graph: relationships and their evidence, entities, counts.

A merged entity is read as the one it was merged into.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import LiteralString, NamedTuple

from zapomni_db.graph_models import (
    Edge,
    EdgeKey,
    EdgeQuery,
    Entity,
    EntityName,
    EntityPast,
    EntityQuery,
    Evidence,
    GraphScope,
    GraphStats,
    PastEdge,
)
from zapomni_db.rules import (
    ALIASES_SHOWN,
    EVER,
    LEAST_LIKENESS,
    Statement,
    SubjectStatement,
    choose_aliases,
    fold,
    join_edges,
    last_ended,
    likeness,
    spans,
)
from zapomni_db.sqlite.graph import count_unread
from zapomni_db.sqlite.rows import from_time, to_json
from zapomni_db.sqlite.search import MENTIONED, to_moment

__all__ = [
    "find_entities",
    "get_edges",
    "get_entities",
    "get_evidence",
    "get_graph_stats",
    "get_names",
    "get_past",
    "list_entities",
]


# Conditions on mentions and on evidence at the time `:now`, without those of memories in the
# projects `:hidden`. No other table in their statements has columns of these names.
_NOT_HIDDEN: LiteralString = (
    "(:hidden = '[]' OR NOT EXISTS (SELECT 1 FROM memories own WHERE own.key = memory_key"
    " AND own.project IN (SELECT value FROM json_each(:hidden))))"
)
_CHUNK_NOT_HIDDEN: LiteralString = (
    "(:hidden = '[]' OR NOT EXISTS (SELECT 1 FROM chunks part JOIN memories own"
    " ON own.key = part.memory_key WHERE part.id = chunk_id"
    " AND own.project IN (SELECT value FROM json_each(:hidden))))"
)
NAMED_THEN: LiteralString = MENTIONED + " AND " + _CHUNK_NOT_HIDDEN
STATED: LiteralString = MENTIONED + " AND (until IS NULL OR until > :now) AND " + _NOT_HIDDEN
# The columns of a `_RelationshipRow`.
# Whether the entity `e` is a node of the picture; see `FACTS` and `SHOWN` in `zapomni_db.rules`.
_NO_FACT: LiteralString = "e.type NOT IN ('DATE', 'REFERENCE', 'SELF', 'URL', 'VERSION')"
_OWN_MENTIONS: LiteralString = (
    " FROM graph_mentions WHERE entity_key IN (SELECT l.key FROM graph_entities l"
    " WHERE l.key = coalesce(e.root, e.key) OR l.root = coalesce(e.root, e.key))"
)
_RELATIONSHIP: LiteralString = (
    "SELECT key, source_key, target_key, type, exclusive FROM graph_relationships r WHERE "
)
# Names that occur together no more often than by chance have no strength.
_HOLDS: LiteralString = (
    " AND r.strength > 0 AND EXISTS (SELECT 1 FROM graph_evidence WHERE relationship_key = r.key"
    " AND " + STATED + ")"
)
# Whether the other end of a relationship is a node: most are sure, so their mentions are not read.
_IS_NODE: LiteralString = (
    " AND "
    + _NO_FACT
    + " AND (e.confidence >= 0.5 OR (SELECT total(confidence)"
    + _OWN_MENTIONS
    + ") >= 0.5))"
)
_TO_NODES: tuple[LiteralString, ...] = (
    " AND EXISTS (SELECT 1 FROM graph_entities e WHERE e.key = target_key" + _IS_NODE,
    " AND EXISTS (SELECT 1 FROM graph_entities e WHERE e.key = source_key" + _IS_NODE,
)
_WITH_TYPE: LiteralString = " AND type IN (SELECT value FROM json_each(:types))"
_WEIGHTIEST: LiteralString = " ORDER BY weight DESC, key LIMIT :limit"
_DIRECTIONS: tuple[LiteralString, ...] = ("source_key = :entity", "target_key = :entity")

# Merged entities by their root.
_LEAVES: LiteralString = """
SELECT root, key FROM graph_entities WHERE root IN (SELECT value FROM json_each(?)) ORDER BY id"""
_ROOT_KEYS: LiteralString = """
SELECT id, coalesce(root, key) FROM graph_entities WHERE id IN (SELECT value FROM json_each(?))"""
_ROOT_IDS: LiteralString = """
SELECT e.key, coalesce(r.id, e.id) FROM graph_entities e
LEFT JOIN graph_entities r ON r.key = e.root WHERE e.key IN (SELECT value FROM json_each(?))"""
# How strong the evidence of relationships is, and how much there is.
_SUPPORT: LiteralString = (
    "SELECT relationship_key, max(strength), count(*) FROM graph_evidence"
    " WHERE relationship_key IN (SELECT value FROM json_each(:keys)) AND " + STATED + " GROUP BY 1"
)
# What is stated of these entities exclusively and was not withdrawn.
_EXCLUSIVE_STATEMENTS: LiteralString = (
    """
WITH wanted AS (SELECT DISTINCT coalesce(root, key) AS root FROM graph_entities
        WHERE key IN (SELECT value FROM json_each(:sources))),
    subjects AS (SELECT root, root AS key FROM wanted UNION ALL
        SELECT w.root, l.key FROM wanted w JOIN graph_entities l ON l.root = w.root)
SELECT s.root, r.type, r.key, v.key, coalesce(t.root, t.key), v.said, v.since, v.until
FROM subjects s CROSS JOIN graph_relationships r ON r.source_key = s.key AND r.exclusive = 1
JOIN graph_entities t ON t.key = r.target_key
JOIN graph_evidence v ON v.relationship_key = r.key
    AND (v.withdrawn IS NULL OR v.withdrawn > :now) AND """
    + _NOT_HIDDEN
)


class _Seen(NamedTuple):
    """What is seen of the graph: the values of the conditions above."""

    now: int
    hidden: str = "[]"


class _RelationshipRow(NamedTuple):
    """A relationship as it is stored: between entities as the texts name them."""

    key: int
    source: int
    target: int
    type: str
    exclusive: int


def _leaves_of(connection: sqlite3.Connection, roots: Collection[int]) -> dict[int, list[int]]:
    """Return each of these entities followed by all that are merged into it."""
    found: dict[int, list[int]] = {root: [root] for root in roots}
    for root, key in connection.execute(_LEAVES, (to_json(list(roots)),)):
        found[root].append(key)
    return found


def get_edges(
    connection: sqlite3.Connection, entity_ids: Sequence[str], query: EdgeQuery
) -> list[Edge]:
    roots = _roots_of(connection, entity_ids)
    now = to_moment(query.as_of)
    seen = _Seen(now, to_json(query.hidden))
    bound = {**seen._asdict(), "types": to_json(query.types), "limit": query.limit}
    rows: dict[int, _RelationshipRow] = {}
    for direction, to_nodes in zip(_DIRECTIONS, _TO_NODES, strict=True):
        sql = _RELATIONSHIP + direction + (_WITH_TYPE if query.types else "") + _HOLDS
        sql += (to_nodes if query.nodes else "") + _WEIGHTIEST
        for leaves in _leaves_of(connection, set(roots.values())).values():
            for leaf in leaves:
                for found in connection.execute(sql, {**bound, "entity": leaf}):
                    row = _RelationshipRow(*found)
                    rows[row.key] = row
    holding = _leave_out_replaced(connection, list(rows.values()), seen)
    values = {"keys": to_json([row.key for row in holding]), **seen._asdict()}
    support = {
        key: (strength, count) for key, strength, count in connection.execute(_SUPPORT, values)
    }
    return _as_edges(connection, holding, support)


def _roots_of(connection: sqlite3.Connection, entity_ids: Sequence[str]) -> dict[str, int]:
    return dict(connection.execute(_ROOT_KEYS, (to_json(list(entity_ids)),)).fetchall())


def _as_edges(
    connection: sqlite3.Connection,
    rows: Sequence[_RelationshipRow],
    supported: Mapping[int, tuple[float, int]],
) -> list[Edge]:
    """Join the relationships of merged entities, without those between them."""
    named = {row.source for row in rows} | {row.target for row in rows}
    ids = dict(connection.execute(_ROOT_IDS, (to_json(list(named)),)).fetchall())
    return join_edges(
        (EdgeKey(ids[row.source], ids[row.target], row.type), *supported.get(row.key, (0.0, 1)))
        for row in rows
    )


# --- Exclusive relationships -----------------------------------------------------------


def _leave_out_replaced(
    connection: sqlite3.Connection, rows: Sequence[_RelationshipRow], seen: _Seen
) -> list[_RelationshipRow]:
    """Leave out exclusive relationships that something newer has replaced by then."""
    exclusive = [row for row in rows if row.exclusive]
    if not exclusive:
        return list(rows)
    sources = {row.source for row in exclusive}
    holding = {
        relationship
        for relationship, _, since, end in _statements(connection, sources, seen)
        if since <= seen.now and (end is None or end > seen.now)
    }
    return [row for row in rows if not row.exclusive or row.key in holding]


def _statements(
    connection: sqlite3.Connection, sources: Collection[int], seen: _Seen
) -> Iterator[tuple[int, int, int, int | None]]:
    """Yield relationship, key of the evidence, beginning and end of what is stated exclusively.

    What was withdrawn by then does not count.
    """
    values = {"sources": to_json(list(sources)), **seen._asdict()}
    rows = connection.execute(_EXCLUSIVE_STATEMENTS, values)
    return spans(
        SubjectStatement(
            root, kind, relationship, sentence, Statement(str(target), said, since, until)
        )
        for root, kind, relationship, sentence, target, said, since, until in rows
    )


# --- Evidence ---------------------------------------------------------------------------

# The columns of a `_SentenceRow`.
_SENTENCE: LiteralString = (
    "SELECT v.key, v.text, v.start_char, v.end_char,"
    " (SELECT c.text FROM chunks c WHERE c.id = v.chunk_id), v.chunk_id, m.id, v.strength,"
    " v.source, v.said, v.since, v.until, v.withdrawn, r.exclusive FROM graph_relationships r"
    " JOIN graph_evidence v ON v.relationship_key = r.key"
    " LEFT JOIN memories m ON m.key = v.memory_key"
)
# The strongest and newest first.
_EVIDENCE: LiteralString = (
    _SENTENCE
    + " WHERE r.source_key = :source AND r.target_key = :target AND r.type = :type AND "
    + STATED
    + " ORDER BY v.strength DESC, v.said DESC, v.key LIMIT :limit"
)


class _SentenceRow(NamedTuple):
    """A sentence that states a relationship."""

    key: int
    text: str | None
    start: int
    stop: int
    passage: str | None
    chunk_id: int | None
    memory_id: str | None
    strength: float
    source: str
    said: int
    since: int
    until: int | None
    withdrawn: int | None
    exclusive: int


def get_evidence(
    connection: sqlite3.Connection,
    edges: Sequence[EdgeKey],
    as_of: datetime | None,
    limit: int,
    hidden: Sequence[str] = (),
) -> dict[EdgeKey, list[Evidence]]:
    seen = _Seen(to_moment(as_of), to_json(list(hidden)))
    roots = _roots_of(connection, [i for key in edges for i in (key.source_id, key.target_id)])
    leaves = _leaves_of(connection, set(roots.values()))
    found: dict[EdgeKey, list[Evidence]] = {}
    for key in edges:
        pairs = [
            (source, target)
            for source in leaves.get(roots.get(key.source_id, -1), ())
            for target in leaves.get(roots.get(key.target_id, -1), ())
        ]
        rows = _sentences(connection, pairs, key.type, seen, limit)
        ends = {}
        if any(row.exclusive for row in rows):
            # The strongest may be replaced: read all.
            rows = _sentences(connection, pairs, key.type, seen, -1)
            stated = _statements(connection, {source for source, _ in pairs}, seen)
            ends = {sentence: end for _, sentence, _, end in stated}
        holding = [row for row in rows if (end := ends.get(row.key)) is None or end > seen.now]
        found[key] = [_to_evidence(row, ends.get(row.key)) for row in holding[:limit]]
    return found


def _sentences(
    connection: sqlite3.Connection,
    pairs: Sequence[tuple[int, int]],
    kind: str,
    seen: _Seen,
    limit: int,
) -> list[_SentenceRow]:
    rows = [
        _SentenceRow(*row)
        for source, target in pairs
        for row in connection.execute(
            _EVIDENCE,
            {"source": source, "target": target, "type": kind, "limit": limit, **seen._asdict()},
        )
    ]
    return sorted(rows, key=lambda row: (-row.strength, -row.said, row.key))


def _to_evidence(row: _SentenceRow, replaced: int | None) -> Evidence:
    ends = [end for end in (row.until, row.withdrawn, replaced) if end is not None]
    return Evidence.model_construct(
        text=(row.text or "") if row.passage is None else row.passage[row.start : row.stop],
        memory_id=row.memory_id,
        chunk_id=None if row.chunk_id is None else str(row.chunk_id),
        strength=row.strength,
        source=row.source,
        said_at=None if row.said == EVER else from_time(row.said),
        valid_from=None if row.since == EVER else from_time(row.since),
        valid_to=from_time(min(ends)) if ends else None,
    )


# --- The past ---------------------------------------------------------------------------


# Relationships that may have ended: nothing states them now, or something may have replaced them.
_MAY_HAVE_ENDED: LiteralString = (
    " AND type NOT IN (SELECT value FROM json_each(:without)) AND (exclusive = 1 OR NOT EXISTS"
    " (SELECT 1 FROM graph_evidence WHERE relationship_key = r.key AND "
    + STATED
    + ")) ORDER BY key DESC LIMIT :most"
)
# All statements of a relationship that were made by then, the columns of a `_SentenceRow`.
_EVER_STATED: LiteralString = (
    _SENTENCE
    + " WHERE r.key = :relationship AND since <= :now AND "
    + _NOT_HIDDEN
    + " ORDER BY v.strength DESC, v.said DESC, v.key"
)
_MENTIONED_BETWEEN: LiteralString = (
    "SELECT min(since), max(since) FROM graph_mentions"
    " WHERE entity_key IN (SELECT value FROM json_each(:leaves)) AND since <= :now AND "
    + _CHUNK_NOT_HIDDEN
)
# Of an entity with more that has ended, the newest.
MOST_ENDED, ALL_EDGES = 500, 10_000_000


def get_past(
    connection: sqlite3.Connection,
    entity_id: str,
    as_of: datetime | None,
    limit: int,
    *,
    hidden: Sequence[str] = (),
    without: Sequence[str] = (),
) -> EntityPast:
    seen = _Seen(to_moment(as_of), to_json(list(hidden)))
    roots = _roots_of(connection, [entity_id])
    if entity_id not in roots:
        return EntityPast()
    leaves = _leaves_of(connection, set(roots.values()))[roots[entity_id]]
    bound = {"leaves": to_json(leaves), **seen._asdict()}
    first, last = connection.execute(_MENTIONED_BETWEEN, bound).fetchone()
    values = {"without": to_json(list(without)), "most": MOST_ENDED, **seen._asdict()}
    rows: dict[int, _RelationshipRow] = {}
    for direction in _DIRECTIONS:
        for leaf in leaves:
            sql = _RELATIONSHIP + direction + _MAY_HAVE_ENDED
            for found in connection.execute(sql, {**values, "entity": leaf}):
                row = _RelationshipRow(*found)
                rows[row.key] = row
    ids = dict(
        connection.execute(
            _ROOT_IDS,
            (to_json([end for row in rows.values() for end in (row.source, row.target)]),),
        ).fetchall()
    )
    replaced = {
        sentence: end
        for _, sentence, _, end in _statements(
            connection, {row.source for row in rows.values() if row.exclusive}, seen
        )
    }
    statements = []
    for row in rows.values():
        key = EdgeKey(ids[row.source], ids[row.target], row.type)
        for found in connection.execute(_EVER_STATED, {"relationship": row.key, **seen._asdict()}):
            sentence = _SentenceRow(*found)
            ends = (sentence.until, sentence.withdrawn, replaced.get(sentence.key))
            end = min((end for end in ends if end is not None), default=None)
            statements.append((key, end, sentence))
    holding: set[EdgeKey] = set()
    if statements:
        query = EdgeQuery(as_of=as_of, limit=ALL_EDGES, hidden=list(hidden))
        holding = {edge.key for edge in get_edges(connection, [entity_id], query)}
    return EntityPast(
        None if first is None else from_time(first),
        None if last is None else from_time(last),
        [
            PastEdge(key, _to_evidence(sentence, end))
            for key, end, sentence in last_ended(statements, holding, seen.now, limit)
        ],
    )


# --- Counting ---------------------------------------------------------------------------


def _count_edges(connection: sqlite3.Connection, seen: _Seen) -> tuple[Mapping[str, int], int]:
    """Count the relationships that hold, by type, and those that no longer do."""
    rows = [
        _RelationshipRow(*row)
        for row in connection.execute(_RELATIONSHIP + "TRUE" + _HOLDS, seen._asdict())
    ]
    holding = _as_edges(connection, _leave_out_replaced(connection, rows, seen), {})
    every = [_RelationshipRow(*row) for row in connection.execute(_RELATIONSHIP + "strength > 0")]
    counts: dict[str, int] = {}
    for edge in holding:
        counts[edge.key.type] = counts.get(edge.key.type, 0) + 1
    # Sorting is stable: the most frequent first, then by name.
    ordered = sorted(sorted(counts), key=lambda kind: counts[kind], reverse=True)
    return {kind: counts[kind] for kind in ordered}, len(_as_edges(connection, every, {})) - len(
        holding
    )


# --- Entities --------------------------------------------------------------------------


# At most this many names that contain the text are ranked.
MOST_MATCHES = 2000

# Whether the entity `e` is mentioned at the time `:now`. Evidence of an earlier text has no
# passage, and so no mention.
_IS_MENTIONED: LiteralString = (
    "(e.given = 1"
    " OR EXISTS (SELECT 1 FROM graph_mentions WHERE entity_key = e.key AND " + NAMED_THEN + ")"
    " OR EXISTS (SELECT 1 FROM graph_relationships r JOIN graph_evidence v"
    " ON v.relationship_key = r.key WHERE r.source_key = e.key AND " + STATED + ")"
    " OR EXISTS (SELECT 1 FROM graph_relationships r JOIN graph_evidence v"
    " ON v.relationship_key = r.key WHERE r.target_key = e.key AND " + STATED + "))"
)
_OF_TYPE: LiteralString = (
    "(:types = '[]' AND (:nodes = 0 OR "
    + _NO_FACT
    + ") OR e.type IN (SELECT value FROM json_each(:types)))"
)
# Without a mention it is only stated, by a text that has changed since: then as sure as it was.
_ADDS_UP: LiteralString = (
    "(e.given = 1 OR coalesce((SELECT sum(confidence)"
    + _OWN_MENTIONS
    + " AND "
    + NAMED_THEN
    + "), e.confidence) >= 0.5)"
)


def find_entities(connection: sqlite3.Connection, query: EntityQuery) -> list[Entity]:
    seen = _Seen(to_moment(query.as_of), to_json(query.hidden))
    matches = _matches(connection, query, seen)
    counts = _count_mentions(connection, matches, seen)
    names = dict(connection.execute(_FOLDED, (to_json(list(matches)),)).fetchall())
    order = sorted(matches, key=lambda key: (-matches[key], -counts.get(key, 0), names[key]))
    page = order[query.offset : query.offset + query.limit]
    return _describe(connection, {key: matches[key] for key in page}, counts, seen)


def _matches(connection: sqlite3.Connection, query: EntityQuery, seen: _Seen) -> dict[int, float]:
    """Return the keys of roots that match the query, and how well."""
    asked = fold(query.text)
    found_by: dict[str, object] = {"types": to_json(query.types), "nodes": int(query.nodes)}
    found_by |= {"asked": asked, "most": MOST_MATCHES}
    bound = {**seen._asdict(), **found_by}
    found: dict[int, float] = {}
    searches = _EVERYTHING if not asked else _EXACT if query.exact else (*_EXACT, *_PARTIAL)
    for sql, score in searches:
        for (key,) in connection.execute(sql, bound):
            found.setdefault(key, score)
    if found or not asked or query.exact:
        return found
    alike = [(likeness(asked, folded), key) for key, folded in connection.execute(_NAMES, bound)]
    best = sorted(((like, key) for like, key in alike if like >= LEAST_LIKENESS), reverse=True)
    for score, key in best[: query.offset + query.limit]:
        found[key] = max(found.get(key, 0.0), round(score / 2, 3))
    return found


_FROM: LiteralString = "SELECT coalesce(e.root, e.key) FROM graph_entities e WHERE "
_AND_SHOWN: LiteralString = (
    " AND " + _OF_TYPE + " AND " + _IS_MENTIONED + " AND (:nodes = 0 OR " + _ADDS_UP + ")"
)
_EVERYTHING: tuple[tuple[LiteralString, float], ...] = ((_FROM + "TRUE" + _AND_SHOWN, 1.0),)
# From the best kind of match to the worst.
_EXACT: tuple[tuple[LiteralString, float], ...] = (
    (_FROM + "e.folded = :asked" + _AND_SHOWN, 1.0),
    (
        _FROM
        + "e.key IN (SELECT entity_key FROM graph_mentions WHERE folded = :asked AND "
        + NAMED_THEN
        + ")"
        + _AND_SHOWN,
        1.0,
    ),
)
_PARTIAL: tuple[tuple[LiteralString, float], ...] = (
    (_FROM + "instr(e.folded, :asked) = 1" + _AND_SHOWN + " LIMIT :most", 0.8),
    (_FROM + "instr(e.folded, :asked) > 1" + _AND_SHOWN + " LIMIT :most", 0.6),
)
_NAMES: LiteralString = (
    "SELECT coalesce(e.root, e.key), e.folded FROM graph_entities e WHERE TRUE" + _AND_SHOWN
)


# Entities by id with their roots, those that are mentioned.
_MENTIONED_BY_ID: LiteralString = (
    "SELECT a.id, coalesce(a.root, a.key) FROM graph_entities a"
    " WHERE a.id IN (SELECT value FROM json_each(:ids)) AND EXISTS (SELECT 1 FROM graph_entities e"
    " WHERE (e.key = coalesce(a.root, a.key) OR e.root = coalesce(a.root, a.key)) AND "
    + _IS_MENTIONED
    + ")"
)
# The same for a root `e`, with what was merged into it.
_IS_MENTIONED_ROOT: LiteralString = (
    "(" + _IS_MENTIONED + " OR EXISTS (SELECT 1 FROM graph_entities a WHERE a.root = e.key"
    " AND EXISTS (SELECT 1 FROM graph_entities e WHERE e.key = a.key AND " + _IS_MENTIONED + ")))"
)
_MENTIONED_PAGE: LiteralString = (
    "SELECT e.key FROM graph_entities e WHERE e.root IS NULL AND e.id > :after AND "
    + _NO_FACT
    + " AND "
    + _IS_MENTIONED_ROOT
    + " AND "
    + _ADDS_UP
    + " ORDER BY e.id LIMIT :limit"
)
_NAMES_OF_TYPES: LiteralString = """
SELECT id, type, name FROM graph_entities
WHERE type IN (SELECT value FROM json_each(?)) ORDER BY key"""


def get_entities(
    connection: sqlite3.Connection,
    entity_ids: Sequence[str],
    as_of: datetime | None = None,
    hidden: Sequence[str] = (),
) -> dict[str, Entity]:
    seen = _Seen(to_moment(as_of), to_json(list(hidden)))
    bound = {"ids": to_json(list(entity_ids)), **seen._asdict()}
    roots: dict[str, int] = dict(connection.execute(_MENTIONED_BY_ID, bound).fetchall())
    counts = _count_mentions(connection, set(roots.values()), seen)
    described = _describe(connection, dict.fromkeys(roots.values(), 1.0), counts, seen)
    by_key = dict(zip(dict.fromkeys(roots.values()), described, strict=True))
    return {entity_id: by_key[key] for entity_id, key in roots.items()}


def list_entities(
    connection: sqlite3.Connection, after: str | None, limit: int, hidden: Sequence[str] = ()
) -> list[Entity]:
    seen = _Seen(to_moment(None), to_json(list(hidden)))
    bound = {"after": after or "", "limit": limit, **seen._asdict()}
    keys = {key: 1.0 for (key,) in connection.execute(_MENTIONED_PAGE, bound)}
    return _describe(connection, keys, _count_mentions(connection, keys, seen), seen)


def get_names(connection: sqlite3.Connection, types: Sequence[str]) -> list[EntityName]:
    rows = connection.execute(_NAMES_OF_TYPES, (to_json(list(types)),))
    return [EntityName(*row) for row in rows]


# --- What belongs to a root -------------------------------------------------------------

_COUNT_MENTIONS: LiteralString = (
    "SELECT coalesce(e.root, e.key), count(*) FROM graph_entities e"
    " JOIN graph_mentions m ON m.entity_key = e.key AND "
    + NAMED_THEN
    + " WHERE e.key IN (SELECT value FROM json_each(:roots))"
    " OR e.root IN (SELECT value FROM json_each(:roots)) GROUP BY 1"
)
_FOLDED: LiteralString = """
SELECT key, folded FROM graph_entities WHERE key IN (SELECT value FROM json_each(?))"""
_ENTITY: LiteralString = """
SELECT id, name, type, description, confidence, source FROM graph_entities WHERE key = ?"""
_MERGED_ENTITY: LiteralString = "SELECT id, name FROM graph_entities WHERE key = ?"
# The most frequent other names of an entity.
_ALIASES: LiteralString = (
    "SELECT max(alias) FROM graph_mentions WHERE entity_key = :leaf AND folded IS NOT NULL AND "
    + _CHUNK_NOT_HIDDEN
    + " GROUP BY folded ORDER BY count(*) DESC, folded LIMIT :limit"
)
_MENTIONED_KEYS: LiteralString = (
    "SELECT e.key FROM graph_entities e WHERE e.key IN (SELECT value FROM json_each(:keys)) AND "
    + _IS_MENTIONED
)


def _count_mentions(
    connection: sqlite3.Connection, roots: Collection[int], seen: _Seen
) -> dict[int, int]:
    bound = {"roots": to_json(list(roots)), **seen._asdict()}
    return dict(connection.execute(_COUNT_MENTIONS, bound).fetchall())


def _describe(
    connection: sqlite3.Connection,
    keys: Mapping[int, float],
    counts: Mapping[int, int],
    seen: _Seen,
) -> list[Entity]:
    leaves = _leaves_of(connection, keys.keys())
    if seen.hidden != "[]":
        # A name that only hidden memories use is not shown, of the entity or of one merged into it.
        every = to_json([leaf for root in leaves.values() for leaf in root])
        rows = connection.execute(_MENTIONED_KEYS, {"keys": every, **seen._asdict()})
        shown = {key for (key,) in rows}
        leaves = {root: [leaf for leaf in own if leaf in shown] for root, own in leaves.items()}
    described = []
    for key, match in keys.items():
        row = connection.execute(_ENTITY, (key,)).fetchone()
        entity_id, name, kind, description, confidence, source = row
        first, *others = leaves[key] or [key]
        if first != key:
            _, name = connection.execute(_MERGED_ENTITY, (first,)).fetchone()
        merged = [connection.execute(_MERGED_ENTITY, (leaf,)).fetchone() for leaf in others]
        written = [
            alias
            for leaf in leaves[key]
            for (alias,) in connection.execute(
                _ALIASES, {"leaf": leaf, "limit": ALIASES_SHOWN, "hidden": seen.hidden}
            )
        ]
        described.append(
            Entity.model_construct(
                entity_id=entity_id,
                name=name,
                type=kind,
                description=description,
                confidence=confidence,
                source=source,
                aliases=choose_aliases(name, [merged_name for _, merged_name in merged], written),
                mentions=counts.get(key, 0),
                merged_ids=[merged_id for merged_id, _ in merged],
                match=match,
            )
        )
    return described


# --- Counting ---------------------------------------------------------------------------


_ENTITY_TYPES: LiteralString = (
    "SELECT e.type, count(*) FROM graph_entities e WHERE e.root IS NULL AND "
    + _NO_FACT
    + " AND "
    + _IS_MENTIONED_ROOT
    + " AND "
    + _ADDS_UP
    + " GROUP BY 1 ORDER BY 2 DESC, 1"
)
_COUNTS: LiteralString = (
    "SELECT (SELECT count(*) FROM graph_mentions WHERE " + MENTIONED + "),"
    " (SELECT count(*) FROM graph_merges WHERE undone_at IS NULL),"
    " (SELECT count(*) FROM chunks)"
)


def get_graph_stats(connection: sqlite3.Connection, extractor: str) -> GraphStats:
    seen = _Seen(to_moment(None))
    types = dict(connection.execute(_ENTITY_TYPES, seen._asdict()).fetchall())
    edges, closed = _count_edges(connection, seen)
    mentions, merges, passages = connection.execute(_COUNTS, {"now": seen.now}).fetchone()
    return GraphStats(
        entities=sum(types.values()),
        relationships=sum(edges.values()),
        mentions=mentions,
        closed_relationships=closed,
        merges=merges,
        passages=passages,
        unread_passages=count_unread(connection, extractor, GraphScope()),
        entity_types=types,
        relationship_types=edges,
    )
