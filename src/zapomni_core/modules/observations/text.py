"""Text made safe and short: without what hosts add, cleaned, redacted, then cut."""

from __future__ import annotations

import time

from zapomni_core.shared.hashing import keyed_hash
from zapomni_core.shared.quick_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zapomni_core.shared.redaction import Redactor

__all__ = [
    "Scrubber",
    "as_text",
    "clean_row",
    "clip",
    "compact_json",
    "ends",
    "first_line",
    "strip_injected",
]

# No more of a text than this is read: at most 2,000 characters of it would be stored.
WINDOW = 16_384
# Nor more than this of all texts of one event together: an agent is waiting.
EVENT_WINDOW = 262_144
METADATA_LIMIT = 4096
VALUE_LIMIT = 300
LIST_LIMIT = 20
CONTENT_LIMIT = 2000

# The one-line fields of a row and how long each may be; those of OPTIONAL may be missing.
LABELS = {
    "session_id": 200,
    "project": 1000,
    "project_name": 200,
    "branch": 200,
    "host": 40,
    "obs_type": 40,
    "source_event": 100,
    "tool_name": 200,
    "file_path": 1000,
    "signature": 200,
    "folder": 4096,
    "identity": 100,
    "main_folder": 4096,
}
OPTIONAL = frozenset(["tool_name", "file_path", "signature", "folder", "identity", "main_folder"])
REPEATS = frozenset(["", "path", "content", "type"])
# Seconds since 1970 that every calendar knows.
MAX_TIMESTAMP = 10**10

# Control characters, removed from every text: C0 but tab and line feed, DEL, C1.
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])

# Tags between which a host puts its own words, or those of its hooks.
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


def as_text(value: Any) -> str:
    """Return a string as it is, a number or an object as JSON, None as nothing."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact_json(value)


def compact_json(value: Any) -> str:
    try:
        return dumps(value, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return ""


def clip(text: str, limit: int) -> str:
    """Cut redacted text."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def ends(text: str) -> str:
    """Leave out the middle of a long output: an error is at its start or at its end."""
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
        self._room = EVENT_WINDOW

    def scrub(self, value: Any, limit: int) -> str:
        """Return at most `limit` characters without secrets."""
        text, whole = _window(strip_injected(as_text(value)))
        redacted, count = self._redactor.redact(text)
        self.redactions += count
        redacted = redacted.strip()
        if whole and len(redacted) <= limit:
            return redacted
        return redacted[: limit - 1].rstrip() + "…"

    def whole(self, value: Any) -> str:
        """Return redacted text for further reading; it must be cut before it is stored.

        Nothing if the event's other texts were too long already.
        """
        if self._room <= 0:
            return ""
        text = self.scrub(value, WINDOW)
        self._room -= len(text)
        return text

    def path(self, value: Any) -> str | None:
        """Return a path without secrets; None if it is no text."""
        return self.scrub(value, 1000) or None if isinstance(value, str) else None

    def digest(self, text: str) -> str:
        """Hash a large text, to compare it without storing it.

        Keyed: the hash of a short secret must not be guessable from a stolen database.
        """
        return keyed_hash(text, self._key, 8)

    def metadata(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Drop empty values, mask and cut the others, and drop the longest above 4 kB of JSON."""
        clean = {name: self._value(value) for name, value in values.items()}
        clean = {name: value for name, value in clean.items() if value not in (None, "", [])}
        while len(compact_json(clean)) > METADATA_LIMIT:
            del clean[max(clean, key=lambda name: len(compact_json(clean[name])))]
        return clean

    def _value(self, value: Any) -> Any:
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return value if abs(value) < 2**53 else None
        if isinstance(value, list | tuple):
            return [self._value(item) for item in value[:LIST_LIMIT]]
        return self.scrub(value, VALUE_LIMIT)


def clean_row(row: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return a row every field of which the database takes, whatever came in.

    New rows and rows from the spool both pass here: labels are redacted, half surrogate pairs and
    control characters removed, lengths and numbers brought within their limits.

    Raises:
        TypeError: A field that cannot be made up is missing or no text.
        ValueError: The identity of the event is no hexadecimal number.
    """
    clean: dict[str, Any] = dict(zip(LABELS, _clean_labels(row, redactor), strict=True))
    for name, value in clean.items():
        clean[name] = value[: LABELS[name]] or (None if name in OPTIONAL else "")
    for name in ("session_id", "project", "host", "obs_type"):
        clean[name] = clean[name] or "unknown"
    content, event_hash = row.get("content"), row.get("event_hash")
    if not isinstance(content, str) or not isinstance(event_hash, str):
        raise TypeError("content or event_hash")
    clean["content"] = clip(_storable(content), CONTENT_LIMIT)
    clean["metadata"] = _clean_metadata(row.get("metadata"))
    moment, redactions = row.get("timestamp"), row.get("redactions")
    known = type(moment) is int and 0 < moment < MAX_TIMESTAMP
    clean["timestamp"] = moment if known else int(time.time())
    sound = type(redactions) is int and 0 <= redactions < 2**31
    clean["redactions"] = redactions if sound else 0
    clean["repeat"] = row["repeat"] if row.get("repeat") in REPEATS else ""
    candidates = row.get("candidates")
    if candidates and isinstance(candidates, list):
        texts = [one for one in candidates if isinstance(one, str)]
        clean["candidates"] = [clip(_storable(one), VALUE_LIMIT) for one in texts[:LIST_LIMIT]]
    clean["event_hash"] = bytes.fromhex(event_hash)[:32].hex()
    if not clean["event_hash"]:
        raise ValueError("event_hash")
    return clean


def _clean_labels(row: Mapping[str, Any], redactor: Redactor) -> list[str]:
    values = []
    for name in LABELS:
        value = row.get(name)
        if value is None and (name in OPTIONAL or name == "branch"):
            value = ""
        elif not isinstance(value, str):
            raise TypeError(name)
        values.append(_storable(_window(value)[0]).replace("\n", " ").strip())
    # One pass for all: it costs little more than one of them would.
    together = redactor.redact("\n".join(values))[0].split("\n")
    if len(together) == len(values):
        return together
    return [redactor.redact(value)[0] for value in values]


def _clean_metadata(text: Any) -> str | None:
    """Return the JSON of an object; None if it is anything else."""
    if not isinstance(text, str) or len(text) > 2 * METADATA_LIMIT:
        return None
    text = _storable(text)
    try:
        return text if isinstance(loads(text), dict) else None
    except (ValueError, RecursionError):
        return None


def _storable(text: str) -> str:
    """Replace what is legal in JSON and illegal on disk, remove what no terminal should get."""
    if text.isascii() and text.isprintable():
        return text
    return text.encode("utf-8", "replace").decode("utf-8").translate(_CONTROLS)


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


# --- What hosts and Zapomni itself put around a text ----------------------------------


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
    from zapomni_core.shared.fencing import CONTEXT_FENCE

    parts, start = [], 0
    while (at := text.find(f"{CONTEXT_FENCE}-", start)) >= 0:
        length = len(CONTEXT_FENCE) + 1
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
