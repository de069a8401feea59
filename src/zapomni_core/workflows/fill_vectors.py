"""Making vectors for chunks that have none: after an outage, or in another model's space.

Both loops commit after every batch: stopped at any point, they go on where they were.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from zapomni_core.adapters.embedding_chain import EmbeddingChain
from zapomni_core.exceptions import EmbeddingError
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import EmbeddingSpace
from zapomni_db.vector_models import ChunkVector, PendingChunk

__all__ = ["Progress", "fill_pending", "reembed"]

Progress = Callable[[int, int], Awaitable[None] | None]
"""Called with how many are done and how many there are in all, and awaited if it wants to be."""

BATCH = 32


async def fill_pending(
    storage: StorageProvider, embeddings: EmbeddingChain, progress: Progress | None = None
) -> int:
    """Make the vectors still missing in the active space; return how many.

    Raises:
        EmbeddingError: No embedder fits the stored vectors, or none works.
    """
    # One at a time in a process: two would make the same vectors.
    async with embeddings.filling:
        done, total = 0, await storage.count_pending(None)
        while batch := await storage.get_pending(None, BATCH):
            await _embed_batch(storage, embeddings, await storage.get_space(), batch)
            done += len(batch)
            await _tell(progress, done, max(done, total))
        return done


async def reembed(
    storage: StorageProvider, embeddings: EmbeddingChain, progress: Progress | None = None
) -> int:
    """Move every vector into the configured embedder's space; return how many were made.

    Searches use the old vectors until the last new one is stored.
    """
    if not embeddings.embedders:
        raise EmbeddingError("No embedder is configured: the setting embedder is none.", "EMB_004")
    target = await embeddings.embedders[0].space()
    done, total = 0, await storage.count_pending(target)
    while True:
        batch = await storage.get_pending(target, BATCH)
        if batch:
            await _embed_batch(storage, embeddings, target, batch)
            done += len(batch)
            await _tell(progress, done, max(done, total))
        elif not await storage.activate_space(target):
            return done


async def _tell(progress: Progress | None, done: int, total: int) -> None:
    told = None if progress is None else progress(done, total)
    if told is not None:
        await told


async def _embed_batch(
    storage: StorageProvider,
    embeddings: EmbeddingChain,
    space: EmbeddingSpace | None,
    batch: Sequence[PendingChunk],
) -> None:
    made = await embeddings.embed([chunk.text for chunk in batch], space)
    vectors = [
        ChunkVector.model_construct(
            chunk_id=chunk.chunk_id, embedding=text.vector, tokens=text.tokens
        )
        for chunk, text in zip(batch, made.texts, strict=True)
    ]
    await storage.store_vectors(made.space, vectors)
