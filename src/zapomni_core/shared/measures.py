"""How good a ranking is.

A ranking is a list of names, best first; `relevant` are the names it should contain. A name
counts where it first appears; repetitions take no place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

__all__ = [
    "MEASURES",
    "all_at",
    "any_at",
    "average",
    "by_category",
    "collapse",
    "ndcg_at",
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


def any_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """1 if anything relevant is among the first k."""
    return float(not set(ranking[:k]).isdisjoint(relevant))


def all_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """1 if everything relevant is among the first k."""
    return float(set(ranking[:k]).issuperset(relevant))


def reciprocal_rank_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """One over the place of the first relevant name; 0 beyond k."""
    places = (place for place, name in enumerate(ranking[:k], 1) if name in relevant)
    return 1 / next(places, math.inf)


def ndcg_at(k: int, ranking: Sequence[str], relevant: Collection[str]) -> float:
    """Gain discounted by the logarithm of the place, as a share of the best one possible."""
    gained = sum(_discount(p) for p, name in enumerate(ranking[:k]) if name in relevant)
    return gained / sum(_discount(place) for place in range(min(k, len(set(relevant)))))


MEASURES: dict[str, Callable[[Sequence[str], Collection[str]], float]] = {
    "recall_at_5": partial(recall_at, 5),
    "recall_at_10": partial(recall_at, 10),
    "any_at_5": partial(any_at, 5),
    "any_at_10": partial(any_at, 10),
    "all_at_5": partial(all_at, 5),
    "all_at_10": partial(all_at, 10),
    "mrr_at_10": partial(reciprocal_rank_at, 10),
    "ndcg_at_10": partial(ndcg_at, 10),
}


def score(ranking: Sequence[str], relevant: Collection[str]) -> dict[str, float]:
    """All measures of one ranking."""
    return {name: measure(ranking, relevant) for name, measure in MEASURES.items()}


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


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)
