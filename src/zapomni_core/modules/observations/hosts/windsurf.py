"""Windsurf: everything of interest is in `tool_info`; a trajectory is a session."""

from __future__ import annotations

import os

from zapomni_core.modules.observations.extraction import Event
from zapomni_core.modules.observations.hosts._fields import (
    items,
    mapping,
    pairs,
    required,
    seconds,
    text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read"]


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event."""
    name, session_id = required(payload, "agent_action_name", "trajectory_id")
    info = mapping(payload, "tool_info")
    found = _action(name, info)
    if found is None:
        return None
    # Only commands say where; a hook runs in the workspace.
    cwd = text(info, "cwd") or os.getcwd()  # noqa: PTH109 - pathlib costs a hook milliseconds
    return Event(
        "windsurf",
        name,
        session_id,
        cwd,
        *found,
        # One execution has many steps of a kind, but only one prompt.
        event_id=text(payload, "execution_id") if found[0] == "prompt" else "",
        timestamp=seconds(payload.get("timestamp")),
        tool_name=text(info, "mcp_tool_name") or None,
    )


def _action(name: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    if name == "pre_user_prompt":
        return "prompt", {"text": text(info, "user_prompt")}
    if name == "post_write_code":
        edits = pairs(items(info, "edits"))
        return "edit", {"path": text(info, "file_path"), "edits": edits}
    if name == "post_run_command":
        # Nothing says whether it failed.
        return "command", {
            "command": text(info, "command_line"),
            "output": text(info, "output"),
            "outcome": "unknown",
        }
    if name == "post_read_code":
        return "read", {"path": text(info, "file_path")}
    if name == "post_mcp_tool_use":
        tool = ".".join(filter(None, [text(info, "mcp_server_name"), text(info, "mcp_tool_name")]))
        given, output = info.get("mcp_tool_arguments"), info.get("mcp_result")
        return "mcp", {"tool": tool, "input": given, "output": output}
    if name == "post_cascade_response":
        return "reply", {"text": text(info, "response")}
    return None
