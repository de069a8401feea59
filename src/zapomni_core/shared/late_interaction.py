"""Late interaction: how well each word of a question is answered by some word of a passage.

A passage keeps one compact vector per token: 96 numbers of 2 bits, 24 bytes in all. The numbers
are projections on directions in which tokens differ, rotated so that all carry alike, and cut
at the levels that lose least for normally distributed ones (Lloyd-Max).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "BYTES_PER_TOKEN",
    "DIMENSION",
    "TokenCodec",
    "max_similarities",
    "mean_similarities",
    "score_tokens",
]

DIMENSION = 96
BYTES_PER_TOKEN = DIMENSION // 4

# Four levels for a normal variable, in standard deviations, and where the outer ones begin.
_LEVELS = (-1.510, -0.4528, 0.4528, 1.510)
_CUT = 0.9816
# A token's excess over the others counts a little more than its share: peaks tell most.
_POWER = 1.25


class TokenCodec:
    """Packs token vectors with a fitted projection; `tools/fit_projection.py` makes the data."""

    def __init__(self, data: bytes) -> None:
        import numpy as np

        numbers = np.frombuffer(data, dtype=np.float32)
        self._directions = numbers[:-DIMENSION].reshape(DIMENSION, -1)
        self._deviations = numbers[-DIMENSION:]

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

    asked = np.frombuffer(question, dtype=np.float32).reshape(-1, DIMENSION)
    codes = np.frombuffer(b"".join(passages), dtype=np.uint8).reshape(-1, BYTES_PER_TOKEN)
    # take and einsum cost a third of what indexing and a sum of squares do.
    rows = np.take(_table(), codes, axis=0).reshape(-1, DIMENSION)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    cosines = rows @ asked.T / lengths[:, np.newaxis]
    counts = [len(packed) // BYTES_PER_TOKEN for packed in passages]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    best: NDArray[np.float32] = np.maximum.reduceat(cosines, starts, axis=0)
    return best


def score_tokens(
    windows: Sequence[Sequence[NDArray[np.float32]]], weights: Sequence[float]
) -> list[float]:
    """Score candidates 0..1 by what their best tokens have above the average of them all.

    A candidate is given by the rows of `max_similarities` of one or several passages.
    """
    import numpy as np

    best = np.array([np.max(rows, axis=0) if len(rows) > 1 else rows[0] for rows in windows])
    excess = np.maximum(best - best.mean(axis=0), 0) ** _POWER
    scores = excess @ np.asarray(weights, dtype=np.float32)
    low, high = float(scores.min()), float(scores.max())
    return ((scores - low) / (high - low)).tolist() if high > low else [1.0] * len(scores)


def mean_similarities(
    rows: Sequence[NDArray[np.float32]], counted: Sequence[bool], most: int
) -> tuple[list[float], list[float]]:
    """Return two means of each row over its counted tokens.

    That of the best, at most so many, and that of the lowest third.
    """
    import numpy as np

    found = np.sort(np.array(rows)[:, list(counted)], axis=1)
    best: list[float] = found[:, -most:].mean(axis=1).tolist()
    least: list[float] = found[:, : max(found.shape[1] // 3, 1)].mean(axis=1).tolist()
    return best, least


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
