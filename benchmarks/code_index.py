"""What it costs to index a repository, to index it again, to index one edit, and to embed it.

python -m benchmarks.code_index [--package django] [--path FOLDER] [--rounds 3] [--embed 2000]

The repository is copied to a temporary folder and put under git. CPU time is that of all
processes: parsing happens in one of its own. With `--embed` the vectors of so many of its passages
are made as well, and those of the same passages by the embedder alone, in turns of a few hundred,
so that both meet the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from statistics import median

from benchmarks.packages import VERSIONS, unpacked
from zapomni_core.adapters.embedders import build_embedders
from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.infra.logging import setup_logging
from zapomni_core.modules.codebase import IndexRequest
from zapomni_core.modules.memories import EmbeddingChain, fill_pending
from zapomni_core.modules.memories.embedding import BATCH
from zapomni_core.settings import Settings, load_settings
from zapomni_db.sqlite.storage import SqliteStorage

EDITS = 10
TURN = 8  # batches a turn


class StopFillingError(Exception):
    """Enough vectors were made for a turn."""


def cpu() -> float:
    return sum(os.times()[:4])


async def run(engine: ZapomniEngine, root: Path) -> tuple[float, dict]:
    """Index once; return the CPU seconds and the result."""
    began = cpu()
    task_id = await engine.code.index(IndexRequest(path=str(root), folder="/"))
    status = await engine.tasks.run_task(task_id, lambda _: None)
    assert status.status == "completed", status.error
    return cpu() - began, status.result


def checkout(source: Path, folder: Path) -> Path:
    root = folder / source.name
    shutil.copytree(source, root)
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "start"]):
        subprocess.run([*git, *words], cwd=root, check=True)
    return root


async def measure(source: Path) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        root = checkout(source, Path(folder))
        settings = load_settings(home=Path(folder) / "home", embedder="none")
        async with await create_engine(settings) as engine:
            wall = time.perf_counter()
            first, result = await run(engine, root)
            wall = time.perf_counter() - wall
            again = [(await run(engine, root))[0] for _ in range(3)]
            edits = []
            for path in edited(settings):
                edit(root / path)
                spent, changed = await run(engine, root)
                assert changed["changed"] == 1, changed
                edits.append(spent)
        size = settings.database_path.stat().st_size
    lines = result["lines_read"]
    return {
        "benchmark": "code_index",
        "root": source.name,
        "files": result["added"],
        "lines": lines,
        "first_cpu_s": round(first, 2),
        "first_wall_s": round(wall, 2),
        "lines_per_cpu_s": round(lines / first),
        "again_cpu_s": round(median(again), 3),
        "again_share": round(median(again) / first, 4),
        "edit_cpu_s": round(median(edits), 3),
        "edit_cpu_s_worst": round(max(edits), 3),
        "database_mb": round(size / 1e6, 1),
    }


def edited(settings: Settings) -> list[str]:
    """Return files to edit: long ones, from everywhere."""
    with closing(sqlite3.connect(settings.database_path)) as connection:
        rows = connection.execute(
            "SELECT path FROM code_files WHERE language = 'python' AND lines > 100 ORDER BY path"
        ).fetchall()
    return [rows[len(rows) * number // EDITS][0] for number in range(EDITS)]


def edit(path: Path) -> None:
    """Change a function's body, and add another."""
    text = path.read_text(encoding="utf-8")
    head, found, tail = text.rpartition("    return ")
    changed = f"{head}    print('edited'); return {tail}" if found else text
    path.write_text(f"{changed}\n\ndef added_by_an_edit():\n    return 1\n", encoding="utf-8")


async def measure_vectors(source: Path, passages: int) -> dict:
    """Make the vectors of an index, and of the same passages by the embedder alone, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        root = checkout(source, Path(folder))
        home, models = Path(folder) / "home", load_settings().models_path
        settings = load_settings(home=home, models_dir=models, embedder="none")
        async with await create_engine(settings) as engine:
            stored, _ = await run(engine, root)
        share = leave_pending(settings, passages)
        alone, ours = await vectors_in_turns(settings.model_copy(update={"embedder": "local"}))
    return {
        "benchmark": "code_index_vectors",
        "root": source.name,
        "share_of_passages": round(share, 3),
        "embedder_cpu_s": round(alone, 2),
        "vectors_cpu_s": round(ours, 2),
        "parse_and_store_cpu_s": round(stored * share, 2),
        "over_embedder": round((ours + stored * share) / alone - 1, 4),
    }


def leave_pending(settings: Settings, passages: int) -> float:
    """Leave so many passages without a vector, from all files; return their share."""
    with closing(sqlite3.connect(settings.database_path)) as connection, connection:
        (count,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
        step = max(count // passages, 1)
        connection.execute("UPDATE chunks SET vector_pending = 0 WHERE id % ? <> 0", (step,))
        (left,) = connection.execute("SELECT sum(vector_pending) FROM chunks").fetchone()
    return left / count


async def vectors_in_turns(settings: Settings) -> tuple[float, float]:
    alone = ours = 0.0
    (embedder,) = build_embedders(settings)
    await embedder.embed_with_tokens(["warm up"])
    chain = EmbeddingChain([embedder])
    async with SqliteStorage(settings.database_path) as storage:
        while batch := await storage.get_pending(None, BATCH * TURN):
            texts = [chunk.text for chunk in batch]
            began = cpu()
            for start in range(0, len(texts), BATCH):
                await embedder.embed_with_tokens(texts[start : start + BATCH])
            alone += cpu() - began
            began = cpu()
            await fill_some(storage, chain, len(batch))
            ours += cpu() - began
    await chain.close()
    return alone, ours


async def fill_some(storage: SqliteStorage, chain: EmbeddingChain, wanted: int) -> None:
    def stop(done: int, _total: int) -> None:
        if done >= wanted:
            raise StopFillingError

    with suppress(StopFillingError):
        await fill_pending(storage, chain, stop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", default="django", choices=sorted(VERSIONS))
    parser.add_argument("--path", type=Path, help="a repository of your own instead")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--embed", type=int, metavar="PASSAGES", help="make so many vectors, too")
    options = parser.parse_args()
    setup_logging("ERROR")
    source = options.path or unpacked(options.package)
    for _ in range(options.rounds):
        print(json.dumps(asyncio.run(measure(source))), flush=True)
    if options.embed:
        print(json.dumps(asyncio.run(measure_vectors(source, options.embed))), flush=True)


if __name__ == "__main__":
    main()
