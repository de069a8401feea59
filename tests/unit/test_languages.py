from __future__ import annotations

import pytest

from zapomni_core.shared.languages import (
    is_english_model,
    is_foreign,
    is_unread_token,
    readable_share,
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
)
ENGLISH = (
    "Which port does staging use?",
    "The café's naïve façade",
    "get_user_by_id(user_id: int) -> User | None",
    "El Niño is what the team called the release",
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


def test_a_question_mostly_in_another_script_is_not_read():
    assert unread_share("порт Postgres") == 0.5
    assert readable_share("как настроить Postgres") == 0
    assert readable_share("数据库") == 0
    assert 0 < readable_share("where is the configuration of Миша in staging") < 1


def test_unknown_tokens_and_letters_of_other_scripts_are_not_read():
    assert all(map(is_unread_token, ("[UNK]", "д", "##ж", "数")))
    assert not any(map(is_unread_token, ("port", "##ing", "?", "é", "—", "5")))


def test_only_the_family_of_the_shipped_model_is_known_to_be_english():
    assert is_english_model("all-MiniLM-L6-v2-int8")
    assert not is_english_model("multilingual-e5-small")
