"""The timeline: how much was done per day and project, then sessions and memories by day."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from zapomni_core.exceptions import ValidationError
from zapomni_core.interfaces import ListRequest
from zapomni_db.models import MemorySummary
from zapomni_db.observation_models import SessionSummary
from zapomni_web.page import PageRequest, PageView
from zapomni_web.pages.sessions import SessionEntry, entry, name_day, projects_asked
from zapomni_web.text import moment

__all__ = ["show"]

WEEKS = 8
DAYS = 7 * WEEKS
ROWS = 6
"""The projects most was done in; the others are one row."""
OTHERS = "other projects"
PER_PAGE = 20
MEMORIES = 100
SHOWN_MEMORIES = 5
CELL, LABEL, HEAD = 15, 112, 18
NAME_CHARS = 16


class HeatCell(NamedTuple):
    """A day of a project on which something was done."""

    x: int
    level: int
    """1 to 4, by quarters of the busiest cell's square root."""
    href: str
    words: str
    is_chosen: bool


class HeatRow(NamedTuple):
    """A project in the heat map."""

    name: str
    label: str
    y: int
    cells: list[HeatCell]
    total: int


class TimelineDay(NamedTuple):
    """A day with its sessions and the memories of what happened on it."""

    name: str
    sessions: list[SessionEntry]
    memories: list[MemorySummary]
    more: int


async def show(asked: PageRequest) -> PageView:
    """Show eight weeks, the last ones unless asked otherwise, or one day of them."""
    observations = asked.engine.observations
    today = _midnight(datetime.now().astimezone())
    end = _read_day(asked, "end") or today
    chosen = _read_day(asked, "day")
    if chosen is not None and not end - timedelta(days=DAYS) < chosen <= end:
        end = min(today, max(chosen, chosen + timedelta(days=DAYS // 2)))
    first = _midnight(end - timedelta(days=DAYS - 1))
    after = _midnight(end + timedelta(days=1, hours=2))
    projects = await projects_asked(asked)
    found = await observations.activity(None, int(first.timestamp()), int(after.timestamp()))
    names = await observations.names()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    everyone = await observations.everywhere("")
    for one in found:
        if everyone is None or one.project in everyone:
            at = moment(one.at)
            assert at is not None
            counts[names.get(one.project) or one.project][f"{at:%Y-%m-%d}"] += one.observations
    since, until = first, after
    if chosen is not None:
        since, until = chosen, _midnight(chosen + timedelta(days=1, hours=2))
    offset = asked.get_int("offset", 0)
    sessions = await observations.sessions(
        projects,
        PER_PAGE + 1,
        offset,
        since=int(since.timestamp()),
        until=int(until.timestamp()),
    )
    filters = {"project": asked.project, "since": since, "until": until, "not_kind": "code"}
    memories = await asked.engine.list_memories(ListRequest(limit=MEMORIES, filters=filters))
    page = sessions[:PER_PAGE]
    before = end - timedelta(days=DAYS)
    newer = min(today, end + timedelta(days=DAYS))
    return PageView(
        "timeline.html",
        f"{name_day(f'{chosen:%Y-%m-%d}')}" if chosen else "Timeline",
        {
            "days": {name: dict(sorted(own.items())) for name, own in sorted(counts.items())},
            "sessions": page,
            "memories": memories.items,
        },
        [
            *("zapomni", "sessions"),
            *(["--all"] if asked.project == "*" else [f"--project={asked.project}"]),
            *(f"--since={since:%Y-%m-%d}", f"--until={until:%Y-%m-%d}", f"--limit={PER_PAGE}"),
            *([f"--offset={offset}"] if offset else []),
        ],
        {
            "rows": _make_rows(asked, counts, first, chosen),
            "width": LABEL + DAYS * CELL,
            "height": HEAD,
            "cell": CELL,
            "label_width": LABEL,
            "months": _list_months(first),
            "first": first,
            "last": end,
            "total": sum(own.total() for own in counts.values()),
            "busiest": _find_busiest(counts),
            "days": _list_days(page, memories.items, is_first=not offset),
            "filters": [
                (name, value, asked.here(**{name: None, "offset": None}))
                for name, value in (("project", asked.get("project")), ("day", asked.get("day")))
                if value
            ],
            "older": asked.here(end=f"{before:%Y-%m-%d}", day=None, offset=None),
            "newer": asked.here(
                end=None if newer == today else f"{newer:%Y-%m-%d}", day=None, offset=None
            )
            if end < today
            else "",
            "next": asked.here(offset=str(offset + PER_PAGE)) if len(sessions) > PER_PAGE else "",
            "previous": asked.here(offset=str(offset - PER_PAGE) if offset > PER_PAGE else None)
            if offset
            else "",
        },
        live="observations memories",
    )


def _midnight(at: datetime) -> datetime:
    """Return the beginning of a day, in the time that is kept here on it."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None).astimezone()


def _read_day(asked: PageRequest, name: str) -> datetime | None:
    given = asked.get(name)
    if not given:
        return None
    try:
        return _midnight(datetime.strptime(given, "%Y-%m-%d"))  # noqa: DTZ007 - a local day
    except (ValueError, OverflowError, OSError) as error:
        raise ValidationError(f"{name}: use a day (2026-01-31)", "VAL_004") from error


def _make_rows(
    asked: PageRequest,
    counts: Mapping[str, Counter[str]],
    first: datetime,
    chosen: datetime | None,
) -> list[HeatRow]:
    ranked = sorted(counts, key=lambda name: (-counts[name].total(), name))
    shown = ranked if len(ranked) <= ROWS else ranked[: ROWS - 1]
    rows = [(name, counts[name]) for name in shown]
    if len(ranked) > len(shown):
        rest: Counter[str] = Counter()
        for name in ranked[len(shown) :]:
            rest.update(counts[name])
        rows.append((OTHERS, rest))
    most = max((max(own.values()) for _, own in rows), default=1)
    days = [first + timedelta(days=number, hours=2) for number in range(DAYS)]
    heat = []
    for number, (name, own) in enumerate(rows):
        cells = []
        for column, at in enumerate(days):
            day = f"{at:%Y-%m-%d}"
            if not (count := own[day]):
                continue
            # By the square root: one long day must not make all others look empty.
            level = min(4, 1 + int(4 * (count / most) ** 0.5 * 0.999))
            project = None if name == OTHERS else name
            cells.append(
                HeatCell(
                    LABEL + column * CELL,
                    level,
                    asked.here(day=day, project=project, offset=None),
                    f"{name}, {at:%a %d %b}: {count}",
                    chosen is not None and day == f"{chosen:%Y-%m-%d}",
                )
            )
        label = name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 1]}…"
        heat.append(HeatRow(name, label, HEAD + number * CELL, cells, own.total()))
    return heat


def _list_months(first: datetime) -> list[tuple[int, str]]:
    """Return where weeks begin, and on which day."""
    days = [first + timedelta(days=number, hours=2) for number in range(DAYS)]
    mondays = [
        (LABEL + n * CELL, at) for n, at in enumerate(days) if at.weekday() == 0 and n < DAYS - 2
    ]
    return [(x, f"{at.day} {at:%b}") for x, at in mondays]


def _find_busiest(counts: Mapping[str, Counter[str]]) -> str:
    """Return the busiest day and project in words."""
    cells = [(number, day, name) for name, own in counts.items() for day, number in own.items()]
    if not cells:
        return ""
    number, day, name = max(cells)
    return f"the busiest was {name} on {name_day(day)} with {number}"


def _list_days(
    sessions: Sequence[SessionSummary], memories: list[MemorySummary], *, is_first: bool
) -> list[TimelineDay]:
    """Return days, the last one first. Memories are shown with the first page of sessions."""
    own: defaultdict[str, tuple[list[SessionEntry], list[MemorySummary]]] = defaultdict(
        lambda: ([], [])
    )
    for one in sessions:
        at = moment(one.last_at)
        own[f"{at:%Y-%m-%d}"][0].append(entry(one))
    for memory in memories if is_first else ():
        own[f"{memory.occurred_at.astimezone():%Y-%m-%d}"][1].append(memory)
    return [
        TimelineDay(
            name_day(day), here, known[:SHOWN_MEMORIES], max(0, len(known) - SHOWN_MEMORIES)
        )
        for day, (here, known) in sorted(own.items(), reverse=True)
    ]
