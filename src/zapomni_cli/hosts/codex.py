"""Codex: Claude Code's events with a turn, edits as `apply_patch`, outputs as text."""

from __future__ import annotations

import json

from zapomni_cli.hosts._fields import mapping, parsed, text
from zapomni_cli.hosts.claude_code import read_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from zapomni_core.modules.observations import Event

__all__ = ["read"]

_NAMES = {"shell": "Bash", "local_shell": "Bash", "exec_command": "Bash", "unified_exec": "Bash"}


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event."""
    name = text(payload, "tool_name")
    if name:
        payload = {**payload, "tool_name": _NAMES.get(name, name)}
        given = mapping(payload, "tool_input")
        command = given.get("command", given.get("cmd"))
        if isinstance(command, list):
            # An argument vector; a shell's own one ends in the script.
            given = {**given, "command": _script([str(part) for part in command])}
        elif isinstance(command, str):
            given = {**given, "command": command}
        if not given and isinstance(payload.get("tool_input"), str):
            given = {"input": payload["tool_input"]}
        payload["tool_input"] = given
        payload["tool_response"] = _response(payload.get("tool_response"))
    event = read_as("codex", payload)
    if event and event.action == "prompt" and not event.event_id:
        event.event_id = text(payload, "turn_id")
    return event


def _script(vector: list[str]) -> str:
    if len(vector) == 3 and vector[1] in {"-lc", "-c"}:
        return vector[2]
    return " ".join(part if part.isalnum() else json.dumps(part) for part in vector)


def _response(response: Any) -> Any:
    """Unwrap {"output": "…", "metadata": {"exit_code": 1}}, as object or as JSON text."""
    answer = parsed(response)
    facts = mapping(answer, "metadata")
    if "exit_code" in facts:
        return {"output": text(answer, "output"), "exit_code": facts["exit_code"]}
    return answer or response
