"""What does one captured event cost, next to starting Python and doing nothing?

    python -m benchmarks.record [--runs 40]

The installed hook line and `python -c pass` take turns, so that the machine's load falls on both
alike. CPU time is the child's own, user and system. Every event is stored in a real database in a
real project; the ratio of the medians is the figure, the target is at most 1.8. `failure` is one
that has happened before, so that what is known of it is looked up.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from zapomni_cli.record import hook_command

TARGET = 1.8


def event(name: str, number: int, cwd: str) -> bytes:
    payload = {
        "session_id": "benchmark",
        "cwd": cwd,
        "hook_event_name": "PostToolUse",
        "tool_use_id": f"{name}-{number}",
        "tool_name": "Bash",
        "tool_input": {"command": f"make build-{number}", "description": "Build"},
        "tool_response": {"stdout": "compiling\nlinking\ndone\n" * 20, "stderr": ""},
    }
    if name == "edit":
        payload |= {
            "tool_name": "Edit",
            "tool_input": {
                "file_path": f"{cwd}/a.py",
                "old_string": "x = 1",
                "new_string": "x = 2",
            },
            "tool_response": {},
        }
    if name == "failure":
        payload["hook_event_name"] = "PostToolUseFailure"
        payload["error"] = "Exit code 1\nerror: cannot find symbol"
    if name == "secret":
        payload["tool_input"] = {"command": "export API_TOKEN=" + "ab12" * 8 + " && make"}
    return json.dumps(payload).encode()


def cpu_of(command: list[str], given: bytes, env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=given, env=env, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(runs: int) -> dict[str, list[float]]:
    kinds = ("command", "edit", "failure", "secret")
    samples: dict[str, list[float]] = {name: [] for name in ("pass", *kinds)}
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "ZAPOMNI_HOME": str(Path(folder) / "home")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # An installed package has its bytecode.
        for number in range(-2, runs):
            # The first two rounds fill the bytecode and page caches and make the database.
            taken = {"pass": cpu_of([sys.executable, "-c", "pass"], b"", env)}
            for name in kinds:
                taken[name] = cpu_of(hook_command(), event(name, number, folder), env)
            if number >= 0:
                for name, seconds in taken.items():
                    samples[name].append(seconds)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    medians = {name: statistics.median(series) for name, series in measure(runs).items()}
    report: dict[str, object] = {"benchmark": "record", "runs": runs, "target": TARGET}
    for name, median in medians.items():
        report[f"{name}_cpu_ms"] = round(median * 1000, 1)
        if name != "pass":
            report[f"{name}_ratio"] = round(median / medians["pass"], 2)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
