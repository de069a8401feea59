"""Writing the graph: what passages say and what callers tell.

A relationship is all the edges RELATES of one type from one entity to another, one for each
sentence that says so. It is there while one of them is, and holds while one of them does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from zapomni_db.exceptions import ValidationError
from zapomni_db.falkordb import graph_parts as parts
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph_guard import SWEEP, Transaction, look
from zapomni_db.falkordb.graph_merges import Merges
from zapomni_db.falkordb.graph_rows import (
    Sentence,
    Teller,
    entity_row,
    key_of,
    mention_row,
    sentence,
    sentence_row,
)
from zapomni_db.falkordb.values import check_id, exact_number
from zapomni_db.graph_models import EdgeKey, ExtractedChunk, GraphGrowth
from zapomni_db.graph_rules import EVER, most_certain
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["Reading", "store", "store_extractions"]


def _check_ends(relationships: Iterable[RelationshipData], known: Collection[str]) -> None:
    for stated in relationships:
        if stated.source_entity_id not in known or stated.target_entity_id not in known:
            raise ValidationError(
                "A relationship names an entity that was not stored with it.", "VAL_004"
            )


# --- What is there ----------------------------------------------------------------------


async def _known(session: Session, ids: Collection[str]) -> dict[str, tuple[float, str]]:
    """Return the confidence and description of those that exist."""
    rows = await session.read_list(
        "MATCH (e:Entity) WHERE e.id IN $ids",
        "e.id, coalesce(e.confidence_exact, e.confidence), e.description",
        ids=sorted(ids),
    )
    return {row[0]: (float(row[1]), row[2]) for row in rows}


async def _stated(session: Session, keys: Collection[EdgeKey]) -> dict[EdgeKey, bool]:
    """Return those relationships somebody states, and whether they are exclusive."""
    asked = sorted(keys)
    rows = await session.read_list(
        "UNWIND $asked AS x MATCH (a:Entity {id: x[1]}) MATCH (b:Entity {id: x[2]})"
        " WITH x, a, b CALL { WITH x, a, b MATCH (a)-[v:RELATES]->(b) WHERE v.type = x[3]"
        " RETURN v.exclusive AS exclusive LIMIT 1 }",
        "x[0], exclusive",
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
    said = {key_of(one): one for one in relationships}
    while True:
        seen, number = await look(session)
        ends = {i for key in said for i in key[:2]}
        known = await _known(session, told.keys() | ends)
        _check_ends(relationships, known.keys() | told.keys())
        stated = await _stated(session, said)
        for one in relationships:
            stated.setdefault(key_of(one), one.exclusive)
        merges = await Merges.load(session, told.keys(), number)
        merges.add(told.keys() - known.keys())
        change = Transaction(seen)
        rows = [entity_row(one, change.next_key(), given=True) for one in told.values()]
        change.add(parts.CREATE_ENTITIES, "new", [row for row in rows if row["id"] not in known])
        change.add(parts.TELL_AGAIN, "again", [row for row in rows if row["id"] in known])
        merges.write_into(change)
        sentences = [
            sentence_row(
                sentence(one, EVER), Teller(), one.evidence, change.next_key(),
                exclusive=stated[key],
            )
            for key, one in said.items()
        ]  # fmt: skip
        change.add(parts.UNTELL, "sentences", sentences)
        change.add(parts.STATE, "sentences", sentences)
        if await change.write(session):
            return len(entities)


# --- Read in passages -------------------------------------------------------------------

_TELLERS = """
MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) WHERE c.id IN $ids
OPTIONAL MATCH (newer:Memory {id: m.superseded_by})
"""
_MENTIONS = "MATCH (c:Chunk)-[m:MENTIONS]->(e:Entity) WHERE c.id IN $ids"
_SENTENCES = "MATCH ()-[v:RELATES]->() WHERE v.chunk IN $ids"
_SENTENCE = (
    "v.chunk, v.key, startNode(v).id, endNode(v).id, v.type, v.start_char, v.end_char,"
    " coalesce(v.strength_exact, v.strength), v.source, v.since, v.until"
)

_Place = tuple[int, int, str]
_Row = dict[str, Any]


async def store_extractions(
    session: Session,
    extractor: str,
    chunks: Sequence[ExtractedChunk],
    same: Sequence[tuple[str, str]],
) -> GraphGrowth:
    """Store what was found in passages, and that they were read."""
    ids = [chunk.chunk_id for chunk in chunks]
    for entity_id in {e.entity_id for chunk in chunks for e in chunk.entities}:
        check_id("entity_id", entity_id)
    while True:
        seen, number = await look(session)
        reading = await Reading.look(session, seen, chunks)
        concerned = reading.new.keys() | {i for pair in same for i in pair}
        merges = await Merges.load(session, concerned, number)
        merges.add(reading.new)
        merges.drop(reading.gone)
        merges.merge_same(same)
        growth = reading.plan(dict.fromkeys(ids, extractor), merges)
        if await reading.change.write(session):
            return growth


class Reading:
    """What passages say, beside what they were taken to say before.

    Entities in `kept` are to be as they are there, whatever the passages say.
    """

    def __init__(
        self,
        seen: int,
        chunks: Sequence[ExtractedChunk],
        kept: Mapping[str, EntityData],
        known: Mapping[str, tuple[float, str]],
        stated: dict[EdgeKey, bool],
    ) -> None:
        self.change = Transaction(seen)
        self.stated = stated
        self._chunks = chunks
        self._kept = kept
        self._best = most_certain(e for chunk in chunks for e in chunk.entities) | dict(kept)
        self._known = known
        self.new = {i: e for i, e in self._best.items() if i not in known}
        self.tellers: dict[str, Teller] = {}
        self.mentions: dict[str, set[_Place]] = {}
        self.sentences: dict[str, dict[Sentence, int]] = {}
        self.gone: set[str] = set()
        """Entities that nothing will speak of any more."""

    @classmethod
    async def look(
        cls,
        session: Session,
        seen: int,
        chunks: Sequence[ExtractedChunk],
        kept: Mapping[str, EntityData] | None = None,
    ) -> Reading:
        """Look what is there of all that may have to be changed."""
        ids = [chunk.chunk_id for chunk in chunks]
        columns = "c.id, m.id, m.said, newer.occurred_at, c.text"
        found = await session.read_list(_TELLERS, columns, ids=ids)
        tellers = {row[0]: Teller(*row) for row in found}
        present = [chunk for chunk in chunks if chunk.chunk_id in tellers]
        for chunk in present:
            _check_ends(chunk.relationships, {e.entity_id for e in chunk.entities})
        named = {e.entity_id for chunk in present for e in chunk.entities}
        known = await _known(session, named | (kept or {}).keys())
        keys = {key_of(one) for chunk in present for one in chunk.relationships}
        reading = cls(seen, present, kept or {}, known, await _stated(session, keys))
        reading.tellers = tellers
        columns = "c.id, m.start_char, m.end_char, e.id"
        for chunk_id, start, end, entity_id in await session.read_list(_MENTIONS, columns, ids=ids):
            reading.mentions.setdefault(chunk_id, set()).add((start, end, entity_id))
        for chunk_id, key, *row in await session.read_list(_SENTENCES, _SENTENCE, ids=ids):
            known_as = Sentence(EdgeKey(*row[:3]), row[3], row[4], float(row[5]), *row[6:])
            reading.sentences.setdefault(chunk_id, {})[known_as] = key
        reading.compare()
        reading.gone = await _unsupported(session, reading)
        return reading

    def compare(self) -> None:
        """Find out what is new, and what is not said any more."""
        known = len(self.stated)
        self.named, self.unnamed = self._compare_mentions()
        self.said, self.unsaid = self._compare_sentences()
        self._added = len(self.stated) - known

    def plan(self, extractors: Mapping[str, str], merges: Merges) -> GraphGrowth:
        """Say what to write, and what was not there before."""
        change = self.change
        rows = [entity_row(one, change.next_key(), given=False) for one in self.new.values()]
        change.add(parts.CREATE_ENTITIES, "new", rows)
        change.add(parts.GAIN, "gained", list(self._gains()))
        kept = [entity_row(e, 0, given=False) for i, e in self._kept.items() if i in self._known]
        change.add(parts.TELL_AGAIN, "kept", kept)
        merges.write_into(change)
        change.add(parts.NAME, "named", self.named)
        change.add(parts.STATE, "said", self.said)
        change.add(parts.UNNAME, "unnamed", self.unnamed)
        change.add(parts.UNSTATE, "unsaid", self.unsaid)
        change.add(SWEEP, "gone", sorted(self.gone))
        read = [{"id": c.chunk_id, "extractor": extractors[c.chunk_id]} for c in self._chunks]
        change.add(parts.MARK, "read", read)
        return GraphGrowth(len(self.new), self._added, len(self.named))

    def _gains(self) -> Iterable[dict[str, Any]]:
        """Let what is known gain confidence and a description."""
        for entity_id, (confidence, description) in self._known.items():
            if entity_id in self._kept:
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

    def _compare_mentions(self) -> tuple[list[_Row], list[_Row]]:
        new: list[_Row] = []
        gone: list[_Row] = []
        for chunk in self._chunks:
            teller = self.tellers[chunk.chunk_id]
            before = self.mentions.get(chunk.chunk_id, set())
            now = {(m.start_char, m.end_char, m.entity_id): m for m in chunk.entities}
            new += [mention_row(teller, now[place]) for place in now if place not in before]
            gone += [
                {"chunk": teller.chunk, "start_char": start, "end_char": end, "entity": entity_id}
                for start, end, entity_id in before - now.keys()
            ]
        return new, gone

    def _compare_sentences(self) -> tuple[list[_Row], list[_Row]]:
        new: list[_Row] = []
        gone: list[_Row] = []
        for chunk in self._chunks:
            teller = self.tellers[chunk.chunk_id]
            before = self.sentences.get(chunk.chunk_id, {})
            now: set[Sentence] = set()
            for stated in chunk.relationships:
                one = sentence(stated, teller.said)
                exclusive = self.stated.setdefault(one.relationship, stated.exclusive)
                if one not in now and one not in before:
                    text = teller.text[stated.start_char : stated.end_char]
                    key = self.change.next_key()
                    new.append(sentence_row(one, teller, text, key, exclusive=exclusive))
                now.add(one)
            gone += [
                {"chunk": teller.chunk, "key": key, "ends": one.relationship[:2]}
                for one, key in before.items()
                if one not in now
            ]
        return new, gone


async def _unsupported(session: Session, reading: Reading) -> set[str]:
    """Return the entities that lose with a reading all that spoke of them."""
    lost = Counter(row["entity"] for row in reading.unnamed)
    lost.update(i for row in reading.unsaid for i in row["ends"])
    if not lost:
        return set()
    lost.subtract(row["entity"] for row in reading.named)
    lost.subtract(row[end] for row in reading.said for end in ("source_id", "target_id"))
    rows = await session.read_list(
        "MATCH (e:Entity) WHERE e.id IN $ids AND NOT e.given",
        "e.id, indegree(e, 'MENTIONS') + indegree(e, 'RELATES') + outdegree(e, 'RELATES')",
        ids=sorted(lost),
    )
    return {entity_id for entity_id, support in rows if support <= lost[entity_id]}
