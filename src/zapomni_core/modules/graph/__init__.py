"""What a text speaks of, and how those things stand to each other; found without any model."""

from zapomni_core.modules.graph._extract import RuleExtractor
from zapomni_core.modules.graph._names import (
    canonical_name,
    entity_id,
    fuzzy_key,
    name_key,
    same_entity,
)

__all__ = [
    "RuleExtractor",
    "canonical_name",
    "entity_id",
    "fuzzy_key",
    "name_key",
    "same_entity",
]
