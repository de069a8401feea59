"""Ways to run the `zapomni` command in tests."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable

from click.testing import CliRunner

from zapomni_cli.main import cli

UNKNOWN = "00000000-0000-4000-8000-000000000000"
NOTE = "We deploy on Tuesdays; Friday deploys are forbidden."


def zapomni(*args: str, given: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "zapomni_cli", *args],
        input=given,
        capture_output=True,
        timeout=300,
        check=False,
        env={**os.environ, **env},
    )


def answer(*args: str, given: bytes = b"", **env: str) -> str:
    done = zapomni(*args, given=given, **env)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def as_json(*args: str, **env: str):
    return json.loads(answer(*args, "--json", **env))


def refused(code: int, *args: str, given: bytes = b"", **env: str) -> str:
    done = zapomni(*args, given=given, **env)
    told = done.stderr.decode()
    assert done.returncode == code, told
    assert "Traceback" not in told
    return told


def add(text: str, *options: str) -> str:
    """Keep a text in this process; faster than starting another."""
    done = CliRunner().invoke(cli, ["add", text, *options])
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def on_terminal(*args: str, typed: str = "") -> tuple[int, str]:
    """Run a command with a terminal as all three streams."""
    terminal, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "zapomni_cli", *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    os.write(terminal, typed.encode())
    shown = b""
    # A terminal nobody writes to any more reads as an error.
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 65536):
            shown += part
    os.close(terminal)
    return child.wait(timeout=180), shown.decode()


def until(condition: Callable[[], bool]) -> None:
    """Wait for something another process does; give up after three minutes."""
    for _ in range(18_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")
