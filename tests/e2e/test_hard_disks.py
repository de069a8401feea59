"""A disk that is full or cannot be written to: searches work, writes say what is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

import transcripts
from command import answer, as_json, refused
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_core.settings import load_settings

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_model")]


@pytest.fixture
def disk(tmp_path, monkeypatch) -> Iterator[Path]:
    """A small disk in memory with the home folder on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder))
    monkeypatch.setenv("ZAPOMNI_HOME", str(folder / "home"))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=300)


def mount(*args: str) -> None:
    try:
        done = subprocess.run(["mount", *args], capture_output=True, check=False, timeout=300)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip("mounting a disk takes root")


def remount(folder: Path, mode: str) -> None:
    mount("-o", f"remount,{mode}", str(folder))


def fill(folder: Path) -> Path:
    """Write until nothing more goes on the disk."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            with pytest.raises(OSError, match="No space left"):
                while True:
                    file.write(b"\0" * size)
    return filler


def found(*options: str) -> list[str]:
    return [hit["text"] for hit in as_json("search", "zebra", *options)["results"]]


@asynccontextmanager
async def serve():
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "zapomni_cli", "serve"], env=dict(os.environ)
    )
    async with Client(server) as client:
        yield client


async def test_a_read_only_disk_is_searched_and_read_and_writes_are_refused(disk):
    stored = answer("add", "The zebra is on this disk.").strip()
    event = b'{"session_id": "s", "cwd": "/x", "hook_event_name": "UserPromptSubmit", '
    answer("record", given=event + b'"prompt_id": "p", "prompt": "where is the zebra"}')
    # As a home has it that was copied by hand: now it cannot be closed to others.
    (disk / "home").chmod(0o755)
    (disk / "home" / "zapomni.db").chmod(0o644)
    remount(disk, "ro")

    answer("status")
    assert set(found("--all")) == {"The zebra is on this disk.", "where is the zebra"}
    assert as_json("get", stored)["text"] == "The zebra is on this disk."
    assert as_json("list")["items"][0]["memory_id"] == stored
    assert as_json("stats")["total_memories"] == 1
    assert "CONN_003" in refused(1, "add", "More.")
    async with serve() as client:
        result = await client.call_tool("search_memory", {"query": "zebra"})
        assert not result.is_error, result.content
        assert "The zebra is on this disk." in result.content[0].text
        refusal = await client.call_tool("add_memory", {"text": "More."})
        assert refusal.is_error
        assert "CONN_003" in refusal.content[0].text
        remount(disk, "rw")
        accepted = await client.call_tool("add_memory", {"text": "More."})
        assert not accepted.is_error, accepted.content


# Stores a memory, says so, and waits to be killed with its log on the disk.
CRASH = """
import asyncio, sys
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_core.settings import load_settings
async def work():
    engine = await create_engine(load_settings())
    await engine.add_memory(AddMemoryRequest(text="The zebra in the log."))
    print("stored", flush=True)
    await asyncio.sleep(600)
asyncio.run(work())
"""


def leave_a_log(disk: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", CRASH], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"stored\n"
        os.kill(process.pid, signal.SIGKILL)
    assert (disk / "home" / "zapomni.db-wal").stat().st_size > 0


def test_what_a_killed_process_left_in_the_log_is_found_on_a_read_only_disk(disk):
    leave_a_log(disk)
    remount(disk, "ro")

    assert found() == ["The zebra in the log."]


def test_a_log_that_cannot_be_read_is_an_error_and_not_an_older_answer(disk):
    leave_a_log(disk)
    (disk / "home" / "zapomni.db-shm").unlink()
    remount(disk, "ro")

    assert "CONN_003" in refused(1, "search", "zebra")


async def test_a_full_disk_is_called_one_and_nothing_is_lost(disk):
    first = answer("add", "The zebra came first.").strip()
    async with serve() as client:
        filler = fill(disk)
        refusal = await client.call_tool("add_memory", {"text": "Too much. " * 5000})
        assert refusal.is_error
        assert "disk" in refusal.content[0].text
        assert "DB_002" in refusal.content[0].text
        result = await client.call_tool("search_memory", {"query": "zebra"})
        assert first in {hit["memory_id"] for hit in result.structured_content["results"]}
        filler.unlink()
        accepted = await client.call_tool("add_memory", {"text": "The zebra came last."})
        assert not accepted.is_error, accepted.content
    assert set(found()) == {"The zebra came first.", "The zebra came last."}
    async with await create_engine(load_settings(embedder="none")) as engine:
        assert await engine.storage.check_integrity() == {}


def test_commands_work_on_a_full_disk_as_far_as_they_can(disk):
    stored = answer("add", "The zebra came first.").strip()
    fill(disk)

    assert found() == ["The zebra came first."]
    assert as_json("get", stored)["text"] == "The zebra came first."
    told = refused(1, "add", "Too much. " * 5000)
    assert "The disk" in told
    assert "full" in told
    assert "Free some space" in told
    assert "DB_002" in told
    assert "DB_002" in refused(1, "index", str(Path(__file__).parent))
    assert "DB_002" in refused(1, "backup")
    answer("status")


def test_an_import_that_fills_the_disk_continues_when_there_is_room(disk, tmp_path):
    folder = tmp_path / "transcripts"
    for number in range(8):
        session = f"{number}1111111-1111-4111-8111-111111111111"
        transcripts.long_session(150, session).write(folder / f"{session}.jsonl")
    given = ("import", "claude-code", "--path", str(folder), "--yes")
    assert "full" in refused(1, *given)
    remount(disk, "size=60m")
    report = as_json(*given)
    # One report of both parts; nothing is missing, nothing is there twice.
    assert report["observations"] == 8 * (150 * 3 + 2)
    assert (
        sum(one["observations"] for one in as_json("sessions", "--all")) == report["observations"]
    )
    assert len(as_json("import", "--batches")) == 1


def test_an_export_that_fills_the_disk_is_imported_whole_and_verbatim_when_there_is_room(
    disk, tmp_path, monkeypatch
):
    entities = tmp_path / "memory.jsonl"
    entities.write_text(
        "".join(
            json.dumps(
                {"type": "entity", "name": f"E{number}", "entityType": "t",
                 "observations": [f"zebra {number} " + "lorem ipsum dolor " * 300]}
            ) + "\n"
            for number in range(450)
        ),
        "utf-8",
    )  # fmt: skip
    with monkeypatch.context() as other:
        other.setenv("ZAPOMNI_HOME", str(tmp_path / "first"))
        as_json("import", "mcp-memory", "--path", str(entities), "--yes")
        assert "full" in refused(1, "export", str(disk / "out"))
        assert all(json.loads(path.read_bytes()) for path in (disk / "out").rglob("*.json"))
        remount(disk, "size=60m")
        answer("export", str(disk / "out"))
        shutil.move(disk / "out", tmp_path / "out")
        remount(disk, "size=3m")
    assert "full" in refused(1, "import", str(tmp_path / "out"), "--yes")
    remount(disk, "size=60m")
    report = as_json("import", str(tmp_path / "out"), "--yes")
    assert 0 < report["added"] < 450, "some were stored before the disk was full"
    answer("export", str(disk / "again"))
    exported, again = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.json")}
        for folder in (tmp_path / "out", disk / "again")
    )
    assert again == exported
    assert as_json("import", "--undo", report["batch"], "--yes")["memories"] == 450
    assert as_json("list")["items"] == []


def test_a_first_start_on_a_full_disk_says_so(disk):
    fill(disk)

    assert "DB_002" in refused(1, "add", "The zebra came first.")


async def test_a_file_read_without_locks_is_opened_again_when_it_was_written_to(disk):
    settings = load_settings(embedder="none")
    async with await create_engine(settings) as engine:
        await engine.add_memory(AddMemoryRequest(text="The zebra came first."))
    remount(disk, "ro")
    async with await create_engine(settings) as reader:
        before = await reader.get_stats()
        remount(disk, "rw")
        await asyncio.to_thread(answer, "add", "The zebra came last.")
        remount(disk, "ro")
        after = await reader.get_stats()
    assert (before["total_memories"], after["total_memories"]) == (1, 2)
