"""How candidates are scored: pure functions over one question's candidates.

Words, vectors and late interaction are each scaled to 0..1 among the candidates and added by
weight. How the weights are shared out is decided per question by `trust`: how far the nearest
vector exceeds all others. One set of numbers for every kind of text; they were found on
structure (conversations, encyclopedia, code), not fitted to a collection.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Any

from zapomni_core.interfaces import Replacement
from zapomni_core.shared.evidence import evidence_in_text, inverse_frequency
from zapomni_core.shared.text import found_words
from zapomni_db.models import VectorRanking
from zapomni_db.observation_models import ObservationMatch

__all__ = [
    "ARM_ALIASES",
    "Candidate",
    "as_first",
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
# The same for a passage in the second space: of a question whose words its language has ...
SHARED = (0.42, 0.14, 0.56)
# ... and of one that it has few of: it was asked in another language.
UNSHARED, FEW_SHARED = (0.12, 0.03, 0.85), 0.7
# What the first model says of a passage in another language, by names, terms and what resembles
# English, in the cosine of both: of a question in English, and of one in another language.
FIRST_SHARE, FIRST_SHARE_FOREIGN = 0.1, 0.25
# Words of a passage without neighbors: there is no window and no parent to confirm them.
LONE_WORDS = 0.6
# Shares of the passage itself, of its window and of its parent in the words' score.
WORDS_SPLIT = (0.23, 0.46, 0.31)
PHRASE = 0.1
RECENCY, DATE = 0.02, 0.1
HOP = 0.15
SEED_HOP = 0.8
# From where to where the peak of the cosines means trust, in standard deviations above what
# the best of so many random ones would reach.
TRUST_FROM, TRUST_WIDTH = -0.25, 1.0
PER_MEMORY = 10
# Mean and deviation of the cosines of a question with unrelated passages, in the space of the
# shipped model and in that of the multilingual one; how many passages outweigh them.
FIRST_USUAL, SECOND_USUAL, FEW_COSINES = (0.1, 0.1), (0.01, 0.05), 20
# The nearest exceed the others by a third more deviations in the second space than in the first,
# because questions are turned towards what distinguishes its passages; not among a few. It matters
# where there are others to come before.
FURTHER, FURTHER_FROM = 0.35, 200
# From the eighth passage of one parent on, each ranks a little lower, in favor of other parents.
CROWD_FROM, CROWD = 7, 0.01
# An observation is found by its words alone: even the best match is weaker than a good note.
OBSERVED = 0.6
# BM25's own constants, used for windows and parents as for passages.
K1, B = 1.2, 0.75
# Vectors of neighbors are about half alike: so long is the sum of a vector and of half of each of
# its neighbors, by their number.
WINDOW_LENGTHS = tuple(math.sqrt(1 + 0.5 * number) for number in range(3))


# One for all candidates, of which a search makes hundreds.
_NOTHING: Mapping[str, float] = MappingProxyType({})


@dataclass(slots=True)
class Candidate:
    """A passage that may answer, and its scores: first where it is, in the order of `Place`."""

    chunk_id: str
    memory_id: str = ""
    group: str = ""
    group_size: int = 1
    position: int = 0
    before: str | None = None
    after: str | None = None
    neighbours: tuple[str, ...] = ()
    occurred_at: datetime | None = None
    bm25: float = 0.0
    bm25_window: float = 0.0
    """Of the passage and its neighbors."""
    bm25_parent: float = 0.0
    phrase: float = 0.0
    phrase_share: float = 0.0
    """Of the question's phrases, how many it has."""
    cosine: float = 0.0
    second: float = 0.0
    """The cosine in the second space, as it is; `cosine` has it on the scale of the first."""
    context: float = 0.0
    tokens: float = 0.0
    similarities: Any = None
    """Of the question's tokens: a row of numbers, once it is known."""
    late: float = 0.0
    """The mean of their fourth powers over the tokens that carry meaning, not scaled."""
    late_window: float = 0.0
    """The same of a turn and the two before it, if it was put in order."""
    cross: float = 0.0
    hop: float = 0.0
    graph: float = 0.0
    names: float = 0.0
    """What it gained by names that the best passages have, on top of the graph."""
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
    turn: bool = False
    """Whether it is a turn of a conversation, as far as that is known."""
    asks: bool = False
    evidence: float = 0.0
    signals: dict[str, Any] = field(default_factory=dict)
    """What the evidence is made of."""
    turn_signals: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    """What gave it its place among the turns of conversations, if it is one."""
    weights: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    replaced: Replacement | None = None
    observation: ObservationMatch | None = None
    """The observation, if it is no passage of a memory."""

    @property
    def lone(self) -> bool:
        """Return whether its parent, or its memory, has no other passage."""
        return self.group_size == 1


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
    windows = [1 + len(c.neighbours) for c in pool]
    parents = [len(members.get(c.group, "1")) for c in pool]
    window_size = sum(windows) / max(len(pool), 1)
    parent_size = sum(parents) / max(len(pool), 1)
    words = [(f, (K1 + 1) * inverse_frequency(total, len(f))) for f in matches.values()]
    alone_in_window = 1 + _length_norm(1 / window_size) if pool else 1.0
    alone_in_parent = 1 + _length_norm(1 / parent_size) if pool else 1.0
    near: dict[str, list[int]] = defaultdict(list)
    groups = set()
    for number, candidate in enumerate(pool):
        if windows[number] == parents[number] == 1:
            own = candidate.chunk_id
            most = sum([weight for found, weight in words if own in found])
            candidate.bm25_window = most / alone_in_window
            candidate.bm25_parent = most / alone_in_parent
            continue
        groups.add(candidate.group)
        near[candidate.chunk_id].append(number)
        for chunk_id in candidate.neighbours:
            near[chunk_id].append(number)
    if not near:
        return
    group_of = {i: group for group in groups for i in members.get(group, ())}
    near_ids, member_ids = frozenset(near), frozenset(group_of)
    window_norms = [_length_norm(size / window_size) for size in windows]
    parent_norms = {g: _length_norm(len(members[g]) / parent_size) for g in {*group_of.values()}}
    in_windows = [0.0] * len(pool)
    in_parents = dict.fromkeys(groups, 0.0)
    # Counted by the interpreter's own loops: there are a thousand matches and more.
    for found, most in words:
        hits_near = Counter(chain.from_iterable(map(near.__getitem__, near_ids & found)))
        for number, hits in hits_near.items():
            in_windows[number] += most * hits / (hits + window_norms[number])
        hits_of_group = Counter(map(group_of.__getitem__, member_ids & found))
        for group, hits in hits_of_group.items():
            in_parents[group] += most * hits / (hits + parent_norms[group])
    for candidate, in_window in zip(pool, in_windows, strict=True):
        if candidate.group in groups:
            candidate.bm25_window = in_window
            candidate.bm25_parent = in_parents[candidate.group]


def _length_norm(relative_length: float) -> float:
    return K1 * (1 - B + B * relative_length)


def score_context(candidates: Iterable[Candidate], cosines: Mapping[str, float]) -> None:
    """Set each candidate's cosine, and that of its window: neighbours count half."""
    if not math.isfinite(sum(cosines.values())):
        cosines = {chunk_id: _finite(cosine) for chunk_id, cosine in cosines.items()}
    cosine_of = cosines.get
    for candidate in candidates:
        cosine = candidate.cosine = cosine_of(candidate.chunk_id, 0.0)
        near = 0.0
        for chunk_id in candidate.neighbours:
            near += cosine_of(chunk_id, 0.0)
        candidate.context = (cosine + 0.5 * near) / WINDOW_LENGTHS[len(candidate.neighbours)]


def _finite(number: float) -> float:
    return number if math.isfinite(number) else 0.0


def as_first(
    cosines: Mapping[str, float],
    own: VectorRanking,
    first: VectorRanking,
    by_first: Mapping[str, float],
    reads: float = 1.0,
) -> Mapping[str, float]:
    """Return cosines of the second space on the scale of the first: as far above the mean of all.

    The cosine in the first space, where it is known, counts a little. Unchanged if the question
    has no vector in the first one.
    """
    if not first.count:
        return cosines
    (mean, deviation), (low, spread) = _spread(first, *FIRST_USUAL), _spread(own, *SECOND_USUAL)
    others = min((first.count - own.count) / max(own.count, 1), 1.0)
    deviation /= 1 + FURTHER * others * own.count / (own.count + FURTHER_FROM)
    scaled = {i: mean + deviation * (cosine - low) / spread for i, cosine in cosines.items()}
    share = FIRST_SHARE if reads == 1 else FIRST_SHARE_FOREIGN
    return {i: c + share * (by_first.get(i, c) - c) for i, c in scaled.items()}


def _spread(ranking: VectorRanking, mean: float, deviation: float) -> tuple[float, float]:
    """Return mean and deviation of all cosines; of a few, mostly the usual ones."""
    count = ranking.count if math.isfinite(ranking.mean + ranking.deviation) else 0
    total = count + FEW_COSINES
    both = (count * ranking.mean if count else 0.0) + FEW_COSINES * mean
    variance = (count * ranking.deviation**2 if count else 0.0) + FEW_COSINES * deviation**2
    return both / total, math.sqrt(variance / total)


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
    arms = zip(
        candidates,
        _by_highest([c.bm25 for c in candidates], 0.5),
        _by_highest([c.bm25_window for c in candidates], 0.5),
        _by_highest([c.bm25_parent for c in candidates], 0.25),
        _by_highest(_above_floor([c.cosine for c in candidates]), 0.35),
        _by_highest(_above_floor([c.context for c in candidates]), 0.35),
        strict=True,
    )
    promised = [
        (-(own + window + parent + cosine + context), c.chunk_id, c)
        for c, own, window, parent, cosine, context in arms
    ]
    # No two have the same id, so candidates themselves are never compared.
    promised.sort()
    pool: list[Candidate] = []
    rest: list[Candidate] = []
    taken: dict[str, int] = defaultdict(int)
    for _, _, candidate in promised:
        taken[candidate.memory_id] += 1
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
    shared: float = 1.0,
) -> None:
    """Give every candidate its score, and the weights that went into it.

    Args:
        pool: The candidates.
        trusted: How much to trust the vectors, from `trust`.
        tokens: Whether there is late interaction.
        vectors: Whether there are cosines in the first space.
        reads: How much of the question the first model reads, 0 to 1.
        shared: Which share of the question's words passages of the second space have.
    """
    units, windows = _to_range([c.bm25 for c in pool]), _to_range([c.bm25_window for c in pool])
    parents, phrases = _to_range([c.bm25_parent for c in pool]), _to_range([c.phrase for c in pool])
    cosines, contexts = _to_range([c.cosine for c in pool]), _to_range([c.context for c in pool])
    share = max((shared - FEW_SHARED) / (1 - FEW_SHARED), 0.0) if reads == 1 else 1.0
    by_words, late, near = _mix(UNSHARED, SHARED, share)
    in_second = {"words": by_words, "tokens": late if tokens else 0.0, "vectors": near}
    weights = {}
    for lone in (True, False):
        first = _mix((LONE_WORDS, *FAR[1:]) if lone else FAR, NEAR, reads * trusted)
        weights[lone, True] = in_second
        weights[lone, False] = {
            "words": first[0] if (tokens or vectors) else 1.0,
            "tokens": reads * first[1] if tokens else 0.0,
            "vectors": reads * first[2] if vectors else 0.0,
        }
        if not vectors and any(c.second for c in pool):
            # Words alone must not be worth more than words and vectors.
            weights[lone, False] = in_second
    shares = {kind: (*weight.values(), sum(weight.values())) for kind, weight in weights.items()}
    own, near, whole = WORDS_SPLIT
    arms = zip(pool, units, windows, parents, phrases, cosines, contexts, strict=True)
    for candidate, unit, window, parent, phrase, cosine, context in arms:
        lone = candidate.group_size == 1
        kind = lone, candidate.second != 0.0
        by_words, by_tokens, by_vectors, total = shares[kind]
        words = unit if lone else own * unit + near * window + whole * parent
        words += PHRASE * phrase
        candidate.weights = weights[kind]
        score = by_words * words + by_tokens * candidate.tokens
        score += by_vectors * (0.5 * cosine + 0.5 * context)
        boost = RECENCY * candidate.recency + DATE * candidate.date
        candidate.score = score / total + boost


def _mix(far: Sequence[float], near: Sequence[float], trusted: float) -> tuple[float, float, float]:
    words, late, vectors = ((1 - trusted) * f + trusted * n for f, n in zip(far, near, strict=True))
    return words, late, vectors


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
        boost = RECENCY * candidate.recency + DATE * candidate.date
        candidate.score = OBSERVED * (0.7 * share + 0.3 * fit) + boost
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
BOOSTS = ("recency", "date", "hop", "graph", "names", "crowd", "newer", "demoted")


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
        **(
            {"turn_order": {name: round(value, 3) for name, value in hit.turn_signals.items()}}
            if hit.turn_signals
            else {}
        ),
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


def _to_range(numbers: list[float]) -> list[float]:
    """Scale to 0..1 among the candidates; if all are alike, all are as good as can be."""
    if not math.isfinite(sum(numbers)):
        numbers = [_finite(number) for number in numbers]
    low, high = min(numbers, default=0.0), max(numbers, default=0.0)
    if high <= low:
        return [float(high > 0)] * len(numbers)
    width = high - low
    return [(number - low) / width for number in numbers]


def _by_highest(values: list[float], weight: float) -> list[float]:
    """Scale so that the highest is the weight."""
    high = max(values, default=0.0)
    scale = weight / high if high > 0 else weight
    return [value * scale for value in values]


def _above_floor(values: list[float], kept: int = 200) -> list[float]:
    if len(values) <= kept:
        floor = min(values)
        return [value - floor for value in values]
    floor = sorted(values, reverse=True)[kept - 1]
    return [value - floor if value > floor else 0.0 for value in values]
