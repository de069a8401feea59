"""Try again when trying again may help.

Built on tenacity's AsyncRetrying. The delay is our own: neither stamina's nor tenacity's jitter
is the specified min(initial * base^(n-1), max) * (0.5 + random).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from zapomni_core.exceptions import (
    DatabaseConnectionError,
    EmbeddingError,
    ExtractionError,
    QueryError,
    SchemaError,
    TransactionError,
    ValidationError,
    ZapomniError,
)
from zapomni_core.infra.logging import get_logger

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["RetryPolicy", "retry_with_backoff"]

T = TypeVar("T")
log = get_logger(__name__)


@dataclass(frozen=True)
class RetryPolicy:
    """When to try again, how often, and how long to wait in between."""

    max_attempts: int = 3
    initial_delay_seconds: float = 1.0
    max_delay_seconds: float = 30.0
    exponential_base: float = 2.0
    jitter: bool = True
    """Spread the waits of many clients, so that they do not come back all at once."""
    retryable_exceptions: tuple[type[Exception], ...] = (
        ConnectionError,
        DatabaseConnectionError,
        EmbeddingError,
        ExtractionError,
        QueryError,
        TransactionError,
    )
    non_retryable_exceptions: tuple[type[Exception], ...] = (ValidationError, SchemaError)
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, compare=False)

    def allows(self, error: BaseException) -> bool:
        """Whether trying again may help; one of our own errors has the last word itself."""
        if isinstance(error, self.non_retryable_exceptions):
            return False
        if isinstance(error, ZapomniError) and not error.is_transient:
            return False
        return isinstance(error, self.retryable_exceptions)

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after this attempt, counted from 1."""
        seconds = min(
            self.initial_delay_seconds * self.exponential_base ** (attempt - 1),
            self.max_delay_seconds,
        )
        if self.jitter:
            seconds *= 0.5 + random.random()  # noqa: S311 - spreads load, keeps no secret
        return seconds


async def retry_with_backoff(
    func: Callable[..., Awaitable[T]], policy: RetryPolicy, *args: Any, **kwargs: Any
) -> T:
    """Call `func` until it succeeds, fails for good, or the attempts are used up.

    Raises:
        Exception: Whatever the last attempt raised, unchanged.
    """
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

    name = getattr(func, "__name__", type(func).__name__)
    retrying = AsyncRetrying(
        stop=stop_after_attempt(policy.max_attempts),
        wait=lambda state: policy.delay(state.attempt_number),
        retry=retry_if_exception(policy.allows),
        before_sleep=lambda state: _log_attempt(state, policy, name),
        sleep=policy.sleep,
        reraise=True,
    )
    attempts = 0

    async def attempt() -> T:
        nonlocal attempts
        attempts += 1
        return await func(*args, **kwargs)

    try:
        result: T = await retrying(attempt)
    except Exception as error:
        event = "retry_exhausted" if policy.allows(error) else "non_retryable_error"
        log.exception(event, function=name, attempts=attempts)
        raise
    if attempts > 1:
        log.info("retry_succeeded", function=name, attempt=attempts)
    return result


def _log_attempt(state: RetryCallState, policy: RetryPolicy, name: str) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning(
        "retry_attempt",
        function=name,
        attempt=state.attempt_number,
        max_attempts=policy.max_attempts,
        delay_seconds=round(state.upcoming_sleep, 3),
        error_type=type(error).__name__,
        error_code=getattr(error, "error_code", None),
    )
