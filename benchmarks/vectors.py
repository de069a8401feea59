"""The same vectors for every system: each text is embedded once, by Zapomni's local model.

`prepare` runs beside Zapomni and fills a cache in the system's folder for temporary files;
`Vectors` needs numpy only, so that peers in an environment of their own can read what was
prepared. What embedding cost is kept with each vector: a peer that is handed vectors would
otherwise look as if its user got them for nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

CACHE = Path(tempfile.gettempdir()) / "zapomni-bench-vectors.db"
BATCH = 64
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS vectors"
    " (key TEXT PRIMARY KEY, vector BLOB NOT NULL, cpu_ms REAL, wall_ms REAL)"
)
Progress = Callable[[str], None]


def key_of(text: str) -> str:
    # Some systems strip what they are given; the model does not see blanks at the ends anyway.
    return hashlib.sha256(text.strip().encode("utf-8", "replace")).hexdigest()


def prepare(
    docs: Sequence[str], queries: Sequence[str], folder: Path, progress: Progress
) -> dict[str, Any]:
    """Write vectors of all texts to a folder; return what embedding the documents cost."""
    with closing(sqlite3.connect(CACHE, timeout=60, isolation_level=None)) as cache:
        cache.execute(SCHEMA)
        asyncio.run(_fill(cache, docs, queries, progress))
        rows = {
            text: cache.execute(
                "SELECT * FROM vectors WHERE key = ?", [_cache_key(text)]
            ).fetchone()
            for text in (*docs, *queries)
        }
    _write(folder, rows)
    cpu, wall = (sum(rows[text][column] for text in docs) / 1000 for column in (2, 3))
    return {"documents_cpu_s": cpu, "documents_wall_s": wall}


class Vectors:
    """Vectors by text, from a folder that `prepare` wrote."""

    def __init__(self, folder: Path) -> None:
        import numpy as np

        self._matrix = np.load(folder / "vectors.npy", mmap_mode="r")
        self._rows = json.loads((folder / "rows.json").read_text(encoding="utf-8"))

    def __call__(self, texts: Sequence[str]) -> Any:
        """Return one row per text."""
        return self._matrix[[self._rows[key_of(text)][0] for text in texts]]

    def one(self, text: str) -> Any:
        return self._matrix[self._rows[key_of(text)][0]]

    def cost(self, text: str) -> tuple[float, float]:
        """Milliseconds of CPU and of wall time that embedding this text took."""
        _, cpu, wall = self._rows[key_of(text)]
        return cpu, wall


def _cache_key(text: str) -> str:
    from zapomni_core.adapters.model_files import WEIGHTS

    return f"{WEIGHTS.sha256[0][:16]}:{key_of(text)}"


async def _fill(
    cache: sqlite3.Connection, docs: Sequence[str], queries: Sequence[str], progress: Progress
) -> None:
    from zapomni_core.adapters.local_embedder import LocalEmbedder
    from zapomni_core.settings import load_settings

    known = {key for (key,) in cache.execute("SELECT key FROM vectors")}
    missing = [t for t in dict.fromkeys(docs) if _cache_key(t) not in known]
    asked = [t for t in dict.fromkeys(queries) if _cache_key(t) not in known and t not in missing]
    embedder = LocalEmbedder(load_settings().models_path)
    try:
        await embedder.embed(["the model is loaded before the clock starts"])
        # Documents in batches, as any system would; questions one by one, as they are asked.
        for texts, size in ((missing, BATCH), (asked, 1)):
            for done, batch in _batches(texts, size):
                progress(f"embedding {done}/{len(texts)}")
                cpu, wall = time.process_time(), time.perf_counter()
                made = await embedder.embed(batch)
                spent = (time.process_time() - cpu, time.perf_counter() - wall)
                each = [seconds * 1000 / len(batch) for seconds in spent]
                _keep(cache, batch, made, each)
    finally:
        await embedder.close()


def _batches(texts: Sequence[str], size: int) -> Iterator[tuple[int, list[str]]]:
    for start in range(0, len(texts), size):
        yield start, list(texts[start : start + size])


def _keep(
    cache: sqlite3.Connection, texts: list[str], made: list[list[float]], each: list[float]
) -> None:
    import numpy as np

    rows = [
        (_cache_key(text), np.asarray(vector, dtype=np.float32).tobytes(), *each)
        for text, vector in zip(texts, made, strict=True)
    ]
    cache.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?)", rows)


def _write(folder: Path, rows: dict[str, tuple]) -> None:
    import numpy as np

    matrix = np.stack([np.frombuffer(row[1], dtype=np.float32) for row in rows.values()])
    np.save(folder / "vectors.npy", matrix)
    index = {key_of(text): (n, row[2], row[3]) for n, (text, row) in enumerate(rows.items())}
    (folder / "rows.json").write_text(json.dumps(index), encoding="utf-8")
