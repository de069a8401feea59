"""The rows the graph is written with."""

from __future__ import annotations

from typing import Any, NamedTuple

from zapomni_db.copy_models import PastSentence
from zapomni_db.falkordb.values import digest, exact_number, to_time
from zapomni_db.graph_models import EdgeKey
from zapomni_db.graph_rules import EVER, alias_of, beginning, fold
from zapomni_db.models import EntityData, RelationshipData

__all__ = [
    "Sentence",
    "Teller",
    "entity_row",
    "key_of",
    "mention_row",
    "past_row",
    "sentence",
    "sentence_row",
]


class Teller(NamedTuple):
    """Who says so: a passage, or (with no chunk) a caller."""

    chunk: str | None = None
    memory: str | None = None
    said: int = EVER
    withdrawn: int | None = None
    """When the memory was superseded."""
    text: str = ""


class Sentence(NamedTuple):
    """One edge, as far as the sentence itself decides it."""

    relationship: EdgeKey
    start_char: int
    end_char: int
    strength: float
    source: str
    since: int
    until: int | None


def entity_row(entity: EntityData, key: int, *, given: bool) -> dict[str, Any]:
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


def sentence(stated: RelationshipData, said: int) -> Sentence:
    until = None if stated.valid_to is None else to_time(stated.valid_to)
    start = None if stated.valid_from is None else to_time(stated.valid_from)
    return Sentence(
        key_of(stated),
        stated.start_char,
        stated.end_char,
        stated.strength,
        stated.source,
        beginning(said, start, until),
        until,
    )


def sentence_row(
    sentence: Sentence, teller: Teller, text: str, key: int, *, exclusive: bool
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


def past_row(past: PastSentence, memory: str, key: int, *, exclusive: bool) -> dict[str, Any]:
    """Return what an earlier text of a memory stated."""
    withdrawn, said = to_time(past.withdrawn_at), to_time(past.said_at)
    teller = Teller(None, memory, said, withdrawn)
    made = sentence(past.stated, said)
    return sentence_row(made, teller, past.stated.evidence, key, exclusive=exclusive)


def key_of(stated: RelationshipData) -> EdgeKey:
    return EdgeKey(stated.source_entity_id, stated.target_entity_id, stated.relationship_type)


def mention_row(teller: Teller, mention: EntityData) -> dict[str, Any]:
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
