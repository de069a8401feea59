"""What the memory tools answer, cut to a token budget."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from zapomni_core.interfaces import SearchResult
from zapomni_db.models import MemoryRecord
from zapomni_mcp.fencing import DATA_NOTICE

__all__ = [
    "Added",
    "Deleted",
    "Found",
    "MemoryInfo",
    "MemoryText",
    "SearchAnswer",
    "fit",
    "info",
    "part",
]

CHARS_PER_TOKEN = 3.5
SHORTEST_EXCERPT = 120


class Added(BaseModel):
    """What became of a text."""

    memory_id: str
    status: str = Field(description="created, duplicate (same text) or replayed (same key)")
    chunks_created: int
    pending_vectors: int = Field(description="Passages found by words only until embedded.")
    notice: str | None


class MemoryInfo(BaseModel):
    """A memory without its text."""

    memory_id: str
    created_at: datetime
    updated_at: datetime
    source: str
    project: str
    kind: str
    tags: list[str]
    pinned: bool
    superseded_by: str | None
    total_chars: int


class MemoryText(MemoryInfo):
    """A memory with its text, or the part of it that was asked for."""

    data_notice: str = DATA_NOTICE
    metadata: dict[str, Any]
    text: str
    offset: int
    next_offset: int | None = Field(description="Where to read on; null at the end.")
    note: str | None


class Found(BaseModel):
    """The best passage of one memory."""

    memory_id: str
    score: float
    text: str
    truncated: bool
    created_at: datetime
    occurred_at: datetime
    parent: str
    source: str
    project: str
    kind: str
    tags: list[str]
    pinned: bool
    explanation: dict[str, Any] | None = Field(
        default=None, description="Scores by arm, weights and boosts, if asked for."
    )


class SearchAnswer(BaseModel):
    """Passages, best first."""

    data_notice: str = DATA_NOTICE
    results: list[Found]
    omitted: int = Field(description="Results left out to keep within max_tokens.")
    note: str | None


class Deleted(BaseModel):
    """Which memory is gone."""

    memory_id: str
    deleted: bool = True


def info(record: MemoryRecord) -> dict[str, Any]:
    fields = MemoryInfo.model_fields.keys() - {"total_chars"}
    return {**record.model_dump(include=fields), "total_chars": len(record.text)}


def part(record: MemoryRecord, offset: int, max_tokens: int) -> MemoryText:
    budget = int(max_tokens * CHARS_PER_TOKEN)
    metadata_length = len(json.dumps(record.metadata, ensure_ascii=False))
    fits = metadata_length <= budget // 4
    text = record.text[offset : offset + budget]
    end = offset + len(text)
    more = end < len(record.text)
    notes = []
    if more:
        notes.append(
            f"Characters {offset} to {end} of {len(record.text)}. Read on with "
            f"get_memory(memory_id={record.memory_id!r}, offset={end})."
        )
    if not fits:
        notes.append(f"Metadata ({metadata_length} characters) left out; raise max_tokens.")
    return MemoryText(
        **info(record),
        metadata=record.metadata if fits else {},
        text=text,
        offset=offset,
        next_offset=end if more else None,
        note=" ".join(notes) or None,
    )


def fit(
    results: list[SearchResult], offset: int, max_tokens: int, notice: str | None
) -> SearchAnswer:
    """Keep the best results that fit; cut the last one, and always return the first."""
    room = int(max_tokens * CHARS_PER_TOKEN) - len(DATA_NOTICE) - len(notice or "")
    kept: list[Found] = []
    for result in results:
        hit = Found(**result.model_dump(include=set(Found.model_fields)), truncated=False)
        rest = room - len(hit.model_copy(update={"text": ""}).model_dump_json())
        if kept and rest < min(len(hit.text), SHORTEST_EXCERPT):
            break
        cut = hit.text[: max(rest, SHORTEST_EXCERPT)]
        kept.append(hit.model_copy(update={"text": cut, "truncated": cut != hit.text}))
        room = rest - len(cut)
    omitted = len(results) - len(kept)
    notes = [notice] if notice else []
    if not results:
        notes.append("Nothing found. Try other words or fewer filters.")
    if omitted:
        following = offset + len(kept)
        notes.append(f"{omitted} more left out: raise max_tokens, or use offset={following}.")
    if any(hit.truncated for hit in kept):
        notes.append("Passages marked truncated are cut; get_memory reads them whole.")
    return SearchAnswer(results=kept, omitted=omitted, note=" ".join(notes) or None)
