"""Requests and responses of the knowledge graph."""

from __future__ import annotations

from datetime import datetime

from zapomni_db.graph_models import Entity, Evidence
from zapomni_db.models import FrozenModel

__all__ = [
    "BuildGraphRequest",
    "CardMemory",
    "EndedRelationship",
    "EntityCard",
    "GraphPicture",
    "GraphViewRequest",
    "GraphViewResponse",
    "MemoryReading",
    "MemoryStatement",
    "MergeResponse",
    "PathRequest",
    "PathResponse",
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


class EndedRelationship(FrozenModel):
    """A relationship that held once."""

    source_id: str
    source: str
    type: str
    target_id: str
    target: str
    forward: bool
    """Whether it led from the entity asked about, or to it."""
    evidence: Evidence
    """The last sentence that stated it; its `valid_to` is when it ended."""
    replaced_by: list[str] = []
    """Names: where the same relationship leads now, if a subject has one of them at a time."""


class CardMemory(FrozenModel):
    """A memory that mentions an entity."""

    memory_id: str
    title: str
    """Its first line."""
    occurred_at: datetime
    kind: str


class EntityCard(RelatedResponse):
    """What a person wants to know about an entity, beyond what is related to it."""

    first_mentioned: datetime | None = None
    last_mentioned: datetime | None = None
    relationships: list[PathStep] = []
    """Its own: those that say how before those that are only named together."""
    ended: list[EndedRelationship] = []
    """What held and no longer does, the last to end first."""
    memories: list[CardMemory] = []
    """The newest that mention it, and those of the sentences shown."""
    files: list[str] = []
    """Files that these memories name or cite."""


class PathRequest(FrozenModel):
    """Between which two entities to find a way."""

    source: str
    target: str
    """Their names, aliases or ids."""
    as_of: datetime | None = None
    """What held at that time; None: now."""


class PathResponse(FrozenModel):
    """How two entities are connected."""

    source: Entity | None = None
    target: Entity | None = None
    """None if the name may mean several: then `candidates` are the choices."""
    candidates: list[Entity] = []
    steps: list[PathStep] = []
    """From the first to the second; empty if there is no way."""
    memories: list[CardMemory] = []
    """The memories of the sentences."""
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


class GraphPicture(FrozenModel):
    """The graph for a page that is read without this program."""

    drawn: GraphViewResponse
    """The best connected part."""
    entities: list[Entity]
    """The most mentioned first."""
    relationships: list[ViewedRelationship]
    """Those that say how first, then those of the most weight."""
    entities_left_out: int = 0
    relationships_left_out: int = 0
    """How many are beyond what a page can have."""


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
