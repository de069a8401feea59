"""Memories that are alike: which ones a new one may replace.

Facts are compared: notes, decisions, preferences and other short texts that belong to nothing
larger. Documents, commits, code and turns of conversations resemble each other without replacing
each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from zapomni_core.exceptions import DatabaseError
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import AddMemoryRequest, SimilarMemory
from zapomni_core.shared.text import encodable, query_terms, word_stems
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    MemoryFilter,
    MemorySummary,
    Passage,
    TextSearchRequest,
    VectorSearchRequest,
)

__all__ = ["find_similar", "is_fact"]

NOT_FACTS = frozenset(["document", "commit", "code", "transcript", "conversation", "log"])
# More passages are a document, whatever its kind.
MOST_PASSAGES = 3
SHOWN = 3
# From this cosine on two facts are similar; from the lower one on if they also share words.
SIMILAR, SIMILAR_IN_WORDS = 0.7, 0.45
# Which share of the shorter text's words the other one has to contain then, and without vectors.
LEAST_WORDS = 0.5
# How many are compared: others of the project may be no facts.
COMPARED = 30
# A word that more passages contain is not rare: a share of all, and a few in any case.
RARE_AT_LEAST, RARE_SHARE = 30, 20

logger = get_logger(__name__)


def is_fact(kind: str, parent: str, passages: int) -> bool:
    """Return whether a memory is a fact that another one may replace."""
    return kind not in NOT_FACTS and not parent and passages <= MOST_PASSAGES


async def find_similar(
    storage: StorageProvider, request: AddMemoryRequest, vector: Sequence[float] | None
) -> list[SimilarMemory]:
    """Return current facts of the same project that resemble a new one, the nearest first.

    They share a rare word, and have a cosine of at least .7, or of .45 if half of the shorter
    text's words are shared. Without a vector the words decide alone. What resembles an earlier
    wording of a fact resembles the fact: the memory that superseded it last is returned. Never
    raises for the store: a notice is not worth a failed add.
    """
    try:
        return await _find_similar(storage, request, vector)
    except DatabaseError as error:
        logger.warning("similar_memories_not_read", error_code=error.error_code)
        return []


async def _find_similar(
    storage: StorageProvider, request: AddMemoryRequest, vector: Sequence[float] | None
) -> list[SimilarMemory]:
    filters = MemoryFilter(project=request.project, not_kind="code", include_superseded=True)
    own = word_stems(request.text)
    if vector is not None:
        nearest = await storage.rank_by_vector(
            VectorSearchRequest.model_construct(
                query_embedding=list(vector),
                limit=COMPARED,
                min_similarity=SIMILAR_IN_WORDS,
                filters=filters,
            )
        )
        scores = nearest.scores
    else:
        terms = encodable(query_terms(request.text))
        scores = await storage.rank_by_words(
            TextSearchRequest(terms=terms, limit=COMPARED, filters=filters)
        )
    if not scores:
        return []
    passages = await storage.get_passages(list(scores))
    shared: dict[str, set[str]] = {}
    for chunk_id, passage in passages.items():
        other = word_stems(passage.text)
        words = {own[stem] for stem in own.keys() & other.keys()}
        is_near = vector is not None and scores[chunk_id] >= SIMILAR
        if is_near or len(words) >= LEAST_WORDS * min(len(own), len(other)):
            shared[chunk_id] = words
    rare = await _rare_words(storage, sorted(set().union(*shared.values())))
    found: dict[str, Passage] = {}
    for chunk_id in scores:
        if shared.get(chunk_id, set()) & rare:
            found.setdefault(passages[chunk_id].memory_id, passages[chunk_id])
    current = await _current(storage, list(found))
    similar: dict[str, SimilarMemory] = {}
    for memory_id, passage in found.items():
        known = current.get(memory_id)
        if (
            known is not None
            and known.memory_id != request.supersedes
            and known.memory_id not in similar
            and is_fact(known.kind, known.parent, known.chunk_count)
        ):
            similar[known.memory_id] = SimilarMemory(
                memory_id=known.memory_id,
                text=passage.text if known.memory_id == memory_id else known.preview,
                kind=known.kind,
                occurred_at=known.occurred_at,
                similarity=None if vector is None else round(scores[passage.chunk_id], 4),
            )
    return list(similar.values())[:SHOWN]


async def _current(storage: StorageProvider, memory_ids: Sequence[str]) -> dict[str, MemorySummary]:
    """Return for each memory the one that is current: itself, or what superseded it last."""
    known = await storage.get_summaries(memory_ids)
    newer = {s.superseded_by for s in known.values() if s.superseded_by} - known.keys()
    # A memory is superseded by one stored later, so this ends.
    while newer:
        more = await storage.get_summaries(sorted(newer))
        known |= more
        newer = {s.superseded_by for s in more.values() if s.superseded_by} - known.keys()
    current = {}
    for memory_id in memory_ids:
        summary = known.get(memory_id)
        while summary is not None and summary.superseded_by is not None:
            summary = known.get(summary.superseded_by)
        if summary is not None:
            current[memory_id] = summary
    return current


async def _rare_words(storage: StorageProvider, words: Sequence[str]) -> set[str]:
    """Return those of the words that few passages contain."""
    if not words:
        return set()
    limit = max(RARE_AT_LEAST, await storage.count_chunks() // RARE_SHARE)
    matches = await storage.find_matches(encodable(words), limit)
    return {word for word, found in matches.items() if found is not None}
