"""Synthetic files of other programs, built from what is known of their formats.

Each builder writes what its program would have under a home folder, and returns the path that a
user would name. `SECRET` is in one record of every one of them.
"""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECRET = "gh" + "p_" + "Synthetic0Token1For2Tests3Only4Abcd5"
UTC_2026 = 1_777_630_000  # 2026-05-01
MS = UTC_2026 * 1000


@dataclass(frozen=True)
class Store:
    build: Callable[[Path], Path]
    memories: int
    observations: int
    phrases: tuple[str, ...]
    """Found by a search afterwards."""
    taken_back: tuple[str, ...] = ()
    """Records by their ids that a later one takes back: there, in a file that is cut before."""


def write_database(path: Path, script: str, rows: dict[str, Iterable[dict[str, Any]]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(script)
        for table, records in rows.items():
            for record in records:
                names = ", ".join(f'"{name}"' for name in record)
                marks = ", ".join("?" * len(record))
                values = [json.dumps(v) if isinstance(v, dict | list) else v
                          for v in record.values()]  # fmt: skip
                database.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', values)
        database.commit()
    return path


def write_lines(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
             for one in records]  # fmt: skip
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_text(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_zip(path: Path, files: dict[str, str | bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


# --- claude-mem ---------------------------------------------------------------------------

CLAUDE_MEM = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT UNIQUE NOT NULL,
  memory_session_id TEXT UNIQUE, project TEXT NOT NULL, platform_source TEXT DEFAULT 'claude',
  user_prompt TEXT, started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, status TEXT);
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
  project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT,
  narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT,
  project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT,
  next_steps TEXT, files_read TEXT, files_edited TEXT, notes TEXT, created_at TEXT,
  created_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY AUTOINCREMENT, session_db_id INTEGER,
  content_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL, prompt_text TEXT NOT NULL,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE pending_messages (id INTEGER PRIMARY KEY, tool_input TEXT);
"""


def _claude_mem_rows() -> dict[str, list[dict[str, Any]]]:
    def observation(number: int, kind: str, title: str, **more: Any) -> dict[str, Any]:
        return {
            "id": number, "memory_session_id": "m1", "project": "shop", "type": kind,
            "title": title, "created_at": "2026-05-01T10:00:00Z",
            "created_at_epoch": MS + number * 1000, **more,
        }  # fmt: skip

    return {
        "sdk_sessions": [
            {"id": 1, "content_session_id": "host-session-1", "memory_session_id": "m1",
             "project": "shop", "started_at": "2026-05-01T10:00:00Z", "started_at_epoch": MS,
             "status": "completed"},
        ],
        "observations": [
            observation(1, "decision", "Carts live in Redis", narrative="Postgres was too slow.",
                        facts=["TTL is one day", "Keys start with cart:"], concepts=["trade-off"],
                        files_modified=["src/cart.py"]),
            observation(2, "bugfix", "Checkout rounds half up", narrative=f"Found with {SECRET}.",
                        facts="not a JSON list", concepts="[broken"),
            observation(3, "discovery", "The search index is rebuilt nightly", text="By cron."),
            observation(4, "sensitive", "Salaries of the zebra team", narrative="Do not show."),
            observation(5, "change", ""),
        ],
        "session_summaries": [
            {"id": 1, "memory_session_id": "m1", "project": "shop", "request": "Faster carts",
             "learned": "Redis expires keys lazily", "created_at_epoch": MS + 9000},
        ],
        "user_prompts": [
            {"id": 1, "session_db_id": 1, "content_session_id": "host-session-1",
             "prompt_number": 1, "prompt_text": "Make the cart survive a restart of the shop",
             "created_at": "2026-05-01T10:00:00Z", "created_at_epoch": MS},
        ],
    }  # fmt: skip


def claude_mem(home: Path) -> Path:
    return write_database(home / ".claude-mem" / "claude-mem.db", CLAUDE_MEM, _claude_mem_rows())


def claude_mem_export(home: Path) -> Path:
    rows = _claude_mem_rows()
    document = {
        "exportedAt": "2026-05-02T00:00:00Z", "query": "", "totalObservations": 5,
        "observations": [{**one, "facts": json.dumps(one.get("facts"))
                          if isinstance(one.get("facts"), list) else one.get("facts")}
                         for one in rows["observations"]],
        "sessions": rows["sdk_sessions"], "summaries": rows["session_summaries"],
        "prompts": rows["user_prompts"],
    }  # fmt: skip
    return write_text(home / "exports" / "claude-mem.json", json.dumps(document, indent=2))


# --- mem0 and OpenMemory --------------------------------------------------------------------

MEM0 = """
CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT,
  event TEXT, created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT,
  role TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_scope TEXT, role TEXT, content TEXT,
  name TEXT, created_at DATETIME);
"""


def mem0(home: Path) -> Path:
    def change(number: int, memory: str, event: str, new: str | None, **more: Any) -> dict:
        return {"id": f"h{number}", "memory_id": memory, "event": event, "new_memory": new,
                "created_at": "2026-05-01T10:00:00+00:00", "is_deleted": 0, **more}  # fmt: skip

    return write_database(home / ".mem0" / "history.db", MEM0, {"history": [
        change(1, "m1", "ADD", "Drinks tea in the morning"),
        change(2, "m2", "ADD", "Keeps a zebra"),
        change(3, "m1", "UPDATE", "Drinks coffee in the morning", old_memory="Drinks tea",
               updated_at="2026-05-02T10:00:00+00:00"),
        change(4, "m2", "DELETE", None, is_deleted=1),
        change(5, "m3", "ADD", f"Deploys with the key {SECRET} from a laptop"),
    ]})  # fmt: skip


def mem0_export(home: Path) -> Path:
    return write_text(home / "exports" / "mem0.json", json.dumps({"results": [
        {"id": "7d9f1c1e-0000-4000-8000-000000000001", "memory": "Prefers pnpm over npm",
         "hash": "x", "metadata": {"project": "shop"}, "created_at": "2026-05-01T10:00:00-07:00",
         "updated_at": None, "user_id": "anna", "categories": ["tools"]},
        {"id": "7d9f1c1e-0000-4000-8000-000000000002",
         "memory": f"Stores {SECRET} in a vault", "created_at": "2026-05-01T10:00:00Z"},
        {"id": "7d9f1c1e-0000-4000-8000-000000000003", "memory": ""},
        "not a record",
    ]}))  # fmt: skip


OPENMEMORY = """
CREATE TABLE users (id CHAR(32) PRIMARY KEY, user_id VARCHAR NOT NULL, email VARCHAR);
CREATE TABLE apps (id CHAR(32) PRIMARY KEY, owner_id CHAR(32), name VARCHAR NOT NULL);
CREATE TABLE memories (id CHAR(32) PRIMARY KEY, user_id CHAR(32), app_id CHAR(32),
  content VARCHAR NOT NULL, vector VARCHAR, metadata JSON, state VARCHAR(8), created_at DATETIME,
  updated_at DATETIME, archived_at DATETIME, deleted_at DATETIME);
CREATE TABLE categories (id CHAR(32) PRIMARY KEY, name VARCHAR NOT NULL);
CREATE TABLE memory_categories (memory_id CHAR(32), category_id CHAR(32));
"""


def openmemory(home: Path) -> Path:
    def memory(number: int, content: str, state: str = "active") -> dict[str, Any]:
        return {"id": f"{number:032x}", "user_id": "u", "app_id": "a", "content": content,
                "vector": "[0.1]", "metadata": "{}", "state": state,
                "created_at": "2026-05-01 10:00:00.000000"}  # fmt: skip

    return write_database(home / "openmemory" / "openmemory.db", OPENMEMORY, {
        "users": [{"id": "u", "user_id": "anna", "email": "anna@example.org"}],
        "apps": [{"id": "a", "owner_id": "u", "name": "cursor"}],
        "memories": [memory(1, "Lint runs before every push"),
                     memory(2, f"The staging token is {SECRET}"),
                     memory(3, "Likes zebra stripes", "deleted")],
        "categories": [{"id": "c", "name": "workflow"}],
        "memory_categories": [{"memory_id": f"{1:032x}", "category_id": "c"}],
    })  # fmt: skip


def openmemory_backup(home: Path) -> Path:
    def memory(number: int, content: str, state: str = "active") -> dict[str, Any]:
        return {"id": f"7d9f1c1e-0000-4000-8000-00000000001{number}", "content": content,
                "metadata": {}, "created_at": "2026-05-01T10:00:00+00:00", "updated_at": None,
                "state": state, "app": "claude", "categories": ["release"]}  # fmt: skip

    records = [memory(1, "Releases are cut on Wednesdays"),
               memory(2, f"Publishing needs {SECRET}"),
               memory(3, "A zebra", "archived")]  # fmt: skip
    lines = "".join(json.dumps(one) + "\n" for one in records)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream:
        stream.write(lines.encode())
    return write_zip(home / "exports" / "memories_export_anna.zip", {
        "memories.json": json.dumps({"user": {"email": "x"}, "memories": records}, indent=2),
        "memories.jsonl.gz": packed.getvalue(),
    })  # fmt: skip


# --- the MCP reference server, mcp-memory-service, basic-memory --------------------------------


def mcp_memory(home: Path) -> Path:
    package = home / ".npm/_npx/0123abc/node_modules/@modelcontextprotocol/server-memory/dist"
    return write_lines(
        package / "memory.jsonl",
        {"type": "entity", "name": "Anna", "entityType": "person",
         "observations": ["prefers pnpm\u2028 in monorepos", f"owns the token {SECRET}"]},
        {"type": "entity", "name": "Anna", "entityType": "person",
         "observations": ["prefers pnpm\u2028 in monorepos"]},
        {"type": "entity", "name": "shop", "entityType": "project", "observations": []},
        {"type": "relation", "from": "Anna", "to": "shop", "relationType": "works_on"},
        {"type": "hologram", "name": "zebra"},
        '{"type": "entity", "name": "half',
    )  # fmt: skip


MCP_MEMORY_SERVICE = """
CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, content_hash TEXT UNIQUE NOT NULL,
  content TEXT NOT NULL, tags TEXT, memory_type TEXT, metadata TEXT, created_at REAL,
  updated_at REAL, created_at_iso TEXT, updated_at_iso TEXT, deleted_at REAL DEFAULT NULL);
ALTER TABLE memories ADD COLUMN parent_id TEXT;
ALTER TABLE memories ADD COLUMN superseded_by TEXT;
ALTER TABLE memories ADD COLUMN store TEXT DEFAULT 'default';
CREATE TABLE memory_graph (source_hash TEXT, target_hash TEXT, similarity REAL);
-- Of an extension that is not there.
PRAGMA writable_schema = ON;
INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) VALUES ('table',
  'memory_embeddings', 'memory_embeddings', 0,
  'CREATE VIRTUAL TABLE memory_embeddings USING vec0(content_embedding FLOAT[384])');
PRAGMA writable_schema = OFF;
"""


def mcp_memory_service(home: Path) -> Path:
    def memory(number: int, content: str, **more: Any) -> dict[str, Any]:
        return {"content_hash": f"{number:064x}", "content": content, "tags": "deploy, ops",
                "memory_type": "decision", "metadata": "{}", "created_at": UTC_2026 + 86400.5,
                "created_at_iso": "2026-05-01T10:00:00Z", **more}  # fmt: skip

    return write_database(home / ".local/share/mcp-memory/sqlite_vec.db", MCP_MEMORY_SERVICE, {
        "memories": [
            memory(1, "Deploy on Mondays", superseded_by=f"{2:064x}"),
            memory(2, "Deploy on Tuesdays, never on Fridays"),
            memory(3, "Zebra crossing", deleted_at=UTC_2026),
            memory(4, f"Rollbacks use {SECRET}", memory_type="learned thing"),
        ],
    })  # fmt: skip


def mcp_memory_service_export(home: Path) -> Path:
    return write_text(home / "exports" / "service.json", json.dumps({
        "export_metadata": {"source_machine": "laptop", "total_memories": 2},
        "memories": [
            {"content": "Backups are tested monthly", "content_hash": "a" * 64, "tags": ["ops"],
             "created_at": UTC_2026, "memory_type": "note", "metadata": {}, "store": "default"},
            {"content": f"The pager uses {SECRET}", "content_hash": "b" * 64, "tags": "x,y",
             "created_at": UTC_2026, "memory_type": None, "metadata": None, "store": "work"},
        ]}, indent=2))  # fmt: skip


def basic_memory(home: Path) -> Path:
    notes = home / "basic-memory"
    write_text(
        notes / "coffee.md",
        f"""---
title: Coffee
type: note
tags: [brewing, kitchen]
permalink: coffee
created: 2026-05-01
---
# Coffee

The grinder needs cleaning every month.

## Observations
- [decision] Pour-over beats the machine #taste (after three weeks)
- [method] Bloom for thirty seconds with {SECRET}
- [ ] buy a new mug
- [link](https://example.org) is not one

## Relations
- requires [[Kettle]]
""",
    )
    write_text(notes / "tools" / "kettle.md", "---\ntitle: Kettle\n---\n- [fact] Boils at 93 C\n")
    write_text(notes / "unfinished.md", "---\ntitle: Zebra\n")
    return notes


# --- agents -------------------------------------------------------------------------------


def gemini(home: Path) -> Path:
    slot = home / ".gemini" / "tmp" / "shop"
    write_text(slot / ".project_root", str(home / "shop"))
    write_text(home / ".gemini" / "oauth_creds.json", json.dumps({"sessionId": SECRET}))

    def user(number: str, text: str) -> dict[str, Any]:
        return {"id": number, "timestamp": "2026-05-01T10:00:01Z", "type": "user",
                "content": [{"text": text}]}  # fmt: skip

    call = {"id": "t1", "name": "run_shell_command", "args": {"command": "make check"},
            "status": "executing", "timestamp": "2026-05-01T10:00:03Z"}  # fmt: skip
    ended = {**call, "status": "success", "resultDisplay": "3 passed",
             "result": [{"functionResponse": {"id": "t1", "name": "run_shell_command",
                         "response": {"output": "Output: 3 passed\nExit Code: 0"}}}]}  # fmt: skip
    answer = {"id": "g1", "timestamp": "2026-05-01T10:00:04Z", "type": "gemini",
              "content": "The checks pass because the fixture is sorted now."}  # fmt: skip
    write_lines(
        slot / "chats" / "session-2026-05-01T10-00-abcdef12.jsonl",
        {"sessionId": "gem-1", "projectHash": "h", "startTime": "2026-05-01T10:00:00Z",
         "lastUpdated": "2026-05-01T10:00:00Z", "kind": "main"},
        user("u0", "Draw a zebra"),
        {"$rewindTo": "u0"},
        user("u1", f"Why does make check fail with {SECRET}?"),
        {**answer, "content": "", "toolCalls": [call]},
        {**answer, "toolCalls": [ended]},
        {"$set": {"memoryScratchpad": {"workflowSummary": "Sorted the fixture so checks pass"}}},
        {"id": "i1", "timestamp": "2026-05-01T10:00:05Z", "type": "info", "content": "hello"},
        '{"id": "half',
    )  # fmt: skip
    old = {"sessionId": "gem-0", "projectHash": "h", "startTime": "2026-04-01T10:00:00Z",
           "messages": [user("u1", "Rename the basket module to cart")]}  # fmt: skip
    write_text(slot / "chats" / "session-2026-04-01T10-00-abcdef00.json", json.dumps(old))
    return home / ".gemini" / "tmp"


OPENCODE = """
CREATE TABLE project (id TEXT PRIMARY KEY, worktree TEXT);
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT,
  title TEXT, version TEXT, time_created INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
"""


def opencode(home: Path) -> Path:
    write_text(home / ".local/share/opencode/auth.json", json.dumps({"key": SECRET}))

    def part(number: int, message: str, **data: Any) -> dict[str, Any]:
        return {"id": f"prt_{number}", "message_id": message, "session_id": "ses_1",
                "data": data}  # fmt: skip

    def tool(status: str, **state: Any) -> dict[str, Any]:
        return {"type": "tool", "tool": "bash", "callID": "c1",
                "state": {"status": status, "input": {"command": "npm test"},
                          "time": {"start": MS + 2000, "end": MS + 3000}, **state}}  # fmt: skip

    times = {"created": MS + 1000, "completed": MS + 4000}
    return write_database(home / ".local/share/opencode/opencode.db", OPENCODE, {
        "session": [{"id": "ses_1", "project_id": "p", "directory": str(home / "shop"),
                     "title": "t", "time_created": MS}],
        "message": [
            {"id": "msg_1", "session_id": "ses_1",
             "data": {"role": "user", "time": {"created": MS + 1000}}},
            {"id": "msg_2", "session_id": "ses_1",
             "data": {"role": "assistant", "finish": "stop", "time": times}},
        ],
        "part": [
            part(1, "msg_1", type="text", text=f"Run the tests of the basket with {SECRET}"),
            part(2, "msg_1", type="text", text="A zebra in a reminder", synthetic=True),
            part(3, "msg_2", type="step-start"),
            part(4, "msg_2", **tool("completed", output="12 passing", metadata={"exit": 0})),
            part(5, "msg_2", **tool("running")),
            part(6, "msg_2", type="text", text="All twelve tests pass because of the new clock."),
            part(7, "msg_2", type="hologram"),
        ],
    })  # fmt: skip


def opencode_files(home: Path) -> Path:
    storage = home / "old-opencode" / "storage"
    write_text(storage / "session" / "p1" / "ses_old.json", json.dumps(
        {"id": "ses_old", "projectID": "p1", "directory": str(home / "shop"),
         "time": {"created": MS}}))  # fmt: skip
    write_text(storage / "message" / "ses_old" / "msg_a.json", json.dumps(
        {"id": "msg_a", "role": "user", "time": {"created": MS}}))  # fmt: skip
    write_text(storage / "part" / "msg_a" / "prt_a.json", json.dumps(
        {"id": "prt_a", "type": "text",
         "text": f"Move the sessions off {SECRET} to disk"}))  # fmt: skip
    return storage / "session"


def copilot(home: Path) -> Path:
    def event(number: int, kind: str, **data: Any) -> dict[str, Any]:
        return {"type": kind, "id": f"e{number}", "parentId": None,
                "timestamp": f"2026-05-01T10:00:{number:02}Z", "data": data}  # fmt: skip

    write_lines(
        home / ".copilot" / "session-state" / "cop-1" / "events.jsonl",
        event(1, "session.start", sessionId="cop-1", copilotVersion="1.0.67",
              context={"cwd": str(home / "shop"), "branch": "main"}),
        event(2, "system.message", content="zebra " * 50),
        event(3, "user.message", content=f"Why is\u2028 the header blue? {SECRET}",
              transformedContent="zebra"),
        event(4, "tool.execution_start", toolCallId="t1", toolName="bash",
              arguments={"command": "grep -rn blue src"}),
        event(5, "tool.execution_complete", toolCallId="t1", success=True,
              result={"content": "src/a.css:1: blue\n<shellId: 0 completed with exit code 0>"}),
        event(6, "assistant.message", content="It is blue because of a.css.", toolRequests=[]),
        event(7, "session.task_complete", summary="Explained where the blue header comes from"),
        '{"type": "user.message", "id": "e8", "data": {"content": "half',
    )  # fmt: skip
    return home / ".copilot" / "session-state"


def copilot_old(home: Path) -> Path:
    said = {
        "sessionId": "old-1", "startTime": "2026-01-08T21:10:16.398Z", "timeline": [],
        "chatMessages": [
            {"role": "system", "content": "zebra"},
            {"role": "user", "content": f"Which font has the invoice? {SECRET}"},
            {"role": "assistant", "tool_calls": [{"function": {"name": "view"}}]},
            {"role": "tool", "content": "zebra"},
            {"role": "assistant", "content": "The invoice is set in Inter."},
        ],
    }  # fmt: skip
    folder = home / ".copilot" / "history-session-state"
    write_text(folder / "session_old-1_1759957816.json", json.dumps(said, indent=2))
    return folder


def cursor(home: Path) -> Path:
    composer, keep = "11111111-1111-4111-8111-111111111111", "composer.content."
    header = {"composerId": composer, "name": "n", "createdAt": MS, "isDraft": False,
              "workspaceIdentifier": {"uri": {"fsPath": str(home / "shop")}}}  # fmt: skip

    def bubble(number: int, kind: int, **more: Any) -> dict[str, Any]:
        return {"key": f"bubbleId:{composer}:b{number}", "value": json.dumps(
            {"_v": 3, "type": kind, "createdAt": f"2026-05-01T10:00:{60 - number}.000Z",
             "text": "", **more})}  # fmt: skip

    def tool(name: str, params: Any, result: Any) -> dict[str, Any]:
        return {"capabilityType": 15, "toolFormerData": {
            "name": name, "toolCallId": f"call-{name}", "status": "completed",
            "params": json.dumps(params), "result": json.dumps(result)}}  # fmt: skip

    path = home / ".config/Cursor/User/globalStorage/state.vscdb"
    return write_database(
        path,
        "CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);"
        "CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);",
        {
            "ItemTable": [
                {"key": "cursorAuth/accessToken", "value": f"zebra-{SECRET}"},
                {"key": "composer.composerHeaders",
                 "value": json.dumps({"allComposers": [header, {"composerId": "x",
                                                                "isDraft": True}]})},
            ],
            "cursorDiskKV": [
                # The newest first: the order is that of their times.
                bubble(1, 2, text="The checkout is fixed because the rate is cached."),
                bubble(2, 2, **tool("edit_file_v2", {"relativeWorkspacePath": "src/rate.py"},
                                    {"beforeContentId": keep + "a", "afterContentId": keep + "b"})),
                bubble(3, 2, **tool("run_terminal_command_v2", {"command": "pytest tests/rates"},
                                    {"exitCode": 0, "output": "5 passed"})),
                bubble(4, 2, capabilityType=30, text=""),
                bubble(5, 1, text=f"Fix the currency rate of the checkout, key {SECRET}"),
                {"key": keep + "a", "value": "import os\nRATE = 1\nend"},
                {"key": keep + "b", "value": "import os\nRATE = cached()\nend"},
                {"key": "checkpointId:zebra", "value": "{}"},
            ],
        },
    )  # fmt: skip


def aider(home: Path) -> Path:
    return write_text(
        home / "shop" / ".aider.chat.history.md",
        f"""
# aider chat started at 2026-05-01 10:00:00

> Aider v0.80
> Git repo: .git with 10 files

#### Add a retry to the payment client
#### and use {SECRET}

I added a retry because the gateway drops one request in a hundred.

> Applied edit to src/payment.py
> Commit 1234abc feat: retry

#### Now document the retry

The README has a section about it now.

# aider chat started at 2026-05-02 09:00:00

#### Explain the gateway timeout
> Tokens: 1k sent

It is thirty seconds.
""",
    )


# --- chats and notes ------------------------------------------------------------------------


def _chatgpt_conversation(number: str, title: str, *turns: tuple[str, str]) -> dict[str, Any]:
    mapping: dict[str, Any] = {"root": {"id": "root", "parent": None, "message": None,
                                        "children": ["n0"]}}  # fmt: skip
    parent = "root"
    for place, (role, text) in enumerate(turns):
        mapping[f"n{place}"] = {
            "id": f"n{place}", "parent": parent, "children": [],
            "message": {"author": {"role": role}, "create_time": UTC_2026 + place,
                        "content": {"content_type": "text", "parts": [text, {"image": 1}]},
                        "metadata": {}},
        }  # fmt: skip
        parent = f"n{place}"
    mapping["abandoned"] = {
        "id": "abandoned", "parent": "n0", "children": [],
        "message": {"author": {"role": "assistant"}, "create_time": UTC_2026,
                    "content": {"content_type": "text", "parts": ["An abandoned zebra"]}},
    }  # fmt: skip
    return {"id": number, "conversation_id": number, "title": title, "create_time": None,
            "update_time": None, "mapping": mapping, "current_node": parent}  # fmt: skip


def _chatgpt_document() -> str:
    return json.dumps([
        _chatgpt_conversation("c1", "Sourdough", ("user", "How long does sourdough rest?"),
                              ("assistant", "Twelve hours in the fridge."),
                              ("user", f"And what is {SECRET}?")),
        _chatgpt_conversation("c2", "Nginx", ("system", "zebra"), ("user", "Rewrite with nginx"),
                              ("assistant", "Use try_files. " * 1000)),
        _chatgpt_conversation("c3", "Empty"),
    ])  # fmt: skip


def chatgpt(home: Path) -> Path:
    return write_zip(home / "Downloads" / "chatgpt.zip", {
        "conversations.json": _chatgpt_document(), "user.json": "{}", "chat.html": "zebra",
    })  # fmt: skip


def chatgpt_plain(home: Path) -> Path:
    return write_text(home / "exports" / "chatgpt" / "conversations.json", _chatgpt_document())


def claude_ai(home: Path) -> Path:
    def message(sender: str, text: str, **more: Any) -> dict[str, Any]:
        return {"uuid": f"m-{len(text)}", "sender": sender, "text": "zebra",
                "content": [{"type": "text", "text": text}, {"type": "tool_use", "name": "x"}],
                "created_at": "2026-05-01T10:00:00Z", "attachments": [], "files": [],
                **more}  # fmt: skip

    batch = "data-2026-05-02-10-00-00-batch-0000/"
    return write_zip(home / "Downloads" / "claude.zip", {
        batch + "conversations.json": json.dumps([
            {"uuid": "k1", "name": "Tax return", "created_at": "2026-05-01T10:00:00Z",
             "chat_messages": [
                 message("human", "Which receipts matter?", attachments=[
                     {"file_name": "rules.txt", "extracted_content": "Keep receipts ten years"}]),
                 message("assistant", f"All of them, and {SECRET}.")]},
            {"uuid": "k2", "name": "", "created_at": "2026-05-01T10:00:00Z", "chat_messages": []},
        ]),
        batch + "projects.json": json.dumps([
            {"uuid": "p1", "name": "Garden", "created_at": "2026-05-01T10:00:00Z", "docs": [
                {"uuid": "d1", "filename": "plan.md", "content": "Tomatoes follow beans"}]}]),
        batch + "users.json": json.dumps([{"uuid": "zebra", "email_address": "a@example.org"}]),
    })  # fmt: skip


def obsidian(home: Path) -> Path:
    vault = home / "Vault"
    write_text(vault / ".obsidian" / "app.json", json.dumps({"userIgnoreFilters": ["Archive/"]}))
    write_text(vault / ".obsidian" / "templates.json", json.dumps({"folder": "Templates"}))
    write_text(home / ".config/obsidian/obsidian.json",
               json.dumps({"vaults": {"1": {"path": str(vault), "ts": 1}}}))  # fmt: skip
    write_text(vault / "Bread.md", f"---\ntags: [kitchen]\ncreated: 2026-05-01\n---\nRye needs a"
               f" [[Starter|sour starter]] and time. #baking/rye {SECRET}\n")  # fmt: skip
    write_text(vault / "Deep" / "Starter.md", "# Starter\nFed twice a day.\n```\n#nottag\n```\n")
    for name in ("Archive/old.md", "Templates/daily.md", ".trash/gone.md", "a.excalidraw.md"):
        write_text(vault / name, "A zebra\n")
    (vault / "outside.md").symlink_to(write_text(home / "zebra.md", "A zebra outside\n"))
    return vault


STORES: dict[str, Store] = {
    "claude-mem": Store(claude_mem, 4, 1, ("Carts live in Redis", "survive a restart")),
    "claude-mem export": Store(claude_mem_export, 4, 1, ("expires keys lazily",)),
    "mem0": Store(mem0, 3, 0, ("Drinks coffee in the morning",)),
    "mem0 export": Store(mem0_export, 2, 0, ("Prefers pnpm over npm",)),
    "mem0 openmemory": Store(openmemory, 2, 0, ("Lint runs before every push",)),
    "mem0 backup": Store(openmemory_backup, 2, 0, ("Releases are cut on Wednesdays",)),
    "mcp-memory": Store(mcp_memory, 3, 0, ("Anna works on shop",)),
    "mcp-memory-service": Store(mcp_memory_service, 3, 0, ("never on Fridays",)),
    "mcp-memory-service export": Store(
        mcp_memory_service_export, 2, 0, ("Backups are tested monthly",)
    ),
    "basic-memory": Store(basic_memory, 4, 0, ("Pour-over beats the machine", "grinder needs")),
    "gemini": Store(
        gemini, 1, 6, ("make check", "Rename the basket module"), taken_back=("gem-1/u0",)
    ),
    "opencode": Store(opencode, 0, 4, ("npm test", "because of the new clock")),
    "opencode files": Store(opencode_files, 0, 2, ("Move the sessions off",)),
    "copilot": Store(copilot, 1, 4, ("grep -rn blue src", "blue header comes from")),
    "copilot old": Store(copilot_old, 1, 0, ("set in Inter", "Which font has the invoice")),
    "chatgpt": Store(chatgpt, 2, 0, ("Twelve hours in the fridge",)),
    "chatgpt plain": Store(chatgpt_plain, 2, 0, ("Twelve hours in the fridge",)),
    "claude-ai": Store(claude_ai, 2, 0, ("Keep receipts ten years", "Tomatoes follow beans")),
    "obsidian": Store(obsidian, 2, 0, ("Rye needs a", "Fed twice a day")),
    "aider": Store(aider, 0, 6, ("Add a retry to the payment client", "src/payment.py")),
    "cursor": Store(cursor, 0, 5, ("pytest tests/rates", "because the rate is cached")),
}
"""By the source's name, and a word for which of its files it is."""
