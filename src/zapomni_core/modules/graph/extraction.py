"""Entities and relationships of a text: by rules, and by a model if one is configured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from zapomni_core.exceptions import ExtractionError
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import EntityExtractor, RelationshipExtractor
from zapomni_core.modules.graph.entities import NamedSpan, scan
from zapomni_core.modules.graph.names import Gazetteer, canonical_name, entity_id
from zapomni_core.modules.graph.relations import relate, with_evidence
from zapomni_db.models import EntityData, RelationshipData

__all__ = [
    "Extraction",
    "ExtractionModel",
    "GraphExtractor",
    "RuleExtractor",
]


# A longer text would block the event loop, so it is read in a separate thread.
READ_AT_ONCE = 20_000


class RuleExtractor:
    """Finds entities and relationships without any model."""

    name = "rules"

    def __init__(self, gazetteer: Gazetteer) -> None:
        self.gazetteer = gazetteer

    async def extract_entities(
        self, text: str, reference_date: datetime | None = None
    ) -> list[EntityData]:
        """Return one entity per mention, in the order of the text; no two overlap."""
        if len(text) > READ_AT_ONCE:
            return await asyncio.to_thread(self._entities, text, reference_date)
        return self._entities(text, reference_date)

    async def extract_relationships(
        self,
        text: str,
        entities: list[EntityData],
        reference_date: datetime | None = None,  # noqa: ARG002 - dates are resolved already
    ) -> list[RelationshipData]:
        """Return what the text states about these entities, sentence by sentence."""
        if len(text) > READ_AT_ONCE:
            return await asyncio.to_thread(relate, text, entities)
        return relate(text, entities)

    def canonical(self, entity: EntityData) -> EntityData:
        """Return an entity that a model found with its canonical name, id and aliases."""
        known = next(
            (e for e in self.gazetteer.find(entity.name) if e.kind in (entity.type, "SERVICE")),
            None,
        )
        name = known.name if known else canonical_name(entity.name, entity.type)
        aliases = [alias for alias in known.aliases if alias != name] if known else []
        changed = {"name": name, "entity_id": entity_id(name, entity.type), "aliases": aliases}
        return entity.model_copy(update=changed)

    def _entities(self, text: str, reference_date: datetime | None) -> list[EntityData]:
        mentions = _with_speakers(text, scan(text, self.gazetteer, reference_date))
        return [_entity(text, mentions, index) for index in range(len(mentions))]


def _with_speakers(text: str, mentions: list[NamedSpan]) -> list[NamedSpan]:
    """In `Anna: I moved to Rome`, I am Anna."""
    speaker: NamedSpan | None = None
    for index, mention in enumerate(mentions):
        if mention.type == "PERSON" and text.startswith(": ", mention.end):
            if mention.start == 0 or text[mention.start - 1] == "\n":
                speaker = mention
        elif mention.type == "SELF" and speaker and text[mention.start].lower() == "i":
            mentions[index] = mention._replace(type="PERSON", name=speaker.name)
    return mentions


def _entity(text: str, mentions: Sequence[NamedSpan], index: int) -> EntityData:
    mention = mentions[index]
    name = canonical_name(mention.name, mention.type)
    if mention.type == "VERSION" and (thing := _versioned(text, mentions, index)):
        # 1.2 of one thing is not 1.2 of another.
        name = f"{thing.name} {name}"
    # Built from checked parts; thousands are made per second.
    return EntityData.model_construct(
        entity_id=entity_id(name, mention.type),
        name=name,
        type=mention.type,
        description="",
        confidence=mention.confidence,
        source=mention.source,
        surface=text[mention.start : mention.end],
        start_char=mention.start,
        end_char=mention.end,
        aliases=[alias for alias in mention.aliases if alias != name],
    )


def _versioned(text: str, mentions: Sequence[NamedSpan], index: int) -> NamedSpan | None:
    """Return what a version is one of: `Python 3.12`, `cryptography from 42.0.8 to 43.0.0`."""
    version = mentions[index]
    for before in reversed(mentions[max(0, index - 2) : index]):
        between = text[before.end : version.start].strip().lower()
        if before.type in ("TECHNOLOGY", "PACKAGE") and between in _BEFORE_VERSION:
            return before
        if before.type != "VERSION" or between not in _BETWEEN_VERSIONS:
            return None
        version = before
    return None


_BEFORE_VERSION = frozenset(
    {"", "==", "@", "version", "v", ">=", "^", "~=", "<", ">", "from", "to"}
)
_BETWEEN_VERSIONS = frozenset({"to", "or", "and", "->", "and/or", ",", "through"})


# --- A text becomes entities and relationships: by rules, and by a model if one is configured ---


# Changes whenever the rules find something else in the same text: stored passages are read again.
RULES = "rules-2"

log = get_logger(__name__)


class Extraction(NamedTuple):
    """The entities and relationships of a text, with exact places in it."""

    entities: list[EntityData]
    """One per mention, in the order of the text."""
    relationships: list[RelationshipData]
    """Their ids are ids of `entities`."""
    notice: str | None = None
    """Why the configured model was not used, if it was not."""


class ExtractionModel(EntityExtractor, Protocol):
    """A model that adds to the rules. Implemented by `SpacyExtractor` and `ModelExtractor`."""

    model: str

    async def close(self) -> None:
        """Release connections."""
        ...


class GraphExtractor:
    """Finds entities and relationships; when a model fails, what the rules found is used."""

    def __init__(self, rules: RuleExtractor, model: ExtractionModel | None = None) -> None:
        self._rules = rules
        self._model = model

    @property
    def version(self) -> str:
        """Name what decides what is found: passages read by another version are read again."""
        parts = [RULES, self._rules.gazetteer.digest]
        if self._model is not None:
            parts.append(f"{self._model.name}/{self._model.model}")
        return "+".join(filter(None, parts))

    async def recognize(self, text: str) -> list[EntityData]:
        """Return the entities in a question or a name, by rules alone: no one waits for a model."""
        return await self._rules.extract_entities(text)

    async def extract(self, text: str, reference_date: datetime | None = None) -> Extraction:
        """Return what the text states; `yesterday` is the day before `reference_date`."""
        entities = await self._rules.extract_entities(text, reference_date)
        stated = await self._rules.extract_relationships(text, entities, reference_date)
        by_rules = Extraction(entities, stated)
        if self._model is None or not text.strip():
            return by_rules
        try:
            return await self._with_model(self._model, text, by_rules, reference_date)
        except ExtractionError as error:
            log.warning("extraction_fallback", failed=self._model.name, error_code=error.error_code)
            # Only what was written for users: the message names the setting to change.
            notice = f"{error.message} What the rules found is used ({error.error_code})."
            return by_rules._replace(notice=notice)

    async def close(self) -> None:
        """Release the model's connections."""
        if self._model is not None:
            await self._model.close()

    async def _with_model(
        self,
        model: ExtractionModel,
        text: str,
        by_rules: Extraction,
        reference_date: datetime | None,
    ) -> Extraction:
        """Add what the model found to what the rules did: all of it, or an error."""
        named = await model.extract_entities(text, reference_date)
        entities = _joined(by_rules.entities, [self._rules.canonical(entity) for entity in named])
        stated = await self._rules.extract_relationships(text, entities, reference_date)
        if isinstance(model, RelationshipExtractor) and len(entities) > 1:
            found = await model.extract_relationships(text, entities, reference_date)
            stated = _without_repetitions(stated, with_evidence(text, entities, found))
        return Extraction(entities, stated)


def _joined(first: Sequence[EntityData], second: Sequence[EntityData]) -> list[EntityData]:
    """Both in the order of the text; where two overlap, the first one's."""
    taken = sorted((entity.start_char, entity.end_char) for entity in first)
    added: list[EntityData] = []
    at = 0
    for entity in sorted(second, key=lambda entity: entity.start_char):
        while at < len(taken) and taken[at][1] <= entity.start_char:
            at += 1
        if at == len(taken) or entity.end_char <= taken[at][0]:
            added.append(entity)
    return sorted([*first, *added], key=lambda entity: entity.start_char)


def _without_repetitions(
    by_rules: Sequence[RelationshipData], by_model: Sequence[RelationshipData]
) -> list[RelationshipData]:
    """What the model states takes the place of names merely standing together."""
    stated = {(r.source_entity_id, r.target_entity_id, r.relationship_type) for r in by_rules}
    new = [
        relationship
        for relationship in by_model
        if (
            relationship.source_entity_id,
            relationship.target_entity_id,
            relationship.relationship_type,
        )
        not in stated
    ]
    pairs = {frozenset((r.source_entity_id, r.target_entity_id)) for r in new}
    kept = [
        r
        for r in by_rules
        if r.source != "cooccurrence"
        or frozenset((r.source_entity_id, r.target_entity_id)) not in pairs
    ]
    return [*kept, *new]
