"""How the engine runs: worker threads, each with a connection of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from zapomni_db.exceptions import DatabaseError
from zapomni_db.sqlite import spaces
from zapomni_db.sqlite.connection import (
    connect,
    prepare_file,
    read_transaction,
    translated,
    write_transaction,
)

__all__ = ["SqliteFile"]

P = ParamSpec("P")
T = TypeVar("T")

# Reads may overlap a slow write; more threads than that would only wait for each other.
THREADS = 4
NOT_CONNECTED = "The storage is not connected; call connect() first."


class SqliteFile:
    """One SQLite file, and how functions over a connection to it are run.

    Writes and long reads run on a few worker threads, each with a connection of its own, so that
    the event loop never waits for another process's lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._writing = threading.Lock()
        self._watching = threading.Lock()
        self._watcher: sqlite3.Connection | None = None
        self._pool: ThreadPoolExecutor | None = None

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
            await asyncio.to_thread(prepare_file, self.path)
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="zapomni-sqlite")

    async def close(self) -> None:
        """Finish what runs and close every connection. Safe to call again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)
            while self._connections:
                self._connections.pop().close()
            if self._watcher is not None:
                self._watcher.close()
                self._watcher = None
            self._local = threading.local()

    async def _read(
        self,
        operation: str,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        def work() -> T:
            with translated(operation), read_transaction(self._connection()) as connection:
                return function(connection, *args, **kwargs)

        return await self._run(work)

    def _read_here(
        self,
        operation: str,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Read on the caller's own thread, for the many small reads of a search.

        Each takes a millisecond or two, and no writer can hold it up; handing it to another
        thread and back costs as much again.
        """
        if self._pool is None:
            raise DatabaseError(NOT_CONNECTED, "CONN_001")
        with translated(operation), read_transaction(self._connection()) as connection:
            return function(connection, *args, **kwargs)

    async def _write(
        self,
        operation: str,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        def work() -> T:
            # Own threads take turns here; waiting in SQLite means sleeping and polling.
            with self._writing, translated(operation):
                with write_transaction(self._connection()) as connection:
                    result = function(connection, *args, **kwargs)
                    spaces.prune_log(connection)
                return result

        return await self._run(work)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            raise DatabaseError(NOT_CONNECTED, "CONN_001")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _read_version(self) -> int:
        # SQLite tells a connection of others' commits. This one never writes: all are others'.
        with self._watching, translated("watching"):
            if self._watcher is None:
                self._watcher = connect(self.path)
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect(self.path)
            self._local.connection = connection
            self._connections.append(connection)
        return connection
