"""What do agents pay for a server when they share one process?

    python -m benchmarks.shared_process [--runs 9] [--clients 4]

Start: `zapomni serve` and a bare hello-world MCPServer are started in turn until `initialize` is
answered, with the shared process running (warm) and without one (cold). CPU time is that of every
process that had to work for it: the one the host started and, of the shared process, what it used
meanwhile. Memory: so many clients that have each added and searched, the model loaded; PSS of all
processes together, so that what they share is counted once, and RSS of one proxy.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.startup import HELLO, INITIALIZE, cpu_seconds
from zapomni_core.infra.sharing import ShareKey, describe_process

SERVE = [str(Path(sys.executable).with_name("zapomni")), "serve"]
TARGETS = {
    "warm_cpu": 0.25, "warm_wall": 0.35, "cold_cpu": 1.2, "cold_wall": 1.2,
    "proxy_rss_mb": 25, "clients_pss_mb": 260,
}  # fmt: skip


class Client:
    """A host that speaks line by line."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def ask(self, message: dict) -> dict:
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def call(self, tool: str, **arguments) -> dict:
        params = {"name": tool, "arguments": arguments}
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        answer = self.ask(asked)
        assert not answer["result"].get("isError"), answer
        return answer

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def shared_pid() -> int:
    """Return the shared process's id, 0 if none runs."""
    found = describe_process(ShareKey(os.environ), 60)
    return found["pid"] if found else 0


def end_shared() -> None:
    if pid := shared_pid():
        os.kill(pid, signal.SIGKILL)
        while shared_pid():
            time.sleep(0.01)


def start_once(command: list[str], running: int = 0) -> tuple[float, float]:
    """Return wall and CPU seconds until `initialize` is answered."""
    before = cpu_seconds(running) if running else 0.0
    started = time.perf_counter()
    client = Client(command)
    answer = client.ask(INITIALIZE)
    wall = time.perf_counter() - started
    assert answer["result"]["serverInfo"]["name"], answer
    cpu = cpu_seconds(client.process.pid)
    if command is SERVE:
        cpu += cpu_seconds(shared_pid()) - before
    client.close()
    return wall, cpu


def measure_start(runs: int) -> dict[str, dict[str, float]]:
    hello = [sys.executable, "-c", HELLO]
    samples = {name: [] for name in ("hello", "warm", "cold")}
    start_once(hello)  # Fills the bytecode and page caches.
    start_once(SERVE)
    for _ in range(runs):
        samples["hello"].append(start_once(hello))
        samples["warm"].append(start_once(SERVE, shared_pid()))
        end_shared()
        samples["cold"].append(start_once(SERVE))
    return {
        name: {
            clock: statistics.median(sample[at] for sample in series) * 1000
            for at, clock in enumerate(("wall", "cpu"))
        }
        for name, series in samples.items()
    }


def memory_mb(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise ValueError(field)


def measure_memory(clients: int) -> dict[str, float]:
    started = [Client(SERVE) for _ in range(clients)]
    for number, client in enumerate(started):
        client.ask(INITIALIZE)
        client.call("add_memory", text=f"The ship number {number} leaves the harbor at dawn.")
        client.call("search_memory", query="when does a vessel depart")
    pids = [client.process.pid for client in started]
    report = {
        "proxy_rss_mb": max(memory_mb(pid, "Rss") for pid in pids),
        "shared_pss_mb": memory_mb(shared_pid(), "Pss"),
        "clients_pss_mb": sum(memory_mb(pid, "Pss") for pid in [*pids, shared_pid()]),
    }
    for client in started:
        client.close()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--clients", type=int, default=4)
    given = parser.parse_args()
    models = ShareKey(os.environ).home + "/models"
    folder = tempfile.mkdtemp(prefix="zapomni-bench-")
    os.environ.setdefault("ZAPOMNI_MODELS_DIR", models)
    os.environ.update(ZAPOMNI_HOME=folder, ZAPOMNI_SHARE="true")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # An installed package has its bytecode.
    try:
        start = measure_start(given.runs)
        report = {"benchmark": "shared_process", "runs": given.runs, "clients": given.clients}
        for name, clocks in start.items():
            report |= {f"{name}_{clock}_ms": round(value) for clock, value in clocks.items()}
        ratios = {
            f"{name}_{clock}": round(start[name][clock] / start["hello"][clock], 3)
            for name in ("warm", "cold")
            for clock in ("cpu", "wall")
        }
        memory = {name: round(mb, 1) for name, mb in measure_memory(given.clients).items()}
        measured = {**ratios, **memory}
        missed = [name for name, most in TARGETS.items() if measured[name] > most]
        print(json.dumps({**report, **measured, "targets": TARGETS, "missed": missed}))
    finally:
        end_shared()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
