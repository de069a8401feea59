"""What the core asks of a storage engine.

`StorageProvider` is the whole contract; the small Protocols it is made of are what single
parts of the core ask for. Implemented by `zapomni_db.sqlite.storage.SqliteStorage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from zapomni_db.models import (
    BM25SearchResult,
    ChunkVector,
    Embedding,
    EmbeddingSpace,
    EntityData,
    MemoryCopy,
    MemoryData,
    MemoryExport,
    MemoryFilter,
    MemoryPage,
    MemoryPatch,
    MemoryRecord,
    MemorySummary,
    Passage,
    PendingChunk,
    Place,
    RelationshipData,
    StoredMemory,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
    VectorSearchResult,
)

__all__ = [
    "CopyStore",
    "EmbeddingStore",
    "GraphStore",
    "MemoryStore",
    "SearchStore",
    "StorageProvider",
]


class MemoryStore(Protocol):
    """Keeps memories. What it has acknowledged survives the death of the process."""

    async def store_memory(self, memory: MemoryData) -> str:
        """Store one memory and return the id it is kept under.

        Raises:
            DatabaseError: Nothing was stored.
        """
        ...

    async def store_memories(self, memories: Sequence[MemoryData]) -> list[StoredMemory]:
        """Store all of these or none, and say of each what became of it, in order.

        A text already kept in the same project (and at the same position of the same parent,
        if it has one) is not stored twice, nor is anything under an idempotency key already
        used.

        Raises:
            ValidationError: A key was used for another text, a vector has the wrong
                dimension or belongs to another model.
            NotFoundError: `supersedes` names no memory.
        """
        ...

    async def find_existing(
        self,
        project: str,
        text: str,
        idempotency_key: str | None,
        parent: str = "",
        position: int = 0,
    ) -> StoredMemory | None:
        """Answer what `store_memories` would for a repeated text or key, without writing."""
        ...

    async def get_memory(self, memory_id: str) -> MemoryRecord | None:
        """Return a memory whole, superseded ones included."""
        ...

    async def get_summaries(self, memory_ids: Sequence[str]) -> dict[str, MemorySummary]:
        """Return those of the memories that exist, by id."""
        ...

    async def list_memories(self, filters: MemoryFilter, limit: int, offset: int) -> MemoryPage:
        """List memories, pinned first, then newest first."""
        ...

    async def update_memory(self, memory_id: str, patch: MemoryPatch) -> bool:
        """Apply a patch at once; False if there is no such memory."""
        ...

    async def delete_memory(self, memory_id: str) -> bool:
        """Delete a memory and everything derived from it; False if there is none."""
        ...


class SearchStore(Protocol):
    """Finds chunks. Filters are applied inside the query, never to its top results."""

    async def vector_search(self, request: VectorSearchRequest) -> list[VectorSearchResult]:
        """Return the nearest chunks, exactly scored, best first."""
        ...

    async def rank_by_words(self, request: TextSearchRequest) -> dict[str, float]:
        """Return the scores `bm25_search` would, by chunk id, best first."""
        ...

    async def rank_by_vector(self, request: VectorSearchRequest) -> VectorRanking:
        """Return the scores `vector_search` would, by chunk id, best first."""
        ...

    async def find_matches(
        self, phrases: Sequence[str], limit: int
    ) -> dict[str, frozenset[str] | None]:
        """Return the chunks each word or phrase stands in; None where more than `limit` do."""
        ...

    async def get_version(self) -> int:
        """Return a number that changes with every write by any process."""
        ...

    async def count_chunks(self) -> int:
        """Return about how many chunks there are, at once."""
        ...

    async def get_members(self, chunk_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return all chunks of the groups these chunks belong to, by the group's name."""
        ...

    async def get_similarities(
        self, query_embedding: Sequence[float], chunk_ids: Sequence[str]
    ) -> dict[str, float]:
        """Return how near these chunks are, where they have a vector."""
        ...

    async def get_places(self, chunk_ids: Sequence[str], filters: MemoryFilter) -> dict[str, Place]:
        """Say where chunks stand and what stands beside them."""
        ...

    async def get_passages(self, chunk_ids: Sequence[str]) -> dict[str, Passage]:
        """Return the chunks' texts."""
        ...

    async def get_tokens(self, chunk_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the chunks' token vectors in the active space, where there are any."""
        ...

    async def bm25_search(self, request: TextSearchRequest) -> list[BM25SearchResult]:
        """Return the chunks matching any term, best first. No term can be a syntax error."""
        ...


class EmbeddingStore(Protocol):
    """Keeps one active embedding space and never mixes two."""

    async def get_space(self) -> EmbeddingSpace | None:
        """Return the space searches use, or None before the first vector."""
        ...

    async def get_embeddings(
        self, space: EmbeddingSpace, texts: Sequence[str]
    ) -> dict[str, Embedding]:
        """Return what is already stored for exactly these texts: the persistent cache."""
        ...

    async def get_pending(self, space: EmbeddingSpace | None, limit: int) -> list[PendingChunk]:
        """Return chunks without a vector in this space, oldest first; None: in the active one."""
        ...

    async def count_pending(self, space: EmbeddingSpace | None) -> int:
        """Count the chunks without a vector in this space; None: in the active one."""
        ...

    async def store_vectors(self, space: EmbeddingSpace, vectors: Sequence[ChunkVector]) -> None:
        """Store vectors for pending chunks; chunks deleted meanwhile are passed over."""
        ...

    async def activate_space(self, space: EmbeddingSpace) -> int:
        """Make searches use this space if no chunk is pending in it.

        Returns how many still are: 0 means the switch is done and the other spaces' vectors
        are gone.
        """
        ...


class GraphStore(Protocol):
    """Keeps entities and how they relate."""

    async def store_entities(
        self, entities: Sequence[EntityData], relationships: Sequence[RelationshipData]
    ) -> int:
        """Create or update entities, then relationships between them; return how many entities."""
        ...


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
        """Return the next entities by id; `after` is the last id seen, None the first time."""
        ...

    async def export_relationships(
        self, after: tuple[str, str, str] | None, limit: int
    ) -> list[RelationshipData]:
        """Return the next relationships by source, target and type; `after` is the last seen."""
        ...


class StorageProvider(MemoryStore, SearchStore, EmbeddingStore, GraphStore, CopyStore, Protocol):
    """A storage engine, whole."""

    async def connect(self) -> None:
        """Open, create and migrate as needed. Safe to call again."""
        ...

    async def close(self) -> None:
        """Release everything. Safe to call again."""
        ...

    async def get_stats(self) -> dict[str, Any]:
        """Return the fields of `MemoryStats` the engine knows."""
        ...

    async def health_check(self) -> bool:
        """Say whether the store answers. Never raises."""
        ...

    async def check_integrity(self) -> Mapping[str, str]:
        """Check the stored structures; return problems by the name of the check, none if sound."""
        ...
