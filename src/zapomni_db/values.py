"""Conversions that both storage engines use: times, JSON, hashes, vectors.

Standard library only: recorders of observations import it too.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from zapomni_db.exceptions import ValidationError

__all__ = [
    "check_vector",
    "from_json",
    "from_time",
    "sha256_of",
    "to_json",
    "to_time",
    "write_time",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_time(moment: datetime) -> int:
    """Return microseconds since 1970: integers compare exactly and convert back exactly."""
    try:
        return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except OverflowError as error:
        raise ValidationError("A time is beyond the ends of the calendar", "VAL_003") from error


@lru_cache(maxsize=4096)  # a search reads hundreds, the same ones again and again
def from_time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def write_time(moment: datetime) -> str:
    """Return a time as records and versions have it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


# Made once: `json.dumps` makes one for each call that asks for other than its own separators.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def to_json(value: Any) -> str:
    return _ENCODER.encode(value)


def from_json(text: str) -> Any:
    return json.loads(text)


def sha256_of(text: str) -> bytes:
    """Return the hash that identifies an exact text.

    Raises:
        ValidationError: The text cannot be encoded.
    """
    try:
        return hashlib.sha256(text.encode()).digest()
    except UnicodeEncodeError:
        raise ValidationError("text is not valid UTF-8 (a lone surrogate)", "VAL_004") from None


def check_vector(embedding: Sequence[float], dimension: int, position: int) -> None:
    """Refuse a vector that would poison the index."""
    if len(embedding) != dimension:
        raise ValidationError(
            f"embedding {position} dimension must be {dimension}, got {len(embedding)}", "VAL_003"
        )
    if not 0.0 < math.hypot(*embedding) < 1e18:
        raise ValidationError(
            f"embedding {position} is a zero vector or has values that are not finite", "VAL_003"
        )
