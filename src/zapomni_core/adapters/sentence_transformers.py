"""Embeddings from the sentence-transformers library, for those who have it installed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from zapomni_core.exceptions import EmbeddingError
from zapomni_db.models import EmbeddingSpace

__all__ = ["SentenceTransformersEmbedder"]


class SentenceTransformersEmbedder:
    """Any model sentence-transformers can load; it is loaded on first use."""

    name = "sentence-transformers"

    def __init__(self, model: str = "all-MiniLM-L6-v2") -> None:
        self._model_name = model
        self._model: Any = None
        self._dimension: int | None = None
        self._one_at_a_time = threading.Lock()

    @property
    def model_id(self) -> str:
        """What spaces call the model."""
        return f"{self.name}/{self._model_name}"

    async def space(self) -> EmbeddingSpace:
        """Say which space the vectors belong to; only the loaded model knows."""
        if self._dimension is None:
            self._dimension = len(await self.embed_query("dimension"))
        return EmbeddingSpace(model=self.model_id, dimension=self._dimension)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text, in order."""
        return await asyncio.to_thread(self._encode, "encode_document", list(texts))

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question, with the prompt the model wants."""
        return (await asyncio.to_thread(self._encode, "encode_query", [text]))[0]

    async def close(self) -> None:
        """Let the model go."""
        self._model = None

    def _encode(self, method: str, texts: list[str]) -> list[list[float]]:
        with self._one_at_a_time:
            self._model = self._model or self._load()
            encode = getattr(self._model, method)
            vectors = encode(texts, normalize_embeddings=True, show_progress_bar=False)
        return [[float(value) for value in vector] for vector in vectors]

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise EmbeddingError(
                "sentence-transformers is not installed. "
                "Run `pip install 'zapomni[sentence-transformers]'`.",
                "EMB_004",
                original_exception=error,
            ) from error
        try:
            return SentenceTransformer(self._model_name)
        except Exception as error:  # it raises whatever its many back ends raise
            raise EmbeddingError(
                f"sentence-transformers cannot load the model {self._model_name}.",
                "EMB_004",
                original_exception=error,
            ) from error
