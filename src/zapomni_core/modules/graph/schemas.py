"""Requests and responses of the knowledge graph."""

from __future__ import annotations

from datetime import datetime

from zapomni_db.graph_models import Entity, Evidence
from zapomni_db.models import FrozenModel

__all__ = [
    "BuildGraphRequest",
    "GraphViewRequest",
    "GraphViewResponse",
    "MemoryReading",
    "MemoryStatement",
    "MergeResponse",
    "PathStep",
    "RelatedEntity",
    "RelatedRequest",
    "RelatedResponse",
    "ViewedEntity",
    "ViewedRelationship",
]


class BuildGraphRequest(FrozenModel):
    """Which memories to read into the graph: all, or those that meet every condition given."""

    project: str | None = None
    memory_ids: list[str] | None = None


class RelatedRequest(FrozenModel):
    """From which entity to look around, and how far."""

    entity: str
    """Its name, an alias or its id."""
    depth: int = 2
    types: list[str] = []
    """Only relationships of these types."""
    as_of: datetime | None = None
    """What held at that time; None: now."""
    limit: int = 20


class PathStep(FrozenModel):
    """One relationship on the way, in its own direction."""

    source_id: str
    source: str
    type: str
    target_id: str
    target: str
    forward: bool
    """Whether the way leads along the relationship, or against it."""
    strength: float
    support: int
    evidence: list[Evidence]


class RelatedEntity(FrozenModel):
    """An entity that was reached, and the best way to it."""

    entity_id: str
    name: str
    type: str
    distance: int
    score: float
    """The product of the weights on the way, 0 to 1."""
    path: list[PathStep]


class RelatedResponse(FrozenModel):
    """What is related to an entity, the strongest way first."""

    entity: Entity | None
    """None if the name may mean several: then `candidates` are the choices."""
    candidates: list[Entity] = []
    related: list[RelatedEntity] = []
    notice: str | None = None


class GraphViewRequest(FrozenModel):
    """Which part of the graph to look at."""

    entity: str = ""
    """The name, an alias or the id of the one in the middle; empty: the best connected part."""
    depth: int = 1
    """How many steps from it."""
    opened: list[str] = []
    """Ids of further entities whose relationships are shown, too."""
    types: list[str] = []
    """Only entities of these types."""
    as_of: datetime | None = None
    """What held at that time; None: now."""
    limit: int = 100
    """How many entities."""


class ViewedEntity(FrozenModel):
    """An entity in a view."""

    entity_id: str
    name: str
    type: str
    mentions: int
    degree: int
    """How many of those that could be shown it is related to."""
    distance: int
    """Steps from the one in the middle; 0 without one."""


class ViewedRelationship(FrozenModel):
    """A relationship in a view, with the sentence that states it best."""

    source_id: str
    source: str
    type: str
    target_id: str
    target: str
    strength: float
    support: int
    evidence: list[Evidence]


class GraphViewResponse(FrozenModel):
    """A part of the graph: entities, the best connected or nearest first, and what relates them.

    Relationships that say how come before those that only say that both are named together.
    """

    entity: Entity | None = None
    """The one in the middle; None if the name may mean several: then `candidates` are the choices.
    """
    candidates: list[Entity] = []
    merged: dict[str, str] = {}
    """What was merged into the one in the middle: ids and the names they had."""
    entities: list[ViewedEntity] = []
    relationships: list[ViewedRelationship] = []
    more: int = 0
    """How many entities are beyond the limit."""
    unread: bool = False
    """Whether there are passages that were not read into the graph yet."""
    notice: str | None = None


class MemoryStatement(FrozenModel):
    """A relationship that a memory states, and its sentence."""

    source_id: str
    source: str
    type: str
    target_id: str
    target: str
    text: str
    valid_from: datetime | None
    valid_to: datetime | None


class MemoryReading(FrozenModel):
    """What was read in one memory."""

    entities: list[Entity] = []
    """In the order of the text."""
    statements: list[MemoryStatement] = []
    neighbors: dict[str, list[str]] = {}
    """Other memories that mention the same, most in common first: their ids and what that is."""


class MergeResponse(FrozenModel):
    """Two entities that were merged, or parted again."""

    source_id: str
    source: str
    target_id: str
    target: str
    """Their names; the id where the name is not in the graph any more."""
