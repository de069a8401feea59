"""A word that no memory has is corrected from the words of the memories, and the answer says so."""

from __future__ import annotations

import pytest

from command import add, as_json, zapomni
from zapomni_core.interfaces import SearchResponse
from zapomni_core.workflows.agent_answer import fit

NOTES = (
    "Postgres listens on 5433 in staging.",
    "Deploys happen on Thursdays.",
    "The parser reads getUserById from kubectl output.",
)


@pytest.fixture(params=["local", "none"])
def embedder(request, private_home, monkeypatch, model):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", request.param)
    for text in NOTES:
        add(text)


def test_a_misspelt_word_is_corrected_and_that_is_said(embedder):
    found = as_json("search", "Postgers staging")
    assert found["corrected"] == {"postgers": "postgres"}
    assert found["results"][0]["text"] == NOTES[0]
    assert found["results"][0]["bm25_score"] > 0
    said = zapomni("search", "Postgers staging").stderr.decode()
    assert "Searched for postgres (instead of postgers)." in said


def test_what_exists_is_not_corrected(embedder):
    for question in ("kubectl", "getUserById", "postgres", "5434", "api"):
        assert as_json("search", question)["corrected"] == {}


def test_parts_of_identifiers_are_not_corrected(embedder):
    assert as_json("search", "postgers getUserByPostgrse")["corrected"] == {"postgers": "postgres"}


def test_what_only_observations_have_is_searched_for_as_it_was_asked(embedder):
    event = b'{"session_id": "s", "cwd": "/tmp", "hook_event_name": "UserPromptSubmit", '
    zapomni("record", given=event + b'"prompt": "Mend postgers.conf"}')

    found = as_json("search", "postgers", "--all")

    assert found["corrected"] == {"postgers": "postgres"}
    assert {hit["text"] for hit in found["results"]} >= {"Mend postgers.conf", NOTES[0]}


def test_agents_are_told():
    response = SearchResponse(results=[], count=0, corrected={"postgers": "postgres"})
    assert "Searched for postgres (instead of postgers)." in fit(response, 0, 2000)["note"]
