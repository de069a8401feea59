"""Vectors as they are stored: 16 bits a number, the upper and the lower bytes apart.

The upper bytes are enough to tell what is near: a search of a large store holds these in memory,
and reads the lower ones for the nearest only. Steps are powers of two: what is unpacked fits into
float32, and is packed to the same again.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from zapomni_db.values import check_vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Codes",
    "PackedVector",
    "pack_stored",
    "pack_vectors",
    "read_codes",
    "read_joined_codes",
    "read_lower",
    "read_vectors",
]

# Before the upper bytes: the vector's length, and what one step of its numbers is worth.
_HEADER = struct.Struct("<ff")
# Added to every number of steps: the upper byte alone is then a rounded number.
_HALF = 128
_MOST_STEPS = 2**15 - 1 - _HALF


class PackedVector(NamedTuple):
    """A stored vector. Those of older versions are float32, and have no lower part."""

    upper: bytes
    lower: bytes | None

    def numbers(self) -> list[float]:
        """Return its numbers. Without numpy, which a search by words does not load."""
        if self.lower is None:
            return array("f", self.upper).tolist()
        _, step = _HEADER.unpack_from(self.upper)
        both = bytearray(2 * len(self.lower))
        both[0::2], both[1::2] = self.lower, self.upper[_HEADER.size :]
        return [step * (number - _HALF) for (number,) in struct.iter_unpack("<h", both)]


class Codes(NamedTuple):
    """The upper bytes of vectors, and what one step of them is worth at length one."""

    steps: NDArray[np.int8]
    worth: NDArray[np.float32]


def pack_vectors(
    vectors: Sequence[Sequence[float]], dimension: int, positions: Iterable[int]
) -> list[PackedVector]:
    """Pack vectors, refusing what would poison the index; positions name them in errors."""
    import numpy as np

    for vector, position in zip(vectors, positions, strict=True):
        check_vector(vector, dimension, position)
    return _pack(np.asarray(vectors, dtype=np.float64)) if vectors else []


def pack_stored(vectors: Sequence[bytes]) -> list[PackedVector]:
    """Pack vectors of one space that are stored as float32."""
    import numpy as np

    return _pack(_table(vectors).view(np.float32).astype(np.float64)) if vectors else []


def _pack(numbers: NDArray[np.float64]) -> list[PackedVector]:
    import numpy as np

    highest = np.abs(numbers).max(axis=1)
    known = np.isfinite(highest) & (highest > 0)
    steps = np.exp2(np.ceil(np.log2(np.where(known, highest, 1.0) / _MOST_STEPS)))
    # One without a direction becomes zeros: it is near nothing.
    numbers = np.where(known[:, np.newaxis], numbers, 0.0)
    counts = np.rint(numbers / steps[:, np.newaxis]).astype(np.int32)
    lengths = np.linalg.norm(counts, axis=1) * steps
    headers = map(_HEADER.pack, lengths.tolist(), steps.tolist())
    lower, upper = (counts + _HALF).astype("<i2").view(np.uint8).reshape(*counts.shape, 2).T
    return [
        PackedVector(header + high.tobytes(), low.tobytes())
        for header, high, low in zip(headers, upper.T, lower.T, strict=True)
    ]


def read_vectors(vectors: Sequence[PackedVector], dimension: int) -> NDArray[np.float32]:
    """Return stored vectors at length one, a row each."""
    import numpy as np

    if any(one.lower is None for one in vectors):
        old = iter(pack_stored([one.upper for one in vectors if one.lower is None]))
        vectors = [one if one.lower is not None else next(old) for one in vectors]
    if not vectors:
        return np.empty((0, dimension), dtype=np.float32)
    upper = _table([one.upper for one in vectors])[:, _HEADER.size :].view(np.int8)
    lower = _table([one.lower or b"" for one in vectors])
    numbers = upper * np.float32(256) + lower - np.float32(_HALF)
    lengths = np.linalg.norm(numbers, axis=1, keepdims=True)
    numbers /= np.where(lengths > 0, lengths, 1)
    return numbers


def read_codes(vectors: Sequence[bytes], dimension: int) -> Codes:
    """Return the upper bytes of stored vectors, whichever way they are stored."""
    size = _HEADER.size + dimension
    if any(len(one) != size for one in vectors):
        old = iter(pack_stored([one for one in vectors if len(one) != size]))
        vectors = [one if len(one) == size else next(old).upper for one in vectors]
    return _split_codes(_table(vectors))


def read_joined_codes(joined: bytes, count: int, dimension: int) -> Codes | None:
    """Return the upper bytes of so many vectors that are joined; None: not all are packed."""
    import numpy as np

    if len(joined) != count * (_HEADER.size + dimension):
        return None
    return _split_codes(np.frombuffer(joined, dtype=np.uint8).reshape(count, -1))


def _split_codes(table: NDArray[np.uint8]) -> Codes:
    import numpy as np

    lengths, steps = np.ascontiguousarray(table[:, : _HEADER.size]).view("<f4").T
    worth = np.divide(256 * steps, lengths, out=np.zeros_like(steps), where=lengths > 0)
    return Codes(table[:, _HEADER.size :].view(np.int8), worth)


def read_lower(parts: Sequence[bytes]) -> NDArray[np.float32]:
    """Return lower parts in steps of the upper ones."""
    import numpy as np

    return (_table(parts) - np.float32(_HALF)) / np.float32(256)


def _table(rows: Sequence[bytes]) -> NDArray[np.uint8]:
    """Return rows of equal length as one table."""
    import numpy as np

    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
