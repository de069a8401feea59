"""Finding memories, top to bottom: words, vectors, late interaction, a second hop, one ranking.

Whatever is missing (the model, token vectors, parents) is left out, and the rest still works.
`zapomni_core.shared.ranking` holds the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from zapomni_core.adapters.embedding_chain import EmbeddingChain
from zapomni_core.exceptions import EmbeddingError, QueryError, SearchError, ValidationError
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import SearchRequest, SearchResponse, SearchResult
from zapomni_core.modules.memories import parse_filters, validate_page
from zapomni_core.shared.dates import date_window
from zapomni_core.shared.late_interaction import max_similarities, score_tokens
from zapomni_core.shared.ranking import (
    HOP,
    SEED_HOP,
    Candidate,
    fuse,
    fuse_by_rank,
    inverse_frequency,
    pick_pool,
    score_context,
    score_words,
    trust,
)
from zapomni_core.shared.text import (
    is_stop_token,
    query_phrases,
    query_terms,
    rare_words,
)
from zapomni_core.workflows.graph_arm import Links, follow_graph
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    MemoryFilter,
    Place,
    QueryEmbedding,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
)

__all__ = ["Searcher"]

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
# The model reads no more of a question than this anyway.
EMBEDDED_QUERY_CHARS = 2000

NO_RANKING = VectorRanking(scores={})

logger = get_logger(__name__)


@dataclass
class _Search:
    """One question on its way through the arms."""

    request: SearchRequest
    filters: MemoryFilter
    wanted: int
    embedding: QueryEmbedding | None
    terms: list[str]
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
class Searcher:
    """The parts that a search needs."""

    storage: StorageProvider
    embeddings: EmbeddingChain

    async def search(self, request: SearchRequest) -> SearchResponse:
        """Return one page of memories, each by its best passage."""
        if not request.query.strip():
            raise ValidationError("query cannot be empty", "VAL_001")
        validate_page(request.limit, request.offset)
        filters = parse_filters(request.filters)
        embedding, notice = await self._embed_query(request.query)
        wanted = request.offset + request.limit
        search = _Search(request, filters, wanted, embedding, query_terms(request.query))
        try:
            best = await self._deepen(search)
        except QueryError as error:
            raise SearchError(
                "The store refused the query.", "SEARCH_002", original_exception=error
            ) from error
        page = best[request.offset : wanted]
        results = await self._describe(page, explain=request.explain)
        return SearchResponse(results=results, count=len(results), notice=notice)

    async def _embed_query(self, query: str) -> tuple[QueryEmbedding | None, str | None]:
        if not self.embeddings.embedders:
            return None, None
        space = await self.storage.get_space()
        if space is None:
            return None, None
        # A lone surrogate cannot be encoded; the words' arm does not mind it either.
        text = query[:EMBEDDED_QUERY_CHARS].encode("utf-8", "replace").decode()
        try:
            return await self.embeddings.embed_query(text, space), None
        except EmbeddingError as error:
            logger.warning("searched_by_words_only", error_code=error.error_code)
            return None, f"Searched by words only: {error.message}"

    async def _deepen(self, search: _Search) -> list[Candidate]:
        """Look deeper until there are enough different memories or nothing more to find."""
        search.total = await self.storage.count_chunks()
        while True:
            best = _best_per_memory(await self._rank(search))
            if len(best) >= search.wanted or search.exhausted:
                return best
            search.depth *= 4

    async def _rank(self, search: _Search) -> list[Candidate]:
        matches = await self._matches(search)
        word_hits = search.depth * max(WORD_HITS, 4 * search.wanted)
        vector_hits = search.depth * max(VECTOR_HITS, 2 * search.wanted)
        units = await self._by_words(search, matches, word_hits)
        search.ranking = await self._by_vector(search, vector_hits)
        search.exhausted = len(units) < word_hits and len(search.ranking.scores) < vector_hits
        candidates = await self._candidates(search, units)
        if not candidates:
            return []
        score_words(
            candidates,
            {term: found for term, found in matches.items() if found},
            await self.storage.get_members([c.chunk_id for c in candidates]),
            search.total,
        )
        await self._score_vectors(search, candidates)
        pool = pick_pool(candidates, search.depth * max(POOL, 2 * search.wanted))
        await self._score_rest(search, pool)
        if search.request.fusion != "rrf":
            pool = await self._hop(search, pool)
        pool.sort(key=lambda c: (-c.score, c.chunk_id))
        return pool

    async def _matches(self, search: _Search) -> dict[str, frozenset[str]]:
        """Return where each telling word stands; words that stand everywhere are left out."""
        found = await self.storage.find_matches(_encodable(search.terms), search.common)
        return {term: ids for term, ids in found.items() if ids is not None}

    async def _by_words(
        self, search: _Search, matches: dict[str, frozenset[str]], limit: int
    ) -> dict[str, float]:
        telling = [term for term, found in matches.items() if found]
        return await self.storage.rank_by_words(
            TextSearchRequest(
                terms=telling or _encodable(search.terms),
                limit=limit,
                filters=search.filters,
            )
        )

    async def _by_vector(self, search: _Search, limit: int) -> VectorRanking:
        if search.embedding is None:
            return NO_RANKING
        request = VectorSearchRequest.model_construct(
            query_embedding=search.embedding.vector,
            limit=limit,
            min_similarity=MIN_SIMILARITY,
            filters=search.filters,
        )
        return await self.storage.rank_by_vector(request)

    async def _candidates(self, search: _Search, units: dict[str, float]) -> list[Candidate]:
        """Gather what words and vectors found, and what stands beside the best of it."""
        found = list(dict.fromkeys([*units, *search.ranking.scores]))
        places = await self.storage.get_places(found, search.filters)
        beside = {
            neighbour
            for chunk_id in list(units)[:LOOK_BESIDE]
            if chunk_id in places
            for neighbour in places[chunk_id].neighbours
        } - places.keys()
        places |= await self.storage.get_places(sorted(beside), search.filters)
        return [
            _candidate(place, units.get(chunk_id, 0.0))
            for chunk_id, place in places.items()
            if place.selected
        ]

    async def _score_vectors(self, search: _Search, candidates: list[Candidate]) -> None:
        if search.embedding is None:
            return
        ids = {c.chunk_id for c in candidates} | {i for c in candidates for i in c.neighbours}
        cosines = await self.storage.get_similarities(search.embedding.vector, sorted(ids))
        score_context(candidates, cosines)

    async def _score_rest(self, search: _Search, pool: list[Candidate]) -> None:
        """Add what is worth its cost for the pool only, then fuse."""
        has_tokens = await self._score_tokens(search, pool)
        if search.request.fusion == "rrf":
            fuse_by_rank(pool)
            return
        await self._score_phrases(search, pool)
        ranking = search.ranking
        best = max(ranking.scores.values(), default=0.0)
        trusted = trust(best, ranking.mean, ranking.deviation, ranking.count)
        fuse(pool, trusted, tokens=has_tokens, vectors=bool(ranking.scores))
        _score_dates(search.request.query, pool)

    async def _score_phrases(self, search: _Search, pool: list[Candidate]) -> None:
        if search.phrases is None:
            phrases = _encodable(query_phrases(search.request.query))
            search.phrases = await self.storage.find_matches(phrases, search.common)
        for candidate in pool:
            candidate.phrase = sum(
                inverse_frequency(search.total, len(found))
                for found in search.phrases.values()
                if found and candidate.chunk_id in found
            )

    async def _score_tokens(self, search: _Search, pool: list[Candidate]) -> bool:
        """Compare the question's tokens with each passage's; what is known stays known."""
        if search.embedding is None or not search.embedding.tokens:
            return False
        fresh = [candidate for candidate in pool if candidate.similarities is None]
        stored = await self.storage.get_tokens([c.chunk_id for c in fresh])
        fresh = [candidate for candidate in fresh if stored.get(candidate.chunk_id)]
        if fresh:
            rows = max_similarities(search.embedding.tokens, [stored[c.chunk_id] for c in fresh])
            for candidate, row in zip(fresh, rows, strict=True):
                candidate.similarities = row
        kept = {c.chunk_id: c for c in pool if c.similarities is not None}
        if not kept:
            return False
        weights = [
            STOP_TOKEN_WEIGHT if is_stop_token(word) else 1.0 for word in search.embedding.words
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

    async def _hop(self, search: _Search, pool: list[Candidate]) -> list[Candidate]:
        """Ask again with rare words of the first hits: they lead to what belongs to them."""
        pool.sort(key=lambda c: (-c.score, c.chunk_id))
        seeds = pool[:HOP_SEEDS]
        if not seeds or seeds[0].score <= 0:
            return pool
        found = await self._hop_scores(search, seeds)
        known = {candidate.chunk_id for candidate in pool}
        links = Links()
        if search.request.graph:
            best = {seed.chunk_id: seed.score / seeds[0].score for seed in seeds}
            links = await follow_graph(
                self.storage, search.request.query, best, known, search.total
            )
        new = [i for i in sorted(found, key=lambda i: (-found[i], i)) if i not in known][:HOP_NEW]
        new += links.new({*known, *new})
        places = await self.storage.get_places(new, search.filters)
        added = [_candidate(place, 0.0) for place in places.values() if place.selected]
        if added:
            await self._score_vectors(search, added)
            pool = [*pool, *added]
            await self._score_rest(search, pool)
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

    async def _hop_scores(self, search: _Search, seeds: list[Candidate]) -> dict[str, float]:
        passages = await self.storage.get_passages([seed.chunk_id for seed in seeds])
        scores: dict[str, float] = {}
        weights: dict[str, float] = {}
        for seed in seeds:
            passage = passages.get(seed.chunk_id)
            words = rare_words(passage.text, search.terms) if passage else []
            found = await self.storage.find_matches(words, HOP_RARE[1])
            rare = [w for w in words if found[w] is not None and len(found[w] or ()) >= HOP_RARE[0]]
            for word in sorted(rare, key=lambda w: len(found[w] or ()))[:HOP_WORDS]:
                share = seed.score / seeds[0].score
                gain = max(share - weights.get(word, 0.0), 0.0)
                weights[word] = max(share, weights.get(word, 0.0))
                telling = inverse_frequency(search.total, len(found[word] or ()))
                for chunk_id in found[word] or ():
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + gain * telling
        return scores

    async def _describe(self, hits: list[Candidate], *, explain: bool) -> list[SearchResult]:
        summaries = await self.storage.get_summaries([hit.memory_id for hit in hits])
        passages = await self.storage.get_passages([hit.chunk_id for hit in hits])
        results = []
        for hit in hits:
            summary, passage = summaries.get(hit.memory_id), passages.get(hit.chunk_id)
            # A memory deleted a moment ago has no summary any more.
            if summary is None or passage is None:
                continue
            results.append(
                SearchResult(
                    chunk_id=hit.chunk_id,
                    text=passage.text,
                    score=round(min(hit.score, 1.0), 4),
                    similarity_score=round(max(hit.cosine, 0.0), 4),
                    bm25_score=round(hit.unit, 4),
                    explanation=_explain(hit) if explain else None,
                    **{name: getattr(summary, name) for name in _SHOWN},
                )
            )
        return results


_SHOWN = (
    "memory_id", "metadata", "project", "source", "kind", "tags", "pinned", "parent", "position",
    "occurred_at", "created_at",
)  # fmt: skip


def _encodable(words: Sequence[str]) -> list[str]:
    """Leave out what is no UTF-8: it matches nothing that was ever stored."""
    return [
        word for word in words if word.isascii() or word.encode("utf-8", "ignore").decode() == word
    ]


def _candidate(place: Place, unit: float) -> Candidate:
    return Candidate(
        place.chunk_id,
        place.memory_id,
        place.group,
        lone=place.group_size == 1,
        neighbours=place.neighbours,
        occurred_at=place.occurred_at,
        unit=unit,
    )


def _score_dates(query: str, pool: Sequence[Candidate]) -> None:
    """Prefer what is recent a little, and what happened when the question says."""
    now = datetime.now(UTC)
    window = date_window(query, now)
    for candidate in pool:
        moment = candidate.occurred_at or now
        age = max((now - moment).total_seconds() / 86400, 0.0)
        candidate.recency = math.exp2(-age / RECENCY_HALF_LIFE_DAYS)
        candidate.date = float(window is not None and window[0] <= moment < window[1])
        candidate.score += RECENCY * candidate.recency + DATE * candidate.date


def _best_per_memory(ranked: Sequence[Candidate]) -> list[Candidate]:
    best: dict[str, Candidate] = {}
    for candidate in ranked:
        best.setdefault(candidate.memory_id, candidate)
    return list(best.values())


def _explain(hit: Candidate) -> dict[str, float | dict[str, float]]:
    arms = ("unit", "window", "parent", "phrase", "cosine", "context", "tokens")
    boosts = ("recency", "date", "hop", "graph")
    return {
        "score": round(hit.score, 4),
        "arms": {arm: round(getattr(hit, arm), 4) for arm in arms},
        "weights": {arm: round(weight, 3) for arm, weight in hit.weights.items()},
        "boosts": {boost: round(getattr(hit, boost), 4) for boost in boosts},
    }
