"""Backups of memories that live on a FalkorDB server, together with the local file."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
import redis

from command import add, answer, as_json, patient_hook, refused
from zapomni_core.engine import create_engine
from zapomni_core.infra import encryption
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.settings import load_settings


@pytest.fixture
def on_server(falkordb_server, falkordb_graph, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    address = f"unix://{falkordb_server.socket}?graph={falkordb_graph}"
    monkeypatch.setenv("ZAPOMNI_STORAGE", address)
    return falkordb_server


def capture(home: Path, text: str) -> None:
    event = {"session_id": "s", "cwd": str(home.parent), "hook_event_name": "UserPromptSubmit"}
    done = subprocess.run(
        patient_hook("claude-code"),
        input=json.dumps({**event, "prompt": text}).encode(),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def ids() -> set[str]:
    return {memory["memory_id"] for memory in as_json("list")["items"]}


def test_memories_of_a_server_and_the_local_file_come_back_together(private_home, on_server):
    first = add("The first note names Ada and Postgres.", "--tag", "t")
    changed = add("Before")
    answer("update", changed, "--text", "After the change")
    capture(private_home, "A prompt")

    made = as_json("backup")
    assert made["server_tables"]["memories"] == 2
    assert made["server_tables"]["memory_history"] == 1
    assert (made["tables"]["memories"], made["tables"]["observations"]) == (0, 1)
    for name in ("path", "server_path"):
        assert Path(made[name]).stat().st_mode & 0o777 == 0o600

    async def story() -> None:
        async with await create_engine(load_settings()) as engine:
            await engine.add_memory(AddMemoryRequest(text="A second note names Ada."))
            await engine.delete_memory(first)
            found = await engine.search_memory(SearchRequest(query="Ada", within="memories"))
            assert first not in {hit.memory_id for hit in found.results}

            done = await asyncio.to_thread(as_json, "restore", made["path"], "--yes")
            assert done["server_tables"]["memories"] == 2
            assert done["problems"] == {}

            # A client that was connected all the time sees the restored memories.
            found = await engine.search_memory(SearchRequest(query="Ada", within="memories"))
            assert {hit.memory_id for hit in found.results} == {first}
            await engine.add_memory(AddMemoryRequest(text="Written after the restore."))

    capture(private_home, "Another prompt")
    asyncio.run(story())
    assert len(ids()) == 3
    assert as_json("status")["observations"]["total"] == 1
    assert len(as_json("history", changed)) == 2
    with redis.Redis(unix_socket_path=str(on_server.socket), decode_responses=True) as asked:
        assert not [name for name in asked.execute_command("GRAPH.LIST") if "restore" in name]
    # What was there before the restore can come back, too.
    before = [backup for backup in as_json("restore") if backup["reason"] == "before-restore"]
    assert as_json("restore", before[0]["path"], "--yes")["server_tables"]["memories"] == 2
    assert first not in ids()


def test_a_servers_backup_is_encrypted_whole_and_refused_where_there_is_no_server(
    private_home, on_server, monkeypatch
):
    monkeypatch.setattr(encryption, "LOG_N", 12)  # How long an attacker takes is not tested.
    first = add("The first note.")
    key = {"ZAPOMNI_BACKUP_PASSPHRASE": "four plain words"}
    made = as_json("backup", "--encrypt", **key)
    assert made["server_path"].endswith(".memories.db.enc")
    assert b"first note" not in Path(made["server_path"]).read_bytes()
    answer("forget", first, "--yes")
    wrong = {"ZAPOMNI_BACKUP_PASSPHRASE": "another passphrase"}
    assert "passphrase is wrong" in refused(2, "restore", made["path"], "--yes", **wrong)
    assert as_json("restore", made["path"], "--yes", **key)["server_tables"]["memories"] == 1
    assert ids() == {first}
    assert "without .memories" in refused(2, "restore", made["server_path"], "--yes", **key)
    monkeypatch.delenv("ZAPOMNI_STORAGE")
    assert "FalkorDB server" in refused(2, "restore", made["path"], "--yes", **key)
