"""One id per public operation, found again in every log line and error it causes.

The context variable itself lives in `zapomni_db.exceptions`, where every layer can reach it.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Token
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from zapomni_db.exceptions import correlation_id

__all__ = ["current_correlation_id", "operation"]

P = ParamSpec("P")
R = TypeVar("R")


def current_correlation_id() -> str | None:
    """Return the id of the operation under way, if there is one."""
    return correlation_id.get()


class operation:  # noqa: N801 - a verb at the place of use, as contextlib.suppress
    """Give what runs inside an id, unless an outer operation already has one.

    `with operation() as correlation_id:` around code, `@operation()` on an async function.
    """

    _token: Token[str | None] | None = None

    def __enter__(self) -> str:
        current = correlation_id.get()
        if current is None:
            current = str(uuid.uuid4())
            self._token = correlation_id.set(current)
        return current

    def __exit__(self, *_exc_info: object) -> None:
        if self._token is not None:
            correlation_id.reset(self._token)
            self._token = None

    def __call__(self, func: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """Run every call of `func` as an operation."""

        @wraps(func)
        async def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with operation():
                return await func(*args, **kwargs)

        return wrapper
