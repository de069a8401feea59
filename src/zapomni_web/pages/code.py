"""Code: repositories, files, symbols, who calls whom, and the memories that cite them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zapomni_core.exceptions import NotFoundError
from zapomni_core.modules.codebase import (
    CallsRequest,
    CallsResponse,
    FolderRequest,
    IndexRequest,
    OutlineRequest,
    StaleMemory,
    SymbolRequest,
)
from zapomni_db.code_models import CodeEdge, CodeSymbol
from zapomni_web.page import Done, PageRequest, PageView, address

__all__ = ["show"]

STALE_SHOWN = 20
ROWS = 150
CALLS_SHOWN = 30
SOURCE_CHARS = 24_000
# From here on it is not the name alone that speaks for it.
LIKELY = 0.5
STATES = {
    "changed": "It has changed since it was indexed; this is how it is now.",
    "gone": "It is no longer there; this is how it was indexed.",
}


class Crumb(NamedTuple):
    """A folder on the way to where one is; the last one has no link."""

    name: str
    href: str


class ShownCall(NamedTuple):
    """A reference between two symbols, as a line of a list."""

    name: str
    href: str
    """Empty: it is not known which symbol is meant."""
    place: str
    kind: str
    certainty: str


async def show(asked: PageRequest) -> PageView:
    """Show what is indexed, and the memories whose code has changed first."""
    engine = asked.engine
    repositories = await engine.code.list_repositories()
    stale = await engine.citations.list_stale()
    return PageView(
        "code.html",
        "Code",
        repositories,
        ["zapomni", "code", "list"],
        {"stale": _worst_first(stale)[:STALE_SHOWN], "stale_count": len(stale)},
        live="memories tasks",
    )


def _worst_first(stale: Sequence[StaleMemory]) -> list[StaleMemory]:
    order = {"gone": 0, "changed": 1, "moved": 2, "fresh": 3}
    return sorted(stale, key=lambda one: min(order[cited.status] for cited in one.citations))


async def files(asked: PageRequest) -> PageView:
    """Show what is in a folder of a repository."""
    root, path = asked.get("repo"), asked.get("path")
    found = await asked.engine.code.list_files(FolderRequest(repository=root, path=path))
    offset = asked.get_int("offset", 0)
    command = ["zapomni", "code", "files", "--repo", found.repository]
    return PageView(
        "code_files.html",
        found.path or _name(found.repository),
        found,
        [*command, "--", found.path] if found.path else command,
        {
            "crumbs": _crumbs(found.repository, found.path),
            "folders": found.folders if not offset else [],
            "files": found.files[offset : offset + ROWS],
            "previous": asked.here(offset=str(max(0, offset - ROWS))) if offset else "",
            "next": asked.here(offset=str(offset + ROWS))
            if len(found.files) > offset + ROWS
            else "",
        },
    )


def _name(root: str) -> str:
    return root.rstrip("/").rpartition("/")[2] or root


def _crumbs(root: str, path: str) -> list[Crumb]:
    crumbs = [Crumb(_name(root), address("code", "files", repo=root))]
    parts = path.split("/") if path else []
    for number, part in enumerate(parts, 1):
        crumbs.append(
            Crumb(part, address("code", "files", repo=root, path="/".join(parts[:number])))
        )
    return crumbs


async def file(asked: PageRequest) -> PageView:
    """Show the symbols of a file, and the memories that cite it."""
    request = OutlineRequest(repository=asked.get("repo"), path=asked.get("path"))
    found = await asked.engine.code.get_outline(request)
    if not found.path:
        raise NotFoundError("No indexed file of this repository has this path.", "CODE_001")
    return PageView(
        "code_file.html",
        found.path.rpartition("/")[2],
        found,
        ["zapomni", "code", "outline", "--repo", found.repository, "--", found.path],
        {
            "crumbs": _crumbs(found.repository, found.path.rpartition("/")[0]),
            "state": STATES.get(found.state, ""),
            "symbols": found.symbols[1 : ROWS * 2],
            "left": max(0, len(found.symbols) - ROWS * 2),
            "citing": await asked.engine.citations.find_citing(found.repository, found.path),
        },
        live="memories",
    )


async def symbol(asked: PageRequest) -> PageView:
    """Show a symbol: its source as it is now, callers, callees, memories and edits."""
    engine, root, name = asked.engine, asked.get("repo"), asked.get("name")
    found = await engine.code.get_symbol(
        SymbolRequest(name=name, repository=root or "*", history=True)
    )
    one = found.symbol
    more: dict[str, object] = {"state": STATES.get(found.state, ""), "href": _symbol_href}
    if one is not None:
        calls = CallsRequest(name=str(one.id), repository=one.repository, limit=CALLS_SHOWN)
        callers = await engine.code.find_callers(calls)
        callees = await engine.code.find_callees(calls)
        more |= {
            "crumbs": [
                *_crumbs(one.repository, one.path.rpartition("/")[0]),
                Crumb(one.path.rpartition("/")[2], _file_href(one.repository, one.path)),
            ],
            "source": found.source[:SOURCE_CHARS],
            "is_cut": len(found.source) > SOURCE_CHARS,
            "callers": _calls(callers, incoming=True),
            "more_callers": callers.more,
            "callees": _calls(callees, incoming=False),
            "more_callees": callees.more,
            "citing": await engine.citations.find_citing(
                one.repository, one.path, one.qualified_name
            ),
        }
    place = root or (one.repository if one else "")
    scope = ["--repo", place] if place else ["--all"]
    return PageView(
        "code_symbol.html",
        (one.qualified_name or one.path) if one else name,
        found,
        ["zapomni", "code", "symbol", "--history", *scope, "--", name],
        more,
        live="memories",
    )


def _file_href(root: str, path: str) -> str:
    return address("code", "file", repo=root, path=path)


def _symbol_href(one: CodeSymbol) -> str:
    if not one.qualified_name:
        return _file_href(one.repository, one.path)
    name = f"{one.path}:{one.qualified_name}"
    return address("code", "symbol", repo=one.repository, name=name)


def _calls(found: CallsResponse, *, incoming: bool) -> list[ShownCall]:
    return [_call(edge, edge.caller if incoming else edge.callee) for edge in found.edges]


def _call(edge: CodeEdge, other: CodeSymbol | None) -> ShownCall:
    certainty = "likely" if edge.strength >= LIKELY else "by its name"
    if edge.strength >= 1:
        certainty = ""
    return ShownCall(
        edge.name if other is None else other.qualified_name or other.path,
        "" if other is None else _symbol_href(other),
        f"{edge.caller.path}:{edge.line}",
        edge.kind,
        certainty if other is not None else "not known which",
    )


async def index(asked: PageRequest) -> Done:
    """Bring the index of a repository up to date."""
    root = asked.field("root")
    known = {one.root: one for one in await asked.engine.code.list_repositories()}
    if root not in known:
        raise NotFoundError("No such repository is indexed.", "CODE_002")
    # It was indexed before: this folder is meant.
    await asked.engine.code.index(IndexRequest(path=root, folder=root, confirmed=True))
    return Done(
        f"{known[root].name} is being read again. This page says when something has changed.",
        address("code"),
    )
