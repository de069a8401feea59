"""The knowledge graph as the store takes and returns it.

`EntityData` and `RelationshipData`, which extractors make, are in `zapomni_db.models`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from zapomni_db.models import EntityData, FrozenModel, RelationshipData

__all__ = [
    "CooccurringPair",
    "Edge",
    "EdgeKey",
    "EdgeQuery",
    "Entity",
    "EntityName",
    "EntityPast",
    "EntityQuery",
    "Evidence",
    "ExtractedChunk",
    "GraphGrowth",
    "GraphScope",
    "GraphStats",
    "MemoryVersion",
    "Merge",
    "PastEdge",
    "UnreadChunk",
]


# --- Building ---------------------------------------------------------------------------


class GraphScope(FrozenModel):
    """Which memories to read; every condition given must hold."""

    projects: list[str] | None = None
    """What their memories carry: keys or names."""
    memory_ids: list[str] | None = None


class UnreadChunk(FrozenModel):
    """A passage no extraction of this kind is stored for."""

    chunk_id: str
    memory_id: str
    text: str
    said_at: datetime
    """When its memory was stated: when it happened, or when its text was last changed."""
    repeated: int = 0
    """How many of its first characters the passage before it ends with."""


class ExtractedChunk(FrozenModel):
    """All that was found in one passage; places are offsets in the passage's text."""

    chunk_id: str
    entities: list[EntityData]
    """One per mention."""
    relationships: list[RelationshipData]
    """Between these entities."""


class CooccurringPair(NamedTuple):
    """Two entities that sentences of memories name together without stating how they relate."""

    key: EdgeKey
    together: int
    """In how many memories."""
    source_memories: int
    target_memories: int
    """In how many memories each of them is mentioned."""
    strength: float
    """As it is stored; 0: not above chance, and so not shown."""
    is_stated: bool
    """Whether another relationship between the two is stated."""


class GraphGrowth(NamedTuple):
    """What was not there before."""

    entities: int = 0
    relationships: int = 0
    mentions: int = 0


# --- Reading ----------------------------------------------------------------------------


class EntityQuery(FrozenModel):
    """Which entities to find."""

    text: str = ""
    """A name, an alias, part of one or something like one; empty: every entity."""
    exact: bool = False
    """Only those whose name or alias is the text."""
    types: list[str] = []
    as_of: datetime | None = None
    """Only entities that had evidence at that time; None: now."""
    limit: int = 20
    offset: int = 0
    hidden: list[str] = []
    """What memories of these projects say does not count."""
    nodes: bool = False
    """Only nodes of the picture: no dates, versions, addresses and references unless `types` asks
    for them, and no word that is written like a name but does not repeat."""


class Entity(FrozenModel):
    """An entity, with what was merged into it."""

    entity_id: str
    name: str
    type: str
    description: str = ""
    confidence: float
    source: str
    aliases: list[str] = []
    """Other words the texts use for it, the most frequent first."""
    mentions: int = 0
    merged_ids: list[str] = []
    """The entities that were merged into it."""
    match: float = 1.0
    """How well it answers a query: 1 is its name or an alias, less is part of it or like it."""


class EntityName(NamedTuple):
    """What an entity is called."""

    entity_id: str
    type: str
    name: str


class EdgeKey(NamedTuple):
    """What makes a relationship: one of a type from one entity to another."""

    source_id: str
    target_id: str
    type: str


class Edge(NamedTuple):
    """A relationship and its support. Not a pydantic model: a walk reads thousands."""

    key: EdgeKey
    strength: float
    """Of its strongest evidence."""
    support: int
    """How much evidence there is."""
    weight: float
    """Both as one number between 0 and 1."""


class EdgeQuery(FrozenModel):
    """Which relationships of an entity count."""

    types: list[str] = []
    as_of: datetime | None = None
    """Only what held at that time; None: now."""
    limit: int = 100
    """At most so many of each entity in each direction, the weightiest first."""
    hidden: list[str] = []
    """What memories of these projects say does not count."""
    nodes: bool = False
    """Only relationships to nodes of the picture."""


class Evidence(FrozenModel):
    """A sentence that states a relationship, and while when it holds."""

    text: str
    memory_id: str | None
    chunk_id: str | None
    """None: given by a caller, or the memory has another text now."""
    strength: float
    source: str
    said_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    """None: the beginning is not known, or it still holds."""


class PastEdge(NamedTuple):
    """A relationship that held and no longer does, and the last sentence that stated it."""

    key: EdgeKey
    sentence: Evidence
    """Its `valid_to` is when the relationship ended."""


class EntityPast(NamedTuple):
    """When memories mentioned an entity, and what held of it once."""

    first_at: datetime | None = None
    last_at: datetime | None = None
    """When the first and the newest memory that mention it were stated."""
    ended: list[PastEdge] = []
    """The last one to end first."""


class GraphStats(FrozenModel):
    """What the graph holds now."""

    entities: int
    relationships: int
    mentions: int
    closed_relationships: int
    """Those that held once and no longer do."""
    merges: int
    passages: int
    unread_passages: int
    entity_types: dict[str, int]
    relationship_types: dict[str, int]


class Merge(FrozenModel):
    """Two entities that count as one."""

    source_id: str
    target_id: str
    automatic: bool
    merged_at: datetime


# --- History ----------------------------------------------------------------------------


class MemoryVersion(FrozenModel):
    """A memory as it was for a while."""

    memory_id: str
    text: str
    fields: dict[str, Any]
    """Metadata, project, source, kind, tags, pinned, expires_at and trusted, as they were."""
    valid_from: datetime
    valid_to: datetime | None
    """When it was changed or superseded; None: it is so now."""
    changed: list[str]
    """What the change that made this version changed; empty for the first one."""
    superseded_by: str | None = None
    """The memory that ended it, if one did."""
