"""Storing, reading, changing and deleting memories.

A write is one statement that does all of it or nothing. It is planned for the state that was read,
or is most likely found, and checks that state: if it is another one by then, the statement writes
nothing and the plan is made again.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, LiteralString

from zapomni_db.code_models import CODE_KIND
from zapomni_db.copy_models import MemoryCopy
from zapomni_db.exceptions import QueryError, ValidationError, ZapomniError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph import DELETE_UNSUPPORTED
from zapomni_db.falkordb.schema import ensure_vector_index
from zapomni_db.falkordb.spaces import (
    CLAIM,
    SLOT_ROW,
    Slot,
    active_slot,
    claim,
    claim_values,
    slot_of,
)
from zapomni_db.falkordb.values import (
    BREAK,
    Vector,
    as_document,
    check_id,
    content_hash,
    digest,
    stems_of,
    text_hash,
    to_tokens,
    where,
)
from zapomni_db.graph_models import MemoryVersion
from zapomni_db.models import (
    NEVER,
    ChunkData,
    IndexedChunk,
    MemoryData,
    MemoryFilter,
    MemoryPage,
    MemoryPatch,
    MemoryRecord,
    MemorySummary,
    StoredMemory,
)
from zapomni_db.rules import (
    FIELDS,
    HOME_FIELDS,
    Replaced,
    refuse_superseding,
    replaced_fields,
    sort_versions,
    versions_of,
)
from zapomni_db.values import from_json, from_time, to_json, to_time, write_time

__all__ = [
    "END_EVIDENCE",
    "LONG_BEGINNINGS",
    "SUMMARIES",
    "SUMMARY",
    "delete_memories",
    "delete_memory",
    "find_existing",
    "get_beginnings",
    "get_contexts",
    "get_history",
    "get_memory",
    "get_summaries",
    "list_memories",
    "put_memory",
    "set_successors",
    "store_contexts",
    "store_memories",
    "to_beginnings",
    "to_summaries",
    "update_memory",
]

PREVIEW_CHARS = 100
# With more chunks than this, their words are made in another thread.
LONG = 10

# --- Storing: statements ----------------------------------------------------------------

# Finds for each memory asked about: itself, the memory that used its key, the live memories with
# the same text in the same place (oldest first), the memory it supersedes. And the active space.
_EXISTING: LiteralString = f"""
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

# Creates the memories with their versions; continues with a row `y` for each of their chunks.
_CREATE_MEMORIES: LiteralString = """
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
    updated_at: x.updated_at, expires_at: x.expires_at, origin: x.origin, trusted: x.trusted,
    idempotency_key: x.idempotency_key,
    idempotency_hash: x.idempotency_hash})
FOREACH (v IN x.versions | CREATE (m)-[:WAS]->(:Version {key: base + v.key,
    replaced_at: v.replaced_at, fields: v.fields, text: v.text}))
WITH base, m, x UNWIND x.chunks AS y
"""

# Creates the chunk `y` of the memory `m`; `base` is added to its key.
_CREATE_CHUNKS: LiteralString = """
CREATE (m)-[:HAS_CHUNK {index: y.index}]->(c:Chunk {
    id: y.id, key: base + y.key, index: y.index, text: y.text, text_hash: y.text_hash,
    start_char: y.start_char, end_char: y.end_char, metadata: y.metadata, context: y.context,
    words: y.words, size: y.size, pending: y.pending,
    %(vectors)s: vecf32(y.vector), %(tokens)s: y.tokens})
"""

# Marks memories as superseded; continues with the older memory and when its evidence ended.
_SUPERSEDE: LiteralString = """
WITH count(c) AS made WHERE made > 0
UNWIND $superseded AS pair MATCH (o:Memory {id: pair.older})
SET o.superseded_by = pair.newer, o.superseded_at = pair.at, o.superseded_when = pair.since
WITH o.id AS older, pair.since AS ended
"""

END_EVIDENCE: LiteralString = """
OPTIONAL MATCH (:Memory {id: older})-[:HAS_CHUNK]->(:Chunk)-[x:MENTIONS]->(:Entity)
SET x.withdrawn = ended
WITH older, ended, count(x) AS named
OPTIONAL MATCH ()-[v:RELATES {memory: older}]->() WHERE v.chunk IS NOT NULL
SET v.withdrawn = ended
"""
"""Ends the evidence of the memory `older` at the time `ended`; null restores it."""


# --- Storing ----------------------------------------------------------------------------


async def store_memories(
    session: Session, memories: Sequence[MemoryData], *, join: bool = True
) -> list[StoredMemory]:
    """Store the new memories; return for the others what is already stored.

    Without `join`, equal texts stay separate memories.
    """
    for memory in memories:
        if not memory.chunks:
            raise ValidationError("chunks list cannot be empty", "VAL_001")
        check_id("memory_id", memory.memory_id)
    asked = [
        {
            "number": number,
            "id": memory.memory_id,
            "idempotency_hash": _idempotency_hash(memory.idempotency_key),
            "content_hash": content_hash(memory.text) if join else None,
            "project_hash": digest(memory.project),
            "parent": memory.parent,
            "position": memory.position,
            "supersedes": memory.supersedes,
        }
        for number, memory in enumerate(memories)
    ]
    state = None
    if not session.is_repeated and session.known.active is not None:
        # Most likely none of them is stored yet, and the same space is active as last time.
        nothing = [["", "", "", [], memory.supersedes or ""] for memory in memories]
        state = nothing, session.known.active
    while memories:
        found, active = state or await _read_existing(session, asked)
        try:
            plan = _StoringPlan(slot_of(active), join=join, is_repeated=session.is_repeated)
            for memory, row in zip(memories, found, strict=True):
                plan.add(memory, *row)
        except ZapomniError:
            if state is None:
                raise
        else:
            if not plan.new or await _write(session, plan, asked, found, active):
                session.known.active = plan.slot.as_row()
                return plan.answers
        state = None
    return []


async def _read_existing(
    session: Session, asked: Sequence[Any]
) -> tuple[list[list[Any]], list[Any]]:
    ((found, active),) = await session.read_store(
        _EXISTING + "MATCH (s:Store) RETURN found, active", asked=asked
    )
    session.known.active = active
    return found, active


async def _write(
    session: Session,
    plan: _StoringPlan,
    asked: Sequence[Any],
    found: Sequence[Any],
    active: Sequence[Any],
) -> bool:
    """Write the plan; False if it was made for another state than there is now."""
    slot = plan.slot
    if slot.space is not None:
        await ensure_vector_index(session, slot.vectors, slot.space.dimension)
    keys = count(1)
    rows = [_memory_row(memory, next(keys)) for memory in plan.new]
    for memory, row in zip(plan.new, rows, strict=True):
        row["chunks"] = await _chunk_rows(memory.chunks, keys)
        row["versions"] = [
            {
                "key": next(keys),
                "replaced_at": to_time(version.replaced_at),
                "fields": to_json(version.fields),
                "text": version.text,
            }
            for version in (memory.history if isinstance(memory, MemoryCopy) else [])
        ]
    superseded = [
        {
            "older": older,
            "newer": memory.memory_id,
            "at": to_time(memory.timestamp),
            "since": to_time(memory.occurred_at or memory.timestamp),
        }
        for memory in plan.new
        for older in _superseded_by(memory)
    ]
    written = await session.write(
        _EXISTING
        + "WITH found, active WHERE found = $found AND active = $active"
        + (f" WITH 1 AS go {CLAIM} WITH e" if slot.number else "")
        + _CREATE_MEMORIES
        + _CREATE_CHUNKS % slot.properties
        + (_SUPERSEDE + END_EVIDENCE if superseded else "")
        + " RETURN 1 LIMIT 1",
        asked=asked,
        found=found,
        active=active,
        memories=rows,
        keys=next(keys),
        chunks=sum(len(row["chunks"]) for row in rows),
        words=sum(chunk["size"] for row in rows for chunk in row["chunks"]),
        superseded=superseded,
        ended=len(superseded),
        **claim_values(slot, is_active=True),
    )
    return bool(written)


def _superseded_by(memory: MemoryData) -> list[str]:
    also = memory.also_supersedes if isinstance(memory, MemoryCopy) else []
    return [*([] if memory.supersedes is None else [memory.supersedes]), *also]


class _StoringPlan:
    """Which memories to write, and the answer for each.

    Memories are added in order, each as if those before it were stored already.
    """

    def __init__(self, active: Slot, *, join: bool, is_repeated: bool) -> None:
        self.slot = active
        self.answers: list[StoredMemory] = []
        self.new: list[MemoryData] = []
        self._join = join
        self._is_repeated = is_repeated
        self._keys: dict[str, tuple[str, str]] = {}
        self._places: dict[tuple[Any, ...], list[str]] = {}
        self._superseded: set[str] = set()

    def add(
        self, memory: MemoryData, own: str, keyed: str, used_for: str, same: list[str], older: str
    ) -> None:
        """Decide about the next memory by what `_EXISTING` found for it."""
        if own and self._is_repeated:
            # An earlier attempt whose answer was lost has stored it.
            self.answers.append(StoredMemory(memory_id=own))
            return
        content = content_hash(memory.text)
        place = (content, memory.project, memory.parent, memory.position)
        if memory.idempotency_key in self._keys:
            keyed, used_for = self._keys[memory.idempotency_key]
        same = [i for i in same + self._places.get(place, []) if i not in self._superseded]
        existing = _choose_existing(content, keyed, used_for, same) if self._join else None
        if existing is not None:
            self.answers.append(existing)
            return
        if own or keyed or any(memory.memory_id == other.memory_id for other in self.new):
            raise QueryError(
                "A constraint was violated during storing: an id or a key is used already; "
                "nothing was written.",
                "QUERY_004",
            )
        self.slot = claim(self.slot, memory.chunks, memory.space)
        self.new.append(memory)
        self.answers.append(StoredMemory(memory_id=memory.memory_id))
        if memory.supersedes is not None:
            known = {other.memory_id for other in self.new}
            if not older and memory.supersedes not in known:
                raise refuse_superseding(is_known=False)
            self._superseded.add(memory.supersedes)
        self._places.setdefault(place, []).append(memory.memory_id)
        if memory.idempotency_key is not None:
            self._keys[memory.idempotency_key] = memory.memory_id, content


async def find_existing(
    session: Session,
    project: str,
    text: str,
    idempotency_key: str | None,
    parent: str = "",
    position: int = 0,
) -> StoredMemory | None:
    """Return the memory with the same key, or with the same live text in the same place."""
    content = content_hash(text)
    asked = {
        "number": 0,
        "idempotency_hash": _idempotency_hash(idempotency_key),
        "content_hash": content,
        "project_hash": digest(project),
        "parent": parent,
        "position": position,
    }
    (((_, keyed, used_for, same, _),),) = await session.read(
        _EXISTING + "RETURN found[0]", asked=[asked]
    )
    return _choose_existing(content, keyed, used_for, same)


def _choose_existing(
    content: str, keyed: str, used_for: str, same: Sequence[str]
) -> StoredMemory | None:
    if keyed:
        if used_for != content:
            raise ValidationError(
                "The idempotency key was already used for another text; use a new key.", "VAL_004"
            )
        return StoredMemory(memory_id=keyed, status="replayed")
    return StoredMemory(memory_id=same[0], status="duplicate") if same else None


def _idempotency_hash(key: str | None) -> str | None:
    return None if key is None else digest(key)


def _group_of(memory_id: str, project: str, parent: str) -> str:
    """Return the id of the group a memory belongs to: its parent in its project, or itself."""
    return digest(project, parent) if parent else memory_id


def _memory_row(memory: MemoryData, key: int) -> dict[str, Any]:
    happened = memory.occurred_at or memory.timestamp
    changed, said = memory.timestamp, happened
    if isinstance(memory, MemoryCopy):
        changed = memory.updated_at
        said = max((v.replaced_at for v in memory.history if v.text is not None), default=happened)
    return {
        "id": memory.memory_id,
        "key": key,
        "text": memory.text,
        "length": len(memory.text),
        "metadata": to_json(memory.metadata),
        "content_hash": content_hash(memory.text),
        "project": memory.project,
        "project_hash": digest(memory.project),
        "source": memory.source,
        "kind": memory.kind,
        "tags": sorted(set(memory.tags)),
        "pinned": memory.pinned,
        "parent": memory.parent,
        "position": memory.position,
        "group": _group_of(memory.memory_id, memory.project, memory.parent),
        "occurred_at": to_time(happened),
        "said": to_time(said),
        "created_at": to_time(memory.timestamp),
        "updated_at": to_time(changed),
        "expires_at": None if memory.expires_at is None else to_time(memory.expires_at),
        "origin": memory.origin,
        "trusted": memory.trusted,
        "idempotency_key": memory.idempotency_key,
        "idempotency_hash": _idempotency_hash(memory.idempotency_key),
    }


async def _chunk_rows(chunks: Sequence[ChunkData], keys: Iterator[int]) -> list[dict[str, Any]]:
    """Return the parameters of `_CREATE_CHUNKS`."""
    texts = [text for chunk in chunks for text in (chunk.text, chunk.context)]
    # Other tasks may use the event loop while the words of a long text are made.
    is_long = len(chunks) > LONG
    stems = await asyncio.to_thread(stems_of, texts) if is_long else stems_of(texts)
    return [
        {
            "id": str(uuid.uuid4()),
            "key": next(keys),
            "index": chunk.index,
            "text": chunk.text,
            "text_hash": text_hash(chunk.text),
            "start_char": chunk.start_char,
            "end_char": chunk.end_char,
            "metadata": to_json(chunk.metadata),
            "context": chunk.context,
            "words": as_document([*own, BREAK, *context] if context else own),
            "size": len(own) + len(context),
            "pending": True if chunk.embedding is None else None,
            "vector": None if chunk.embedding is None else Vector(chunk.embedding),
            "tokens": None if chunk.embedding is None else to_tokens(chunk.tokens),
        }
        for chunk, own, context in zip(chunks, stems[::2], stems[1::2], strict=True)
    ]


# Finds chunks after one of them, with the words they are found by in addition.
_CONTEXTS: LiteralString = (
    "OPTIONAL MATCH (last:Chunk {id: $after}) WITH coalesce(last.key, -1) AS seen"
    " MATCH (c:Chunk) WHERE c.key > seen RETURN c.id, c.text, c.context ORDER BY c.key LIMIT $limit"
)
# Finds the texts of chunks.
_TEXTS: LiteralString = "MATCH (c:Chunk) WHERE c.id IN $ids RETURN c.id, c.text"
# Indexes the words of chunks again.
_STORE_CONTEXTS: LiteralString = """
UNWIND $chunks AS y MATCH (c:Chunk {id: y.id})
WITH y, c, c.size AS before SET c.context = y.context, c.words = y.words, c.size = y.size
WITH sum(y.size - before) AS more MATCH (s:Store)
SET s.words = s.words + more, s.version = s.version + 1
"""


async def get_contexts(session: Session, after: str | None, limit: int) -> list[IndexedChunk]:
    rows = await session.read(_CONTEXTS, after=after or "", limit=limit)
    return [IndexedChunk(chunk_id, text, context or "") for chunk_id, text, context in rows]


async def store_contexts(session: Session, contexts: Mapping[str, str]) -> None:
    known = await session.read(_TEXTS, ids=list(contexts))
    texts = [text for chunk_id, own in known for text in (own, contexts[chunk_id])]
    stems = await asyncio.to_thread(stems_of, texts)
    rows = [
        {
            "id": chunk_id,
            "context": contexts[chunk_id],
            "words": as_document([*own, BREAK, *context] if context else own),
            "size": len(own) + len(context),
        }
        for (chunk_id, _), own, context in zip(known, stems[::2], stems[1::2], strict=True)
    ]
    if rows:
        await session.write(_STORE_CONTEXTS, chunks=rows)


# --- Reading ----------------------------------------------------------------------------

SUMMARY: LiteralString = """
m.id, left(m.text, 200), m.length, m.metadata, m.project, m.source, m.kind, m.tags,
    m.pinned, m.parent, m.position, m.occurred_at, m.created_at, m.updated_at, m.expires_at,
    coalesce(m.origin, ''), coalesce(m.trusted, true), m.superseded_by,
    outdegree(m, 'HAS_CHUNK')
"""
"""The fields of a memory `m` as `to_summaries` takes them.

A character that FalkorDB cannot store is written as two: the preview is cut once more in Python.
"""
# Finds one memory with its text.
_MEMORY: LiteralString = "MATCH (m:Memory {id: $id}) RETURN " + SUMMARY + ", m.text"
SUMMARIES: LiteralString = (
    f"MATCH (m:Memory) WHERE m.id IN $memory_ids RETURN collect([{SUMMARY}]) AS summaries"
)
"""Finds memories by id; `to_summaries` takes them."""
# Finds how the texts of memories begin.
_BEGINNINGS: LiteralString = (
    "MATCH (m:Memory) WHERE m.id IN $ids RETURN collect([m.id, left(m.text, $length)])"
)
LONG_BEGINNINGS: LiteralString = (
    "MATCH (m:Memory) WHERE $length > 0 AND m.id IN $memory_ids AND outdegree(m, 'HAS_CHUNK') > 1"
    " RETURN collect([m.id, left(m.text, 2 * $length)]) AS beginnings"
)
"""Finds how the texts begin that are in several chunks; `to_beginnings` takes them."""
# Orders selected memories for a list: pinned first, then newest first.
_PAGE: LiteralString = (
    " WITH m ORDER BY m.pinned DESC, m.occurred_at DESC, m.key DESC SKIP $offset LIMIT $limit"
    " RETURN " + SUMMARY
)


async def get_memory(session: Session, memory_id: str) -> MemoryRecord | None:
    rows = await session.read(_MEMORY, id=memory_id)
    if not rows:
        return None
    *summary, text = rows[0]
    return MemoryRecord(text=text, **dict(_to_summary(summary)))


async def get_summaries(session: Session, memory_ids: Sequence[str]) -> dict[str, MemorySummary]:
    if not memory_ids:
        return {}
    ((found,),) = await session.read(SUMMARIES, memory_ids=list(memory_ids))
    return to_summaries(found)


async def get_beginnings(
    session: Session, memory_ids: Sequence[str], length: int
) -> dict[str, str]:
    if not memory_ids:
        return {}
    # A character that FalkorDB cannot store is written as two.
    ((found,),) = await session.read(_BEGINNINGS, ids=list(memory_ids), length=2 * length)
    return to_beginnings(found, length)


def to_beginnings(rows: Sequence[Sequence[Any]], length: int) -> dict[str, str]:
    """Return what `LONG_BEGINNINGS` found, by the memories' ids."""
    return {memory_id: text[:length] for memory_id, text in rows}


def to_summaries(rows: Sequence[Sequence[Any]]) -> dict[str, MemorySummary]:
    """Return what `SUMMARIES` found, by the memories' ids."""
    return {summary.memory_id: summary for summary in map(_to_summary, rows)}


async def list_memories(
    session: Session, filters: MemoryFilter, limit: int, offset: int
) -> MemoryPage:
    condition, values = where(filters)
    selected = f"MATCH (m:Memory) WHERE {condition}"
    ((total,),) = await session.read(selected + " RETURN count(m)", **values)
    rows = await session.read(selected + _PAGE, limit=limit, offset=offset, **values)
    return MemoryPage(items=[_to_summary(row) for row in rows], total=total)


_COUNT_BY_PROJECT: LiteralString = """
MATCH (m:Memory) WHERE m.kind <> $code RETURN m.project, count(m)"""


async def count_by_project(session: Session) -> dict[str, int]:
    return dict(await session.read(_COUNT_BY_PROJECT, code=CODE_KIND))


def _to_summary(row: Sequence[Any]) -> MemorySummary:
    memory_id, preview, length, metadata, project, source, kind, tags, pinned, *others = row
    parent, position, occurred, created, updated, expires, origin, trusted, *others = others
    superseded_by, chunk_count = others
    return MemorySummary.model_construct(
        memory_id=memory_id,
        preview=preview[:PREVIEW_CHARS],
        length=length,
        metadata=from_json(metadata),
        project=project,
        source=source,
        kind=kind,
        tags=tags,
        pinned=pinned,
        parent=parent,
        position=position,
        occurred_at=from_time(occurred),
        created_at=from_time(created),
        updated_at=from_time(updated),
        expires_at=None if expires is None else from_time(expires),
        origin=origin,
        trusted=trusted,
        superseded_by=superseded_by,
        chunk_count=chunk_count,
    )


# --- History ----------------------------------------------------------------------------

# The fields of a memory `m` that have a history, as `_to_state` takes them.
_STATE: LiteralString = (
    "[m.metadata, m.project, m.source, m.kind, m.tags, m.pinned, m.expires_at,"
    " coalesce(m.trusted, true), m.text]"
)
# Stores the versions of a memory `m` that an update replaces; `base` is added to their keys.
_CREATE_VERSIONS: LiteralString = (
    "FOREACH (v IN $replaced | CREATE (m)-[:WAS]->(:Version {key: base + v.key,"
    " replaced_at: v.replaced_at, fields: v.fields, text: v.text}))"
)
# Finds the memories that these superseded.
_OLDER: LiteralString = "MATCH (m:Memory) WHERE m.superseded_by IN $ids RETURN m.id"
# Finds the memories that superseded these.
_NEWER: LiteralString = (
    "MATCH (m:Memory) WHERE m.id IN $ids AND m.superseded_by IS NOT NULL RETURN m.superseded_by"
)
# Finds memories as they were stored, with their versions, newest first.
_VERSIONS: LiteralString = """
MATCH (m:Memory) WHERE m.id IN $ids
OPTIONAL MATCH (newer:Memory {id: m.superseded_by})
OPTIONAL MATCH (m)-[:WAS]->(v:Version)
WITH m, newer, v ORDER BY v.key DESC
WITH m, newer, collect([v.replaced_at, v.fields, v.text]) AS versions ORDER BY m.key
"""
_VERSION: LiteralString = f"m.id, {_STATE}, versions, m.created_at, newer.created_at, newer.id"


def _to_state(row: Sequence[Any]) -> dict[str, Any]:
    metadata, *others, expires, trusted, text = row
    ends = None if expires is None else write_time(from_time(expires))
    values = (from_json(metadata), *others, ends, trusted)
    return dict(zip((*FIELDS, *HOME_FIELDS), values, strict=True)) | {"text": text}


async def get_history(session: Session, memory_id: str) -> list[MemoryVersion]:
    line = {memory_id}
    for step in (_OLDER, _NEWER):
        border = {memory_id}
        while border:
            border = {found for (found,) in await session.read(step, ids=sorted(border))} - line
            line |= border
    rows = await session.read_list(_VERSIONS, _VERSION, ids=sorted(line))
    return sort_versions(
        version
        for own_id, state, versions, created, superseded, superseded_by in rows
        for version in versions_of(
            own_id,
            _to_state(state),
            [
                Replaced(from_time(at), from_json(fields), text)
                for at, fields, text in versions
                if at is not None
            ],
            from_time(created),
            None if superseded is None else from_time(superseded),
            superseded_by,
        )
    )


# --- Changing ---------------------------------------------------------------------------

# Finds what an update has to know: the number of the last change of the graph, and the memory.
_TO_UPDATE: LiteralString = (
    f"MATCH (s:Store) MATCH (m:Memory {{id: $id}}) RETURN s.graph, m.parent, m.updated_at, {_STATE}"
)
# Finds which of some memories were stored before another one.
_STORED_BEFORE: LiteralString = """
MATCH (m:Memory {id: $id}) MATCH (o:Memory) WHERE o.id IN $older RETURN o.id, o.key < m.key"""
# Marks memories as replaced by the memory $id; to be followed by `END_EVIDENCE`.
_SUPERSEDE_MORE: LiteralString = """
WITH count(*) AS done WHERE done > 0
MATCH (m:Memory {id: $id}) UNWIND $older AS one MATCH (o:Memory {id: one})
SET o.superseded_by = m.id, o.superseded_at = m.created_at, o.superseded_when = m.occurred_at
WITH o.id AS older, m.occurred_at AS ended
"""
# Changes fields of a memory, not its text.
_UPDATE: LiteralString = (
    "MATCH (s:Store) WHERE s.graph = $seen MATCH (m:Memory {id: $id}) WITH s, m, s.keys AS base"
    " SET s.version = s.version + 1, s.graph = s.graph + 1, s.keys = base + 1"
    f" SET m += $changes {_CREATE_VERSIONS}"
)
# Replaces a memory's text; continues with a row `y` for each new chunk. Statements of the old text
# end now and are stored without a chunk; its mentions are deleted with the old chunks.
_REPLACE_TEXT: LiteralString = f"""
MATCH (s:Store) WHERE s.graph = $seen MATCH (m:Memory {{id: $id}})
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(:Chunk)-[:MENTIONS]->(named:Entity)
WITH s, m, collect(DISTINCT named.id) AS names
OPTIONAL MATCH ()-[v:RELATES {{memory: $id}}]->() WHERE v.chunk IS NOT NULL
SET v.chunk = null, v.withdrawn = coalesce(v.withdrawn, $changes.updated_at)
WITH s, m, names, count(v) AS ended
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(old:Chunk)
WITH s, m, names, s.keys AS base, collect(old) AS olds, toInteger(sum(old.size)) AS removed
SET s.version = s.version + 1, s.graph = s.graph + 1, s.keys = base + $keys,
    s.words = s.words + $words - removed, s.chunks = s.chunks + size($chunks) - size(olds)
SET m += $changes
FOREACH (old IN olds | DELETE old)
{_CREATE_VERSIONS}
WITH m, base, names UNWIND names + [''] AS x {DELETE_UNSUPPORTED}
WITH m, base, count(*) AS swept UNWIND $chunks AS y
"""


async def update_memory(session: Session, memory_id: str, patch: MemoryPatch) -> bool:
    while True:
        rows = await session.read(_TO_UPDATE, id=memory_id)
        if not rows:
            return False
        ((seen, parent, updated, found),) = rows
        state = _to_state(found)
        # Later than the change before it, also if that was made by a device whose clock is ahead.
        now = max(to_time(datetime.now(UTC)), updated + 1000)
        if patch == MemoryPatch(trusted=patch.trusted):
            now = updated  # To trust it is a decision of this home, no change of the memory.
        changes = _changed_properties(memory_id, parent, patch, now)
        replaced: list[dict[str, Any]] = []
        if (before := replaced_fields(state, patch)) is not None:
            fields, text = before
            at = changes["updated_at"]
            replaced = [{"key": 1, "replaced_at": at, "fields": to_json(fields), "text": text}]
        older = patch.supersedes or []
        if older:
            known = dict(await session.read(_STORED_BEFORE, id=memory_id, older=older))
            if not all(known.get(one) for one in older):
                raise refuse_superseding(is_known=all(one in known for one in older))
        values = {"id": memory_id, "seen": seen, "changes": changes, "replaced": replaced}
        ending = (_SUPERSEDE_MORE + END_EVIDENCE) if older else ""
        if patch.text is None or patch.text == state["text"]:
            statement = f"{_UPDATE} WITH m {ending} RETURN 1 LIMIT 1"
            done = bool(await session.write(statement, older=older, **values))
        else:
            done = await _replace_text(session, patch, values, older, ending)
        if done:
            return True


def _changed_properties(
    memory_id: str, parent: str, patch: MemoryPatch, now: int
) -> dict[str, Any]:
    """Return the properties a patch sets. A memory's parent never changes."""
    changes: dict[str, Any] = {"updated_at": now}
    for name in ("project", "source", "kind", "pinned", "trusted"):
        if (value := getattr(patch, name)) is not None:
            changes[name] = value
    if patch.expires_at is not None:
        never = patch.expires_at == NEVER
        changes["expires_at"] = None if never else to_time(patch.expires_at)
    if patch.metadata is not None:
        changes["metadata"] = to_json(patch.metadata)
    if patch.tags is not None:
        changes["tags"] = sorted(set(patch.tags))
    if patch.project is not None:
        changes["project_hash"] = digest(patch.project)
        changes["group"] = _group_of(memory_id, patch.project, parent)
    if patch.text is not None:
        changes["text"] = patch.text
        changes["length"] = len(patch.text)
        changes["content_hash"] = content_hash(patch.text)
    return changes


async def _replace_text(
    session: Session,
    patch: MemoryPatch,
    values: dict[str, Any],
    older: Sequence[str],
    ending: LiteralString,
) -> bool:
    """Replace the text and its chunks; False if something was changed since it was read."""
    chunks = patch.chunks
    if not chunks:
        raise ValidationError("A new text needs its chunks; the list cannot be empty", "VAL_001")
    active, _ = await active_slot(session)
    slot = claim(active, chunks, patch.space)
    if slot.space is not None:
        await ensure_vector_index(session, slot.vectors, slot.space.dimension)
    # The first number is the version's.
    keys = count(2)
    rows = await _chunk_rows(chunks, keys)
    values["changes"]["said"] = values["changes"]["updated_at"]
    written = await session.write(
        f"OPTIONAL MATCH (e:EmbeddingSpace {{active: true}}) WITH {SLOT_ROW} AS active"
        " WHERE active = $active"
        + (f" WITH 1 AS go {CLAIM} WITH e" if slot.number else "")
        + _REPLACE_TEXT
        + _CREATE_CHUNKS % slot.properties
        + (f" WITH m {ending}" if ending else "")
        + " RETURN 1 LIMIT 1",
        older=older,
        active=active.as_row(),
        chunks=rows,
        keys=next(keys),
        words=sum(row["size"] for row in rows),
        **values,
        **claim_values(slot, is_active=True),
    )
    return bool(written)


# --- Merging ----------------------------------------------------------------------------

# Finds whether another memory has an idempotency key.
_KEY_IS_USED: LiteralString = (
    "MATCH (m:Memory {idempotency_hash: $key}) WHERE m.id <> $id RETURN 1 LIMIT 1"
)
# Overwrites everything but the text of a memory and what supersedes it; its versions are replaced.
_PUT: LiteralString = f"""
MATCH (s:Store) WHERE s.graph = $seen MATCH (m:Memory {{id: $id}})
OPTIONAL MATCH (m)-[:WAS]->(old:Version)
WITH s, m, s.keys AS base, collect(old) AS olds
SET s.version = s.version + 1, s.graph = s.graph + 1, s.keys = base + $keys
SET m += $changes
FOREACH (old IN olds | DELETE old)
{_CREATE_VERSIONS}
RETURN 1 LIMIT 1
"""
# Lets memories be superseded by others, or by none.
_SET_SUCCESSORS: LiteralString = f"""
MATCH (s:Store) SET s.version = s.version + 1, s.graph = s.graph + 1
WITH s UNWIND $pairs AS pair MATCH (o:Memory {{id: pair.older}})
OPTIONAL MATCH (n:Memory {{id: pair.newer}})
SET o.superseded_by = n.id, o.superseded_at = n.created_at, o.superseded_when = n.occurred_at
WITH o.id AS older, n.occurred_at AS ended
{END_EVIDENCE}
RETURN 1 LIMIT 1
"""


async def put_memory(session: Session, memory: MemoryCopy, seen: datetime | None) -> bool:
    used = _idempotency_hash(memory.idempotency_key)
    if used and await session.read(_KEY_IS_USED, key=used, id=memory.memory_id):
        memory = memory.model_copy(update={"idempotency_key": None})
    row = _memory_row(memory, 0)
    changes = {name: value for name, value in row.items() if name not in ("id", "key")}
    expected = {None if seen is None else to_time(seen)}
    while True:
        rows = await session.read(_TO_UPDATE, id=memory.memory_id)
        if not rows:
            if seen is not None:
                return False
            alone = memory.model_copy(update={"supersedes": None, "also_supersedes": []})
            await store_memories(session, [alone], join=False)
            return True
        ((graph, _, updated, found),) = rows
        if updated not in expected:
            # An earlier attempt whose answer was lost may have written it.
            return session.is_repeated and updated == row["updated_at"]
        expected.add(row["updated_at"])
        values = {"id": memory.memory_id, "seen": graph, "changes": dict(changes)}
        if _to_state(found)["text"] != memory.text:
            # The versions come with the next statement; without it the next merge brings them.
            patch = MemoryPatch(text=memory.text, chunks=memory.chunks, space=memory.space)
            await _replace_text(session, patch, {**values, "replaced": []}, [], "")
            continue
        replaced = [
            {
                "key": number,
                "replaced_at": to_time(version.replaced_at),
                "fields": to_json(version.fields),
                "text": version.text,
            }
            for number, version in enumerate(memory.history, 1)
        ]
        if await session.write(_PUT, replaced=replaced, keys=len(replaced) + 1, **values):
            return True


async def set_successors(session: Session, successors: Mapping[str, str | None]) -> None:
    known = await get_summaries(session, list(successors))
    pairs = [
        {"older": older, "newer": newer}
        for older, newer in successors.items()
        if older in known and known[older].superseded_by != newer
    ]
    if pairs:
        await session.write(_SET_SUCCESSORS, pairs=pairs)


# --- Deleting ---------------------------------------------------------------------------

# Finds out whether a memory exists.
_EXISTS: LiteralString = "MATCH (m:Memory {id: $id}) RETURN 1"
# Finds when a memory was last changed.
_UPDATED_AT: LiteralString = "MATCH (m:Memory {id: $id}) RETURN m.updated_at"
# Deletes a memory with everything derived from it, and restores the memory it superseded.
_DELETE: LiteralString = f"""
MATCH (s:Store) MATCH (m:Memory {{id: $id}}) WHERE coalesce($changed, m.updated_at) = m.updated_at
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(:Chunk)-[:MENTIONS]->(named:Entity)
WITH s, m, collect(DISTINCT named.id) AS names
OPTIONAL MATCH ()-[v:RELATES {{memory: $id}}]->()
WITH s, m, names, collect(v) AS statements,
    collect(startNode(v).id) + collect(endNode(v).id) AS ends
OPTIONAL MATCH (m)-[:WAS]->(version:Version)
WITH s, m, names, statements, ends, collect(version) AS versions
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(c:Chunk)
WITH s, m, names + ends AS names, statements, versions, collect(c) AS chunks,
    toInteger(sum(c.size)) AS removed
SET s.version = s.version + 1, s.graph = s.graph + 1, s.words = s.words - removed,
    s.chunks = s.chunks - size(chunks)
FOREACH (v IN statements | DELETE v)
FOREACH (v IN versions | DELETE v)
FOREACH (c IN chunks | DELETE c)
DELETE m
WITH names UNWIND names + [''] AS x WITH DISTINCT x {DELETE_UNSUPPORTED}
WITH count(*) AS found WHERE found > 0
OPTIONAL MATCH (o:Memory {{superseded_by: $id}})
SET o.superseded_by = null, o.superseded_at = null, o.superseded_when = null
WITH o.id AS older, null AS ended
{END_EVIDENCE}
RETURN 1 LIMIT 1
"""


async def delete_memory(session: Session, memory_id: str) -> bool:
    if await session.read(_EXISTS, id=memory_id):
        session.notes["existed"] = True
        deleted = bool(await session.write(_DELETE, id=memory_id, changed=None))
        return deleted or session.is_repeated
    # An earlier attempt whose answer was lost has deleted it.
    return "existed" in session.notes


async def delete_memories(session: Session, unchanged: Mapping[str, datetime]) -> list[str]:
    deleted: dict[str, bool] = session.notes.setdefault("deleted", {})
    for memory_id, at in unchanged.items():
        rows = await session.read(_UPDATED_AT, id=memory_id)
        if rows == [[to_time(at)]]:
            deleted[memory_id] = True
            if not await session.write(_DELETE, id=memory_id, changed=to_time(at)):
                del deleted[memory_id]
        elif rows:
            deleted.pop(memory_id, None)
    return list(deleted)
