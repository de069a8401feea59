"""Search over memories and observations: embed, rank, merge, rerank, describe.

`MemoryRanker` ranks memories; observations are found by their words. Whatever is missing (the
model, the reranker, observations) is left out and reported, and the rest still works. All reads
of memories happen in one snapshot of the store: what other processes add or delete meanwhile
neither fails a search nor leaves half of it in the answer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from zapomni_core.exceptions import EmbeddingError, QueryError, SearchError
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import Reranker, SearchRequest, SearchResponse, SearchResult
from zapomni_core.modules.codebase import Citations
from zapomni_core.modules.memories import (
    CALIBRATED,
    HEAD,
    AnswerCache,
    Candidate,
    Contrast,
    EmbeddingChain,
    MemoryRanker,
    Question,
    check_query,
    explain,
    level_off,
    parse_filters,
    prefer_present,
    score_dates,
    score_observed,
    without_code,
)
from zapomni_core.modules.observations import Observations, Reach
from zapomni_core.shared.evidence import evidence_word
from zapomni_core.shared.languages import (
    is_english_model,
    is_foreign,
    languages_of,
    readable_share,
)
from zapomni_core.shared.statements import READ_CHARS, REPLACING
from zapomni_core.shared.stemming import compounds, drop_function_words, question_stems
from zapomni_core.shared.text import (
    encodable,
    query_phrases,
    query_terms,
    question_key,
    replace_words,
)
from zapomni_core.shared.validation import validate_page
from zapomni_core.workflows.projects import Projects
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    EmbeddingSpace,
    MemoryFields,
    MemoryFilter,
    MemorySummary,
    Passage,
    QueryEmbedding,
    StoreState,
)
from zapomni_db.observation_models import ObservationMatch, ObservationQuery
from zapomni_db.spelling import allowed_distance

__all__ = ["Searcher"]

# The model reads no more of a question than this anyway.
EMBEDDED_QUERY_CHARS = 2000
# How often a question is embedded if the store's model changes meanwhile.
EMBED_AGAIN = 3
# A command run every day is one hit, not fifty: more are read than are shown.
OBSERVED_AT_LEAST, OBSERVED_PER_HIT = 50, 4
# So many passages are looked at for the count of memories in other projects.
ELSEWHERE = 200
# So many words of a question are looked up because no passage has them.
MOST_CORRECTED = 5
# Shorter ones are left alone if no model says which words are spelled right.
UNSURE_LENGTH = 7
# A cross-encoder reads this many passages, and weighs as much as all arms together.
RERANKED, RERANK_SHARE = 30, 0.5

logger = get_logger(__name__)


@dataclass(frozen=True)
class Searcher:
    """The parts that a search needs."""

    storage: StorageProvider
    embeddings: EmbeddingChain
    observations: Observations | None = None
    reranker: Reranker | None = None
    citations: Citations | None = None
    projects: Projects | None = None
    answers: AnswerCache = field(default_factory=AnswerCache)
    contrast: Contrast = field(default_factory=Contrast)

    async def answer(self, request: SearchRequest) -> SearchResponse:
        """Search, or answer again what was asked before if nothing it reads was changed since."""
        started = time.perf_counter()
        # Read before the search: a write that comes between makes the answer old, not new.
        observed: tuple[int, ...] = ()
        if self.observations is not None and request.within != "memories":
            observed = await self.observations.get_version()
        filters, reach = await self._narrow(request)
        # Not JSON, which could not carry half of a surrogate pair.
        question = repr(({**vars(request), "query": question_key(request.query)}, reach))
        state = self.answers.state
        # What was never asked needs no version before the search, which begins by reading it.
        if state is None or self.answers.has(question) or request.within == "observations":
            state = await self.storage.get_state()
        cached = self.answers.get(question, (state.version, observed))
        response = cached
        if response is None:
            response, state = await self._search(request, filters, reach, state)
            self.answers.put(question, (state.version, observed), response)
        took = (time.perf_counter() - started) * 1000
        given = request.filters
        self.answers.record_latency(took)
        logger.info(
            "memories_searched",
            query_chars=len(request.query),
            within=request.within,
            filters=sorted(
                given.model_fields_set if isinstance(given, MemoryFilter) else given or ()
            ),
            limit=request.limit,
            offset=request.offset,
            memory_ids=[hit.memory_id for hit in response.results[:10] if hit.memory_id],
            count=response.count,
            total=response.total,
            is_repeated=cached is not None,
            is_complete=response.notice is None,
            duration_ms=round(took, 1),
        )
        # Neither is part of the cached answer: embedders and files change without any write.
        if request.within != "observations":
            language = await self._describe_language(request.query, response, state)
            notices = (response.notice, self.embeddings.unused, language)
            if notice := " ".join(filter(None, notices)):
                response = response.model_copy(update={"notice": notice})
        return await self.citations.annotate(response) if self.citations else response

    async def search(self, request: SearchRequest) -> SearchResponse:
        """Return one page of memories, each by its best passage, and of observations."""
        state = self.answers.state or await self.storage.get_state()
        response, _ = await self._search(request, *await self._narrow(request), state)
        return response

    async def _narrow(self, request: SearchRequest) -> tuple[MemoryFilter, Reach | None]:
        """Check the request; return its filters by what memories of the projects carry."""
        check_query(request.query)
        validate_page(request.limit, request.offset)
        filters = parse_filters(request.filters)
        if self.projects is None:
            return filters, None
        return await self.projects.narrow(filters, request.folder, agent=request.agent)

    async def _search(
        self,
        request: SearchRequest,
        filters: MemoryFilter,
        reach: Reach | None,
        state: StoreState,
    ) -> tuple[SearchResponse, StoreState]:
        """Return the answer, and the state of the store that it is about."""
        if request.within == "memories":
            filters = without_code(filters)
        question = Question(
            query=request.query,
            terms=[],
            filters=filters,
            # Pages join because each of them reorders the same first hits.
            wanted=max(request.offset + request.limit, RERANKED if self.reranker else HEAD),
            graph=request.graph,
            by_rank=request.fusion == "rrf",
            every_passage=request.every_passage,
        )
        _read_terms(question)
        notices: list[str] = []
        async with AsyncExitStack() as snapshot:
            storage, state = await self._begin(snapshot, request, question, state, notices)
            try:
                if request.within == "observations":
                    question.exhausted, ranked = True, []
                else:
                    ranked = await MemoryRanker(storage, self.contrast).rank(question)
                observed, more = await self._search_observations(request, question)
            except QueryError as error:
                raise SearchError(
                    "The store refused the query.", "SEARCH_002", original_exception=error
                ) from error
            found = sorted([*ranked, *observed], key=lambda c: -c.score)
            found = await self._rerank(storage, request.query, found, notices)
            results, elsewhere = await self._describe(storage, request, question, reach, found)
        if self.projects is not None:
            results = await self.projects.name(results)
        response = SearchResponse(
            results=results,
            count=len(results),
            total=len(found),
            more=more,
            elsewhere=elsewhere,
            corrected=question.corrected,
            nothing_close=bool(found)
            and all(evidence_word(round(hit.evidence, 2)) == "none" for hit in found),
            notice=" ".join(notices) or None,
        )
        return response, state

    # --- memories ------------------------------------------------------------------

    async def _begin(
        self,
        snapshot: AsyncExitStack,
        request: SearchRequest,
        question: Question,
        known: StoreState,
        notices: list[str],
    ) -> tuple[StorageProvider, StoreState]:
        """Embed the question, enter the snapshot, find its words: an embedder may take seconds.

        If the store has another model than was known, the question is embedded again.
        """
        if request.within == "observations":
            return self.storage, known
        attempts = EMBED_AGAIN if self.embeddings.embedders else 0
        while True:
            question.embedding = question.second = None
            failed: list[str] = []
            if attempts:
                question.embedding = await self._embed_query(question.query, known.space, failed)
                question.second = await self._embed_second(question.query, known)
            storage = await snapshot.enter_async_context(self.storage.snapshot())
            question.total = known.chunks
            # Whether anything says that it replaces another memory is one more read otherwise.
            replacing = REPLACING if _is_ordered(request) else ()
            phrases = question.phrases
            now, found = await storage.begin_search(
                list(dict.fromkeys([*phrases, *replacing])), question.common
            )
            question.matches = {phrase: found[phrase] for phrase in phrases}
            question.may_be_replaced = any(found[word] != frozenset() for word in replacing)
            if question.stems or question.compounds:
                question.use_stems()
            question.total = now.chunks
            question.reads = _readable(request.query, now.space) if now.space else 1.0
            question.graph = request.graph and now.has_graph
            question.is_calibrated = now.space is not None and now.space.model in CALIBRATED
            self.answers.state = now
            if not attempts or (now.space, now.second) == (known.space, known.second):
                if question.corrected or not await self._correct(storage, question):
                    notices += failed
                    return storage, now
                # The embedder may take seconds: not inside the snapshot.
                attempts += 1
            await snapshot.aclose()
            known = now
            attempts -= 1

    async def _correct(self, storage: StorageProvider, question: Question) -> bool:
        """Replace words that no passage has by those that are meant; return whether any was.

        Words that the model knows are spelled right, whether they are stored or not; without it
        long words alone are sure enough.
        """
        known = question.embedding.words if question.embedding else []
        shortest = 0 if known else UNSURE_LENGTH
        missing = [
            term
            for term in question.terms
            if question.matches.get(term) == frozenset()
            and term not in known
            and len(term) >= shortest
            and allowed_distance(term)
        ]
        # Parts of words are no words that anyone wrote.
        query = question.query
        missing = [term for term in missing if replace_words(query, {term: ""}) != query]
        if not missing:
            return False
        found = await storage.find_near_words(missing[:MOST_CORRECTED], question.filters)
        if not found:
            return False
        question.query, question.corrected = replace_words(question.query, found), found
        _read_terms(question)
        return True

    async def _embed_query(
        self, query: str, space: EmbeddingSpace | None, notices: list[str]
    ) -> QueryEmbedding | None:
        if space is None or not _readable(query, space):
            return None
        # A lone surrogate cannot be encoded; the words' arm does not mind it either.
        text = query[:EMBEDDED_QUERY_CHARS].encode("utf-8", "replace").decode()
        try:
            return await self.embeddings.embed_query(text, space)
        except EmbeddingError as error:
            logger.warning("searched_by_words_only", error_code=error.error_code)
            notices.append(f"Searched by words only: {error.message}")
            return None

    async def _embed_second(self, query: str, known: StoreState) -> list[float] | None:
        """Embed the question for the passages that the first model does not read."""
        if known.second is None:
            return None
        text = query[:EMBEDDED_QUERY_CHARS].encode("utf-8", "replace").decode()
        try:
            return await self.embeddings.embed_second_query(text, known.space, known.second)
        except EmbeddingError as error:
            logger.warning("second_space_not_searched", error_code=error.error_code)
            return None

    async def _describe_language(
        self, query: str, response: SearchResponse, state: StoreState
    ) -> str | None:
        """Say that the model does not read the question, or a hit, if that is so."""
        space = state.space
        if space is None or not self.embeddings.embedders or not is_english_model(space.model):
            return None
        if state.second is not None and await self.embeddings.second_for(space):
            return None
        if not (reads := readable_share(query)):
            return "The model reads English: this was searched by words alone."
        hits = (hit.text for hit in response.results if hit.observation_id is None)
        if reads < 1 or any(map(is_foreign, hits)):
            return "The model reads English: texts in other languages are found by their words."
        return None

    # --- observations ------------------------------------------------------------------

    async def _search_observations(
        self, request: SearchRequest, question: Question
    ) -> tuple[list[Candidate], bool]:
        """Return the observations found, and whether there is more of anything."""
        query = await self._observation_query(request, question)
        if self.observations is None or query is None:
            return [], not question.exhausted
        # What no memory has may well be in observations: they are searched for what was asked.
        terms = encodable(query_terms(request.query))
        matches = await self.observations.match(terms, query)
        # The same command, error or prompt is shown once, as it was last.
        distinct: dict[tuple[str, str], ObservationMatch] = {}
        for match in matches:
            distinct.setdefault((match.obs_type, match.content), match)
        observed = [
            Candidate(
                f"#{match.id}",
                memory_id=f"#{match.id}",
                occurred_at=datetime.fromtimestamp(match.timestamp, UTC),
                bm25=match.score,
                observation=match,
            )
            for match in distinct.values()
        ]
        score_dates(question.window, observed)
        score_observed(observed, terms, query_phrases(request.query))
        observed.sort(key=lambda c: -c.score)
        return observed, not question.exhausted or len(matches) == query.limit

    async def _observation_query(
        self, request: SearchRequest, question: Question
    ) -> ObservationQuery | None:
        """Translate the filters; None if no observation can pass them."""
        filters = question.filters
        if self.observations is None or request.within == "memories":
            return None
        if filters.tags or filters.source is not None:
            return None
        projects = filters.projects
        if filters.project is not None:
            projects = await self.observations.project_keys(filters.project)
        # The moment itself still counts. An observation is recorded when it happens.
        then = [moment for moment in (filters.as_of, filters.known_at) if moment is not None]
        ends = [filters.until, *(moment + timedelta(seconds=1) for moment in then)]
        return ObservationQuery(
            query=request.query,
            projects=projects,
            not_projects=filters.not_projects,
            obs_type=filters.kind,
            session=filters.parent,
            file=filters.path,
            pinned=filters.pinned,
            after=_seconds(filters.since),
            before=_seconds(min((end for end in ends if end is not None), default=None)),
            limit=OBSERVED_AT_LEAST + OBSERVED_PER_HIT * question.wanted,
        )

    # --- one list -----------------------------------------------------------------------

    async def _rerank(
        self, storage: StorageProvider, query: str, found: list[Candidate], notices: list[str]
    ) -> list[Candidate]:
        """Rerank the first hits by the cross-encoder, if there is one."""
        if self.reranker is None or not found:
            return found
        first = found[:RERANKED]
        kept = await storage.get_passages([c.chunk_id for c in first if not c.observation])
        done = {c.chunk_id: c.observation.content for c in first if c.observation}
        texts = {**{chunk_id: passage.text for chunk_id, passage in kept.items()}, **done}
        first = [candidate for candidate in first if candidate.chunk_id in texts]
        try:
            scores = await self.reranker.score(query, [texts[c.chunk_id] for c in first])
        except SearchError as error:
            logger.warning("reranker_failed", error_code=error.error_code)
            notices.append(f"Not reranked: {error.message}")
            return found
        for candidate, score in zip(first, scores, strict=True):
            candidate.cross = score
            candidate.score += RERANK_SHARE * (score - candidate.score)
        again = [*sorted(first, key=lambda c: -c.score), *found[RERANKED:]]
        level_off(again)
        return again

    async def _describe(
        self,
        storage: StorageProvider,
        request: SearchRequest,
        question: Question,
        reach: Reach | None,
        found: list[Candidate],
    ) -> tuple[list[SearchResult], int]:
        """Return one page, after what is replaced was put below what replaced it.

        The number is of memories in other projects, which are counted by the same read.
        """
        start, end = request.offset, request.offset + request.limit
        is_ordered = _is_ordered(request)
        first = {hit.chunk_id: hit for hit in [*found[:HEAD], *found[start:end]]}
        kept = [
            hit
            for hit in (first.values() if is_ordered else found[start:end])
            if hit.observation is None
        ]
        near = [i for hit in kept for i in hit.neighbours] if request.beside else []
        others: list[str] = []
        elsewhere: MemoryFilter | None = None
        if reach is not None and reach.has_elsewhere and request.within != "observations":
            others = _find_likely(question)
            hidden = [*(reach.projects or ()), *reach.hidden]
            elsewhere = question.filters.model_copy(
                update={"projects": None, "not_projects": hidden}
            )
        read = await storage.get_hits(
            [hit.memory_id for hit in kept],
            [*(hit.chunk_id for hit in kept), *near],
            beginning=READ_CHARS if is_ordered else 0,
            cosines=is_ordered,
            others=others,
            filters=elsewhere,
        )
        summaries, passages = read.summaries, read.passages
        if is_ordered and kept:
            found = await prefer_present(
                storage, request.query, found, read, look_up=question.may_be_replaced
            )
        page = found[start:end]
        results = []
        for hit in page:
            why = explain(hit, found) if request.explain else None
            if hit.observation is not None:
                results.append(_describe_observation(hit, hit.observation, why))
                continue
            summary, passage = summaries.get(hit.memory_id), passages.get(hit.chunk_id)
            # A store without snapshots may have lost the memory a moment ago.
            if summary is not None and passage is not None:
                results.append(
                    SearchResult.from_fields(
                        **_fields_of(summary),
                        observation_id=None,
                        chunk_id=hit.chunk_id,
                        text=passage.text,
                        score=round(min(hit.score, 1.0), 4),
                        **_describe_evidence(hit),
                        similarity_score=round(max(hit.cosine, 0.0), 4),
                        bm25_score=round(hit.bm25, 4),
                        before=_text(passages, hit.before) if near else "",
                        after=_text(passages, hit.after) if near else "",
                        explanation=why,
                        citations=[],
                        replaced=hit.replaced,
                    )
                )
        return results, read.elsewhere


def _read_terms(question: Question) -> None:
    """Find the words of a question that are searched for, and their stems in its language."""
    query = question.query
    question.terms = encodable(query_terms(query))
    if languages := languages_of(query, is_question=True):
        question.terms = drop_function_words(languages, question.terms)
        question.stems = question_stems(languages, question.terms)
        question.compounds = compounds(query) if "de" in languages else {}


def _readable(text: str, space: EmbeddingSpace) -> float:
    """Return how much of a question the store's model reads, 0 to 1."""
    return readable_share(text) if is_english_model(space.model) else 1.0


def _is_ordered(request: SearchRequest) -> bool:
    """Return whether what is replaced is put below what replaced it."""
    return (
        request.offset < HEAD
        and request.fusion == "weighted"
        and not request.every_passage
        and request.within != "observations"
    )


def _find_likely(question: Question) -> list[str]:
    """Return the passages of any project that have half of the question's words or more.

    The words were looked up in the whole store already; only where those passages are is new.
    """
    found = [ids for term in question.terms if (ids := question.matches.get(term))]
    counts = Counter(chunk_id for ids in found for chunk_id in ids)
    enough = (len(found) + 1) // 2
    likely = [chunk_id for chunk_id, number in counts.most_common() if number >= enough]
    return likely[:ELSEWHERE]


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())


def _describe_evidence(hit: Candidate) -> dict[str, Any]:
    evidence = round(hit.evidence, 2)
    return {"evidence": evidence, "evidence_word": evidence_word(evidence)}


def _fields_of(summary: MemorySummary) -> dict[str, Any]:
    """Return what a result has of its memory, which the store may keep for other searches."""
    known = vars(summary)
    fields = {name: known[name] for name in MemoryFields.model_fields}
    return fields | {"metadata": {**summary.metadata}, "tags": [*summary.tags]}


def _describe_observation(
    hit: Candidate, match: ObservationMatch, why: dict[str, object] | None
) -> SearchResult:
    moment = datetime.fromtimestamp(match.timestamp, UTC)
    return SearchResult(
        memory_id="",
        observation_id=match.id,
        chunk_id=hit.chunk_id,
        text=match.content,
        score=round(min(hit.score, 1.0), 4),
        **_describe_evidence(hit),
        similarity_score=0.0,
        bm25_score=round(hit.bm25, 4),
        metadata={},
        project=match.project,
        source=match.file_path or "",
        kind=match.obs_type,
        tags=[],
        pinned=bool(match.pinned),
        parent=match.session_id,
        position=0,
        occurred_at=moment,
        created_at=moment,
        explanation=why,
    )


def _text(passages: Mapping[str, Passage], chunk_id: str | None) -> str:
    passage = None if chunk_id is None else passages.get(chunk_id)
    return "" if passage is None else passage.text
