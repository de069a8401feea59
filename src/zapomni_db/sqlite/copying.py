"""Exporting and importing everything: memories with vectors and history, graph, observations, code.

An object of an export has the names of the columns. Numbers that only this file knows are replaced
by what every file knows: an observation by the hash of its event, its prompt by the hash of the
prompt's event.
"""

from __future__ import annotations

import sqlite3
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
from zapomni_db.graph_models import ExtractedChunk
from zapomni_db.models import ChunkData, EntityData, MemoryFilter, RelationshipData
from zapomni_db.rules import EVER, stated_beginning
from zapomni_db.sqlite.connection import fetch_value
from zapomni_db.sqlite.graph import entity_row, reroot, store_extractions
from zapomni_db.sqlite.memories import insert_memory, overwrite_memory, supersede
from zapomni_db.sqlite.observation_search import dict_rows
from zapomni_db.sqlite.packing import PackedVector
from zapomni_db.sqlite.project_folders import change_rule, list_rules
from zapomni_db.sqlite.rows import from_json, from_time, to_json, to_time, where
from zapomni_db.sqlite.vectors import read_active_space

__all__ = [
    "CODE_TABLES",
    "clear_code",
    "export_code",
    "export_entities",
    "export_memories",
    "export_merges",
    "export_observations",
    "export_projects",
    "export_relationships",
    "export_sessions",
    "export_whole",
    "get_copies",
    "get_readings",
    "has_other_code",
    "import_code",
    "import_memories",
    "import_merges",
    "import_observations",
    "import_projects",
    "import_readings",
    "import_sessions",
    "list_ids",
    "list_months",
    "put_memory",
    "restore_memories",
    "set_successors",
]


# --- Memories ---------------------------------------------------------------------------

# The columns of an `_ExportedMemory`.
# After every id that begins with a prefix.
_LAST_CHARACTER = "\U0010ffff"

_MEMORY: LiteralString = """
SELECT m.key, m.id, t.text, m.metadata, m.project, m.source, m.kind, m.pinned,
       m.idempotency_key, m.parent, m.position, m.occurred_at, m.created_at, m.updated_at,
       m.expires_at, m.origin, m.trusted,
       (SELECT json_group_array(id) FROM (SELECT older.id FROM memories older
            WHERE older.superseded_by = m.key ORDER BY older.key))
FROM memories m JOIN memory_texts t ON t.memory_key = m.key
"""
# In the order they were stored.
_MEMORIES: LiteralString = _MEMORY + " WHERE m.key > ? ORDER BY m.key LIMIT ?"
_MEMORIES_BY_ID: LiteralString = (
    _MEMORY + " WHERE m.id IN (SELECT value FROM json_each(?)) ORDER BY m.key"
)
_IDS: LiteralString = "SELECT m.id FROM memories m WHERE m.id BETWEEN ? AND ? AND "
_CHUNKS: LiteralString = """
SELECT c.text, c.position, c.start_char, c.end_char, c.metadata, c.context, v.vector, k.rest,
    k.tokens
FROM chunks c
LEFT JOIN chunk_vectors v ON v.chunk_id = c.id AND v.space_key = ?
LEFT JOIN chunk_tokens k ON k.chunk_id = c.id AND k.space_key = v.space_key
WHERE c.memory_key = ? ORDER BY c.position
"""
_TAGS: LiteralString = "SELECT tag FROM memory_tags WHERE memory_key = ? ORDER BY tag"
_VERSIONS: LiteralString = """
SELECT replaced_at, fields, text FROM memory_history WHERE memory_key = ? ORDER BY key"""
_INSERT_VERSION: LiteralString = """
INSERT INTO memory_history (memory_key, replaced_at, fields, text) VALUES (?, ?, ?, ?)"""


class _ExportedMemory(NamedTuple):
    key: int
    memory_id: str
    text: str
    metadata: str
    project: str
    source: str
    kind: str
    pinned: int
    idempotency_key: str | None
    parent: str
    position: int
    occurred_at: int
    created_at: int
    updated_at: int
    expires_at: int | None
    origin: str
    trusted: int
    supersedes: str
    """Ids as a JSON list."""


def export_memories(connection: sqlite3.Connection, after: str | None, limit: int) -> MemoryExport:
    found = connection.execute(_MEMORIES, (int(after or 0), limit)).fetchall()
    rows = [_ExportedMemory(*row) for row in found]
    return MemoryExport(
        items=_to_copies(connection, rows, passages=True),
        after=str(rows[-1].key) if rows else None,
    )


def get_copies(
    connection: sqlite3.Connection, memory_ids: Sequence[str], *, passages: bool = True
) -> list[MemoryCopy]:
    found = connection.execute(_MEMORIES_BY_ID, (to_json(list(memory_ids)),)).fetchall()
    return _to_copies(connection, [_ExportedMemory(*row) for row in found], passages=passages)


def list_ids(
    connection: sqlite3.Connection, filters: MemoryFilter, *, prefix: str = ""
) -> list[str]:
    condition, values = where(filters)
    begins_so = [prefix, prefix + _LAST_CHARACTER]
    rows = connection.execute(_IDS + condition + " ORDER BY m.id", [*begins_so, *values])
    return [memory_id for (memory_id,) in rows]


def _to_copies(
    connection: sqlite3.Connection, rows: Sequence[_ExportedMemory], *, passages: bool
) -> list[MemoryCopy]:
    space_key, space = read_active_space(connection) or (0, None)
    items = []
    for row in rows:
        superseded = from_json(row.supersedes)
        found = connection.execute(_CHUNKS, (space_key, row.key)) if passages else ()
        chunks = [
            ChunkData(
                text=text,
                index=index,
                start_char=start,
                end_char=end,
                metadata=from_json(metadata),
                context=context,
                embedding=None if upper is None else PackedVector(upper, lower).numbers(),
                tokens=tokens or None,
            )
            for text, index, start, end, metadata, context, upper, lower, tokens in found
        ]
        history = [
            VersionCopy(replaced_at=from_time(at), fields=from_json(fields), text=text)
            for at, fields, text in connection.execute(_VERSIONS, (row.key,))
        ]
        items.append(
            MemoryCopy(
                memory_id=row.memory_id,
                text=row.text,
                chunks=chunks,
                metadata=from_json(row.metadata),
                timestamp=from_time(row.created_at),
                updated_at=from_time(row.updated_at),
                project=row.project,
                source=row.source,
                kind=row.kind,
                tags=[tag for (tag,) in connection.execute(_TAGS, (row.key,))],
                pinned=bool(row.pinned),
                idempotency_key=row.idempotency_key,
                supersedes=superseded[0] if superseded else None,
                also_supersedes=superseded[1:],
                parent=row.parent,
                position=row.position,
                occurred_at=from_time(row.occurred_at),
                expires_at=None if row.expires_at is None else from_time(row.expires_at),
                origin=row.origin,
                trusted=bool(row.trusted),
                space=space if any(chunk.embedding for chunk in chunks) else None,
                history=history,
            )
        )
    return items


def import_memories(connection: sqlite3.Connection, memories: Sequence[MemoryCopy]) -> None:
    for memory in memories:
        key = insert_memory(connection, memory, memory.updated_at)
        supersede(connection, key, memory.also_supersedes)
        _insert_versions(connection, key, memory.history)


def _insert_versions(
    connection: sqlite3.Connection, key: int, versions: Sequence[VersionCopy]
) -> None:
    connection.executemany(
        _INSERT_VERSION,
        [
            (key, to_time(version.replaced_at), to_json(version.fields), version.text)
            for version in versions
        ],
    )


# --- Single memories, to be deleted and restored ---------------------------------------

# The keys of memories, and what superseded them.
_PLACES: LiteralString = """
SELECT m.id, m.key, newer.id FROM memories m LEFT JOIN memories newer ON newer.key = m.superseded_by
WHERE m.id IN (SELECT value FROM json_each(?))"""
_STORED: LiteralString = "SELECT updated_at FROM memories WHERE id = ?"
_IS_TAKEN: LiteralString = "SELECT 1 FROM memories WHERE key = ?"
# As `supersede` has it, a memory replaces only what was stored before it.
_LINK: LiteralString = """
UPDATE memories SET superseded_by = (SELECT key FROM memories WHERE id = ?2)
WHERE id = ?1 AND superseded_by IS NULL AND key < (SELECT key FROM memories WHERE id = ?2)"""


def export_whole(connection: sqlite3.Connection, memory_ids: Sequence[str]) -> list[WholeMemory]:
    rows = connection.execute(_PLACES, (to_json(list(memory_ids)),)).fetchall()
    places = {memory_id: (key, newer) for memory_id, key, newer in rows}
    found = []
    for memory in get_copies(connection, memory_ids):
        key, newer = places[memory.memory_id]
        read = _to_reading(connection, key, memory.memory_id)
        found.append(WholeMemory(memory=memory, reading=read, order=key, superseded_by=newer))
    return found


def restore_memories(
    connection: sqlite3.Connection,
    memories: Sequence[WholeMemory],
    links: Sequence[tuple[str, str]],
) -> None:
    unchanged = []
    for one in memories:
        # What it superseded is among the links.
        memory = one.memory.model_copy(update={"supersedes": None})
        stored = fetch_value(connection, _STORED, (memory.memory_id,))
        if stored is None:
            taken = fetch_value(connection, _IS_TAKEN, (one.order,))
            key = insert_memory(connection, memory, memory.updated_at, None if taken else one.order)
            _insert_versions(connection, key, memory.history)
        if stored in (None, to_time(memory.updated_at)):
            unchanged.append(one.reading)
    connection.executemany(_LINK, links)
    import_readings(connection, unchanged)


# Which memory, other than this one, has an idempotency key.
_KEY_IS_USED: LiteralString = "SELECT 1 FROM memories WHERE idempotency_key = ? AND id <> ?"
_CHANGED_AT: LiteralString = "SELECT updated_at FROM memories WHERE id = ?"
_DELETE_VERSIONS: LiteralString = "DELETE FROM memory_history WHERE memory_key = ?"
_SET_SUCCESSOR: LiteralString = """
UPDATE memories SET superseded_by = (SELECT n.key FROM memories n WHERE n.id = :newer)
WHERE id = :older
    AND superseded_by IS NOT (SELECT n.key FROM memories n WHERE n.id = :newer)"""


def put_memory(connection: sqlite3.Connection, memory: MemoryCopy, seen: datetime | None) -> bool:
    changed = fetch_value(connection, _CHANGED_AT, (memory.memory_id,))
    if changed != (None if seen is None else to_time(seen)):
        return False
    used = (memory.idempotency_key, memory.memory_id)
    if fetch_value(connection, _KEY_IS_USED, used) is not None:
        memory = memory.model_copy(update={"idempotency_key": None})
    key = fetch_value(connection, _MEMORY_KEY, (memory.memory_id,))
    if key is None:
        alone = memory.model_copy(update={"supersedes": None})
        key = insert_memory(connection, alone, memory.updated_at)
    else:
        overwrite_memory(connection, key, memory, memory.updated_at)
        connection.execute(_DELETE_VERSIONS, (key,))
    _insert_versions(connection, key, memory.history)
    return True


def set_successors(connection: sqlite3.Connection, successors: Mapping[str, str | None]) -> None:
    connection.executemany(
        _SET_SUCCESSOR,
        [{"older": older, "newer": newer} for older, newer in successors.items()],
    )


# --- The graph: what callers stored ----------------------------------------------------

# The columns of `_to_entity`.
_ENTITY: LiteralString = """
SELECT id, name, type, description, confidence, source FROM graph_entities"""
_GIVEN_ENTITIES: LiteralString = (
    _ENTITY + " WHERE given = 1 AND id > coalesce(?, '') ORDER BY id LIMIT ?"
)
_ENTITIES_BY_ID: LiteralString = (
    _ENTITY + " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
)


def _to_entity(row: Sequence[Any], **place: Any) -> EntityData:
    names = ("entity_id", "name", "type", "description", "confidence", "source")
    return EntityData(**dict(zip(names, row, strict=True)), **place)


def export_entities(
    connection: sqlite3.Connection, after: str | None, limit: int
) -> list[EntityData]:
    rows = connection.execute(_GIVEN_ENTITIES, (after, limit))
    return [_to_entity(row) for row in rows]


class _ExportedEvidence(NamedTuple):
    """A row of evidence with its relationship and its passage."""

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

    def to_relationship(self) -> RelationshipData:
        """Return what was stated; for an earlier text, with the stored beginning."""
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
            valid_from=_to_datetime(begun),
            valid_to=_to_datetime(self.until),
        )


# The columns of an `_ExportedEvidence`.
_SENTENCE: LiteralString = (
    "SELECT s.id, t.id, r.type, e.strength, e.text, e.start_char, e.end_char, e.source,"
    " r.exclusive, e.said, e.since, e.until, e.withdrawn, e.chunk_id, c.text"
    " FROM graph_evidence e JOIN graph_relationships r ON r.key = e.relationship_key"
    " JOIN graph_entities s ON s.key = r.source_key JOIN graph_entities t ON t.key = r.target_key"
    " LEFT JOIN chunks c ON c.id = e.chunk_id"
)
_GIVEN_SENTENCES: LiteralString = (
    _SENTENCE + " WHERE e.memory_key IS NULL AND (s.id, t.id, r.type) > (?, ?, ?)"
    " ORDER BY s.id, t.id, r.type LIMIT ?"
)
_SENTENCES_OF_MEMORY: LiteralString = _SENTENCE + " WHERE e.memory_key = ? ORDER BY e.key"


def _to_datetime(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_time(microseconds)


def export_relationships(
    connection: sqlite3.Connection, after: tuple[str, str, str] | None, limit: int
) -> list[RelationshipData]:
    rows = connection.execute(_GIVEN_SENTENCES, (*(after or ("", "", "")), limit))
    return [_ExportedEvidence(*row).to_relationship() for row in rows]


# --- The graph: what was extracted from memories ---------------------------------------


_KEYS: LiteralString = """
SELECT key, id FROM memories WHERE id IN (SELECT value FROM json_each(?)) ORDER BY key"""
# The passages of a memory that an extractor has read.
_READ_PASSAGES: LiteralString = """
SELECT c.id, c.position, x.extractor FROM chunks c JOIN graph_extractions x ON x.chunk_id = c.id
WHERE c.memory_key = ? ORDER BY c.position"""
_MENTIONS: LiteralString = """
SELECT coalesce(m.alias, e.name), m.start_char, m.end_char,
    e.id, e.name, e.type, '', m.confidence, m.source
FROM graph_mentions m JOIN graph_entities e ON e.key = m.entity_key
WHERE m.chunk_id = ? ORDER BY m.start_char, m.end_char, e.id"""


def get_readings(connection: sqlite3.Connection, memory_ids: Sequence[str]) -> list[ReadingCopy]:
    rows = connection.execute(_KEYS, (to_json(list(memory_ids)),)).fetchall()
    items = [_to_reading(connection, key, memory_id) for key, memory_id in rows]
    return [item for item in items if item.passages or item.past]


def _to_reading(connection: sqlite3.Connection, key: int, memory_id: str) -> ReadingCopy:
    rows = connection.execute(_SENTENCES_OF_MEMORY, (key,))
    sentences = [_ExportedEvidence(*row) for row in rows]
    passages = []
    for chunk_id, index, extractor in connection.execute(_READ_PASSAGES, (key,)).fetchall():
        entities = [
            _to_entity(entity, surface=surface, start_char=start, end_char=end)
            for surface, start, end, *entity in connection.execute(_MENTIONS, (chunk_id,))
        ]
        relationships = [s.to_relationship() for s in sentences if s.chunk_id == chunk_id]
        passages.append(
            PassageCopy(
                index=index, extractor=extractor, entities=entities, relationships=relationships
            )
        )
    past = [
        PastSentence(
            stated=sentence.to_relationship(),
            said_at=from_time(sentence.said),
            withdrawn_at=from_time(sentence.withdrawn),
        )
        for sentence in sentences
        if sentence.chunk_id is None and sentence.withdrawn is not None
    ]
    named = {e.entity_id for passage in passages for e in passage.entities}
    named |= {i for sentence in sentences for i in (sentence.source_id, sentence.target_id)}
    found = connection.execute(_ENTITIES_BY_ID, (to_json(list(named)),))
    return ReadingCopy(
        memory_id=memory_id,
        entities=[_to_entity(row) for row in found],
        passages=passages,
        past=past,
    )


# An entity of a memory; one that exists is replaced.
_UPSERT_ENTITY: LiteralString = """
INSERT INTO graph_entities (id, name, folded, type, description, confidence, source)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, folded = excluded.folded,
    type = excluded.type, description = excluded.description, confidence = excluded.confidence,
    source = excluded.source"""
_MEMORY_KEY: LiteralString = "SELECT key FROM memories WHERE id = ?"
_CHUNK_IDS: LiteralString = "SELECT position, id FROM chunks WHERE memory_key = ?"
# The evidence of earlier texts of a memory.
_PAST_EVIDENCE: LiteralString = """
SELECT key FROM graph_evidence WHERE memory_key = ? AND chunk_id IS NULL"""
_DELETE_EVIDENCE: LiteralString = "DELETE FROM graph_evidence WHERE key = ?"
_INSERT_RELATIONSHIP: LiteralString = """
INSERT OR IGNORE INTO graph_relationships (source_key, target_key, type, exclusive)
SELECT s.key, t.key, ?3, ?4 FROM graph_entities s, graph_entities t WHERE s.id = ?1 AND t.id = ?2"""
_INSERT_PAST: LiteralString = """
INSERT INTO graph_evidence (relationship_key, memory_key, start_char, end_char, text, strength,
    source, said, since, until, withdrawn)
SELECT r.key, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13 FROM graph_relationships r
JOIN graph_entities s ON s.key = r.source_key JOIN graph_entities t ON t.key = r.target_key
WHERE s.id = ?1 AND t.id = ?2 AND r.type = ?3"""


def import_readings(connection: sqlite3.Connection, readings: Sequence[ReadingCopy]) -> None:
    for reading in readings:
        key = fetch_value(connection, _MEMORY_KEY, (reading.memory_id,))
        if key is not None:
            connection.executemany(
                _UPSERT_ENTITY, [entity_row(entity) for entity in reading.entities]
            )
            reroot(connection, {entity.entity_id for entity in reading.entities})
            chunk_ids = dict(connection.execute(_CHUNK_IDS, (key,)).fetchall())
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
    before = connection.execute(_PAST_EVIDENCE, (key,)).fetchall()
    for sentence in past:
        stated, since = sentence.stated, sentence.stated.valid_from
        place = (stated.source_entity_id, stated.target_entity_id, stated.relationship_type)
        connection.execute(_INSERT_RELATIONSHIP, (*place, int(stated.exclusive)))
        connection.execute(
            _INSERT_PAST,
            (
                *place, key, stated.start_char, stated.end_char, stated.evidence, stated.strength,
                stated.source, to_time(sentence.said_at),
                EVER if since is None else to_time(since),
                None if stated.valid_to is None else to_time(stated.valid_to),
                to_time(sentence.withdrawn_at),
            ),
        )  # fmt: skip
    connection.executemany(_DELETE_EVIDENCE, before)


# --- The graph: merges -----------------------------------------------------------------


_MERGES: LiteralString = """
SELECT source_id, target_id, automatic, merged_at, undone_at FROM graph_merges ORDER BY key"""
_DELETE_MERGES: LiteralString = "DELETE FROM graph_merges"
_INSERT_MERGE: LiteralString = """
INSERT INTO graph_merges (source_id, target_id, automatic, merged_at, undone_at)
VALUES (?, ?, ?, ?, ?)"""
_CLEAR_ROOTS: LiteralString = "UPDATE graph_entities SET root = NULL WHERE root IS NOT NULL"


def export_merges(connection: sqlite3.Connection) -> list[MergeCopy]:
    return [
        MergeCopy(
            source_id=source,
            target_id=target,
            automatic=bool(automatic),
            merged_at=from_time(merged),
            undone_at=_to_datetime(undone),
        )
        for source, target, automatic, merged, undone in connection.execute(_MERGES)
    ]


def import_merges(connection: sqlite3.Connection, merges: Sequence[MergeCopy]) -> None:
    before = {m.source_id for m in export_merges(connection)}
    # Roots follow from the merges: those of entities no longer merged are cleared first.
    connection.execute(_CLEAR_ROOTS)
    connection.execute(_DELETE_MERGES)
    connection.executemany(
        _INSERT_MERGE,
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


# --- Projects ---------------------------------------------------------------------------

_PROJECTS: LiteralString = "SELECT key, name, injection, created_at FROM projects ORDER BY key"
_ALIASES: LiteralString = "SELECT project_key, alias FROM project_aliases ORDER BY alias"
_INSERT_PROJECT: LiteralString = """
INSERT OR IGNORE INTO projects (key, name, injection, created_at)
VALUES (:key, :name, :injection, :created_at)"""
_INSERT_ALIAS: LiteralString = """
INSERT OR IGNORE INTO project_aliases (alias, project_key) VALUES (?, ?)"""


def export_projects(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return all projects by key, with their other keys and what the user decided about them."""
    aliases: dict[str, list[str]] = {}
    for key, alias in connection.execute(_ALIASES):
        aliases.setdefault(key, []).append(alias)
    rules = list_rules(connection)
    found = []
    for row in dict_rows(connection, _PROJECTS):
        private, excluded = rules.get(row["key"], (False, False))
        more = {"aliases": aliases.get(row["key"], []), "private": private, "excluded": excluded}
        found.append({**row, "injection": bool(row["injection"]), **more})
    return found


def import_projects(connection: sqlite3.Connection, projects: Sequence[dict[str, Any]]) -> int:
    """Add the projects that are not here; return how many.

    One that is here keeps its name. What is private elsewhere is private here.
    """
    added = 0
    for project in projects:
        is_new = connection.execute(_INSERT_PROJECT, project).rowcount == 1
        added += is_new
        if is_new:
            for alias in project["aliases"]:
                connection.execute(_INSERT_ALIAS, (alias, project["key"]))
        if project["private"]:
            change_rule(connection, project["key"], "private", on=True)
        if is_new and project["excluded"]:
            change_rule(connection, project["key"], "excluded", on=True)
    return added


# --- Observations and their sessions ----------------------------------------------------

_MONTHS: LiteralString = """
SELECT DISTINCT strftime('%Y-%m', timestamp, 'unixepoch') FROM observations
WHERE (?1 IS NULL OR project IN (SELECT value FROM json_each(?1))) ORDER BY 1"""
# The columns of an exported observation, of one month.
_OBSERVATIONS: LiteralString = """
SELECT o.session_id, o.project, o.host, o.timestamp, o.obs_type, o.source_event, o.tool_name,
    o.file_path, o.content, o.metadata, o.signature, o.pinned, lower(hex(o.event_hash)) event_hash,
    (SELECT lower(hex(p.event_hash)) FROM observations p WHERE p.id = o.prompt_id) prompt
FROM observations o
WHERE o.timestamp >= CAST(strftime('%s', ?1 || '-01') AS INTEGER)
    AND o.timestamp < CAST(strftime('%s', ?1 || '-01', '+1 month') AS INTEGER)
    AND (?2 IS NULL OR o.project IN (SELECT value FROM json_each(?2)))
ORDER BY o.timestamp, event_hash"""
_SESSIONS: LiteralString = """
SELECT id, project, host, branch, started_at, last_at, ended_at FROM sessions
WHERE (?1 IS NULL OR project IN (SELECT value FROM json_each(?1))) ORDER BY id"""
_INSERT_SESSION: LiteralString = """
INSERT OR IGNORE INTO sessions (id, project, host, branch, started_at, last_at, ended_at)
VALUES (:id, :project, :host, :branch, :started_at, :last_at, :ended_at)"""
_INSERT_OBSERVATION: LiteralString = """
INSERT OR IGNORE INTO observations
    (session_id, project, host, timestamp, obs_type, source_event, tool_name, file_path, content,
     metadata, signature, pinned, event_hash)
VALUES (:session_id, :project, :host, :timestamp, :obs_type, :source_event, :tool_name, :file_path,
     :content, :metadata, :signature, :pinned, :event)"""
_LINK_PROMPT: LiteralString = """
UPDATE observations SET prompt_id = (SELECT id FROM observations WHERE event_hash = ?2)
WHERE event_hash = ?1 AND prompt_id IS NULL"""


def _chosen(projects: Sequence[str] | None) -> str | None:
    return None if projects is None else to_json(list(projects))


def list_months(connection: sqlite3.Connection, projects: Sequence[str] | None) -> list[str]:
    """Return the months that have observations, such as `2026-11`."""
    return [month for (month,) in connection.execute(_MONTHS, (_chosen(projects),))]


def export_observations(
    connection: sqlite3.Connection, month: str, projects: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return the observations of a month, by time."""
    found = []
    for row in dict_rows(connection, _OBSERVATIONS, (month, _chosen(projects))):
        metadata = None if row["metadata"] is None else from_json(row["metadata"])
        found.append({**row, "metadata": metadata, "pinned": bool(row["pinned"])})
    return found


def import_observations(
    connection: sqlite3.Connection, observations: Sequence[dict[str, Any]]
) -> int:
    """Add the observations whose events are not here; return how many.

    Those they were prompted by are linked if they are here or among them.
    """
    added = 0
    for one in observations:
        metadata = None if one["metadata"] is None else to_json(one["metadata"])
        given = {**one, "metadata": metadata, "event": bytes.fromhex(one["event_hash"])}
        added += connection.execute(_INSERT_OBSERVATION, given).rowcount
    links = [
        (bytes.fromhex(one["event_hash"]), bytes.fromhex(one["prompt"]))
        for one in observations
        if one["prompt"]
    ]
    connection.executemany(_LINK_PROMPT, links)
    return added


def export_sessions(
    connection: sqlite3.Connection, projects: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return the sessions by id."""
    return dict_rows(connection, _SESSIONS, (_chosen(projects),))


def import_sessions(connection: sqlite3.Connection, sessions: Sequence[dict[str, Any]]) -> None:
    """Add the sessions that are not here."""
    connection.executemany(_INSERT_SESSION, sessions)


# --- Indexed code, as it is -------------------------------------------------------------

# Each comes after those it refers to. All of it is in local files of one schema.
CODE_TABLES: tuple[LiteralString, ...] = (
    "code_repositories",
    "code_files",
    "code_file_data",
    "code_symbols",
    "code_edges",
    "code_citations",
)


def export_code(
    connection: sqlite3.Connection, table: LiteralString, offset: int, limit: int
) -> list[tuple[Any, ...]]:
    """Return rows of a table of code, in the order of its key."""
    rows = connection.execute(
        "SELECT * FROM " + table + " ORDER BY 1, 2 LIMIT ? OFFSET ?", (limit, offset)
    )
    return rows.fetchall()


def has_other_code(connection: sqlite3.Connection, roots: Sequence[str]) -> bool:
    """Return whether a repository is indexed that is none of these."""
    rows = connection.execute("SELECT root FROM code_repositories")
    return any(root not in roots for (root,) in rows)


def clear_code(connection: sqlite3.Connection) -> None:
    """Delete all indexed code and citations."""
    for table in reversed(CODE_TABLES):
        connection.execute("DELETE FROM " + table)


def import_code(
    connection: sqlite3.Connection, table: LiteralString, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Add rows to a table of code as they are."""
    if rows:
        places: LiteralString = ", ".join(["?"] * len(rows[0]))
        connection.executemany("INSERT INTO " + table + " VALUES (" + places + ")", rows)
