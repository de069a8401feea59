"""The call graph: every reference of a file, and the symbol of the repository it means."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from zapomni_core.modules.codebase._evaluate import Evaluator
from zapomni_core.modules.codebase._languages import CLASS_LIKE, LEAVES
from zapomni_core.modules.codebase._models import Definition, Edge, FactSource, Reference, SymbolId
from zapomni_core.modules.codebase._values import Values, steps_of
from zapomni_core.modules.codebase._view import View

__all__ = ["Resolver"]

BY_SCOPE = 1.0
BY_SELF = 0.95
BY_TYPE = 0.8
BY_NAME = 0.5
NAME_ONLY = 0.1
# Each of several that it may be.
ONE_OF_SEVERAL = 0.75

# Methods that everything has: that only one class of the repository does, too, says nothing.
_COMMON = frozenset(
    [name for kind in (str, bytes, list, dict, set, int, float) for name in dir(kind)]
    + """close read write open flush send recv start stop run wait put release acquire next
    debug info warning error exception log match search group findall submit result cancel map
    filter push shift slice splice concat forEach then catch finally toString valueOf length
    size isEmpty contains equals hashCode println print clone len unwrap expect iter collect
    into as_str to_string""".split()
)


class Resolver:
    """Resolves references for one state of a repository; when files change, take a new one."""

    def __init__(self, repository: FactSource) -> None:
        self._evaluator = Evaluator(repository)
        self._guessed: dict[tuple[str, str, bool], list[SymbolId]] = {}

    def resolve(self, path: str) -> list[Edge]:
        """Return at least one edge for every reference of a file, resolved or not."""
        view = self._evaluator.view(path)
        if view is None:
            return []
        edges: list[Edge] = []
        for reference in view.facts.references:
            edges.extend(self._edges(view, reference))
        return edges

    def _edges(self, view: View, reference: Reference) -> list[Edge]:
        scope, kind, target, line = reference
        caller = SymbolId(view.path, view.definitions[scope].qualified_name)
        name = steps_of(target)[-1]
        if kind != "call":
            scope = max(0, view.definitions[scope].parent)
        values = self._evaluator.chain(view, scope, target)
        callees = self._callees(values, kind) if values else []
        if callees:
            strength = self._strength(view, scope, target)
        else:
            callees = [] if values else self._guess(view, target, name)
            strength = BY_NAME
        if not callees:
            return [Edge(kind, caller, None, name, NAME_ONLY, line)]
        if len(callees) > 1:
            strength *= ONE_OF_SEVERAL
        return [Edge(kind, caller, callee, name, strength, line) for callee in callees]

    def _callees(self, values: Values, kind: str) -> list[SymbolId]:
        found: list[SymbolId] = []
        for value in values:
            called: Values = (value,)
            if value.kind == "instance":
                called = self._evaluator.attribute(value, "__call__") or ()
            for one in called:
                view = self._evaluator.view(one.path) if one.kind == "symbol" else None
                if view is None:
                    continue
                definition = view.definitions[one.number]
                if kind == "inherit" and definition.kind not in CLASS_LIKE:
                    continue
                found.append(SymbolId(one.path, definition.qualified_name))
        return list(dict.fromkeys(found))

    def _strength(self, view: View, scope: int, target: str) -> float:
        head, *rest = steps_of(target)
        if head in view.language.selves or head == view.language.parent:
            return BY_SELF if len([step for step in rest if step != "()"]) == 1 else BY_TYPE
        if "()" in rest or "[]" in rest:
            return BY_TYPE
        values = self._evaluator.name(view, scope, head) or ()
        named = any(value.kind in ("module", "folder", "symbol") for value in values)
        return BY_SCOPE if named else BY_TYPE

    def _guess(self, view: View, target: str, name: str) -> list[SymbolId]:
        """Return the only symbol of this name, where nothing speaks against it."""
        if name in _COMMON or len(name) < 3:
            return []
        is_member = len(steps_of(target)) > 1
        if not is_member and view.language.name == "python":
            return []  # What a file neither defines nor imports is not of this repository.
        key = (view.language.name, name, is_member)
        if key not in self._guessed:
            found = list(islice(self._callables(*key), 2))
            self._guessed[key] = found if len(found) == 1 else []
        return self._guessed[key]

    def _callables(self, language: str, name: str, is_member: bool) -> Iterator[SymbolId]:
        for view, number in self._evaluator.catalog.named(name):
            definition = view.definitions[number]
            if view.language.name == language and _is_callable(definition, is_member=is_member):
                yield SymbolId(view.path, definition.qualified_name)


def _is_callable(definition: Definition, *, is_member: bool) -> bool:
    if definition.kind in LEAVES or definition.kind in ("key", "section"):
        return False
    return (definition.kind == "method") == is_member
