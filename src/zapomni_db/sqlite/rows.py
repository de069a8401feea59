"""Between Python values and what SQLite keeps."""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from zapomni_db.exceptions import ValidationError

__all__ = [
    "content_hash",
    "from_blob",
    "from_json",
    "from_time",
    "text_hash",
    "to_blob",
    "to_json",
    "to_time",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def content_hash(text: str) -> bytes:
    """Identify a memory's exact text."""
    return hashlib.sha256(text.encode()).digest()


def text_hash(text: str) -> bytes:
    """Identify a chunk's exact text; half the length is plenty for a cache key."""
    return content_hash(text)[:16]


def to_time(moment: datetime) -> int:
    """Microseconds since 1970; integers compare exactly and round-trip."""
    try:
        return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except OverflowError as error:
        raise ValidationError("A time is beyond the ends of the calendar", "VAL_003") from error


def from_time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> Any:
    return json.loads(text)


def to_blob(embedding: Sequence[float], dimension: int, position: int) -> bytes:
    """Pack a vector as float32, refusing what would poison the index."""
    if len(embedding) != dimension:
        raise ValidationError(
            f"embedding {position} dimension must be {dimension}, got {len(embedding)}", "VAL_003"
        )
    length = math.hypot(*embedding)
    if not 0.0 < length < 1e18:
        raise ValidationError(
            f"embedding {position} is a zero vector or has values that are not finite", "VAL_003"
        )
    return array("f", embedding).tobytes()


def from_blob(blob: bytes) -> list[float]:
    vector = array("f")
    vector.frombytes(blob)
    return vector.tolist()
