"""What a search gives an agent: passages of one place joined, cut to a token budget."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from zapomni_core.interfaces import SearchResponse, SearchResult
from zapomni_core.shared.compact import without_empty
from zapomni_core.shared.fencing import DATA_NOTICE, fence, quoted
from zapomni_db.code_models import CheckedCitation

__all__ = [
    "CHARS_PER_TOKEN",
    "Cited",
    "Found",
    "SearchAnswer",
    "answer_text",
    "cited",
    "fence_hits",
    "fit",
]

CHARS_PER_TOKEN = 3.5
SHORTEST_EXCERPT = 120
TITLE_CHARS = 80
REPLACED_CHARS = 150
# Neighbouring passages of one text share a sentence or two.
SHORTEST_OVERLAP, LONGEST_OVERLAP = 12, 600


class Cited(BaseModel):
    """Code that a memory cites."""

    cites: str = Field(description="path, path:symbol or path:L10-L20.")
    place: str = Field(description="same, moved or gone.")
    content: str = Field(description="same, reworded (does the same) or changed.")
    status: str = Field(description="Both in a word: fresh, changed, moved or gone.")
    now: str = Field(description="Where it is now, if elsewhere.")
    what: str = Field(description="What changed, since which commit.")


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


def cited(citations: Iterable[CheckedCitation]) -> list[Cited]:
    """Return briefly the state of the code that memories cite."""
    names = ("cites", "place", "content", "status", "now", "what")
    return [Cited(**{name: getattr(one, name) for name in names}) for one in citations]


def fit(response: SearchResponse, offset: int, max_tokens: int) -> dict[str, Any]:
    """Return the best results that fit as the data of a `SearchAnswer`, each hit serialized once.

    The last one is cut; the first is always returned.
    """
    notes = [said for said in (response.correction(), response.notice) if said]
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


def fence_hits(answer: dict[str, Any]) -> list[str]:
    """Return the passages of `fit`, each quoted so that it cannot end its quotation."""
    return [
        fence(hit["text"], **{name: hit[name] for name in hit if name != "text"})
        for hit in answer["results"]
    ]


def answer_text(answer: dict[str, Any], passages: Iterable[str]) -> str:
    """Return the whole text of an answer."""
    return "\n\n".join([DATA_NOTICE, *passages, answer.get("note", "")]).strip()
