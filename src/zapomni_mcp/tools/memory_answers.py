"""What the memory tools answer, cut to a token budget."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from zapomni_core.interfaces import AddMemoryResponse, SearchResponse, SearchResult
from zapomni_core.shared.fencing import DATA_NOTICE, quoted
from zapomni_db.code_models import CheckedCitation
from zapomni_db.models import MemoryRecord
from zapomni_mcp.tools.building import without_empty

__all__ = [
    "Added",
    "Changed",
    "Cited",
    "Deleted",
    "Found",
    "MemoryInfo",
    "MemoryText",
    "SearchAnswer",
    "added",
    "fit",
    "info",
    "part",
]

CHARS_PER_TOKEN = 3.5
SHORTEST_EXCERPT = 120
TITLE_CHARS = 80
REPLACED_CHARS = 150
# Neighbouring passages of one text share a sentence or two.
SHORTEST_OVERLAP, LONGEST_OVERLAP = 12, 600


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


class Cited(BaseModel):
    """Code that a memory cites."""

    place: str = Field(description="path, path:symbol or path:L10-L20.")
    status: str = Field(description="fresh, changed, moved or gone since it was remembered.")
    now: str = Field(description="Where it is now, if elsewhere.")


class MemoryText(MemoryInfo):
    """A memory with its text, or the part of it that was asked for."""

    metadata: dict[str, Any]
    citations: list[Cited] = Field(default=[], description="Code it cites, checked just now.")
    text: str
    offset: int
    next_offset: int | None = Field(description="Where to read on, if there is more.")
    note: str | None


class Found(BaseModel):
    """The best passages of one memory, document or conversation, with their neighbors."""

    title: str = Field(description="Day and origin; expired, not trusted or replaced, if it is.")
    memory_id: str = Field(description="For get_memory; not of an observation.")
    observation_id: int | None = Field(default=None, description="For timeline, get_observations.")
    more_ids: list[str] = Field(
        default=[], description="Other hits in the same conversation, or with the same text."
    )
    score: float = Field(description="Rank; compare within one answer.")
    evidence: float = Field(description="How sure it answers, 0 to 1.")
    evidence_word: str = Field(description="strong, weak or none.")
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
    citations: list[Cited] | None = Field(
        default=None, description="Code it cites, checked just now; distrust what is not fresh."
    )
    explanation: dict[str, Any] | None = Field(
        default=None, description="Score and rank by arm, weights, boosts, if asked for."
    )


class SearchAnswer(BaseModel):
    """Passages, best first."""

    results: list[Found]
    omitted: int = Field(description="Results left out to keep within max_tokens.")
    total: int = Field(description="How many memories and observations were found in all.")
    more: bool = Field(description="Whether total is a lower bound.")
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


def cited(citations: Iterable[CheckedCitation]) -> list[Cited]:
    """Return briefly the state of the code that memories cite."""
    return [Cited(place=one.place, status=one.status, now=one.now) for one in citations]


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


def fit(response: SearchResponse, offset: int, max_tokens: int) -> dict[str, Any]:
    """Return the best results that fit as the data of a `SearchAnswer`, each hit serialized once.

    The last one is cut; the first is always returned.
    """
    notes = [response.notice] if response.notice else []
    room = int(max_tokens * CHARS_PER_TOKEN) - len(DATA_NOTICE) - sum(map(len, notes))
    kept: list[dict[str, Any]] = []
    groups = _grouped(response.results)
    for number, group in enumerate(groups):
        hit = without_empty(_found(group))
        rest = room - len(json.dumps(hit, ensure_ascii=False))
        # The neighbors of a hit must not push out the hits after it.
        text = group[0].text
        if not response.nothing_close:
            text = _join_passages(group, rest // (len(groups) - number))
        if kept and rest < min(len(text), SHORTEST_EXCERPT):
            break
        cut = text[: SHORTEST_EXCERPT if response.nothing_close else max(rest, SHORTEST_EXCERPT)]
        kept.append({**hit, "text": cut, "truncated": cut != text})
        room = rest - len(cut)
    omitted = sum(map(len, groups[len(kept) :]))
    if not response.results:
        notes.append("Nothing found. Try other words or fewer filters.")
    if response.nothing_close:
        notes.append("Nothing close: these are the nearest, shortened; do not rely on them.")
    following = offset + len(response.results)
    if omitted:
        following = offset + response.results.index(groups[len(kept)][0])
        notes.append(f"{omitted} more left out: raise max_tokens, or use offset={following}.")
    elif response.results and (response.more or response.total > following):
        notes.append(f"There is more: use offset={following}.")
    if response.elsewhere:
        notes.append(f'{response.elsewhere} more in other projects: project="*".')
    if any(hit["truncated"] for hit in kept):
        notes.append("Passages marked truncated are cut; get_memory reads them whole.")
    note = {"note": " ".join(notes)} if notes else {}
    counts = {"omitted": omitted, "total": response.total, "more": response.more}
    return {"results": kept, **counts, **note}


def _grouped(results: list[SearchResult]) -> list[list[SearchResult]]:
    """Put results of one conversation together, and those that say the same."""
    groups: dict[object, list[SearchResult]] = {}
    alike: dict[str, object] = {}
    for result in results:
        place: object = (result.project, result.parent, result.observation_id)
        if not result.parent:
            place = result.chunk_id
        # The same words are shown once, whatever their source.
        place = alike.setdefault(" ".join(result.text.split()).casefold(), place)
        groups.setdefault(place, []).append(result)
    return list(groups.values())


# What an agent is given of a hit unchanged.
_SHARED_FIELDS = (Found.model_fields.keys() & SearchResult.model_fields) - {"text", "citations"}


def _found(group: list[SearchResult]) -> Found:
    best = group[0]
    surest = max(group, key=lambda hit: hit.evidence)
    shared = {name: getattr(best, name) for name in _SHARED_FIELDS}
    evidence = {"evidence": surest.evidence, "evidence_word": surest.evidence_word}
    return Found(
        **{**shared, **evidence},
        citations=cited(one for hit in group for one in hit.citations) or None,
        title=_title(best),
        more_ids=[hit.memory_id for hit in group[1:]],
        text="",
        truncated=False,
    )


def _title(hit: SearchResult) -> str:
    title = f"observation #{hit.observation_id}" if hit.observation_id else hit.parent or hit.source
    about = [f"{hit.occurred_at:%Y-%m-%d}", hit.kind, title[:TITLE_CHARS], *hit.cautions()]
    if hit.replaced is not None:
        about.append(quoted(hit.replaced.line(), REPLACED_CHARS))
    return " · ".join(part for part in about if part)


def _join_passages(group: list[SearchResult], room: int) -> str:
    """Join the hits of one place in order, with their neighbors if there is room."""
    hits = {hit.text: (hit.position, 0) for hit in reversed(group)}
    neighbors = {
        text: (hit.position, side)
        for hit in group
        for text, side in ((hit.before, -1), (hit.after, 1))
        if text
    }
    for places in ({**neighbors, **hits}, hits):
        joined = functools.reduce(_append, sorted(places, key=lambda text: places[text]))
        if len(joined) <= room:
            return joined
    return group[0].text


def _append(text: str, part: str) -> str:
    """Join two passages; an overlap of their ends appears once."""
    for shared in range(min(len(text), len(part), LONGEST_OVERLAP), SHORTEST_OVERLAP - 1, -1):
        if text.endswith(part[:shared]):
            return text + part[shared:]
    return f"{text}\n{part}"
