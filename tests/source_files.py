"""Files of other programs, written for the tests: nothing in them was ever anybody's."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

THREAD = "019a2b3c-0000-7000-8000-00000000c0de"
SECRET = "ghp_" + "Zz9" * 12
CODEX_PROMPT = "please make the login test pass, and remember to always run ruff before commits"

NYGARD = """# 2. Use MySQL

Date: 2026-01-15

## Status

Superseded by [3. Use Postgres](0003-use-postgres.md)

## Context

The shop needs a database that the team knows.

## Decision

We use MySQL for all services.

## Consequences

Backups are made with mysqldump.
"""
NYGARD_NEW = """# 3. Use Postgres

Date: 2026-03-02

## Status

Accepted

Supersedes [2. Use MySQL](0002-use-mysql.md)

## Context

MySQL locked tables during migrations of the shop.

## Decision

We use Postgres with transactional migrations.

## Consequences

Backups are made with pg_dump.
"""
MADR = """---
status: accepted
date: 2026-04-05
decision-makers: [Anna, Ben]
---

# Queue jobs in the database

## Context and Problem Statement

Background jobs must survive a restart of the worker.

## Considered Options

* Redis streams
* A table in Postgres

## Decision Outcome

Chosen option: "A table in Postgres", because it needs no further server.
"""
MADR_OLD = """# Deploy by hand

* Status: rejected
* Deciders: Anna
* Date: 2026-02-01

## Decision Outcome

Chosen option: "a pipeline", because people forget steps.
"""
DECISIONS = {
    "0002-use-mysql.md": NYGARD,
    "0003-use-postgres.md": NYGARD_NEW,
    "0004-queue-in-database.md": MADR,
    "0005-deploy-by-hand.md": MADR_OLD,
    "template.md": "# {short title}\n\n## Status\n\n{proposed | rejected | accepted}\n",
    "README.md": "# Decisions\n\nWhy we work as we do.\n",
}


def write_decisions(folder: Path) -> Path:
    """Write a folder of decision records in both forms, with a template and an overview."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in DECISIONS.items():
        (folder / name).write_text(text, "utf-8")
    return folder


FACTS = {
    "real-database.md": """---
name: real-database
description: >
  integration tests and
  their database
metadata:
  type: feedback
---
Integration tests hit a real database. **Why:** mocks passed, migrations failed. See [[ci-setup]].
""",
    "ci-setup.md": """---
name: ci-setup
type: project
---
CI runs in two stages because the browsers are slow.
""",
    "MEMORY.md": """# Memory

- [real-database](real-database.md) - integration tests

## Build

- The wheel is built with `make dist`
  and signed by the release key
- Node 22 is needed for the web page
""",
}


def write_auto_memory(home: Path, folder: Path) -> Path:
    """Write what Claude Code remembers of a folder; return where it is."""
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(folder))
    memory = home / ".claude" / "projects" / slug / "memory"
    memory.mkdir(parents=True)
    for name, text in FACTS.items():
        (memory / name).write_text(text, "utf-8")
    record = {"type": "summary", "cwd": str(folder), "sessionId": "s", "summary": "x"}
    (memory.parent / "s.jsonl").write_text(json.dumps(record) + "\n", "utf-8")
    return memory


def _line(second: int, kind: str, **payload: Any) -> dict[str, Any]:
    stamp = f"2026-05-01T10:{second // 60:02}:{second % 60:02}.000Z"
    return {"timestamp": stamp, "type": kind, "payload": payload}


def _said(second: int, role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}]
    return _line(second, "response_item", type="message", role=role, content=content)


def _called(second: int, name: str, call_id: str, **given: Any) -> dict[str, Any]:
    arguments = json.dumps(given)
    return _line(
        second,
        "response_item",
        type="function_call",
        name=name,
        arguments=arguments,
        call_id=call_id,
    )


def _gave(second: int, call_id: str, output: Any, kind: str = "function_call") -> dict[str, Any]:
    return _line(second, "response_item", type=f"{kind}_output", call_id=call_id, output=output)


PATCH = """*** Begin Patch
*** Update File: src/login.py
@@
-    return None
+    return session
*** Add File: tests/test_login.py
+def test_login(): ...
*** End Patch"""


def rollout(folder: str, **meta: Any) -> list[dict[str, Any]]:
    """Return the records of a session of Codex: prompts, injected texts, tools, a compaction."""
    return [
        _line(0, "session_meta", id=THREAD, cwd=folder, originator="codex_cli_rs",
              cli_version="0.99.0", source="cli", git={"branch": "login"}, **meta),
        _said(1, "developer", "<permissions instructions> never imported"),
        _said(1, "user", "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>tabs</INSTRUCTIONS>"),
        _said(1, "user", f"<environment_context><cwd>{folder}</cwd></environment_context>"),
        _line(2, "turn_context", cwd=folder, model="x"),
        _said(3, "user", CODEX_PROMPT),
        _line(3, "event_msg", type="user_message", message=CODEX_PROMPT),
        _said(3, "user", "Host notice without a tag, confirmed by nothing."),
        _line(4, "response_item", type="reasoning", encrypted_content="gAAA"),
        _said(5, "assistant", "I will run the tests first."),
        _called(6, "exec_command", "call_1", cmd="pytest tests/test_login.py"),
        _gave(8, "call_1", "Chunk ID: 1a2b\nWall time: 1.0 seconds\nProcess exited with code 1\n"
              "Output:\nE   AssertionError: login returned None\n1 failed"),
        _line(9, "response_item", type="custom_tool_call", name="apply_patch", call_id="call_2",
              input=PATCH),
        _gave(10, "call_2", json.dumps({"output": "Success", "metadata": {"exit_code": 0}}),
              "custom_tool_call"),
        _called(11, "shell", "call_3", command=["bash", "-lc", f"export TOKEN={SECRET}; pytest"]),
        _gave(12, "call_3", json.dumps({"output": "2 passed", "metadata": {"exit_code": 0}})),
        _called(13, "mcp__tracker__get_issue", "call_4", number=7),
        _gave(13, "call_4", "the login is broken"),
        _said(14, "assistant", "The login test passes now: the session was never returned."),
        _line(15, "event_msg", type="task_complete", last_agent_message="It passes now."),
        _line(16, "compacted", message="The login was fixed: src/login.py returns the session."),
        _said(20, "user", "now make it faster\u2028please"),
        _line(20, "event_msg", type="user_message", message="now make it faster\u2028please"),
        _line(21, "event_msg", type="token_count", info=None),
        _line(21, "world_state", full=True, state={}),
        _line(21, "brand_new_kind", anything=1),
        _said(22, "assistant", "The password hash is cached now."),
    ]  # fmt: skip


def jsonl(records: list[dict[str, Any]]) -> bytes:
    """Return records as a file has them: other separators than the line feed are in the texts."""
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return "".join(lines).encode()


def write_rollouts(home: Path, folder: Path) -> Path:
    """Write a session of Codex and its index with the title; return the session's file."""
    place = home / ".codex" / "sessions" / "2026" / "05" / "01"
    place.mkdir(parents=True)
    file = place / f"rollout-2026-05-01T10-00-00-{THREAD}.jsonl"
    file.write_bytes(jsonl(rollout(str(folder))))
    with sqlite3.connect(home / ".codex" / "state_5.sqlite") as database:
        database.execute(
            "CREATE TABLE threads (id TEXT PRIMARY KEY, rollout_path TEXT, title TEXT)"
        )
        database.execute(
            "INSERT INTO threads VALUES (?, ?, ?)", (THREAD, str(file), "Fix the login")
        )
    database.close()
    return file
