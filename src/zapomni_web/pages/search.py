"""Search: one list over memories, observations and code, with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from markupsafe import Markup

from zapomni_core.interfaces import ListRequest, SearchRequest, SearchResponse, SearchResult
from zapomni_core.modules.memories import ARM_ALIASES
from zapomni_core.shared.text import query_terms
from zapomni_db.models import MemorySummary
from zapomni_web.page import PageRequest, PageView, address
from zapomni_web.text import mark_words

__all__ = ["Hit", "show"]

PER_PAGE = 20
# Facets count these, the best hits: to count all of them would take as long as to rank them.
COUNTED = 100
FACET_VALUES = 8
AGENT_TOKENS = 2000
PASSAGE_CHARS = 600

PLACES = {
    "everything": "Everything",
    "memories": "Memories",
    "observations": "Observations",
    "code": "Code",
}
_FILTERS = ("project", "kind", "source", "session", "path")
ARMS = {
    "bm25": "its words",
    "bm25_window": "the words around it",
    "bm25_parent": "the words of its parent",
    "phrase": "word pairs",
    "cosine": "its meaning",
    "context": "the meaning around it",
    "tokens": "word by word meaning",
    "cross": "the reranker",
}


class Bar(NamedTuple):
    """One reason a hit ranked, as a bar."""

    label: str
    name: str
    value: float
    percent: float
    note: str


class Facet(NamedTuple):
    """A filter with the values that hits have, and how many."""

    name: str
    label: str
    values: list[FacetValue]


class FacetValue(NamedTuple):
    """A value of a facet."""

    label: str
    hits: int
    href: str
    chosen: bool


class Hit(NamedTuple):
    """A memory or an observation in a list."""

    result: SearchResult | MemorySummary
    href: str
    text: Markup
    evidence: str
    """How sure it is that it answers; empty in a list that answers nothing."""
    replaced: str
    bars: list[Bar]
    boosts: list[Bar]
    why: str


async def show(asked: PageRequest) -> PageView:
    """Show the hits of a question, or the latest memories if there is none."""
    query = asked.get("q")
    offset = asked.get_int("offset", 0, 1000)
    if not query:
        return await _show_latest(asked, offset)
    if asked.get("view") == "agent":
        return await _show_agent(asked, query)
    request = _request(asked, query)
    wide = await asked.engine.search_memory(
        request.model_copy(update={"limit": COUNTED, "explain": True})
    )
    page = wide.results[offset : offset + PER_PAGE]
    if offset + PER_PAGE > COUNTED:
        deeper = request.model_copy(update={"limit": PER_PAGE, "offset": offset, "explain": True})
        page = (await asked.engine.search_memory(deeper)).results
    shown = wide.model_copy(update={"results": page, "count": len(page)})
    words = query_terms(query)
    best = _best_scores([*wide.results, *page])
    following = offset + len(page)
    return PageView(
        "search.html",
        f"{query[:80]}",
        shown,
        _command(asked, query, offset),
        {
            **_common(asked, query),
            "hits": [_hit(one, words, best) for one in page],
            "facets": _facets(asked, wide.results),
            "total": f"{'more than ' if wide.more else ''}{wide.total}",
            "nothing_close": wide.nothing_close,
            "notice": " ".join(filter(None, (wide.correction(), wide.notice))),
            "next": asked.here(offset=str(following))
            if page and (wide.more or wide.total > following)
            else "",
            "previous": asked.here(offset=str(max(0, offset - PER_PAGE))) if offset else "",
            "first": offset + 1,
            "last": following,
        },
        live="memories",
    )


def _request(asked: PageRequest, query: str) -> SearchRequest:
    place = asked.get("in") or "everything"
    within: Literal["everything", "memories", "observations"] = "everything"
    if place == "memories":
        within = "memories"
    elif place == "observations":
        within = "observations"
    return SearchRequest(query=query, within=within, filters=_filters(asked))


def _filters(asked: PageRequest) -> dict[str, Any]:
    filters: dict[str, Any] = {name: asked.get(name) for name in _FILTERS[1:] if asked.get(name)}
    filters["project"] = asked.project
    if asked.get("in") == "code":
        filters["kind"] = "code"
    if tags := asked.get_all("tag"):
        filters["tags"] = tags
    for name in ("since", "until", "as_of", "known_at"):
        if (moment := asked.get_time(name)) is not None:
            filters[name] = moment
    if asked.get("superseded"):
        filters["include_superseded"] = True
    if asked.get("pinned"):
        filters["pinned"] = True
    return filters


def _command(asked: PageRequest, query: str, offset: int = 0) -> list[str]:
    command = ["zapomni", "search"] if query else ["zapomni", "list"]
    place = asked.get("in")
    options: list[tuple[str, str]] = []
    if query and place in ("memories", "observations"):
        options.append(("--in", place))
    names = {**{name: f"--{name}" for name in _FILTERS}, "since": "--since", "until": "--until"}
    names |= {"as_of": "--as-of", "known_at": "--known-at"}
    for name, option in names.items():
        if name == "project":
            if asked.project == "*":
                command.append("--all")
            else:
                options.append((option, asked.project))
        elif name == "kind" and place == "code":
            options.append((option, "code"))
        elif value := asked.get(name):
            options.append((option, value))
    options += [("--tag", tag) for tag in asked.get_all("tag")]
    command += [
        f"{option}={value}" if value.startswith("-") else part
        for option, value in options
        for part in ((option,) if value.startswith("-") else (option, value))
    ]
    command += [f"--{name}" for name in ("superseded", "pinned") if asked.get(name)]
    if offset:
        command += ["--offset", str(offset)]
    return [*command, "--", query] if query else command


def _common(asked: PageRequest, query: str) -> dict[str, Any]:
    """Return what the form shows again."""
    place = asked.get("in") or "everything"
    chosen = [
        (name, value)
        for name in ("project", "kind", "source", "session", "path", "since", "until", "as_of")
        if (value := asked.get(name))
    ]
    chosen += [("tag", tag) for tag in asked.get_all("tag")]
    return {
        "query": query,
        "place": place,
        "places": [
            (name, label, asked.here(**{"in": None if name == "everything" else name}))
            for name, label in PLACES.items()
        ],
        "as_of": asked.get("as_of"),
        "chosen": [(name, value, _without(asked, name, value)) for name, value in chosen],
        "view": asked.get("view"),
        "hits_href": asked.here(view=None, offset=None),
        "agent_href": asked.here(view="agent", offset=None),
        "clear_href": address("search", q=query),
    }


def _without(asked: PageRequest, name: str, value: str) -> str:
    rest = [one for one in asked.get_all(name) if one != value]
    return asked.here(**{name: rest, "offset": None})


# --- Hits -------------------------------------------------------------------------------


def _hit(one: SearchResult, words: Sequence[str], best: Mapping[str, float]) -> Hit:
    href = address("m", one.memory_id)
    if one.observation_id is not None:
        href = f"{address('s', one.parent, at=one.observation_id)}#o{one.observation_id}"
    bars, boosts, why = _reasons(one.explanation or {}, best)
    return Hit(
        one,
        href,
        mark_words(_shorten(one.text), words),
        one.evidence_word,
        one.replaced.line() if one.replaced else "",
        bars,
        boosts,
        why,
    )


def _shorten(text: str) -> str:
    """Return a passage without its blank lines, cut to what a list shows."""
    shown = "\n".join(line for line in text.splitlines() if line.strip())
    return shown if len(shown) <= PASSAGE_CHARS else f"{shown[:PASSAGE_CHARS].rstrip()}…"


def _best_scores(hits: Sequence[SearchResult]) -> dict[str, float]:
    """Return the highest score of each arm: bars compare hits, whatever an arm counts in."""
    best: dict[str, float] = {}
    for hit in hits:
        for name, arm in (hit.explanation or {}).get("arms", {}).items():
            best[name] = max(best.get(name, 0.0), arm["score"])
    return best


def _reasons(
    explanation: dict[str, Any], best: Mapping[str, float]
) -> tuple[list[Bar], list[Bar], str]:
    arms = explanation.get("arms", {})
    weights = explanation.get("weights", {})
    bars = [
        Bar(
            ARMS.get(name, name),
            name,
            arm["score"],
            round(100 * arm["score"] / (best.get(name) or 1.0), 1),
            f"rank {arm['rank']}",
        )
        for name, arm in arms.items()
        if name not in ARM_ALIASES
    ]
    added = {name: value for name, value in explanation.get("boosts", {}).items() if value}
    boosts = [
        Bar(name.replace("_", " "), name, value, round(min(abs(value), 1.0) * 100, 1), "")
        for name, value in added.items()
    ]
    shared = ", ".join(f"{name} {weight:g}" for name, weight in weights.items() if weight)
    return bars, boosts, shared


# --- Facets -----------------------------------------------------------------------------


def _facets(asked: PageRequest, hits: Sequence[SearchResult]) -> list[Facet]:
    counted = {
        "kind": Counter(hit.kind for hit in hits if hit.kind),
        "project": Counter(hit.project for hit in hits if hit.project),
        # A repository's tag says what its name says.
        "tag": Counter(tag for hit in hits for tag in hit.tags if not tag.startswith("repo:")),
        "source": Counter(hit.source for hit in hits if hit.source and hit.observation_id is None),
    }
    labels = {"kind": "Kind", "project": "Project", "tag": "Tag", "source": "Source"}
    facets = [
        Facet(name, labels[name], values)
        for name, counts in counted.items()
        if (values := _values(asked, name, counts))
    ]
    months = Counter(f"{hit.occurred_at.astimezone():%Y-%m}" for hit in hits)
    chosen = asked.get("since")[:7] if asked.get("until") else ""
    values = [
        FacetValue(
            month,
            count,
            asked.here(since=None, until=None, offset=None)
            if month == chosen
            else asked.here(since=f"{month}-01", until=_month_after(month), offset=None),
            month == chosen,
        )
        for month, count in sorted(months.items(), reverse=True)[:FACET_VALUES]
    ]
    if len(values) > 1 or chosen:
        facets.append(Facet("month", "Month", values))
    return facets


def _values(asked: PageRequest, name: str, counts: Counter[str]) -> list[FacetValue]:
    chosen = asked.get_all(name)
    values = [
        FacetValue(
            value,
            count,
            _without(asked, name, value)
            if value in chosen
            else asked.here(**{name: [*chosen, value] if name == "tag" else value, "offset": None}),
            value in chosen,
        )
        for value, count in counts.most_common(FACET_VALUES)
    ]
    return values if len(values) > 1 or chosen else []


def _month_after(month: str) -> str:
    year, number = int(month[:4]), int(month[5:])
    after = datetime(year + number // 12, number % 12 + 1, 1)  # noqa: DTZ001 - a day of the calendar
    return f"{after:%Y-%m-%d}"


def _plain(one: MemorySummary) -> Hit:
    text = mark_words(_shorten(one.preview), ())
    return Hit(one, address("m", one.memory_id), text, "", "", [], [], "")


# --- Without a question, and what an agent is given ---------------------------------------


async def _show_latest(asked: PageRequest, offset: int) -> PageView:
    request = ListRequest(limit=PER_PAGE, offset=offset, filters=_filters(asked))
    page = await asked.engine.list_memories(request)
    following = offset + len(page.items)
    return PageView(
        "search.html",
        "Search",
        page,
        _command(asked, "", offset),
        {
            **_common(asked, ""),
            "hits": [
                Hit(
                    one, address("m", one.memory_id), Markup.escape(one.preview), "", "", [], [], ""
                )
                for one in page.items
            ],
            "facets": [],
            "total": str(page.total),
            "nothing_close": False,
            "notice": None,
            "next": asked.here(offset=str(following)) if page.total > following else "",
            "previous": asked.here(offset=str(max(0, offset - PER_PAGE))) if offset else "",
            "first": offset + 1,
            "last": following,
        },
        live="memories",
    )


async def _show_agent(asked: PageRequest, query: str) -> PageView:
    """Show what `search_memory` answers an agent, with its size."""
    from zapomni_core.infra.recall_log import count_tokens
    from zapomni_core.workflows.agent_answer import answer_text, fence_hits, fit

    request = _request(asked, query).model_copy(update={"agent": True, "beside": True, "limit": 10})
    response: SearchResponse = await asked.engine.search_memory(request)
    answer = fit(response, 0, AGENT_TOKENS)
    text = answer_text(answer, fence_hits(answer))
    return PageView(
        "search.html",
        f"{query[:80]}",
        answer,
        _command(asked, query),
        {
            **_common(asked, query),
            "hits": [],
            "facets": [],
            "agent_text": text,
            "agent_tokens": count_tokens(text),
            "agent_limit": AGENT_TOKENS,
            "total": str(response.total),
            "nothing_close": response.nothing_close,
            "notice": None,
            "next": "",
            "previous": "",
            "first": 0,
            "last": 0,
        },
    )
