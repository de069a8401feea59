"""Turns of a conversation, added and asked as users and agents do."""

from __future__ import annotations

import json

import pytest

from command import as_json, zapomni

TALK = (
    ("Anna", "By the way, which port does the staging database listen on?"),
    ("Ben", "5433, because the old one is still running."),
    ("Anna", "Thanks, then I will change the dashboard today."),
)


@pytest.fixture
def talk(private_home, model):
    for number, (speaker, text) in enumerate(TALK):
        said = json.dumps({"speaker": speaker})
        zapomni(
            "add", text, "--parent", "standup", "--position", str(number), "--metadata", said
        )  # fmt: skip


def test_an_answer_comes_first_and_says_why(talk):
    found = as_json("search", "What port is staging on?", "--explain")["results"]
    shown = zapomni("search", "What port is staging on?", "--explain").stdout.decode()

    assert [hit["text"] for hit in found[:2]] == [TALK[1][1], TALK[0][1]]
    assert found[0]["explanation"]["turn_order"]["reply"] > 0
    assert found[1]["explanation"]["turn_order"]["asks"] < 0
    assert "among turns: window " in " ".join(shown.split())


def test_a_question_that_names_who_said_it_finds_it(talk):
    (first, *_) = as_json("search", "What did Anna say about the dashboard?")["results"]
    assert first["text"] == TALK[2][1]
    assert first["metadata"]["speaker"] == "Anna"
