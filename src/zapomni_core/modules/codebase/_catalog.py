"""A repository's files and its symbols by name, whatever imports what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zapomni_core.modules.codebase._models import FactSource
from zapomni_core.modules.codebase._values import MAX_VALUES, Value, Values, related
from zapomni_core.modules.codebase._view import View

__all__ = ["Catalog"]


class Catalog:
    """Views of files, each laid out once."""

    def __init__(self, repository: FactSource) -> None:
        self._repository = repository
        self._views: dict[str, View | None] = {}

    def view(self, path: str) -> View | None:
        """Return a file, None if there is none of this path."""
        views = self._views
        if path in views:
            return views[path]
        facts = self._repository.facts(path)
        views[path] = view = View(path, facts) if facts else None
        return view

    def named(self, name: str, language: str = "") -> Iterator[tuple[View, int]]:
        """Yield the symbols of a name, in files of a related language if one is given."""
        for symbol in self._repository.named(name):
            view = self.view(symbol.path)
            if view and (not language or related(view.language.name, language)):
                yield view, view.numbers[symbol.qualified_name]

    def shared(self, view: View, name: str) -> Values | None:
        """Look among names that need no import: those of the folder, or of the whole repository."""
        if not view.language.shared:
            return None
        folder = view.path.rpartition("/")[0]
        found = [
            (other, number)
            for other, number in self.named(name, view.language.name)
            if other.definitions[other.definitions[number].parent].kind in ("module", "namespace")
        ]
        near = [one for one in found if one[0].path.rpartition("/")[0] == folder]
        if near or view.language.shared == "folder":
            return _values(near)
        if len(found) == 1 or all(one.definitions[n].kind == "namespace" for one, n in found):
            return _values(found)
        return None

    def methods(self, view: View, number: int, name: str) -> Values | None:
        """Find a class's method in another file than its own: Go, Rust, C++, extensions."""
        tail = f".{view.definitions[number].name}.{name}"
        return _values(
            (other, one)
            for other, one in self.named(name, view.language.name)
            if f".{other.definitions[one].qualified_name.partition('#')[0]}".endswith(tail)
        )

    def in_folder(self, folder: str, name: str) -> Values | None:
        """Return what the files of a folder define under a name at their top level."""
        return _values(
            (view, number)
            for view, number in self.named(name)
            if view.path.rpartition("/")[0] == folder and view.definitions[number].parent == 0
        )


def _values(found: Iterable[tuple[View, int]]) -> Values | None:
    values = tuple(Value("symbol", view.path, number) for view, number in found)
    return values[:MAX_VALUES] or None
