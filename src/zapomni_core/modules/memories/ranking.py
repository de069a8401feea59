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
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

from zapomni_core.exceptions import QueryError, SearchError, ValidationError
from zapomni_core.modules.memories import graph_arm
from zapomni_core.modules.memories.contrast import SAMPLED, Contrast
from zapomni_core.modules.memories.conversation import find_conversations, order_turns
from zapomni_core.modules.memories.evidence import find_turns, score_evidence
from zapomni_core.modules.memories.graph_arm import (
    link_by_names,
    link_passages,
    names_in,
    weigh_entities,
)
from zapomni_core.modules.memories.late_interaction import (
    MEAN_TOKENS,
    join_windows,
    max_similarities,
    mean_similarities,
    score_tokens,
)
from zapomni_core.modules.memories.scoring import (
    HOP,
    SEED_HOP,
    Candidate,
    as_first,
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
from zapomni_core.shared.languages import is_foreign, is_unread_token, languages_of
from zapomni_core.shared.stemming import choose_parts
from zapomni_core.shared.text import (
    encodable,
    find_names,
    is_stop_token,
    query_phrases,
    rare_words,
)
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    MemoryFilter,
    Mention,
    Passage,
    QueryEmbedding,
    Surroundings,
    TextSearchRequest,
    VectorRanking,
    VectorSearchRequest,
)

__all__ = ["MemoryRanker", "Question", "score_dates"]

# Below this cosine a passage is unrelated to the question.
MIN_SIMILARITY, MIN_SIMILARITY_SECOND = 0.15, 0.07
# In a second space of so many numbers, that of two models, cosines are higher by so much.
TWO_MODELS, HIGHER = 600, 0.05
WORD_HITS = 100
VECTOR_HITS = 60
# Passages whose neighbors are candidates too: an answer is often next to the question's words.
WITH_NEIGHBORS = 40
# Of 70, a question takes 7 % less CPU, and conversations lose a hundredth of their recall.
POOL = 100
# A word that more passages contain than this is too common to be worth reading them: a twentieth
# of all, within bounds.
COMMON_AT_LEAST, COMMON_AT_MOST, COMMON_SHARE = 1000, 3000, 20
# Of so many passages, those with a common word are too many to rank them all.
MANY_PASSAGES = 20_000
HOP_SEEDS, HOP_WORDS, HOP_RARE, HOP_NEW = 3, 8, (2, 40), 10
# Share of late interaction that includes the neighbors' tokens.
WINDOW_TOKENS = 0.2
STOP_TOKEN_WEIGHT = 0.5
# One phrase of one is half of what may be asked for.
FEWEST_PHRASES = 2
RECENCY_HALF_LIFE_DAYS = 90.0
NO_RANKING = VectorRanking(scores={})


@dataclass
class Question:
    """One question on its way through the arms."""

    query: str
    terms: list[str]
    filters: MemoryFilter
    wanted: int
    stems: dict[str, list[str]] = field(default_factory=dict)
    """Stems of terms in the question's language, if that is not English."""
    compounds: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """German words of the question, with the parts they may have."""
    embedding: QueryEmbedding | None = None
    second: list[float] | None = None
    """The question's vector in the second space, if there is one."""
    turned: list[float] = field(default_factory=list)
    """The same, turned towards what distinguishes the passages there."""
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
    second_ranking: VectorRanking = NO_RANKING
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
        """Return the terms, their stems, and the runs of words that count as phrases."""
        runs = [] if self.by_rank else encodable(query_phrases(self.query))
        stems = chain.from_iterable(self.stems.values())
        parts = chain.from_iterable(chain.from_iterable(self.compounds.values()))
        return list(dict.fromkeys([*self.terms, *stems, *parts, *runs]))

    def use_stems(self) -> None:
        """Search for stems instead of words, where every passage with a word has its stem.

        Passages in other languages, and those stored before there were stems, have the word alone:
        then both are searched for. Parts of compounds are added if both are in the index.
        """
        terms: dict[str, None] = {}
        for term in self.terms:
            stems = [stem for stem in self.stems.get(term, ()) if self.matches[stem] != frozenset()]
            words, found = self.matches[term], [self.matches[stem] for stem in stems]
            if not stems or not _contains(found, words):
                terms[term] = None
            terms |= dict.fromkeys(stems)
        known = {part for part, found in self.matches.items() if found != frozenset()}
        for parts in choose_parts(self.compounds, known).values():
            terms |= dict.fromkeys(parts)
        self.compounds = {}
        self.terms = list(terms)

    @cached_property
    def window(self) -> tuple[datetime, datetime] | None:
        """Return from when to when the question asks, if it names a time."""
        return date_window(self.query, datetime.now(UTC))

    @property
    def graph_time(self) -> datetime | None:
        """Return at which time the graph is read; None: now."""
        return self.filters.as_of or self.filters.known_at

    @property
    def common(self) -> int:
        """Return how many passages may contain a word that is still informative."""
        return min(max(self.total // COMMON_SHARE, COMMON_AT_LEAST), COMMON_AT_MOST)


def _contains(several: Sequence[frozenset[str] | None], matches: frozenset[str] | None) -> bool:
    """Return whether all matches of a word are among those of its stems; None: too many to say."""
    if None in several:
        return True
    return matches is not None and matches <= frozenset().union(*filter(None, several))


@dataclass(frozen=True)
class MemoryRanker:
    """Ranks the memories of a store."""

    storage: StorageProvider
    contrast: Contrast = field(default_factory=Contrast)
    """Of the second space."""

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
        bm25, question.ranking, question.second_ranking = await asyncio.gather(
            self.storage.rank_by_words(
                TextSearchRequest.model_construct(
                    terms=list(matches) or question.terms,
                    limit=word_hits,
                    filters=question.filters,
                    together=not matches and question.total > MANY_PASSAGES,
                )
            ),
            self._rank_by_vector(question, vector_hits),
            self._rank_in_second(question, vector_hits),
        )
        nearest = (question.ranking.scores, question.second_ranking.scores)
        question.exhausted = len(bm25) < word_hits and all(len(n) < vector_hits for n in nearest)
        found_ids = list(dict.fromkeys(chain(bm25, *nearest)))
        if not found_ids:
            return []
        around = await self._read_surroundings(
            question, found_ids, around=list(bm25)[:WITH_NEIGHBORS], members=True
        )
        candidates = [
            Candidate(*place[:-1], bm25.get(chunk_id, 0.0))
            for chunk_id, place in around.places.items()
            if place.selected
        ]
        if not candidates:
            return []
        score_words(candidates, matches, around.members, question.total)
        await self._score_cosines(question, candidates, around)
        pool, rest = pick_pool(candidates, question.depth * POOL)
        started = time.perf_counter()
        is_linked = question.graph and not question.by_rank
        has_tokens = question.embedding is not None and bool(question.embedding.tokens)
        may_order = has_tokens and question.reads == 1.0 and not question.by_rank
        tokens, mentions, asked_entities, passages = await self.storage.get_pool(
            [c.chunk_id for c in pool] if has_tokens else [],
            sorted(c.chunk_id for c in pool) if is_linked else [],
            names_in(question.query) if is_linked else [],
            question.graph_time,
            [c.chunk_id for c in pool if not c.lone] if may_order else [],
        )
        is_slow = time.perf_counter() - started > graph_arm.SECONDS
        self._score_pool(question, pool, pool, tokens)
        for candidate in pool:
            candidate.first_score = candidate.score
        talk = find_conversations(pool, passages)
        if not question.by_rank:
            pool = await self._hop(
                question, pool, mentions, frozenset(asked_entities), talk.groups, is_slow=is_slow
            )
        pool = diversify(sorted(pool, key=lambda c: (-c.score, c.chunk_id)))
        if talk.groups and question.embedding is not None:
            words = question.embedding.words
            weights = list(map(_weigh_token, words))
            pool = order_turns(question.query, weights, pool, talk, words, tokens)
            # The hop marked turns near the first hits only; others may have come first since.
            ordered = {c.chunk_id for c in pool if c.turn_signals}
            find_turns(pool, {i: p.text for i, p in passages.items() if i in ordered})
        # The last page has everything that was found at all.
        ranked = [*pool, *rest] if question.exhausted else pool
        embedding = question.embedding
        score_evidence(
            ranked,
            {
                t: question.common if (f := question.matches.get(t)) is None else f
                for t in question.terms
            },
            question.total,
            question.ranking,
            calibrated=question.is_calibrated,
            # Deeper, what is new may be anywhere.
            wanted=question.wanted if question.depth == 1 and not question.every_passage else None,
            vocabulary=dict(zip(embedding.words, embedding.ids, strict=False)) if embedding else {},
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

    async def _rank_in_second(self, question: Question, limit: int) -> VectorRanking:
        """Rank the passages that the model of the first space does not read."""
        if question.second is None:
            return NO_RANKING
        try:
            found = await self._turn_and_rank(question, question.second, limit)
            if self.contrast.is_outgrown(found.count):
                sample = await self.storage.sample_second(SAMPLED)
                self.contrast.fit(sample, len(question.second), found.count)
                found = await self._turn_and_rank(question, question.second, limit)
        except ValidationError:
            # Without snapshots, the store may have another second model by now.
            question.second = None
            return NO_RANKING
        return found

    async def _turn_and_rank(
        self, question: Question, second: Sequence[float], limit: int
    ) -> VectorRanking:
        question.turned = self.contrast.turn(second)
        request = VectorSearchRequest.model_construct(
            query_embedding=question.turned,
            limit=limit,
            min_similarity=MIN_SIMILARITY_SECOND,
            filters=question.filters,
            second=True,
        )
        return await self.storage.rank_by_vector(request)

    async def _score_cosines(
        self, question: Question, candidates: Sequence[Candidate], around: Surroundings
    ) -> None:
        """Set the cosines of candidates: of each in the space its language needs."""
        cosines = around.similarities if question.embedding is not None else {}
        if question.second is not None:
            ids = sorted({i for c in candidates for i in (c.chunk_id, *c.neighbours)})
            found = await self.storage.get_similarities(question.turned, ids, second=True)
            # Evidence must mean the same in every store, whatever else is in it.
            alone = [candidate.chunk_id for candidate in candidates]
            plain = await self.storage.get_similarities(question.second, alone, second=True)
            higher = HIGHER if len(question.second) > TWO_MODELS else 0.0
            for candidate in candidates:
                candidate.second = plain.get(candidate.chunk_id, higher) - higher
            rankings = question.second_ranking, question.ranking
            cosines = {**cosines, **as_first(found, *rankings, cosines, question.reads)}
        if cosines:
            score_context(candidates, cosines)

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
        self,
        question: Question,
        pool: Sequence[Candidate],
        new: Sequence[Candidate],
        tokens: Mapping[str, bytes],
    ) -> None:
        """Add what is worth its cost for the pool only to what is new there, then fuse all."""
        _compare_tokens(question, new, tokens)
        has_tokens = _score_tokens(question, pool)
        if question.by_rank:
            fuse_by_rank(pool)
            return
        _find_phrases(question, new)
        score_dates(question.window, new)
        ranking = question.ranking
        nearest = max(ranking.scores.values(), default=0.0)
        fuse(
            pool,
            trust(nearest, ranking.mean, ranking.deviation, ranking.count),
            tokens=has_tokens,
            vectors=bool(ranking.scores),
            reads=question.reads,
            shared=_share_words(question, pool),
        )

    async def _hop(
        self,
        question: Question,
        pool: list[Candidate],
        mentions: Mapping[str, Sequence[Mention]],
        asked: frozenset[str],
        conversations: frozenset[str],
        *,
        is_slow: bool,
    ) -> list[Candidate]:
        """Search again with rare words, names and entities of the first hits.

        Turns lead nowhere: they are ordered by what is said around them, and gain nothing more.
        """
        pool.sort(key=lambda c: (-c.score, c.chunk_id))
        seeds = pool[:HOP_SEEDS]
        if not seeds or seeds[0].score <= 0:
            return pool
        leading = [seed for seed in seeds if seed.group not in conversations]
        best = {seed.chunk_id: seed.score / seeds[0].score for seed in leading}
        # Where reading the mentions took long, the graph is not asked again.
        weights = {} if is_slow else weigh_entities(best, mentions, asked)
        passages: Mapping[str, Passage] = {}
        others: Mapping[str, Sequence[Mention]] = {}
        if best:
            passages, others = await self.storage.get_hop(
                list(best), list(weights), question.graph_time, graph_arm.RARE + 1
            )
        find_turns(pool, {i: passage.text for i, passage in passages.items()})
        texts = {i: passages[i].text for i in best if i in passages}
        names: dict[str, float] = {}
        if any(seed.turn for seed in seeds):
            # The turns before and after one are read anyway, and say more than a name in common.
            others = {}
        else:
            for chunk_id, text in texts.items():
                if is_foreign(text) and "de" in languages_of(text):
                    # Every noun is written like a name.
                    continue
                own = dict.fromkeys(find_names(text, question.terms), best[chunk_id])
                names |= {n: max(share, names.get(n, 0.0)) for n, share in own.items()}
        words = {i: rare_words(text, question.terms) for i, text in texts.items()}
        every = list(dict.fromkeys(chain(*words.values(), names)))
        matches = await self.storage.find_matches(every, HOP_RARE[1]) if every else {}
        found = _score_hop(best, words, matches, question.total)
        links = link_passages(asked, mentions, weights, others, question.total)
        named = link_by_names(names, matches, question.total)
        known = {candidate.chunk_id for candidate in pool}
        new = [i for i in sorted(found, key=lambda i: (-found[i], i)) if i not in known][:HOP_NEW]
        new += links.new({*known, *new})
        new += named.new({*known, *new})
        if new:
            around = await self._read_surroundings(question, new, tokens=True)
            added = [Candidate(*place[:-1]) for place in around.places.values() if place.selected]
            await self._score_cosines(question, added, around)
            if added:
                pool = [*pool, *added]
                self._score_pool(question, pool, added, around.tokens)
        first = {seed.chunk_id for seed in seeds}
        ids = [candidate.chunk_id for candidate in pool]
        highest = max((found.get(i, 0.0) for i in ids if i not in first), default=0.0) or 1.0
        linked, by_name = links.scores(ids, first), named.scores(ids, first)
        for i, candidate in zip(ids, pool, strict=True):
            hop = SEED_HOP if i in first else min(found.get(i, 0.0) / highest, 1.0)
            candidate.hop, candidate.graph = hop, linked[i]
            # An entity and its name say the same: what says more counts.
            candidate.names = max(by_name[i] - candidate.graph, 0.0)
            candidate.score += HOP * hop + candidate.graph + candidate.names
        return pool


def _share_words(question: Question, pool: Sequence[Candidate]) -> float:
    """Return which share of the question's words the passages of the second space have."""
    foreign = {candidate.chunk_id for candidate in pool if candidate.second}
    if not foreign or not question.terms:
        return 1.0
    found = [question.matches.get(term) for term in question.terms]
    # What one of many has may be there by chance; what too many have to be listed, they have, too.
    enough = min(2, len(foreign))
    return sum(ids is None or len(foreign & ids) >= enough for ids in found) / len(found)


def _score_hop(
    best: Mapping[str, float],
    words: Mapping[str, Sequence[str]],
    found: Mapping[str, frozenset[str] | None],
    total: int,
) -> dict[str, float]:
    """Score passages by the rare words that they share with the best ones."""
    scores: dict[str, float] = {}
    weights: dict[str, float] = {}
    for chunk_id, share in best.items():
        rare = [w for w in words.get(chunk_id, ()) if len(found[w] or ()) >= HOP_RARE[0]]
        for word in sorted(rare, key=lambda w: len(found[w] or ()))[:HOP_WORDS]:
            gain = max(share - weights.get(word, 0.0), 0.0)
            weights[word] = max(share, weights.get(word, 0.0))
            rarity = inverse_frequency(total, len(found[word] or ()))
            for other in found[word] or ():
                scores[other] = scores.get(other, 0.0) + gain * rarity
    return scores


def _compare_tokens(
    question: Question, new: Sequence[Candidate], stored: Mapping[str, bytes]
) -> None:
    """Compare the question's tokens with those of each passage that has some."""
    found = [candidate for candidate in new if stored.get(candidate.chunk_id)]
    if question.embedding is None or not question.embedding.tokens or not found:
        return
    weights = list(map(_weigh_token, question.embedding.words))
    informative = [weight > STOP_TOKEN_WEIGHT for weight in weights]
    rows = max_similarities(question.embedding.tokens, [stored[c.chunk_id] for c in found])
    means = mean_similarities(
        rows, informative if any(informative) else [True] * len(weights), MEAN_TOKENS
    )
    for candidate, row, mean in zip(found, rows, means, strict=True):
        candidate.similarities = row
        candidate.late = mean if any(weights) else 0.0


def _score_tokens(question: Question, pool: Sequence[Candidate]) -> bool:
    """Score the passages whose tokens were compared among each other; return whether any was."""
    known = [candidate for candidate in pool if candidate.similarities is not None]
    if question.embedding is None or not known:
        return False
    weights = list(map(_weigh_token, question.embedding.words))
    if not any(weights):
        return False
    import numpy as np

    rows = np.concatenate([candidate.similarities for candidate in known])
    rows = rows.reshape(len(known), -1)
    scores = score_tokens(rows, weights)
    at: dict[str | None, int] = {c.chunk_id: number for number, c in enumerate(known)}
    before = [at.get(candidate.before, -1) for candidate in known]
    after = [at.get(candidate.after, -1) for candidate in known]
    if max(before) >= 0 or max(after) >= 0:
        wide = score_tokens(join_windows(rows, before, after), weights)
        scores = (1 - WINDOW_TOKENS) * scores + WINDOW_TOKENS * wide
    for candidate, score in zip(known, scores.tolist(), strict=True):
        candidate.tokens = score
    return True


def _find_phrases(question: Question, pool: Sequence[Candidate]) -> None:
    """Score passages by the question's pairs of words that they have."""
    phrases = [found for text, found in question.matches.items() if " " in text]
    rarities = [(f, inverse_frequency(question.total, len(f))) for f in phrases if f]
    for candidate in pool if rarities else ():
        found = [rarity for f, rarity in rarities if candidate.chunk_id in f]
        if found:
            candidate.phrase = sum(found)
            candidate.phrase_share = len(found) / max(len(phrases), FEWEST_PHRASES)


# The same few thousand words come again and again.
@lru_cache(maxsize=5000)
def _weigh_token(token: str) -> float:
    """Return what a token of a question counts: unknown ones are like each other, not alike."""
    if is_unread_token(token):
        return 0.0
    return STOP_TOKEN_WEIGHT if is_stop_token(token) else 1.0


def score_dates(window: tuple[datetime, datetime] | None, candidates: Sequence[Candidate]) -> None:
    """Score how recent passages are, and whether they are of the time that the question names."""
    now = datetime.now(UTC)
    for candidate in candidates:
        moment = candidate.occurred_at or now
        age = max((now - moment).total_seconds() / 86400, 0.0)
        candidate.recency = math.exp2(-age / RECENCY_HALF_LIFE_DAYS)
        if window is not None:
            candidate.date = float(window[0] <= moment < window[1])
