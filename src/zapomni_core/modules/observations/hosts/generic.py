"""The plain form for anyone: one flat object, documented in docs/capture.md."""

from __future__ import annotations

from zapomni_core.modules.observations.extraction import ACTIONS, Event
from zapomni_core.modules.observations.hosts._fields import integer, pairs, required, seconds, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read"]


def read(payload: dict[str, Any]) -> Event | None:
    """Read one event; an unknown name is ignored, like every unknown field."""
    session_id, cwd, name = required(payload, "session_id", "cwd", "event")
    if name not in ACTIONS:
        return None
    data = {field: payload[field] for field in ACTIONS[name] if field in payload}
    if name == "edit":
        data["edits"] = pairs([payload])
        if text(payload, "diff"):
            name, data = "patch", {"patch": text(payload, "diff")}
    code = integer(payload, "exit_code")
    data["error"] = text(payload, "error") or (code and (text(payload, "output") or "failed"))
    data["duration_ms"] = integer(payload, "duration_ms")
    return Event(
        text(payload, "host")[:40] or "generic",
        text(payload, "event"),
        session_id,
        cwd,
        name,
        data,
        event_id=text(payload, "id"),
        timestamp=seconds(payload.get("timestamp")),
        tool_name=text(payload, "tool") or None,
    )
