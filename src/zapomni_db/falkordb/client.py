"""FalkorDBClient: the storage engine on a FalkorDB server.

A method is a function of this package that is run in a session: what it does is written there, what
it promises on `zapomni_db.interfaces.StorageProvider`.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from zapomni_db.copy_models import MemoryCopy
from zapomni_db.exceptions import DatabaseConnectionError, ValidationError
from zapomni_db.falkordb import (
    copying,
    graph,
    graph_reads,
    memories,
    schema,
    search,
    spaces,
    specification,
    upkeep,
)
from zapomni_db.falkordb.connection import Address, Guard, Pool, Session
from zapomni_db.logs import get_logger
from zapomni_db.models import EmbeddingSpace, MemoryData, MemoryPatch, StoredMemory

__all__ = ["FalkorDBClient"]

P = ParamSpec("P")
T = TypeVar("T")

# A text of ten million characters has 12,000 chunks: no timeout made for one memory fits it.
MANY_CHUNKS = 1000
SECONDS_PER_CHUNK = 0.01

logger = get_logger(__name__)


def operation(
    function: Callable[Concatenate[Session, P], Awaitable[T]],
) -> Callable[Concatenate[FalkorDBClient, P], Coroutine[Any, Any, T]]:
    """Return the method that runs a function in a session of the client, under the same name."""
    name = function.__name__

    async def method(client: FalkorDBClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client.run(name, function, *args, **kwargs)

    method.__name__, method.__doc__ = name, function.__doc__
    return method


class FalkorDBClient:
    """Memories, vectors and graph on a FalkorDB server.

    Connects by itself when first used. Any number of tasks may use it at once.

    Args:
        host: The server's host.
        port: Its port.
        graph_name: The graph that holds everything.
        unix_socket: A socket instead of host and port.
        ssl: Whether to use TLS.
        ssl_ca_certs: A file with the certificates to trust; None trusts the system's.
        username: The user name; None for a server with a password alone.
        password: The password, if there is one.
        pool_size: How many connections may be open at once.
        max_retries: How often an unreachable server is tried again, after 1, 2, 4, ... seconds.
        timeout: Seconds an operation may take, retries included.
        dimension: The dimension `add_memory` expects of every embedding.
        hnsw: How the vector index is built and searched.
        allow_volatile: Use a server that loses everything when it dies.
        guard: Wraps every operation, for example in a circuit breaker.
    """

    def __init__(  # noqa: PLR0913 - servers differ in this much
        self,
        host: str = "localhost",
        port: int = 6379,
        graph_name: str = "zapomni",
        *,
        unix_socket: str | None = None,
        ssl: bool = False,
        ssl_ca_certs: str | None = None,
        username: str | None = None,
        password: str | None = None,
        pool_size: int = 10,
        max_retries: int = 3,
        timeout: float = 30.0,
        dimension: int = 768,
        hnsw: schema.HnswOptions = schema.HnswOptions(),  # noqa: B008 - frozen
        allow_volatile: bool = False,
        guard: Guard | None = None,
    ) -> None:
        # Any name will do, but for characters that would cut it short or hide in it.
        if not graph_name.strip() or len(graph_name) > 200 or not graph_name.isprintable():
            raise ValidationError("graph_name must be 1 to 200 visible characters", "VAL_004")
        for name, value, minimum in (
            ("pool_size", pool_size, 1),
            ("max_retries", max_retries, 0),
            ("dimension", dimension, 1),
        ):
            if value < minimum:
                raise ValidationError(f"{name} must be at least {minimum}, got {value}", "VAL_003")
        if not 0 < timeout < math.inf:
            raise ValidationError(f"timeout must be a positive number of seconds, got {timeout}")
        address = Address(host, port, unix_socket, ssl, ssl_ca_certs, username, password)

        def open_pool() -> Pool:
            return Pool(
                address,
                graph_name,
                size=pool_size,
                timeout=timeout,
                max_retries=max_retries,
                allow_volatile=allow_volatile,
                hnsw=hnsw,
                prepare=schema.prepare,
                guard=guard,
            )

        self._open_pool = open_pool
        self._pool: Pool | None = None
        self._is_closed = False
        self.dimension = dimension

    # --- Connection ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Reach the server, check it, create what is missing. Safe to call again.

        Raises:
            DatabaseConnectionError: The server is unreachable, refuses us, or is volatile.
            SchemaError: It is no FalkorDB, too old, or the graph is not ours.
        """
        self._is_closed = False
        try:
            await self.run("connect", upkeep.get_version)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every connection. Safe to call again."""
        self._is_closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Self]:
        """Yield this store: the server has no snapshots, each read sees the state of its moment."""
        yield self

    @property
    def pool(self) -> Pool:
        """The connections, opened when first used.

        Raises:
            DatabaseConnectionError: The client is closed.
        """
        if self._is_closed:
            raise DatabaseConnectionError("The client is closed; call connect() first.")
        if self._pool is None:
            self._pool = self._open_pool()
        return self._pool

    async def run(
        self,
        name: str,
        function: Callable[Concatenate[Session, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a function of this package in a session, as the operation of this name."""
        return await self.pool.run(name, lambda session: function(session, *args, **kwargs))

    # --- Memories -----------------------------------------------------------------------

    async def store_memory(self, memory: MemoryData) -> str:
        """Store one memory and return its id."""
        (stored,) = await self.store("store_memory", [memory])
        return stored.memory_id

    async def store_memories(self, memories: Sequence[MemoryData]) -> list[StoredMemory]:
        """Store all of these or none, in one statement."""
        return await self.store("store_memories", memories)

    async def import_memories(self, memories: Sequence[MemoryCopy]) -> None:
        """Store these unchanged, in this order."""
        await self.store("import_memories", memories, join=False)

    async def store(
        self, name: str, batch: Sequence[MemoryData], *, join: bool = True
    ) -> list[StoredMemory]:
        """Store memories as the operation of this name, and log what was stored."""
        started = time.perf_counter()
        chunks = sum(len(memory.chunks) for memory in batch)
        retries = 0

        async def store(session: Session) -> list[StoredMemory]:
            nonlocal retries
            retries = session.retries
            return await memories.store_memories(session, batch, join=join)

        stored = await self.pool.run(name, store, patience=_patience(chunks))
        logger.info(
            "memories_stored",
            engine="falkordb",
            operation=name,
            memory_ids=[one.memory_id for one in stored[:10]],
            count=len(stored),
            chunks=chunks,
            metadata_keys=sorted({str(key)[:50] for one in batch for key in one.metadata})[:20],
            retries=retries,
            duration_ms=round((time.perf_counter() - started) * 1000, 1),
        )
        return stored

    async def update_memory(self, memory_id: str, patch: MemoryPatch | Mapping[str, Any]) -> bool:
        """Apply a patch, or a mapping with its fields, in one statement."""
        changes = specification.to_patch(patch)
        return await self.pool.run(
            "update_memory",
            lambda session: memories.update_memory(session, memory_id, changes),
            patience=_patience(len(changes.chunks or [])),
        )

    find_existing = operation(memories.find_existing)
    get_memory = operation(memories.get_memory)
    get_summaries = operation(memories.get_summaries)
    get_beginnings = operation(memories.get_beginnings)
    get_contexts = operation(memories.get_contexts)
    store_contexts = operation(memories.store_contexts)
    list_memories = operation(memories.list_memories)
    count_by_project = operation(memories.count_by_project)
    delete_memory = operation(memories.delete_memory)
    delete_memories = operation(memories.delete_memories)
    get_history = operation(memories.get_history)
    put_memory = operation(memories.put_memory)
    set_successors = operation(memories.set_successors)

    # --- Search -------------------------------------------------------------------------

    rank_by_words = operation(search.rank_by_words)
    rank_by_vector = operation(search.rank_by_vector)
    find_matches = operation(search.find_matches)
    find_near_words = operation(search.find_near_words)
    get_similarities = operation(search.get_similarities)
    get_members = operation(search.get_members)
    get_places = operation(search.get_places)
    get_passages = operation(search.get_passages)
    get_surroundings = operation(search.get_surroundings)
    begin_search = operation(search.begin_search)
    get_pool = operation(search.get_pool)
    get_hop = operation(search.get_hop)
    get_hits = operation(search.get_hits)
    find_hits = operation(search.find_hits)
    get_state = operation(spaces.get_state)

    # --- Vectors ------------------------------------------------------------------------

    get_space = operation(spaces.get_space)
    get_unseen = operation(spaces.get_unseen)
    store_second = operation(spaces.store_second)
    sample_second = operation(spaces.sample_second)
    get_embeddings = operation(spaces.get_embeddings)
    get_tokens = operation(spaces.get_tokens)
    get_pending = operation(spaces.get_pending)
    count_pending = operation(spaces.count_pending)
    store_vectors = operation(spaces.store_vectors)

    async def activate_space(self, space: EmbeddingSpace) -> int:
        """Make searches use this space if no chunk is pending in it."""
        missing = await self.run("activate_space", spaces.activate_space, space)
        if not missing:
            # Each batch is an operation with its own timeout.
            while await self.run("activate_space", spaces.delete_unused_vectors):
                pass
        return missing

    async def tidy(self) -> int:
        """Do nothing: the server sees to its own indexes."""
        return 0

    # --- Graph --------------------------------------------------------------------------

    store_entities = operation(graph.store_entities)
    store_extractions = operation(graph.store_extractions)
    get_cooccurring = operation(graph.get_cooccurring)
    set_associations = operation(graph.set_associations)
    end_statements = operation(graph.end_statements)
    merge_entities = operation(graph.merge_entities)
    undo_merge = operation(graph.undo_merge)
    find_entities = operation(graph_reads.find_entities)
    find_named = operation(graph_reads.find_named)
    get_entities = operation(graph_reads.get_entities)
    get_edges = operation(graph_reads.get_edges)
    get_evidence = operation(graph_reads.get_evidence)
    get_past = operation(graph_reads.get_past)
    get_mentions = operation(graph_reads.get_mentions)
    get_named = operation(graph_reads.get_named)
    get_names = operation(graph_reads.get_names)
    get_unread = operation(graph_reads.get_unread)
    count_unread = operation(graph_reads.count_unread)
    list_entities = operation(graph_reads.list_entities)
    get_graph_stats = operation(graph_reads.get_graph_stats)

    # --- Copying ------------------------------------------------------------------------

    export_memories = operation(copying.export_memories)
    get_copies = operation(copying.get_copies)
    list_ids = operation(copying.list_ids)
    export_entities = operation(copying.export_entities)
    export_relationships = operation(copying.export_relationships)
    get_readings = operation(copying.get_readings)
    import_readings = operation(copying.import_readings)
    export_whole = operation(copying.export_whole)
    restore_memories = operation(copying.restore_memories)
    export_merges = operation(copying.export_merges)
    import_merges = operation(copying.import_merges)

    # --- Upkeep -------------------------------------------------------------------------

    get_version = operation(upkeep.get_version)
    count_chunks = operation(upkeep.count_chunks)
    get_stats = operation(upkeep.get_stats)
    check_integrity = operation(upkeep.check_integrity)

    async def rename_graph(self, name: str) -> None:
        """Replace another graph by this one; readers see one or the other."""
        await self.run("rename_graph", upkeep.rename_graph, name)
        self.pool.forget()

    async def drop_graph(self) -> None:
        """Delete the graph with everything in it."""
        await self.run("drop_graph", upkeep.delete_graph)
        self.pool.forget()

    # --- Only the specification asks for these ------------------------------------------

    add_memory = specification.add_memory
    add_memories_batch = specification.add_memories_batch
    vector_search = specification.vector_search
    bm25_search = specification.bm25_search
    get_related = specification.get_related
    graph_query = specification.graph_query
    health_check = specification.health_check


def _patience(chunks: int) -> float:
    return SECONDS_PER_CHUNK * max(0, chunks - MANY_CHUNKS)
