"""What one store exports and another one imports."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from zapomni_db.graph_models import Merge
from zapomni_db.models import EntityData, FrozenModel, MemoryData, RelationshipData

__all__ = [
    "MemoryCopy",
    "MemoryExport",
    "MergeCopy",
    "PassageCopy",
    "PastSentence",
    "ReadingCopy",
    "VersionCopy",
    "WholeMemory",
]


class VersionCopy(FrozenModel):
    """What a change replaced: the old values of changed fields, and the old text if it changed."""

    replaced_at: datetime
    fields: dict[str, Any]
    text: str | None = None


class MemoryCopy(MemoryData):
    """A memory with everything that is stored about it.

    `timestamp` is when it was stored, `supersedes` the first memory it replaced if that is still
    so. Embeddings and token vectors are those of the active space.
    """

    updated_at: datetime
    also_supersedes: list[str] = []
    """The other memories that it replaced, in the order they were stored."""
    history: list[VersionCopy] = []
    """Oldest first."""


class MemoryExport(FrozenModel):
    """Some memories, and where the next ones begin."""

    items: list[MemoryCopy]
    after: str | None
    """Ask for what comes after this; None when these were the last."""


class PassageCopy(FrozenModel):
    """What was extracted from a passage, and by which extractor."""

    index: int
    """Which passage of its memory."""
    extractor: str
    entities: list[EntityData]
    """One per mention."""
    relationships: list[RelationshipData]


class PastSentence(FrozenModel):
    """What an earlier text of a memory stated."""

    stated: RelationshipData
    """Its `valid_from` is set: since when it was taken to hold."""
    said_at: datetime
    withdrawn_at: datetime


class ReadingCopy(FrozenModel):
    """Everything the graph has from one memory."""

    memory_id: str
    entities: list[EntityData]
    """The entities it mentions, by id, as they are stored; without places."""
    passages: list[PassageCopy]
    past: list[PastSentence]


class MergeCopy(Merge):
    """A merge, undone or not."""

    undone_at: datetime | None = None


class WholeMemory(FrozenModel):
    """A memory with all that a store knows of it, to be deleted and stored again."""

    memory: MemoryCopy
    reading: ReadingCopy
    order: int
    """Its number among all memories, in the order they were stored."""
    superseded_by: str | None = None
