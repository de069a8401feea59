"""Texts per CPU-second of the local model: tokens per text, batch sizes and threads side by side.

    python -m benchmarks.embedder [--texts 64] [--rounds 3]

JSON lines. `how` is "batch" (one run of the model on `batch` texts padded to the longest, with
`threads` threads inside) or "product" (LocalEmbedder with `threads` workers, one text per run).
`session` names what is different for one text at a time on one thread: weights not packed
beforehand, no arena of memory, fewer optimizations of the graph. `texts_per_second` is wall time.
`ragged` mixes lengths from 12 to 250 tokens, sorted before they are cut into batches. `cosine_min`
is how far the worst vector is from the one the same text gets alone with the product's settings.
Rounds are interleaved; the best round counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnxruntime

from zapomni_core.adapters.local_embedder import LocalEmbedder
from zapomni_core.adapters.model_files import ModelPaths, find_model
from zapomni_core.adapters.tokenizer import read_tokenizer
from zapomni_core.settings import load_settings

WORDS = (
    *("memory", "agent", "session", "file", "test", "error", "search", "because", "review"),
    *("table", "index", "cache", "user", "request", "answer", "wrote", "fixed", "changed"),
    *("between", "without", "after", "project", "house", "rain", "music", "letter"),
)
BATCHES = (1, 4, 8, 16, 32)
THREADS = (1, 2)


def make_texts(count: int, length: int | None) -> list[str]:
    """Texts of exactly `length` tokens with the two special ones: each word here is one token."""
    rng = random.Random(7)
    lengths = [length or rng.choice((12, 20, 32, 64, 128, 200, 250)) for _ in range(count)]
    return [" ".join(rng.choice(WORDS) for _ in range(size - 2)) for size in lengths]


def unpacked(options: Any) -> None:
    options.add_session_config_entry("session.disable_prepacking", "1")


def without_arena(options: Any) -> None:
    options.enable_cpu_mem_arena = False


def basic_graph(options: Any) -> None:
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC


SESSIONS = {"unpacked": unpacked, "no arena": without_arena, "basic graph": basic_graph}


def open_session(
    paths: ModelPaths, threads: int, change: Callable[[Any], None] | None = None
) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if change is not None:
        change(options)
    return onnxruntime.InferenceSession(
        str(paths.weights), options, providers=["CPUExecutionProvider"]
    )


def run_batch(session: Any, batch: list[list[int]]) -> np.ndarray:
    ids = np.zeros((len(batch), max(map(len, batch))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    vectors = (session.run(None, inputs)[0] * mask[..., None]).sum(axis=1)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def batched(session: Any, tokenizer: Any, texts: list[str], size: int) -> np.ndarray:
    tokens = sorted((tokenizer.encode(text).ids for text in texts), key=len)
    return np.concatenate(
        [run_batch(session, tokens[begin : begin + size]) for begin in range(0, len(texts), size)]
    )


def contestants(paths: ModelPaths, texts: list[str]) -> Iterator[tuple[dict[str, Any], Callable]]:
    tokenizer = read_tokenizer(paths.tokenizer)
    for threads in THREADS:
        session = open_session(paths, threads)
        for size in BATCHES:
            yield (
                {"how": "batch", "batch": size, "threads": threads},
                lambda session=session, size=size: batched(session, tokenizer, texts, size),
            )
    for name, change in SESSIONS.items():
        session = open_session(paths, 1, change)
        yield (
            {"how": "batch", "batch": 1, "threads": 1, "session": name},
            lambda session=session: batched(session, tokenizer, texts, 1),
        )
    for threads in THREADS:
        embedder = LocalEmbedder(paths.weights.parents[1], threads)
        yield (
            {"how": "product", "threads": threads},
            lambda embedder=embedder: asyncio.run(embedder.embed(texts)),
        )


def compare(paths: ModelPaths, texts: list[str], rounds: int) -> Iterator[dict[str, Any]]:
    runners = list(contestants(paths, texts))
    alone = runners[0][1]()
    best: dict[int, tuple[float, float]] = {}
    worst: dict[int, float] = {}
    for _ in range(rounds + 1):  # the first round only warms up
        for index, (facts, run) in enumerate(runners):
            cpu, wall = time.process_time(), time.perf_counter()
            vectors = run()
            spent = (time.process_time() - cpu, time.perf_counter() - wall)
            if facts["how"] == "batch":
                worst[index] = float((vectors * alone).sum(axis=1).min())
            best[index] = min(best.get(index, spent), spent)
    for index, (facts, _) in enumerate(runners):
        cpu, wall = best[index]
        yield {
            **facts,
            "texts_per_cpu_second": round(len(texts) / cpu, 1),
            "texts_per_second": round(len(texts) / wall, 1),
            **({"cosine_min": round(worst[index], 4)} if index in worst else {}),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    paths = find_model(load_settings().models_path)
    for length in (32, 128, 200, None):
        texts = make_texts(options.texts, length)
        for row in compare(paths, texts, options.rounds):
            print(json.dumps({"tokens": length or "ragged", **row}), flush=True)


if __name__ == "__main__":
    main()
