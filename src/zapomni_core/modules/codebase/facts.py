"""What a file's symbols say about each other and about other files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from zapomni_core.modules.codebase.languages import CLASS_LIKE, LANGUAGES
from zapomni_core.modules.codebase.models import (
    Binding,
    BindingKind,
    Definition,
    Facts,
    Import,
    Reference,
    ReferenceKind,
)
from zapomni_core.modules.codebase.outline import Captures, Outline, dotted, dotted_path, one_line

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["UNKNOWN", "chain_of", "read_facts"]


MAX_TYPE = 200
MAX_IMPORT_DEPTH = 5

_AS_ATTRIBUTE = re.compile(r"^(?:@@?|\$?this\.|cls\.)")
_BINDABLE = re.compile(r"(?:self\.)?[\w$]+")
_BOUND: tuple[BindingKind, ...] = ("type", "value", "element", "enter")


def read_facts(outline: Outline, language: str, matches: list[Captures]) -> Facts:
    """Return what the matches of a language's query say beyond the symbols themselves.

    Decorators and docstrings are handed to the outline, which completes its symbols with them.
    """
    reader = _FactReader(outline, language)
    for captures in matches:
        reader.read(captures)
    return reader.facts()


class _FactReader:
    def __init__(self, outline: Outline, language: str) -> None:
        self.outline = outline
        self.language = language
        self.imports: list[Import] = []
        self.bindings: list[Binding] = []
        self.references: list[Reference] = []

    def facts(self) -> Facts:
        for draft in self.outline.drafts:
            if "returns" in draft.captures:
                self._returns({}, draft.captures["returns"][0])
        return Facts(
            self.language,
            tuple(
                Definition(
                    one.name,
                    one.qualified_name,
                    one.kind,
                    one.parent,
                    tuple(decorator.partition("(")[0].strip() for decorator in one.decorators),
                )
                for one in self.outline.symbols
            ),
            tuple(self.imports),
            tuple(self.bindings),
            tuple(self.references),
        )

    # --- Calls, bases, decorators

    def _call(self, _: Captures, node: Node) -> None:
        self._refer("call", node, self.outline.scope(node.start_byte))

    def _inherit(self, captures: Captures, node: Node) -> None:
        owner = self.outline.owner(node.start_byte)
        if "inheriting" in captures:
            name = dotted(self.outline.text(captures["inheriting"][0]))
            drafts = enumerate(self.outline.drafts, 1)
            owner = next((place for place, draft in drafts if draft.path == name), owner)
        self._refer("inherit", node, owner)

    def _decorate(self, _: Captures, node: Node) -> None:
        owner = self.outline.owner(node.start_byte)
        if owner:
            text = one_line(self.outline.text(node))[:MAX_TYPE]
            self.outline.drafts[owner - 1].decorators.append(text)
            self._refer("decorate", node, owner)

    def _refer(self, kind: ReferenceKind, node: Node, scope: int) -> None:
        target = chain_of(node, self.outline.data, self.language)
        while target.endswith(("()", "[]")):
            target = target[:-2]
        if target != UNKNOWN and "|" not in target and "*" not in target:
            line = self.outline.lines.of(node.end_byte - 1)
            self.references.append(Reference(scope, kind, target, line))

    def _document(self, _: Captures, node: Node) -> None:
        scope = self.outline.scope(node.start_byte)
        docs = self.outline.drafts[scope - 1].docs if scope else self.outline.docs
        docs.append(self.outline.text(node))

    # --- What names stand for

    def _bind(self, captures: Captures, node: Node) -> None:
        self._know(captures, node, self.outline.scope(node.start_byte))

    def _parameter(self, captures: Captures, node: Node) -> None:
        self._know(captures, node, self.outline.owner(node.start_byte))

    def _property(self, captures: Captures, node: Node) -> None:
        owner = self.outline.owner(node.start_byte)
        while owner and self.outline.drafts[owner - 1].kind not in CLASS_LIKE:
            owner = self.outline.drafts[owner - 1].parent
        self._know(captures, node, owner)

    def _hand_out(self, captures: Captures, node: Node) -> None:
        name = "return" if "return" in captures else "yield"
        self._value(self.outline.scope(node.start_byte), name, "value", node)

    def _returns(self, _: Captures, node: Node) -> None:
        self._value(self.outline.owner(node.start_byte), "return", "type", node)

    def _know(self, captures: Captures, node: Node, scope: int) -> None:
        name = self.outline.text(node)
        if not name.isidentifier():
            name = _AS_ATTRIBUTE.sub("self.", name.replace("->", ".")).lstrip("$")
            if not _BINDABLE.fullmatch(name):
                return
        known = False
        # Of most parameters nothing but the name is captured.
        for kind in _BOUND if len(captures) > 1 else ():
            if kind in captures:
                known = self._value(scope, name, kind, captures[kind][0]) or known
        if not known:
            self.bindings.append(Binding(scope, name, "value", ""))

    def _value(self, scope: int, name: str, kind: BindingKind, node: Node) -> bool:
        if kind == "type":
            value = one_line(self.outline.text(node))
            value = value if len(value) <= MAX_TYPE else ""
        else:
            value = chain_of(node, self.outline.data, self.language)
            value = "" if value.startswith(UNKNOWN) else value
        if value:
            self.bindings.append(Binding(scope, name, kind, value))
        return bool(value)

    # --- Imports

    def _import(self, captures: Captures, node: Node) -> None:
        scope = self.outline.scope(node.start_byte)
        if "tree" in captures:
            text = one_line(self.outline.text(captures["tree"][0])).removeprefix("import ")
            for module, name, alias in _import_tree(dotted_path(text)):
                self.imports.append(Import(scope, module, name, alias))
            return
        module = self._joined(captures.get("module", []))
        name = "*" if "star" in captures else self._joined(captures.get("imported", []))
        if "path" in captures:
            module, _, name = self._joined(captures["path"]).rpartition(".")
        alias = self._joined(captures.get("alias", [])) or name
        if not alias and self.language == "python":
            # `import a.b` makes `a` known.
            module = alias = module.partition(".")[0]
        alias = alias or module.replace("/", ".").rpartition(".")[2]
        self.imports.append(Import(scope, module, name, alias))

    def _joined(self, nodes: list[Node]) -> str:
        return ".".join(dotted_path(self.outline.text(node)) for node in nodes)

    HANDLERS = {
        "call": _call,
        "invocation": _call,
        "bind": _bind,
        "parameter": _parameter,
        "property": _property,
        "import": _import,
        "return": _hand_out,
        "yield": _hand_out,
        "doc": _document,
        "inherit": _inherit,
        "decorate": _decorate,
        "returns": _returns,
    }

    def read(self, captures: Captures) -> None:
        key, handle = _handler(tuple(captures))
        if handle is not None:
            handle(self, captures, captures[key][0])


@cache
def _handler(
    keys: tuple[str, ...],
) -> tuple[str, Callable[[_FactReader, Captures, Node], None] | None]:
    """Return what a match is about; of each pattern there are thousands."""
    handlers = _FactReader.HANDLERS.items()
    return next(((key, handle) for key, handle in handlers if key in keys), ("", None))


def _import_tree(text: str, above: str = "", depth: int = 0) -> Iterator[tuple[str, str, str]]:
    """Read `a.{b, c as d, e.{f}}`, from the outside in: module, name, alias."""
    head, brace, rest = text.partition("{")
    if brace and depth < MAX_IMPORT_DEPTH:
        module = f"{above}.{head}".strip(". ")
        for part in _split_outside_braces(rest.rpartition("}")[0]):
            yield from _import_tree(part, module, depth + 1)
        return
    path, _, alias = text.replace("=>", " as ").partition(" as ")
    module, _, name = f"{above}.{path.strip()}".strip(".").rpartition(".")
    name = "*" if name in ("_", "given") else name
    if name:
        yield module, name, alias.strip() or name


def _split_outside_braces(text: str) -> Iterator[str]:
    start = depth = 0
    for place, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == "," and not depth:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


# --- Turns the node of an expression into a chain, by the table of its language -------


UNKNOWN = "?"
# A longer one is useless, and a chain may be nested as deep as a file is long.
MAX_DEPTH = 30
MAX_LENGTH = 300

_PLAIN = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*+(?:\.[A-Za-z_\x80-\xff][\w\x80-\xff]*+)*+")
_RULE = re.compile(r"(\*?)([\w#.|-]+|!)(\(\)|\[\])?")

_Field = int | str
"""A child by its place, or by its name."""
_Rules = dict[str, tuple[str, list[list[_Field]], str]]
"""The prefix of a chain, what it is built of (nothing: a literal), and its suffix."""


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

    Several that it may be are joined by `|`; `*` before it means a collection of such.
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
