"""Memories and their chunks as a statement takes them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from zapomni_db.copy_models import MemoryCopy
from zapomni_db.falkordb.values import (
    Vector,
    content_hash,
    digest,
    text_hash,
    to_json,
    to_time,
    to_tokens,
)
from zapomni_db.falkordb.words import BREAK, as_document, stems_of
from zapomni_db.models import ChunkData, MemoryData

__all__ = ["chunk_rows", "group_of", "idempotency_hash", "memory_rows"]

# Chunks whose words take longer to make than another thread takes to wake up.
LONG = 10


def idempotency_hash(key: str | None) -> str | None:
    return None if key is None else digest(key)


async def memory_rows(memories: Sequence[MemoryData]) -> tuple[list[dict[str, Any]], int]:
    """Return the parameters of `storing._CREATE_MEMORIES` and how many keys they use."""
    keys = count(1)
    rows = [_memory_row(memory, next(keys)) for memory in memories]
    for memory, row in zip(memories, rows, strict=True):
        row["chunks"] = await chunk_rows(memory.chunks, keys)
        row["versions"] = _version_rows(memory, keys)
    return rows, next(keys)


def _memory_row(memory: MemoryData, key: int) -> dict[str, Any]:
    happened = memory.occurred_at or memory.timestamp
    changed, said = memory.timestamp, happened
    if isinstance(memory, MemoryCopy):
        changed = memory.updated_at
        said = max((v.replaced_at for v in memory.history if v.text is not None), default=happened)
    return {
        "id": memory.memory_id,
        "key": key,
        "text": memory.text,
        "length": len(memory.text),
        "metadata": to_json(memory.metadata),
        "content_hash": content_hash(memory.text),
        "project": memory.project,
        "project_hash": digest(memory.project),
        "source": memory.source,
        "kind": memory.kind,
        "tags": sorted(set(memory.tags)),
        "pinned": memory.pinned,
        "parent": memory.parent,
        "position": memory.position,
        "group": group_of(memory.memory_id, memory.project, memory.parent),
        "occurred_at": to_time(happened),
        "said": to_time(said),
        "created_at": to_time(memory.timestamp),
        "updated_at": to_time(changed),
        "idempotency_key": memory.idempotency_key,
        "idempotency_hash": idempotency_hash(memory.idempotency_key),
    }


def _version_rows(memory: MemoryData, keys: Iterator[int]) -> list[dict[str, Any]]:
    """Return what a memory was before, if it comes from another store."""
    history = memory.history if isinstance(memory, MemoryCopy) else []
    return [
        {
            "key": next(keys),
            "replaced_at": to_time(version.replaced_at),
            "fields": to_json(version.fields),
            "text": version.text,
        }
        for version in history
    ]


def group_of(memory_id: str, project: str, parent: str) -> str:
    """Name what a memory is a part of: its parent in its project, or itself."""
    return digest(project, parent) if parent else memory_id


async def chunk_rows(chunks: Sequence[ChunkData], keys: Iterator[int]) -> list[dict[str, Any]]:
    """Return the parameters of `storing.CREATE_CHUNKS`."""
    # Others may have the event loop while the words of a long text are made.
    is_long = len(chunks) > LONG
    words = await asyncio.to_thread(_words_in, chunks) if is_long else _words_in(chunks)
    return [
        {
            "id": str(uuid.uuid4()),
            "key": next(keys),
            "index": chunk.index,
            "text": chunk.text,
            "text_hash": text_hash(chunk.text),
            "start_char": chunk.start_char,
            "end_char": chunk.end_char,
            "metadata": to_json(chunk.metadata),
            "context": chunk.context,
            "words": document,
            "size": size,
            "pending": True if chunk.embedding is None else None,
            "vector": None if chunk.embedding is None else Vector(chunk.embedding),
            "tokens": None if chunk.embedding is None else to_tokens(chunk.tokens),
        }
        for chunk, (document, size) in zip(chunks, words, strict=True)
    ]


def _words_in(chunks: Sequence[ChunkData]) -> list[tuple[str, int]]:
    """Return what each chunk is found by, and how many words that are."""
    stems = stems_of([text for chunk in chunks for text in (chunk.text, chunk.context)])
    return [
        (as_document([*own, BREAK, *beside] if beside else own), len(own) + len(beside))
        for own, beside in zip(stems[::2], stems[1::2], strict=True)
    ]
