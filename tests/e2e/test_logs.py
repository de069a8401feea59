"""What `zapomni serve` writes to its log, on both engines: whole, and never a word of text."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from serving import kill, serving
from zapomni_db.falkordb.server import start_server, stop_server

pytestmark = pytest.mark.anyio

CANARY = "xylophonic"
"""In everything a user gives: no line may have it."""
TEXT = f"The {CANARY} code is under the mat."
QUERY = f"{CANARY} code"


class Log(NamedTuple):
    """What one server wrote while it was used, and to its end."""

    engine: str
    memory_id: str
    lines: list[dict[str, Any]]
    written: str
    folder: Path


@pytest.fixture(scope="module")
def logs() -> dict[tuple[str, str], Log]:
    return {}


@pytest.fixture(params=["sqlite", "falkordb"])
async def get_log(request, logs, tmp_path, falkordb_server):
    """Return what a server on each engine wrote at a level: one session serves several tests."""
    engine = request.param
    given = {"ZAPOMNI_EMBEDDER": "none"}
    if engine == "falkordb":
        given["ZAPOMNI_STORAGE"] = f"unix://{falkordb_server.socket}?graph={uuid.uuid4()}"

    async def get(level: str) -> Log:
        if (engine, level) not in logs:
            async with serving(tmp_path, ZAPOMNI_LOG_LEVEL=level, **given) as zapomni:
                memory_id = await use(zapomni)
                lines = zapomni.lines()
            written = zapomni.stderr.read_text(encoding="utf-8")
            logs[engine, level] = Log(engine, memory_id, lines, written, tmp_path)
        return logs[engine, level]

    return get


async def use(zapomni) -> str:
    """Add, search, change, fail and delete, all of it with the canary."""
    added = await zapomni.call(
        "add_memory",
        text=TEXT,
        project=f"{CANARY}-project",
        source=f"/home/{CANARY}/notes.md",
        tags=[CANARY],
        metadata={"author": f"{CANARY} author"},
    )
    memory_id = added["memory_id"]
    found = await zapomni.call("search_memory", query=QUERY, project=f"{CANARY}-project")
    assert [hit["memory_id"] for hit in found["results"]] == [memory_id]
    await zapomni.call("search_memory", query=f"{CANARY} nowhere else", tags=["none"])
    await zapomni.call("update_memory", memory_id=memory_id, text=f"No {CANARY} code.", pinned=True)
    await zapomni.refused("get_memory", memory_id=f"{CANARY}-unknown")
    await zapomni.refused("update_memory", memory_id=f"{CANARY}-unknown", text="x")
    await zapomni.refused("search_memory", query=CANARY, limit=0, mood=CANARY)
    await zapomni.call("delete_memory", memory_id=memory_id)
    return memory_id


def only(lines: list[dict], event: str) -> dict:
    (line,) = [line for line in lines if line["event"] == event]
    return line


async def test_every_add_search_update_and_delete_is_one_line(get_log):
    engine, memory_id, lines, *_ = await get_log("info")

    stored = only(lines, "memories_stored")
    assert (stored["engine"], stored["memory_ids"]) == (engine, [memory_id])
    assert (stored["chunks"], stored["retries"], stored["metadata_keys"]) == (1, 0, ["author"])
    added = only(lines, "memories_added")
    assert (added["count"], added["created"], added["text_chars"]) == (1, 1, len(TEXT))
    first, second = [line for line in lines if line["event"] == "memories_searched"]
    assert (first["count"], first["memory_ids"], first["query_chars"]) == (
        1,
        [memory_id],
        len(QUERY),
    )
    assert (second["count"], second["filters"]) == (0, ["tags"])
    changed = only(lines, "memory_updated")
    assert (changed["memory_id"], changed["fields"]) == (memory_id, ["pinned", "text"])
    deleted = only(lines, "memory_deleted")
    assert deleted["memory_id"] == memory_id
    for line in (stored, added, first, second, changed, deleted):
        assert line["level"] == "info"
        assert line["correlation_id"]
        assert line["duration_ms"] > 0
    # What the storage writes belongs to the operation that asked for it.
    assert stored["correlation_id"] == added["correlation_id"] != first["correlation_id"]
    assert not [line for line in lines if line["level"] == "debug"]


async def test_debug_adds_every_operation_of_the_database_and_every_tool(get_log):
    lines = (await get_log("debug")).lines

    added = only(lines, "memories_added")
    same = [line for line in lines if line["correlation_id"] == added["correlation_id"]]
    operations = [line for line in same if line["event"] == "database_operation"]
    assert operations
    for line in operations:
        assert line["operation"]
        assert (line["attempt"], line["level"]) == (1, "debug")
        assert line["duration_ms"] >= 0
    called = only(same, "tool_called")
    assert (called["tool"], "text" in called["arguments"]) == ("add_memory", True)


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_no_line_has_a_word_of_what_was_given(get_log, level):
    log = await get_log(level)
    assert "memory_deleted" in log.written
    assert CANARY not in log.written
    assert str(log.folder) not in log.written


async def test_a_failing_server_is_in_the_log_with_attempts_and_kinds_of_error(
    private_home, tmp_path
):
    server = start_server(private_home / "falkordb")
    try:
        given = {"ZAPOMNI_STORAGE": f"unix://{server.socket}?graph=g", "ZAPOMNI_EMBEDDER": "none"}
        async with serving(tmp_path, **given) as zapomni:
            await zapomni.call("get_stats")
            kill(server)
            refused = await zapomni.refused("add_memory", text=CANARY)
            lines = zapomni.lines()
    finally:
        stop_server(server.folder)

    # The server's own checks of its storage may fail meanwhile, under ids of their own.
    correlation_id = only(lines, "tool_failed")["correlation_id"]
    assert correlation_id in refused
    same = [line for line in lines if line["correlation_id"] == correlation_id]
    retries = [line for line in same if line["event"] == "database_retry"]
    assert [line["attempt"] for line in retries] == [1, 2, 3]
    for line in retries:
        assert line["error_type"] in (
            "FileNotFoundError",
            "ConnectionRefusedError",
            "ConnectionError",
        )
        assert line["operation"]
        assert line["max_attempts"] == 4
    failed = only(same, "database_operation_failed")
    assert (failed["attempt"], failed["error_code"]) == (4, "CONN_001")
    assert not [line for line in lines if line["event"] == "library_message"]


def test_the_storage_layer_alone_writes_to_the_standard_library(tmp_path):
    program = """
import asyncio, json, logging, sys
from pathlib import Path
records = []
class Keep(logging.Handler):
    def emit(self, record):
        records.append((record.name, record.levelname, record.getMessage(), record.fields))
logging.getLogger("zapomni_db").addHandler(Keep())
logging.getLogger("zapomni_db").setLevel("DEBUG")
from zapomni_db.sqlite.storage import SqliteStorage
async def main():
    async with SqliteStorage(Path(sys.argv[1])) as storage:
        await storage.count_pending(None)
asyncio.run(main())
assert "structlog" not in sys.modules and "zapomni_core" not in sys.modules
print(json.dumps(records[-1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "db")], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    name, level, event, fields = json.loads(done.stdout)
    assert (name, level, event) == ("zapomni_db.sqlite.file", "DEBUG", "database_operation")
    assert fields["step"] == "count_pending"
