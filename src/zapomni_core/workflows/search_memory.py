"""Finding memories: words and meaning side by side, fused, best passage of each memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from zapomni_core.adapters.embedding_chain import EmbeddingChain
from zapomni_core.exceptions import EmbeddingError, QueryError, SearchError, ValidationError
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import SearchRequest, SearchResponse, SearchResult
from zapomni_core.modules.memories import parse_filters, validate_page
from zapomni_core.shared.fusion import fuse
from zapomni_core.shared.text import query_terms
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    BM25SearchResult,
    HybridSearchResult,
    MemoryFilter,
    TextSearchRequest,
    VectorSearchRequest,
    VectorSearchResult,
)

__all__ = ["Searcher"]

WORDS_WEIGHT = 0.5
VECTOR_WEIGHT = 0.5
# Below this cosine a passage has nothing to do with the question.
MIN_SIMILARITY = 0.15
FIRST_DEPTH = 50
# The model reads no more of a question than this anyway.
EMBEDDED_QUERY_CHARS = 2000

logger = get_logger(__name__)


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
        vector, notice = await self._embed_query(request.query)
        wanted = request.offset + request.limit
        hits = await self._hits(query_terms(request.query), vector, filters, wanted)
        page = hits[request.offset : wanted]
        results = await self._describe(page)
        return SearchResponse(results=results, count=len(results), notice=notice)

    async def _embed_query(self, query: str) -> tuple[list[float] | None, str | None]:
        if not self.embeddings.embedders:
            return None, None
        space = await self.storage.get_space()
        if space is None:
            return None, None
        # A lone surrogate cannot be encoded; the words' arm does not mind it either.
        text = query[:EMBEDDED_QUERY_CHARS].encode("utf-8", "replace").decode()
        try:
            return (await self.embeddings.embed_query(text, space)).vector, None
        except EmbeddingError as error:
            logger.warning("searched_by_words_only", error_code=error.error_code)
            return None, f"Searched by words only: {error.message}"

    async def _hits(
        self, terms: list[str], vector: list[float] | None, filters: MemoryFilter, wanted: int
    ) -> list[HybridSearchResult]:
        """Look deeper until there are enough different memories or nothing more to find."""
        depth = max(FIRST_DEPTH, 2 * wanted)
        while True:
            words, near = await asyncio.gather(
                self._by_words(terms, filters, depth), self._by_vector(vector, filters, depth)
            )
            hits = _best_per_memory(words, near)
            exhausted = len(words) < depth and len(near) < depth
            if len(hits) >= wanted or exhausted:
                return hits
            depth *= 4

    async def _by_words(
        self, terms: list[str], filters: MemoryFilter, depth: int
    ) -> list[BM25SearchResult]:
        # Bytes that are no UTF-8 match nothing that was ever stored.
        encodable = [term for term in terms if term.isascii() or _is_encodable(term)]
        try:
            return await self.storage.bm25_search(
                TextSearchRequest(terms=encodable, limit=depth, filters=filters)
            )
        except QueryError as error:
            raise SearchError(
                "The word search failed.", "SEARCH_002", original_exception=error
            ) from error

    async def _by_vector(
        self, vector: list[float] | None, filters: MemoryFilter, depth: int
    ) -> list[VectorSearchResult]:
        if vector is None:
            return []
        request = VectorSearchRequest.model_construct(
            query_embedding=vector, limit=depth, min_similarity=MIN_SIMILARITY, filters=filters
        )
        try:
            return await self.storage.vector_search(request)
        except QueryError as error:
            raise SearchError(
                "The vector search failed.", "SEARCH_001", original_exception=error
            ) from error

    async def _describe(self, hits: list[HybridSearchResult]) -> list[SearchResult]:
        summaries = await self.storage.get_summaries([hit.memory_id for hit in hits])
        # A memory deleted a moment ago has no summary any more.
        return [
            SearchResult(
                memory_id=hit.memory_id,
                chunk_id=hit.chunk_id,
                text=hit.text,
                score=round(hit.fused_score, 4),
                similarity_score=round(hit.similarity_score, 4),
                bm25_score=round(hit.bm25_score, 4),
                metadata=hit.metadata,
                project=summary.project,
                source=summary.source,
                kind=summary.kind,
                tags=summary.tags,
                pinned=summary.pinned,
                parent=summary.parent,
                position=summary.position,
                occurred_at=summary.occurred_at,
                created_at=summary.created_at,
            )
            for hit in hits
            if (summary := summaries.get(hit.memory_id)) is not None
        ]


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _best_per_memory(
    words: list[BM25SearchResult], near: list[VectorSearchResult]
) -> list[HybridSearchResult]:
    bm25 = {hit.chunk_id: hit.bm25_score for hit in words}
    similarity = {hit.chunk_id: hit.similarity_score for hit in near}
    fused = fuse([(WORDS_WEIGHT, bm25), (VECTOR_WEIGHT, similarity)])
    found = {hit.chunk_id: hit for hit in (*words, *near)}
    best: dict[str, HybridSearchResult] = {}
    # Equal scores are settled by id, so that pages never overlap.
    for chunk_id in sorted(fused, key=lambda c: (-fused[c], c)):
        hit = found[chunk_id]
        if hit.memory_id not in best:
            best[hit.memory_id] = HybridSearchResult(
                chunk_id=chunk_id,
                memory_id=hit.memory_id,
                text=hit.text,
                metadata=hit.metadata,
                similarity_score=similarity.get(chunk_id, 0.0),
                bm25_score=bm25.get(chunk_id, 0.0),
                fused_score=fused[chunk_id],
            )
    return list(best.values())
