"""Embeddings from any server that speaks OpenAI's `/v1/embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zapomni_core.adapters.remote import ServiceError, names_the_model
from zapomni_core.adapters.remote_embedder import RemoteEmbedder, refusal, unit_vectors
from zapomni_core.infra.retry import RetryPolicy

__all__ = ["OpenAIEmbedder"]


class OpenAIEmbedder(RemoteEmbedder):
    """`POST {base_url}/embeddings`, where base_url usually ends in `/v1`."""

    name = "openai"
    label = "The embedding server"

    def __init__(
        self,
        base_url: str,
        model: str = "text-embedding-3-small",
        api_key: str = "",
        timeout: float = 30.0,
        policy: RetryPolicy | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        super().__init__(base_url, model, timeout, headers, policy)

    async def _request(self, texts: Sequence[str]) -> list[list[float]]:
        status, answer = await self._post(
            "/embeddings", {"model": self.model, "input": list(texts)}
        )
        if status != 200:
            raise self._error(status, answer)
        try:
            items = sorted(answer["data"], key=lambda item: int(item["index"]))
            raw = [item["embedding"] for item in items]
        except (KeyError, TypeError, ValueError):
            raw = None
        return unit_vectors(raw, len(texts), self.label)

    def _error(self, status: int, answer: Any) -> ServiceError:
        if status in (401, 403):
            return refusal(
                "The embedding server refused the key. Set ZAPOMNI_OPENAI_API_KEY to a valid one."
            )
        if status == 404 and names_the_model(answer):
            return refusal(
                f"The embedding server does not know the model {self.model}. "
                "Set ZAPOMNI_EMBEDDING_MODEL to one it has.",
                "EMB_004",
            )
        if status == 404:
            return refusal(
                "The embedding server has no embeddings at this address. "
                "Set ZAPOMNI_OPENAI_BASE_URL to its address up to /v1."
            )
        return self._failure(status)
