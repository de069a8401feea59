"""A repository in memory, and what its files depend on."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from zapomni_core.modules.codebase._models import Facts, SymbolId

__all__ = ["Snapshot", "mentioned_names"]

_WORD = re.compile(r"[^\W\d]\w*")


def mentioned_names(facts: Facts) -> frozenset[str]:
    """Return the names a file's edges depend on."""
    texts = [reference.target for reference in facts.references]
    texts += [binding.value for binding in facts.bindings]
    for one in facts.imports:
        texts += [one.module, one.name]
    return frozenset(_WORD.findall(" ".join(texts)))


class Snapshot:
    """A repository in memory; implements `Repository`."""

    def __init__(self, facts: Mapping[str, Facts]) -> None:
        self._facts = facts
        self._named: dict[str, list[SymbolId]] = {}
        self._mentioning: dict[str, set[str]] = {}
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
        if not self._mentioning:
            for path, one in self._facts.items():
                for mentioned in mentioned_names(one):
                    self._mentioning.setdefault(mentioned, set()).add(path)
        return self._mentioning.get(name, ())
