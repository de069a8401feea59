"""How late does `serve` answer `initialize`, next to a bare hello-world MCPServer?

    python benchmarks/startup.py [--runs 15]

The server is one that shares no process (`--no-share`); shared_process.py measures the others.
Both servers are started in turn, so that the machine's load falls on both alike. Wall time runs
from starting the process to the answer's last byte; CPU time is the process's own, user and
system, from its start until it was told to exit. The ratio of the medians is the figure; the
target is at most 1.35.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET = 1.35

HELLO = """
from mcp.server import MCPServer
server = MCPServer("hello")
@server.tool()
async def hello(name: str) -> str:
    return f"Hello, {name}"
server.run("stdio")
"""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "startup-benchmark", "version": "1"},
    },
}


def start_once(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Return wall and CPU seconds until `initialize` is answered."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    wall = time.perf_counter() - started
    cpu = cpu_seconds(process.pid)
    assert answer["result"]["serverInfo"]["name"], answer
    process.stdin.close()
    process.wait(timeout=30)
    process.stdout.close()
    return wall, cpu


def cpu_seconds(pid: int) -> float:
    """Read what a running process has used so far; 0 where there is no /proc."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(runs: int) -> dict[str, dict[str, list[float]]]:
    commands = {
        "hello": [sys.executable, "-c", HELLO],
        "zapomni": [sys.executable, "-m", "zapomni_cli", "serve", "--no-share"],
    }
    samples = {name: {"wall": [], "cpu": []} for name in commands}
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "ZAPOMNI_HOME": home}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # An installed package has its bytecode.
        for command in commands.values():
            start_once(command, env)  # Fills the bytecode and page caches.
        for _ in range(runs):
            for name, command in commands.items():
                wall, cpu = start_once(command, env)
                samples[name]["wall"].append(wall)
                samples[name]["cpu"].append(cpu)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    samples = measure(runs)
    report: dict[str, object] = {"benchmark": "startup", "runs": runs, "target": TARGET}
    for clock in ("wall", "cpu"):
        for name, series in samples.items():
            report[f"{name}_{clock}_ms_min"] = round(min(series[clock]) * 1000)
            report[f"{name}_{clock}_ms_median"] = round(statistics.median(series[clock]) * 1000)
        for stat, pick in (("min", min), ("median", statistics.median)):
            base = pick(samples["hello"][clock])
            if base:
                ratio = pick(samples["zapomni"][clock]) / base
                report[f"ratio_{clock}_{stat}"] = round(ratio, 3)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
