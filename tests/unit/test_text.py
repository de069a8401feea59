from __future__ import annotations

from datetime import UTC, datetime

import pytest

from zapomni_core.shared.text import as_spoken, context_words, query_terms


def test_the_telling_words_of_a_question_are_searched_for():
    assert query_terms("Where is the Deploy script, and why?") == ["deploy", "script"]
    assert query_terms("what is it") == ["what", "is", "it"]
    assert query_terms("???") == []
    assert len(query_terms(" ".join(f"w{n}" for n in range(1000)))) == 64


def test_identifiers_are_searched_for_whole_and_by_their_parts():
    assert query_terms("getUserName") == ["getusername", "get", "user", "name"]
    assert query_terms("parse_http2_header") == ["parse", "http2", "header", "http", "2"]


def test_scripts_without_blanks_are_searched_for_by_pairs():
    assert query_terms("東京都") == ["東京都", "東京", "京都"]
    assert context_words("東京都") == "東京 京都"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("plain words only", ""),
        ("call HTTPServer and readLine2", "HTTP Server read Line 2"),
        ("snake_case_name", ""),
    ],
)
def test_a_passage_is_found_by_the_parts_of_its_identifiers(text, words):
    assert context_words(text) == words


def test_a_passage_is_found_by_its_date():
    assert context_words("we met", datetime(2023, 5, 8, tzinfo=UTC)) == "8 May 2023"


def test_a_page_of_identifiers_does_not_double_the_index():
    assert len(context_words(" ".join(f"fooBar{n}x" for n in range(5000))).split()) == 200


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Anna: I was at the lake.", 'Anna said, "I was at the lake."'),
        ("Mary Jane: hi", 'Mary Jane said, "hi"'),
        ("Note: buy milk", "Note: buy milk"),
        ("Error: not found", "Error: not found"),
        ("def f(x): pass", "def f(x): pass"),
        ("https://example.org", "https://example.org"),
        ("no name here", "no name here"),
    ],
)
def test_a_turn_of_a_conversation_is_written_as_speech(text, spoken):
    assert as_spoken(text) == spoken
