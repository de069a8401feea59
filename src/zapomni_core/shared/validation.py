"""Checks that several modules make of requests."""

from __future__ import annotations

from zapomni_db.exceptions import ValidationError

__all__ = ["validate_id", "validate_page"]

MAX_LIMIT = 1000


def validate_page(limit: int, offset: int) -> None:
    """Check which page of a list is requested.

    Raises:
        ValidationError: The limit or the offset is out of range.
    """
    if not 1 <= limit <= MAX_LIMIT:
        raise ValidationError(f"limit must be from 1 to {MAX_LIMIT}, got {limit}", "VAL_003")
    if offset < 0:
        raise ValidationError(f"offset cannot be negative, got {offset}", "VAL_003")


def validate_id(given: str, name: str = "memory_id") -> str:
    """Return an id without the blanks around it.

    Raises:
        ValidationError: It is empty or has a NUL character.
    """
    if not given.strip():
        raise ValidationError(f"{name} cannot be empty", "VAL_001")
    if "\0" in given:
        raise ValidationError(f"{name} has a NUL character; take it out", "VAL_004")
    return given.strip()
