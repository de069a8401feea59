"""Reading the graph's entities. Merged ones are read as what they were merged into."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import LiteralString

from zapomni_db.graph_models import Entity, EntityName, EntityQuery, GraphScope, GraphStats
from zapomni_db.graph_rules import (
    ALIASES_SHOWN,
    LEAST_LIKENESS,
    choose_aliases,
    fold,
    likeness,
)
from zapomni_db.sqlite.graph import count_unread
from zapomni_db.sqlite.graph_edges import SPOKEN, STATED, count_edges, leaves_of, moment
from zapomni_db.sqlite.rows import to_json

__all__ = ["find_entities", "get_entities", "list_entities", "names", "stats"]

# Names of which many contain the text: more than anybody looks through.
MOST_MATCHES = 2000

# What is spoken of at a time, as a condition on the entity `e`. Evidence of an earlier text has
# no passage and so no mention any more.
_SPOKEN_OF: LiteralString = (
    "(e.given = 1"
    " OR EXISTS (SELECT 1 FROM graph_mentions WHERE entity_key = e.key AND " + SPOKEN + ")"
    " OR EXISTS (SELECT 1 FROM graph_relationships r JOIN graph_evidence v"
    " ON v.relationship_key = r.key WHERE r.source_key = e.key AND " + STATED + ")"
    " OR EXISTS (SELECT 1 FROM graph_relationships r JOIN graph_evidence v"
    " ON v.relationship_key = r.key WHERE r.target_key = e.key AND " + STATED + "))"
)
_OF_TYPE: LiteralString = "(:types = '[]' OR e.type IN (SELECT value FROM json_each(:types)))"


def find_entities(connection: sqlite3.Connection, query: EntityQuery) -> list[Entity]:
    now = moment(query.as_of)
    matches = _matches(connection, query, now)
    counts = _count_mentions(connection, matches, now)
    called = _folded(connection, matches)
    order = sorted(matches, key=lambda key: (-matches[key], -counts.get(key, 0), called[key]))
    page = order[query.offset : query.offset + query.limit]
    return _describe(connection, {key: matches[key] for key in page}, counts)


def _matches(connection: sqlite3.Connection, query: EntityQuery, now: int) -> dict[int, float]:
    """Return the keys of roots that answer the query, and how well."""
    asked = fold(query.text)
    bound = {"now": now, "types": to_json(query.types), "asked": asked, "most": MOST_MATCHES}
    found: dict[int, float] = {}
    searches = _EVERYTHING if not asked else _EXACT if query.exact else (*_EXACT, *_PARTIAL)
    for sql, score in searches:
        for (key,) in connection.execute(sql, bound):
            found.setdefault(key, score)
    if found or not asked or query.exact:
        return found
    alike = [(likeness(asked, folded), key) for key, folded in connection.execute(_NAMES, bound)]
    best = sorted((pair for pair in alike if pair[0] >= LEAST_LIKENESS), reverse=True)
    for score, key in best[: query.offset + query.limit]:
        found[key] = max(found.get(key, 0.0), round(score / 2, 3))
    return found


_FROM: LiteralString = "SELECT coalesce(e.root, e.key) FROM graph_entities e WHERE "
_AND_SHOWN: LiteralString = " AND " + _OF_TYPE + " AND " + _SPOKEN_OF
_EVERYTHING: tuple[tuple[LiteralString, float], ...] = ((_FROM + "TRUE" + _AND_SHOWN, 1.0),)
# From the best kind of match to the worst.
_EXACT: tuple[tuple[LiteralString, float], ...] = (
    (_FROM + "e.folded = :asked" + _AND_SHOWN, 1.0),
    (
        _FROM
        + "e.key IN (SELECT entity_key FROM graph_mentions WHERE folded = :asked AND "
        + SPOKEN
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


def get_entities(
    connection: sqlite3.Connection, entity_ids: Sequence[str], as_of: datetime | None
) -> dict[str, Entity]:
    now = moment(as_of)
    rows = connection.execute(
        "SELECT a.id, coalesce(a.root, a.key) FROM graph_entities a"
        " WHERE a.id IN (SELECT value FROM json_each(:ids))"
        " AND EXISTS (SELECT 1 FROM graph_entities e"
        " WHERE (e.key = coalesce(a.root, a.key) OR e.root = coalesce(a.root, a.key)) AND "
        + _SPOKEN_OF
        + ")",
        {"ids": to_json(list(entity_ids)), "now": now},
    )
    roots: dict[str, int] = dict(rows.fetchall())
    counts = _count_mentions(connection, set(roots.values()), now)
    described = _describe(connection, dict.fromkeys(roots.values(), 1.0), counts)
    by_key = dict(zip(dict.fromkeys(roots.values()), described, strict=True))
    return {entity_id: by_key[key] for entity_id, key in roots.items()}


def list_entities(connection: sqlite3.Connection, after: str | None, limit: int) -> list[Entity]:
    now = moment(None)
    rows = connection.execute(
        "SELECT a.key FROM graph_entities a WHERE a.root IS NULL AND a.id > :after"
        " AND EXISTS (SELECT 1 FROM graph_entities e WHERE (e.key = a.key OR e.root = a.key) AND "
        + _SPOKEN_OF
        + ") ORDER BY a.id LIMIT :limit",
        {"now": now, "after": after or "", "limit": limit},
    )
    keys = {key: 1.0 for (key,) in rows}
    return _describe(connection, keys, _count_mentions(connection, keys, now))


def names(connection: sqlite3.Connection, types: Sequence[str]) -> list[EntityName]:
    rows = connection.execute(
        "SELECT id, type, name FROM graph_entities"
        " WHERE type IN (SELECT value FROM json_each(?)) ORDER BY key",
        (to_json(list(types)),),
    )
    return [EntityName(*row) for row in rows]


# --- What belongs to a root -------------------------------------------------------------


def _count_mentions(
    connection: sqlite3.Connection, roots: Collection[int], now: int
) -> dict[int, int]:
    rows = connection.execute(
        "SELECT coalesce(e.root, e.key), count(*) FROM graph_entities e"
        " JOIN graph_mentions m ON m.entity_key = e.key AND "
        + SPOKEN
        + " WHERE e.key IN (SELECT value FROM json_each(:roots))"
        " OR e.root IN (SELECT value FROM json_each(:roots)) GROUP BY 1",
        {"now": now, "roots": to_json(list(roots))},
    )
    return dict(rows.fetchall())


def _folded(connection: sqlite3.Connection, keys: Iterable[int]) -> dict[int, str]:
    rows = connection.execute(
        "SELECT key, folded FROM graph_entities WHERE key IN (SELECT value FROM json_each(?))",
        (to_json(list(keys)),),
    )
    return dict(rows.fetchall())


def _describe(
    connection: sqlite3.Connection, keys: Mapping[int, float], counts: Mapping[int, int]
) -> list[Entity]:
    leaves = leaves_of(connection, keys.keys())
    described = []
    for key, match in keys.items():
        entity_id, name, kind, description, confidence, source = connection.execute(
            "SELECT id, name, type, description, confidence, source FROM graph_entities"
            " WHERE key = ?",
            (key,),
        ).fetchone()
        merged = [
            connection.execute(
                "SELECT id, name FROM graph_entities WHERE key = ?", (leaf,)
            ).fetchone()
            for leaf in leaves[key][1:]
        ]
        described.append(
            Entity.model_construct(
                entity_id=entity_id,
                name=name,
                type=kind,
                description=description,
                confidence=confidence,
                source=source,
                aliases=_aliases(connection, name, leaves[key], [n for _, n in merged]),
                mentions=counts.get(key, 0),
                merged_ids=[merged_id for merged_id, _ in merged],
                match=match,
            )
        )
    return described


def _aliases(
    connection: sqlite3.Connection, name: str, leaves: Sequence[int], merged: Sequence[str]
) -> list[str]:
    written = [
        alias
        for leaf in leaves
        for (alias,) in connection.execute(
            "SELECT max(alias) FROM graph_mentions WHERE entity_key = ? AND folded IS NOT NULL"
            " GROUP BY folded ORDER BY count(*) DESC, folded LIMIT ?",
            (leaf, ALIASES_SHOWN),
        )
    ]
    return choose_aliases(name, merged, written)


# --- Counting ---------------------------------------------------------------------------


def stats(connection: sqlite3.Connection, extractor: str) -> GraphStats:
    now = moment(None)
    types = connection.execute(
        "SELECT root.type, count(*) FROM graph_entities root WHERE root.root IS NULL"
        " AND EXISTS (SELECT 1 FROM graph_entities e"
        " WHERE (e.key = root.key OR e.root = root.key) AND " + _SPOKEN_OF + ")"
        " GROUP BY 1 ORDER BY 2 DESC, 1",
        {"now": now},
    ).fetchall()
    edges, closed = count_edges(connection, now)
    counted = connection.execute(
        "SELECT (SELECT count(*) FROM graph_mentions WHERE " + SPOKEN + "),"
        " (SELECT count(*) FROM graph_merges WHERE undone_at IS NULL),"
        " (SELECT count(*) FROM chunks)",
        {"now": now},
    ).fetchone()
    return GraphStats(
        entities=sum(number for _, number in types),
        relationships=sum(edges.values()),
        mentions=counted[0],
        closed_relationships=closed,
        merges=counted[1],
        passages=counted[2],
        unread_passages=count_unread(connection, extractor, GraphScope()),
        entity_types=dict(types),
        relationship_types=edges,
    )
