"""A file of LongMemEval's form, small and written for this test."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command import answer, as_json, refused
from zapomni_cli import longmemeval

ROOT = Path(__file__).parent.parent.parent

SESSIONS = {
    "cat": [
        ("user", "I adopted a grey cat last week, her name is Miska."),
        ("assistant", "Congratulations! A grey cat needs a quiet place at first."),
    ],
    "move": [
        ("user", "We moved to Prague because of my new job at the railway."),
        ("assistant", "Prague has good trams. How is the new flat?"),
    ],
    "bread": [
        ("user", "My sourdough bread failed again, it was flat as a stone."),
        ("assistant", "Try a warmer place and a longer rise for the sourdough."),
    ],
    "bread2": [
        ("user", "The second loaf of sourdough bread was burnt on one side."),
        ("assistant", "Turn the loaf after twenty minutes."),
    ],
}
DATES = ["2023/05/20 (Sat) 02:21", "2023/06/03 (Sat) 14:10", "no date", "2023/13/45 (Sun) 99:99"]


def entry(number: str, kind: str, question: str, answers: dict[str, list[int]]) -> dict:
    return {
        "question_id": number,
        "question_type": kind,
        "question": question,
        "answer": "not read",
        "question_date": "2023/07/01 (Sat) 10:00",
        "haystack_session_ids": list(SESSIONS),
        "haystack_dates": DATES,
        "haystack_sessions": [
            [
                {"role": role, "content": text}
                | ({"has_answer": True} if place in answers.get(name, []) else {})
                for place, (role, text) in enumerate(turns)
            ]
            for name, turns in SESSIONS.items()
        ],
        "answer_session_ids": list(answers),
    }


@pytest.fixture
def file(tmp_path):
    questions = [
        entry("q1", "single-session-user", "What is the name of my grey cat?", {"cat": [0]}),
        entry(
            "q2", "multi-session", "What went wrong with my sourdough bread?",
            {"bread": [0], "bread2": [0]},
        ),
        entry("q3_abs", "single-session-user", "What is the name of my dog?", {"cat": []}),
    ]  # fmt: skip
    path = tmp_path / "longmemeval_tiny.json"
    path.write_text(json.dumps(questions, indent=1), encoding="utf-8")
    return path


def test_a_user_checks_the_published_benchmark_without_a_model(file, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    report = as_json("bench", "--longmemeval", str(file))
    assert report["questions"] == 2  # the one that nothing answers is left out
    sessions, turns = report["sessions"], report["turns"]
    assert sessions["queries"] == turns["queries"] == 2
    assert sessions["recall_at_5"] == sessions["any_at_5"] == sessions["mrr_at_10"] == 1
    assert set(sessions["by_type"]) == {"single-session-user", "multi-session"}
    assert turns["by_type"]["single-session-user"]["mrr_at_10"] == 1
    assert 0 <= turns["all_at_5"] <= turns["recall_at_5"] <= turns["any_at_5"] <= 1
    assert report["latency_ms_p95"] >= report["latency_ms_p50"] > 0
    # Nothing of it is stored.
    assert as_json("stats")["total_memories"] == 0


def test_the_model_is_used_and_embeds_no_session_twice(model, file, monkeypatch):
    embedded = []
    make = longmemeval._KnownVectors.embed_with_tokens

    async def watch(self, texts):
        real = self._embedder.embed_with_tokens

        async def count(missing):
            embedded.extend(missing)
            return await real(missing)

        monkeypatch.setattr(self._embedder, "embed_with_tokens", count)
        try:
            return await make(self, texts)
        finally:
            monkeypatch.setattr(self._embedder, "embed_with_tokens", real)

    monkeypatch.setattr(longmemeval._KnownVectors, "embed_with_tokens", watch)
    report = as_json("bench", "--longmemeval", str(file))
    assert report["sessions"]["mrr_at_10"] == 1
    assert len(embedded) == len(set(embedded)) == sum(map(len, SESSIONS.values()))


def test_a_table_shows_both_levels_by_type(file, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    rows = [row.split("\t") for row in answer("bench", "--longmemeval", str(file)).splitlines()]
    assert rows[0][:4] == ["found", "type", "questions", "recall@5"]
    assert [row[:3] for row in rows[1:]] == [
        ["sessions", "multi-session", "1"], ["sessions", "single-session-user", "1"],
        ["sessions", "all", "2"],
        ["turns", "multi-session", "1"], ["turns", "single-session-user", "1"],
        ["turns", "all", "2"],
    ]  # fmt: skip


def test_fewer_questions_are_a_sample_that_a_number_picks(file, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    kinds = {
        tuple(
            as_json(
                "bench", "--longmemeval", str(file), "--questions", "1", "--seed", str(seed)
            )["sessions"]["by_type"]
        )
        for seed in range(4)
    }  # fmt: skip
    assert kinds == {("single-session-user",), ("multi-session",)}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no questions"),
        ("[]", "no questions"),
        ("{}", "question 1 cannot be read"),
        ('[{"question_id": "a"}]', "question 1 cannot be read"),
        ("[1]", "question 1 cannot be read"),
        ('["a", ', "question 1 cannot be read"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path, content, words):
    path = tmp_path / "other.json"
    path.write_text(content)
    assert words in refused(2, "bench", "--longmemeval", str(path))


def test_what_belongs_to_ones_own_memories_is_refused_with_it(file):
    assert "--project" in refused(2, "bench", "--longmemeval", str(file), "--project", "x")
    assert "--recalls" in refused(2, "bench", "--longmemeval", str(file), "--recalls")


def test_dates_are_read_and_odd_ones_left_out():
    moments = [longmemeval._moment(date) for date in DATES]
    assert moments[:2] == [
        datetime(2023, 5, 20, 2, 21, tzinfo=UTC), datetime(2023, 6, 3, 14, 10, tzinfo=UTC),
    ]  # fmt: skip
    assert moments[2:] == [None, None]


def test_peers_are_asked_the_same_questions(file, tmp_path):
    def run(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *args], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout

    run("benchmarks.longmemeval", str(file), "--to", str(tmp_path / "sets"))
    for level in ("session", "turn"):
        data = tmp_path / "sets" / f"longmemeval-{level}.json"
        line = json.loads(run("benchmarks.retrieval", "--data", str(data), "--system", "fts5"))
        assert (line["dataset"], line["queries"]) == (f"longmemeval-{level}", 2)
        assert line["any_at_5"] == 1
