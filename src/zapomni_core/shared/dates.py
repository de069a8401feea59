"""Reads dates: of a question, a text or an option; and says which time they mean."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import NamedTuple

__all__ = [
    "EARLIEST",
    "LATEST",
    "MONTHS",
    "MONTH_STEMS",
    "WrittenDates",
    "date_window",
    "in_calendar",
    "iso_name",
    "month_number",
    "months_later",
    "parse_when",
    "window_of",
    "written_dates",
]

# A day within the ends of the calendar: every time zone can show a moment between these.
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)
LONGEST_QUESTION = 2000

_ENGLISH = (
    "january february march april may june july august september october november december"
).split()
MONTHS = {name: number for number, name in enumerate(_ENGLISH, 1)}
"""The number of a month by its English name, whole or short."""
MONTHS |= {name[:3]: number for name, number in MONTHS.items()} | {"sept": 9}
_OTHER_MONTHS = (
    "januar janvier enero январ|februar février febrero феврал|märz mars marzo март"
    "|avril abril апрел|mai mayo мая мае|juni juin junio июн|juli juillet julio июл"
    "|août agosto август|septembre septiembre сентябр|oktober octobre octubre октябр"
    "|novembre noviembre ноябр|dezember décembre diciembre декабр"
).split("|")
MONTH_STEMS = {stem: n for n, stems in enumerate(_OTHER_MONTHS, 1) for stem in stems.split()}
"""The number of a month by its name in other languages; stems are enough, languages inflect."""
_AGO = {
    "today": (0, 1),
    "yesterday": (1, 1),
    "last week": (7, 7),
    "this week": (7, 8),
    "last month": (31, 31),
    "this month": (31, 32),
    "last year": (365, 365),
}
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


class WrittenDates(NamedTuple):
    """Patterns of dates that are written out; the year of the last three may be missing.

    The month is the group `month`, or `stem` in another language.
    """

    iso_day: re.Pattern[str]
    iso_month: re.Pattern[str]
    month_day: re.Pattern[str]
    day_month: re.Pattern[str]
    month_year: re.Pattern[str]


@cache
def written_dates() -> WrittenDates:
    """Return the patterns; made when first asked for, because most programs never are."""
    year = r"(?P<year>(?:19|20)\d\d)(?!\d)"
    day = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?"
    names = "|".join(sorted(MONTHS, key=len, reverse=True))
    month = rf"(?P<month>{names})\b(?:\.(?= \d))?"
    stem = rf"(?P<stem>(?:{'|'.join(MONTH_STEMS)})[\u0430-\u044f\u0451]{{0,3}})\b"
    return WrittenDates(
        re.compile(
            rf"{year}[-/](?P<month>\d\d)[-/](?P<day>\d\d)"
            r"(?:T[\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?(?![\w-])"
        ),
        re.compile(rf"{year}-(?P<month>\d\d)(?![\w-])"),
        re.compile(rf"{month} {day}(?![\d:%]|\.\d)(?:,? {year})?", re.IGNORECASE),
        re.compile(rf"{day} (?:of )?(?:{month}|{stem})(?:,? {year})?", re.IGNORECASE),
        re.compile(rf"(?:{month}|{stem}),? {year}", re.IGNORECASE),
    )


def in_calendar(moment: datetime) -> bool:
    """Return whether a moment with a time zone is far enough from the ends of the calendar."""
    return EARLIEST <= moment <= LATEST


def month_number(name: str) -> int:
    """Return the number of a month by its digits or its name."""
    if name.isdigit():
        return int(name)
    name = name.lower()
    return MONTHS.get(name) or next(n for stem, n in MONTH_STEMS.items() if name.startswith(stem))


def months_later(first: datetime, months: int) -> datetime:
    """Return the first of a month that is so many months after the first of another."""
    month = first.month - 1 + months
    return first.replace(year=first.year + month // 12, month=month % 12 + 1)


@lru_cache(maxsize=1000)
def iso_name(year: int, month: int | None, day: int | None) -> str:
    """Return a date as ISO 8601 writes it: 2024-03-05, 2024-03 or 2024.

    Raises:
        ValueError: There is no such day.
    """
    first = datetime(year, month or 1, day or 1, tzinfo=UTC)
    return first.strftime("%Y-%m-%d" if day is not None else "%Y-%m" if month else "%Y")


@lru_cache(maxsize=1000)
def window_of(name: str) -> tuple[datetime, datetime] | None:
    """Return the first moment of a date and the first one after it; None if it is not ISO 8601.

    Besides the names of `iso_name` those of a week and a quarter: 2024-W10, 2024-Q1.
    """
    match = re.fullmatch(
        r"(?P<year>\d{4})"
        r"(?:-(?:W(?P<week>\d\d)|Q(?P<quarter>\d)|(?P<month>\d\d)(?:-(?P<day>\d\d))?))?",
        name,
    )
    if match is None:
        return None
    year = int(match["year"])
    try:
        if match["week"]:
            since = datetime.fromisocalendar(year, int(match["week"]), 1).replace(tzinfo=UTC)
            return since, since + timedelta(days=7)
        if match["quarter"]:
            since = datetime(year, int(match["quarter"]) * 3 - 2, 1, tzinfo=UTC)
            return since, months_later(since, 3)
        since = datetime(year, int(match["month"] or 1), int(match["day"] or 1), tzinfo=UTC)
        if match["day"]:
            return since, since + timedelta(days=1)
        return since, months_later(since, 1 if match["month"] else 12)
    except (ValueError, OverflowError):  # the end of the year 9999
        return None


def date_window(query: str, now: datetime) -> tuple[datetime, datetime] | None:
    """Return from when to when the question asks, or None if it names no time."""
    query = query[:LONGEST_QUESTION]
    if re.search(r"\d", query):
        for pattern in written_dates():
            for found in pattern.finditer(query):
                if found["year"] and not query[: found.start()][-1:].isalnum():
                    parts = found.groupdict()
                    month = month_number(parts.get("month") or parts.get("stem") or "")
                    try:
                        day = int(parts["day"]) if parts.get("day") else None
                        return window_of(iso_name(int(parts["year"]), month, day))
                    except ValueError:  # the 31st of February
                        return None
    lowered = query.lower()
    for words, (back, length) in _AGO.items():
        if words in lowered:
            midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
            start = midnight - timedelta(days=back)
            return start, start + timedelta(days=length)
    return None


def parse_when(value: str, now: datetime | None = None) -> datetime:
    """Read an ISO date or time, or how long ago: 24h, 7d, 2w. Local time unless it says else.

    Raises:
        ValueError: It is none of these.
    """
    ago = re.fullmatch(r"(\d{1,6})([hdw])", value.strip().lower())
    try:
        if ago is None:
            moment = datetime.fromisoformat(value.strip()).astimezone()
        else:
            moment = (now or datetime.now(UTC)) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    except OverflowError:
        raise ValueError from None
    if not in_calendar(moment):
        raise ValueError
    return moment
