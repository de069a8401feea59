"""An event as every host's adapter hands it over, and the observation made of it.

Plain classes: `dataclasses` and `typing` would cost a hook more than parsing and storing do.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["ACTIONS", "Event", "Observation"]

# What an agent can do, whatever its host calls it, and the fields of `Event.data` that tell more.
# Every action may carry `error` (it failed) and `interrupted` (the user stopped it).
ACTIONS = {
    "prompt": ("text",),
    "command": ("command", "description", "output", "exit_code"),
    "read": ("path", "first_line", "lines"),
    "write": ("path", "content", "hunks", "created"),
    "edit": ("path", "edits", "hunks"),
    "patch": ("patch",),
    "search": ("pattern", "path", "matches"),
    "fetch": ("url", "question"),
    "web_search": ("query",),
    "mcp": ("tool", "input", "output"),
    "task": ("description", "prompt", "agent", "status", "result"),
    "task_result": ("agent", "text"),
    "compact": ("trigger", "text"),
    "session_start": ("source",),
    "session_end": ("reason",),
    "marker": ("text",),
    "other": ("summary",),
}


class Event:
    """One thing that happened in an agent's session.

    Attributes:
        host: The agent program, such as "claude-code".
        source_event: What the host calls the event.
        action: One of ACTIONS.
        data: The action's fields; values as they came, nothing trusted.
        event_id: The host's own id of this event; empty if it gives none.
        timestamp: Seconds since 1970 if the host told; else None.
        tool_name: The host's name of the tool, if one was used.
    """

    __slots__ = (
        "action",
        "cwd",
        "data",
        "event_id",
        "host",
        "session_id",
        "source_event",
        "timestamp",
        "tool_name",
    )

    def __init__(  # noqa: PLR0913 - an event's fields, all of them
        self,
        host: str,
        source_event: str,
        session_id: str,
        cwd: str,
        action: str,
        data: Mapping[str, Any],
        *,
        event_id: str = "",
        timestamp: int | None = None,
        tool_name: str | None = None,
    ) -> None:
        self.host = host
        self.source_event = source_event
        self.session_id = session_id
        self.cwd = cwd
        self.action = action
        self.data = data
        self.event_id = event_id
        self.timestamp = timestamp
        self.tool_name = tool_name


class Observation:
    """What is kept of an event: redacted, short, safe to store.

    Attributes:
        repeat: What makes this one a repetition of one stored in the same session within the
            window, and so not worth a row: "path" (same type and path), "content" (also the same
            content), "type" (same type), or "" (never).
        redactions: How many secrets were masked in it.
    """

    __slots__ = (
        "content",
        "file_path",
        "metadata",
        "obs_type",
        "redactions",
        "repeat",
        "signature",
    )

    def __init__(
        self,
        obs_type: str,
        content: str,
        file_path: str | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        signature: str | None = None,
        repeat: str = "",
    ) -> None:
        self.obs_type = obs_type
        self.content = content
        self.file_path = file_path
        self.metadata = metadata or {}
        self.signature = signature
        self.repeat = repeat
        self.redactions = 0
