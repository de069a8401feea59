"""Running functions over a connection: worker threads, each with its own connection."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

from zapomni_db.exceptions import DatabaseError, TransactionError
from zapomni_db.logs import get_logger
from zapomni_db.sqlite.connection import (
    CHANGE_VERSION,
    Connection,
    DatabaseReplacedError,
    check_frozen,
    connect,
    file_identity,
    prepare_file,
    read_transaction,
    replaced,
    translated,
    write_transaction,
)
from zapomni_db.sqlite.vectors import prune_log

__all__ = ["SqliteFile", "imported_later", "reading", "reading_here", "writing"]

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])

logger = get_logger(__name__)

# Reads may overlap a slow write; more threads than that would only wait for each other.
THREADS = 4
NOT_CONNECTED = "The storage is not connected; call connect() first."


class SqliteFile:
    """One SQLite file, and how functions over a connection to it are run.

    Writes and long reads run on a few worker threads, each with its own connection, so that
    the event loop never waits for another process's lock. When the file is removed or replaced
    while it is open, the next call opens the one at the path, and makes it if there is none.
    """

    threads: ClassVar[int] = THREADS
    opened_by_first_call: ClassVar[bool] = False
    """Otherwise a call before `connect` is an error."""
    versioned: ClassVar[bool] = False
    """Whether a write changes memories, or what a search reads with them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._connections: list[Connection] = []
        # The file that was created or migrated by us: its device and inode.
        self._prepared: tuple[int, int] | None = None
        self._writing = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._retries = 0
        # Connections for snapshots that no snapshot uses now.
        self._idle: list[Connection] = []
        self._snapshot: _Snapshot | None = None

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
        """Create or migrate the file as needed. Safe to call again."""
        if self._pool is None:
            await asyncio.to_thread(self._prepare)
        if self._pool is None:  # another task may have opened it meanwhile
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="zapomni-sqlite")

    async def close(self) -> None:
        """Finish what runs and close every connection. Safe to call again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)
            while self._connections:
                self._connections.pop().close()
            self._local = threading.local()
            self._idle = []

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Self]:
        """Yield this storage for reading: all its reads see the state of the first one.

        A writer is not blocked, but the log cannot be emptied past a snapshot: leave it soon.
        """
        if self._pool is None:
            raise DatabaseError(NOT_CONNECTED, "CONN_001")
        with translated("reading", self.path):
            connection = self._idle.pop() if self._idle else self._connect()
            if not connection.is_current():
                self._discard(connection)
                connection = self._connect()
            connection.execute("BEGIN")
        view = copy.copy(self)
        view._snapshot = snapshot = _Snapshot(connection, self._idle)  # noqa: SLF001 - its own class
        try:
            yield view
        finally:
            # A caller that gave up may have left a read running: that one ends the snapshot.
            snapshot.end()

    async def read(
        self,
        operation: str,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a function that reads on a worker thread, in a snapshot of the file."""

        def work() -> T:
            with translated(operation, self.path), self._reading() as connection:
                return function(connection, *args, **kwargs)

        with _logged(operation, function):
            return await self._run(work)

    def read_here(
        self,
        operation: str,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Read on the caller's own thread, for the many small reads of a search.

        Each takes a millisecond or two, and no writer can block it; handing it to another thread
        and back costs as much again.
        """
        if self._pool is None:
            raise DatabaseError(NOT_CONNECTED, "CONN_001")
        with (
            _logged(operation, function),
            translated(operation, self.path),
            self._reading() as connection,
        ):
            return function(connection, *args, **kwargs)

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        if self._snapshot is not None:
            return self._snapshot.reading()
        return read_transaction(self._connection())

    async def write(
        self,
        operation: str,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a function that writes on a worker thread: all it did is stored, or nothing."""

        def work() -> T:
            # Own threads take turns here; waiting in SQLite means sleeping and polling.
            with self._writing, translated(operation, self.path):
                try:
                    return write()
                except DatabaseReplacedError as error:
                    # It was written to a file without a name. Once more, to the one at the path.
                    self._retries += 1
                    logger.warning(
                        "database_retry",
                        engine="sqlite",
                        operation=operation,
                        attempt=1,
                        max_attempts=2,
                        error_type=type(error).__name__,
                    )
                    return write()

        def write() -> T:
            connection = self._connection()
            if not connection.writable:
                # The disk was full or read-only when it was opened; it may no longer be.
                self._discard(connection)
                connection = self._connection()
            try:
                with write_transaction(connection):
                    before = connection.total_changes
                    result = function(connection, *args, **kwargs)
                    if self.versioned and connection.total_changes != before:
                        connection.execute(CHANGE_VERSION)
                    prune_log(connection)
            except TransactionError:
                # Closing undoes what could not be rolled back.
                self._discard(connection)
                raise
            return result

        with _logged(operation, function):
            return await self._run(work)

    async def _run(self, work: Callable[[], T]) -> T:
        if self.opened_by_first_call:
            await self.connect()
        if self._pool is None:
            raise DatabaseError(NOT_CONNECTED, "CONN_001")
        try:
            # With the caller's context: errors made in the thread carry its correlation id.
            running = asyncio.get_running_loop().run_in_executor(
                self._pool, contextvars.copy_context().run, work
            )
        except RuntimeError as error:  # closed while a snapshot was in use
            raise DatabaseError(NOT_CONNECTED, "CONN_001") from error
        return await running

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is not None and not connection.is_current():
            self._discard(connection)
        if connection is None or connection not in self._connections:
            connection = self._local.connection = self._connect()
        return connection

    def _connect(self) -> Connection:
        if file_identity(str(self.path)) != self._prepared:
            self._prepare()
        connection = connect(self.path)
        if connection.identity != self._prepared:
            connection.close()
            raise replaced("open")
        self._connections.append(connection)
        return connection

    def _prepare(self) -> None:
        prepare_file(self.path)
        self._prepared = file_identity(str(self.path))

    def _discard(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            connection.close()


def reading(
    operation: str, function: Callable[Concatenate[sqlite3.Connection, P], T]
) -> Callable[Concatenate[SqliteFile, P], Coroutine[Any, Any, T]]:
    """Return a function over a connection as a method that reads on a worker thread."""

    async def method(self: SqliteFile, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.read(operation, function, *args, **kwargs)

    return _named(method, function)


def reading_here(
    operation: str, function: Callable[Concatenate[sqlite3.Connection, P], T]
) -> Callable[Concatenate[SqliteFile, P], Coroutine[Any, Any, T]]:
    """Return a function over a connection as a method that reads on the caller's own thread."""

    async def method(self: SqliteFile, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.opened_by_first_call:
            await self.connect()
        return self.read_here(operation, function, *args, **kwargs)

    return _named(method, function)


def writing(
    operation: str, function: Callable[Concatenate[sqlite3.Connection, P], T]
) -> Callable[Concatenate[SqliteFile, P], Coroutine[Any, Any, T]]:
    """Return a function over a connection as a method that writes in one transaction."""

    async def method(self: SqliteFile, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.write(operation, function, *args, **kwargs)

    return _named(method, function)


def imported_later(module: str) -> Any:
    """Return what has the functions of a module, which is imported when one of them is called."""

    class Functions:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def function(*args: Any, **kwargs: Any) -> Any:
                return getattr(import_module(module), name)(*args, **kwargs)

            function.__name__ = name
            return function

    return Functions()


def _named(method: M, function: Callable[..., object]) -> M:
    method.__name__, method.__doc__ = function.__name__, function.__doc__
    return method


@contextmanager
def _logged(operation: str, function: Callable[..., object]) -> Iterator[None]:
    """Log what an operation took, and how it failed; waiting for other writers is part of it."""
    started = time.perf_counter()
    try:
        yield
    except DatabaseError as error:
        logger.warning(
            "database_operation_failed",
            engine="sqlite",
            operation=operation,
            step=function.__name__,
            attempt=1,
            error_type=type(error).__name__,
            error_code=error.error_code,
            duration_ms=round((time.perf_counter() - started) * 1000, 1),
        )
        raise
    if logger.has_debug:
        logger.debug(
            "database_operation",
            engine="sqlite",
            operation=operation,
            step=function.__name__,
            attempt=1,
            duration_ms=round((time.perf_counter() - started) * 1000, 1),
        )


class _Snapshot:
    """One read transaction that several reads share, one after the other."""

    def __init__(self, connection: Connection, idle: list[Connection]) -> None:
        self._connection = connection
        self._idle = idle
        self._lock = threading.Lock()
        self._left = False
        self._ended = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                if self._left:
                    raise DatabaseError("The snapshot has ended.", "DB_001")
                yield self._connection
                check_frozen(self._connection)
        finally:
            if self._left:
                self.end()

    def end(self) -> None:
        # Set before the lock is tried: a read that holds it sees this after releasing it.
        self._left = True
        if self._lock.acquire(blocking=False):
            try:
                if not self._ended:
                    self._ended = True
                    with suppress(sqlite3.Error):  # the storage may have been closed meanwhile
                        self._connection.execute("COMMIT")
                        self._idle.append(self._connection)
            finally:
                self._lock.release()
