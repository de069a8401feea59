from __future__ import annotations

import pytest

from zapomni_core.modules.memories.scoring import Candidate, fuse
from zapomni_core.shared.languages import (
    is_english_model,
    is_foreign,
    is_unread_token,
    languages_of,
    readable_part,
    readable_share,
    reads_text,
    unread_share,
)

FOREIGN = (
    "Сервер слушает порт 5433.",
    "数据库在哪里",
    "データベースはどこですか",
    "데이터베이스는 어디에 있습니까",
    "Der Server wird mit dem Skript neu gestartet.",
    "El servidor está en la red y las copias se guardan por la noche.",
    "Le serveur est dans la salle avec les sauvegardes.",
    "Diese Funktion darf immer aufgerufen werden.",
    "Cada una tiene su propia clave.",
    "Toutes peuvent être désactivées.",
)
ENGLISH = (
    "Which port does staging use?",
    "The café's naïve façade",
    "get_user_by_id(user_id: int) -> User | None",
    "El Niño is what the team called the release",
    "wrapping python as a wrapper",
    "iterate over file names in directory python",
    "those eighty meg files take a while to copy into my directories",
    "def to_snake_case(text): l, d, s = map(str, text); return s or no",
    "MIT, the hat die, sin(x) in EST, DOS",
    "postgres",
    "",
)


@pytest.mark.parametrize("text", FOREIGN)
def test_other_languages_are_recognized_by_script_or_smallest_words(text):
    assert is_foreign(text)
    assert readable_share(text) < 1


@pytest.mark.parametrize("text", ENGLISH)
def test_english_and_code_are_read_whole(text):
    assert not is_foreign(text)
    assert readable_share(text) == 1


def test_the_model_does_not_outvote_the_words_of_a_language_it_hardly_reads():
    by_words, by_model = Candidate("words", bm25=10.0), Candidate("model", bm25=4.0)
    by_model.cosine = by_model.context = by_model.tokens = 0.6
    alike = Candidate("alike", bm25=9.0, cosine=0.6, context=0.6, tokens=0.6)
    pool = [by_words, by_model, alike, Candidate("neither")]
    german = readable_share("Der Server wird mit dem Skript neu gestartet.")
    fuse(pool, 0.0, tokens=True, vectors=True, reads=german)
    # It decides between passages whose words say about the same.
    assert alike.score > by_words.score > by_model.score
    fuse(pool, 0.0, tokens=True, vectors=True)
    assert alike.score > by_model.score > by_words.score


def test_a_question_mostly_in_another_script_is_not_read():
    assert unread_share("порт Postgres") == 0.5
    assert readable_share("как настроить Postgres") == 0
    assert readable_share("数据库") == 0
    assert 0 < readable_share("where is the configuration of Миша in staging") < 1


def test_of_a_passage_in_another_script_names_and_terms_are_read():
    assert readable_part("Класс Path.read_text() из pathlib-модуля") == "Path.read_text pathlib-"
    assert readable_part("数据库PostgreSQL的v2在哪里") == "PostgreSQL v2"
    assert readable_part("数据库在哪里") == ""
    for text in (*ENGLISH, "Der Server wird mit dem Skript neu gestartet."):
        assert readable_part(text) == text
        assert reads_text("all-MiniLM-L6-v2-int8", text)
    assert not reads_text("all-MiniLM-L6-v2-int8", "数据库在哪里")
    assert reads_text("multilingual-e5-small", "数据库在哪里")


def test_unknown_tokens_and_letters_of_other_scripts_are_not_read():
    assert all(map(is_unread_token, ("[UNK]", "д", "##ж", "数")))
    assert not any(map(is_unread_token, ("port", "##ing", "?", "é", "—", "5")))


def test_only_the_family_of_the_shipped_model_is_known_to_be_english():
    assert is_english_model("all-MiniLM-L6-v2-int8")
    assert not is_english_model("multilingual-e5-small")


@pytest.mark.parametrize(
    ("question", "languages"),
    [
        ("wie lange wird gespeichert", ["de"]),
        ("где хранятся решения", ["ru"]),
        ("¿dónde está la base de datos?", ["es"]),
        ("où sont les journaux", ["fr"]),
        ("why did the worker die", []),
        ("requests per second", []),
        ("list as a string", []),
        ("vi mode in LA", []),
        ("数据库", []),
        ("де зберігаються рішення", []),
    ],
)
def test_the_language_of_a_question_is_read_from_its_smallest_words(question, languages):
    assert languages_of(question, is_question=True) == languages
