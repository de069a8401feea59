"""Dates in prose: written out, or relative to the day the text was written."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from zapomni_core.shared.dates import (
    MONTH_STEMS,
    MONTHS,
    iso_name,
    month_number,
    months_later,
    written_dates,
)

__all__ = ["DATE_WORDS", "FoundDate", "date_at", "may_begin_date"]


class FoundDate(NamedTuple):
    """A date in a text, and where it ends."""

    end: int
    name: str
    """As ISO 8601 writes it: 2024-03-05, 2024-03, 2024-W10, 2024-Q1, 2024."""
    confidence: float


_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_COUNTS = {word: number for number, word in enumerate(_NUMBERS)} | {"a": 1, "an": 1, "couple of": 2}

_M = r"(?P<month>" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b(?:\.(?= \d))?"
_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\d)"
_W = r"(?P<weekday>" + "|".join(_WEEKDAYS) + r")\b"
_UNIT = r"(?P<unit>day|week|month|quarter|year)"
_N = r"(?P<count>\d{1,3}|a couple of|" + "|".join(w for w in _COUNTS if len(w) > 2) + r"|an?)"

_NUMERIC = re.compile(
    rf"(?P<first>\d{{1,2}})(?P<mark>[./])(?P<second>\d{{1,2}})(?P=mark){_YEAR}(?!\w)"
)
_MONTH = re.compile(_M, re.IGNORECASE)
_QUARTER = re.compile(rf"[Qq](?P<quarter>[1-4])\b(?:[ /-]?{_YEAR})?")
_PLAIN_YEAR = re.compile(rf"{_YEAR}\b(?![.:/%-]\d)")
_DAY_WORD = re.compile(
    r"(?:the )?day (?P<far>after tomorrow|before yesterday)\b"
    r"|(?P<day>today|tonight|yesterday|tomorrow)\b"
    r"|this (?:morning|afternoon|evening)\b|(?P<night>last night)\b",
    re.IGNORECASE,
)
_NEXT_UNIT = re.compile(rf"(?P<which>last|past|previous|this|next|coming) {_UNIT}\b", re.IGNORECASE)
_NEXT_WEEKDAY = re.compile(rf"(?P<which>last|past|this|next|coming) {_W}", re.IGNORECASE)
_NEXT_MONTH = re.compile(rf"(?P<which>last|this|next) {_M}", re.IGNORECASE)
_WEEKDAY = re.compile(_W, re.IGNORECASE)
_AGO = re.compile(rf"{_N} {_UNIT}s? (?P<way>ago|from now|later)\b", re.IGNORECASE)
_IN = re.compile(rf"in {_N} {_UNIT}s?\b(?! of\b|['\u2019])", re.IGNORECASE)
_END_OF = re.compile(
    rf"(?:(?:the )?(?:end|beginning|start) of (?:the |this )?{_UNIT}|EO(?P<letter>[DWMQY]))\b",
    re.IGNORECASE,
)

_BEFORE_MONTH = frozenset(
    "in since until till by before after during of from to through early late mid around for "
    "between".split()
)
_BEFORE_YEAR = _BEFORE_MONTH | {
    "the",
    "every",
    "back",
    "year",
    "summer",
    "winter",
    "spring",
    "fall",
    "copyright",
}
_YEAR_AND = re.compile(r"(?:19|20)\d\d and ")
_RECURRING = frozenset("every each first second third last-but-one per".split())
_NOT_YEARS = re.compile(
    r"\s(?:[a-z]+s|ms|px|mb|kb|gb|mhz|hz|km|kg|lines?|rows?|items?|times|users?)\b", re.IGNORECASE
)
_PAST_CUES = frozenset({"since", "from", "after"})
_COMING_CUES = frozenset({"until", "till", "by", "before"})

_RELATIVE = frozenset("this last past previous next coming".split())
DATE_WORDS: frozenset[str] = frozenset(
    {*MONTHS, *_WEEKDAYS, *_COUNTS, *_RELATIVE, "eod", "eow", "eom", "eoq", "eoy"}
    | {"q1", "q2", "q3", "q4", "today", "tonight", "yesterday", "tomorrow", "the", "day", "in"}
    | {"end", "beginning", "start"}
)
"""The words a date may begin with, in lower case; it may also begin with a digit."""
_STEM_STARTS = {stem[:3] for stem in MONTH_STEMS}


def may_begin_date(word: str) -> bool:
    """Say whether a date may begin with this word, in lower case. Cheap: every word is asked."""
    return (
        word in DATE_WORDS or word[0].isdigit() or (not word.isascii() and word[:3] in _STEM_STARTS)
    )


def date_at(text: str, start: int, before: str, reference: datetime | None) -> FoundDate | None:
    """Return the date that begins at `start`, if one does; `before` is the word before it."""
    if before in _RECURRING:
        return None
    first = _FIRST_WORD.match(text, start)
    word = first[0].lower() if first else ""
    if text[start].isdigit():
        kinds = _DIGITS
    elif word == "the":
        kinds = [(_DAY_WORD, _DateReader.day_word), (_END_OF, _DateReader.end_of)]
    elif word == "in":
        kinds = [(_IN, _DateReader.distance)]
    elif word in _COUNTS:
        kinds = [(_AGO, _DateReader.distance)]
    else:
        kinds = _MONTHS if word in MONTHS or word not in DATE_WORDS else _WORDS
    reader = None
    for pattern, read in kinds:
        match = pattern.match(text, start)
        if match is None:
            continue
        reader = reader or _DateReader(before, reference)
        try:
            found = read(reader, match)
        except (ValueError, OverflowError):  # the 31st of February, the year 0
            continue
        if found is not None:
            return found
    return None


class _DateReader:
    """Reads a date of each kind; knows the word before it and the day it is read on."""

    def __init__(self, before: str, reference: datetime | None) -> None:
        self._before = before
        self._today = None
        if reference is not None:
            self._today = reference.replace(hour=0, minute=0, second=0, microsecond=0)
            if self._today.tzinfo is None:
                self._today = self._today.replace(tzinfo=UTC)

    def written(self, match: re.Match[str]) -> FoundDate | None:
        parts = match.groupdict()
        month = month_number(parts.get("month") or parts.get("stem") or "")
        day = int(parts["day"]) if parts.get("day") else None
        if parts["year"]:
            return _written_as(match.end(), int(parts["year"]), month, day)
        if self._today is None:
            return FoundDate(match.end(), match[0].lower(), 0.7)
        return _written_as(match.end(), self._nearest_year(month, day or 1), month, day)

    def numeric(self, match: re.Match[str]) -> FoundDate | None:
        first, second = int(match["first"]), int(match["second"])
        # With dots the day comes first; with slashes, in America, the month does.
        day, month = (first, second) if match["mark"] == "." or first > 12 else (second, first)
        return _written_as(match.end(), int(match["year"]), month, day)._replace(confidence=0.7)

    def quarter(self, match: re.Match[str]) -> FoundDate | None:
        quarter = int(match["quarter"])
        if not match["year"] and self._today is None:
            return FoundDate(match.end(), match[0].upper(), 0.6)
        year = int(match["year"]) if match["year"] else self._nearest_year(quarter * 3 - 1, 15)
        return FoundDate(match.end(), f"{year}-Q{quarter}", 0.9)

    def day_word(self, match: re.Match[str]) -> FoundDate | None:
        days = {"yesterday": -1, "tomorrow": 1, "after tomorrow": 2, "before yesterday": -2}
        word = (match["far"] or match["day"] or "").lower()
        return self._days_away(match, -1 if match["night"] else days.get(word, 0))

    def unit(self, match: re.Match[str]) -> FoundDate | None:
        away = {"this": 0, "next": 1, "coming": 1}.get(match["which"].lower(), -1)
        return self._units_away(match, match["unit"].lower(), away)

    def distance(self, match: re.Match[str]) -> FoundDate | None:
        count = match["count"].lower()
        number = (
            int(count)
            if count.isdigit()
            else _COUNTS[count.removeprefix("a ") if " " in count else count]
        )
        unit = match["unit"].lower()
        away = -number if "way" in match.groupdict() and match["way"] == "ago" else number
        if unit == "day":
            return self._days_away(match, away)
        if unit == "week":
            return self._days_away(match, 7 * away)
        return self._units_away(match, unit, away)

    def end_of(self, match: re.Match[str]) -> FoundDate | None:
        letters = {"d": "day", "w": "week", "m": "month", "q": "quarter", "y": "year"}
        unit = (match["unit"] or letters[match["letter"].lower()]).lower()
        return self._days_away(match, 0) if unit == "day" else self._units_away(match, unit, 0)

    def weekday(self, match: re.Match[str]) -> FoundDate | None:
        if match.string[match.end() : match.end() + 9].lower().startswith((" of the", "s ")):
            return None
        which = match.groupdict().get("which") or ""
        if self._today is None:
            return self._unresolved(match)
        ahead = (_WEEKDAYS.index(match["weekday"].lower()) - self._today.weekday()) % 7
        cue = which.lower() or self._before
        if cue in ("last", "past") or cue in _PAST_CUES:
            ahead = ahead - 7 if ahead or which else 0
        elif cue in ("next", "coming") or cue in _COMING_CUES:
            ahead = ahead or 7
        elif ahead > 3 and cue != "this":
            ahead -= 7
        return self._days_away(match, ahead)

    def named_month(self, match: re.Match[str]) -> FoundDate | None:
        which = (match.groupdict().get("which") or "").lower()
        name = match["month"].lower()
        if not which and (
            self._before not in _BEFORE_MONTH or (len(name) < 5 and match["month"].islower())
        ):
            return None
        if not which and (match["month"].islower() and name in ("march", "may")):
            return None
        month = month_number(name)
        if self._today is None:
            return self._unresolved(match)
        year = self._nearest_year(month, 15)
        if which == "last" or (not which and self._before in _PAST_CUES):
            year = self._today.year - (month >= self._today.month)
        elif which == "next" or (not which and self._before in _COMING_CUES):
            year = self._today.year + (month <= self._today.month)
        return _written_as(match.end(), year, month, None)

    def plain_year(self, match: re.Match[str]) -> FoundDate | None:
        if _NOT_YEARS.match(match.string, match.end()) and self._before not in _BEFORE_YEAR:
            return None
        if self._before not in _BEFORE_YEAR and self._before:
            # between 2020 and 2022
            start = match.start()
            if not _YEAR_AND.fullmatch(match.string[max(0, start - 9) : start]):
                return None
        return _written_as(match.end(), int(match["year"]), None, None)._replace(confidence=0.8)

    def _days_away(self, match: re.Match[str], days: int) -> FoundDate:
        if self._today is None:
            return self._unresolved(match)
        day = self._today + timedelta(days=days)
        return _written_as(match.end(), day.year, day.month, day.day)

    def _units_away(self, match: re.Match[str], unit: str, away: int) -> FoundDate:
        if self._today is None:
            return self._unresolved(match)
        today = self._today
        if unit == "day":
            return self._days_away(match, away)
        if unit == "week":
            since = today + timedelta(days=7 * away - today.weekday())
            year, week, _ = since.isocalendar()
            return FoundDate(match.end(), f"{year}-W{week:02}", 0.9)
        if unit == "year":
            return _written_as(match.end(), today.year + away, None, None)
        if unit == "quarter":
            first = today.replace(month=(today.month - 1) // 3 * 3 + 1, day=1)
            since = months_later(first, 3 * away)
            return FoundDate(match.end(), f"{since.year}-Q{since.month // 3 + 1}", 0.9)
        month = months_later(today.replace(day=1), away)
        return _written_as(match.end(), month.year, month.month, None)

    def _unresolved(self, match: re.Match[str]) -> FoundDate:
        return FoundDate(match.end(), match[0].lower(), 0.6)

    def _nearest_year(self, month: int, day: int) -> int:
        assert self._today is not None
        today = self._today
        return min(
            (today.year, today.year - 1, today.year + 1),
            key=lambda year: abs(
                (datetime(year, month, min(day, 28), tzinfo=today.tzinfo) - today).days
            ),
        )


_Kind = tuple[re.Pattern[str], Callable[[_DateReader, re.Match[str]], FoundDate | None]]
_FIRST_WORD = re.compile(r"\w+")
_DIGITS: list[_Kind] = [
    (written_dates().iso_day, _DateReader.written),
    (written_dates().iso_month, _DateReader.written),
    (_NUMERIC, _DateReader.numeric),
    (written_dates().day_month, _DateReader.written),
    (_AGO, _DateReader.distance),
    (_PLAIN_YEAR, _DateReader.plain_year),
]
_MONTHS: list[_Kind] = [
    (written_dates().month_day, _DateReader.written),
    (written_dates().month_year, _DateReader.written),
    (_MONTH, _DateReader.named_month),
]
_WORDS: list[_Kind] = [
    (_QUARTER, _DateReader.quarter),
    (_DAY_WORD, _DateReader.day_word),
    (_NEXT_UNIT, _DateReader.unit),
    (_NEXT_WEEKDAY, _DateReader.weekday),
    (_NEXT_MONTH, _DateReader.named_month),
    (_AGO, _DateReader.distance),
    (_IN, _DateReader.distance),
    (_END_OF, _DateReader.end_of),
    (_WEEKDAY, _DateReader.weekday),
]


def _written_as(end: int, year: int, month: int | None, day: int | None) -> FoundDate:
    return FoundDate(end, iso_name(year, month, day), 0.9 if day is None else 0.95)
