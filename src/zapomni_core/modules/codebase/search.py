"""Searches code: the search of memories over passages of code, reported by symbol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from zapomni_core.exceptions import ValidationError
from zapomni_core.interfaces import SearchRequest, SearchResponse, SearchResult
from zapomni_core.modules.codebase.index import passage_digest
from zapomni_core.modules.codebase.lookup import repositories_for
from zapomni_core.modules.codebase.schemas import CodeHit, CodeSearchRequest, CodeSearchResponse
from zapomni_core.shared.text import identifier_words, query_terms, share_of_words
from zapomni_db.code_models import CODE_KIND, IndexedFile
from zapomni_db.sqlite.code import SqliteCode

__all__ = ["search_code"]


MAX_LIMIT = 100
# How many passages are checked for names that fit better than their rank.
LOOKED_AT = 50
# What speaks for a hit: its rank, how much of its name was asked for, how much of the question
# its name is, and that it defines something. Measured by `benchmarks.code_search`.
RANK, NAME, QUESTION, DEFINES = 20, 0.01, 0.02, 0.002
HIGHEST = 1 / RANK + NAME + QUESTION + DEFINES
DEFINITIONS = frozenset("class enum function interface macro method struct trait type".split())
# How much deeper each look goes when a filter leaves too few.
DEEPER = 4
DEEPEST = 1000

Search = Callable[[SearchRequest], Awaitable[SearchResponse]]


async def search_code(
    store: SqliteCode, search: Search, request: CodeSearchRequest
) -> CodeSearchResponse:
    """Return symbols, best first, each by its best passage."""
    if not 1 <= request.limit <= MAX_LIMIT:
        raise ValidationError(f"limit must be from 1 to {MAX_LIMIT}", "VAL_003")
    repositories = await repositories_for(store, request.repository, request.folder)
    filters: dict[str, object] = {"kind": CODE_KIND}
    tags = [f"lang:{request.language.strip().lower()}"] if request.language else []
    if repositories is not None and len(repositories) == 1:
        tags.append(repositories[0].tag)
    elif repositories is not None:
        projects = {repository.project for repository in repositories}
        if len(projects) > 1:
            raise ValidationError("Several repositories have this name; give its folder", "VAL_004")
        filters["project"] = projects.pop()
    if tags:
        filters["tags"] = tags
    if request.path:
        filters["path"] = request.path
    depth = max(request.limit, LOOKED_AT)
    while True:
        asked = SearchRequest(
            query=request.query,
            limit=depth,
            filters=filters,
            within="memories",
            every_passage=True,
        )
        found = await search(asked)
        hits = await _hits(store, found.results, request.kind)
        enough = len(hits) >= request.limit or len(found.results) < depth or depth == DEEPEST
        if enough:
            best = _by_name(hits, request.query)[: request.limit]
            return CodeSearchResponse(hits=best, notice=found.notice)
        depth = min(depth * DEEPER, DEEPEST)


async def _hits(store: SqliteCode, results: list[SearchResult], kind: str) -> list[CodeHit]:
    places = await store.get_places(list(dict.fromkeys(hit.memory_id for hit in results)))
    hits: dict[int, CodeHit] = {}
    for result in results:
        place = places.get(result.memory_id)
        hit = None if place is None else _hit(result, place)
        if hit is not None and (not kind or hit.kind == kind):
            hits.setdefault(hit.id, hit)
    return list(hits.values())


def _by_name(hits: list[CodeHit], query: str) -> list[CodeHit]:
    """Rank again: who asks for a thing in words uses those of its name."""
    asked = query_terms(query)
    ranked = []
    for rank, hit in enumerate(hits):
        words = identifier_words(hit.name.rpartition(".")[2].partition("#")[0])
        score = 1 / (rank + RANK) + DEFINES * (hit.kind in DEFINITIONS)
        score += NAME * share_of_words(words, f"{query} {' '.join(asked)}")
        score += QUESTION * share_of_words(asked, " ".join(words))
        ranked.append(hit.model_copy(update={"score": round(score / HIGHEST, 4)}))
    return sorted(ranked, key=lambda hit: -hit.score)


def _hit(result: SearchResult, place: IndexedFile) -> CodeHit | None:
    digest = passage_digest(result.text)
    passage = next((p for p in place.passages if p.digest == digest), None)
    if passage is None:
        return None  # Indexed again a moment ago.
    symbol = place.symbols[passage.symbol]
    return CodeHit(
        id=symbol.id,
        repository=place.root,
        path=place.path,
        language=place.language,
        kind=symbol.kind,
        name=symbol.qualified_name,
        signature=symbol.signature,
        start_line=passage.start_line,
        end_line=passage.end_line,
        score=result.score,
        text=result.text,
    )
