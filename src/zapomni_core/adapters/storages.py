"""Where memories live, as the settings say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from zapomni_core.exceptions import (
    CircuitBreakerOpenError,
    ConfigurationError,
    DatabaseConnectionError,
    DatabaseTimeoutError,
)
from zapomni_core.settings import Settings
from zapomni_core.shared.addresses import ServerAddress
from zapomni_db.interfaces import StorageProvider
from zapomni_db.sqlite.storage import SqliteStorage

__all__ = ["ServerGuard", "drop_graph", "open_storage"]

T = TypeVar("T")


async def open_storage(settings: Settings, *, wait: bool = True) -> StorageProvider:
    """Connect to where the settings say memories live. Close it when done.

    Without `wait` a server that is down is no error: it is connected to when first used. For
    processes that live longer than an outage.

    Raises:
        ConfigurationError: The address is wrong, or a FalkorDB server is named without the extra.
        DatabaseError: It cannot be opened or reached.
    """
    storage: StorageProvider
    if (server := settings.server) is None:
        storage = SqliteStorage(settings.database_path)
    else:
        if settings.uses_local_server:
            from zapomni_db.falkordb.server import find_server

            if find_server(settings.local_server_folder) is None:
                raise DatabaseConnectionError(
                    "The FalkorDB server of this machine is not running; "
                    "start it with `zapomni db up`.",
                    "CONN_006",
                )
        storage = _falkordb(server, allow_volatile=settings.allow_volatile)
        if not wait:
            return storage
    await storage.connect()
    return storage


def _falkordb(server: ServerAddress, *, allow_volatile: bool) -> StorageProvider:
    try:
        from zapomni_db.falkordb.client import FalkorDBClient
    except ImportError as error:
        raise ConfigurationError(
            "The setting storage names a FalkorDB server: pip install 'zapomni[falkordb]'",
            "CONF_002",
            original_exception=error,
        ) from error
    return FalkorDBClient(
        host=server.host,
        port=server.port,
        unix_socket=server.socket or None,
        ssl=server.tls,
        ssl_ca_certs=server.ca or None,
        username=server.username or None,
        password=server.password or None,
        graph_name=server.graph,
        allow_volatile=allow_volatile,
        guard=ServerGuard(),
    )


async def drop_graph(storage: StorageProvider) -> None:
    """Delete the whole graph of a FalkorDB server, with everything in it."""
    from zapomni_db.falkordb.client import FalkorDBClient

    assert isinstance(storage, FalkorDBClient)
    await storage.drop_graph()


class ServerGuard:
    """Refuses operations at once while a storage server is known to be down.

    Two operations in a row that used up all their attempts open the circuit: by then the server
    was away for seconds. While it is open, one operation every 15 seconds, or the health check,
    asks the server once; the first answer closes it.
    """

    def __init__(self) -> None:
        # A file needs no circuit breaker, and most memories are in one.
        from zapomni_core.infra.circuit_breaker import CircuitBreaker, CircuitBreakerConfig

        config = CircuitBreakerConfig(failure_threshold=2, success_threshold=1, timeout_seconds=15)
        self.breaker = CircuitBreaker(config, name="falkordb", is_outage=_is_outage)

    async def __call__(self, work: Callable[[bool], Awaitable[T]]) -> T:
        """Do the work, or refuse it.

        Raises:
            DatabaseConnectionError: CONN_001, the server is down and was not asked.
        """
        from zapomni_core.infra.circuit_breaker import CircuitState

        async def admitted() -> T:
            return await work(self.breaker.state is CircuitState.HALF_OPEN)

        try:
            return await self.breaker.call(admitted)
        except CircuitBreakerOpenError as error:
            raise DatabaseConnectionError(
                "The FalkorDB server did not answer several times; it is asked again by itself "
                "in a few seconds. Check that it runs: `zapomni db status`.",
                "CONN_001",
                original_exception=error,
            ) from error


def _is_outage(error: Exception) -> bool:
    # A refusal, a full pool or a wrong statement says nothing about the server being there.
    if isinstance(error, DatabaseConnectionError):
        return error.error_code in ("CONN_001", "CONN_002")
    return isinstance(error, DatabaseTimeoutError)
