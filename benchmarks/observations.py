"""What finding observations costs when years of them are kept.

    python -m benchmarks.observations [--rows 500000] [--queries 200] [--database FILE]

Sixty projects of very different size, sessions that overlap, and words as uneven as in any text
(Zipf): the first is in half of the rows, the hundredth in one of a hundred. Questions draw their
words from the same distribution. Answers are JSON lines with CPU times of this process; a file
named with --database is filled once and used again.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from zapomni_core.modules.observations.context import Situation, session_context
from zapomni_db.observation_models import ObservationQuery
from zapomni_db.sqlite.connection import connect, prepare_file
from zapomni_db.sqlite.observation_reads import recent
from zapomni_db.sqlite.observation_search import search
from zapomni_db.sqlite.observations import open_read_only

PROJECTS = 60
BATCH = 10_000
YEAR = 365 * 86_400
TYPES = (
    *("file_read",) * 28, *("command",) * 24, *("file_edit",) * 16, *("search",) * 10,
    *("user_prompt",) * 8, *("file_write",) * 4, *("command_error",) * 4, *("mcp_call",) * 3,
    *("git_commit",) * 2, "web_fetch",
)  # fmt: skip
COMMANDS = ("git status", "git diff", "pytest -x tests", "ruff check .", "npm test", "make build")
KNOWN = "test error file fix add build auth token cache parser retry update config server".split()
SYLLABLES = "ka re mo ti lu sen dor vax pil gro nek fam".split()


def vocabulary() -> tuple[list[str], list[float]]:
    """Twelve thousand words and how often each is used."""
    made = ["".join(parts) for parts in itertools.product(SYLLABLES, repeat=4)][:12_000]
    random.Random(5).shuffle(made)
    words = KNOWN + made
    return words, list(itertools.accumulate(1 / (rank + 1) ** 0.9 for rank in range(len(words))))


def rows(count: int, now: int) -> Iterator[tuple]:
    """Observations in the order they happened, ending now."""
    dice = random.Random(7)
    words = vocabulary()
    sizes = [1 / (rank + 1) for rank in range(PROJECTS)]
    open_sessions: list[list] = []
    for number in range(count):
        if not open_sessions or dice.random() < 0.012:
            project = dice.choices(range(PROJECTS), sizes)[0]
            open_sessions.append([f"session-{number}", f"github.com/acme/app-{project}", None])
            open_sessions = open_sessions[-3:]
        session = dice.choice(open_sessions)
        kind = dice.choice(TYPES)
        if kind == "user_prompt":
            session[2] = number + 1
        path, content, signature, metadata = _what(dice, kind, words)
        moment = now - int((count - number) * YEAR / count)
        yield (
            number + 1, session[0], session[1], "claude-code", session[2], moment, kind,
            "PostToolUse", None, path, content, metadata, signature,
            hashlib.blake2b(str(number).encode(), digest_size=16).digest(),
        )  # fmt: skip


def _what(dice: random.Random, kind: str, known: tuple[list[str], list[float]]) -> tuple:
    words = dice.choices(known[0], cum_weights=known[1], k=dice.randrange(6, 18))
    text = " ".join(words)
    path = f"src/{words[0]}/{words[1]}_{dice.randrange(30)}.py"
    if kind.startswith("file_"):
        return path, f"{path}: {text}", None, None
    if kind in ("command", "command_error"):
        command = f"{dice.choice(COMMANDS)} {words[-1]}"
        failed = kind == "command_error"
        signature = f"sig-{dice.randrange(400)}" if failed else None
        facts = json.dumps({"exit_code": int(failed), "output": text})
        return None, f"{command}\n{text}" if failed else command, signature, facts
    return None, text, None, None


INSERT = (
    "INSERT INTO observations (id, session_id, project, host, prompt_id, timestamp, obs_type,"
    " source_event, tool_name, file_path, content, metadata, signature, event_hash)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
SESSIONS = (
    "INSERT INTO sessions (id, project, host, branch, started_at, last_at)"
    " SELECT session_id, min(project), 'claude-code', 'main', min(timestamp), max(timestamp)"
    " FROM observations GROUP BY session_id"
)
NAMES = (
    "INSERT INTO projects (key, name, created_at)"
    " SELECT project, substr(project, 17), min(timestamp) FROM observations GROUP BY project"
)


def fill(path: Path, count: int) -> None:
    prepare_file(path)
    connection = connect(path)
    source = rows(count, int(time.time()))
    while batch := [row for _, row in zip(range(BATCH), source, strict=False)]:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, batch)
        connection.execute("COMMIT")
    connection.execute(SESSIONS)
    connection.execute(NAMES)
    connection.close()


# --- Measuring --------------------------------------------------------------------------

BUDGETS = {"search": 50, "recent_context": 60, "session_context": 60}


def questions(count: int) -> Iterator[tuple[str, dict]]:
    """Questions as they are asked: words drawn as the text draws them, common ones included."""
    dice = random.Random(11)
    words, weights = vocabulary()
    orders = ("relevance", "relevance", "blended", "recent")
    for _ in range(count):
        drawn = dice.choices(words, cum_weights=weights, k=3)
        name = dice.choice(words[50:])
        kind, query = dice.choice(
            (
                ("one word", drawn[0]),
                ("one rare word", name),
                ("two words", f"{drawn[0]} {name}"),
                ("three words", " ".join(drawn)),
                ("alternatives", f"{drawn[0]} OR {name}"),
                ("phrase", f'"{drawn[0]} {drawn[1]}"'),
                ("prefix", f"{name[:4]}*"),
                ("question", f"why does the {drawn[0]} fail in {name} after {drawn[1]}"),
            )
        )
        project = dice.choice((None, 0, 0, 3, 20, 50))
        yield (
            kind,
            {
                "query": query,
                "projects": None if project is None else [f"github.com/acme/app-{project}"],
                "order_by": dice.choice(orders),
                "obs_type": dice.choice((None, None, None, "file_edit", "web_fetch")),
                "failed": dice.choice((None, None, None, None, True)),
            },
        )


def timed(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


def report(name: str, times: list[float], **more: object) -> None:
    times.sort()
    line = {
        "benchmark": "observations", "what": name, **more, "calls": len(times),
        "cpu_ms_p50": round(statistics.median(times), 2),
        "cpu_ms_p95": round(times[min(int(len(times) * 0.95), len(times) - 1)], 2),
        "cpu_ms_max": round(times[-1], 2),
    }  # fmt: skip
    if name in BUDGETS:
        line |= {"budget_ms": BUDGETS[name], "ok": line["cpu_ms_p95"] <= BUDGETS[name]}
    print(json.dumps(line), flush=True)


def measure(path: Path, queries: int, size: int) -> None:
    by_kind: dict[str, list[float]] = {}
    connection = open_read_only(path)
    search(connection, ObservationQuery(query="warm up"))
    for kind, fields in questions(queries):
        cost = timed(partial(search, connection, ObservationQuery(**fields)))
        by_kind.setdefault(kind, []).append(cost)
    report("search", [t for times in by_kind.values() for t in times], rows=size)
    for kind, times in sorted(by_kind.items()):
        report(f"search: {kind}", times, rows=size)
    dice = random.Random(3)
    keys = [f"github.com/acme/app-{dice.randrange(PROJECTS)}" for _ in range(queries)]
    report("recent_context", [timed(partial(recent, connection, [k], 100)) for k in keys])
    for source in ("startup", "compact"):
        starts = [Situation(k, "main", ["src/auth/a.py"], source) for k in keys]
        costs = [timed(partial(session_context, connection, start)) for start in starts]
        report("session_context", costs, source=source)
    connection.close()
    report("session_context", [cold(path) for _ in range(10)], source="startup, cold process")


COLD = """
import sqlite3, sys, time
start = time.process_time()
from zapomni_core.modules.observations.context import Situation, session_context
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, isolation_level=None)
session_context(db, Situation("github.com/acme/app-0", "main"))
print((time.process_time() - start) * 1000)
"""


def cold(path: Path) -> float:
    """Return what a new process spends on the context beyond its own start."""
    command = [sys.executable, "-c", COLD, str(path)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--database", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.database or Path(folder) / "bench.db"
        if not path.exists():
            fill(path, options.rows)
        measure(path, options.queries, options.rows)


if __name__ == "__main__":
    main()
