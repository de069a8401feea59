"""The call graph: every reference of a file, and the symbol of the repository it means."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from zapomni_core.modules.codebase.evaluate import Evaluator, Value, Values, View, steps_of
from zapomni_core.modules.codebase.languages import CLASS_LIKE, LEAVES
from zapomni_core.modules.codebase.models import (
    Binding,
    Definition,
    Facts,
    FactSource,
    Reference,
    Repository,
    Snapshot,
    SymbolEdge,
    SymbolId,
)

__all__ = ["Resolver", "affected_paths"]


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

    def resolve(self, path: str) -> list[SymbolEdge]:
        """Return at least one edge for every reference of a file, resolved or not."""
        view = self._evaluator.view(path)
        if view is None:
            return []
        edges: list[SymbolEdge] = []
        for reference in view.facts.references:
            edges.extend(self._edges(view, reference))
        return edges

    def _edges(self, view: View, reference: Reference) -> list[SymbolEdge]:
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
            return [SymbolEdge(kind, caller, None, name, NAME_ONLY, line)]
        if len(callees) > 1:
            strength *= ONE_OF_SEVERAL
        return [SymbolEdge(kind, caller, callee, name, strength, line) for callee in callees]

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
            if definition.kind in LEAVES or definition.kind in ("key", "section"):
                continue
            if view.language.name == language and (definition.kind == "method") == is_member:
                yield SymbolId(view.path, definition.qualified_name)


# --- Which files a change concerns, so that only their edges are resolved again -------


_WORD = re.compile(r"[^\W\d]\w*")
_HANDED_OUT = frozenset({"return", "yield"})
_CALLABLE = frozenset({"function", "method"})

Change = tuple[Facts | None, Facts | None]
"""What a file said before and says now; None when there was or is none."""


class _Shown(NamedTuple):
    """A name a file shows to others, by one of its meanings."""

    name: str
    text: str
    """Its value, as it is written; the same text means nothing was edited."""
    how: Literal["local", "member", "returns", "bases"]
    scope: int

    @property
    def words(self) -> set[str]:
        return set(_WORD.findall(self.text))


class _Earlier:
    """A repository as it was before some files changed; implements `FactSource`."""

    def __init__(self, now: Repository, changes: Mapping[str, Change]) -> None:
        self._now = now
        self._changed = changes
        before = {path: old for path, (old, _) in changes.items() if old is not None}
        self._before = Snapshot(before)
        self._paths = (set(now.paths()) - changes.keys()) | before.keys()

    def paths(self) -> Collection[str]:
        return self._paths

    def facts(self, path: str) -> Facts | None:
        return (self._before if path in self._changed else self._now).facts(path)

    def named(self, name: str) -> Sequence[SymbolId]:
        unchanged = [one for one in self._now.named(name) if one.path not in self._changed]
        return [*unchanged, *self._before.named(name)]


def affected_paths(repository: Repository, changes: Mapping[str, Change]) -> set[str]:
    """Return the files, among them the changed ones, whose edges may differ now.

    Args:
        repository: As it is now.
        changes: The files that were added, changed or removed, by path.
    """
    affected = {path for path in changes if path in repository.paths()}
    names = {name for path, change in changes.items() for name in _changed(path, *change)}
    now, then = Evaluator(repository), Evaluator(_Earlier(repository, changes))
    new = names
    while new:
        if "*" in new:
            return set(repository.paths())
        mentioning = {path for name in new for path in repository.mentioning(name)}
        affected |= mentioning
        candidates = [
            (path, shown)
            for path in mentioning - changes.keys()
            for shown in _shown_names(repository.facts(path))
            if shown.name not in names and not shown.words.isdisjoint(new)
        ]
        new = {
            shown.name
            for path, shown in candidates
            if _meaning(now, path, shown) != _meaning(then, path, shown)
        }
        names |= new
    return affected


def _changed(path: str, before: Facts | None, after: Facts | None) -> set[str]:
    """Return the names whose meaning to other files may have changed."""
    old, new = _texts(before), _texts(after)
    names = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    if before is None or after is None:
        names.update(_WORD.findall(path))
    return names


def _texts(facts: Facts | None) -> dict[str, set[object]]:
    """Return what a file says to others about each name."""
    texts: dict[str, set[object]] = {}
    for one in facts.definitions[1:] if facts else ():
        texts.setdefault(one.name, set()).add((one.qualified_name, one.kind, one.decorators))
    for shown in _shown_names(facts):
        texts.setdefault(shown.name, set()).add(shown.text)
    return texts


def _shown_names(facts: Facts | None) -> Iterator[_Shown]:
    if facts is None:
        return
    for one in facts.imports:
        if facts.definitions[one.scope].kind not in _CALLABLE:
            yield _Shown(one.alias, f"{one.module} {one.name}", "local", one.scope)
    for reference in facts.references:
        if reference.kind == "inherit":
            definition = facts.definitions[reference.scope]
            text = f"{definition.qualified_name} ({reference.target})"
            yield _Shown(definition.name, text, "bases", reference.scope)
    local: dict[int, dict[str, list[Binding]]] = {}
    for binding in facts.bindings:
        local.setdefault(binding.scope, {}).setdefault(binding.name, []).append(binding)
    for scope, names in local.items():
        yield from _shown_by(scope, facts.definitions[scope], names)


def _shown_by(
    scope: int, definition: Definition, names: dict[str, list[Binding]]
) -> Iterator[_Shown]:
    """Yield what a scope shows: a function nothing but what it hands out."""
    for name in names:
        text = f"{definition.qualified_name} {_explanation(name, names)}"
        if name in _HANDED_OUT:
            yield _Shown(definition.name, text, "returns", scope)
        elif name.startswith("self."):
            yield _Shown(name.removeprefix("self."), text, "member", scope)
        elif definition.kind not in _CALLABLE:
            yield _Shown(name, text, "local", scope)


def _explanation(name: str, names: dict[str, list[Binding]]) -> str:
    """Return what is written about a name, and about the names of its scope it goes back to."""
    used = {name: names[name]}
    new = [name]
    while new:
        words = {word for one in new for b in names[one] for word in _WORD.findall(b.value)}
        new = sorted(word for word in words if word in names and word not in used)
        used.update((word, names[word]) for word in new)
    return " ".join(f"{n} {b.kind} {b.value}" for n, many in used.items() for b in many)


def _meaning(evaluator: Evaluator, path: str, shown: _Shown) -> object:
    """Return the value of a name, in a form that can be compared between two states."""
    view = evaluator.view(path)
    assert view is not None
    if shown.how == "bases":
        return [
            (v.path, v.definitions[n].qualified_name) for v, n in evaluator.line(view, shown.scope)
        ]
    if shown.how == "returns":
        values = evaluator.returns(view, shown.scope)
    elif shown.how == "member":
        values = evaluator.member(view, max(0, view.owner(shown.scope)), shown.name) or ()
    else:
        values = evaluator.local(view, shown.scope, shown.name) or ()
    return [_comparable(evaluator, value) for value in values]


def _comparable(evaluator: Evaluator, value: Value) -> object:
    view = evaluator.view(value.path)
    name = view.definitions[value.number].qualified_name if view else ""
    return value.kind, value.path, name, [_comparable(evaluator, one) for one in value.inner]
