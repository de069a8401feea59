from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import published, report, scoring, systems

ROOT = Path(__file__).parent.parent.parent

DOCS = [
    ("d1", "Anna: I adopted a grey cat called Miska.", "s1", "1:56 pm on 8 May, 2023"),
    ("d2", "Ben: Congratulations! I am allergic to cats.", "s1", "1:56 pm on 8 May, 2023"),
    ("d3", "Anna: We moved to Prague for the new job.", "s2", "2:10 pm on 3 June, 2023"),
    ("d4", "Ben: The railway from Vienna takes four hours.", "s2", "2:10 pm on 3 June, 2023"),
    ("d5", "Anna: My sourdough bread failed again.", "s3", "9:00 am on 1 July, 2023"),
    ("d6", "Anna: My sourdough bread failed again.", "s3", "9:00 am on 1 July, 2023"),
]
QUERIES = [
    ("q1", "Who adopted a grey cat?", ["d1"], "people"),
    ("q2", "How long is the railway journey from Vienna?", ["d4"], "facts"),
    ("q3", "Whose bread failed?", ["d5", "d6"], "facts"),
    ("q4", "A question nobody labelled", [], "facts"),
]
FIELDS = {
    *("system", "dataset", "queries", "recall_at_5", "recall_at_10", "mrr_at_10", "ndcg_at_10"),
    *("any_at_5", "any_at_10", "all_at_5", "all_at_10"),
    *("by_category", "ingest_docs_per_s", "ingest_docs_per_cpu_s"),
    *("query_cpu_ms_p50", "query_cpu_ms_p95"),
    *("query_wall_ms_p50", "query_wall_ms_p95", "rss_mb", "disk_mb", "startup_ms"),
}


@pytest.fixture
def data(tmp_path):
    space = {
        "id": "talk",
        "docs": [dict(zip(("id", "text", "group", "time"), doc, strict=True)) for doc in DOCS],
        "queries": [dict(zip(("id", "text", "rel", "cat"), q, strict=True)) for q in QUERIES],
    }
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps({"name": "tiny", "level": "doc", "spaces": [space]}))
    return path


def run(*args):
    done = subprocess.run(
        [sys.executable, "-m", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_systems_run_side_by_side_and_each_prints_one_line(model, data, tmp_path):
    systems_asked = "zapomni,grep,fts5,bm25s"
    printed = run(
        *("benchmarks.retrieval", "--data", str(data), "--system", systems_asked),
        *("--peers", str(tmp_path / "not-installed")),
    )
    lines = {line["system"]: line for line in map(json.loads, printed.splitlines())}
    assert list(lines) == systems_asked.split(",")
    assert "make bench-peers" in lines.pop("bm25s")["skipped"]
    for line in lines.values():
        assert line.keys() == FIELDS
        assert line["queries"] == 3
        assert line["recall_at_5"] == 1
        assert line["by_category"]["facts"]["queries"] == 2

    (tmp_path / "lines.jsonl").write_text(printed)
    run("benchmarks.report", str(tmp_path / "lines.jsonl"), "--to", str(tmp_path / "out"))
    page = (tmp_path / "out" / "retrieval.md").read_text()
    assert "| zapomni | **1.000** |" in page
    assert "- bm25s: " in page
    assert (tmp_path / "out" / "retrieval.svg").read_text().count("<rect") == 4
    assert (tmp_path / "out" / "recall-cost.svg").read_text().count("<circle") == 3


def test_sets_whose_answers_are_groups_are_scored_by_group(data):
    told = json.loads(data.read_text())
    told["level"] = "group"
    told["spaces"][0]["queries"] = [{"id": "q", "text": "Vienna?", "rel": ["s2"], "cat": "facts"}]
    data.write_text(json.dumps(told))
    printed = run("benchmarks.retrieval", "--data", str(data), "--system", "fts5")
    assert json.loads(printed)["mrr_at_10"] == 1


def test_each_question_has_a_line_from_which_its_scores_can_be_computed(data, tmp_path):
    lines = tmp_path / "questions.jsonl"
    asked = ("--data", str(data), "--system", "fts5", "--per-question", str(lines))
    printed = json.loads(run("benchmarks.retrieval", *asked))
    questions = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(q["space"], q["question"], q["category"]) for q in questions] == [
        ("talk", "q1", "people"), ("talk", "q2", "facts"), ("talk", "q3", "facts"),
    ]  # fmt: skip
    for question in questions:
        scores = scoring.score(question["ranking"], question["relevant"])
        assert {name: question[name] for name in scores} == scores
        assert question["ranking"][0] in {"d1", "d4", "d5", "d6"}
    assert printed["mrr_at_10"] == sum(q["mrr_at_10"] for q in questions) / len(questions)


def test_what_a_peer_published_is_scored_on_the_same_questions(data, tmp_path):
    rows = [
        {"sample_id": "talk", "question": QUERIES[0][1], "retrieved_ids": ["d3", "d1"]},
        {"sample_id": "talk", "question": QUERIES[2][1], "retrieved_ids": ["d6", "d2"]},
        {"sample_id": "other talk", "question": QUERIES[1][1], "retrieved_ids": ["d4"]},
    ]
    theirs = tmp_path / "theirs.json"
    theirs.write_text(json.dumps(rows))
    asked = ("--data", str(data), "--system", "", "--published", str(theirs))
    line = json.loads(run("benchmarks.retrieval", *asked))
    assert (line["system"], line["queries"], line["missing"]) == ("theirs", 2, 1)
    assert (line["mrr_at_10"], line["recall_at_5"]) == (0.75, 0.75)
    assert (line["any_at_5"], line["all_at_5"]) == (1, 0.5)


def test_a_published_file_about_something_else_is_skipped(data, tmp_path):
    theirs = tmp_path / "theirs.json"
    row = {"sample_id": "talk", "question": QUERIES[0][1], "retrieved_ids": ["session_1"]}
    for rows in ([row], []):
        theirs.write_text(json.dumps(rows))
        asked = ("--data", str(data), "--system", "", "--published", str(theirs))
        line = json.loads(run("benchmarks.retrieval", *asked))
        assert "does not rank" in line["skipped"]


def test_sessions_that_a_peer_published_are_our_groups(tmp_path):
    theirs = tmp_path / "theirs.json"
    row = {"sample_id": "c", "question": "q", "retrieved_ids": ["session_12", "D3:4"]}
    theirs.write_text(json.dumps([row]))
    assert published.read_rankings(theirs) == {("c", "q"): ["S12", "D3:4"]}


def test_two_runs_are_compared_question_by_question(tmp_path):
    def write(name, places):
        lines = [
            {"system": "a", "dataset": "d", "space": "s", "question": f"q{n}",
             "category": "even" if n % 2 == 0 else "odd",
             **scoring.score(["x"] * place + ["r"], ["r"])}
            for n, place in enumerate(places)
        ]  # fmt: skip
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return str(path)

    before = write("before.jsonl", [1, 1, 1, 1, 0, 0, 0, 0])
    after = write("after.jsonl", [0, 1, 0, 1, 0, 0, 0, 0, 0])
    lines = [json.loads(x) for x in run("benchmarks.compare", before, after).splitlines()]
    assert [line.get("category") for line in lines] == [None, "even", "odd"]
    whole, even, odd = lines
    assert (whole["questions"], whole["unpaired"]) == (8, 1)
    better = whole["mrr_at_10"]
    assert (better["better"], better["worse"]) == (2, 0)
    assert (better["before"], better["after"], better["difference"]) == (0.75, 0.875, 0.125)
    assert better["low"] == 0 < better["difference"] < better["high"]
    # Nothing changed there: every sample says so.
    assert odd["mrr_at_10"]["low"] == odd["mrr_at_10"]["high"] == 0
    assert even["mrr_at_10"]["difference"] == 2 * better["difference"]
    assert lines == [json.loads(x) for x in run("benchmarks.compare", before, after).splitlines()]


def test_replayed_questions_say_how_often_a_cache_answered(data):
    told = json.loads(data.read_text())
    queries = ["Who adopted a cat?", "who adopted  a cat", "Who adopted a cat?", "Who baked?"]
    told["spaces"][0]["queries"] = [{"id": n, "text": q, "rel": []} for n, q in enumerate(queries)]
    data.write_text(json.dumps(told))
    line = json.loads(run("benchmarks.cache", "--data", str(data)))
    assert (line["asked"], line["verbatim"]) == (4, 0.25)
    assert line["embedding_hit_rate"] == line["answer_hit_rate"] == 0.5


def test_without_the_model_zapomni_is_skipped_and_the_reason_said(no_model, data):
    line = json.loads(run("benchmarks.retrieval", "--data", str(data), "--system", "zapomni"))
    assert "models pull" in line["skipped"]


def test_every_system_has_a_module_that_says_what_it_is():
    for module in systems.SYSTEMS.values():
        path = ROOT / "benchmarks" / "systems" / f"{module}.py"
        assert path.read_text(encoding="utf-8").startswith('"""')
    assert set(systems.DEFAULT) | systems.OWN <= systems.SYSTEMS.keys()


def test_a_later_line_replaces_an_earlier_one_of_the_same_system_and_set():
    first = '{"system": "a", "dataset": "d", "recall_at_5": 0.1}'
    second = '{"system": "a", "dataset": "d", "recall_at_5": 0.2}'
    lines, sizes = report.read_lines([[first, ""], [second]])
    assert (lines["a", "d"]["recall_at_5"], sizes) == (0.2, [])


COSTS = {"query_cpu_ms_p50": 10, "query_cpu_ms_p95": 20} | {
    "filtered_cpu_ms_p50": 5, "filtered_cpu_ms_p95": 9,
}  # fmt: skip
SIZES = [
    {"benchmark": "scale", "chunks": chunks, **{name: n * ms for name, ms in COSTS.items()}}
    for n, chunks in ((1, 50_000), (2, 200_000), (4, 1_000_000))
]


def test_pictures_are_the_same_every_time_and_have_two_themes(tmp_path):
    lines = [
        {
            "system": system, "dataset": "a <set>", "queries": 3, "recall_at_10": 0.6 + n / 10,
            "query_cpu_ms_p50": 0.3 * 4**n,
        }
        for n, system in enumerate(("grep", "peer", "zapomni"))
    ]  # fmt: skip
    source = tmp_path / "lines.jsonl"
    source.write_text("\n".join(map(json.dumps, [*lines, *reversed(SIZES)])))
    runs = []
    for name in ("one", "two"):
        folder = tmp_path / name
        run(
            "benchmarks.report",
            str(source),
            "--to",
            str(tmp_path / "md"),
            "--pictures",
            str(folder),
        )
        runs.append({path.name: path.read_text() for path in sorted(folder.iterdir())})
    assert runs[0] == runs[1]
    assert set(runs[0]) == {"retrieval.svg", "recall-cost.svg", "cost-size.svg"}
    for picture in runs[0].values():
        root = ET.fromstring(picture)
        assert root.find("{http://www.w3.org/2000/svg}title").text
        assert "prefers-color-scheme:dark" in picture
    assert "a &lt;set&gt;" in runs[0]["recall-cost.svg"]
    assert "1,000,000" in runs[0]["cost-size.svg"]
    assert (tmp_path / "md" / "retrieval.md").exists()


def test_names_in_a_picture_do_not_cover_each_other():
    taken: list = []
    frame = (0, 0, 300, 200)
    for n in range(5):
        report._label(f"system {n}", (100 + n, 100), frame, taken)
    assert not any(report._overlap(a, b) for n, a in enumerate(taken) for b in taken[:n])


def test_sizes_alone_are_drawn(tmp_path):
    source = tmp_path / "scale.jsonl"
    source.write_text(json.dumps(SIZES[0]))
    run("benchmarks.report", str(source), "--to", str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["cost-size.svg"]
