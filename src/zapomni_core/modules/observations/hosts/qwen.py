"""Qwen Code: Claude Code's events, with the tools of Gemini CLI."""

from __future__ import annotations

from zapomni_core.modules.observations.hosts._fields import flag, mapping, seconds, text, words
from zapomni_core.modules.observations.hosts._tools import tool_action
from zapomni_core.modules.observations.hosts.claude_code import read_as
from zapomni_core.modules.observations.hosts.gemini import read_tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from zapomni_core.modules.observations.extraction import Event

__all__ = ["read"]


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event."""
    event = read_as("qwen", payload)
    if event is None:
        return None
    event.timestamp = seconds(payload.get("timestamp"))
    if event.source_event not in {"PostToolUse", "PostToolUseFailure"}:
        return event
    error = text(payload, "error")
    if event.tool_name == "run_shell_command":
        answer = error or words(mapping(payload, "tool_response").get("llmContent"))
        found = tool_action("Bash", mapping(payload, "tool_input"), _shell(answer))
    else:
        found = read_tool(payload)
    if found is None:
        return None
    if event.source_event == "PostToolUseFailure":
        found[1]["error"] = found[1].get("error") or error or "failed"
        found[1]["interrupted"] = flag(payload, "is_interrupt")
    event.action = found[0]
    event.data = {**found[1], "subagent": event.data["subagent"]}
    return event


def _shell(answer: str) -> dict[str, Any]:
    """Read a command's answer: "Command: …", "Output: …", then lines such as "Exit Code: 1"."""
    begin, end = answer.find("\nOutput: "), answer.rfind("\nError: ")
    if not answer.startswith("Command: ") or not -1 < begin < end:
        return {"stdout": answer}
    label, _, code = answer[end:].partition("\nExit Code: ")
    code = code.partition("\n")[0]
    known = code.isascii() and code.isdecimal() and len(code) < 12
    problem = label.removeprefix("\nError: ")
    return {
        "stdout": answer[begin + len("\nOutput: ") : end].removeprefix("(empty)"),
        "stderr": "" if problem == "(none)" else problem,
        "exit_code": int(code) if known else None,
    }
