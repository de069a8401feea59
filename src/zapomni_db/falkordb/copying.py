"""Exporting memories and the graph to another store, and importing the graph from one.

Where a memory or chunk has several rows, they are collected into one: a server may be configured to
cut answers at a number of rows, and does so silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from zapomni_db.copy_models import (
    MemoryCopy,
    MemoryExport,
    MergeCopy,
    PassageCopy,
    PastSentence,
    ReadingCopy,
    VersionCopy,
    WholeMemory,
)
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph import (
    CREATE_STATEMENTS,
    DELETE_PAST_STATEMENTS,
    ExtractionPlan,
    GraphChange,
    Merges,
    edge_key,
    past_statement_row,
    read_graph_state,
)
from zapomni_db.falkordb.graph_reads import ENTITY_DATA, to_entity_data
from zapomni_db.falkordb.memories import END_EVIDENCE, store_memories
from zapomni_db.falkordb.spaces import SLOT_ROW, slot_of
from zapomni_db.falkordb.values import from_tokens, where
from zapomni_db.graph_models import ExtractedChunk
from zapomni_db.models import ChunkData, EntityData, MemoryFilter, RelationshipData
from zapomni_db.rules import stated_beginning
from zapomni_db.values import from_json, from_time, to_time

__all__ = [
    "export_entities",
    "export_memories",
    "export_merges",
    "export_relationships",
    "export_whole",
    "get_copies",
    "get_readings",
    "import_merges",
    "import_readings",
    "list_ids",
    "restore_memories",
]

IDS_AT_ONCE = 200

# --- Memories ---------------------------------------------------------------------------

# Finds memories with their versions, oldest first.
_VERSIONS: LiteralString = """
OPTIONAL MATCH (older:Memory {superseded_by: m.id})
WITH m, older ORDER BY older.key
WITH m, collect(older.id) AS older
OPTIONAL MATCH (m)-[:WAS]->(v:Version)
WITH m, older, v ORDER BY v.key
WITH m, older, collect([v.replaced_at, v.fields, v.text]) AS versions
RETURN m.key, m.id, m.text, m.metadata, m.project, m.source, m.kind, m.tags, m.pinned,
    m.idempotency_key, m.parent, m.position, m.occurred_at, m.created_at, m.updated_at,
    m.expires_at, coalesce(m.origin, ''), coalesce(m.trusted, true), older, versions
ORDER BY m.key
"""
_MEMORIES: LiteralString = (
    "MATCH (m:Memory) WHERE m.key > $after WITH m ORDER BY m.key LIMIT $limit" + _VERSIONS
)
_MEMORIES_BY_ID: LiteralString = "MATCH (m:Memory) WHERE m.id IN $ids WITH m" + _VERSIONS
# Finds the chunks of memories with their vectors in the active space.
_CHUNKS: LiteralString = f"""
OPTIONAL MATCH (e:EmbeddingSpace {{active: true}})
WITH e MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE m.id IN $ids
WITH e, m, c ORDER BY c.key
WITH e, m, collect([c.text, c.index, c.start_char, c.end_char, c.metadata, c.context,
    c[e.vectors], c[e.tokens]]) AS chunks
RETURN m.id, {SLOT_ROW}, chunks
"""


async def export_memories(session: Session, after: str | None, limit: int) -> MemoryExport:
    rows = await session.read(_MEMORIES, after=int(after or 0), limit=limit)
    return MemoryExport(
        items=await _to_copies(session, rows, passages=True),
        after=str(rows[-1][0]) if rows else None,
    )


async def get_copies(
    session: Session, memory_ids: Sequence[str], *, passages: bool = True
) -> list[MemoryCopy]:
    copies: list[MemoryCopy] = []
    # A server may cut answers at a number of rows.
    for start in range(0, len(memory_ids), IDS_AT_ONCE):
        ids = list(memory_ids[start : start + IDS_AT_ONCE])
        rows = await session.read(_MEMORIES_BY_ID, ids=ids)
        copies += await _to_copies(session, rows, passages=passages)
    return copies


async def list_ids(session: Session, filters: MemoryFilter, *, prefix: str = "") -> list[str]:
    condition, values = where(filters)
    rows = await session.read_list(
        f"MATCH (m:Memory) WHERE m.id STARTS WITH $prefix AND {condition}",
        "m.id",
        prefix=prefix,
        **values,
    )
    return sorted(memory_id for (memory_id,) in rows)


async def _to_copies(
    session: Session, rows: Sequence[Sequence[Any]], *, passages: bool
) -> list[MemoryCopy]:
    chunks: dict[str, list[ChunkData]] = {}
    space = None
    if passages:
        for memory_id, slot, found in await session.read(_CHUNKS, ids=[row[1] for row in rows]):
            space = slot_of(slot).space
            chunks[memory_id] = [_to_chunk(chunk) for chunk in found]
    items: list[MemoryCopy] = []
    for row in rows:
        _, memory_id, text, metadata, project, source, kind, tags, pinned, *others = row
        idempotency_key, parent, position, occurred, created, updated, *others = others
        expires, origin, trusted, older, versions = others
        if passages and memory_id not in chunks:
            # It was deleted between the two queries.
            continue
        own = chunks.get(memory_id, [])
        items.append(
            MemoryCopy(
                memory_id=memory_id,
                text=text,
                chunks=own,
                metadata=from_json(metadata),
                timestamp=from_time(created),
                updated_at=from_time(updated),
                project=project,
                source=source,
                kind=kind,
                tags=tags,
                pinned=pinned,
                idempotency_key=idempotency_key,
                supersedes=older[0] if older else None,
                also_supersedes=older[1:],
                parent=parent,
                position=position,
                occurred_at=from_time(occurred),
                expires_at=None if expires is None else from_time(expires),
                origin=origin,
                trusted=trusted,
                space=space if any(chunk.embedding for chunk in own) else None,
                history=[
                    VersionCopy(replaced_at=from_time(at), fields=from_json(fields), text=text)
                    for at, fields, text in versions
                    if at is not None
                ],
            )
        )
    return items


def _to_chunk(row: Sequence[Any]) -> ChunkData:
    text, index, start, end, metadata, context, vector, tokens = row
    return ChunkData(
        text=text,
        index=index,
        start_char=start,
        end_char=end,
        metadata=from_json(metadata),
        context=context,
        embedding=vector,
        tokens=from_tokens(tokens),
    )


# --- Entities and relationships given by callers ----------------------------------------

# Finds the next entities that callers gave. `id + ''`: an index would order them differently.
_GIVEN_ENTITIES: LiteralString = (
    "MATCH (e:Entity) WHERE e.given AND e.id + '' > $after"
    f" RETURN {ENTITY_DATA} ORDER BY e.id LIMIT $limit"
)
# The columns of a statement `v` from the entity `a` to `b`, as `_StatementRow` has them.
_STATEMENT: LiteralString = (
    "[a.id, b.id, v.type, coalesce(v.strength_exact, v.strength), v.text, v.start_char,"
    " v.end_char, v.source, v.exclusive, v.said, v.since, v.until, v.withdrawn, v.chunk]"
)
# Finds the next statements that callers gave.
_GIVEN_STATEMENTS: LiteralString = (
    "MATCH (a:Entity)-[v:RELATES]->(b:Entity) WHERE v.memory IS NULL"
    " AND (a.id + '' > $source OR (a.id + '' = $source AND (b.id + '' > $target"
    " OR (b.id + '' = $target AND v.type > $kind))))"
    f" RETURN {_STATEMENT} ORDER BY a.id, b.id, v.type LIMIT $limit"
)


class _StatementRow(NamedTuple):
    """A statement as it is stored."""

    source_id: str
    target_id: str
    type: str
    strength: float
    text: str
    start_char: int
    end_char: int
    source: str
    exclusive: bool
    said: int
    since: int
    until: int | None
    withdrawn: int | None
    chunk_id: str | None


def _to_relationship(row: _StatementRow, *, is_past: bool = False) -> RelationshipData:
    """Return a statement as it was given; of an earlier text, with its stored beginning."""
    since = row.since if is_past else stated_beginning(row.said, row.since, row.until)
    return RelationshipData(
        source_entity_id=row.source_id,
        target_entity_id=row.target_id,
        relationship_type=row.type,
        strength=float(row.strength),
        evidence=row.text,
        start_char=row.start_char,
        end_char=row.end_char,
        source=row.source,
        exclusive=row.exclusive,
        valid_from=_optional_time(since),
        valid_to=_optional_time(row.until),
    )


def _optional_time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_time(microseconds)


async def export_entities(session: Session, after: str | None, limit: int) -> list[EntityData]:
    rows = await session.read(_GIVEN_ENTITIES, after=after or "", limit=limit)
    return [to_entity_data(row) for row in rows]


async def export_relationships(
    session: Session, after: tuple[str, str, str] | None, limit: int
) -> list[RelationshipData]:
    source, target, kind = after or ("", "", "")
    rows = await session.read(
        _GIVEN_STATEMENTS, source=source, target=target, kind=kind, limit=limit
    )
    return [_to_relationship(_StatementRow(*row)) for (row,) in rows]


# --- Extractions ------------------------------------------------------------------------

# Finds the chunks of memories that were read by an extractor, with their mentions.
_PASSAGES: LiteralString = """
MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE m.id IN $ids AND c.extractor IS NOT NULL
OPTIONAL MATCH (c)-[x:MENTIONS]->(e:Entity)
WITH m, c, x, e ORDER BY x.start_char, x.end_char, e.id
WITH m, c, collect([e.id, x.start_char, x.end_char, coalesce(x.confidence_exact, x.confidence),
    x.source, x.alias]) AS named ORDER BY c.index
RETURN m.id, collect([c.id, c.index, c.extractor, named])
"""
# Finds the statements of memories.
_STATEMENTS: LiteralString = f"""
MATCH ()-[v:RELATES]->() WHERE v.memory IN $ids
WITH v, startNode(v) AS a, endNode(v) AS b ORDER BY v.key
RETURN v.memory, collect({_STATEMENT})
"""
# Finds entities by id.
_ENTITIES: LiteralString = "MATCH (e:Entity) WHERE e.id IN $ids"
# Finds the chunks of memories.
_CHUNKS_OF: LiteralString = "MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE m.id IN $ids"


async def get_readings(session: Session, memory_ids: Sequence[str]) -> list[ReadingCopy]:
    ids = list(memory_ids)
    if not ids:
        return []
    passages: dict[str, Any] = dict(await session.read(_PASSAGES, ids=ids))
    statements = {
        memory_id: [_StatementRow(*row) for row in found]
        for memory_id, found in await session.read(_STATEMENTS, ids=ids)
    }
    named = {i for parts in passages.values() for *_, mentions in parts for i, *_ in mentions}
    stated = {
        i for own in statements.values() for row in own for i in (row.source_id, row.target_id)
    }
    entities = [
        to_entity_data(row)
        for row in await session.read_list(
            _ENTITIES, ENTITY_DATA, ids=sorted((named - {None}) | stated)
        )
    ]
    known = {entity.entity_id: entity for entity in entities}
    return [
        _to_reading(i, passages.get(i, []), statements.get(i, []), known)
        for i in ids
        if i in passages or i in statements
    ]


def _to_reading(
    memory_id: str,
    parts: Sequence[Any],
    statements: Sequence[_StatementRow],
    known: dict[str, EntityData],
) -> ReadingCopy:
    passages = [
        PassageCopy(
            index=index,
            extractor=extractor,
            entities=[
                known[entity_id].model_copy(
                    update={
                        "description": "",
                        "confidence": float(confidence),
                        "source": source,
                        "surface": alias or known[entity_id].name,
                        "start_char": start,
                        "end_char": end,
                    }
                )
                for entity_id, start, end, confidence, source, alias in named
                if entity_id is not None
            ],
            relationships=[_to_relationship(row) for row in statements if row.chunk_id == chunk_id],
        )
        for chunk_id, index, extractor, named in parts
    ]
    ids = {e.entity_id for passage in passages for e in passage.entities}
    ids |= {i for row in statements for i in (row.source_id, row.target_id)}
    return ReadingCopy(
        memory_id=memory_id,
        entities=[known[i] for i in sorted(ids)],
        passages=passages,
        past=[
            PastSentence(
                stated=_to_relationship(row, is_past=True),
                said_at=from_time(row.said),
                withdrawn_at=from_time(row.withdrawn or 0),
            )
            for row in statements
            if row.chunk_id is None
        ],
    )


async def import_readings(session: Session, readings: Sequence[ReadingCopy]) -> None:
    exact = {e.entity_id: e for reading in readings for e in reading.entities}
    ids = [reading.memory_id for reading in readings]
    while True:
        seen, number = await read_graph_state(session)
        chunk_ids: dict[str, dict[int, str]] = {}
        rows = await session.read_list(_CHUNKS_OF, "m.id, c.index, c.id", ids=ids)
        for memory_id, index, chunk_id in rows:
            chunk_ids.setdefault(memory_id, {})[index] = chunk_id
        present = [reading for reading in readings if reading.memory_id in chunk_ids]
        extractors, chunks = _to_extractions(present, chunk_ids)
        plan = await ExtractionPlan.load(session, seen, chunks, exact)
        merges = await Merges.load(session, plan.new.keys(), number)
        merges.add(plan.new)
        change = plan.change
        change.add(DELETE_PAST_STATEMENTS, "memories", list(chunk_ids))
        plan.complete(extractors, merges)
        past = [
            past_statement_row(
                one, copy.memory_id, change.next_key(),
                exclusive=plan.exclusive.setdefault(edge_key(one.stated), one.stated.exclusive),
            )
            for copy in present
            for one in copy.past
        ]  # fmt: skip
        change.add(CREATE_STATEMENTS, "past", past)
        if not present or await change.write(session):
            return


def _to_extractions(
    readings: Sequence[ReadingCopy], chunk_ids: Mapping[str, Mapping[int, str]]
) -> tuple[dict[str, str], list[ExtractedChunk]]:
    """Return the extractors that read the chunks, by chunk id, and what they found."""
    extractors: dict[str, str] = {}
    chunks: list[ExtractedChunk] = []
    for reading in readings:
        for passage in reading.passages:
            chunk_id = chunk_ids[reading.memory_id].get(passage.index)
            if chunk_id is not None:
                extractors[chunk_id] = passage.extractor
                chunks.append(
                    ExtractedChunk(
                        chunk_id=chunk_id,
                        entities=passage.entities,
                        relationships=passage.relationships,
                    )
                )
    return extractors, chunks


# --- Single memories, to be deleted and restored ----------------------------------------

# Finds the places of memories, and what superseded them.
_PLACES: LiteralString = "MATCH (m:Memory) WHERE m.id IN $ids RETURN m.id, m.key, m.superseded_by"
# Finds which of some memories are stored, and when they were last changed.
_STORED: LiteralString = "MATCH (m:Memory) WHERE m.id IN $ids RETURN m.id, m.updated_at"
# Gives memories their old places, where no other memory has them.
_PLACE: LiteralString = """
UNWIND $places AS place MATCH (m:Memory {id: place.id})
OPTIONAL MATCH (other:Memory {key: place.key}) WITH m, place, other WHERE other IS NULL
SET m.key = place.key"""
# Marks memories as superseded, if both exist and the older one is current; to be followed by
# `END_EVIDENCE`.
_LINK: LiteralString = """
MATCH (s:Store) SET s.version = s.version + 1, s.graph = s.graph + 1
WITH s UNWIND $links AS link MATCH (m:Memory {id: link.newer}) MATCH (o:Memory {id: link.older})
WHERE o.superseded_by IS NULL AND o.key < m.key
SET o.superseded_by = m.id, o.superseded_at = m.created_at, o.superseded_when = m.occurred_at
WITH o.id AS older, m.occurred_at AS ended
"""


async def export_whole(session: Session, memory_ids: Sequence[str]) -> list[WholeMemory]:
    copies = await get_copies(session, memory_ids)
    ids = [copy.memory_id for copy in copies]
    readings = {one.memory_id: one for one in await get_readings(session, ids)}
    found = {
        memory_id: (key, newer) for memory_id, key, newer in await session.read(_PLACES, ids=ids)
    }
    return [
        WholeMemory(
            memory=copy,
            reading=readings.get(copy.memory_id)
            or ReadingCopy(memory_id=copy.memory_id, entities=[], passages=[], past=[]),
            order=found[copy.memory_id][0],
            superseded_by=found[copy.memory_id][1],
        )
        for copy in copies
        if copy.memory_id in found
    ]


async def restore_memories(
    session: Session, memories: Sequence[WholeMemory], links: Sequence[tuple[str, str]]
) -> None:
    ids = [one.memory.memory_id for one in memories]
    stored = dict(await session.read(_STORED, ids=ids))
    missing = [one.memory for one in memories if one.memory.memory_id not in stored]
    if missing:
        # What they superseded is among the links.
        alone = [
            one.model_copy(update={"supersedes": None, "also_supersedes": []}) for one in missing
        ]
        await store_memories(session, alone, join=False)
    unchanged = [
        one
        for one in memories
        if stored.get(one.memory.memory_id) in (None, to_time(one.memory.updated_at))
    ]
    places = [{"id": one.memory.memory_id, "key": one.order} for one in unchanged]
    await session.write(_PLACE, places=places)
    if links:
        pairs = [{"older": older, "newer": newer} for older, newer in links]
        await session.write(_LINK + END_EVIDENCE, links=pairs)
    await import_readings(session, [one.reading for one in unchanged])


# --- Merges -----------------------------------------------------------------------------

# Finds all merges in the order they were made.
_MERGES: LiteralString = "MATCH (g:Merge) WITH g ORDER BY g.key"
_MERGE: LiteralString = "g.source_id, g.target_id, g.automatic, g.merged_at, g.undone_at"


async def export_merges(session: Session) -> list[MergeCopy]:
    return [
        MergeCopy(
            source_id=source,
            target_id=target,
            automatic=automatic,
            merged_at=from_time(merged),
            undone_at=_optional_time(undone),
        )
        for source, target, automatic, merged, undone in await session.read_list(_MERGES, _MERGE)
    ]


async def import_merges(session: Session, merges: Sequence[MergeCopy]) -> None:
    while True:
        seen, number = await read_graph_state(session)
        ids = {i for merge in merges for i in (merge.source_id, merge.target_id)}
        ids |= {m.source_id for m in await export_merges(session)}
        known = await Merges.load(session, ids, number)
        known.replace(merges)
        change = GraphChange(seen)
        known.write_into(change)
        if await change.write(session):
            return
