"""Entities and relationships of a text, by rules."""

from __future__ import annotations

from datetime import datetime

from zapomni_core.modules.graph._gazetteer import Gazetteer, load_gazetteer
from zapomni_core.modules.graph._names import canonical_name, entity_id
from zapomni_core.modules.graph._scan import scan
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["RuleExtractor"]


class RuleExtractor:
    """Finds entities and relationships without any model."""

    name = "rules"

    def __init__(self, gazetteer: Gazetteer | None = None) -> None:
        self._gazetteer = gazetteer or load_gazetteer()

    async def extract_entities(
        self, text: str, reference_date: datetime | None = None
    ) -> list[EntityData]:
        """Return one entity per mention, in the order of the text."""
        found = []
        for m in scan(text, self._gazetteer, reference_date):
            name = canonical_name(m.name, m.type)
            found.append(
                EntityData.model_construct(
                    entity_id=entity_id(name, m.type), name=name, type=m.type, description="",
                    confidence=m.confidence, source=m.source, surface=text[m.start : m.end],
                    start_char=m.start, end_char=m.end, aliases=list(m.aliases),
                )
            )
        return found

    async def extract_relationships(
        self, text: str, entities: list[EntityData], reference_date: datetime | None = None
    ) -> list[RelationshipData]:
        """Return what the text states about these entities."""
        return []
