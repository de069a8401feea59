"""What a file's symbols say about each other and about other files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from zapomni_core.modules.codebase._chains import UNKNOWN, chain_of
from zapomni_core.modules.codebase._languages import CLASS_LIKE
from zapomni_core.modules.codebase._models import (
    Binding,
    BindingKind,
    Definition,
    Facts,
    Import,
    Reference,
    ReferenceKind,
    Symbol,
)
from zapomni_core.modules.codebase._outline import (
    Captures,
    Outline,
    dotted,
    dotted_path,
    one_line,
)

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["read_facts"]

MAX_TYPE = 200
MAX_IMPORT_DEPTH = 5

_AS_ATTRIBUTE = re.compile(r"^(?:@@?|\$?this\.|cls\.)")
_BINDABLE = re.compile(r"(?:self\.)?[\w$]+")
_BOUND: tuple[BindingKind, ...] = ("type", "value", "element", "enter")


def read_facts(outline: Outline, language: str, matches: list[Captures]) -> Facts:
    """Return what the matches of a language's query say beyond the symbols themselves.

    Decorators and docstrings are told to the outline, which finishes its symbols with them.
    """
    reader = _Reader(outline, language)
    for captures in matches:
        reader.read(captures)
    return reader.facts()


def _definitions(symbols: list[Symbol]) -> tuple[Definition, ...]:
    return tuple(
        Definition(
            one.name,
            one.qualified_name,
            one.kind,
            one.parent,
            tuple(decorator.partition("(")[0].strip() for decorator in one.decorators),
        )
        for one in symbols
    )


class _Reader:
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
            _definitions(self.outline.symbols),
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
) -> tuple[str, Callable[[_Reader, Captures, Node], None] | None]:
    """Return what a match is about; of each pattern there are thousands."""
    handlers = _Reader.HANDLERS.items()
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
