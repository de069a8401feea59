"""How good a ranking is, by the measures of `zapomni bench`, and percentiles of what it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from zapomni_core.shared.measures import (
    MEASURES,
    average,
    by_category,
    collapse,
    score,
)

__all__ = [
    "MEASURES",
    "average",
    "by_category",
    "collapse",
    "percentile",
    "score",
]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]
