"""Our entry in the YAML file of another program, added and removed as text.

Reads no more YAML than that takes: a document that is a mapping, the block under one of its keys,
and the strings and lists of one entry there. Everything else is kept as it is written, comments
included; what is written in another way than one line per key is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from zapomni_cli.host_setup.files import UnfitFileError

__all__ = ["add_entry", "find_entry", "remove_entry"]

_KEY = re.compile(
    r"""(?P<indent>[ ]*)(?P<key>"[^"\n]*"|'[^'\n]*'|[^\s#"'\-\[{&*!|>%@`][^\n#:]*)\s*:"""
)
_PLAIN_END = re.compile(r"\s+#.*$")


class _YamlBlock(NamedTuple):
    """The lines of a key: its own line, and those after it up to `end`."""

    start: int
    end: int
    value: str
    """What follows the colon on its line, without a comment."""


def find_entry(text: str, path: Sequence[str]) -> Mapping[str, Any] | None:
    """Return an entry, None if there is none.

    Raises:
        UnfitFileError: It is not YAML of the expected shape.
    """
    lines = _lines(text)
    section = _section(lines, path[0])
    if section is None:
        return None
    block = _child(lines, section, path[1])
    if block is None:
        return None
    indent = _child_indent(lines, block)
    found: dict[str, Any] = {}
    for number in range(block.start + 1, block.end):
        match = _KEY.match(lines[number])
        if match is None or match["indent"] != indent:
            continue
        child = _block_at(lines, number, match)
        found[_scalar(match["key"])] = _value(lines, child)
    return found


def add_entry(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Write an entry as the first one of its section; the section is made if there is none.

    Raises:
        UnfitFileError: The file's own way of writing leaves no room for it.
    """
    lines = _lines(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    section = _section(lines, path[0])
    if section is None:
        if lines and lines[-1].strip() and not lines[-1].endswith("\n"):
            lines[-1] += newline
        lines.append(f"{path[0]}:{newline}")
        section = _YamlBlock(len(lines) - 1, len(lines), "")
    elif section.value == "{}":
        line = lines[section.start]
        lines[section.start] = line[: line.index(":") + 1] + line[line.index("{}") + 2 :]
        if not lines[section.start].endswith("\n"):
            lines[section.start] += newline
    indent = _child_indent(lines, section) or "  "
    inner = indent * 2
    # JSON is YAML: strings in quotes, lists in brackets.
    entry = [f"{indent}{path[1]}:{newline}"]
    entry += [
        f"{inner}{key}: {json.dumps(value, ensure_ascii=False)}{newline}"
        for key, value in values.items()
    ]
    changed = "".join([*lines[: section.start + 1], *entry, *lines[section.start + 1 :]])
    if find_entry(changed, path) != _as_read(values):
        raise UnfitFileError(f"there is no place for {'.'.join(path)}")
    return changed


def remove_entry(text: str, path: Sequence[str]) -> str:
    """Take an entry out; its section stays, empty if it must be."""
    lines = _lines(text)
    section = _section(lines, path[0])
    block = None if section is None else _child(lines, section, path[1])
    if section is None or block is None:
        return text
    kept = lines[: block.start] + lines[block.end :]
    left = _section(kept, path[0])
    if left is not None and not _child_indent(kept, left):
        line = kept[left.start]
        at = line.index(":") + 1
        kept[left.start] = f"{line[:at]} {{}}{line[at:]}"
    return "".join(kept)


def _lines(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        begins = line.removeprefix("\ufeff") if number == 0 else line
        if begins.startswith(("...", "%")) or (
            begins.startswith("---") and any(map(_is_content, lines[:number]))
        ):
            raise UnfitFileError("it has more than one document")
        if begins.startswith("---") and begins[3:].strip():
            raise UnfitFileError("its document begins on the line of its marker")
        if begins.startswith("\t"):
            raise UnfitFileError("it is indented with tabs")
    return lines


def _is_content(line: str) -> bool:
    said = line.removeprefix("\ufeff").strip()
    return bool(said) and not said.startswith(("#", "---"))


def _section(lines: Sequence[str], name: str) -> _YamlBlock | None:
    """Return a key of the document."""
    found: list[_YamlBlock] = []
    for number, line in enumerate(lines):
        if not _is_content(line) or line[:1] in " \t":
            continue
        match = _KEY.match(line.removeprefix("\ufeff"))
        if match is None:
            raise UnfitFileError(f"line {number + 1} is no key: it is not a mapping")
        if _scalar(match["key"]) == name:
            found.append(_block_at(lines, number, match))
    if len(found) > 1:
        raise UnfitFileError(f"{name} is there twice")
    if found and found[0].value not in ("", "{}"):
        raise UnfitFileError(f"{name} is not written one line per key")
    return found[0] if found else None


def _child(lines: Sequence[str], section: _YamlBlock, name: str) -> _YamlBlock | None:
    indent = _child_indent(lines, section)
    for number in range(section.start + 1, section.end):
        match = _KEY.match(lines[number])
        if match and match["indent"] == indent and _scalar(match["key"]) == name:
            return _block_at(lines, number, match)
    return None


def _block_at(lines: Sequence[str], number: int, match: re.Match[str]) -> _YamlBlock:
    """Return a key with all lines that are indented deeper; comments at its end are not its own."""
    depth = len(match["indent"])
    line = lines[number].removeprefix("\ufeff")
    end = number + 1
    for later in range(number + 1, len(lines)):
        said = lines[later].strip()
        inner = len(lines[later]) - len(lines[later].lstrip(" "))
        if not said or said.startswith("#"):
            continue
        # The items of a list may be as deep as their key.
        if inner > depth or (inner == depth and said.startswith("- ") and depth):
            end = later + 1
            continue
        break
    return _YamlBlock(number, end, _PLAIN_END.sub("", line[match.end() :]).strip())


def _child_indent(lines: Sequence[str], block: _YamlBlock) -> str:
    for number in range(block.start + 1, block.end):
        if match := _KEY.match(lines[number]):
            return match["indent"]
        if _is_content(lines[number]):
            raise UnfitFileError(f"line {number + 1} is no key: it is not a mapping")
    return ""


def _value(lines: Sequence[str], block: _YamlBlock) -> Any:
    if block.value:
        if block.value.startswith("["):
            try:
                return json.loads(block.value)
            except ValueError:
                return [
                    _scalar(item) for item in block.value.strip("[]").split(",") if item.strip()
                ]
        return {} if block.value == "{}" else _scalar(block.value)
    items = [lines[number].strip() for number in range(block.start + 1, block.end)]
    if items and all(item.startswith("-") for item in items if _is_content(item)):
        return [_scalar(item[1:]) for item in items if _is_content(item)]
    pairs = [_KEY.match(item) for item in items if _is_content(item)]
    return {
        _scalar(pair["key"]): _scalar(pair.string[pair.end() :])
        for pair in pairs
        if pair is not None
    }


def _scalar(text: str) -> str:
    """Return a string as it is meant; numbers and flags stay as they are written."""
    text = text.strip()
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return text[1:-1].replace("''", "'")
    return text


def _as_read(values: Mapping[str, Any]) -> dict[str, Any]:
    plain = (str, list, dict)
    return {
        key: value if isinstance(value, plain) else json.dumps(value)
        for key, value in values.items()
    }
