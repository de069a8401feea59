"""One system on one data set, in a process of its own: started by benchmarks.retrieval.

python -m benchmarks.worker JOB    a JSON file: system, data, folder, vectors, limits, result

With `first` in the job it opens the index of the last space, asks one question and ends: that
is what start-up costs. Imports nothing that the measured system does not need.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

MB = 1_000_000


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    from benchmarks import systems

    module = systems.load(job["system"])
    vectors = None
    if systems.needs_vectors(job["system"]):
        from benchmarks.vectors import Vectors

        vectors = Vectors(Path(job["vectors"]))
    spaces = json.loads(Path(job["data"]).read_text(encoding="utf-8"))["spaces"]
    measure = first_answer if job.get("first") else run_all
    result = measure(module, vectors, spaces, job)
    Path(job["result"]).write_text(json.dumps(result), encoding="utf-8")
    # Some systems leave threads behind that keep a process alive.
    sys.stdout.flush()
    os._exit(0)


def first_answer(module: Any, vectors: Any, spaces: list[dict], job: dict) -> dict:
    index = module.Index(Path(job["folder"]) / str(len(spaces) - 1), vectors)
    return {"found": len(index.search(spaces[-1]["queries"][0]["text"], job["limit"]))}


def run_all(module: Any, vectors: Any, spaces: list[dict], job: dict) -> dict:
    answers, ingest, memory = [], [0.0, 0.0], 0.0
    for number, space in enumerate(spaces):
        folder = Path(job["folder"]) / str(number)
        folder.mkdir(parents=True)
        cpu, wall = time.process_time(), time.perf_counter()
        index = module.Index(folder, vectors)
        index.add([doc for doc in space["docs"] if doc["text"].strip()])
        ingest[0] += time.process_time() - cpu
        ingest[1] += time.perf_counter() - wall
        asked = [query for query in space["queries"] if query["rel"]][: job["limit_queries"]]
        # The first question pays for what is loaded late; start-up is measured by itself.
        index.search(space["queries"][-1]["text"], 1)
        answers.extend(ask(index, query, vectors, job["limit"]) for query in asked)
        memory = max(memory, resident_mb())
        index.close()
    disk = sum(f.stat().st_size for f in Path(job["folder"]).rglob("*") if f.is_file())
    return {
        "answers": answers, "ingest_cpu_s": ingest[0], "ingest_wall_s": ingest[1],
        "rss_mb": memory, "disk_mb": disk / MB, "given_vectors": vectors is not None,
    }  # fmt: skip


def ask(index: Any, query: dict, vectors: Any, limit: int) -> dict:
    cpu, wall = time.process_time(), time.perf_counter()
    ranking = index.search(query["text"], limit)
    spent = [(time.process_time() - cpu) * 1000, (time.perf_counter() - wall) * 1000]
    if vectors is not None:
        # Whoever asks has to embed the question; this is what it took when it was done.
        spent = [own + given for own, given in zip(spent, vectors.cost(query["text"]), strict=True)]
    return {"ranking": ranking, "cpu_ms": spent[0], "wall_ms": spent[1]}


def resident_mb(field: str = "VmRSS", process: int | str = "self") -> float:
    """Megabytes of memory; `RssAnon` leaves out pages of files, such as SQLite's mapped ones."""
    status = Path(f"/proc/{process}/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith(field))
        return int(line.split()[1]) * 1024 / MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB  # macOS counts bytes


if __name__ == "__main__":
    main()
