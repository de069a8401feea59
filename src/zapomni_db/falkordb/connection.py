"""Connections to the server: opening, checking, running operations, retrying.

Every operation ends within the client's timeout, however the server behaves. Only an unreachable
server is tried again. A statement that is retried may have run already: each one is written so that
this does no harm.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, InvalidResponse, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from zapomni_db.exceptions import (
    DatabaseConnectionError,
    DatabaseError,
    DatabaseTimeoutError,
    SchemaError,
    TransactionError,
    ZapomniError,
)
from zapomni_db.falkordb.errors import (
    absent_graph,
    is_exhausted,
    is_unreachable,
    pool_exhausted,
    translate,
    unreachable,
)
from zapomni_db.falkordb.values import from_cell, parameters
from zapomni_db.logs import get_logger

if TYPE_CHECKING:
    from zapomni_db.falkordb.schema import HnswOptions

__all__ = ["Address", "Guard", "Pool", "Session"]

T = TypeVar("T")

Guard = Callable[[Callable[[bool], Awaitable[Any]]], Awaitable[Any]]
"""Runs an operation or refuses it; the operation takes whether it is a probe."""

CONNECT_SECONDS = 5.0
"""How long connecting may take, and then the server's first answer."""
POOL_SHARE = 0.8
"""The share of an operation's time that it may wait for a free connection."""
OLDEST_MODULE = 41600
"""FalkorDB 4.16 as the module numbers itself, the oldest version that is tested."""

logger = get_logger(__name__)
pause = asyncio.sleep


@dataclass(frozen=True)
class Address:
    """Where a server is, and the user and password for it."""

    host: str = "localhost"
    port: int = 6379
    unix_socket: str | None = None
    ssl: bool = False
    ssl_ca_certs: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def connection_class(self) -> type[AbstractConnection]:
        """Return the class of connections to this address."""
        if self.unix_socket is not None:
            return UnixDomainSocketConnection
        return SSLConnection if self.ssl else Connection

    def connection_options(self) -> dict[str, Any]:
        """Return the arguments of that class."""
        options: dict[str, Any] = {"username": self.username, "password": self.password}
        if self.unix_socket is not None:
            return {**options, "path": self.unix_socket}
        options |= {"host": self.host, "port": self.port, "socket_keepalive": True}
        if self.ssl:
            options |= {"ssl_ca_certs": self.ssl_ca_certs, "ssl_check_hostname": True}
        return options


@dataclass
class Known:
    """What was last read from the server: reading it each time would cost a round trip."""

    indexes: set[tuple[str, int]] = field(default_factory=set)
    """Vector indexes, by property and dimension."""
    active: list[Any] | None = None
    """The active space. May be outdated: a statement that uses it checks it."""
    chunks: int | None = None
    """About how many chunks there are."""
    grants_time: bool = True
    """Whether the server accepts a timeout with each statement."""


class Session:
    """One attempt of one operation, on one server. Its methods may run at once."""

    def __init__(
        self,
        pool: Pool,
        seconds: float,
        *,
        attempt: int = 0,
        notes: dict[str, Any] | None = None,
    ) -> None:
        self._pool = pool
        self._milliseconds = max(1, int(seconds * 1000))
        self.redis = pool.redis
        self.graph = pool.graph
        self.known = pool.known
        self.hnsw = pool.hnsw
        self._server = pool.server
        self.retries = attempt
        self.is_repeated = attempt > 0
        """Whether an earlier attempt may have done the work, and only its answer was lost."""
        self.notes = {} if notes is None else notes
        """What earlier attempts of the same operation noted for later ones."""

    async def read(self, statement: str, **values: Any) -> list[list[Any]]:
        """Return the rows of a statement that only reads; the server refuses others."""
        return await self._rows("GRAPH.RO_QUERY", statement, values)

    async def read_store(self, statement: str, **values: Any) -> list[list[Any]]:
        """Return the rows of a statement that finds at least the Store, or raise."""
        rows = await self.read(statement, **values)
        if not rows:
            raise absent_graph()
        return rows

    async def read_list(self, statement: str, columns: str, **values: Any) -> list[list[Any]]:
        """Return all rows of these columns, in the order of the statement.

        They come as one list: a server may be configured to cut answers at a number of rows, and
        does so silently.
        """
        rows = await self.read(f"{statement} RETURN collect([{columns}])", **values)
        return list(rows[0][0]) if rows else []

    async def write(self, statement: str, **values: Any) -> list[list[Any]]:
        """Run a statement, all or nothing, and return its rows.

        Raises:
            TransactionError: TXN_003, the server aborted it after its own time limit.
        """
        try:
            return await self._rows("GRAPH.QUERY", statement, values)
        except ResponseError as error:
            if "timed out" not in str(error):
                raise
            raise TransactionError(
                "The server aborted a write because it took too long; nothing was written. "
                "Raise its TIMEOUT_MAX, or store less at once.",
                "TXN_003",
                original_exception=error,
            ) from error

    async def _rows(self, command: str, statement: str, values: dict[str, Any]) -> list[list[Any]]:
        answer = await self.ask(command, statement, values)
        if len(answer) < 3:
            return []
        return [[from_cell(cell) for cell in row] for row in answer[1]]

    async def ask(self, command: str, statement: str, values: dict[str, Any]) -> list[Any]:
        """Return a statement's raw answer: header, rows, statistics."""
        header = parameters(values) if values else ""
        words = (command, self.graph, header + statement, "--compact")
        try:
            # Without a timeout, the official image aborts every query after a second.
            granted = ("timeout", self._milliseconds) if self.known.grants_time else ()
            answer: list[Any] = await self.command(*words, *granted)
        except ResponseError as error:
            if "TIMEOUT_MAX" not in str(error):
                raise
            # The server has a limit that is not ours to change.
            self.known.grants_time = False
            answer = await self.command(*words)
        # An error while the statement runs comes in the place of the statistics.
        if isinstance(answer[-1], ResponseError):
            raise answer[-1]
        return answer

    async def command(self, *words: str | int) -> Any:
        """Run any command of the server."""
        answer = await self.redis.execute_command(*words)  # type: ignore[no-untyped-call]
        if self._pool.server != self._server:
            # It was restarted meanwhile: its indexes may not have been ready.
            raise RedisConnectionError("another server answered")
        return answer


class Pool:
    """Connections to one server, each checked before its first use.

    Args:
        address: Where the server is.
        graph: The name of the graph.
        size: How many connections may be open at once; further operations wait for one.
        timeout: Seconds an operation may take in all.
        max_retries: How often an unreachable server is tried again.
        allow_volatile: Use a server even if it would lose everything when it dies.
        hnsw: How the vector index is built and searched.
        prepare: Called before the first operation on a server, and again after a restart or when
            another server answers at the address.
        guard: Wraps every operation, for example in a circuit breaker.
    """

    def __init__(  # noqa: PLR0913 - servers differ in this much
        self,
        address: Address,
        graph: str,
        *,
        size: int,
        timeout: float,
        max_retries: int,
        allow_volatile: bool,
        hnsw: HnswOptions,
        prepare: Callable[[Session], Awaitable[None]],
        guard: Guard | None = None,
    ) -> None:
        self.graph = graph
        self.server = ""
        self.known = Known()
        self.hnsw = hnsw
        self._timeout = timeout
        self._max_retries = max_retries
        self._allow_volatile = allow_volatile
        self._prepare = prepare
        self._guard = guard
        self._preparing = asyncio.Lock()
        self._prepared = ""
        self.redis = Redis(
            connection_pool=BlockingConnectionPool(
                max_connections=size,
                timeout=timeout * POOL_SHARE,
                connection_class=address.connection_class(),
                socket_connect_timeout=CONNECT_SECONDS,
                decode_responses=True,
                protocol=2,
                # Retries are made here, not by redis-py.
                retry=Retry(NoBackoff(), 0),
                redis_connect_func=self._greet,
                **address.connection_options(),
            )
        )

    def forget(self) -> None:
        """Prepare the server again before the next operation."""
        self._prepared = ""
        self.known = Known()

    async def close(self) -> None:
        """Close every connection."""
        await self.redis.connection_pool.disconnect()

    async def run(
        self,
        operation: str,
        work: Callable[[Session], Awaitable[T]],
        *,
        max_retries: int | None = None,
        patience: float = 0.0,
    ) -> T:
        """Run an operation, again if the server was not reached.

        `patience` is added to the timeout in seconds, for operations that are known to be long.

        Raises:
            DatabaseTimeoutError: The operation took longer than the timeout.
            DatabaseConnectionError: The server was not reached in any attempt, or the guard
                refuses to try.
            ZapomniError: The server refused, or the operation raised it.
        """
        retries = self._max_retries if max_retries is None else max_retries
        seconds = self._timeout + patience
        started = time.perf_counter()
        attempt = 0
        reached = False
        notes: dict[str, Any] = {}

        async def until_done(allowed: int) -> T:
            nonlocal attempt, reached
            while True:
                reached = False
                try:
                    await self._make_ready(seconds)
                    reached = True
                    return await work(Session(self, seconds, attempt=attempt, notes=notes))
                except RedisError as error:
                    if is_exhausted(error):
                        raise pool_exhausted(operation, error) from error
                    # The next attempt checks again which server answers, and what it has.
                    self.forget()
                    if not is_unreachable(error):
                        raise translate(operation, error) from error
                    if attempt == allowed:
                        raise unreachable(operation, error, attempt) from error
                    logger.warning(
                        "database_retry",
                        operation=operation,
                        attempt=attempt + 1,
                        max_attempts=allowed + 1,
                        delay_seconds=2**attempt,
                        error_type=type(error.__cause__ or error.__context__ or error).__name__,
                        duration_ms=_milliseconds_since(started),
                    )
                await pause(2**attempt)
                attempt += 1

        async def in_time(probe: bool) -> T:
            try:
                async with asyncio.timeout(seconds):
                    # A probe finds out whether the server is back: one attempt is enough.
                    return await until_done(0 if probe else retries)
            except TimeoutError as error:
                if not reached:
                    raise DatabaseConnectionError(
                        f"Database error during {operation}: the server did not "
                        f"answer within {seconds:g}s. Check host and port.",
                        "CONN_002",
                        details={"retries": attempt},
                        original_exception=error,
                    ) from error
                raise DatabaseTimeoutError(
                    f"{operation} operation exceeded timeout ({seconds:g}s)",
                    original_exception=error,
                ) from error

        try:
            result: T = await (in_time(False) if self._guard is None else self._guard(in_time))
        except DatabaseError as error:
            logger.warning(
                "database_operation_failed",
                engine="falkordb",
                operation=operation,
                attempt=attempt + 1,
                error_type=type(error).__name__,
                error_code=error.error_code,
                duration_ms=_milliseconds_since(started),
            )
            raise
        logger.debug(
            "database_operation",
            engine="falkordb",
            operation=operation,
            attempt=attempt + 1,
            duration_ms=_milliseconds_since(started),
        )
        return result

    async def _make_ready(self, seconds: float) -> None:
        if self._prepared == self.server != "":
            return
        async with self._preparing:
            # Not PING: a server whose disk is full refuses that, but answers reads.
            await self.redis.echo("")
            # Another task may have prepared the server while this one waited for the lock.
            if self._prepared != self.server:
                await self._prepare(Session(self, seconds))
                self._prepared = self.server

    async def _greet(self, connection: AbstractConnection) -> None:
        """Log in, and check which server answers."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.on_connect()
                await connection.send_command(
                    "INFO", "server", "modules", "persistence", "replication"
                )
                answer = await connection.read_response()
        except TimeoutError as error:
            raise RedisTimeoutError("no answer to INFO") from error
        if not isinstance(answer, str) or "redis_version" not in answer:
            raise InvalidResponse("not the INFO of a Redis")
        lines = (line.partition(":") for line in answer.splitlines() if ":" in line)
        # Every module is a line of the same name; only FalkorDB's is needed.
        info = {
            name: value for name, _, value in lines if name != "module" or "name=graph," in value
        }
        if info.get("loading") == "1":
            raise BusyLoadingError("loading")
        try:
            _check_module(info)
            if not self._allow_volatile:
                _check_persistence(info)
        except ZapomniError:
            await connection.disconnect()
            raise
        self.server = info.get("run_id", "unknown")


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)


def _check_module(info: dict[str, str]) -> None:
    module = dict(part.partition("=")[::2] for part in info.get("module", "").split(","))
    if not module.get("ver", "").isdigit():
        raise SchemaError(
            "The server is a Redis without the FalkorDB module. "
            "Start FalkorDB: `zapomni db up`, or the image falkordb/falkordb.",
            "SCHEMA_005",
        )
    if int(module["ver"]) < OLDEST_MODULE:
        raise SchemaError(
            f"The server runs FalkorDB {_readable(int(module['ver']))}; Zapomni needs "
            f"{_readable(OLDEST_MODULE)} or newer. Upgrade the server.",
            "SCHEMA_005",
        )


def _readable(version: int) -> str:
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def _check_persistence(info: dict[str, str]) -> None:
    # A replica acknowledges no writes.
    if info.get("aof_enabled") == "1" or info.get("role") == "slave":
        return
    refused = DatabaseConnectionError(
        "The server has no append-only file: acknowledged writes are lost when it dies. "
        "Turn it on with `CONFIG SET appendonly yes` and put `appendonly yes` into its "
        "configuration, or allow a volatile server on purpose (allow_volatile).",
        "CONN_005",
    )
    refused.is_transient = False
    raise refused
