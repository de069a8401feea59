"""How well and how fast Zapomni finds, compared with what a user could pick instead.

    python -m benchmarks.retrieval --data FILE [--data FILE ...] [--system zapomni,grep,fts5,...]
        [--per-question LINES] [--published RESULTS]

FILE: {"name", "level", "spaces": [{"id", "docs": [{"id", "text", "group", "time"}],
"queries": [{"id", "text", "rel", "cat"}]}]}. Every space is indexed by itself and asked its own
questions. `level` "doc": `rel` holds document ids; "group": groups, ranked by their best
document. One JSON line per system and set; a system that cannot run says why in `skipped`.
--per-question writes one JSON line per question as well, with the first ten of its ranking, so that
others can check the figures and benchmarks.compare can say whether two runs differ. --published
scores what a peer published about its own run (benchmarks.published) on the same questions.

Zapomni, grep and fts5 run in this interpreter's environment, the others in the environment
--peers names (make bench-peers). All vector systems get the same vectors, made once by
Zapomni's local model; what making them cost is added to their ingest and query times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks import published, scoring, systems
from benchmarks.vectors import prepare

ROOT = Path(__file__).parent.parent
PEERS = Path(__file__).parent / ".peers"
LIMITS = {"doc": 10, "group": 50}
SHOWN = 10
STARTS = 2


def read_set(path: Path) -> dict[str, Any]:
    data = json.loads(path.read_text(encoding="utf-8"))
    data["path"] = path.resolve()
    if data["level"] not in LIMITS:
        raise ValueError(f"{path.name}: level must be doc or group")
    return data


def measure(
    system: str, data: dict[str, Any], vectors: Path, options: argparse.Namespace
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a system on a set; return its line and those of its questions."""
    name = {"system": system, "dataset": data["name"]}
    with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as folder:
        job = {
            "system": system, "data": str(data["path"]), "folder": f"{folder}/index",
            "vectors": str(vectors), "limit": LIMITS[data["level"]],
            "limit_queries": options.limit_queries, "result": f"{folder}/result.json",
        }  # fmt: skip
        try:
            ran = run_worker(job, options.peers)
            starts = [run_worker({**job, "first": True}, options.peers) for _ in range(STARTS)]
        except WorkerFailedError as error:
            return {**name, "skipped": str(error)}, []
    asked = questions_of(data, options.limit_queries)
    questions = [
        score_question(system, data, space, query, answer["ranking"])
        for (space, query), answer in zip(asked, ran["answers"], strict=True)
    ]
    started = min(start["process_s"] for start in starts)
    line = {**name, **summarize(questions), **costs(data, ran)}
    return {**line, "startup_ms": round(started * 1000)}, questions


def questions_of(
    data: dict[str, Any], limit: int | None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield space and question, in the order in which a worker asks them."""
    for space in data["spaces"]:
        for query in [query for query in space["queries"] if query["rel"]][:limit]:
            yield space, query


def score_question(
    system: str, data: dict[str, Any], space: dict[str, Any], query: dict[str, Any],
    ranking: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """Return the line of one question, given the documents that a system ranked."""
    groups = None
    if data["level"] == "group":
        groups = {doc["id"]: doc.get("group") or "" for doc in space["docs"]}
    ranked = scoring.collapse(ranking, groups)
    return {
        "system": system, "dataset": data["name"], "space": space["id"],
        "question": query["id"], "category": query.get("cat") or "all",
        "ranking": ranked[:SHOWN], "relevant": query["rel"],
        **scoring.score(ranked, query["rel"]),
    }  # fmt: skip


def summarize(questions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Average the lines of questions, all of them and by category."""
    scored = [
        (line["category"], {name: line[name] for name in scoring.MEASURES}) for line in questions
    ]
    return {
        "queries": len(scored),
        **scoring.average([scores for _, scores in scored]),
        "by_category": scoring.by_category(scored),
    }


def costs(data: dict[str, Any], ran: dict[str, Any]) -> dict[str, Any]:
    """Return what a worker took, embedding included."""
    docs = sum(len(space["docs"]) for space in data["spaces"])
    spent = {clock: ran[f"ingest_{clock}_s"] for clock in ("cpu", "wall")}
    if ran["given_vectors"]:
        spent = {c: own + data["embedding"][f"documents_{c}_s"] for c, own in spent.items()}
    cpu = [answer["cpu_ms"] for answer in ran["answers"]]
    wall = [answer["wall_ms"] for answer in ran["answers"]]
    return {
        "ingest_docs_per_s": round(docs / spent["wall"], 1),
        "ingest_docs_per_cpu_s": round(docs / spent["cpu"], 1),
        "query_cpu_ms_p50": round(scoring.percentile(cpu, 0.5), 2),
        "query_cpu_ms_p95": round(scoring.percentile(cpu, 0.95), 2),
        "query_wall_ms_p50": round(scoring.percentile(wall, 0.5), 2),
        "query_wall_ms_p95": round(scoring.percentile(wall, 0.95), 2),
        "rss_mb": round(ran["rss_mb"], 1),
        "disk_mb": round(ran["disk_mb"], 2),
    }


class WorkerFailedError(Exception):
    """A system could not be run; the message says why."""


def run_worker(job: dict[str, Any], peers: Path) -> dict[str, Any]:
    python = Path(sys.executable) if job["system"] in systems.OWN else peers / "bin" / "python"
    if not python.exists():
        raise WorkerFailedError("the peers' environment is not here: make bench-peers")
    path = Path(job["result"]).with_name("job.json")
    path.write_text(json.dumps(job), encoding="utf-8")
    started = time.perf_counter()
    done = subprocess.run(
        [python, "-m", "benchmarks.worker", path], cwd=ROOT, env={**os.environ, **_python_path()},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    result = Path(job["result"])
    if done.returncode or not result.exists():
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise WorkerFailedError(said[-1][:300] if said else f"exit code {done.returncode}")
    answer = json.loads(result.read_text(encoding="utf-8"))
    result.unlink()
    return {**answer, "process_s": seconds}


def _python_path() -> dict[str, str]:
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(ROOT), *([before] if before else [])])}


def tell(message: str) -> None:
    """Say how far things are, to a person only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{message}", end="", file=sys.stderr, flush=True)


def read_options(args: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, action="append", required=True, metavar="FILE")
    parser.add_argument("--system", default=",".join(systems.DEFAULT), help="comma-separated")
    parser.add_argument("--limit-queries", type=int, help="at most so many questions of a space")
    parser.add_argument(
        "--per-question", type=Path, metavar="LINES", help="write a line per question there"
    )
    parser.add_argument(
        "--published", type=Path, action="append", default=[], metavar="RESULTS",
        help="a peer's own file of its results",
    )  # fmt: skip
    parser.add_argument("--peers", type=Path, default=PEERS, help="the peers' environment")
    options = parser.parse_args(args)
    options.system = [name for name in options.system.split(",") if name]
    unknown = set(options.system) - systems.SYSTEMS.keys()
    if unknown:
        parser.error(f"no system is called {min(unknown)}; there are {', '.join(systems.SYSTEMS)}")
    return options


def main() -> None:
    options = read_options()
    lines = options.per_question.open("w", encoding="utf-8") if options.per_question else None
    with lines or nullcontext():
        for path in options.data:
            for line, questions in measure_set(read_set(path), options):
                print(json.dumps(line, ensure_ascii=False), flush=True)
                if lines:
                    lines.writelines(f"{json.dumps(q, ensure_ascii=False)}\n" for q in questions)


def measure_set(
    data: dict[str, Any], options: argparse.Namespace
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as folder:
        if any(systems.needs_vectors(system) for system in options.system):
            tell(f"{data['name']}: embedding")
            data["embedding"] = prepare(*texts_of(data), Path(folder), tell)
        for system in options.system:
            tell(f"{data['name']}: {system}")
            measured = measure(system, data, Path(folder), options)
            tell("")
            yield measured
    for results in options.published:
        yield score_published(data, results, options.limit_queries)


def score_published(
    data: dict[str, Any], results: Path, limit: int | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Score what a peer published; questions that its file lacks are counted as `missing`."""
    rankings = published.read_rankings(results)
    name = "group" if data["level"] == "group" else "id"
    names = {doc[name] for space in data["spaces"] for doc in space["docs"]}
    as_ranked = {**data, "level": "doc"}  # groups are published as groups
    asked = list(questions_of(data, limit))
    questions = [
        score_question(results.stem, as_ranked, space, query, ranking)
        for space, query in asked
        if (ranking := rankings.get((space["id"], query["text"]))) is not None
    ]
    line = {
        "system": results.stem, "dataset": data["name"], "missing": len(asked) - len(questions)
    }  # fmt: skip
    if not any(names.issuperset(question["ranking"]) for question in questions):
        return {**line, "skipped": "it does not rank what this set asks for"}, []
    return {**line, **summarize(questions)}, questions


def texts_of(data: dict[str, Any]) -> tuple[list[str], list[str]]:
    docs = [doc["text"] for space in data["spaces"] for doc in space["docs"]]
    queries = [query["text"] for space in data["spaces"] for query in space["queries"]]
    return docs, queries


if __name__ == "__main__":
    main()
