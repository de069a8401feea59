"""Writing the graph: extractions from passages, what callers store, and merges of entities.

Merges are stored by id, apart from the entities: a merge also holds for later texts, and undoing
one separates exactly what belongs to each of the two. `graph_entities.root` is only the result: the
last entity of a chain of merges that exists.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString, NamedTuple

from zapomni_db.exceptions import EntityNotFoundError, ValidationError
from zapomni_db.graph_models import ExtractedChunk, GraphGrowth, GraphScope, Merge, UnreadChunk
from zapomni_db.models import EntityData, RelationshipData
from zapomni_db.rules import EVER, alias_of, beginning, find_root, fold, most_certain
from zapomni_db.sqlite.rows import from_time, to_json, to_time

__all__ = [
    "count_unread",
    "get_unread",
    "merge_entities",
    "merge_same",
    "reroot",
    "store_entities",
    "store_extractions",
    "undo_merge",
]


# When a memory was told: when it happened, or when its text was last changed.
_SAID: LiteralString = (
    "coalesce((SELECT max(h.replaced_at) FROM memory_history h"
    " WHERE h.memory_key = m.key AND h.text IS NOT NULL), m.occurred_at)"
)


class _Teller(NamedTuple):
    """Who says so: a passage, or (with no chunk) a caller."""

    chunk_id: int | None = None
    memory_key: int | None = None
    said: int = EVER
    withdrawn: int | None = None
    """When the memory was superseded."""


class _Sentence(NamedTuple):
    """One row of evidence, as far as the sentence itself decides it."""

    relationship_key: int
    start_char: int
    end_char: int
    strength: float
    source: str
    since: int
    until: int | None


# --- Stored by a caller ----------------------------------------------------------------


def store_entities(
    connection: sqlite3.Connection,
    entities: Sequence[EntityData],
    relationships: Sequence[RelationshipData],
) -> int:
    """Upsert both; a relationship to an entity nobody stored violates a constraint."""
    connection.executemany(
        "INSERT INTO graph_entities"
        " (id, name, folded, type, description, confidence, source, given)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (id) DO UPDATE SET name = excluded.name,"
        " folded = excluded.folded, type = excluded.type, description = excluded.description,"
        " confidence = excluded.confidence, source = excluded.source, given = 1",
        [
            (e.entity_id, e.name, fold(e.name), e.type, e.description, e.confidence, e.source)
            for e in entities
        ],
    )
    reroot(connection, {e.entity_id for e in entities})
    caller = _Teller()
    for told in relationships:
        keys = _keys_of(connection, {told.source_entity_id, told.target_entity_id})
        sentence, _ = _sentence(connection, keys, told, caller)
        newest = _insert_evidence(connection, sentence, caller, told.evidence)
        connection.execute(
            "DELETE FROM graph_evidence WHERE relationship_key = ? AND memory_key IS NULL"
            " AND key < ?",
            (sentence.relationship_key, newest),
        )
    return len(entities)


# --- Extracted from passages -----------------------------------------------------------


def store_extractions(
    connection: sqlite3.Connection,
    extractor: str,
    chunks: Sequence[ExtractedChunk],
    same: Sequence[tuple[str, str]] = (),
) -> GraphGrowth:
    tellers = _tellers(connection, [chunk.chunk_id for chunk in chunks])
    present = [chunk for chunk in chunks if chunk.chunk_id in tellers]
    keys, growth = _upsert_entities(connection, [e for c in present for e in c.entities])
    for chunk in present:
        teller = tellers[chunk.chunk_id]
        mentions = _replace_mentions(connection, teller, keys, chunk.entities)
        edges = _replace_evidence(connection, teller, keys, chunk.relationships)
        growth = growth._replace(
            mentions=growth.mentions + mentions, relationships=growth.relationships + edges
        )
    connection.executemany(
        "INSERT INTO graph_extractions (chunk_id, extractor) VALUES (?, ?)"
        " ON CONFLICT (chunk_id) DO UPDATE SET extractor = excluded.extractor",
        [(tellers[chunk.chunk_id].chunk_id, extractor) for chunk in present],
    )
    merge_same(connection, same)
    return growth


def _tellers(connection: sqlite3.Connection, chunk_ids: Sequence[str]) -> dict[str, _Teller]:
    rows = connection.execute(
        "SELECT c.id, c.memory_key, "
        + _SAID
        + ", (SELECT n.occurred_at FROM memories n WHERE n.key = m.superseded_by)"
        " FROM chunks c JOIN memories m ON m.key = c.memory_key"
        " WHERE c.id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))",
        (to_json(list(chunk_ids)),),
    )
    return {str(row[0]): _Teller(*row) for row in rows}


def _keys_of(connection: sqlite3.Connection, ids: Collection[str]) -> dict[str, int]:
    return dict(
        connection.execute(
            "SELECT id, key FROM graph_entities WHERE id IN (SELECT value FROM json_each(?))",
            (to_json(list(ids)),),
        ).fetchall()
    )


def _upsert_entities(
    connection: sqlite3.Connection, mentions: Iterable[EntityData]
) -> tuple[dict[str, int], GraphGrowth]:
    """Insert what is new, and let what is known gain confidence and a description."""
    best = most_certain(mentions)
    keys = _keys_of(connection, best)
    new = best.keys() - keys.keys()
    for entity in (best[entity_id] for entity_id in best if entity_id in new):
        row = (entity.entity_id, entity.name, fold(entity.name), entity.type)
        cursor = connection.execute(
            "INSERT INTO graph_entities (id, name, folded, type, description, confidence, source)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*row, entity.description, entity.confidence, entity.source),
        )
        assert cursor.lastrowid is not None
        keys[entity.entity_id] = cursor.lastrowid
    connection.executemany(
        "UPDATE graph_entities SET confidence = max(confidence, ?1),"
        " description = CASE description WHEN '' THEN ?2 ELSE description END"
        " WHERE key = ?3 AND (confidence < ?1 OR (description = '' AND ?2 <> ''))",
        [(e.confidence, e.description, keys[i]) for i, e in best.items() if i not in new],
    )
    reroot(connection, new)
    return keys, GraphGrowth(entities=len(new))


def _replace_mentions(
    connection: sqlite3.Connection,
    teller: _Teller,
    keys: Mapping[str, int],
    mentions: Sequence[EntityData],
) -> int:
    """Make the passage's mentions these; return how many are new."""
    before = set(
        connection.execute(
            "SELECT start_char, end_char, entity_key FROM graph_mentions WHERE chunk_id = ?",
            (teller.chunk_id,),
        ).fetchall()
    )
    now = {(m.start_char, m.end_char, keys[m.entity_id]): m for m in mentions}
    new = [place for place in now if place not in before]
    connection.executemany(
        "INSERT INTO graph_mentions (chunk_id, start_char, end_char, entity_key, confidence,"
        " source, alias, folded, since, withdrawn) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(teller.chunk_id, *place, now[place].confidence, now[place].source),
                *alias_of(now[place]),
                *(teller.said, teller.withdrawn),
            )
            for place in new
        ],
    )
    connection.executemany(
        "DELETE FROM graph_mentions"
        " WHERE chunk_id = ? AND start_char = ? AND end_char = ? AND entity_key = ?",
        [(teller.chunk_id, *place) for place in before - now.keys()],
    )
    return len(new)


def _replace_evidence(
    connection: sqlite3.Connection,
    teller: _Teller,
    keys: Mapping[str, int],
    relationships: Sequence[RelationshipData],
) -> int:
    """Make the passage's evidence this; return how many relationships nobody stated before."""
    before = {
        _Sentence(*row[1:]): row[0]
        for row in connection.execute(
            "SELECT key, relationship_key, start_char, end_char, strength, source, since,"
            " until FROM graph_evidence WHERE chunk_id = ?",
            (teller.chunk_id,),
        )
    }
    now: set[_Sentence] = set()
    added = 0
    for stated in relationships:
        sentence, is_new = _sentence(connection, keys, stated, teller)
        if sentence not in now and sentence not in before:
            _insert_evidence(connection, sentence, teller, None)
        now.add(sentence)
        added += is_new
    connection.executemany(
        "DELETE FROM graph_evidence WHERE key = ?",
        [(key,) for sentence, key in before.items() if sentence not in now],
    )
    return added


def _sentence(
    connection: sqlite3.Connection,
    keys: Mapping[str, int],
    stated: RelationshipData,
    teller: _Teller,
) -> tuple[_Sentence, bool]:
    """Return the evidence to store, and whether it is the first for its relationship."""
    try:
        source, target = keys[stated.source_entity_id], keys[stated.target_entity_id]
    except KeyError as error:
        raise ValidationError(
            "A relationship names an entity that was not stored with it.",
            "VAL_004",
            original_exception=error,
        ) from error
    place = (source, target, stated.relationship_type)
    row = connection.execute(
        "SELECT key FROM graph_relationships WHERE source_key = ? AND target_key = ? AND type = ?",
        place,
    ).fetchone()
    key = row[0] if row else None
    if key is None:
        key = connection.execute(
            "INSERT INTO graph_relationships (source_key, target_key, type, exclusive)"
            " VALUES (?, ?, ?, ?)",
            (*place, int(stated.exclusive)),
        ).lastrowid
    assert key is not None
    until = None if stated.valid_to is None else to_time(stated.valid_to)
    start = None if stated.valid_from is None else to_time(stated.valid_from)
    since = beginning(teller.said, start, until)
    place_in_text = (stated.start_char, stated.end_char)
    sentence = _Sentence(key, *place_in_text, stated.strength, stated.source, since, until)
    return sentence, row is None


def _insert_evidence(
    connection: sqlite3.Connection, sentence: _Sentence, teller: _Teller, text: str | None
) -> int:
    cursor = connection.execute(
        "INSERT INTO graph_evidence (relationship_key, start_char, end_char, strength, source,"
        " since, until, chunk_id, memory_key, said, withdrawn, text)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*sentence, *teller, text),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


# --- Unread passages --------------------------------------------------------------------


def get_unread(
    connection: sqlite3.Connection,
    extractor: str,
    scope: GraphScope,
    after: str | None,
    limit: int,
) -> list[UnreadChunk]:
    tables, values = _unread_query(extractor, scope)
    rows = connection.execute(
        "SELECT c.id, m.id, c.text, " + _SAID + ", (SELECT p.end_char - c.start_char FROM chunks p"
        " WHERE p.memory_key = c.memory_key AND p.position = c.position - 1)"
        + tables
        + " AND c.id > ? ORDER BY c.id LIMIT ?",
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
    tables, values = _unread_query(extractor, scope)
    return int(connection.execute("SELECT count(*)" + tables, values).fetchone()[0])


def _unread_query(extractor: str, scope: GraphScope) -> tuple[LiteralString, list[object]]:
    tables: LiteralString = (
        " FROM memories m JOIN chunks c ON c.memory_key = m.key LEFT JOIN graph_extractions x"
        " ON x.chunk_id = c.id AND x.extractor = ? WHERE x.chunk_id IS NULL"
        # Code has a graph of its own, made by parsers.
        " AND m.kind <> 'code'"
    )
    values: list[object] = [extractor]
    if scope.project is not None:
        tables += " AND m.project = ?"
        values.append(scope.project)
    if scope.memory_ids is not None:
        tables += " AND m.id IN (SELECT value FROM json_each(?))"
        values.append(to_json(scope.memory_ids))
    return tables, values


# --- Merges ----------------------------------------------------------------------------


def merge_entities(connection: sqlite3.Connection, source_id: str, target_id: str) -> Merge:
    """Merge what these two stand for."""
    source, target = _root_id(connection, source_id), _root_id(connection, target_id)
    if source is None or target is None:
        raise EntityNotFoundError("No entity has this id.")
    if source == target:
        raise ValidationError("These two are one entity already.", "VAL_003")
    return _merge(connection, source, target, automatic=False)


def merge_same(connection: sqlite3.Connection, pairs: Sequence[tuple[str, str]]) -> None:
    """Merge what an extractor holds to be one, unless somebody decided about it before."""
    for source_id, target_id in pairs:
        decided = connection.execute(
            "SELECT 1 FROM graph_merges WHERE source_id = ?1"
            " AND (undone_at IS NULL OR target_id = ?2)",
            (source_id, target_id),
        ).fetchone()
        source, target = _root_id(connection, source_id), _root_id(connection, target_id)
        if decided is None and source == source_id and target not in (None, source):
            assert target is not None
            _merge(connection, source, target, automatic=True)


def undo_merge(connection: sqlite3.Connection, source_id: str | None) -> Merge | None:
    """Undo the newest merge, of this entity or of all; by hand only if no entity is named."""
    row = connection.execute(
        "SELECT key, source_id, target_id, automatic, merged_at FROM graph_merges"
        " WHERE undone_at IS NULL AND (source_id = ?1 OR (?1 IS NULL AND automatic = 0))"
        " ORDER BY key DESC LIMIT 1",
        (source_id,),
    ).fetchone()
    if row is None:
        return None
    key, source, target, automatic, merged_at = row
    connection.execute("UPDATE graph_merges SET undone_at = ? WHERE key = ?", (_now(), key))
    reroot(connection, {source})
    return Merge(
        source_id=source,
        target_id=target,
        automatic=bool(automatic),
        merged_at=from_time(merged_at),
    )


def _root_id(connection: sqlite3.Connection, entity_id: str) -> str | None:
    row = connection.execute(
        "SELECT coalesce((SELECT r.id FROM graph_entities r WHERE r.key = e.root), e.id)"
        " FROM graph_entities e WHERE e.id = ?",
        (entity_id,),
    ).fetchone()
    return None if row is None else str(row[0])


def _merge(
    connection: sqlite3.Connection, source_id: str, target_id: str, *, automatic: bool
) -> Merge:
    now = _now()
    # It may stand for itself because what it was merged into is gone for now.
    connection.execute(
        "UPDATE graph_merges SET undone_at = ? WHERE source_id = ? AND undone_at IS NULL",
        (now, source_id),
    )
    connection.execute(
        "INSERT INTO graph_merges (source_id, target_id, automatic, merged_at) VALUES (?, ?, ?, ?)",
        (source_id, target_id, int(automatic), now),
    )
    reroot(connection, {source_id})
    return Merge(
        source_id=source_id,
        target_id=target_id,
        automatic=automatic,
        merged_at=from_time(now),
    )


# Everything that is merged into these, directly or not, and these.
_BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT value FROM json_each(?)
    UNION
    SELECT m.source_id FROM graph_merges m JOIN below b ON m.target_id = b.id
    WHERE m.undone_at IS NULL
)
SELECT id FROM below
"""
_NEXT: LiteralString = (
    "SELECT target_id FROM graph_merges WHERE source_id = ? AND undone_at IS NULL"
)
_KEY: LiteralString = "SELECT key FROM graph_entities WHERE id = ?"


def reroot(connection: sqlite3.Connection, ids: Collection[str]) -> None:
    """Find again what each of these, and what was merged into them, stands for."""
    if connection.execute("SELECT 1 FROM graph_merges LIMIT 1").fetchone() is None:
        return
    for (entity_id,) in connection.execute(_BELOW, (to_json(sorted(ids)),)).fetchall():
        connection.execute(
            "UPDATE graph_entities SET root = ? WHERE id = ?",
            (_find_root(connection, entity_id), entity_id),
        )


def _find_root(connection: sqlite3.Connection, entity_id: str) -> int | None:
    def value(sql: LiteralString, asked: str) -> Any:
        row = connection.execute(sql, (asked,)).fetchone()
        return row and row[0]

    root = find_root(
        entity_id,
        lambda source: value(_NEXT, source),
        lambda known: value(_KEY, known) is not None,
    )
    return None if root is None else int(value(_KEY, root))


def _now() -> int:
    return to_time(datetime.now(UTC))
