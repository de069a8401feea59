"""Embeddings from an Ollama server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zapomni_core.adapters.remote_embedder import RemoteEmbedder, refusal, unit_vectors
from zapomni_core.exceptions import EmbeddingError
from zapomni_core.infra.retry import RetryPolicy

__all__ = ["OllamaEmbedder"]


class OllamaEmbedder(RemoteEmbedder):
    """Ollama: `/api/embed`, or `/api/embeddings` on servers older than 0.3."""

    name = "ollama"
    label = "Ollama"

    def __init__(
        self,
        host: str = "http://127.0.0.1:11434",
        model: str = "nomic-embed-text",
        timeout: float = 30.0,
        policy: RetryPolicy | None = None,
    ) -> None:
        super().__init__(host, model, timeout, policy=policy)
        self._is_old = False

    async def _request(self, texts: Sequence[str]) -> list[list[float]]:
        if not self._is_old:
            body = {"model": self.model, "input": list(texts)}
            status, answer = await self._post("/api/embed", body)
            # A missing model is a 404 too, but says so in JSON.
            if status != 404 or answer is not None:
                raw = self._field(status, answer, "embeddings")
                return unit_vectors(raw, len(texts), self.label)
            self._is_old = True
        raw = []
        for text in texts:
            body = {"model": self.model, "prompt": text}
            raw.append(self._field(*await self._post("/api/embeddings", body), "embedding"))
        return unit_vectors(raw, len(texts), self.label)

    def _field(self, status: int, answer: Any, field: str) -> Any:
        if status == 404 and isinstance(answer, dict) and "error" in answer:
            raise refusal(
                f"Ollama does not have the model {self.model}. Run `ollama pull {self.model}`.",
                "EMB_004",
            )
        if status != 200:
            raise self._failure(status)
        if not isinstance(answer, dict):
            raise EmbeddingError("Ollama answered with something else than JSON.", "EMB_003")
        return answer.get(field)
