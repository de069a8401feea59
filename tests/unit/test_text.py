from __future__ import annotations

from datetime import UTC, datetime

import pytest

from zapomni_core.shared.text import (
    as_spoken,
    context_words,
    find_names,
    query_terms,
    question_key,
)


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("데이터베이스", "데이 이터 터베 베이 이스"),
        ("ข้อมูล", "ขอม อมล"),
        ("ไป", "ไป"),
    ],
)
def test_korean_and_thai_are_found_by_parts_of_their_words(text, words):
    assert context_words(text) == words


def test_a_passage_is_found_by_the_stems_of_its_language():
    german = "Die Verbindungen werden nach zehn Sekunden beendet und nicht erneuert."
    assert {"verbind", "sekund"} <= {*context_words(german).split()}
    russian = "Решения команды записываются в документах."
    assert {"решен", "команд", "документ"} <= {*context_words(russian).split()}
    assert context_words("The connections are closed after ten seconds.") == ""
    # Ukrainian is no Russian.
    assert context_words("Рішення команди є в документах її.") == ""


def test_a_compound_is_found_by_its_parts_if_both_are_known():
    german = "Die Datenbankverbindungen werden nicht beendet."
    assert context_words(german, known={"datenbank", "verbind"}).endswith("datenbank verbind")
    assert "datenbank" not in context_words(german, known={"datenbank"}).split()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("When do we deploy?", "when do we deploy"),
        ("WHEN  do\twe deploy ?!", "When do we deploy."),
        ('why "deploy", then?', "Why \u201cdeploy\u201d then"),
        ("deploy - or not", "deploy \u2014 or not\u2026"),
        ("\u6570\u636e\u5e93\uff1f", "\u6570\u636e\u5e93"),
        ("\u00bfQu\u00e9 pasa?", "qu\u00e9 pasa"),
        ("USER_ID", "user_id"),
    ],
)
def test_questions_that_differ_in_case_blanks_and_punctuation_are_one(one, other):
    assert question_key(one) == question_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("where is userId set", "where is userid set"),
        ("C++ or C", "C or C"),
        ("C# or C", "C or C"),
        (".env", "env"),
        ("user_id", "user id"),
        ("foo.bar", "foobar"),
        ("don't", "dont"),
        ("?", "!"),
        ("-p", "p"),
    ],
)
def test_marks_and_capitals_inside_of_words_are_not_left_out(one, other):
    assert question_key(one) != question_key(other)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("It was written by Judith Viorst. It won prizes.", ["judith viorst"]),
        ("Born in Iowa, she met W. E. B. Du Bois there.", ["w e b du bois"]),
        ("The Rank Organisation's Cal Air left.", ["rank organisation", "cal air"]),
        ("Памяти Софьи Ковалевской.", ["памяти софьи ковалевской"]),
        ("He led the University of the Arts in Кыштым.", ["university of the arts"]),
        ("Somewhere it ends at Route 52. Nothing follows.", ["route 52"]),
        ("no capitals here", []),
        ("The A. Of.", []),
        ("Anna: I met Judith Viorst.\nTom: When?\nAnna: In May.", []),
        ("Author: Judith Viorst\nPublisher: Rank Books", ["judith viorst", "rank books"]),
    ],
)
def test_names_are_runs_of_words_with_capitals(text, names):
    assert find_names(text, ()) == names


def test_names_that_were_asked_for_and_more_than_a_few_are_left_out():
    assert find_names("by Judith Viorst in Newark", ["newark", "viorst", "judith"]) == []
    assert find_names("by Judith Viorst", ["viorst"]) == ["judith viorst"]
    assert len(find_names(" and ".join(f"in Place {n}" for n in range(50)), ())) == 12
    assert find_names("in " + " ".join(["Long"] * 7), ()) == []
