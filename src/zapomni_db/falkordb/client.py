"""FalkorDBClient: the storage engine on a FalkorDB server, and what only this one can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zapomni_db.falkordb import graph_walk, query, schema, upkeep
from zapomni_db.falkordb.connection import Address, Guard, Pool
from zapomni_db.falkordb.store import FalkorDBStore
from zapomni_db.falkordb.validation import check_client, to_memory_data
from zapomni_db.models import Memory

__all__ = ["FalkorDBClient"]


class FalkorDBClient(FalkorDBStore):
    """Memories, vectors and graph on a FalkorDB server.

    Connects by itself when first used. Any number of tasks may use it at once.

    Args:
        host: The server's host.
        port: Its port.
        graph_name: The graph everything lives in.
        unix_socket: A socket instead of host and port.
        ssl: Whether to speak TLS.
        ssl_ca_certs: A file with the certificates to trust; None trusts the system's.
        username: Who we are; None for a server with a password alone.
        password: The password, if there is one.
        pool_size: Connections at once.
        max_retries: How often an unreachable server is tried again, after 1, 2, 4, ... seconds.
        timeout: Seconds an operation may take in all.
        dimension: What `add_memory` expects of every embedding.
        hnsw: How the vector index is built and searched.
        allow_volatile: Use a server that forgets everything when it dies.
        guard: What every operation passes through, such as a circuit breaker.
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
        check_client(graph_name, pool_size, max_retries, timeout, dimension)
        address = Address(host, port, unix_socket, ssl, ssl_ca_certs, username, password)

        def open_pool() -> Pool:
            return Pool(
                address,
                graph_name,
                size=pool_size,
                timeout=timeout,
                max_retries=max_retries,
                allow_volatile=allow_volatile,
                prepare=schema.prepare,
                guard=guard,
            )

        super().__init__(hnsw, open_pool)
        self._dimension = dimension

    async def add_memory(self, memory: Memory) -> str:
        """Store a memory with its chunks and embeddings, all or nothing; return its id.

        Equal texts are separate memories. A chunk whose embedding is all zeros is stored
        without one, and found by its words.

        Raises:
            ValidationError: The memory breaks a rule; the database was not asked.
            DatabaseError: Nothing was stored.
        """
        (memory_id,) = await self._add("add_memory", [memory])
        return memory_id

    async def add_memories_batch(self, memories: Sequence[Memory]) -> list[str]:
        """Store all of these or none, in one statement; return their ids in order."""
        return await self._add("add_memories_batch", memories)

    async def _add(self, operation: str, batch: Sequence[Memory]) -> list[str]:
        checked = [to_memory_data(memory, self._dimension) for memory in batch]
        stored = await self._store(operation, checked, join=False)
        return [one.memory_id for one in stored]

    async def get_related(
        self, entity_id: str, depth: int = 1, limit: int = 100
    ) -> list[graph_walk.RelatedEntity]:
        """Return the entities that relationships lead to in at most `depth` steps, nearest first.

        Raises:
            ValidationError: depth is not from 1 to 10, or limit below 1.
        """
        return await self._run("get_related", graph_walk.related, entity_id, depth, limit)

    async def graph_query(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> query.GraphRows:
        """Run a Cypher statement that only reads, with parameters; the server refuses others."""
        return await self._run("graph_query", query.run, statement, parameters or {})

    async def rename_graph(self, name: str) -> None:
        """Put this graph in the place of another one; readers see one or the other."""
        pool = self._open()
        await pool.run("rename_graph", lambda session: upkeep.rename(session, name))
        pool.forget()

    async def drop_graph(self) -> None:
        """Delete the graph with everything in it."""
        pool = self._open()
        await pool.run("drop_graph", upkeep.drop)
        pool.forget()
