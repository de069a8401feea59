"""Forgetting memories, and taking that back: the trash that every deletion goes through.

A memory is written into the trash, whole, before it is deleted, and stored again before it leaves
the trash: a process that is killed between the two loses nothing, and doing it again completes it.
"""

from __future__ import annotations

import base64
import json
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.infra.cancelling import Uninterrupted
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.logging import get_logger
from zapomni_core.modules.memories import parse_filters, without_code
from zapomni_core.shared.validation import validate_id
from zapomni_db.code_models import Citation
from zapomni_db.copy_models import WholeMemory
from zapomni_db.models import FrozenModel, MemoryFilter, MemorySummary
from zapomni_db.sqlite.trash import TRASH_DAYS, TrashBatchRow, TrashRow
from zapomni_db.values import to_time

if TYPE_CHECKING:
    from zapomni_core.modules.codebase import Citations
    from zapomni_core.modules.memories import Memories
    from zapomni_core.modules.observations import PurgeReport
    from zapomni_core.workflows.projects import Projects
    from zapomni_db.interfaces import StorageProvider
    from zapomni_db.models import EmbeddingSpace
    from zapomni_db.sqlite.deletions import SqliteTrash

__all__ = ["TRASH_DAYS", "ForgetSelection", "Trash", "TrashBatch"]

PAGE = 500
SAMPLES = 10

# With their vectors, so many memories are held in memory at once.
AT_ONCE = 50
# How often a memory that another process keeps changing is read again.
ATTEMPTS = 5

Progress = Callable[[int, int], None]

logger = get_logger(__name__)


class TrashBatch(FrozenModel):
    """What was forgotten at once."""

    batch: str
    """What `undo` takes: `f-` and a number."""
    count: int
    """How many memories of it are in the trash."""
    why: str = ""
    """What made it: forget, delete_memory, review, import, sync."""
    forgotten_at: datetime
    until: datetime
    """When it is deleted for good."""
    samples: list[str] = []
    """How the newest of them begin."""
    restored: int = 0
    """How many memories `undo` has stored again."""


class ForgetSelection(FrozenModel):
    """What would be forgotten."""

    memory_ids: list[str]
    by_project: dict[str, int]
    """How many, by the project's name; the empty name: of no project."""
    by_kind: dict[str, int]
    samples: list[MemorySummary]
    """The newest of them."""
    pinned_kept: int = 0
    """Pinned ones that the filters select: they stay, unless pinned ones are asked for."""


@dataclass(frozen=True)
class Trash:
    """The trash that every door calls as `engine.trash`."""

    file: SqliteTrash
    storage: StorageProvider
    memories: Memories
    citations: Citations
    projects: Projects
    _uninterrupted: Uninterrupted = field(default_factory=Uninterrupted)

    async def close(self) -> None:
        """Wait for writes that have begun, and release the file."""
        await self._uninterrupted.close()
        await self.file.close()

    # --- Forgetting ---------------------------------------------------------------------

    @operation()
    async def select(
        self, filters: MemoryFilter | dict[str, Any], folder: str = ""
    ) -> ForgetSelection:
        """Return the memories that filters select, replaced ones too, without files of code.

        Args:
            filters: As in a search. Pinned memories are selected only by `pinned`.
            folder: Where the user is: without a project, that folder's and global memories.

        Raises:
            ValidationError: A filter is invalid.
        """
        narrowed, _ = await self.projects.narrow(parse_filters(filters), folder)
        everything = without_code(narrowed.model_copy(update={"include_superseded": True}))
        chosen = everything.model_copy(update={"pinned": bool(everything.pinned)})
        found: list[MemorySummary] = []
        while len(found) % PAGE == 0:
            page = await self.storage.list_memories(chosen, PAGE, len(found))
            if not page.items:
                break
            found += page.items
        pinned = 0
        if not everything.pinned:
            only = everything.model_copy(update={"pinned": True})
            pinned = (await self.storage.list_memories(only, 1, 0)).total
        named = await self.projects.name(found)
        return ForgetSelection(
            memory_ids=[one.memory_id for one in named],
            by_project=dict(Counter(one.project for one in named).most_common()),
            by_kind=dict(Counter(one.kind for one in named).most_common()),
            samples=named[:SAMPLES],
            pinned_kept=pinned,
        )

    @operation()
    async def put(
        self, memory_ids: Sequence[str], why: str = "forget", progress: Progress | None = None
    ) -> TrashBatch:
        """Delete memories; for `TRASH_DAYS` days `undo` brings them back.

        Args:
            memory_ids: The memories. Those that do not exist are passed over.
            why: What made the batch, in a word; users see it.
            progress: Called after each step.

        Raises:
            NotFoundError: None of the ids is a memory's; nothing was deleted.
        """
        ids = list(dict.fromkeys(validate_id(one) for one in memory_ids))
        started = time.perf_counter()
        key: int | None = None
        count = 0
        for start in range(0, len(ids), AT_ONCE):
            page = ids[start : start + AT_ONCE]
            key, deleted = await self._uninterrupted.run(self._put(page, key, why))
            count += deleted
            if progress is not None:
                progress(start + len(page), len(ids))
        if key is None:
            raise NotFoundError("No memory has this id.")
        logger.info(
            "memory_deleted",
            memory_id=ids[0],
            count=count,
            why=why,
            duration_ms=_milliseconds_since(started),
        )
        batch = await self.file.get_batch(key)
        if batch is None:  # Another process has purged it meanwhile.
            batch = TrashBatchRow(key, why, int(time.time()), None, count)
        return _to_batch(batch)

    async def _put(
        self, memory_ids: Sequence[str], key: int | None, why: str
    ) -> tuple[int | None, int]:
        """Move some memories into a batch; return its key, and how many they were."""
        count = 0
        for _ in range(ATTEMPTS):
            found = await self.storage.export_whole(memory_ids)
            if not found:
                break
            ids = [one.memory.memory_id for one in found]
            cited = await self.citations.store.get_citations(ids)
            links = {link for one in found for link in _links(one)}
            rows = [_to_row(one, cited.get(one.memory.memory_id, [])) for one in found]
            key = await self.file.put(key, why, rows, sorted(links), int(time.time()))
            unchanged = {one.memory.memory_id: one.memory.updated_at for one in found}
            deleted = await self.storage.delete_memories(unchanged)
            count += len(deleted)
            await self._note_deletions()
            for memory_id in deleted:
                if memory_id in cited:
                    await self.citations.forget(memory_id)
            # What they superseded is current again.
            await self.memories.digest.refresh([*deleted, *(older for older, _ in links)])
            # One that was changed meanwhile is read again.
            memory_ids = [one for one in ids if one not in deleted]
            if not memory_ids:
                break
        return key, count

    async def _note_deletions(self) -> None:
        """Note for other devices what is deleted, also what a killed process could not."""
        waiting = await self.file.list_unnoted()
        stored = await self.storage.get_summaries(list(waiting)) if waiting else {}
        deleted = dict.fromkeys(waiting.keys() - stored.keys(), 0)
        if deleted:
            now = to_time(datetime.now(UTC))
            await self.file.note_deletions(deleted, now, supersedes=waiting)

    # --- Undoing ------------------------------------------------------------------------

    @operation()
    async def undo(
        self,
        batch: str,
        progress: Progress | None = None,
    ) -> TrashBatch:
        """Store the memories of a batch again, as they were; once more changes nothing.

        Raises:
            NotFoundError: TRASH_001, there is no such batch, or it was emptied.
            ValidationError: This is no name of a batch.
        """
        name = batch.strip()
        number = name.removeprefix("f-")
        if number == name or not (number.isascii() and number.isdigit()) or len(number) > 15:
            raise ValidationError("A batch is named f- and a number, such as f-12.", "VAL_003")
        key = int(number)
        row = await self.file.get_batch(key)
        if row is None:
            raise NotFoundError(
                f"{batch} is not in the trash: it was emptied, or there was none.", "TRASH_001"
            )
        started = time.perf_counter()
        restored = 0
        while page := await self._uninterrupted.run(self._restore(key)):
            restored += page
            if progress is not None:
                progress(restored, row.memories)
        logger.info("memories_restored", count=restored, duration_ms=_milliseconds_since(started))
        return _to_batch(row).model_copy(update={"count": 0, "restored": restored})

    @operation()
    async def unlink(self, older_id: str, newer_id: str) -> None:
        """Take back that a memory supersedes another: the older one is current again."""
        known = (await self.storage.get_summaries([older_id])).get(older_id)
        if known is not None and known.superseded_by == newer_id:
            await self.storage.set_successors({older_id: None})
            await self.memories.digest.refresh([older_id, newer_id])

    async def _restore(self, key: int) -> int:
        """Restore the next memories of a batch; return how many they were."""
        rows, links = await self.file.get_rows(key, AT_ONCE)
        if not rows:
            return 0
        ids = [row.memory_id for row in rows]
        records = {row.memory_id: json.loads(row.record) for row in rows}
        space = await self.storage.get_space()
        found = [_from_row(row, records[row.memory_id], space) for row in rows]
        found = [await self._with_free_key(one) for one in found]
        await self.storage.restore_memories(found, links)
        stored = await self.storage.get_summaries(ids)
        cited = await self.citations.store.get_citations(ids)
        for one in found:
            memory_id, record = one.memory.memory_id, records[one.memory.memory_id]
            now = stored.get(memory_id)
            # One that is here with later changes keeps what it cites now.
            if now is not None and now.updated_at == one.memory.updated_at:
                citations = [Citation.model_validate(given) for given in record["citations"]]
                if citations != cited.get(memory_id, []):
                    await self.citations.store.set_citations(memory_id, citations)
        await self.memories.digest.refresh([*ids, *(older for older, _ in links)])
        changed = {one.memory.memory_id: to_time(one.memory.updated_at) for one in found}
        await self.file.take_out(key, changed, int(time.time()))
        return len(rows)

    async def _with_free_key(self, one: WholeMemory) -> WholeMemory:
        """Return the memory without its idempotency key if another one has used that since."""
        memory = one.memory
        if memory.idempotency_key is None:
            return one
        try:
            used = await self.storage.find_existing(
                memory.project, memory.text, memory.idempotency_key, memory.parent, memory.position
            )
            taken = (
                used is not None
                and used.status == "replayed"
                and used.memory_id != memory.memory_id
            )
        except ValidationError:
            taken = True
        if not taken:
            return one
        return one.model_copy(
            update={"memory": memory.model_copy(update={"idempotency_key": None})}
        )

    # --- Reading and emptying -----------------------------------------------------------

    @operation()
    async def list_batches(self) -> list[TrashBatch]:
        """Return what is in the trash, the oldest first."""
        return [_to_batch(row) for row in await self.file.list_batches(int(time.time()))]

    @operation()
    async def find(self, memory_ids: Sequence[str]) -> list[str]:
        """Return which of the memories are in the trash."""
        return await self.file.list_trashed(list(memory_ids))

    @operation()
    async def purge(self, memory_ids: Sequence[str] | None = None) -> PurgeReport | None:
        """Delete memories that are in the trash so that nothing is left, None: all that are.

        Returns None if there was nothing to delete.
        """
        from zapomni_core.modules.observations import PurgeSelection

        ids = await self.file.list_trashed(None if memory_ids is None else list(memory_ids))
        # A memory is in both places if a process was killed before it deleted it: it stays.
        stored = await self.storage.get_summaries(ids)
        if stored:
            await self.file.delete_trashed(list(stored), int(time.time()))
        ids = [one for one in ids if one not in stored]
        if not ids:
            return None
        return await self.projects.observations.purge(
            PurgeSelection(ids=tuple(ids)), "memories", dry_run=False
        )

    @operation()
    async def empty_expired(self) -> int:
        """Delete what was forgotten more than `TRASH_DAYS` days ago; return how many."""
        await self._note_deletions()
        return await self.file.empty_expired(int(time.time()))


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)


def _to_batch(row: TrashBatchRow) -> TrashBatch:
    made = datetime.fromtimestamp(row.made_at, UTC)
    return TrashBatch(
        batch=f"f-{row.key}",
        count=row.memories,
        why=row.why,
        forgotten_at=made,
        until=made + timedelta(days=TRASH_DAYS),
        samples=list(row.samples),
    )


def _links(one: WholeMemory) -> list[tuple[str, str]]:
    """Return the pairs of an older memory and its successor that a memory is part of."""
    memory = one.memory
    older = [*([] if memory.supersedes is None else [memory.supersedes]), *memory.also_supersedes]
    links = [(other, memory.memory_id) for other in older]
    return links if one.superseded_by is None else [*links, (memory.memory_id, one.superseded_by)]


# --- How a memory is written --------------------------------------------------------------


def _to_row(one: WholeMemory, citations: Sequence[Citation]) -> TrashRow:
    memory = one.memory
    chunks = [
        chunk.model_dump(mode="json", exclude={"embedding", "tokens"}) for chunk in memory.chunks
    ]
    record = {
        "memory": memory.model_dump(mode="json", exclude={"chunks", "space"}) | {"chunks": chunks},
        "reading": one.reading.model_dump(mode="json"),
        "order": one.order,
        "citations": [citation.model_dump(mode="json") for citation in citations],
    }
    vectors = {
        "space": None if memory.space is None else memory.space.model_dump(mode="json"),
        "chunks": [
            [
                None if chunk.embedding is None else _pack(chunk.embedding),
                None if chunk.tokens is None else base64.b64encode(chunk.tokens).decode(),
            ]
            for chunk in memory.chunks
        ],
    }
    return TrashRow(
        memory_id=memory.memory_id,
        project=memory.project,
        kind=memory.kind,
        preview=memory.text[:100],
        pinned=int(memory.pinned),
        stored_at=to_time(memory.timestamp),
        record=json.dumps(record, ensure_ascii=False),
        vectors=json.dumps(vectors),
    )


def _from_row(row: TrashRow, record: dict[str, Any], space: EmbeddingSpace | None) -> WholeMemory:
    """Return the memory; without vectors if those of another model are searched now."""
    vectors = json.loads(row.vectors)
    fields = dict(record["memory"])
    usable = vectors["space"] is not None and (
        space is None or space.model_dump(mode="json") == vectors["space"]
    )
    if usable:
        fields["space"] = vectors["space"]
        fields["chunks"] = [
            {
                **chunk,
                "embedding": None if vector is None else _unpack(vector),
                "tokens": None if tokens is None else base64.b64decode(tokens),
            }
            for chunk, (vector, tokens) in zip(fields["chunks"], vectors["chunks"], strict=True)
        ]
    return WholeMemory.model_validate(
        {"memory": fields, "reading": record["reading"], "order": record["order"]}
    )


def _pack(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _unpack(packed: str) -> list[float]:
    data = base64.b64decode(packed)
    return list(struct.unpack(f"<{len(data) // 4}f", data))
