"""A user's machine for a real agent client: a home, a project, `zapomni` on the PATH.

The clients are looked for on the PATH and in the folder that AGENT_CLIENTS names:

    npm install --prefix clients @anthropic-ai/claude-code @openai/codex @google/gemini-cli
    AGENT_CLIENTS=clients/node_modules/.bin pytest tests/hosts

A test is skipped if its client is not there. Nothing leaves the machine: the model is
`endpoints.py`, and everything else is sent to a port where nothing listens.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "SEARCHED", "Machine", "copies"]

ROOT = Path(__file__).parents[2]
# Read before a fixture clears the environment.
CLIENTS = os.environ.get("AGENT_CLIENTS", "")
SEARCHED = os.pathsep.join(
    [*([str(Path(CLIENTS).absolute())] if CLIENTS else []), os.environ["PATH"]]
)
TITLE = "zapomni: Recent Context"


@dataclass
class Machine:
    """One user's home and project, and how to run programs there."""

    home: Path
    project: Path
    programs: Path

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
            "PATH": os.pathsep.join([str(self.programs), SEARCHED]),
            "ZAPOMNI_HOME": str(self.home / ".zapomni"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1",
        }

    def zapomni(self, *args: str) -> Any:
        return json.loads(self.run("zapomni", *args, "--json").stdout)

    def observations(self) -> list[tuple[str, str]]:
        """Return type and content of everything captured, in order."""
        with closing(sqlite3.connect(self.home / ".zapomni" / "zapomni.db")) as connection:
            return connection.execute(
                "SELECT obs_type, content FROM observations ORDER BY id"
            ).fetchall()


def copies(body: dict[str, Any]) -> int:
    """Return how many contexts of ours reached the model in one request."""
    return json.dumps(body).count(TITLE)
