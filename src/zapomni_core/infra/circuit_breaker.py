"""Leave a service alone that keeps failing, and test now and then whether it is back.

Our own, since purgatory closes on the first success in half-open: it has no success_threshold.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from zapomni_core.exceptions import CircuitBreakerOpenError, ValidationError
from zapomni_core.infra.logging import get_logger

__all__ = ["CircuitBreaker", "CircuitBreakerConfig", "CircuitState"]

T = TypeVar("T")
log = get_logger(__name__)


class CircuitState(Enum):
    """Whether calls get through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True)
class CircuitBreakerConfig:
    """When to open, when to test, when to close."""

    failure_threshold: int = 5
    """Failures in a row that open the circuit."""
    success_threshold: int = 2
    """Successes in half-open that close it."""
    timeout_seconds: float = 60
    """How long it stays open before one call may test the service."""


class CircuitBreaker:
    """Guards one outside service.

    CLOSED lets every call through. OPEN refuses every call at once. HALF_OPEN lets one call
    through at a time; a failure opens again, `success_threshold` successes close.

    `is_outage` decides which errors count as failures; the others neither count nor reset.
    By default it is every error but the caller's own mistake.

    No lock: between two awaits nothing else runs, and no decision here spans an await.
    """

    def __init__(
        self,
        config: CircuitBreakerConfig | None = None,
        *,
        name: str = "service",
        clock: Callable[[], float] = time.monotonic,
        is_outage: Callable[[Exception], bool] = lambda e: not isinstance(e, ValidationError),
    ) -> None:
        self.config = config or CircuitBreakerConfig()
        self.name = name
        self.state = CircuitState.CLOSED
        self.failure_count = 0
        self.success_count = 0
        self._clock = clock
        self._is_outage = is_outage
        self._opened_at = 0.0
        self._probing = False

    async def call(self, func: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Call `func` if the circuit lets it through.

        Raises:
            CircuitBreakerOpenError: It does not; `func` was not called.
            Exception: Whatever `func` raised, unchanged.
        """
        probe = self._admit()
        try:
            result = await func(*args, **kwargs)
        except Exception as error:
            if self._is_outage(error):
                self._record_failure(probe=probe)
            raise
        else:
            self._record_success(probe=probe)
            return result
        finally:
            if probe:
                self._probing = False

    def _admit(self) -> bool:
        """Return whether the call is a probe; refuse it if it may not pass."""
        if self.state is CircuitState.CLOSED:
            return False
        if (
            self.state is CircuitState.OPEN
            and self._clock() - self._opened_at >= self.config.timeout_seconds
        ):
            self.success_count = 0
            self._change(CircuitState.HALF_OPEN, "circuit_breaker_half_open")
        if self.state is CircuitState.OPEN or self._probing:
            raise CircuitBreakerOpenError(
                f"{self.name} failed repeatedly and is left alone for a while",
                details={"failures": self.failure_count},
            )
        self._probing = True
        return True

    # A call that began before the circuit opened may end after it: only probes count then.

    def _record_success(self, *, probe: bool) -> None:
        if probe:
            self.success_count += 1
            if self.success_count >= self.config.success_threshold:
                self.failure_count = 0
                self._change(CircuitState.CLOSED, "circuit_breaker_closed_recovered")
        elif self.state is CircuitState.CLOSED:
            self.failure_count = 0

    def _record_failure(self, *, probe: bool) -> None:
        if not probe and self.state is not CircuitState.CLOSED:
            return
        self.failure_count += 1
        if probe or self.failure_count >= self.config.failure_threshold:
            self._opened_at = self._clock()
            self._change(CircuitState.OPEN, "circuit_breaker_opened")

    def _change(self, state: CircuitState, event: str) -> None:
        write = log.error if state is CircuitState.OPEN else log.info
        write(event, breaker=self.name, failures=self.failure_count)
        self.state = state
