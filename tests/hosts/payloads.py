"""Turn what real clients sent to the hooks into samples: one of each kind, small, without names.

    HOOK_PAYLOADS=/tmp/seen pytest tests/hosts/test_life.py
    python tests/hosts/payloads.py /tmp/seen

writes `tests/fixtures/hooks/HOST-VERSION/life/EVENT.json`, and what became of each in
`stored.json` next to them. Read the difference before you commit it: it is what a new version of
a client changed.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from zapomni_cli.record import hook_command

__all__ = ["SAMPLES", "replay"]

SAMPLES = Path(__file__).parents[1] / "fixtures" / "hooks"
PACKAGES = {
    "claude-code": "@anthropic-ai/claude-code",
    "cline": "cline",
    "codex": "@openai/codex",
    "copilot": "@github/copilot",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
    "qwen": "@qwen-code/qwen-code",
}
# What tells events of one name apart.
DETAILS = ("tool_name", "toolName", "source", "trigger")
LONGEST = 600
IDENTITY = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{12,40}\b")


def replay(host: str, payload: bytes) -> list[str] | None:
    """Give an event to the hook in a home of its own; return type and content of what it stored."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            hook_command(host),
            input=payload,
            env={**os.environ, "HOME": home, "ZAPOMNI_HOME": f"{home}/zapomni"},
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        database = Path(home, "zapomni", "zapomni.db")
        if not database.exists():
            return None
        with closing(sqlite3.connect(database)) as connection:
            row = connection.execute("SELECT obs_type, content FROM observations").fetchone()
        return list(row) if row else None


def kind(event: dict[str, Any]) -> str:
    """Return what kind of event it is, fit for a file's name."""
    # Copilot's events have no names.
    unnamed = next(
        (key for key in ("toolResult", "prompt", "reason", "source") if key in event), ""
    )
    name = event.get("hook_event_name") or event.get("hookName") or unnamed or "event"
    details = [event[key] for key in DETAILS if isinstance(event.get(key), str)]
    # Cline puts all there is about a tool in one place.
    tool = event.get("tool_result") or {}
    details += [tool["name"]] if "name" in tool else []
    said = json.dumps([event.get("tool_input"), event.get("toolArgs"), tool.get("input")])
    if "exit 3" in said:
        details.append("failed")
    if "git commit" in said:
        details.append("commit")
    if event.get("parent_agent_id", event.get("agent_id", event.get("agentId"))):
        details.append("of-agent")
    return re.sub(r"[^\w.-]", "_", "-".join([name, *details]))


def scrub(value: Any, seen: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: scrub(item, seen) for key, item in value.items()}
    if isinstance(value, list):
        return [scrub(item, seen) for item in value]
    if not isinstance(value, str):
        return value

    def identity(found: re.Match[str]) -> str:
        number = seen.setdefault(found[0], f"{len(seen) + 1:012d}")
        return f"00000000-0000-4000-8000-{number}" if "-" in found[0] else number

    value = re.sub(r"/[^\s\"']*?/(project|programs|home)(?=[/\s\"'\\]|$)", r"/home/dev/\1", value)
    value = value.replace("/home/dev/home", "/home/dev").replace("/home/dev/programs", "/usr/bin")
    value = re.sub(r"(-[\w-]+?)?-(project)\b(?=/)", "-home-dev-project", value)
    value = IDENTITY.sub(identity, value)
    return value if len(value) <= LONGEST else value[:LONGEST] + "…"


def keep(host: str, folder: Path) -> None:
    wanted = json.loads((Path(__file__).parent / "package.json").read_text())["dependencies"]
    target = SAMPLES / f"{host}-{wanted[PACKAGES[host]]}" / "life"
    target.mkdir(parents=True, exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    stored = {}
    for path in sorted(folder.iterdir()):
        event = json.loads(path.read_text())
        name = kind(event)
        if name in stored:
            continue
        data = json.dumps(scrub(event, {}), indent=2, ensure_ascii=False) + "\n"
        (target / f"{name}.json").write_text(data)
        stored[name] = replay(host, data.encode())
    (target / "stored.json").write_text(json.dumps(stored, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for found in sorted(Path(sys.argv[1]).iterdir()):
        keep(found.name, found)
