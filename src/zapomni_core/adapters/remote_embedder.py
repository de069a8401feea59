"""What every embedding server needs: batches, and distrust of its answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from zapomni_core.adapters.remote import RemoteService, permanent
from zapomni_core.exceptions import EmbeddingError
from zapomni_core.infra.retry import RetryPolicy
from zapomni_db.models import EmbeddingSpace

__all__ = ["RemoteEmbedder", "refusal", "unit_vectors"]

BATCH = 64


def refusal(message: str, code: str = "EMB_001") -> EmbeddingError:
    """An answer that will not change however often we ask."""
    return permanent(EmbeddingError(message, code))


def unit_vectors(raw: Any, count: int, label: str) -> list[list[float]]:
    """Return the vectors scaled to length 1.

    Raises:
        EmbeddingError: EMB_003, these are not `count` usable vectors of one dimension.
    """
    if not isinstance(raw, list) or len(raw) != count:
        raise EmbeddingError(f"{label} answered with the wrong number of vectors.", "EMB_003")
    vectors = [_unit_vector(values, label) for values in raw]
    if len({len(vector) for vector in vectors}) > 1:
        raise EmbeddingError(f"{label} answered with vectors of unequal length.", "EMB_003")
    return vectors


def _unit_vector(values: Any, label: str) -> list[float]:
    if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
        raise EmbeddingError(f"{label} answered with something else than vectors.", "EMB_003")
    norm = math.hypot(*values)
    if not math.isfinite(norm) or norm == 0:
        raise EmbeddingError(f"{label} answered with an empty or infinite vector.", "EMB_003")
    return [value / norm for value in values]


def _prefixes(model: str) -> tuple[str, str]:
    """What the model wants before a document and before a question."""
    if "nomic-embed-text" in model:
        return "search_document: ", "search_query: "
    return "", ""


class RemoteEmbedder(RemoteService):
    """An embedding server. A subclass says how one batch is asked for, in `_request`."""

    error = EmbeddingError
    unreachable_code = "EMB_001"
    timeout_code = "EMB_002"

    def __init__(
        self,
        base_url: str,
        model: str,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        super().__init__(base_url, timeout, headers, policy)
        self.model = model
        self._dimension: int | None = None

    @property
    def model_id(self) -> str:
        """What spaces call the model."""
        return f"{self.name}/{self.model.removesuffix(':latest')}"

    async def space(self) -> EmbeddingSpace:
        """Say which space the vectors belong to; the server is asked once."""
        if self._dimension is None:
            await self.embed(["dimension"])
        assert self._dimension is not None
        return EmbeddingSpace(model=self.model_id, dimension=self._dimension)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text, in order."""
        prefix = _prefixes(self.model)[0]
        vectors: list[list[float]] = []
        for begin in range(0, len(texts), BATCH):
            vectors += await self._ask([prefix + text for text in texts[begin : begin + BATCH]])
        return vectors

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question, marked as one if the model wants that."""
        return (await self._ask([_prefixes(self.model)[1] + text]))[0]

    async def _request(self, texts: Sequence[str]) -> list[list[float]]:
        raise NotImplementedError

    async def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        return await self._guarded(self._attempt, texts)

    async def _attempt(self, texts: Sequence[str]) -> list[list[float]]:
        vectors = await self._request(texts)
        if self._dimension not in (None, len(vectors[0])):
            raise EmbeddingError(
                f"{self.label} answered with dimension {len(vectors[0])} "
                f"instead of {self._dimension}.",
                "EMB_003",
            )
        self._dimension = len(vectors[0])
        return vectors
