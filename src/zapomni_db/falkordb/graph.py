"""Writing the graph: what passages say and what callers tell.

A relationship is all the edges RELATES of one type from one entity to another, one for each
sentence that says so. It is there while one of them is, and holds while one of them does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, LiteralString, NamedTuple

from zapomni_db.exceptions import ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph_guard import SWEEP, Change, look
from zapomni_db.falkordb.graph_merges import Merges
from zapomni_db.falkordb.values import check_id, digest, exact_number, to_time
from zapomni_db.graph_models import EdgeKey, ExtractedChunk, GraphGrowth
from zapomni_db.graph_rules import EVER, alias_of, beginning, fold, most_certain
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["store", "store_extractions"]


class _Teller(NamedTuple):
    """Who says so: a passage, or (with no chunk) a caller."""

    chunk: str | None = None
    memory: str | None = None
    said: int = EVER
    withdrawn: int | None = None
    """When the memory was superseded."""
    text: str = ""


class _Sentence(NamedTuple):
    """One edge, as far as the sentence itself decides it."""

    relationship: EdgeKey
    start_char: int
    end_char: int
    strength: float
    source: str
    since: int
    until: int | None


# --- What is written --------------------------------------------------------------------

_CREATE_ENTITIES: LiteralString = """
CREATE (:Entity {id: x.id, key: base + x.key, name: x.name, folded: x.folded,
    folded_hash: x.folded_hash, type: x.type, description: x.description,
    confidence: x.confidence, confidence_exact: x.confidence_exact, source: x.source,
    given: x.given})
"""
_GAIN: LiteralString = """
MATCH (e:Entity {id: x.id}) SET e.confidence = x.confidence,
    e.confidence_exact = x.confidence_exact, e.description = x.description
"""
_TELL_AGAIN: LiteralString = """
MATCH (e:Entity {id: x.id}) SET e.name = x.name, e.folded = x.folded,
    e.folded_hash = x.folded_hash, e.type = x.type, e.description = x.description,
    e.confidence = x.confidence, e.confidence_exact = x.confidence_exact, e.source = x.source,
    e.given = true
"""
_NAME: LiteralString = """
MATCH (c:Chunk {id: x.chunk}) MATCH (e:Entity {id: x.entity})
CREATE (c)-[:MENTIONS {start_char: x.start_char, end_char: x.end_char, confidence: x.confidence,
    confidence_exact: x.confidence_exact, source: x.source, alias: x.alias, folded: x.folded,
    folded_hash: x.folded_hash, since: x.since, withdrawn: x.withdrawn}]->(e)
"""
_UNNAME: LiteralString = """
OPTIONAL MATCH (:Chunk {id: x.chunk})-[m:MENTIONS]->(:Entity {id: x.entity})
    WHERE m.start_char = x.start_char AND m.end_char = x.end_char
DELETE m
"""
_STATE: LiteralString = """
MATCH (a:Entity {id: x.source_id}) MATCH (b:Entity {id: x.target_id})
CREATE (a)-[:RELATES {key: base + x.key, type: x.type, exclusive: x.exclusive,
    strength: x.strength, strength_exact: x.strength_exact, source: x.source, text: x.text,
    start_char: x.start_char, end_char: x.end_char, said: x.said, since: x.since, until: x.until,
    withdrawn: x.withdrawn, chunk: x.chunk, memory: x.memory}]->(b)
"""
_UNSTATE: LiteralString = """
OPTIONAL MATCH ()-[v:RELATES {chunk: x.chunk}]->() WHERE v.key = x.key
DELETE v
"""
_UNTELL: LiteralString = """
MATCH (a:Entity {id: x.source_id}) MATCH (b:Entity {id: x.target_id}) WITH s, base, x, a, b
OPTIONAL MATCH (a)-[v:RELATES]->(b) WHERE v.type = x.type AND v.memory IS NULL
DELETE v
"""
_MARK: LiteralString = "MATCH (c:Chunk {id: x}) SET c.extractor = $extractor"


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


def _sentence(stated: RelationshipData, said: int) -> _Sentence:
    until = None if stated.valid_to is None else to_time(stated.valid_to)
    start = None if stated.valid_from is None else to_time(stated.valid_from)
    return _Sentence(
        _key_of(stated),
        stated.start_char,
        stated.end_char,
        stated.strength,
        stated.source,
        beginning(said, start, until),
        until,
    )


def _sentence_row(
    sentence: _Sentence, teller: _Teller, text: str, key: int, *, exclusive: bool
) -> dict[str, Any]:
    told = sentence._asdict()
    told.pop("relationship")
    return {
        **told,
        **sentence.relationship._asdict(),
        "strength_exact": exact_number(sentence.strength),
        "key": key,
        "exclusive": exclusive,
        "text": text,
        "chunk": teller.chunk,
        "memory": teller.memory,
        "said": teller.said,
        "withdrawn": teller.withdrawn,
    }


def _key_of(stated: RelationshipData) -> EdgeKey:
    return EdgeKey(stated.source_entity_id, stated.target_entity_id, stated.relationship_type)


def _check_ends(relationships: Iterable[RelationshipData], known: Collection[str]) -> None:
    for stated in relationships:
        if stated.source_entity_id not in known or stated.target_entity_id not in known:
            raise ValidationError(
                "A relationship names an entity that was not stored with it.", "VAL_004"
            )


# --- What is there ----------------------------------------------------------------------


async def _known(session: Session, ids: Collection[str]) -> dict[str, tuple[float, str]]:
    """Return the confidence and description of those that exist."""
    rows = await session.read(
        "MATCH (e:Entity) WHERE e.id IN $ids"
        " RETURN e.id, coalesce(e.confidence_exact, e.confidence), e.description",
        ids=sorted(ids),
    )
    return {row[0]: (float(row[1]), row[2]) for row in rows}


async def _stated(session: Session, keys: Collection[EdgeKey]) -> dict[EdgeKey, bool]:
    """Return those relationships somebody states, and whether they are exclusive."""
    asked = sorted(keys)
    rows = await session.read(
        "UNWIND $asked AS x MATCH (a:Entity {id: x[1]}) MATCH (b:Entity {id: x[2]})"
        " WITH x, a, b CALL { WITH x, a, b MATCH (a)-[v:RELATES]->(b) WHERE v.type = x[3]"
        " RETURN v.exclusive AS exclusive LIMIT 1 } RETURN x[0], exclusive",
        asked=[[number, *key] for number, key in enumerate(asked)],
    )
    return {asked[number]: exclusive for number, exclusive in rows}


# --- Told by a caller -------------------------------------------------------------------


async def store(
    session: Session, entities: Sequence[EntityData], relationships: Sequence[RelationshipData]
) -> int:
    """Create or update both at once."""
    for entity in entities:
        check_id("entity_id", entity.entity_id)
    told = {entity.entity_id: entity for entity in entities}
    said = {_key_of(one): one for one in relationships}
    while True:
        seen, number = await look(session)
        ends = {i for key in said for i in key[:2]}
        known = await _known(session, told.keys() | ends)
        _check_ends(relationships, known.keys() | told.keys())
        stated = await _stated(session, said)
        for one in relationships:
            stated.setdefault(_key_of(one), one.exclusive)
        merges = await Merges.load(session, told.keys(), number)
        merges.add(told.keys() - known.keys())
        change = Change(seen)
        rows = [_entity_row(one, change.next_key(), given=True) for one in told.values()]
        change.add(_CREATE_ENTITIES, "new", [row for row in rows if row["id"] not in known])
        change.add(_TELL_AGAIN, "again", [row for row in rows if row["id"] in known])
        merges.write_into(change)
        sentences = [
            _sentence_row(
                _sentence(one, EVER), _Teller(), one.evidence, change.next_key(),
                exclusive=stated[key],
            )
            for key, one in said.items()
        ]  # fmt: skip
        change.add(_UNTELL, "sentences", sentences)
        change.add(_STATE, "sentences", sentences)
        if await change.write(session):
            return len(entities)


# --- Read in passages -------------------------------------------------------------------

_TELLERS = """
MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids
OPTIONAL MATCH (newer:Memory {id: m.superseded_by})
RETURN c.id, m.id, m.said, newer.occurred_at, c.text
"""
_MENTIONS = """
MATCH (c:Chunk)-[m:MENTIONS]->(e:Entity) WHERE c.id IN $ids
RETURN c.id, m.start_char, m.end_char, e.id
"""
_SENTENCES = """
MATCH ()-[v:RELATES]->() WHERE v.chunk IN $ids
RETURN v.chunk, v.key, startNode(v).id, endNode(v).id, v.type, v.start_char, v.end_char,
    coalesce(v.strength_exact, v.strength), v.source, v.since, v.until
"""

_Place = tuple[int, int, str]


async def store_extractions(
    session: Session,
    extractor: str,
    chunks: Sequence[ExtractedChunk],
    same: Sequence[tuple[str, str]],
) -> GraphGrowth:
    """Store what was found in passages, and that they were read."""
    for chunk in chunks:
        for entity in chunk.entities:
            check_id("entity_id", entity.entity_id)
    while True:
        seen, number = await look(session)
        reading = await _Reading.look(session, seen, chunks)
        merges = await Merges.load(
            session, reading.new.keys() | {i for pair in same for i in pair}, number
        )
        merges.add(reading.new)
        merges.merge_same(same)
        growth = reading.plan(extractor, merges)
        if await reading.change.write(session):
            return growth


class _Reading:
    """What passages say, beside what they were taken to say before."""

    def __init__(
        self,
        seen: int,
        chunks: Sequence[ExtractedChunk],
        tellers: dict[str, _Teller],
        known: dict[str, tuple[float, str]],
        stated: dict[EdgeKey, bool],
    ) -> None:
        self.change = Change(seen)
        self._chunks = chunks
        self._tellers = tellers
        self._best = most_certain(e for chunk in chunks for e in chunk.entities)
        self._known = known
        self._stated = stated
        self.new = {i: e for i, e in self._best.items() if i not in known}
        self.mentions: dict[str, set[_Place]] = {}
        self.sentences: dict[str, dict[_Sentence, int]] = {}

    @classmethod
    async def look(cls, session: Session, seen: int, chunks: Sequence[ExtractedChunk]) -> _Reading:
        ids = [chunk.chunk_id for chunk in chunks]
        tellers = {row[0]: _Teller(*row) for row in await session.read(_TELLERS, ids=ids)}
        present = [chunk for chunk in chunks if chunk.chunk_id in tellers]
        for chunk in present:
            _check_ends(chunk.relationships, {e.entity_id for e in chunk.entities})
        known = await _known(session, {e.entity_id for c in present for e in c.entities})
        keys = {_key_of(one) for chunk in present for one in chunk.relationships}
        reading = cls(seen, present, tellers, known, await _stated(session, keys))
        for chunk_id, *place in await session.read(_MENTIONS, ids=ids):
            start, end, entity_id = place
            reading.mentions.setdefault(chunk_id, set()).add((start, end, entity_id))
        for chunk_id, key, *row in await session.read(_SENTENCES, ids=ids):
            sentence = _Sentence(EdgeKey(*row[:3]), row[3], row[4], float(row[5]), *row[6:])
            reading.sentences.setdefault(chunk_id, {})[sentence] = key
        return reading

    def plan(self, extractor: str, merges: Merges) -> GraphGrowth:
        """Say what to write, and what was not there before."""
        change = self.change
        rows = [_entity_row(one, change.next_key(), given=False) for one in self.new.values()]
        change.add(_CREATE_ENTITIES, "new", rows)
        change.add(_GAIN, "gained", list(self._gains()))
        merges.write_into(change)
        named, unnamed = self._plan_mentions()
        change.add(_NAME, "named", named)
        added, said, unsaid = self._plan_sentences()
        change.add(_STATE, "said", said)
        change.add(_UNNAME, "unnamed", unnamed)
        change.add(_UNSTATE, "unsaid", unsaid)
        touched = {row["entity"] for row in unnamed} | {i for row in unsaid for i in row["ends"]}
        change.add(SWEEP, "touched", sorted(touched))
        change.add(_MARK, "read", [chunk.chunk_id for chunk in self._chunks])
        change.values["extractor"] = extractor
        return GraphGrowth(len(self.new), added, len(named))

    def _gains(self) -> Iterable[dict[str, Any]]:
        """Let what is known gain confidence and a description."""
        for entity_id, (confidence, description) in self._known.items():
            best = self._best[entity_id]
            better = max(confidence, best.confidence), description or best.description
            if better != (confidence, description):
                yield {
                    "id": entity_id,
                    "confidence": better[0],
                    "confidence_exact": exact_number(better[0]),
                    "description": better[1],
                }

    def _plan_mentions(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        new, gone = [], []
        for chunk in self._chunks:
            teller = self._tellers[chunk.chunk_id]
            before = self.mentions.get(chunk.chunk_id, set())
            now = {(m.start_char, m.end_char, m.entity_id): m for m in chunk.entities}
            new += [_mention_row(teller, now[place]) for place in now if place not in before]
            gone += [
                {"chunk": teller.chunk, "start_char": start, "end_char": end, "entity": entity_id}
                for start, end, entity_id in before - now.keys()
            ]
        return new, gone

    def _plan_sentences(self) -> tuple[int, list[dict[str, Any]], list[dict[str, Any]]]:
        new, gone = [], []
        known = len(self._stated)
        for chunk in self._chunks:
            teller = self._tellers[chunk.chunk_id]
            before = self.sentences.get(chunk.chunk_id, {})
            now: set[_Sentence] = set()
            for stated in chunk.relationships:
                sentence = _sentence(stated, teller.said)
                exclusive = self._stated.setdefault(sentence.relationship, stated.exclusive)
                if sentence not in now and sentence not in before:
                    text = teller.text[stated.start_char : stated.end_char]
                    key = self.change.next_key()
                    new.append(_sentence_row(sentence, teller, text, key, exclusive=exclusive))
                now.add(sentence)
            gone += [
                {"chunk": teller.chunk, "key": key, "ends": sentence.relationship[:2]}
                for sentence, key in before.items()
                if sentence not in now
            ]
        return len(self._stated) - known, new, gone


def _mention_row(teller: _Teller, mention: EntityData) -> dict[str, Any]:
    alias, folded = alias_of(mention)
    return {
        "chunk": teller.chunk,
        "entity": mention.entity_id,
        "start_char": mention.start_char,
        "end_char": mention.end_char,
        "confidence": mention.confidence,
        "confidence_exact": exact_number(mention.confidence),
        "source": mention.source,
        "alias": alias,
        "folded": folded,
        "folded_hash": None if folded is None else digest(folded),
        "since": teller.said,
        "withdrawn": teller.withdrawn,
    }
