"""A user's machine for a real agent client: a home, a repository, `zapomni` on the PATH.

`make test-hosts` installs the clients that package.json pins and runs these tests with them.
Without AGENT_CLIENTS, the folder of the clients, they are skipped, and so are those of a client
that is not in it. Nothing leaves the machine: the model is `endpoints.py`, and everything else is
sent to a port where nothing listens.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zapomni_core.infra.sharing import ShareKey, describe_process
from zapomni_core.settings import load_settings

__all__ = ["ROOT", "Machine", "contexts", "make_machine", "missing", "pairs"]

ROOT = Path(__file__).parents[2]
# Read before a fixture clears the environment.
CLIENTS = os.environ.get("AGENT_CLIENTS") and str(Path(os.environ["AGENT_CLIENTS"]).absolute())
PATH = os.environ["PATH"]
MODELS = load_settings().models_path
TITLE = "zapomni: Recent Context"

# Stands in for Python in the hooks that `zapomni init` writes, and keeps a copy of every event.
PYTHON = """#!/bin/sh
case "$3" in
*/hook.py)
    event="{payloads}/$(date +%s%N)-$$.json"
    cat > "$event"
    exec "{python}" "$@" < "$event" ;;
esac
exec "{python}" "$@"
"""
ZAPOMNI = """#!/bin/sh
exec "{python}" -c '
import sys
sys.executable, sys.argv[0] = sys.argv[1:3]
del sys.argv[1:3]
from zapomni_cli.__main__ import main
main()
' "{stand_in}" "$0" "$@"
"""


@dataclass
class Machine:
    """One user's home and project, and how to run programs there."""

    home: Path
    project: Path
    programs: Path
    payloads: Path

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.project,
            env={**self.environment(), **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done

    def environment(self) -> dict[str, str]:
        nowhere = "http://127.0.0.1:9"
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(self.programs), str(CLIENTS), PATH]),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "http_proxy": nowhere,
            "https_proxy": nowhere,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def zapomni(self, *args: str) -> Any:
        return json.loads(self.run("zapomni", *args, "--json").stdout)

    def shared_process(self) -> int:
        """Return the id of the process that this user's clients share; 0 if none runs."""
        where = {"ZAPOMNI_HOME": str(self.home / ".zapomni")}
        found = describe_process(ShareKey({**self.environment(), **where}), 60)
        return found["pid"] if found else 0

    def close(self) -> None:
        """End the process that the clients shared."""
        if pid := self.shared_process():
            os.kill(pid, signal.SIGTERM)

    def captured(self) -> dict[str, list[dict[str, Any]]]:
        """Return everything captured, by the first prompt of its session; "" if it has none."""
        found: dict[str, list[dict[str, Any]]] = {}
        for session in self.zapomni("sessions", "--all"):
            rows = self.zapomni("session", session["session_id"])["observations"]
            found.setdefault(session["first_prompt"] or "", []).extend(rows)
        return found

    def sessions(self) -> dict[str, list[tuple[str, str]]]:
        """Return type and content of everything captured, by the first prompt of its session."""
        return {prompt: pairs(rows) for prompt, rows in self.captured().items()}

    def events(self) -> list[dict[str, Any]]:
        """Return every event that reached the hook, in order."""
        return [json.loads(path.read_text()) for path in sorted(self.payloads.iterdir())]


def missing(client: str) -> str:
    """Return why a client cannot be run; empty if it can."""
    if CLIENTS and shutil.which(client, path=CLIENTS):
        return ""
    return f"{client} is not installed: make test-hosts"


def make_machine(folder: Path) -> Machine:
    machine = Machine(folder / "home", folder / "project", folder / "programs", folder / "payloads")
    for path in (machine.home, machine.project, machine.programs, machine.payloads):
        path.mkdir(exist_ok=True)
    stand_in = machine.programs / "python-of-hooks"
    stand_in.write_text(PYTHON.format(payloads=machine.payloads, python=sys.executable))
    program = machine.programs / "zapomni"
    program.write_text(ZAPOMNI.format(python=sys.executable, stand_in=stand_in))
    for script in (stand_in, program):
        script.chmod(0o755)
    (machine.home / ".zapomni").mkdir(mode=0o700)
    # A client may give its servers a clean environment, so nothing is said by a variable.
    (machine.home / ".zapomni" / "config.toml").write_text(
        f"models_dir = {json.dumps(str(MODELS))}\n"
    )
    machine.run("git", "init", "--quiet", "--initial-branch=main")
    # In the repository: a client may hide the user's own settings from what it runs.
    machine.run("git", "config", "user.name", "Dev")
    machine.run("git", "config", "user.email", "dev@example.invalid")
    machine.run("git", "commit", "--quiet", "--allow-empty", "--message=Begin")
    return machine


def pairs(observations: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["obs_type"], row["content"]) for row in observations]


def contexts(body: dict[str, Any]) -> int:
    """Return how many contexts of ours reached the model in one request."""
    said = {key: value for key, value in body.items() if key != "tools"}
    return json.dumps(said).count(f"## {TITLE}")
