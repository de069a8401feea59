"""Checks that several modules make of requests."""

from __future__ import annotations

from zapomni_db.exceptions import ValidationError

__all__ = ["validate_page"]

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
