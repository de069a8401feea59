"""Reading relationships: what holds at a time between entities, and who says so."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString, NamedTuple

from zapomni_db.graph_models import Edge, EdgeKey, EdgeQuery, Evidence
from zapomni_db.graph_rules import EVER, Statement, Told, join_edges, spans
from zapomni_db.sqlite.rows import from_time, to_json, to_time

__all__ = ["SPOKEN", "STATED", "count_edges", "edges", "evidence", "leaves_of", "moment"]

# Conditions on mentions, and on evidence. No table they meet has other columns of these names.
SPOKEN: LiteralString = "since <= :now AND (withdrawn IS NULL OR withdrawn > :now)"
STATED: LiteralString = SPOKEN + " AND (until IS NULL OR until > :now)"
_COLUMNS: LiteralString = (
    "SELECT key, source_key, target_key, type, exclusive FROM graph_relationships r WHERE "
)
_HOLDS: LiteralString = (
    " AND EXISTS (SELECT 1 FROM graph_evidence WHERE relationship_key = r.key AND " + STATED + ")"
)
_OF_TYPE: LiteralString = " AND type IN (SELECT value FROM json_each(:types))"
_WEIGHTIEST: LiteralString = " ORDER BY weight DESC, key LIMIT :limit"
_DIRECTIONS: tuple[LiteralString, ...] = ("source_key = :entity", "target_key = :entity")


class _Row(NamedTuple):
    """A relationship as it is stored: between entities as the texts name them."""

    key: int
    source: int
    target: int
    type: str
    exclusive: int


def moment(as_of: datetime | None) -> int:
    """Return the time asked for; None is now."""
    return to_time(as_of or datetime.now(UTC))


def leaves_of(connection: sqlite3.Connection, roots: Collection[int]) -> dict[int, list[int]]:
    """Return all entities that stand for the same as each of these, itself first."""
    found: dict[int, list[int]] = {root: [root] for root in roots}
    for root, key in connection.execute(
        "SELECT root, key FROM graph_entities WHERE root IN (SELECT value FROM json_each(?))"
        " ORDER BY id",
        (to_json(list(roots)),),
    ):
        found[root].append(key)
    return found


def edges(
    connection: sqlite3.Connection, entity_ids: Sequence[str], query: EdgeQuery
) -> list[Edge]:
    roots = _roots_of(connection, entity_ids)
    now = moment(query.as_of)
    bound = {"now": now, "types": to_json(query.types), "limit": query.limit}
    rows: dict[int, _Row] = {}
    for direction in _DIRECTIONS:
        sql = _COLUMNS + direction + (_OF_TYPE if query.types else "") + _HOLDS + _WEIGHTIEST
        for leaves in leaves_of(connection, set(roots.values())).values():
            for leaf in leaves:
                for row in connection.execute(sql, {**bound, "entity": leaf}):
                    rows[row[0]] = _Row(*row)
    kept = _still_true(connection, list(rows.values()), now)
    return _as_edges(connection, kept, _support(connection, kept, now))


def _support(
    connection: sqlite3.Connection, rows: Sequence[_Row], now: int
) -> dict[int, tuple[float, int]]:
    """Return how strong the evidence is that holds now, and how much there is."""
    found = connection.execute(
        "SELECT relationship_key, max(strength), count(*) FROM graph_evidence"
        " WHERE relationship_key IN (SELECT value FROM json_each(:keys)) AND "
        + STATED
        + " GROUP BY 1",
        {"keys": to_json([row.key for row in rows]), "now": now},
    )
    return {key: (strength, count) for key, strength, count in found}


def _roots_of(connection: sqlite3.Connection, entity_ids: Sequence[str]) -> dict[str, int]:
    return dict(
        connection.execute(
            "SELECT id, coalesce(root, key) FROM graph_entities"
            " WHERE id IN (SELECT value FROM json_each(?))",
            (to_json(list(entity_ids)),),
        ).fetchall()
    )


def _as_edges(
    connection: sqlite3.Connection,
    rows: Sequence[_Row],
    supported: Mapping[int, tuple[float, int]],
) -> list[Edge]:
    """Join what is said of merged entities, and leave out what they say of each other."""
    named = {row.source for row in rows} | {row.target for row in rows}
    ids = dict(
        connection.execute(
            "SELECT e.key, coalesce(r.id, e.id) FROM graph_entities e"
            " LEFT JOIN graph_entities r ON r.key = e.root"
            " WHERE e.key IN (SELECT value FROM json_each(?))",
            (to_json(list(named)),),
        ).fetchall()
    )
    return join_edges(
        (EdgeKey(ids[row.source], ids[row.target], row.type), *supported.get(row.key, (0.0, 1)))
        for row in rows
    )


# --- One at a time ----------------------------------------------------------------------


def _still_true(connection: sqlite3.Connection, rows: Sequence[_Row], now: int) -> list[_Row]:
    """Leave out exclusive relationships that something newer has replaced by then."""
    exclusive = [row for row in rows if row.exclusive]
    if not exclusive:
        return list(rows)
    held = _held(connection, {row.source for row in exclusive}, now)
    return [
        row
        for row in rows
        if not row.exclusive
        or any(since <= now and (end is None or end > now) for since, end in held[row.key])
    ]


def _held(
    connection: sqlite3.Connection, sources: Collection[int], now: int
) -> dict[int, list[tuple[int, int | None]]]:
    """Return from when until when each exclusive relationship of these entities held."""
    held: dict[int, list[tuple[int, int | None]]] = {}
    for relationship, _, since, end in _statements(connection, sources, now):
        held.setdefault(relationship, []).append((since, end))
    return held


def _statements(
    connection: sqlite3.Connection, sources: Collection[int], now: int
) -> Iterator[tuple[int, int, int, int | None]]:
    """Return the relationship, key, beginning and end of what is stated of these, one at a time.

    What was withdrawn by then is as if it had not been said.
    """
    rows = connection.execute(
        "WITH wanted AS (SELECT DISTINCT coalesce(root, key) AS root FROM graph_entities"
        " WHERE key IN (SELECT value FROM json_each(:sources))),"
        " subjects AS (SELECT root, root AS key FROM wanted UNION ALL"
        " SELECT w.root, l.key FROM wanted w JOIN graph_entities l ON l.root = w.root)"
        " SELECT s.root, r.type, r.key, v.key, coalesce(t.root, t.key), v.said, v.since, v.until"
        " FROM subjects s CROSS JOIN graph_relationships r ON r.source_key = s.key"
        " AND r.exclusive = 1 JOIN graph_entities t ON t.key = r.target_key"
        " JOIN graph_evidence v ON v.relationship_key = r.key"
        " AND (v.withdrawn IS NULL OR v.withdrawn > :now)",
        {"sources": to_json(list(sources)), "now": now},
    )
    return spans(
        Told(root, kind, relationship, sentence, Statement(str(target), said, since, until))
        for root, kind, relationship, sentence, target, said, since, until in rows
    )


# --- Evidence ---------------------------------------------------------------------------

_EVIDENCE: LiteralString = (
    "SELECT v.key, v.text, v.start_char, v.end_char, c.text, v.chunk_id, m.id, v.strength,"
    " v.source, v.said, v.since, v.until, v.withdrawn, r.exclusive FROM graph_relationships r"
    " JOIN graph_evidence v ON v.relationship_key = r.key"
    " LEFT JOIN chunks c ON c.id = v.chunk_id LEFT JOIN memories m ON m.key = v.memory_key"
    " WHERE r.source_key = :source AND r.target_key = :target AND r.type = :type AND "
    + STATED
    + " ORDER BY v.strength DESC, v.said DESC, v.key LIMIT :limit"
)


def evidence(
    connection: sqlite3.Connection,
    keys: Sequence[EdgeKey],
    as_of: datetime | None,
    limit: int,
) -> dict[EdgeKey, list[Evidence]]:
    now = moment(as_of)
    roots = _roots_of(connection, [i for key in keys for i in key[:2]])
    leaves = leaves_of(connection, set(roots.values()))
    found: dict[EdgeKey, list[Evidence]] = {}
    for key in keys:
        pairs = [
            (source, target)
            for source in leaves.get(roots.get(key.source_id, -1), ())
            for target in leaves.get(roots.get(key.target_id, -1), ())
        ]
        rows = _sentences(connection, pairs, key.type, now, limit)
        ends = {}
        if any(row[-1] for row in rows):
            # The strongest may be replaced: look at all.
            rows = _sentences(connection, pairs, key.type, now, -1)
            stated = _statements(connection, {source for source, _ in pairs}, now)
            ends = {sentence: end for _, sentence, _, end in stated}
        held = [row for row in rows if (end := ends.get(row[0])) is None or end > now]
        found[key] = [_to_evidence(row, ends.get(row[0])) for row in held[:limit]]
    return found


def _sentences(
    connection: sqlite3.Connection,
    pairs: Sequence[tuple[int, int]],
    kind: str,
    now: int,
    limit: int,
) -> list[tuple[Any, ...]]:
    rows = [
        row
        for source, target in pairs
        for row in connection.execute(
            _EVIDENCE,
            {"source": source, "target": target, "type": kind, "now": now, "limit": limit},
        )
    ]
    return sorted(rows, key=lambda row: (-row[7], -row[9], row[0]))


def _to_evidence(row: tuple[Any, ...], replaced: int | None) -> Evidence:
    text, start, stop, passage, chunk_id, memory_id, strength, source, said, since = row[1:11]
    end = min((end for end in (*row[11:13], replaced) if end is not None), default=None)
    return Evidence.model_construct(
        text=text if passage is None else passage[start:stop],
        memory_id=memory_id,
        chunk_id=None if chunk_id is None else str(chunk_id),
        strength=strength,
        source=source,
        said_at=None if said == EVER else from_time(said),
        valid_from=None if since == EVER else from_time(since),
        valid_to=None if end is None else from_time(end),
    )


# --- Counting ---------------------------------------------------------------------------


def count_edges(connection: sqlite3.Connection, now: int) -> tuple[Mapping[str, int], int]:
    """Count what holds, by type, and what does not any more."""
    rows = [_Row(*row) for row in connection.execute(_COLUMNS + "TRUE" + _HOLDS, {"now": now})]
    holding = _as_edges(connection, _still_true(connection, rows, now), {})
    every = [_Row(*row) for row in connection.execute(_COLUMNS + "TRUE")]
    counts: dict[str, int] = {}
    for edge in holding:
        counts[edge.key.type] = counts.get(edge.key.type, 0) + 1
    ordered = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return ordered, len(_as_edges(connection, every, {})) - len(holding)
