"""Cline: a file per event, a task with turns; commands and reads come as lists."""

from __future__ import annotations

from zapomni_core.modules.observations.extraction import Event
from zapomni_core.modules.observations.hosts._fields import (
    PayloadError,
    flag,
    integer,
    items,
    mapping,
    parsed,
    required,
    seconds,
    text,
)
from zapomni_core.modules.observations.hosts._tools import tool_action

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read"]

_NAMES = {
    "ask_followup_question": "AskUserQuestion",
    "ask_question": "AskUserQuestion",
    "skills": "Skill",
}


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event."""
    name, task = required(payload, "hookName", "taskId")
    roots = [root for root in items(payload, "workspaceRoots") if isinstance(root, str) and root]
    if not roots:
        raise PayloadError("missing or not a string: workspaceRoots")
    found = _action(name, payload)
    if found is None:
        return None
    action, data = found
    data["subagent"] = "subagent" if text(payload, "parent_agent_id") else ""
    done = mapping(payload, "tool_result")
    data["duration_ms"] = integer(done, "durationMs")
    return Event(
        "cline",
        name,
        text(mapping(payload, "sessionContext"), "rootSessionId") or task,
        roots[0],
        action,
        data,
        event_id=text(done, "id"),
        timestamp=seconds(payload.get("timestamp")),
        tool_name=text(done, "name") or None,
    )


def _action(name: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    if name == "prompt_submit":
        # A subagent is given its prompt by the agent.
        if text(payload, "parent_agent_id"):
            return None
        return "prompt", {"text": text(mapping(payload, "userPromptSubmit"), "prompt")}
    if name == "tool_result":
        return _tool(mapping(payload, "tool_result"))
    if name == "session_shutdown":
        return "session_end", {"reason": text(payload, "reason")}
    # The end of a turn; what a subagent answered comes with the tool that started it.
    if name == "agent_end" and not text(payload, "parent_agent_id"):
        return "reply", {"text": text(mapping(payload, "turn"), "outputText")}
    return None


def _tool(done: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    name, given = text(done, "name"), parsed(done.get("input"))
    output = done.get("output")
    several = output if isinstance(output, list) else [output]
    answers = [one for one in several if isinstance(one, dict)]
    said = "\n".join(filter(None, (text(one, "result", "error") for one in answers)))
    failed = [one for one in answers if one.get("success") is False]
    error = text(done, "error")
    if failed and not error:
        error = text(failed[0], "result", "error") or "failed"
    shown = said or (output if isinstance(output, str) else "")
    found: tuple[str, dict[str, Any]] | None
    if name in {"run_commands", "execute_command"}:
        commands = given.get("commands", given.get("command"))
        code = _exit_code(error)
        output = error.partition("\n")[2] if code else shown
        found = "command", {"command": _line(commands), "output": output, "exit_code": code}
    elif name == "editor":
        path, old = text(given, "path"), text(given, "old_text")
        new = text(given, "new_text")
        if old or integer(given, "insert_line") is not None:
            found = "edit", {"path": path, "edits": [(old, new)]}
        else:
            found = "write", {"path": path, "content": new}
    elif name == "read_files":
        files = given.get("files", given.get("paths", given.get("file_paths")))
        first = files[0] if isinstance(files, list) and files else files
        named = text(first, "path", "file_path") if isinstance(first, dict) else first
        found = "read", {"path": named if isinstance(named, str) else ""}
    elif name == "search_codebase":
        found = "search", {"pattern": _line(given.get("queries"))}
    elif name == "spawn_agent":
        # Its other words describe the agent.
        answer = answers[0] if answers else {}
        found = (
            "task",
            {
                "prompt": text(given, "task"),
                "status": text(answer, "finishReason"),
                "result": text(answer, "text"),
            },
        )
    elif name == "fetch_web_content":
        requests = [one for one in items(given, "requests") if isinstance(one, dict)]
        first_request = requests[0] if requests else {}
        found = (
            "fetch",
            {"url": text(first_request, "url"), "question": text(first_request, "prompt")},
        )
    else:
        server, separator, tool = name.partition("__")
        known = f"mcp__{server}__{tool}" if separator else _NAMES.get(name, name)
        found = tool_action(known, given, shown or output)
    if found and (error or flag(done, "isError")):
        found[1]["error"] = error or "failed"
    return found


def _exit_code(error: str) -> int | None:
    """Read the first line of a failure: "[Command exited with code 3]"."""
    words = error.partition("\n")[0].strip("[]").rpartition(" exited with code ")
    return int(words[2]) if words[1] and words[2].isascii() and words[2].isdecimal() else None


def _line(value: Any) -> str:
    """Return commands or patterns as one text: they come as one, as a list, or with arguments."""
    if isinstance(value, str):
        return value
    parts = []
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            words = [text(one, "command"), *map(str, items(one, "args"))]
            parts.append(" ".join(filter(None, words)))
        elif isinstance(one, str):
            parts.append(one)
    return "\n".join(parts)
