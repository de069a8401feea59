"""Late interaction: how well each word of a question is answered by some word of a passage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from zapomni_core.infra.onnx import load_onnxruntime, one_thread_options
from zapomni_core.shared.token_codec import BYTES_PER_TOKEN, DIMENSION, QUAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "MEAN_TOKENS",
    "excess_of",
    "join_windows",
    "max_similarities",
    "mean_directions",
    "mean_similarities",
    "score_tokens",
]

# No passage answers every token of a long question: a mean is of the best so many.
MEAN_TOKENS = 24

# The four levels of a packed number in whole steps, 3 and 10 from the middle: their ratio is that
# of the levels to a thousandth. Products of a few small steps need no more than 16 bits in between,
# which is all that processors without instructions of their own for it have.
_STEPS, _MIDDLE, _INNER, _OUTER = (0, 7, 13, 20), 10, 3, 10
_MOST = 127
# Of the two bits of each number, the lower ones.
_LOWER_BITS = 0x5555_5555_5555_5555
# So many tokens at a time stay in a processor's own memory.
BLOCK_BYTES = 1024 * BYTES_PER_TOKEN
# A model of one operation: the product of two matrices of bytes, a (n x 96) less 10 and b (96 x q),
# in whole numbers. It takes two fifths of the time of numpy's with floating point numbers.
PRODUCT = bytes.fromhex(
    "08083a6d0a1b0a01610a01620a017a120163220d4d61744d756c496e74656765721201672a081002"
    "2a010a42017a5a140a0161120f0a0d080212090a0312016e0a0208605a140a0162120f0a0d080312"
    "090a0208600a0312017162150a016312100a0e0806120a0a0312016e0a0312017142040a00100d"
)


def max_similarities(question: bytes, passages: Sequence[bytes]) -> NDArray[np.float32]:
    """Return the cosine of the best token: one row per passage, one column per question token.

    Args:
        question: The question's token vectors, as `TokenCodec.ask` returns them.
        passages: Those of each passage, as `TokenCodec.pack` returns them; none is empty.
    """
    import numpy as np

    asked = np.frombuffer(question, dtype=np.float32).reshape(-1, DIMENSION)
    largest = np.maximum(np.abs(asked).max(axis=1, initial=0), np.float32(1e-6))
    steps = np.rint(asked * (_MOST / largest)[:, np.newaxis]).astype(np.int8).T.copy()
    best = np.empty((len(passages), len(asked)), dtype=np.float32)
    multiply, table = _multiplier().run, _table()
    first = 0
    while first < len(passages):
        starts, size, last = [], 0, first
        while last < len(passages) and (not size or size + len(passages[last]) <= BLOCK_BYTES):
            starts.append(size // BYTES_PER_TOKEN)
            size += len(passages[last])
            last += 1
        packed = b"".join(passages[first:last])
        # take costs a third of what indexing does.
        rows = table.take(np.frombuffer(packed, dtype=np.uint8)).view(np.uint8)
        (products,) = multiply(None, {"a": rows.reshape(-1, DIMENSION), "b": steps})
        cosines = products.astype(np.float32)
        cosines *= _inverse_lengths(packed)[:, np.newaxis]
        np.maximum.reduceat(cosines, starts, axis=0, out=best[first:last])
        first = last
    best *= largest / np.float32(_MOST)
    return best


def mean_directions(passages: Sequence[bytes]) -> NDArray[np.float32]:
    """Return where the mean of each passage's tokens is, seen from that of all: of length one."""
    import numpy as np

    packed = b"".join(passages)
    steps = _table().take(np.frombuffer(packed, dtype=np.uint8)).view(np.uint8)
    rows = steps.reshape(-1, DIMENSION) - np.float32(_MIDDLE)
    rows *= _inverse_lengths(packed)[:, np.newaxis]
    counts = np.array([len(one) // BYTES_PER_TOKEN for one in passages])
    means = np.add.reduceat(rows, np.cumsum(counts) - counts, axis=0) / counts[:, np.newaxis]
    means -= means.mean(axis=0)
    found: NDArray[np.float32] = means / np.maximum(np.linalg.norm(means, axis=1), 1e-9)[:, None]
    return found


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
def _multiplier() -> Any:
    """Return what multiplies matrices of bytes. The model that made the tokens has loaded it."""
    return load_onnxruntime().InferenceSession(
        PRODUCT, one_thread_options(), providers=["CPUExecutionProvider"]
    )


@cache
def _table() -> NDArray[np.uint32]:
    """Return the steps of the four numbers that every byte encodes, a byte each."""
    import numpy as np

    codes = (np.arange(256)[:, np.newaxis] >> QUAD) & 3
    steps: NDArray[np.uint32] = np.array(_STEPS, dtype=np.uint8)[codes].view(np.uint32).ravel()
    return steps


@cache
def _lengths() -> NDArray[np.float32]:
    """Return one divided by the length of a token, by how many of its numbers are inner levels."""
    import numpy as np

    inner = np.arange(DIMENSION + 1)
    lengths: NDArray[np.float64] = np.sqrt(inner * _INNER**2 + (DIMENSION - inner) * _OUTER**2)
    return (1 / lengths).astype(np.float32)
