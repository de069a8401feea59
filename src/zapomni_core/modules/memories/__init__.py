"""The rules of a memory: what may be stored, changed and asked for."""

from zapomni_core.modules.memories._rules import (
    parse_filters,
    validate_add,
    validate_page,
    validate_update,
    without_code,
)

__all__ = ["parse_filters", "validate_add", "validate_page", "validate_update", "without_code"]
