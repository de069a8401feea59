"""Nothing is opened to the network and nothing is sent, whatever door is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Python reports every use of a socket to this hook, in every process of the test.
WATCH = """
import os, sys

def watch(event, args):
    if event in ("socket.connect", "socket.bind", "socket.sendto"):
        if not isinstance(args[1], (str, bytes)):
            report(f"{event} {args[1]!r}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        report(f"{event} {args[0]!r}")

def report(line):
    file = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, line.encode() + b"\\n")
    os.close(file)

report(f"started {os.getpid()}")
sys.addaudithook(watch)
"""


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "watch"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WATCH, encoding="utf-8")
    inherited = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{inherited}".rstrip(os.pathsep))
    monkeypatch.setenv("WATCHED", str(tmp_path / "watched"))
    return tmp_path / "watched"


def run(*command: str, given: str = "", cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        input=given.encode(),
        capture_output=True,
        timeout=120,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_no_command_hook_or_server_touches_the_network(watched, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "deploy.py").write_text("def deploy():\n    return 'tuesday'\n", encoding="utf-8")
    note = work / "note.html"
    note.write_text("<html><p>We deploy on Tuesdays.</p></html>", encoding="utf-8")
    command = ("-m", "zapomni_cli")

    run(*command, "add", "Marta chose PostgreSQL because of transactions.")
    run(*command, "add", "--file", str(note))
    assert "Tuesdays" in run(*command, "search", "which day do we deploy", "--json")
    run(*command, "graph", "build")
    run(*command, "index", str(work))
    run(*command, "status")
    event = {
        "session_id": "s1",
        "cwd": str(work),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "make test"},
        "tool_response": {"stdout": "ok"},
    }
    run(*command, "record", "--host", "claude-code", given=json.dumps(event), cwd=work)
    assert "make test" in run(*command, "recent", "--all")
    asked = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "search_memory", "arguments": {"query": "deploy"}},
        },
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in asked)
    server = subprocess.Popen(
        [sys.executable, *command, "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        server.stdin.write(lines.encode())
        server.stdin.flush()
        server.stdout.readline()
        assert b"Tuesdays" in server.stdout.readline()
        server.communicate(timeout=300)
    finally:
        server.kill()
        server.wait()

    seen = watched.read_text(encoding="utf-8").splitlines()
    assert len([line for line in seen if line.startswith("started")]) >= 9
    assert [line for line in seen if not line.startswith("started")] == []


def test_the_library_that_runs_the_model_reports_to_no_one(tmp_path, monkeypatch):
    """Left alone it writes an id of the device and a queue of events under HOME, and sends them.

    Native code: the hook above does not see its connections, so its files are looked for.
    """
    home = tmp_path / "somebody"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    run("-m", "zapomni_cli", "add", "We deploy on Tuesdays.")
    if "pending_vectors\t0" not in run("-m", "zapomni_cli", "stats"):
        pytest.skip("the model is not here: zapomni models pull")
    written = [str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()]
    assert [name for name in written if not name.startswith(".zapomni/")] == []


def test_nothing_loads_that_library_without_switching_it_off():
    source = Path(__file__).parents[2] / "src"
    loading = [
        path.name
        for path in source.rglob("*.py")
        if "import onnxruntime" in path.read_text("utf-8")
    ]
    assert loading == ["onnx.py"]
