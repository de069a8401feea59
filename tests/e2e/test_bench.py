from __future__ import annotations

from datetime import UTC, datetime

import pytest

from command import add, answer, as_json, on_terminal, zapomni
from zapomni_cli.bench import Asked, make_question, summarize
from zapomni_db.models import MemoryRecord

NOTES = [
    "We chose PostgreSQL over MongoDB because orders must change in one transaction.",
    "The nightly export broke because a customer's name contained a semicolon.",
    "Marta wants small pull requests with one topic and tests included.",
    "# Renewing the TLS certificate on the proxy\n\nRun certbot, then reload nginx.",
]


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    return [add(note, "--project", "shop") for note in NOTES]


def record(text: str, kind: str = "note", **metadata: str) -> MemoryRecord:
    now = datetime.now(UTC)
    return MemoryRecord(
        memory_id="m", preview=text[:20], length=len(text), metadata=metadata, project="",
        source="", kind=kind, tags=[], pinned=False, occurred_at=now, created_at=now,
        updated_at=now, chunk_count=1, text=text,
    )  # fmt: skip


def test_a_question_is_made_from_the_title_else_the_heading_else_the_first_sentence():
    text = "Intro first.\n\n## Rolling back a broken release\n\nMore."
    titled = record(text, title="Runbook for emergencies at night")
    assert make_question(titled)[0] == "title"
    assert make_question(record(text))[0] == "heading"
    assert make_question(record("Deploys happen on Tuesdays around noon. Never later."))[0] == (
        "sentence"
    )
    assert make_question(record("please fix the failing login test", kind="prompt"))[0] == "prompt"


def test_a_question_leaves_out_every_second_telling_word():
    made = make_question(record("The red fox jumped over the lazy dog near Brno. Then it slept."))
    assert made == ("sentence", "The red jumped the lazy near")


def test_a_memory_of_too_few_telling_words_is_not_asked_for():
    assert make_question(record("Yes, we do.")) is None
    assert make_question(record("Short. But what follows is long enough to ask for it.")) is None
    assert make_question(record("!!! ???")) is None


def test_places_become_recall_and_mean_reciprocal_rank():
    places = [1, 2, 8, None]
    asked = [Asked("m", "sentence", "q", place, 1.0) for place in places]
    assert summarize(asked) == {
        "questions": 4, "recall_at_1": 0.25, "recall_at_5": 0.5, "recall_at_10": 0.75,
        "mrr_at_10": round((1 + 1 / 2 + 1 / 8) / 4, 4),
    }  # fmt: skip


def test_a_user_measures_recall_of_their_own_memories(kept):
    add("Elsewhere another project keeps its own memories apart.", "--project", "other")
    told = as_json("bench", "--project", "shop")
    assert told["questions"] == len(kept)
    assert told["recall_at_1"] == told["recall_at_10"] == told["mrr_at_10"] == 1
    assert told["by_origin"]["heading"]["questions"] == 1
    assert told["latency_ms_p95"] >= told["latency_ms_p50"] > 0
    assert told["missed"] == []
    assert as_json("bench", "--questions", "2")["questions"] == 2


def test_in_a_pipe_each_kind_of_question_is_one_line_with_tabs(kept):
    header, *rows = [line.split("\t") for line in answer("bench").splitlines()]
    assert header == ["made from", "questions", "recall@1", "recall@5", "recall@10", "MRR"]
    assert [row[:2] for row in rows] == [["heading", "1"], ["sentence", "3"], ["all", "4"]]


def test_on_a_terminal_a_table_is_shown_and_how_long_a_search_took(kept):
    code, shown = on_terminal("bench")
    assert code == 0
    assert "recall@10" in shown
    assert "A search took" in shown


def test_without_memories_there_is_nothing_to_ask(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    done = zapomni("bench")
    assert (done.returncode, done.stdout) == (0, b"")
    assert "No memory here" in done.stderr.decode()
    assert as_json("bench")["questions"] == 0
