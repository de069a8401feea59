"""Finds the code that a memory cites, given by the caller or named in its text, and checks it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zapomni_core.exceptions import ValidationError, ZapomniError
from zapomni_core.infra.projects import project_of
from zapomni_core.infra.threads import run_to_end
from zapomni_core.modules.codebase.checkout import (
    GONE,
    HISTORY_SECONDS,
    MAX_TWINS,
    Checkout,
    Verdict,
)
from zapomni_core.modules.codebase.naming import Named, find_named, parse_named
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
# How many files of the index are looked at for a symbol that is not in its place.
MAX_INDEXED = 50

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

    async def again(self, old: Citation, place: str) -> Citation | None:
        """Return a citation of what is at a place of the same repository now."""
        repositories = await self.code.list_repositories()
        named = parse_named(place)
        if old.symbol:
            path, _, symbol = place.partition(":")
            named = Named(path, symbol)
        return await self._cite(old.root, named, repositories, given=old.given)

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
        checkout = Checkout(root)
    except ZapomniError:
        return None
    with checkout:
        return checkout.cite(named)


# --- Cited code compared with the files as they are now ---------------------------------


@dataclass(frozen=True)
class CitationChecker:
    """Compares citations with the working tree."""

    code: SqliteCode
    seconds: float = HISTORY_SECONDS
    """How long git may be asked since when code is changed."""

    async def check(self, citations: Sequence[Citation]) -> list[tuple[CheckedCitation, Citation]]:
        """Say of each citation what became of it, and return it with what was found out."""
        found: dict[int, tuple[CheckedCitation, Citation]] = {}
        repositories = {r.root: r for r in await self.code.list_repositories()} if citations else {}
        for root in dict.fromkeys(one.root for one in citations):
            places = [place for place, one in enumerate(citations) if one.root == root]
            own = [citations[place] for place in places]
            verdicts = await self._check_root(root, own, repositories.get(root))
            found |= zip(places, verdicts, strict=True)
        return [found[place] for place in range(len(citations))]

    async def _check_root(
        self, root: str, citations: Sequence[Citation], repository: CodeRepository | None
    ) -> list[tuple[CheckedCitation, Citation]]:
        try:
            checkout = await run_to_end(Checkout, root)
        except ValidationError:
            return [_checked(one, GONE) for one in citations]
        with checkout:
            verdicts = await run_to_end(checkout.compare, citations)
            missing = [n for n, verdict in enumerate(verdicts) if verdict is None]
            if missing:
                lost = [citations[n] for n in missing]
                indexed = [await self._indexed(one, repository) for one in lost]
                followed = await run_to_end(checkout.follow, lost, indexed)
                for number, verdict in zip(missing, followed, strict=True):
                    verdicts[number] = verdict
            known = [verdict or GONE for verdict in verdicts]
            dated = await run_to_end(checkout.date, citations, known, self.seconds)
        return [_checked(one, verdict) for one, verdict in zip(citations, dated, strict=True)]

    async def _indexed(self, one: Citation, repository: CodeRepository | None) -> list[str]:
        """Return the files that the index says may have it now."""
        if repository is None:
            return []
        if not one.symbol:
            return await self.code.find_copies(repository.key, one.file_hash)
        queries = (
            SymbolQuery(repositories=[repository.key], body_hash=one.body_hash, limit=MAX_INDEXED),
            SymbolQuery(repositories=[repository.key], name=one.symbol, limit=MAX_INDEXED),
        )
        return [s.path for query in queries for s in await self.code.find_symbols(query)]


def _checked(one: Citation, verdict: Verdict) -> tuple[CheckedCitation, Citation]:
    status: Literal["fresh", "changed", "moved", "gone"] = "fresh"
    if verdict.place == "gone":
        status = "gone"
    elif verdict.content == "changed":
        status = "changed"
    elif verdict.place == "moved":
        status = "moved"
    checked = CheckedCitation(
        repository=one.root,
        path=one.path,
        symbol=one.symbol,
        start_line=one.start_line,
        end_line=one.end_line,
        place=verdict.place,
        content=verdict.content,
        status=status,
        now=verdict.now,
        changed=list(verdict.changed),
        share=verdict.share,
        since=verdict.since,
        message=verdict.message,
        commit=one.commit,
        content_hash=one.content_hash,
    )
    state = ""
    if status in ("changed", "gone"):
        what = " and ".join(verdict.changed)
        state = f"{checked.cites} {status}" + (f" ({what})" if what else "")
    structure = verdict.structure or one.structure
    return checked, one.model_copy(update={"structure": structure, "state": state})
