"""What the FalkorDB engine costs, on a server of its own that syncs every write to disk.

    python -m benchmarks.falkordb [--chunks 10000] [--adds 200] [--large 50000] [--queries 100]

One JSON line each:

- `falkordb_add`: `add_memory` in the presence of so many chunks, vectors of 768 numbers: small
  memories of 1 to 5 chunks, medium ones of 6 to 20, large ones of 21 to 100; then small ones one
  after another, and by ten writers at once.
- `falkordb_search`: a store of `--large` chunks, vectors of 384 numbers, texts and questions as in
  `benchmarks.scale`: whole searches, with and without a filter that leaves one project in a
  hundred, and the share of the ten exactly nearest chunks that vector search returns.

Milliseconds are wall time: client and server are two processes. `cpu_ms` (a question's mean) and
`rss_mb` are of both, the client first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus import document
from benchmarks.engine import engine_over
from benchmarks.scale import BATCH, FILTERED, QueryEmbedder, Synthetic, memories, questions, recalls
from benchmarks.scoring import percentile
from benchmarks.worker import resident_mb
from zapomni_core.interfaces import SearchRequest
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.falkordb.server import LocalServer, start_server, stop_server
from zapomni_db.models import Chunk, Memory, QueryEmbedding

DIMENSION = 768
SIZES = {"small": (1, 5), "medium": (6, 20), "large": (21, 100)}
BARS_MS = {"small": 500, "medium": 1000, "large": 2000}
WRITERS = 10


class Source:
    """Memories in the specified form, each unlike every other one."""

    def __init__(self) -> None:
        self._dice = random.Random(1)
        self._rng = np.random.default_rng(2)
        self._number = 0

    def memory(self, chunks: int) -> Memory:
        self._number += 1
        texts = [document(self._number * 1000 + index) for index in range(chunks)]
        return Memory.model_construct(
            text=" ".join(texts),
            chunks=[Chunk.model_construct(text=t, index=i) for i, t in enumerate(texts)],
            embeddings=self._rng.normal(size=(chunks, DIMENSION)).tolist(),
            metadata={"source": "benchmark"},
        )

    def of_size(self, name: str) -> Memory:
        return self.memory(self._dice.randint(*SIZES[name]))


async def fill(client: FalkorDBClient, source: Source, chunks: int) -> None:
    for _ in range(chunks // 100):
        await client.add_memories_batch([source.memory(5) for _ in range(20)])


async def timed(client: FalkorDBClient, memory: Memory) -> float:
    began = time.perf_counter()
    await client.add_memory(memory)
    return (time.perf_counter() - began) * 1000


def spread(times: list[float]) -> dict[str, float]:
    return {f"p{share}": round(percentile(times, share / 100), 1) for share in (50, 95, 99)}


async def adds(socket: Path, chunks: int, count: int) -> dict[str, Any]:
    source = Source()
    async with FalkorDBClient(unix_socket=str(socket), graph_name="adds") as client:
        await fill(client, source, chunks)
        result: dict[str, Any] = {"benchmark": "falkordb_add", "chunks": chunks, "adds": count}
        for name in SIZES:
            times = [await timed(client, source.of_size(name)) for _ in range(count)]
            result[f"{name}_ms"] = spread(times)
            result[f"{name}_holds"] = percentile(times, 0.99) < BARS_MS[name]
        small = [source.of_size("small") for _ in range(count)]
        began = time.perf_counter()
        for memory in small:
            await client.add_memory(memory)
        result["sequential_adds_per_s"] = round(count / (time.perf_counter() - began), 1)
        result |= await at_once(client, source, count)
        result["problems"] = dict(await client.check_integrity())
    return result


async def at_once(client: FalkorDBClient, source: Source, count: int) -> dict[str, Any]:
    given = [[source.of_size("small") for _ in range(count // WRITERS)] for _ in range(WRITERS)]
    before = (await client.get_stats())["total_memories"]

    async def write(memories: list[Memory]) -> int:
        errors = 0
        for memory in memories:
            try:
                await client.add_memory(memory)
            except Exception:  # noqa: BLE001 - counted, whatever it is
                errors += 1
        return errors

    began = time.perf_counter()
    errors = sum(await asyncio.gather(*(write(memories) for memories in given)))
    took = time.perf_counter() - began
    stored = (await client.get_stats())["total_memories"] - before
    total = sum(len(memories) for memories in given)
    return {
        "writers": WRITERS,
        "concurrent_adds_per_s": round(total / took, 1),
        "concurrent_errors": errors,
        "concurrent_lost": total - stored,
    }


def cpu_seconds(process: int) -> float:
    """CPU time of a process, by Linux."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


async def searches(server: LocalServer, chunks: int, count: int, home: Path) -> dict[str, Any]:
    source = Synthetic()
    async with FalkorDBClient(unix_socket=str(server.socket), graph_name="searches") as client:
        began = time.perf_counter()
        for start in range(0, chunks, BATCH):
            await client.store_memories(list(memories(source, start, BATCH)))
        result: dict[str, Any] = {
            "benchmark": "falkordb_search", "chunks": chunks, "queries": count,
            "ingest_chunks_per_s": round(chunks / (time.perf_counter() - began)),
        }  # fmt: skip
        asked = questions(chunks, 2 * count, source)
        embedder = QueryEmbedder(model=False)
        embedder.known = {
            text: QueryEmbedding(vector=vector, tokens=bytes.fromhex(tokens), words=text.split())
            for text, (vector, tokens) in asked.items()
        }
        engine = engine_over(client, embedder, home / "local.db")
        texts = iter(asked)
        for name, filters in (("query", None), ("filtered", {"project": FILTERED})):
            times = []
            cpu = time.process_time(), cpu_seconds(server.pid)
            for _ in range(count):
                began = time.perf_counter()
                await engine.search_memory(SearchRequest(query=next(texts), filters=filters))
                times.append((time.perf_counter() - began) * 1000)
            result[f"{name}_ms"] = spread(times)
            spent = time.process_time() - cpu[0], cpu_seconds(server.pid) - cpu[1]
            result[f"{name}_cpu_ms"] = [round(one * 1000 / count, 1) for one in spent]
        result["rss_mb"] = [round(resident_mb()), round(resident_mb(process=server.pid))]
        vectors = [vector for vector, _ in list(asked.values())[:50]]
        return result | await recalls(client, chunks, vectors, source)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--adds", type=int, default=200)
    parser.add_argument("--large", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zapomni-falkordb-") as folder:
        server = start_server(Path(folder))
        try:
            if options.chunks:
                answer = asyncio.run(adds(server.socket, options.chunks, options.adds))
                print(json.dumps(answer), flush=True)
            if options.large:
                answer = asyncio.run(searches(server, options.large, options.queries, Path(folder)))
                print(json.dumps(answer), flush=True)
        finally:
            stop_server(Path(folder))


if __name__ == "__main__":
    main()
