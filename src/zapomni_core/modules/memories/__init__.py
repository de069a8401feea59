"""The rules of a memory: what may be stored, changed and asked for."""

from zapomni_core.modules.memories._rules import (
    check_moment,
    check_query,
    parse_filters,
    validate_add,
    validate_update,
    without_code,
)

__all__ = [
    "check_moment",
    "check_query",
    "parse_filters",
    "validate_add",
    "validate_update",
    "without_code",
]
