"""Evidence: how sure we are that a hit answers, 0 to 1, whatever else was found.

A rank score is scaled among the candidates, so the best of them is near 1 even for nonsense.
Evidence is the product of two answers, each a logistic sum of a few signals.

Is the question answered here at all? Signals that mean the same for every question:

- late: how clearly the question's tokens are in the passage: the mean of fourth powers; of a
  turn that was put in order, in it and the two turns before;
- contrast: how far the passage's cosine lies above most of the mean of all passages;
- words: the share of the question's informative words in the passage and its neighbors;
- parent: how much the whole parent has of what is asked, by the rarity of its words;
- phrases: the share of the question's pairs of words that are next to each other here, too;
- unseen: the share of the question's words that no passage has;
- typical: how much more often passages have one of its words than English texts do;
- peak: how far the cosine exceeds what the nearest of so many unrelated passages would reach.

Is this the passage that answers? A hit like many others is a guess: its lead decides. Passages
of one parent are no rivals of each other; turns of a conversation are, each says something else.
Where turns were put in order, the lead in that order counts, and what the turns before lend; of
a list any part is right. Elsewhere a turn that asks is no answer, and no rival of one.

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
    enough_weight,
    evidence_word,
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
# From there on log odds say no more.
MOST_LEAD = 5.0
# What a hit that may not be the one is worth of one that is.
UNCERTAIN = 0.6
# A question that is a little like everything here belongs here more than one like nothing: so much
# of the mean cosine is taken off.
MEAN_SHARE = 0.75
# Of few passages neither the mean cosine nor the words that none has say much: as if there were
# so many more, with the mean cosine of unrelated texts.
UNKNOWN_PASSAGES, UNRELATED = 20, 0.1

# The commonest words are in a tenth of all English texts. The model's vocabulary is ordered by
# frequency: a word's number says how much rarer it is. A few more or less are chance.
COMMONEST_SHARE, FIRST_NUMBER, LAST_NUMBER, BY_CHANCE = 0.1, 1000, 30_000, 2
# Between questions that belong to a store and those that do not.
USUALLY_TYPICAL = 1.5
# A score that is lower by so much is worth a third as a rival.
NEAR_SCORE = 0.1

# What each signal counts, and what all of them have to exceed, by calibration.
ANSWERED: Mapping[str, Mapping[str, float]] = {
    "model": {
        "late": 8.0, "contrast": 12.0, "parent": 0.65, "phrases": 4.0, "unseen": -2.0,
        "typical": 0.5, "bias": -7.9,
    },
    "relative": {"words": 6.0, "phrases": 4.5, "unseen": -3.5, "peak": 0.5, "bias": -1.9},
    # Of translated documentation, first hits that answer against those of questions about another
    # subject: 84 % of the first and 24 % of the others are above one half; asked in English, 81 and
    # 12 % (German, Spanish, French, Russian).
    "second": {"words": 2.5, "cosine": 16.0, "bias": -6.8},
    "words": {"words": 6.3, "phrases": 6.0, "unseen": -4.5, "bias": -2.8},
}  # fmt: skip
# Leads are over the best rival, the second (a fact may be stored twice), or all together.
RIGHT: Mapping[str, Mapping[str, float]] = {
    "model": {
        "lead_all": 3.0, "lead_context": 10.0, "lead_late": 10.0, "lead_late_second": 15.0,
        "bias": -5.2,
    },
    "relative": {"lead": 9.5, "lead_second": 8.0, "information": 0.6, "bias": -6.2},
    "second": {"lead": 4.5, "lead_second": 4.0, "information": 0.45, "bias": -4.0},
    "words": {"lead_bm25": 1.2, "lead_phrases": 3.0, "information": 0.8, "bias": -7.9},
}  # fmt: skip
RIGHT_TURN: Mapping[str, Mapping[str, float]] = {
    "model": {"lead_order": 2.0, "lent": 8.0, "list": 1.5, "bias": -2.8},
    "relative": {"lead": 6.2, "information": 0.3, "asks": -4.0, "bias": -3.1},
    "second": {"lead": 6.4, "information": 0.2, "asks": -4.0, "bias": -2.8},
    "words": {"lead_words": 15.0, "asks": -6.0, "bias": -6.0},
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
        candidate.turn = candidate.turn or candidate.group in conversations


def score_evidence(
    pool: Sequence[Candidate],
    matches: Mapping[str, int | frozenset[str]],
    total: int,
    ranking: VectorRanking,
    *,
    calibrated: bool,
    wanted: int | None = None,
    vocabulary: Mapping[str, int] | None = None,
) -> None:
    """Give candidates their evidence.

    Args:
        pool: All candidates, best first, with all scores but this one.
        matches: The passages that contain each word of the question, or only how many.
        total: How many passages there are.
        ranking: How near passages are to the question on the whole.
        calibrated: Whether the vectors are of a model that the weights were fitted for.
        wanted: Of the first how many memories it is needed; if none has any, of all. None: of all.
        vocabulary: The numbers of the question's words in the model's vocabulary.
    """
    calibrations = [_calibrate(candidate, calibrated=calibrated) for candidate in pool]
    # Leads by words are over signals of all others.
    judged = pool if "words" in calibrations else pool[: _count_first(pool, wanted)]
    windows = {i for candidate in judged for i in (candidate.chunk_id, *candidate.neighbours)}
    counts = {t: found if isinstance(found, int) else len(found) for t, found in matches.items()}
    weights = weigh_terms(counts, total)
    enough = enough_weight(weights, total)
    # BM25 of a few texts is next to nothing: there the words themselves are weighed.
    is_small = total < FEWEST_TEXTS
    rarest = math.log(max(total, FEWEST_TEXTS))
    # Most words are in no passage of a small store.
    known = total / (total + UNKNOWN_PASSAGES)
    unseen = known * sum(not count for count in counts.values()) / max(len(counts), 1)
    typical = known * _find_typical(counts, total, vocabulary or {}) + (1 - known) * USUALLY_TYPICAL
    # What the nearest of so many unrelated passages would reach, in deviations above the mean.
    expected = math.sqrt(2 * math.log(max(ranking.count, 1)))
    usual = _usual_cosine(ranking)
    found_terms: dict[str, list[str]] = {}
    for term, found in matches.items():
        for chunk_id in () if isinstance(found, int) else found & windows:
            found_terms.setdefault(chunk_id, []).append(term)
    for candidate, calibration in zip(judged, calibrations, strict=False):
        near = [found_terms[i] for i in candidate.neighbours if i in found_terms]
        own = found_terms.get(candidate.chunk_id, [])
        both = {*own, *chain.from_iterable(near)} if near else own
        information = sum(map(weights.__getitem__, own)) / rarest
        signals: dict[str, Any] = {
            "calibration": calibration,
            "words": word_share(weights, both, enough),
            "phrases": candidate.phrase_share,
            "unseen": unseen,
            "information": min(information, MOST_INFORMATION),
        }
        candidate.signals = signals
        if calibration == "words":
            signals["own"] = word_share(weights, own, enough) if near else signals["words"]
            signals["bm25"] = sum(weights[t] for t in own) if is_small else candidate.bm25
            continue
        if calibration == "second":
            signals["cosine"] = candidate.second
            continue
        signals["peak"] = _peak(candidate.cosine, ranking, expected)
        if calibration == "model":
            is_ordered = candidate.turn and candidate.turn_signals
            signals["late"] = candidate.late_window if is_ordered else candidate.late
            signals["contrast"] = candidate.cosine - usual
            parent = sum(weights[t] for t in both) if is_small else candidate.bm25_parent
            signals["parent"] = min(parent / rarest, MOST_INFORMATION)
            signals["typical"] = typical
    _measure_leads(pool, len(judged), {*calibrations})
    for candidate, calibration in zip(judged, calibrations, strict=False):
        signals = candidate.signals
        answered = to_evidence(_add(ANSWERED[calibration], signals))
        if not candidate.turn:
            weights_right = RIGHT[calibration]
        elif calibration == "model" and not candidate.turn_signals:
            weights_right = RIGHT_TURN["relative"]
        else:
            weights_right = RIGHT_TURN[calibration]
        is_it = to_evidence(_add(weights_right, signals))
        candidate.evidence = answered * (UNCERTAIN + (1 - UNCERTAIN) * is_it)
    if len(judged) < len(pool) and all(
        evidence_word(round(candidate.evidence, 2)) == "none" for candidate in judged
    ):
        score_evidence(pool, matches, total, ranking, calibrated=calibrated, vocabulary=vocabulary)


def _calibrate(candidate: Candidate, *, calibrated: bool) -> str:
    """Return which weights a candidate's signals have."""
    if candidate.second:
        return "second"
    if not candidate.cosine:
        return "words"
    return "model" if calibrated and candidate.similarities is not None else "relative"


def _count_first(pool: Sequence[Candidate], memories: int | None) -> int:
    """Return how many candidates there are before the next memory after the first so many."""
    seen: set[str] = set()
    for number, candidate in enumerate(pool if memories is not None else ()):
        seen.add(candidate.memory_id)
        if len(seen) > (memories or 0):
            return number
    return len(pool)


def _add(weights: Mapping[str, float], signals: Mapping[str, Any]) -> float:
    total = weights["bias"]
    for name, weight in weights.items():
        if name != "bias":
            total += weight * signals[name]
    return total


def _peak(cosine: float, ranking: VectorRanking, expected: float) -> float:
    if ranking.count < 2 or not ranking.deviation >= 1e-9:
        return 0.0
    peak = (cosine - ranking.mean) / ranking.deviation - expected
    return min(max(peak, -HIGHEST_PEAK), HIGHEST_PEAK) if math.isfinite(peak) else 0.0


def _usual_cosine(ranking: VectorRanking) -> float:
    """Return most of the mean cosine of all passages."""
    count = ranking.count if math.isfinite(ranking.mean) else 0
    total = (count * ranking.mean if count else 0.0) + UNKNOWN_PASSAGES * UNRELATED
    return MEAN_SHARE * total / (count + UNKNOWN_PASSAGES)


def _find_typical(counts: Mapping[str, int], total: int, vocabulary: Mapping[str, int]) -> float:
    """Return by how much a word is more common here than in English, at most; a logarithm."""
    usual = total * COMMONEST_SHARE * FIRST_NUMBER
    ratios = (
        (count + BY_CHANCE)
        / (usual / max(vocabulary.get(term, LAST_NUMBER), FIRST_NUMBER) + BY_CHANCE)
        for term, count in counts.items()
    )
    return math.log(max(ratios, default=1.0))


def _measure_leads(pool: Sequence[Candidate], judged: int, calibrations: set[str]) -> None:
    """Add how far each of the first candidates is ahead of its rivals to its signals."""
    parents = [candidate.group for candidate in pool]
    memories = [candidate.memory_id for candidate in pool]
    scores = [candidate.first_score for candidate in pool]
    has_turns = any(candidate.turn for candidate in pool)
    named: dict[str, list[float]] = {}
    if calibrations != {"model"}:
        named["lead"], named["lead_second"] = _leads(scores, parents, judged)
    if "model" in calibrations:
        named["lead_all"] = _leads_over_all(scores, parents, NEAR_SCORE, judged)
        named["lead_context"] = _leads([c.context for c in pool], parents, judged)[0]
        late = [candidate.late for candidate in pool]
        named["lead_late"], named["lead_late_second"] = _leads(late, parents, judged)
    if "words" in calibrations:
        bm25 = [candidate.signals.get("bm25", candidate.bm25) for candidate in pool]
        named["lead_bm25"] = _leads(bm25, parents, judged)[1]
        phrases = [phrase_weight(candidate.phrase) for candidate in pool]
        named["lead_phrases"] = _leads(phrases, parents, judged)[0]
    for number, candidate in enumerate(pool[:judged]):
        for name, leads in named.items():
            candidate.signals[name] = leads[number]
    if not has_turns:
        return
    of_turns = {"lead": scores}
    if "words" in calibrations:
        of_turns["lead_words"] = [c.signals.get("own", c.signals["words"]) for c in pool]
    for name, values in of_turns.items():
        # Who asks is no rival of who answers.
        rivals = [0.0 if c.asks else value for c, value in zip(pool, values, strict=True)]
        leads = _leads(values, memories, judged, rivals)[0]
        for candidate, lead in zip(pool, leads, strict=False):
            if candidate.turn:
                candidate.signals[name] = lead
                candidate.signals["asks"] = float(candidate.asks)
    # The order of turns has a place for who asks, and much more: see `conversation`. It was fitted
    # as a softmax, so the lead over all others together is the log odds of being the one.
    ordered = [candidate for candidate in pool if candidate.turn_signals]
    sums = [sum(candidate.turn_signals.values()) for candidate in ordered]
    first = sum(bool(candidate.turn_signals) for candidate in pool[:judged])
    leads = _leads_over_all(sums, [candidate.memory_id for candidate in ordered], 1.0, first)
    for candidate, lead in zip(ordered, leads, strict=False):
        if candidate.turn:
            candidate.signals["lead_order"] = lead
            candidate.signals["lent"] = candidate.late_window - candidate.late
            # This part of the order counts only if the question asks for a list.
            candidate.signals["list"] = float(candidate.turn_signals["apart"] != 0)


def _leads_over_all(
    values: Sequence[float], owners: Sequence[str], scale: float, judged: int
) -> list[float]:
    """Return the log odds of the owners of the first values, each against all others together."""
    highest = max(values, default=0.0)
    shares: dict[str, float] = {}
    for value, owner in zip(values, owners, strict=True):
        shares[owner] = shares.get(owner, 0.0) + math.exp((value - highest) / scale)
    total = sum(shares.values())
    leads = []
    for owner in owners[:judged]:
        own = shares[owner]
        lead = math.log(max(own, 1e-9) / max(total - own, 1e-9))
        leads.append(min(max(lead, -MOST_LEAD), MOST_LEAD))
    return leads


def _leads(
    values: Sequence[float],
    owners: Sequence[str],
    judged: int,
    rivals: Sequence[float] | None = None,
) -> tuple[list[float], list[float]]:
    """Return how far the first values are above the best of other owners, and above the second.

    Where there is no other, above nothing. `rivals`: what each is worth as a rival, if less.
    """
    best: dict[str, float] = {}
    for value, owner in zip(rivals or values, owners, strict=True):
        if value > best.get(owner, -math.inf):
            best[owner] = value
    # One more than is needed: one of them may be the candidate's own.
    ahead = sorted(best, key=best.__getitem__, reverse=True)[:3]
    # The leads of an owner are those over the first two that are not it.
    others = {
        own: [*(best[owner] for owner in ahead if owner != own), 0.0, 0.0][:2]
        for own in (*ahead, None)
    }
    firsts, seconds = [], []
    for value, owner in zip(values[:judged], owners, strict=False):
        first, second = others.get(owner) or others[None]
        firsts.append(value - first)
        seconds.append(value - second)
    return firsts, seconds
