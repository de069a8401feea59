"""How good a ranking is. Standard library only: peers' environments import it too.

A ranking is a list of names, best first; `relevant` are the names it should contain. A name
counts where it stands first; repetitions take no place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

__all__ = [
    "average",
    "by_category",
    "collapse",
    "ndcg_at",
    "percentile",
    "recall_at",
    "reciprocal_rank_at",
    "score",
]


def collapse(ranking: Iterable[str], group_of: Mapping[str, str] | None = None) -> list[str]:
    """Drop repetitions; with `group_of`, rank groups by their best member instead."""
    return list(dict.fromkeys(group_of[name] if group_of else name for name in ranking))


def recall_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """The share of what is relevant among the first k."""
    return len(set(ranking[:k]) & set(relevant)) / len(set(relevant))


def reciprocal_rank_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """One over the place of the first relevant name; 0 beyond k."""
    places = (place for place, name in enumerate(ranking[:k], 1) if name in relevant)
    return 1 / next(places, math.inf)


def ndcg_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """Gain discounted by the logarithm of the place, as a share of the best one possible."""
    gained = sum(_discount(p) for p, name in enumerate(ranking[:k]) if name in relevant)
    return gained / sum(_discount(place) for place in range(min(k, len(set(relevant)))))


def score(ranking: Sequence[str], relevant: Collection[str]) -> dict[str, float]:
    """All measures of one ranking."""
    return {
        "recall_at_5": recall_at(5, ranking, relevant),
        "recall_at_10": recall_at(10, ranking, relevant),
        "mrr_at_10": reciprocal_rank_at(10, ranking, relevant),
        "ndcg_at_10": ndcg_at(10, ranking, relevant),
    }


def average(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every measure, four decimals."""
    return {name: round(sum(s[name] for s in scores) / len(scores), 4) for name in scores[0]}


def by_category(scored: Iterable[tuple[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Averages for each category, and how many questions each has."""
    groups: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    for category, scores in scored:
        groups[category].append(scores)
    return {
        name: {"queries": len(groups[name]), **average(groups[name])} for name in sorted(groups)
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)
