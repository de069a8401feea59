"""Making text safe and short: cleaned, redacted, then cut, in this order."""

from __future__ import annotations

import json

from zapomni_core.shared.hashing import keyed_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zapomni_core.shared.redaction import Redactor

__all__ = ["Scrubber", "as_text", "clip", "compact_json", "ends", "first_line"]

# Nothing longer than this is looked at: at most 2,000 characters of it would be kept.
WINDOW = 16_384
METADATA_LIMIT = 4096
VALUE_LIMIT = 300
LIST_LIMIT = 20


def as_text(value: Any) -> str:
    """Return a string as it is, a number or an object as JSON, None as nothing."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact_json(value)


def compact_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return ""


def clip(text: str, limit: int) -> str:
    """Cut redacted text."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def ends(text: str) -> str:
    """Leave out the middle of a long output: an error is told at its start or at its end."""
    # Without its first line the rest of a private key would look like nothing.
    if len(text) <= WINDOW or "PRIVATE KEY" in text:
        return text
    half = WINDOW // 2 - 1
    head, tail = text[:half], text[-half:]
    return head[: head.rfind("\n") + 1] + tail[tail.find("\n") + 1 :]


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


class Scrubber:
    """Cleans, redacts and cuts the texts of one event, and counts what it masked."""

    def __init__(self, redactor: Redactor, key: bytes) -> None:
        self._redactor = redactor
        self._key = key
        self.redactions = 0

    def scrub(self, value: Any, limit: int) -> str:
        """Return at most `limit` characters without secrets."""
        text, whole = _window(as_text(value))
        redacted, count = self._redactor.redact(text)
        self.redactions += count
        redacted = redacted.strip()
        if whole and len(redacted) <= limit:
            return redacted
        return redacted[: limit - 1].rstrip() + "…"

    def whole(self, value: Any) -> str:
        """Return redacted text for further reading; what is kept of it must be cut later."""
        return self.scrub(value, WINDOW)

    def path(self, value: Any) -> str | None:
        return self.scrub(value, 1000) or None if isinstance(value, str) else None

    def digest(self, text: str) -> str:
        """Tell two large texts apart without keeping them.

        Keyed: the hash of a short secret must not be guessable from a stolen database.
        """
        return keyed_hash(text, self._key, 8)

    def metadata(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Drop what is empty, mask and cut the rest, and keep the JSON under 4 kB."""
        kept = {name: self._value(value) for name, value in values.items()}
        kept = {name: value for name, value in kept.items() if value not in (None, "", [])}
        while len(compact_json(kept)) > METADATA_LIMIT:
            del kept[max(kept, key=lambda name: len(compact_json(kept[name])))]
        return kept

    def _value(self, value: Any) -> Any:
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return value if abs(value) < 2**53 else None
        if isinstance(value, list | tuple):
            return [self._value(item) for item in value[:LIST_LIMIT]]
        return self.scrub(value, VALUE_LIMIT)


def _window(text: str) -> tuple[str, bool]:
    """Return the part worth reading, and whether that is all of it."""
    whole = len(text) <= WINDOW
    if not whole:
        head = text[:WINDOW]
        # Cut between words: half a token would be a secret no rule knows.
        cut = max(head.rfind(" "), head.rfind("\n"))
        text = head[:cut] if cut > 0 else ""
    if not text.isascii():
        # Half of a surrogate pair is legal in JSON and illegal on disk.
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\r\n", "\n"), whole
