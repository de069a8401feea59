"""What adding costs beyond the embedder's own time, on the same passages in the same run.

python -m benchmarks.ingest [--documents 1000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from benchmarks.corpus import document
from zapomni_core.adapters.chunkers import SemanticChunker
from zapomni_core.adapters.local_embedder import LocalEmbedder
from zapomni_core.adapters.tokenizer import LazyTokenizer
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_core.settings import load_settings

GROUP = 20


async def measure(documents: int, round_number: int) -> dict:
    """Take turns, a few documents each: the machine's speed changes from minute to minute."""
    settings = load_settings()
    texts = [document(round_number * documents + n) for n in range(documents)]
    chunker = SemanticChunker(LazyTokenizer(settings.models_path))
    embedder = LocalEmbedder(settings.models_path)
    await embedder.embed(["warm"])
    spent = {"embedder": 0.0, "batch": 0.0, "single": 0.0}
    chunks = 0
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        homes = [
            load_settings(home=Path(h), models_dir=settings.models_path) for h in (first, second)
        ]
        async with await create_engine(homes[0]) as many, await create_engine(homes[1]) as one:
            for engine in (many, one):
                await engine.add_memory(AddMemoryRequest(text="warm"))
            for start in range(0, documents, GROUP):
                requests = [AddMemoryRequest(text=text) for text in texts[start : start + GROUP]]
                parts = [c.text for r in requests for c in chunker.chunk(r.text)]
                chunks += len(parts)
                spent["embedder"] += await cpu_of(embedder.embed(parts))
                spent["batch"] += await cpu_of(many.add_memories(requests))
                for request in requests:
                    spent["single"] += await cpu_of(one.add_memory(request))
    return {
        "benchmark": "ingest", "documents": documents, "chunks": chunks,
        **{f"{name}_cpu_s": round(seconds, 2) for name, seconds in spent.items()},
        "batch_ratio": round(spent["batch"] / spent["embedder"], 3),
        "single_ratio": round(spent["single"] / spent["embedder"], 3),
    }  # fmt: skip


async def cpu_of(work) -> float:
    started = time.process_time()
    await work
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    for number in range(options.rounds):
        print(json.dumps(asyncio.run(measure(options.documents, number))), flush=True)


if __name__ == "__main__":
    main()
