"""Today: what goes on now, what is open, what was remembered last, and whether capture works."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from zapomni_core.exceptions import ZapomniError
from zapomni_core.interfaces import ListRequest
from zapomni_db.models import MemorySummary
from zapomni_db.observation_models import Failure, HostActivity
from zapomni_web.page import PageRequest, PageView, address
from zapomni_web.pages.sessions import entry, projects_asked
from zapomni_web.routes import PAGES
from zapomni_web.text import ago, moment

if TYPE_CHECKING:
    from zapomni_core.workflows.import_sources import FoundSource

__all__ = ["show"]

LIVE_SECONDS = 3600
SESSIONS, FAILURES, MEMORIES, DAYS = 8, 6, 6, 14
# A failure that was not seen for so long is history.
FAILURE_DAYS = 30
QUIET_DAYS = 7
"""A host that was not heard of for longer may have lost its hooks."""

HOSTS = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "copilot": "Copilot CLI",
    "cursor": "Cursor",
    "gemini": "Gemini CLI",
    "opencode": "OpenCode",
    "git-history": "Git history",
}


class OpenFailure(NamedTuple):
    """A failure that came back and was not seen to pass since."""

    failure: Failure
    project: str
    href: str


class HostHealth(NamedTuple):
    """What is captured of a host."""

    name: str
    words: str
    tone: str


class DayBar(NamedTuple):
    """A day of the small chart."""

    label: str
    observations: int
    x: float
    height: float


class Findable(NamedTuple):
    """Something that another program keeps on this machine."""

    title: str
    words: str
    command: list[str]


async def show(asked: PageRequest) -> PageView:
    """Show where things are now; if nothing is stored, what to do first."""
    engine, observations = asked.engine, asked.engine.observations
    capture = await observations.capture()
    stats = await engine.memories.get_stats()
    if not capture.observations and not stats.total_memories:
        return await _show_first_steps(asked)
    projects = await projects_asked(asked)
    now = int(time.time())
    live = await observations.sessions(projects, SESSIONS, since=now - LIVE_SECONDS)
    sessions = live or await observations.sessions(projects, 5)
    names = await observations.names()
    failures = [
        OpenFailure(
            one,
            names.get(one.project) or one.project,
            f"{address('s', one.last.session_id, at=one.last.id)}#o{one.last.id}",
        )
        for one in await observations.failures(projects, 4 * FAILURES)
        if one.still_open and now - one.last.timestamp < FAILURE_DAYS * 86_400
    ][:FAILURES]
    memories = await _list_latest(asked)
    waiting = sum((await engine.review.count()).values())
    return PageView(
        "today.html",
        "Today",
        {
            "sessions": sessions,
            "open_failures": [one.failure for one in failures],
            "memories": memories,
            "capture": capture._asdict(),
            "total_memories": stats.total_memories,
            "waiting_for_review": waiting,
        },
        ["zapomni", "status"],
        {
            "sessions": [entry(one) for one in sessions],
            "has_live": bool(live),
            "failures": failures,
            "memories": memories,
            "hosts": [_judge(one, now) for one in capture.hosts],
            "counts": [
                (stats.total_memories, "memory", "memories", address("search")),
                (capture.sessions, "session", "sessions", address("sessions")),
                (capture.observations, "observation", "observations", address("timeline")),
                *(
                    [(stats.total_entities, "entity", "entities", _if_there("/graph"))]
                    if stats.total_entities
                    else []
                ),
            ],
            "bars": await _count_days(asked, projects),
            "waiting": waiting,
            "review": _if_there("/review"),
            "notice": stats.notice,
        },
        live="observations memories",
    )


def _name_host(host: str) -> str:
    """Return a host's name as its makers write it."""
    return HOSTS.get(host, host)


def _if_there(path: str) -> str:
    """Return the address of a page, if this version has it."""
    return path if any(page.path == path for page in PAGES) else ""


async def _list_latest(asked: PageRequest) -> list[MemorySummary]:
    """Return the memories that were stored last, pinned or not."""
    found: dict[str, MemorySummary] = {}
    for pinned in (False, True):
        filters = {"project": asked.project, "pinned": pinned, "not_kind": "code"}
        page = await asked.engine.list_memories(ListRequest(limit=4 * MEMORIES, filters=filters))
        found |= {one.memory_id: one for one in page.items}
    return sorted(found.values(), key=lambda one: one.created_at, reverse=True)[:MEMORIES]


def _judge(one: HostActivity, now: int) -> HostHealth:
    if not one.captured:
        return HostHealth(_name_host(one.host), f"imported, last from {ago(one.last_at)}", "")
    days = (now - one.last_at) / 86_400
    tone = "good" if days < 1 else "" if days < QUIET_DAYS else "warn"
    return HostHealth(_name_host(one.host), f"last event {ago(one.last_at)}", tone)


async def _count_days(asked: PageRequest, projects: list[str] | None) -> list[DayBar]:
    """Return the last two weeks as bars, up to 40 high."""
    today = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    first = today - timedelta(days=DAYS - 1)
    found = await asked.engine.observations.activity(
        projects, int(first.timestamp()), int((today + timedelta(days=2)).timestamp())
    )
    counts: Counter[str] = Counter()
    for one in found:
        at = moment(one.at)
        assert at is not None
        counts[f"{at:%Y-%m-%d}"] += one.observations
    most = max(counts.values(), default=0)
    bars = []
    for number in range(DAYS):
        day = first + timedelta(days=number)
        count = counts[f"{day:%Y-%m-%d}"]
        height = round(max(2.0, 40 * count / most), 1) if count else 1.0
        bars.append(DayBar(f"{day:%a %d %b}", count, number * 10.0, height))
    return bars


async def _show_first_steps(asked: PageRequest) -> PageView:
    try:
        sources = await asked.engine.imports.list_sources()
    except ZapomniError:
        sources = []
    findable = [
        Findable(
            one.title[:1].upper() + one.title[1:], _describe(one), ["zapomni", "import", one.name]
        )
        for one in sources
        if one.new_files
    ]
    return PageView(
        "today_empty.html",
        "Nothing is remembered yet",
        {"sources": sources},
        ["zapomni", "import"],
        {"findable": findable, "import_page": _if_there("/import")},
        live="observations memories",
    )


def _describe(one: FoundSource) -> str:
    words = f"{one.records or one.files} since {one.oldest.astimezone():%B %Y}"
    if one.deleted_soon:
        words += f"; {one.deleted_soon} will be deleted by their program within a week"
    return words
