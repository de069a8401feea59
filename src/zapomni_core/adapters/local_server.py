"""The local FalkorDB server of this user: `zapomni db` starts, stops and describes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zapomni_core.exceptions import ConfigurationError
from zapomni_core.settings import Settings

__all__ = ["describe_local_server", "start_local_server", "stop_local_server"]

ANSWER_SECONDS = 2


def start_local_server(settings: Settings) -> int:
    """Start the server, or find it running; return its process id when it answers.

    Raises:
        ConfigurationError: The extra is not installed.
        DatabaseConnectionError: It cannot be started, or runs and does not answer.
    """
    with _installed():
        from zapomni_db.falkordb.server import start_server

        return start_server(settings.local_server_folder).pid


def stop_local_server(settings: Settings) -> bool:
    """Stop the server; return whether it was running.

    Raises:
        ConfigurationError: The extra is not installed.
        DatabaseConnectionError: It does not stop.
    """
    with _installed():
        from zapomni_db.falkordb.server import stop_server

        return stop_server(settings.local_server_folder)


def describe_local_server(settings: Settings) -> dict[str, Any]:
    """Ask the server about itself; one that does not answer is described as such.

    Raises:
        ConfigurationError: The extra is not installed.
        DatabaseConnectionError: Its files cannot be read.
    """
    with _installed():
        from zapomni_db.falkordb.server import find_server

        server = find_server(settings.local_server_folder)
        if server is None:
            return {"running": False}
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

    known: dict[str, Any] = {
        "running": True,
        "answers": False,
        "pid": server.pid,
        "socket": str(server.socket),
        "folder": str(server.folder),
    }
    with redis.Redis(
        unix_socket_path=str(server.socket),
        socket_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    ) as client:
        try:
            info: dict[str, Any] = client.info()
            (module,) = (m for m in client.module_list() if m["name"] == "graph")
            graphs = client.execute_command("GRAPH.LIST")
        except redis.RedisError:
            return known
    version: int = module["ver"]  # 41603 is 4.16.3
    return known | {
        "answers": True,
        "falkordb_version": f"{version // 10_000}.{version // 100 % 100}.{version % 100}",
        "redis_version": info["redis_version"],
        "uptime_seconds": info["uptime_in_seconds"],
        "memory_mb": round(info["used_memory"] / 1e6, 1),
        "graphs": sorted(graphs),
    }


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            "The FalkorDB server is not installed: pip install 'zapomni[falkordb]'",
            "CONF_002",
            original_exception=error,
        ) from error
