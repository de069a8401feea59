"""What every model server needs: retries, a breaker, a time limit, and errors without addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from zapomni_core.exceptions import CircuitBreakerOpenError, EmbeddingError, ExtractionError
from zapomni_core.infra.circuit_breaker import CircuitBreaker, CircuitBreakerConfig
from zapomni_core.infra.retry import RetryPolicy, retry_with_backoff

if TYPE_CHECKING:
    import httpx2

__all__ = ["RemoteService", "ServiceError", "names_the_model", "permanent"]

LOOPBACK = {"localhost", "127.0.0.1", "::1"}

ServiceError = EmbeddingError | ExtractionError
T = TypeVar("T")
E = TypeVar("E", bound=ServiceError)


def permanent(error: E) -> E:
    """Mark an answer that will not change however often we ask."""
    error.is_transient = False
    return error


def names_the_model(answer: Any) -> bool:
    """Say whether an error in OpenAI's form speaks of the model."""
    # {"error": {"message", "type", "param", "code"}}; some servers give {"error": "message"}.
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict):
        error = f"{error.get('code')} {error.get('message')}"
    return isinstance(error, str) and "model" in error.lower()


class RemoteService:
    """A server that is asked by HTTP and answers in JSON."""

    name: str
    label: str
    """How messages call the server."""
    error: type[EmbeddingError | ExtractionError]
    unreachable_code: str
    timeout_code: str

    def __init__(
        self,
        base_url: str,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        base_url = base_url if "://" in base_url else f"http://{base_url}"
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._policy = policy or RetryPolicy(max_attempts=3, initial_delay_seconds=1.0)
        self._breaker = CircuitBreaker(
            CircuitBreakerConfig(failure_threshold=5, timeout_seconds=60), name=self.name
        )
        self._client: httpx2.AsyncClient | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _guarded(self, attempt: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Call `attempt` until it succeeds or is refused; leave a failing server alone.

        Raises:
            ServiceError: It failed every time, was refused, or the breaker is open.
        """

        async def once() -> T | ServiceError:
            try:
                return await attempt(*args)
            except (EmbeddingError, ExtractionError) as error:
                if error.is_transient:
                    raise
                # Returned, not raised: a server that says no is up, so its breaker stays closed.
                return error

        try:
            answer: T | ServiceError = await self._breaker.call(
                retry_with_backoff, once, self._policy
            )
        except CircuitBreakerOpenError as error:
            raise self.error(
                f"{self.label} failed repeatedly and is left alone for a minute.",
                self.unreachable_code,
                original_exception=error,
            ) from error
        if isinstance(answer, EmbeddingError | ExtractionError):
            raise answer
        return answer

    async def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Return the status and the JSON answered; None if it was not JSON."""
        import httpx2  # costs 0.15 s at import

        try:
            client = self._client = self._client or self._connect()
            async with asyncio.timeout(self._timeout):
                response = await client.post(f"{self._base_url}{path}", json=body)
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise self.error(
                f"{self.label} did not answer within {self._timeout:g} s.",
                self.timeout_code,
                original_exception=error,
            ) from error
        except httpx2.InvalidURL as error:
            raise permanent(
                self.error(f"The address of {self.label} is not valid.", self.unreachable_code)
            ) from error
        except httpx2.HTTPError as error:
            raise self.error(
                f"{self.label} cannot be reached. Is it running, and is its address right?",
                self.unreachable_code,
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

    def _failure(self, status: int) -> ServiceError:
        """What a status other than 200 means when the body says nothing we know."""
        if status in (408, 429) or status >= 500:
            return self.error(
                f"{self.label} is overloaded or failing ({status}).", self.unreachable_code
            )
        return permanent(
            self.error(f"{self.label} refused the request ({status}).", self.unreachable_code)
        )
