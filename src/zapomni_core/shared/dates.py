"""The time a question speaks of."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

__all__ = ["EARLIEST", "LATEST", "date_window", "in_calendar"]

# A day within the ends of the calendar: every time zone can show a moment between these.
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)

_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_NAMED = "|".join(f"{month[:3]}(?:{month[3:]})?" if month[3:] else month for month in _MONTHS)
_ISO = re.compile(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")
_DAY_FIRST = re.compile(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?)?({_NAMED})\.?,? (\d{{4}})\b", re.IGNORECASE
)
_MONTH_FIRST = re.compile(
    rf"\b({_NAMED})\.? (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})\b", re.IGNORECASE
)
LONGEST_QUESTION = 2000
_AGO = {
    "today": (0, 1),
    "yesterday": (1, 1),
    "last week": (7, 7),
    "this week": (7, 8),
    "last month": (31, 31),
    "this month": (31, 32),
    "last year": (365, 365),
}


def in_calendar(moment: datetime) -> bool:
    """Return whether a moment with a time zone is far enough from the ends of the calendar."""
    return EARLIEST <= moment <= LATEST


def date_window(query: str, now: datetime) -> tuple[datetime, datetime] | None:
    """Return from when to when the question asks, or None if it names no time."""
    query = query[:LONGEST_QUESTION]
    try:
        return _written(query) or _relative(query.lower(), now)
    except (ValueError, OverflowError):  # the 31st of February, the end of the calendar
        return None


def _written(query: str) -> tuple[datetime, datetime] | None:
    if found := _ISO.search(query):
        year, month, day = found.groups()
        return _span(int(year), int(month), int(day) if day else None)
    if found := _MONTH_FIRST.search(query):
        return _span(int(found[3]), _month(found[1]), int(found[2]))
    if found := _DAY_FIRST.search(query):
        return _span(int(found[3]), _month(found[2]), int(found[1]) if found[1] else None)
    return None


def _relative(query: str, now: datetime) -> tuple[datetime, datetime] | None:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for words, (back, length) in _AGO.items():
        if words in query:
            start = midnight - timedelta(days=back)
            return start, start + timedelta(days=length)
    return None


def _month(name: str) -> int:
    return next(i for i, month in enumerate(_MONTHS, 1) if month.startswith(name.lower()[:3]))


def _span(year: int, month: int, day: int | None) -> tuple[datetime, datetime]:
    start = datetime(year, month, day or 1, tzinfo=UTC)
    if day is not None:
        return start, start + timedelta(days=1)
    return start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
