"""What a client is given at its start besides the instructions that all are given."""

from __future__ import annotations

from zapomni_core.infra.logging import get_logger
from zapomni_core.settings import Settings

__all__ = ["client_of", "instructions"]

log = get_logger(__name__)

# How clients call themselves whose hooks give a session its context.
WITH_CONTEXT_HOOKS = (
    "claude-code",
    "codex",
    "copilot-cli",
    "cursor",
    "gemini-cli",
    "opencode",
    "qwen-c",
)


def client_of(params: object) -> str:
    """Return how a client calls itself, in `initialize` or in the envelope of a request."""
    given = params if isinstance(params, dict) else {}
    envelope = given.get("_meta")
    about = given.get("clientInfo") or (
        envelope.get("io.modelcontextprotocol/clientInfo") if isinstance(envelope, dict) else None
    )
    name = about.get("name") if isinstance(about, dict) else None
    return "".join(c for c in str(name or "") if c.isprintable())[:100]


async def instructions(client: str, folder: str, settings: Settings) -> str:
    """Return the most important memories for a client that has no hook for them, else nothing."""
    if client.lower().startswith(WITH_CONTEXT_HOOKS):
        return ""
    # Nothing is imported for a home in which nothing was stored yet.
    if not settings.observations_path.exists():
        return ""
    from zapomni_core.workflows.recall_important import recall_important

    try:
        return await recall_important(settings, folder, client)
    except Exception as error:  # noqa: BLE001 - a client must connect with or without them
        log.warning("no_memories_in_instructions", error=type(error).__name__)
        return ""
