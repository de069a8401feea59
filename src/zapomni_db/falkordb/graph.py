"""Writing the graph: entities, mentions, relationships and merges.

A relationship is all the edges RELATES of one type from one entity to another, one for each
statement of it. It exists while one of them does, and holds while one of them does.

Changes are planned first: read, plan, write if nothing changed meanwhile. The Store counts every
change of the graph (`graph`). A plan reads that number first; the statement that writes the plan
does nothing if it is another one by then, and the plan is made again. Storing memories is not
counted: it takes nothing away from a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString, NamedTuple

from zapomni_db.copy_models import MergeCopy, PastSentence
from zapomni_db.exceptions import EntityNotFoundError, ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.values import check_id, digest, exact_number
from zapomni_db.graph_models import (
    CooccurringPair,
    EdgeKey,
    ExtractedChunk,
    GraphGrowth,
    Merge,
)
from zapomni_db.models import EntityData, RelationshipData
from zapomni_db.rules import COOCCURRENCE, EVER, alias_of, beginning, find_root, fold, most_certain
from zapomni_db.values import from_time, to_time

__all__ = [
    "CREATE_STATEMENTS",
    "DELETE_PAST_STATEMENTS",
    "DELETE_STATEMENTS",
    "DELETE_UNSUPPORTED",
    "ExtractionPlan",
    "GraphChange",
    "Merges",
    "edge_key",
    "end_statements",
    "get_cooccurring",
    "merge_entities",
    "past_statement_row",
    "read_graph_state",
    "set_associations",
    "store_entities",
    "store_extractions",
    "undo_merge",
]

# --- A planned change -------------------------------------------------------------------

# Finds the number of the last change, and how many merges there are.
_GRAPH_STATE: LiteralString = "MATCH (s:Store) OPTIONAL MATCH (g:Merge) RETURN s.graph, count(g)"
# Counts the change, if no other was made since the plan was.
_GUARD: LiteralString = """
MATCH (s:Store) WHERE s.graph = $seen
WITH s, s.keys AS base
SET s.version = s.version + 1, s.graph = s.graph + 1, s.keys = base + $keys
WITH s, base
"""


async def read_graph_state(session: Session) -> tuple[int, int]:
    """Return the number of the last change, and how many merges there are."""
    ((seen, merges),) = await session.read_store(_GRAPH_STATE)
    return seen, merges


class GraphChange:
    """One statement, composed of parts; each part is run for every row `x` of a list.

    A part that may find nothing for a row uses OPTIONAL MATCH: without a row, the parts after it
    would not run.
    """

    def __init__(self, seen: int) -> None:
        self.values: dict[str, Any] = {"seen": seen}
        self._parts: list[LiteralString] = []
        self._keys = 0

    def next_key(self) -> int:
        """Return a number that no other row of the store will have once `base` is added."""
        self._keys += 1
        return self._keys

    def add(self, part: LiteralString, name: LiteralString, rows: Sequence[Any]) -> None:
        """Run this part for these rows."""
        if rows:
            self._parts.append(f"UNWIND ${name} AS x {part} WITH s, base, count(*) AS done ")
            self.values[name] = rows

    async def write(self, session: Session) -> bool:
        """Write all of it; False if something was changed since the plan was made."""
        statement = _GUARD + "".join(self._parts) + "RETURN s.graph"
        return bool(await session.write(statement, keys=self._keys, **self.values))


# --- Parts of a change ------------------------------------------------------------------

# Creates entities.
_CREATE_ENTITIES: LiteralString = """
CREATE (:Entity {id: x.id, key: base + x.key, name: x.name, folded: x.folded,
    folded_hash: x.folded_hash, type: x.type, description: x.description,
    confidence: x.confidence, confidence_exact: x.confidence_exact, source: x.source,
    given: x.given})
"""
# Replaces the fields of entities; those a caller gave once stay given.
_UPDATE_ENTITIES: LiteralString = """
MATCH (e:Entity {id: x.id}) SET e.name = x.name, e.folded = x.folded,
    e.folded_hash = x.folded_hash, e.type = x.type, e.description = x.description,
    e.confidence = x.confidence, e.confidence_exact = x.confidence_exact, e.source = x.source,
    e.given = e.given OR x.given
"""
# Raises the confidence of entities, and adds a missing description.
_RAISE_CONFIDENCE: LiteralString = """
MATCH (e:Entity {id: x.id}) SET e.confidence = x.confidence,
    e.confidence_exact = x.confidence_exact, e.description = x.description
"""
# Creates mentions.
_CREATE_MENTIONS: LiteralString = """
MATCH (c:Chunk {id: x.chunk}) MATCH (e:Entity {id: x.entity})
CREATE (c)-[:MENTIONS {start_char: x.start_char, end_char: x.end_char, confidence: x.confidence,
    confidence_exact: x.confidence_exact, source: x.source, alias: x.alias, folded: x.folded,
    folded_hash: x.folded_hash, since: x.since, withdrawn: x.withdrawn}]->(e)
"""
# Another reader may be surer of the same words.
_UPDATE_MENTIONS: LiteralString = """
MATCH (:Chunk {id: x.chunk})-[m:MENTIONS]->(:Entity {id: x.entity})
    WHERE m.start_char = x.start_char AND m.end_char = x.end_char
SET m.confidence = x.confidence, m.confidence_exact = x.confidence_exact, m.source = x.source
"""
# Deletes mentions by where they are.
_DELETE_MENTIONS: LiteralString = """
OPTIONAL MATCH (:Chunk {id: x.chunk})-[m:MENTIONS]->(:Entity {id: x.entity})
    WHERE m.start_char = x.start_char AND m.end_char = x.end_char
DELETE m
"""
CREATE_STATEMENTS: LiteralString = """
MATCH (a:Entity {id: x.source_id}) MATCH (b:Entity {id: x.target_id})
CREATE (a)-[:RELATES {key: base + x.key, type: x.type, exclusive: x.exclusive,
    strength: x.strength, strength_exact: x.strength_exact, source: x.source, text: x.text,
    start_char: x.start_char, end_char: x.end_char, said: x.said, since: x.since, until: x.until,
    withdrawn: x.withdrawn, chunk: x.chunk, memory: x.memory}]->(b)
"""
"""Creates statements from `_statement_row`."""
DELETE_STATEMENTS: LiteralString = """
OPTIONAL MATCH ()-[v:RELATES {chunk: x.chunk}]->() WHERE v.key = x.key
DELETE v
"""
"""Deletes statements of a chunk by key."""
# Deletes the statements of a relationship that callers gave.
_DELETE_GIVEN_STATEMENTS: LiteralString = """
MATCH (a:Entity {id: x.source_id}) MATCH (b:Entity {id: x.target_id}) WITH s, base, x, a, b
OPTIONAL MATCH (a)-[v:RELATES]->(b) WHERE v.type = x.type AND v.memory IS NULL
DELETE v
"""
DELETE_PAST_STATEMENTS: LiteralString = """
OPTIONAL MATCH ()-[v:RELATES {memory: x}]->() WHERE v.chunk IS NULL
DELETE v
"""
"""Deletes the statements of a memory's earlier texts."""
# Marks chunks as read by an extractor.
_MARK_READ: LiteralString = "MATCH (c:Chunk {id: x.id}) SET c.extractor = x.extractor"
DELETE_UNSUPPORTED: LiteralString = """
OPTIONAL MATCH (e:Entity {id: x}) WHERE NOT e.given AND indegree(e, 'MENTIONS') = 0
    AND indegree(e, 'RELATES') = 0 AND outdegree(e, 'RELATES') = 0
DELETE e
"""
"""Deletes the entity `x` if nothing mentions it or states anything of it."""


# --- Rows of a change -------------------------------------------------------------------


class Provenance(NamedTuple):
    """Where a mention or statement comes from: a chunk, or (without one) a caller."""

    chunk: str | None = None
    memory: str | None = None
    said: int = EVER
    withdrawn: int | None = None
    """When the memory was superseded."""
    text: str = ""


class StatementContent(NamedTuple):
    """What a sentence alone decides about its edge."""

    relationship: EdgeKey
    start_char: int
    end_char: int
    strength: float
    source: str
    since: int
    until: int | None


def edge_key(stated: RelationshipData) -> EdgeKey:
    return EdgeKey(stated.source_entity_id, stated.target_entity_id, stated.relationship_type)


def _entity_row(entity: EntityData, key: int, *, given: bool) -> dict[str, Any]:
    folded = fold(entity.name)
    return {
        "id": entity.entity_id,
        "key": key,
        "name": entity.name,
        "folded": folded,
        "folded_hash": digest(folded),
        "type": entity.type,
        "description": entity.description,
        "confidence": entity.confidence,
        "confidence_exact": exact_number(entity.confidence),
        "source": entity.source,
        "given": given,
    }


def _statement_content(stated: RelationshipData, said: int) -> StatementContent:
    until = None if stated.valid_to is None else to_time(stated.valid_to)
    start = None if stated.valid_from is None else to_time(stated.valid_from)
    return StatementContent(
        edge_key(stated),
        stated.start_char,
        stated.end_char,
        stated.strength,
        stated.source,
        beginning(said, start, until),
        until,
    )


def _as_compared(content: StatementContent) -> StatementContent:
    """Return what makes a statement another one; all memories decide on an association."""
    return content._replace(strength=0.0) if content.source == COOCCURRENCE else content


def _statement_row(
    content: StatementContent, provenance: Provenance, text: str, key: int, *, exclusive: bool
) -> dict[str, Any]:
    fields = content._asdict()
    del fields["relationship"]
    return {
        **fields,
        **content.relationship._asdict(),
        "strength_exact": exact_number(content.strength),
        "key": key,
        "exclusive": exclusive,
        "text": text,
        "chunk": provenance.chunk,
        "memory": provenance.memory,
        "said": provenance.said,
        "withdrawn": provenance.withdrawn,
    }


def past_statement_row(
    past: PastSentence, memory: str, key: int, *, exclusive: bool
) -> dict[str, Any]:
    """Return a statement of an earlier text of a memory."""
    withdrawn, said = to_time(past.withdrawn_at), to_time(past.said_at)
    provenance = Provenance(None, memory, said, withdrawn)
    content = _statement_content(past.stated, said)
    return _statement_row(content, provenance, past.stated.evidence, key, exclusive=exclusive)


# --- Given by a caller ------------------------------------------------------------------

# Finds the confidence and description of entities.
_ENTITIES: LiteralString = "MATCH (e:Entity) WHERE e.id IN $ids"
_ENTITY: LiteralString = "e.id, coalesce(e.confidence_exact, e.confidence), e.description"
# Finds which relationships are stated, and whether they are exclusive.
_STATED: LiteralString = (
    "UNWIND $asked AS x MATCH (a:Entity {id: x[1]}) MATCH (b:Entity {id: x[2]})"
    " WITH x, a, b CALL { WITH x, a, b MATCH (a)-[v:RELATES]->(b) WHERE v.type = x[3]"
    " RETURN v.exclusive AS exclusive LIMIT 1 }"
)


async def store_entities(
    session: Session, entities: Sequence[EntityData], relationships: Sequence[RelationshipData]
) -> int:
    for entity in entities:
        check_id("entity_id", entity.entity_id)
    given = {entity.entity_id: entity for entity in entities}
    stated = {edge_key(one): one for one in relationships}
    while True:
        seen, number = await read_graph_state(session)
        ends = {i for key in stated for i in key[:2]}
        known = await _read_entities(session, given.keys() | ends)
        _check_ends(relationships, known.keys() | given.keys())
        exclusive = await _read_exclusive(session, stated)
        for one in relationships:
            exclusive.setdefault(edge_key(one), one.exclusive)
        merges = await Merges.load(session, given.keys(), number)
        merges.add(given.keys() - known.keys())
        change = GraphChange(seen)
        rows = [_entity_row(one, change.next_key(), given=True) for one in given.values()]
        change.add(_CREATE_ENTITIES, "new", [row for row in rows if row["id"] not in known])
        change.add(_UPDATE_ENTITIES, "again", [row for row in rows if row["id"] in known])
        merges.write_into(change)
        statements = [
            _statement_row(
                _statement_content(one, EVER), Provenance(), one.evidence, change.next_key(),
                exclusive=exclusive[key],
            )
            for key, one in stated.items()
        ]  # fmt: skip
        change.add(_DELETE_GIVEN_STATEMENTS, "statements", statements)
        change.add(CREATE_STATEMENTS, "statements", statements)
        if await change.write(session):
            return len(entities)


def _check_ends(relationships: Iterable[RelationshipData], known: Collection[str]) -> None:
    for stated in relationships:
        if stated.source_entity_id not in known or stated.target_entity_id not in known:
            raise ValidationError(
                "A relationship names an entity that was not stored with it.", "VAL_004"
            )


async def _read_entities(session: Session, ids: Collection[str]) -> dict[str, tuple[float, str]]:
    """Return the confidence and description of the entities that exist, by id."""
    rows = await session.read_list(_ENTITIES, _ENTITY, ids=sorted(ids))
    return {
        entity_id: (float(confidence), description) for entity_id, confidence, description in rows
    }


async def _read_exclusive(session: Session, keys: Collection[EdgeKey]) -> dict[EdgeKey, bool]:
    """Return of the relationships that are stated whether they are exclusive."""
    asked = sorted(keys)
    rows = await session.read_list(
        _STATED, "x[0], exclusive", asked=[[number, *key] for number, key in enumerate(asked)]
    )
    return {asked[number]: exclusive for number, exclusive in rows}


# --- Extracted from passages ------------------------------------------------------------

# Finds chunks with their memory and the memory that superseded it.
_CHUNKS: LiteralString = """
MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids
OPTIONAL MATCH (newer:Memory {id: m.superseded_by})
"""
_PROVENANCE: LiteralString = "c.id, m.id, m.said, newer.occurred_at, c.text"
# Finds the mentions of chunks.
_MENTIONS: LiteralString = "MATCH (c:Chunk)-[m:MENTIONS]->(e:Entity) WHERE c.id IN $ids"
_MENTION: LiteralString = (
    "c.id, m.start_char, m.end_char, e.id, coalesce(m.confidence_exact, m.confidence)"
)
# Finds the statements of chunks.
_STATEMENTS: LiteralString = "MATCH ()-[v:RELATES]->() WHERE v.chunk IN $ids"
_STATEMENT: LiteralString = (
    "v.chunk, v.key, startNode(v).id, endNode(v).id, v.type, v.start_char, v.end_char,"
    " coalesce(v.strength_exact, v.strength), v.source, v.since, v.until"
)
# Counts the mentions and statements of entities that no caller gave.
_EXTRACTED: LiteralString = "MATCH (e:Entity) WHERE e.id IN $ids AND NOT e.given"
_SUPPORT: LiteralString = (
    "e.id, indegree(e, 'MENTIONS') + indegree(e, 'RELATES') + outdegree(e, 'RELATES')"
)

_Span = tuple[int, int, str]
_Row = dict[str, Any]


async def store_extractions(
    session: Session,
    extractor: str,
    chunks: Sequence[ExtractedChunk],
    same: Sequence[tuple[str, str]] = (),
) -> GraphGrowth:
    ids = [chunk.chunk_id for chunk in chunks]
    for entity_id in {e.entity_id for chunk in chunks for e in chunk.entities}:
        check_id("entity_id", entity_id)
    while True:
        seen, number = await read_graph_state(session)
        plan = await ExtractionPlan.load(session, seen, chunks)
        involved = plan.new.keys() | {i for pair in same for i in pair}
        merges = await Merges.load(session, involved, number)
        merges.add(plan.new)
        merges.drop(plan.unsupported)
        merges.merge_same(same)
        growth = plan.complete(dict.fromkeys(ids, extractor), merges)
        if await plan.change.write(session):
            return growth


# --- Names that occur together --------------------------------------------------------------

# Finds pairs that sentences name together.
_COOCCURRING: LiteralString = """
MATCH (a:Entity)-[v:RELATES]->(b:Entity) WHERE v.source = $source AND v.withdrawn IS NULL
WITH a, b, v.type AS type, count(DISTINCT v.memory) AS memories, max(v.strength) AS strength
OPTIONAL MATCH (a)-[o:RELATES]-(b) WHERE o.type <> type
WITH a, b, type, memories, strength, count(o) AS others
"""
_COOCCURRING_PAIR: LiteralString = "a.id, b.id, type, memories, strength, others"
# Counts the memories that mention each entity.
_MENTIONING_MEMORIES: LiteralString = """
MATCH (m:Memory)-[:HAS_CHUNK]->(:Chunk)-[n:MENTIONS]->(e:Entity) WHERE n.withdrawn IS NULL
WITH e, count(DISTINCT m) AS memories
"""
_COUNT_MEMORIES: LiteralString = """
MATCH (m:Memory) WHERE m.kind <> 'code' AND m.superseded_by IS NULL RETURN count(m)"""
_SET_ASSOCIATIONS: LiteralString = """
MATCH (a:Entity {id: x[0]}) MATCH (b:Entity {id: x[1]}) WITH s, base, x, a, b
OPTIONAL MATCH (a)-[v:RELATES]->(b) WHERE v.type = x[2] AND v.source = x[5]
SET v.strength = x[3], v.strength_exact = x[4]
"""


async def get_cooccurring(session: Session) -> tuple[list[CooccurringPair], int]:
    memories = dict(await session.read_list(_MENTIONING_MEMORIES, "e.id, memories"))
    rows = await session.read_list(_COOCCURRING, _COOCCURRING_PAIR, source=COOCCURRENCE)
    pairs = [
        CooccurringPair(
            key=EdgeKey(source, target, kind),
            together=together,
            source_memories=memories.get(source, 0),
            target_memories=memories.get(target, 0),
            strength=float(strength),
            is_stated=others > 0,
        )
        for source, target, kind, together, strength, others in rows
    ]
    ((total,),) = await session.read(_COUNT_MEMORIES)
    return pairs, int(total)


async def set_associations(session: Session, associations: Sequence[tuple[EdgeKey, float]]) -> None:
    rows = [
        [*key, strength, exact_number(strength), COOCCURRENCE] for key, strength in associations
    ]
    while rows:
        seen, _ = await read_graph_state(session)
        change = GraphChange(seen)
        change.add(_SET_ASSOCIATIONS, "associations", rows)
        if await change.write(session):
            return


# --- What later texts say is over -------------------------------------------------------------

# Finds the statements that say that a relationship is over.
_OVER: LiteralString = """
MATCH (a:Entity)-[o:RELATES]->(b:Entity) WHERE o.until IS NOT NULL AND o.until <= o.said
    AND o.since = $ever AND o.chunk IS NOT NULL AND o.withdrawn IS NULL
"""
# Finds the statements of memories that hold and may be ended: those of the relationships that are
# over, and those that were ended before.
_MAY_END: LiteralString = """
CALL { UNWIND $over AS x MATCH (a:Entity {id: x[0]}) MATCH (b:Entity {id: x[1]}) WITH x, a, b
    MATCH (a)-[v:RELATES]->(b) WHERE v.type = x[2] RETURN v
    UNION MATCH ()-[v:RELATES]->() WHERE v.withdrawn IS NOT NULL RETURN v }
WITH DISTINCT v WHERE v.chunk IS NOT NULL AND v.until IS NULL
MATCH (m:Memory {id: v.memory}) WHERE m.superseded_by IS NULL
"""
_ENDED_STATEMENT: LiteralString = (
    "startNode(v).id, endNode(v).id, v.type, v.chunk, v.key, v.said, v.withdrawn"
)
_END: LiteralString = """
OPTIONAL MATCH ()-[v:RELATES {chunk: x[0]}]->() WHERE v.key = x[1] SET v.withdrawn = x[2]
"""


async def end_statements(session: Session) -> None:
    while True:
        seen, _ = await read_graph_state(session)
        over: dict[EdgeKey, list[tuple[int, int]]] = {}
        for source, target, kind, said, until in await session.read_list(
            _OVER, "a.id, b.id, o.type, o.said, o.until", ever=EVER
        ):
            over.setdefault(EdgeKey(source, target, kind), []).append((said, until))
        rows = await session.read_list(_MAY_END, _ENDED_STATEMENT, over=[list(key) for key in over])
        changed = []
        for source, target, kind, chunk, key, said, withdrawn in rows:
            later = [one for one in over.get(EdgeKey(source, target, kind), ()) if one[0] > said]
            end = max(said, min(later)[1]) if later else None
            if end != withdrawn:
                changed.append([chunk, key, end])
        change = GraphChange(seen)
        change.add(_END, "ended", changed)
        if not changed or await change.write(session):
            return


class ExtractionPlan:
    """The difference between what passages say and what is stored of them.

    Entities in `exact` are stored as they are there, whatever the passages say.
    """

    def __init__(
        self,
        seen: int,
        chunks: Sequence[ExtractedChunk],
        exact: Mapping[str, EntityData],
        known: Mapping[str, tuple[float, str]],
        exclusive: dict[EdgeKey, bool],
    ) -> None:
        self.change = GraphChange(seen)
        self.exclusive = exclusive
        """Of every relationship that is stated, whether it is exclusive."""
        self._chunks = chunks
        self._exact = exact
        self._best = most_certain(e for chunk in chunks for e in chunk.entities) | dict(exact)
        self._known = known
        self.new = {i: e for i, e in self._best.items() if i not in known}
        self._sources: dict[str, Provenance] = {}
        self._stored_mentions: dict[str, dict[_Span, float]] = {}
        self._stored_statements: dict[str, dict[StatementContent, int]] = {}
        self.unsupported: set[str] = set()
        """Entities that nothing will mention any longer."""

    @classmethod
    async def load(
        cls,
        session: Session,
        seen: int,
        chunks: Sequence[ExtractedChunk],
        exact: Mapping[str, EntityData] | None = None,
    ) -> ExtractionPlan:
        """Read everything that may have to be changed, and compare."""
        ids = [chunk.chunk_id for chunk in chunks]
        rows = await session.read_list(_CHUNKS, _PROVENANCE, ids=ids)
        sources = {chunk_id: Provenance(chunk_id, *others) for chunk_id, *others in rows}
        present = [chunk for chunk in chunks if chunk.chunk_id in sources]
        for chunk in present:
            _check_ends(chunk.relationships, {e.entity_id for e in chunk.entities})
        named = {e.entity_id for chunk in present for e in chunk.entities}
        known = await _read_entities(session, named | (exact or {}).keys())
        keys = {edge_key(one) for chunk in present for one in chunk.relationships}
        plan = cls(seen, present, exact or {}, known, await _read_exclusive(session, keys))
        plan._sources = sources
        for chunk_id, *span in await session.read_list(_MENTIONS, _MENTION, ids=ids):
            start, end, entity_id, confidence = span
            stored = plan._stored_mentions.setdefault(chunk_id, {})
            stored[start, end, entity_id] = float(confidence)
        for row in await session.read_list(_STATEMENTS, _STATEMENT, ids=ids):
            chunk_id, key, source_id, target_id, kind, start, end, strength, *others = row
            relationship = EdgeKey(source_id, target_id, kind)
            content = StatementContent(relationship, start, end, float(strength), *others)
            plan._stored_statements.setdefault(chunk_id, {})[_as_compared(content)] = key
        plan._compare_mentions()
        plan._compare_statements()
        await plan._find_unsupported(session)
        return plan

    def _compare_mentions(self) -> None:
        self._new_mentions: list[_Row] = []
        self._old_mentions: list[_Row] = []
        self._surer_mentions: list[_Row] = []
        for chunk in self._chunks:
            source = self._sources[chunk.chunk_id]
            stored = self._stored_mentions.get(chunk.chunk_id, {})
            now = {(m.start_char, m.end_char, m.entity_id): m for m in chunk.entities}
            for span, mention in now.items():
                if span in stored:
                    if stored[span] != mention.confidence:
                        self._surer_mentions.append(
                            {
                                "chunk": source.chunk,
                                "entity": mention.entity_id,
                                "start_char": mention.start_char,
                                "end_char": mention.end_char,
                                "confidence": mention.confidence,
                                "confidence_exact": exact_number(mention.confidence),
                                "source": mention.source,
                            }
                        )
                    continue
                alias, folded = alias_of(mention)
                self._new_mentions.append(
                    {
                        "chunk": source.chunk,
                        "entity": mention.entity_id,
                        "start_char": mention.start_char,
                        "end_char": mention.end_char,
                        "confidence": mention.confidence,
                        "confidence_exact": exact_number(mention.confidence),
                        "source": mention.source,
                        "alias": alias,
                        "folded": folded,
                        "folded_hash": None if folded is None else digest(folded),
                        "since": source.said,
                        "withdrawn": source.withdrawn,
                    }
                )
            self._old_mentions += [
                {"chunk": source.chunk, "start_char": start, "end_char": end, "entity": entity_id}
                for start, end, entity_id in stored.keys() - now.keys()
            ]

    def _compare_statements(self) -> None:
        # Names that only occur together are no relationship until they do so above chance.
        known = set(self.exclusive)
        new: set[EdgeKey] = set()
        self._new_statements: list[_Row] = []
        self._old_statements: list[_Row] = []
        for chunk in self._chunks:
            source = self._sources[chunk.chunk_id]
            stored = self._stored_statements.get(chunk.chunk_id, {})
            now: set[StatementContent] = set()
            for stated in chunk.relationships:
                one = _statement_content(stated, source.said)
                exclusive = self.exclusive.setdefault(one.relationship, stated.exclusive)
                if stated.strength > 0 and one.relationship not in known:
                    new.add(one.relationship)
                compared = _as_compared(one)
                if compared not in now and compared not in stored:
                    text = source.text[stated.start_char : stated.end_char]
                    key = self.change.next_key()
                    row = _statement_row(one, source, text, key, exclusive=exclusive)
                    self._new_statements.append(row)
                now.add(compared)
            self._old_statements += [
                {"chunk": source.chunk, "key": key, "ends": one.relationship[:2]}
                for one, key in stored.items()
                if one not in now
            ]
        self._new_relationships = len(new)

    async def _find_unsupported(self, session: Session) -> None:
        """Find the entities that lose their last mention or statement."""
        lost = Counter(row["entity"] for row in self._old_mentions)
        lost.update(i for row in self._old_statements for i in row["ends"])
        if not lost:
            return
        lost.subtract(row["entity"] for row in self._new_mentions)
        lost.subtract(
            row[end] for row in self._new_statements for end in ("source_id", "target_id")
        )
        rows = await session.read_list(_EXTRACTED, _SUPPORT, ids=sorted(lost))
        self.unsupported = {i for i, support in rows if support <= lost[i]}

    def complete(self, extractors: Mapping[str, str], merges: Merges) -> GraphGrowth:
        """Compose the change with these merges; return what it adds.

        `extractors` are the names of the extractors that read the chunks, by chunk id.
        """
        change = self.change
        new = [_entity_row(one, change.next_key(), given=False) for one in self.new.values()]
        change.add(_CREATE_ENTITIES, "new", new)
        change.add(_RAISE_CONFIDENCE, "raised", list(self._raised()))
        exact = [_entity_row(e, 0, given=False) for i, e in self._exact.items() if i in self._known]
        change.add(_UPDATE_ENTITIES, "exact", exact)
        merges.write_into(change)
        change.add(_CREATE_MENTIONS, "new_mentions", self._new_mentions)
        change.add(_UPDATE_MENTIONS, "surer_mentions", self._surer_mentions)
        change.add(CREATE_STATEMENTS, "new_statements", self._new_statements)
        change.add(_DELETE_MENTIONS, "old_mentions", self._old_mentions)
        change.add(DELETE_STATEMENTS, "old_statements", self._old_statements)
        change.add(DELETE_UNSUPPORTED, "unsupported", sorted(self.unsupported))
        read = [{"id": c.chunk_id, "extractor": extractors[c.chunk_id]} for c in self._chunks]
        change.add(_MARK_READ, "read", read)
        return GraphGrowth(len(self.new), self._new_relationships, len(self._new_mentions))

    def _raised(self) -> Iterable[_Row]:
        """Yield the known entities whose confidence or description improves."""
        for entity_id, (confidence, description) in self._known.items():
            if entity_id in self._exact:
                continue
            best = self._best[entity_id]
            better = max(confidence, best.confidence), description or best.description
            if better != (confidence, description):
                yield {
                    "id": entity_id,
                    "confidence": better[0],
                    "confidence_exact": exact_number(better[0]),
                    "description": better[1],
                }


# --- Merges: which entities count as one ------------------------------------------------
#
# Merges are stored by id, apart from the entities: a decision holds for texts to come, and undoing
# it separates the two exactly. An edge `IS` is only their result: it leads from an entity to its
# root, the last existing one of a chain of merges.

# Finds the merges of entities.
_MERGES_OF: LiteralString = "MATCH (g:Merge) WHERE g.source_id IN $ids OR g.target_id IN $ids"
_MERGE: LiteralString = "g.key, g.source_id, g.target_id, g.automatic, g.merged_at, g.undone_at"
# Finds the roots of entities.
_ROOTS: LiteralString = (
    "MATCH (e:Entity) WHERE e.id IN $ids OPTIONAL MATCH (e)-[:IS]->(root:Entity)"
)
# Finds the newest merge of an entity, or of all that callers made, that is not undone.
_NEWEST_MERGE: LiteralString = (
    "MATCH (g:Merge) WHERE g.undone_at IS NULL"
    " AND (g.source_id = $source OR ($source IS NULL AND NOT g.automatic))"
    " WITH g ORDER BY g.key DESC LIMIT 1"
)
# Finds which of these merges are undone.
_UNDONE_MERGES: LiteralString = "MATCH (g:Merge) WHERE g.key IN $keys AND g.undone_at IS NOT NULL "
# Parts of a change: mark merges as undone, delete and create them, delete and create roots.
_UNDO_MERGES: LiteralString = "MATCH (g:Merge {key: x}) SET g.undone_at = $now"
_DELETE_MERGES: LiteralString = "OPTIONAL MATCH (g:Merge {key: x}) DELETE g"
_CREATE_MERGES: LiteralString = """
CREATE (:Merge {key: base + x.key, source_id: x.source_id, target_id: x.target_id,
    automatic: x.automatic, merged_at: x.merged_at, undone_at: x.undone_at})
"""
_DELETE_ROOTS: LiteralString = "OPTIONAL MATCH (:Entity {id: x})-[is:IS]->(:Entity) DELETE is"
_CREATE_ROOTS: LiteralString = (
    "MATCH (e:Entity {id: x.id}) MATCH (root:Entity {id: x.root}) CREATE (e)-[:IS]->(root)"
)


class _MergeRow(NamedTuple):
    """A merge as it is stored."""

    key: int
    source_id: str
    target_id: str
    automatic: bool
    merged_at: int
    undone_at: int | None

    def as_merge(self) -> Merge:
        return Merge(
            source_id=self.source_id,
            target_id=self.target_id,
            automatic=self.automatic,
            merged_at=from_time(self.merged_at),
        )


class Merges:
    """All merges that involve some entities, and the changes to be made to them."""

    def __init__(self, rows: Iterable[_MergeRow], roots: dict[str, str | None]) -> None:
        self._rows = list(rows)
        self._active = {row.source_id: row for row in self._rows if row.undone_at is None}
        self._targets = {row.source_id: row.target_id for row in self._active.values()}
        self._roots = roots
        self._changed: set[str] = set()
        self._created: list[_MergeRow] = []
        self._undone: list[int] = []
        self._deleted: list[int] = []
        self._now = to_time(datetime.now(UTC))

    @classmethod
    async def load(cls, session: Session, ids: Collection[str], number: int) -> Merges:
        """Read the merges that involve these entities; `number` is how many merges there are."""
        rows: dict[int, _MergeRow] = {}
        known, border = set(ids), set(ids)
        while border and number:
            found = await session.read_list(_MERGES_OF, _MERGE, ids=sorted(border))
            merges = [_MergeRow(*row) for row in found]
            rows |= {row.key: row for row in merges}
            border = {i for row in merges for i in (row.source_id, row.target_id)} - known
            known |= border
        roots = await session.read_list(_ROOTS, "e.id, root.id", ids=sorted(known))
        return cls(rows.values(), dict(roots))

    def add(self, new_ids: Iterable[str]) -> None:
        """Add entities that are about to be created."""
        new = set(new_ids)
        self._roots |= dict.fromkeys(new)
        if self._rows:
            self._find_roots(new)

    def drop(self, deleted_ids: Collection[str]) -> None:
        """Drop entities that are about to be deleted; those merged into them are roots again."""
        for entity_id, root in list(self._roots.items()):
            if entity_id in deleted_ids:
                del self._roots[entity_id]
                self._changed.discard(entity_id)
            elif root in deleted_ids:
                self._roots[entity_id] = None

    def root_of(self, entity_id: str) -> str | None:
        """Return the root of an entity; None if there is no such entity."""
        if entity_id not in self._roots:
            return None
        return self._roots[entity_id] or entity_id

    def find(self, source_id: str, target_id: str) -> _MergeRow | None:
        """Return the merge of one into the other, if it exists and is not undone."""
        row = self._active.get(source_id)
        return row if row is not None and row.target_id == target_id else None

    def merge(self, source_id: str, target_id: str, *, automatic: bool) -> _MergeRow:
        """Merge one root into another."""
        # It may be a root because the entity it was merged into does not exist for now.
        if (old := self._active.get(source_id)) is not None:
            self._undone.append(old.key)
        row = _MergeRow(0, source_id, target_id, automatic, self._now, None)
        self._rows.append(row)
        self._active[source_id] = row
        self._targets[source_id] = target_id
        self._created.append(row)
        self._find_roots({source_id})
        return row

    def merge_same(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Merge what an extractor takes for one entity, unless that was decided before."""
        for source_id, target_id in pairs:
            decided = source_id in self._active or any(
                row.source_id == source_id and row.target_id == target_id for row in self._rows
            )
            source, target = self.root_of(source_id), self.root_of(target_id)
            if not decided and source == source_id and target not in (None, source):
                assert target is not None
                self.merge(source, target, automatic=True)

    def replace(self, merges: Sequence[MergeCopy]) -> None:
        """Delete every merge there is, and create these instead."""
        self._deleted = [row.key for row in self._rows]
        self._targets = {m.source_id: m.target_id for m in merges if m.undone_at is None}
        self._created = [
            _MergeRow(
                0,
                merge.source_id,
                merge.target_id,
                merge.automatic,
                to_time(merge.merged_at),
                None if merge.undone_at is None else to_time(merge.undone_at),
            )
            for merge in merges
        ]
        self._find_roots(self._roots.keys())

    def undo(self, row: _MergeRow) -> None:
        """Undo a merge."""
        self._undone.append(row.key)
        self._active.pop(row.source_id, None)
        self._targets.pop(row.source_id, None)
        self._find_roots({row.source_id})

    def _find_roots(self, ids: Collection[str]) -> None:
        """Find again the roots of these entities and of those merged into them."""
        below, border = set(ids), set(ids)
        while border:
            border = {s for s, target in self._targets.items() if target in border} - below
            below |= border
        for entity_id in below & self._roots.keys():
            root = find_root(entity_id, self._targets.get, self._roots.__contains__)
            if root != self._roots[entity_id]:
                self._roots[entity_id] = root
                self._changed.add(entity_id)

    def write_into(self, change: GraphChange) -> None:
        """Add the changes of merges and roots to a change of the graph."""
        change.add(_UNDO_MERGES, "undone", self._undone)
        change.add(_DELETE_MERGES, "deleted", self._deleted)
        created = [{**row._asdict(), "key": change.next_key()} for row in self._created]
        change.add(_CREATE_MERGES, "merges", created)
        change.add(_DELETE_ROOTS, "rerooted", sorted(self._changed))
        roots = [
            {"id": entity_id, "root": root}
            for entity_id in sorted(self._changed)
            if (root := self._roots[entity_id]) is not None
        ]
        change.add(_CREATE_ROOTS, "roots", roots)
        change.values["now"] = self._now


async def merge_entities(session: Session, source_id: str, target_id: str) -> Merge:
    while True:
        seen, number = await read_graph_state(session)
        merges = await Merges.load(session, {source_id, target_id}, number)
        source, target = merges.root_of(source_id), merges.root_of(target_id)
        if source is None or target is None:
            raise EntityNotFoundError("No entity has this id.")
        tried = session.notes.get("tried")
        if tried is not None and (made := merges.find(*tried)) is not None:
            # An earlier attempt whose answer was lost has made it.
            return made.as_merge()
        if source == target:
            raise ValidationError("These two are one entity already.", "VAL_003")
        row = merges.merge(source, target, automatic=False)
        change = GraphChange(seen)
        merges.write_into(change)
        session.notes["tried"] = source, target
        if await change.write(session):
            return row.as_merge()
        del session.notes["tried"]


async def undo_merge(session: Session, source_id: str | None) -> Merge | None:
    tried: set[int] = session.notes.setdefault("tried", set())
    while True:
        seen, number = await read_graph_state(session)
        if tried:
            undone = await session.read_list(_UNDONE_MERGES, _MERGE, keys=sorted(tried))
            if undone:
                # An earlier attempt whose answer was lost has undone it.
                return _MergeRow(*undone[0]).as_merge()
        rows = await session.read_list(_NEWEST_MERGE, _MERGE, source=source_id)
        if not rows:
            return None
        row = _MergeRow(*rows[0])
        merges = await Merges.load(session, {row.source_id}, number)
        merges.undo(row)
        change = GraphChange(seen)
        merges.write_into(change)
        tried.add(row.key)
        if await change.write(session):
            return row.as_merge()
        tried.discard(row.key)
