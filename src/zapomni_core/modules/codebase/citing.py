"""Finds the code that a memory cites, given by the caller or named in its text, and checks it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Self

from zapomni_core.exceptions import ValidationError, ZapomniError
from zapomni_core.infra.projects import head_commit, project_of
from zapomni_core.infra.threads import run_to_end
from zapomni_core.modules.codebase.models import SourceFile, Symbol
from zapomni_core.modules.codebase.naming import Named, find_named, parse_named
from zapomni_core.modules.codebase.search import Outlines, find_lines, lines_digest, match_symbols
from zapomni_core.modules.codebase.tree import SourceTree
from zapomni_core.shared.folders import lies_in, real_path
from zapomni_db.code_models import (
    CheckedCitation,
    Citation,
    CodeRepository,
    SymbolQuery,
)
from zapomni_db.sqlite.code import SqliteCode

__all__ = ["CitationChecker", "Citer", "parse_named"]


MAX_GIVEN = 50
MAX_FOUND = 20
MAX_CHARS = 1000
# How many others with the same body are stored; more of them say nothing anyway.
MAX_TWINS = 50

# What a text means by a name is hardly a heading or a key of a configuration file.
_NOT_MEANT = frozenset({"module", "section", "key"})


@dataclass(frozen=True)
class Citer:
    """Finds out what is cited, and how it is now."""

    code: SqliteCode

    async def given(self, cites: Sequence[str], folder: str) -> list[Citation]:
        """Return the citations that a caller gives; relative paths start from a folder.

        Raises:
            ValidationError: There is no such file, symbol or line.
        """
        if len(cites) > MAX_GIVEN:
            raise ValidationError(f"cites exceed {MAX_GIVEN}", "VAL_003")
        repositories = await self.code.list_repositories() if cites else []
        made: list[Citation] = []
        for text in cites:
            if not text.strip() or len(text) > MAX_CHARS:
                raise ValidationError("cites: give a path, path:symbol or path:L10-L20", "VAL_004")
            root, named = await self._place(text, folder, repositories)
            cited = await self._cite(root, named, repositories, given=True)
            if cited is None:
                raise ValidationError(
                    "cites: there is no such file, or it has no such symbol or line", "VAL_004"
                )
            made.append(cited)
        return made

    async def found(self, text: str, project: str, folder: str) -> list[Citation]:
        """Return what a text names of what is indexed, where only one thing can be meant."""
        repositories = await self.code.list_repositories()
        if not repositories:
            return []
        among = _nearest(repositories, project, folder)
        made: dict[tuple[str, str, str, int], Citation] = {}
        for named in find_named(text):
            place = await self._indexed(named, among)
            if place is None:
                continue
            cited = await self._cite(*place, repositories, given=False)
            if cited is not None:
                made.setdefault((cited.root, cited.path, cited.symbol, cited.start_line), cited)
            if len(made) == MAX_FOUND:
                break
        return list(made.values())

    # --- its place --------------------------------------------------------------------

    async def _place(
        self, text: str, folder: str, repositories: Sequence[CodeRepository]
    ) -> tuple[str, Named]:
        """Return the root and the place in it that is meant."""
        named = parse_named(text)
        roots = [repository.root for repository in repositories]
        place = await asyncio.to_thread(_from_here, named, folder, roots)
        if place is not None:
            return place
        # Not from here: then by the end of its path, or a symbol without a path.
        among = _nearest(repositories, "", folder)
        for wanted in (named, Named(symbol=text.strip().removesuffix("()"))):
            place = await self._indexed(wanted, among)
            if place is not None:
                return place
        raise ValidationError(
            "cites: no file of this folder's project or of an indexed repository is meant",
            "VAL_004",
        )

    async def _indexed(
        self, named: Named, among: Sequence[Sequence[CodeRepository]]
    ) -> tuple[str, Named] | None:
        """Return the one thing that is meant, in the nearest repositories that have it."""
        for repositories in among:
            keys = [repository.key for repository in repositories]
            if named.path:
                files = await self.code.find_files(keys, named.path)
                exact = [(r, f) for r, f in files if f.path == named.path] or files
                places = [(root, named._replace(path=file.path)) for root, file in exact]
            else:
                query = SymbolQuery(repositories=keys, name=named.symbol)
                symbols = await self.code.find_symbols(query)
                # The text must write the name exactly, upper and lower case included.
                places = [
                    (one.repository, Named(one.path, one.qualified_name))
                    for one in symbols
                    if one.kind not in _NOT_MEANT
                    and f".{one.qualified_name.partition('#')[0]}".endswith(f".{named.symbol}")
                ]
            if places:
                return places[0] if len(places) == 1 else None
        return None

    # --- the code there --------------------------------------------------------------

    async def _cite(
        self,
        root: str,
        named: Named,
        repositories: Sequence[CodeRepository],
        *,
        given: bool,
    ) -> Citation | None:
        cited = await asyncio.to_thread(_look, root, named)
        if cited is None:
            return None
        key = next((r.key for r in repositories if r.root == root), None)
        twins = await self._twins(cited, key)
        return cited.model_copy(update={"given": given, "twins": [*cited.twins, *twins]})

    async def _twins(self, cited: Citation, repository: int | None) -> list[str]:
        """Return who else has the same body or name now: they cannot be where it goes later."""
        if repository is None:
            return []
        if not cited.symbol:
            copies = await self.code.find_copies(repository, cited.file_hash)
            return [path for path in copies if path != cited.path][:MAX_TWINS]
        alike = [
            symbol
            for query in (
                SymbolQuery(repositories=[repository], body_hash=cited.body_hash, limit=MAX_TWINS),
                SymbolQuery(repositories=[repository], name=cited.symbol, limit=MAX_TWINS),
            )
            for symbol in await self.code.find_symbols(query)
        ]
        return [f"{s.path}:{s.qualified_name}" for s in alike if s.path != cited.path]


def _from_here(named: Named, folder: str, roots: Sequence[str]) -> tuple[str, Named] | None:
    """Return the root and the place of a file that lies where a relative path leads."""
    real = real_path(named.path, folder)
    own = project_of(folder).root if folder else ""
    around = [root for root in (*roots, real_path(own) if own else "") if root]
    root = max((one for one in around if lies_in(real, one)), key=len, default=None)
    if root is None or not os.path.isfile(real):  # noqa: PTH113
        return None
    return root, named._replace(path=os.path.relpath(real, root))


def _nearest(
    repositories: Sequence[CodeRepository], project: str, folder: str
) -> list[list[CodeRepository]]:
    """Return which repositories are asked first: the folder's, the project's, all."""
    here = [r for r in repositories if folder and lies_in(real_path(folder), r.root)]
    here = sorted(here, key=lambda r: len(r.root))[-1:]
    same = [r for r in repositories if project and project in (r.project, r.name)]
    return [group for group in (here, same, list(repositories)) if group]


def _look(root: str, named: Named) -> Citation | None:
    """Return the code at a place; None if there is none."""
    try:
        tree = SourceTree(Path(root))
    except ZapomniError:
        return None
    with tree:
        source = tree.read(named.path)
    if source is None:
        return None
    cited = Citation(
        root=root,
        path=named.path,
        file_hash=source.content_hash,
        content_hash=source.content_hash,
        commit=head_commit(root),
    )
    if named.symbol:
        return _with_symbol(cited, source, named.symbol)
    if named.start_line:
        digest = lines_digest(source.data, named.start_line, named.end_line)
        lines = {"start_line": named.start_line, "end_line": named.end_line}
        return cited.model_copy(update={**lines, "content_hash": digest}) if digest else None
    return cited


def _with_symbol(cited: Citation, source: SourceFile, name: str) -> Citation | None:
    with Outlines() as outlines:
        symbols = outlines.of(source)
    matching = match_symbols(symbols, name)
    if not matching:
        return None
    symbol: Symbol = matching[0]
    twins = [
        f"{cited.path}:{other.qualified_name}"
        for other in symbols
        if other is not symbol and other.body_hash == symbol.body_hash
    ]
    return cited.model_copy(
        update={
            "symbol": symbol.qualified_name,
            "start_line": symbol.start_line,
            "end_line": symbol.end_line,
            "content_hash": symbol.content_hash,
            "body_hash": symbol.body_hash,
            "twins": twins[:MAX_TWINS],
        }
    )


# --- Cited code compared with the files as they are now ---------------------------------


# Files searched for something that is in none of the places known: more would keep a search
# waiting, and the next indexing finds it anyway.
LOOKED_AT = 200


class _Verdict(NamedTuple):
    status: Literal["fresh", "changed", "moved", "gone"]
    now: str = ""


FRESH, CHANGED, GONE = _Verdict("fresh"), _Verdict("changed"), _Verdict("gone")


@dataclass(frozen=True)
class CitationChecker:
    """Compares citations with the working tree."""

    code: SqliteCode

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
            if lines_digest(source.data, one.start_line, one.end_line) == one.content_hash:
                return FRESH
            first = find_lines(source.data, one.end_line - one.start_line + 1, one.content_hash)
            return _Verdict("moved", _lines(one.path, first, one)) if first else CHANGED
        return CHANGED

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
