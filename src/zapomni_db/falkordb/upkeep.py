"""Counting and checking what is stored."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import LiteralString

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.schema import CURRENT_VERSION, find_missing
from zapomni_db.falkordb.spaces import active_slot, count_pending
from zapomni_db.models import MemoryStats

__all__ = ["check_integrity", "count_chunks", "drop", "rename", "stats", "version"]


async def version(session: Session) -> int:
    """Return the counter that every write raises."""
    return int((await session.read_store("MATCH (s:Store) RETURN s.version"))[0][0])


async def count_chunks(session: Session) -> int:
    return int((await session.read("MATCH (c:Chunk) RETURN count(c)"))[0][0])


async def stats(session: Session) -> MemoryStats:
    ((memories, code),) = await session.read(
        "MATCH (m:Memory) RETURN count(m), count(CASE WHEN m.kind = 'code' THEN 1 END)"
    )
    # Merged ones count as one, as everywhere.
    entities = await session.read("MATCH (e:Entity) WHERE outdegree(e, 'IS') = 0 RETURN count(e)")
    usage = await session.command("GRAPH.MEMORY", "USAGE", session.graph)
    slot, chunks = await active_slot(session)
    return MemoryStats(
        total_memories=memories - code,
        total_chunks=chunks,
        total_entities=entities[0][0],
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


# Each counts what is wrong; 0 is sound.
_CHECKS: dict[str, LiteralString] = {
    "passages without a memory": "MATCH (c:Chunk) WHERE indegree(c, 'HAS_CHUNK') <> 1",
    "memories without passages": "MATCH (c:Memory) WHERE outdegree(c, 'HAS_CHUNK') = 0",
    "memories without text": "MATCH (c:Memory) WHERE c.text IS NULL",
    "superseded by a memory that is gone": "MATCH (c:Memory) WHERE c.superseded_by IS NOT NULL"
    " OPTIONAL MATCH (newer:Memory {id: c.superseded_by}) WITH c, newer WHERE newer IS NULL",
    "passages wrongly marked as having a vector": "MATCH (e:EmbeddingSpace {active: true})"
    " MATCH (c:Chunk) WHERE c.pending IS NULL AND c[e.vectors] IS NULL",
    "passages wrongly marked as waiting for a vector": "MATCH (e:EmbeddingSpace {active: true})"
    " MATCH (c:Chunk {pending: true}) WHERE c[e.vectors] IS NOT NULL",
    "passages that cannot be found by their words": "MATCH (c:Chunk) WHERE c.words IS NULL",
    "versions without a memory": "MATCH (c:Version) WHERE indegree(c, 'WAS') <> 1",
    "entities nothing speaks of": "MATCH (c:Entity) WHERE NOT c.given"
    " AND indegree(c, 'MENTIONS') = 0 AND indegree(c, 'RELATES') = 0"
    " AND outdegree(c, 'RELATES') = 0",
    "entities that are merged twice": "MATCH (c:Entity) WHERE outdegree(c, 'IS') > 1"
    " OR (outdegree(c, 'IS') = 1 AND indegree(c, 'IS') > 0)",
    "sentences of a memory that is gone": "MATCH (:Entity)-[c:RELATES]->(:Entity)"
    " WHERE c.memory IS NOT NULL OPTIONAL MATCH (m:Memory {id: c.memory}) WITH c, m"
    " WHERE m IS NULL",
    "sentences of a passage that is gone": "MATCH (:Entity)-[c:RELATES]->(:Entity)"
    " WHERE c.chunk IS NOT NULL OPTIONAL MATCH (p:Chunk {id: c.chunk}) WITH c, p"
    " WHERE p IS NULL",
}
_COUNTERS = (
    "MATCH (c:Chunk) WITH count(c) AS chunks, toInteger(sum(c.size)) AS words"
    " MATCH (s:Store) RETURN s.chunks = chunks AND s.words = words"
)


async def check_integrity(session: Session) -> Mapping[str, str]:
    """Look for what no statement of ours would leave behind."""
    problems = dict.fromkeys(await find_missing(session), "missing")
    for name, pattern in _CHECKS.items():
        ((wrong,),) = await session.read(pattern + " RETURN count(c)")
        if wrong:
            problems[name] = f"{wrong} found"
    if not (await session.read(_COUNTERS))[0][0]:
        problems["counters"] = "do not match what is stored"
    return problems


async def rename(session: Session, name: str) -> None:
    """Give the graph another name, in the place of the graph that has it, in one step."""
    # Clients that know the other graph by its counter must see that this one is not it.
    await session.write("MATCH (s:Store) SET s.version = s.version + $by", by=int(time.time()))
    await session.command("RENAME", session.graph, name)
    await session.command("DEL", f"telemetry{{{session.graph}}}", f"telemetry{{{name}}}")


async def drop(session: Session) -> None:
    await session.command("GRAPH.DELETE", session.graph)
    # The last queries, contents and all, if the server is set to keep them (CMD_INFO).
    await session.command("DEL", f"telemetry{{{session.graph}}}")
