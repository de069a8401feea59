"""Codex: Claude Code's events with a turn, edits as `apply_patch`, outputs as bare text.

The event of a command does not say how it ended. The session's own file, which the event names,
does: Codex writes the exit code there before it runs the hook.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH123

from __future__ import annotations

import json
import os

from zapomni_core.modules.observations.hosts._fields import integer, mapping, parsed, text
from zapomni_core.modules.observations.hosts.claude_code import read_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from zapomni_core.modules.observations.extraction import Event

__all__ = ["read"]

# Codex keeps no more than 64 KiB of an output in its file; commands may run side by side.
TAIL = 512 * 1024

_NAMES = {
    "exec_command": "Bash",
    "local_shell": "Bash",
    "shell": "Bash",
    "spawn_agent": "Agent",
    "unified_exec": "Bash",
    # What looks after agents is not worth a row.
    "close_agent": "TaskStop",
    "wait_agent": "TaskOutput",
}


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event."""
    # Tools for agents come with the name of their group, but for the first one.
    name = text(payload, "tool_name").removeprefix("multi_agent_v1")
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
        if name == "spawn_agent":
            agent = text(given, "agent_type")
            given = {"prompt": text(given, "message"), "subagent_type": agent}
        payload["tool_input"] = given
        payload["tool_response"] = _response(payload.get("tool_response"))
    event = read_as("codex", payload)
    if event and event.action == "command" and event.data["exit_code"] is None:
        event.data = {**event.data, **_outcome(payload, event.data["output"])}
    elif event and event.action == "patch":
        event.data = {**event.data, "error": _refusal(payload["tool_response"])}
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


def _outcome(payload: dict[str, Any], output: str) -> dict[str, Any]:
    """Return how a command ended, as far as the session's file says it."""
    path, call = text(payload, "transcript_path"), text(payload, "tool_use_id")
    code = _exit_code(path, call) if path and call else None
    if code is None:
        return {"outcome": "unknown"}
    return {"exit_code": code, "error": (output or f"Exit code {code}") if code else ""}


def _exit_code(path: str, call: str) -> int | None:
    """Find a call's exit code at the end of a session's file; None if it is not there."""
    try:
        # Not blocking: whatever the path names, a hook must not wait for it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            file.seek(max(os.fstat(descriptor).st_size - TAIL, 0))
            lines = file.read(TAIL).split(b"\n")
    except (OSError, ValueError):
        return None
    wanted = call.encode("utf-8", "replace")
    for line in reversed(lines):
        if wanted not in line or b'"exit_code"' not in line:
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # The first line may be cut.
        said = mapping(record, "payload") if isinstance(record, dict) else {}
        item = mapping(said, "item") or said
        if call in (item.get("id"), item.get("call_id")):
            return integer(item, "exit_code")
    return None


def _refusal(response: Any) -> str:
    """Return what a patch that failed said; it begins with "Exit code: 1"."""
    said = text(response, "output") if isinstance(response, dict) else str(response or "")
    label, _, code = said.partition("\n")[0].partition(": ")
    return said if label == "Exit code" and code.strip() != "0" else ""
