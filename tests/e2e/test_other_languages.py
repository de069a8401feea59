"""The shipped model reads English: other languages are found by their words, and that is said."""

from __future__ import annotations

import pytest

from command import add, answer, as_json, zapomni

NOTES = (
    "数据库每天晚上备份一次。",
    "会議は毎週月曜日に行われます。",
    "会議室の予約はカレンダーで行います。",
    "请把接口文档放在共享文件夹里。",
    "Мы перешли на новую базу данных весной.",
    "Совещание проходит по понедельникам.",
    "Production deploys happen on Thursdays.",
)


@pytest.fixture
def notes(model, private_home):
    for text in NOTES:
        add(text)


def test_the_model_does_not_outvote_the_words_of_other_scripts(notes):
    for question, expected in (("数据库", 0), ("база данных", 4), ("会議室", 2)):
        found = as_json("search", question)
        assert found["results"][0]["text"] == NOTES[expected]
        by_words = as_json("search", question, ZAPOMNI_EMBEDDER="none")
        assert [hit["memory_id"] for hit in found["results"]] == [
            hit["memory_id"] for hit in by_words["results"]
        ]
        assert found["results"][0]["similarity_score"] == 0


def test_it_is_said_that_the_model_reads_english(notes):
    assert "reads English" in zapomni("search", "数据库").stderr.decode()
    # Stored, though not asked.
    assert "other languages" in as_json("search", "Calendar, Anna und 数据库 backup")["notice"]
    assert "reads English: 6 of the latest 7" in as_json("status")["languages"]
    assert "reads English" in zapomni("status").stderr.decode()
    assert "6 of the latest 7" in answer("doctor")
    added = as_json("add", "Der Server wird mit dem Skript neu gestartet.")
    assert "reads English" in added["notice"]


def test_english_alone_is_not_commented_on(model, private_home):
    assert as_json("add", NOTES[-1])["notice"] is None
    assert as_json("search", "when do we deploy")["notice"] is None
    assert as_json("status")["languages"] is None


def test_letters_that_are_also_written_in_another_way_are_found_both_ways(
    private_home, monkeypatch
):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    for stored, asked in (("Ёлка стоит в зале", "елка"), ("Die Straße ist gesperrt", "strasse")):
        memory_id = add(stored)
        assert [hit["memory_id"] for hit in as_json("search", asked)["results"]] == [memory_id]
    memory_id = add("Листья зеленые")
    assert memory_id in [hit["memory_id"] for hit in as_json("search", "зелёные")["results"]]
