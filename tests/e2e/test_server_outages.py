"""A FalkorDB server that dies, comes back, or is something else."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from command import refused
from serving import kill, serving
from zapomni_db.exceptions import DatabaseConnectionError
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.falkordb.server import start_server, stop_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def own_server(private_home):
    folder = private_home / "falkordb"
    try:
        yield start_server(folder)
    finally:
        stop_server(folder)


def settings_for(server) -> dict[str, str]:
    return {
        "ZAPOMNI_STORAGE": f"unix://{server.socket}?graph=zapomni",
        "ZAPOMNI_EMBEDDER": "none",
        "ZAPOMNI_HEALTH_CHECK_SECONDS": "0.5",
    }


# --- dead, and back ---------------------------------------------------------------------


async def test_a_dead_server_costs_its_seconds_twice_and_then_nothing(own_server, tmp_path):
    async with serving(tmp_path, **settings_for(own_server)) as zapomni:
        memory_id = (await zapomni.call("add_memory", text="still here"))["memory_id"]
        kill(own_server)
        for _ in range(2):
            assert "CONN_001" in await zapomni.refused("get_memory", memory_id=memory_id)
        assert zapomni.lines("circuit_breaker_opened")
        retries = len(zapomni.lines("database_retry"))

        for _ in range(10):
            assert "CONN_001" in await zapomni.refused("get_memory", memory_id=memory_id)

        # An open circuit makes no attempt: what waits is an attempt that is repeated.
        assert len(zapomni.lines("database_retry")) == retries


async def test_a_server_that_is_back_is_used_again_without_any_call_asking_for_it(
    own_server, tmp_path
):
    async with serving(tmp_path, **settings_for(own_server)) as zapomni:
        memory_id = (await zapomni.call("add_memory", text="still here"))["memory_id"]
        kill(own_server)
        await zapomni.until("circuit_breaker_opened")
        start_server(own_server.folder)
        await zapomni.until("circuit_breaker_closed_recovered")
        await zapomni.until("storage_answers_again")

        assert (await zapomni.call("get_memory", memory_id=memory_id))["text"] == "still here"


async def test_serving_begins_while_the_server_is_down(own_server, tmp_path):
    given = settings_for(own_server)
    kill(own_server)
    async with serving(tmp_path, **given) as zapomni:
        assert "CONN_001" in await zapomni.refused("get_stats")
        await zapomni.until("circuit_breaker_opened")
        start_server(own_server.folder)
        await zapomni.until("circuit_breaker_closed_recovered")

        assert (await zapomni.call("get_stats"))["engine"] == "falkordb"


# --- what is no FalkorDB ------------------------------------------------------------------


def talk_http(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def talk_ssh(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    connection.recv(65536)


def talk_tls(connection: socket.socket) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True):
        pass


def say_nothing(connection: socket.socket) -> None:
    connection.recv(65536)
    with suppress(OSError):
        while connection.recv(65536):
            pass


def redis_that_says_ok(connection: socket.socket) -> None:
    with suppress(OSError):
        while asked := connection.recv(65536):
            connection.sendall(b"+OK\r\n" * asked.count(b"*"))


@contextmanager
def impostor(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """Listen on a free port of this machine and answer as something else would."""
    listening = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                open_ones.append(connection)
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with suppress(OSError):
            talk(connection)
        with suppress(OSError):
            connection.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for connection in open_ones:
            connection.close()
        thread.join(180)


@pytest.mark.parametrize(
    ("talk", "tls", "code"),
    [
        (talk_http, False, "CONN_007"),
        (talk_http, True, "CONN_007"),
        (talk_ssh, False, "CONN_007"),
        (talk_tls, False, "CONN_001"),  # cut off, as by a server that dies: tried again
        (redis_that_says_ok, False, "CONN_007"),
        (redis_that_says_ok, True, "CONN_007"),
        (say_nothing, False, "CONN_002"),
    ],
)
async def test_what_is_no_falkordb_is_called_so_within_the_time_limit(talk, tls, code):
    with impostor(talk) as port:
        # What never answers takes the whole limit; the others answer on any machine.
        limit = 3 if talk is say_nothing else 60
        client = FalkorDBClient(
            host="127.0.0.1", port=port, ssl=tls, timeout=limit, max_retries=0, graph_name="g"
        )
        with pytest.raises(DatabaseConnectionError) as found:
            await client.connect()
    assert found.value.error_code == code
    assert "host and port" in found.value.message


def test_a_web_server_in_place_of_the_database_is_explained_to_the_user():
    with impostor(talk_http) as port:
        told = refused(1, "list", ZAPOMNI_STORAGE=f"falkordb://127.0.0.1:{port}/g")
    assert "CONN_007" in told
    assert "ZAPOMNI_STORAGE" in told
