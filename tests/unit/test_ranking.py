from __future__ import annotations

from datetime import UTC, datetime

import pytest

from zapomni_core.modules.memories.scoring import (
    Candidate,
    as_first,
    diversify,
    explain,
    fuse,
    fuse_by_rank,
    inverse_frequency,
    level_off,
    pick_pool,
    score_context,
    score_observed,
    score_words,
    trust,
)
from zapomni_core.shared.dates import date_window
from zapomni_db.models import VectorRanking
from zapomni_db.observation_models import ObservationMatch


def test_a_rare_word_tells_more_than_a_common_one_and_none_tells_nothing():
    assert inverse_frequency(1000, 1) > inverse_frequency(1000, 100) > inverse_frequency(1000, 900)
    assert inverse_frequency(1000, 1000) > 0


def test_two_different_words_in_a_window_beat_the_same_word_twice():
    both = Candidate("a", neighbours=("b",))
    twice = Candidate("c", neighbours=("d",))
    matches = {"red": frozenset({"a", "c", "d"}), "fox": frozenset({"b"})}

    score_words([both, twice], matches, {}, 1000)

    assert both.bm25_window > twice.bm25_window > 0


def test_a_parent_that_speaks_of_the_words_lifts_all_its_passages():
    inside = Candidate("silent", group="talk")
    outside = Candidate("other", group="else")

    score_words(
        [inside, outside],
        {"whale": frozenset({"t1", "t2"})},
        {"talk": ["silent", "t1", "t2"], "else": ["other"]},
        1000,
    )

    assert inside.bm25_parent > outside.bm25_parent == 0


def test_a_passage_without_neighbors_is_its_own_window_and_parent():
    alone = Candidate("a", group="one")
    first = Candidate("b", group="talk", group_size=2, after="c", neighbours=("c",))
    second = Candidate("c", group="talk", group_size=2, before="b", neighbours=("b",))
    members = {"one": ["a"], "talk": ["b", "c"]}

    score_words([alone, first, second], {"fox": frozenset({"a", "b"})}, members, 1000)

    # BM25 of one word that is there once, in a shorter text than the others are.
    assert alone.bm25_window > first.bm25_window == second.bm25_window > 0
    assert alone.bm25_parent == alone.bm25_window
    assert first.bm25_parent == first.bm25_window


def test_neighbours_count_half_in_the_context():
    alone, beside = Candidate("a"), Candidate("b", neighbours=("c", "d"))

    score_context([alone, beside], {"a": 0.4, "b": 0.4, "c": 0.4, "d": 0.4})

    assert alone.context == pytest.approx(0.4)
    assert beside.context > alone.context


def test_vectors_are_trusted_when_the_nearest_stands_out():
    assert trust(0.9, 0.1, 0.05, 1000) == 1.0
    assert trust(0.25, 0.1, 0.05, 1000) == 0.0
    assert trust(0.9, 0.1, 0.0, 1000) == 0.0
    assert trust(0.9, 0.1, 0.05, 1) == 0.0


def test_the_pool_keeps_the_promising_and_few_of_each_memory():
    book = [Candidate(f"b{n:03}", memory_id="book", bm25=9.0) for n in range(200)]
    notes = [Candidate(f"n{n}", memory_id=f"note{n}", bm25=1.0) for n in range(5)]

    pool, rest = pick_pool([*book, *notes], 100)

    assert {c.memory_id for c in pool} == {"book", *(f"note{n}" for n in range(5))}
    assert len(pool) + len(rest) == 205
    assert pick_pool(notes, 100) == (notes, [])


def test_what_every_arm_favours_wins_and_scores_stay_between_0_and_1():
    best = Candidate("best", bm25=9, cosine=0.9, context=0.9, tokens=1.0)
    words = Candidate("words", bm25=8, cosine=0.1, context=0.1)
    near = Candidate("near", bm25=0, cosine=0.8, context=0.8)
    pool = [words, near, best]

    for trusted in (0.0, 0.5, 1.0):
        fuse(pool, trusted, tokens=True, vectors=True)
        assert max(pool, key=lambda c: c.score) is best
        assert all(0 <= c.score <= 1.2 for c in pool)


def test_trust_moves_the_weight_from_words_to_vectors():
    words = Candidate("words", bm25=9, cosine=0.2, context=0.2)
    near = Candidate("near", bm25=1, cosine=0.9, context=0.9)

    fuse([words, near], 0.0, tokens=False, vectors=True)
    assert words.score > near.score
    fuse([words, near], 1.0, tokens=False, vectors=True)
    assert near.score > words.score


def in_other_language(**scores) -> list[Candidate]:
    words = Candidate("words", bm25=9, cosine=0.2, context=0.2, second=0.1, **scores)
    near = Candidate("near", bm25=1, cosine=0.9, context=0.9, second=0.5, **scores)
    half = Candidate("half", bm25=8, cosine=0.6, context=0.6, second=0.3, **scores)
    return [words, near, half]


def test_what_is_asked_in_the_language_of_the_passages_is_found_by_words_and_vectors():
    asked_alike, *_ = pool = in_other_language()
    fuse(pool, 0.0, tokens=False, vectors=True, shared=1.0)
    assert max(pool, key=lambda c: c.score).chunk_id == "half"
    assert asked_alike.weights["words"] > 0.4
    shared = [candidate.score for candidate in pool]
    # Its smallest words say it as well, whatever else it has.
    fuse(pool, 0.0, tokens=False, vectors=True, reads=0.5, shared=0.0)
    assert [candidate.score for candidate in pool] == shared


def test_what_is_asked_in_another_language_is_found_by_vectors():
    pool = in_other_language()
    fuse(pool, 0.0, tokens=False, vectors=True, shared=0.3)
    assert max(pool, key=lambda c: c.score).chunk_id == "near"


def test_words_alone_are_not_worth_more_than_words_and_vectors():
    english = Candidate("english", bm25=8.5)
    pool = [*in_other_language(), english]
    fuse(pool, 0.0, tokens=False, vectors=False, reads=0.0)
    assert max(pool, key=lambda c: c.score).chunk_id == "half"


def test_what_the_first_model_makes_of_other_languages_counts_a_little():
    far, near = (
        VectorRanking(scores={}),
        VectorRanking(scores={}, mean=0.1, deviation=0.1, count=1000),
    )
    assert as_first({"a": 0.3}, near, far, {"a": 0.9}) == {"a": 0.3}
    asked = {"a": 0.3, "b": 0.3}
    foreign = as_first(asked, near, near, {"a": 0.7}, reads=0.5)
    assert foreign == pytest.approx({"a": 0.4, "b": 0.3}, abs=0.01)
    english = as_first(asked, near, near, {"a": 0.7})
    assert english == pytest.approx({"a": 0.34, "b": 0.3}, abs=0.01)
    # Among as many in English, deviations of the second space count less: the nearest exceed the
    # others by more of them.
    both = VectorRanking(scores={}, mean=0.1, deviation=0.1, count=2000)
    assert as_first({"b": 0.36}, near, both, {}) == pytest.approx({"b": 0.3}, abs=0.01)


def test_without_vectors_words_alone_decide():
    first, second = Candidate("a", bm25=2.0), Candidate("b", bm25=1.0)

    fuse([first, second], 0.0, tokens=False, vectors=False)

    assert (first.score, second.score) == (1.0, 0.0)


def test_reciprocal_ranks_can_be_asked_for():
    both = Candidate("both", bm25=1.0, cosine=0.5)
    one = Candidate("one", bm25=2.0)

    fuse_by_rank([both, one])

    assert both.score > one.score > 0


NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("what did we do on 2023-05-08", "2023-05-08", "2023-05-09"),
        ("decisions of 2023-05", "2023-05-01", "2023-06-01"),
        ("the walk on 8 May 2023", "2023-05-08", "2023-05-09"),
        ("the walk on May 8th, 2023", "2023-05-08", "2023-05-09"),
        ("in December 2023", "2023-12-01", "2024-01-01"),
        ("the walk on Sept. 3, 2024", "2024-09-03", "2024-09-04"),
        ("the walk on 2024/03/05", "2024-03-05", "2024-03-06"),
        ("the walk on 5. März 2024", "2024-03-05", "2024-03-06"),
        ("what failed after 2023-05-08T10:00:00Z", "2023-05-08", "2023-05-09"),
        ("what broke yesterday", "2026-11-14", "2026-11-15"),
        ("notes of last week", "2026-11-08", "2026-11-15"),
    ],
)
def test_the_time_a_question_names_is_understood(query, start, end):
    expected = tuple(datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (start, end))
    assert date_window(query, NOW) == expected


@pytest.mark.parametrize("query", ["no time at all", "31 February 2023", "may I ask", "2023-99"])
def test_no_time_or_an_impossible_one_is_no_window(query):
    assert date_window(query, NOW) is None


def test_one_parent_does_not_fill_the_first_page_alone():
    talk = [Candidate(f"t{n}", group="talk", score=0.9 - n / 1000) for n in range(10)]
    note = Candidate("note", group="note", score=0.88)

    ranked = diversify([*talk, note])

    assert [c.chunk_id for c in ranked[:8]] == [f"t{n}" for n in range(8)]
    assert ranked[8] is note
    assert ranked[9].crowd == pytest.approx(-0.02)


def done(content, unit, path=None):
    match = ObservationMatch(
        id=1, timestamp=0, session_id="s", project="p", obs_type="command", content=content,
        file_path=path, pinned=False, score=unit,
    )  # fmt: skip
    return Candidate("#1", bm25=unit, observation=match)


def test_what_was_done_is_scored_by_its_share_of_the_words_then_by_bm25():
    exact, loose = done("deploys the kettle", 8.0), done("kettle", 4.0)
    named = done("edited", 4.0, path="src/kettle.py")

    score_observed([exact, loose, named], ["deploy", "kettle"], [])

    assert exact.score == pytest.approx(0.6)
    assert loose.score == named.score == pytest.approx(0.6 * (0.35 + 0.15))
    nothing = done("else", 0.0)
    score_observed([nothing], ["kettle"], [])
    assert nothing.score == 0.0


def test_an_explanation_ranks_a_hit_in_every_arm_that_found_it():
    first = Candidate("a", bm25=2.0, cosine=0.2, weights={"words": 1.0}, score=0.9)
    second = Candidate("b", bm25=1.0, cosine=0.8, score=0.5)

    why = explain(first, [first, second])

    assert why["arms"] == {
        "bm25": {"score": 2.0, "rank": 1},
        "unit": {"score": 2.0, "rank": 1},
        "cosine": {"score": 0.2, "rank": 2},
    }
    assert why["weights"] == {"words": 1.0}
    assert set(why["boosts"]) == set("recency date hop names graph crowd newer demoted".split())


def test_scores_never_rise_along_the_list():
    ranked = [Candidate("a", score=0.5), Candidate("b", score=0.7), Candidate("c", score=0.1)]

    level_off(ranked)

    assert [c.score for c in ranked] == [0.5, 0.5, 0.1]


# --- Numbers that a store without snapshots, or a broken vector, may give ---------------------


@pytest.mark.parametrize(("total", "matching"), [(0, 0), (0, 5), (1, 6), (3, 10_000), (5, -1)])
def test_a_word_that_more_passages_have_than_there_are_is_worth_next_to_nothing(total, matching):
    assert 0 < inverse_frequency(total, matching) < 3


def test_numbers_that_are_none_count_nothing():
    nan, infinite = float("nan"), float("inf")
    pool = [Candidate("1", bm25=1.0, neighbours=("2",)), Candidate("2", bm25=0.5)]
    score_context(pool, {"1": nan, "2": infinite})
    for best, mean, deviation in [(nan, 0, 1), (1, nan, 1), (1, 0, nan), (infinite, 0, 1)]:
        assert trust(best, mean, deviation, 10) == 0
    fuse(pool, 0.0, tokens=False, vectors=True)

    assert [(c.cosine, c.context) for c in pool] == [(0, 0), (0, 0)]
    assert all(0 <= c.score <= 1 for c in pool)


def test_a_question_about_the_end_of_the_calendar_names_no_time():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for query in ("9999-12-31", "December 9999", "0000-01-01", "2026-02-31"):
        assert date_window(query, now) is None
