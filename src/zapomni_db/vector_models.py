"""Passages on their way to a vector."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["ChunkVector", "PendingChunk"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)


class PendingChunk(_Frozen):
    """A chunk that has no vector in some space yet."""

    chunk_id: str
    text: str


class ChunkVector(_Frozen):
    """A vector for a chunk that was pending."""

    chunk_id: str
    embedding: list[float]
    tokens: bytes | None = None
