from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report, systems

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


def test_sets_whose_answers_are_groups_are_scored_by_group(data):
    told = json.loads(data.read_text())
    told["level"] = "group"
    told["spaces"][0]["queries"] = [{"id": "q", "text": "Vienna?", "rel": ["s2"], "cat": "facts"}]
    data.write_text(json.dumps(told))
    printed = run("benchmarks.retrieval", "--data", str(data), "--system", "fts5")
    assert json.loads(printed)["mrr_at_10"] == 1


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
    assert report.read_lines([[first, ""], [second]])["a", "d"]["recall_at_5"] == 0.2
