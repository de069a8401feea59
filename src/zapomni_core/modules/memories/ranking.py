"""Ranking memories: words, vectors, late interaction, a second hop, one ranking.

Whatever is missing (the model, token vectors, parents) is left out, and the rest still works.
`scoring` holds the arithmetic.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from zapomni_core.exceptions import QueryError, SearchError, ValidationError
from zapomni_core.modules.memories import graph_arm
from zapomni_core.modules.memories.evidence import find_turns, score_evidence
from zapomni_core.modules.memories.graph_arm import link_passages, names_in, weigh_entities
from zapomni_core.modules.memories.scoring import (
    HOP,
    SEED_HOP,
    Candidate,
    diversify,
    fuse,
    fuse_by_rank,
    inverse_frequency,
    level_off,
    pick_pool,
    score_context,
    score_words,
    trust,
)
from zapomni_core.shared.dates import date_window
from zapomni_core.shared.languages import is_unread_token
from zapomni_core.shared.late_interaction import (
    max_similarities,
    mean_similarities,
    score_tokens,
)
from zapomni_core.shared.text import encodable, is_stop_token, query_phrases, rare_words
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    MemoryFilter,
    Mention,
    Passage,
    Place,
    QueryEmbedding,
    Surroundings,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
)

__all__ = ["MemoryRanker", "Question", "score_dates"]

# Below this cosine a passage is unrelated to the question.
MIN_SIMILARITY = 0.15
WORD_HITS = 100
VECTOR_HITS = 60
# Passages whose neighbors are candidates too: an answer is often next to the question's words.
WITH_NEIGHBORS = 40
POOL = 100
# A word that more passages contain than this is too common to be worth reading them: a twentieth
# of all, within bounds.
COMMON_AT_LEAST, COMMON_AT_MOST, COMMON_SHARE = 1000, 3000, 20
HOP_SEEDS, HOP_WORDS, HOP_RARE, HOP_NEW = 3, 8, (2, 40), 10
# Share of late interaction that includes the neighbors' tokens.
WINDOW_TOKENS = 0.2
STOP_TOKEN_WEIGHT = 0.5
# No passage answers every token of a long question: the mean is of the best so many.
MEAN_TOKENS = 16
RECENCY, RECENCY_HALF_LIFE_DAYS = 0.02, 90.0
DATE = 0.1
NO_RANKING = VectorRanking(scores={})


@dataclass
class Question:
    """One question on its way through the arms."""

    query: str
    terms: list[str]
    filters: MemoryFilter
    wanted: int
    embedding: QueryEmbedding | None = None
    is_calibrated: bool = False
    """Whether evidence is calibrated for the model of the embedding."""
    corrected: dict[str, str] = field(default_factory=dict)
    """Words that no passage has, and those searched for instead: query and terms have these."""
    reads: float = 1.0
    """How much of the question the model reads, 0 to 1."""
    graph: bool = True
    """Whether to use the knowledge graph."""
    by_rank: bool = False
    """Whether to fuse by reciprocal ranks instead of scores."""
    every_passage: bool = False
    """Whether a memory may appear with several passages."""
    ranking: VectorRanking = NO_RANKING
    total: int = 0
    """How many passages there are."""
    matches: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    """The passages that contain each term and phrase; None where they are too many."""
    may_be_replaced: bool = False
    """Whether any passage may say that it replaces another memory."""
    depth: int = 1
    exhausted: bool = False

    @property
    def phrases(self) -> list[str]:
        """Return the terms, and the runs of words that count as phrases."""
        runs = [] if self.by_rank else encodable(query_phrases(self.query))
        return list(dict.fromkeys([*self.terms, *runs]))

    @property
    def graph_time(self) -> datetime | None:
        """Return at which time the graph is read; None: now."""
        return self.filters.as_of or self.filters.known_at

    @property
    def common(self) -> int:
        """Return how many passages may contain a word that is still informative."""
        return min(max(self.total // COMMON_SHARE, COMMON_AT_LEAST), COMMON_AT_MOST)


@dataclass(frozen=True)
class MemoryRanker:
    """Ranks the memories of a store."""

    storage: StorageProvider

    async def rank(self, question: Question) -> list[Candidate]:
        """Return at least as many memories as wanted if there are, each by its best passage.

        With `every_passage`, at least as many passages.

        Searches deeper until there are enough. What was listed before keeps its rank, so that
        pages join at any depth.
        """
        listed: dict[str, Candidate] = {}
        while True:
            for candidate in await self._rank(question):
                key = candidate.chunk_id if question.every_passage else candidate.memory_id
                listed.setdefault(key, candidate)
            if len(listed) >= question.wanted or question.exhausted:
                ranked = list(listed.values())
                level_off(ranked)
                return ranked
            question.depth *= 4

    async def _rank(self, question: Question) -> list[Candidate]:
        matches = {t: ids for t in question.terms if (ids := question.matches.get(t))}
        word_hits, vector_hits = question.depth * WORD_HITS, question.depth * VECTOR_HITS
        bm25, question.ranking = await asyncio.gather(
            self.storage.rank_by_words(
                TextSearchRequest(
                    terms=list(matches) or question.terms, limit=word_hits, filters=question.filters
                )
            ),
            self._rank_by_vector(question, vector_hits),
        )
        question.exhausted = len(bm25) < word_hits and len(question.ranking.scores) < vector_hits
        found_ids = list(dict.fromkeys([*bm25, *question.ranking.scores]))
        if not found_ids:
            return []
        around = await self._read_surroundings(
            question, found_ids, around=list(bm25)[:WITH_NEIGHBORS], members=True
        )
        candidates = [
            _candidate(place, bm25.get(chunk_id, 0.0))
            for chunk_id, place in around.places.items()
            if place.selected
        ]
        if not candidates:
            return []
        score_words(candidates, matches, around.members, question.total)
        if question.embedding is not None:
            score_context(candidates, around.similarities)
        pool, rest = pick_pool(candidates, question.depth * POOL)
        started = time.perf_counter()
        is_linked = question.graph and not question.by_rank
        tokens, mentions, asked_entities = await self.storage.get_pool(
            [c.chunk_id for c in pool] if question.embedding and question.embedding.tokens else [],
            sorted(c.chunk_id for c in pool) if is_linked else [],
            names_in(question.query) if is_linked else [],
            question.graph_time,
        )
        is_slow = time.perf_counter() - started > graph_arm.SECONDS
        self._score_pool(question, pool, tokens)
        for candidate in pool:
            candidate.first_score, candidate.first_tokens = candidate.score, candidate.tokens
        if not question.by_rank:
            pool = await self._hop(
                question, pool, mentions, frozenset(asked_entities), is_slow=is_slow
            )
        pool = diversify(sorted(pool, key=lambda c: (-c.score, c.chunk_id)))
        # The last page has everything that was found at all.
        ranked = [*pool, *rest] if question.exhausted else pool
        score_evidence(
            ranked,
            {
                t: question.common if (f := question.matches.get(t)) is None else f
                for t in question.terms
            },
            question.total,
            question.ranking,
            calibrated=question.is_calibrated,
        )
        return ranked

    async def _rank_by_vector(self, question: Question, limit: int) -> VectorRanking:
        if question.embedding is None:
            return NO_RANKING
        request = VectorSearchRequest.model_construct(
            query_embedding=question.embedding.vector,
            limit=limit,
            min_similarity=MIN_SIMILARITY,
            filters=question.filters,
        )
        try:
            return await self.storage.rank_by_vector(request)
        except ValidationError:
            # Without snapshots, the store may have changed to another model by now.
            question.embedding = None
            return NO_RANKING
        except QueryError as error:
            raise SearchError(
                "The store could not compare vectors.", "SEARCH_001", original_exception=error
            ) from error

    async def _read_surroundings(
        self, question: Question, chunk_ids: list[str], **wanted: Any
    ) -> Surroundings:
        vector = question.embedding.vector if question.embedding else None
        try:
            return await self.storage.get_surroundings(
                chunk_ids, question.filters, vector, **wanted
            )
        except ValidationError:
            # Without snapshots, the store may have changed to another model by now.
            question.embedding = None
            return await self.storage.get_surroundings(chunk_ids, question.filters, None, **wanted)

    def _score_pool(
        self, question: Question, pool: list[Candidate], tokens: Mapping[str, bytes]
    ) -> None:
        """Add what is worth its cost for the pool only, then fuse."""
        has_tokens = _score_tokens(question, pool, tokens)
        if question.by_rank:
            fuse_by_rank(pool)
            return
        terms = set(question.terms)
        phrases = [found for text, found in question.matches.items() if found and text not in terms]
        for candidate in pool:
            candidate.phrase = sum(
                inverse_frequency(question.total, len(found))
                for found in phrases
                if candidate.chunk_id in found
            )
        ranking = question.ranking
        best = max(ranking.scores.values(), default=0.0)
        trusted = trust(best, ranking.mean, ranking.deviation, ranking.count)
        fuse(
            pool,
            trusted,
            tokens=has_tokens,
            vectors=bool(ranking.scores),
            reads=question.reads,
        )
        score_dates(question.query, pool)

    async def _hop(
        self,
        question: Question,
        pool: list[Candidate],
        mentions: Mapping[str, Sequence[Mention]],
        asked: frozenset[str],
        *,
        is_slow: bool,
    ) -> list[Candidate]:
        """Search again with rare words and entities of the first hits."""
        pool.sort(key=lambda c: (-c.score, c.chunk_id))
        seeds = pool[:HOP_SEEDS]
        if not seeds or seeds[0].score <= 0:
            return pool
        best = {seed.chunk_id: seed.score / seeds[0].score for seed in seeds}
        # Where reading the mentions took long, the graph is not asked again.
        weights = {} if is_slow else weigh_entities(best, mentions, asked)
        passages, others = await self.storage.get_hop(
            list(best), list(weights), question.graph_time, graph_arm.RARE + 1
        )
        find_turns(pool, {i: passage.text for i, passage in passages.items()})
        links = link_passages(asked, mentions, weights, others, question.total)
        found = await self._hop_scores(question, seeds, passages)
        known = {candidate.chunk_id for candidate in pool}
        new = [i for i in sorted(found, key=lambda i: (-found[i], i)) if i not in known][:HOP_NEW]
        new += links.new({*known, *new})
        if new:
            around = await self._read_surroundings(question, new, tokens=True)
            added = [_candidate(place, 0.0) for place in around.places.values() if place.selected]
            if question.embedding is not None:
                score_context(added, around.similarities)
            if added:
                pool = [*pool, *added]
                self._score_pool(question, pool, around.tokens)
        first = {seed.chunk_id for seed in seeds}
        gains = [found.get(c.chunk_id, 0.0) for c in pool if c.chunk_id not in first]
        highest = max(gains, default=0.0)
        linked = links.scores([c.chunk_id for c in pool], first)
        for candidate in pool:
            gain = found.get(candidate.chunk_id, 0.0) / highest if highest > 0 else 0.0
            candidate.hop = SEED_HOP if candidate.chunk_id in first else min(gain, 1.0)
            candidate.graph = linked[candidate.chunk_id]
            candidate.score += HOP * candidate.hop + candidate.graph
        return pool

    async def _hop_scores(
        self, question: Question, seeds: list[Candidate], passages: Mapping[str, Passage]
    ) -> dict[str, float]:
        words = {
            seed.chunk_id: rare_words(passages[seed.chunk_id].text, question.terms)
            for seed in seeds
            if seed.chunk_id in passages
        }
        every = list(dict.fromkeys(word for own in words.values() for word in own))
        found = await self.storage.find_matches(every, HOP_RARE[1]) if every else {}
        scores: dict[str, float] = {}
        weights: dict[str, float] = {}
        for seed in seeds:
            rare = [w for w in words.get(seed.chunk_id, ()) if len(found[w] or ()) >= HOP_RARE[0]]
            for word in sorted(rare, key=lambda w: len(found[w] or ()))[:HOP_WORDS]:
                share = seed.score / seeds[0].score
                gain = max(share - weights.get(word, 0.0), 0.0)
                weights[word] = max(share, weights.get(word, 0.0))
                rarity = inverse_frequency(question.total, len(found[word] or ()))
                for chunk_id in found[word] or ():
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + gain * rarity
        return scores


def _score_tokens(question: Question, pool: list[Candidate], stored: Mapping[str, bytes]) -> bool:
    """Compare the question's tokens with those of each passage that has no score yet."""
    if question.embedding is None or not question.embedding.tokens:
        return False
    fresh = [candidate for candidate in pool if candidate.similarities is None]
    fresh = [candidate for candidate in fresh if stored.get(candidate.chunk_id)]
    if fresh:
        rows = max_similarities(question.embedding.tokens, [stored[c.chunk_id] for c in fresh])
        for candidate, row in zip(fresh, rows, strict=True):
            candidate.similarities = row
    kept = {c.chunk_id: c for c in pool if c.similarities is not None}
    if not kept:
        return False
    weights = list(map(_weigh_token, question.embedding.words))
    if not any(weights):
        return False
    windows = [
        [c.similarities, *(kept[n].similarities for n in c.neighbours if n in kept)]
        for c in kept.values()
    ]
    informative = [weight > STOP_TOKEN_WEIGHT for weight in weights]
    means, least = mean_similarities(
        [window[0] for window in windows],
        informative if any(informative) else [True] * len(weights),
        MEAN_TOKENS,
    )
    own = score_tokens([window[:1] for window in windows], weights)
    wide = score_tokens(windows, weights)
    for candidate, mean, low, one, several in zip(
        kept.values(), means, least, own, wide, strict=True
    ):
        candidate.late = mean
        candidate.least = low
        candidate.tokens = (1 - WINDOW_TOKENS) * one + WINDOW_TOKENS * several
    return True


def _weigh_token(token: str) -> float:
    """Return what a token of a question counts: unknown ones are like each other, not alike."""
    if is_unread_token(token):
        return 0.0
    return STOP_TOKEN_WEIGHT if is_stop_token(token) else 1.0


def _candidate(place: Place, bm25: float) -> Candidate:
    return Candidate(
        place.chunk_id,
        place.memory_id,
        place.group,
        lone=place.group_size == 1,
        before=place.before,
        after=place.after,
        neighbours=place.neighbours,
        occurred_at=place.occurred_at,
        bm25=bm25,
    )


def score_dates(query: str, pool: Sequence[Candidate]) -> None:
    """Prefer recent passages a little, and those of the time that the question names."""
    now = datetime.now(UTC)
    window = date_window(query, now)
    for candidate in pool:
        moment = candidate.occurred_at or now
        age = max((now - moment).total_seconds() / 86400, 0.0)
        candidate.recency = math.exp2(-age / RECENCY_HALF_LIFE_DAYS)
        candidate.date = float(window is not None and window[0] <= moment < window[1])
        candidate.score += RECENCY * candidate.recency + DATE * candidate.date
