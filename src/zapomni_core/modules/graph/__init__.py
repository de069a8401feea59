"""What a text speaks of, and how those things stand to each other; found without any model."""

from zapomni_core.modules.graph._extract import RuleExtractor
from zapomni_core.modules.graph._gazetteer import Gazetteer, load_gazetteer
from zapomni_core.modules.graph._names import (
    canonical_name,
    entity_id,
    fuzzy_key,
    name_key,
    same_entity,
)
from zapomni_core.modules.graph._phrases import SINGLE_VALUED
from zapomni_core.modules.graph._relations import with_evidence

__all__ = [
    "SINGLE_VALUED",
    "Gazetteer",
    "RuleExtractor",
    "canonical_name",
    "entity_id",
    "fuzzy_key",
    "load_gazetteer",
    "name_key",
    "same_entity",
    "with_evidence",
]
