"""Embedding spaces, stored vectors, and the chunks that still wait for one.

A space has a slot, and its vectors are in a property of the chunks: `embedding` for slot 1,
`embedding_2` for slot 2. So switching the model is one small write, and the old vectors are used
until then. The space's node has the names of its properties: a statement that reads vectors takes
them from there, and never sees two spaces at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any, LiteralString, NamedTuple

from zapomni_db.exceptions import ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.schema import (
    declare,
    drop_vector_index,
    ensure_vector_index,
)
from zapomni_db.falkordb.values import Vector, from_tokens, text_hash, to_tokens
from zapomni_db.models import (
    ChunkData,
    ChunkVector,
    Embedding,
    EmbeddingSpace,
    PendingChunk,
    StoreState,
)
from zapomni_db.values import check_vector

__all__ = [
    "CLAIM",
    "SLOT_ROW",
    "STATE",
    "TOKENS",
    "Slot",
    "activate_space",
    "active_slot",
    "claim",
    "claim_values",
    "count_pending",
    "delete_unused_vectors",
    "get_embeddings",
    "get_pending",
    "get_space",
    "get_state",
    "get_tokens",
    "get_unseen",
    "sample_second",
    "slot_of",
    "store_second",
    "store_vectors",
    "to_state",
    "to_tokens_by_id",
]

DELETE_BATCH = 2000


class Slot(NamedTuple):
    """A space and where its vectors are."""

    number: int
    space: EmbeddingSpace | None

    @property
    def vectors(self) -> str:
        """The property of a chunk that holds its vector."""
        return "embedding" if self.number <= 1 else f"embedding_{self.number:d}"

    @property
    def tokens(self) -> str:
        """The property of a chunk that holds its token vectors."""
        return "tokens" if self.number <= 1 else f"tokens_{self.number:d}"

    @property
    def properties(self) -> dict[str, str]:
        """Both properties, to be put into a statement."""
        return {"vectors": self.vectors, "tokens": self.tokens}

    def as_row(self) -> list[Any]:
        """Return this slot as `SLOT_ROW` returns it."""
        if self.space is None:
            return [0, "", 0, ""]
        return [self.number, self.space.model, self.space.dimension, self.space.sha256]


NO_SLOT = Slot(0, None)

SLOT_ROW: LiteralString = (
    "[coalesce(e.slot, 0), coalesce(e.model, ''), coalesce(e.dimension, 0), coalesce(e.sha256, '')]"
)
"""The slot of a space `e` as `slot_of` takes it."""
CLAIM: LiteralString = """
MERGE (e:EmbeddingSpace {slot: $slot[0]}) ON CREATE SET e.active = $is_active,
    e.model = $slot[1], e.dimension = $slot[2], e.sha256 = $slot[3],
    e.vectors = $vectors_at, e.tokens = $tokens_at
"""
"""Creates the node of a space unless it exists; takes `claim_values`."""

STATE: LiteralString = (
    "MATCH (s:Store) OPTIONAL MATCH (e:EmbeddingSpace {active: true})"
    f" WITH s, {SLOT_ROW} AS slot OPTIONAL MATCH (e:EmbeddingSpace {{second: true}})"
    f" WITH slot, s.chunks AS chunks, s.version AS version, {SLOT_ROW} AS second"
)
"""Finds the active space, how many chunks there are, the version and the second space.

`to_state` takes them.
"""
TOKENS: LiteralString = (
    "MATCH (e:EmbeddingSpace {active: true}) MATCH (c:Chunk) WHERE c.id IN $token_ids"
    " AND c[e.tokens] IS NOT NULL RETURN collect([c.id, c[e.tokens]]) AS tokens"
)
"""Finds the token vectors of chunks in the active space; `to_tokens_by_id` takes them."""
# Finds all spaces.
_ALL: LiteralString = (
    "MATCH (s:Store) OPTIONAL MATCH (e:EmbeddingSpace)"
    f" RETURN {SLOT_ROW}, e.active, coalesce(e.second, false)"
)
# Finds the chunks that were not checked for a second space yet.
_UNSEEN: LiteralString = (
    f"MATCH (s:Store) OPTIONAL MATCH (e:EmbeddingSpace) WHERE {SLOT_ROW}[1..] = $space"
    " WITH coalesce(e.seen, -1) AS seen MATCH (c:Chunk) WHERE c.key > seen"
    " RETURN c.id, c.text ORDER BY c.key LIMIT $limit"
)
# Finds vectors of the second space: as if drawn by chance, yet the same ones every time.
_SAMPLE_SECOND: LiteralString = """
MATCH (e:EmbeddingSpace {second: true}) WITH e.vectors AS vectors
MATCH (c:Chunk) WHERE c[vectors] IS NOT NULL
WITH c, vectors ORDER BY c.key * 7919 % 10007, c.key LIMIT $limit
"""
# Stores vectors of the second space, and up to which chunk they were made.
_STORE_SECOND: LiteralString = f"""
{CLAIM} WITH e WHERE {SLOT_ROW} = $slot AND NOT e.active
OPTIONAL MATCH (last:Chunk {{id: $seen}})
SET e.second = CASE WHEN size($vectors) > 0 THEN true ELSE e.second END,
    e.seen = CASE WHEN coalesce(last.key, -1) > coalesce(e.seen, -1)
        THEN last.key ELSE coalesce(e.seen, -1) END
WITH e OPTIONAL MATCH (other:EmbeddingSpace {{second: true}})
    WHERE e.second AND other.slot <> e.slot
SET other.second = null
WITH DISTINCT e MATCH (s:Store) SET s.version = s.version + 1 WITH s
UNWIND CASE WHEN size($vectors) = 0 THEN [null] ELSE $vectors END AS v
OPTIONAL MATCH (c:Chunk {{id: v.id}})
SET c.%(vectors)s = vecf32(v.vector)
RETURN DISTINCT s.version
"""
# Finds the vectors of one space that are stored for texts with these hashes.
_VECTORS_OF_TEXTS: LiteralString = (
    f"MATCH (e:EmbeddingSpace) WHERE {SLOT_ROW}[1..] = $space"
    " UNWIND $hashes AS hash MATCH (c:Chunk {text_hash: hash}) WHERE c[e.vectors] IS NOT NULL"
    " WITH e, hash, collect(c)[0] AS c RETURN hash, c[e.vectors], c[e.tokens]"
)
# Patterns of chunks without a vector: in the active space, and in another one.
_PENDING: LiteralString = "(c:Chunk {pending: true})"
_WITHOUT_VECTOR: LiteralString = "(c:Chunk) WHERE c.%(vectors)s IS NULL"
# Stores vectors of a space. A chunk that was deleted or replaced meanwhile is passed over.
_STORE_VECTORS: LiteralString = f"""
{CLAIM} WITH e WHERE {SLOT_ROW} = $slot AND e.active = $is_active
MATCH (s:Store) SET s.version = s.version + 1 WITH s
UNWIND $vectors AS v OPTIONAL MATCH (c:Chunk {{id: v.id}})
SET c.%(vectors)s = vecf32(v.vector), c.%(tokens)s = coalesce(v.tokens, c.%(tokens)s)
"""
# Makes a space the active one, unless chunks have no vector in it: one may be new.
_ACTIVATE: LiteralString = f"""
{CLAIM} WITH e WHERE {SLOT_ROW} = $slot
OPTIONAL MATCH {_WITHOUT_VECTOR}
WITH e, count(c) AS missing WHERE missing = 0
MATCH (s:Store) SET s.version = s.version + 1 WITH s
MATCH (every:EmbeddingSpace) SET every.active = (every.slot = $slot[0])
WITH s, count(every) AS spaces
OPTIONAL MATCH {_PENDING} SET c.pending = null RETURN DISTINCT s.version
"""
# Deletes some vectors of a space.
_DELETE_VECTORS: LiteralString = (
    "MATCH (c:Chunk) WHERE c.%(vectors)s IS NOT NULL WITH c LIMIT $batch"
    " SET c.%(vectors)s = null, c.%(tokens)s = null RETURN count(c)"
)
# Deletes a space that is not active.
_DELETE_SPACE: LiteralString = (
    f"MATCH (e:EmbeddingSpace) WHERE {SLOT_ROW} = $slot AND NOT e.active DELETE e"
)


def claim_values(slot: Slot, *, is_active: bool) -> dict[str, Any]:
    return {
        "slot": slot.as_row(),
        "is_active": is_active,
        "vectors_at": slot.vectors,
        "tokens_at": slot.tokens,
    }


def slot_of(row: Sequence[Any]) -> Slot:
    """Return the slot that `SLOT_ROW` returned."""
    number, model, dimension, sha256 = row
    if not number:
        return NO_SLOT
    return Slot(number, EmbeddingSpace(model=model, dimension=dimension, sha256=sha256))


async def active_slot(session: Session) -> tuple[Slot, int]:
    """Return the slot searches use, and how many chunks there are."""
    ((slot, chunks),) = await session.read_store(f"{STATE} RETURN slot, chunks")
    session.known.chunks = chunks
    return slot_of(slot), chunks


async def get_state(session: Session) -> StoreState:
    (row,) = await session.read_store(f"{STATE} RETURN slot, chunks, version, second")
    return to_state(session, row)


def to_state(session: Session, row: Sequence[Any]) -> StoreState:
    """Return what `STATE` found."""
    slot, chunks, version, second = row
    session.known.chunks = chunks
    return StoreState(int(version), slot_of(slot).space, chunks, slot_of(second).space)


async def get_space(session: Session) -> EmbeddingSpace | None:
    slot, _ = await active_slot(session)
    return slot.space


def claim(active: Slot, chunks: Sequence[ChunkData], space: EmbeddingSpace | None) -> Slot:
    """Return the slot these chunks' vectors are stored in; the first space becomes active.

    Raises:
        ValidationError: Vectors of another space are stored already, or a vector is invalid.
    """
    vectors = [(chunk.embedding, chunk.index) for chunk in chunks if chunk.embedding is not None]
    if not vectors:
        return active
    claimed = space or EmbeddingSpace(model="unknown", dimension=len(vectors[0][0]))
    _check_space(active.space, claimed)
    for embedding, index in vectors:
        check_vector(embedding, claimed.dimension, index)
    return Slot(1, claimed) if active.space is None else active


def _check_space(active: EmbeddingSpace | None, space: EmbeddingSpace) -> None:
    """Refuse vectors of another space than the active one."""
    if active is None or active == space:
        return
    if active.dimension != space.dimension:
        raise ValidationError(
            f"embedding dimension must be {active.dimension}, got {space.dimension}", "VAL_003"
        )
    raise ValidationError(
        f"The stored vectors were made by {active.model}, these by {space.model}; "
        "vectors of two models cannot be compared. Run `zapomni models reembed` to switch.",
        "VAL_004",
    )


async def get_embeddings(
    session: Session, space: EmbeddingSpace, texts: Sequence[str]
) -> dict[str, Embedding]:
    by_hash = {text_hash(text): text for text in texts}
    rows = await session.read(
        _VECTORS_OF_TEXTS,
        space=Slot(1, space).as_row()[1:],
        hashes=list(by_hash),
    )
    return {
        by_hash[found]: Embedding.model_construct(vector=vector, tokens=from_tokens(tokens))
        for found, vector, tokens in rows
    }


async def get_tokens(session: Session, chunk_ids: Sequence[str]) -> dict[str, bytes]:
    if not chunk_ids:
        return {}
    ((tokens,),) = await session.read(TOKENS, token_ids=list(chunk_ids))
    return to_tokens_by_id(tokens)


def to_tokens_by_id(rows: Sequence[Sequence[str]]) -> dict[str, bytes]:
    """Return what `TOKENS` found."""
    return {chunk_id: from_tokens(tokens) or b"" for chunk_id, tokens in rows}


async def _pending_pattern(session: Session, space: EmbeddingSpace | None) -> str:
    """Return the pattern of the chunks without a vector in this space."""
    slots = [(slot, is_active) for slot, is_active, _ in await _slots(session)]
    active = next((slot for slot, is_active in slots if is_active), NO_SLOT)
    if space is None or active.space in (None, space):
        return _PENDING
    known = next((slot for slot, _ in slots if slot.space == space), None)
    return "(c:Chunk)" if known is None else _WITHOUT_VECTOR % known.properties


async def _slots(session: Session) -> list[tuple[Slot, bool, bool]]:
    """Return all slots, which of them is active, and which is the second one."""
    rows = await session.read_store(_ALL)
    return [(slot_of(row), *which) for row, *which in rows if slot_of(row).number]


async def get_pending(
    session: Session, space: EmbeddingSpace | None, limit: int
) -> list[PendingChunk]:
    pattern = await _pending_pattern(session, space)
    rows = await session.read(
        f"MATCH {pattern} WITH c ORDER BY c.key LIMIT $limit MATCH (m:Memory)-[:HAS_CHUNK]->(c)"
        " RETURN c.id, c.text, m.kind, m.source ORDER BY c.key",
        limit=limit,
    )
    return [
        PendingChunk(chunk_id=chunk_id, text=text, kind=kind, source=source)
        for chunk_id, text, kind, source in rows
    ]


async def count_pending(session: Session, space: EmbeddingSpace | None) -> int:
    pattern = await _pending_pattern(session, space)
    ((number,),) = await session.read(f"MATCH {pattern} RETURN count(c)")
    return int(number)


async def store_vectors(
    session: Session, space: EmbeddingSpace, vectors: Sequence[ChunkVector]
) -> None:
    for position, vector in enumerate(vectors):
        check_vector(vector.embedding, space.dimension, position)
    given = [
        {"id": v.chunk_id, "vector": Vector(v.embedding), "tokens": to_tokens(v.tokens)}
        for v in vectors
    ]
    while True:
        slot, is_active = await _slot_for(session, space)
        if slot.number > 1:
            await declare(session, slot.vectors, slot.tokens)
        await ensure_vector_index(session, slot.vectors, space.dimension)
        rows = await session.write(
            _STORE_VECTORS % slot.properties
            + (", c.pending = null" if is_active else "")
            + " RETURN DISTINCT s.version",
            vectors=given,
            **claim_values(slot, is_active=is_active),
        )
        if rows or not given:
            return


async def get_unseen(session: Session, space: EmbeddingSpace, limit: int) -> list[PendingChunk]:
    rows = await session.read(_UNSEEN, space=Slot(1, space).as_row()[1:], limit=limit)
    return [PendingChunk(chunk_id=chunk_id, text=text) for chunk_id, text in rows]


async def store_second(
    session: Session, space: EmbeddingSpace, vectors: Sequence[ChunkVector], seen: str
) -> None:
    for position, vector in enumerate(vectors):
        check_vector(vector.embedding, space.dimension, position)
    given = [{"id": v.chunk_id, "vector": Vector(v.embedding)} for v in vectors]
    while True:
        slot, _ = await _slot_for(session, space)
        # Slot 1 is left to the active space: the first vectors are stored there.
        slot = Slot(max(slot.number, 2), space)
        await declare(session, "second", "seen", slot.vectors, slot.tokens)
        values = claim_values(slot, is_active=False)
        rows = await session.write(
            _STORE_SECOND % slot.properties, vectors=given, seen=seen, **values
        )
        if rows:
            return


async def sample_second(session: Session, limit: int) -> bytes:
    rows = await session.read_list(_SAMPLE_SECOND, "c[vectors]", limit=limit)
    return array("f", chain.from_iterable(vector for (vector,) in rows)).tobytes()


async def _slot_for(session: Session, space: EmbeddingSpace) -> tuple[Slot, bool]:
    """Return the slot for vectors of this space, and whether searches use it."""
    slots = await _slots(session)
    if not slots:
        return Slot(1, space), True
    for slot, is_active, _ in slots:
        if slot.space == space:
            return slot, is_active
    taken = {slot.number for slot, _, _ in slots}
    free = next(number for number in range(1, len(taken) + 2) if number not in taken)
    return Slot(free, space), False


async def activate_space(session: Session, space: EmbeddingSpace) -> int:
    while True:
        missing = await count_pending(session, space)
        slot, _ = await _slot_for(session, space)
        is_active = any(one == slot and active for one, active, _ in await _slots(session))
        if missing or is_active:
            return missing
        values = claim_values(slot, is_active=False)
        if await session.write(_ACTIVATE % slot.properties, **values):
            return 0


async def delete_unused_vectors(session: Session) -> bool:
    """Delete some vectors that no search uses any longer; True while there are more."""
    slots = await _slots(session)
    unused = next((slot for slot, *in_use in slots if not any(in_use)), None)
    if unused is None:
        return False
    await drop_vector_index(session, unused.vectors)
    ((deleted,),) = await session.write(_DELETE_VECTORS % unused.properties, batch=DELETE_BATCH)
    if not deleted:
        await session.write(_DELETE_SPACE, slot=unused.as_row())
    return True
