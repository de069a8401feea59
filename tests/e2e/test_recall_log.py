"""The recall log as users meet it: agents over MCP, hooks, commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import Implementation

from command import answer as run
from command import as_json, patient_hook, zapomni
from observation_rows import observe, open_database
from serving import PATIENCE
from sharing import end_shared_processes
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import SearchRequest
from zapomni_core.settings import load_settings
from zapomni_db.sqlite.recalls import Recall, feedback, open_log, record_recall

pytestmark = pytest.mark.anyio

# Synthetic, of the shape of a token.
TOKEN = "ghp_" + "abcdEFGH1234" * 3
WORD = "quagmirewombat"


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def add(text: str, *options: str) -> str:
    return run("add", text, *options).strip()


def send(folder: Path, event: str, session: str = "s1", **fields: str) -> None:
    payload = {"session_id": session, "cwd": str(folder), "hook_event_name": event, **fields}
    done = subprocess.run(
        patient_hook("claude-code"),
        input=json.dumps(payload).encode(),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def give(
    home: Path, *items: str, session: str = "s1", kind: str = "memory", query: str = ""
) -> None:
    home.mkdir(mode=0o700, exist_ok=True)
    rows = [(item, kind, 10, 0.9) for item in items]
    how = "prompt" if query else "session_start"
    recall = Recall(time.time(), "claude-code", session, "", how, query, rows)
    assert record_recall(str(home), recall, lambda text: (text, 0))


@asynccontextmanager
async def agent(folder: Path, client_name: str = "claude-code") -> AsyncIterator[Client]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "zapomni_cli", "serve"],
        env=dict(os.environ),
        cwd=folder,
    )
    name = Implementation(name=client_name, version="1.0.0")
    async with Client(server, mode="legacy", client_info=name) as client:
        yield client


async def logged(count: int, *options: str) -> list[dict[str, Any]]:
    """Return the recalls once there are so many: they are written after the answer."""
    with anyio.fail_after(PATIENCE):
        while len(found := as_json("recalls", *options)) < count:  # noqa: ASYNC110
            await anyio.sleep(0.1)
    return found


def test_a_search_on_the_command_line_is_logged_and_what_is_opened_counts(private_home):
    deploy, port = add("We deploy on Tuesdays."), add("The port for deploys is 443.")
    zapomni("search", "deploy", TOKEN)
    run("get", port)

    opened, asked = as_json("recalls")

    assert (asked["how"], asked["client"], asked["query"][:9]) == (
        "command",
        "zapomni",
        "deploy [R",
    )
    assert {item["id"] for item in asked["items"]} == {deploy, port}
    assert {item["id"]: item["used_how"] for item in asked["items"]} == {
        deploy: None,
        port: "opened",
    }
    assert asked["tokens"] == sum(item["tokens"] for item in asked["items"]) > 0
    assert [item["id"] for item in opened["items"]] == [port]
    assert TOKEN.encode() not in (private_home / "recalls.db").read_bytes()

    stats = as_json("stats")["recalls"]
    assert (stats["recalls"], stats["items"], stats["used"]) == (2, 3, 1)
    assert [day["recalls"] for day in stats["by_day"]] == [2]


async def test_what_agents_are_given_by_tools_is_logged_with_their_name(private_home):
    async with agent(private_home.parent) as client:
        added = await client.call_tool("add_memory", {"text": "We deploy on Tuesdays."})
        memory_id = added.structured_content["memory_id"]
        found = await client.call_tool("search_memory", {"query": "when do we deploy"})
        assert found.structured_content["results"][0]["memory_id"] == memory_id
        await client.call_tool("get_memory", {"memory_id": memory_id})
        await client.call_tool("search", {"query": "nothing"})
        opened, asked = await logged(2)

    assert (asked["how"], asked["query"]) == ("tool", "when do we deploy")
    assert asked["client"] == opened["client"] == "claude-code"
    assert asked["project_key"] == str(private_home.parent)
    assert [(item["id"], item["used_how"]) for item in asked["items"]] == [(memory_id, "opened")]
    assert asked["tokens"] > 5
    assert asked["items"][0]["evidence"] == found.structured_content["results"][0]["evidence"] > 0


async def test_memories_in_the_servers_instructions_are_logged(private_home):
    memory_id = add("We deploy on Tuesdays.", "--pin", "--global")
    async with agent(private_home.parent, "some-desktop"):
        (given,) = await logged(1)
    assert (given["how"], given["client"]) == ("session_start", "some-desktop")
    assert [item["id"] for item in given["items"]] == [memory_id]


async def test_observations_opened_by_an_agent_count(private_home):
    with closing(open_database(private_home / "zapomni.db")) as db:
        project = str(private_home.parent)
        ids = [observe(db, "command", f"make wheel {n}", project=project) for n in "ab"]
    async with agent(private_home.parent) as client:
        await client.call_tool("search", {"query": "wheel"})
        await client.call_tool("get_observations", {"ids": ids[:1]})
        await client.call_tool("timeline", {"anchor": ids[1]})
        asked = (await logged(3, "--how", "tool"))[-1]
    assert {item["id"]: item["used_how"] for item in asked["items"]} == {
        str(ids[0]): "opened",
        str(ids[1]): "opened",
    }


def test_an_agents_answer_that_cites_or_names_an_item_counts(private_home):
    cited, named, silent = (
        add("The queue is Redis."),
        add("Deploys of the shop run on Tuesdays at noon, never on Fridays."),
        add("Invoices are numbered by the accounting service, without gaps."),
    )
    with closing(open_database(private_home / "zapomni.db")) as db:
        observed = observe(db, "command", "make release-wheel", session_id="other")
    give(private_home, cited, named, silent)
    give(private_home, str(observed), kind="observation")
    give(private_home, cited, session="s2")
    said = (
        f"As noted in {cited[:8]}, it is Redis (see #{observed}). "
        "Remember: deploys of the shop run on tuesdays."
    )

    send(private_home.parent, "Stop", last_assistant_message=said)

    used = {
        (row["session"], item["id"]): item["used_how"]
        for row in as_json("recalls")
        for item in row["items"]
    }
    assert used == {
        ("s1", cited): "cited",
        ("s1", named): "named",
        ("s1", silent): None,
        ("s1", str(observed)): "cited",
        ("s2", cited): None,
    }


async def test_what_tools_gave_is_counted_for_the_session_that_answers(private_home):
    memory_id = add("The queue is Redis, in cluster mode.")
    async with agent(private_home.parent) as client:
        await client.call_tool("search_memory", {"query": "queue"})
        (before,) = await logged(1, "--how", "tool")
    send(private_home.parent, "Stop", last_assistant_message="The queue is Redis, in cluster mode.")
    (after,) = as_json("recalls", "--session", "s1")
    assert (before["session"], after["id"]) == ("", before["id"])
    assert [(item["id"], item["used_how"]) for item in after["items"]] == [(memory_id, "named")]
    assert as_json("stats")["recalls"]["by_session"][0]["session"] == "s1"
    assert f"claude-code s1\t{after['tokens']} in 1" in run("stats")


def test_recalls_are_filtered(private_home):
    for number in range(3):
        query = f"question {number}" if number else ""
        give(private_home, f"m{number}", session=f"s{number}", query=query)
    assert [row["session"] for row in as_json("recalls", "--session", "s1")] == ["s1"]
    assert [row["how"] for row in as_json("recalls", "--how", "session_start")] == ["session_start"]
    assert [row["query"] for row in as_json("recalls", "--item", "m2")] == ["question 2"]
    assert len(as_json("recalls", "--limit", "2")) == 2
    assert as_json("recalls", "--used") == []
    assert len(as_json("recalls", "--unused", "--since", "1h")) == 3
    assert as_json("recalls", "--until", "1h") == []
    assert zapomni("recalls", "--how", "dream").returncode == 2
    assert run("recalls", "--item", "m1").split("\t")[-1] == "question 1\n"


def test_nothing_recalled_yet_says_what_to_do(private_home):
    done = zapomni("recalls")
    assert done.returncode == 0
    assert b"Nothing was recalled yet" in done.stderr
    assert as_json("stats")["recalls"]["recalls"] == 0


def test_a_purge_leaves_no_byte_of_a_question_and_no_recall_of_what_is_purged(private_home):
    kept, gone = add("We deploy on Tuesdays."), add("The port is 443.")
    give(private_home, kept, query=f"where is the {WORD}")
    give(private_home, gone, session="s2", query="which port")
    give(private_home, kept, session="s3", query="in session three")
    assert WORD.encode() in (private_home / "recalls.db").read_bytes() + _log(private_home)

    assert as_json("purge", "--search", WORD, "--yes")["recalls"] == 1
    files = [path for path in private_home.rglob("*") if path.is_file()]
    assert WORD.encode() not in b"".join(path.read_bytes() for path in files)
    assert as_json("purge", "--in", "memories", "--id", gone, "--yes")["recalls"] == 1
    assert [row["session"] for row in as_json("recalls")] == ["s3"]
    done = zapomni("purge", "--session", "s3", "--yes")
    assert b"Purged 1 recall in the recall log." in done.stdout
    assert as_json("recalls") == []


def test_a_project_is_purged_from_the_log_by_its_name(private_home):
    with closing(open_database(private_home / "zapomni.db")) as db:
        observe(db, "command", "make wheel", project="github.com/acme/shop")
    for project in ("github.com/acme/shop", "github.com/acme/till"):
        items = [("m1", "memory", 1, None)]
        recall = Recall(time.time(), "codex", "s1", project, "prompt", "q", items)
        record_recall(str(private_home), recall, lambda text: (text, 0))
    assert as_json("recalls", "--project", "shop")[0]["project"] == "shop"
    assert as_json("purge", "--project", "shop", "--yes")["recalls"] == 1
    assert [row["project_key"] for row in as_json("recalls")] == ["github.com/acme/till"]


def test_the_hook_at_a_sessions_end_deletes_what_is_past_its_retention(private_home):
    old = Recall(1_700_000_000, "codex", "s0", "", "prompt", "q", [("m1", "memory", 1, None)])
    send(private_home.parent, "UserPromptSubmit", prompt="Build the wheel")
    record_recall(str(private_home), old, lambda text: (text, 0))
    assert [row["session"] for row in as_json("recalls", "--session", "s0")] == ["s0"]
    send(private_home.parent, "SessionEnd", reason="exit")
    assert as_json("recalls", "--session", "s0") == []


async def test_the_process_that_agents_share_masks_the_secrets_of_each(private_home, monkeypatch):
    add("We deploy on Tuesdays.")
    secret = "plainwords" + "7Qx" * 6  # Only the name of the variable says that it is one.
    monkeypatch.setenv("ZAPOMNI_SHARE", "true")
    try:
        async with agent(private_home.parent):  # Starts the process, and knows no secret.
            monkeypatch.setenv("ACME_API_KEY", secret)
            async with agent(private_home.parent) as client:
                await client.call_tool("search_memory", {"query": f"deploy {secret}"})
                (asked,) = await logged(1, "--how", "tool")
    finally:
        end_shared_processes()
    assert secret not in asked["query"]
    assert asked["query"].startswith("deploy [")


def _log(home: Path) -> bytes:
    log = home / "recalls.db-wal"
    return log.read_bytes() if log.exists() else b""


def test_what_is_past_its_retention_is_deleted(private_home, monkeypatch):
    add("We deploy on Tuesdays.")
    old = Recall(1_700_000_000, "codex", "s1", "", "prompt", "q", [("m1", "memory", 1, None)])
    record_recall(str(private_home), old, lambda text: (text, 0))
    monkeypatch.setenv("ZAPOMNI_RECALL_RETENTION_DAYS", "0")
    assert as_json("purge", "--expired", "--yes")["recalls"] == 0
    monkeypatch.delenv("ZAPOMNI_RECALL_RETENTION_DAYS")
    assert as_json("purge", "--expired", "--yes")["recalls"] == 1


def test_a_log_that_is_busy_or_read_only_neither_slows_nor_stops_a_search(private_home):
    memory_id = add("We deploy on Tuesdays.")
    give(private_home, memory_id)
    with closing(open_log(str(private_home))) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert [hit["memory_id"] for hit in as_json("search", "deploy")["results"]] == [memory_id]
    (private_home / "recalls.db").unlink()
    (private_home / "recalls.db").mkdir()
    assert [hit["memory_id"] for hit in as_json("search", "deploy")["results"]] == [memory_id]
    assert feedback(str(private_home), [memory_id]) == {}


def test_bench_asks_the_questions_whose_answers_were_used(private_home):
    used = add("The release train leaves on Tuesdays, after the smoke tests.")
    add("Friday deploys are forbidden since the outage in March.")
    zapomni("search", "release train")
    zapomni("search", "forbidden deploys")
    run("get", used)

    found = as_json("bench", "--recalls")

    assert (found["questions"], found["recall_at_1"]) == (1, 1.0)
    assert found["by_origin"]["command"]["questions"] == 1
    assert b"recall@1" in zapomni("bench", "--recalls").stdout


def test_bench_says_when_no_answer_was_used_yet(private_home):
    add("We deploy on Tuesdays.")
    zapomni("search", "deploy")
    done = zapomni("bench", "--recalls")
    assert done.returncode == 0
    assert b"No question" in done.stderr


async def test_recalls_are_logged_on_this_machine_when_memories_are_on_a_server(
    falkordb_server, falkordb_graph, private_home, monkeypatch
):
    storage = f"unix://{falkordb_server.socket}?graph={falkordb_graph}"
    monkeypatch.setenv("ZAPOMNI_STORAGE", storage)
    memory_id = add(f"The {WORD} lives in the river.")
    async with await create_engine(load_settings()) as engine:
        request = SearchRequest(query="river", within="memories")
        first = await engine.search_memory(request)
        send(private_home.parent, "UserPromptSubmit", prompt="Where is the river?")
        assert await engine.search_memory(request) is first

    zapomni("search", WORD, "river")
    run("get", memory_id)
    asked = as_json("recalls")[-1]
    assert [(item["id"], item["used_how"]) for item in asked["items"]] == [(memory_id, "opened")]
    assert as_json("bench", "--recalls")["recall_at_1"] == 1.0

    zapomni("forget", memory_id, "--yes")
    assert as_json("purge", "--search", WORD, "--yes")["recalls"] == 1
    assert WORD.encode() not in (private_home / "recalls.db").read_bytes() + _log(private_home)
