"""What the doors ask of the engine about the knowledge graph."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from zapomni_db.graph_models import Entity, EntityQuery, Evidence, GraphStats

__all__ = [
    "BuildGraphRequest",
    "GraphEngine",
    "MergeResponse",
    "PathStep",
    "RelatedEntity",
    "RelatedRequest",
    "RelatedResponse",
]


class _Frozen(BaseModel):
    # hide_input: a validation message must not quote what the user asked for.
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, defer_build=True)


class BuildGraphRequest(_Frozen):
    """Which memories to read into the graph: all, or those that meet every condition given."""

    project: str | None = None
    memory_ids: list[str] | None = None


class RelatedRequest(_Frozen):
    """From which entity to look around, and how far."""

    entity: str
    """Its name, an alias or its id."""
    depth: int = 2
    types: list[str] = []
    """Only relationships of these types."""
    as_of: datetime | None = None
    """What held at that time; None: now."""
    limit: int = 20


class PathStep(_Frozen):
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


class RelatedEntity(_Frozen):
    """An entity that was reached, and the best way to it."""

    entity_id: str
    name: str
    type: str
    distance: int
    score: float
    """The product of the weights on the way, 0 to 1."""
    path: list[PathStep]


class RelatedResponse(_Frozen):
    """What is related to an entity, the strongest way first."""

    entity: Entity | None
    """None if the name may mean several: then `candidates` are the choices."""
    candidates: list[Entity] = []
    related: list[RelatedEntity] = []
    notice: str | None = None


class MergeResponse(_Frozen):
    """Two entities that were merged, or parted again."""

    source_id: str
    source: str
    target_id: str
    target: str
    """Their names; the id where the name is not in the graph any more."""


class GraphEngine(Protocol):
    """What the doors call as `engine.graph`.

    Implemented by `zapomni_core.workflows.knowledge_graph.KnowledgeGraph`.
    """

    async def build(self, request: BuildGraphRequest) -> str:
        """Begin to read memories into the graph; return the task's id at once.

        Only passages that this version of the extractor has not read are read.

        Raises:
            NotFoundError: One of the memories does not exist.
        """
        ...

    async def get_related(self, request: RelatedRequest) -> RelatedResponse:
        """Return what is related to an entity, with the ways to it and who says so.

        Raises:
            ValidationError: The depth or limit is out of range.
            EntityNotFoundError: No entity has this name; `near` has names that are like it.
        """
        ...

    async def find_entities(self, query: EntityQuery) -> list[Entity]:
        """Find entities by name, alias, part of a name or something like it; all if it is empty."""
        ...

    async def get_status(self) -> GraphStats:
        """Count what the graph holds, and what is still unread."""
        ...

    async def merge(self, source: str, target: str) -> MergeResponse:
        """Let one entity stand for another, both by name or id.

        Raises:
            EntityNotFoundError: One of them is unknown.
            ValidationError: A name may mean several, or they are one already.
        """
        ...

    async def undo(self, entity: str | None = None) -> MergeResponse:
        """Undo the newest merge made by hand, or the newest of an entity into another.

        Raises:
            NotFoundError: There is nothing to undo.
            ValidationError: Several merges are meant.
        """
        ...

    def export(self, name: str) -> AsyncIterator[str]:
        """Yield the graph as text in a format, piece by piece.

        Raises:
            ValidationError: There is no such format.
        """
        ...
