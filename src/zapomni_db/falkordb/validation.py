"""What is checked before the database is asked anything.

Messages name the rule, never what broke it: no text, no metadata value.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError as PydanticValidationError

from zapomni_db.exceptions import ValidationError
from zapomni_db.models import Chunk, ChunkData, EmbeddingSpace, Memory, MemoryData, MemoryPatch

__all__ = ["check_client", "to_memory_data", "to_patch"]

MAX_TEXT_CHARS = 1_000_000
MAX_CHUNKS = 100
MAX_METADATA_CHARS = 100_000
MAX_METADATA_DEPTH = 10


def to_memory_data(memory: Memory, dimension: int) -> MemoryData:
    """Check a memory and return it as it is stored, under an id of its own.

    Raises:
        ValidationError: It breaks a rule; nothing was asked of the database.
    """
    _check_text(memory.text)
    _check_counts(memory)
    for number, (chunk, embedding) in enumerate(zip(memory.chunks, memory.embeddings, strict=True)):
        _check_chunk(number, chunk)
        _check_embedding(number, embedding, dimension)
    _check_metadata(memory.metadata)
    return MemoryData(
        memory_id=str(uuid.uuid4()),
        text=memory.text,
        chunks=[
            # A vector of nothing but zeros has no direction: it waits for a real one instead.
            ChunkData(**dict(chunk), embedding=embedding if any(embedding) else None)
            for chunk, embedding in zip(memory.chunks, memory.embeddings, strict=True)
        ],
        metadata=memory.metadata,
        timestamp=datetime.now(UTC),
        space=EmbeddingSpace(model="unknown", dimension=dimension),
    )


def _refuse(reason: str, code: str) -> ValidationError:
    return ValidationError(f"Validation failed for memory: {reason}", code)


def _check_text(text: str) -> None:
    if not text.strip():
        raise _refuse("text cannot be empty", "VAL_001")
    if len(text) > MAX_TEXT_CHARS:
        raise _refuse(f"text exceeds max length ({MAX_TEXT_CHARS:,})", "VAL_003")


def _check_counts(memory: Memory) -> None:
    chunks, embeddings = len(memory.chunks), len(memory.embeddings)
    if not chunks:
        raise _refuse("chunks list cannot be empty", "VAL_001")
    if chunks > MAX_CHUNKS:
        raise _refuse(f"too many chunks (max {MAX_CHUNKS})", "VAL_003")
    if not embeddings:
        raise _refuse("embeddings list cannot be empty", "VAL_001")
    if chunks != embeddings:
        raise _refuse(
            f"chunks and embeddings count mismatch ({chunks} chunks, {embeddings} embeddings)",
            "VAL_003",
        )


def _check_chunk(number: int, chunk: Chunk) -> None:
    if chunk.index != number:
        raise _refuse(f"chunk index mismatch: expected {number}, got {chunk.index}", "VAL_003")
    if not chunk.text.strip():
        raise _refuse(f"chunk {number} text cannot be empty", "VAL_001")


def _check_embedding(number: int, embedding: list[float], dimension: int) -> None:
    if len(embedding) != dimension:
        raise _refuse(
            f"embedding {number} dimension must be {dimension}, got {len(embedding)}", "VAL_003"
        )
    if not all(isinstance(value, int | float) for value in embedding):
        raise _refuse(f"embedding {number} contains non-numeric values", "VAL_002")
    if not all(map(math.isfinite, embedding)):
        raise _refuse(f"embedding {number} contains values that are not finite", "VAL_003")


def _check_metadata(metadata: dict[str, Any]) -> None:
    # Depth first: what goes round in a circle would never end as JSON.
    if _is_deeper(metadata, MAX_METADATA_DEPTH):
        raise _refuse(f"metadata nesting exceeds max depth ({MAX_METADATA_DEPTH})", "VAL_003")
    try:
        size = len(json.dumps(metadata))
    except (TypeError, ValueError) as error:
        raise _refuse(f"metadata not JSON-serializable: {error}", "VAL_002") from error
    if size > MAX_METADATA_CHARS:
        raise _refuse("metadata exceeds max size (100 KB)", "VAL_003")


def _is_deeper(value: Any, levels: int) -> bool:
    if levels < 0:
        return True
    if isinstance(value, dict):
        return any(_is_deeper(item, levels - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_is_deeper(item, levels - 1) for item in value)
    return False


def check_client(
    graph_name: str, pool_size: int, max_retries: int, timeout: float, dimension: int
) -> None:
    """Refuse what no client can work with."""
    # Any name will do, but for characters that would cut it short or hide in it.
    if not graph_name.strip() or len(graph_name) > 200 or not graph_name.isprintable():
        raise ValidationError("graph_name must be 1 to 200 visible characters", "VAL_004")
    least = {"pool_size": (pool_size, 1), "max_retries": (max_retries, 0),
             "dimension": (dimension, 1)}  # fmt: skip
    for name, (value, minimum) in least.items():
        if value < minimum:
            raise ValidationError(f"{name} must be at least {minimum}, got {value}", "VAL_003")
    if not 0 < timeout < math.inf:
        raise ValidationError(f"timeout must be a positive number of seconds, got {timeout}")


def to_patch(patch: MemoryPatch | Mapping[str, Any]) -> MemoryPatch:
    if isinstance(patch, MemoryPatch):
        return patch
    unknown = patch.keys() - MemoryPatch.model_fields.keys()
    if unknown:
        raise ValidationError(
            f"These fields can be changed: {', '.join(MemoryPatch.model_fields)}", "VAL_004"
        )
    try:
        return MemoryPatch.model_validate(dict(patch))
    except PydanticValidationError as error:
        fields = ", ".join(sorted({str(e["loc"][0]) for e in error.errors()}))
        raise ValidationError(f"These fields have the wrong type: {fields}", "VAL_002") from error
