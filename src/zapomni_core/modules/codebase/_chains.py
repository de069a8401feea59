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


@cache
def _rules(language: str) -> dict[str, tuple[str, list[list[str]], str]]:
    rules = {}
    for kind, rule in LANGUAGES[language].chains.items():
        match = _RULE.fullmatch(rule)
        assert match is not None
        rules[kind] = (match[1], [part.split(".") for part in match[2].split("|")], match[3] or "")
    return rules


def chain_of(node: Node, data: bytes, language: str) -> str:
    """Return the chain of an expression; "?" where it is none, "!" for a literal.

    Several that it may be are joined by `|`; `*` before it stands for a collection of such.
    """
    text = data[node.start_byte : node.end_byte]
    if len(text) <= MAX_LENGTH and _PLAIN.fullmatch(text):
        return text.decode()
    chain = _build(node, data, _rules(language), 0)
    return chain if len(chain) <= MAX_LENGTH else UNKNOWN


def _build(
    node: Node, data: bytes, rules: dict[str, tuple[str, list[list[str]], str]], depth: int
) -> str:
    rule = rules.get(node.type)
    if rule is None:
        if node.named_child_count == 0 and node.end_byte - node.start_byte < MAX_LENGTH:
            text = data[node.start_byte : node.end_byte]
            # Ruby writes attributes of the instance as `@name`.
            name = text.lstrip(b"@$")
            if _PLAIN.fullmatch(name):
                return ("self." if text.startswith(b"@") else "") + name.decode()
        return UNKNOWN
    if depth == MAX_DEPTH:
        return UNKNOWN
    prefix, choices, suffix = rule
    if choices == [["!"]]:
        return "!"
    built = []
    for fields in choices:
        parts = [child for field in fields if (child := _child(node, field))]
        chains = [_build(part, data, rules, depth + 1) for part in parts]
        built.append(".".join(chains) or UNKNOWN)
    if len(built) > 1:
        return "|".join(chain for chain in built if chain != UNKNOWN) if not depth else UNKNOWN
    return prefix + built[0] + suffix


def _child(node: Node, field: str) -> Node | None:
    if field.startswith("#"):
        place = int(field[1:])
        count = node.named_child_count
        return node.named_child(place % count) if -count <= place < count else None
    return node.child_by_field_name(field)
