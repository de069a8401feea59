"""A text becomes entities and relationships: by rules, and by a model if one is configured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from zapomni_core.exceptions import ConfigurationError, ExtractionError
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import EntityExtractor, RelationshipExtractor
from zapomni_core.modules.graph import RuleExtractor, load_gazetteer, with_evidence
from zapomni_core.settings import Settings
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["Extraction", "GraphExtractor", "create_extractor"]

# Changes whenever the rules find something else in the same text: stored passages are read again.
RULES = "rules-2"

log = get_logger(__name__)


class Extraction(NamedTuple):
    """What a text speaks of and states, with exact places in it."""

    entities: list[EntityData]
    """One per mention, in the order of the text."""
    relationships: list[RelationshipData]
    """Their ids are ids of `entities`."""
    notice: str | None = None
    """Said when the configured model could not be used and the rules' result stands."""


class _Model(EntityExtractor, Protocol):
    """A model behind the rules. Implemented by `SpacyExtractor` and `ModelExtractor`."""

    model: str

    async def close(self) -> None:
        """Release connections."""
        ...


def create_extractor(settings: Settings) -> GraphExtractor:
    """Build the extractor the settings ask for. Close it when done.

    Raises:
        ConfigurationError: The setting `extractor` needs another one, or gazetteer.txt is wrong.
    """
    rules = RuleExtractor(load_gazetteer(settings.home / "gazetteer.txt"))
    return GraphExtractor(rules, _configured(settings))


def _configured(settings: Settings) -> _Model | None:
    model, timeout = settings.extraction_model, settings.extraction_timeout_seconds
    if settings.extractor == "spacy":
        from zapomni_core.adapters.spacy_extractor import SpacyExtractor

        return SpacyExtractor(model or "en_core_web_sm")
    if settings.extractor == "ollama":
        from zapomni_core.adapters.model_extractor import OllamaExtractor

        return OllamaExtractor(settings.ollama_host, model or "llama3.2", timeout)
    if settings.extractor == "openai":
        from zapomni_core.adapters.model_extractor import OpenAIExtractor

        if not settings.openai_base_url:
            raise ConfigurationError(
                "The extractor openai needs the address of its server: set "
                "ZAPOMNI_OPENAI_BASE_URL, such as http://127.0.0.1:8080/v1",
                "CONF_002",
            )
        key = settings.openai_api_key.get_secret_value()
        return OpenAIExtractor(settings.openai_base_url, model or "gpt-4o-mini", key, timeout)
    return None


class GraphExtractor:
    """Finds entities and relationships; the rules' result stands whenever a model fails."""

    def __init__(self, rules: RuleExtractor, model: _Model | None = None) -> None:
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
        """Return what a question or a name speaks of, by rules alone: nobody waits for a model."""
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
            notice = f"{error.message} What the rules found stands ({error.error_code})."
            return by_rules._replace(notice=notice)

    async def close(self) -> None:
        """Release the model's connections."""
        if self._model is not None:
            await self._model.close()

    async def _with_model(
        self, model: _Model, text: str, by_rules: Extraction, reference_date: datetime | None
    ) -> Extraction:
        """Add what the model found to what the rules did: all of it, or an error."""
        named = await model.extract_entities(text, reference_date)
        entities = _joined(by_rules.entities, [self._rules.canonical(entity) for entity in named])
        stated = await self._rules.extract_relationships(text, entities, reference_date)
        if isinstance(model, RelationshipExtractor) and len(entities) > 1:
            told = await model.extract_relationships(text, entities, reference_date)
            stated = _without_repetitions(stated, with_evidence(text, entities, told))
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
    by_rules: Sequence[RelationshipData], told: Sequence[RelationshipData]
) -> list[RelationshipData]:
    """What the model states takes the place of names merely standing together."""
    stated = {(r.source_entity_id, r.target_entity_id, r.relationship_type) for r in by_rules}
    new = [
        relationship
        for relationship in told
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
