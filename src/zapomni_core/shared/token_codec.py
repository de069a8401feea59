"""Vectors of tokens as they are stored, for late interaction: 24 bytes each.

A passage keeps one compact vector per token: 96 numbers of 2 bits, 24 bytes in all. The numbers
are projections on directions in which tokens differ, rotated so that all carry alike, and cut
at the levels that lose least for normally distributed ones (Lloyd-Max).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BYTES_PER_TOKEN", "DIMENSION", "LEVELS", "QUAD", "TokenCodec"]

DIMENSION = 96
BYTES_PER_TOKEN = DIMENSION // 4

# Four levels for a normal variable, in standard deviations, and where the outer ones begin.
LEVELS = (-1.510, -0.4528, 0.4528, 1.510)
_CUT = 0.9816
# Where the four numbers of two bits are in a byte.
QUAD = (0, 2, 4, 6)


class TokenCodec:
    """Packs token vectors with a fitted projection; `tools/fit_projection.py` makes the data."""

    def __init__(self, data: bytes) -> None:
        import numpy as np

        # Of every direction the largest number, the deviation along it, and its numbers in steps of
        # 1 / 511 of the largest: the upper eight bits of each, then the lower two of four together.
        numbers: NDArray[np.float32] = np.frombuffer(data[: 8 * DIMENSION], dtype="<f4")
        largest, deviations = numbers.reshape(2, -1)
        split = 8 * DIMENSION + (len(data) - 8 * DIMENSION) * 4 // 5
        upper = np.frombuffer(data[8 * DIMENSION : split], dtype=np.int8).reshape(-1, 4)
        lower = np.frombuffer(data[split:], dtype=np.uint8)[:, np.newaxis] >> QUAD & 3
        steps = (upper.astype(np.int16) * 4 + lower).reshape(DIMENSION, -1)
        self._directions = steps.astype(np.float32)
        self._directions *= (largest / np.float32(511))[:, np.newaxis]
        self._deviations = deviations

    @staticmethod
    def encode(directions: NDArray[np.float32], deviations: NDArray[np.float32]) -> bytes:
        """Return the data of a projection: as small as its two bits a number allow."""
        import numpy as np

        largest = np.abs(directions).max(axis=1)
        steps = np.rint(directions / largest[:, np.newaxis] * 511).astype(np.int16)
        lower = ((steps & 3).reshape(-1, 4) << QUAD).sum(axis=1).astype(np.uint8)
        numbers = np.stack([largest, deviations]).astype("<f4")
        upper = (steps >> 2).astype(np.int8)
        return b"".join([numbers.tobytes(), upper.tobytes(), lower.tobytes()])

    def pack(self, tokens: NDArray[np.float32]) -> bytes:
        """Pack a passage's token vectors, one row each."""
        import numpy as np

        rows = _unit_rows(tokens @ self._directions.T) / self._deviations
        codes = (rows > -_CUT).astype(np.uint8) + (rows > 0) + (rows > _CUT)
        quads = codes.astype(np.uint8).reshape(len(rows), BYTES_PER_TOKEN, 4)
        packed = quads[:, :, 0] | quads[:, :, 1] << 2 | quads[:, :, 2] << 4 | quads[:, :, 3] << 6
        return packed.tobytes()

    def ask(self, tokens: NDArray[np.float32]) -> bytes:
        """Return a question's token vectors whole, ready to be compared with packed ones."""
        import numpy as np

        # Packed numbers are in standard deviations: those are folded into the question.
        rows = _unit_rows(tokens @ self._directions.T) * self._deviations
        return _unit_rows(rows).astype(np.float32).tobytes()


def _unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return scaled
