"""The graph on its way to another store and from one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString

from zapomni_db.copy_models import (
    MergeCopy,
    PassageCopy,
    PastSentence,
    ReadingCopy,
    ReadingExport,
)
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph import Reading
from zapomni_db.falkordb.graph_guard import Transaction, look
from zapomni_db.falkordb.graph_merges import Merges
from zapomni_db.falkordb.graph_parts import STATE, UNTELL_PAST
from zapomni_db.falkordb.graph_rows import key_of, past_row
from zapomni_db.falkordb.graph_walk import ENTITY, to_entity
from zapomni_db.falkordb.values import from_time
from zapomni_db.graph_models import ExtractedChunk
from zapomni_db.graph_rules import told_beginning
from zapomni_db.models import EntityData, RelationshipData

__all__ = [
    "export_entities",
    "export_merges",
    "export_readings",
    "export_relationships",
    "import_merges",
    "import_readings",
]

# --- Told by callers --------------------------------------------------------------------


# `id + ''`: an index would find another order than the one texts have.


async def export_entities(session: Session, after: str | None, limit: int) -> list[EntityData]:
    rows = await session.read(
        "MATCH (e:Entity) WHERE e.given AND e.id + '' > $after"
        f" RETURN {ENTITY} ORDER BY e.id LIMIT $limit",
        after=after or "",
        limit=limit,
    )
    return [to_entity(row) for row in rows]


_SENTENCE: LiteralString = (
    "[a.id, b.id, v.type, coalesce(v.strength_exact, v.strength), v.text, v.start_char,"
    " v.end_char, v.source, v.exclusive, v.said, v.since, v.until, v.withdrawn, v.chunk]"
)


def _to_relationship(row: Sequence[Any], *, is_past: bool = False) -> RelationshipData:
    """Read a sentence as it was told; of an earlier text, with the beginning it was given."""
    source, target, kind, strength, text, start, end, who, exclusive, said, since, until = row[:12]
    return RelationshipData(
        source_entity_id=source,
        target_entity_id=target,
        relationship_type=kind,
        strength=float(strength),
        evidence=text,
        start_char=start,
        end_char=end,
        source=who,
        exclusive=exclusive,
        valid_from=_moment(since if is_past else told_beginning(said, since, until)),
        valid_to=_moment(until),
    )


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_time(microseconds)


async def export_relationships(
    session: Session, after: tuple[str, str, str] | None, limit: int
) -> list[RelationshipData]:
    source, target, kind = after or ("", "", "")
    rows = await session.read(
        "MATCH (a:Entity)-[v:RELATES]->(b:Entity) WHERE v.memory IS NULL"
        " AND (a.id + '' > $source OR (a.id + '' = $source AND (b.id + '' > $target"
        " OR (b.id + '' = $target AND v.type > $kind))))"
        f" RETURN {_SENTENCE} ORDER BY a.id, b.id, v.type LIMIT $limit",
        source=source,
        target=target,
        kind=kind,
        limit=limit,
    )
    return [_to_relationship(row) for (row,) in rows]


# --- Read in memories -------------------------------------------------------------------

# A row per memory: a server may be set to cut answers at so many rows, without a word.
_PASSAGES: LiteralString = """
MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE m.id IN $ids AND c.extractor IS NOT NULL
OPTIONAL MATCH (c)-[x:MENTIONS]->(e:Entity)
WITH m, c, x, e ORDER BY x.start_char, x.end_char, e.id
WITH m, c, collect([e.id, x.start_char, x.end_char, coalesce(x.confidence_exact, x.confidence),
    x.source, x.alias]) AS named ORDER BY c.index
RETURN m.id, collect([c.id, c.index, c.extractor, named])
"""
_SENTENCES: LiteralString = f"""
MATCH ()-[v:RELATES]->() WHERE v.memory IN $ids
WITH v, startNode(v) AS a, endNode(v) AS b ORDER BY v.key
RETURN v.memory, collect({_SENTENCE})
"""


async def export_readings(session: Session, after: str | None, limit: int) -> ReadingExport:
    rows = await session.read(
        "MATCH (m:Memory) WHERE m.key > $after RETURN m.key, m.id ORDER BY m.key LIMIT $limit",
        after=int(after or 0),
        limit=limit,
    )
    ids = [memory_id for _, memory_id in rows]
    passages: dict[str, Any] = dict(await session.read(_PASSAGES, ids=ids)) if ids else {}
    sentences: dict[str, Any] = dict(await session.read(_SENTENCES, ids=ids)) if ids else {}
    known = await _entities(session, passages, sentences)
    return ReadingExport(
        items=[
            _to_reading(i, passages.get(i, []), sentences.get(i, []), known)
            for i in ids
            if i in passages or i in sentences
        ],
        after=str(rows[-1][0]) if rows else None,
    )


async def _entities(
    session: Session, passages: dict[str, Any], sentences: dict[str, Any]
) -> dict[str, EntityData]:
    named = {m[0] for parts in passages.values() for part in parts for m in part[3]} - {None}
    stated = {i for rows in sentences.values() for row in rows for i in row[:2]}
    statement = "MATCH (e:Entity) WHERE e.id IN $ids"
    rows = await session.read_list(statement, ENTITY, ids=sorted(named | stated))
    return {row[0]: to_entity(row) for row in rows}


def _to_reading(
    memory_id: str,
    parts: Sequence[Any],
    sentences: Sequence[Any],
    known: dict[str, EntityData],
) -> ReadingCopy:
    passages = [
        PassageCopy(
            index=index,
            extractor=extractor,
            entities=[_to_mention(known[m[0]], m) for m in named if m[0] is not None],
            relationships=[_to_relationship(row) for row in sentences if row[13] == chunk_id],
        )
        for chunk_id, index, extractor, named in parts
    ]
    past = [
        PastSentence(
            stated=_to_relationship(row, is_past=True),
            said_at=from_time(row[9]),
            withdrawn_at=from_time(row[12]),
        )
        for row in sentences
        if row[13] is None
    ]
    ids = {e.entity_id for passage in passages for e in passage.entities}
    ids |= {i for row in sentences for i in row[:2]}
    return ReadingCopy(
        memory_id=memory_id,
        entities=[known[i] for i in sorted(ids)],
        passages=passages,
        past=past,
    )


def _to_mention(entity: EntityData, row: Sequence[Any]) -> EntityData:
    _, start, end, confidence, source, alias = row
    return entity.model_copy(
        update={
            "description": "",
            "confidence": float(confidence),
            "source": source,
            "surface": alias or entity.name,
            "start_char": start,
            "end_char": end,
        }
    )


async def import_readings(session: Session, readings: Sequence[ReadingCopy]) -> None:
    """Let these memories say this."""
    kept = {e.entity_id: e for reading in readings for e in reading.entities}
    while True:
        seen, number = await look(session)
        ids = [reading.memory_id for reading in readings]
        places: dict[str, dict[int, str]] = {}
        for memory_id, index, chunk_id in await session.read_list(
            "MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE m.id IN $ids",
            "m.id, c.index, c.id",
            ids=ids,
        ):
            places.setdefault(memory_id, {})[index] = chunk_id
        here = [reading for reading in readings if reading.memory_id in places]
        extractors, chunks = _passages(here, places)
        reading = await Reading.look(session, seen, chunks, kept)
        merges = await Merges.load(session, reading.new.keys(), number)
        merges.add(reading.new)
        change = reading.change
        change.add(UNTELL_PAST, "memories", list(places))
        reading.plan(extractors, merges)
        past = [
            past_row(
                one, copy.memory_id, change.next_key(),
                exclusive=reading.stated.setdefault(key_of(one.stated), one.stated.exclusive),
            )
            for copy in here
            for one in copy.past
        ]  # fmt: skip
        change.add(STATE, "past", past)
        if not here or await change.write(session):
            return


def _passages(
    readings: Sequence[ReadingCopy], places: Mapping[str, Mapping[int, str]]
) -> tuple[dict[str, str], list[ExtractedChunk]]:
    """Return what the passages that are here say, and who read them."""
    extractors: dict[str, str] = {}
    chunks: list[ExtractedChunk] = []
    for reading in readings:
        for passage in reading.passages:
            chunk_id = places[reading.memory_id].get(passage.index)
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


# --- Merges -----------------------------------------------------------------------------


async def export_merges(session: Session) -> list[MergeCopy]:
    rows = await session.read_list(
        "MATCH (g:Merge) WITH g ORDER BY g.key",
        "g.source_id, g.target_id, g.automatic, g.merged_at, g.undone_at",
    )
    return [
        MergeCopy(
            source_id=source,
            target_id=target,
            automatic=automatic,
            merged_at=from_time(merged),
            undone_at=_moment(undone),
        )
        for source, target, automatic, merged, undone in rows
    ]


async def import_merges(session: Session, merges: Sequence[MergeCopy]) -> None:
    """Make the merges these."""
    while True:
        seen, number = await look(session)
        ids = {i for merge in merges for i in (merge.source_id, merge.target_id)}
        ids |= {m.source_id for m in await export_merges(session)}
        known = await Merges.load(session, ids, number)
        known.replace(merges)
        change = Transaction(seen)
        known.write_into(change)
        if await change.write(session):
            return
