"""Storing memories: plan for what is there, write all of it in one statement.

The statement looks what is there and writes nothing if that is not what was planned for. Then
we look first, and plan anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zapomni_db.exceptions import NotFoundError, QueryError, ValidationError, ZapomniError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.schema import HnswOptions, ensure_vector_index
from zapomni_db.falkordb.spaces import (
    CLAIM,
    SLOT_ROW,
    Slot,
    claim,
    claim_values,
    slot_of,
)
from zapomni_db.falkordb.storing_rows import idempotency_hash, memory_rows
from zapomni_db.falkordb.values import check_id, content_hash, digest, to_time
from zapomni_db.models import MemoryData, StoredMemory

__all__ = ["CREATE_CHUNKS", "END_EVIDENCE", "find_existing", "store"]

# One row per memory: itself if it is here, what its key was used for, the live memories with its
# text in its place (oldest first), the memory it supersedes.
_LOOK = f"""
UNWIND $asked AS a
OPTIONAL MATCH (own:Memory {{id: a.id}})
OPTIONAL MATCH (keyed:Memory {{idempotency_hash: a.idempotency_hash}})
OPTIONAL MATCH (same:Memory {{content_hash: a.content_hash}})
    WHERE same.project_hash = a.project_hash AND same.parent = a.parent
    AND same.position = a.position AND same.superseded_by IS NULL
OPTIONAL MATCH (older:Memory {{id: a.supersedes}})
WITH a, own, keyed, older, same ORDER BY same.key
WITH a, coalesce(own.id, '') AS own, coalesce(keyed.id, '') AS keyed,
    coalesce(keyed.content_hash, '') AS used_for, coalesce(older.id, '') AS older,
    collect(same.id) AS same
ORDER BY a.number
WITH collect([own, keyed, used_for, same, older]) AS found
OPTIONAL MATCH (e:EmbeddingSpace {{active: true}})
WITH found, {SLOT_ROW} AS active
"""

_CREATE_MEMORIES = """
MATCH (s:Store)
WITH s, s.keys AS base
SET s.version = s.version + 1, s.keys = base + $keys, s.words = s.words + $words,
    s.chunks = s.chunks + $chunks, s.graph = s.graph + $ended
WITH base
UNWIND $memories AS x
CREATE (m:Memory {
    id: x.id, key: base + x.key, text: x.text, length: x.length, metadata: x.metadata,
    content_hash: x.content_hash, project: x.project, project_hash: x.project_hash,
    source: x.source, kind: x.kind, tags: x.tags, pinned: x.pinned, parent: x.parent,
    position: x.position, group: x.group, occurred_at: x.occurred_at, said: x.said,
    created_at: x.created_at,
    updated_at: x.updated_at, idempotency_key: x.idempotency_key,
    idempotency_hash: x.idempotency_hash})
FOREACH (v IN x.versions | CREATE (m)-[:WAS]->(:Version {key: base + v.key,
    replaced_at: v.replaced_at, fields: v.fields, text: v.text}))
WITH base, m, x UNWIND x.chunks AS y
"""

CREATE_CHUNKS = """
CREATE (m)-[:HAS_CHUNK {{index: y.index}}]->(c:Chunk {{
    id: y.id, key: base + y.key, index: y.index, text: y.text, text_hash: y.text_hash,
    start_char: y.start_char, end_char: y.end_char, metadata: y.metadata, context: y.context,
    words: y.words, size: y.size, pending: y.pending,
    {vectors}: vecf32(y.vector), {tokens}: y.tokens}})
"""
"""From the memory `m`, the number `base` and a chunk's row `y`."""

_SUPERSEDE = """
WITH count(c) AS made WHERE made > 0
UNWIND $superseded AS pair MATCH (o:Memory {id: pair.older})
SET o.superseded_by = pair.newer, o.superseded_at = pair.at
WITH o.id AS older, pair.since AS ended
"""

END_EVIDENCE = """
OPTIONAL MATCH (:Memory {id: older})-[:HAS_CHUNK]->(:Chunk)-[x:MENTIONS]->(:Entity)
SET x.withdrawn = ended
WITH older, ended, count(x) AS named
OPTIONAL MATCH ()-[v:RELATES {memory: older}]->() WHERE v.chunk IS NOT NULL
SET v.withdrawn = ended
"""
"""Lets what the memory `older` says end at the time `ended`; null: brings it back."""


async def store(
    session: Session, hnsw: HnswOptions, memories: Sequence[MemoryData], *, join: bool = True
) -> list[StoredMemory]:
    """Store what is new; answer for the rest with what is there.

    Without `join`, equal texts stay separate memories.
    """
    for memory in memories:
        _check(memory)
    asked = [_question(number, memory, join=join) for number, memory in enumerate(memories)]
    state = None if session.is_repeated else _expected(session, memories)
    while memories:
        found, active = state or await _look(session, asked)
        try:
            plan = _Plan(slot_of(active), join=join, is_repeated=session.is_repeated)
            for memory, row in zip(memories, found, strict=True):
                plan.add(memory, *row)
        except ZapomniError:
            if state is None:
                raise
        else:
            if not plan.fresh or await _write(session, hnsw, plan, asked, found, active):
                session.known.active = plan.slot.as_row()
                return plan.answers
        state = None
    return []


def _expected(
    session: Session, memories: Sequence[MemoryData]
) -> tuple[list[list[Any]], list[Any]] | None:
    """Return what is most likely found: nothing, and the space that was active last."""
    if session.known.active is None:
        return None
    return [["", "", "", [], memory.supersedes or ""] for memory in memories], session.known.active


async def _look(session: Session, asked: Sequence[Any]) -> tuple[list[list[Any]], list[Any]]:
    ((found, active),) = await session.read_store(
        _LOOK + "MATCH (s:Store) RETURN found, active", asked=asked
    )
    session.known.active = active
    return found, active


async def _write(
    session: Session,
    hnsw: HnswOptions,
    plan: _Plan,
    asked: Sequence[Any],
    found: Sequence[Any],
    active: Sequence[Any],
) -> bool:
    """Write the plan; False if it was made for another state than there is now."""
    slot = plan.slot
    if slot.space is not None:
        await ensure_vector_index(session, slot.vectors, slot.space.dimension, hnsw)
    rows, keys = await memory_rows(plan.fresh)
    superseded = [
        {
            "older": memory.supersedes,
            "newer": memory.memory_id,
            "at": to_time(memory.timestamp),
            "since": to_time(memory.occurred_at or memory.timestamp),
        }
        for memory in plan.fresh
        if memory.supersedes is not None
    ]
    written = await session.write(
        _LOOK
        + "WITH found, active WHERE found = $found AND active = $active"
        + (f" WITH 1 AS go {CLAIM} WITH e" if slot.number else "")
        + _CREATE_MEMORIES
        + CREATE_CHUNKS.format(vectors=slot.vectors, tokens=slot.tokens)
        + (_SUPERSEDE + END_EVIDENCE if superseded else "")
        + " RETURN 1 LIMIT 1",
        asked=asked,
        found=found,
        active=active,
        memories=rows,
        keys=keys,
        chunks=sum(len(row["chunks"]) for row in rows),
        words=sum(chunk["size"] for row in rows for chunk in row["chunks"]),
        superseded=superseded,
        ended=len(superseded),
        **claim_values(slot, is_active=True),
    )
    return bool(written)


class _Plan:
    """What is to be written, and what becomes of each memory.

    Memories are looked at in order, each as if those before it were stored already.
    """

    def __init__(self, active: Slot, *, join: bool, is_repeated: bool) -> None:
        self.slot = active
        self.answers: list[StoredMemory] = []
        self.fresh: list[MemoryData] = []
        self._join = join
        self._is_repeated = is_repeated
        self._keys: dict[str, tuple[str, str]] = {}
        self._places: dict[tuple[Any, ...], list[str]] = {}
        self._superseded: set[str] = set()

    def add(
        self, memory: MemoryData, own: str, keyed: str, used_for: str, same: list[str], older: str
    ) -> None:
        """Decide about the next memory, knowing what `_LOOK` found for it."""
        if own and self._is_repeated:
            # The attempt whose answer we never got has stored it.
            self.answers.append(StoredMemory(memory_id=own))
            return
        content = content_hash(memory.text)
        place = (content, memory.project, memory.parent, memory.position)
        if memory.idempotency_key in self._keys:
            keyed, used_for = self._keys[memory.idempotency_key]
        same = [i for i in same + self._places.get(place, []) if i not in self._superseded]
        existing = _existing(content, keyed, used_for, same) if self._join else None
        if existing is not None:
            self.answers.append(existing)
            return
        if own or keyed or any(memory.memory_id == other.memory_id for other in self.fresh):
            raise QueryError(
                "A constraint was violated during storing: an id or a key is used already; "
                "nothing was written.",
                "QUERY_004",
            )
        self._admit(memory, older)
        self._places.setdefault(place, []).append(memory.memory_id)
        if memory.idempotency_key is not None:
            self._keys[memory.idempotency_key] = memory.memory_id, content

    def _admit(self, memory: MemoryData, older: str) -> None:
        self.slot = claim(self.slot, memory.chunks, memory.space)
        self.fresh.append(memory)
        self.answers.append(StoredMemory(memory_id=memory.memory_id))
        if memory.supersedes is not None:
            known = {other.memory_id for other in self.fresh}
            if not older and memory.supersedes not in known:
                raise NotFoundError("No memory has the id given in supersedes; nothing was stored.")
            self._superseded.add(memory.supersedes)


def _check(memory: MemoryData) -> None:
    if not memory.chunks:
        raise ValidationError("chunks list cannot be empty", "VAL_001")
    check_id("memory_id", memory.memory_id)


def _question(number: int, memory: MemoryData, *, join: bool) -> dict[str, Any]:
    return {
        "number": number,
        "id": memory.memory_id,
        "idempotency_hash": idempotency_hash(memory.idempotency_key),
        "content_hash": content_hash(memory.text) if join else None,
        "project_hash": digest(memory.project),
        "parent": memory.parent,
        "position": memory.position,
        "supersedes": memory.supersedes,
    }


async def find_existing(
    session: Session,
    project: str,
    text: str,
    idempotency_key: str | None,
    parent: str = "",
    position: int = 0,
) -> StoredMemory | None:
    """Find what the same key, or the same live text in the same place, is kept under."""
    question = {
        "number": 0,
        "idempotency_hash": idempotency_hash(idempotency_key),
        "content_hash": content_hash(text),
        "project_hash": digest(project),
        "parent": parent,
        "position": position,
    }
    rows = await session.read(_LOOK + "RETURN found[0]", asked=[question])
    _, keyed, used_for, same, _ = rows[0][0]
    return _existing(question["content_hash"], keyed, used_for, same)


def _existing(content: Any, keyed: str, used_for: str, same: Sequence[str]) -> StoredMemory | None:
    if keyed:
        if used_for != content:
            raise ValidationError(
                "The idempotency key was already used for another text; use a new key.", "VAL_004"
            )
        return StoredMemory(memory_id=keyed, status="replayed")
    return StoredMemory(memory_id=same[0], status="duplicate") if same else None
