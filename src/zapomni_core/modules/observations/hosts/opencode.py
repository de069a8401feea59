"""opencode: what our plugin there sends, under opencode's own names."""

from __future__ import annotations

from zapomni_core.modules.observations.extraction import Event
from zapomni_core.modules.observations.hosts._fields import flag, integer, mapping, required, text
from zapomni_core.modules.observations.hosts._tools import tool_action

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read"]

_NAMES = {
    "apply_patch": "apply_patch",
    "bash": "Bash",
    "codesearch": "WebSearch",
    "edit": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "list": "LS",
    "multiedit": "MultiEdit",
    "patch": "apply_patch",
    "question": "AskUserQuestion",
    "read": "Read",
    "skill": "Skill",
    "task": "Task",
    "todowrite": "TodoWrite",
    "webfetch": "WebFetch",
    "websearch": "WebSearch",
    "write": "Write",
}
_FIELDS = {
    "filePath": "file_path",
    "oldString": "old_string",
    "newString": "new_string",
    "patchText": "patch",
}


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event."""
    session_id, cwd, name = required(payload, "session_id", "cwd", "hook_event_name")
    found = _action(name, payload)
    if found is None:
        return None
    action, data = found
    # A subagent has a session of its own there; the plugin sends the one that started it.
    data["subagent"] = "subagent" if text(payload, "agent_id") else ""
    event_id = text(payload, "tool_use_id")
    if action == "prompt":
        event_id = text(payload, "message_id")
    return Event(
        "opencode",
        name,
        session_id,
        cwd,
        action,
        data,
        event_id=event_id,
        tool_name=text(payload, "tool_name") or None,
    )


def _action(name: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    if name in {"tool.execute.after", "tool.failed"}:
        return _tool(name, payload)
    if name == "chat.message":
        return "prompt", {"text": text(payload, "prompt")}
    if name == "session.start":
        return "session_start", {"source": text(payload, "source")}
    if name == "session.compacted":
        return "compact", {"trigger": ""}
    if name == "session.end":
        return "session_end", {"reason": "exit"}
    return None


def _tool(name: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    given = {_FIELDS.get(key, key): value for key, value in mapping(payload, "tool_input").items()}
    response = mapping(payload, "tool_response")
    facts = mapping(response, "metadata")
    output = text(response, "output")
    tool = text(payload, "tool_name")
    server, separator, rest = tool.partition("_")
    if tool not in _NAMES and separator and "_mcp_" not in tool:
        tool = f"mcp__{server}__{rest}"
    tool = _NAMES.get(tool, tool)
    code = integer(facts, "exit")
    answer: Any = {"output": output, "exit_code": code} if tool == "Bash" else output
    if tool == "Write":
        answer = {"type": "update" if flag(facts, "exists") else "create"}
    found = tool_action(tool, given, answer)
    if found is None:
        return None
    if tool == "Bash" and code is None:
        found[1]["outcome"] = "unknown"
    if tool == "Task":
        found[1]["result"] = output
    if name == "tool.failed":
        found[1]["error"] = text(payload, "error") or "failed"
    return found
