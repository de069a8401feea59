"""Print everything users and agents can see of the interfaces, or compare it with an earlier print.

    python tools/surface.py > before.json
    python tools/surface.py --compare before.json

Contents: MCP tools with their schemas, commands with their options, settings, and the shape (keys
and types, no values) of what `--json` prints in a short scripted run in a temporary home.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CODE = (
    'def check_token(token):\n    """Return whether a token is valid."""\n    return bool(token)\n'
)
EVENTS = [
    {"hook_event_name": "SessionStart", "source": "startup"},
    {"hook_event_name": "UserPromptSubmit", "prompt": "Why do the tests fail?"},
    {
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_use_id": "t1",
        "tool_input": {"command": "pytest -q"},
        "tool_response": {"stdout": "1 failed", "stderr": "", "interrupted": False},
    },
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", type=Path, help="an earlier print")
    arguments = parser.parse_args()
    surface = {"settings": settings(), "commands": commands()}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            HOME=folder,
            ZAPOMNI_HOME=f"{folder}/home",
            ZAPOMNI_EMBEDDER="none",
        )
        surface["json"] = answers(Path(folder))
        surface["tools"] = asyncio.run(tools([]))
        surface["all_tools"] = asyncio.run(tools(["--tools", "all"]))
    if arguments.compare is None:
        print(json.dumps(surface, indent=1, sort_keys=True))
        return 0
    before = dict(flat(json.loads(arguments.compare.read_text("utf-8"))))
    after = dict(flat(surface))
    for name in sorted(before.keys() - after.keys()):
        print(f"- {name}: {before[name]}")
    for name in sorted(after.keys() - before.keys()):
        print(f"+ {name}: {after[name]}")
    for name in sorted(after.keys() & before.keys()):
        if before[name] != after[name]:
            print(f"~ {name}: {before[name]} -> {after[name]}")
    return 0


def settings() -> dict[str, Any]:
    from zapomni_core.settings import Settings

    return {
        name: {"type": str(field.annotation), "default": str(field.default)}
        for name, field in Settings.model_fields.items()
    }


def commands() -> dict[str, Any]:
    import click

    from zapomni_cli.main import cli

    found: dict[str, Any] = {}

    def walk(command: click.Command, name: str) -> None:
        found[name] = {
            "/".join(parameter.opts) or parameter.name: parameter.type.name
            for parameter in command.params
        }
        if isinstance(command, click.Group):
            context = click.Context(command)
            for child in command.list_commands(context):
                under = command.get_command(context, child)
                if under is not None:
                    walk(under, f"{name} {child}")

    walk(cli, "zapomni")
    return found


def answers(folder: Path) -> dict[str, Any]:
    """Run the commands that print JSON, and keep the shape of each answer."""
    repository = folder / "shop"
    repository.mkdir()
    (repository / "auth.py").write_text(CODE, encoding="utf-8")
    for event in EVENTS:
        payload = {"session_id": "s1", "cwd": str(repository), **event}
        run(["record", "--host", "claude-code"], repository, json.dumps(payload))
    shapes: dict[str, Any] = {}

    def ask(*words: str) -> Any:
        done = run([*words, "--json"], repository)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = {"exit": done.returncode, "error": done.stderr.strip()[-200:]}
        shapes[" ".join(word for word in words if "-" not in word or len(word) != 36)] = shape(
            answer
        )
        return answer

    text = "Alice chose PostgreSQL for the shop on 2026-03-01."
    memory_id = ask("add", text, "--project", "shop")["memory_id"]
    ask("index")
    ask("search", "PostgreSQL", "--explain")
    ask("search", "tests", "--in", "observations")
    for command in ("get", "history"):
        ask(command, memory_id)
    ask("update", memory_id, "--text", text + " Still true.")
    ask("graph", "build")
    ask("graph", "show", "PostgreSQL")
    ask("graph", "related", "PostgreSQL")
    for command in (
        "list",
        "recent",
        "sessions",
        "projects",
        "status",
        "stats",
        "context",
        "tasks",
    ):
        ask(command)
    ask("code", "search", "token")
    ask("code", "list")
    ask("graph", "status")
    ask("timeline", "1")
    ask("purge", "--search", "Alice", "--in", "memories")
    ask("doctor")
    return shapes


def run(words: list[str], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zapomni_cli", *words]
    return subprocess.run(
        command, cwd=folder, input=given, capture_output=True, text=True, check=False, timeout=120
    )


def shape(value: Any) -> Any:
    """Return keys and types: lists by their first element, values by their type's name."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


async def tools(options: list[str]) -> dict[str, Any]:
    from mcp.client.session import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "zapomni_cli", "serve", *options],
        env=dict(os.environ),
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        listed = await session.list_tools()
        return {tool.name: tool.model_dump(mode="json", exclude_none=True) for tool in listed.tools}


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every leaf with the way to it."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{name}/{key}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, inner in enumerate(value):
            yield from flat(inner, f"{name}/{number}")
    else:
        yield name, json.dumps(value)


if __name__ == "__main__":
    sys.exit(main())
