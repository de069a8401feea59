from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zapomni_core.modules.graph import RuleExtractor, load_gazetteer
from zapomni_core.shared.dates import window_of

pytestmark = pytest.mark.anyio
RULES = RuleExtractor(load_gazetteer())
WEDNESDAY = datetime(2024, 5, 15, 9, 30, tzinfo=UTC)


async def dates(text: str, said: datetime | None = WEDNESDAY) -> list[tuple[str, str]]:
    entities = await RULES.extract_entities(text, said)
    return [(entity.surface, entity.name) for entity in entities if entity.type == "DATE"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2024-11-05T10:00:00Z", "2024-11-05"),
        ("2024/11/05", "2024-11-05"),
        ("2024-11", "2024-11"),
        ("05.11.2024", "2024-11-05"),
        ("11/05/2024", "2024-11-05"),
        ("25/11/2024", "2024-11-25"),
        ("1 July 2023", "2023-07-01"),
        ("1st of July 2023", "2023-07-01"),
        ("July 1, 2023", "2023-07-01"),
        ("Jan 15", "2024-01-15"),
        ("12 September", "2024-09-12"),
        ("28 December", "2023-12-28"),
        ("March 2024", "2024-03"),
        ("Q3 2025", "2025-Q3"),
        ("Q2", "2024-Q2"),
        ("today", "2024-05-15"),
        ("yesterday", "2024-05-14"),
        ("tomorrow", "2024-05-16"),
        ("the day after tomorrow", "2024-05-17"),
        ("the day before yesterday", "2024-05-13"),
        ("last night", "2024-05-14"),
        ("this morning", "2024-05-15"),
        ("last week", "2024-W19"),
        ("this week", "2024-W20"),
        ("next month", "2024-06"),
        ("last quarter", "2024-Q1"),
        ("next quarter", "2024-Q3"),
        ("this year", "2024"),
        ("last year", "2023"),
        ("last Friday", "2024-05-10"),
        ("next Monday", "2024-05-20"),
        ("this Sunday", "2024-05-19"),
        ("last October", "2023-10"),
        ("next May", "2025-05"),
        ("3 days ago", "2024-05-12"),
        ("two weeks ago", "2024-05-01"),
        ("a month ago", "2024-04"),
        ("in two weeks", "2024-05-29"),
        ("in 3 years", "2027"),
        ("ten days from now", "2024-05-25"),
        ("end of the month", "2024-05"),
        ("end of week", "2024-W20"),
        ("EOD", "2024-05-15"),
        ("EOY", "2024"),
    ],
)
async def test_a_date_is_resolved_against_the_day_it_was_written(words, name):
    assert await dates(f"we ship {words}") == [(words, name)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("since Monday", "2024-05-13"),
        ("until Monday", "2024-05-20"),
        ("since Wednesday", "2024-05-15"),
        ("on Tuesday", "2024-05-14"),
        ("on Saturday", "2024-05-18"),
        ("since August", "2023-08"),
        ("until March", "2025-03"),
        ("in June", "2024-06"),
        ("founded in 2005", "2005"),
        ("Update copyright to 2025", "2025"),
    ],
)
async def test_the_word_before_says_which_one_is_meant(text, name):
    assert [found for _, found in await dates(text)] == [name]


@pytest.mark.parametrize(
    "text",
    [
        "every Thursday",
        "the first Monday of the month",
        "may I go? we march on",
        "2024 rows on port 2024",
        "31 February 2024 does not exist",
        "at 12:30, for 3 days, 50 %",
        "in a row, in a day's work of joy",
        "version 2024.10.1",
        "Mondays are slow",
        "on 99/99/2024",
    ],
)
async def test_what_recurs_or_is_no_date_is_left_out(text):
    found = [name for _, name in await dates(text)]
    assert [name for name in found if name not in ("2024-02", "2024")] == []


async def test_other_languages_write_dates_too():
    assert await dates("Мы перешли в марте 2024.") == [("марте 2024", "2024-03")]
    assert await dates("seit 3. Oktober 2023") == [("3. Oktober 2023", "2023-10-03")]
    assert await dates("le 14 juillet 2023") == [("14 juillet 2023", "2023-07-14")]


async def test_without_a_day_to_start_from_a_relative_date_stays_as_it_is():
    (entity,) = await RULES.extract_entities("it broke yesterday")
    assert (entity.name, entity.confidence) == ("yesterday", 0.6)
    assert await dates("on 3 May, in Q2, since August, next week, on Friday", None) == [
        ("3 May", "3 may"),
        ("Q2", "Q2"),
        ("August", "august"),
        ("next week", "next week"),
        ("Friday", "friday"),
    ]


async def test_the_day_is_the_one_of_the_writers_clock():
    late = datetime(2024, 5, 15, 23, 30, tzinfo=timezone(timedelta(hours=-8)))
    assert await dates("it broke today", late) == [("today", "2024-05-15")]
    assert await dates("it broke today", datetime(2024, 5, 15)) == [  # noqa: DTZ001 - as given
        ("today", "2024-05-15")
    ]


@pytest.mark.parametrize(
    ("name", "since", "until"),
    [
        ("2024-02-28", "2024-02-28", "2024-02-29"),
        ("2024-12", "2024-12-01", "2025-01-01"),
        ("2024", "2024-01-01", "2025-01-01"),
        ("2024-Q4", "2024-10-01", "2025-01-01"),
        ("2024-W01", "2024-01-01", "2024-01-08"),
    ],
)
def test_a_name_tells_from_when_to_when(name, since, until):
    window = window_of(name)
    assert window is not None
    assert [moment.date().isoformat() for moment in window] == [since, until]
    assert window_of("yesterday") is None
    assert window_of("9999-12") is None


@given(st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
async def test_every_day_can_be_the_day_it_was_written(said):
    text = "last week, next Friday, in 5 months, 300 years ago, since March, on 29 February, Q1"
    for _, name in await dates(text, said):
        window = window_of(name)
        assert window is not None
        assert window[0] < window[1]
