"""What the core asks of a storage engine.

`StorageProvider` is the whole contract; the small Protocols it is made of are what single
parts of the core ask for. Implemented by `zapomni_db.sqlite.storage.SqliteStorage` and
`zapomni_db.falkordb.FalkorDBClient`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from zapomni_db.copy_models import (
        MemoryCopy,
        MemoryExport,
        MergeCopy,
        ReadingCopy,
        WholeMemory,
    )
    from zapomni_db.graph_models import (
        CooccurringPair,
        Edge,
        EdgeKey,
        EdgeQuery,
        Entity,
        EntityName,
        EntityPast,
        EntityQuery,
        Evidence,
        ExtractedChunk,
        GraphGrowth,
        GraphScope,
        GraphStats,
        MemoryVersion,
        Merge,
        UnreadChunk,
    )
    from zapomni_db.models import (
        BM25SearchResult,
        ChunkVector,
        Embedding,
        EmbeddingSpace,
        EntityData,
        Hits,
        IndexedChunk,
        MemoryData,
        MemoryFilter,
        MemoryPage,
        MemoryPatch,
        MemoryRecord,
        MemorySummary,
        Mention,
        Passage,
        PendingChunk,
        Place,
        RelationshipData,
        StoredMemory,
        StoreState,
        Surroundings,
        TextSearchRequest,
        VectorRanking,
        VectorSearchRequest,
        VectorSearchResult,
    )

__all__ = [
    "CopyStore",
    "EmbeddingStore",
    "GraphReadStore",
    "GraphStore",
    "MemoryStore",
    "SearchStore",
    "StorageProvider",
]


class MemoryStore(Protocol):
    """Stores memories. Acknowledged writes survive the death of the process."""

    async def store_memory(self, memory: MemoryData) -> str:
        """Store one memory and return its id, or that of the memory it repeats.

        Raises:
            DatabaseError: Nothing was stored.
        """
        ...

    async def store_memories(self, memories: Sequence[MemoryData]) -> list[StoredMemory]:
        """Store all of these or none; return what became of each, in order.

        A text already stored in the same project (and at the same position of the same parent,
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
        """Return what `store_memories` would for a repeated text or key, without writing."""
        ...

    async def get_memory(self, memory_id: str) -> MemoryRecord | None:
        """Return a memory with its text, superseded ones included."""
        ...

    async def get_summaries(self, memory_ids: Sequence[str]) -> dict[str, MemorySummary]:
        """Return those of the memories that exist, by id."""
        ...

    async def list_memories(self, filters: MemoryFilter, limit: int, offset: int) -> MemoryPage:
        """List memories, pinned first, then newest first."""
        ...

    async def count_by_project(self) -> dict[str, int]:
        """Count the memories of each project, superseded ones included, files of code not."""
        ...

    async def update_memory(self, memory_id: str, patch: MemoryPatch) -> bool:
        """Apply a patch in one transaction; False if there is no such memory."""
        ...

    async def delete_memory(self, memory_id: str) -> bool:
        """Delete a memory and everything derived from it; False if there is none."""
        ...

    async def delete_memories(self, unchanged: Mapping[str, datetime]) -> list[str]:
        """Delete those of the memories that were last changed at the time given; return their ids.

        One that was changed meanwhile stays.
        """
        ...

    async def get_history(self, memory_id: str) -> list[MemoryVersion]:
        """Return the versions of a memory, oldest first; none if there is no such memory.

        With them come those of the memories it superseded, directly or not, and of those that
        superseded it. An update that changed nothing made no version.
        """
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
        """Return the chunks that contain each word or phrase; None where more than `limit` do."""
        ...

    async def find_near_words(self, words: Sequence[str], filters: MemoryFilter) -> dict[str, str]:
        """Return for misspelt words what they may be meant to be: words of selected memories.

        Nearest first, then the most frequent; words without any like them are left out.
        """
        ...

    async def get_version(self) -> int:
        """Return a number that changes with memories and the graph, by any process."""
        ...

    async def count_chunks(self) -> int:
        """Return about how many chunks there are, without delay."""
        ...

    async def get_state(self) -> StoreState:
        """Return version, space and size at once."""
        ...

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
        """Return the places of chunks and all else that scores them, at once.

        Args:
            chunk_ids: The chunks.
            filters: Decides which chunks are selected; only those are scored.
            query_embedding: The question's vector; None: without similarities.
            around: Those of the chunks whose neighbors are included.
            members: Whether to return all chunks of their groups.
            tokens: Whether to return token vectors.

        Raises:
            ValidationError: The question's vector has another dimension than the stored ones.
        """
        ...

    async def begin_search(
        self, phrases: Sequence[str], limit: int
    ) -> tuple[StoreState, dict[str, frozenset[str] | None]]:
        """Return `get_state` and `find_matches`, at once."""
        ...

    async def get_pool(
        self,
        token_ids: Sequence[str],
        chunk_ids: Sequence[str],
        names: Sequence[str],
        as_of: datetime | None,
        passage_ids: Sequence[str] = (),
    ) -> tuple[dict[str, bytes], dict[str, list[Mention]], list[str], dict[str, Passage]]:
        """Return `get_tokens`, `get_named`, `find_named` and `get_passages`, at once."""
        ...

    async def get_hop(
        self,
        chunk_ids: Sequence[str],
        entity_ids: Sequence[str],
        as_of: datetime | None,
        limit: int,
    ) -> tuple[dict[str, Passage], dict[str, list[Mention]]]:
        """Return `get_passages` and `get_mentions`, at once."""
        ...

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
        """Return `get_summaries`, `get_passages` and what compares them, at once.

        Args:
            memory_ids: The memories.
            chunk_ids: The chunks.
            beginning: How many characters to return of texts that are in several chunks.
            cosines: Whether to compare the chunks with each other.
            others: Chunks whose memories are only counted.
            filters: Decides which of those count.
        """
        ...

    async def find_hits(
        self, request: TextSearchRequest
    ) -> tuple[dict[str, MemorySummary], dict[str, Passage]]:
        """Return the memories and the texts of what `rank_by_words` would find, best first."""
        ...

    async def get_beginnings(self, memory_ids: Sequence[str], length: int) -> dict[str, str]:
        """Return how the memories' texts begin, in so many characters."""
        ...

    async def get_members(self, chunk_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return all chunks of the groups these chunks belong to, by the group's name."""
        ...

    async def get_similarities(
        self, query_embedding: Sequence[float], chunk_ids: Sequence[str], *, second: bool = False
    ) -> dict[str, float]:
        """Return how near these chunks are, where they have a vector: in the second space if asked.

        Raises:
            ValidationError: The vector has another dimension than those of the space.
        """
        ...

    async def get_places(self, chunk_ids: Sequence[str], filters: MemoryFilter) -> dict[str, Place]:
        """Return the group and the neighbors of chunks, and whether the filter selects them."""
        ...

    async def get_passages(self, chunk_ids: Sequence[str]) -> dict[str, Passage]:
        """Return the chunks' texts."""
        ...

    async def get_tokens(self, chunk_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the chunks' token vectors in the active space, where there are any."""
        ...

    async def get_contexts(self, after: str | None, limit: int) -> list[IndexedChunk]:
        """Return chunks with the words they are found by in addition, after one of them."""
        ...

    async def store_contexts(self, contexts: Mapping[str, str]) -> None:
        """Replace the additional words of chunks, by id; deleted chunks are passed over."""
        ...

    async def bm25_search(self, request: TextSearchRequest) -> list[BM25SearchResult]:
        """Return the chunks matching any term, best first. No term can be a syntax error."""
        ...


class EmbeddingStore(Protocol):
    """Stores vectors; one embedding space is active, and two are never mixed.

    Next to it there may be a second space: of the passages that the model of the first one does not
    read.
    """

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

    async def get_unseen(self, space: EmbeddingSpace, limit: int) -> list[PendingChunk]:
        """Return the chunks after those that were checked for this second space, oldest first."""
        ...

    async def store_second(
        self, space: EmbeddingSpace, vectors: Sequence[ChunkVector], seen: str
    ) -> None:
        """Store vectors in the second space, and that chunks were checked up to `seen`.

        Another second space ends, unless there are no vectors. Chunks deleted meanwhile are passed
        over.
        """
        ...

    async def sample_second(self, limit: int) -> bytes:
        """Return vectors of the second space one after another, as float32: all, or so many."""
        ...

    async def activate_space(self, space: EmbeddingSpace) -> int:
        """Make searches use this space if no chunk is pending in it.

        Returns how many still are: 0 means the switch is done and the other spaces' vectors
        are gone.
        """
        ...

    async def tidy(self) -> int:
        """Bring what is stored into the form that is searched best; return in how many steps."""
        ...


class GraphStore(Protocol):
    """Stores entities and relationships, each linked to the passages that support it.

    An entity exists while a passage mentions it, a relationship while a sentence states it, or
    while a caller gave it. Changing, superseding or deleting a memory withdraws its evidence in
    the same transaction: what a superseded memory or an earlier text stated has ended and can be
    read with `as_of`; of a deleted memory nothing is left. Superseding ends it when the successor
    begins (`occurred_at`), and undoing that restores it.
    """

    async def store_entities(
        self, entities: Sequence[EntityData], relationships: Sequence[RelationshipData]
    ) -> int:
        """Create or update entities, then relationships between them; return how many entities.

        The caller gives them: no passage has to support them.
        """
        ...

    async def store_extractions(
        self,
        extractor: str,
        chunks: Sequence[ExtractedChunk],
        same: Sequence[tuple[str, str]] = (),
    ) -> GraphGrowth:
        """Store what was found in passages, all of it or nothing, and that they were read.

        What was stored for such a passage before is replaced: the same again changes nothing.
        Passages deleted meanwhile are passed over. Each pair in `same` merges the first entity
        into the second, unless the first was merged before or that merge was undone.

        Raises:
            ValidationError: A relationship names an entity that is not among the passage's.
        """
        ...

    async def get_cooccurring(self) -> tuple[list[CooccurringPair], int]:
        """Return the pairs that sentences name together, and how many memories there are.

        What was withdrawn does not count.
        """
        ...

    async def set_associations(self, associations: Sequence[tuple[EdgeKey, float]]) -> None:
        """Set how strongly pairs that sentences name together are associated.

        Those with 0 are not shown. Pairs deleted meanwhile are passed over.
        """
        ...

    async def end_statements(self) -> None:
        """End what a later text says is over; what nothing ends any longer holds again.

        A text says so by a statement of the same relationship that had ended when it was made, and
        whose beginning is not known.
        """
        ...

    async def get_unread(
        self, extractor: str, scope: GraphScope, after: str | None, limit: int
    ) -> list[UnreadChunk]:
        """Return passages without a stored extraction of this kind, beginning after a passage."""
        ...

    async def count_unread(self, extractor: str, scope: GraphScope) -> int:
        """Count the passages without a stored extraction of this kind."""
        ...

    async def merge_entities(self, source_id: str, target_id: str) -> Merge:
        """Merge one entity into another, now and in texts to come; nothing is lost.

        Raises:
            NotFoundError: One of them does not exist.
            ValidationError: They are one already.
        """
        ...

    async def undo_merge(self, source_id: str | None) -> Merge | None:
        """Undo the newest merge of this entity into another; None: the newest merge of all.

        A merge undone is not made again by itself. Returns None if there is nothing to undo.
        """
        ...


class GraphReadStore(Protocol):
    """Reads the graph. A merged entity is read as what it was merged into.

    Times: a relationship holds from `valid_from` until `valid_to`, if its sentence says so;
    otherwise from when its memory was said until something ends it. Of an exclusive relationship
    the newer statement ends the older one (`zapomni_db.rules.when_replaced`).

    What memories of `hidden` projects say is read as if it were not there: an entity or a
    relationship that only they state does not exist.
    """

    async def find_entities(self, query: EntityQuery) -> list[Entity]:
        """Return entities, best match first, then the most mentioned.

        Names and aliases are compared regardless of case (`rules.fold`). If no name equals
        or contains the text, those most like it are returned (`rules.likeness`).
        """
        ...

    async def get_entities(
        self,
        entity_ids: Sequence[str],
        as_of: datetime | None = None,
        hidden: Sequence[str] = (),
    ) -> dict[str, Entity]:
        """Return those that exist and had evidence then, by the id asked for."""
        ...

    async def get_edges(self, entity_ids: Sequence[str], query: EdgeQuery) -> list[Edge]:
        """Return the relationships that hold between these entities and others, both directions."""
        ...

    async def get_evidence(
        self,
        edges: Sequence[EdgeKey],
        as_of: datetime | None,
        limit: int,
        hidden: Sequence[str] = (),
    ) -> dict[EdgeKey, list[Evidence]]:
        """Return the strongest, then newest sentences that state each relationship then."""
        ...

    async def get_past(
        self,
        entity_id: str,
        as_of: datetime | None,
        limit: int,
        *,
        hidden: Sequence[str] = (),
        without: Sequence[str] = (),
    ) -> EntityPast:
        """Return when an entity was mentioned, and its relationships that had ended by then.

        At most `limit` of those, none of the types in `without`.
        """
        ...

    async def find_named(self, names: Sequence[str], as_of: datetime | None) -> list[str]:
        """Return the ids of all entities whose name or alias is one of these, folded."""
        ...

    async def get_mentions(
        self, entity_ids: Sequence[str], as_of: datetime | None, limit: int
    ) -> dict[str, list[Mention]]:
        """Return the newest passages that mention each entity, at most `limit` of each."""
        ...

    async def get_named(
        self, chunk_ids: Sequence[str], as_of: datetime | None
    ) -> dict[str, list[Mention]]:
        """Return the entities each passage mentions, once each, in the order of the text."""
        ...

    async def list_entities(
        self, after: str | None, limit: int, hidden: Sequence[str] = ()
    ) -> list[Entity]:
        """Return all entities that have evidence now, page by page, in the order of their ids."""
        ...

    async def get_names(self, types: Sequence[str]) -> list[EntityName]:
        """Return the names of all entities of these types, merged ones included."""
        ...

    async def get_graph_stats(self, extractor: str) -> GraphStats:
        """Count what the graph holds now, and the passages this extractor has not read."""
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

    async def get_copies(
        self, memory_ids: Sequence[str], *, passages: bool = True
    ) -> list[MemoryCopy]:
        """Return those of these memories that exist, in the order they were stored.

        Without `passages` they have none, which is much less to read.
        """
        ...

    async def list_ids(self, filters: MemoryFilter, *, prefix: str = "") -> list[str]:
        """Return the ids of all memories that match and begin so, in the order of the ids."""
        ...

    async def import_memories(self, memories: Sequence[MemoryCopy]) -> None:
        """Keep these as they are, in this order: with their ids, dates, keys and vectors.

        Equal texts are not joined. Each memory is kept whole or not at all, and none before
        the one it comes after. What a memory supersedes comes before it.

        Raises:
            DatabaseError: An id is here already, or writing failed.
        """
        ...

    async def put_memory(self, memory: MemoryCopy, seen: datetime | None) -> bool:
        """Make a memory this one, with its id, dates and history, whether it is here or not.

        `seen` is when it was changed last as the caller read it, None if it was not here. If it
        is otherwise by now, nothing is written, and False returned. Equal texts are not joined.
        What it supersedes is left to `set_successors`. An idempotency key that another memory has
        is left out. The vectors of an unchanged text stay.

        Raises:
            DatabaseError: Writing failed; it is what it was.
        """
        ...

    async def set_successors(self, successors: Mapping[str, str | None]) -> None:
        """Let each of these memories be superseded by another one, or by none.

        Unlike an update this does not depend on which of two was stored first. Ids that are not
        here are passed over; the caller sees to it that none supersede each other in a circle.
        """
        ...

    async def export_entities(self, after: str | None, limit: int) -> list[EntityData]:
        """Return the next entities given by callers; `after` is the last id seen.

        They and their relationships are kept by `store_entities`.
        """
        ...

    async def export_relationships(
        self, after: tuple[str, str, str] | None, limit: int
    ) -> list[RelationshipData]:
        """Return the next relationships given by callers; `after` is the last seen."""
        ...

    async def get_readings(self, memory_ids: Sequence[str]) -> list[ReadingCopy]:
        """Return what was extracted from those of the memories that an extractor has read."""
        ...

    async def import_readings(self, readings: Sequence[ReadingCopy]) -> None:
        """Let these memories, which are here already, say this; the same again changes nothing.

        Those deleted meanwhile are passed over.
        """
        ...

    async def export_whole(self, memory_ids: Sequence[str]) -> list[WholeMemory]:
        """Return those of the memories that exist, whole, in the order they were stored."""
        ...

    async def restore_memories(
        self, memories: Sequence[WholeMemory], links: Sequence[tuple[str, str]]
    ) -> None:
        """Store deleted memories again, in their old places; the same again changes nothing.

        One that is here already is left as it is, unless it is what was exported: then what was
        extracted from it is stored again. `links` are pairs of an older memory and the one that
        supersedes it. A link is made if both are here and the older one is current.

        Raises:
            DatabaseError: Writing failed; call it again.
        """
        ...

    async def export_merges(self) -> list[MergeCopy]:
        """Return all merges, undone ones too, in the order they were made."""
        ...

    async def import_merges(self, merges: Sequence[MergeCopy]) -> None:
        """Make the merges these, in this order."""
        ...


class StorageProvider(
    MemoryStore, SearchStore, EmbeddingStore, GraphStore, GraphReadStore, CopyStore, Protocol
):
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

    def snapshot(self) -> AbstractAsyncContextManager[StorageProvider]:
        """Yield this store for reading: all reads see one state of it, if the engine can.

        SQLite does. FalkorDB has no snapshot, so a reader must bear two reads that disagree.
        """
        ...

    async def health_check(self) -> bool:
        """Return whether the store answers. Never raises."""
        ...

    async def check_integrity(self) -> Mapping[str, str]:
        """Check the stored structures; return problems by the name of the check, none if sound."""
        ...
