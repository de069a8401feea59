"""Writing the graph: extractions from passages, what callers store, and merges of entities.

Merges are stored by id, apart from the entities: a merge also holds for later texts, and undoing
one separates exactly what belongs to each of the two. `graph_entities.root` is only the result: the
last entity of a chain of merges that exists.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import LiteralString, NamedTuple

from zapomni_db.exceptions import EntityNotFoundError, ValidationError
from zapomni_db.graph_models import (
    CooccurringPair,
    EdgeKey,
    ExtractedChunk,
    GraphGrowth,
    GraphScope,
    Merge,
    UnreadChunk,
)
from zapomni_db.models import EntityData, RelationshipData
from zapomni_db.rules import (
    COOCCURRENCE,
    EVER,
    FORMS,
    alias_of,
    beginning,
    find_root,
    fold,
    most_certain,
)
from zapomni_db.sqlite.connection import fetch_value
from zapomni_db.sqlite.rows import from_time, to_json, to_time

__all__ = [
    "count_unread",
    "end_statements",
    "entity_row",
    "get_cooccurring",
    "get_unread",
    "merge_entities",
    "reroot",
    "set_associations",
    "store_entities",
    "store_extractions",
    "undo_merge",
]


# When a memory was stated: when it happened, or when its text was last changed.
_SAID: LiteralString = (
    "coalesce((SELECT max(h.replaced_at) FROM memory_history h"
    " WHERE h.memory_key = m.key AND h.text IS NOT NULL), m.occurred_at)"
)


class _EvidenceSource(NamedTuple):
    """Where evidence comes from: a passage, or (without a chunk) a caller."""

    chunk_id: int | None = None
    memory_key: int | None = None
    said: int = EVER
    withdrawn: int | None = None
    """When the memory was superseded."""


class _EvidenceFields(NamedTuple):
    """The part of a row of evidence that the sentence itself decides."""

    relationship_key: int
    start_char: int
    end_char: int
    strength: float
    source: str
    since: int
    until: int | None


_Edge = tuple[int, int, str]
"""The keys of two entities and the type of the relationship between them."""


# --- Entities and relationships ---------------------------------------------------------

# An entity stored by a caller: it exists even if no passage mentions it.
_UPSERT_GIVEN: LiteralString = """
INSERT INTO graph_entities (id, name, folded, type, description, confidence, source, given)
VALUES (?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, folded = excluded.folded,
    type = excluded.type, description = excluded.description, confidence = excluded.confidence,
    source = excluded.source, given = 1"""
_INSERT_ENTITY: LiteralString = """
INSERT INTO graph_entities (id, name, folded, type, description, confidence, source)
VALUES (?, ?, ?, ?, ?, ?, ?)"""
# A known entity keeps the highest confidence and its first description.
_IMPROVE_ENTITY: LiteralString = """
UPDATE graph_entities SET confidence = max(confidence, ?1),
    description = CASE description WHEN '' THEN ?2 ELSE description END
WHERE key = ?3 AND (confidence < ?1 OR (description = '' AND ?2 <> ''))"""
_ENTITY_KEYS: LiteralString = """
SELECT id, key FROM graph_entities WHERE id IN (SELECT value FROM json_each(?))"""

_RELATIONSHIP_KEYS: LiteralString = """
SELECT r.source_key, r.target_key, r.type, r.key FROM json_each(?) e
JOIN graph_relationships r ON r.source_key = json_extract(e.value, '$[0]')
    AND r.target_key = json_extract(e.value, '$[1]') AND r.type = json_extract(e.value, '$[2]')"""
_INSERT_RELATIONSHIP: LiteralString = """
INSERT INTO graph_relationships (source_key, target_key, type, exclusive) VALUES (?, ?, ?, ?)"""

_INSERT_EVIDENCE: LiteralString = """
INSERT INTO graph_evidence (relationship_key, start_char, end_char, strength, source, since, until,
    chunk_id, memory_key, said, withdrawn, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_DELETE_EVIDENCE: LiteralString = "DELETE FROM graph_evidence WHERE key = ?"
# What a caller stated about a relationship before.
_DELETE_OLDER_GIVEN: LiteralString = """
DELETE FROM graph_evidence WHERE relationship_key = ? AND memory_key IS NULL AND key < ?"""
_EVIDENCE_OF_CHUNKS: LiteralString = """
SELECT key, chunk_id, relationship_key, start_char, end_char, strength, source, since, until
FROM graph_evidence WHERE chunk_id IN (SELECT value FROM json_each(?))"""

_MENTIONS_OF_CHUNKS: LiteralString = """
SELECT chunk_id, start_char, end_char, entity_key, confidence FROM graph_mentions
WHERE chunk_id IN (SELECT value FROM json_each(?))"""
# Another reader may be surer of the same words.
_UPDATE_MENTION: LiteralString = """
UPDATE graph_mentions SET confidence = ?, source = ?
WHERE chunk_id = ? AND start_char = ? AND end_char = ? AND entity_key = ?"""
_INSERT_MENTION: LiteralString = """
INSERT INTO graph_mentions (chunk_id, start_char, end_char, entity_key, confidence, source, alias,
    folded, since, withdrawn)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_DELETE_MENTION: LiteralString = """
DELETE FROM graph_mentions
WHERE chunk_id = ? AND start_char = ? AND end_char = ? AND entity_key = ?"""

# The columns of an `_EvidenceSource`.
_SOURCES: LiteralString = (
    "SELECT c.id, c.memory_key, "
    + _SAID
    + ", (SELECT n.occurred_at FROM memories n WHERE n.key = m.superseded_by)"
    " FROM chunks c JOIN memories m ON m.key = c.memory_key"
    " WHERE c.id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))"
)
_MARK_EXTRACTED: LiteralString = """
INSERT INTO graph_extractions (chunk_id, extractor) VALUES (?, ?)
ON CONFLICT (chunk_id) DO UPDATE SET extractor = excluded.extractor"""


def store_entities(
    connection: sqlite3.Connection,
    entities: Sequence[EntityData],
    relationships: Sequence[RelationshipData],
) -> int:
    """Upsert what a caller states; every entity of a relationship must be stored."""
    connection.executemany(_UPSERT_GIVEN, [entity_row(entity) for entity in entities])
    reroot(connection, {entity.entity_id for entity in entities})
    caller = _EvidenceSource()
    for stated in relationships:
        keys = _read_keys(connection, {stated.source_entity_id, stated.target_entity_id})
        edge = _to_edge(keys, stated)
        found, _ = _upsert_relationships(connection, {edge: stated})
        fields = _to_evidence(found[edge], stated, caller.said)
        row = (*fields, *caller, stated.evidence)
        newest = connection.execute(_INSERT_EVIDENCE, row).lastrowid
        connection.execute(_DELETE_OLDER_GIVEN, (fields.relationship_key, newest))
    return len(entities)


def store_extractions(
    connection: sqlite3.Connection,
    extractor: str,
    chunks: Sequence[ExtractedChunk],
    same: Sequence[tuple[str, str]] = (),
) -> GraphGrowth:
    rows = connection.execute(_SOURCES, (to_json([chunk.chunk_id for chunk in chunks]),))
    sources = {str(source.chunk_id): source for source in (_EvidenceSource(*row) for row in rows)}
    present = [(sources[chunk.chunk_id], chunk) for chunk in chunks if chunk.chunk_id in sources]
    keys, entities = _upsert_entities(connection, [e for _, c in present for e in c.entities])
    growth = GraphGrowth(
        entities=entities,
        mentions=_replace_mentions(connection, keys, present),
        relationships=_replace_evidence(connection, keys, present),
    )
    connection.executemany(_MARK_EXTRACTED, [(source.chunk_id, extractor) for source, _ in present])
    _merge_same(connection, same)
    return growth


def entity_row(entity: EntityData) -> tuple[object, ...]:
    """Return the values of an entity in the order of the columns of `graph_entities`."""
    named = (entity.entity_id, entity.name, fold(entity.name), entity.type)
    return (*named, entity.description, entity.confidence, entity.source)


def _read_keys(connection: sqlite3.Connection, ids: Collection[str]) -> dict[str, int]:
    return dict(connection.execute(_ENTITY_KEYS, (to_json(list(ids)),)).fetchall())


def _upsert_entities(
    connection: sqlite3.Connection, mentions: Iterable[EntityData]
) -> tuple[dict[str, int], int]:
    """Insert new entities, raise the confidence and add the description of known ones.

    Returns the keys of all of them, and how many are new.
    """
    best = most_certain(mentions)
    keys = _read_keys(connection, best)
    known = keys.copy()
    for entity_id, entity in best.items():
        if entity_id not in known:
            key = connection.execute(_INSERT_ENTITY, entity_row(entity)).lastrowid
            assert key is not None
            keys[entity_id] = key
    connection.executemany(
        _IMPROVE_ENTITY,
        [(best[i].confidence, best[i].description, key) for i, key in known.items()],
    )
    new = best.keys() - known.keys()
    reroot(connection, _find_merged(connection, new))
    return keys, len(new)


_Read = Sequence[tuple[_EvidenceSource, ExtractedChunk]]
"""Passages, and what was found in each."""


def _replace_mentions(connection: sqlite3.Connection, keys: Mapping[str, int], read: _Read) -> int:
    """Replace the mentions of passages; return how many are new."""
    rows = connection.execute(_MENTIONS_OF_CHUNKS, (_chunk_ids(read),))
    before = {tuple(place): confidence for *place, confidence in rows}
    now = {
        (source.chunk_id, one.start_char, one.end_char, keys[one.entity_id]): (source, one)
        for source, chunk in read
        for one in chunk.entities
    }
    new = [
        (*place, one.confidence, one.source, *alias_of(one), source.said, source.withdrawn)
        for place, (source, one) in now.items()
        if place not in before
    ]
    connection.executemany(_INSERT_MENTION, new)
    connection.executemany(
        _UPDATE_MENTION,
        [
            (now[place][1].confidence, now[place][1].source, *place)
            for place, confidence in before.items()
            if place in now and now[place][1].confidence != confidence
        ],
    )
    connection.executemany(_DELETE_MENTION, list(before.keys() - now.keys()))
    return len(new)


def _replace_evidence(connection: sqlite3.Connection, keys: Mapping[str, int], read: _Read) -> int:
    """Replace the evidence of passages; return how many relationships are new."""
    rows = connection.execute(_EVIDENCE_OF_CHUNKS, (_chunk_ids(read),))
    before = {
        (chunk_id, _as_compared(_EvidenceFields(*fields))): key for key, chunk_id, *fields in rows
    }
    stated = [(_to_edge(keys, one), source, one) for source, c in read for one in c.relationships]
    edges: dict[_Edge, RelationshipData] = {}
    for edge, _, one in stated:
        edges.setdefault(edge, one)
    found, new = _upsert_relationships(connection, edges)
    now: dict[tuple[int | None, _EvidenceFields], tuple[object, ...]] = {}
    for edge, source, one in stated:
        fields = _to_evidence(found[edge], one, source.said)
        now.setdefault((source.chunk_id, _as_compared(fields)), (*fields, *source, None))
    connection.executemany(
        _INSERT_EVIDENCE, [row for place, row in now.items() if place not in before]
    )
    gone = [(key,) for place, key in before.items() if place not in now]
    connection.executemany(_DELETE_EVIDENCE, gone)
    # Names that only occur together are no relationship until they do so above chance.
    return sum(edges[edge].strength > 0 for edge in new)


def _chunk_ids(read: _Read) -> str:
    return to_json([source.chunk_id for source, _ in read])


def _as_compared(fields: _EvidenceFields) -> _EvidenceFields:
    """Return the fields that make evidence another one; all memories decide on an association."""
    if fields.source != COOCCURRENCE or fields.strength == 0.0:
        return fields
    return fields._replace(strength=0.0)


def _to_edge(keys: Mapping[str, int], stated: RelationshipData) -> _Edge:
    try:
        ends = keys[stated.source_entity_id], keys[stated.target_entity_id]
    except KeyError as error:
        raise ValidationError(
            "A relationship names an entity that was not stored with it.",
            "VAL_004",
            original_exception=error,
        ) from error
    return (*ends, stated.relationship_type)


def _upsert_relationships(
    connection: sqlite3.Connection, edges: Mapping[_Edge, RelationshipData]
) -> tuple[dict[_Edge, int], list[_Edge]]:
    """Return the keys of relationships, and which of them are new."""
    rows = connection.execute(_RELATIONSHIP_KEYS, (to_json(list(edges)),))
    found = {(source, target, kind): key for source, target, kind, key in rows}
    new = [edge for edge in edges if edge not in found]
    for edge in new:
        key = connection.execute(
            _INSERT_RELATIONSHIP, (*edge, int(edges[edge].exclusive))
        ).lastrowid
        assert key is not None
        found[edge] = key
    return found, new


def _to_evidence(key: int, stated: RelationshipData, said: int) -> _EvidenceFields:
    until = None if stated.valid_to is None else to_time(stated.valid_to)
    start = None if stated.valid_from is None else to_time(stated.valid_from)
    return _EvidenceFields(
        relationship_key=key,
        start_char=stated.start_char,
        end_char=stated.end_char,
        strength=stated.strength,
        source=stated.source,
        since=beginning(said, start, until),
        until=until,
    )


# --- Names that occur together ------------------------------------------------------------


# Pairs that sentences name together: in how many memories, and whether more is stated of them.
_COOCCURRING: LiteralString = """
SELECT s.id, t.id, r.type, r.source_key, r.target_key, together.memories, together.strength,
    EXISTS (SELECT 1 FROM graph_relationships o WHERE o.source_key = r.source_key
        AND o.target_key = r.target_key AND o.type <> r.type)
    OR EXISTS (SELECT 1 FROM graph_relationships o WHERE o.source_key = r.target_key
        AND o.target_key = r.source_key AND o.type <> r.type)
FROM (SELECT relationship_key, count(DISTINCT memory_key) AS memories, max(strength) AS strength
    FROM graph_evidence WHERE source = ? AND withdrawn IS NULL GROUP BY 1) together
JOIN graph_relationships r ON r.key = together.relationship_key
JOIN graph_entities s ON s.key = r.source_key JOIN graph_entities t ON t.key = r.target_key"""
# In how many memories each entity is mentioned.
_MENTIONING_MEMORIES: LiteralString = """
SELECT m.entity_key, count(DISTINCT c.memory_key) FROM graph_mentions m
JOIN chunks c ON c.id = m.chunk_id WHERE m.withdrawn IS NULL GROUP BY 1"""
_COUNT_MEMORIES: LiteralString = """
SELECT count(*) FROM memories WHERE kind <> 'code' AND superseded_by IS NULL"""
_FIND_RELATIONSHIP: LiteralString = """
SELECT r.key FROM graph_relationships r JOIN graph_entities s ON s.key = r.source_key
JOIN graph_entities t ON t.key = r.target_key WHERE s.id = ? AND t.id = ? AND r.type = ?"""
_SET_ASSOCIATION: LiteralString = """
UPDATE graph_evidence SET strength = ? WHERE relationship_key = ? AND source = ?"""
# The strength of a relationship is that of its strongest evidence; a caller may have given some.
_SET_STRENGTH: LiteralString = """
UPDATE graph_relationships SET (strength, weight) =
    (SELECT max(strength), max(strength) FROM graph_evidence WHERE relationship_key = ?1)
WHERE key = ?1"""


def get_cooccurring(connection: sqlite3.Connection) -> tuple[list[CooccurringPair], int]:
    memories = dict(connection.execute(_MENTIONING_MEMORIES).fetchall())
    pairs = [
        CooccurringPair(
            key=EdgeKey(source_id, target_id, kind),
            together=together,
            source_memories=memories.get(source, 0),
            target_memories=memories.get(target, 0),
            strength=strength,
            is_stated=bool(is_stated),
        )
        for source_id, target_id, kind, source, target, together, strength, is_stated in (
            connection.execute(_COOCCURRING, (COOCCURRENCE,))
        )
    ]
    return pairs, fetch_value(connection, _COUNT_MEMORIES)


def set_associations(
    connection: sqlite3.Connection, associations: Sequence[tuple[EdgeKey, float]]
) -> None:
    for key, strength in associations:
        found = fetch_value(connection, _FIND_RELATIONSHIP, key)
        if found is not None:
            connection.execute(_SET_ASSOCIATION, (strength, found, COOCCURRENCE))
            connection.execute(_SET_STRENGTH, (found,))


# --- What later texts say is over ---------------------------------------------------------


# Statements of memories that hold, which a statement ended by a deleted text has ended.
_REVIVE: LiteralString = """
UPDATE graph_evidence SET withdrawn = NULL WHERE withdrawn IS NOT NULL AND chunk_id IS NOT NULL
    AND (SELECT superseded_by FROM memories WHERE key = memory_key) IS NULL"""
# Relationships that a text says are over: `since` is not known, `until` is.
_OVER: LiteralString = """
SELECT relationship_key, said, until FROM graph_evidence
WHERE until IS NOT NULL AND until <= said AND since = ? AND chunk_id IS NOT NULL
    AND withdrawn IS NULL ORDER BY said"""
_END: LiteralString = """
UPDATE graph_evidence SET withdrawn = max(said, ?3) WHERE relationship_key = ?1 AND said < ?2
    AND until IS NULL AND withdrawn IS NULL AND chunk_id IS NOT NULL"""


def end_statements(connection: sqlite3.Connection) -> None:
    connection.execute(_REVIVE)
    over = connection.execute(_OVER, (EVER,)).fetchall()
    connection.executemany(_END, over)


# --- Unread passages --------------------------------------------------------------------


# Text and date of a passage, and how much of it the passage before contains.
_UNREAD: LiteralString = (
    "SELECT c.id, m.id, c.text, " + _SAID + ", (SELECT p.end_char - c.start_char FROM chunks p"
    " WHERE p.memory_key = c.memory_key AND p.position = c.position - 1)"
)
# Passages that an extractor has not read. Code has its own graph, made by parsers: of it only the
# beginnings of files count, and files that state something by their form.
_NOT_READ: LiteralString = """
FROM memories m JOIN chunks c ON c.memory_key = m.key
LEFT JOIN graph_extractions x ON x.chunk_id = c.id AND x.extractor = ?
WHERE x.chunk_id IS NULL AND (m.kind <> 'code' OR c.position = 0
    OR replace(m.source, rtrim(m.source, replace(m.source, '/', '')), '') -- behind the last slash
        IN (SELECT value FROM json_each(?)))"""


def get_unread(
    connection: sqlite3.Connection,
    extractor: str,
    scope: GraphScope,
    after: str | None,
    limit: int,
) -> list[UnreadChunk]:
    passages, values = _unread_passages(extractor, scope)
    rows = connection.execute(
        _UNREAD + passages + " AND c.id > ? ORDER BY c.id LIMIT ?",
        [*values, -1 if after is None else int(after), limit],
    )
    return [
        UnreadChunk.model_construct(
            chunk_id=str(chunk_id),
            memory_id=memory_id,
            text=text,
            said_at=from_time(said),
            repeated=max(repeated or 0, 0),
        )
        for chunk_id, memory_id, text, said, repeated in rows
    ]


def count_unread(connection: sqlite3.Connection, extractor: str, scope: GraphScope) -> int:
    passages, values = _unread_passages(extractor, scope)
    return int(fetch_value(connection, "SELECT count(*)" + passages, values))


def _unread_passages(extractor: str, scope: GraphScope) -> tuple[LiteralString, list[object]]:
    passages, values = _NOT_READ, list[object]([extractor, to_json(FORMS)])
    if scope.projects is not None:
        passages += " AND m.project IN (SELECT value FROM json_each(?))"
        values.append(to_json(scope.projects))
    if scope.memory_ids is not None:
        passages += " AND m.id IN (SELECT value FROM json_each(?))"
        values.append(to_json(scope.memory_ids))
    return passages, values


# --- Merges -----------------------------------------------------------------------------

_INSERT_MERGE: LiteralString = """
INSERT INTO graph_merges (source_id, target_id, automatic, merged_at) VALUES (?, ?, ?, ?)"""
_UNDO_MERGE: LiteralString = "UPDATE graph_merges SET undone_at = ? WHERE key = ?"
_UNDO_MERGES_OF: LiteralString = """
UPDATE graph_merges SET undone_at = ? WHERE source_id = ? AND undone_at IS NULL"""
# The newest merge of an entity; without an entity, the newest one made by hand.
_NEWEST_MERGE: LiteralString = """
SELECT key, source_id, target_id, automatic, merged_at FROM graph_merges
WHERE undone_at IS NULL AND (source_id = ?1 OR (?1 IS NULL AND automatic = 0))
ORDER BY key DESC LIMIT 1"""
# A merge of an entity that holds, or one with the same target that was undone.
_DECIDED: LiteralString = """
SELECT 1 FROM graph_merges WHERE source_id = ?1 AND (undone_at IS NULL OR target_id = ?2)"""
_ANY_MERGE: LiteralString = "SELECT 1 FROM graph_merges LIMIT 1"
_IN_MERGES: LiteralString = """
SELECT value FROM json_each(?) WHERE
    EXISTS (SELECT 1 FROM graph_merges m WHERE m.source_id = value AND m.undone_at IS NULL)
    OR EXISTS (SELECT 1 FROM graph_merges m WHERE m.target_id = value AND m.undone_at IS NULL)"""

# These entities, and everything that is merged into them, directly or not.
_MERGED_INTO: LiteralString = """
WITH RECURSIVE below (id) AS (
    SELECT value FROM json_each(?)
    UNION
    SELECT m.source_id FROM graph_merges m JOIN below b ON m.target_id = b.id
    WHERE m.undone_at IS NULL
)
SELECT id FROM below"""
_MERGE_TARGET: LiteralString = """
SELECT target_id FROM graph_merges WHERE source_id = ? AND undone_at IS NULL"""
_ENTITY_KEY: LiteralString = "SELECT key FROM graph_entities WHERE id = ?"
_ROOT_ID: LiteralString = """
SELECT coalesce((SELECT r.id FROM graph_entities r WHERE r.key = e.root), e.id)
FROM graph_entities e WHERE e.id = ?"""
_SET_ROOT: LiteralString = "UPDATE graph_entities SET root = ? WHERE id = ?"


def merge_entities(connection: sqlite3.Connection, source_id: str, target_id: str) -> Merge:
    """Merge the roots of these two."""
    source = fetch_value(connection, _ROOT_ID, (source_id,))
    target = fetch_value(connection, _ROOT_ID, (target_id,))
    if source is None or target is None:
        raise EntityNotFoundError("No entity has this id.")
    if source == target:
        raise ValidationError("These two are one entity already.", "VAL_003")
    return _merge(connection, source, target, automatic=False)


def _merge_same(connection: sqlite3.Connection, pairs: Sequence[tuple[str, str]]) -> None:
    """Merge what an extractor recognised as one entity, unless that was decided before."""
    for source_id, target_id in pairs:
        decided = fetch_value(connection, _DECIDED, (source_id, target_id))
        source = fetch_value(connection, _ROOT_ID, (source_id,))
        target = fetch_value(connection, _ROOT_ID, (target_id,))
        if decided is None and source == source_id and target not in (None, source):
            _merge(connection, source, target, automatic=True)


def undo_merge(connection: sqlite3.Connection, source_id: str | None) -> Merge | None:
    """Undo the newest merge of this entity; without an entity, the newest one made by hand."""
    row = connection.execute(_NEWEST_MERGE, (source_id,)).fetchone()
    if row is None:
        return None
    key, source, target, automatic, merged_at = row
    connection.execute(_UNDO_MERGE, (to_time(datetime.now(UTC)), key))
    reroot(connection, {source})
    return Merge(
        source_id=source,
        target_id=target,
        automatic=bool(automatic),
        merged_at=from_time(merged_at),
    )


def _merge(
    connection: sqlite3.Connection, source_id: str, target_id: str, *, automatic: bool
) -> Merge:
    now = to_time(datetime.now(UTC))
    # It may be a root only because the entity it was merged into does not exist now.
    connection.execute(_UNDO_MERGES_OF, (now, source_id))
    connection.execute(_INSERT_MERGE, (source_id, target_id, int(automatic), now))
    reroot(connection, {source_id})
    return Merge(
        source_id=source_id,
        target_id=target_id,
        automatic=automatic,
        merged_at=from_time(now),
    )


def _find_merged(connection: sqlite3.Connection, ids: Collection[str]) -> list[str]:
    """Return those of these ids that a merge names: all others are roots."""
    return [entity_id for (entity_id,) in connection.execute(_IN_MERGES, (to_json(list(ids)),))]


def reroot(connection: sqlite3.Connection, ids: Collection[str]) -> None:
    """Compute the roots of these entities, and of those merged into them, again."""
    if fetch_value(connection, _ANY_MERGE) is None:
        return
    for (entity_id,) in connection.execute(_MERGED_INTO, (to_json(sorted(ids)),)).fetchall():
        root = find_root(
            entity_id,
            lambda source: fetch_value(connection, _MERGE_TARGET, (source,)),
            lambda known: fetch_value(connection, _ENTITY_KEY, (known,)) is not None,
        )
        key = None if root is None else fetch_value(connection, _ENTITY_KEY, (root,))
        connection.execute(_SET_ROOT, (key, entity_id))
