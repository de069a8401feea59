"""How well and how fast Zapomni finds, beside what a user could pick instead.

    python -m benchmarks.retrieval --data FILE [--data FILE ...] [--system zapomni,grep,fts5,...]

FILE: {"name", "level", "spaces": [{"id", "docs": [{"id", "text", "group", "time"}],
"queries": [{"id", "text", "rel", "cat"}]}]}. Every space is indexed by itself and asked its own
questions. `level` "doc": `rel` holds document ids; "group": groups, ranked by their best
document. One JSON line per system and set; a system that cannot run says why in `skipped`.

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import scoring, systems
from benchmarks.vectors import prepare

ROOT = Path(__file__).parent.parent
PEERS = Path(__file__).parent / ".peers"
LIMITS = {"doc": 10, "group": 50}
STARTS = 2


def read_set(path: Path) -> dict[str, Any]:
    data = json.loads(path.read_text(encoding="utf-8"))
    data["path"] = path.resolve()
    if data["level"] not in LIMITS:
        raise ValueError(f"{path.name}: level must be doc or group")
    return data


def measure(
    system: str, data: dict[str, Any], vectors: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Run a system on a set and return its line."""
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
            return {**name, "skipped": str(error)}
    started = min(start["process_s"] for start in starts)
    return {**name, **line_of(data, ran, options), "startup_ms": round(started * 1000)}


def line_of(
    data: dict[str, Any], ran: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Score what a worker answered."""
    scored = list(zip_scores(data, ran["answers"], options.limit_queries))
    docs = sum(len(space["docs"]) for space in data["spaces"])
    spent = {clock: ran[f"ingest_{clock}_s"] for clock in ("cpu", "wall")}
    if ran["given_vectors"]:
        spent = {c: own + data["embedding"][f"documents_{c}_s"] for c, own in spent.items()}
    cpu = [answer["cpu_ms"] for answer in ran["answers"]]
    wall = [answer["wall_ms"] for answer in ran["answers"]]
    return {
        "queries": len(scored),
        **scoring.average([scores for _, scores in scored]),
        "by_category": scoring.by_category(scored),
        "ingest_docs_per_s": round(docs / spent["wall"], 1),
        "ingest_docs_per_cpu_s": round(docs / spent["cpu"], 1),
        "query_cpu_ms_p50": round(scoring.percentile(cpu, 0.5), 2),
        "query_cpu_ms_p95": round(scoring.percentile(cpu, 0.95), 2),
        "query_wall_ms_p50": round(scoring.percentile(wall, 0.5), 2),
        "query_wall_ms_p95": round(scoring.percentile(wall, 0.95), 2),
        "rss_mb": round(ran["rss_mb"], 1),
        "disk_mb": round(ran["disk_mb"], 2),
    }


def zip_scores(
    data: dict[str, Any], answers: list[dict], limit: int | None
) -> Iterator[tuple[str, dict[str, float]]]:
    """Pair each answer with its question, in the order the worker asked them."""
    remaining = iter(answers)
    for space in data["spaces"]:
        groups = {doc["id"]: doc.get("group") or "" for doc in space["docs"]}
        for query in [query for query in space["queries"] if query["rel"]][:limit]:
            ranking = next(remaining)["ranking"]
            ranked = scoring.collapse(ranking, groups if data["level"] == "group" else None)
            yield query.get("cat") or "all", scoring.score(ranked, query["rel"])


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
    parser.add_argument("--peers", type=Path, default=PEERS, help="the peers' environment")
    options = parser.parse_args(args)
    options.system = [name for name in options.system.split(",") if name]
    unknown = set(options.system) - systems.SYSTEMS.keys()
    if unknown:
        parser.error(f"no system is called {min(unknown)}; there are {', '.join(systems.SYSTEMS)}")
    return options


def main() -> None:
    options = read_options()
    for path in options.data:
        data = read_set(path)
        with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as folder:
            if any(systems.needs_vectors(system) for system in options.system):
                tell(f"{data['name']}: embedding")
                data["embedding"] = prepare(*texts_of(data), Path(folder), tell)
            for system in options.system:
                tell(f"{data['name']}: {system}")
                line = measure(system, data, Path(folder), options)
                tell("")
                print(json.dumps(line, ensure_ascii=False), flush=True)


def texts_of(data: dict[str, Any]) -> tuple[list[str], list[str]]:
    docs = [doc["text"] for space in data["spaces"] for doc in space["docs"]]
    queries = [query["text"] for space in data["spaces"] for query in space["queries"]]
    return docs, queries


if __name__ == "__main__":
    main()
