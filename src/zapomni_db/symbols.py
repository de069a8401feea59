"""A symbol of a source file: what the parser finds is what the store takes.

Standard library only: the parser's process imports it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Symbol", "SymbolKind"]

SymbolKind = Literal[
    "module",
    "namespace",
    "class",
    "interface",
    "struct",
    "enum",
    "trait",
    "type",
    "function",
    "method",
    "constant",
    "variable",
    "field",
    "macro",
    "table",
    "view",
    "section",
    "key",
]


class Symbol(NamedTuple):
    """Something with a name. The first symbol of every file is the file itself, its module."""

    name: str
    qualified_name: str
    """`Session.get`; a second definition of the same name is `Session.get#2`. "" is the module."""
    kind: SymbolKind
    signature: str
    """Its head on one line, without its body."""
    docstring: str
    decorators: tuple[str, ...]
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    content_hash: str
    body_hash: str
    """Like `content_hash`, with its own name left out: equal when only the name has changed."""
    parent: int
    """Which of the file's symbols it is in; -1 for the module."""
