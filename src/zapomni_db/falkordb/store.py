"""What every storage engine does, done on a FalkorDB server: one short method per promise."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from zapomni_db.copy_models import MemoryCopy, MemoryExport
from zapomni_db.exceptions import DatabaseError
from zapomni_db.falkordb import copying, history, memories, places, search, spaces, storing, upkeep
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph_store import FalkorDBGraph
from zapomni_db.falkordb.validation import to_patch
from zapomni_db.graph_models import MemoryVersion
from zapomni_db.logs import get_logger
from zapomni_db.models import (
    BM25SearchResult,
    Embedding,
    EmbeddingSpace,
    MemoryData,
    MemoryFilter,
    MemoryPage,
    MemoryPatch,
    MemoryRecord,
    MemorySummary,
    Passage,
    Place,
    StoredMemory,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
    VectorSearchResult,
)
from zapomni_db.vector_models import ChunkVector, PendingChunk

__all__ = ["FalkorDBStore"]

logger = get_logger(__name__)


# A text of ten million characters has 12,000 chunks: no timeout made for one memory fits it.
MANY_CHUNKS = 1000
SECONDS_PER_CHUNK = 0.01


class FalkorDBStore(FalkorDBGraph):
    """The StorageProvider, whole."""

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Self]:
        """Yield this store: the server has no snapshots, each read sees the state of its moment."""
        yield self

    # --- memories -----------------------------------------------------------------------

    async def store_memory(self, memory: MemoryData) -> str:
        """Store one memory and return the id it is kept under."""
        (stored,) = await self.store_memories([memory])
        return stored.memory_id

    async def store_memories(self, batch: Sequence[MemoryData]) -> list[StoredMemory]:
        """Store all of these or none, in one statement."""
        return await self._store("store_memories", batch)

    async def _store(
        self, operation: str, batch: Sequence[MemoryData], *, join: bool = True
    ) -> list[StoredMemory]:
        started = time.perf_counter()
        chunks = sum(len(memory.chunks) for memory in batch)
        retries = 0

        async def store(session: Session) -> list[StoredMemory]:
            nonlocal retries
            retries = session.retries
            return await storing.store(session, self._hnsw, batch, join=join)

        stored = await self._open().run(operation, store, patience=_patience(chunks))
        logger.info(
            "memories_stored",
            engine="falkordb",
            operation=operation,
            memory_ids=[one.memory_id for one in stored[:10]],
            count=len(stored),
            chunks=chunks,
            metadata_keys=sorted({str(key)[:50] for one in batch for key in one.metadata})[:20],
            retries=retries,
            duration_ms=round((time.perf_counter() - started) * 1000, 1),
        )
        return stored

    async def find_existing(
        self,
        project: str,
        text: str,
        idempotency_key: str | None,
        parent: str = "",
        position: int = 0,
    ) -> StoredMemory | None:
        """Answer what storing would for a repeated text or key."""
        return await self._run(
            "find_existing",
            storing.find_existing,
            project,
            text,
            idempotency_key,
            parent,
            position,
        )

    async def get_memory(self, memory_id: str) -> MemoryRecord | None:
        """Return a memory whole."""
        return await self._run("get_memory", memories.get, memory_id)

    async def get_summaries(self, memory_ids: Sequence[str]) -> dict[str, MemorySummary]:
        """Return those of the memories that exist."""
        return await self._run("get_summaries", memories.summaries, memory_ids)

    async def list_memories(self, filters: MemoryFilter, limit: int, offset: int) -> MemoryPage:
        """List memories, pinned first, then newest first."""
        return await self._run("list_memories", memories.list_page, filters, limit, offset)

    async def update_memory(self, memory_id: str, patch: MemoryPatch | Mapping[str, Any]) -> bool:
        """Apply a patch, or a mapping with its fields, at once."""
        changes = to_patch(patch)
        return await self._open().run(
            "update_memory",
            lambda session: memories.update(session, self._hnsw, memory_id, changes),
            patience=_patience(len(changes.chunks or [])),
        )

    async def delete_memory(self, memory_id: str) -> bool:
        """Delete a memory and everything derived from it."""
        return await self._open().run("delete_memory", memories.deletion(memory_id))

    async def get_history(self, memory_id: str) -> list[MemoryVersion]:
        """Return what a memory was and is, oldest first."""
        return await self._run("get_history", history.versions, memory_id)

    # --- search -------------------------------------------------------------------------

    async def vector_search(self, request: VectorSearchRequest) -> list[VectorSearchResult]:
        """Return the nearest chunks, exactly scored."""
        return await self._run("vector_search", search.by_vector, request)

    async def rank_by_words(self, request: TextSearchRequest) -> dict[str, float]:
        """Return the scores of a word search, by chunk id."""
        return await self._run("rank_by_words", search.rank_by_words, request)

    async def rank_by_vector(self, request: VectorSearchRequest) -> VectorRanking:
        """Return the scores of a vector search, by chunk id."""
        return await self._run("rank_by_vector", search.rank_by_vector, request)

    async def find_matches(
        self, phrases: Sequence[str], limit: int
    ) -> dict[str, frozenset[str] | None]:
        """Return the chunks each word or phrase stands in."""
        return await self._run("find_matches", search.matches, phrases, limit)

    async def get_version(self) -> int:
        """Return a number that changes with every write by any process."""
        return await self._run("get_version", upkeep.version)

    async def count_chunks(self) -> int:
        """Return how many chunks there are."""
        return await self._run("count_chunks", upkeep.count_chunks)

    async def get_members(self, chunk_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return all chunks of the groups these chunks belong to."""
        return await self._run("get_members", places.members, chunk_ids)

    async def get_similarities(
        self, query_embedding: Sequence[float], chunk_ids: Sequence[str]
    ) -> dict[str, float]:
        """Return how near these chunks are."""
        return await self._run("get_similarities", search.similarities, query_embedding, chunk_ids)

    async def get_places(self, chunk_ids: Sequence[str], filters: MemoryFilter) -> dict[str, Place]:
        """Say where chunks stand and what stands beside them."""
        return await self._run("get_places", places.places, chunk_ids, filters)

    async def get_passages(self, chunk_ids: Sequence[str]) -> dict[str, Passage]:
        """Return the chunks' texts."""
        return await self._run("get_passages", places.passages, chunk_ids)

    async def get_tokens(self, chunk_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the chunks' token vectors in the active space."""
        return await self._run("get_tokens", spaces.tokens_of, chunk_ids)

    async def bm25_search(self, request: TextSearchRequest) -> list[BM25SearchResult]:
        """Return the chunks matching any term."""
        return await self._run("bm25_search", search.by_words, request)

    # --- vectors ------------------------------------------------------------------------

    async def get_space(self) -> EmbeddingSpace | None:
        """Return the space searches use."""
        slot, _ = await self._run("get_space", spaces.active_slot)
        return slot.space

    async def get_embeddings(
        self, space: EmbeddingSpace, texts: Sequence[str]
    ) -> dict[str, Embedding]:
        """Return what is already stored for exactly these texts."""
        return await self._run("get_embeddings", spaces.stored_embeddings, space, texts)

    async def get_pending(self, space: EmbeddingSpace | None, limit: int) -> list[PendingChunk]:
        """Return chunks without a vector in this space."""
        return await self._run("get_pending", spaces.pending, space, limit)

    async def count_pending(self, space: EmbeddingSpace | None) -> int:
        """Count the chunks without a vector in this space."""
        return await self._run("count_pending", spaces.count_pending, space)

    async def store_vectors(self, space: EmbeddingSpace, vectors: Sequence[ChunkVector]) -> None:
        """Store vectors for pending chunks."""
        await self._run("store_vectors", spaces.add_vectors, self._hnsw, space, vectors)

    async def activate_space(self, space: EmbeddingSpace) -> int:
        """Make searches use this space if no chunk is pending in it."""
        missing = await self._run("activate_space", spaces.activate, space)
        if not missing:
            while await self._run("activate_space", spaces.drop_inactive):
                pass
        return missing

    # --- copying ------------------------------------------------------------------------

    async def export_memories(self, after: str | None, limit: int) -> MemoryExport:
        """Return the next memories in the order they were stored."""
        return await self._run("export_memories", copying.export, after, limit)

    async def import_memories(self, batch: Sequence[MemoryCopy]) -> None:
        """Keep these as they are, in this order."""
        await self._store("import_memories", batch, join=False)

    # --- upkeep -------------------------------------------------------------------------

    async def get_stats(self) -> dict[str, Any]:
        """Return the fields of MemoryStats this engine knows."""
        stats = await self._run("get_stats", upkeep.stats)
        return stats.model_dump(exclude_none=True)

    async def health_check(self) -> bool:
        """Say whether the server answers. Never raises."""
        try:
            await self._open().run("health_check", upkeep.version, max_retries=0)
        except DatabaseError:
            return False
        return True

    async def check_integrity(self) -> Mapping[str, str]:
        """Return problems by the name of the check; none if all is sound."""
        return await self._run("check_integrity", upkeep.check_integrity)


def _patience(chunks: int) -> float:
    return SECONDS_PER_CHUNK * max(0, chunks - MANY_CHUNKS)
