"""Small ways to make memories for tests."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, datetime

from zapomni_db.models import Chunk, ChunkData, EmbeddingSpace, Memory, MemoryData

SPACE = EmbeddingSpace(model="test-model", dimension=4, sha256="00")


def vector(*values: float) -> list[float]:
    """A unit vector of four dimensions from its first values."""
    padded = [*values, *[0.0] * (4 - len(values))]
    length = math.hypot(*padded)
    return [value / length for value in padded]


def memory(text: str, *vectors: list[float] | None, **fields) -> MemoryData:
    """A memory with one chunk per vector; without vectors, one pending chunk."""
    parts = vectors or (None,)
    words = text.split(" | ") if len(parts) > 1 else [text]
    chunks, start = [], 0
    for index, (part, embedding) in enumerate(zip(words, parts, strict=True)):
        start = text.index(part, start)
        chunks.append(
            ChunkData(
                text=part,
                index=index,
                start_char=start,
                end_char=start + len(part),
                embedding=embedding,
            )
        )
    defaults = {
        "memory_id": str(uuid.uuid4()),
        "timestamp": datetime.now(UTC),
        "space": SPACE if any(vectors) else None,
    }
    return MemoryData(text=text, chunks=chunks, **{**defaults, **fields})


def specified(text: str = "Test", *, chunks: int = 1, value: float = 0.1, **fields) -> Memory:
    """A memory in the form `FalkorDBClient.add_memory` takes, of 768 dimensions."""
    return Memory(
        text=text,
        chunks=[Chunk(text=f"{text} {i}" if i else text, index=i) for i in range(chunks)],
        embeddings=[[value] * 768 for _ in range(chunks)],
        **fields,
    )
