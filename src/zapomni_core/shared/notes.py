"""A memory as a Markdown note: a head that people can read and edit, and the text below it.

The head has one line per field; fields that are empty are left out. Only `EDITABLE` fields and the
text are read back. Formatting that says the same (quotes, order, line ends, blank lines around the
text) is no change.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from zapomni_core.shared.front_matter import split_front_matter
from zapomni_db.exceptions import ValidationError

__all__ = [
    "EDITABLE",
    "Note",
    "add_id",
    "choose_name",
    "parse_note",
    "render_note",
    "same_text",
    "show_moment",
]

EDITABLE = ("kind", "tags", "project", "pinned", "source", "expires")
_WRITTEN = ("id", *EDITABLE, "happened", "created", "updated", "supersedes", "related", "cites")
_TIMES = ("expires", "happened", "created", "updated")
MAX_NAME_CHARS, MAX_NAME_BYTES = 60, 120

# Words that YAML reads as something else than a text.
_NOT_TEXT = re.compile(r"(?i)true|false|yes|no|on|off|null|none|~|[-+.\d][-+.,:_\dTZe ]*")
_PLAIN = re.compile(r"[\w/@.+][\w/@.+() -]*")
_KEY = re.compile(r"([A-Za-z_][\w .-]*|\"[^\"]+\"|'[^']+')\s*:(\s|$)")
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
# What file systems or links of notes do not take.
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|#^\[\]`%]+")


@dataclass(frozen=True)
class Note:
    """A note as it was read."""

    memory_id: str
    has_head: bool
    fields: dict[str, Any]
    """The values of all `EDITABLE` fields; empty ones if the head has none."""
    text: str
    updated: str = ""
    """When its memory was changed, when the note was written."""
    happened: datetime | None = None
    extra: list[str] = field(default_factory=list)
    """The lines of fields that are not ours."""


def same_text(first: str, second: str) -> bool:
    """Return whether two texts differ in line ends and the blanks around them at most."""
    return _trimmed(first) == _trimmed(second)


def _trimmed(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


# --- Writing ----------------------------------------------------------------------------


def render_note(fields: Mapping[str, Any], text: str, extra: Sequence[str] = ()) -> str:
    """Return a note: the fields that are not empty, lines of other programs, and the text."""
    lines = [
        f"{name}: {fields[name] if name in _TIMES else _value(fields[name])}"
        for name in _WRITTEN
        if fields.get(name) not in (None, "", [], False)
    ]
    end = "" if text.endswith("\n") else "\n"
    return "\n".join(["---", *lines, *extra, "---", "", text]) + end


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_text(one) for one in value) + "]"
    return "true" if value is True else _text(value)


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value) and value == value.strip():
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("\t", "\\t").replace("\r", " ") + '"'


def choose_name(text: str, taken: Collection[str], memory_id: str) -> str:
    """Return a file name for a note, without its ending: how its text begins.

    Args:
        text: The memory's text.
        taken: Names in the same folder, as `str.casefold` makes them.
        memory_id: A part of it makes a name unique.
    """
    first = next((line for line in text.splitlines() if line.strip(" #*_>-=`\t")), "")
    name = unicodedata.normalize("NFC", first.lstrip("#>*- \t"))
    name = " ".join(_NOT_IN_NAMES.sub(" ", name).replace("*", "").split())
    if len(name) > MAX_NAME_CHARS:
        cut = name[:MAX_NAME_CHARS]
        name = cut.rsplit(" ", 1)[0] if " " in cut[MAX_NAME_CHARS // 2 :] else cut
    while len(name.encode()) > MAX_NAME_BYTES:
        name = name[:-1]
    name = name.strip(" .")
    if not name or _RESERVED.fullmatch(name):
        name = f"Memory {name}".strip()
    if name.casefold() in taken:
        name = f"{name} {memory_id[:8]}"
    return name


# --- Reading ----------------------------------------------------------------------------


def parse_note(data: bytes) -> Note:
    """Return what a file says.

    Raises:
        ValidationError: It is not text in UTF-8, or a field has a value that cannot be.
    """
    try:
        whole = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValidationError("it is not text in UTF-8", "VAL_004") from error
    if "\0" in whole:
        raise ValidationError("it has a NUL character", "VAL_004")
    head, body = _split(whole)
    text = body.replace("\r\n", "\n").lstrip("\n").rstrip()
    if head is None:
        return Note("", has_head=False, fields=_fields({}), text=text)
    found, _ = split_front_matter("---\n" + "\n".join(head) + "\n---\n")
    happened = next((found[name] for name in ("happened", "date", "created") if name in found), "")
    return Note(
        _string(found.get("id", "")),
        has_head=True,
        fields=_fields(found),
        text=text,
        updated=_string(found.get("updated", "")),
        happened=_moment(_string(happened), "happened"),
        extra=_other_lines(head),
    )


def _split(whole: str) -> tuple[list[str] | None, str]:
    """Return the lines of the head, None if there is none, and what follows it."""
    lines = whole.split("\n")
    if lines[0].rstrip() != "---":
        return None, whole
    for end, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            return [one.removesuffix("\r") for one in lines[1:end]], "\n".join(lines[end + 1 :])
    raise ValidationError("its head does not end: a line with `---` is missing", "VAL_004")


def _fields(found: Mapping[str, Any]) -> dict[str, Any]:
    tags = found.get("tags", found.get("tag", []))
    if not isinstance(tags, list):
        tags = re.split(r"[,\s]+", _string(tags)) if _string(tags) else []
    expires = _moment(_string(found.get("expires", "")), "expires")
    return {
        "kind": _string(found.get("kind", "")) or "note",
        "tags": sorted({one.strip().removeprefix("#") for one in tags} - {""}),
        "project": _string(found.get("project", "")),
        "pinned": _string(found.get("pinned", "")).lower() in ("true", "yes", "on", "1"),
        "source": _string(found.get("source", "")),
        "expires": "" if expires is None else show_moment(expires),
    }


def _string(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def show_moment(moment: datetime) -> str:
    """Return a time as notes have it: to the second, unless it has a fraction."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(given: str, name: str) -> datetime | None:
    if not given:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except ValueError as error:
        raise ValidationError(f"the field {name} is no date, such as 2026-12-31") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _other_lines(head: Sequence[str]) -> list[str]:
    """Return the lines of fields that are not ours, as they are."""
    kept: list[str] = []
    ours = False
    for line in head:
        if key := _KEY.match(line):
            ours = key[1].strip("\"'").lower() in _WRITTEN
        if not ours:
            kept.append(line)
    return kept


def add_id(data: bytes, memory_id: str) -> bytes:
    """Return a file with the id of its memory in the head; every other byte stays."""
    first, newline, rest = data.partition(b"\n")
    end = b"\r\n" if first.endswith(b"\r") else b"\n"
    return first + newline + b"id: " + memory_id.encode() + end + rest
