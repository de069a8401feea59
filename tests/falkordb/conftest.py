"""A client of one's own graph, a server to hurt, and a way to it that can be cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import redis
from proxy import Proxy, proxy_to

from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.falkordb.server import LocalServer, start_server, stop_server


@pytest.fixture
async def client(anyio_backend, falkordb_server, falkordb_graph) -> AsyncIterator[FalkorDBClient]:
    async with FalkorDBClient(
        unix_socket=str(falkordb_server.socket), graph_name=falkordb_graph
    ) as opened:
        yield opened


@pytest.fixture
def admin(falkordb_server) -> Iterator[redis.Redis]:
    """Whoever runs the server everybody uses."""
    with redis.Redis(
        unix_socket_path=str(falkordb_server.socket), decode_responses=True
    ) as connection:
        yield connection


@pytest.fixture
def own_server(tmp_path) -> Iterator[LocalServer]:
    """A server to be changed and hurt."""
    folder = tmp_path / "server"
    try:
        yield start_server(folder)
    finally:
        stop_server(folder)


@pytest.fixture
def own_admin(own_server) -> Iterator[redis.Redis]:
    with redis.Redis(unix_socket_path=str(own_server.socket), decode_responses=True) as connection:
        yield connection


@pytest.fixture
async def proxy(anyio_backend, falkordb_server, tmp_path) -> AsyncIterator[Proxy]:
    async with proxy_to(falkordb_server.socket, tmp_path) as running:
        yield running


@pytest.fixture
def events(monkeypatch) -> list[tuple[str, dict]]:
    """Every log event of the storage layer, with its fields."""
    written: list[tuple[str, dict]] = []
    sink = lambda level, logger, event, fields: written.append((event, fields))  # noqa: E731
    monkeypatch.setattr("zapomni_db.logs._sink", sink)
    monkeypatch.setattr("zapomni_db.logs._threshold", 0)
    return written


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """Do not wait between attempts; return how long it would have been."""
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("zapomni_db.falkordb.connection.pause", note)
    return waited


@pytest.fixture
def count_memories(admin, falkordb_graph) -> Callable[[], int]:
    """Count without the client that is being tested."""

    def count() -> int:
        answer = admin.execute_command(
            "GRAPH.RO_QUERY", falkordb_graph, "MATCH (n) WHERE n:Memory OR n:Chunk RETURN count(n)"
        )
        return answer[1][0][0]

    return count
