"""Reading the graph: what is around an entity, how two are connected, a card, a part to look at."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from zapomni_core.exceptions import EntityNotFoundError, ValidationError
from zapomni_core.modules.graph.schemas import (
    CardMemory,
    EndedRelationship,
    EntityCard,
    GraphViewRequest,
    GraphViewResponse,
    PathRequest,
    PathResponse,
    PathStep,
    RelatedEntity,
    RelatedRequest,
    RelatedResponse,
    ViewedEntity,
    ViewedRelationship,
)
from zapomni_db.code_models import CODE_KIND
from zapomni_db.graph_models import (
    Edge,
    EdgeKey,
    EdgeQuery,
    Entity,
    EntityPast,
    EntityQuery,
    Evidence,
    GraphScope,
)
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import MemorySummary
from zapomni_db.rules import FACTS, RELATED

if TYPE_CHECKING:
    from datetime import datetime

    from zapomni_core.modules.graph.build import GraphExtractor


__all__ = [
    "FACT_TYPES",
    "MOST_VIEWED",
    "RELATED",
    "describe_memories",
    "find_path",
    "get_card",
    "get_related",
    "get_view",
    "resolve",
    "to_step",
]


# What says something about an entity or a relationship, and is nothing to look up by itself.
FACT_TYPES = frozenset(FACTS)


MAX_DEPTH = 3
MAX_LIMIT = 100
MAX_NAME_CHARS = 500
NEAR_NAMES = 5
CANDIDATES = 20
# Many relationships of the first entity are followed; after that only the most promising.
FIRST_EDGES, LATER_EDGES, BEAM = 200, 40, 50
SENTENCES = 2


class _Reached(NamedTuple):
    """An entity on the way: how it was reached, and how good the way is."""

    entity_id: str
    score: float
    distance: int
    before: _Reached | None
    edge: Edge | None


async def get_related(
    storage: StorageProvider,
    extractor: GraphExtractor,
    request: RelatedRequest,
    hidden: Sequence[str],
) -> RelatedResponse:
    """Walk outwards, the weightiest relationships first, and show the best way to each."""
    if not 1 <= request.depth <= MAX_DEPTH:
        raise ValidationError(
            f"depth must be from 1 to {MAX_DEPTH}, got {request.depth}", "VAL_003"
        )
    if not 1 <= request.limit <= MAX_LIMIT:
        raise ValidationError(
            f"limit must be from 1 to {MAX_LIMIT}, got {request.limit}", "VAL_003"
        )
    found = await resolve(storage, extractor, request.entity, request.as_of, hidden)
    if len(found) > 1:
        return RelatedResponse(
            entity=None,
            candidates=found[:CANDIDATES],
            notice="Several entities have this name. Ask again with the id of one.",
        )
    (start,) = found
    reached = await _walk(storage, start, request, hidden)
    best = _best(reached, request.limit)
    return RelatedResponse(
        entity=start,
        related=await _describe(storage, best, request.as_of, hidden),
        notice=None if best else "Nothing is related to it at that time and of these types.",
    )


async def resolve(
    storage: StorageProvider,
    extractor: GraphExtractor,
    asked: str,
    as_of: datetime | None = None,
    hidden: Sequence[str] = (),
) -> list[Entity]:
    """Return the entities a name or id means; several if it is ambiguous.

    Raises:
        EntityNotFoundError: None is meant.
    """
    if not asked.strip():
        raise ValidationError("entity cannot be empty: give a name or an id", "VAL_001")
    if len(asked) > MAX_NAME_CHARS:
        raise ValidationError(f"entity exceeds {MAX_NAME_CHARS} characters", "VAL_003")
    # A lone surrogate cannot be asked for; no name has one.
    name = asked.encode("utf-8", "replace").decode().strip()
    query = EntityQuery(text=name, exact=True, as_of=as_of, limit=CANDIDATES, hidden=list(hidden))
    by_id, by_name = await asyncio.gather(
        storage.get_entities([name], as_of, hidden), storage.find_entities(query)
    )
    if by_id or by_name:
        return list(by_id.values()) or by_name
    # An alias that no text uses, or a longer form of a name, as the extractor reads it.
    named = await extractor.recognize(name)
    whole = {e.entity_id for e in named if len(e.surface) * 2 >= len(name)}
    if by_alias := await storage.get_entities(sorted(whole), as_of, hidden):
        return list({entity.entity_id: entity for entity in by_alias.values()}.values())
    alike = query.model_copy(update={"exact": False, "limit": NEAR_NAMES, "nodes": True})
    near = [entity.name for entity in await storage.find_entities(alike)]
    raise EntityNotFoundError("No entity has this name or id.", near=near)


# --- The walk ---------------------------------------------------------------------------


async def _walk(
    storage: StorageProvider, start: Entity, request: RelatedRequest, hidden: Sequence[str]
) -> list[_Reached]:
    """Return all that is reached within the depth, each by the best of its shortest ways."""
    seen = {start.entity_id: _Reached(start.entity_id, 1.0, 0, None, None)}
    frontier = [seen[start.entity_id]]
    # From a commit to the one that reverted it, and wherever a type is asked for.
    nodes = not request.types and start.type not in FACT_TYPES
    for distance in range(1, request.depth + 1):
        query = EdgeQuery(
            types=request.types,
            as_of=request.as_of,
            limit=FIRST_EDGES if distance == 1 else LATER_EDGES,
            hidden=list(hidden),
            nodes=nodes,
        )
        edges = await storage.get_edges([reached.entity_id for reached in frontier], query)
        new = _step(edges, {reached.entity_id: reached for reached in frontier}, seen.keys())
        seen |= new
        # A way gets no better by going on: what is not among the best here leads to none of them.
        scores = sorted((r.score for r in seen.values() if r.before is not None), reverse=True)
        least = scores[request.limit - 1] if len(scores) >= request.limit else -1.0
        frontier = [r for r in _best(new.values(), BEAM) if r.score > least]
        if not frontier:
            break
    return [reached for reached in seen.values() if reached.before is not None]


def _best(reached: Iterable[_Reached], limit: int) -> list[_Reached]:
    return sorted(reached, key=lambda r: (-r.score, r.distance, r.entity_id))[:limit]


def _step(
    edges: Iterable[Edge], frontier: dict[str, _Reached], seen: Iterable[str]
) -> dict[str, _Reached]:
    known = set(seen)
    new: dict[str, _Reached] = {}
    for edge in edges:
        for here, there in (edge.key[:2], edge.key[1::-1]):
            before = frontier.get(here)
            if before is None or there in known:
                continue
            # What is stated comes before what only occurs together, also a step further.
            score = before.score * edge.weight * (0.5 if edge.key.type == RELATED else 1.0)
            if there not in new or score > new[there].score:
                new[there] = _Reached(there, score, before.distance + 1, before, edge)
    return new


async def _describe(
    storage: StorageProvider,
    best: Sequence[_Reached],
    as_of: datetime | None,
    hidden: Sequence[str],
) -> list[RelatedEntity]:
    ways = [_way(reached) for reached in best]
    edges = {edge.key for way in ways for edge in way}
    ids = {i for key in edges for i in key[:2]}
    entities, evidence = await asyncio.gather(
        storage.get_entities(sorted(ids), as_of, hidden),
        storage.get_evidence(sorted(edges), as_of, SENTENCES, hidden),
    )
    names = {i: entities[i].name for i in entities}
    return [
        RelatedEntity(
            entity_id=reached.entity_id,
            name=names[reached.entity_id],
            type=entities[reached.entity_id].type,
            distance=reached.distance,
            score=round(reached.score, 4),
            path=_path(reached, names, evidence),
        )
        for reached in best
        # What was deleted a moment ago is gone.
        if {i for edge in _way(reached) for i in edge.key[:2]} <= entities.keys()
    ]


def _way(reached: _Reached) -> list[Edge]:
    """Return the relationships from the start to here."""
    way: list[Edge] = []
    while reached.edge is not None and reached.before is not None:
        way.insert(0, reached.edge)
        reached = reached.before
    return way


def _path(
    reached: _Reached, names: dict[str, str], evidence: dict[EdgeKey, list[Evidence]]
) -> list[PathStep]:
    steps: list[PathStep] = []
    end = reached.entity_id
    for edge in reversed(_way(reached)):
        forward = edge.key.target_id == end
        steps.insert(0, to_step(edge, names, evidence[edge.key], forward=forward))
        end = edge.key.source_id if forward else edge.key.target_id
    return steps


def to_step(
    edge: Edge, names: Mapping[str, str], evidence: list[Evidence], *, forward: bool
) -> PathStep:
    """Return a relationship as a step, along it or against it."""
    return PathStep(
        source_id=edge.key.source_id,
        source=names[edge.key.source_id],
        type=edge.key.type,
        target_id=edge.key.target_id,
        target=names[edge.key.target_id],
        forward=forward,
        strength=round(edge.strength, 4),
        support=edge.support,
        evidence=evidence,
    )


# --- How two entities are connected ------------------------------------------------------


# From each end so many steps; a longer way connects anything with anything.
MOST_STEPS = 3
PATH_EDGES, PATH_BEAM = 60, 120

Ways = dict[str, list[tuple[str, Edge]]]
"""From an entity, the ones it is related to, and by what."""


async def find_path(
    storage: StorageProvider,
    extractor: GraphExtractor,
    request: PathRequest,
    hidden: Sequence[str],
) -> PathResponse:
    """Search from both ends until no better way can come."""
    ends: list[Entity] = []
    for name in (request.source, request.target):
        found = await resolve(storage, extractor, name, request.as_of, hidden)
        if len(found) > 1:
            return PathResponse(
                source=ends[0] if ends else None,
                candidates=found[:CANDIDATES],
                notice="Several entities have one of these names. Ask again with the id of one.",
            )
        ends.append(found[0])
    source, target = ends
    response = PathResponse(source=source, target=target)
    if source.entity_id == target.entity_id:
        return response.model_copy(update={"notice": "Both names mean the same entity."})
    way = await _search(storage, source.entity_id, target.entity_id, request, hidden)
    if not way:
        notice = f"No way of at most {2 * MOST_STEPS} steps connects them in what was read."
        return response.model_copy(update={"notice": notice})
    keys = [edge.key for edge in way]
    evidence = await storage.get_evidence(keys, request.as_of, SENTENCES, hidden)
    ids = sorted({end for key in keys for end in key[:2]})
    entities = await storage.get_entities(ids, request.as_of, hidden)
    names = {i: entities[i].name if i in entities else i for i in ids}
    steps = []
    here = source.entity_id
    for edge in way:
        forward = edge.key.source_id == here
        steps.append(to_step(edge, names, evidence[edge.key], forward=forward))
        here = edge.key.target_id if forward else edge.key.source_id
    said = [one.memory_id for step in steps for one in step.evidence]
    return response.model_copy(
        update={"steps": steps, "memories": await describe_memories(storage, said, hidden)}
    )


def _cost(edge: Edge) -> float:
    """Return the price of a step: two that say how are better than one that does not."""
    doubt = 1 - edge.weight
    return 2.5 + 2 * doubt if edge.key.type == RELATED else 1 + doubt


async def _search(
    storage: StorageProvider,
    source: str,
    target: str,
    request: PathRequest,
    hidden: Sequence[str],
) -> list[Edge]:
    """Return the relationships of the best way; none if there is no way."""
    ways: Ways = {}
    frontiers = {source: {source: 0.0}, target: {target: 0.0}}
    seen = {source: {source}, target: {target}}
    best: tuple[float, list[Edge]] | None = None
    for step in range(2 * MOST_STEPS):
        # Any way that was not seen yet has more steps than were made, and costs at least as much.
        if best is not None and best[0] <= step + 1:
            break
        start = source if step % 2 == 0 else target
        frontier = frontiers[start]
        if not frontier:
            break
        query = EdgeQuery(
            as_of=request.as_of,
            limit=FIRST_EDGES if step < 2 else PATH_EDGES,
            hidden=list(hidden),
        )
        edges = await storage.get_edges(sorted(frontier), query)
        reached = _reach(edges, frontier, seen[start])
        types = await storage.get_entities(sorted(reached), request.as_of, hidden)
        through = {
            i
            for i in reached
            if i in (source, target) or (i in types and types[i].type not in FACT_TYPES)
        }
        for edge in edges:
            one, other = edge.key[:2]
            if {one, other} <= through | seen[start]:
                ways.setdefault(one, []).append((other, edge))
                ways.setdefault(other, []).append((one, edge))
        seen[start] |= through
        nearest = sorted(through, key=lambda i: (reached[i], i))[:PATH_BEAM]
        frontiers[start] = {i: reached[i] for i in nearest if i not in (source, target)}
        best = _cheapest(ways, source, target)
    return best[1] if best else []


def _reach(
    edges: Iterable[Edge], frontier: Mapping[str, float], seen: Iterable[str]
) -> dict[str, float]:
    """Return what is one step further, and what the way there costs."""
    known = set(seen)
    reached: dict[str, float] = {}
    for edge in edges:
        for here, there in (edge.key[:2], edge.key[1::-1]):
            if here in frontier and there not in known:
                cost = frontier[here] + _cost(edge)
                reached[there] = min(cost, reached.get(there, cost))
    return reached


def _cheapest(ways: Ways, source: str, target: str) -> tuple[float, list[Edge]] | None:
    queue: list[tuple[float, str]] = [(0.0, source)]
    before: dict[str, tuple[str, Edge]] = {}
    costs = {source: 0.0}
    while queue:
        cost, here = heapq.heappop(queue)
        if here == target:
            way: list[Edge] = []
            while here != source:
                here, edge = before[here]
                way.insert(0, edge)
            return cost, way
        if cost > costs[here]:
            continue
        for there, edge in ways.get(here, ()):
            further = cost + _cost(edge)
            if further < costs.get(there, float("inf")):
                costs[there] = further
                before[there] = here, edge
                heapq.heappush(queue, (further, there))
    return None


# --- A card: what memories say about an entity -------------------------------------------


# What fits on a screen.
SHOWN_EDGES, SHOWN_ENDED, SHOWN_MEMORIES, SHOWN_FILES = 12, 8, 8, 8
READ_EDGES, READ_MENTIONS = 200, 60
CARD_SENTENCES = 1
TITLE_CHARS = 120


async def get_card(
    storage: StorageProvider,
    extractor: GraphExtractor,
    request: RelatedRequest,
    hidden: Sequence[str],
) -> EntityCard:
    """Return all that is known about an entity, and what is around it."""
    around = await get_related(storage, extractor, request, hidden)
    card = EntityCard(**dict(around))
    if around.entity is None:
        return card
    own = around.entity.entity_id
    query = EdgeQuery(
        types=request.types, as_of=request.as_of, limit=READ_EDGES, hidden=list(hidden)
    )
    edges, past, mentions = await asyncio.gather(
        storage.get_edges([own], query),
        storage.get_past(own, request.as_of, SHOWN_ENDED, hidden=hidden, without=[RELATED]),
        storage.get_mentions([own], request.as_of, READ_MENTIONS),
    )
    relationships = await _relationships(storage, own, edges, request.as_of, hidden)
    ended = await _ended(storage, own, edges, past, hidden)
    passages = await storage.get_passages([one.chunk_id for one in mentions[own]])
    said = [one.memory_id for step in relationships for one in step.evidence]
    newest = [passages[one.chunk_id].memory_id for one in mentions[own] if one.chunk_id in passages]
    memories = await describe_memories(storage, [*said, *newest], hidden)
    visible = {one.memory_id for one in memories}
    chunks = [i for i, passage in passages.items() if passage.memory_id in visible]
    return card.model_copy(
        update={
            "first_mentioned": past.first_at,
            "last_mentioned": past.last_at,
            "relationships": relationships,
            "ended": ended,
            "memories": memories[:SHOWN_MEMORIES],
            "files": await _files(storage, own, chunks, request.as_of, hidden),
        }
    )


async def _relationships(
    storage: StorageProvider,
    own: str,
    edges: Sequence[Edge],
    as_of: datetime | None,
    hidden: Sequence[str],
) -> list[PathStep]:
    """Return the informative relationships first; being named with a date says nothing."""
    ends = {end for edge in edges for end in edge.key[:2]}
    entities = await storage.get_entities(sorted(ends), as_of, hidden)
    order = sorted(
        edges,
        key=lambda edge: (edge.key.type == RELATED, -edge.weight, edge.key),
    )
    shown = [
        edge
        for edge in order
        if entities.keys() >= set(edge.key[:2])
        and not (
            edge.key.type == RELATED
            and {entities[end].type for end in edge.key[:2] if end != own} & FACT_TYPES
        )
    ][:SHOWN_EDGES]
    evidence = await storage.get_evidence(
        [edge.key for edge in shown], as_of, CARD_SENTENCES, hidden
    )
    names = {i: one.name for i, one in entities.items()}
    return [
        to_step(edge, names, evidence[edge.key], forward=edge.key.source_id == own)
        for edge in shown
    ]


async def _ended(
    storage: StorageProvider,
    own: str,
    edges: Sequence[Edge],
    past: EntityPast,
    hidden: Sequence[str],
) -> list[EndedRelationship]:
    """Return what has ended, and what took its place."""
    ids = {end for edge, _ in past.ended for end in edge[:2]}
    ids |= {edge.key.target_id for edge in edges}
    found = []
    # What has ended may be mentioned no longer: then it has its name from then.
    names = {
        i: one.name for i, one in (await storage.get_entities(sorted(ids), None, hidden)).items()
    }
    for key, sentence in past.ended:
        if sentence.valid_from and not names.keys() >= set(key[:2]):
            then = await storage.get_entities(list(key[:2]), sentence.valid_from, hidden)
            names |= {i: one.name for i, one in then.items()}
        now = [
            names[edge.key.target_id]
            for edge in edges
            if edge.key.source_id == key.source_id == own
            and edge.key.type == key.type
            and edge.key.target_id in names
        ]
        if names.keys() >= set(key[:2]):
            found.append(
                EndedRelationship(
                    source_id=key.source_id,
                    source=names[key.source_id],
                    type=key.type,
                    target_id=key.target_id,
                    target=names[key.target_id],
                    forward=key.source_id == own,
                    evidence=sentence,
                    replaced_by=now,
                )
            )
    return found


async def describe_memories(
    storage: StorageProvider, memory_ids: Iterable[str | None], hidden: Sequence[str]
) -> list[CardMemory]:
    """Return those of the memories that may be shown, in this order."""
    ids = list(dict.fromkeys(one for one in memory_ids if one))
    summaries = await storage.get_summaries(ids)
    return [
        CardMemory(
            memory_id=i,
            title=_title(summaries[i])[:TITLE_CHARS],
            occurred_at=summaries[i].occurred_at,
            kind=summaries[i].kind,
        )
        for i in ids
        if i in summaries and summaries[i].project not in hidden
    ]


def _title(memory: MemorySummary) -> str:
    """Return the first line of a memory, of code its path."""
    if memory.kind == CODE_KIND:
        return memory.source
    return " ".join(memory.preview.strip().split("\n", 1)[0].split())


async def _files(
    storage: StorageProvider,
    own: str,
    chunk_ids: Sequence[str],
    as_of: datetime | None,
    hidden: Sequence[str],
) -> list[str]:
    """Return the files that the same passages name, those named most first."""
    counts: dict[str, int] = {}
    for mentions in (await storage.get_named(chunk_ids, as_of)).values():
        for one in mentions:
            if one.type == "FILE" and one.entity_id != own:
                counts[one.entity_id] = counts.get(one.entity_id, 0) + 1
    best = sorted(counts, key=lambda i: (-counts[i], i))[:SHOWN_FILES]
    found = await storage.get_entities(best, as_of, hidden)
    return [found[i].name for i in best if i in found]


# --- A part of the graph to look at ------------------------------------------------------


MOST_VIEWED = 300
# Of the whole graph, the best connected of so many are shown, the most mentioned ones.
CONSIDERED = 600
VIEW_EDGES = 60
# More lines than this many for each entity hide what they connect.
EDGES_EACH = 2


async def get_view(
    storage: StorageProvider,
    extractor: GraphExtractor,
    request: GraphViewRequest,
    hidden: Sequence[str],
) -> GraphViewResponse:
    """Return what is around an entity, or the best connected part of the whole graph."""
    if not 1 <= request.limit <= MOST_VIEWED:
        raise ValidationError(f"limit must be from 1 to {MOST_VIEWED}", "VAL_003")
    if not 1 <= request.depth <= MAX_DEPTH:
        raise ValidationError(f"depth must be from 1 to {MAX_DEPTH}", "VAL_003")
    start: Entity | None = None
    if request.entity:
        found = await resolve(storage, extractor, request.entity, request.as_of, hidden)
        if len(found) > 1:
            return GraphViewResponse(
                candidates=found[:CANDIDATES],
                notice="Several entities have this name. Ask again with the id of one.",
            )
        start = found[0]
        entities, distances = await _around(storage, start, request, hidden)
    else:
        query = EntityQuery(
            types=request.types,
            as_of=request.as_of,
            limit=CONSIDERED,
            hidden=list(hidden),
            nodes=True,
        )
        entities = {
            one.entity_id: one
            for one in await storage.find_entities(query)
            if one.type not in FACT_TYPES or one.type in request.types
        }
        distances = {}
    edges = await _between(storage, entities, request, hidden)
    neighbors = _neighbors(edges)
    if start is None:
        typed = _neighbors(edge for edge in edges if edge.key.type != RELATED)
        order = sorted(
            (i for i in entities if i in neighbors),
            key=lambda i: (-len(typed.get(i, ())), -len(neighbors[i]), entities[i].name),
        )
    else:
        order = list(entities)
    chosen = order[: request.limit]
    shown = _choose_edges(edges, set(chosen), request.limit * EDGES_EACH)
    keys = [edge.key for edge in shown]
    evidence = await storage.get_evidence(keys, request.as_of, 1, hidden)
    names = {i: entities[i].name for i in chosen}
    return GraphViewResponse(
        entity=start,
        merged=await _merged(storage, start),
        entities=[
            ViewedEntity(
                entity_id=i,
                name=names[i],
                type=entities[i].type,
                mentions=entities[i].mentions,
                degree=len(neighbors.get(i, ())),
                distance=distances.get(i, 0),
            )
            for i in chosen
        ],
        relationships=[
            ViewedRelationship(
                source_id=edge.key.source_id,
                source=names[edge.key.source_id],
                type=edge.key.type,
                target_id=edge.key.target_id,
                target=names[edge.key.target_id],
                strength=round(edge.strength, 4),
                support=edge.support,
                evidence=evidence.get(edge.key, []),
            )
            for edge in shown
        ],
        more=len(order) - len(chosen),
        unread=bool(await storage.get_unread(extractor.version, GraphScope(), None, 1)),
    )


async def _around(
    storage: StorageProvider, start: Entity, request: GraphViewRequest, hidden: Sequence[str]
) -> tuple[dict[str, Entity], dict[str, int]]:
    """Return the entities around one, the nearest first, and how many steps away each is."""
    distances = {start.entity_id: 0}
    frontier = [start.entity_id]
    for distance in range(1, request.depth + 1):
        query = EdgeQuery(
            as_of=request.as_of,
            limit=FIRST_EDGES if distance == 1 else VIEW_EDGES,
            hidden=list(hidden),
            nodes=FACT_TYPES.isdisjoint(request.types),
        )
        opened = request.opened if distance == 1 else []
        edges = await storage.get_edges([*frontier, *opened], query)
        frontier = []
        for i in (*opened, *(i for edge in _ranked(edges) for i in edge.key[:2])):
            if i not in distances:
                distances[i] = distance
                frontier.append(i)
        frontier = frontier[: request.limit]
        if distance < request.depth:
            # What shares no more than a date with it is not around it.
            passed = await storage.get_entities(frontier, request.as_of, hidden)
            frontier = [i for i in frontier if i in passed and passed[i].type not in FACT_TYPES]
        if not frontier:
            break
    near = list(distances)[:CONSIDERED]
    known = await storage.get_entities(near, request.as_of, hidden)
    kept = [start.entity_id, *request.opened]
    entities = {i: known[i] for i in dict.fromkeys([*kept, *near]) if i in known}
    return {
        i: one
        for i, one in entities.items()
        if (one.type in request.types if request.types else one.type not in FACT_TYPES)
        or i == start.entity_id
    }, distances


async def _between(
    storage: StorageProvider,
    entities: Iterable[str],
    request: GraphViewRequest,
    hidden: Sequence[str],
) -> list[Edge]:
    """Return the relationships between entities, the most telling first."""
    ids = set(entities)
    nodes = FACT_TYPES.isdisjoint(request.types)
    query = EdgeQuery(as_of=request.as_of, limit=FIRST_EDGES, hidden=list(hidden), nodes=nodes)
    edges = await storage.get_edges(sorted(ids), query) if ids else []
    return _ranked(edge for edge in edges if ids.issuperset(edge.key[:2]))


def _ranked(edges: Iterable[Edge]) -> list[Edge]:
    return sorted(edges, key=lambda edge: (edge.key.type == RELATED, -edge.weight, edge.key))


def _neighbors(edges: Iterable[Edge]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for edge in edges:
        source, target, _ = edge.key
        found.setdefault(source, set()).add(target)
        found.setdefault(target, set()).add(source)
    return found


def _choose_edges(edges: Sequence[Edge], ids: set[str], limit: int) -> list[Edge]:
    """Return the first relationship of every entity, and then the others up to a limit."""
    among = [edge for edge in edges if ids.issuperset(edge.key[:2])]
    first: dict[EdgeKey, Edge] = {}
    reached: set[str] = set()
    for edge in among:
        if not reached.issuperset(edge.key[:2]):
            first[edge.key] = edge
            reached.update(edge.key[:2])
    others = [edge for edge in among if edge.key not in first]
    return _ranked([*first.values(), *others[: max(0, limit - len(first))]])


async def _merged(storage: StorageProvider, entity: Entity | None) -> dict[str, str]:
    """Return what was merged into an entity: ids, and the names these had."""
    if entity is None or not entity.merged_ids:
        return {}
    known = {i: name for i, _, name in await storage.get_names([entity.type])}
    return {i: known.get(i, i) for i in entity.merged_ids}
