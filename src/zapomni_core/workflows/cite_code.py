"""Which code a memory speaks of: said by whoever keeps it, or named in its text."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zapomni_core.exceptions import ValidationError, ZapomniError
from zapomni_core.infra.projects import head_commit, project_of
from zapomni_core.modules.codebase import SourceFile, SourceTree, Symbol
from zapomni_core.shared.citing import Named, find_named, parse_named
from zapomni_core.shared.folders import lies_in, real_path
from zapomni_core.workflows.read_code import Outlines, lines_digest, match_symbols
from zapomni_db.code_models import Citation, CodeRepository, CodeSymbol, SymbolQuery
from zapomni_db.code_store import CodeStore

__all__ = ["Citer"]

MAX_GIVEN = 50
MAX_FOUND = 20
MAX_CHARS = 1000
# Nobody else is remembered as having had the same body; more of them say nothing anyway.
MAX_TWINS = 50

# What a text means by a name is hardly a heading or a key of a configuration file.
_NOT_MEANT = frozenset({"module", "section", "key"})


@dataclass(frozen=True)
class Citer:
    """Finds out what is cited, and how it is now."""

    code: CodeStore

    async def given(self, cites: Sequence[str], folder: str) -> list[Citation]:
        """Return what somebody says a memory cites; relative paths start from a folder.

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

    # --- where it stands ----------------------------------------------------------------

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
                places = [
                    (symbol.repository, Named(symbol.path, symbol.qualified_name))
                    for symbol in await self.code.find_symbols(query)
                    if symbol.kind not in _NOT_MEANT and _spelled(symbol, named.symbol)
                ]
            if places:
                return places[0] if len(places) == 1 else None
        return None

    # --- what stands there --------------------------------------------------------------

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


def _spelled(symbol: CodeSymbol, name: str) -> bool:
    """Say whether a text writes a symbol's name exactly, upper and lower case included."""
    return f".{symbol.qualified_name.partition('#')[0]}".endswith(f".{name}")


def _nearest(
    repositories: Sequence[CodeRepository], project: str, folder: str
) -> list[list[CodeRepository]]:
    """Return which repositories are asked first: the folder's, the project's, all."""
    here = [r for r in repositories if folder and lies_in(real_path(folder), r.root)]
    here = sorted(here, key=lambda r: len(r.root))[-1:]
    same = [r for r in repositories if project and project in (r.project, r.name)]
    return [group for group in (here, same, list(repositories)) if group]


def _look(root: str, named: Named) -> Citation | None:
    """Return what stands at a place; None if nothing does."""
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
