"""`zapomni db`: a FalkorDB server of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import print_json, print_pairs
from zapomni_cli.runtime import read_settings
from zapomni_core.exceptions import ConfigurationError, DatabaseConnectionError
from zapomni_db.falkordb.server import LocalServer, find_server, start_server, stop_server

__all__ = ["db"]

HOW_TO_USE = "Keep memories there: export ZAPOMNI_STORAGE=falkordb://local"

ANSWER_SECONDS = 2


@click.group(epilog=examples("zapomni db up", "zapomni db status", "zapomni db down"))
def db() -> None:
    """Run a FalkorDB server of your own.

    Memories live in one file unless ZAPOMNI_STORAGE names a FalkorDB server. These commands run
    one on this machine, for you alone: on a socket in ZAPOMNI_HOME that nobody else can open,
    every write on disk before it is acknowledged. Needs `pip install 'zapomni[falkordb]'`.
    """


@db.command(epilog=examples("zapomni db up"))
def up() -> None:
    """Start the server, or find it running.

    Returns when it answers. It runs until `zapomni db down` or the end of the machine, and
    finds everything again after either.
    """
    with _told():
        server = start_server(_folder())
    click.echo(f"The FalkorDB server runs (process {server.pid}).")
    click.echo(HOW_TO_USE)


@db.command(epilog=examples("zapomni db down"))
def down() -> None:
    """Stop the server. What it keeps stays on disk."""
    with _told():
        ran = stop_server(_folder())
    click.echo("The FalkorDB server is stopped." if ran else "No FalkorDB server was running.")


@db.command(epilog=examples("zapomni db status", "zapomni db status --json"))
@json_option
def status(*, as_json: bool) -> None:
    """Show whether the server runs, where, and what it keeps."""
    with _told():
        server = find_server(_folder())
        found = {"running": False} if server is None else _look(server)
    if as_json:
        print_json(found)
    elif server is None:
        click.echo("No FalkorDB server is running. Start it with `zapomni db up`.")
    else:
        print_pairs((name.replace("_", " "), _shown(value)) for name, value in found.items())


def _folder() -> Path:
    return read_settings().home / "falkordb"


@contextmanager
def _told() -> Iterator[None]:
    """Say what went wrong in the error's own words: they are about this machine's server."""
    try:
        yield
    except DatabaseConnectionError as error:
        raise click.ClickException(error.message) from error
    except ImportError as error:
        raise ConfigurationError(
            "The FalkorDB server is not installed: pip install 'zapomni[falkordb]'",
            "CONF_002",
            original_exception=error,
        ) from error


def _look(server: LocalServer) -> dict[str, Any]:
    """Ask the server about itself; a server that does not answer is shown as such."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    shown: dict[str, Any] = {
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
    ) as asked:
        try:
            info: dict[str, Any] = asked.info()
            (module,) = (m for m in asked.module_list() if m["name"] == "graph")
            graphs = asked.execute_command("GRAPH.LIST")
        except redis.RedisError:
            return shown
    return shown | {
        "answers": True,
        "falkordb_version": _dotted(module["ver"]),
        "redis_version": info["redis_version"],
        "uptime_seconds": info["uptime_in_seconds"],
        "memory_mb": round(info["used_memory"] / 1e6, 1),
        "graphs": sorted(graphs),
    }


def _dotted(version: int) -> str:
    """Write a module's version as people do: 41603 is 4.16.3."""
    return f"{version // 10_000}.{version // 100 % 100}.{version % 100}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)
