"""What every embedding server needs: retries, a breaker, batches, and distrust of its answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zapomni_core.exceptions import CircuitBreakerOpenError, EmbeddingError
from zapomni_core.infra.circuit_breaker import CircuitBreaker, CircuitBreakerConfig
from zapomni_core.infra.retry import RetryPolicy, retry_with_backoff
from zapomni_db.models import EmbeddingSpace

if TYPE_CHECKING:
    import httpx2

__all__ = ["RemoteEmbedder", "refusal", "unit_vectors"]

BATCH = 64
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def refusal(message: str, code: str = "EMB_001") -> EmbeddingError:
    """An answer that will not change however often we ask."""
    error = EmbeddingError(message, code)
    error.is_transient = False
    return error


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


class RemoteEmbedder:
    """An embedding server. A subclass says how one batch is asked for, in `_request`."""

    name: str
    label: str
    """How messages call the server."""

    def __init__(
        self,
        base_url: str,
        model: str,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        base_url = base_url if "://" in base_url else f"http://{base_url}"
        self.model = model
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._policy = policy or RetryPolicy(max_attempts=3, initial_delay_seconds=1.0)
        self._breaker = CircuitBreaker(
            CircuitBreakerConfig(failure_threshold=5, timeout_seconds=60), name=self.name
        )
        self._dimension: int | None = None
        self._client: httpx2.AsyncClient | None = None

    async def space(self) -> EmbeddingSpace:
        """Say which space the vectors belong to; the server is asked once."""
        if self._dimension is None:
            await self.embed(["dimension"])
        assert self._dimension is not None
        model = f"{self.name}/{self.model.removesuffix(':latest')}"
        return EmbeddingSpace(model=model, dimension=self._dimension)

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

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _request(self, texts: Sequence[str]) -> list[list[float]]:
        raise NotImplementedError

    async def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            answer: list[list[float]] | EmbeddingError = await self._breaker.call(
                retry_with_backoff, self._attempt, self._policy, texts
            )
        except CircuitBreakerOpenError as error:
            raise EmbeddingError(
                f"{self.label} failed repeatedly and is left alone for a minute.",
                "EMB_001",
                original_exception=error,
            ) from error
        if isinstance(answer, EmbeddingError):
            raise answer
        return answer

    async def _attempt(self, texts: Sequence[str]) -> list[list[float]] | EmbeddingError:
        try:
            vectors = await self._request(texts)
        except EmbeddingError as error:
            if error.is_transient:
                raise
            # Returned, not raised: a server that says no is up, so its breaker stays closed.
            return error
        if self._dimension not in (None, len(vectors[0])):
            raise EmbeddingError(
                f"{self.label} answered with dimension {len(vectors[0])} "
                f"instead of {self._dimension}.",
                "EMB_003",
            )
        self._dimension = len(vectors[0])
        return vectors

    async def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Return the status and the JSON answered; None if it was not JSON."""
        import httpx2  # costs 0.15 s at import

        try:
            client = self._client = self._client or self._connect()
            async with asyncio.timeout(self._timeout):
                response = await client.post(f"{self._base_url}{path}", json=body)
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise EmbeddingError(
                f"{self.label} did not answer within {self._timeout:g} s.",
                "EMB_002",
                original_exception=error,
            ) from error
        except httpx2.InvalidURL as error:
            raise refusal(f"The address of {self.label} is not valid.") from error
        except httpx2.HTTPError as error:
            raise EmbeddingError(
                f"{self.label} cannot be reached. Is it running, and is its address right?",
                "EMB_001",
                original_exception=error,
            ) from error
        try:
            return response.status_code, response.json()
        except ValueError:
            return response.status_code, None

    def _connect(self) -> httpx2.AsyncClient:
        import httpx2  # costs 0.15 s at import

        # A proxy from the environment must not see what goes to this very machine.
        local = httpx2.URL(self._base_url).host in LOOPBACK
        return httpx2.AsyncClient(
            headers=self._headers, timeout=None, follow_redirects=False, trust_env=not local
        )

    def _failure(self, status: int) -> EmbeddingError:
        """What a status other than 200 means when the body says nothing we know."""
        if status in (408, 429) or status >= 500:
            return EmbeddingError(f"{self.label} is overloaded or failing ({status}).", "EMB_001")
        return refusal(f"{self.label} refused the request ({status}).")
