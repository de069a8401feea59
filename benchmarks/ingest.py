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


async def measure(documents: int, round_number: int) -> dict:
    settings = load_settings()
    texts = [document(round_number * documents + n) for n in range(documents)]
    chunker = SemanticChunker(LazyTokenizer(settings.models_path))
    chunks = [chunk.text for text in texts for chunk in chunker.chunk(text)]
    embedder = LocalEmbedder(settings.models_path)
    await embedder.embed(["warm"])
    started = time.process_time()
    for start in range(0, len(chunks), 64):
        await embedder.embed(chunks[start : start + 64])
    raw = time.process_time() - started
    with tempfile.TemporaryDirectory() as home:
        own = load_settings(home=Path(home), models_dir=settings.models_path)
        async with await create_engine(own) as engine:
            await engine.add_memory(AddMemoryRequest(text="warm"))
            started = time.process_time()
            await engine.add_memories([AddMemoryRequest(text=text) for text in texts])
            batch = time.process_time() - started
    with tempfile.TemporaryDirectory() as home:
        own = load_settings(home=Path(home), models_dir=settings.models_path)
        async with await create_engine(own) as engine:
            await engine.add_memory(AddMemoryRequest(text="warm"))
            started = time.process_time()
            for text in texts:
                await engine.add_memory(AddMemoryRequest(text=text))
            single = time.process_time() - started
    return {
        "benchmark": "ingest", "documents": documents, "chunks": len(chunks),
        "embedder_cpu_s": round(raw, 2), "batch_cpu_s": round(batch, 2),
        "single_cpu_s": round(single, 2), "batch_ratio": round(batch / raw, 3),
        "single_ratio": round(single / raw, 3),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    for number in range(options.rounds):
        print(json.dumps(asyncio.run(measure(options.documents, number))), flush=True)


if __name__ == "__main__":
    main()
