"""Claude Code: the form most hosts follow."""

from __future__ import annotations

from zapomni_core.modules.observations.extraction import Event
from zapomni_core.modules.observations.hosts._fields import flag, integer, mapping, required, text
from zapomni_core.modules.observations.hosts._tools import tool_action

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read", "read_as"]


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event."""
    return read_as("claude-code", payload)


def read_as(host: str, payload: dict[str, Any]) -> Event | None:
    """Read one event of a host that speaks like Claude Code."""
    session_id, cwd, name = required(payload, "session_id", "cwd", "hook_event_name")
    found = _action(name, payload)
    if found is None:
        return None
    action, data = found
    data["subagent"] = text(payload, "agent_type") if "agent_id" in payload else ""
    data["duration_ms"] = integer(payload, "duration_ms")
    event_id = text(payload, "tool_use_id")
    if action in {"prompt", "session_start"}:
        # A start has it only after a compaction, which belongs to a prompt.
        event_id = text(payload, "prompt_id")
    elif action == "task_result":
        # An agent that is sent another message stops again: one more result, same id.
        event_id = ""
        data["subagent"] = ""
    return Event(
        host,
        name,
        session_id,
        cwd,
        action,
        data,
        event_id=event_id,
        tool_name=text(payload, "tool_name") or None,
    )


def _action(name: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    if name in {"PostToolUse", "PostToolUseFailure"}:
        given, response = mapping(payload, "tool_input"), payload.get("tool_response")
        found = tool_action(text(payload, "tool_name"), given, response)
        if found and name == "PostToolUseFailure":
            found[1]["error"] = text(payload, "error") or "failed"
            found[1]["interrupted"] = flag(payload, "is_interrupt")
        return found
    if name == "UserPromptSubmit":
        # Neither what the host says by itself nor what an agent asks of another is the user's word.
        if text(payload, "source") == "system" or "agent_id" in payload:
            return None
        return "prompt", {"text": text(payload, "prompt")}
    if name == "SessionStart":
        return "session_start", {"source": text(payload, "source"), "model": text(payload, "model")}
    if name == "SessionEnd":
        return "session_end", {"reason": text(payload, "reason")}
    if name == "PostCompact":
        summary = text(payload, "compact_summary")
        return "compact", {"trigger": text(payload, "trigger"), "text": summary}
    if name == "Stop":
        return "reply", {"text": text(payload, "last_assistant_message")}
    if name == "SubagentStop":
        summary = text(payload, "last_assistant_message")
        return "task_result", {"agent": text(payload, "agent_type"), "text": summary}
    return None
