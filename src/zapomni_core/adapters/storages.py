"""Where memories live, as the settings say."""

from __future__ import annotations

from zapomni_core.exceptions import ConfigurationError, DatabaseConnectionError
from zapomni_core.settings import Settings
from zapomni_core.shared.addresses import ServerAddress
from zapomni_db.interfaces import StorageProvider
from zapomni_db.sqlite.storage import SqliteStorage

__all__ = ["open_storage"]


async def open_storage(settings: Settings) -> StorageProvider:
    """Connect to where the settings say memories live. Close it when done.

    Raises:
        ConfigurationError: The address is wrong, or a FalkorDB server is named without the extra.
        DatabaseError: It cannot be opened or reached.
    """
    storage: StorageProvider
    if (server := settings.server) is None:
        storage = SqliteStorage(settings.database_path)
    else:
        if settings.uses_local_server:
            _check_local_server(settings)
        storage = _falkordb(server, allow_volatile=settings.allow_volatile)
    await storage.connect()
    return storage


def _check_local_server(settings: Settings) -> None:
    from zapomni_db.falkordb.server import find_server

    if find_server(settings.local_server_folder) is None:
        raise DatabaseConnectionError(
            "The FalkorDB server of this machine is not running; start it with `zapomni db up`.",
            "CONN_006",
        )


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
    )
