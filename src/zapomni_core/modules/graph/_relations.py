"""What a text states about the things it names, sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from zapomni_core.modules.graph._groups import (
    Reading,
    Statement,
    groups,
    together,
    validity,
    versions,
)
from zapomni_core.modules.graph._statements import statements
from zapomni_core.modules.graph._tokens import Sentence, sentences
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["relate", "with_evidence"]


def relate(text: str, entities: Sequence[EntityData]) -> list[RelationshipData]:
    """Return what each sentence states, and which names merely stand together in one."""
    found: list[RelationshipData] = []
    ordered = sorted(entities, key=lambda entity: (entity.start_char, -entity.end_char))
    at = 0
    for sentence in sentences(text):
        inside: list[EntityData] = []
        while at < len(ordered) and ordered[at].start_char < sentence.end:
            if ordered[at].start_char >= sentence.start:
                inside.append(ordered[at])
            at += 1
        if len(inside) > 1:
            found += _of_sentence(text, sentence, inside)
    return found


def with_evidence(
    text: str, entities: Sequence[EntityData], relationships: Sequence[RelationshipData]
) -> list[RelationshipData]:
    """Add to what somebody else found the sentence that names both, else the one of the first."""
    named: list[tuple[Sentence, set[str]]] = [
        (s, {e.entity_id for e in entities if s.start <= e.start_char < s.end})
        for s in sentences(text)
    ]
    found: list[RelationshipData] = []
    for relationship in relationships:
        source, target = relationship.source_entity_id, relationship.target_entity_id
        both = (sentence for sentence, ids in named if source in ids and target in ids)
        first = (sentence for sentence, ids in named if source in ids)
        sentence = next(both, None) or next(first)
        place = {"start_char": sentence.start, "end_char": sentence.end}
        evidence = {"evidence": text[sentence.start : sentence.end], **place}
        found.append(relationship.model_copy(update=evidence))
    return found


def _of_sentence(
    text: str, sentence: Sentence, entities: Sequence[EntityData]
) -> Iterator[RelationshipData]:
    reading = Reading(text, sentence, groups(text, entities))
    since, until = validity(text, entities)
    stated: set[frozenset[str]] = set()
    for statement in (*versions(entities), *statements(reading)):
        pair = frozenset((statement.subject.entity_id, statement.object.entity_id))
        if len(pair) == 2:
            stated.add(pair)
            yield _relationship(reading, statement, since, until)
    for statement in together(entities, stated):
        yield _relationship(reading, statement)


def _relationship(
    reading: Reading,
    statement: Statement,
    since: datetime | None = None,
    until: datetime | None = None,
) -> RelationshipData:
    start, end = reading.sentence.start, reading.sentence.end
    return RelationshipData.model_construct(
        source_entity_id=statement.subject.entity_id,
        target_entity_id=statement.object.entity_id,
        relationship_type=statement.type,
        strength=statement.strength,
        evidence=reading.text[start:end],
        start_char=start,
        end_char=end,
        source=statement.source,
        valid_from=since,
        valid_to=until,
    )
