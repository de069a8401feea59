"""The graph's part of the storage engine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from zapomni_db.copy_models import MergeCopy, ReadingCopy, ReadingExport
from zapomni_db.graph_models import (
    Edge,
    EdgeKey,
    EdgeQuery,
    Entity,
    EntityName,
    EntityQuery,
    Evidence,
    ExtractedChunk,
    GraphGrowth,
    GraphScope,
    GraphStats,
    Mention,
    Merge,
    UnreadChunk,
)
from zapomni_db.models import EntityData, RelationshipData
from zapomni_db.sqlite import (
    graph,
    graph_copying,
    graph_edges,
    graph_mentions,
    graph_merges,
    graph_reads,
)
from zapomni_db.sqlite.file import SqliteFile

__all__ = ["SqliteGraph"]


class SqliteGraph(SqliteFile):
    """GraphStore and GraphReadStore on one file."""

    async def store_entities(
        self, entities: Sequence[EntityData], relationships: Sequence[RelationshipData]
    ) -> int:
        """Create or update entities and relationships between them."""
        return await self._write("storing entities", graph.store, entities, relationships)

    async def store_extractions(
        self,
        extractor: str,
        chunks: Sequence[ExtractedChunk],
        same: Sequence[tuple[str, str]] = (),
    ) -> GraphGrowth:
        """Store what was found in passages, and that they were read."""
        return await self._write(
            "storing the graph", graph.store_extractions, extractor, chunks, same
        )

    async def get_unread(
        self, extractor: str, scope: GraphScope, after: str | None, limit: int
    ) -> list[UnreadChunk]:
        """Return passages without a stored extraction of this kind."""
        return await self._read("reading", graph.unread, extractor, scope, after, limit)

    async def count_unread(self, extractor: str, scope: GraphScope) -> int:
        """Count the passages without a stored extraction of this kind."""
        return await self._read("counting", graph.count_unread, extractor, scope)

    async def merge_entities(self, source_id: str, target_id: str) -> Merge:
        """Let one entity stand for another."""
        return await self._write("merging entities", graph_merges.merge, source_id, target_id)

    async def undo_merge(self, source_id: str | None) -> Merge | None:
        """Undo the newest merge."""
        return await self._write("undoing a merge", graph_merges.undo, source_id)

    async def find_entities(self, query: EntityQuery) -> list[Entity]:
        """Return entities, best match first."""
        return await self._read("finding entities", graph_reads.find_entities, query)

    async def get_entities(
        self, entity_ids: Sequence[str], as_of: datetime | None = None
    ) -> dict[str, Entity]:
        """Return those that exist and were spoken of then."""
        return await self._read("reading", graph_reads.get_entities, entity_ids, as_of)

    async def get_edges(self, entity_ids: Sequence[str], query: EdgeQuery) -> list[Edge]:
        """Return what holds between these entities and others."""
        return await self._read("reading the graph", graph_edges.edges, entity_ids, query)

    async def get_evidence(
        self, edges: Sequence[EdgeKey], as_of: datetime | None, limit: int
    ) -> dict[EdgeKey, list[Evidence]]:
        """Return the sentences that state each relationship."""
        return await self._read("reading the graph", graph_edges.evidence, edges, as_of, limit)

    async def find_named(self, names: Sequence[str], as_of: datetime | None) -> list[str]:
        """Return the ids of all entities whose name or alias is one of these."""
        return self._read_here("searching", graph_mentions.named, names, as_of)

    async def get_mentions(
        self, entity_ids: Sequence[str], as_of: datetime | None, limit: int
    ) -> dict[str, list[Mention]]:
        """Return the newest passages that name each entity."""
        return self._read_here("searching", graph_mentions.of_entities, entity_ids, as_of, limit)

    async def get_named(
        self, chunk_ids: Sequence[str], as_of: datetime | None
    ) -> dict[str, list[Mention]]:
        """Return what each of these passages names."""
        return self._read_here("searching", graph_mentions.of_chunks, chunk_ids, as_of)

    async def list_entities(self, after: str | None, limit: int) -> list[Entity]:
        """Return all that is spoken of now, page by page."""
        return await self._read("listing", graph_reads.list_entities, after, limit)

    async def get_names(self, types: Sequence[str]) -> list[EntityName]:
        """Return what all entities of these types are called."""
        return await self._read("reading", graph_reads.names, types)

    async def get_graph_stats(self, extractor: str) -> GraphStats:
        """Count what the graph holds now."""
        return await self._read("counting", graph_reads.stats, extractor)

    # --- copying ------------------------------------------------------------------------

    async def export_entities(self, after: str | None, limit: int) -> list[EntityData]:
        """Return the next entities told by callers."""
        return await self._read("exporting", graph_copying.export_entities, after, limit)

    async def export_relationships(
        self, after: tuple[str, str, str] | None, limit: int
    ) -> list[RelationshipData]:
        """Return the next relationships told by callers."""
        return await self._read("exporting", graph_copying.export_relationships, after, limit)

    async def export_readings(self, after: str | None, limit: int) -> ReadingExport:
        """Return what was read in the next memories."""
        return await self._read("exporting", graph_copying.export_readings, after, limit)

    async def import_readings(self, readings: Sequence[ReadingCopy]) -> None:
        """Let these memories say this."""
        await self._write("importing", graph_copying.import_readings, readings)

    async def export_merges(self) -> list[MergeCopy]:
        """Return all merges in the order they were made."""
        return await self._read("exporting", graph_copying.export_merges)

    async def import_merges(self, merges: Sequence[MergeCopy]) -> None:
        """Make the merges these."""
        await self._write("importing", graph_copying.import_merges, merges)
