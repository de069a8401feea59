"""Which files a change concerns, so that only their edges are resolved again.

A file's edges depend on other files by names alone: those it mentions. When a file changes, the
names are found whose meaning to others may have changed, then the files that mention them. Names
of those files may be explained by such names (an alias, a base, what a function returns); where
their meaning really is another now than it was before, it goes on from there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from zapomni_core.modules.codebase._evaluate import Evaluator
from zapomni_core.modules.codebase._models import (
    Binding,
    Definition,
    Facts,
    Repository,
    SymbolId,
)
from zapomni_core.modules.codebase._snapshot import Snapshot
from zapomni_core.modules.codebase._values import Value

__all__ = ["affected_paths"]

_WORD = re.compile(r"[^\W\d]\w*")
_HANDED_OUT = frozenset({"return", "yield"})
_CALLABLE = frozenset({"function", "method"})

Change = tuple[Facts | None, Facts | None]
"""What a file said before and says now; None when there was or is none."""


class _Shown(NamedTuple):
    """A name a file shows to others, by one of its meanings."""

    name: str
    text: str
    """What it stands for, as it is written; the same text means nothing was edited."""
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
    told = {name: names[name]}
    new = [name]
    while new:
        words = {word for one in new for b in names[one] for word in _WORD.findall(b.value)}
        new = sorted(word for word in words if word in names and word not in told)
        told.update((word, names[word]) for word in new)
    return " ".join(f"{n} {b.kind} {b.value}" for n, many in told.items() for b in many)


def _meaning(evaluator: Evaluator, path: str, shown: _Shown) -> object:
    """Return what a name stands for, in a form that can be compared between two states."""
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
