"""Gemini CLI: the same ideas under other names."""

from __future__ import annotations

from zapomni_cli.hosts._fields import mapping, required, seconds, text, words
from zapomni_cli.hosts._tools import tool_action
from zapomni_core.modules.observations import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read"]

_NAMES = {
    "edit": "Edit",
    "glob": "Glob",
    "google_web_search": "WebSearch",
    "grep_search": "Grep",
    "list_directory": "LS",
    "read_file": "Read",
    "replace": "Edit",
    "run_shell_command": "Bash",
    "search_file_content": "Grep",
    "web_fetch": "WebFetch",
    "write_file": "Write",
}


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event."""
    session_id, cwd, name = required(payload, "session_id", "cwd", "hook_event_name")
    found = _action(name, payload)
    if found is None:
        return None
    return Event(
        "gemini",
        name,
        session_id,
        cwd,
        *found,
        timestamp=seconds(payload.get("timestamp")),
        tool_name=text(payload, "tool_name") or None,
    )


def _action(name: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    if name == "AfterTool":
        return _tool(payload)
    if name == "BeforeAgent":
        return "prompt", {"text": text(payload, "prompt")}
    if name == "SessionStart":
        return "session_start", {"source": text(payload, "source")}
    if name == "SessionEnd":
        return "session_end", {"reason": text(payload, "reason")}
    if name == "PreCompress":
        return "compact", {"trigger": text(payload, "trigger")}
    return None


def _tool(payload: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    name = text(payload, "tool_name")
    answer = mapping(payload, "tool_response")
    output = words(answer.get("llmContent")) or text(answer, "returnDisplay")
    if name.startswith("mcp_") and not name.startswith("mcp__"):
        server, _, tool = name[4:].partition("_")
        name = f"mcp__{server}__{tool}"
    name = _NAMES.get(name, name)
    response: Any = {"stdout": output} if name == "Bash" else output
    found = tool_action(name, mapping(payload, "tool_input"), response)
    failure = answer.get("error")
    if found and failure:
        told = text(failure, "message") if isinstance(failure, dict) else failure
        found[1]["error"] = told if isinstance(told, str) and told else "failed"
    elif found and name == "Bash":
        found[1]["error"] = _failed(output)
    return found


def _failed(output: str) -> str:
    """A failing command is an ordinary answer with a line "Exit Code: 1" in it."""
    for line in output.splitlines():
        label, _, code = line.partition(":")
        if label.strip() == "Exit Code" and code.strip().lstrip("-").isdigit():
            return output if code.strip() != "0" else ""
    return ""
