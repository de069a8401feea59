"""Putting several rankings into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["fuse"]


def fuse(arms: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Sum each arm's min-max normalised scores by weight; the best possible result is 1.

    Args:
        arms: Pairs of weight and scores by id. An arm without scores has no say: its weight
            goes to the others.
    """
    voting = [(weight, scores) for weight, scores in arms if scores]
    total = sum(weight for weight, _ in voting)
    fused: dict[str, float] = {}
    for weight, scores in voting:
        low, high = min(scores.values()), max(scores.values())
        # Spread over 5-100 %, so that an arm's last hit still counts more than no hit.
        scale = 0.95 / (high - low) if high > low else 0.0
        for key, score in scores.items():
            share = 0.05 + (score - low) * scale if scale else 1.0
            fused[key] = fused.get(key, 0.0) + weight / total * share
    return fused
