"""Entities and relationships of a text, by rules."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from zapomni_core.modules.graph._gazetteer import Gazetteer
from zapomni_core.modules.graph._names import canonical_name, entity_id
from zapomni_core.modules.graph._relations import relate
from zapomni_core.modules.graph._scan import scan
from zapomni_core.modules.graph._walk import Mention
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["RuleExtractor"]


# A longer text would keep everybody else waiting, so it is read in a thread of its own.
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
        """Give what somebody else found its canonical name, its id and its aliases."""
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


def _with_speakers(text: str, mentions: list[Mention]) -> list[Mention]:
    """In `Anna: I moved to Rome`, I am Anna."""
    speaker: Mention | None = None
    for index, mention in enumerate(mentions):
        if mention.type == "PERSON" and text.startswith(": ", mention.end):
            if mention.start == 0 or text[mention.start - 1] == "\n":
                speaker = mention
        elif mention.type == "SELF" and speaker and text[mention.start].lower() == "i":
            mentions[index] = mention._replace(type="PERSON", name=speaker.name)
    return mentions


def _entity(text: str, mentions: Sequence[Mention], index: int) -> EntityData:
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


def _versioned(text: str, mentions: Sequence[Mention], index: int) -> Mention | None:
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
