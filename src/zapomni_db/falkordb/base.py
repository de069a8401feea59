"""A client's way to its server: opened when first used, closed for good or until opened again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from zapomni_db.exceptions import DatabaseConnectionError
from zapomni_db.falkordb import upkeep
from zapomni_db.falkordb.connection import Pool, Session
from zapomni_db.falkordb.schema import HnswOptions

__all__ = ["FalkorDBBase"]

P = ParamSpec("P")
T = TypeVar("T")


class FalkorDBBase:
    """Connects by itself when first used."""

    def __init__(self, hnsw: HnswOptions, open_pool: Callable[[], Pool]) -> None:
        self._hnsw = hnsw
        self._open_pool = open_pool
        self._pool: Pool | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Reach the server, check it, create what is missing. Safe to call again.

        Raises:
            DatabaseConnectionError: It is not there, refuses us, or would forget what it took.
            SchemaError: It is no FalkorDB, too old, or the graph is not ours.
        """
        self._is_closed = False
        try:
            await self._run("connect", upkeep.version)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every connection. Safe to call again."""
        self._is_closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _run(
        self,
        operation: str,
        function: Callable[Concatenate[Session, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return await self._open().run(operation, lambda session: function(session, *args, **kwargs))

    def _open(self) -> Pool:
        if self._is_closed:
            raise DatabaseConnectionError("The client is closed; call connect() first.")
        if self._pool is None:
            self._pool = self._open_pool()
        return self._pool
