"""Our table in the TOML file of another program, added and removed as text."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from zapomni_cli.host_setup.files import UnfitFileError

__all__ = ["add_table", "find_table", "remove_table"]

OPENING = "# >>> zapomni: written by `zapomni init`, removed by `zapomni init --uninstall`"
CLOSING = "# <<< zapomni"


def find_table(text: str, path: Sequence[str]) -> Mapping[str, Any] | None:
    """Return a table, None if there is none.

    Raises:
        UnfitFileError: It is not TOML, or there is something else than a table.
    """
    try:
        found: Any = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise UnfitFileError(f"it is not TOML: {error}") from None
    for step in path:
        if not isinstance(found, dict):
            raise UnfitFileError(f"{'.'.join(path)} is not a table")
        if step not in found:
            return None
        found = found[step]
    if not isinstance(found, dict):
        raise UnfitFileError(f"{'.'.join(path)} is not a table")
    return found


def add_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Write a table of strings and lists of strings at the end, between two marks.

    Raises:
        UnfitFileError: The file's own way of writing leaves no room for it.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    # A JSON string is a TOML string, and a JSON list of strings a TOML array.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    block = newline.join([OPENING, f"[{'.'.join(path)}]", *lines, CLOSING, ""])
    ending = "" if not text or text.endswith("\n") else newline
    changed = text + ending + (newline if text else "") + block
    if find_table(changed, path) != values or _without(changed, path) != _without(text, path):
        raise UnfitFileError(f"there is no place for a table {'.'.join(path)}")
    return changed


def remove_table(text: str, path: Sequence[str]) -> str:
    """Take a table out, and the tables inside it.

    Raises:
        UnfitFileError: It is not written as a separate table.
    """
    if find_table(text, path) is None:
        return text
    block = re.compile(
        r"(?:\r?\n)?^" + re.escape(OPENING) + r"\r?$.*?^" + re.escape(CLOSING) + r"\r?\n?",
        re.DOTALL | re.MULTILINE,
    )
    changed = block.sub("", text)
    if find_table(changed, path) is not None:
        ours = re.compile(r"\s*\[" + re.escape(".".join(path)) + r"(?:\.[^\]]+)?\]")
        kept, inside = [], False
        for line in text.splitlines(keepends=True):
            if line.lstrip().startswith("["):
                inside = ours.match(line) is not None
            if not inside:
                kept.append(line)
        changed = "".join(kept)
    if find_table(changed, path) is not None or _without(changed, path) != _without(text, path):
        raise UnfitFileError(f"{'.'.join(path)} is not written as a separate table")
    return changed


def _without(text: str, path: Sequence[str]) -> dict[str, Any]:
    """Return what the file says, our table and the tables it would leave empty apart."""
    content = tomllib.loads(text.removeprefix("\ufeff"))
    trail = [content]
    for step in path[:-1]:
        trail.append(trail[-1].get(step, {}))
    trail[-1].pop(path[-1], None)
    for parent, step in zip(reversed(trail[:-1]), reversed(path[:-1]), strict=True):
        if not parent.get(step):
            parent.pop(step, None)
    return content
