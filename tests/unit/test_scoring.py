from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks import notes, scoring
from benchmarks.systems.zapomni import parse_time, requests_of
from zapomni_core.shared import measures

# --- Measures against values computed by hand -------------------------------------------

RANKING = ["x", "a", "y", "z", "w", "b", "v", "u", "t", "s", "c"]


def test_recall_is_the_share_of_the_relevant_among_the_first():
    assert measures.recall_at(5, RANKING, ["a", "b", "c"]) == pytest.approx(1 / 3)
    assert measures.recall_at(10, RANKING, ["a", "b", "c"]) == pytest.approx(2 / 3)
    assert measures.recall_at(5, RANKING, ["a", "a"]) == 1
    assert measures.recall_at(5, [], ["a"]) == 0


def test_any_and_all_say_whether_one_or_every_relevant_name_is_among_the_first():
    assert measures.any_at(5, RANKING, ["a", "b"]) == 1
    assert measures.all_at(5, RANKING, ["a", "b"]) == 0
    assert measures.all_at(10, RANKING, ["a", "b"]) == 1
    assert measures.any_at(10, RANKING, ["c"]) == 0


def test_the_reciprocal_rank_is_that_of_the_first_relevant_name():
    assert measures.reciprocal_rank_at(10, RANKING, ["b", "a"]) == 0.5
    assert measures.reciprocal_rank_at(10, RANKING, ["b"]) == pytest.approx(1 / 6)
    assert measures.reciprocal_rank_at(10, RANKING, ["c"]) == 0


def test_ndcg_discounts_by_place_and_compares_with_the_best_order():
    # a at place 2 and b at place 6: 1/log2(3) + 1/log2(7) = 0.6309 + 0.3562 = 0.9871;
    # three relevant names at places 1 to 3 would gain 1 + 0.6309 + 0.5 = 2.1309.
    assert measures.ndcg_at(10, RANKING, ["a", "b", "c"]) == pytest.approx(0.4632, abs=1e-4)
    assert measures.ndcg_at(10, ["a", "b"], ["b", "a"]) == 1
    # Twelve relevant names: no ranking can show more than ten of them.
    assert measures.ndcg_at(10, list("abcdefghij"), list("abcdefghijkl")) == pytest.approx(1)


def test_groups_are_ranked_by_their_best_document():
    groups = {"1": "A", "2": "A", "3": "B", "4": "C"}
    assert measures.collapse(["2", "4", "1", "3"], groups) == ["A", "C", "B"]
    assert measures.collapse(["x", "y", "x"]) == ["x", "y"]


def test_averages_are_over_questions_and_by_category():
    right = measures.score(["a"], ["a"])
    wrong = measures.score(["b"], ["a"])
    assert measures.average([right, right, wrong])["recall_at_5"] == 0.6667
    split = measures.by_category([("easy", right), ("hard", wrong), ("easy", right)])
    assert list(split) == ["easy", "hard"]
    assert (split["easy"]["queries"], split["easy"]["mrr_at_10"]) == (2, 1)
    assert (split["hard"]["queries"], split["hard"]["ndcg_at_10"]) == (1, 0)


def test_a_percentile_is_a_value_that_was_measured():
    assert scoring.percentile([3, 1, 2], 0.5) == 2
    assert scoring.percentile(list(range(1, 101)), 0.95) == 95
    assert scoring.percentile([7], 0.95) == 7


# --- What Zapomni is given --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:40 am on 27 March, 2022", datetime(2022, 3, 27, 0, 40, tzinfo=UTC)),
        ("2024-02-29T10:15:00Z", datetime(2024, 2, 29, 10, 15, tzinfo=UTC)),
        ("Sept 3rd, 2021", datetime(2021, 9, 3, tzinfo=UTC)),
        ("31 February, 2022", None),
        ("some day in spring", None),
        ("", None),
    ],
)
def test_a_date_written_in_words_is_read(text, expected):
    assert parse_time(text) == expected


def test_a_documents_position_is_its_order_within_its_group():
    docs = [{"id": n, "text": n, "group": n[0], "time": ""} for n in ("a1", "b1", "a2")]
    assert [(r.parent, r.position) for r in requests_of(docs)] == [("a", 0), ("b", 0), ("a", 1)]


# --- Notes, decisions and commits -------------------------------------------------------


def test_questions_about_notes_are_scored_by_kind():
    texts = {"a": "Retries use exponential backoff.", "b": "Backoff was removed from the client."}
    documents = [{"id": i, "text": t, "group": "", "time": ""} for i, t in texts.items()]
    questions = [
        {"text": "exponential retries", "kind": "note", "relevant": ["a"]},
        {"text": "what was removed", "kind": "commit", "relevant": ["a", "b"]},
    ]

    line = notes.measure("fts5", documents, questions)

    assert (line["documents"], line["questions"]) == (2, 2)
    assert line["recall_at_1"] == pytest.approx(0.75)
    assert line["by_kind"]["note"]["recall_at_3"] == 1
    assert line["by_kind"]["commit"]["recall_at_1"] == pytest.approx(0.5)
