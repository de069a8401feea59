"""What a search costs beside the embedding of its question.

    python -m benchmarks.search [--chunks 10000] [--queries 200]

Vectors are random but for their length: scoring them costs the same as scoring real ones, and
filling the store takes seconds instead of minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.corpus import document, question
from benchmarks.engine import engine_over
from zapomni_core.interfaces import SearchRequest
from zapomni_db.models import ChunkData, EmbeddingSpace, MemoryData
from zapomni_db.sqlite.storage import SqliteStorage

SPACE = EmbeddingSpace(model="random", dimension=384)


class RandomEmbedder:
    """Answers at once, so that only the search itself is measured."""

    name = model_id = "random"

    async def space(self) -> EmbeddingSpace:
        return SPACE

    async def embed(self, texts):
        return [vector_of(text) for text in texts]

    async def embed_query(self, text):
        return vector_of(text)

    async def close(self) -> None:
        pass


def vector_of(text: str) -> list[float]:
    dice = random.Random(text)
    return [dice.gauss(0, 1) for _ in range(SPACE.dimension)]


def memory_of(number: int) -> MemoryData:
    text = document(number)
    chunk = ChunkData.model_construct(
        text=text, index=0, start_char=0, end_char=len(text), metadata={},
        embedding=vector_of(text),
    )  # fmt: skip
    return MemoryData.model_construct(
        memory_id=str(uuid.uuid4()), text=text, chunks=[chunk], metadata={"n": number},
        timestamp=datetime.now(UTC), project=f"p{number % 100}", source="", kind="note",
        tags=[], pinned=False, idempotency_key=None, supersedes=None, space=SPACE,
    )  # fmt: skip


async def measure(chunks: int, queries: int, filters: dict | None) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteStorage(Path(folder) / "bench.db") as storage:
            for start in range(0, chunks, 500):
                batch = [memory_of(n) for n in range(start, min(start + 500, chunks))]
                await storage.store_memories(batch)
            engine = engine_over(storage, RandomEmbedder(), storage.path)
            await engine.search_memory(SearchRequest(query="warm up"))
            times = []
            for number in range(queries):
                text = question(number)
                request = SearchRequest(query=text, filters=filters)
                await engine.memories.embeddings.embed_query(text, SPACE)
                started = time.process_time()
                await engine.search_memory(request)
                times.append((time.process_time() - started) * 1000)
    times.sort()
    return {
        "benchmark": "search", "chunks": chunks, "queries": queries, "filters": filters,
        "cpu_ms_p50": round(statistics.median(times), 2),
        "cpu_ms_p95": round(times[int(len(times) * 0.95)], 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    for filters in (None, {"project": "p7"}):
        result = asyncio.run(measure(options.chunks, options.queries, filters))
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
