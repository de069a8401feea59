"""Tools by the names Claude Code made common; other hosts map theirs onto these."""

from __future__ import annotations

from zapomni_core.modules.observations.hosts._fields import (
    flag,
    integer,
    items,
    mapping,
    pairs,
    text,
    words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["tool_action"]

# Tools that only look after the host itself.
_SILENT = frozenset(["BashOutput", "KillShell", "TaskOutput", "TaskStop", "ToolSearch", "Skill"])

# Tools that ask the user.
_QUESTIONS = frozenset(["AskUserQuestion", "ask_user", "ask_user_question", "request_user_input"])


def tool_action(
    name: str, given: dict[str, Any], response: Any
) -> tuple[str, dict[str, Any]] | None:
    """Return the action and its fields; None for a tool that is not worth a row."""
    if name in _SILENT:
        return None
    answer = response if isinstance(response, dict) else {}
    if name.startswith("mcp__"):
        said = words(response) or words(answer.get("content"))
        return "mcp", {
            "tool": name[5:].replace("__", ".", 1),
            "input": given,
            "output": said or response,
            "error": (said or "failed") if flag(answer, "isError") else "",
        }
    reader = _READERS.get(name)
    if reader:
        return reader(given, answer, response)
    if name in _QUESTIONS:
        return _asked(given, answer, response)
    summary = next((value for value in given.values() if isinstance(value, str) and value), "")
    return "other", {"summary": summary}


def _asked(
    given: dict[str, Any], answer: dict[str, Any], response: Any
) -> tuple[str, dict[str, Any]]:
    """Return what the user answered, question by question; the questions alone if nothing."""
    asked = [q for q in items(given, "questions") if isinstance(q, dict)] or [given]
    # By the question's text or id: an answer, several, or an object that has them.
    found = mapping(answer, "answers") or mapping(given, "answers")
    pairs = []
    for one in asked:
        question = text(one, "question", "title", "header")
        said = next((found[k] for k in (question, text(one, "id")) if k in found), "")
        if isinstance(said, dict):
            said = said.get("answers") or text(said, "answer", "value", "other")
        said = ", ".join(map(str, said)) if isinstance(said, list) else str(said or "")
        if question and said:
            pairs.append((question, said))
    whole = response if isinstance(response, str) else text(answer, "answer", "result", "output")
    if not pairs and whole:
        pairs = [("; ".join(text(one, "question", "title") for one in asked), whole)]
    if pairs:
        return "answers", {"pairs": pairs}
    return "other", {"summary": text(asked[0], "question", "title", "header")}


def _bash(
    given: dict[str, Any], answer: dict[str, Any], response: Any
) -> tuple[str, dict[str, Any]]:
    output = response if isinstance(response, str) else text(answer, "stdout", "output")
    complaint = text(answer, "stderr")
    if complaint:
        output = f"{output}\n{complaint}" if output else complaint
    code = integer(answer, "exit_code", "exitCode")
    return "command", {
        "command": text(given, "command"),
        "description": text(given, "description"),
        "output": output,
        "exit_code": code,
        "error": (output or f"Exit code {code}") if code else "",
        "interrupted": flag(answer, "interrupted"),
        "background": flag(given, "run_in_background"),
    }


def _read(given: dict[str, Any], answer: dict[str, Any], _: Any) -> tuple[str, dict[str, Any]]:
    file = mapping(answer, "file")
    whole = integer(file, "numLines") == integer(file, "totalLines")
    return "read", {
        "path": text(given, "file_path", "absolute_path", "path", "notebook_path"),
        "first_line": None if whole else integer(file, "startLine") or integer(given, "offset"),
        "lines": integer(file, "numLines") or integer(given, "limit"),
    }


def _write(given: dict[str, Any], answer: dict[str, Any], _: Any) -> tuple[str, dict[str, Any]]:
    kind = text(answer, "type")
    return "write", {
        "path": text(given, "file_path", "path"),
        "content": text(given, "content", "contents"),
        "hunks": items(answer, "structuredPatch"),
        "created": kind == "create" if kind else None,
    }


def _edit(given: dict[str, Any], answer: dict[str, Any], _: Any) -> tuple[str, dict[str, Any]]:
    edits = items(given, "edits") or [given]
    if text(given, "new_source"):
        edits = [{"new_string": text(given, "new_source")}]
    return "edit", {
        "path": text(given, "file_path", "notebook_path", "path"),
        "edits": pairs(edits),
        "hunks": items(answer, "structuredPatch"),
    }


def _search(given: dict[str, Any], answer: dict[str, Any], _: Any) -> tuple[str, dict[str, Any]]:
    matches = integer(answer, "numFiles") or integer(answer, "numLines", "numMatches")
    return "search", {
        "pattern": text(given, "pattern", "query"),
        "path": text(given, "path", "dir_path"),
        "matches": matches,
    }


def _list(given: dict[str, Any], _: dict[str, Any], __: Any) -> tuple[str, dict[str, Any]]:
    path = text(given, "path", "dir_path")
    return "search", {"pattern": "list", "path": path}


def _fetch(given: dict[str, Any], _: dict[str, Any], __: Any) -> tuple[str, dict[str, Any]]:
    return "fetch", {"url": text(given, "url", "prompt"), "question": text(given, "prompt")}


def _web_search(given: dict[str, Any], _: dict[str, Any], __: Any) -> tuple[str, dict[str, Any]]:
    return "web_search", {"query": text(given, "query")}


def _agent(given: dict[str, Any], answer: dict[str, Any], _: Any) -> tuple[str, dict[str, Any]]:
    return "task", {
        "description": text(given, "description"),
        "prompt": text(given, "prompt"),
        "agent": text(given, "subagent_type"),
        "status": text(answer, "status"),
        "result": words(answer.get("content")),
    }


def _task(given: dict[str, Any], _: dict[str, Any], __: Any) -> tuple[str, dict[str, Any]]:
    parts = [text(given, "subject"), text(given, "description"), text(given, "status")]
    return "other", {"summary": ": ".join(filter(None, parts))}


def _patch(given: dict[str, Any], _: dict[str, Any], __: Any) -> tuple[str, dict[str, Any]]:
    return "patch", {"patch": text(given, "input", "patch", "command")}


_READERS = {
    "Agent": _agent,
    "Bash": _bash,
    "Edit": _edit,
    "Glob": _search,
    "Grep": _search,
    "LS": _list,
    "MultiEdit": _edit,
    "NotebookEdit": _edit,
    "Read": _read,
    "Task": _agent,
    "TaskCreate": _task,
    "TaskUpdate": _task,
    "WebFetch": _fetch,
    "WebSearch": _web_search,
    "Write": _write,
    "apply_patch": _patch,
}
