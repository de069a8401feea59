"""Finds code: by meaning and words, by name, and by who refers to whom, as it is now."""

from __future__ import annotations

import asyncio
import os
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Self

from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.interfaces import SearchRequest, SearchResponse, SearchResult
from zapomni_core.modules.codebase.index import passage_digest
from zapomni_core.modules.codebase.models import SourceFile, Symbol
from zapomni_core.modules.codebase.parse import FileStructure
from zapomni_core.modules.codebase.parser import CodeParser
from zapomni_core.modules.codebase.schemas import (
    CallsRequest,
    CallsResponse,
    CodeFolder,
    CodeHit,
    CodeSearchRequest,
    CodeSearchResponse,
    FolderRequest,
    FolderResponse,
    OutlineRequest,
    OutlineResponse,
    SymbolRequest,
    SymbolResponse,
)
from zapomni_core.modules.codebase.tree import SourceTree
from zapomni_core.shared.code import Role, role_of
from zapomni_core.shared.folders import lies_in, real_path
from zapomni_core.shared.text import identifier_words, query_terms, share_of_words
from zapomni_db.code_models import (
    CODE_KIND,
    CodeEdge,
    CodeRepository,
    CodeSymbol,
    FileEdit,
    IndexedFile,
    SymbolQuery,
)
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import Chunk
from zapomni_db.sqlite.code import SqliteCode

__all__ = [
    "Named",
    "Outlines",
    "find_calls",
    "find_lines",
    "find_named",
    "fingerprint",
    "get_outline",
    "get_symbol",
    "lines_digest",
    "match_symbols",
    "parse_named",
    "repositories_for",
    "search_code",
]


MAX_CALLS = 1000
MAX_NAME = 1000
MAX_CANDIDATES, MAX_OF_A_NAME = 20, 500
EDITS_LOOKED_AT, EDITS_SHOWN = 100, 5

_WORD = re.compile(r"\w+")


async def repositories_for(
    store: SqliteCode, repository: str, folder: str
) -> list[CodeRepository] | None:
    """Return the repositories that are meant; None means all.

    Raises:
        NotFoundError: The one named was not indexed, or none was.
    """
    known = await store.list_repositories()
    if not known:
        raise NotFoundError("Nothing is indexed.", "CODE_002")
    if repository == "*":
        return None
    if repository:
        root = real_path(repository, folder)
        found = [r for r in known if root == r.root or repository in (r.name, r.project)]
        if not found:
            raise NotFoundError("No such repository is indexed.", "CODE_002")
        return found
    real = real_path(folder) if folder else ""
    around = [r for r in known if real and lies_in(real, r.root)]
    return sorted(around, key=lambda r: len(r.root))[-1:] or None


def _keys(repositories: Sequence[CodeRepository] | None) -> list[int] | None:
    return None if repositories is None else [r.key for r in repositories]


# --- One symbol ---------------------------------------------------------------------------


async def get_symbol(
    store: SqliteCode, storage: StorageProvider, request: SymbolRequest
) -> SymbolResponse:
    """Return a symbol as it is in its file now."""
    found = await _find(store, request.name, request.repository, request.folder)
    if len(found) > 1:
        return SymbolResponse(symbol=None, candidates=found)
    known = found[0]
    now = await asyncio.to_thread(_as_now, known)
    if now is None:
        answer = SymbolResponse(
            symbol=known, source=await _as_indexed(store, storage, known), state="gone"
        )
    else:
        symbol, source = now
        state = "fresh" if symbol.content_hash == known.content_hash else "changed"
        answer = SymbolResponse(symbol=symbol, source=source, state=state)
    return await _with_history(store, answer) if request.history else answer


async def _find(store: SqliteCode, name: str, repository: str, folder: str) -> list[CodeSymbol]:
    """Return the symbols that are meant, at least one.

    Raises:
        NotFoundError: None is.
    """
    name = name.strip()
    if not name or len(name) > MAX_NAME:
        raise ValidationError("Give a name, path:name or an id", "VAL_004")
    name = name.encode("utf-8", "replace").decode()
    if name.isascii() and name.isdigit() and len(name) < 18:
        known = await store.get_symbol(int(name))
        if known is not None:
            return [known]
    keys = _keys(await repositories_for(store, repository, folder))
    named = parse_named(name)
    queries = [SymbolQuery(repositories=keys, name=name.removesuffix("()"))]
    if named.symbol:
        queries.append(SymbolQuery(repositories=keys, path=named.path, name=named.symbol))
    queries.append(SymbolQuery(repositories=keys, path=name, kind="module"))
    for query in queries:
        found = await store.find_symbols(query.model_copy(update={"limit": MAX_OF_A_NAME}))
        if found:
            # Tests and examples override and imitate what is meant.
            own = [symbol for symbol in found if role_of(symbol.path) == "code"]
            others = [] if len(own) == 1 else [one for one in found if one not in own]
            return [*own, *others][:MAX_CANDIDATES]
    near = await store.suggest_names(keys, named.symbol or name)
    raise NotFoundError("No symbol has this name.", "CODE_001", near=near)


def _as_now(known: CodeSymbol) -> tuple[CodeSymbol, str] | None:
    """Return a symbol and its source as they stand in the file now; None if they do not."""
    source = _read(known.repository, known.path)
    if source is None:
        return None
    for symbol in _outline(source):
        if symbol.qualified_name == known.qualified_name:
            text = source.data[symbol.start_byte : symbol.end_byte].decode("utf-8", "replace")
            return _merged(known, symbol), text
    return None


def _read(root: str, path: str) -> SourceFile | None:
    try:
        with SourceTree(Path(root)) as tree:
            return tree.read(path)
    except ValidationError:
        return None  # The whole folder is missing.


def _outline(source: SourceFile) -> tuple[Symbol, ...]:
    with Outlines() as outlines:
        return outlines.of(source)


def _merged(known: CodeSymbol, symbol: Symbol) -> CodeSymbol:
    return known.model_copy(
        update={
            "kind": symbol.kind,
            "signature": symbol.signature,
            "docstring": symbol.docstring,
            "decorators": list(symbol.decorators),
            "start_line": symbol.start_line,
            "end_line": symbol.end_line,
            "content_hash": symbol.content_hash,
        }
    )


async def _as_indexed(store: SqliteCode, storage: StorageProvider, known: CodeSymbol) -> str:
    """Return a symbol's source as it was when it was indexed."""
    keys = [r.key for r in await store.list_repositories() if r.root == known.repository]
    for _, file in await store.find_files(keys, known.path):
        record = await storage.get_memory(file.memory_id) if file.path == known.path else None
        if record is not None:
            return record.text.encode()[known.start_byte : known.end_byte].decode(errors="replace")
    return ""


# --- What agents did to it ----------------------------------------------------------------


async def _with_history(store: SqliteCode, answer: SymbolResponse) -> SymbolResponse:
    """Add who edited a symbol, when, what for, and what failed after."""
    symbol = answer.symbol
    assert symbol is not None
    paths = [str(Path(symbol.repository) / symbol.path), symbol.path]
    edits = await store.get_edits(paths, EDITS_LOOKED_AT)
    own = [e for e in edits if symbol.kind == "module" or _concerns(e, symbol, answer.source)]
    shown = (own or edits)[:EDITS_SHOWN]
    return answer.model_copy(update={"edits": shown, "edits_of_file": bool(edits) and not own})


def _concerns(edit: FileEdit, symbol: CodeSymbol, source: str) -> bool:
    """Return whether an edit names a symbol, or added a line that is in it."""
    summary, *lines = edit.content.splitlines() or [""]
    if symbol.name in _WORD.findall(summary):
        return True
    added = (line[2:].strip() for line in lines if line.startswith("+ "))
    return any(line in source for line in added if len(_WORD.findall(line)) > 1)


# --- Files and calls ----------------------------------------------------------------------


async def list_files(store: SqliteCode, request: FolderRequest) -> FolderResponse:
    """Return what is in a folder: files, and folders with what is below them."""
    repositories = await repositories_for(store, request.repository, request.folder)
    if repositories is None:
        repositories = await store.list_repositories()
    if len(repositories) > 1:
        raise ValidationError("Several repositories are indexed; name one", "VAL_004")
    inside = request.path.strip("/")
    start = f"{inside}/" if inside else ""
    folders: dict[str, CodeFolder] = {}
    files = []
    for file in await store.list_files(repositories[0].key):
        if not file.path.startswith(start):
            continue
        name, slash, _ = file.path.removeprefix(start).partition("/")
        if not slash:
            files.append(file)
            continue
        path = start + name
        known = folders.get(path) or CodeFolder(path=path, files=0, lines=0)
        folders[path] = CodeFolder(path=path, files=known.files + 1, lines=known.lines + file.lines)
    if inside and not files and not folders:
        raise NotFoundError("No indexed file is in this folder.", "CODE_001")
    return FolderResponse(
        repository=repositories[0].root,
        path=inside,
        folders=sorted(folders.values(), key=lambda one: one.path),
        files=files,
    )


async def get_outline(store: SqliteCode, request: OutlineRequest) -> OutlineResponse:
    """Return a file's symbols as they are now."""
    path = request.path.strip().encode("utf-8", "replace").decode()
    if not path or len(path) > MAX_NAME:
        raise ValidationError("Give the path of a file", "VAL_004")
    repositories = await repositories_for(store, request.repository, request.folder)
    found = await store.find_files(
        _keys(repositories), _relative(path, request.folder, repositories)
    )
    exact = [(root, file) for root, file in found if file.path == path] or found
    if not exact:
        raise NotFoundError("No indexed file has this path.", "CODE_001")
    if len(exact) > 1:
        return OutlineResponse(candidates=[str(Path(root) / file.path) for root, file in exact])
    root, file = exact[0]
    known = await store.get_outline(file.key)
    source = await asyncio.to_thread(_read, root, file.path)
    if source is None:
        return OutlineResponse(repository=root, path=file.path, state="gone", symbols=known)
    if source.content_hash == file.content_hash:
        return OutlineResponse(repository=root, path=file.path, symbols=known)
    now = await asyncio.to_thread(_outline, source)
    return OutlineResponse(
        repository=root, path=file.path, state="changed", symbols=_renewed(root, known, now)
    )


def _relative(path: str, folder: str, repositories: Sequence[CodeRepository] | None) -> str:
    """Turn a path from here into one from the repository's root, if there is such a file."""
    real = real_path(path, folder)
    for repository in repositories or []:
        if lies_in(real, repository.root) and os.path.isfile(real):  # noqa: PTH113
            return os.path.relpath(real, repository.root)
    return path


def _renewed(root: str, known: Sequence[CodeSymbol], symbols: Sequence[Symbol]) -> list[CodeSymbol]:
    """Return a changed file's symbols; those that were indexed keep their ids."""
    by_name = {symbol.qualified_name: symbol for symbol in known}
    depths: list[int] = []
    renewed = []
    for symbol in symbols:
        depths.append(0 if symbol.parent < 0 else depths[symbol.parent] + 1)
        before = by_name.get(symbol.qualified_name) or CodeSymbol(
            id=0, repository=root, path=known[0].path if known else "", depth=depths[-1],
            **{**symbol._asdict(), "decorators": list(symbol.decorators)},
        )  # fmt: skip
        renewed.append(_merged(before, symbol))
    return renewed


Calls = Callable[[CodeSymbol, int], Awaitable[list[CodeEdge]]]


async def find_calls(store: SqliteCode, calls: Calls, request: CallsRequest) -> CallsResponse:
    """Return the references to or from a symbol."""
    if not 1 <= request.limit <= MAX_CALLS:
        raise ValidationError(f"limit must be from 1 to {MAX_CALLS}", "VAL_003")
    found = await _find(store, request.name, request.repository, request.folder)
    if len(found) > 1:
        return CallsResponse(symbol=None, candidates=found)
    edges = await calls(found[0], request.limit + 1)
    return CallsResponse(
        symbol=found[0], edges=edges[: request.limit], more=len(edges) > request.limit
    )


# --- Code as it is now on disk: a file's symbols, and lines of it ---------------------


OUTLINES_KEPT = 200

Symbols = tuple[Symbol, ...]

_kept: OrderedDict[tuple[str, str], Symbols] = OrderedDict()
"""The last outlines, by path and contents: the same changed file is asked for again and again."""


class _NoPassages:
    """A chunker for those who want symbols only."""

    def chunk(self, text: str) -> list[Chunk]:  # noqa: ARG002
        return []


_structures: OrderedDict[tuple[str, str], FileStructure] = OrderedDict()


class Outlines:
    """The symbols of files; a context manager, because a process that parses may run behind it."""

    def __init__(self) -> None:
        self._parser = CodeParser(_NoPassages())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._parser.__exit__(*error)

    def of(self, source: SourceFile) -> Symbols:
        """Return a file's symbols, the file itself first."""
        key = (source.path, source.content_hash)
        found = _kept.pop(key, None)
        _kept[key] = found = self._parser.parse(source).symbols if found is None else found
        if len(_kept) > OUTLINES_KEPT:
            _kept.popitem(last=False)
        return found

    def structure_of(self, source: SourceFile) -> FileStructure:
        """Return a file's symbols and their structure."""
        key = (source.path, source.content_hash)
        found = _structures.pop(key, None)
        _structures[key] = found = found or self._parser.read_structure(source)
        if len(_structures) > OUTLINES_KEPT:
            _structures.popitem(last=False)
        return found


def fingerprint(root: str) -> str:
    """Return a text that changes whenever a file worth reading does, comes or goes.

    Raises:
        ValidationError: The folder is not there any more.
    """
    digest = blake2b(digest_size=16)
    with SourceTree(Path(root)) as tree:
        for entry in tree.files():
            digest.update(f"{entry.path}\0{entry.stamp}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def match_symbols(symbols: Sequence[Symbol], name: str) -> list[Symbol]:
    """Return the symbols of a qualified name, or those whose qualified name ends so."""
    whole = [symbol for symbol in symbols if symbol.qualified_name == name]
    plain = [(symbol, symbol.qualified_name.partition("#")[0]) for symbol in symbols[1:]]
    ending = [symbol for symbol, known in plain if known == name or known.endswith(f".{name}")]
    return whole or ending


def lines_digest(data: bytes, first: int, last: int) -> str:
    """Identify lines by their text, whatever blanks they end with; "" if they are not all there."""
    lines = data.splitlines()
    return _digest(lines[first - 1 : last]) if first <= last <= len(lines) else ""


def find_lines(
    data: bytes, count: int, digest: str, near: int = 1, among: Iterable[int] | None = None
) -> int:
    """Return at which line a run of lines begins now, the nearest to one; 0 if it is nowhere.

    Args:
        data: The text.
        count: How many lines there are.
        digest: What `lines_digest` said of them.
        near: Of several places, the one nearest to this line.
        among: The lines it may begin at; None: any.
    """
    lines = data.splitlines()
    starts = range(1, len(lines) - count + 2) if among is None else among
    for start in sorted(starts, key=lambda start: abs(start - near)):
        if start > 0 and _digest(lines[start - 1 : start - 1 + count]) == digest:
            return start
    return 0


def _digest(lines: Sequence[bytes]) -> str:
    return blake2b(b"\n".join(line.rstrip() for line in lines), digest_size=16).hexdigest()


# --- Searches code: the search of memories over passages of code, reported by symbol ---


MAX_LIMIT = 100
# How many passages are checked for names that fit better than their rank.
LOOKED_AT = 50
# What speaks for a hit: its rank, how much of its name was asked for, how much of the question
# its name is, and that it defines something. Measured by `benchmarks.code_search`.
RANK, NAME, QUESTION, DEFINES = 20, 0.01, 0.02, 0.002
HIGHEST = 1 / RANK + NAME + QUESTION + DEFINES
# What the score of a hit is worth whose file is not for what was asked: code before tests before
# docs, unless the question says otherwise, or no code has half as many of its words.
SECOND, THIRD, MUCH_MORE = 0.2, 0.15, 2.0
_ASKS_FOR_TESTS = re.compile(
    r"(?i)\b(?:tests? (?:for|of|that|which|covering)|(?:which|what|any|the|unit|regression) tests?"
    r"|(?<!\ba )(?<!\bin )(?<!\bfor )tests?$|tested|test (?:case|suite)s?|test_\w+"
    r"|specs? (?:for|of)|fixtures?)\b"
)
_ASKS_FOR_DOCS = re.compile(
    r"(?i)\b(?:docs?|documentation|documented|readme|changelog|release notes|guide|tutorial"
    r"|manual|handbook|examples? (?:of|for)|changed in (?:version )?\d)\b"
)
DEFINITIONS = frozenset("class enum function interface macro method struct trait type".split())
# How much deeper each look goes when a filter leaves too few.
DEEPER = 4
DEEPEST = 1000

Search = Callable[[SearchRequest], Awaitable[SearchResponse]]


async def search_code(
    store: SqliteCode, search: Search, request: CodeSearchRequest
) -> CodeSearchResponse:
    """Return symbols, best first, each by its best passage."""
    if not 1 <= request.limit <= MAX_LIMIT:
        raise ValidationError(f"limit must be from 1 to {MAX_LIMIT}", "VAL_003")
    repositories = await repositories_for(store, request.repository, request.folder)
    filters: dict[str, object] = {"kind": CODE_KIND}
    tags = [f"lang:{request.language.strip().lower()}"] if request.language else []
    if repositories is not None and len(repositories) == 1:
        tags.append(repositories[0].tag)
    elif repositories is not None:
        projects = {repository.project for repository in repositories}
        if len(projects) > 1:
            raise ValidationError("Several repositories have this name; give its folder", "VAL_004")
        filters["project"] = projects.pop()
    if tags:
        filters["tags"] = tags
    if request.path:
        filters["path"] = request.path
    depth = max(request.limit, LOOKED_AT)
    while True:
        asked = SearchRequest(
            query=request.query,
            limit=depth,
            filters=filters,
            within="memories",
            every_passage=True,
        )
        found = await search(asked)
        hits = await _hits(store, found.results, request.kind)
        enough = len(hits) >= request.limit or len(found.results) < depth or depth == DEEPEST
        if enough:
            best = _rank(hits, request.query)[: request.limit]
            return CodeSearchResponse(hits=best, notice=found.notice)
        depth = min(depth * DEEPER, DEEPEST)


async def _hits(store: SqliteCode, results: list[SearchResult], kind: str) -> list[CodeHit]:
    places = await store.get_places(list(dict.fromkeys(hit.memory_id for hit in results)))
    hits: dict[int, CodeHit] = {}
    for result in results:
        place = places.get(result.memory_id)
        hit = None if place is None else _hit(result, place)
        if hit is not None and (not kind or hit.kind == kind):
            hits.setdefault(hit.id, hit)
    return list(hits.values())


def _rank(hits: list[CodeHit], query: str) -> list[CodeHit]:
    """Rank again: code before tests before docs, and by names.

    A question in words uses those of the name of what it asks for.
    """
    asked = query_terms(query)
    weights = _weights(hits, query, asked)
    ranked = []
    by_role = sorted(hits, key=lambda hit: -hit.score * weights[hit.id])
    for rank, hit in enumerate(by_role):
        words = identifier_words(hit.name.rpartition(".")[2].partition("#")[0])
        named = DEFINES * (hit.kind in DEFINITIONS)
        named += NAME * share_of_words(words, f"{query} {' '.join(asked)}")
        named += QUESTION * share_of_words(asked, " ".join(words))
        # The names of tests repeat what is asked for.
        score = 1 / (rank + RANK) + (named if weights[hit.id] == 1 else 0)
        ranked.append(hit.model_copy(update={"score": round(score / HIGHEST, 4)}))
    return sorted(ranked, key=lambda hit: -hit.score)


def _weights(hits: list[CodeHit], query: str, asked: list[str]) -> dict[int, float]:
    """Return what the score of each hit is worth, by what its file is for."""
    order: list[Role] = ["code", "test", "docs"]
    if _ASKS_FOR_TESTS.search(query):
        order = ["test", "code", "docs"]
    elif _ASKS_FOR_DOCS.search(query):
        order = ["docs", "code", "test"]
    weights = dict(zip(order, (1.0, SECOND, THIRD), strict=True))
    shares = {hit.id: share_of_words(asked, f"{hit.name} {hit.text}") for hit in hits}
    wanted = [shares[hit.id] for hit in hits if role_of(hit.path) == order[0]]
    least = MUCH_MORE * max(wanted, default=0.0)
    return {hit.id: 1.0 if shares[hit.id] > least else weights[role_of(hit.path)] for hit in hits}


def _hit(result: SearchResult, place: IndexedFile) -> CodeHit | None:
    digest = passage_digest(result.text)
    passage = next((p for p in place.passages if p.digest == digest), None)
    if passage is None:
        return None  # Indexed again a moment ago.
    symbol = place.symbols[passage.symbol]
    return CodeHit(
        id=symbol.id,
        repository=place.root,
        path=place.path,
        language=place.language,
        kind=symbol.kind,
        name=symbol.qualified_name,
        signature=symbol.signature,
        start_line=passage.start_line,
        end_line=passage.end_line,
        score=result.score,
        text=result.text,
    )


# --- How code is named in words: `src/auth.py`, `auth.py:42`, `Session.get`, `check_token()` ---


# A note has no more of them; a pasted log is not read to its end.
MAX_NAMED = 100
MAX_READ = 100_000
LONGEST = 300

_PLACE = re.compile(r"[:#]+(?:L?(\d{1,7})(?:[-:]L?(\d{1,7}))?|([^\s:#][^\s]*))$")
_FILE = re.compile(
    r"(?<![\w/\\.@:-])(?:\./)?((?:[\w.+@-]+/){0,20}[\w.+-]*\w\.[A-Za-z][A-Za-z0-9]{0,9})"
    r"(?:(?::|\#L)(\d{1,7})(?:-L?(\d{1,7}))?|::?([A-Za-z_][\w.]*))?(?![\w/])"
)
_SYMBOL = re.compile(r"(?<![\w./\\@:-])([A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*){0,8})(\(\))?")
_QUOTED = re.compile(r"`([^`\n]{1,300})`")
# Forms that only identifiers have: a_b, aB, ABc.
_CODE_SHAPE = re.compile(r"\w_\w|[a-z0-9][A-Z]|[A-Z]{2}[a-z]")


class Named(NamedTuple):
    """A place in code as it was written; what was not written is empty."""

    path: str = ""
    symbol: str = ""
    start_line: int = 0
    end_line: int = 0


def parse_named(text: str) -> Named:
    """Read `path`, `path:symbol`, `path:L10-L20` or `path:10`."""
    text = text.strip()
    found = _PLACE.search(text)
    if found is None:
        return Named(text)
    path = text[: found.start()]
    if found[3]:
        return Named(path, found[3].removesuffix("()").replace("::", "."))
    first = int(found[1])
    return Named(path, "", first, max(int(found[2] or first), first))


def find_named(text: str) -> list[Named]:
    """Return what a text may name, in order: files first, then what looks like an identifier."""
    text = text[:MAX_READ]
    found: list[Named] = []
    for match in _FILE.finditer(text):
        path, first, last, symbol = match.groups()
        start = int(first or 0)
        found.append(Named(path, symbol or "", start, max(int(last or start), start)))
    quoted = {match.start(1) for match in _QUOTED.finditer(text) if " " not in match[1].strip()}
    for match in _SYMBOL.finditer(text):
        name = match[1].replace("::", ".")
        is_meant = match[2] or match.start() in quoted or "." in name or _CODE_SHAPE.search(name)
        if is_meant and 2 < len(name) < LONGEST:
            found.append(Named(symbol=name))
    return list(dict.fromkeys(found))[:MAX_NAMED]
