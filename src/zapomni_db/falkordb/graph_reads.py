"""Reading the graph's entities. Merged ones are read as what they were merged into."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph_edges import GROUPS, SPOKEN, STATED, count_edges, moment
from zapomni_db.falkordb.graph_unread import count_unread
from zapomni_db.falkordb.values import digest
from zapomni_db.graph_models import Entity, EntityName, EntityQuery, GraphScope, GraphStats
from zapomni_db.graph_rules import ALIASES_SHOWN, LEAST_LIKENESS, choose_aliases, fold, likeness

__all__ = ["find_entities", "get_entities", "list_entities", "names", "stats"]

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
    session: Session, entity_ids: Sequence[str], as_of: datetime | None
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


async def names(session: Session, types: Sequence[str]) -> list[EntityName]:
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


async def stats(session: Session, extractor: str) -> GraphStats:
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
