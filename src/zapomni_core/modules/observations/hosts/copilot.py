"""GitHub Copilot: events carry no name; their fields identify them."""

from __future__ import annotations

from zapomni_core.modules.observations.extraction import Event
from zapomni_core.modules.observations.hosts._fields import mapping, parsed, required, seconds, text
from zapomni_core.modules.observations.hosts._tools import tool_action

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read"]

_NAMES = {
    "ask_user": "AskUserQuestion",
    "bash": "Bash",
    "create": "Write",
    "edit": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "skill": "Skill",
    "task": "Task",
    "view": "Read",
    "web_fetch": "WebFetch",
}
_FIELDS = {"file_text": "content", "old_str": "old_string", "new_str": "new_string"}


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event."""
    (cwd,) = required(payload, "cwd")
    found = _action(payload)
    if found is None:
        return None
    when = seconds(payload.get("timestamp"))
    # Older versions name no session: a day in a folder is the nearest thing to one.
    day = (when or 0) // 86400
    session_id = text(payload, "sessionId", "session_id") or f"copilot:{cwd}:{day}"
    if text(payload, "agentId"):
        # An agent has a session of its own there; what it does belongs to the one that started it.
        session_id = text(payload, "parentAgentId") or session_id
    name, action, data = found
    data["subagent"] = "subagent" if text(payload, "agentId") else ""
    tool_name = text(payload, "toolName") or None
    return Event(
        "copilot", name, session_id, cwd, action, data, timestamp=when, tool_name=tool_name
    )


def _action(payload: dict[str, Any]) -> tuple[str, str, dict[str, Any]] | None:
    if "toolResult" in payload or ("toolName" in payload and "error" in payload):
        return _tool(payload)
    if "toolName" in payload:
        return None  # Before the tool: it may still be refused.
    if "prompt" in payload:
        if text(payload, "agentId"):
            return None  # What an agent asks of another.
        return "userPromptSubmitted", "prompt", {"text": text(payload, "prompt")}
    if "reason" in payload:
        return "sessionEnd", "session_end", {"reason": text(payload, "reason")}
    if "source" in payload:
        source = text(payload, "source")
        return "sessionStart", "session_start", {"source": "startup" if source == "new" else source}
    return None


def _tool(payload: dict[str, Any]) -> tuple[str, str, dict[str, Any]] | None:
    given = {_FIELDS.get(key, key): value for key, value in parsed(payload.get("toolArgs")).items()}
    result = mapping(payload, "toolResult")
    output = text(result, "textResultForLlm")
    name = text(payload, "toolName")
    server, separator, tool = name.rpartition("-")
    name = f"mcp__{server}__{tool}" if separator else _NAMES.get(name, name)
    answer: Any = output
    if name == "Bash":
        # The last line is the host's: "<shellId: 0 completed with exit code 3>".
        said, _, last = output.rstrip().rpartition("\n")
        code = last.rpartition(" exit code ")[2].removesuffix(">")
        if last.startswith("<") and code.isascii() and code.isdecimal() and len(code) < 12:
            answer = {"stdout": said, "exit_code": int(code)}
    found = tool_action(name, given, answer)
    if found is None:
        return None
    if name == "Task":
        found[1]["agent"], found[1]["result"] = text(given, "agent_type"), output
    if name == "Bash" and answer is output:
        found[1]["outcome"] = "unknown"
    if "error" in payload:
        found[1]["error"] = text(payload, "error") or "failed"
        return "postToolUseFailure", *found
    if text(result, "resultType") == "failure":
        found[1]["error"] = output or "failed"
    return "postToolUse", *found
