"""Hosts that share one process: real `zapomni serve` processes, spoken to line by line."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from zapomni_core.infra.sharing import ShareKey, describe_process

PATIENCE = 60
"""Seconds a test waits for what must happen: a busy machine is slow."""

SERVE = [sys.executable, "-m", "zapomni_cli", "serve"]


class SharingHost:
    """A host with its server: sends requests, reads answers."""

    def __init__(
        self,
        *options: str,
        cwd: Path | str | None = None,
        command: list[str] | None = None,
        initialize: bool = True,
        **env: str,
    ) -> None:
        self.process = subprocess.Popen(
            [*(command or SERVE), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, **env},
            start_new_session=True,
        )
        self._number = 0
        self._received = b""
        self.answers: dict[int, dict[str, Any]] = {}
        if initialize:
            self.initialize()

    def initialize(self) -> dict[str, Any]:
        about = {"name": "test-host", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
        answer = self.ask("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def send(self, *messages: dict[str, Any]) -> None:
        self.process.stdin.write(b"".join(json.dumps(m).encode() + b"\n" for m in messages))
        self.process.stdin.flush()

    def begin(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request and return its id."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params or {}}
        self.send(message)
        return self._number

    def begin_call(self, tool: str, **arguments: Any) -> int:
        return self.begin("tools/call", {"name": tool, "arguments": arguments})

    def receive(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """Return the next message, whatever it is."""
        until = time.monotonic() + seconds
        while b"\n" not in self._received:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError("the server did not answer")
            read = os.read(self.process.stdout.fileno(), 1 << 20)
            if not read:
                raise EOFError(self.process.stderr.read().decode())
            self._received += read
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    def answer(self, number: int) -> dict[str, Any]:
        while number not in self.answers:
            message = self.receive()
            if "id" in message:
                self.answers[message["id"]] = message
        return self.answers.pop(number)

    def drain(self) -> None:
        """Take the answers that have arrived."""
        while self._received.count(b"\n") or select.select([self.process.stdout], [], [], 0)[0]:
            message = self.receive()
            self.answers[message.get("id", 0)] = message

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.answer(self.begin(method, params))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what a tool answers."""
        answer = self.answer(self.begin_call(tool, **arguments))
        assert "result" in answer, answer
        assert not answer["result"].get("isError"), answer
        return answer["result"]["structuredContent"]

    def refused(self, tool: str, **arguments: Any) -> str:
        """Return what a tool says when it fails."""
        answer = self.answer(self.begin_call(tool, **arguments))
        assert answer["result"]["isError"], answer
        return answer["result"]["content"][0]["text"]

    def add(self, text: str) -> str:
        return self.call("add_memory", text=text)["memory_id"]

    def found(self, query: str) -> set[str]:
        wanted = {"query": query, "limit": 50, "within": "memories", "max_tokens": 20_000}
        answer = self.call("search_memory", **wanted)
        return {hit["text"] for hit in answer["results"]}

    def close(self) -> int:
        """Close the server's input, as a host does at the end; return its exit code."""
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.stdout.close()
            self.process.stderr.close()

    def kill(self) -> None:
        """Kill the server's process group, as hosts that do not wait do."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.close()


def describe(**env: str) -> dict[str, Any] | None:
    """Return what the shared process of the environment says about itself; None if none runs."""
    with suppress(ConnectionResetError):
        return describe_process(ShareKey({**os.environ, **env}), PATIENCE)
    return None


START = """
import os, sys
from zapomni_cli import proxy
from zapomni_core.infra.sharing import ShareKey, make_folder
proxy.PROCESS = ["-c", sys.argv[1]]
key = ShareKey(os.environ)
make_folder(key.folder())
assert proxy._start(key, key.socket_in(key.folder(), own=False))
"""


def start_process(**changed: Any) -> int:
    """Start the shared process as a server does, with other constants; return its pid."""
    lines = [
        "import zapomni_core.scheduler.upkeep as upkeep, zapomni_mcp.shared_process as process"
    ]
    lines += [f"{name.replace('__', '.')} = {value!r}" for name, value in changed.items()]
    code = "\n".join([*lines, "process.main()"])
    subprocess.run([sys.executable, "-c", START, code], check=True, timeout=PATIENCE)
    found = describe()
    assert found
    return found["pid"]


def is_running(pid: int) -> bool:
    """Return whether any thread of a process lives: till then its sockets are open."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self").exists():
        return True
    # Its parent is init; in a container that reaps no one it stays as a zombie.
    states = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                state = (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
                states.append(state)
    return any(state not in "ZX" for state in states)


def wait_until_ended(pid: int) -> None:
    until = time.monotonic() + PATIENCE
    while is_running(pid):
        assert time.monotonic() < until, "the shared process did not end"
        time.sleep(0.02)


def end_shared_processes(**env: str) -> None:
    """End the shared process of this environment, and remove its folder if it is elsewhere."""
    if found := describe(**env):
        os.kill(found["pid"], signal.SIGKILL)
        wait_until_ended(found["pid"])
    key = ShareKey({**os.environ, **env})
    if not key.folder().startswith(key.home):
        shutil.rmtree(key.folder(), ignore_errors=True)
