"""Evidence: how sure we are that a hit answers, 0 to 1, whatever else was found.

A rank score is scaled among the candidates, so the best of them is near 1 even for nonsense.
Evidence is the product of two answers, each a logistic sum of a few signals.

Is the question answered here at all? Signals that mean the same for every question:

- late: how near the question's tokens are to those of the passage, on average;
- contrast: how far the passage's cosine lies above the mean of all passages;
- words: the share of the question's informative words in the passage and its neighbors;
- parent: how much the whole parent has of what is asked, by the rarity of its words;
- phrases: words next to each other, as in the question;
- unseen: the share of the question's words that no passage has;
- peak: how far the cosine exceeds what the nearest of so many unrelated passages would reach.

Is this the passage that answers? A hit like many others is a guess: its lead over the others
decides, and how much it has of what is asked. Passages of one parent are about one thing, and
are no rivals of each other; turns of a conversation are, each says something else. A turn that
asks is no answer, and no rival of one.

The knowledge graph is no part of it: leads are those before anything was linked.

Cosines of two models cannot be compared. `late` and `contrast` count only in spaces that the
weights were fitted for; in others the peak counts in their place, and without vectors words
alone. `python -m benchmarks.evidence --fit` fits the weights again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from zapomni_core.modules.memories.scoring import Candidate
from zapomni_core.shared.evidence import (
    FEWEST_TEXTS,
    phrase_weight,
    to_evidence,
    weigh_terms,
    word_share,
)
from zapomni_core.shared.text import is_turn
from zapomni_db.models import VectorRanking

__all__ = ["ANSWERED", "CALIBRATED", "RIGHT", "RIGHT_TURN", "find_turns", "score_evidence"]

# From there on a peak says no more.
HIGHEST_PEAK = 3.0
# Information is counted in words that only one passage has; more than so many say no more.
MOST_INFORMATION = 4.0
# What a hit that may not be the one is worth of one that is.
UNCERTAIN = 0.4
# Of few passages neither the mean cosine nor the words that none has say much: as if there were
# so many more, with the mean cosine of unrelated texts.
UNKNOWN_PASSAGES, UNRELATED = 20, 0.1

# What each signal counts, and what all of them have to exceed, by calibration.
ANSWERED: Mapping[str, Mapping[str, float]] = {
    "model": {
        "late": 13.0, "contrast": 7.0, "parent": 0.7, "phrases": 1.7, "unseen": -4.0, "bias": -10.0,
    },
    "relative": {"words": 6.0, "phrases": 2.4, "unseen": -3.5, "peak": 0.5, "bias": -1.9},
    "words": {"words": 6.5, "phrases": 2.3, "unseen": -4.2, "bias": -2.7},
}  # fmt: skip
# Leads are over the best rival, and over the second: a fact may be stored twice.
RIGHT: Mapping[str, Mapping[str, float]] = {
    "model": {"lead": 5.0, "lead_second": 4.0, "peak": 0.3, "information": 0.6, "bias": -3.4},
    "relative": {"lead": 5.0, "lead_second": 4.0, "peak": 0.3, "information": 0.6, "bias": -3.4},
    "words": {"lead_bm25": 0.26, "lead_phrases": 2.0, "information": 0.35, "bias": -1.9},
}
RIGHT_TURN: Mapping[str, Mapping[str, float]] = {
    "model": {"lead_tokens": 3.5, "least": 3.8, "information": 0.3, "asks": -4.0, "bias": -3.6},
    "relative": {"lead": 6.4, "information": 0.2, "asks": -4.0, "bias": -1.9},
    "words": {"lead_words": 4.7, "asks": -4.0, "bias": -1.3},
}
# The embedding models that `model` was fitted for.
CALIBRATED = frozenset({"all-MiniLM-L6-v2-int8"})


def find_turns(pool: Sequence[Candidate], texts: Mapping[str, str]) -> None:
    """Mark the candidates that are turns of a conversation, by the texts that are known.

    What has the same parent as a turn is one, too.
    """
    conversations = set()
    for candidate in pool:
        text = texts.get(candidate.chunk_id)
        if text is not None and not candidate.lone and is_turn(text):
            candidate.asks = text.rstrip().endswith("?")
            conversations.add(candidate.group)
    for candidate in pool if conversations else ():
        candidate.turn = candidate.group in conversations


def score_evidence(
    pool: Sequence[Candidate],
    matches: Mapping[str, int | frozenset[str]],
    total: int,
    ranking: VectorRanking,
    *,
    calibrated: bool,
) -> None:
    """Give each candidate its evidence.

    Args:
        pool: All candidates, with all scores but this one.
        matches: The passages that contain each word of the question, or only how many.
        total: How many passages there are.
        ranking: How near passages are to the question on the whole.
        calibrated: Whether the vectors are of a model that the weights were fitted for.
    """
    windows = {i for candidate in pool for i in (candidate.chunk_id, *candidate.neighbours)}
    counts = {t: found if isinstance(found, int) else len(found) for t, found in matches.items()}
    weights = weigh_terms(counts, total)
    # BM25 of a few texts is next to nothing: there the words themselves are weighed.
    is_small = total < FEWEST_TEXTS
    rarest = math.log(max(total, FEWEST_TEXTS))
    # Most words are in no passage of a small store.
    known = total / (total + UNKNOWN_PASSAGES)
    unseen = known * sum(not count for count in counts.values()) / max(len(counts), 1)
    found_terms: dict[str, list[str]] = {}
    for term, found in matches.items():
        for chunk_id in () if isinstance(found, int) else found & windows:
            found_terms.setdefault(chunk_id, []).append(term)
    calibrations = set()
    for candidate in pool:
        near = [found_terms[i] for i in candidate.neighbours if i in found_terms]
        own = found_terms.get(candidate.chunk_id, [])
        both = {*own, *chain.from_iterable(near)} if near else own
        calibration = "words"
        if candidate.cosine:
            has_tokens = calibrated and candidate.similarities is not None
            calibration = "model" if has_tokens else "relative"
        calibrations.add(calibration)
        information = sum(weights[term] for term in both) / rarest
        signals: dict[str, Any] = {
            "calibration": calibration,
            "words": word_share(weights, both, total),
            "phrases": phrase_weight(candidate.phrase),
            "unseen": unseen,
            "information": min(information, MOST_INFORMATION),
        }
        candidate.signals = signals
        if calibration == "words":
            signals["own"] = word_share(weights, own, total) if near else signals["words"]
            signals["bm25"] = sum(weights[t] for t in own) if is_small else candidate.bm25
            continue
        signals["peak"] = _peak(candidate.cosine, ranking)
        if calibration == "model":
            signals["late"] = candidate.late
            signals["least"] = candidate.least
            signals["contrast"] = _contrast(candidate.cosine, ranking)
            parent = information if is_small else candidate.bm25_parent / rarest
            signals["parent"] = min(parent, MOST_INFORMATION)
    _measure_leads(pool, calibrations)
    for candidate in pool:
        signals = candidate.signals
        calibration = signals["calibration"]
        right = RIGHT_TURN if candidate.turn else RIGHT
        answered = to_evidence(_add(ANSWERED[calibration], signals))
        is_it = to_evidence(_add(right[calibration], signals))
        candidate.evidence = answered * (UNCERTAIN + (1 - UNCERTAIN) * is_it)


def _add(weights: Mapping[str, float], signals: Mapping[str, Any]) -> float:
    total = weights["bias"]
    for name, weight in weights.items():
        if name != "bias":
            total += weight * signals[name]
    return total


def _peak(cosine: float, ranking: VectorRanking) -> float:
    if ranking.count < 2 or not ranking.deviation >= 1e-9:
        return 0.0
    peak = (cosine - ranking.mean) / ranking.deviation - math.sqrt(2 * math.log(ranking.count))
    return min(max(peak, -HIGHEST_PEAK), HIGHEST_PEAK) if math.isfinite(peak) else 0.0


def _contrast(cosine: float, ranking: VectorRanking) -> float:
    count = ranking.count if math.isfinite(ranking.mean) else 0
    total = (count * ranking.mean if count else 0.0) + UNKNOWN_PASSAGES * UNRELATED
    return cosine - total / (count + UNKNOWN_PASSAGES)


def _measure_leads(pool: Sequence[Candidate], calibrations: set[str]) -> None:
    """Add how far each candidate is ahead of its rivals to its signals."""
    parents = [candidate.group for candidate in pool]
    memories = [candidate.memory_id for candidate in pool]
    scores = [candidate.first_score for candidate in pool]
    has_turns = any(candidate.turn for candidate in pool)
    firsts, seconds = _leads(scores, parents)
    named = {"lead": firsts, "lead_second": seconds}
    if "words" in calibrations:
        named["lead_bm25"] = _leads([c.signals.get("bm25", c.bm25) for c in pool], parents)[1]
        named["lead_phrases"] = _leads([c.signals["phrases"] for c in pool], parents)[0]
    for number, candidate in enumerate(pool):
        for name, leads in named.items():
            candidate.signals[name] = leads[number]
    if not has_turns:
        return
    of_turns = {
        "lead": scores,
        "lead_tokens": [candidate.first_tokens for candidate in pool],
        "lead_words": [c.signals.get("own", c.signals["words"]) for c in pool],
    }
    counted = {name for calibration in calibrations for name in RIGHT_TURN[calibration]}
    for name, values in of_turns.items():
        if name not in counted:
            continue
        # Who asks is no rival of who answers.
        rivals = [0.0 if c.asks else value for c, value in zip(pool, values, strict=True)]
        leads = _leads(values, memories, rivals)[0]
        for candidate, lead in zip(pool, leads, strict=True):
            if candidate.turn:
                candidate.signals[name] = lead
                candidate.signals["asks"] = float(candidate.asks)


def _leads(
    values: Sequence[float], owners: Sequence[str], rivals: Sequence[float] | None = None
) -> tuple[list[float], list[float]]:
    """Return how far each value is above the best of other owners, and above the second best.

    Where there is no other, above nothing. `rivals`: what each is worth as a rival, if less.
    """
    best: dict[str, float] = {}
    for value, owner in zip(rivals or values, owners, strict=True):
        if value > best.get(owner, -math.inf):
            best[owner] = value
    # One more than is needed: one of them may be the candidate's own.
    ahead = sorted(best, key=lambda owner: -best[owner])[:3]
    # The leads of an owner are those over the first two that are not it.
    others = {
        own: [*(best[owner] for owner in ahead if owner != own), 0.0, 0.0][:2]
        for own in (*ahead, None)
    }
    firsts, seconds = [], []
    for value, owner in zip(values, owners, strict=True):
        first, second = others.get(owner) or others[None]
        firsts.append(value - first)
        seconds.append(value - second)
    return firsts, seconds
