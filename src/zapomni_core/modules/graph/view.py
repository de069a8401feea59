"""A part of the graph to look at: entities, and every relationship that holds between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from zapomni_core.exceptions import ValidationError
from zapomni_core.modules.graph.related import MAX_DEPTH, resolve
from zapomni_core.modules.graph.schemas import (
    GraphViewRequest,
    GraphViewResponse,
    ViewedEntity,
    ViewedRelationship,
)
from zapomni_db.graph_models import Edge, EdgeKey, EdgeQuery, Entity, EntityQuery, GraphScope
from zapomni_db.interfaces import StorageProvider

if TYPE_CHECKING:
    from zapomni_core.modules.graph.extraction import GraphExtractor

__all__ = ["MOST_VIEWED", "RELATED", "get_view"]


MOST_VIEWED = 300
# Named in one sentence, and nothing more is known: such ones come last.
RELATED = "RELATED_TO"
# Of the whole graph, the best connected of so many are shown, the most mentioned ones.
CONSIDERED = 600
FIRST_EDGES, LATER_EDGES = 200, 60
# More lines than this many for each entity hide what they connect.
EDGES_EACH = 2
CANDIDATES = 20


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
            types=request.types, as_of=request.as_of, limit=CONSIDERED, hidden=list(hidden)
        )
        entities = {one.entity_id: one for one in await storage.find_entities(query)}
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
            limit=FIRST_EDGES if distance == 1 else LATER_EDGES,
            hidden=list(hidden),
        )
        opened = request.opened if distance == 1 else []
        edges = await storage.get_edges([*frontier, *opened], query)
        frontier = []
        for i in (*opened, *(i for edge in _ranked(edges) for i in edge.key[:2])):
            if i not in distances:
                distances[i] = distance
                frontier.append(i)
        frontier = frontier[: request.limit]
        if not frontier:
            break
    near = list(distances)[:CONSIDERED]
    known = await storage.get_entities(near, request.as_of, hidden)
    kept = [start.entity_id, *request.opened]
    entities = {i: known[i] for i in dict.fromkeys([*kept, *near]) if i in known}
    return {
        i: one
        for i, one in entities.items()
        if not request.types or one.type in request.types or i == start.entity_id
    }, distances


async def _between(
    storage: StorageProvider,
    entities: Iterable[str],
    request: GraphViewRequest,
    hidden: Sequence[str],
) -> list[Edge]:
    """Return the relationships between entities, the most telling first."""
    ids = set(entities)
    query = EdgeQuery(as_of=request.as_of, limit=FIRST_EDGES, hidden=list(hidden))
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
