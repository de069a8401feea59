"""Reading the graph: entities, relationships at a time, mentions, unread chunks, counts.

An entity that was merged is read as its root. Where answers may be long, rows come back in one
list: a server may be configured to cut answers at a number of rows, and does so silently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString, NamedTuple

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.values import digest
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
    UnreadChunk,
)
from zapomni_db.models import EntityData, Mention
from zapomni_db.rules import (
    ALIASES_SHOWN,
    EVER,
    FACTS,
    FORMS,
    LEAST_LIKENESS,
    SHOWN,
    Statement,
    SubjectStatement,
    choose_aliases,
    fold,
    join_edges,
    last_ended,
    likeness,
    spans,
)
from zapomni_db.values import from_time, to_time

__all__ = [
    "ENTITY_DATA",
    "MENTIONS_OF_CHUNKS",
    "MENTIONS_OF_ENTITIES",
    "NAMED",
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
    "get_past",
    "get_unread",
    "list_entities",
    "to_entity_data",
    "to_mentions",
    "to_moment",
]

# More names that contain a text than anyone reads through.
MAX_MATCHES = 2000
UNLIMITED = 1_000_000_000

# --- Parts of statements ----------------------------------------------------------------

# Whether a mention `m` is valid at the time $now.
_MENTIONED: LiteralString = "m.since <= $now AND (m.withdrawn IS NULL OR m.withdrawn > $now)"
# Whether a statement `v` was not withdrawn by the time $now.
_NOT_WITHDRAWN: LiteralString = "(v.withdrawn IS NULL OR v.withdrawn > $now)"
# Whether a statement `v` holds at the time $now.
_HOLDS: LiteralString = (
    # Names that occur together no more often than by chance have no strength.
    f"v.since <= $now AND {_NOT_WITHDRAWN} AND (v.until IS NULL OR v.until > $now)"
    " AND v.strength > 0"
)
# From entities by id to their roots, and to each `leaf` of a root: itself and all merged into it.
_LEAVES_OF: LiteralString = """
MATCH (asked:Entity) WHERE asked.id IN $ids
OPTIONAL MATCH (asked)-[:IS]->(its:Entity)
WITH DISTINCT coalesce(its, asked) AS root
OPTIONAL MATCH (root)<-[:IS]-(merged:Entity)
WITH root, [root] + collect(merged) AS leaves UNWIND leaves AS leaf
"""
# From entities `e` to their roots.
_ROOT: LiteralString = (
    " WITH e OPTIONAL MATCH (e)-[:IS]->(its:Entity) WITH DISTINCT coalesce(its, e) AS root "
)
# Counts the mentions of roots.
_COUNT_MENTIONS: LiteralString = f"""
OPTIONAL MATCH (root)<-[:IS]-(merged:Entity)
WITH root, [root] + collect(merged) AS leaves UNWIND leaves AS leaf
OPTIONAL MATCH (leaf)<-[m:MENTIONS]-() WHERE {_MENTIONED} WITH root, count(m) AS named
"""
# Leaves the entities `e` that exist at the time $now: given by a caller, mentioned or stated.
# Statements are read only for those without a mention: a text that was changed has no chunks left.
_EXISTING: LiteralString = f"""
OPTIONAL MATCH (e)<-[m:MENTIONS]-() WHERE {_MENTIONED}
WITH e, count(m) AS named
WITH e, named, CASE WHEN named = 0 AND NOT e.given THEN e END AS unnamed
OPTIONAL MATCH (unnamed)-[v:RELATES]-() WHERE {_HOLDS}
WITH e, named, count(v) AS said WHERE e.given OR named > 0 OR said > 0
"""


def to_moment(as_of: datetime | None) -> int:
    """Return a time as it is stored; None is now."""
    return to_time(as_of or datetime.now(UTC))


# --- Hidden projects --------------------------------------------------------------------

# Finds the memories of projects, and their chunks.
_OF_PROJECTS: LiteralString = "MATCH (m:Memory) WHERE m.project_hash IN $projects"
_CHUNKS_OF_PROJECTS: LiteralString = _OF_PROJECTS + " MATCH (m)-[:HAS_CHUNK]->(c:Chunk)"
_MENTION_SHOWN: LiteralString = "NOT startNode(m).id IN $hidden_chunks"
_STATEMENT_SHOWN: LiteralString = "(v.memory IS NULL OR NOT v.memory IN $hidden_memories)"
# Matches the mentions of a leaf at any time.
_EVER_MENTIONED: LiteralString = "OPTIONAL MATCH (leaf)<-[m:MENTIONS]-()\n"


async def _find_hidden(session: Session, projects: Sequence[str]) -> dict[str, list[str]]:
    """Return the values that `_without` needs; none if no project is hidden."""
    if not projects:
        return {}
    hashes = [digest(one) for one in projects]
    memories = await session.read_list(_OF_PROJECTS, "m.id", projects=hashes)
    chunks = await session.read_list(_CHUNKS_OF_PROJECTS, "c.id", projects=hashes)
    return {
        "hidden_memories": [memory_id for (memory_id,) in memories],
        "hidden_chunks": [chunk_id for (chunk_id,) in chunks],
    }


def _without(hidden: Mapping[str, list[str]], statement: LiteralString) -> LiteralString:
    """Return a statement that reads no mention and no statement of hidden memories."""
    if not hidden:
        return statement
    return (
        statement.replace(_MENTIONED, f"{_MENTIONED} AND {_MENTION_SHOWN}")
        .replace(_NOT_WITHDRAWN, f"{_NOT_WITHDRAWN} AND {_STATEMENT_SHOWN}")
        .replace(_EVER_MENTIONED, f"{_EVER_MENTIONED} WHERE {_MENTION_SHOWN} ")
    )


# --- Relationships ----------------------------------------------------------------------

_OUTGOING: LiteralString = "WITH root, leaf MATCH (leaf)-[v:RELATES]->(other:Entity) WHERE "
_INCOMING: LiteralString = "WITH root, leaf MATCH (leaf)<-[v:RELATES]-(other:Entity) WHERE "
_OF_TYPES: LiteralString = " AND v.type IN $types"
_NO_FACTS: LiteralString = " AND NOT other.type IN $facts"
# Collects the relationships of each leaf, those with the highest weight first: one list for each
# leaf, because rows would take as long as everything else.
_HEAVIEST: LiteralString = """
WITH leaf, other, v.type AS type, v.exclusive AS exclusive, max(v.strength) AS strength,
    count(v) AS support
ORDER BY CASE type WHEN 'RELATED_TO' THEN strength
    ELSE 1 - (1 - strength) / (1 + 0.1 * (support - 1)) END DESC, id(other)
WITH leaf, collect([other.id, type, exclusive, strength, support, outdegree(other, 'IS'),
    other.confidence]) AS edges
OPTIONAL MATCH (leaf)-[:IS]->(its:Entity)
RETURN collect([leaf.id, coalesce(its.id, leaf.id), edges[0..$limit]]) AS found,
"""
# Adds up how sure the mentions of entities are, with those of what is merged into them.
_SURENESS: LiteralString = """
MATCH (asked:Entity) WHERE asked.id IN $ids
OPTIONAL MATCH (asked)-[:IS]->(its:Entity)
WITH asked, coalesce(its, asked) AS root
OPTIONAL MATCH (root)<-[:IS]-(merged:Entity)
WITH asked, root, [root] + collect(merged) AS leaves UNWIND leaves AS leaf
OPTIONAL MATCH (leaf)<-[m:MENTIONS]-() WITH asked, sum(m.confidence) AS sure
"""
# Finds the roots of merged entities.
_ROOTS: LiteralString = "MATCH (e:Entity)-[:IS]->(root:Entity) WHERE e.id IN $ids"
# Finds the exclusive statements of entities and their leaves.
_EXCLUSIVE: LiteralString = (
    _LEAVES_OF
    + _OUTGOING
    + f"v.exclusive AND {_NOT_WITHDRAWN} OPTIONAL MATCH (other)-[:IS]->(target:Entity)"
)
_EXCLUSIVE_STATEMENT: LiteralString = (
    "root.id, v.type, leaf.id, other.id, v.key, coalesce(target.id, other.id), v.said, v.since,"
    " v.until"
)


class _StoredEdge(NamedTuple):
    """A relationship between entities as the texts name them, and between their roots."""

    stored: EdgeKey
    read: EdgeKey
    exclusive: bool
    strength: float
    support: int


async def get_edges(session: Session, entity_ids: Sequence[str], query: EdgeQuery) -> list[Edge]:
    """Asks again where other entities were merged, and where relationships are exclusive."""
    chosen: LiteralString = (_OF_TYPES if query.types else "") + (_NO_FACTS if query.nodes else "")
    holding: LiteralString = _HOLDS + chosen + _HEAVIEST
    now = to_moment(query.as_of)
    hidden = await _find_hidden(session, query.hidden)
    found = await session.read(
        _without(
            hidden,
            f"{_LEAVES_OF}{_OUTGOING}{holding}true AS out UNION ALL"
            f" {_LEAVES_OF}{_INCOMING}{holding}false AS out",
        ),
        ids=list(entity_ids),
        now=now,
        limit=query.limit,
        **hidden,
        **({"types": query.types} if query.types else {}),
        **({"facts": list(FACTS)} if query.nodes else {}),
    )
    unsure = await _find_unsure(session, found) if query.nodes else set[str]()
    merged = {
        other
        for leaves, _ in found
        for _, _, edges in leaves
        for other, *_, is_merged, _ in edges
        if is_merged
    }
    roots: dict[str, str] = {}
    if merged:
        roots = dict(await session.read_list(_ROOTS, "e.id, root.id", ids=sorted(merged)))
    rows: dict[EdgeKey, _StoredEdge] = {}
    for leaves, out in found:
        for leaf, root, edges in leaves:
            for other, kind, exclusive, strength, support, *_ in edges:
                if other in unsure:
                    continue
                end = roots.get(other, other)
                stored = EdgeKey(leaf, other, kind) if out else EdgeKey(other, leaf, kind)
                read = EdgeKey(root, end, kind) if out else EdgeKey(end, root, kind)
                rows[stored] = _StoredEdge(stored, read, exclusive, strength, support)
    current = await _drop_replaced(session, list(rows.values()), now, hidden)
    return join_edges((row.read, row.strength, row.support) for row in current)


async def _find_unsure(session: Session, found: Sequence[Sequence[Any]]) -> set[str]:
    """Return the entities at the other ends that are not mentioned surely or often enough."""
    weak = {
        other
        for leaves, _ in found
        for _, _, edges in leaves
        for other, *_, confidence in edges
        if confidence < SHOWN
    }
    if not weak:
        return weak
    rows = await session.read_list(_SURENESS, "asked.id, sure", ids=sorted(weak))
    return weak - {entity_id for entity_id, sure in rows if sure >= SHOWN}


async def _drop_replaced(
    session: Session, rows: Sequence[_StoredEdge], now: int, hidden: Mapping[str, list[str]]
) -> list[_StoredEdge]:
    """Drop exclusive relationships that a newer statement had replaced by then."""
    exclusive = {row.stored.source_id for row in rows if row.exclusive}
    if not exclusive:
        return list(rows)
    times: dict[EdgeKey, list[tuple[int, int | None]]] = {}
    for relationship, _, since, end in await _read_exclusive(session, exclusive, now, hidden):
        times.setdefault(relationship, []).append((since, end))
    return [
        row
        for row in rows
        if not row.exclusive
        # None if it was deleted between the two queries.
        or any(
            since <= now and (end is None or end > now) for since, end in times.get(row.stored, ())
        )
    ]


async def _read_exclusive(
    session: Session, sources: Collection[str], now: int, hidden: Mapping[str, list[str]]
) -> Iterator[tuple[EdgeKey, int, int, int | None]]:
    """Return relationship, key, beginning and end of the exclusive statements of entities.

    Statements that were withdrawn by then end nothing.
    """
    rows = await session.read_list(
        _without(hidden, _EXCLUSIVE),
        _EXCLUSIVE_STATEMENT,
        ids=sorted(sources),
        now=now,
        **hidden,
    )
    return spans(
        SubjectStatement(
            root, kind, EdgeKey(leaf, other, kind), key, Statement(target, said, since, until)
        )
        for root, kind, leaf, other, key, target, said, since, until in rows
    )


# --- Evidence ---------------------------------------------------------------------------

# Finds the statements of relationships, the strongest first. The WITH before the last MATCH makes
# the server match between the two entities instead of everything from one.
_STATEMENTS: LiteralString = f"""
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
MATCH (a)-[v:RELATES]->(b) WHERE v.type = x[3] AND {_HOLDS}
WITH x, v ORDER BY v.strength DESC, v.said DESC, v.key
WITH x, collect(v)[0..$limit] AS statements
UNWIND statements AS v
"""
# The number of the relationship asked for, then the fields of `_HoldingStatement`.
_STATEMENT: LiteralString = (
    "x[0], v.key, v.exclusive, startNode(v).id, v.text, v.memory, v.chunk,"
    " coalesce(v.strength_exact, v.strength), v.source, v.said, v.since, v.until, v.withdrawn"
)


class _HoldingStatement(NamedTuple):
    """A statement as it is stored."""

    key: int
    exclusive: bool
    source_id: str
    text: str
    memory_id: str | None
    chunk_id: str | None
    strength: float
    source: str
    said: int
    since: int
    until: int | None
    withdrawn: int | None


async def get_evidence(
    session: Session,
    edges: Sequence[EdgeKey],
    as_of: datetime | None,
    limit: int,
    hidden: Sequence[str] = (),
) -> dict[EdgeKey, list[Evidence]]:
    """Asks again where relationships are exclusive."""
    now = to_moment(as_of)
    without = await _find_hidden(session, hidden)
    found = await _read_statements(session, edges, now, limit, without)
    ends: dict[int, int | None] = {}
    replaceable = [key for key, rows in found.items() if any(row.exclusive for row in rows)]
    if replaceable:
        # The strongest may have been replaced: read all.
        found |= await _read_statements(session, replaceable, now, UNLIMITED, without)
        sources = {row.source_id for key in replaceable for row in found[key]}
        exclusive = await _read_exclusive(session, sources, now, without)
        ends = {statement: end for _, statement, _, end in exclusive}
    return {
        key: [
            _to_evidence(row, end)
            for row in rows
            if (end := ends.get(row.key)) is None or end > now
        ][:limit]
        for key, rows in found.items()
    }


async def _read_statements(
    session: Session,
    keys: Sequence[EdgeKey],
    now: int,
    limit: int,
    hidden: Mapping[str, list[str]],
) -> dict[EdgeKey, list[_HoldingStatement]]:
    asked = [[number, *key] for number, key in enumerate(keys)]
    found: dict[EdgeKey, list[_HoldingStatement]] = {key: [] for key in keys}
    for number, *row in await session.read_list(
        _without(hidden, _STATEMENTS),
        _STATEMENT,
        asked=asked,
        now=now,
        limit=limit,
        **hidden,
    ):
        found[keys[number]].append(_HoldingStatement(*row))
    return found


def _to_evidence(row: _HoldingStatement, replaced: int | None) -> Evidence:
    ends = [end for end in (row.until, row.withdrawn, replaced) if end is not None]
    return Evidence.model_construct(
        text=row.text,
        memory_id=row.memory_id,
        chunk_id=row.chunk_id,
        strength=float(row.strength),
        source=row.source,
        said_at=None if row.said == EVER else from_time(row.said),
        valid_from=None if row.since == EVER else from_time(row.since),
        valid_to=from_time(min(ends)) if ends else None,
    )


# --- The past ---------------------------------------------------------------------------

# Finds when a leaf was mentioned.
_MENTIONED_BETWEEN: LiteralString = (
    _LEAVES_OF + "WITH leaf MATCH (leaf)<-[m:MENTIONS]-() WHERE m.since <= $now"
)
# Finds the statements of relationships that nothing states now, or that something may have
# replaced, the strongest first.
_MAY_HAVE_ENDED: LiteralString = f"""
WITH root, leaf, other, v, CASE WHEN {_HOLDS} THEN 1 ELSE 0 END AS holds
WITH root, leaf, other, v.type AS type, v.exclusive AS exclusive, collect(v) AS statements,
    max(holds) AS holds
WHERE holds = 0 OR exclusive
UNWIND statements AS v
OPTIONAL MATCH (other)-[:IS]->(its:Entity)
WITH root, coalesce(its.id, other.id) AS end, v ORDER BY v.strength DESC, v.said DESC, v.key
"""
# The entity at the other end and the type, then the fields of `_HoldingStatement`.
_PAST_STATEMENT: LiteralString = (
    "root.id, end, v.type, v.key, v.exclusive, startNode(v).id, v.text, v.memory, v.chunk,"
    " coalesce(v.strength_exact, v.strength), v.source, v.said, v.since, v.until, v.withdrawn"
)


async def get_past(
    session: Session,
    entity_id: str,
    as_of: datetime | None,
    limit: int,
    *,
    hidden: Sequence[str] = (),
    without: Sequence[str] = (),
) -> EntityPast:
    """Asks again what holds, where something may have ended."""
    now = to_moment(as_of)
    unseen = await _find_hidden(session, hidden)
    shown: LiteralString = f" AND {_MENTION_SHOWN}" if unseen else ""
    ((first, last),) = await session.read(
        _MENTIONED_BETWEEN + shown + " RETURN min(m.since), max(m.since)",
        ids=[entity_id],
        now=now,
        **unseen,
    )
    made: LiteralString = "v.since <= $now AND NOT v.type IN $without"
    if unseen:
        made += f" AND {_STATEMENT_SHOWN}"
    rows: list[tuple[EdgeKey, _HoldingStatement]] = []
    for direction, is_out in ((_OUTGOING, True), (_INCOMING, False)):
        for root, end, kind, *fields in await session.read_list(
            _LEAVES_OF + direction + made + _MAY_HAVE_ENDED,
            _PAST_STATEMENT,
            ids=[entity_id],
            now=now,
            without=list(without),
            **unseen,
        ):
            ends = (root, end) if is_out else (end, root)
            rows.append((EdgeKey(*ends, kind), _HoldingStatement(*fields)))
    sources = {row.source_id for _, row in rows if row.exclusive}
    replaced: dict[int, int | None] = {}
    if sources:
        exclusive = await _read_exclusive(session, sources, now, unseen)
        replaced = {statement: end for _, statement, _, end in exclusive}
    statements = []
    for key, row in rows:
        given = (row.until, row.withdrawn, replaced.get(row.key))
        moment = min((one for one in given if one is not None), default=None)
        statements.append((key, moment, row))
    holding: set[EdgeKey] = set()
    if statements:
        query = EdgeQuery(as_of=as_of, limit=UNLIMITED, hidden=list(hidden))
        holding = {edge.key for edge in await get_edges(session, [entity_id], query)}
    return EntityPast(
        None if first is None else from_time(first),
        None if last is None else from_time(last),
        [
            PastEdge(key, _to_evidence(row, moment))
            for key, moment, row in last_ended(statements, holding, now, limit)
        ],
    )


# --- Finding entities -------------------------------------------------------------------

# Leaves entities of the types asked for that exist at the time.
_SHOWN: LiteralString = (
    "((size($types) = 0 AND NOT e.type IN $facts) OR e.type IN $types) WITH e" + _EXISTING
)
# Leaves roots whose mentions add up; without a mention, a root is as sure as it was.
_SURE: LiteralString = f"""
OPTIONAL MATCH (root)<-[:IS]-(merged:Entity)
WITH root, [root] + collect(merged) AS leaves UNWIND leaves AS leaf
OPTIONAL MATCH (leaf)<-[m:MENTIONS]-() WHERE {_MENTIONED}
WITH root, count(m) AS times, sum(m.confidence) AS sure
WITH root WHERE root.given OR sure >= $sure OR (times = 0 AND root.confidence >= $sure)
"""
# Finds every entity.
_EVERY_ENTITY: LiteralString = "MATCH (e:Entity) WHERE " + _SHOWN
# Finds entities by name or alias. Mentions are matched without labels: with them, the server would
# read every chunk instead of the index.
_BY_NAME: LiteralString = (
    "CALL { MATCH (e:Entity {folded_hash: $hash}) RETURN e UNION"
    f" MATCH ()-[m:MENTIONS {{folded_hash: $hash}}]->() WHERE {_MENTIONED}"
    " RETURN endNode(m) AS e } WITH DISTINCT e WHERE " + _SHOWN
)
# Finds entities whose name starts with a text.
_BY_PREFIX: LiteralString = (
    "MATCH (e:Entity) WHERE e.folded STARTS WITH $text AND " + _SHOWN + " WITH e LIMIT $most"
)
# Finds entities whose name contains a text elsewhere.
_BY_PART: LiteralString = (
    "MATCH (e:Entity) WHERE e.folded CONTAINS $text AND NOT e.folded STARTS WITH $text AND "
    + _SHOWN
    + " WITH e LIMIT $most"
)
# Finds the names of all entities, and their roots.
_ALL_NAMES: LiteralString = (
    "MATCH (e:Entity) WHERE " + _SHOWN + " WITH e OPTIONAL MATCH (e)-[:IS]->(its:Entity)"
)
# Finds roots by id.
_ROOTS_BY_ID: LiteralString = "MATCH (root:Entity) WHERE root.id IN $ids WITH root "
_MATCH: LiteralString = "root.id, root.folded, named"


class _EntityMatch(NamedTuple):
    """A root that matches a query; they sort in the order they are shown."""

    distance: float
    """1 less its score."""
    negative_mentions: int
    folded: str
    entity_id: str


async def find_entities(session: Session, query: EntityQuery) -> list[Entity]:
    now = to_moment(query.as_of)
    hidden = await _find_hidden(session, query.hidden)
    matches = sorted((await _match_entities(session, query, now, hidden)).values())
    page = {m.entity_id: m for m in matches[query.offset : query.offset + query.limit]}
    described = await _describe(session, page, now, hidden)
    return [
        described[entity_id].model_copy(update={"match": round(1 - match.distance, 3)})
        for entity_id, match in page.items()
        if entity_id in described
    ]


async def _match_entities(
    session: Session, query: EntityQuery, now: int, hidden: Mapping[str, list[str]]
) -> dict[str, _EntityMatch]:
    """Return the roots that match the query, by id."""
    text = fold(query.text)
    values = {"now": now, "types": query.types, "facts": list(FACTS) if query.nodes else []}
    sure: LiteralString = _SURE if query.nodes else ""
    if query.nodes:
        values["sure"] = SHOWN
    if not text:
        searches = [(_EVERY_ENTITY, 1.0)]
    elif query.exact:
        searches = [(_BY_NAME, 1.0)]
        values["hash"] = digest(text)
    else:
        searches = [(_BY_NAME, 1.0), (_BY_PREFIX, 0.8), (_BY_PART, 0.6)]
        values |= {"hash": digest(text), "text": text, "most": MAX_MATCHES}
    found: dict[str, _EntityMatch] = {}
    for statement, score in searches:
        rows = await session.read_list(
            _without(hidden, statement + _ROOT + sure + _COUNT_MENTIONS), _MATCH, **values, **hidden
        )
        for entity_id, folded, count in rows:
            found.setdefault(entity_id, _EntityMatch(1 - score, -count, folded, entity_id))
    if found or not text or query.exact:
        return found
    # No name contains the text: find those most like it.
    rows = await session.read_list(
        _without(hidden, _ALL_NAMES),
        "coalesce(its.id, e.id), e.folded",
        now=now,
        types=query.types,
        facts=values["facts"],
        **hidden,
    )
    alike = [(likeness(text, folded), entity_id) for entity_id, folded in rows]
    best = sorted((pair for pair in alike if pair[0] >= LEAST_LIKENESS), reverse=True)
    scores: dict[str, float] = {}
    for score, entity_id in best[: query.offset + query.limit]:
        scores.setdefault(entity_id, round(score / 2, 3))
    counted = await session.read_list(
        _without(hidden, _ROOTS_BY_ID + sure + _COUNT_MENTIONS),
        _MATCH,
        ids=list(scores),
        now=now,
        **({"sure": SHOWN} if query.nodes else {}),
        **hidden,
    )
    return {
        entity_id: _EntityMatch(1 - scores[entity_id], -count, folded, entity_id)
        for entity_id, folded, count in counted
    }


# --- Describing entities ----------------------------------------------------------------

# Finds everything about entities that exist at the time: what was merged into them, and the words
# texts use for them.
_DESCRIBE: LiteralString = (
    _LEAVES_OF
    + f"""
WITH leaf {_EVER_MENTIONED}WITH leaf, m, CASE WHEN {_MENTIONED} THEN 1 END AS valid
WITH leaf, m.folded AS folded, max(m.alias) AS alias, count(m) AS number, count(valid) AS named
WITH leaf, toInteger(sum(named)) AS named,
    collect(CASE WHEN folded IS NOT NULL THEN [-number, folded, alias] END) AS aliases
WITH leaf, named, aliases, CASE WHEN named = 0 AND NOT leaf.given THEN leaf END AS unnamed
OPTIONAL MATCH (unnamed)-[v:RELATES]-() WHERE {_HOLDS}
WITH leaf, named, aliases, leaf.given OR named > 0 OR count(v) > 0 AS exists_then
ORDER BY leaf.id
OPTIONAL MATCH (leaf)-[:IS]->(its:Entity)
WITH coalesce(its, leaf) AS root, toInteger(sum(named)) AS named,
    collect([leaf.id, leaf.name, aliases, exists_then]) AS leaves, collect(exists_then) AS existing
    WHERE true IN existing
"""
)
_DESCRIPTION: LiteralString = (
    "root.id, root.type, root.description,"
    " coalesce(root.confidence_exact, root.confidence), root.source, named, leaves"
)
# Finds the next roots by id.
_NEXT_ROOTS: LiteralString = (
    "MATCH (e:Entity) WHERE NOT e.type IN $facts WITH e"
    + _EXISTING
    + _ROOT
    + _SURE
    + "WITH root WHERE root.id > $after RETURN root.id ORDER BY root.id LIMIT $limit"
)
# Finds the names of entities of some types.
_NAMES: LiteralString = "MATCH (e:Entity) WHERE e.type IN $types WITH e ORDER BY e.key"


async def _describe(
    session: Session, entity_ids: Iterable[str], now: int, hidden: Mapping[str, list[str]]
) -> dict[str, Entity]:
    """Return the entities that exist at the time, by the id asked for."""
    ids = list(entity_ids)
    if not ids:
        return {}
    rows = await session.read_list(
        _without(hidden, _DESCRIBE), _DESCRIPTION, ids=ids, now=now, **hidden
    )
    known: dict[str, Entity] = {}
    for *fields, leaves in rows:
        # A name that only hidden memories use is not shown.
        shown = [leaf for leaf in leaves if leaf[-1]] if hidden else leaves
        entity = _to_entity([*fields, shown])
        known |= {leaf_id: entity for leaf_id, *_ in leaves}
    return {entity_id: known[entity_id] for entity_id in ids if entity_id in known}


def _to_entity(row: Sequence[Any]) -> Entity:
    entity_id, kind, description, confidence, source, named, leaves = row
    # Each leaf: its id, its name, its aliases as [-count, folded, alias], and whether it exists.
    own = [leaf for leaf in leaves if leaf[0] == entity_id] or leaves[:1]
    merged = [leaf for leaf in leaves if leaf not in own]
    name = own[0][1]
    written = [
        alias
        for _, _, aliases, _ in (*own, *merged)
        for *_, alias in sorted(aliases)[:ALIASES_SHOWN]
    ]
    return Entity.model_construct(
        entity_id=entity_id,
        name=name,
        type=kind,
        description=description,
        confidence=float(confidence),
        source=source,
        aliases=choose_aliases(name, [merged_name for _, merged_name, *_ in merged], written),
        mentions=named,
        merged_ids=[merged_id for merged_id, *_ in merged],
        match=1.0,
    )


async def get_entities(
    session: Session,
    entity_ids: Sequence[str],
    as_of: datetime | None = None,
    hidden: Sequence[str] = (),
) -> dict[str, Entity]:
    without = await _find_hidden(session, hidden)
    return await _describe(session, entity_ids, to_moment(as_of), without)


async def list_entities(
    session: Session, after: str | None, limit: int, hidden: Sequence[str] = ()
) -> list[Entity]:
    now = to_moment(None)
    without = await _find_hidden(session, hidden)
    rows = await session.read(
        _without(without, _NEXT_ROOTS),
        now=now,
        after=after or "",
        limit=limit,
        facts=list(FACTS),
        sure=SHOWN,
        **without,
    )
    described = await _describe(session, [entity_id for (entity_id,) in rows], now, without)
    return list(described.values())


async def get_names(session: Session, types: Sequence[str]) -> list[EntityName]:
    rows = await session.read_list(_NAMES, "e.id, e.type, e.name", types=list(types))
    return [EntityName(*row) for row in rows]


# --- Mentions ---------------------------------------------------------------------------

NAMED: LiteralString = f"""
CALL {{
    UNWIND $hashes AS hash MATCH (e:Entity {{folded_hash: hash}})
    WITH DISTINCT e {_ROOT} RETURN root.id AS id
    UNION
    UNWIND $hashes AS hash MATCH ()-[m:MENTIONS {{folded_hash: hash}}]->() WHERE {_MENTIONED}
    WITH DISTINCT endNode(m) AS e {_ROOT} RETURN root.id AS id
}}
RETURN collect(id) AS named
"""
"""Finds the roots of the entities whose name or alias has one of these hashes."""
MENTIONS_OF_ENTITIES: LiteralString = f"""
MATCH (asked:Entity) WHERE asked.id IN $entities OPTIONAL MATCH (asked)-[:IS]->(its:Entity)
WITH asked, coalesce(its, asked) AS root OPTIONAL MATCH (root)<-[:IS]-(merged:Entity)
WITH asked, root, [root] + collect(merged) AS leaves UNWIND leaves AS leaf
MATCH (leaf)<-[m:MENTIONS]-(c:Chunk) WHERE {_MENTIONED}
WITH asked, root, c, min(m.start_char) AS start ORDER BY c.key DESC
WITH asked, collect([c.id, root.id, root.type, start]) AS found
RETURN collect([asked.id, found[0..$limit]]) AS mentions
"""
"""Finds the newest chunks that mention entities."""
MENTIONS_OF_CHUNKS: LiteralString = f"""
MATCH (c:Chunk)-[m:MENTIONS]->(e:Entity) WHERE c.id IN $ids AND {_MENTIONED}
OPTIONAL MATCH (e)-[:IS]->(its:Entity)
WITH c, coalesce(its, e) AS root, min(m.start_char) AS start ORDER BY start
WITH c, collect([c.id, root.id, root.type, start]) AS found
RETURN collect([c.id, found]) AS mentions
"""
"""Finds the entities that chunks mention."""


async def find_named(session: Session, names: Sequence[str], as_of: datetime | None) -> list[str]:
    if not names:
        return []
    hashes = [digest(name) for name in names]
    ((named,),) = await session.read(NAMED, hashes=hashes, now=to_moment(as_of))
    return sorted(named)


async def get_mentions(
    session: Session, entity_ids: Sequence[str], as_of: datetime | None, limit: int
) -> dict[str, list[Mention]]:
    if not entity_ids:
        return {}
    ((mentions,),) = await session.read(
        MENTIONS_OF_ENTITIES, entities=list(entity_ids), now=to_moment(as_of), limit=limit
    )
    return {entity_id: [] for entity_id in entity_ids} | to_mentions(mentions)


async def get_named(
    session: Session, chunk_ids: Sequence[str], as_of: datetime | None
) -> dict[str, list[Mention]]:
    if not chunk_ids:
        return {}
    ((mentions,),) = await session.read(
        MENTIONS_OF_CHUNKS, ids=list(chunk_ids), now=to_moment(as_of)
    )
    return to_mentions(mentions)


def to_mentions(rows: Sequence[Sequence[Any]]) -> dict[str, list[Mention]]:
    """Return mentions by the id of the chunk or entity that they were found for."""
    return {found_for: [Mention(*one) for one in mentions] for found_for, mentions in rows}


# --- Unread chunks ----------------------------------------------------------------------

# Finds chunks without a stored extraction of this kind. Code has a separate graph, made by parsers:
# of it only the beginnings of files count, and files that state something by their form.
_UNREAD: LiteralString = (
    "MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE (m.kind <> 'code' OR c.index = 0"
    " OR last(split(m.source, '/')) IN $forms)"
    " AND (c.extractor IS NULL OR c.extractor <> $extractor)"
)
# Finds where the last page ended. If that chunk was deleted, from the beginning: chunks read since
# are not unread any longer.
_LAST_CHUNK: LiteralString = (
    "OPTIONAL MATCH (last:Chunk {id: $after}) WITH coalesce(last.key, -1) AS last "
)
# Returns the next unread chunks, with how far the chunk before reaches into each.
_NEXT_UNREAD: LiteralString = (
    " AND c.key > last WITH m, c ORDER BY c.key LIMIT $limit"
    " OPTIONAL MATCH (m)-[:HAS_CHUNK {index: c.index - 1}]->(p:Chunk)"
    " RETURN c.id, m.id, c.text, m.said, p.end_char - c.start_char ORDER BY c.key"
)


async def get_unread(
    session: Session, extractor: str, scope: GraphScope, after: str | None, limit: int
) -> list[UnreadChunk]:
    condition, values = _in_scope(scope)
    rows = await session.read(
        _LAST_CHUNK + _UNREAD + condition + _NEXT_UNREAD,
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
    ((number,),) = await session.read(
        _UNREAD + condition + " RETURN count(c)", extractor=extractor, **values
    )
    return int(number)


def _in_scope(scope: GraphScope) -> tuple[LiteralString, dict[str, Any]]:
    condition: LiteralString = ""
    values: dict[str, Any] = {"forms": list(FORMS)}
    if scope.projects is not None:
        condition += " AND m.project_hash IN $projects"
        values["projects"] = [digest(one) for one in scope.projects]
    if scope.memory_ids is not None:
        condition += " AND m.id IN $ids"
        values["ids"] = scope.memory_ids
    return condition, values


# --- Counts -----------------------------------------------------------------------------

# Counts the entities by type.
_COUNT_TYPES: LiteralString = (
    "MATCH (e:Entity) WHERE NOT e.type IN $facts WITH e"
    + _EXISTING
    + _ROOT
    + _SURE
    + "RETURN root.type, count(root) AS number ORDER BY number DESC, root.type"
)
# Counts the mentions.
_COUNT_ALL_MENTIONS: LiteralString = (
    f"MATCH (:Chunk)-[m:MENTIONS]->(:Entity) WHERE {_MENTIONED} RETURN count(m)"
)
# Counts the merges that are not undone.
_COUNT_MERGES: LiteralString = "MATCH (g:Merge) WHERE g.undone_at IS NULL RETURN count(g)"
# Counts the chunks.
_COUNT_CHUNKS: LiteralString = "MATCH (c:Chunk) RETURN count(c)"
# Finds every relationship between roots, and whether it holds at the time.
_EVERY_EDGE: LiteralString = f"""
MATCH (a:Entity)-[v:RELATES]->(b:Entity) WHERE v.strength > 0
WITH a, b, v.type AS type, v.exclusive AS exclusive, max(CASE WHEN {_HOLDS} THEN 1 ELSE 0 END) AS
    holds
OPTIONAL MATCH (a)-[:IS]->(a_is:Entity)
OPTIONAL MATCH (b)-[:IS]->(b_is:Entity)
WITH a, b, coalesce(a_is, a) AS source, coalesce(b_is, b) AS target, type, exclusive, holds
WHERE source <> target
"""
# Counts the relationships that are not exclusive by type: those that hold, and all.
_COUNT_EDGES: LiteralString = (
    _EVERY_EDGE + "AND NOT exclusive WITH source, target, type, max(holds) AS holds"
    " RETURN type, sum(holds), count(*)"
)
# Finds the exclusive relationships.
_EXCLUSIVE_EDGES: LiteralString = _EVERY_EDGE + "AND exclusive"
_EXCLUSIVE_EDGE: LiteralString = "a.id, b.id, source.id, target.id, type, holds = 1"


async def get_graph_stats(session: Session, extractor: str) -> GraphStats:
    now = to_moment(None)
    types = dict(await session.read(_COUNT_TYPES, now=now, facts=list(FACTS), sure=SHOWN))
    edges, closed = await _count_edges(session, now)
    ((mentions,),) = await session.read(_COUNT_ALL_MENTIONS, now=now)
    ((merges,),) = await session.read(_COUNT_MERGES)
    ((passages,),) = await session.read(_COUNT_CHUNKS)
    return GraphStats(
        entities=sum(types.values()),
        relationships=sum(edges.values()),
        mentions=mentions,
        closed_relationships=closed,
        merges=merges,
        passages=passages,
        unread_passages=await count_unread(session, extractor, GraphScope()),
        entity_types=types,
        relationship_types=edges,
    )


async def _count_edges(session: Session, now: int) -> tuple[dict[str, int], int]:
    """Count the relationships that hold, by type, and those that no longer do."""
    counts: dict[str, int] = {}
    closed = 0
    for kind, holding, every in await session.read(_COUNT_EDGES, now=now):
        counts[kind] = int(holding)
        closed += every - int(holding)
    listed = [
        (_StoredEdge(EdgeKey(a, b, kind), EdgeKey(source, target, kind), True, 0.0, 1), holds)
        for a, b, source, target, kind, holds in await session.read_list(
            _EXCLUSIVE_EDGES, _EXCLUSIVE_EDGE, now=now
        )
    ]
    current = await _drop_replaced(session, [row for row, holds in listed if holds], now, {})
    distinct = {row.read for row in current}
    for key in distinct:
        counts[key.type] = counts.get(key.type, 0) + 1
    closed += len({row.read for row, _ in listed}) - len(distinct)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {kind: number for kind, number in ordered if number}, closed


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
