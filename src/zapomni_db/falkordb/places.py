"""Where passages stand: their texts, what they belong to, what stands beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.filters import where
from zapomni_db.falkordb.values import from_json, from_time
from zapomni_db.models import MemoryFilter, Passage, Place

__all__ = ["members", "passages", "places"]

MOST_MEMBERS = 20_000


async def passages(session: Session, chunk_ids: Sequence[str]) -> dict[str, Passage]:
    rows = await session.read(
        "MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids"
        " RETURN c.id, m.id, c.text, m.metadata",
        ids=list(chunk_ids),
    )
    return {
        chunk_id: Passage.model_construct(
            chunk_id=chunk_id, memory_id=memory_id, text=text, metadata=from_json(metadata)
        )
        for chunk_id, memory_id, text, metadata in rows
    }


_GROUPS = """
MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids
WITH DISTINCT m.group AS group
MATCH (m:Memory {group: group})-[:HAS_CHUNK]->(c:Chunk)
"""


async def members(session: Session, chunk_ids: Sequence[str]) -> dict[str, list[str]]:
    rows = await session.read(
        # One string per group comes back much faster than a row per passage.
        _GROUPS + "WITH group, c LIMIT $most RETURN group, string.join(collect(c.id), ',')",
        ids=list(chunk_ids),
        most=MOST_MEMBERS,
    )
    return {group: ids.split(",") for group, ids in rows}


async def places(
    session: Session, chunk_ids: Sequence[str], filters: MemoryFilter
) -> dict[str, Place]:
    condition, values = where(filters)
    rows, groups = await asyncio.gather(
        session.read(
            "MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids"
            f" RETURN c.id, m.id, m.group, m.occurred_at, {condition}",
            ids=list(chunk_ids),
            **values,
        ),
        session.read(
            _GROUPS + "WITH group, m, c ORDER BY c.index"
            " WITH group, m, string.join(collect(c.id), ',') AS ids ORDER BY m.position"
            " RETURN group, string.join(collect(toString(m.position) + ':' + ids), ';')",
            ids=list(chunk_ids),
        ),
    )
    beside: dict[str, tuple[str | None, str | None]] = {}
    sizes: dict[str, int] = {}
    for group, written in groups:
        found = _beside(_read_group(written))
        beside |= found
        sizes[group] = len(found)
    return {
        chunk_id: Place(
            chunk_id, memory_id, group, sizes[group], *beside[chunk_id], from_time(at), selected
        )
        for chunk_id, memory_id, group, at, selected in rows
        # Between the two questions it may have been deleted.
        if chunk_id in beside
    }


def _read_group(written: str) -> list[list[list[str]]]:
    """Return the passages of each memory, and the memories of each position, in order."""
    memories = (memory.split(":") for memory in written.split(";"))
    by_position: dict[str, list[list[str]]] = {}
    for position, ids in memories:
        by_position.setdefault(position, []).append(ids.split(","))
    return list(by_position.values())


def _beside(
    positions: Sequence[Sequence[Sequence[str]]],
) -> dict[str, tuple[str | None, str | None]]:
    """Return what stands before and after each passage.

    That is the next one of its memory, or else of the next memory at another position.
    """
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for memories in positions:
        for ids in memories:
            after |= dict(pairwise(ids))
            before |= {later: earlier for earlier, later in pairwise(ids)}
    for earlier, later in pairwise(positions):
        before |= {ids[0]: earlier[0][-1] for ids in later}
        after |= {ids[-1]: later[0][0] for ids in earlier}
    every = (chunk_id for memories in positions for ids in memories for chunk_id in ids)
    return {chunk_id: (before.get(chunk_id), after.get(chunk_id)) for chunk_id in every}
