"""Small ways to put observations into a database for tests."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from pathlib import Path

from zapomni_db.sqlite.connection import connect, prepare_file

_numbers = itertools.count(1)
HOME = "github.com/acme/shop"


def open_database(path: Path) -> sqlite3.Connection:
    """Create the file if needed and return a connection that may write."""
    prepare_file(path)
    connection = connect(path)
    # Tests insert row by row; none of them pulls the plug.
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def observe(db: sqlite3.Connection, obs_type: str, content: str, **fields) -> int:
    """Insert one observation, its session and its project; return its id."""
    number = next(_numbers)
    age = fields.pop("age", None)
    moment = int(time.time()) - age if age is not None else fields.pop("timestamp", None)
    row = {
        "session_id": "session-1",
        "project": HOME,
        "host": "claude-code",
        "prompt_id": None,
        "timestamp": int(time.time()) if moment is None else moment,
        "obs_type": obs_type,
        "source_event": "PostToolUse",
        "tool_name": None,
        "file_path": None,
        "content": content,
        "metadata": None,
        "signature": None,
        "pinned": 0,
        "event_hash": number.to_bytes(16, "big"),
    }
    branch = fields.pop("branch", "main")
    row.update(fields)
    if isinstance(row["metadata"], dict):
        row["metadata"] = json.dumps(row["metadata"])
    name = row["project"].rsplit("/", 1)[-1]
    db.execute(
        "INSERT OR IGNORE INTO projects (key, name, created_at) VALUES (?, ?, 0)",
        (row["project"], name),
    )
    db.execute(
        "INSERT INTO sessions (id, project, host, branch, started_at, last_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        " last_at = max(last_at, excluded.last_at)",
        (row["session_id"], row["project"], row["host"], branch, row["timestamp"],
         row["timestamp"]),
    )  # fmt: skip
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    cursor = db.execute(f"INSERT INTO observations ({names}) VALUES ({marks})", list(row.values()))
    return cursor.lastrowid
