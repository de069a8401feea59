"""Late interaction: how well each word of a question is answered by some word of a passage.

A passage keeps one compact vector per token: 96 numbers of 2 bits, 24 bytes in all. The numbers
are projections on directions in which tokens differ, rotated so that all carry alike, and cut
at the levels that lose least for normally distributed ones (Lloyd-Max).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
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
# Where the four numbers of two bits are in a byte.
_QUAD = (0, 2, 4, 6)
# Of the two bits of each number, the lower ones.
_LOWER_BITS = 0x5555_5555_5555_5555
# So many tokens at a time stay in a processor's own memory, and no more than so many products:
# larger ones OpenBLAS first copies, which takes half as long again.
BLOCK, PRODUCTS = 512, 1_000_000


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
        lower = np.frombuffer(data[split:], dtype=np.uint8)[:, np.newaxis] >> _QUAD & 3
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
        lower = ((steps & 3).reshape(-1, 4) << _QUAD).sum(axis=1).astype(np.uint8)
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


def max_similarities(question: bytes, passages: Sequence[bytes]) -> NDArray[np.float32]:
    """Return the cosine of the best token: one row per passage, one column per question token."""
    import numpy as np

    asked = np.frombuffer(question, dtype=np.float32).reshape(-1, DIMENSION).T.copy()
    packed = b"".join(passages)
    codes = np.frombuffer(packed, dtype=np.uint8).reshape(-1, BYTES_PER_TOKEN)
    cosines = np.empty((len(codes), asked.shape[1]), dtype=np.float32)
    table, size = _table(), min(BLOCK, PRODUCTS // asked.size)
    for start in range(0, len(codes), size):
        # take costs a third of what indexing does.
        rows = table.take(codes[start : start + size], axis=0).reshape(-1, DIMENSION)
        np.matmul(rows, asked, out=cosines[start : start + size])
    cosines *= _inverse_lengths(packed)[:, np.newaxis]
    ends = list(accumulate(len(one) // BYTES_PER_TOKEN for one in passages))
    best: NDArray[np.float32] = np.maximum.reduceat(cosines, [0, *ends[:-1]], axis=0)
    return best


def _inverse_lengths(packed: bytes) -> NDArray[np.float32]:
    """Return one divided by the length of each packed token.

    A number is an inner level if its two bits differ: so many such numbers say the length.
    """
    import numpy as np

    words = np.frombuffer(packed, dtype=np.uint64).reshape(-1, BYTES_PER_TOKEN // 8)
    inner = np.bitwise_count((words ^ (words >> np.uint64(1))) & _LOWER_BITS).T
    found: NDArray[np.float32] = _lengths().take(inner[0] + inner[1] + inner[2])
    return found


def join_windows(rows: NDArray[np.float32], *near: Sequence[int]) -> NDArray[np.float32]:
    """Return the best of each row and of those before and after it, by numbers; -1: none."""
    import numpy as np

    # The last row is of no passage: -1 points to it.
    padded = np.vstack([rows, np.full_like(rows[:1], -np.inf)])
    best = rows
    for numbers in near:
        best = np.maximum(best, padded.take(numbers, axis=0))
    return best


def score_tokens(rows: NDArray[np.float32], weights: Sequence[float]) -> NDArray[np.float32]:
    """Score rows of `max_similarities` 0..1 by what they have above the average of them all."""
    import numpy as np

    scores = excess_of(rows, rows.mean(axis=0), np.asarray(weights, dtype=np.float32))
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)


def excess_of(
    rows: NDArray[np.float32], mean: NDArray[np.float32], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return what each row has above the mean, over all tokens by weight.

    An excess counts a little more than its share: peaks say most.
    """
    import numpy as np

    above = np.maximum(rows - mean, 0)
    # To the power of 1.25, of which two roots are a fifth of the cost.
    above *= np.sqrt(np.sqrt(above))
    # Not OpenBLAS: it has warned of invalid values where there were none, and gains nothing here.
    found: NDArray[np.float32] = np.einsum("ij,j->i", above, weights)
    return found


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

    codes = (np.arange(256)[:, np.newaxis] >> _QUAD) & 3
    numbers: NDArray[np.float32] = np.array(_LEVELS, dtype=np.float32)[codes]
    return numbers


@cache
def _lengths() -> NDArray[np.float32]:
    """Return one divided by the length of a token, by how many of its numbers are inner levels."""
    import numpy as np

    inner = np.arange(DIMENSION + 1)
    _, _, low, high = _LEVELS
    lengths: NDArray[np.float64] = np.sqrt(inner * low**2 + (DIMENSION - inner) * high**2)
    return (1 / lengths).astype(np.float32)


def _unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return scaled
