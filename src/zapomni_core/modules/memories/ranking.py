"""Ranking memories: words, vectors, late interaction, a second hop, one ranking.

Whatever is missing (the model, token vectors, parents) is left out, and the rest still works.
`zapomni_core.modules.memories.scoring` holds the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from zapomni_core.exceptions import QueryError, SearchError, ValidationError
from zapomni_core.modules.memories.graph_arm import Links, follow_graph
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
from zapomni_core.shared.late_interaction import max_similarities, score_tokens
from zapomni_core.shared.text import encodable, is_stop_token, query_phrases, rare_words
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    MemoryFilter,
    Place,
    QueryEmbedding,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
)

__all__ = ["MemoryRanker", "Question", "score_dates"]

# Below this cosine a passage has nothing to do with the question.
MIN_SIMILARITY = 0.15
WORD_HITS = 100
VECTOR_HITS = 60
# Passages whose neighbours are looked at too: an answer often stands beside the question's words.
LOOK_BESIDE = 40
POOL = 100
# A word that stands in more passages than this says too little to be worth their reading: a
# twentieth of all, within bounds.
COMMON_AT_LEAST, COMMON_AT_MOST, COMMON_SHARE = 1000, 3000, 20
HOP_SEEDS, HOP_WORDS, HOP_RARE, HOP_NEW = 3, 8, (2, 40), 10
# Share of late interaction that also looks at the neighbours' tokens.
WINDOW_TOKENS = 0.2
STOP_TOKEN_WEIGHT = 0.5
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
    graph: bool = True
    """Whether to follow what the knowledge graph knows."""
    by_rank: bool = False
    """Whether to fuse by reciprocal ranks instead of scores."""
    every_passage: bool = False
    """Whether a memory may appear with several passages."""
    ranking: VectorRanking = NO_RANKING
    phrases: dict[str, frozenset[str] | None] | None = None
    total: int = 0
    depth: int = 1
    exhausted: bool = False

    @property
    def common(self) -> int:
        """Return in how many passages a word may stand and still tell something."""
        return min(max(self.total // COMMON_SHARE, COMMON_AT_LEAST), COMMON_AT_MOST)


@dataclass(frozen=True)
class MemoryRanker:
    """Ranks the memories of a store."""

    storage: StorageProvider

    async def rank(self, question: Question) -> list[Candidate]:
        """Return at least as many memories as wanted if there are, each by its best passage.

        With `every_passage`, at least as many passages.

        Looks deeper until there are enough. What was listed before keeps its place, so that
        pages join however far one reads.
        """
        question.total = await self.storage.count_chunks()
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
        matches = await self._matches(question)
        word_hits, vector_hits = question.depth * WORD_HITS, question.depth * VECTOR_HITS
        units = await self._by_words(question, matches, word_hits)
        question.ranking = await self._by_vector(question, vector_hits)
        question.exhausted = len(units) < word_hits and len(question.ranking.scores) < vector_hits
        candidates = await self._candidates(question, units)
        if not candidates:
            return []
        score_words(
            candidates,
            {term: found for term, found in matches.items() if found},
            await self.storage.get_members([c.chunk_id for c in candidates]),
            question.total,
        )
        await self._score_vectors(question, candidates)
        pool, rest = pick_pool(candidates, question.depth * POOL)
        await self._score_rest(question, pool)
        if not question.by_rank:
            pool = await self._hop(question, pool)
        pool = diversify(sorted(pool, key=lambda c: (-c.score, c.chunk_id)))
        # The last page has everything that was found at all.
        return [*pool, *rest] if question.exhausted else pool

    async def _matches(self, question: Question) -> dict[str, frozenset[str]]:
        """Return where each telling word stands; words that stand everywhere are left out."""
        found = await self.storage.find_matches(question.terms, question.common)
        return {term: ids for term, ids in found.items() if ids is not None}

    async def _by_words(
        self, question: Question, matches: dict[str, frozenset[str]], limit: int
    ) -> dict[str, float]:
        telling = [term for term, found in matches.items() if found]
        return await self.storage.rank_by_words(
            TextSearchRequest(
                terms=telling or question.terms,
                limit=limit,
                filters=question.filters,
            )
        )

    async def _by_vector(self, question: Question, limit: int) -> VectorRanking:
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

    async def _candidates(self, question: Question, units: dict[str, float]) -> list[Candidate]:
        """Gather what words and vectors found, and what stands beside the best of it."""
        found = list(dict.fromkeys([*units, *question.ranking.scores]))
        places = await self.storage.get_places(found, question.filters)
        beside = {
            neighbour
            for chunk_id in list(units)[:LOOK_BESIDE]
            if chunk_id in places
            for neighbour in places[chunk_id].neighbours
        } - places.keys()
        places |= await self.storage.get_places(sorted(beside), question.filters)
        return [
            _candidate(place, units.get(chunk_id, 0.0))
            for chunk_id, place in places.items()
            if place.selected
        ]

    async def _score_vectors(self, question: Question, candidates: list[Candidate]) -> None:
        if question.embedding is None:
            return
        ids = {c.chunk_id for c in candidates} | {i for c in candidates for i in c.neighbours}
        try:
            cosines = await self.storage.get_similarities(question.embedding.vector, sorted(ids))
        except ValidationError:
            question.embedding = None
            return
        score_context(candidates, cosines)

    async def _score_rest(self, question: Question, pool: list[Candidate]) -> None:
        """Add what is worth its cost for the pool only, then fuse."""
        has_tokens = await self._score_tokens(question, pool)
        if question.by_rank:
            fuse_by_rank(pool)
            return
        await self._score_phrases(question, pool)
        ranking = question.ranking
        best = max(ranking.scores.values(), default=0.0)
        trusted = trust(best, ranking.mean, ranking.deviation, ranking.count)
        fuse(pool, trusted, tokens=has_tokens, vectors=bool(ranking.scores))
        score_dates(question.query, pool)

    async def _score_phrases(self, question: Question, pool: list[Candidate]) -> None:
        if question.phrases is None:
            phrases = encodable(query_phrases(question.query))
            question.phrases = await self.storage.find_matches(phrases, question.common)
        for candidate in pool:
            candidate.phrase = sum(
                inverse_frequency(question.total, len(found))
                for found in question.phrases.values()
                if found and candidate.chunk_id in found
            )

    async def _score_tokens(self, question: Question, pool: list[Candidate]) -> bool:
        """Compare the question's tokens with each passage's; what is known stays known."""
        if question.embedding is None or not question.embedding.tokens:
            return False
        fresh = [candidate for candidate in pool if candidate.similarities is None]
        stored = await self.storage.get_tokens([c.chunk_id for c in fresh])
        fresh = [candidate for candidate in fresh if stored.get(candidate.chunk_id)]
        if fresh:
            rows = max_similarities(question.embedding.tokens, [stored[c.chunk_id] for c in fresh])
            for candidate, row in zip(fresh, rows, strict=True):
                candidate.similarities = row
        kept = {c.chunk_id: c for c in pool if c.similarities is not None}
        if not kept:
            return False
        weights = [
            STOP_TOKEN_WEIGHT if is_stop_token(word) else 1.0 for word in question.embedding.words
        ]
        windows = [
            [c.similarities, *(kept[n].similarities for n in c.neighbours if n in kept)]
            for c in kept.values()
        ]
        own = score_tokens([window[:1] for window in windows], weights)
        wide = score_tokens(windows, weights)
        for candidate, one, several in zip(kept.values(), own, wide, strict=True):
            candidate.tokens = (1 - WINDOW_TOKENS) * one + WINDOW_TOKENS * several
        return True

    async def _hop(self, question: Question, pool: list[Candidate]) -> list[Candidate]:
        """Ask again with rare words of the first hits: they lead to what belongs to them."""
        pool.sort(key=lambda c: (-c.score, c.chunk_id))
        seeds = pool[:HOP_SEEDS]
        if not seeds or seeds[0].score <= 0:
            return pool
        found = await self._hop_scores(question, seeds)
        known = {candidate.chunk_id for candidate in pool}
        links = Links()
        if question.graph:
            best = {seed.chunk_id: seed.score / seeds[0].score for seed in seeds}
            links = await follow_graph(
                self.storage, question.query, best, known, question.total, question.filters.as_of
            )
        new = [i for i in sorted(found, key=lambda i: (-found[i], i)) if i not in known][:HOP_NEW]
        new += links.new({*known, *new})
        places = await self.storage.get_places(new, question.filters)
        added = [_candidate(place, 0.0) for place in places.values() if place.selected]
        if added:
            await self._score_vectors(question, added)
            pool = [*pool, *added]
            await self._score_rest(question, pool)
        first = {seed.chunk_id for seed in seeds}
        others = [found.get(c.chunk_id, 0.0) for c in pool if c.chunk_id not in first]
        highest = max(others, default=0.0)
        linked = links.scores([c.chunk_id for c in pool], first)
        for candidate in pool:
            gain = found.get(candidate.chunk_id, 0.0) / highest if highest > 0 else 0.0
            candidate.hop = SEED_HOP if candidate.chunk_id in first else min(gain, 1.0)
            candidate.graph = linked[candidate.chunk_id]
            candidate.score += HOP * candidate.hop + candidate.graph
        return pool

    async def _hop_scores(self, question: Question, seeds: list[Candidate]) -> dict[str, float]:
        passages = await self.storage.get_passages([seed.chunk_id for seed in seeds])
        scores: dict[str, float] = {}
        weights: dict[str, float] = {}
        for seed in seeds:
            passage = passages.get(seed.chunk_id)
            words = rare_words(passage.text, question.terms) if passage else []
            found = await self.storage.find_matches(words, HOP_RARE[1])
            rare = [w for w in words if found[w] is not None and len(found[w] or ()) >= HOP_RARE[0]]
            for word in sorted(rare, key=lambda w: len(found[w] or ()))[:HOP_WORDS]:
                share = seed.score / seeds[0].score
                gain = max(share - weights.get(word, 0.0), 0.0)
                weights[word] = max(share, weights.get(word, 0.0))
                telling = inverse_frequency(question.total, len(found[word] or ()))
                for chunk_id in found[word] or ():
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + gain * telling
        return scores


def _candidate(place: Place, unit: float) -> Candidate:
    return Candidate(
        place.chunk_id,
        place.memory_id,
        place.group,
        lone=place.group_size == 1,
        before=place.before,
        after=place.after,
        neighbours=place.neighbours,
        occurred_at=place.occurred_at,
        unit=unit,
    )


def score_dates(query: str, pool: Sequence[Candidate]) -> None:
    """Prefer what is recent a little, and what happened when the question says."""
    now = datetime.now(UTC)
    window = date_window(query, now)
    for candidate in pool:
        moment = candidate.occurred_at or now
        age = max((now - moment).total_seconds() / 86400, 0.0)
        candidate.recency = math.exp2(-age / RECENCY_HALF_LIFE_DAYS)
        candidate.date = float(window is not None and window[0] <= moment < window[1])
        candidate.score += RECENCY * candidate.recency + DATE * candidate.date
