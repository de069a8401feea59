"""Evidence: how sure we are that a hit answers, 0 to 1, whatever else was found.

A rank score is scaled among the candidates, so the best of them is near 1 even for nonsense.
Evidence is made of signals that mean the same for every question:

- late: how near the question's tokens are to those of the passage, on average;
- cosine: of question and passage;
- words: the share of the question's informative words in the passage and its neighbors;
- phrases: words next to each other, as in the question;
- peak: how far the cosine exceeds what the nearest of so many unrelated passages would reach.

A logistic sum of them says whether the question is answered here. Whether this is the passage
that answers depends on its lead over those of other parents: a hit like many others is weak.
The knowledge graph is no part of it: it may add rivals, which lower evidence and never raise it.

Cosines of two models cannot be compared. `late` and `cosine` count only in spaces that the
weights were fitted for; in others the peak counts in their place, and without vectors words
alone. `python -m benchmarks.evidence --fit` makes the weights again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from zapomni_core.modules.memories.scoring import Candidate
from zapomni_core.shared.evidence import (
    phrase_weight,
    to_evidence,
    weigh_terms,
    word_logit,
    word_share,
)
from zapomni_db.models import VectorRanking

__all__ = ["CALIBRATED", "EvidenceWeights", "score_evidence", "weights_for"]

# From there on a peak says no more.
HIGHEST_PEAK = 3.0
# The lead is measured from the second best of other parents: a fact may be stored twice.
RIVALS = 2
# What a lead of nothing leaves of the evidence at least, how fast a lead grows into certainty,
# and from which lead on it is more likely than not. A lead over nothing counts as `ALONE`.
WITHOUT_LEAD, LEAD, LEAD_FROM, MOST_LEAD, ALONE = 0.2, 1.0, 2.0, 6.0, 4.0


@dataclass(frozen=True)
class EvidenceWeights:
    """What each signal counts, and what all of them have to exceed."""

    late: float
    cosine: float
    words: float
    phrases: float
    peak: float
    bias: float


MODEL = EvidenceWeights(late=4.0, cosine=7.0, words=5.0, phrases=2.5, peak=0.4, bias=-6.8)
RELATIVE = EvidenceWeights(late=0.0, cosine=0.0, words=8.0, phrases=3.0, peak=0.7, bias=-2.9)
# The embedding models that `MODEL` was fitted for.
CALIBRATED = frozenset({"all-MiniLM-L6-v2-int8"})


def weights_for(candidate: Candidate, *, calibrated: bool) -> tuple[str, EvidenceWeights | None]:
    """Return the weights for the signals that a candidate has, and how they are called.

    None: by words alone.
    """
    if not candidate.cosine:
        return "words", None
    if calibrated and candidate.similarities is not None:
        return "model", MODEL
    return "relative", RELATIVE


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
    found_terms: dict[str, list[str]] = {}
    for term, found in matches.items():
        for chunk_id in () if isinstance(found, int) else found & windows:
            found_terms.setdefault(chunk_id, []).append(term)
    logits: list[float] = []
    for candidate in pool:
        near = [found_terms[i] for i in candidate.neighbours if i in found_terms]
        own = found_terms.get(candidate.chunk_id, [])
        words = word_share(weights, {*own, *chain.from_iterable(near)} if near else own, total)
        phrases = phrase_weight(candidate.phrase)
        calibration, weight = weights_for(candidate, calibrated=calibrated)
        candidate.signals = {"calibration": calibration, "words": words, "phrases": phrases}
        if weight is None:
            logits.append(word_logit(words, phrases))
            continue
        peak = _peak(candidate.cosine, ranking)
        candidate.signals |= {"cosine": candidate.cosine, "peak": peak}
        logit = weight.words * words + weight.phrases * phrases + weight.peak * peak + weight.bias
        if calibration == "model":
            candidate.signals["late"] = candidate.late
            logit += weight.late * candidate.late + weight.cosine * candidate.cosine
        logits.append(logit)
    for candidate, logit, lead in zip(pool, logits, _leads(pool, logits), strict=True):
        candidate.signals["lead"] = lead
        certain = to_evidence(LEAD * (lead - LEAD_FROM))
        candidate.evidence = to_evidence(logit) * (WITHOUT_LEAD + (1 - WITHOUT_LEAD) * certain)


def _peak(cosine: float, ranking: VectorRanking) -> float:
    if ranking.count < 2 or not ranking.deviation >= 1e-9:
        return 0.0
    peak = (cosine - ranking.mean) / ranking.deviation - math.sqrt(2 * math.log(ranking.count))
    return min(max(peak, -HIGHEST_PEAK), HIGHEST_PEAK) if math.isfinite(peak) else 0.0


def _leads(pool: Sequence[Candidate], logits: Sequence[float]) -> list[float]:
    """Return how far each candidate exceeds the best of other parents."""
    best: dict[str, float] = {}
    for candidate, logit in zip(pool, logits, strict=True):
        best[candidate.group] = max(logit, best.get(candidate.group, -math.inf))
    # One more than is needed: one of them may be the candidate's own parent.
    first = sorted(best, key=lambda group: -best[group])[: RIVALS + 1]
    leads = []
    for candidate, logit in zip(pool, logits, strict=True):
        rivals = [group for group in first if group != candidate.group][:RIVALS]
        lead = logit - best[rivals[-1]] if len(rivals) == RIVALS else ALONE
        leads.append(min(max(lead, -MOST_LEAD), MOST_LEAD))
    return leads
