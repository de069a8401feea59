"""Gemini CLI: the same ideas under other names."""

from __future__ import annotations

from zapomni_core.modules.observations.extraction import Event
from zapomni_core.modules.observations.hosts._fields import mapping, required, seconds, text, words
from zapomni_core.modules.observations.hosts._tools import tool_action

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read", "read_tool"]

# The last part are tools of Qwen Code, which grew out of it.
_NAMES = {
    # An agent's report comes with the end of what invoked it.
    "complete_task": "TaskOutput",
    "edit": "Edit",
    "glob": "Glob",
    "google_web_search": "WebSearch",
    "grep_search": "Grep",
    "invoke_agent": "Agent",
    "list_directory": "LS",
    "read_file": "Read",
    "replace": "Edit",
    "run_shell_command": "Bash",
    "search_file_content": "Grep",
    "web_fetch": "WebFetch",
    "write_file": "Write",
    "agent": "Agent",
    "ask_user_question": "AskUserQuestion",
    "notebook_edit": "NotebookEdit",
    "skill": "Skill",
    "task_stop": "TaskStop",
    "tool_search": "ToolSearch",
    "web_search": "WebSearch",
}

# What the host adds after a command's output.
_HOST_LINES = frozenset(["Background PIDs", "Error", "Exit Code", "Process Group PGID", "Signal"])


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
        return read_tool(payload)
    if name == "BeforeAgent":
        return "prompt", {"text": text(payload, "prompt")}
    if name == "AfterAgent":
        return "reply", {"text": text(payload, "prompt_response")}
    if name == "SessionStart":
        return "session_start", {"source": text(payload, "source")}
    if name == "SessionEnd":
        return "session_end", {"reason": text(payload, "reason")}
    # PreCompress comes before every request, whether or not anything is compressed then.
    return None


def read_tool(payload: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Read what a tool did."""
    name = text(payload, "tool_name")
    answer = mapping(payload, "tool_response")
    content = _unwrapped(words(answer.get("llmContent")))
    display = text(answer, "returnDisplay")
    if name.startswith("mcp_") and not name.startswith("mcp__"):
        server, _, tool = name[4:].partition("_")
        name = f"mcp__{server}__{tool}"
    name = _NAMES.get(name, name)
    given = mapping(payload, "tool_input")
    if name == "Bash":
        found = _shell(given, content, display)
    elif name == "Agent":
        given = {"prompt": text(given, "prompt"), "subagent_type": text(given, "agent_name")}
        found = tool_action(name, given, {"content": content})
    else:
        found = tool_action(name, given, content or display)
    failure = answer.get("error")
    if found and failure and not found[1].get("error"):
        reason = text(failure, "message") if isinstance(failure, dict) else failure
        found[1]["error"] = reason if isinstance(reason, str) and reason else "failed"
    return found


def _unwrapped(content: str) -> str:
    """Take the tags off that mark an output as data."""
    lines = content.strip().split("\n")
    if lines[0].startswith("<untrusted_context") and lines[-1] == "</untrusted_context>":
        return "\n".join(lines[1:-1])
    return content


def _shell(given: dict[str, Any], content: str, display: str) -> tuple[str, dict[str, Any]] | None:
    """Read a command's answer: "Output: …", then lines of the host such as "Exit Code: 1"."""
    output, trailer = content, {}
    if content.startswith("Output: "):
        # What is displayed is the output alone; without it the host's lines are the last ones.
        known = display and content.startswith(f"Output: {display}")
        first = len(f"Output: {display}") if known else len("Output: ")
        lines = content[first:].split("\n")
        while lines and lines[-1].partition(": ")[0] in _HOST_LINES:
            label, _, value = lines.pop().partition(": ")
            trailer[label] = value
        output = display if known else "\n".join(lines).removeprefix("(empty)")
    code = trailer.get("Exit Code", "").removeprefix("-")
    known_code = code.isascii() and code.isdecimal() and len(code) < 12
    response = {"stdout": output, "exit_code": int(trailer["Exit Code"]) if known_code else None}
    found = tool_action("Bash", given, response)
    if found is None:
        return None
    data = found[1]
    if "Signal" in trailer or "Error" in trailer:
        data["error"] = trailer.get("Error") or output or "ended by a signal"
    if content.startswith("Command was automatically cancelled"):
        data["error"] = content
    if content.startswith("Command was cancelled by user"):
        data["interrupted"] = True
    if content.startswith("Command moved to background"):
        data["background"] = True
    return found
