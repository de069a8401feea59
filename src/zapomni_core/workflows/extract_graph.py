"""A text becomes entities and relationships."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from zapomni_core.modules.graph import RuleExtractor, load_gazetteer
from zapomni_core.settings import Settings
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["Extraction", "GraphExtractor", "create_extractor"]


class Extraction(NamedTuple):
    """What a text speaks of and states, with exact places in it."""

    entities: list[EntityData]
    """One per mention, in the order of the text."""
    relationships: list[RelationshipData]
    """Their ids are ids of `entities`."""
    notice: str | None = None
    """Said when the configured model could not be used and the rules' result stands."""


def create_extractor(settings: Settings) -> GraphExtractor:
    """Build the extractor the settings ask for. Close it when done."""
    return GraphExtractor(RuleExtractor(load_gazetteer(settings.home / "gazetteer.txt")))


class GraphExtractor:
    """Finds entities and relationships; the rules' result stands whenever a model fails."""

    def __init__(self, rules: RuleExtractor) -> None:
        self._rules = rules

    @property
    def version(self) -> str:
        """Name what decides what is found: passages read by another version are read again."""
        return "rules-1"

    async def extract(self, text: str, reference_date: datetime | None = None) -> Extraction:
        """Return what the text states; `yesterday` is the day before `reference_date`."""
        entities = await self._rules.extract_entities(text, reference_date)
        found = await self._rules.extract_relationships(text, entities, reference_date)
        return Extraction(entities, found)

    async def close(self) -> None:
        """Release connections."""
