"""Turns the node of an expression into a chain, by the table of its language."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from zapomni_core.modules.codebase._languages import LANGUAGES

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["UNKNOWN", "chain_of"]

UNKNOWN = "?"
# Nobody reads a longer one, and a chain may be nested as deep as a file is long.
MAX_DEPTH = 30
MAX_LENGTH = 300

_PLAIN = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*+(?:\.[A-Za-z_\x80-\xff][\w\x80-\xff]*+)*+")
_RULE = re.compile(r"(\*?)([\w#.|-]+|!)(\(\)|\[\])?")

_Field = int | str
"""A child by its place, or by its name."""
_Rules = dict[str, tuple[str, list[list[_Field]], str]]
"""What stands before a chain, of what it is built (nothing: a literal), and what behind."""


@cache
def _rules(language: str) -> _Rules:
    rules: _Rules = {}
    for kind, rule in LANGUAGES[language].chains.items():
        match = _RULE.fullmatch(rule)
        assert match is not None
        choices = [] if match[2] == "!" else [_fields(part) for part in match[2].split("|")]
        rules[kind] = (match[1], choices, match[3] or "")
    return rules


def _fields(part: str) -> list[_Field]:
    return [int(name[1:]) if name.startswith("#") else name for name in part.split(".")]


def chain_of(node: Node, data: bytes, language: str) -> str:
    """Return the chain of an expression; "?" where it is none, "!" for a literal.

    Several that it may be are joined by `|`; `*` before it stands for a collection of such.
    """
    text = data[node.start_byte : node.end_byte]
    if len(text) <= MAX_LENGTH and _PLAIN.fullmatch(text):
        return text.decode()
    chain = _build(node, data, _rules(language), 0)
    return chain if len(chain) <= MAX_LENGTH else UNKNOWN


def _build(node: Node, data: bytes, rules: _Rules, depth: int) -> str:
    rule = rules.get(node.type)
    if rule is None:
        return _name(node, data)
    if depth == MAX_DEPTH:
        return UNKNOWN
    prefix, choices, suffix = rule
    if not choices:
        return "!"
    if len(choices) == 1:
        return prefix + _joined(node, choices[0], data, rules, depth) + suffix
    if depth:
        return UNKNOWN
    built = [_joined(node, fields, data, rules, depth) for fields in choices]
    return "|".join(chain for chain in built if chain != UNKNOWN)


def _joined(node: Node, fields: list[_Field], data: bytes, rules: _Rules, depth: int) -> str:
    chains = [
        _build(child, data, rules, depth + 1)
        for field in fields
        if (child := _child(node, field)) is not None
    ]
    return ".".join(chains) or UNKNOWN


def _name(node: Node, data: bytes) -> str:
    """Return the name that a node is; "?" if it is none."""
    start, end = node.byte_range
    if end - start < MAX_LENGTH and node.named_child_count == 0:
        text = data[start:end]
        # Ruby writes attributes of the instance as `@name`.
        name = text.lstrip(b"@$")
        if _PLAIN.fullmatch(name):
            return ("self." if text.startswith(b"@") else "") + name.decode()
    return UNKNOWN


def _child(node: Node, field: _Field) -> Node | None:
    if isinstance(field, str):
        return node.child_by_field_name(field)
    count = node.named_child_count
    return node.named_child(field % count) if -count <= field < count else None
