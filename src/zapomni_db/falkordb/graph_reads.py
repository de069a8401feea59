"""Reading relationships: what holds at a time between entities, and who says so."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString, NamedTuple

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.values import digest, from_time, to_time
from zapomni_db.graph_models import (
    Edge,
    EdgeKey,
    EdgeQuery,
    Entity,
    EntityName,
    EntityQuery,
    Evidence,
    GraphScope,
    GraphStats,
    Mention,
    UnreadChunk,
)
from zapomni_db.graph_rules import (
    ALIASES_SHOWN,
    EVER,
    LEAST_LIKENESS,
    Statement,
    Told,
    choose_aliases,
    fold,
    join_edges,
    likeness,
    spans,
)
from zapomni_db.models import EntityData

__all__ = [
    "ENTITY_DATA",
    "count_unread",
    "find_entities",
    "find_named",
    "get_edges",
    "get_entities",
    "get_evidence",
    "get_graph_stats",
    "get_mentions",
    "get_named",
    "get_names",
    "get_unread",
    "list_entities",
    "to_entity_data",
]


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


async def get_edges(session: Session, entity_ids: Sequence[str], query: EdgeQuery) -> list[Edge]:
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


async def get_evidence(
    session: Session, edges: Sequence[EdgeKey], as_of: datetime | None, limit: int
) -> dict[EdgeKey, list[Evidence]]:
    now = moment(as_of)
    found = await _sentences(session, edges, now, limit)
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


# --- Reading the graph's entities. Merged ones are read as what they were merged into ---


# Names of which many contain the text: more than anybody looks through.
MOST_MATCHES = 2000

# What is spoken of at a time: only those entities `e` go on. Sentences are looked at for those
# alone that no passage names: a text that was changed has no passages any more.
_SPOKEN_OF: LiteralString = f"""
OPTIONAL MATCH (e)<-[m:MENTIONS]-() WHERE {SPOKEN}
WITH e, count(m) AS named
WITH e, named, CASE WHEN named = 0 AND NOT e.given THEN e END AS unnamed
OPTIONAL MATCH (unnamed)-[v:RELATES]-() WHERE {STATED}
WITH e, named, count(v) AS said WHERE e.given OR named > 0 OR said > 0
"""
_LEAVES: LiteralString = """
OPTIONAL MATCH (root)<-[:IS]-(merged:Entity)
WITH root, [root] + collect(merged) AS leaves UNWIND leaves AS leaf
"""
_COUNTED: LiteralString = (
    _LEAVES + f"OPTIONAL MATCH (leaf)<-[m:MENTIONS]-() WHERE {SPOKEN} WITH root, count(m) AS named"
)


# --- Finding ----------------------------------------------------------------------------


class _Match(NamedTuple):
    """A root that answers a query; in the order they are shown."""

    worse: float
    """1 less its score."""
    rarer: int
    """How often it is mentioned, below 0."""
    folded: str
    entity_id: str


async def find_entities(session: Session, query: EntityQuery) -> list[Entity]:
    now = moment(query.as_of)
    matches = sorted((await _matches(session, query, now)).values())
    page = {m.entity_id: m for m in matches[query.offset : query.offset + query.limit]}
    described = await _describe(session, page, now)
    return [
        described[entity_id].model_copy(update={"match": round(1 - match.worse, 3)})
        for entity_id, match in page.items()
        if entity_id in described
    ]


_ROOT: LiteralString = (
    " WITH e OPTIONAL MATCH (e)-[:IS]->(its:Entity) WITH DISTINCT coalesce(its, e) AS root "
)
_SHOWN: LiteralString = "(size($types) = 0 OR e.type IN $types) WITH e" + _SPOKEN_OF
_EVERYTHING: tuple[tuple[LiteralString, float], ...] = (("MATCH (e:Entity) WHERE " + _SHOWN, 1.0),)
# From the best kind of match to the worst. Mentions are asked for without labels: with them, the
# server would look at every passage instead of the index.
_EXACT: tuple[tuple[LiteralString, float], ...] = (
    (
        "CALL { MATCH (e:Entity {folded_hash: $hash}) RETURN e UNION"
        f" MATCH ()-[m:MENTIONS {{folded_hash: $hash}}]->() WHERE {SPOKEN}"
        " RETURN endNode(m) AS e } WITH DISTINCT e WHERE " + _SHOWN,
        1.0,
    ),
)
_PARTIAL: tuple[tuple[LiteralString, float], ...] = (
    (
        "MATCH (e:Entity) WHERE e.folded STARTS WITH $asked AND " + _SHOWN + " WITH e LIMIT $most",
        0.8,
    ),
    (
        "MATCH (e:Entity) WHERE e.folded CONTAINS $asked AND NOT e.folded STARTS WITH $asked AND "
        + _SHOWN
        + " WITH e LIMIT $most",
        0.6,
    ),
)
_NAMES: LiteralString = (
    "MATCH (e:Entity) WHERE " + _SHOWN + " WITH e OPTIONAL MATCH (e)-[:IS]->(its:Entity)"
)
_MATCH: LiteralString = "root.id, root.folded, named"
_THESE: LiteralString = "MATCH (root:Entity) WHERE root.id IN $ids WITH root "


async def _matches(session: Session, query: EntityQuery, now: int) -> dict[str, _Match]:
    """Return the roots that answer the query, by id."""
    asked = fold(query.text)
    values = {"now": now, "types": query.types}
    if not asked:
        searches = _EVERYTHING
    elif query.exact:
        searches = _EXACT
        values["hash"] = digest(asked)
    else:
        searches = (*_EXACT, *_PARTIAL)
        values |= {"hash": digest(asked), "asked": asked, "most": MOST_MATCHES}
    found: dict[str, _Match] = {}
    for statement, score in searches:
        rows = await session.read_list(statement + _ROOT + _COUNTED, _MATCH, **values)
        for entity_id, folded, count in rows:
            found.setdefault(entity_id, _Match(1 - score, -count, folded, entity_id))
    if found or not asked or query.exact:
        return found
    return await _alike(session, asked, query, now)


async def _alike(session: Session, asked: str, query: EntityQuery, now: int) -> dict[str, _Match]:
    """Return the roots whose names are most like the text."""
    columns = "coalesce(its.id, e.id), e.folded"
    rows = await session.read_list(_NAMES, columns, now=now, types=query.types)
    alike = [(likeness(asked, folded), entity_id) for entity_id, folded in rows]
    best = sorted((pair for pair in alike if pair[0] >= LEAST_LIKENESS), reverse=True)
    scores: dict[str, float] = {}
    for score, entity_id in best[: query.offset + query.limit]:
        scores.setdefault(entity_id, round(score / 2, 3))
    counted = await session.read_list(_THESE + _COUNTED, _MATCH, ids=list(scores), now=now)
    return {
        entity_id: _Match(1 - scores[entity_id], -count, folded, entity_id)
        for entity_id, folded, count in counted
    }


# --- Describing -------------------------------------------------------------------------

# Everything about roots in one go: what stands for the same, and the words texts use for it.
_DESCRIBE: LiteralString = (
    GROUPS
    + f"""
WITH leaf OPTIONAL MATCH (leaf)<-[m:MENTIONS]-()
WITH leaf, m, CASE WHEN {SPOKEN} THEN 1 END AS spoken
WITH leaf, m.folded AS folded, max(m.alias) AS alias, count(m) AS number, count(spoken) AS named
WITH leaf, toInteger(sum(named)) AS named,
    collect(CASE WHEN folded IS NOT NULL THEN [-number, folded, alias] END) AS aliases
WITH leaf, named, aliases, CASE WHEN named = 0 AND NOT leaf.given THEN leaf END AS unnamed
OPTIONAL MATCH (unnamed)-[v:RELATES]-() WHERE {STATED}
WITH leaf, named, aliases, leaf.given OR named > 0 OR count(v) > 0 AS is_spoken_of
ORDER BY leaf.id
OPTIONAL MATCH (leaf)-[:IS]->(its:Entity)
WITH coalesce(its, leaf) AS root, toInteger(sum(named)) AS named,
    collect([leaf.id, leaf.name, aliases]) AS leaves, collect(is_spoken_of) AS spoken_of
    WHERE true IN spoken_of
"""
)
_ENTITY: LiteralString = (
    "root.id, root.name, root.type, root.description,"
    " coalesce(root.confidence_exact, root.confidence), root.source, named, leaves"
)


async def _describe(session: Session, entity_ids: Iterable[str], now: int) -> dict[str, Entity]:
    """Return those that are spoken of, by the id asked for."""
    ids = list(entity_ids)
    rows = await session.read_list(_DESCRIBE, _ENTITY, ids=ids, now=now) if ids else []
    described = [_to_entity(row) for row in rows]
    known = {i: entity for entity in described for i in (entity.entity_id, *entity.merged_ids)}
    return {entity_id: known[entity_id] for entity_id in ids if entity_id in known}


def _to_entity(row: Sequence[Any]) -> Entity:
    entity_id, name, kind, description, confidence, source, named, leaves = row
    own = [leaf for leaf in leaves if leaf[0] == entity_id]
    merged = [leaf for leaf in leaves if leaf[0] != entity_id]
    written = [alias for leaf in (*own, *merged) for _, _, alias in sorted(leaf[2])[:ALIASES_SHOWN]]
    return Entity.model_construct(
        entity_id=entity_id,
        name=name,
        type=kind,
        description=description,
        confidence=float(confidence),
        source=source,
        aliases=choose_aliases(name, [leaf[1] for leaf in merged], written),
        mentions=named,
        merged_ids=[leaf[0] for leaf in merged],
        match=1.0,
    )


async def get_entities(
    session: Session, entity_ids: Sequence[str], as_of: datetime | None = None
) -> dict[str, Entity]:
    return await _describe(session, entity_ids, moment(as_of))


async def list_entities(session: Session, after: str | None, limit: int) -> list[Entity]:
    now = moment(None)
    rows = await session.read(
        "MATCH (e:Entity) WITH e" + _SPOKEN_OF + _ROOT + "WITH root WHERE root.id > $after"
        " RETURN root.id ORDER BY root.id LIMIT $limit",
        now=now,
        after=after or "",
        limit=limit,
    )
    described = await _describe(session, [row[0] for row in rows], now)
    return [described[entity_id] for (entity_id,) in rows if entity_id in described]


async def get_names(session: Session, types: Sequence[str]) -> list[EntityName]:
    rows = await session.read_list(
        "MATCH (e:Entity) WHERE e.type IN $types WITH e ORDER BY e.key",
        "e.id, e.type, e.name",
        types=list(types),
    )
    return [EntityName(*row) for row in rows]


# --- Mentions and counts ----------------------------------------------------------------

_TYPES: LiteralString = (
    "MATCH (e:Entity) WITH e"
    + _SPOKEN_OF
    + _ROOT
    + "RETURN root.type, count(root) AS number ORDER BY number DESC, root.type"
)


async def get_graph_stats(session: Session, extractor: str) -> GraphStats:
    now = moment(None)
    types = dict(await session.read(_TYPES, now=now))
    edges, closed = await count_edges(session, now)
    ((mentioned,),) = await session.read(
        f"MATCH (:Chunk)-[m:MENTIONS]->(:Entity) WHERE {SPOKEN} RETURN count(m)", now=now
    )
    ((merged,),) = await session.read("MATCH (g:Merge) WHERE g.undone_at IS NULL RETURN count(g)")
    ((passages,),) = await session.read("MATCH (c:Chunk) RETURN count(c)")
    return GraphStats(
        entities=sum(types.values()),
        relationships=sum(edges.values()),
        mentions=mentioned,
        closed_relationships=closed,
        merges=merged,
        passages=passages,
        unread_passages=await count_unread(session, extractor, GraphScope()),
        entity_types=types,
        relationship_types=dict(edges),
    )


# --- Between passages and the entities they name: small reads, as a search needs them ---


_ROOT_OF_NAMED: LiteralString = (
    "OPTIONAL MATCH (e)-[:IS]->(its:Entity) WITH DISTINCT coalesce(its, e)"
)
_BY_NAME: LiteralString = f"""
UNWIND $hashes AS hash MATCH (e:Entity {{folded_hash: hash}})
WITH DISTINCT e {_ROOT_OF_NAMED} AS root RETURN root.id
"""
_BY_ALIAS: LiteralString = f"""
UNWIND $hashes AS hash MATCH ()-[m:MENTIONS {{folded_hash: hash}}]->()
WHERE {SPOKEN} WITH DISTINCT endNode(m) AS e {_ROOT_OF_NAMED} AS root RETURN root.id
"""


async def find_named(session: Session, names: Sequence[str], as_of: datetime | None) -> list[str]:
    hashes = [digest(name) for name in names]
    rows = await session.read(_BY_NAME, hashes=hashes)
    rows += await session.read(_BY_ALIAS, hashes=hashes, now=moment(as_of))
    return sorted({entity_id for (entity_id,) in rows})


_OF_ENTITIES: LiteralString = f"""
MATCH (asked:Entity) WHERE asked.id IN $ids OPTIONAL MATCH (asked)-[:IS]->(its:Entity)
WITH asked, coalesce(its, asked) AS root OPTIONAL MATCH (root)<-[:IS]-(merged:Entity)
WITH asked, root, [root] + collect(merged) AS leaves UNWIND leaves AS leaf
MATCH (leaf)<-[m:MENTIONS]-(c:Chunk) WHERE {SPOKEN}
WITH asked, root, c, min(m.start_char) AS start ORDER BY c.key DESC
WITH asked, collect([c.id, root.id, root.type, start]) AS found
RETURN asked.id, found[0..$limit]
"""


async def get_mentions(
    session: Session, entity_ids: Sequence[str], as_of: datetime | None, limit: int
) -> dict[str, list[Mention]]:
    rows = await session.read(_OF_ENTITIES, ids=list(entity_ids), now=moment(as_of), limit=limit)
    found = {asked: [Mention(*one) for one in mentions] for asked, mentions in rows}
    return {entity_id: found.get(entity_id, []) for entity_id in entity_ids}


_OF_CHUNKS: LiteralString = f"""
MATCH (c:Chunk)-[m:MENTIONS]->(e:Entity) WHERE c.id IN $ids AND {SPOKEN}
OPTIONAL MATCH (e)-[:IS]->(its:Entity)
WITH c, coalesce(its, e) AS root, min(m.start_char) AS start ORDER BY start
RETURN c.id, collect([c.id, root.id, root.type, start])
"""


async def get_named(
    session: Session, chunk_ids: Sequence[str], as_of: datetime | None
) -> dict[str, list[Mention]]:
    rows = await session.read(_OF_CHUNKS, ids=list(chunk_ids), now=moment(as_of))
    return {chunk_id: [Mention(*one) for one in mentions] for chunk_id, mentions in rows}


# --- Which passages no extraction is stored for ---------------------------------------


# Code has a graph of its own, made by parsers.
_UNREAD: LiteralString = (
    "MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE m.kind <> 'code'"
    " AND (c.extractor IS NULL OR c.extractor <> $extractor)"
)


async def get_unread(
    session: Session, extractor: str, scope: GraphScope, after: str | None, limit: int
) -> list[UnreadChunk]:
    condition, values = _in_scope(scope)
    # If the last passage is gone, we begin anew: what was read since is not unread any more.
    rows = await session.read(
        "OPTIONAL MATCH (last:Chunk {id: $after}) WITH coalesce(last.key, -1) AS last "
        + _UNREAD
        + condition
        + " AND c.key > last WITH m, c ORDER BY c.key LIMIT $limit"
        " OPTIONAL MATCH (m)-[:HAS_CHUNK {index: c.index - 1}]->(p:Chunk)"
        " RETURN c.id, m.id, c.text, m.said, p.end_char - c.start_char ORDER BY c.key",
        extractor=extractor,
        after=after or "",
        limit=limit,
        **values,
    )
    return [
        UnreadChunk.model_construct(
            chunk_id=chunk_id,
            memory_id=memory_id,
            text=text,
            said_at=from_time(said),
            repeated=max(repeated or 0, 0),
        )
        for chunk_id, memory_id, text, said, repeated in rows
    ]


async def count_unread(session: Session, extractor: str, scope: GraphScope) -> int:
    condition, values = _in_scope(scope)
    rows = await session.read(
        _UNREAD + condition + " RETURN count(c)", extractor=extractor, **values
    )
    return int(rows[0][0])


def _in_scope(scope: GraphScope) -> tuple[LiteralString, dict[str, Any]]:
    condition: LiteralString = ""
    values: dict[str, Any] = {}
    if scope.project is not None:
        condition += " AND m.project_hash = $project"
        values["project"] = digest(scope.project)
    if scope.memory_ids is not None:
        condition += " AND m.id IN $ids"
        values["ids"] = scope.memory_ids
    return condition, values


# --- Entities as callers stored them ----------------------------------------------------

ENTITY_DATA: LiteralString = (
    "e.id, e.name, e.type, e.description, coalesce(e.confidence_exact, e.confidence), e.source"
)
"""The columns of an entity `e` that `to_entity_data` takes."""


def to_entity_data(row: Sequence[Any]) -> EntityData:
    entity_id, name, kind, description, confidence, source = row
    return EntityData(
        entity_id=entity_id,
        name=name,
        type=kind,
        description=description,
        confidence=float(confidence),
        source=source,
    )
