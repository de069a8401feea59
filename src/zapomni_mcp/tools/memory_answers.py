"""What the memory tools answer, cut to a token budget."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from zapomni_core.interfaces import AddMemoryResponse
from zapomni_core.workflows.agent_answer import CHARS_PER_TOKEN, Cited, cited
from zapomni_db.code_models import CheckedCitation
from zapomni_db.models import MemoryRecord

__all__ = [
    "Added",
    "Changed",
    "Deleted",
    "MemoryInfo",
    "MemoryText",
    "added",
    "info",
    "part",
]

Id = Annotated[str, Field(min_length=1)]


class Similar(BaseModel):
    """A stored memory that a new one may replace."""

    memory_id: Id
    text: str


class Added(BaseModel):
    """What became of a text."""

    memory_id: Id
    status: str = Field(description="created, duplicate (same text) or replayed (same key)")
    chunks_created: int
    pending_vectors: int = Field(description="Passages found by words only until embedded.")
    similar: list[Similar] = []
    notice: str | None


class MemoryInfo(BaseModel):
    """A memory without its text."""

    memory_id: Id
    created_at: datetime
    updated_at: datetime
    source: str
    project: str
    kind: str
    tags: list[str] = []
    pinned: bool
    expires_at: datetime | None = None
    superseded_by: str | None
    total_chars: int


class Changed(MemoryInfo):
    """A memory after a change, without its text."""

    notice: str | None = Field(description="Kinds of secrets in what was changed, if any.")


class MemoryText(MemoryInfo):
    """A memory with its text, or the part of it that was asked for."""

    metadata: dict[str, Any]
    citations: list[Cited] = Field(default=[], description="Code it cites, checked just now.")
    text: str
    offset: int
    next_offset: int | None = Field(description="Where to read on, if there is more.")
    note: str | None


class Deleted(BaseModel):
    """Which memory is in the trash."""

    memory_id: Id
    deleted: bool = True
    undo: str


def added(response: AddMemoryResponse) -> Added:
    """Return what became of a text, and how to say that it replaces what it resembles."""
    answer = Added.model_validate(response, from_attributes=True)
    if not answer.similar:
        return answer
    ids = json.dumps([one.memory_id for one in answer.similar])
    notice = (
        "It resembles what is stored. If it replaces any of that: "
        f'update_memory(memory_id="{answer.memory_id}", supersedes={ids}) with those it replaces.'
    )
    return answer.model_copy(update={"notice": " ".join(filter(None, (answer.notice, notice)))})


def info(record: MemoryRecord) -> dict[str, Any]:
    fields = MemoryInfo.model_fields.keys() - {"total_chars"}
    return {**record.model_dump(include=fields), "total_chars": len(record.text)}


def part(
    record: MemoryRecord, citations: list[CheckedCitation], offset: int, max_tokens: int
) -> MemoryText:
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
        citations=cited(citations),
        text=text,
        offset=offset,
        next_offset=end if more else None,
        note=" ".join(notes) or None,
    )
