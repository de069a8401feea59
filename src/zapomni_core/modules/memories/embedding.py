"""Vectors of texts: which embedder makes them, and how stored passages get the ones they lack.

The configured embedder is tried first, then the local one; two models are never mixed.
"""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from zapomni_core.exceptions import (
    CacheError,
    DatabaseError,
    EmbeddingError,
)
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import ModelEmbedder, TokenEmbedder
from zapomni_core.shared.code import condense_code, is_private, role_of
from zapomni_core.shared.languages import is_english_model, is_foreign, readable_part
from zapomni_core.shared.text import question_key
from zapomni_db.code_models import CODE_KIND
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import ChunkVector, Embedding, EmbeddingSpace, PendingChunk, QueryEmbedding

if TYPE_CHECKING:
    from zapomni_db.cache.redis_cache import RedisCache

__all__ = [
    "BATCH",
    "Embedded",
    "EmbeddingChain",
    "Progress",
    "ask_cache",
    "fill_pending",
    "fill_second",
    "reembed",
]

log = get_logger(__name__)

Stored = Callable[[EmbeddingSpace, Sequence[str]], Awaitable[dict[str, Embedding]]]
"""Looks up what the database already has for exactly these texts."""
T = TypeVar("T")

Progress = Callable[[int, int], Awaitable[None] | None]
"""Called with how many are done and how many there are in all, and awaited if it wants to be."""

# Passages embedded and committed at once.
BATCH = 32
# So many are put in the order in which they are likely asked for.
ORDERED_AT_ONCE = 2048
# Passages checked for the second space and committed at once: a second of work if all are foreign.
CHECKED_AT_ONCE = 128

QUESTIONS_CACHED = 256


@dataclass(frozen=True)
class Embedded:
    """What was made of each text, and the space its vectors belong to."""

    space: EmbeddingSpace
    texts: list[Embedding]


class EmbeddingChain:
    """Tries embedders in order and embeds only what neither caches nor database know.

    Args:
        embedders: What makes vectors, in the order they are tried.
        second: Reads the languages that an English model does not, if it is on this machine.
        stored: Looks up what the database has.
        shared: What many machines share. Whatever becomes of it, no call fails by it.
        cache_size: How many texts this process keeps.
    """

    def __init__(
        self,
        embedders: Sequence[ModelEmbedder],
        stored: Stored | None = None,
        shared: RedisCache | None = None,
        cache_size: int = 1024,
        second: ModelEmbedder | None = None,
    ) -> None:
        self.embedders = list(embedders)
        self.second = second
        self.filling = asyncio.Lock()
        """Held by who makes the vectors that stored passages lack."""
        self.unused: str | None = None
        """Why the configured embedder did not make the last vectors; None if it did."""
        self._stored = stored
        self._shared = shared
        self._cache = _VectorCache(cache_size)
        self._questions: OrderedDict[tuple[EmbeddingSpace, str], QueryEmbedding] = OrderedDict()
        self._lookups = 0
        self._hits = 0

    @property
    def hit_rate(self) -> float | None:
        """The share of texts that needed no embedding; None before the first."""
        return self._hits / self._lookups if self._lookups else None

    async def embed(
        self,
        texts: Sequence[str],
        active: EmbeddingSpace | None = None,
        condensed: Mapping[str, str] | None = None,
    ) -> Embedded:
        """Embed texts to be stored; `active` is the space the store's vectors belong to.

        Args:
            texts: What is stored, and what caches know vectors by.
            active: The space of the store.
            condensed: What a model reads in place of a text, if that is not all of it.

        Raises:
            EmbeddingError: EMB_005 if the configured embedder works, but makes vectors of another
                space, and no other one helps out; else what the first one tried failed with.
        """

        async def make(embedder: ModelEmbedder, space: EmbeddingSpace) -> Embedded:
            made = await self._embeddings(embedder, space, texts, condensed or {})
            return Embedded(space, made)

        return await self._first_that_works(active, make)

    async def embed_query(self, text: str, active: EmbeddingSpace | None = None) -> QueryEmbedding:
        """Embed a question to be compared with the store's vectors.

        One that was asked in other letters, with other blanks or punctuation is not embedded again.
        """
        key = question_key(text)

        async def make(embedder: ModelEmbedder, space: EmbeddingSpace) -> QueryEmbedding:
            self._lookups += 1
            known = self._questions.get((space, key))
            if known is not None:
                self._hits += 1
                return known
            if isinstance(embedder, TokenEmbedder):
                made = await embedder.embed_query_with_tokens(text)
            else:
                vector = await embedder.embed_query(text)
                made = QueryEmbedding.model_construct(vector=vector, tokens=None, words=[])
            self._remember_question(space, key, made)
            return made

        return await self._first_that_works(active, make)

    async def second_for(self, space: EmbeddingSpace | None) -> ModelEmbedder | None:
        """Return what reads the languages that the model of a space does not, if it is here."""
        if self.second is None or space is None or not is_english_model(space.model):
            return None
        try:
            await self.second.space()
        except EmbeddingError:
            return None
        return self.second

    async def embed_second_query(
        self, text: str, active: EmbeddingSpace | None, space: EmbeddingSpace
    ) -> list[float] | None:
        """Embed a question to be compared with the vectors of the second space, if it can be."""
        embedder = await self.second_for(active)
        if embedder is None or await embedder.space() != space:
            return None
        key = question_key(text)
        known = self._questions.get((space, key))
        if known is None:
            vector = await embedder.embed_query(text)
            known = QueryEmbedding.model_construct(vector=vector, tokens=None, words=[])
            self._remember_question(space, key, known)
        return known.vector

    def _remember_question(self, space: EmbeddingSpace, key: str, made: QueryEmbedding) -> None:
        self._questions[space, key] = made
        if len(self._questions) > QUESTIONS_CACHED:
            self._questions.popitem(last=False)

    def find_mismatch(self, stored_model: str | None) -> str | None:
        """Return what to say if stored vectors are from another model than the configured one.

        No server is asked: the models' names decide.
        """
        if not self.embedders or stored_model in (None, self.embedders[0].model_id):
            return None
        return (
            f"The stored vectors are from {stored_model}; the configured "
            f"{self.embedders[0].model_id} is not used. "
            "Run `zapomni models reembed` to switch to it."
        )

    async def close(self) -> None:
        """Release every connection."""
        for embedder in (*self.embedders, *([self.second] if self.second else [])):
            await embedder.close()
        if self._shared is not None:
            await self._shared.close()

    async def _first_that_works(
        self,
        active: EmbeddingSpace | None,
        make: Callable[[ModelEmbedder, EmbeddingSpace], Awaitable[T]],
    ) -> T:
        failures: list[tuple[ModelEmbedder, EmbeddingError]] = []
        others: list[EmbeddingSpace] = []
        for embedder in self.embedders:
            try:
                space = await embedder.space()
                if active is not None and space != active:
                    others.append(space)
                    continue
                made = await make(embedder, space)
            except EmbeddingError as error:
                failures.append((embedder, error))
                continue
            self.unused = self._explain_unused(embedder, active, failures)
            for failed, reason in failures:
                log.warning(
                    "embedding_fallback",
                    failed=failed.name,
                    error_code=reason.error_code,
                    used=embedder.name,
                )
            return made
        if failures and (not others or failures[0][0] is self.embedders[0]):
            raise failures[0][1]
        if active is None or not others:
            raise EmbeddingError(
                "Embeddings are switched off: the setting embedder is none.", "EMB_004"
            )
        raise EmbeddingError(
            f"The stored vectors belong to the model {active.model}, "
            f"dimension {active.dimension}. "
            f"Run `zapomni models reembed` to switch to {others[0].model}, "
            "or configure the old model again.",
            "EMB_005",
        )

    def _explain_unused(
        self,
        used: ModelEmbedder,
        active: EmbeddingSpace | None,
        failures: Sequence[tuple[ModelEmbedder, EmbeddingError]],
    ) -> str | None:
        if used is self.embedders[0]:
            return None
        if failures and failures[0][0] is self.embedders[0]:
            return (
                f"{failures[0][1].message} The vectors are made by {used.model_id} instead. "
                f"When {failures[0][0].name} works, run `zapomni models reembed` to switch to it."
            )
        # It works, and makes vectors of another space than the stored ones.
        return self.find_mismatch(active.model if active else None)

    async def _embeddings(
        self,
        embedder: ModelEmbedder,
        space: EmbeddingSpace,
        texts: Sequence[str],
        condensed: Mapping[str, str],
    ) -> list[Embedding]:
        wanted = list(dict.fromkeys(texts))
        known = {text: found for text in wanted if (found := self._cache.get(space, text))}
        missing = [text for text in wanted if text not in known]
        if missing and self._stored is not None:
            known |= await self._stored(space, missing)
            missing = [text for text in wanted if text not in known]
        if missing and self._shared is not None:
            known |= await _or_nothing(self._shared.get(space, missing)) or {}
            missing = [text for text in wanted if text not in known]
        self._lookups += len(wanted)
        self._hits += len(wanted) - len(missing)
        if missing:
            read = [condensed.get(text) or text for text in missing]
            if is_english_model(space.model):
                read = list(map(readable_part, read))
            if isinstance(embedder, TokenEmbedder):
                made = await embedder.embed_with_tokens(read)
            else:
                vectors = await embedder.embed(read)
                made = [Embedding.model_construct(vector=vector, tokens=None) for vector in vectors]
            known |= zip(missing, made, strict=True)
            for text in missing:
                self._cache.put(space, text, known[text])
            if self._shared is not None:
                await _or_nothing(self._shared.put(space, {text: known[text] for text in missing}))
        return [known[text] for text in texts]


async def ask_cache(answer: Awaitable[T]) -> T:
    """Return what the shared cache answers.

    Raises:
        CacheError: CACHE_001, it cannot be reached or does not answer in time.
    """
    try:
        return await answer
    except DatabaseError as error:
        raise CacheError(error.message, "CACHE_001", original_exception=error) from error


async def _or_nothing(answer: Awaitable[T]) -> T | None:
    try:
        return await ask_cache(answer)
    except CacheError as error:
        log.warning("embedding_cache_failed", error_code=error.error_code)
        return None


class _VectorCache:
    """What was made last; four bytes per number instead of a Python float's 24."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[tuple[EmbeddingSpace, bytes], tuple[array[float], bytes | None]] = (
            OrderedDict()
        )

    def get(self, space: EmbeddingSpace, text: str) -> Embedding | None:
        key = (space, _digest(text))
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        return Embedding.model_construct(vector=kept[0].tolist(), tokens=kept[1])

    def put(self, space: EmbeddingSpace, text: str, made: Embedding) -> None:
        self._kept[space, _digest(text)] = (array("f", made.vector), made.tokens)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


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
        while waiting := await storage.get_pending(None, ORDERED_AT_ONCE):
            waiting.sort(key=_urgency)
            for start in range(0, len(waiting), BATCH):
                batch = waiting[start : start + BATCH]
                await _embed_batch(storage, embeddings, await storage.get_space(), batch)
                done += len(batch)
                await _report(progress, done, max(done, total))
        return done


def _urgency(chunk: PendingChunk) -> int:
    """Return when the vector of a passage is made: what is likely asked for comes first.

    Notes, then code that other files may use, other code, tests, docs; of these in the order they
    were stored in, which is that of the latest change.
    """
    if chunk.kind != CODE_KIND:
        return 0
    role = role_of(chunk.source)
    return {"code": 2 if is_private(chunk.text) else 1, "test": 3, "docs": 4}[role]


async def fill_second(
    storage: StorageProvider,
    embeddings: EmbeddingChain,
    progress: Progress | None = None,
    most: int | None = None,
) -> int:
    """Make the vectors of passages that the active space's model does not read; return how many.

    Args:
        storage: Where they are.
        embeddings: Has the model that reads them, or not.
        progress: Is called with how many passages were checked.
        most: Check no more passages than this.
    """
    embedder = await embeddings.second_for(await storage.get_space())
    if embedder is None:
        return 0
    space = await embedder.space()
    done = checked = 0
    async with embeddings.filling:
        while batch := await storage.get_unseen(space, CHECKED_AT_ONCE):
            foreign = [chunk for chunk in batch if is_foreign(chunk.text)]
            is_last = len(batch) < CHECKED_AT_ONCE
            if not foreign and is_last:
                # A few English passages are checked again next time: cheaper than to store that.
                break
            made = await embedder.embed([chunk.text for chunk in foreign])
            vectors = [
                ChunkVector.model_construct(chunk_id=chunk.chunk_id, embedding=vector, tokens=None)
                for chunk, vector in zip(foreign, made, strict=True)
            ]
            await storage.store_second(space, vectors, batch[-1].chunk_id)
            done += len(foreign)
            checked += len(batch)
            await _report(progress, checked, max(checked, await storage.count_chunks()))
            if is_last or (most is not None and checked >= most):
                break
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
            await _report(progress, done, max(done, total))
        elif not await storage.activate_space(target):
            return done


async def _embed_batch(
    storage: StorageProvider,
    embeddings: EmbeddingChain,
    space: EmbeddingSpace | None,
    batch: Sequence[PendingChunk],
) -> None:
    code = {
        chunk.text: condense_code(chunk.text, role_of(chunk.source))
        for chunk in batch
        if chunk.kind == CODE_KIND
    }
    made = await embeddings.embed([chunk.text for chunk in batch], space, code)
    vectors = [
        ChunkVector.model_construct(
            chunk_id=chunk.chunk_id, embedding=text.vector, tokens=text.tokens
        )
        for chunk, text in zip(batch, made.texts, strict=True)
    ]
    await storage.store_vectors(made.space, vectors)


async def _report(progress: Progress | None, done: int, total: int) -> None:
    reported = None if progress is None else progress(done, total)
    if reported is not None:
        await reported
