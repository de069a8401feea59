"""Finding out whom the symbols of a repository refer to, where something changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from zapomni_core.infra.threads import run_to_end
from zapomni_core.modules.codebase import (
    Edge,
    Facts,
    Resolver,
    SymbolId,
    affected_paths,
    unpack_facts,
)
from zapomni_db.code_models import EdgeRow
from zapomni_db.code_store import CodeStore, FactReader

__all__ = ["Changes", "resolve_references"]

# A transaction is kept short for whoever waits to write: about a tenth of a second.
EDGES_AT_ONCE = 8000

Changes = Mapping[str, tuple[str | None, str | None]]
"""What files said before and say now, packed; None where there was or is no such file."""


async def resolve_references(code: CodeStore, repository: int, changes: Changes | None) -> None:
    """Resolve the references that the changes concern; None: all of the repository."""
    if changes is not None and not changes:
        return
    reader = code.read_facts(repository)
    with await run_to_end(reader.__enter__):
        stored = _Stored(reader)
        waiting = await run_to_end(_concerned, stored, changes)
        resolver = await run_to_end(Resolver, stored)
        while waiting:
            edges = await run_to_end(_resolve_some, resolver, waiting)
            await code.store_edges(repository, edges)


def _concerned(stored: _Stored, changes: Changes | None) -> list[str]:
    if changes is None:
        return sorted(stored.paths())
    unpacked = {
        path: ((before and unpack_facts(before)) or None, (after and unpack_facts(after)) or None)
        for path, (before, after) in changes.items()
    }
    return sorted(affected_paths(stored, unpacked))


def _resolve_some(resolver: Resolver, waiting: list[str]) -> dict[str, list[EdgeRow]]:
    found: dict[str, list[EdgeRow]] = {}
    count = 0
    while waiting and count < EDGES_AT_ONCE:
        path = waiting.pop()
        found[path] = [_row(edge) for edge in resolver.resolve(path)]
        count += len(found[path]) + 1
    return found


def _row(edge: Edge) -> EdgeRow:
    kind, caller, callee, name, strength, line = edge
    return EdgeRow(caller.qualified_name, kind, callee, name, strength, line)


class _Stored:
    """The repository as the resolver asks for it, each file's facts unpacked once."""

    def __init__(self, reader: FactReader) -> None:
        self._reader = reader
        self._paths: frozenset[str] | None = None
        self._facts: dict[str, Facts | None] = {}
        self._named: dict[str, list[SymbolId]] = {}

    def paths(self) -> Collection[str]:
        """Return the paths of all files."""
        if self._paths is None:
            self._paths = frozenset(self._reader.paths())
        return self._paths

    def facts(self, path: str) -> Facts | None:
        """Return what a file says."""
        if path not in self._facts:
            packed = self._reader.facts(path) if path in self.paths() else None
            self._facts[path] = None if packed is None else unpack_facts(packed)
        return self._facts[path]

    def named(self, name: str) -> Sequence[SymbolId]:
        """Return the symbols of this bare name."""
        if name not in self._named:
            self._named[name] = [SymbolId(*one) for one in self._reader.named(name)]
        return self._named[name]

    def mentioning(self, name: str) -> Collection[str]:
        """Return the files that mention this name."""
        return self._reader.mentioning(name)
