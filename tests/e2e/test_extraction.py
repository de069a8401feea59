"""Entities and relationships as a user meets them: own names, a model, a model that is down."""

from __future__ import annotations

import json

import pytest

from command import add, answer, as_json, refused
from servers import Answer, ollama_chat, serve

NOTE = "Frobnicator uses Redis. Anna decided to use Kafka on 2024-03-05."


@pytest.fixture(autouse=True)
def by_words(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def names(**env: str) -> set[tuple[str, str]]:
    return {(e["name"], e["type"]) for e in as_json("graph", "entities", **env)}


def test_the_users_own_names_are_known_once_they_are_written_down(private_home):
    add(NOTE)
    answer("graph", "build")
    assert ("Frobnicator", "TECHNOLOGY") not in names()
    (private_home / "gazetteer.txt").write_text("[technology]\nFrobnicator = frob\n-Redis\n")
    # Other names are another way to read: what was read is read again.
    assert answer("graph", "build").startswith("Read 1 passage: ")
    assert names() >= {("Frobnicator", "TECHNOLOGY"), ("Kafka", "TECHNOLOGY"), ("Anna", "PERSON")}
    assert ("Redis", "TECHNOLOGY") not in names()


def test_a_file_of_names_nobody_understands_is_refused_with_the_line(private_home):
    add(NOTE)
    (private_home / "gazetteer.txt").write_text("[technology]\nok\n[tecnology]\nFrob\n")
    assert "gazetteer.txt, line 3" in refused(1, "graph", "build")


def test_a_language_model_adds_what_it_finds():
    def reply(messages):
        if "Entities:" in messages[1]["content"]:
            fact = {"source": "Frobnicator", "target": "Redis", "type": "USES"}
            return json.dumps({"relationships": [fact]})
        return json.dumps({"entities": [{"text": "Frobnicator", "type": "TECHNOLOGY"}]})

    add(NOTE)
    with serve(ollama_chat(reply, "llama3.2")) as server:
        env = {"ZAPOMNI_EXTRACTOR": "ollama", "ZAPOMNI_OLLAMA_HOST": server.url}
        answer("graph", "build", **env)
        related = as_json("graph", "related", "Frobnicator", **env)
    assert related["related"][0]["name"] == "Redis"


def test_a_model_that_talks_instead_leaves_the_rules_result_and_says_so():
    add(NOTE)
    chatty = Answer({"message": {"content": "Sure, happy to help!"}})
    with serve(lambda request: chatty) as server:
        env = {"ZAPOMNI_EXTRACTOR": "ollama", "ZAPOMNI_OLLAMA_HOST": server.url}
        built = as_json("graph", "build", **env)
    said = json.dumps(built)
    assert "What the rules found is used (EXTR_003)" in said
    assert names() >= {("Redis", "TECHNOLOGY"), ("Kafka", "TECHNOLOGY"), ("Anna", "PERSON")}


def test_spacy_without_its_pipeline_is_said_with_what_to_do():
    add(NOTE)
    env = {"ZAPOMNI_EXTRACTOR": "spacy", "ZAPOMNI_EXTRACTION_MODEL": "no_such_pipeline"}
    assert "spacy download" in json.dumps(as_json("graph", "build", **env))


def test_openai_without_an_address_is_refused_with_the_setting():
    add(NOTE)
    told = refused(1, "graph", "build", ZAPOMNI_EXTRACTOR="openai")
    assert "ZAPOMNI_OPENAI_BASE_URL" in told
