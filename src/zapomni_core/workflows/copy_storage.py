"""Move everything from one store to another, and prove that it arrived.

Memories go in the order they were stored, so that a copy that was interrupted is a beginning of
its source: the next run compares that beginning and goes on behind it. Nothing else is needed to
resume, and a destination that holds anything else is left alone.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, fields
from typing import Any

from zapomni_core.exceptions import ValidationError
from zapomni_db.copy_models import MemoryCopy, ReadingCopy
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import EntityData, RelationshipData

__all__ = ["Contents", "compare_storages", "copy_storage"]

PAGE = 50
GRAPH_PAGE = 500

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Contents:
    """What a store holds: how much of each, and a hash of all of it in order.

    `versions` are what memories were before; `entities` and `relationships` are all that the graph
    knows, read in memories or given by callers, each once and merged ones as one; `mentions` and
    `sentences` are where memories name and state them.
    """

    memories: int
    passages: int
    vectors: int
    token_vectors: int
    versions: int
    entities: int
    relationships: int
    mentions: int
    sentences: int
    merges: int
    sha256: str


async def copy_storage(source: StorageProvider, target: StorageProvider, progress: Progress) -> int:
    """Copy what is not there yet; return how many memories were there already.

    Raises:
        ValidationError: The destination holds something that is not in the source.
        DatabaseError: Reading or writing failed; what was copied stays, run it again.
    """
    total = await _count_memories(source)
    space = await source.get_space()
    if space is not None and await target.get_space() is None:
        await target.activate_space(space)
    memories = _memories(source)
    there = 0
    async for kept in _memories(target):
        original = await anext(memories, None)
        if original is None or _fingerprint(original) != _fingerprint(kept):
            raise ValidationError(
                "The destination holds memories that are not in the source, or in another order. "
                "Name an empty one: another file, or another graph of the server.",
                "VAL_004",
            )
        there += 1
        progress(there, total)
    await _copy_memories(memories, target, there, total, progress)
    async for entities in _entity_pages(source):
        await target.store_entities(entities, [])
    async for relationships in _relationship_pages(source):
        await target.store_entities([], relationships)
    async for readings in _reading_pages(source):
        await target.import_readings(readings)
    merges = await source.export_merges()
    if merges != await target.export_merges():
        await target.import_merges(merges)
    return there


async def _count_memories(storage: StorageProvider) -> int:
    stats = await storage.get_stats()
    # Files of repositories are counted apart, and copied like every memory.
    return int(stats["total_memories"]) + int(stats.get("code_files", 0))


async def _copy_memories(
    memories: AsyncIterator[MemoryCopy],
    target: StorageProvider,
    done: int,
    total: int,
    progress: Progress,
) -> None:
    batch: list[MemoryCopy] = []
    async for memory in memories:
        batch.append(memory)
        if len(batch) == PAGE:
            await target.import_memories(batch)
            done += len(batch)
            progress(done, total)
            batch = []
    if batch:
        await target.import_memories(batch)
        progress(done + len(batch), total)


async def compare_storages(
    source: StorageProvider, target: StorageProvider, progress: Progress
) -> tuple[Contents, Contents]:
    """Read both stores whole and return what each holds: equal, if the copy is one."""
    total = 2 * await _count_memories(source)
    original = await _contents(source, progress, 0, total)
    return original, await _contents(target, progress, original.memories, total)


async def _contents(
    storage: StorageProvider, progress: Progress, done: int, total: int
) -> Contents:
    digest = hashlib.sha256()
    counts = dict.fromkeys((f.name for f in fields(Contents) if f.name != "sha256"), 0)
    space = await storage.get_space()
    _add(digest, space and space.model_dump())
    async for memory in _memories(storage):
        digest.update(_fingerprint(memory))
        counts["memories"] += 1
        counts["passages"] += len(memory.chunks)
        counts["vectors"] += sum(chunk.embedding is not None for chunk in memory.chunks)
        counts["token_vectors"] += sum(chunk.tokens is not None for chunk in memory.chunks)
        counts["versions"] += len(memory.history)
        progress(done + counts["memories"], total)
    await _add_graph(storage, counts, digest)
    return Contents(**counts, sha256=digest.hexdigest())


async def _add_graph(
    storage: StorageProvider, counts: dict[str, int], digest: hashlib._Hash
) -> None:
    ids: set[str] = set()
    edges: set[tuple[str, str, str]] = set()
    async for entities in _entity_pages(storage):
        for entity in entities:
            ids.add(entity.entity_id)
            _add(digest, entity.model_dump())
    async for relationships in _relationship_pages(storage):
        for relationship in relationships:
            edges.add(_ends(relationship))
            _add(digest, relationship.model_dump(mode="json"))
    async for readings in _reading_pages(storage):
        for reading in readings:
            counts["mentions"] += sum(len(passage.entities) for passage in reading.passages)
            stated = sum(len(passage.relationships) for passage in reading.passages)
            counts["sentences"] += stated + len(reading.past)
            ids.update(entity.entity_id for entity in reading.entities)
            edges.update(_ends(r) for passage in reading.passages for r in passage.relationships)
            edges.update(_ends(sentence.stated) for sentence in reading.past)
            _add(digest, reading.model_dump(mode="json"))
    merged: dict[str, str] = {}
    for merge in await storage.export_merges():
        counts["merges"] += 1
        if merge.undone_at is None:
            merged[merge.source_id] = merge.target_id
        _add(digest, merge.model_dump(mode="json"))

    def as_one(entity_id: str) -> str:
        while entity_id in merged:
            entity_id = merged[entity_id]
        return entity_id

    counts["entities"] = len({as_one(entity_id) for entity_id in ids})
    joined = {(as_one(source), as_one(target), kind) for source, target, kind in edges}
    counts["relationships"] = sum(source != target for source, target, _ in joined)


def _ends(stated: RelationshipData) -> tuple[str, str, str]:
    return stated.source_entity_id, stated.target_entity_id, stated.relationship_type


async def _memories(storage: StorageProvider) -> AsyncIterator[MemoryCopy]:
    after = None
    while True:
        page = await storage.export_memories(after, PAGE)
        for memory in page.items:
            yield memory
        if (after := page.after) is None:
            return


async def _entity_pages(storage: StorageProvider) -> AsyncIterator[list[EntityData]]:
    after = None
    while page := await storage.export_entities(after, GRAPH_PAGE):
        yield page
        after = page[-1].entity_id


async def _relationship_pages(storage: StorageProvider) -> AsyncIterator[list[RelationshipData]]:
    after = None
    while page := await storage.export_relationships(after, GRAPH_PAGE):
        yield page
        last = page[-1]
        after = (last.source_entity_id, last.target_entity_id, last.relationship_type)


async def _reading_pages(storage: StorageProvider) -> AsyncIterator[list[ReadingCopy]]:
    after = None
    while True:
        page = await storage.export_readings(after, PAGE)
        if page.items:
            yield page.items
        if (after := page.after) is None:
            return


def _fingerprint(memory: MemoryCopy) -> bytes:
    """Hash everything about a memory; vectors as the 32-bit numbers every engine keeps."""
    digest = hashlib.sha256()
    fields = memory.model_dump(mode="json", exclude={"chunks"})
    _add(digest, fields | {"tags": sorted(memory.tags)})
    for chunk in memory.chunks:
        known = chunk.model_dump(mode="json", exclude={"embedding", "tokens"})
        vector, tokens = chunk.embedding, chunk.tokens
        known |= {"vector": vector is not None, "tokens": tokens is not None}
        packed = struct.pack(f"<{len(vector)}f", *vector) if vector else b""
        for part in (_canonical(known), packed, tokens or b""):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _add(digest: hashlib._Hash, value: Any) -> None:
    written = _canonical(value)
    digest.update(len(written).to_bytes(8, "big") + written)


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True).encode()
