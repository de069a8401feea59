"""Agent hosts: one file each, how its hook JSON reads."""

from __future__ import annotations

from zapomni_core.modules.observations.hosts._fields import PayloadError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from zapomni_core.modules.observations.extraction import Event

__all__ = ["HOOKS_REVISION", "HOSTS", "PayloadError", "detect_host", "read_event"]

# Which events `zapomni init` registers, as a number that grows: a hook that was registered for an
# older set says so, and one line asks the user to run `zapomni init` again.
HOOKS_REVISION = 2

# The name `--host` takes, and the module that reads its events.
HOSTS = {
    "claude-code": "claude_code",
    "cline": "cline",
    "codex": "codex",
    "copilot": "copilot",
    "cursor": "cursor",
    "gemini": "gemini",
    "generic": "generic",
    "opencode": "opencode",
    "qwen": "qwen",
    "windsurf": "windsurf",
}

_GEMINI_EVENTS = frozenset(
    "BeforeAgent AfterAgent BeforeModel AfterModel BeforeToolSelection BeforeTool AfterTool "
    "PreCompress".split()
)


def detect_host(payload: dict[str, Any]) -> str:
    """Detect the host by the fields only it sends; Claude Code's form is the common one."""
    if "hookName" in payload and "taskId" in payload:
        return "cline"
    if "agent_action_name" in payload or "trajectory_id" in payload:
        return "windsurf"
    if "conversation_id" in payload or "workspace_roots" in payload:
        return "cursor"
    if "hook_event_name" in payload:
        if str(payload["hook_event_name"]) in _GEMINI_EVENTS:
            return "gemini"
        # Codex names its model in every event and its turn in most; Claude Code only at a start.
        if "turn_id" in payload or ("model" in payload and "permission_mode" in payload):
            return "codex"
        if "/rollout-" in str(payload.get("transcript_path")):
            return "codex"
        # Gemini stamps every event; the names it shares with Claude Code leave only this.
        if isinstance(payload.get("timestamp"), str):
            return "gemini"
        return "claude-code"
    if "event" in payload:
        return "generic"
    if "timestamp" in payload and "cwd" in payload:
        return "copilot"
    return "claude-code"


def read_event(payload: dict[str, Any], host: str | None = None) -> Event | None:
    """Return the event in our words; None if it is none of our business.

    Raises:
        PayloadError: A field the host always sends is missing.
    """
    name = host or detect_host(payload)
    # `importlib` would load `warnings` for this one call.
    module = __import__(f"zapomni_core.modules.observations.hosts.{HOSTS[name]}", fromlist=["read"])
    event: Event | None = module.read(payload)
    return event
