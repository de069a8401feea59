"""Cursor: one hook per kind of action; a conversation is a session."""

from __future__ import annotations

from zapomni_core.modules.observations.extraction import Event
from zapomni_core.modules.observations.hosts._fields import (
    PayloadError,
    integer,
    items,
    pairs,
    parsed,
    required,
    text,
)
from zapomni_core.modules.observations.hosts._tools import tool_action

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read"]

# These have hooks of their own, which say more.
_ELSEWHERE = frozenset(["Shell", "Bash", "Write", "Edit", "MCP", "StrReplace"])


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event."""
    (name,) = required(payload, "hook_event_name")
    session_id = text(payload, "conversation_id", "session_id")
    roots = [root for root in items(payload, "workspace_roots") if isinstance(root, str) and root]
    cwd = text(payload, "cwd") or (roots[0] if roots else "")
    if not session_id or not cwd:
        raise PayloadError("missing or not a string: conversation_id, workspace_roots")
    found = _action(name, payload)
    if found is None:
        return None
    action, data = found
    data["duration_ms"] = integer(payload, "duration")
    event_id = text(payload, "tool_use_id")
    if action == "prompt":
        event_id = text(payload, "generation_id")
    return Event(
        "cursor",
        name,
        session_id,
        cwd,
        action,
        data,
        event_id=event_id,
        tool_name=text(payload, "tool_name") or None,
    )


def _action(name: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    if name == "beforeSubmitPrompt":
        return "prompt", {"text": text(payload, "prompt")}
    if name == "afterShellExecution":
        output, code = text(payload, "output"), integer(payload, "exit_code", "exitCode")
        error = (output or f"Exit code {code}") if code else ""
        return "command", {
            "command": text(payload, "command"),
            "output": output,
            "exit_code": code,
            "error": error,
            "outcome": "unknown" if code is None else "",
        }
    if name in {"afterFileEdit", "afterTabFileEdit"}:
        edits = pairs(items(payload, "edits"))
        return "edit", {"path": text(payload, "file_path"), "edits": edits}
    if name == "afterMCPExecution":
        given = payload.get("tool_input")
        return "mcp", {
            "tool": text(payload, "tool_name"),
            "input": parsed(given) or given,
            "output": text(payload, "result_json"),
        }
    if name in {"postToolUse", "postToolUseFailure"}:
        return _tool(name, payload)
    if name == "sessionStart":
        return "session_start", {"source": text(payload, "source")}
    if name == "sessionEnd":
        return "session_end", {"reason": text(payload, "reason", "final_status")}
    if name == "preCompact":
        return "compact", {"trigger": text(payload, "trigger")}
    if name == "afterAgentResponse":
        return "reply", {"text": text(payload, "text")}
    if name == "subagentStop":
        summary = text(payload, "summary", "result")
        return "task_result", {"agent": text(payload, "subagent_type"), "text": summary}
    return None


def _tool(name: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    tool, failed = text(payload, "tool_name"), name == "postToolUseFailure"
    if not failed and (tool in _ELSEWHERE or tool.startswith("MCP:")):
        return None
    tool = {"Shell": "Bash"}.get(tool, tool)
    found = tool_action(tool, parsed(payload.get("tool_input")), payload.get("tool_output"))
    if found and failed:
        found[1]["error"] = text(payload, "error_message", "error") or "failed"
        found[1]["interrupted"] = payload.get("is_interrupt") is True
    return found
