"""Which files a change concerns, so that only their edges are resolved again.

A file's edges depend on other files by names alone: those it mentions. When a file changes, the
names are found whose meaning to others may have changed, then the files that mention them, then
the names of those files that are explained by such names (an alias, a base, what a function
returns), and so on. Most edits of a function's inside change no name's meaning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

from zapomni_core.modules.codebase._models import (
    Binding,
    Definition,
    Facts,
    Repository,
    SymbolId,
)

__all__ = ["Snapshot", "affected_paths", "mentioned_names"]

# With more names than this nearly every file is concerned; resolving all is quicker than asking.
MAX_NAMES = 2000

_WORD = re.compile(r"[^\W\d]\w*")
_HANDED_OUT = frozenset({"return", "yield"})
_CALLABLE = frozenset({"function", "method"})

Change = tuple[Facts | None, Facts | None]
"""What a file said before and says now; None when there was or is none."""


class Snapshot:
    """A repository in memory; implements `Repository`."""

    def __init__(self, facts: Mapping[str, Facts]) -> None:
        self._facts = facts
        self._named: dict[str, list[SymbolId]] = {}
        self._mentioning: dict[str, set[str]] | None = None
        for path, one in facts.items():
            for definition in one.definitions[1:]:
                symbol = SymbolId(path, definition.qualified_name)
                self._named.setdefault(definition.name, []).append(symbol)

    def paths(self) -> Collection[str]:
        """Return the paths of all files."""
        return self._facts.keys()

    def facts(self, path: str) -> Facts | None:
        """Return what a file says."""
        return self._facts.get(path)

    def named(self, name: str) -> Sequence[SymbolId]:
        """Return the symbols of this name."""
        return self._named.get(name, ())

    def mentioning(self, name: str) -> Collection[str]:
        """Return the files that mention this name."""
        if self._mentioning is None:
            self._mentioning = {}
            for path, one in self._facts.items():
                for mentioned in mentioned_names(one):
                    self._mentioning.setdefault(mentioned, set()).add(path)
        return self._mentioning.get(name, ())


def mentioned_names(facts: Facts) -> frozenset[str]:
    """Return the names a file's edges depend on."""
    texts = [reference.target for reference in facts.references]
    texts += [binding.value for binding in facts.bindings]
    for one in facts.imports:
        texts += [one.module, one.name]
    return frozenset(_WORD.findall(" ".join(texts)))


def affected_paths(repository: Repository, changes: Mapping[str, Change]) -> set[str]:
    """Return the files, among them the changed ones, whose edges may differ now.

    Args:
        repository: As it is now.
        changes: The files that were added, changed or removed, by path.
    """
    affected = {path for path in changes if path in repository.paths()}
    names = {name for path, change in changes.items() for name in _changed(path, *change)}
    explain = cache(lambda path: _explained(repository.facts(path)))
    new = names
    while new:
        if "*" in new or len(names) > MAX_NAMES:
            return set(repository.paths())
        mentioning = {path for name in new for path in repository.mentioning(name)}
        affected |= mentioning
        spread = {
            name
            for path in mentioning
            for name, words in explain(path).items()
            if not words.isdisjoint(new)
        }
        new = spread - names
        names |= new
    return affected


def _changed(path: str, before: Facts | None, after: Facts | None) -> set[str]:
    """Return the names whose meaning to other files may have changed."""
    old, new = _meanings(before), _meanings(after)
    names = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    if before is None or after is None:
        names.update(_WORD.findall(path))
    return names


def _meanings(facts: Facts | None) -> dict[str, set[object]]:
    """Return what a file says to others about each name."""
    meanings: dict[str, set[object]] = {}
    if facts is None:
        return meanings
    for one in facts.definitions[1:]:
        meanings.setdefault(one.name, set()).add((one.qualified_name, one.kind, one.decorators))
    for name, text in _explanations(facts):
        meanings.setdefault(name, set()).add(text)
    return meanings


def _explained(facts: Facts | None) -> dict[str, frozenset[str]]:
    """Return the names that each name a file shows to others is explained by."""
    found: dict[str, set[str]] = {}
    for name, text in _explanations(facts) if facts else ():
        found.setdefault(name, set()).update(_WORD.findall(text))
    return {name: frozenset(words) for name, words in found.items()}


def _explanations(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the names a file shows to others, each with a text that says what it stands for."""
    for one in facts.imports:
        if facts.definitions[one.scope].kind not in _CALLABLE:
            yield one.alias, f"{one.module} {one.name}"
    for reference in facts.references:
        if reference.kind == "inherit":
            definition = facts.definitions[reference.scope]
            yield definition.name, f"{definition.qualified_name} ({reference.target})"
    local: dict[int, dict[str, list[Binding]]] = {}
    for binding in facts.bindings:
        local.setdefault(binding.scope, {}).setdefault(binding.name, []).append(binding)
    for scope, names in local.items():
        yield from _shown(facts.definitions[scope], names)


def _shown(scope: Definition, names: dict[str, list[Binding]]) -> Iterator[tuple[str, str]]:
    """Yield what a scope shows: a function nothing but what it hands out, and why that is so."""
    for name, bindings in names.items():
        if name in _HANDED_OUT:
            shown = scope.name
        elif name.startswith("self."):
            shown = name.removeprefix("self.")
        elif scope.kind in _CALLABLE:
            continue
        else:
            shown = name
        told = {name: bindings}
        words = _words(bindings)
        while new := {word for word in words if word in names and word not in told}:
            told.update((word, names[word]) for word in sorted(new))
            words = {word for one in new for word in _words(names[one])}
        text = " ".join(f"{n} {b.kind} {b.value}" for n, many in told.items() for b in many)
        yield shown, f"{scope.qualified_name} {text}"


def _words(bindings: list[Binding]) -> set[str]:
    return {word for binding in bindings for word in _WORD.findall(binding.value)}
