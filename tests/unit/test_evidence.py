"""Evidence: absolute, so that a question nothing answers gets little."""

from __future__ import annotations

import subprocess
import sys

import pytest

from zapomni_core.shared.evidence import evidence_in_text, evidence_word
from zapomni_core.shared.text import found_words, query_phrases, query_terms

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
