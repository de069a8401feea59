"""Changes JSON by changing its text: what is not ours keeps its order, spacing and comments.

Reads JSON with comments and trailing commas, as several hosts do, and with a byte order mark, as
editors on Windows write it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from zapomni_cli.host_setup.files import UnfitFileError

__all__ = ["Node", "append", "is_blank", "parse", "put", "remove"]

Path = Sequence[str | int]

BYTE_ORDER_MARK = "\ufeff"

_SKIPPED = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_LINE_COMMENT = re.compile(r"[ \t]*//[^\r\n]*")
_FIRST_INDENT = re.compile(r"\n([ \t]+)\S")
_DECODER = json.JSONDecoder()


@dataclass
class Node:
    """A value and where its text is."""

    start: int
    end: int
    value: Any
    keys: list[str] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Where each child begins; in an object that is its key."""

    def index(self, step: str | int) -> int | None:
        """Return the position of a child; the last one if a key is there twice, as JSON has it."""
        if isinstance(step, int):
            return step if 0 <= step < len(self.children) and not self.keys else None
        return len(self.keys) - 1 - self.keys[::-1].index(step) if step in self.keys else None


def is_blank(text: str) -> bool:
    """Return whether a file has no document yet; a byte order mark is none."""
    return not text.removeprefix(BYTE_ORDER_MARK).strip()


def parse(text: str) -> Node:
    """Read a document.

    Raises:
        UnfitFileError: It is not JSON.
    """
    try:
        root = _value(text, _skip(text, len(BYTE_ORDER_MARK) * text.startswith(BYTE_ORDER_MARK)))
    except (IndexError, RecursionError):
        raise UnfitFileError("it ends too early or nests too deep") from None
    except json.JSONDecodeError as error:
        raise UnfitFileError(f"it is not JSON: {error}") from None
    if _skip(text, root.end) != len(text):
        raise UnfitFileError(f"something follows the document at character {root.end}")
    return root


def _skip(text: str, at: int) -> int:
    match = _SKIPPED.match(text, at)
    assert match is not None
    return match.end()


def _value(text: str, at: int) -> Node:
    if text[at] in "{[":
        return _container(text, at)
    value, end = _DECODER.raw_decode(text, at)
    return Node(at, end, value)


def _container(text: str, at: int) -> Node:
    is_object = text[at] == "{"
    node = Node(at, at, {} if is_object else [])
    closing = "}" if is_object else "]"
    position = _skip(text, at + 1)
    while text[position] != closing:
        node.starts.append(position)
        if is_object:
            key, end = _DECODER.raw_decode(text, position)
            colon = _skip(text, end)
            if not isinstance(key, str) or text[colon] != ":":
                raise UnfitFileError(f"a name with a colon is missing at character {position}")
            node.keys.append(key)
            position = _skip(text, colon + 1)
        child = _value(text, position)
        node.children.append(child)
        position = _skip(text, child.end)
        if text[position] == ",":
            position = _skip(text, position + 1)
        elif text[position] != closing:
            raise UnfitFileError(f"a comma is missing at character {position}")
    node.end = position + 1
    values = [child.value for child in node.children]
    node.value = dict(zip(node.keys, values, strict=True)) if is_object else values
    return node


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Set a member, and make the objects it lies in where there are none.

    Raises:
        UnfitFileError: Something on the way is no object.
    """
    node = root = parse(text)
    expected = inner = deepcopy(root.value)
    for depth, step in enumerate(path):
        if not isinstance(node.value, dict):
            raise UnfitFileError(f"{_name(path[:depth])} is not an object")
        position = node.index(step)
        if position is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            inner[step] = value
            changed = _insert(text, node, value, json.dumps(step, ensure_ascii=False))
            return _verified(changed, expected)
        node = node.children[position]
        if depth < len(path) - 1:
            inner = inner[step]
    inner[path[-1]] = value
    rendered = _render(text, value, _line_indent(text, node.start))
    return _verified(text[: node.start] + rendered + text[node.end :], expected)


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Add an item to a list, and make the list where there is none.

    Raises:
        UnfitFileError: There is something else than a list.
    """
    root = parse(text)
    node = _find(root, path)
    if node is None:
        return put(text, path, [value])
    if not isinstance(node.value, list):
        raise UnfitFileError(f"{_name(path)} is not a list")
    changed = _insert(text, node, value)
    expected = deepcopy(root.value)
    _value_at(expected, path).append(value)
    return _verified(changed, expected)


def remove(text: str, path: Path) -> str:
    """Take a member or an item out; its neighbours keep their text.

    Raises:
        UnfitFileError: There is no such member, or it is there twice.
    """
    root = parse(text)
    parent = _find(root, path[:-1])
    position = None if parent is None else parent.index(path[-1])
    if parent is None or position is None:
        raise UnfitFileError(f"there is no {_name(path)}")
    expected = deepcopy(root.value)
    del _value_at(expected, path[:-1])[path[-1]]
    return _verified(_cut(text, parent, position), expected)


def _cut(text: str, parent: Node, position: int) -> str:
    child_end = parent.children[position].end
    if position > 0:
        # The comma before it goes; a comment about the neighbour stays.
        before = parent.children[position - 1].end
        comma = _skip(text, before)
        between = text[before:comma] + text[comma + 1 : parent.starts[position]]
        kept, rest = between.rstrip(), text[child_end:]
        if "//" in kept.rpartition("\n")[2] and not rest.startswith(("\r", "\n")):
            kept += _newline(text)  # the comment must not swallow what follows
        return text[:before] + kept + rest
    if len(parent.children) > 1:
        return text[: parent.starts[0]] + text[parent.starts[1] :]
    after = _skip(text, child_end)
    rest = text[child_end:after] + text[after + (text[after] == ",") : parent.end - 1]
    inside = text[parent.start + 1 : parent.starts[0]] + rest
    return text[: parent.start + 1] + (inside if inside.strip() else "") + text[parent.end - 1 :]


def _verified(changed: str, expected: Any) -> str:
    """Make sure that the new text says exactly what it should and nothing else."""
    if parse(changed).value != expected:
        raise UnfitFileError("it is written in a way that cannot be changed safely")
    return changed


def _value_at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _find(node: Node, path: Path) -> Node | None:
    for step in path:
        position = node.index(step)
        if position is None:
            return None
        node = node.children[position]
    return node


def _name(path: Path) -> str:
    return ".".join(str(step) for step in path) or "the document"


def _insert(text: str, node: Node, value: Any, key: str = "") -> str:
    colon = ":" if _is_tight(text) else ": "
    name = key + colon if key else ""
    if not _is_multiline(text):
        comma = ("," if _is_tight(text) else ", ") if node.children else ""
        at = node.children[-1].end if node.children else node.end - 1
        return text[:at] + comma + name + _render(text, value, "") + text[at:]
    newline = _newline(text)
    if not node.children:
        outer = _line_indent(text, node.start)
        inner = outer + _unit(text)
        head = text[: node.end - 1].rstrip() + newline + inner
        return head + name + _render(text, value, inner) + newline + outer + text[node.end - 1 :]
    last = node.children[-1].end
    inner = _line_indent(text, node.starts[-1])
    comma_at = _skip(text, last)
    ends_in_comma = text[comma_at] == ","
    head = text[: comma_at + 1] if ends_in_comma else text[:last] + ","
    tail = text[comma_at + 1 if ends_in_comma else last :]
    comment = _LINE_COMMENT.match(tail)
    cut = comment.end() if comment else 0
    added = newline + inner + name + _render(text, value, inner) + "," * ends_in_comma
    return head + tail[:cut] + added + tail[cut:]


def _render(text: str, value: Any, indent: str) -> str:
    if not _is_multiline(text):
        separators = (",", ":") if _is_tight(text) else (", ", ": ")
        return json.dumps(value, ensure_ascii=False, separators=separators)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    return (_newline(text) + indent).join(lines)


def _is_multiline(text: str) -> bool:
    # An empty document has no style yet; it gets the readable one.
    written = text.removeprefix(BYTE_ORDER_MARK).strip()
    return "\n" in written or written in ("", "{}", "[]")


def _is_tight(text: str) -> bool:
    return not _is_multiline(text) and '": ' not in text


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    match = _FIRST_INDENT.search(text)
    return match[1] if match else "  "


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]
