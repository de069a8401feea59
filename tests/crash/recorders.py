"""What the processes of the capture tests run: the hook's own code, one event after another."""

from __future__ import annotations

import io
import json
import os
import sys
from types import SimpleNamespace

from zapomni_cli import record
from zapomni_db.sqlite import observations_write

__all__ = ["record_forever", "record_one", "record_some"]


def record_one(key: str) -> int:
    """Record a prompt that can be told from its key; return the exit code."""
    payload = {"session_id": "s", "cwd": "/nowhere/app", "hook_event_name": "UserPromptSubmit"}
    data = json.dumps({**payload, "prompt_id": key, "prompt": f"prompt {key}"}).encode()
    sys.stdin = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
    return record.main([])


def record_some(home: str, report: str, prefix: str, count: int) -> None:
    """Record so many events, reporting each that was acknowledged."""
    os.environ["ZAPOMNI_HOME"] = home
    log = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in range(count):
        key = f"{prefix}-{number}"
        os.write(log, f"try {key}\n".encode())
        code = record_one(key)
        os.write(log, f"ack {key} {code}\n".encode())


def record_forever(home: str, report: str, prefix: str) -> None:
    """Record until killed, impatiently: many events take the way through the spool."""
    observations_write.BUSY_MS = 1
    record_some(home, report, prefix, 10**9)
