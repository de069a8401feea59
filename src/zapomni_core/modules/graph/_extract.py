"""Entities and relationships of a text, by rules."""

from __future__ import annotations

import re
from datetime import datetime

from zapomni_core.modules.graph._names import canonical_name, entity_id
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["RuleExtractor"]

_URL = re.compile(r"\bhttps?://[^\s<>\"']{1,2000}")


class RuleExtractor:
    """Finds entities and relationships without any model."""

    name = "rules"

    async def extract_entities(
        self, text: str, reference_date: datetime | None = None
    ) -> list[EntityData]:
        """Return one entity per mention, in the order of the text."""
        return [
            EntityData(
                entity_id=entity_id(found[0], "URL"),
                name=canonical_name(found[0], "URL"),
                type="URL",
                confidence=0.95,
                source="rules",
                surface=found[0],
                start_char=found.start(),
                end_char=found.end(),
            )
            for found in _URL.finditer(text)
        ]

    async def extract_relationships(
        self, text: str, entities: list[EntityData], reference_date: datetime | None = None
    ) -> list[RelationshipData]:
        """Return what the text states about these entities."""
        return []
