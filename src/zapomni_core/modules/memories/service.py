"""Memories: the service of this module, one method per use case.

A text is stored even when no vector can be made: it is found by its words at once, and by its
meaning as soon as its vectors are filled in.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from zapomni_core.exceptions import (
    DatabaseError,
    EmbeddingError,
    NotFoundError,
    ProcessingError,
    ValidationError,
    ZapomniError,
)
from zapomni_core.infra.cancelling import Uninterrupted
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import (
    AddMemoryRequest,
    AddMemoryResponse,
    ListRequest,
    SimilarMemory,
    TextChunker,
    UpdatedMemory,
    UpdateMemoryRequest,
)
from zapomni_core.modules.memories.alike import find_similar, is_fact
from zapomni_core.modules.memories.answers import AnswerCache
from zapomni_core.modules.memories.digest import Digest
from zapomni_core.modules.memories.embedding import (
    EmbeddingChain,
    Progress,
    fill_pending,
    fill_second,
    reembed,
)
from zapomni_core.modules.memories.validation import (
    parse_filters,
    validate_add,
    validate_update,
    without_code,
)
from zapomni_core.modules.memories.word_index import find_parts, reindex_words
from zapomni_core.shared.fencing import quoted
from zapomni_core.shared.languages import is_english_model, is_foreign, reads_text
from zapomni_core.shared.text import context_words
from zapomni_core.shared.validation import validate_id, validate_page
from zapomni_db.code_models import CODE_KIND
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import (
    Chunk,
    ChunkData,
    Embedding,
    EmbeddingSpace,
    MemoryData,
    MemoryFilter,
    MemoryPage,
    MemoryPatch,
    MemoryRecord,
    MemoryStats,
    NewMemory,
    StoredMemory,
)

if TYPE_CHECKING:
    from zapomni_core.shared.redaction import Redactor
    from zapomni_db.copy_models import MemoryCopy
    from zapomni_db.graph_models import MemoryVersion

__all__ = ["Memories"]

# Beyond this many chunks the caller does not wait for vectors: some 50,000 tokens.
EMBED_AT_ONCE = 256
# Memories per transaction: long enough to be fast, short enough for a waiting hook.
STORE_AT_ONCE = 64
PREVIEW_CHARS = 100
# An id is shown to people by its beginning, which finds it again.
SHORT_ID_CHARS = 8
WHOLE_ID_CHARS = 36
# So many of the latest memories say in which languages a store is.
READ_FOR_LANGUAGE = 100
SIMILAR_CHARS = 200
# So much of a speaker's name is searched.
MAX_SPEAKER = 100

_NOTICES = {
    "duplicate": "The same text is already stored; this is its id.",
    "replayed": "This idempotency key was used before; this is what it stored.",
}
_PULL = "`zapomni models pull multilingual` adds one that reads 16 languages."
_FOREIGN = f"The model reads English: this is found by its words. {_PULL}"
_LATER = "Long text: its vectors are made in the background; until then it is found by its words."

ChooseChunker = Callable[[str, str], TextChunker]
"""Returns what splits a text, by the memory's kind and source."""
AfterAdd = Callable[[int, AddMemoryRequest, AddMemoryResponse], Awaitable[None]]
"""Called for each memory added: with its number, the request as stored, and the answer."""
AfterUpdate = Callable[[MemoryRecord], Awaitable[None]]

# Fields that may contain a secret; the others are names and numbers.
_SCANNED = ("text", "metadata", "source", "tags")

logger = get_logger(__name__)


@dataclass(frozen=True)
class _Checked:
    """A valid request, its secrets masked if that was asked for."""

    request: AddMemoryRequest
    preview: str
    """How it begins, without secrets."""
    notice: str | None
    """Which kinds of secrets it has or had."""


class Memories:
    """Adds, reads, changes and deletes memories, and fills in the vectors they lack.

    Doors call it as `engine.memories`. Adding and changing with citations is
    `workflows/add_memory.py`, forgetting `workflows/trash.py`, searching
    `workflows/search_everything.py`.

    Args:
        storage: The store, connected.
        embeddings: Makes vectors; without an embedder, memories are found by words alone.
        choose_chunker: Returns what splits a text.
        get_redactor: Returns what finds and masks secrets; called when a text is added.
        digest: What hooks read of memories; follows every change.
    """

    def __init__(
        self,
        storage: StorageProvider,
        embeddings: EmbeddingChain,
        choose_chunker: ChooseChunker,
        get_redactor: Callable[[], Redactor],
        digest: Digest,
    ) -> None:
        self.embeddings = embeddings
        self.answers = AnswerCache()
        self.digest = digest
        self._storage = storage
        self._choose_chunker = choose_chunker
        self._get_redactor = get_redactor
        self._uninterrupted = Uninterrupted()
        self._keeps_filling = False
        self._filler: asyncio.Task[None] | None = None
        self._monitor: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop background work between two batches, and wait for writes that have begun."""
        for task in (self._filler, self._monitor):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._uninterrupted.close()
        await self.digest.close()
        await self.embeddings.close()

    # --- adding -------------------------------------------------------------------------

    @operation()
    async def add(
        self,
        requests: Sequence[AddMemoryRequest],
        then: AfterAdd | None = None,
        *,
        embed: bool = True,
    ) -> list[AddMemoryResponse]:
        """Store texts in small batches, in order; all are validated first.

        No cancellation comes between a memory and its `then`. Without `embed` all vectors are
        pending.

        Raises:
            ValidationError: A request is invalid; nothing was stored.
            ProcessingError: PROC_004, the store failed when some of them were stored already.
        """
        valid = [validate_add(request) for request in requests]
        checked = await asyncio.to_thread(lambda: [self._check(request) for request in valid])
        responses: list[AddMemoryResponse] = []
        # Many at once are an import: no one reads a notice for each.
        notify = len(checked) == 1
        for batch in _batches([one.request for one in checked], STORE_AT_ONCE):
            try:
                responses.extend(
                    await self._add_batch(
                        batch, then, len(responses), notify=notify and embed, embed=embed
                    )
                )
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
        if self._keeps_filling:
            self.keep_filling_vectors()
        return [
            response.model_copy(
                update={
                    "notice": " ".join(filter(None, (one.notice, response.notice))) or None,
                    "text_preview": one.preview,
                }
            )
            for one, response in zip(checked, responses, strict=True)
        ]

    def _check(self, request: AddMemoryRequest) -> _Checked:
        fields = {name: getattr(request, name) for name in _SCANNED}
        masked, notice = self._scan(fields, redact=request.redact)
        stored = request.model_copy(update=masked) if request.redact else request
        return _Checked(stored, masked["text"][:PREVIEW_CHARS], notice)

    def _scan(self, fields: dict[str, Any], *, redact: bool) -> tuple[dict[str, Any], str | None]:
        """Return the fields with secrets masked, and a notice of what was found."""
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
            redactor = self._get_redactor()
            spans = redactor.find(value)
            kinds.update(kind for _, _, kind in spans)
            return redactor.mask(value, spans) if spans else value
        if isinstance(value, list):
            return [self._mask(one, kinds) for one in value]
        if isinstance(value, dict):
            return {
                self._mask(name, kinds): self._mask_named(name, one, kinds)
                for name, one in value.items()
            }
        return value

    def _mask_named(self, name: str, value: Any, kinds: Counter[str]) -> Any:
        """Mask a value of an object: its name may give it away."""
        if isinstance(value, str):
            line = f'"{name}": "{value}"'
            first = len(name) + 5
            redactor = self._get_redactor()
            for start, end, kind in redactor.find(line):
                if start == first and end == len(line) - 1:
                    kinds[kind] += 1
                    return redactor.mask(line, [(start, end, kind)])[first:-1]
        return self._mask(value, kinds)

    async def _add_batch(
        self,
        batch: Sequence[AddMemoryRequest],
        then: AfterAdd | None,
        first: int,
        *,
        notify: bool,
        embed: bool,
    ) -> list[AddMemoryResponse]:
        known = [
            await self._storage.find_existing(
                r.project, r.text, r.idempotency_key, r.parent, r.position
            )
            for r in batch
        ]
        fresh = [r for r, existing in zip(batch, known, strict=True) if existing is None]
        chunks = [await self._split(r.text, r.kind, r.source) for r in fresh]
        flat = [chunk for own in chunks for chunk in own]
        vectors, space, notice = await self._embed(flat if embed else [])
        if not embed:
            vectors = [None] * len(flat)
        similar: list[SimilarMemory] = []
        if notify and fresh and is_fact(fresh[0].kind, fresh[0].parent, len(chunks[0])):
            similar = await self._find_similar(fresh[0], vectors[0] if vectors else None, space)
        remaining = iter(vectors)
        parts = await find_parts(self._storage, [chunk.text for chunk in flat])
        memories = [
            MemoryData(
                memory_id=str(uuid.uuid4()),
                chunks=[
                    _chunk_data(c, next(remaining), request.occurred_at, parts, request.metadata)
                    for c in own
                ],
                timestamp=datetime.now(UTC),
                space=space,
                **{name: getattr(request, name) for name in NewMemory.model_fields},
            )
            for request, own in zip(fresh, chunks, strict=True)
        ]

        async def store() -> list[AddMemoryResponse]:
            stored = iter(await self._storage.store_memories(memories) if memories else [])
            sizes = map(len, chunks)
            answers: list[AddMemoryResponse] = []
            for request, existing in zip(batch, known, strict=True):
                if existing is not None:
                    answers.append(_answer(request, existing, 0, 0, None))
                else:
                    size = next(sizes)
                    pending = size if space is None else 0
                    answers.append(_answer(request, next(stored), size, pending, notice))
            if memories:
                replaced = {memory.supersedes for memory in memories if memory.supersedes}
                created = {one.memory_id for one in answers if one.status == "created"} - replaced
                await self.digest.refresh(
                    replaced, [memory for memory in memories if memory.memory_id in created]
                )
            if then is not None:
                for number, (request, answer) in enumerate(zip(batch, answers, strict=True)):
                    await then(first + number, request, answer)
            return answers

        answers = await self._uninterrupted.run(store())
        if any(is_foreign(chunk.text) for chunk in flat):
            await self._fill_second_quietly()
        if not similar or answers[0].status != "created":
            return answers
        return [answers[0].model_copy(update={"similar": similar})]

    @operation()
    async def put_copy(
        self,
        copy: MemoryCopy,
        seen: datetime | None,
        then: Callable[[str], Awaitable[None]] | None = None,
    ) -> bool:
        """Make a memory this one, with its id, times and history, whether it is here or not.

        Passages that it lacks are made; their vectors are made later. What it supersedes is left
        to the caller: `StorageProvider.set_successors`. No cancellation comes between the memory
        and `then`, which is called with its id. False, and nothing is written, if the memory is not
        as it was `seen`: when it was changed last, None if it was not here.
        """
        whole = await self._with_passages(copy)

        async def put() -> bool:
            if not await self._storage.put_memory(whole, seen):
                return False
            await self.digest.refresh([whole.memory_id])
            if then is not None:
                await then(whole.memory_id)
            return True

        written = await self._uninterrupted.run(put())
        if self._keeps_filling:
            self.keep_filling_vectors()
        return written

    async def _with_passages(self, copy: MemoryCopy) -> MemoryCopy:
        if copy.chunks:
            return copy
        split = await self._split(copy.text, copy.kind, copy.source)
        # As when it was added: a time that was not given is not among its words.
        moment = None if copy.occurred_at == copy.timestamp else copy.occurred_at
        parts = await find_parts(self._storage, [chunk.text for chunk in split])
        chunks = [_chunk_data(chunk, None, moment, parts, copy.metadata) for chunk in split]
        return copy.model_copy(update={"chunks": chunks})

    async def _find_similar(
        self, request: AddMemoryRequest, made: Embedding | None, space: EmbeddingSpace | None
    ) -> list[SimilarMemory]:
        """Return what a new memory resembles, shortened and without secrets."""
        is_read = space is not None and reads_text(space.model, request.text)
        comparable = is_read and space == await self._storage.get_space()
        similar = await find_similar(
            self._storage, request, made.vector if made and comparable else None
        )

        def shorten_all() -> list[SimilarMemory]:
            masked = [self._mask(one.text, Counter()) for one in similar]
            return [
                one.model_copy(update={"text": quoted(text, SIMILAR_CHARS)})
                for one, text in zip(similar, masked, strict=True)
            ]

        return await asyncio.to_thread(shorten_all) if similar else []

    # --- changing and reading -----------------------------------------------------------

    @operation()
    async def update(
        self, request: UpdateMemoryRequest, then: AfterUpdate | None = None
    ) -> UpdatedMemory:
        """Change a memory and return its new state; a new text is split and embedded.

        No cancellation comes between the change and `then`, which is called with the new state.

        Raises:
            NotFoundError: No memory has this id.
        """
        valid = validate_update(
            request.model_copy(update={"memory_id": validate_id(request.memory_id)})
        )
        given = {name: getattr(valid, name) for name in _SCANNED if getattr(valid, name)}
        is_remasked = valid.redact and not given
        if is_remasked:
            stored = await self._storage.get_memory(valid.memory_id)
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
            known = (await self._storage.get_summaries([valid.memory_id])).get(valid.memory_id)
            kind, source = (known.kind, known.source) if known else ("", "")
            chunks = await self._split(valid.text, valid.kind or kind, valid.source or source)
            vectors, space, _ = await self._embed(chunks)
            parts = await find_parts(self._storage, [chunk.text for chunk in chunks])
            metadata = valid.metadata or (known.metadata if known else {})
            data = [
                _chunk_data(chunk, vector, None, parts, metadata)
                for chunk, vector in zip(chunks, vectors, strict=True)
            ]
            patch = patch.model_copy(update={"chunks": data, "space": space})

        async def store() -> UpdatedMemory:
            if await self._storage.update_memory(valid.memory_id, patch):
                await self.digest.refresh([valid.memory_id, *(valid.supersedes or ())])
                record = await self._storage.get_memory(valid.memory_id)
                if record is not None:
                    if then is not None:
                        await then(record)
                    return UpdatedMemory(**dict(record), notice=notice)
            raise NotFoundError("No memory has this id.")

        updated = await self._uninterrupted.run(store())
        if valid.text is not None and is_foreign(valid.text):
            await self._fill_second_quietly()
        return updated

    @operation()
    async def get(self, memory_id: str) -> MemoryRecord:
        """Return a memory with its whole text.

        Raises:
            NotFoundError: No memory has this id.
        """
        record = await self._storage.get_memory(validate_id(memory_id))
        if record is None:
            raise NotFoundError("No memory has this id.")
        return record

    async def complete_id(self, given: str) -> str:
        """Return the whole id of a memory, of which the first characters may be given.

        An id that no memory has is returned as it is: what is done with it says so.

        Raises:
            ValidationError: Several memories have ids that begin so.
        """
        given = validate_id(given)
        if not SHORT_ID_CHARS <= len(given) < WHOLE_ID_CHARS:
            return given
        everything = MemoryFilter(include_superseded=True)
        found = await self._storage.list_ids(everything, prefix=given.lower())
        if len(found) > 1:
            raise ValidationError(
                f"{len(found)} memories have ids that begin like this: give more of it", "VAL_004"
            )
        return found[0] if found else given

    @operation()
    async def list_memories(self, request: ListRequest) -> MemoryPage:
        """List memories, pinned first, then newest first."""
        validate_page(request.limit, request.offset)
        # Thousands of files would hide the memories.
        filters = without_code(parse_filters(request.filters))
        return await self._storage.list_memories(filters, request.limit, request.offset)

    @operation()
    async def delete(self, memory_id: str) -> None:
        """Delete a memory for good; what users forget goes through `workflows/trash.py`.

        Raises:
            NotFoundError: No memory has this id.
        """
        checked_id = validate_id(memory_id)

        async def delete() -> None:
            # What it superseded is current again.
            line = {version.memory_id for version in await self._storage.get_history(checked_id)}
            if not await self._storage.delete_memory(checked_id):
                raise NotFoundError("No memory has this id.")
            await self.digest.refresh([checked_id, *line])

        await self._uninterrupted.run(delete())

    @operation()
    async def get_history(
        self, memory_id: str, as_of: datetime | None = None
    ) -> list[MemoryVersion]:
        """Return the versions of a memory, oldest first, with those of what it superseded.

        Args:
            memory_id: The memory.
            as_of: Only what it was at that time.

        Raises:
            NotFoundError: No memory has this id.
        """
        found = await self._storage.get_history(validate_id(memory_id))
        if not found:
            raise NotFoundError("No memory has this id.")
        if as_of is None:
            return found
        return [
            version
            for version in found
            if version.valid_from <= as_of
            and (version.valid_to is None or as_of < version.valid_to)
        ]

    @operation()
    async def get_stats(self) -> MemoryStats:
        """Count what is stored, and report how well the caches work."""
        stored = await self._storage.get_stats()
        return MemoryStats(
            **stored,
            cache_hit_rate=self.embeddings.hit_rate,
            search_cache_hit_rate=self.answers.hit_rate,
            avg_query_latency_ms=self.answers.mean_latency_ms,
            languages=await self._describe_languages(stored.get("embedding_model")),
            notice=self.embeddings.find_mismatch(stored.get("embedding_model")),
        )

    async def _describe_languages(self, model: str | None) -> str | None:
        """Say how much of what was stored last the store's model cannot read, if it is any."""
        if model is None or not self.embeddings.embedders or not is_english_model(model):
            return None
        filters = MemoryFilter(not_kind=CODE_KIND)
        latest = (await self._storage.list_memories(filters, READ_FOR_LANGUAGE, 0)).items
        if not (foreign := sum(is_foreign(memory.preview) for memory in latest)):
            return None
        number = f"{foreign} of the latest {len(latest)} memories are in other languages"
        if await self.embeddings.second_for(await self._storage.get_space()):
            return f"{number}, and are found by a model that reads them."
        return f"The model reads English: {number}, and are found by their words. {_PULL}"

    # --- vectors ------------------------------------------------------------------------

    @operation()
    async def fill_pending(self, progress: Progress | None = None) -> int:
        """Make the vectors still missing, in both spaces; return how many."""
        done = await fill_pending(self._storage, self.embeddings, progress)
        return done + await fill_second(self._storage, self.embeddings, progress)

    @operation()
    async def reindex_words(self, progress: Progress | None = None) -> int:
        """Index passages as they would be today; return how many had words missing."""
        return await reindex_words(self._storage, progress)

    @operation()
    async def reembed(self, progress: Progress | None = None) -> int:
        """Move every vector to the configured embedder; return how many were made."""
        done = await reembed(self._storage, self.embeddings, progress)
        return done + await fill_second(self._storage, self.embeddings, progress)

    @operation()
    async def tidy(self) -> None:
        """Make the store smaller and searches cheaper; if that fails, all stays as it is."""
        try:
            if steps := await self._storage.tidy():
                logger.info("store_tidied", steps=steps)
        except ZapomniError as error:
            logger.warning("store_not_tidied", error_code=error.error_code)

    def keep_filling_vectors(self) -> None:
        """Make missing vectors in the background, now and after every add.

        For long-lived processes; a command that ends at once calls `fill_pending` instead.
        """
        self._keeps_filling = True
        if self.embeddings.embedders and (self._filler is None or self._filler.done()):
            self._filler = asyncio.create_task(self._fill_quietly())

    async def _fill_quietly(self) -> None:
        try:
            done = await self.fill_pending()
        except EmbeddingError as error:
            logger.warning("vectors_still_pending", error_code=error.error_code)
        except ZapomniError as error:
            logger.error("filling_vectors_failed", error_code=error.error_code)  # noqa: TRY400
        else:
            if done:
                logger.info("pending_vectors_filled", count=done)

    async def _fill_second_quietly(self) -> None:
        """Make the vectors of what was just stored, and of no more than a little else."""
        try:
            await fill_second(self._storage, self.embeddings, most=EMBED_AT_ONCE)
        except ZapomniError as error:
            logger.warning("vectors_still_pending", error_code=error.error_code)

    @operation()
    async def catch_up_digest(self) -> None:
        """Bring the digest up to date with what other processes and machines changed."""
        try:
            await self.digest.catch_up()
        except ZapomniError as error:
            logger.warning("digest_not_updated", error_code=error.error_code)

    def keep_checking_storage(self, seconds: float) -> None:
        """Check every so often whether the storage server answers, and connect again if it does.

        For long-lived processes with a storage server; a file needs no such check.
        """
        if self._monitor is None:
            self._monitor = asyncio.create_task(self._check_storage(seconds))

    async def _check_storage(self, seconds: float) -> None:
        answered = True
        while True:
            await asyncio.sleep(seconds)
            with operation():
                answers = await self._storage.health_check()
                if answers and not answered:
                    logger.info("storage_answers_again")
                    if self._keeps_filling:
                        self.keep_filling_vectors()
                elif answered and not answers:
                    logger.error("storage_does_not_answer")
            answered = answers

    # --- parts --------------------------------------------------------------------------

    async def _split(self, text: str, kind: str, source: str) -> Sequence[Chunk]:
        return await asyncio.to_thread(self._choose_chunker(kind, source).chunk, text)

    async def _embed(
        self, chunks: Sequence[Chunk]
    ) -> tuple[Sequence[Embedding | None], EmbeddingSpace | None, str | None]:
        """Return embeddings, or Nones and why the chunks have none."""
        nothing: list[Embedding | None] = [None] * len(chunks)
        if not chunks or not self.embeddings.embedders:
            return nothing, None, None
        if len(chunks) > EMBED_AT_ONCE:
            return nothing, None, _LATER
        try:
            made = await self.embeddings.embed(
                [chunk.text for chunk in chunks], await self._storage.get_space()
            )
        except EmbeddingError as error:
            logger.warning("stored_without_vectors", error_code=error.error_code)
            return nothing, None, f"Stored, but found by its words only for now: {error.message}"
        notices = [self.embeddings.unused]
        is_unread = is_english_model(made.space.model) and is_foreign(chunks[0].text)
        if is_unread and await self.embeddings.second_for(made.space) is None:
            notices.append(_FOREIGN)
        return made.texts, made.space, " ".join(filter(None, notices)) or None


def _batches(
    requests: Sequence[AddMemoryRequest], size: int
) -> Iterator[Sequence[AddMemoryRequest]]:
    """Cut into batches small enough to embed at once; a long text is a batch by itself.

    Characters approximate tokens here: a batch only has to be roughly right.
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


def _chunk_data(
    chunk: Chunk,
    made: Embedding | None,
    occurred_at: datetime | None,
    parts: frozenset[str],
    metadata: Mapping[str, Any],
) -> ChunkData:
    context = context_words(chunk.text, occurred_at, parts)
    # A question may name who said it.
    if isinstance(speaker := metadata.get("speaker"), str) and speaker not in chunk.text:
        context = f"{context} {speaker[:MAX_SPEAKER]}".strip()
    # Both parts were validated already: validating 384 numbers again costs more than storing.
    return ChunkData.model_construct(
        **dict(chunk),
        embedding=made.vector if made else None,
        tokens=made.tokens if made else None,
        context=context,
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
