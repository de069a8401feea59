"""SqliteStorage: the whole StorageProvider on one file.

A method is a function over a connection that is run in a transaction: what it does is written where
it is defined, what it promises on `zapomni_db.interfaces.StorageProvider`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from zapomni_db.exceptions import DatabaseError
from zapomni_db.logs import get_logger
from zapomni_db.models import (
    EmbeddingSpace,
    Hits,
    MemoryData,
    MemoryFilter,
    MemorySummary,
    Mention,
    Passage,
    StoredMemory,
    StoreState,
    Surroundings,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
    VectorSearchResult,
)
from zapomni_db.sqlite import memories, search, vectors
from zapomni_db.sqlite.connection import read_version, release_pages
from zapomni_db.sqlite.file import SqliteFile, imported_later, reading, reading_here, writing

if TYPE_CHECKING:
    from zapomni_db.sqlite import copying, damage, graph, graph_reads
else:
    # No search needs these, and their models take long to import.
    copying = imported_later("zapomni_db.sqlite.copying")
    damage = imported_later("zapomni_db.sqlite.damage")
    graph = imported_later("zapomni_db.sqlite.graph")
    graph_reads = imported_later("zapomni_db.sqlite.graph_reads")

__all__ = ["SqliteStorage"]

# How many vectors of another model are deleted in one transaction.
DROP_BATCH = 2000
# How many vectors of an older version are packed in one transaction: a few milliseconds.
PACK_BATCH = 100
# How many free pages are released in one transaction: a few milliseconds.
PAGES_AT_ONCE = 500
# Between two steps of tidying: for other writers, and the user's other programs.
TIDY_PAUSE = 0.05
# So few chunks are ranked in less time than it takes to hand the work to another thread.
FEW_CHUNKS = 10_000

T = TypeVar("T")

logger = get_logger(__name__)


def _read_state(connection: sqlite3.Connection) -> StoreState:
    return StoreState(
        read_version(connection),
        vectors.get_space(connection),
        search.count_chunks(connection),
        vectors.get_second_space(connection),
        search.has_mentions(connection),
    )


def _begin_search(
    connection: sqlite3.Connection, phrases: Sequence[str], limit: int
) -> tuple[StoreState, dict[str, frozenset[str] | None]]:
    return _read_state(connection), search.find_matches(connection, phrases, limit)


def _find_hits(
    connection: sqlite3.Connection, request: TextSearchRequest
) -> tuple[dict[str, MemorySummary], dict[str, Passage]]:
    scores = search.rank_by_words(connection, request)
    passages = search.get_passages(connection, list(scores))
    ids = sorted({passage.memory_id for passage in passages.values()})
    return memories.get_summaries(connection, ids), {i: passages[i] for i in scores}


class SqliteStorage(SqliteFile):
    """Memories, vectors and graph in one SQLite file."""

    versioned = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._cache = vectors.VectorCache()
        self._second_cache = vectors.VectorCache()
        self._places = search.PlaceCache()
        self._is_small = False

    # --- Memories -----------------------------------------------------------------------

    async def store_memory(self, memory: MemoryData) -> str:
        """Store one memory and return its id."""
        (stored,) = await self.store_memories([memory])
        return stored.memory_id

    async def store_memories(self, batch: Sequence[MemoryData]) -> list[StoredMemory]:
        """Store all of these or none."""
        started, retries = time.perf_counter(), self._retries
        stored = await self.write("storing", memories.store_memories, batch)
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

    find_existing = reading("reading", memories.find_existing)
    get_memory = reading("reading", memories.get_memory)
    get_summaries = reading_here("reading", memories.get_summaries)
    get_beginnings = reading_here("reading", memories.get_beginnings)
    list_memories = reading("listing", memories.list_memories)
    count_by_project = reading("counting", memories.count_by_project)
    update_memory = writing("updating", memories.update_memory)
    delete_memory = writing("deleting", memories.delete_memory)
    delete_memories = writing("deleting", memories.delete_memories)
    get_history = reading("reading", memories.get_history)

    # --- Search -------------------------------------------------------------------------

    async def rank_by_words(self, request: TextSearchRequest) -> dict[str, float]:
        """Return the chunks that have any of the terms, best first."""
        return await self._rank(search.rank_by_words, request)

    async def _rank(self, function: Callable[..., T], *args: Any) -> T:
        if self._is_small:
            return self.read_here("searching", function, *args)
        return await self.read("searching", function, *args)

    find_matches = reading_here("searching", search.find_matches)
    find_near_words = reading("searching", search.find_near_words)
    get_contexts = reading("reading", search.get_contexts)
    store_contexts = writing("indexing words", search.store_contexts)
    count_chunks = reading_here("counting", search.count_chunks)
    get_members = reading_here("searching", search.get_members)
    get_places = reading_here("searching", search.get_places)
    get_passages = reading_here("searching", search.get_passages)
    get_tokens = reading_here("searching", vectors.get_tokens)

    async def rank_by_vector(self, request: VectorSearchRequest) -> VectorRanking:
        """Return the scores of a vector search, by chunk id."""
        cache = self._second_cache if request.second else self._cache
        return await self._rank(search.rank_by_vector, cache, request)

    async def get_similarities(
        self, query_embedding: Sequence[float], chunk_ids: Sequence[str], *, second: bool = False
    ) -> dict[str, float]:
        """Return the cosine of these chunks and the query."""
        return self.read_here(
            "searching",
            search.get_similarities,
            self._second_cache if second else self._cache,
            query_embedding,
            chunk_ids,
            second=second,
        )

    async def sample_second(self, limit: int) -> bytes:
        """Return some vectors of the second space."""
        return self.read_here("searching", vectors.sample_second, self._second_cache, limit)

    get_state = reading_here("searching", _read_state)

    async def begin_search(
        self, phrases: Sequence[str], limit: int
    ) -> tuple[StoreState, dict[str, frozenset[str] | None]]:
        """Return the state of the store and what matches phrases."""
        state, found = self.read_here("searching", _begin_search, phrases, limit)
        self._is_small = state.chunks <= FEW_CHUNKS
        return state, found

    async def get_surroundings(
        self,
        chunk_ids: Sequence[str],
        filters: MemoryFilter,
        query_embedding: Sequence[float] | None,
        *,
        around: Sequence[str] = (),
        members: bool = False,
        tokens: bool = False,
    ) -> Surroundings:
        """Return the places of chunks and all else that scores them."""
        return self.read_here(
            "searching",
            search.get_surroundings,
            search.Caches(self._cache, self._places),
            chunk_ids,
            filters,
            query_embedding,
            around=around,
            members=members,
            tokens=tokens,
        )

    async def get_pool(
        self,
        token_ids: Sequence[str],
        chunk_ids: Sequence[str],
        names: Sequence[str],
        as_of: datetime | None,
        passage_ids: Sequence[str] = (),
    ) -> tuple[dict[str, bytes], dict[str, list[Mention]], list[str], dict[str, Passage]]:
        """Return what scores the best candidates."""
        return self.read_here(
            "searching",
            search.read_pool,
            self._places,
            token_ids,
            chunk_ids,
            names,
            as_of,
            passage_ids,
        )

    async def get_hop(
        self,
        chunk_ids: Sequence[str],
        entity_ids: Sequence[str],
        as_of: datetime | None,
        limit: int,
    ) -> tuple[dict[str, Passage], dict[str, list[Mention]]]:
        """Return texts of chunks and the passages that name entities."""
        return self.read_here(
            "searching", search.read_hop, self._places, chunk_ids, entity_ids, as_of, limit
        )

    async def get_hits(
        self,
        memory_ids: Sequence[str],
        chunk_ids: Sequence[str],
        *,
        beginning: int = 0,
        cosines: bool = False,
        others: Sequence[str] = (),
        filters: MemoryFilter | None = None,
    ) -> Hits:
        """Return what is shown and compared of the best hits."""
        return self.read_here(
            "searching",
            search.read_hits,
            self._places,
            memory_ids,
            chunk_ids,
            beginning=beginning,
            cosines=cosines,
            others=others,
            filters=filters,
        )

    find_hits = reading("searching", _find_hits)

    get_version = reading_here("reading", read_version)

    # --- Vectors ------------------------------------------------------------------------

    get_space = reading_here("reading", vectors.get_space)
    get_embeddings = reading("reading", vectors.get_embeddings)
    get_pending = reading("reading", vectors.get_pending)
    count_pending = reading("reading", vectors.count_pending)
    store_vectors = writing("storing vectors", vectors.store_vectors)
    get_unseen = reading("reading", vectors.get_unseen)
    store_second = writing("storing vectors", vectors.store_second)

    async def activate_space(self, space: EmbeddingSpace) -> int:
        """Make searches use this space if no chunk is pending in it."""
        missing = await self.write("switching the model", vectors.activate_space, space)
        if not missing:
            while await self.write("dropping vectors", vectors.drop_inactive_vectors, DROP_BATCH):
                pass
        return missing

    async def tidy(self) -> int:
        """Pack vectors of older versions, merge the word index, release free pages.

        Returns:
            In how many steps.
        """
        steps = 0
        while await self.write("packing vectors", vectors.pack_old_vectors, PACK_BATCH):
            steps += 1
            await asyncio.sleep(TIDY_PAUSE)
        while await self.write("merging words", search.merge_words):
            steps += 1
            await asyncio.sleep(TIDY_PAUSE)
        while await self.write("releasing pages", release_pages, PAGES_AT_ONCE):
            steps += 1
            await asyncio.sleep(TIDY_PAUSE)
        return steps

    # --- Graph --------------------------------------------------------------------------

    store_entities = writing("storing entities", graph.store_entities)
    store_extractions = writing("storing the graph", graph.store_extractions)
    get_cooccurring = reading("reading the graph", graph.get_cooccurring)
    end_statements = writing("storing the graph", graph.end_statements)
    set_associations = writing("storing the graph", graph.set_associations)
    get_unread = reading("reading", graph.get_unread)
    count_unread = reading("counting", graph.count_unread)
    merge_entities = writing("merging entities", graph.merge_entities)
    undo_merge = writing("undoing a merge", graph.undo_merge)
    find_entities = reading("finding entities", graph_reads.find_entities)
    get_entities = reading("reading", graph_reads.get_entities)
    get_edges = reading("reading the graph", graph_reads.get_edges)
    get_evidence = reading("reading the graph", graph_reads.get_evidence)
    get_past = reading("reading the graph", graph_reads.get_past)
    find_named = reading_here("searching", search.find_named)
    get_mentions = reading_here("searching", search.get_mentions)
    get_named = reading_here("searching", search.get_named)
    list_entities = reading("listing", graph_reads.list_entities)
    get_names = reading("reading", graph_reads.get_names)
    get_graph_stats = reading("counting", graph_reads.get_graph_stats)

    # --- Copying to and from another store ----------------------------------------------

    export_memories = reading("exporting", copying.export_memories)
    get_copies = reading("exporting", copying.get_copies)
    list_ids = reading("exporting", copying.list_ids)
    import_memories = writing("importing", copying.import_memories)
    put_memory = writing("merging", copying.put_memory)
    set_successors = writing("merging", copying.set_successors)
    export_entities = reading("exporting", copying.export_entities)
    export_relationships = reading("exporting", copying.export_relationships)
    get_readings = reading("exporting", copying.get_readings)
    import_readings = writing("importing", copying.import_readings)
    export_whole = reading("exporting", copying.export_whole)
    restore_memories = writing("restoring", copying.restore_memories)
    export_merges = reading("exporting", copying.export_merges)
    import_merges = writing("importing", copying.import_merges)

    # --- Counts and checks --------------------------------------------------------------

    check_integrity = writing("checking", damage.check_integrity)

    async def get_stats(self) -> dict[str, Any]:
        """Return the fields of MemoryStats this engine knows."""
        stats = await self.read("counting", memories.get_stats, self.path)
        return stats.model_dump(exclude_none=True)

    # --- What only the specification asks for -------------------------------------------

    bm25_search = reading("searching", search.bm25_search)

    async def vector_search(self, request: VectorSearchRequest) -> list[VectorSearchResult]:
        """Return the nearest chunks with their texts, exactly scored."""
        return await self.read("searching", search.vector_search, self._cache, request)

    async def health_check(self) -> bool:
        """Return whether the file answers. Never raises."""
        try:
            await self.count_pending(None)
        except DatabaseError:
            return False
        return True
