"""Exporting and importing everything: memories with their vectors and history, and the graph."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from zapomni_db.copy_models import (
    MemoryCopy,
    MemoryExport,
    MergeCopy,
    PassageCopy,
    PastSentence,
    ReadingCopy,
    ReadingExport,
    VersionCopy,
)
from zapomni_db.graph_models import ExtractedChunk
from zapomni_db.models import ChunkData, EntityData, RelationshipData
from zapomni_db.rules import EVER, fold, stated_beginning
from zapomni_db.sqlite.graph import reroot, store_extractions
from zapomni_db.sqlite.memories import insert_memory
from zapomni_db.sqlite.rows import from_blob, from_json, from_time, to_json, to_time
from zapomni_db.sqlite.vectors import ActiveSpace, read_active_space

__all__ = [
    "export_entities",
    "export_memories",
    "export_merges",
    "export_readings",
    "export_relationships",
    "import_memories",
    "import_merges",
    "import_readings",
]


_MEMORIES = """
SELECT m.key, m.id, t.text, m.metadata, m.project, m.source, m.kind, m.pinned,
       m.idempotency_key, m.parent, m.position, m.occurred_at, m.created_at, m.updated_at,
       (SELECT older.id FROM memories older WHERE older.superseded_by = m.key)
FROM memories m JOIN memory_texts t ON t.memory_key = m.key
WHERE m.key > ? ORDER BY m.key LIMIT ?
"""

_CHUNKS = """
SELECT c.text, c.position, c.start_char, c.end_char, c.metadata, c.context, v.vector, k.tokens
FROM chunks c
LEFT JOIN chunk_vectors v ON v.chunk_id = c.id AND v.space_key = ?
LEFT JOIN chunk_tokens k ON k.chunk_id = c.id AND k.space_key = v.space_key
WHERE c.memory_key = ? ORDER BY c.position
"""


def export_memories(connection: sqlite3.Connection, after: str | None, limit: int) -> MemoryExport:
    active = read_active_space(connection)
    rows = connection.execute(_MEMORIES, (int(after or 0), limit)).fetchall()
    items = [_to_copy(connection, row, active) for row in rows]
    return MemoryExport(items=items, after=str(rows[-1][0]) if rows else None)


def _to_copy(
    connection: sqlite3.Connection,
    row: tuple[Any, ...],
    active: ActiveSpace | None,
) -> MemoryCopy:
    key, memory_id, text, metadata, project, source, kind, pinned = row[:8]
    idempotency_key, parent, position, occurred, created, updated, supersedes = row[8:]
    space_key, space = active or (0, None)
    chunks = [_to_chunk(part) for part in connection.execute(_CHUNKS, (space_key, key))]
    tags = connection.execute(
        "SELECT tag FROM memory_tags WHERE memory_key = ? ORDER BY tag", (key,)
    )
    return MemoryCopy(
        memory_id=memory_id,
        text=text,
        chunks=chunks,
        metadata=from_json(metadata),
        timestamp=from_time(created),
        updated_at=from_time(updated),
        project=project,
        source=source,
        kind=kind,
        tags=[tag for (tag,) in tags],
        pinned=bool(pinned),
        idempotency_key=idempotency_key,
        supersedes=supersedes,
        parent=parent,
        position=position,
        occurred_at=from_time(occurred),
        space=space if any(chunk.embedding for chunk in chunks) else None,
        history=_history(connection, key),
    )


def _history(connection: sqlite3.Connection, key: int) -> list[VersionCopy]:
    rows = connection.execute(
        "SELECT replaced_at, fields, text FROM memory_history WHERE memory_key = ? ORDER BY key",
        (key,),
    )
    return [
        VersionCopy(replaced_at=from_time(at), fields=from_json(fields), text=text)
        for at, fields, text in rows
    ]


def _to_chunk(row: tuple[Any, ...]) -> ChunkData:
    text, index, start, end, metadata, context, vector, tokens = row
    return ChunkData(
        text=text,
        index=index,
        start_char=start,
        end_char=end,
        metadata=from_json(metadata),
        context=context,
        embedding=None if vector is None else from_blob(vector),
        tokens=tokens,
    )


def import_memories(connection: sqlite3.Connection, memories: Sequence[MemoryCopy]) -> None:
    for memory in memories:
        key = insert_memory(connection, memory, memory.updated_at)
        connection.executemany(
            "INSERT INTO memory_history (memory_key, replaced_at, fields, text)"
            " VALUES (?, ?, ?, ?)",
            [
                (key, to_time(version.replaced_at), to_json(version.fields), version.text)
                for version in memory.history
            ],
        )


# --- The graph: what callers stored ----------------------------------------------------

_ENTITY: LiteralString = (
    "SELECT id, name, type, description, confidence, source FROM graph_entities"
)


def _to_entity(row: Sequence[Any], **place: Any) -> EntityData:
    names = ("entity_id", "name", "type", "description", "confidence", "source")
    return EntityData(**dict(zip(names, row, strict=True)), **place)


def export_entities(
    connection: sqlite3.Connection, after: str | None, limit: int
) -> list[EntityData]:
    rows = connection.execute(
        _ENTITY + " WHERE given = 1 AND id > coalesce(?, '') ORDER BY id LIMIT ?", (after, limit)
    )
    return [_to_entity(row) for row in rows]


class _EvidenceRow(NamedTuple):
    """A row of evidence with all around it."""

    source_id: str
    target_id: str
    type: str
    strength: float
    text: str | None
    start: int
    end: int
    source: str
    exclusive: int
    said: int
    since: int
    until: int | None
    withdrawn: int | None
    chunk_id: int | None
    passage: str | None

    def as_told(self) -> RelationshipData:
        """Return it as it was told; of an earlier text, with the beginning it was given."""
        is_past = self.withdrawn is not None and self.chunk_id is None
        begun = self.since if is_past else stated_beginning(self.said, self.since, self.until)
        text = self.text if self.passage is None else self.passage[self.start : self.end]
        return RelationshipData(
            source_entity_id=self.source_id,
            target_entity_id=self.target_id,
            relationship_type=self.type,
            strength=self.strength,
            evidence=text or "",
            start_char=self.start,
            end_char=self.end,
            source=self.source,
            exclusive=bool(self.exclusive),
            valid_from=_moment(begun),
            valid_to=_moment(self.until),
        )


_SENTENCE: LiteralString = (
    "SELECT s.id, t.id, r.type, e.strength, e.text, e.start_char, e.end_char, e.source,"
    " r.exclusive, e.said, e.since, e.until, e.withdrawn, e.chunk_id, c.text"
    " FROM graph_evidence e JOIN graph_relationships r ON r.key = e.relationship_key"
    " JOIN graph_entities s ON s.key = r.source_key JOIN graph_entities t ON t.key = r.target_key"
    " LEFT JOIN chunks c ON c.id = e.chunk_id"
)


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_time(microseconds)


def export_relationships(
    connection: sqlite3.Connection, after: tuple[str, str, str] | None, limit: int
) -> list[RelationshipData]:
    rows = connection.execute(
        _SENTENCE + " WHERE e.memory_key IS NULL AND (s.id, t.id, r.type) > (?, ?, ?)"
        " ORDER BY s.id, t.id, r.type LIMIT ?",
        (*(after or ("", "", "")), limit),
    )
    return [_EvidenceRow(*row).as_told() for row in rows]


# --- The graph: what was extracted from memories ---------------------------------------


def export_readings(connection: sqlite3.Connection, after: str | None, limit: int) -> ReadingExport:
    rows = connection.execute(
        "SELECT key, id FROM memories WHERE key > ? ORDER BY key LIMIT ?", (int(after or 0), limit)
    ).fetchall()
    items = [_reading(connection, *row) for row in rows]
    return ReadingExport(
        items=[item for item in items if item.passages or item.past],
        after=str(rows[-1][0]) if rows else None,
    )


def _reading(connection: sqlite3.Connection, key: int, memory_id: str) -> ReadingCopy:
    rows = connection.execute(_SENTENCE + " WHERE e.memory_key = ? ORDER BY e.key", (key,))
    sentences = [_EvidenceRow(*row) for row in rows]
    passages = [
        _passage(connection, chunk_id, index, extractor, sentences)
        for chunk_id, index, extractor in connection.execute(
            "SELECT c.id, c.position, x.extractor FROM chunks c JOIN graph_extractions x"
            " ON x.chunk_id = c.id WHERE c.memory_key = ? ORDER BY c.position",
            (key,),
        ).fetchall()
    ]
    past = [
        PastSentence(
            stated=sentence.as_told(),
            said_at=from_time(sentence.said),
            withdrawn_at=from_time(sentence.withdrawn),
        )
        for sentence in sentences
        if sentence.chunk_id is None and sentence.withdrawn is not None
    ]
    named = {e.entity_id for passage in passages for e in passage.entities}
    named |= {i for sentence in sentences for i in sentence[:2]}
    return ReadingCopy(
        memory_id=memory_id, entities=_entities(connection, named), passages=passages, past=past
    )


def _entities(connection: sqlite3.Connection, ids: Collection[str]) -> list[EntityData]:
    rows = connection.execute(
        _ENTITY + " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", (to_json(list(ids)),)
    )
    return [_to_entity(row) for row in rows]


def _passage(
    connection: sqlite3.Connection,
    chunk_id: int,
    index: int,
    extractor: str,
    sentences: Iterable[_EvidenceRow],
) -> PassageCopy:
    mentions = connection.execute(
        "SELECT e.id, e.name, e.type, '', m.confidence, m.source, coalesce(m.alias, e.name),"
        " m.start_char, m.end_char FROM graph_mentions m JOIN graph_entities e"
        " ON e.key = m.entity_key WHERE m.chunk_id = ? ORDER BY m.start_char, m.end_char, e.id",
        (chunk_id,),
    )
    return PassageCopy(
        index=index,
        extractor=extractor,
        entities=[
            _to_entity(row[:6], surface=row[6], start_char=row[7], end_char=row[8])
            for row in mentions
        ],
        relationships=[s.as_told() for s in sentences if s.chunk_id == chunk_id],
    )


def import_readings(connection: sqlite3.Connection, readings: Sequence[ReadingCopy]) -> None:
    for reading in readings:
        row = connection.execute(
            "SELECT key FROM memories WHERE id = ?", (reading.memory_id,)
        ).fetchone()
        if row is not None:
            _import_reading(connection, row[0], reading)


def _import_reading(connection: sqlite3.Connection, key: int, reading: ReadingCopy) -> None:
    connection.executemany(
        "INSERT INTO graph_entities (id, name, folded, type, description, confidence, source)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name,"
        " folded = excluded.folded, type = excluded.type, description = excluded.description,"
        " confidence = excluded.confidence, source = excluded.source",
        [
            (e.entity_id, e.name, fold(e.name), e.type, e.description, e.confidence, e.source)
            for e in reading.entities
        ],
    )
    reroot(connection, {entity.entity_id for entity in reading.entities})
    chunk_ids = dict(
        connection.execute("SELECT position, id FROM chunks WHERE memory_key = ?", (key,))
    )
    for passage in reading.passages:
        if (chunk_id := chunk_ids.get(passage.index)) is not None:
            extracted = ExtractedChunk(
                chunk_id=str(chunk_id),
                entities=passage.entities,
                relationships=passage.relationships,
            )
            store_extractions(connection, passage.extractor, [extracted], ())
    _import_past(connection, key, reading.past)


def _import_past(connection: sqlite3.Connection, key: int, past: Sequence[PastSentence]) -> None:
    before = connection.execute(
        "SELECT key FROM graph_evidence WHERE memory_key = ? AND chunk_id IS NULL", (key,)
    ).fetchall()
    for sentence in past:
        stated, since = sentence.stated, sentence.stated.valid_from
        place = (stated.source_entity_id, stated.target_entity_id, stated.relationship_type)
        connection.execute(
            "INSERT OR IGNORE INTO graph_relationships (source_key, target_key, type, exclusive)"
            " SELECT s.key, t.key, ?3, ?4 FROM graph_entities s, graph_entities t"
            " WHERE s.id = ?1 AND t.id = ?2",
            (*place, int(stated.exclusive)),
        )
        connection.execute(
            "INSERT INTO graph_evidence (relationship_key, memory_key, start_char, end_char, text,"
            " strength, source, said, since, until, withdrawn)"
            " SELECT r.key, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13 FROM graph_relationships r"
            " JOIN graph_entities s ON s.key = r.source_key"
            " JOIN graph_entities t ON t.key = r.target_key"
            " WHERE s.id = ?1 AND t.id = ?2 AND r.type = ?3",
            (
                *place, key, stated.start_char, stated.end_char, stated.evidence, stated.strength,
                stated.source, to_time(sentence.said_at),
                EVER if since is None else to_time(since),
                None if stated.valid_to is None else to_time(stated.valid_to),
                to_time(sentence.withdrawn_at),
            ),
        )  # fmt: skip
    connection.executemany("DELETE FROM graph_evidence WHERE key = ?", before)


# --- The graph: merges -----------------------------------------------------------------


def export_merges(connection: sqlite3.Connection) -> list[MergeCopy]:
    rows = connection.execute(
        "SELECT source_id, target_id, automatic, merged_at, undone_at FROM graph_merges"
        " ORDER BY key"
    )
    return [
        MergeCopy(
            source_id=source,
            target_id=target,
            automatic=bool(automatic),
            merged_at=from_time(merged),
            undone_at=_moment(undone),
        )
        for source, target, automatic, merged, undone in rows
    ]


def import_merges(connection: sqlite3.Connection, merges: Sequence[MergeCopy]) -> None:
    before = {m.source_id for m in export_merges(connection)}
    # Roots are found again from the merges, so those of entities no longer merged go first.
    connection.execute("UPDATE graph_entities SET root = NULL WHERE root IS NOT NULL")
    connection.execute("DELETE FROM graph_merges")
    connection.executemany(
        "INSERT INTO graph_merges (source_id, target_id, automatic, merged_at, undone_at)"
        " VALUES (?, ?, ?, ?, ?)",
        [
            (
                merge.source_id,
                merge.target_id,
                int(merge.automatic),
                to_time(merge.merged_at),
                None if merge.undone_at is None else to_time(merge.undone_at),
            )
            for merge in merges
        ],
    )
    reroot(connection, before | {merge.source_id for merge in merges})
