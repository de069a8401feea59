"""Late interaction: how well each word of a question is answered by some word of a passage.

A passage keeps one compact vector per token: 48 numbers of 4 bits, 24 bytes in all. Only the
direction counts, so neither scale nor length is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BYTES_PER_TOKEN", "DIMENSION", "max_similarities", "pack", "project", "unpack"]

DIMENSION = 48
BYTES_PER_TOKEN = DIMENSION // 2


def project(tokens: NDArray[np.float32], projection: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the tokens' directions in the small space, one row per token."""
    return _unit_rows(tokens @ projection.T)


def pack(rows: NDArray[np.float32]) -> bytes:
    """Pack unit rows into 4 bits a number, each row by the step its largest number needs."""
    import numpy as np

    steps = np.abs(rows).max(axis=1, keepdims=True) / 7.5
    levels = np.clip(np.floor(rows / np.where(steps > 0, steps, 1)), -8, 7) + 8
    nibbles = levels.astype(np.uint8)
    return (nibbles[:, ::2] << 4 | nibbles[:, 1::2]).tobytes()


def unpack(packed: bytes) -> NDArray[np.float32]:
    """Return unit rows again, as near as 4 bits allow."""
    import numpy as np

    pairs = np.frombuffer(packed, dtype=np.uint8).reshape(-1, BYTES_PER_TOKEN)
    rows = np.empty((len(pairs), DIMENSION), dtype=np.float32)
    rows[:, ::2] = pairs >> 4
    rows[:, 1::2] = pairs & 15
    return _unit_rows(rows - 7.5)


def max_similarities(
    question: NDArray[np.float32], passages: Sequence[bytes]
) -> NDArray[np.float32]:
    """Return, for each passage and each token of the question, the best token's cosine."""
    import numpy as np

    rows = unpack(b"".join(passages))
    lengths = np.array([len(packed) // BYTES_PER_TOKEN for packed in passages])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    best: NDArray[np.float32] = np.maximum.reduceat(rows @ question.T, starts, axis=0)
    return best


def _unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return scaled
