"""Text that hosts and Zapomni itself put around what a user, a tool or a model said."""

from __future__ import annotations

__all__ = ["strip_injected"]

# Tags between which a host puts words of its own, or of its hooks.
_BLOCKS = (
    "hook_context",
    "session_context",
    "environment_context",
    "system-reminder",
    "user-prompt-submit-hook",
    "new-diagnostics",
    "ide_opened_file",
    "ide_selection",
)
# A context's title and notice are this near to its opening tag.
_HEAD = 600
_TITLE = "## zapomni:"


def strip_injected(text: str) -> str:
    """Return a text without the blocks that a host or Zapomni added to it.

    A block that nothing closes reaches to the end if it is Zapomni's or if the text begins with
    it; otherwise it is taken for a mention of the tag, and stays.
    """
    if "<" in text:
        for name in _BLOCKS:
            if f"<{name}>" in text:
                text = _cut_blocks(text, f"<{name}>", f"</{name}>")
    return _cut_contexts(text) if "zapomni-" in text else text


def _cut_blocks(text: str, opening: str, closing: str) -> str:
    parts, start = [], 0
    while (at := text.find(opening, start)) >= 0:
        end = text.find(closing, at)
        if end < 0:
            if not text[:at].strip():
                return ""
            break
        parts.append(text[start:at])
        start = end + len(closing)
    return "".join([*parts, text[start:]])


def _cut_contexts(text: str) -> str:
    """Cut our own contexts; Gemini CLI writes their tags as entities."""
    # Few texts have one: a hook should not pay for the import.
    from zapomni_core.shared.quoting import FENCE_NAME

    parts, start = [], 0
    while (at := text.find(f"{FENCE_NAME}-", start)) >= 0:
        length = len(FENCE_NAME) + 1
        while text[at + length : at + length + 1].isalnum():
            length += 1
        name = text[at : at + length]
        before = text[start:at]
        opening = next((mark for mark in ("<", "&lt;") if before.endswith(mark)), "")
        if not opening:
            # A mention of the name, or a tag that closes nothing.
            parts.append(text[start : at + length])
            start = at + length
            continue
        head = at - len(opening)
        title = text.rfind(_TITLE, max(start, head - _HEAD), head)
        parts.append(text[start : title if title >= 0 else head])
        closing = f"</{name}>" if opening == "<" else f"&lt;/{name}&gt;"
        end = text.find(closing, at + length)
        if end < 0:
            return "".join(parts)
        start = end + len(closing)
    return "".join([*parts, text[start:]])
