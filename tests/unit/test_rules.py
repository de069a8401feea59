from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zapomni_db import rules
from zapomni_db.rules import EVER, Statement, fold, likeness, weigh, when_replaced


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Node.JS", "node.js"),
        ("  Grace\n Hopper ", "grace hopper"),
        ("\uff30\uff59\uff30\uff29", "pypi"),
        ("STRASSE", "straße"),
        ("Юля", "ЮЛЯ"),
    ],
)
def test_names_are_equal_regardless_of_case_width_and_blanks(first, second):
    assert fold(first) == fold(second)


def test_names_that_differ_stay_different():
    assert len({fold(name) for name in ("Java", "JavaScript", "v1.2", "v1.3", "")}) == 5


@given(st.text(max_size=30), st.text(max_size=30))
def test_likeness_is_a_share_the_same_both_ways_and_whole_for_equals(first, second):
    assert 0 <= likeness(first, second) <= 1
    assert likeness(first, second) == likeness(second, first)
    assert likeness(first, first) == 1


def test_a_misspelling_is_more_alike_than_another_word():
    assert likeness("kuberntes", "kubernetes") > 0.7 > likeness("postgres", "kubernetes")


def test_each_further_sentence_adds_weight_and_never_reaches_certainty():
    weights = [weigh(0.3, support) for support in (1, 2, 10, 1000)]
    assert weights == sorted(weights)
    assert weights[0] == pytest.approx(0.3)
    assert weights[-1] < 1
    assert weigh(1.0, 1) == 1


# --- One at a time ----------------------------------------------------------------------


def says(target, said, since=None, until=None):
    return Statement(target, said, said if since is None else since, until)


@pytest.mark.parametrize(
    ("statements", "ends"),
    [
        ([says("a", 1)], [None]),
        ([says("a", 1), says("b", 5)], [5, None]),
        ([says("b", 5), says("a", 1)], [None, 5]),
        ([says("a", 1), says("a", 3), says("b", 5)], [5, 5, None]),
        ([says("a", 1), says("b", 5), says("a", 9)], [5, 9, None]),
        # of one text, the later beginning ends the earlier one; the same beginning does not
        ([says("a", 9, since=1), says("b", 9, since=5)], [5, None]),
        ([says("a", 9), says("b", 9)], [None, None]),
        # said later, began earlier: what was believed ends when it was said
        ([says("a", 5), says("b", 9, since=1)], [9, None]),
        # announced before, began after: the announcement stands
        ([says("b", 1, since=20), says("a", 5)], [None, 20]),
        # over before the other began, or already over when it was told
        ([says("a", 9, since=1, until=3), says("b", 5)], [3, None]),
        ([says("b", 5), says("a", 9, since=EVER, until=3)], [None, 3]),
        # never held at all
        ([says("a", 1), says("b", 5, until=5)], [None, 5]),
    ],
)
def test_the_newer_statement_ends_the_older_one(statements, ends):
    assert when_replaced(statements) == ends


_TIMES = st.integers(0, 20)
_STATEMENTS = st.lists(
    st.builds(Statement, st.sampled_from("abc"), _TIMES, _TIMES, st.none() | _TIMES), max_size=12
)


@given(_STATEMENTS)
def test_leaving_out_repetitions_changes_no_end(statements):
    held = [s for s in statements if s.until is None or s.until > s.since]
    assert when_replaced(held) == [rules._end_of(one, held) for one in held]


@given(_STATEMENTS)
def test_an_end_is_never_later_than_stated_and_the_order_does_not_matter(statements):
    ends = when_replaced(statements)
    assert when_replaced(statements[::-1]) == ends[::-1]
    for statement, end in zip(statements, ends, strict=True):
        assert statement.until is None or (end is not None and end <= statement.until)
        assert end is None or end > statement.since or end == statement.until


@given(st.lists(st.tuples(st.sampled_from("abc"), _TIMES), min_size=1, unique_by=lambda s: s[1]))
def test_of_undated_statements_exactly_one_object_holds_at_any_time(said):
    statements = [says(target, moment) for target, moment in said]
    ends = when_replaced(statements)
    first = min(s.since for s in statements)
    for now in range(first, 25):
        holding = {
            s.target
            for s, end in zip(statements, ends, strict=True)
            if s.since <= now and (end is None or now < end)
        }
        newest = max((s for s in statements if s.since <= now), key=lambda s: s.since)
        assert holding == {newest.target}


def test_a_fact_repeated_in_every_note_costs_no_more_than_its_notes():
    statements = [says("a" if n // 5000 else "b", n) for n in range(10_000)]
    assert when_replaced(statements)[0] == 5000
