"""Counting, checking, renaming and deleting a graph."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, LiteralString

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.schema import CURRENT_VERSION, find_missing
from zapomni_db.falkordb.spaces import active_slot, count_pending
from zapomni_db.models import MemoryStats

__all__ = [
    "check_integrity",
    "count_chunks",
    "delete_graph",
    "get_stats",
    "get_version",
    "rename_graph",
]

# Finds the counter that every write raises.
_VERSION: LiteralString = "MATCH (s:Store) RETURN s.version"
# Counts the chunks.
_COUNT_CHUNKS: LiteralString = "MATCH (c:Chunk) RETURN count(c)"
# Counts all memories, and those that are files of code.
_COUNT_MEMORIES: LiteralString = (
    "MATCH (m:Memory) RETURN count(m), count(CASE WHEN m.kind = 'code' THEN 1 END)"
)
# Counts the entities; merged ones count as one.
_COUNT_ENTITIES: LiteralString = "MATCH (e:Entity) WHERE outdegree(e, 'IS') = 0 RETURN count(e)"
# Changes the counter to a value that no other graph of this name had.
_CHANGE_VERSION: LiteralString = "MATCH (s:Store) SET s.version = s.version + $by"


async def get_version(session: Session) -> int:
    ((version,),) = await session.read_store(_VERSION)
    return int(version)


async def count_chunks(session: Session) -> int:
    ((number,),) = await session.read(_COUNT_CHUNKS)
    session.known.chunks = int(number)
    return int(number)


async def get_stats(session: Session) -> dict[str, Any]:
    ((memories, code),) = await session.read(_COUNT_MEMORIES)
    ((entities,),) = await session.read(_COUNT_ENTITIES)
    usage = await session.command("GRAPH.MEMORY", "USAGE", session.graph)
    slot, chunks = await active_slot(session)
    stats = MemoryStats(
        total_memories=memories - code,
        total_chunks=chunks,
        total_entities=entities,
        code_files=code,
        # The server counts whole megabytes and leaves the rest away.
        database_size_mb=usage[usage.index("total_graph_sz_mb") + 1] + 1.0,
        graph_name=session.graph,
        engine="falkordb",
        schema_version=CURRENT_VERSION,
        pending_vectors=await count_pending(session, None),
        embedding_model=slot.space.model if slot.space else None,
        embedding_dimension=slot.space.dimension if slot.space else None,
    )
    return stats.model_dump(exclude_none=True)


# Patterns of damage, by what is reported: each matches nodes or edges `c` that no statement of ours
# leaves behind.
_DAMAGE: dict[str, LiteralString] = {
    "passages without a memory": "MATCH (c:Chunk) WHERE indegree(c, 'HAS_CHUNK') <> 1",
    "memories without passages": "MATCH (c:Memory) WHERE outdegree(c, 'HAS_CHUNK') = 0",
    "memories without text": "MATCH (c:Memory) WHERE c.text IS NULL",
    "superseded by a memory that is missing": "MATCH (c:Memory) WHERE c.superseded_by IS NOT NULL"
    " OPTIONAL MATCH (newer:Memory {id: c.superseded_by}) WITH c, newer WHERE newer IS NULL",
    "passages wrongly marked as having a vector": "MATCH (e:EmbeddingSpace {active: true})"
    " MATCH (c:Chunk) WHERE c.pending IS NULL AND c[e.vectors] IS NULL",
    "passages wrongly marked as waiting for a vector": "MATCH (e:EmbeddingSpace {active: true})"
    " MATCH (c:Chunk {pending: true}) WHERE c[e.vectors] IS NOT NULL",
    "passages that cannot be found by their words": "MATCH (c:Chunk) WHERE c.words IS NULL",
    "versions without a memory": "MATCH (c:Version) WHERE indegree(c, 'WAS') <> 1",
    "entities that nothing mentions": "MATCH (c:Entity) WHERE NOT c.given"
    " AND indegree(c, 'MENTIONS') = 0 AND indegree(c, 'RELATES') = 0"
    " AND outdegree(c, 'RELATES') = 0",
    "entities that are merged twice": "MATCH (c:Entity) WHERE outdegree(c, 'IS') > 1"
    " OR (outdegree(c, 'IS') = 1 AND indegree(c, 'IS') > 0)",
    "statements of a memory that is missing": "MATCH (:Entity)-[c:RELATES]->(:Entity)"
    " WHERE c.memory IS NOT NULL OPTIONAL MATCH (m:Memory {id: c.memory}) WITH c, m"
    " WHERE m IS NULL",
    "statements of a passage that is missing": "MATCH (:Entity)-[c:RELATES]->(:Entity)"
    " WHERE c.chunk IS NOT NULL OPTIONAL MATCH (p:Chunk {id: c.chunk}) WITH c, p"
    " WHERE p IS NULL",
}
# Compares the counters of the Store with what is stored.
_COUNTERS_MATCH: LiteralString = (
    "MATCH (c:Chunk) WITH count(c) AS chunks, toInteger(sum(c.size)) AS words"
    " MATCH (s:Store) RETURN s.chunks = chunks AND s.words = words"
)


async def check_integrity(session: Session) -> Mapping[str, str]:
    problems = dict.fromkeys(await find_missing(session), "missing")
    for name, pattern in _DAMAGE.items():
        ((wrong,),) = await session.read(pattern + " RETURN count(c)")
        if wrong:
            problems[name] = f"{wrong} found"
    ((counters_match,),) = await session.read(_COUNTERS_MATCH)
    if not counters_match:
        problems["counters"] = "do not match what is stored"
    return problems


async def rename_graph(session: Session, name: str) -> None:
    """Rename the graph, replacing the graph that has the name, in one step."""
    # Clients that know the other graph by its counter must notice that this is another one.
    await session.write(_CHANGE_VERSION, by=int(time.time()))
    await session.command("RENAME", session.graph, name)
    await session.command("DEL", f"telemetry{{{session.graph}}}", f"telemetry{{{name}}}")


async def delete_graph(session: Session) -> None:
    await session.command("GRAPH.DELETE", session.graph)
    # The last queries with their contents, if the server is configured to store them (CMD_INFO).
    await session.command("DEL", f"telemetry{{{session.graph}}}")
