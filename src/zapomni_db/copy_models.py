"""What a store gives away and takes in, whole, on its way to another store."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from zapomni_db.graph_models import Merge
from zapomni_db.models import EntityData, MemoryData, RelationshipData

__all__ = [
    "MemoryCopy",
    "MemoryExport",
    "MergeCopy",
    "PassageCopy",
    "PastSentence",
    "ReadingCopy",
    "ReadingExport",
    "VersionCopy",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)


class VersionCopy(_Frozen):
    """What a change took away: the changed fields as they were, and the text if it changed."""

    replaced_at: datetime
    fields: dict[str, Any]
    text: str | None = None


class MemoryCopy(MemoryData):
    """A stored memory with all that is kept of it.

    `timestamp` is when it was stored, `supersedes` the memory it replaced if that is still so.
    Embeddings and token vectors are those of the active space.
    """

    updated_at: datetime
    history: list[VersionCopy] = []
    """Oldest first."""


class MemoryExport(_Frozen):
    """Some memories, and where the next ones begin."""

    items: list[MemoryCopy]
    after: str | None
    """Ask for what comes after this; None when these were the last."""


class PassageCopy(_Frozen):
    """What was read in a passage, and by what."""

    index: int
    """Which passage of its memory."""
    extractor: str
    entities: list[EntityData]
    """One per mention."""
    relationships: list[RelationshipData]


class PastSentence(_Frozen):
    """What an earlier text of a memory stated."""

    stated: RelationshipData
    """Its `valid_from` is set: since when it was taken to hold."""
    said_at: datetime
    withdrawn_at: datetime


class ReadingCopy(_Frozen):
    """All that the graph has from one memory."""

    memory_id: str
    entities: list[EntityData]
    """Those it speaks of, by id, as they are kept; without places."""
    passages: list[PassageCopy]
    past: list[PastSentence]


class ReadingExport(_Frozen):
    """What was read in some memories, and where the next ones begin."""

    items: list[ReadingCopy]
    after: str | None
    """Ask for what comes after this; None when these were the last."""


class MergeCopy(Merge):
    """A merge, undone or not."""

    undone_at: datetime | None = None
