"""Recalls: what agents and people were given, when, why, and what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from zapomni_core.exceptions import ValidationError
from zapomni_core.shared.evidence import evidence_word
from zapomni_db.recall_models import (
    OCCASIONS,
    DayTokens,
    LoggedItem,
    LoggedRecall,
    RecallFilter,
    RecallTotals,
    name_project,
)
from zapomni_web.page import PageRequest, PageView, address
from zapomni_web.pages.sessions import projects_asked

__all__ = ["show"]

PER_PAGE = 20
# The chart: so many days, and its height.
DAYS = 30
HEIGHT = 100
ITEMS = 5
AT_ONCE = 50
NAME_CHARS = 140

HOW = {
    "session_start": "At a session's start",
    "prompt": "With a prompt",
    "failure": "After a failure",
    "tool": "Asked by an agent",
    "command": "Asked on the command line",
    "page": "Asked on this page",
}
USES = {"": "All", "1": "Used", "0": "Not used"}


class GivenItem(NamedTuple):
    """A memory or an observation that was given."""

    item: LoggedItem
    name: str
    href: str
    evidence: str


class GivenRecall(NamedTuple):
    """A recall on the page."""

    recall: LoggedRecall
    how: str
    project: str
    used: int
    items: list[GivenItem]
    rest: int


class BilledDay(NamedTuple):
    """A day of the chart."""

    day: date
    recalls: int
    tokens: int
    height: float


async def show(asked: PageRequest) -> PageView:
    """Show recalls, the newest first, and the tokens of the last days."""
    engine = asked.engine
    offset = asked.get_int("offset", 0)
    filters = RecallFilter(
        session=asked.get("session") or None,
        projects=await _projects(asked),
        how=asked.get("how") or None,
        item=asked.get("item").removeprefix("#") or None,
        since=_seconds(asked.get_time("since")),
        until=_seconds(asked.get_time("until")),
        used={"": None, "1": True, "0": False}.get(asked.get("used")),
        limit=PER_PAGE + 1,
        offset=offset,
    )
    if filters.how and filters.how not in OCCASIONS:
        raise ValidationError(f"how must be one of: {', '.join(OCCASIONS)}", "VAL_003")
    found = await asyncio.to_thread(engine.recalls.list_recalls, filters)
    hidden = (await engine.observations.reach("", "*")).hidden
    totals = await asyncio.to_thread(engine.recalls.count_recalls, hidden, DAYS)
    names = await engine.observations.names()
    page, days = found[:PER_PAGE], _bill(totals)
    shown = await _shown(asked, page, names)
    item = await _name_items(asked, [filters.item]) if filters.item else {}
    chosen = [
        (name, asked.get(name), asked.here(**{name: None}, offset=None))
        for name in ("session", "project", "item", "since", "until")
        if asked.get(name)
    ]
    return PageView(
        "recalls.html",
        "Recalls",
        [one.to_json(names) for one in page],
        _command(asked, offset),
        {
            "recalls": shown,
            "item": next(iter(item.values()), ("", "")),
            "item_id": filters.item or "",
            "totals": totals,
            "share": round(100 * totals.used / totals.items) if totals.items else 0,
            "days": days,
            "most": max(one.tokens for one in days),
            "chosen": chosen,
            "hows": [
                (HOW[name], asked.here(how=name, offset=None), filters.how == name)
                for name in OCCASIONS
            ],
            "every_how": asked.here(how=None, offset=None),
            "how": filters.how or "",
            "uses": [
                (label, asked.here(used=value or None, offset=None), asked.get("used") == value)
                for value, label in USES.items()
            ],
            "is_filtered": bool(chosen or filters.how or filters.used is not None),
            "previous": asked.here(offset=str(max(0, offset - PER_PAGE))) if offset else "",
            "next": asked.here(offset=str(offset + PER_PAGE)) if len(found) > PER_PAGE else "",
        },
        live="observations",
    )


async def _projects(asked: PageRequest) -> list[str] | None:
    keys = await projects_asked(asked)
    # Outside of any project.
    return keys if keys is None or asked.project != "*" else [*keys, ""]


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())


def _command(asked: PageRequest, offset: int) -> list[str]:
    names = ("session", "project", "how", "item", "since", "until")
    # One argument each: a value may begin with a dash.
    given = [f"--{name}={asked.get(name)}" for name in names if asked.get(name)]
    command = ["zapomni", "recalls", *given]
    if asked.get("used") in ("0", "1"):
        command.append("--used" if asked.get("used") == "1" else "--unused")
    return [*command, f"--offset={offset}"] if offset else command


# --- Names of what was given ------------------------------------------------------------


async def _shown(
    asked: PageRequest, recalls: Sequence[LoggedRecall], names: dict[str, str]
) -> list[GivenRecall]:
    wanted = [one.id for recall in recalls for one in recall.items[:ITEMS]]
    known = await _name_items(asked, wanted)
    return [
        GivenRecall(
            recall,
            HOW.get(recall.how, recall.how),
            name_project(recall.project, names),
            sum(one.used_at is not None for one in recall.items),
            [
                GivenItem(
                    one,
                    *known.get(one.id, ("", "")),
                    "" if one.evidence is None else evidence_word(one.evidence),
                )
                for one in recall.items[:ITEMS]
            ],
            max(0, len(recall.items) - ITEMS),
        )
        for recall in recalls
    ]


async def _name_items(asked: PageRequest, items: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the beginning and the address of each item that is still there."""
    ids = set(items)
    numbers = [int(one) for one in ids if one.isascii() and one.isdigit() and len(one) < 16]
    others = [one for one in ids if not one.isdigit()]
    known = {}
    for key, memory in (await asked.engine.storage.get_summaries(others)).items():
        known[key] = (memory.preview[:NAME_CHARS], address("m", key))
    for start in range(0, len(numbers), AT_ONCE):
        for one in await asked.engine.observations.get(numbers[start : start + AT_ONCE]):
            href = f"{address('s', one.session_id)}#o{one.id}"
            known[str(one.id)] = (" ".join(one.content[:NAME_CHARS].split()), href)
    return known


# --- The bill ---------------------------------------------------------------------------


def _bill(totals: RecallTotals) -> list[BilledDay]:
    """Return the last days, those without a recall included, oldest first."""
    known = {one.day: one for one in totals.by_day}
    today = datetime.now().astimezone().date()
    days = [today - timedelta(days=number) for number in reversed(range(DAYS))]
    found = [known.get(day.isoformat(), DayTokens(day.isoformat(), 0, 0)) for day in days]
    most = max((one.tokens for one in found), default=0) or 1
    return [
        BilledDay(day, one.recalls, one.tokens, round(HEIGHT * one.tokens / most, 1))
        for day, one in zip(days, found, strict=True)
    ]
