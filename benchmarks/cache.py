"""How often is nothing embedded and nothing searched again? Questions and histories, replayed.

    python -m benchmarks.cache [--data FILE ...] [--transcripts DIR] [--repository DIR]

--data: the questions of a set (benchmarks.retrieval), --transcripts: the prompts of real sessions,
each asked once in their order of an engine that stays open: `embedding_hit_rate` and
`answer_hit_rate` are the shares that needed no embedding and no search, `verbatim` the share that
was asked before letter by letter. --repository: the last --commits of its main line, indexed one
after the other in one store; of the passages that were written again, `embedding_hit_rate` needed
no embedding. What is embedded does not matter here: vectors are random.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.engine import engine_over
from benchmarks.retrieval import read_set
from benchmarks.search import RandomEmbedder
from zapomni_core.infra.logging import setup_logging
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.modules.codebase import IndexRequest
from zapomni_db.sqlite.storage import SqliteStorage


class CountingEmbedder(RandomEmbedder):
    """Counts the texts and the questions that it is asked for."""

    texts = questions = 0

    async def embed(self, texts):
        self.texts += len(texts)
        return await super().embed(texts)

    async def embed_query(self, text):
        self.questions += 1
        return await super().embed_query(text)


def prompts_of(folder: Path) -> Iterator[str]:
    """Yield what a person asked in transcripts of Claude Code."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            content = (entry.get("message") or {}).get("content")
            if entry.get("type") == "user" and not entry.get("isMeta"):
                parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
                yield from (part["text"] for part in parts or [] if part.get("type") == "text")


async def replay_questions(name: str, questions: Sequence[str]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteStorage(Path(folder) / "bench.db") as storage:
            embedder = CountingEmbedder()
            engine = engine_over(storage, embedder, storage.path)
            await engine.add_memory(AddMemoryRequest(text="Something is stored."))
            for question in questions:
                await engine.search_memory(SearchRequest(query=question, within="memories"))
            stats = await engine.get_stats()
    asked = len(questions)
    return {
        "benchmark": "cache", "questions_of": name, "asked": asked,
        "verbatim": round(1 - len(set(questions)) / asked, 4),
        "embedding_hit_rate": round(1 - embedder.questions / asked, 4),
        "answer_hit_rate": round(stats["search_cache_hit_rate"], 4),
    }  # fmt: skip


async def replay_commits(repository: Path, commits: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / repository.name
        git("clone", "-q", "--no-checkout", str(repository), str(root), cwd=Path(folder))
        log = git("rev-list", "--first-parent", f"--max-count={commits + 1}", "HEAD", cwd=root)
        embedder = CountingEmbedder()
        async with SqliteStorage(Path(folder) / "bench.db") as storage:
            engine = engine_over(storage, embedder, storage.path)
            for number, commit in enumerate(reversed(log.split())):
                git("checkout", "-q", commit, cwd=root)
                task = await engine.code.index(IndexRequest(path=str(root), folder="/"))
                status = await engine.tasks.run_task(task, lambda _: None)
                assert status.status == "completed", status.error
                if not number:
                    first, embedder.texts = passages_written(storage.path), 0
            again = passages_written(storage.path) - first
    return {
        "benchmark": "cache", "repository": repository.name, "commits": commits,
        "passages_first": first, "passages_again": again, "embedded_again": embedder.texts,
        "embedding_hit_rate": round(1 - embedder.texts / again, 4),
    }  # fmt: skip


def passages_written(database: Path) -> int:
    """Return how many passages were ever stored: their numbers are not used again."""
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = 'chunks'"
        ).fetchone()[0]


def git(*args: str, cwd: Path) -> str:
    done = subprocess.run(["git", *args], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--transcripts", type=Path, metavar="DIR")
    parser.add_argument("--repository", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--commits", type=int, default=50)
    options = parser.parse_args()
    setup_logging("ERROR")
    for path in options.data:
        data = read_set(path)
        asked = [query["text"] for space in data["spaces"] for query in space["queries"]]
        print(json.dumps(asyncio.run(replay_questions(data["name"], asked))), flush=True)
    if options.transcripts:
        asked = list(prompts_of(options.transcripts))
        print(json.dumps(asyncio.run(replay_questions("prompts", asked))), flush=True)
    for path in options.repository:
        print(json.dumps(asyncio.run(replay_commits(path, options.commits))), flush=True)


if __name__ == "__main__":
    main()
