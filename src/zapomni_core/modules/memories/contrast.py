"""Turns a question towards what distinguishes the passages of a store.

Passages of one store have much in common that no question asks for: their language, their subject,
how they are written. Along such directions their vectors differ a lot, and a question is near to
those that are there by chance. So its vector is multiplied by the inverse of the covariance of the
stored ones, as a linear discriminant does. Stored vectors stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SAMPLED", "Contrast"]

# Of so many vectors the covariance is nearly that of all, at 70 ms of CPU.
SAMPLED = 1000
# What is added to the covariance in every direction, in its own mean variance and by how many
# directions there are: rare ones would count for too much otherwise.
RIDGE = 1 / 160
# As if there were so many more, without any direction of their own: a few passages say little.
FEW = 100
# It is fitted again when there are so many times the vectors.
GROWN = 1.1


@dataclass
class Contrast:
    """What the vectors of a space have in common in a store, as far as it is known."""

    count: int = 0
    """Of how many vectors."""
    _mean: NDArray[np.float32] | None = None
    _inverse: NDArray[np.float32] | None = None

    def is_outgrown(self, count: int) -> bool:
        """Return whether there are many more vectors than it was fitted to."""
        return count > GROWN * self.count

    def fit(self, sample: bytes, dimension: int, count: int) -> None:
        """Fit it to some of so many vectors, which are float32 one after another."""
        import numpy as np

        rows = np.frombuffer(sample, dtype=np.float32).reshape(-1, dimension)
        self.count = max(count, len(rows))
        share = len(rows) / (len(rows) + FEW)
        mean = share * rows.sum(axis=0) / max(len(rows), 1)
        centered = rows - mean
        covariance = centered.T @ centered / max(len(rows), 1)
        usual = max(float(np.trace(covariance)) / dimension, 1e-9)
        added = (RIDGE * dimension + 1 - share) * usual * np.eye(dimension, dtype=np.float32)
        self._inverse = np.linalg.inv(share * covariance + added).astype(np.float32)
        self._mean = mean.astype(np.float32)

    def turn(self, question: Sequence[float]) -> list[float]:
        """Return the vector to compare with; before anything was fitted, the question itself."""
        if self._mean is None or self._inverse is None:
            return list(question)
        import numpy as np

        away = np.asarray(question, dtype=np.float32) - self._mean
        # vecdot, not @: a threaded BLAS spends several times the CPU on a product this small.
        turned: list[float] = np.vecdot(self._inverse, away).tolist()
        return turned
