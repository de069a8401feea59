"""What is related to an entity: resolve its name, walk outwards, show paths with evidence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from zapomni_core.exceptions import EntityNotFoundError, ValidationError
from zapomni_core.modules.graph.schemas import (
    PathStep,
    RelatedEntity,
    RelatedRequest,
    RelatedResponse,
)
from zapomni_db.graph_models import Edge, EdgeKey, EdgeQuery, Entity, EntityQuery, Evidence
from zapomni_db.interfaces import StorageProvider

if TYPE_CHECKING:
    from zapomni_core.modules.graph.extraction import GraphExtractor

__all__ = ["get_related", "resolve"]


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
    reached = await _walk(storage, start.entity_id, request, hidden)
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
    alike = query.model_copy(update={"exact": False, "limit": NEAR_NAMES})
    near = [entity.name for entity in await storage.find_entities(alike)]
    raise EntityNotFoundError("No entity has this name or id.", near=near)


# --- The walk ---------------------------------------------------------------------------


async def _walk(
    storage: StorageProvider, start: str, request: RelatedRequest, hidden: Sequence[str]
) -> list[_Reached]:
    """Return all that is reached within the depth, each by the best of its shortest ways."""
    seen = {start: _Reached(start, 1.0, 0, None, None)}
    frontier = [seen[start]]
    for distance in range(1, request.depth + 1):
        query = EdgeQuery(
            types=request.types,
            as_of=request.as_of,
            limit=FIRST_EDGES if distance == 1 else LATER_EDGES,
            hidden=list(hidden),
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
            score = before.score * edge.weight
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
        steps.insert(
            0,
            PathStep(
                source_id=edge.key.source_id,
                source=names[edge.key.source_id],
                type=edge.key.type,
                target_id=edge.key.target_id,
                target=names[edge.key.target_id],
                forward=forward,
                strength=round(edge.strength, 4),
                support=edge.support,
                evidence=evidence[edge.key],
            ),
        )
        end = edge.key.source_id if forward else edge.key.target_id
    return steps
