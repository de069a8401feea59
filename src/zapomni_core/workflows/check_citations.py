"""What became of the code that memories speak of, checked against the files as they are now.

Most citations are settled by one look at their file. Only of what is not there any more is asked
where it went: in the index first, then in the files that changed since it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Self

from zapomni_core.exceptions import ValidationError
from zapomni_core.infra.threads import run_to_end
from zapomni_core.modules.codebase import SourceFile, SourceTree, Symbol
from zapomni_core.workflows.read_code import Outlines, find_lines, lines_digest
from zapomni_db.code_models import CheckedCitation, Citation, CodeRepository, SymbolQuery
from zapomni_db.code_store import CodeStore

__all__ = ["CitationChecker"]

# Files looked at for something that is in none of the places known: more would keep a search
# waiting, and the next indexing finds it anyway.
LOOKED_AT = 200


class _Verdict(NamedTuple):
    status: Literal["fresh", "changed", "moved", "gone"]
    now: str = ""


FRESH, CHANGED, GONE = _Verdict("fresh"), _Verdict("changed"), _Verdict("gone")


@dataclass(frozen=True)
class CitationChecker:
    """Compares citations with the working tree."""

    code: CodeStore

    async def check(self, citations: Sequence[Citation]) -> list[CheckedCitation]:
        """Say of each citation, in order, what became of it."""
        verdicts: dict[int, _Verdict] = {}
        repositories = {r.root: r for r in await self.code.list_repositories()} if citations else {}
        for root in dict.fromkeys(one.root for one in citations):
            places = [place for place, one in enumerate(citations) if one.root == root]
            own = [citations[place] for place in places]
            found = await self._check_root(root, own, repositories.get(root))
            verdicts |= zip(places, found, strict=True)
        return [_checked(one, verdicts[place]) for place, one in enumerate(citations)]

    async def _check_root(
        self, root: str, citations: Sequence[Citation], repository: CodeRepository | None
    ) -> list[_Verdict]:
        try:
            checkout = await run_to_end(_Checkout, root)
        except ValidationError:
            return [GONE for _ in citations]
        with checkout:
            verdicts = await run_to_end(checkout.compare, citations)
            return [
                verdict or await self._follow(checkout, one, repository)
                for one, verdict in zip(citations, verdicts, strict=True)
            ]

    async def _follow(
        self, checkout: _Checkout, one: Citation, repository: CodeRepository | None
    ) -> _Verdict:
        """Find out where something went."""
        paths = [one.path]
        known: dict[str, str] = {}
        if repository is not None:
            paths += await self._indexed(one, repository.key)
            found = await run_to_end(checkout.search, one, paths)
            if found is not None and found.status == "moved":
                return found
            files = await self.code.get_files(repository.key)
            known = {file.path: file.stamp for file in files}
        paths += await run_to_end(checkout.changed_since, known)
        return await run_to_end(checkout.search, one, paths) or GONE

    async def _indexed(self, one: Citation, repository: int) -> list[str]:
        """Return the files that the index says may have it now."""
        if not one.symbol:
            return await self.code.find_copies(repository, one.file_hash)
        queries = (
            SymbolQuery(repositories=[repository], body_hash=one.body_hash, limit=LOOKED_AT),
            SymbolQuery(repositories=[repository], name=one.symbol, limit=LOOKED_AT),
        )
        return [s.path for query in queries for s in await self.code.find_symbols(query)]


@dataclass
class _Checkout:
    """A working tree, each file read and parsed at most once."""

    root: str
    _sources: dict[str, SourceFile | None] = field(default_factory=dict)
    _symbols: dict[str, tuple[Symbol, ...]] = field(default_factory=dict)
    _changed: list[str] | None = None

    def __post_init__(self) -> None:
        self._tree = SourceTree(Path(self.root))
        self._outlines = Outlines()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._outlines.__exit__(*error)
        self._tree.__exit__(*error)

    def compare(self, citations: Iterable[Citation]) -> list[_Verdict | None]:
        """Look at the place each citation names; None if it is not there."""
        return [self._compare(one) for one in citations]

    def _compare(self, one: Citation) -> _Verdict | None:
        source = self._source(one.path)
        if source is None:
            return None
        if source.content_hash == one.file_hash:
            return FRESH
        if one.symbol:
            same = (s for s in self._outline(one.path) if s.qualified_name == one.symbol)
            symbol = next(same, None)
            if symbol is None:
                return None
            return FRESH if symbol.content_hash == one.content_hash else CHANGED
        if one.start_line:
            return self._compare_lines(one, source)
        return CHANGED

    def _compare_lines(self, one: Citation, source: SourceFile) -> _Verdict:
        if lines_digest(source.data, one.start_line, one.end_line) == one.content_hash:
            return FRESH
        first = find_lines(source.data, one.end_line - one.start_line + 1, one.content_hash)
        return _Verdict("moved", _lines(one.path, first, one)) if first else CHANGED

    def search(self, one: Citation, paths: Iterable[str]) -> _Verdict | None:
        """Look for something in these files."""
        among = list(dict.fromkeys(paths))
        return self._search_symbol(one, among) if one.symbol else self._search_text(one, among)

    def _search_symbol(self, one: Citation, paths: Sequence[str]) -> _Verdict | None:
        moved: list[tuple[str, Symbol]] = []
        rewritten: list[str] = []
        for path in paths:
            for symbol in self._outline(path)[1:]:
                place = f"{path}:{symbol.qualified_name}"
                if place in one.twins:
                    continue
                if symbol.body_hash == one.body_hash:
                    moved.append((place, symbol))
                elif symbol.qualified_name == one.symbol:
                    rewritten.append(place)
        name = one.symbol.partition("#")[0].rpartition(".")[2]
        same_name = [place for place, symbol in moved if symbol.name == name]
        if same_name or len(moved) == 1:
            return _Verdict("moved", (same_name or [moved[0][0]])[0])
        return _Verdict("changed", rewritten[0]) if len(rewritten) == 1 else None

    def _search_text(self, one: Citation, paths: Sequence[str]) -> _Verdict | None:
        count = one.end_line - one.start_line + 1
        for path in paths:
            source = self._source(path)
            if source is None or path in one.twins:
                continue
            if source.content_hash == one.file_hash:
                now = _lines(path, one.start_line, one) if one.start_line else path
                return _Verdict("moved", now)
            if one.start_line and (first := find_lines(source.data, count, one.content_hash)):
                return _Verdict("moved", _lines(path, first, one))
        return None

    def changed_since(self, known: Mapping[str, str]) -> list[str]:
        """Return files that are new or have another stamp than the known ones."""
        if self._changed is None:
            entries = self._tree.files()
            other = (entry.path for entry in entries if known.get(entry.path) != entry.stamp)
            self._changed = [path for path, _ in zip(other, range(LOOKED_AT), strict=False)]
        return self._changed

    def _source(self, path: str) -> SourceFile | None:
        if path not in self._sources:
            self._sources[path] = self._tree.read(path)
        return self._sources[path]

    def _outline(self, path: str) -> tuple[Symbol, ...]:
        if path not in self._symbols:
            source = self._source(path)
            self._symbols[path] = () if source is None else self._outlines.of(source)
        return self._symbols[path]


def _lines(path: str, first: int, one: Citation) -> str:
    last = first + one.end_line - one.start_line
    return f"{path}:L{first}" if last == first else f"{path}:L{first}-L{last}"


def _checked(one: Citation, verdict: _Verdict) -> CheckedCitation:
    return CheckedCitation(
        repository=one.root,
        path=one.path,
        symbol=one.symbol,
        start_line=one.start_line,
        end_line=one.end_line,
        status=verdict.status,
        now=verdict.now,
        commit=one.commit,
    )
