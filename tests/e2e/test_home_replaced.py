"""The home folder is removed or replaced while Zapomni runs: no write is lost unnoticed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from builders import memory, vector
from command import answer, as_json, patient_hook, refused
from zapomni_core.exceptions import DatabaseError
from zapomni_db.models import TextSearchRequest, VectorSearchRequest
from zapomni_db.sqlite.storage import SqliteStorage
from zapomni_db.sqlite.tasks import SqliteTasks

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serve():
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "zapomni_cli", "serve"],
        env={**os.environ, "ZAPOMNI_EMBEDDER": "none"},
    )
    async with Client(server) as client:
        yield client


async def add_by(client: Client, text: str) -> str:
    result = await client.call_tool("add_memory", {"text": text})
    assert not result.is_error, result.content
    return result.structured_content["memory_id"]


async def found_by(client: Client, query: str) -> set[str]:
    result = await client.call_tool("search_memory", {"query": query})
    assert not result.is_error, result.content
    return {hit["memory_id"] for hit in result.structured_content["results"]}


async def test_a_server_whose_home_was_removed_stores_into_a_new_one(private_home, no_model):
    async with serve() as client:
        lost = await add_by(client, "The zebra of the old home.")
        assert await found_by(client, "zebra") == {lost}
        shutil.rmtree(private_home)

        stored = await add_by(client, "The zebra of the new home.")

        assert await found_by(client, "zebra") == {stored}
        assert as_json("get", stored)["text"] == "The zebra of the new home."
        refused(3, "get", lost)
        tasks = await client.call_tool("build_graph", {})
        assert not tasks.is_error, tasks.content


async def test_a_server_whose_home_was_replaced_writes_to_the_one_that_is_there(
    private_home, tmp_path, no_model, monkeypatch
):
    another = tmp_path / "another"
    monkeypatch.setenv("ZAPOMNI_HOME", str(another))
    there = answer("add", "The zebra of another home.").strip()
    monkeypatch.setenv("ZAPOMNI_HOME", str(private_home))
    async with serve() as client:
        before = await add_by(client, "The zebra of the old home.")
        private_home.rename(tmp_path / "away")
        another.rename(private_home)

        stored = await add_by(client, "The zebra that came later.")

        assert await found_by(client, "zebra") == {there, stored}
    assert as_json("get", stored)["text"] == "The zebra that came later."
    monkeypatch.setenv("ZAPOMNI_HOME", str(tmp_path / "away"))
    assert as_json("get", before)["text"] == "The zebra of the old home."
    refused(3, "get", stored)


async def test_a_server_whose_home_cannot_be_made_again_says_so(private_home, no_model):
    async with serve() as client:
        await add_by(client, "The zebra of the old home.")
        shutil.rmtree(private_home)
        private_home.write_text("a file where the folder was", encoding="utf-8")

        result = await client.call_tool("add_memory", {"text": "Into nowhere?"})

        assert result.is_error
        assert "CONN_00" in result.content[0].text
        private_home.unlink()
        assert as_json("get", await add_by(client, "Again."))["text"] == "Again."


async def test_a_write_whose_file_goes_away_before_its_answer_is_written_again(tmp_path):
    home = tmp_path / "home"

    class Doomed(SqliteStorage):
        """The real store; the first write loses its folder before it is committed."""

        lost = False

        def _connection(self):
            opened = super()._connection()
            opened.set_trace_callback(self._on_statement)
            return opened

        def _on_statement(self, statement: str) -> None:
            if statement == "COMMIT" and not self.lost and home.exists():
                self.lost = True
                shutil.rmtree(home)

    async with SqliteStorage(home / "zapomni.db") as made:
        await made.store_memory(memory("before"))
    async with Doomed(home / "zapomni.db") as storage:
        stored = await storage.store_memory(memory("kept"))
        assert storage.lost
    async with SqliteStorage(home / "zapomni.db") as read:
        found = await read.get_memory(stored)
        assert found is not None
        assert found.text == "kept"


async def test_the_vectors_of_the_old_file_are_not_searched_in_the_new_one(tmp_path):
    near = VectorSearchRequest(query_embedding=vector(1.0), min_similarity=-1.0)
    async with SqliteStorage(tmp_path / "new" / "zapomni.db") as other:
        await other.store_memory(memory("of the new file", vector(0.0, 1.0)))
    async with SqliteStorage(tmp_path / "old" / "zapomni.db") as storage:
        await storage.store_memory(memory("of the old file", vector(1.0)))
        assert [hit.text for hit in await storage.vector_search(near)] == ["of the old file"]
        version = await storage.get_version()
        (tmp_path / "old").rename(tmp_path / "away")
        (tmp_path / "new").rename(tmp_path / "old")

        assert [hit.text for hit in await storage.vector_search(near)] == ["of the new file"]
        (hit,) = await storage.bm25_search(TextSearchRequest(terms=["file"]))
        assert hit.text == "of the new file"
        assert await storage.get_version() != version


async def test_tasks_are_queued_in_the_file_that_is_there(tmp_path):
    tasks = SqliteTasks(tmp_path / "home" / "zapomni.db")
    await tasks.submit("old", {})
    shutil.rmtree(tmp_path / "home")

    task_id = await tasks.submit("new", {})
    await tasks.close()

    again = SqliteTasks(tmp_path / "home" / "zapomni.db")
    assert [task.task_id for task in await again.list_tasks(None, 10)] == [task_id]
    await again.close()


# The hook as hosts run it; just before it commits, the home folder is removed.
DOOMED_HOOK = """
import _sqlite3, os, shutil, sys
connect = _sqlite3.connect
def remove(statement):
    if statement == "COMMIT":
        shutil.rmtree(os.environ["ZAPOMNI_HOME"], ignore_errors=True)
def watched(*args, **kwargs):
    opened = connect(*args, **kwargs)
    if os.environ["ZAPOMNI_HOME"] in str((args, kwargs)):  # not what measures coverage
        opened.set_trace_callback(remove)
    return opened
_sqlite3.connect = watched
from zapomni_cli import record
sys.exit(record.main([]))
"""


def test_a_hook_whose_home_is_removed_leaves_its_event_for_the_next_one(private_home):
    def record(prompt: str, *command: str) -> None:
        event = {
            "session_id": "s", "cwd": "/nowhere/app", "hook_event_name": "UserPromptSubmit",
            "prompt_id": prompt, "prompt": prompt,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, *command], input=json.dumps(event).encode(), capture_output=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")

    record("the first prompt", *patient_hook()[1:])
    record("the prompt into nowhere", "-c", DOOMED_HOOK)
    record("the last prompt", *patient_hook()[1:])

    with closing(sqlite3.connect(private_home / "zapomni.db")) as connection:
        found = connection.execute("SELECT content FROM observations ORDER BY id").fetchall()
    assert found == [("the prompt into nowhere",), ("the last prompt",)]


async def test_a_home_replaced_again_and_again_is_an_error_and_no_loop(tmp_path):
    home = tmp_path / "home"

    class Cursed(SqliteStorage):
        def _connection(self):
            opened = super()._connection()
            opened.set_trace_callback(
                lambda statement: shutil.rmtree(home) if statement == "COMMIT" else None
            )
            return opened

    storage = Cursed(Path(home / "zapomni.db"))
    await storage.connect()
    with pytest.raises(DatabaseError) as raised:
        await storage.store_memory(memory("kept?"))
    assert raised.value.error_code == "CONN_008"
    await storage.close()
