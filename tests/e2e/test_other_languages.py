"""The shipped model reads English: other languages are found by their words, and that is said."""

from __future__ import annotations

import sqlite3
from contextlib import closing

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


def test_notes_in_another_script_are_compared_by_their_words(model, private_home):
    for text in ("Счёт за Postgres оплачивает Анна.", "Сервер Postgres слушает порт 5433."):
        assert as_json("add", text)["similar"] == []
    restated = as_json("add", "Сервер Postgres слушает порт 5434.")
    assert [one["text"] for one in restated["similar"]] == ["Сервер Postgres слушает порт 5433."]
    found = [hit["text"] for hit in as_json("search", "какой порт слушает Postgres")["results"]]
    assert found[:2] == ["Сервер Postgres слушает порт 5434.", "Сервер Postgres слушает порт 5433."]
    pairs = as_json("review")["items"]
    assert not [one for one in pairs if "Счёт" in str(one)]


def test_an_english_question_finds_the_terms_of_a_note_in_another_script(model, private_home):
    note = "Мы перешли на PostgreSQL весной, потому что журналы и отчёты стали слишком большими."
    for text in (note, *NOTES[4:]):
        add(text)
    hits = as_json("search", "which SQL database do we use")["results"]
    assert hits[0]["text"] == note
    # Of the whole sentence it is .22: its letters would outweigh the one word that is read.
    assert hits[0]["similarity_score"] > 0.35
    assert all(hit["similarity_score"] < 0.15 for hit in hits if hit["text"] in NOTES[4:6])


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


def forget_stems(home, memory_id):
    """Leave a memory as an earlier version stored it."""
    with closing(sqlite3.connect(home / "zapomni.db")) as connection, connection:
        own = "SELECT c.* FROM chunks c JOIN memories m ON m.key = c.memory_key WHERE m.id = ?"
        connection.row_factory = sqlite3.Row
        for chunk in connection.execute(own, (memory_id,)).fetchall():
            values = (chunk["id"], chunk["text"], chunk["context"])
            connection.execute(
                "INSERT INTO chunks_fts (chunks_fts, rowid, text, context)"
                " VALUES ('delete', ?, ?, ?)",
                values,
            )
            connection.execute("UPDATE chunks SET context = '' WHERE id = ?", values[:1])
            connection.execute(
                "INSERT INTO chunks_fts (rowid, text, context) VALUES (?, ?, '')", values[:2]
            )


INFLECTED = (
    ("Решения команды записываются в журналах.", "где есть журнал решений"),
    ("Die Verbindungen zum Server werden nach zehn Sekunden beendet.", "wann wird die Verbindung"),
    ("Los informes semanales están en la carpeta compartida.", "dónde está el informe semanal"),
    ("Les sauvegardes sont faites dans la nuit.", "quand est faite la sauvegarde"),
    ("데이터베이스를 매일 밤 백업한다.", "데이터베이스 백업"),
    ("ระบบสำรองข้อมูลทุกคืน", "ข้อมูล"),
)


@pytest.mark.parametrize("engine", ["sqlite", "falkordb"])
def test_other_forms_of_a_word_find_it(engine, private_home, monkeypatch, request):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    if engine == "falkordb":
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph")
        monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{server.socket}?graph={graph}")
    added = [add(text) for text, _ in INFLECTED]
    for memory_id, (_, question) in zip(added, INFLECTED, strict=True):
        hits = as_json("search", question)["results"]
        assert hits[0]["memory_id"] == memory_id, question
        assert hits[0]["bm25_score"] > 0


def test_a_compound_is_found_by_a_part_and_finds_its_parts(private_home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    parts = add("Die Datenbank ist nicht da, wenn die Verbindung abbricht.")
    whole = add("Wir haben die Zahl der Datenbankverbindungen auf zehn begrenzt.")
    for question in ("wie viele Verbindungen sind erlaubt", "was ist die Datenbankverbindung"):
        found = [hit["memory_id"] for hit in as_json("search", question)["results"]]
        assert {*found} == {parts, whole}, question


def test_what_was_stored_without_stems_is_still_found_by_its_words(private_home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    old, new = (add(f"Журналы команды {where}.") for where in ("в архиве", "на сервере"))
    forget_stems(private_home, old)
    found = as_json("search", "где журналы команды")["results"]
    assert {hit["memory_id"] for hit in found} == {old, new}

    def matching():
        hits = as_json("search", "где журнал", "--explain")["results"]
        return {hit["memory_id"] for hit in hits if "bm25" in hit["explanation"]["arms"]}

    assert matching() == {new}
    assert "Indexed 1 passage again." in answer("db", "reindex")
    assert matching() == {old, new}
    assert "up to date" in answer("db", "reindex")
