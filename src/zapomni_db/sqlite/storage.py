"""SqliteStorage: the whole StorageProvider on one file, standard library only."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zapomni_db.copy_models import MemoryCopy, MemoryExport
from zapomni_db.exceptions import DatabaseError
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
    MemoryStats,
    MemorySummary,
    Passage,
    Place,
    StoredMemory,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
    VectorSearchResult,
)
from zapomni_db.sqlite import copying, history, memories, search, spaces, upkeep
from zapomni_db.sqlite.graph_storage import SqliteGraph
from zapomni_db.sqlite.vector_cache import VectorCache
from zapomni_db.vector_models import ChunkVector, PendingChunk

__all__ = ["SqliteStorage"]

DROP_BATCH = 2000

logger = get_logger(__name__)


class SqliteStorage(SqliteGraph):
    """Memories, vectors and graph in one SQLite file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._cache = VectorCache()

    # --- memories -----------------------------------------------------------------------

    async def store_memory(self, memory: MemoryData) -> str:
        """Store one memory and return the id it is kept under."""
        (stored,) = await self.store_memories([memory])
        return stored.memory_id

    async def store_memories(self, batch: Sequence[MemoryData]) -> list[StoredMemory]:
        """Store all of these or none."""
        started, retries = time.perf_counter(), self._retries
        stored = await self._write("storing", memories.store, batch)
        logger.info(
            "memories_stored",
            engine="sqlite",
            operation="store_memories",
            memory_ids=[one.memory_id for one in stored[:10]],
            count=len(stored),
            chunks=sum(len(memory.chunks) for memory in batch),
            metadata_keys=sorted({str(key)[:50] for one in batch for key in one.metadata})[:20],
            retries=self._retries - retries,
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
        return await self._read(
            "reading", memories.find_existing, project, text, idempotency_key, parent, position
        )

    async def get_memory(self, memory_id: str) -> MemoryRecord | None:
        """Return a memory whole."""
        return await self._read("reading", memories.get, memory_id)

    async def get_summaries(self, memory_ids: Sequence[str]) -> dict[str, MemorySummary]:
        """Return those of the memories that exist."""
        return self._read_here("reading", memories.summaries, memory_ids)

    async def list_memories(self, filters: MemoryFilter, limit: int, offset: int) -> MemoryPage:
        """List memories, pinned first, then newest first."""
        return await self._read("listing", memories.list_page, filters, limit, offset)

    async def update_memory(self, memory_id: str, patch: MemoryPatch) -> bool:
        """Apply a patch at once."""
        return await self._write("updating", memories.update, memory_id, patch)

    async def delete_memory(self, memory_id: str) -> bool:
        """Delete a memory and everything derived from it."""
        return await self._write("deleting", memories.delete, memory_id)

    async def get_history(self, memory_id: str) -> list[MemoryVersion]:
        """Return what a memory was and is, oldest first."""
        return await self._read("reading", history.versions, memory_id)

    # --- search -------------------------------------------------------------------------

    async def vector_search(self, request: VectorSearchRequest) -> list[VectorSearchResult]:
        """Return the nearest chunks, exactly scored."""
        return await self._read("searching", search.by_vector, self._cache, request)

    async def rank_by_words(self, request: TextSearchRequest) -> dict[str, float]:
        """Return the scores of a word search, by chunk id."""
        return await self._read("searching", search.rank_by_words, request)

    async def rank_by_vector(self, request: VectorSearchRequest) -> VectorRanking:
        """Return the scores of a vector search, by chunk id."""
        return await self._read("searching", search.rank_by_vector, self._cache, request)

    async def find_matches(
        self, phrases: Sequence[str], limit: int
    ) -> dict[str, frozenset[str] | None]:
        """Return the chunks each word or phrase stands in."""
        return self._read_here("searching", search.matches, phrases, limit)

    async def get_version(self) -> int:
        """Return a number that changes with every write by any process."""
        return self._read_version()

    async def count_chunks(self) -> int:
        """Return about how many chunks there are."""
        return self._read_here("counting", search.about_how_many)

    async def get_members(self, chunk_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return all chunks of the groups these chunks belong to."""
        return self._read_here("searching", search.members, chunk_ids)

    async def get_similarities(
        self, query_embedding: Sequence[float], chunk_ids: Sequence[str]
    ) -> dict[str, float]:
        """Return how near these chunks are."""
        return self._read_here(
            "searching", search.similarities, self._cache, query_embedding, chunk_ids
        )

    async def get_places(self, chunk_ids: Sequence[str], filters: MemoryFilter) -> dict[str, Place]:
        """Say where chunks stand and what stands beside them."""
        return self._read_here("searching", search.places, chunk_ids, filters)

    async def get_passages(self, chunk_ids: Sequence[str]) -> dict[str, Passage]:
        """Return the chunks' texts."""
        return self._read_here("searching", search.passages, chunk_ids)

    async def get_tokens(self, chunk_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the chunks' token vectors in the active space."""
        return self._read_here("searching", spaces.tokens_of, chunk_ids)

    async def bm25_search(self, request: TextSearchRequest) -> list[BM25SearchResult]:
        """Return the chunks matching any term."""
        return await self._read("searching", search.by_words, request)

    # --- vectors ------------------------------------------------------------------------

    async def get_space(self) -> EmbeddingSpace | None:
        """Return the space searches use."""
        active = self._read_here("reading", spaces.active_space)
        return None if active is None else active[1]

    async def get_embeddings(
        self, space: EmbeddingSpace, texts: Sequence[str]
    ) -> dict[str, Embedding]:
        """Return what is already stored for exactly these texts."""
        return await self._read("reading", spaces.stored_embeddings, space, texts)

    async def get_pending(self, space: EmbeddingSpace | None, limit: int) -> list[PendingChunk]:
        """Return chunks without a vector in this space."""
        return await self._read("reading", spaces.pending, space, limit)

    async def count_pending(self, space: EmbeddingSpace | None) -> int:
        """Count the chunks without a vector in this space."""
        return await self._read("reading", spaces.count_pending, space)

    async def store_vectors(self, space: EmbeddingSpace, vectors: Sequence[ChunkVector]) -> None:
        """Store vectors for pending chunks."""
        await self._write("storing vectors", spaces.add_vectors, space, vectors)

    async def activate_space(self, space: EmbeddingSpace) -> int:
        """Make searches use this space if no chunk is pending in it."""
        missing = await self._write("switching the model", spaces.activate, space)
        if not missing:
            while await self._write("dropping vectors", spaces.drop_inactive, DROP_BATCH):
                pass
        return missing

    # --- copying ------------------------------------------------------------------------

    async def export_memories(self, after: str | None, limit: int) -> MemoryExport:
        """Return the next memories in the order they were stored."""
        return await self._read("exporting", copying.export, after, limit)

    async def import_memories(self, batch: Sequence[MemoryCopy]) -> None:
        """Keep these as they are, in this order."""
        await self._write("importing", copying.import_, batch)

    # --- upkeep -------------------------------------------------------------------------

    async def get_stats(self) -> dict[str, Any]:
        """Return the fields of MemoryStats this engine knows."""
        stats: MemoryStats = await self._read("counting", upkeep.stats, self.path)
        return stats.model_dump(exclude_none=True)

    async def health_check(self) -> bool:
        """Say whether the file answers. Never raises."""
        try:
            await self.count_pending(None)
        except DatabaseError:
            return False
        return True

    async def check_integrity(self) -> Mapping[str, str]:
        """Return problems by the name of the check; none if all is sound."""
        return await self._write("checking", upkeep.check_integrity)
