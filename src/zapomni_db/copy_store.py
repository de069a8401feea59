"""What copying asks of a storage engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zapomni_db.copy_models import (
        MemoryCopy,
        MemoryExport,
        MergeCopy,
        ReadingCopy,
        ReadingExport,
    )
    from zapomni_db.models import EntityData, RelationshipData

__all__ = ["CopyStore"]


class CopyStore(Protocol):
    """Gives and takes everything as it is, for a move from one store to another.

    What was exported and imported whole is exported again the same, in the same order.
    """

    async def export_memories(self, after: str | None, limit: int) -> MemoryExport:
        """Return the next memories in the order they were stored, superseded ones too.

        `after` is what the last export returned, None the first time. It stays good whatever
        is deleted meanwhile.
        """
        ...

    async def import_memories(self, memories: Sequence[MemoryCopy]) -> None:
        """Keep these as they are, in this order: with their ids, dates, keys and vectors.

        Equal texts are not joined. Each memory is kept whole or not at all, and none before
        the one it comes after. What a memory supersedes comes before it.

        Raises:
            DatabaseError: An id is here already, or writing failed.
        """
        ...

    async def export_entities(self, after: str | None, limit: int) -> list[EntityData]:
        """Return the next entities told by callers; `after` is the last id seen.

        They and their relationships are kept by `store_entities`.
        """
        ...

    async def export_relationships(
        self, after: tuple[str, str, str] | None, limit: int
    ) -> list[RelationshipData]:
        """Return the next relationships told by callers; `after` is the last seen."""
        ...

    async def export_readings(self, after: str | None, limit: int) -> ReadingExport:
        """Return what was read in the next memories, in the order they were stored."""
        ...

    async def import_readings(self, readings: Sequence[ReadingCopy]) -> None:
        """Let these memories, which are here already, say this; the same again changes nothing.

        Those deleted meanwhile are passed over.
        """
        ...

    async def export_merges(self) -> list[MergeCopy]:
        """Return all merges, undone ones too, in the order they were made."""
        ...

    async def import_merges(self, merges: Sequence[MergeCopy]) -> None:
        """Make the merges these, in this order."""
        ...
