"""The list of sessions, by day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from zapomni_db.observation_models import SessionSummary
from zapomni_web.page import PageRequest, PageView, address
from zapomni_web.pages.session import is_live, last_page, name_session, took
from zapomni_web.text import moment

__all__ = ["SessionEntry", "entry", "name_day", "projects_asked", "show"]

PER_PAGE = 30
FACET_VALUES = 12
PERIODS = {"1d": "Last day", "7d": "Last week", "30d": "Last month", "": "All"}


class SessionEntry(NamedTuple):
    """A session in a list."""

    summary: SessionSummary
    name: str
    href: str
    took: str
    is_live: bool
    counts: list[tuple[str, str]]
    """What was done, in words, each with its tone."""


class SessionChoice(NamedTuple):
    """A value that the list can be limited to."""

    label: str
    sessions: int
    href: str
    is_chosen: bool


async def show(asked: PageRequest) -> PageView:
    """Show sessions, the last used first."""
    observations = asked.engine.observations
    offset = asked.get_int("offset", 0)
    since, until = asked.get_time("since"), asked.get_time("until")
    projects = await projects_asked(asked)
    found = await observations.sessions(
        projects,
        PER_PAGE + 1,
        offset,
        host=asked.get("host") or None,
        since=int(since.timestamp()) if since else None,
        until=int(until.timestamp()) if until else None,
    )
    page = found[:PER_PAGE]
    groups = await observations.count_sessions()
    names = await observations.names()
    per_project: Counter[str] = Counter()
    per_host: Counter[str] = Counter()
    for one in groups:
        per_project[names.get(one.project) or one.project] += one.sessions
        if projects is None or one.project in projects:
            per_host[one.host] += one.sessions
    chosen = [
        (name, asked.get(name), asked.here(**{name: None, "offset": None}))
        for name in ("project", "host", "since", "until")
        if asked.get(name)
    ]
    return PageView(
        "sessions.html",
        "Sessions",
        page,
        _command(asked, offset),
        {
            "days": [
                (name_day(day), [entry(one) for one in own])
                for day, own in groupby(page, key=lambda one: _day(one.last_at))
            ],
            "facets": [
                ("Project", _choices(asked, "project", per_project)),
                ("Host", _choices(asked, "host", per_host)),
            ],
            "periods": [
                (label, asked.here(since=value, offset=None), asked.get("since") == value)
                for value, label in PERIODS.items()
            ],
            "filters": chosen,
            "next": asked.here(offset=str(offset + PER_PAGE)) if len(found) > PER_PAGE else "",
            "previous": asked.here(offset=str(max(0, offset - PER_PAGE)) if offset else None)
            if offset
            else "",
            "has_any": bool(groups),
        },
        live="observations",
    )


async def projects_asked(asked: PageRequest) -> list[str] | None:
    """Return the keys of the projects that a page is to show; None: all."""
    observations = asked.engine.observations
    if asked.project == "*":
        return await observations.everywhere("")
    return await observations.project_keys(asked.project)


def entry(summary: SessionSummary) -> SessionEntry:
    """Return a session as a list shows it."""
    words = [
        (summary.prompts, "prompt", ""),
        (summary.edits, "edit", ""),
        (summary.errors, "failure", "bad"),
        (summary.commits, "commit", "good"),
    ]
    live = is_live(summary)
    return SessionEntry(
        summary,
        name_session(summary),
        last_page(summary) if live else address("s", summary.session_id),
        took(summary),
        live,
        [(f"{n} {word}{'' if n == 1 else 's'}", tone) for n, word, tone in words if n],
    )


def name_day(day: str) -> str:
    """Return what to call a day: Today, Yesterday, or its date."""
    at = datetime.fromisoformat(day)
    today = datetime.now().astimezone().date()
    if at.date() == today:
        return "Today"
    if at.date() == today - timedelta(days=1):
        return "Yesterday"
    return f"{at:%A, %d %B}" if at.year == today.year else f"{at:%A, %d %B %Y}"


def _day(seconds: int) -> str:
    at = moment(seconds)
    assert at is not None
    return at.strftime("%Y-%m-%d")


def _choices(asked: PageRequest, name: str, counts: Counter[str]) -> Sequence[SessionChoice]:
    current = asked.get(name)
    return [
        SessionChoice(
            value,
            number,
            asked.here(**{name: None if value == current else value, "offset": None}),
            value == current,
        )
        for value, number in counts.most_common(FACET_VALUES)
    ]


def _command(asked: PageRequest, offset: int) -> list[str]:
    given = [(name, asked.get(name)) for name in ("host", "since", "until") if asked.get(name)]
    if asked.project != "*":
        given.append(("project", asked.project))
    given += [("limit", str(PER_PAGE)), *([("offset", str(offset))] if offset else [])]
    all_projects = ["--all"] if asked.project == "*" else []
    return ["zapomni", "sessions", *all_projects, *(f"--{name}={value}" for name, value in given)]
