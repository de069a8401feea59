"""How candidates are scored: pure functions over one question's candidates.

Words, vectors and late interaction are each scaled to 0..1 among the candidates and added by
weight. How the weights are shared out is decided per question by `trust`: how far the nearest
vector exceeds all others. One set of numbers for every kind of text; they were found on
structure (conversations, encyclopedia, code), not fitted to a collection.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from zapomni_core.interfaces import Replacement
from zapomni_core.shared.evidence import evidence_in_text, inverse_frequency
from zapomni_core.shared.text import found_words
from zapomni_db.observation_models import ObservationMatch

__all__ = [
    "ARM_ALIASES",
    "Candidate",
    "diversify",
    "explain",
    "fuse",
    "fuse_by_rank",
    "inverse_frequency",
    "level_off",
    "pick_pool",
    "score_context",
    "score_observed",
    "score_words",
    "trust",
]

# Weights of words, late interaction and vectors when no vector is particularly near ...
FAR = (1.0, 1.0, 0.4)
# ... and when the nearest one is far nearer than the rest.
NEAR = (0.2, 0.4, 1.2)
# Words of a passage without neighbors: there is no window and no parent to confirm them.
LONE_WORDS = 0.6
# Shares of the passage itself, of its window and of its parent in the words' score.
WORDS_SPLIT = (0.23, 0.46, 0.31)
PHRASE = 0.1
HOP = 0.15
SEED_HOP = 0.8
# From where to where the peak of the cosines means trust, in standard deviations above what
# the best of so many random ones would reach.
TRUST_FROM, TRUST_WIDTH = -0.25, 1.0
PER_MEMORY = 10
# From the eighth passage of one parent on, each ranks a little lower, in favor of other parents.
CROWD_FROM, CROWD = 7, 0.01
# An observation is found by its words alone: even the best match is weaker than a good note.
OBSERVED = 0.6
# BM25's own constants, used for windows and parents as for passages.
K1, B = 1.2, 0.75


@dataclass(slots=True)
class Candidate:
    """A passage that may answer, and its scores."""

    chunk_id: str
    memory_id: str = ""
    group: str = ""
    lone: bool = True
    before: str | None = None
    after: str | None = None
    neighbours: tuple[str, ...] = ()
    occurred_at: datetime | None = None
    bm25: float = 0.0
    bm25_window: float = 0.0
    """Of the passage and its neighbors."""
    bm25_parent: float = 0.0
    phrase: float = 0.0
    cosine: float = 0.0
    context: float = 0.0
    tokens: float = 0.0
    similarities: Any = None
    """Of the question's tokens: a row of numbers, once it is known."""
    late: float = 0.0
    """Their mean over the tokens that carry meaning, not scaled."""
    least: float = 0.0
    """The mean of the lowest third of them."""
    cross: float = 0.0
    hop: float = 0.0
    graph: float = 0.0
    recency: float = 0.0
    date: float = 0.0
    crowd: float = 0.0
    newer: float = 0.0
    """What it gained by replacing a hit before it."""
    demoted: float = 0.0
    """What it lost because it is replaced."""
    score: float = 0.0
    first_score: float = 0.0
    """The score before a second hop and the knowledge graph added anything."""
    first_tokens: float = 0.0
    turn: bool = False
    """Whether it is a turn of a conversation, as far as that is known."""
    asks: bool = False
    evidence: float = 0.0
    signals: dict[str, Any] = field(default_factory=dict)
    """What the evidence is made of."""
    weights: dict[str, float] = field(default_factory=dict)
    replaced: Replacement | None = None
    observation: ObservationMatch | None = None
    """The observation, if it is no passage of a memory."""


def score_words(
    candidates: Iterable[Candidate],
    matches: Mapping[str, frozenset[str]],
    members: Mapping[str, Sequence[str]],
    total: int,
) -> None:
    """Score each candidate's window and parent by the words that they contain.

    A word counts by how many passages of the window or parent have it, and less and less: two
    different words in a window say more than the same word twice.
    """
    pool = list(candidates)
    windows = [(c.chunk_id, *c.neighbours) for c in pool]
    window_size = sum(map(len, windows)) / max(len(windows), 1)
    group_of = {chunk_id: group for group, ids in members.items() for chunk_id in ids}
    parent_size = sum(len(members.get(c.group, "1")) for c in pool) / max(len(pool), 1)
    for found in matches.values():
        weight = inverse_frequency(total, len(found))
        in_parent: dict[str, int] = {}
        # Whichever is smaller is gone through.
        both = found & group_of.keys() if len(found) > len(group_of) else found
        for chunk_id in both:
            if (group := group_of.get(chunk_id)) is not None:
                in_parent[group] = in_parent.get(group, 0) + 1
        for candidate, window in zip(pool, windows, strict=True):
            if hits := len(found.intersection(window)):
                candidate.bm25_window += weight * _saturate(hits, len(window) / window_size)
            if hits := in_parent.get(candidate.group, 0):
                size = len(members[candidate.group])
                candidate.bm25_parent += weight * _saturate(hits, size / parent_size)


def _saturate(hits: float, relative_length: float) -> float:
    return (K1 + 1) * hits / (hits + K1 * (1 - B + B * relative_length))


def score_context(candidates: Iterable[Candidate], cosines: Mapping[str, float]) -> None:
    """Set each candidate's cosine, and that of its window: neighbours count half."""
    for candidate in candidates:
        candidate.cosine = _finite(cosines.get(candidate.chunk_id, 0.0))
        near = [_finite(cosines.get(i, 0.0)) for i in candidate.neighbours]
        # Vectors of neighbours are about half alike: that is the length of such a sum.
        length = math.sqrt(1 + 0.5 * len(near))
        candidate.context = (candidate.cosine + 0.5 * sum(near)) / length


def _finite(number: float) -> float:
    return number if math.isfinite(number) else 0.0


def trust(best: float, mean: float, deviation: float, count: int) -> float:
    """Return how much to trust the vectors for this question: 0 to 1."""
    if count < 2 or not (deviation >= 1e-9 and math.isfinite(best - mean)):
        return 0.0
    peak = (best - mean) / deviation - math.sqrt(2 * math.log(count))
    return min(max((peak - TRUST_FROM) / TRUST_WIDTH, 0.0), 1.0)


def pick_pool(
    candidates: Sequence[Candidate], size: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Part the most promising candidates from the rest: late interaction costs too much for all.

    A memory appears once in the answer, so a few of its passages are enough: a book must not
    crowd out the notes.
    """
    if len(candidates) <= size:
        return list(candidates), []
    arms = (
        (0.5, _by_highest([c.bm25 for c in candidates])),
        (0.5, _by_highest([c.bm25_window for c in candidates])),
        (0.25, _by_highest([c.bm25_parent for c in candidates])),
        (0.35, _by_highest(_above_floor([c.cosine for c in candidates]))),
        (0.35, _by_highest(_above_floor([c.context for c in candidates]))),
    )
    promise = [sum(w * arm[i] for w, arm in arms) for i in range(len(candidates))]
    order = sorted(range(len(candidates)), key=lambda i: (-promise[i], candidates[i].chunk_id))
    pool: list[Candidate] = []
    rest: list[Candidate] = []
    taken: dict[str, int] = {}
    for candidate in (candidates[i] for i in order):
        taken[candidate.memory_id] = taken.get(candidate.memory_id, 0) + 1
        fits = len(pool) < size and taken[candidate.memory_id] <= PER_MEMORY
        (pool if fits else rest).append(candidate)
    return pool, rest


def fuse(
    pool: Sequence[Candidate],
    trusted: float,
    *,
    tokens: bool,
    vectors: bool,
    reads: float = 1.0,
) -> None:
    """Give every candidate its score, and the weights that went into it.

    Args:
        pool: The candidates.
        trusted: How much to trust the vectors, from `trust`.
        tokens: Whether there is late interaction.
        vectors: Whether there are cosines.
        reads: How much of the question the model reads, 0 to 1.
    """
    units, windows = _to_range(c.bm25 for c in pool), _to_range(c.bm25_window for c in pool)
    parents, phrases = _to_range(c.bm25_parent for c in pool), _to_range(c.phrase for c in pool)
    cosines, contexts = _to_range(c.cosine for c in pool), _to_range(c.context for c in pool)
    weights = {
        lone: _weights(reads * trusted, reads, lone=lone, tokens=tokens, vectors=vectors)
        for lone in (True, False)
    }
    own, near, whole = WORDS_SPLIT
    for i, candidate in enumerate(pool):
        weight = weights[candidate.lone]
        words = own * units[i] + near * windows[i] + whole * parents[i]
        if candidate.lone:
            words = units[i]
        words += PHRASE * phrases[i]
        meaning = 0.5 * cosines[i] + 0.5 * contexts[i]
        total = sum(weight.values())
        candidate.weights = weight
        candidate.score = (
            weight["words"] * words
            + weight["tokens"] * candidate.tokens
            + weight["vectors"] * meaning
        ) / total


def _weights(
    trusted: float, reads: float, *, lone: bool, tokens: bool, vectors: bool
) -> dict[str, float]:
    far = (LONE_WORDS, *FAR[1:]) if lone else FAR
    words, late, near = ((1 - trusted) * f + trusted * n for f, n in zip(far, NEAR, strict=True))
    return {
        "words": words if (tokens or vectors) else 1.0,
        "tokens": reads * late if tokens else 0.0,
        "vectors": reads * near if vectors else 0.0,
    }


def diversify(ranked: Iterable[Candidate]) -> list[Candidate]:
    """Rank again so that one parent does not fill the first page alone."""
    seen: dict[str, int] = {}
    best = list(ranked)
    for candidate in best:
        before = seen[candidate.group] = seen.get(candidate.group, 0) + 1
        candidate.crowd = -CROWD * max(before - CROWD_FROM, 0)
        candidate.score += candidate.crowd
    return sorted(best, key=lambda c: (-c.score, c.chunk_id))


def score_observed(
    observed: Sequence[Candidate], terms: Sequence[str], phrases: Sequence[str]
) -> None:
    """Score observations by the share of the question's words that they contain, then by BM25.

    BM25 of two collections cannot be compared, the share of the words can. Evidence is by words
    alone; how rare they are is counted among the matches.
    """
    highest = max((c.bm25 for c in observed), default=0.0)
    counts: Counter[str] = Counter()
    texts = []
    for candidate in observed:
        assert candidate.observation is not None
        text = f"{candidate.observation.content} {candidate.observation.file_path or ''}"
        found = found_words(terms, text)
        texts.append((text, found))
        counts.update(found)
        fit = candidate.bm25 / highest if highest > 0 else 0.0
        share = len(found) / len(terms) if terms else 0.0
        candidate.weights = {"words": OBSERVED}
        candidate.score = OBSERVED * (0.7 * share + 0.3 * fit)
    for candidate, (text, found) in zip(observed, texts, strict=True):
        candidate.evidence = evidence_in_text(text, terms, phrases, counts, len(texts), found)
        candidate.signals = {"calibration": "words"}


def level_off(ranked: Sequence[Candidate]) -> None:
    """Lower each score to that before it: later pages are scaled among themselves."""
    highest = math.inf
    for candidate in ranked:
        highest = candidate.score = min(candidate.score, highest)


ARMS = ("bm25", "bm25_window", "bm25_parent", "phrase", "cosine", "context", "tokens", "cross")
# Earlier names of arms, still in the JSON of an explanation.
ARM_ALIASES = {"unit": "bm25", "window": "bm25_window", "parent": "bm25_parent"}
BOOSTS = ("recency", "date", "hop", "graph", "crowd", "newer", "demoted")


def explain(hit: Candidate, ranked: Sequence[Candidate]) -> dict[str, Any]:
    """Return which arms found a candidate, with which score and rank, and what was added."""
    arms = {}
    for arm in ARMS:
        score = getattr(hit, arm)
        if score > 0:
            rank = 1 + sum(getattr(other, arm) > score for other in ranked)
            arms[arm] = {"score": round(score, 4), "rank": rank}
    arms |= {alias: arms[arm] for alias, arm in ARM_ALIASES.items() if arm in arms}
    return {
        "score": round(hit.score, 4),
        "arms": arms,
        "weights": {arm: round(weight, 3) for arm, weight in hit.weights.items()},
        "boosts": {boost: round(getattr(hit, boost), 4) for boost in BOOSTS},
        "evidence": {
            name: round(signal, 4) if isinstance(signal, float) else signal
            for name, signal in hit.signals.items()
        },
    }


def fuse_by_rank(pool: Sequence[Candidate], k: int = 60) -> None:
    """Reciprocal rank fusion, for those who ask for it: worse than scores in our measurements."""
    for candidate in pool:
        candidate.score = 0.0
    for arm in ("bm25", "cosine", "tokens"):
        ranked = sorted(pool, key=lambda c: (-getattr(c, arm), c.chunk_id))
        for rank, candidate in enumerate(ranked, start=1):
            if getattr(candidate, arm) > 0:
                candidate.score += (k + 1) / (k + rank) / 3


def _to_range(values: Iterable[float]) -> list[float]:
    """Scale to 0..1 among the candidates; if all are alike, all are as good as can be."""
    numbers = [_finite(value) for value in values]
    low, high = min(numbers, default=0.0), max(numbers, default=0.0)
    if high <= low:
        return [float(high > 0)] * len(numbers)
    return [(number - low) / (high - low) for number in numbers]


def _by_highest(values: list[float]) -> list[float]:
    high = max(values, default=0.0)
    return [value / high for value in values] if high > 0 else values


def _above_floor(values: list[float], kept: int = 200) -> list[float]:
    floor = sorted(values, reverse=True)[:kept][-1]
    return [max(value - floor, 0.0) for value in values]
