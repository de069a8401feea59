"""Keeping texts: check, split, embed, store. Also changing the text of one already kept.

A text is stored even when no vector can be made: it is found by its words at once, and by its
meaning as soon as `fill_pending` has caught up.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from zapomni_core.exceptions import (
    DatabaseError,
    EmbeddingError,
    NotFoundError,
    ProcessingError,
)
from zapomni_core.infra.cancelling import Uninterrupted
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import (
    AddMemoryRequest,
    AddMemoryResponse,
    TextChunker,
    UpdatedMemory,
    UpdateMemoryRequest,
)
from zapomni_core.modules.memories import EmbeddingChain, validate_add, validate_update
from zapomni_core.shared.redaction import Redactor
from zapomni_core.shared.text import context_words
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    Chunk,
    ChunkData,
    Embedding,
    EmbeddingSpace,
    MemoryData,
    MemoryPatch,
    MemoryRecord,
    StoredMemory,
)

__all__ = ["Writer"]

# Beyond this many chunks the caller is not kept waiting for vectors: some 50,000 tokens.
EMBED_AT_ONCE = 256
# Memories per transaction: long enough to be fast, short enough for a waiting hook.
STORE_AT_ONCE = 64
PREVIEW_CHARS = 100

_NOTICES = {
    "duplicate": "The same text is already kept; this is its id.",
    "replayed": "This idempotency key was used before; this is what it stored.",
}
_LATER = "Long text: its vectors are made in the background; until then it is found by its words."

ThenAdded = Callable[[int, AddMemoryResponse], Awaitable[None]]
ThenUpdated = Callable[[MemoryRecord], Awaitable[None]]

# Where a secret may be; the other fields are names and numbers.
_SCANNED = ("text", "metadata", "source", "tags")

logger = get_logger(__name__)


@dataclass(frozen=True)
class Checked:
    """A valid request, its secrets masked if that was asked for."""

    request: AddMemoryRequest
    preview: str
    """How it begins, without secrets."""
    notice: str | None
    """Which kinds of secrets it has or had."""


@dataclass(frozen=True)
class _Draft:
    """A valid request, split."""

    request: AddMemoryRequest
    chunks: list[Chunk]


@dataclass(frozen=True)
class Writer:
    """The parts that keeping a text needs."""

    storage: StorageProvider
    chunker: TextChunker
    embeddings: EmbeddingChain
    chunk_size: int
    uninterrupted: Uninterrupted
    redactor: Redactor

    async def check(self, requests: Sequence[AddMemoryRequest]) -> list[Checked]:
        """Check everything before anything is stored: limits, and whether there are secrets."""
        valid = [validate_add(request) for request in requests]
        return await asyncio.to_thread(lambda: [self._checked(request) for request in valid])

    def _checked(self, request: AddMemoryRequest) -> Checked:
        fields = {name: getattr(request, name) for name in _SCANNED}
        masked, notice = self._scan(fields, redact=request.redact)
        kept = request.model_copy(update=masked) if request.redact else request
        return Checked(kept, masked["text"][:PREVIEW_CHARS], notice)

    def _scan(self, fields: dict[str, Any], *, redact: bool) -> tuple[dict[str, Any], str | None]:
        """Return the fields with secrets masked, and words on what was found."""
        kinds: Counter[str] = Counter()
        masked = {name: self._mask(value, kinds) for name, value in fields.items()}
        if not kinds:
            return masked, None
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        if redact:
            return masked, f"Secrets were masked before it was stored: {found}."
        return masked, (
            f"It seems to contain secrets, and they are stored as they are: {found}. "
            "To have them masked, forget it and add it again with redact."
        )

    def _mask(self, value: Any, kinds: Counter[str]) -> Any:
        """Mask the secrets in every text of a JSON value, and count them by kind."""
        if isinstance(value, str):
            spans = self.redactor.find(value)
            kinds.update(kind for _, _, kind in spans)
            return self.redactor.mask(value, spans) if spans else value
        if isinstance(value, list):
            return [self._mask(one, kinds) for one in value]
        if isinstance(value, dict):
            return {name: self._mask_named(name, one, kinds) for name, one in value.items()}
        return value

    def _mask_named(self, name: str, value: Any, kinds: Counter[str]) -> Any:
        """Mask a value of an object: its name may give it away."""
        if isinstance(value, str):
            line = f'"{name}": "{value}"'
            first = len(name) + 5
            for start, end, kind in self.redactor.find(line):
                if start == first and end == len(line) - 1:
                    kinds[kind] += 1
                    return self.redactor.mask(line, [(start, end, kind)])[first:-1]
        return self._mask(value, kinds)

    async def add(
        self, checked: Sequence[Checked], then: ThenAdded | None = None
    ) -> list[AddMemoryResponse]:
        """Store in batches, in order.

        `then` is called for each request after it is stored: with its number and its answer. No
        cancellation comes between the two.

        Raises:
            ProcessingError: PROC_004, the store failed when some of them were stored already.
        """
        responses: list[AddMemoryResponse] = []
        for batch in _batches([one.request for one in checked], STORE_AT_ONCE):
            try:
                responses.extend(await self._add_batch(batch, then, len(responses)))
            except DatabaseError as error:
                if not responses:
                    raise
                raise ProcessingError(
                    f"{len(responses)} of {len(checked)} memories were stored before the database "
                    "failed. Add them again: what is stored already is not stored twice.",
                    "PROC_004",
                    details={"stored": len(responses), "given": len(checked)},
                    original_exception=error,
                ) from error
        return [
            response.model_copy(
                update={"notice": _joined(one.notice, response.notice), "text_preview": one.preview}
            )
            for one, response in zip(checked, responses, strict=True)
        ]

    async def _add_batch(
        self, batch: Sequence[AddMemoryRequest], then: ThenAdded | None, first: int
    ) -> list[AddMemoryResponse]:
        known = [
            await self.storage.find_existing(
                r.project, r.text, r.idempotency_key, r.parent, r.position
            )
            for r in batch
        ]
        drafts = [
            _Draft(request, await self._split(request.text, request.kind, request.source))
            for request, existing in zip(batch, known, strict=True)
            if existing is None
        ]
        vectors, space, notice = await self._embed([c for d in drafts for c in d.chunks])
        fresh = iter(drafts)
        memories, remaining = [], iter(vectors)
        for draft in drafts:
            own = [next(remaining) for _ in draft.chunks]
            memories.append(_memory(draft, own, space))

        async def store() -> list[AddMemoryResponse]:
            stored = iter(await self.storage.store_memories(memories) if memories else [])
            answers: list[AddMemoryResponse] = []
            for request, existing in zip(batch, known, strict=True):
                if existing is not None:
                    answers.append(_answer(request, existing, 0, 0, None))
                else:
                    chunks = len(next(fresh).chunks)
                    pending = chunks if space is None else 0
                    answers.append(_answer(request, next(stored), chunks, pending, notice))
            if then is not None:
                for number, answer in enumerate(answers, first):
                    await then(number, answer)
            return answers

        return await self.uninterrupted.run(store())

    async def update(
        self, request: UpdateMemoryRequest, then: ThenUpdated | None = None
    ) -> UpdatedMemory:
        """Change a memory at once; a new text is split and embedded like any other.

        `then` is called with the memory as it is now. No cancellation comes between the two.
        """
        valid = validate_update(request)
        given = {name: getattr(valid, name) for name in _SCANNED if getattr(valid, name)}
        is_remasked = valid.redact and not given
        if is_remasked:
            stored = await self.storage.get_memory(valid.memory_id)
            if stored is None:
                raise NotFoundError("No memory has this id.")
            given = {name: getattr(stored, name) for name in _SCANNED if getattr(stored, name)}
        masked, notice = await asyncio.to_thread(self._scan, given, redact=valid.redact)
        if is_remasked and notice:
            notice += " Its history still has them; only forgetting it leaves nothing."
        if valid.redact:
            valid = valid.model_copy(update=masked)
        patch = MemoryPatch(**valid.model_dump(exclude={"memory_id"}))
        if valid.text is not None:
            known = (await self.storage.get_summaries([valid.memory_id])).get(valid.memory_id)
            kind, source = (known.kind, known.source) if known else ("", "")
            chunks = await self._split(valid.text, valid.kind or kind, valid.source or source)
            vectors, space, _ = await self._embed(chunks)
            data = [_chunk_data(c, v, None) for c, v in zip(chunks, vectors, strict=True)]
            patch = patch.model_copy(update={"chunks": data, "space": space})

        async def store() -> UpdatedMemory:
            if await self.storage.update_memory(valid.memory_id, patch):
                record = await self.storage.get_memory(valid.memory_id)
                if record is not None:
                    if then is not None:
                        await then(record)
                    return UpdatedMemory(**dict(record), notice=notice)
            raise NotFoundError("No memory has this id.")

        return await self.uninterrupted.run(store())

    async def _split(self, text: str, kind: str, source: str) -> list[Chunk]:
        chunker = self.chunker
        if kind == "document" and source:
            # A file of code is cut at its symbols; what parses is imported for files only.
            from zapomni_core.modules.codebase import ASTChunker

            chunker = ASTChunker(source, chunker, self.chunk_size)
        return await asyncio.to_thread(chunker.chunk, text)

    async def _embed(
        self, chunks: Sequence[Chunk]
    ) -> tuple[Sequence[Embedding | None], EmbeddingSpace | None, str | None]:
        """Return embeddings, or Nones and why the chunks go without."""
        nothing: list[Embedding | None] = [None] * len(chunks)
        if not chunks or not self.embeddings.embedders:
            return nothing, None, None
        if len(chunks) > EMBED_AT_ONCE:
            return nothing, None, _LATER
        try:
            made = await self.embeddings.embed(
                [chunk.text for chunk in chunks], await self.storage.get_space()
            )
        except EmbeddingError as error:
            logger.warning("stored_without_vectors", error_code=error.error_code)
            return nothing, None, f"Kept, but found by its words only for now: {error.message}"
        return made.texts, made.space, self.embeddings.unused


def _joined(*notices: str | None) -> str | None:
    return " ".join(filter(None, notices)) or None


def _batches(
    requests: Sequence[AddMemoryRequest], size: int
) -> Iterator[Sequence[AddMemoryRequest]]:
    """Cut into batches small enough to embed at once; a long text travels alone.

    Characters stand for tokens here: a batch only has to be roughly right.
    """
    batch: list[AddMemoryRequest] = []
    chars = 0
    for request in requests:
        if batch and (len(batch) == size or chars + len(request.text) > EMBED_AT_ONCE * 200):
            yield batch
            batch, chars = [], 0
        batch.append(request)
        chars += len(request.text)
    if batch:
        yield batch


def _memory(
    draft: _Draft, made: Sequence[Embedding | None], space: EmbeddingSpace | None
) -> MemoryData:
    request = draft.request
    return MemoryData(
        memory_id=str(uuid.uuid4()),
        text=request.text,
        chunks=[
            _chunk_data(c, e, request.occurred_at) for c, e in zip(draft.chunks, made, strict=True)
        ],
        metadata=request.metadata,
        timestamp=datetime.now(UTC),
        project=request.project,
        source=request.source,
        kind=request.kind,
        tags=request.tags,
        pinned=request.pinned,
        idempotency_key=request.idempotency_key,
        supersedes=request.supersedes,
        parent=request.parent,
        position=request.position,
        occurred_at=request.occurred_at,
        space=space,
    )


def _chunk_data(chunk: Chunk, made: Embedding | None, occurred_at: datetime | None) -> ChunkData:
    # Both parts were validated already: validating 384 numbers again costs more than storing.
    return ChunkData.model_construct(
        **dict(chunk),
        embedding=made.vector if made else None,
        tokens=made.tokens if made else None,
        context=context_words(chunk.text, occurred_at),
    )


def _answer(
    request: AddMemoryRequest, stored: StoredMemory, chunks: int, pending: int, notice: str | None
) -> AddMemoryResponse:
    created = stored.status == "created"
    return AddMemoryResponse(
        memory_id=stored.memory_id,
        chunks_created=chunks if created else 0,
        text_preview=request.text[:PREVIEW_CHARS],
        status=stored.status,
        pending_vectors=pending if created else 0,
        notice=notice if created else _NOTICES[stored.status],
    )
