"""Memories that are alike: which ones a new one may replace.

Facts are compared: notes, decisions, preferences and other short texts that belong to nothing
larger. Documents, commits, code and turns of conversations resemble each other without replacing
each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from zapomni_core.exceptions import DatabaseError
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import AddMemoryRequest, SimilarMemory
from zapomni_core.shared.text import encodable, query_terms, word_stems
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    MemoryFilter,
    Passage,
    TextSearchRequest,
    VectorSearchRequest,
)

__all__ = ["cosine", "find_similar", "is_fact"]

NOT_FACTS = frozenset(["document", "commit", "code", "transcript", "conversation", "log"])
# More passages are a document, whatever its kind.
MOST_PASSAGES = 3
SHOWN = 3
LEAST_COSINE = 0.7
# Without vectors: which share of the shorter text's words the other one has to contain.
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

    They have a cosine of at least .7 and share a rare word. Without a vector, half of the shorter
    text's words are shared, a rare one among them. Never raises for the store: a notice is not
    worth a failed add.
    """
    try:
        return await _find_similar(storage, request, vector)
    except DatabaseError as error:
        logger.warning("similar_memories_not_read", error_code=error.error_code)
        return []


async def _find_similar(
    storage: StorageProvider, request: AddMemoryRequest, vector: Sequence[float] | None
) -> list[SimilarMemory]:
    filters = MemoryFilter(project=request.project, not_kind="code")
    own = word_stems(request.text)
    if vector is not None:
        nearest = await storage.rank_by_vector(
            VectorSearchRequest.model_construct(
                query_embedding=list(vector),
                limit=COMPARED,
                min_similarity=LEAST_COSINE,
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
    shared = {
        chunk_id: {own[stem] for stem in own.keys() & word_stems(passages[chunk_id].text).keys()}
        for chunk_id in scores
        if chunk_id in passages
    }
    if vector is None:
        shared = {
            chunk_id: words
            for chunk_id, words in shared.items()
            if len(words) >= LEAST_WORDS * min(len(own), len(word_stems(passages[chunk_id].text)))
        }
    rare = await _rare_words(storage, sorted(set().union(*shared.values())))
    found: dict[str, Passage] = {}
    for chunk_id, words in shared.items():
        if words & rare:
            found.setdefault(passages[chunk_id].memory_id, passages[chunk_id])
    summaries = await storage.get_summaries([i for i in found if i != request.supersedes])
    similar = [
        SimilarMemory(
            memory_id=memory_id,
            text=passage.text,
            kind=known.kind,
            occurred_at=known.occurred_at,
            similarity=None if vector is None else round(scores[passage.chunk_id], 4),
        )
        for memory_id, passage in found.items()
        if (known := summaries.get(memory_id)) is not None
        and is_fact(known.kind, known.parent, known.chunk_count)
    ]
    return similar[:SHOWN]


async def _rare_words(storage: StorageProvider, words: Sequence[str]) -> set[str]:
    """Return those of the words that few passages contain."""
    if not words:
        return set()
    limit = max(RARE_AT_LEAST, await storage.count_chunks() // RARE_SHARE)
    matches = await storage.find_matches(encodable(words), limit)
    return {word for word, found in matches.items() if found is not None}


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return how near two vectors are."""
    lengths = math.hypot(*first) * math.hypot(*second)
    product = sum(a * b for a, b in zip(first, second, strict=True))
    return product / lengths if lengths > 0 else 0.0
