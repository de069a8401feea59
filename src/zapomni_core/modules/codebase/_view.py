"""A file's facts, laid out for looking things up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from zapomni_core.modules.codebase._languages import CLASS_LIKE, LANGUAGES, LEAVES, Language
from zapomni_core.modules.codebase._models import Binding, Definition, Facts, Import

__all__ = ["View"]

_PLAIN = Language("text", "", "")
_REPEATED = ("overload", "setter", "deleter")


class View:
    """What each scope of a file defines, imports and binds."""

    def __init__(self, path: str, facts: Facts) -> None:
        self.path = path
        self.facts = facts
        self.language = LANGUAGES.get(facts.language, _PLAIN)
        self.definitions = facts.definitions
        self.numbers = {one.qualified_name: n for n, one in enumerate(facts.definitions)}
        self.members: dict[int, dict[str, list[int]]] = defaultdict(dict)
        self.imports: dict[int, dict[str, list[Import]]] = defaultdict(dict)
        self.stars: dict[int, list[Import]] = defaultdict(list)
        self.bindings: dict[int, dict[str, list[Binding]]] = defaultdict(dict)
        self.attributes: dict[int, dict[str, list[Binding]]] = defaultdict(dict)
        self.bases: dict[int, list[str]] = defaultdict(list)
        self._names: dict[int, set[str]] = {}
        self._define(facts.definitions)
        for one in facts.imports:
            if one.name == "*":
                self.stars[one.scope].append(one)
            else:
                self.imports[one.scope].setdefault(one.alias, []).append(one)
        self._bind(facts.bindings)
        for reference in facts.references:
            if reference.kind == "inherit":
                self.bases[reference.scope].append(reference.target)

    def may_bind(self, scope: int, name: str) -> bool:
        """Say whether a scope binds a name itself, or imports names that are not written there."""
        names = self._names.get(scope)
        if names is None:
            names = {*self.members[scope], *self.imports[scope], *self.bindings[scope]}
            self._names[scope] = names
        return name in names or scope in self.stars

    def owner(self, scope: int) -> int:
        """Return the class around a scope, or the scope itself if it is one; -1 if none is."""
        while scope >= 0:
            one = self.definitions[scope]
            if one.kind in CLASS_LIKE:
                return scope
            outside = self.class_outside(one)
            if outside >= 0:
                return outside
            scope = one.parent
        return -1

    def is_decorated(self, number: int, names: tuple[str, ...]) -> bool:
        """Say whether a symbol has a decorator whose name ends like one of these."""
        decorators = self.definitions[number].decorators
        return any(one.rpartition(".")[2].endswith(names) for one in decorators)

    def without_repeats(self, numbers: Sequence[int]) -> Sequence[int]:
        """Leave out the heads of overloads, and setters beside their getter."""
        if len(numbers) < 2:
            return numbers
        return [one for one in numbers if not self.is_decorated(one, _REPEATED)] or numbers[:1]

    def _define(self, definitions: tuple[Definition, ...]) -> None:
        for number, one in enumerate(definitions[1:], 1):
            if one.kind in LEAVES:
                continue
            self.members[one.parent].setdefault(one.name, []).append(number)
            outside = self.class_outside(one)
            if outside >= 0:
                self.members[outside].setdefault(one.name, []).append(number)

    def class_outside(self, one: Definition) -> int:
        """Return the class of a method written outside of it; -1 if it is elsewhere, or none."""
        if one.kind != "method" or self.definitions[one.parent].kind in CLASS_LIKE:
            return -1
        return self.numbers.get(one.qualified_name.partition("#")[0].rpartition(".")[0], -1)

    def _bind(self, bindings: tuple[Binding, ...]) -> None:
        for binding in bindings:
            scope, name, _, _ = binding
            if not name.startswith("self."):
                self.bindings[scope].setdefault(name, []).append(binding)
            elif (owner := self.owner(scope)) >= 0:
                self.attributes[owner].setdefault(name[5:], []).append(binding)
