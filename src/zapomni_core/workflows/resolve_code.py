"""Finding out whom the symbols of a repository refer to, file by file."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from zapomni_core.modules.codebase import Edge, Facts, Resolver, SymbolId, unpack_facts
from zapomni_db.code_models import EdgeRow
from zapomni_db.code_store import CodeStore, FactReader

__all__ = ["resolve_references"]

# A transaction is kept short for whoever waits to write.
EDGES_AT_ONCE = 2000


async def resolve_references(code: CodeStore, repository: int) -> int:
    """Resolve what is not, after files changed; return how many files were looked at."""
    reader = code.read_facts(repository)
    with await asyncio.to_thread(reader.__enter__):
        waiting = await asyncio.to_thread(reader.unresolved)
        resolver = await asyncio.to_thread(Resolver, _Stored(reader)) if waiting else None
        for_all = len(waiting)
        while waiting and resolver is not None:
            edges = await asyncio.to_thread(_resolve_some, resolver, waiting)
            await code.store_edges(repository, edges)
    return for_all


def _resolve_some(resolver: Resolver, waiting: list[str]) -> dict[str, list[EdgeRow]]:
    found: dict[str, list[EdgeRow]] = {}
    count = 0
    while waiting and count < EDGES_AT_ONCE:
        path = waiting.pop()
        found[path] = [_row(edge) for edge in resolver.resolve(path)]
        count += len(found[path]) + 1
    return found


def _row(edge: Edge) -> EdgeRow:
    callee = None if edge.callee is None else (edge.callee.path, edge.callee.qualified_name)
    return EdgeRow(
        edge.caller.qualified_name, edge.kind, callee, edge.name, edge.strength, edge.line
    )


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
        """Return the symbols of this bare name, two at most."""
        if name not in self._named:
            self._named[name] = [SymbolId(*one) for one in self._reader.named(name)]
        return self._named[name]
