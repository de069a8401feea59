"""Ways to run the `zapomni` command in tests."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import pty
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from zapomni_cli import record
from zapomni_cli.main import cli, main
from zapomni_cli.record import hook_command
from zapomni_db import logs

UNKNOWN = "00000000-0000-4000-8000-000000000000"
NOTE = "We deploy on Tuesdays; Friday deploys are forbidden."


def zapomni(*args: str, given: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in this process, which has imported everything already.

    It gets streams and logging of its own. Inside a running loop it gets a thread too: a command
    runs a loop of its own.
    """
    if args[:1] == ("record",):  # A hook never comes this way.
        return _run_process([sys.executable, *_patient(), *args[1:]], given, env)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_here(args, given, env)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_run_here, args, given, env).result()


def _run_here(
    args: Sequence[str], given: bytes, env: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    with CliRunner().isolation(given, env) as (stdout, stderr, _):
        code = _exit_code(args)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # A reader that went away takes it along.
                stream.flush()
        said, told = stdout.getvalue(), stderr.getvalue()
    return subprocess.CompletedProcess(["zapomni", *args], code, said, told)


def _exit_code(args: Sequence[str]) -> int:
    """Run a command on the streams there are, and leave logging as it was."""
    root = logging.getLogger()
    handlers, level, sink = root.handlers[:], root.level, (logs._sink, logs._threshold)
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        # A worker left in the background outlives its command; here the process goes on too.
        warnings.filterwarnings("ignore", "subprocess .* is still running", ResourceWarning)
        patched.setattr(sys, "argv", ["zapomni", *args])
        with pytest.raises(SystemExit) as end:
            try:
                main()
            finally:
                root.handlers[:], root.level = handlers, level
                logs._sink, logs._threshold = sink
                logging.captureWarnings(capture=False)
    assert isinstance(end.value.code, int), end.value.code
    return end.value.code


def zapomni_process(
    *args: str, given: bytes = b"", **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a shell does: for what only a process of its own can prove."""
    return _run_process([sys.executable, "-m", "zapomni_cli", *args], given, env)


def _run_process(
    command: Sequence[str], given: bytes, env: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command,
        input=given,
        capture_output=True,
        timeout=300,
        check=False,
        env={**os.environ, **env},
    )


def patient_hook(host: str | None = None) -> list[str]:
    """Return the line a host runs for each event, with limits that no busy machine reaches."""
    return [*hook_command()[:-1], *_patient(), *(["--host", host] if host else [])]


def limited_hook() -> list[str]:
    """Return a line that waits no longer than a hook does, but for leaving an event behind."""
    return [*hook_command()[:-1], *_patient("--limited")]


def _patient(*options: str) -> list[str]:
    source = Path(hook_command()[-1]).parent.parent
    return [str(Path(__file__).with_name("patient_hook.py")), *options, str(source)]


def record_here(event: bytes, *args: str) -> tuple[int, str]:
    """Record an event in this process; return the exit code and what was complained of."""
    streams = sys.stdin, sys.stdout, sys.stderr
    complaint = io.StringIO()
    sys.stdin = SimpleNamespace(buffer=io.BytesIO(event), isatty=lambda: False)
    sys.stdout, sys.stderr = SimpleNamespace(buffer=io.BytesIO()), complaint
    try:
        code = record.main(args)
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    return code, complaint.getvalue()


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
    """Run a command in this process with a terminal as all three streams."""
    terminal, theirs = pty.openpty()
    shown = bytearray()

    def read() -> None:
        # A terminal nobody writes to any more reads as an error.
        with contextlib.suppress(OSError):
            while part := os.read(terminal, 65536):
                shown.extend(part)

    os.write(terminal, typed.encode())
    reader = Thread(target=read)
    reader.start()
    with (
        pytest.MonkeyPatch.context() as patched,
        open(os.dup(theirs), encoding="utf-8") as stdin,  # noqa: PTH123 - no path
        open(os.dup(theirs), "w", encoding="utf-8") as stdout,  # noqa: PTH123
        open(os.dup(theirs), "w", encoding="utf-8") as stderr,  # noqa: PTH123
    ):
        patched.setenv("TERM", "xterm")
        patched.setenv("COLUMNS", "100")
        patched.setattr(sys, "stdin", stdin)
        patched.setattr(sys, "stdout", stdout)
        patched.setattr(sys, "stderr", stderr)
        code = _exit_code(args)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    os.close(theirs)
    reader.join(180)
    os.close(terminal)
    return code, shown.decode()


def until(condition: Callable[[], bool]) -> None:
    """Wait for something another process does; give up after three minutes."""
    for _ in range(18_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")
