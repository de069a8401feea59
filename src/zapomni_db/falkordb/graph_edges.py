"""Reading relationships: what holds at a time between entities, and who says so."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString, NamedTuple

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.values import from_time, to_time
from zapomni_db.graph_models import Edge, EdgeKey, EdgeQuery, Evidence
from zapomni_db.graph_rules import EVER, Statement, Told, join_edges, spans

__all__ = ["GROUPS", "SPOKEN", "STATED", "count_edges", "edges", "evidence", "moment"]

ALL = 1_000_000_000

# Conditions on a mention `m`, and on a sentence `v`.
SPOKEN: LiteralString = "m.since <= $now AND (m.withdrawn IS NULL OR m.withdrawn > $now)"
_SAID: LiteralString = "(v.withdrawn IS NULL OR v.withdrawn > $now)"
STATED: LiteralString = f"v.since <= $now AND {_SAID} AND (v.until IS NULL OR v.until > $now)"

GROUPS: LiteralString = """
MATCH (asked:Entity) WHERE asked.id IN $ids
OPTIONAL MATCH (asked)-[:IS]->(its:Entity)
WITH DISTINCT coalesce(its, asked) AS root
OPTIONAL MATCH (root)<-[:IS]-(merged:Entity)
WITH root, [root] + collect(merged) AS leaves UNWIND leaves AS leaf
"""
"""From entities to what they stand for, and all that stands for the same, itself first."""

# A list for each entity: rows of their own would take as long as all the rest.
_WEIGHTIEST: LiteralString = """
WITH leaf, other, v.type AS type, v.exclusive AS exclusive, max(v.strength) AS strength,
    count(v) AS support
ORDER BY 1 - (1 - strength) / (1 + 0.1 * (support - 1)) DESC, id(other)
WITH leaf, collect([other.id, type, exclusive, strength, support, outdegree(other, 'IS')]) AS edges
OPTIONAL MATCH (leaf)-[:IS]->(its:Entity)
RETURN collect([leaf.id, coalesce(its.id, leaf.id), edges[0..$limit]]) AS found,
"""
_OUT: LiteralString = "WITH root, leaf MATCH (leaf)-[v:RELATES]->(other:Entity) WHERE "
_IN: LiteralString = "WITH root, leaf MATCH (leaf)<-[v:RELATES]-(other:Entity) WHERE "
_OF_TYPE: LiteralString = " AND v.type IN $types"


class _Row(NamedTuple):
    """A relationship as it is stored, between entities as the texts name them, and as it reads."""

    stored: EdgeKey
    read: EdgeKey
    exclusive: bool
    strength: float
    support: int


def moment(as_of: datetime | None) -> int:
    """Return the time asked for; None is now."""
    return to_time(as_of or datetime.now(UTC))


async def edges(session: Session, entity_ids: Sequence[str], query: EdgeQuery) -> list[Edge]:
    holding: LiteralString = STATED + (_OF_TYPE if query.types else "") + _WEIGHTIEST
    now = moment(query.as_of)
    found = await session.read(
        f"{GROUPS}{_OUT}{holding}true AS out UNION ALL {GROUPS}{_IN}{holding}false AS out",
        ids=list(entity_ids),
        now=now,
        limit=query.limit,
        **({"types": query.types} if query.types else {}),
    )
    merged = {edge[0] for rows, _ in found for _, _, edges in rows for edge in edges if edge[5]}
    roots = await _roots_of(session, merged)
    rows = {row.stored: row for part, out in found for row in _to_rows(part, roots, out=out)}
    kept = await _still_true(session, list(rows.values()), now)
    return join_edges((row.read, row.strength, row.support) for row in kept)


async def _roots_of(session: Session, ids: Collection[str]) -> dict[str, str]:
    """Return what merged entities stand for."""
    if not ids:
        return {}
    rows = await session.read_list(
        "MATCH (e:Entity)-[:IS]->(root:Entity) WHERE e.id IN $ids",
        "e.id, root.id",
        ids=sorted(ids),
    )
    return dict(rows)


def _to_rows(
    found: Iterable[Sequence[Any]], roots: Mapping[str, str], *, out: bool
) -> Iterator[_Row]:
    for leaf, root, edges in found:
        for other, kind, exclusive, strength, support, _ in edges:
            stands = roots.get(other, other)
            stored = EdgeKey(leaf, other, kind) if out else EdgeKey(other, leaf, kind)
            read = EdgeKey(root, stands, kind) if out else EdgeKey(stands, root, kind)
            yield _Row(stored, read, exclusive, strength, support)


# --- One at a time ----------------------------------------------------------------------

_STATEMENTS: LiteralString = (
    GROUPS + _OUT + f"v.exclusive AND {_SAID} OPTIONAL MATCH (other)-[:IS]->(stands:Entity)"
)


async def _still_true(session: Session, rows: Sequence[_Row], now: int) -> list[_Row]:
    """Leave out exclusive relationships that something newer has replaced by then."""
    exclusive = {row.stored.source_id for row in rows if row.exclusive}
    if not exclusive:
        return list(rows)
    held: dict[EdgeKey, list[tuple[int, int | None]]] = {}
    for relationship, _, since, end in await _statements(session, exclusive, now):
        held.setdefault(relationship, []).append((since, end))
    return [
        row
        for row in rows
        if not row.exclusive
        or any(
            since <= now and (end is None or end > now)
            # What was deleted between the two questions is gone.
            for since, end in held.get(row.stored, ())
        )
    ]


async def _statements(
    session: Session, sources: Collection[str], now: int
) -> Iterator[tuple[EdgeKey, int, int, int | None]]:
    """Return the relationship, key, beginning and end of what is stated of these, one at a time.

    What was withdrawn by then is as if it had not been said.
    """
    rows = await session.read_list(
        _STATEMENTS,
        "root.id, v.type, leaf.id, other.id, v.key, coalesce(stands.id, other.id), v.said,"
        " v.since, v.until",
        ids=sorted(sources),
        now=now,
    )
    return spans(
        Told(root, kind, EdgeKey(leaf, other, kind), key, Statement(stands, said, since, until))
        for root, kind, leaf, other, key, stands, said, since, until in rows
    )


# --- Evidence ---------------------------------------------------------------------------

# The WITH before the last MATCH makes the server look between the two, not at all of one.
_EVIDENCE: LiteralString = f"""
UNWIND $asked AS x
MATCH (source:Entity {{id: x[1]}}) MATCH (target:Entity {{id: x[2]}})
OPTIONAL MATCH (source)-[:IS]->(source_is:Entity)
OPTIONAL MATCH (target)-[:IS]->(target_is:Entity)
WITH x, coalesce(source_is, source) AS source, coalesce(target_is, target) AS target
OPTIONAL MATCH (source)<-[:IS]-(first:Entity)
WITH x, source, target, [source] + collect(first) AS sources
OPTIONAL MATCH (target)<-[:IS]-(second:Entity)
WITH x, target, sources, [target] + collect(second) AS targets
UNWIND sources AS a UNWIND targets AS b
WITH x, a, b
MATCH (a)-[v:RELATES]->(b) WHERE v.type = x[3] AND {STATED}
WITH x, v ORDER BY v.strength DESC, v.said DESC, v.key
WITH x, collect(v)[0..$limit] AS sentences
UNWIND sentences AS v
"""
_SENTENCE: LiteralString = (
    "x[0], v.key, v.exclusive, startNode(v).id, v.text, v.memory, v.chunk,"
    " coalesce(v.strength_exact, v.strength), v.source, v.said, v.since, v.until, v.withdrawn"
)


async def evidence(
    session: Session, keys: Sequence[EdgeKey], as_of: datetime | None, limit: int
) -> dict[EdgeKey, list[Evidence]]:
    now = moment(as_of)
    found = await _sentences(session, keys, now, limit)
    ends: dict[int, int | None] = {}
    replaceable = [key for key, rows in found.items() if any(row[1] for row in rows)]
    if replaceable:
        # The strongest may be replaced: look at all.
        found |= await _sentences(session, replaceable, now, ALL)
        sources = {row[2] for key in replaceable for row in found[key]}
        stated = await _statements(session, sources, now)
        ends = {sentence: end for _, sentence, _, end in stated}
    return {
        key: [
            _to_evidence(row, ends.get(row[0]))
            for row in rows
            if (end := ends.get(row[0])) is None or end > now
        ][:limit]
        for key, rows in found.items()
    }


async def _sentences(
    session: Session, keys: Sequence[EdgeKey], now: int, limit: int
) -> dict[EdgeKey, list[list[Any]]]:
    rows = await session.read_list(
        _EVIDENCE,
        _SENTENCE,
        asked=[[number, *key] for number, key in enumerate(keys)],
        now=now,
        limit=limit,
    )
    found: dict[EdgeKey, list[list[Any]]] = {key: [] for key in keys}
    for number, *row in rows:
        found[keys[number]].append(row)
    return found


def _to_evidence(row: Sequence[Any], replaced: int | None) -> Evidence:
    text, memory_id, chunk_id, strength, source, said, since = row[3:10]
    end = min((end for end in (*row[10:12], replaced) if end is not None), default=None)
    return Evidence.model_construct(
        text=text,
        memory_id=memory_id,
        chunk_id=chunk_id,
        strength=float(strength),
        source=source,
        said_at=None if said == EVER else from_time(said),
        valid_from=None if since == EVER else from_time(since),
        valid_to=None if end is None else from_time(end),
    )


# --- Counting ---------------------------------------------------------------------------

_EVERY: LiteralString = f"""
MATCH (a:Entity)-[v:RELATES]->(b:Entity)
WITH a, b, v.type AS type, v.exclusive AS exclusive, max(CASE WHEN {STATED} THEN 1 ELSE 0 END) AS
    holds
OPTIONAL MATCH (a)-[:IS]->(a_is:Entity)
OPTIONAL MATCH (b)-[:IS]->(b_is:Entity)
WITH a, b, coalesce(a_is, a) AS source, coalesce(b_is, b) AS target, type, exclusive, holds
WHERE source <> target
"""
_COUNT: LiteralString = (
    _EVERY + "AND NOT exclusive WITH source, target, type, max(holds) AS holds"
    " RETURN type, sum(holds), count(*)"
)


async def count_edges(session: Session, now: int) -> tuple[Mapping[str, int], int]:
    """Count what holds, by type, and what does not any more."""
    counts: dict[str, int] = {}
    closed = 0
    for kind, holding, every in await session.read(_COUNT, now=now):
        counts[kind] = int(holding)
        closed += every - int(holding)
    columns = "a.id, b.id, source.id, target.id, type, holds = 1"
    exclusive = await session.read_list(_EVERY + "AND exclusive", columns, now=now)
    listed = [
        (_Row(EdgeKey(a, b, kind), EdgeKey(source, target, kind), True, 0.0, 1), holds)
        for a, b, source, target, kind, holds in exclusive
    ]
    kept = await _still_true(session, [row for row, holds in listed if holds], now)
    holding = _distinct(kept)
    for key in holding:
        counts[key.type] = counts.get(key.type, 0) + 1
    closed += len(_distinct(row for row, _ in listed)) - len(holding)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {kind: number for kind, number in ordered if number}, closed


def _distinct(rows: Iterable[_Row]) -> set[EdgeKey]:
    return {row.read for row in rows}
