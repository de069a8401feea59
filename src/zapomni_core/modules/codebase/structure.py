"""The structure of code: what it does, whatever its comments, formatting and docstrings are.

A symbol's structure is its syntax tree without its own name. Left out are comments, docstrings,
blanks, marks that the tree expresses by itself (commas, semicolons, brackets, quotes) and, in
Python, the annotations of parameters and results. Everything else counts: decorators, defaults,
fields of classes, other languages' types.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from zapomni_core.modules.codebase.models import Symbol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tree_sitter import Node, Tree

    from zapomni_core.modules.codebase.parse import Outline

__all__ = ["FileStructure", "SymbolShape", "line_hashes", "shape_symbols", "shape_words"]


class SymbolShape(NamedTuple):
    """Hashes of a symbol's structure."""

    signature: str
    """Of its head, without its own name."""
    body: str


class FileStructure(NamedTuple):
    """A file's symbols, and the structure of each of them."""

    symbols: tuple[Symbol, ...]
    shapes: tuple[SymbolShape, ...]
    """Of each symbol, the file's own first."""
    rows: tuple[int, ...]
    """A hash of each line's structure; 0: it has none."""


class _Token(NamedTuple):
    depth: int
    text: bytes
    row: int
    is_leaf: bool


# The tree expresses these by itself.
_MARKS = frozenset(", ; ( ) [ ] { } : \" ' \n".split(" ")) | {"\n"}
# `(x)` is `x`; one parameter of an arrow function may go without brackets.
_TRANSPARENT = frozenset(
    ["parenthesized_expression", "formal_parameters", "required_parameter", "typed_parameter"]
)
# `return a, b` is `return (a, b)`; a default is one with and without an annotation.
_SAME_AS = {
    "expression_list": b"tuple",
    "pattern_list": b"tuple_pattern",
    "typed_default_parameter": b"default_parameter",
}
_HAS_ANNOTATION = frozenset(["typed_parameter", "typed_default_parameter", "function_definition"])
_STRINGS = frozenset(["string", "concatenated_string"])
_BETWEEN = b" \t\r\n\f\v\\"


def shape_symbols(outline: Outline, tree: Tree, language: str) -> FileStructure:
    """Return the structure of a file that a grammar has read."""
    marked: set[int] = set()
    for draft in outline.drafts:
        marked.update((draft.node.id, draft.name.id))
        marked.update(node.id for node in draft.captures.get("body", ())[:1])
        marked.update(node.id for node in draft.above)
    tokens, spans = _walk(tree.root_node, outline.data, marked, python=language == "python")
    shapes = [SymbolShape("", _digest(tokens))]
    for draft in outline.drafts:
        start, end = spans.get(draft.node.id, (0, 0))
        name = spans.get(draft.name.id, (0, 0))
        body = draft.captures.get("body")
        split = spans.get(body[0].id, (start, end))[0] if body else start
        above = [tokens[slice(*spans[one.id])] for one in draft.above if one.id in spans]
        head = [one for part in above for one in part] + tokens[start:split]
        if name[0] < split:
            at = len(head) - (split - start) + name[0] - start
            head[at : at + name[1] - name[0]] = []
            rest = tokens[split:end]
        else:
            rest = tokens[split : name[0]] + tokens[name[1] : end]
        shapes.append(SymbolShape(_digest(head), _digest(rest)))
    rows = [0] * len(outline.lines.starts)
    for token in tokens:
        if token.is_leaf and token.row < len(rows):
            rows[token.row] = crc32(token.text, rows[token.row] or 1)
    return FileStructure(tuple(outline.symbols), tuple(shapes), tuple(rows))


def shape_words(outline: Outline) -> FileStructure:
    """Return the structure of prose: its words."""
    data = outline.data
    symbols = outline.symbols
    shapes = [SymbolShape("", _words(data[one.start_byte : one.end_byte])) for one in symbols]
    if len(symbols) > 1:
        for place, draft in enumerate(outline.drafts, 1):
            nameless = data[draft.start : draft.name.start_byte] + b" "
            nameless += data[draft.name.end_byte : draft.end]
            shapes[place] = SymbolShape("", _words(nameless))
    rows = [crc32(b" ".join(line.split())) if line.strip() else 0 for line in data.split(b"\n")]
    return FileStructure(tuple(symbols), tuple(shapes), tuple(rows))


def line_hashes(lines: Iterable[bytes]) -> list[int]:
    """Return a hash of each line's text without the blanks around it; 0 for one that says little.

    To find text again without parsing what may have it.
    """
    found = []
    for line in lines:
        text = line.strip()
        found.append(crc32(text) if len(text) > 3 else 0)
    return found


def _walk(
    root: Node, data: bytes, marked: Collection[int], *, python: bool
) -> tuple[list[_Token], dict[int, tuple[int, int]]]:
    """Return the tree's tokens in order, and which of them each marked node has."""
    tokens: list[_Token] = []
    spans: dict[int, tuple[int, int]] = {}
    # A node to read, or the end of a marked one.
    waiting: list[tuple[Node | int, int, str]] = [(root, 0, "")]
    while waiting:
        node, depth, parent = waiting.pop()
        if isinstance(node, int):
            spans[node] = (spans[node][0], len(tokens))
            continue
        kind = node.type
        if "comment" in kind or kind == "line_continuation":
            continue
        if python and _is_left_out(node, kind, parent):
            continue
        if node.id in marked:
            spans[node.id] = (len(tokens), len(tokens))
            waiting.append((node.id, 0, ""))
        start, end = node.byte_range
        row = node.start_point[0]
        children = node.children
        if not children:
            text = data[start:end].strip()
            if not node.is_named:
                # `a[1:]` is not `a[:1]`, and neither is `for (;x;)` what `for (x;;)` is.
                if kind not in _MARKS or "slice" in parent or parent.startswith("for"):
                    tokens.append(_Token(depth, text, row, is_leaf=True))
            elif text:
                if python and kind in ("integer", "float"):
                    text = text.lower()
                tokens.append(_Token(depth, kind.encode() + b"\0" + text, row, is_leaf=True))
            continue
        if python and kind in _STRINGS:
            literal = _literal(node, data)
            if literal is not None:
                tokens.append(_Token(depth, b"string\0" + literal, row, is_leaf=True))
                continue
        if python and kind == "string":
            children = children[1:-1]
            prefix = data[start : children[0].start_byte] if children else b""
            tokens.append(_Token(depth, b"string\0" + _prefix(prefix), row, is_leaf=True))
            depth += 1
        elif kind not in _TRANSPARENT:
            tokens.append(_Token(depth, _SAME_AS.get(kind) or kind.encode(), row, is_leaf=False))
            depth += 1
            # Some grammars have no node for the text of a literal.
            at = start
            for child in children:
                between = data[at : child.start_byte].strip(_BETWEEN)
                if between:
                    tokens.append(_Token(depth, between, row, is_leaf=True))
                at = child.end_byte
            if between := data[at:end].strip(_BETWEEN):
                tokens.append(_Token(depth, between, row, is_leaf=True))
        waiting.extend((child, depth, kind) for child in reversed(children))
    return tokens, spans


def _is_left_out(node: Node, kind: str, parent: str) -> bool:
    """Return whether a node of Python is a docstring, an annotation, or says nothing."""
    if kind == "expression_statement":
        # A text that is a statement of its own documents something, wherever it is.
        child = node.named_children
        return len(child) == 1 and child[0].type in _STRINGS
    if parent in _HAS_ANNOTATION and kind in ("type", "->"):
        return True
    return parent == "class_definition" and kind == "argument_list" and not node.named_child_count


def _literal(node: Node, data: bytes) -> bytes | None:
    """Return a text of Python without its quotes, in one piece; None if values are put into it."""
    parts = node.named_children if node.type == "concatenated_string" else [node]
    prefixes: set[bytes] = set()
    content = b""
    for part in parts:
        if "comment" in part.type or part.type == "line_continuation":
            continue
        inner = part.children
        if part.type != "string" or len(inner) < 2 or any(c.type == "interpolation" for c in inner):
            return None
        prefix = _prefix(data[inner[0].start_byte : inner[0].end_byte])
        text = data[inner[0].end_byte : inner[-1].start_byte]
        if b"\\" not in text:
            prefix = prefix.replace(b"r", b"")
        elif b"r" not in prefix:
            text = text.replace(b"\\'", b"'").replace(b'\\"', b'"').replace(b"\\\n", b"")
        prefixes.add(prefix)
        content += text
    return min(prefixes) + b"\0" + content if len(prefixes) == 1 else None


def _prefix(start: bytes) -> bytes:
    letters = start.strip(b"\"'").lower().replace(b"u", b"")
    return bytes(sorted(letters))


def _digest(tokens: Sequence[_Token]) -> str:
    """Hash tokens with how deep each lies below the one before: wherever the whole of them is."""
    digest = blake2b(digest_size=8)
    before = tokens[0].depth if tokens else 0
    for token in tokens:
        digest.update(b"%d\0%b\0\n" % (token.depth - before, token.text))
        before = token.depth
    return digest.hexdigest()


def _words(text: bytes) -> str:
    return blake2b(b" ".join(text.split()), digest_size=8).hexdigest()
