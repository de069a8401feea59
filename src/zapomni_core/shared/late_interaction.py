"""Late interaction: how well each word of a question is answered by some word of a passage.

A passage keeps one compact vector per token: 96 numbers of 2 bits, 24 bytes in all. The numbers
are projections on directions in which tokens differ, rotated so that all carry alike, and cut
at the levels that lose least for normally distributed ones (Lloyd-Max).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "BYTES_PER_TOKEN",
    "DIMENSION",
    "MEAN_TOKENS",
    "TokenCodec",
    "excess_of",
    "join_windows",
    "max_similarities",
    "mean_similarities",
    "score_tokens",
]

DIMENSION = 96
# No passage answers every token of a long question: a mean is of the best so many.
MEAN_TOKENS = 24
BYTES_PER_TOKEN = DIMENSION // 4

# Four levels for a normal variable, in standard deviations, and where the outer ones begin.
_LEVELS = (-1.510, -0.4528, 0.4528, 1.510)
_CUT = 0.9816
# A token's excess over the others counts a little more than its share: peaks tell most.
_POWER = 1.25
# So many tokens at a time stay in a processor's own memory.
BLOCK = 512


class TokenCodec:
    """Packs token vectors with a fitted projection; `tools/fit_projection.py` makes the data."""

    def __init__(self, data: bytes) -> None:
        import numpy as np

        # Of every direction the largest number, the deviation along it, and its numbers in steps of
        # 1 / 127 of the largest.
        numbers: NDArray[np.float32] = np.frombuffer(data[: 8 * DIMENSION], dtype="<f4")
        largest, deviations = numbers.reshape(2, -1)
        steps = np.frombuffer(data[8 * DIMENSION :], dtype=np.int8).reshape(DIMENSION, -1)
        self._directions = steps * (largest / np.float32(127))[:, np.newaxis]
        self._deviations = deviations

    @staticmethod
    def encode(directions: NDArray[np.float32], deviations: NDArray[np.float32]) -> bytes:
        """Return the data of a projection: a byte a number, for tokens keep two bits of each."""
        import numpy as np

        largest = np.abs(directions).max(axis=1)
        steps = np.rint(directions / largest[:, np.newaxis] * 127).astype(np.int8)
        numbers = np.stack([largest, deviations]).astype("<f4")
        data: bytes = numbers.tobytes() + steps.tobytes()
        return data

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


def max_similarities(question: bytes, passages: Sequence[bytes]) -> NDArray[np.float32]:
    """Return the cosine of the best token: one row per passage, one column per question token."""
    import numpy as np

    asked = np.frombuffer(question, dtype=np.float32).reshape(-1, DIMENSION).T.copy()
    codes = np.frombuffer(b"".join(passages), dtype=np.uint8).reshape(-1, BYTES_PER_TOKEN)
    cosines = np.empty((len(codes), asked.shape[1]), dtype=np.float32)
    table = _table()
    for start in range(0, len(codes), BLOCK):
        # take and einsum cost a third of what indexing and a sum of squares do.
        rows = table.take(codes[start : start + BLOCK], axis=0).reshape(-1, DIMENSION)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        block = np.matmul(rows, asked, out=cosines[start : start + BLOCK])
        block /= lengths[:, np.newaxis]
    counts = [len(packed) // BYTES_PER_TOKEN for packed in passages]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    best: NDArray[np.float32] = np.maximum.reduceat(cosines, starts, axis=0)
    return best


def join_windows(rows: NDArray[np.float32], near: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return the best of each row and of those near it, given by number; -1: none."""
    import numpy as np

    # The last row is of no passage: -1 points to it.
    padded = np.vstack([rows, np.full_like(rows[:1], -np.inf)])
    best: NDArray[np.float32] = np.maximum(rows, padded[near].max(axis=1))
    return best


def score_tokens(rows: NDArray[np.float32], weights: Sequence[float]) -> list[float]:
    """Score rows of `max_similarities` 0..1 by what they have above the average of them all."""
    import numpy as np

    scores = excess_of(rows, rows.mean(axis=0), np.asarray(weights, dtype=np.float32))
    low, high = float(scores.min()), float(scores.max())
    return ((scores - low) / (high - low)).tolist() if high > low else [1.0] * len(scores)


def excess_of(
    rows: NDArray[np.float32], mean: NDArray[np.float32], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return what each row has above the mean, over all tokens by weight."""
    import numpy as np

    above: NDArray[np.float32] = np.maximum(rows - mean, 0) ** _POWER @ weights
    return above


def mean_similarities(rows: NDArray[np.float32], counted: Sequence[bool], most: int) -> list[float]:
    """Return the mean of fourth powers of each row's best counted tokens, at most so many.

    A word that is there counts; three that are a little like anything do not make up for it.
    """
    import numpy as np

    squares = np.maximum(np.sort(rows[:, list(counted)], axis=1)[:, -most:], 0) ** 2
    means: list[float] = (squares * squares).mean(axis=1).tolist()
    return means


@cache
def _table() -> NDArray[np.float32]:
    """Return the four numbers that every byte encodes."""
    import numpy as np

    codes = (np.arange(256)[:, np.newaxis] >> np.array([0, 2, 4, 6])) & 3
    numbers: NDArray[np.float32] = np.array(_LEVELS, dtype=np.float32)[codes]
    return numbers


def _unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return scaled
