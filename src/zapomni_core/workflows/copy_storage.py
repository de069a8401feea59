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
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

from zapomni_core.exceptions import ValidationError
from zapomni_core.shared.records import to_record
from zapomni_db.copy_models import MemoryCopy, ReadingCopy
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import EntityData, RelationshipData
from zapomni_db.sqlite import copying
from zapomni_db.sqlite.code import SqliteCode
from zapomni_db.sqlite.observations import ObservationFile

__all__ = [
    "Contents",
    "LocalContents",
    "compare_storages",
    "copy_code",
    "copy_observations",
    "copy_storage",
]

PAGE = 50
GRAPH_PAGE = 500

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Contents:
    """What a store holds: how much of each, and a hash of all of it in order.

    `versions` are what memories were before; `entities` and `relationships` are all that the graph
    has, read in memories or given by callers, each once and merged ones as one, dates and names
    that are no nodes yet included; `mentions` and `sentences` are where memories name and state
    them.
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


class LocalContents(NamedTuple):
    """What a local file holds: how much of each, and a hash of all of it."""

    counts: dict[str, int]
    sha256: str


async def copy_storage(source: StorageProvider, target: StorageProvider, progress: Progress) -> int:
    """Copy what is not there yet; return how many memories were there already.

    Raises:
        ValidationError: The destination holds something that is not in the source.
        DatabaseError: Reading or writing failed; what was copied stays, run it again.
    """
    total = await _count_memories(source)
    there = await _count_same(source, target)
    space = await source.get_space()
    if space is not None and await target.get_space() is None:
        await target.activate_space(space)
    async for entities in _entity_pages(source):
        await target.store_entities(entities, [])
    async for relationships in _relationship_pages(source):
        await target.store_entities([], relationships)
    done = 0
    async for memories, readings in _pages(source):
        if new := memories[max(there - done, 0) :]:
            await target.import_memories(new)
        # Of those that were there, too: the run before may have ended between the two.
        await target.import_readings(readings)
        done += len(memories)
        progress(done, total)
    merges = await source.export_merges()
    if merges != await target.export_merges():
        await target.import_merges(merges)
    return there


async def _count_memories(storage: StorageProvider) -> int:
    stats = await storage.get_stats()
    # Files of repositories are counted apart, and copied like every memory.
    return int(stats["total_memories"]) + int(stats.get("code_files", 0))


async def _count_same(source: StorageProvider, target: StorageProvider) -> int:
    """Return how many memories the destination has, all of them the first of the source."""
    originals = (one async for page, _ in _pages(source) for one in page)
    there = 0
    async for page, _ in _pages(target):
        for copied in page:
            original = await anext(originals, None)
            if original is None or _fingerprint(original) != _fingerprint(copied):
                raise ValidationError(
                    "The destination holds memories that are not in the source, or in another "
                    "order. Name an empty one: another file, or another graph of the server.",
                    "VAL_004",
                )
            there += 1
    await originals.aclose()
    return there


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
    ids: set[str] = set()
    edges: set[tuple[str, str, str]] = set()
    space = await storage.get_space()
    _add(digest, space and space.model_dump())
    async for memories, readings in _pages(storage):
        for memory in memories:
            digest.update(_fingerprint(memory))
            counts["memories"] += 1
            counts["passages"] += len(memory.chunks)
            counts["vectors"] += sum(chunk.embedding is not None for chunk in memory.chunks)
            counts["token_vectors"] += sum(chunk.tokens is not None for chunk in memory.chunks)
            counts["versions"] += len(memory.history)
        for reading in readings:
            stated = [one for passage in reading.passages for one in passage.relationships]
            stated += [sentence.stated for sentence in reading.past]
            counts["mentions"] += sum(len(passage.entities) for passage in reading.passages)
            counts["sentences"] += len(stated)
            ids.update(entity.entity_id for entity in reading.entities)
            edges.update(map(_ends, stated))
            _add(digest, reading.model_dump(mode="json"))
        progress(done + counts["memories"], total)
    async for entities in _entity_pages(storage):
        ids.update(entity.entity_id for entity in entities)
        _add(digest, [entity.model_dump() for entity in entities])
    async for relationships in _relationship_pages(storage):
        edges.update(map(_ends, relationships))
        _add(digest, [one.model_dump(mode="json") for one in relationships])
    merges = await storage.export_merges()
    _add(digest, [merge.model_dump(mode="json") for merge in merges])
    merged = {one.source_id: one.target_id for one in merges if one.undone_at is None}

    def as_one(entity_id: str) -> str:
        while entity_id in merged:
            entity_id = merged[entity_id]
        return entity_id

    joined = {(as_one(source), as_one(target), kind) for source, target, kind in edges}
    counts["merges"] = len(merges)
    counts["entities"] = len({as_one(entity_id) for entity_id in ids})
    counts["relationships"] = sum(source != target for source, target, _ in joined)
    return Contents(**counts, sha256=digest.hexdigest())


# --- The local file ---------------------------------------------------------------------


async def copy_observations(source: Path, target: Path, progress: Progress) -> LocalContents:
    """Copy projects, sessions and observations from one local file to another, and compare them.

    Raises:
        ValidationError: The destination has observations that are not in the source, or they are
            not the same in the end.
    """
    async with AsyncExitStack() as opened:
        origin, goal = ObservationFile(source), ObservationFile(target)
        opened.push_async_callback(origin.close)
        opened.push_async_callback(goal.close)
        months = await origin.read([], copying.list_months, None)
        for month in await goal.read([], copying.list_months, None):
            rows = await origin.read([], copying.export_observations, month, None)
            known = {row["event_hash"] for row in rows}
            there = await goal.read([], copying.export_observations, month, None)
            if any(row["event_hash"] not in known for row in there):
                raise ValidationError(
                    "The destination has observations that are not in the source. "
                    "Name an empty one.",
                    "VAL_004",
                )
        projects = await origin.read([], copying.export_projects)
        await goal.write(copying.import_projects, projects)
        sessions = await origin.read([], copying.export_sessions, None)
        await goal.write(copying.import_sessions, sessions)
        for done, month in enumerate(months, 1):
            rows = await origin.read([], copying.export_observations, month, None)
            for start in range(0, len(rows), GRAPH_PAGE):
                await goal.write(copying.import_observations, rows[start : start + GRAPH_PAGE])
            progress(done, len(months))
        return _same_or_fail(await _observed(origin), await _observed(goal))


async def _observed(file: ObservationFile) -> LocalContents:
    digest = hashlib.sha256()
    counts = {"projects": 0, "sessions": 0, "observations": 0}
    projects = await file.read([], copying.export_projects)
    sessions = await file.read([], copying.export_sessions, None)
    counts["projects"], counts["sessions"] = len(projects), len(sessions)
    _add(digest, [projects, sessions])
    for month in await file.read([], copying.list_months, None):
        rows = await file.read([], copying.export_observations, month, None)
        counts["observations"] += len(rows)
        _add(digest, rows)
    return LocalContents(counts, digest.hexdigest())


async def copy_code(source: Path, target: Path, progress: Progress) -> LocalContents:
    """Copy indexed code and citations from one local file to another, and compare them.

    Raises:
        ValidationError: The destination has other repositories, or they are not the same in the
            end.
    """
    async with AsyncExitStack() as opened:
        origin = SqliteCode(source)
        opened.push_async_callback(origin.close)
        goal = SqliteCode(target)
        opened.push_async_callback(goal.close)
        roots = [one.root for one in await origin.list_repositories()]
        if await goal.read("copying code", copying.has_other_code, roots):
            raise ValidationError(
                "The destination has indexed repositories that are not in the source. "
                "Name an empty one.",
                "VAL_004",
            )
        # Rows refer to each other by number: a part of them would be of no use.
        await goal.write("copying code", copying.clear_code)
        for done, table in enumerate(copying.CODE_TABLES, 1):
            async for rows in _code_rows(origin, table):
                await goal.write("copying code", copying.import_code, table, rows)
            progress(done, len(copying.CODE_TABLES))
        return _same_or_fail(await _indexed(origin), await _indexed(goal))


async def _code_rows(
    code: SqliteCode, table: LiteralString
) -> AsyncIterator[list[tuple[Any, ...]]]:
    offset = 0
    while rows := await code.read("copying code", copying.export_code, table, offset, GRAPH_PAGE):
        yield rows
        offset += len(rows)


async def _indexed(code: SqliteCode) -> LocalContents:
    digest = hashlib.sha256()
    counts = dict.fromkeys(copying.CODE_TABLES, 0)
    for table in copying.CODE_TABLES:
        async for rows in _code_rows(code, table):
            counts[table] += len(rows)
            _add(digest, [table, rows])
    return LocalContents({**counts}, digest.hexdigest())


def _same_or_fail(original: LocalContents, copied: LocalContents) -> LocalContents:
    if original != copied:
        raise ValidationError(
            "The copy is not the same as its source. If something was written meanwhile, stop that "
            "and copy again. The source is unchanged.",
            "VAL_004",
        )
    return copied


def _ends(stated: RelationshipData) -> tuple[str, str, str]:
    return stated.source_entity_id, stated.target_entity_id, stated.relationship_type


async def _pages(
    storage: StorageProvider,
) -> AsyncIterator[tuple[list[MemoryCopy], list[ReadingCopy]]]:
    """Yield memories in the order they were stored, and what was extracted from them."""
    after = None
    while True:
        page = await storage.export_memories(after, PAGE)
        if page.items:
            ids = [memory.memory_id for memory in page.items]
            found = {one.memory_id: one for one in await storage.get_readings(ids)}
            yield page.items, [found[one] for one in ids if one in found]
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


def _fingerprint(memory: MemoryCopy) -> bytes:
    """Hash a memory's record and passages; vectors as the 32-bit numbers every engine keeps."""
    digest = hashlib.sha256()
    older = [memory.supersedes, *memory.also_supersedes]
    _add(digest, [to_record(memory), older, memory.trusted, memory.space and dict(memory.space)])
    for chunk in memory.chunks:
        known = chunk.model_dump(mode="json", exclude={"embedding", "tokens"})
        vector, tokens = chunk.embedding, chunk.tokens
        known |= {"vector": vector is not None, "tokens": tokens is not None}
        packed = struct.pack(f"<{len(vector)}f", *vector) if vector else b""
        _add(digest, known)
        for part in (packed, tokens or b""):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _add(digest: hashlib._Hash, value: Any) -> None:
    written = json.dumps(value, sort_keys=True, ensure_ascii=True).encode()
    digest.update(len(written).to_bytes(8, "big") + written)
