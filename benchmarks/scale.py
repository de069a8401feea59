"""What search costs when a store is large: 50,000 and 200,000 chunks in one SQLite file.

    python -m benchmarks.scale [--chunks 50000,200000] [--queries 200] [--folder F] [--no-model]
                               [--data FILE ... [--noise 0.7] [--seed 9]]

Texts are made from a Zipf vocabulary that begins with the function words of English, vectors are
drawn around 400 centres, and every chunk has 60 packed token vectors. A question is eight words
of one chunk with a vector near that chunk's; it is asked with and without a filter that leaves
one project in a hundred. Unless --no-model, each question is also embedded by the real model, so
that the whole price of a query is paid; the synthetic vector is what is searched with.

With --data (sets of benchmarks.retrieval) vectors are those of real passages, drawn with
repetition, with normal noise of the length --noise added; the vectors of questions are those of
the sets' questions, which are harder to find exactly than ones next to a passage.

The store is filled by one process and asked by another, so that resident memory is what a
server would have; `rss_anon_mb` leaves out mapped files. One JSON line per size. `recall`: the
share of the ten exactly nearest chunks, by numpy, that the store's own vector search returns.
With --folder a filled store is kept and used again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import retrieval
from benchmarks.engine import engine_over
from benchmarks.scoring import percentile
from benchmarks.vectors import Vectors, prepare
from benchmarks.worker import MB, resident_mb
from zapomni_core.engine import ZapomniEngine
from zapomni_core.interfaces import SearchRequest
from zapomni_core.shared.token_codec import BYTES_PER_TOKEN, DIMENSION
from zapomni_db.models import (
    ChunkData,
    EmbeddingSpace,
    MemoryData,
    MemoryFilter,
    QueryEmbedding,
    VectorSearchRequest,
)
from zapomni_db.sqlite.storage import SqliteStorage

SPACE = EmbeddingSpace(model="synthetic", dimension=384)
FUNCTION_WORDS = (
    "the of and to a in is it that was for on are as with they be at one have this from by but "
    "not what all were we when your can there an which she do how their if will up about out"
).split()
VOCABULARY = 50_000
WORDS_PER_CHUNK = 140
CHUNKS_PER_MEMORY = 5
TOKENS_PER_CHUNK = 60
CENTRES, LATENT = 400, 48
NOISE, SEED = 0.7, 9
PROJECTS = 100
BATCH = 1000  # chunks in one transaction
FILTERED = "p7"
# Questions whose nearest chunks are compared with the exact ones; what is equal for that.
RECALLED = 100
TIE = 1e-5


def vocabulary() -> list[str]:
    dice = random.Random(11)
    syllables = [c + v for c in "bcdfghjklmnprstvz" for v in ("a", "e", "i", "o", "u", "ar", "en")]
    made: dict[str, None] = dict.fromkeys(FUNCTION_WORDS)
    while len(made) < VOCABULARY:
        made["".join(dice.choices(syllables, k=dice.choice((2, 2, 3, 4))))] = None
    return list(made)


class Synthetic:
    """Makes the same chunks for the same numbers, a batch at a time.

    Args:
        real: A file of vectors that those of chunks are like; without one they are made.
        noise: How much real ones are changed.
        seed: Of everything that is drawn.
    """

    def __init__(self, real: str | None = None, noise: float = NOISE, seed: int = SEED) -> None:
        self.words = np.array(vocabulary())
        self._real = None if real is None else np.load(real)
        self._noise, self._seed = noise, seed
        rng = np.random.default_rng(5)
        weights = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
        self._cumulated = weights / weights[-1]
        self._centres = rng.normal(size=(CENTRES, LATENT))
        self._lift = rng.normal(size=(LATENT, SPACE.dimension)) / np.sqrt(LATENT)
        self.tokens = rng.integers(256, size=(VOCABULARY, BYTES_PER_TOKEN), dtype=np.uint8)

    def batch(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return word numbers and unit vectors of chunks from `start`."""
        rng = np.random.default_rng([self._seed, start])
        words = np.searchsorted(self._cumulated, rng.random((count, WORDS_PER_CHUNK)))
        if self._real is not None:
            real = self._real[rng.integers(len(self._real), size=count)]
            noise = rng.normal(scale=self._noise / np.sqrt(SPACE.dimension), size=real.shape)
            return words, unit(real + noise)
        near = self._centres[rng.integers(CENTRES, size=count)]
        vectors = (near + 0.7 * rng.normal(size=near.shape)) @ self._lift
        vectors += 0.3 * rng.normal(size=vectors.shape)
        return words, unit(vectors)


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def memories(source: Synthetic, start: int, count: int) -> Iterator[MemoryData]:
    words, vectors = source.batch(start, count)
    texts = [" ".join(row) for row in source.words[words]]
    packed = [source.tokens[row[:TOKENS_PER_CHUNK]].tobytes() for row in words]
    for first in range(0, count, CHUNKS_PER_MEMORY):
        parts = range(first, min(first + CHUNKS_PER_MEMORY, count))
        number = (start + first) // CHUNKS_PER_MEMORY
        chunks, at = [], 0
        for index, part in enumerate(parts):
            chunks.append(
                ChunkData.model_construct(
                    text=texts[part], index=index, start_char=at, end_char=at + len(texts[part]),
                    metadata={}, embedding=vectors[part].tolist(), tokens=packed[part],
                )
            )  # fmt: skip
            at += len(texts[part]) + 1
        yield MemoryData.model_construct(
            memory_id=str(uuid.UUID(int=number)), text=" ".join(texts[part] for part in parts),
            chunks=chunks, project=f"p{number % PROJECTS}", space=SPACE,
            timestamp=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number),
        )  # fmt: skip


async def fill(path: Path, chunks: int, source: Synthetic) -> dict[str, Any]:
    cpu = wall = 0.0
    async with SqliteStorage(path) as storage:
        for start in range(0, chunks, BATCH):
            batch = list(memories(source, start, min(BATCH, chunks - start)))
            began = time.process_time(), time.perf_counter()
            await storage.store_memories(batch)
            cpu += time.process_time() - began[0]
            wall += time.perf_counter() - began[1]
        await storage.tidy()  # as a server does by itself
    return {
        "ingest_chunks_per_s": round(chunks / wall),
        "ingest_chunks_per_cpu_s": round(chunks / cpu),
    }


class QueryEmbedder:
    """Knows the questions' synthetic vectors; pays for the real model if it has one."""

    name = model_id = "synthetic"

    def __init__(self, *, model: bool) -> None:
        self.known: dict[str, QueryEmbedding] = {}
        self._local = None
        if model:
            from zapomni_core.adapters.local_embedder import LocalEmbedder
            from zapomni_core.settings import load_settings

            self._local = LocalEmbedder(load_settings().models_path)

    async def space(self) -> EmbeddingSpace:
        return SPACE

    async def embed(self, texts):
        return [(await self.embed_query_with_tokens(text)).vector for text in texts]

    async def embed_query(self, text):
        return (await self.embed_query_with_tokens(text)).vector

    async def embed_with_tokens(self, texts):
        return [await self.embed_query_with_tokens(text) for text in texts]

    async def embed_query_with_tokens(self, text):
        if self._local is not None:
            await self._local.embed_query_with_tokens(text)
        return self.known[text]

    async def close(self) -> None:
        if self._local is not None:
            await self._local.close()


def questions(
    chunks: int, count: int, source: Synthetic, real: np.ndarray | None = None
) -> dict[str, tuple[list[float], str]]:
    """Eight words of some chunk, a vector near its own or of a real question, the words' tokens."""
    rng = np.random.default_rng(3)
    asked: dict[str, tuple[list[float], str]] = {}
    while len(asked) < count:
        start = int(rng.integers(0, chunks // BATCH)) * BATCH
        words, vectors = source.batch(start, min(BATCH, chunks - start))
        row = int(rng.integers(len(words)))
        picked = rng.choice(words[row], size=8, replace=False)
        vector = unit(vectors[row] + 0.04 * rng.normal(size=SPACE.dimension))
        if real is not None:
            vector = real[len(asked) % len(real)]
        tokens = rng.normal(size=(8, DIMENSION)).astype(np.float32).tobytes().hex()
        asked[" ".join(source.words[picked])] = (vector.tolist(), tokens)
    return asked


async def ask(
    path: Path, chunks: int, count: int, source: Callable[[], Synthetic], *, model: bool
) -> dict[str, Any]:
    asked = json.loads(_questions_of(path).read_text(encoding="utf-8"))
    embedder = QueryEmbedder(model=model)
    embedder.known = {
        text: QueryEmbedding(vector=vector, tokens=bytes.fromhex(tokens), words=text.split())
        for text, (vector, tokens) in asked.items()
    }
    texts = iter(asked)
    async with SqliteStorage(path) as storage:
        engine = engine_over(storage, embedder, path)
        began = time.process_time()
        await engine.search_memory(SearchRequest(query=next(texts)))
        result = {"first_query_cpu_ms": round((time.process_time() - began) * 1000)}
        for name, filters in (("query", None), ("filtered", {"project": FILTERED})):
            times = [await _one(engine, next(texts), filters) for _ in range(count)]
            for column, clock in enumerate(("cpu", "wall")):
                for share in (50, 95):
                    value = percentile([t[column] for t in times], share / 100)
                    result[f"{name}_{clock}_ms_p{share}"] = round(value, 2)
        result["rss_mb"] = round(resident_mb(), 1)
        result["rss_anon_mb"] = round(resident_mb("RssAnon"), 1)
        vectors = [vector for vector, _ in list(asked.values())[:RECALLED]]
        result |= await recalls(storage, chunks, vectors, source())
        await embedder.close()
    return result


def _questions_of(path: Path) -> Path:
    return path.with_suffix(".questions.json")


async def _one(engine: ZapomniEngine, text: str, filters: dict | None) -> tuple[float, float]:
    began = time.process_time(), time.perf_counter()
    await engine.search_memory(SearchRequest(query=text, filters=filters))
    return (time.process_time() - began[0]) * 1000, (time.perf_counter() - began[1]) * 1000


async def recalls(
    storage: SqliteStorage, chunks: int, asked: list[list[float]], source: Synthetic
) -> dict[str, Any]:
    """Compare the store's nearest ten with the exact ones, by the similarity each has."""
    queries = np.array(asked, dtype=np.float32)
    best = {name: np.zeros((len(asked), 0), np.float32) for name in ("recall", "filtered_recall")}
    for start in range(0, chunks, BATCH):
        _, vectors = source.batch(start, min(BATCH, chunks - start))
        projects = np.arange(start, start + len(vectors)) // CHUNKS_PER_MEMORY % PROJECTS
        own = projects == int(FILTERED[1:])
        for name, rows in (("recall", vectors), ("filtered_recall", vectors[own])):
            scores = np.concatenate([best[name], queries @ rows.T], axis=1)
            best[name] = np.sort(scores, axis=1)[:, -10:]
    result = {}
    for name, filters in (
        ("recall", MemoryFilter()),
        ("filtered_recall", MemoryFilter(project=FILTERED)),
    ):
        shares = []
        for vector, nearest in zip(asked, best[name], strict=True):
            request = VectorSearchRequest(
                query_embedding=vector, limit=10, min_similarity=0.0, filters=filters
            )
            found = [hit.similarity_score for hit in await storage.vector_search(request)]
            exact = nearest[nearest >= 0.0]
            shares.append(sum(score >= exact[0] - TIE for score in found) / len(exact))
        result[f"{name}_at_10"] = round(float(np.mean(shares)), 4)
    return result


def measure(chunks: int, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    path = folder / f"scale-{chunks}.db"
    kept = path.with_suffix(".json")
    if not kept.exists():
        kept.write_text(json.dumps(_step("fill", path, chunks, options)), encoding="utf-8")
    # Made by a process of their own, for the one that asks must not hold what makes them.
    made = _step("questions", path, chunks, options)
    _questions_of(path).write_text(json.dumps(made), encoding="utf-8")
    filled = json.loads(kept.read_text(encoding="utf-8"))
    disk = sum(f.stat().st_size for f in folder.glob(f"{path.name}*")) / MB
    answered = _step("ask", path, chunks, options)
    return {
        "benchmark": "scale", "chunks": chunks, "queries": options.queries,
        "vectors": "real with noise" if options.vectors else "made",
        "model": not options.no_model, **filled, "disk_mb": round(disk, 1), **answered,
    }  # fmt: skip


def embed(files: list[Path], folder: Path) -> list[str]:
    """Embed the passages and the questions of sets; return the files that have the vectors."""
    spaces = [space for file in files for space in retrieval.read_set(file)["spaces"]]
    docs, queries = retrieval.texts_of({"spaces": spaces})
    prepare(docs, queries, folder, retrieval.tell)
    vectors = Vectors(folder)
    paths = [folder / "passages.npy", folder / "questions.npy"]
    for path, texts in zip(paths, (docs, queries), strict=True):
        np.save(path, unit(vectors(list(dict.fromkeys(texts)))))
    return list(map(str, paths))


def _step(step: str, path: Path, chunks: int, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale", "--step", step, "--path", str(path)]
    command += ["--chunks", str(chunks), "--queries", str(options.queries)]
    command += ["--no-model"] if options.no_model else []
    command += ["--noise", str(options.noise), "--seed", str(options.seed)]
    command += ["--vectors", *options.vectors] if options.vectors else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", default="50000,200000", help="sizes, comma-separated")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="keep the stores here")
    parser.add_argument("--no-model", action="store_true", help="do not embed the questions")
    parser.add_argument(
        "--data", type=Path, action="append", metavar="FILE", help="take the vectors of these sets"
    )
    parser.add_argument("--noise", type=float, default=NOISE, help="added to real vectors")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--vectors", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=["fill", "questions", "ask"], help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.chunks.split(",")]
    passages, asked = options.vectors or (None, None)
    # Made after the questions are asked: what makes the vectors is no part of a server.
    source = partial(Synthetic, passages, options.noise, options.seed)
    if options.step == "fill":
        print(json.dumps(asyncio.run(fill(options.path, sizes[0], source()))))
    elif options.step == "questions":
        real = None if asked is None else np.load(asked)
        count = 2 * options.queries + 1
        print(json.dumps(questions(sizes[0], count, source(), real)))
    elif options.step == "ask":
        asking = ask(options.path, sizes[0], options.queries, source, model=not options.no_model)
        print(json.dumps(asyncio.run(asking)))
    else:
        with tempfile.TemporaryDirectory(prefix="zapomni-scale-") as temporary:
            folder = options.folder or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            if options.data:
                options.vectors = embed(options.data, folder)
            for size in sizes:
                print(json.dumps(measure(size, folder, options)), flush=True)


if __name__ == "__main__":
    main()
