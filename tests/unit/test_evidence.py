"""Evidence: absolute, so that a question nothing answers gets little."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from zapomni_core.modules.memories import Candidate
from zapomni_core.modules.memories.evidence import find_turns, score_evidence
from zapomni_core.shared.evidence import evidence_in_text, evidence_word
from zapomni_core.shared.text import found_words, query_phrases, query_terms
from zapomni_db.models import VectorRanking

NOTES = (
    "We deploy on Tuesdays, never on Fridays.",
    "The staging database listens on port 5433.",
    "Use ruff, not black.",
    "Anna prefers tabs.",
)


def words_for(question: str) -> list[str]:
    """Return how strong the evidence of each note is, as a hook finds it out."""
    terms, phrases = query_terms(question), query_phrases(question)
    counts = {term: sum(len(found_words([term], note)) for note in NOTES) for term in terms}
    return [
        evidence_word(evidence_in_text(note, terms, phrases, counts, len(NOTES))) for note in NOTES
    ]


@pytest.mark.parametrize(
    ("question", "answer"),
    [("when do we deploy?", 0), ("which port does the staging database use", 1), ("tabs?", 3)],
)
def test_the_note_that_has_the_rare_words_of_a_question_is_strong_even_among_few(question, answer):
    words = words_for(question)
    assert words[answer] == "strong"
    assert {*words[:answer], *words[answer + 1 :]} == {"none"}


@pytest.mark.parametrize(
    "question", ["how do I bake bread", "please fix the failing test in the login module", "?!"]
)
def test_a_question_that_no_note_answers_has_no_evidence(question):
    assert set(words_for(question)) == {"none"}


def test_evidence_by_words_needs_the_standard_library_only():
    script = (
        "import sys; import zapomni_core.shared.evidence; "
        "print(*(n for n in ('numpy', 'pydantic', 'asyncio', 'structlog') if n in sys.modules))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert loaded.stdout.strip() == ""


# --- Of passages, by all signals ------------------------------------------------------------


def passages(**fields: float) -> list[Candidate]:
    """Return five passages of five parents; the fields are of the first."""
    pool = [
        Candidate(f"c{n}", memory_id=f"m{n}", group=f"g{n}", cosine=0.2 + n / 100, first_score=0.3)
        for n in range(5)
    ]
    pool[0] = Candidate("c0", memory_id="m0", group="g0", **{"first_score": 0.9, **fields})
    return pool


def measure(
    pool: list[Candidate], *, calibrated: bool, holders: str = "c0", **ranking: float
) -> list[float]:
    """Return their evidence; `holders` have the first word of the question, c0 also the second."""
    spread = VectorRanking(scores={}, **{"mean": 0.1, "deviation": 0.1, "count": 500, **ranking})
    matches = {"kettle": frozenset(holders.split()), "boil": frozenset({"c0"})}
    score_evidence(pool, matches, 500, spread, calibrated=calibrated)
    return [candidate.evidence for candidate in pool]


def test_evidence_leaves_scores_and_order_as_they_are():
    pool = passages(cosine=0.7)
    for number, candidate in enumerate(pool):
        candidate.score = number / 10
    measure(pool, calibrated=True)
    assert [candidate.score for candidate in pool] == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert [candidate.chunk_id for candidate in pool] == ["c0", "c1", "c2", "c3", "c4"]


def test_in_a_space_never_calibrated_only_the_distance_from_the_others_counts():
    near = measure(passages(cosine=0.7), calibrated=False)
    # Another model's cosines: all lie higher and closer together.
    crowded = passages(cosine=0.7)
    for candidate in crowded:
        candidate.cosine = 0.8 + candidate.cosine / 10
    assert measure(crowded, calibrated=False, mean=0.81, deviation=0.01) == pytest.approx(near)
    assert near[0] > 0.65 > near[1]


def test_a_passage_like_many_others_is_less_sure_than_the_only_one():
    alone = measure(passages(cosine=0.6), calibrated=False)[0]
    crowd = passages(cosine=0.6)
    for candidate in crowd:
        candidate.cosine, candidate.first_score = 0.6, 0.9
    among_many = measure(crowd, calibrated=False, holders="c0 c1 c2 c3 c4")[0]
    assert among_many < alone
    # Which of them answers is not known, that the question is answered here is.
    assert (evidence_word(alone), evidence_word(among_many)) == ("strong", "weak")


def test_a_question_like_everything_here_belongs_here_more_than_one_like_nothing():
    def evidence_above(mean: float) -> float:
        pool = passages(cosine=mean + 0.4, similarities=[0.5], late=0.1)
        return measure(pool, calibrated=True, mean=mean)[0]

    assert 0.9 > evidence_above(0.3) > evidence_above(0.1) + 0.02


def test_a_fact_stored_twice_is_surer_than_one_of_three_that_differ():
    def evidence_among(alike: int) -> float:
        pool = passages(cosine=0.6)
        for candidate in pool[1:alike]:
            candidate.first_score = 0.9
        return measure(pool, calibrated=False)[0]

    assert evidence_among(1) > evidence_among(2) > evidence_among(3) + 0.1
    assert evidence_word(evidence_among(2)) == "strong"


def test_passages_of_one_parent_are_no_rivals_but_turns_of_a_conversation_are():
    def evidence_of(texts: dict[str, str]) -> float:
        pool = passages(cosine=0.6, group_size=2)
        pool[1] = Candidate(
            "c1", memory_id="m1", group="g0", group_size=2, cosine=0.6, first_score=0.9
        )
        find_turns(pool, texts)
        return measure(pool, calibrated=False)[0]

    passage = evidence_of({"c0": "The kettle boils at six."})
    turn = evidence_of({"c0": "Anna: The kettle boils at six."})
    question = evidence_of({"c0": "Anna: Does the kettle boil at six?"})
    assert passage > turn > question
    asked = {"c0": "Ben: The kettle boils at six.", "c1": "Anna: When does the kettle boil?"}
    assert evidence_of(asked) > turn
    assert evidence_of({"c0": "Anna: The kettle?\nBen: It boils at six."}) == passage


def turns_in_order(**fields: float) -> list[Candidate]:
    """Return turns of one conversation that were put in order; the fields are of the first."""
    pool = passages(cosine=0.6)
    for number, candidate in enumerate(pool):
        candidate.group, candidate.group_size, candidate.turn = "g0", 5, True
        candidate.similarities, candidate.late, candidate.late_window = [0.5], 0.3, 0.3
        # What BM25 gives a conversation that has both words.
        candidate.bm25_parent = 8.0
        candidate.turn_signals = {"window": 5.0 - 3 * (number > 0), "apart": 0.0}
    for name, value in fields.items():
        setattr(pool[0], name, value)
    return pool


def test_a_turn_in_order_has_to_lead_over_all_others_together():
    (alone, *_) = measure(turns_in_order(), calibrated=True)
    crowd = turns_in_order()
    for candidate in crowd[1:]:
        candidate.turn_signals["window"] = 4.5
    (among_many, *_) = measure(crowd, calibrated=True)
    near = turns_in_order()
    near[1].turn_signals["window"] = 4.5
    (with_a_rival, *_) = measure(near, calibrated=True)

    assert alone > with_a_rival > among_many
    assert evidence_word(alone) == "strong"


def test_a_turn_that_leans_on_those_before_it_is_surer_than_one_that_repeats_the_question():
    (repeats, *_) = measure(turns_in_order(late=0.3, late_window=0.3), calibrated=True)
    (replies, *_) = measure(turns_in_order(late=0.1, late_window=0.3), calibrated=True)
    (unrelated, *_) = measure(turns_in_order(late=0.1, late_window=0.1), calibrated=True)

    assert replies > repeats > unrelated


def test_any_part_of_a_list_is_right():
    def evidence_of(apart: float) -> float:
        pool = turns_in_order()
        for candidate in pool:
            candidate.turn_signals = {"window": 5.0, "apart": apart}
        return measure(pool, calibrated=True)[0]

    assert evidence_of(-1.0) > evidence_of(0.0)


def test_words_that_no_passage_has_lower_evidence_in_a_large_store_only():
    def unseen_in(total: int, *, unseen: int) -> float:
        pool = passages(cosine=0.6)
        matches = {"kettle": frozenset({"c0"}), "boil": frozenset({"c0"})}
        matches |= {f"word{n}": frozenset() for n in range(unseen)}
        score_evidence(pool, matches, total, VectorRanking(scores={}), calibrated=False)
        return pool[0].signals["unseen"]

    assert unseen_in(500, unseen=2) > 0.4
    assert unseen_in(5, unseen=2) < 0.15
    assert unseen_in(500, unseen=0) == 0.0


def evidence_by_word(word: str, total: int) -> float:
    """Return the evidence of a passage by a word that one in a hundred has."""
    pool = passages(cosine=0.6, similarities=[0.5], late=0.15)
    holders = frozenset({"c0", *(f"other{n}" for n in range(total // 100))})
    score_evidence(
        pool,
        {word: holders},
        total,
        VectorRanking(scores={}, mean=0.1, deviation=0.1, count=total),
        calibrated=True,
        vocabulary={"kettle": 19_000, "time": 2051},
    )
    return pool[0].evidence


def test_a_word_that_english_has_less_often_than_this_store_raises_evidence():
    rare, common = evidence_by_word("kettle", 5000), evidence_by_word("time", 5000)
    assert rare > common + 0.1
    assert evidence_by_word("not in the vocabulary", 5000) > rare


def test_a_small_store_has_no_typical_words():
    rare, common = evidence_by_word("kettle", 5), evidence_by_word("time", 5)
    assert rare == pytest.approx(common, abs=0.01)


def test_passages_of_one_parent_lead_together_over_all_others():
    def evidence_with(near: str, group: str) -> float:
        pool = passages(cosine=0.6, context=0.6, similarities=[0.5], late=0.3, bm25_parent=8.0)
        for candidate in pool[1:]:
            candidate.similarities, candidate.late, candidate.context = [0.5], 0.27, 0.55
            if candidate.chunk_id in near.split():
                candidate.first_score, candidate.group = 0.88, group or candidate.group
        return measure(pool, calibrated=True)[0]

    together, alone = evidence_with("c1 c2 c3", "g0"), evidence_with("", "")
    one_rival, rivals = evidence_with("c1", ""), evidence_with("c1 c2 c3", "")
    assert together >= alone > one_rival > rivals
    assert (evidence_word(alone), evidence_word(rivals)) == ("strong", "weak")


def test_broken_vectors_leave_evidence_by_words():
    pool = passages(cosine=0.6)
    found = measure(pool, calibrated=False, mean=math.nan, deviation=math.nan)
    assert all(0 <= evidence <= 1 for evidence in found)
