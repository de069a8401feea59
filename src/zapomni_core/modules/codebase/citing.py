"""A working tree in which cited code is looked up, compared, and followed to where it went."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from array import array
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple, Self
from zlib import crc32

from zapomni_core.exceptions import ProcessingError, ValidationError, ZapomniError
from zapomni_core.infra.git import FileCommit, read_file_history
from zapomni_core.infra.projects import find_repository, head_commit, project_of
from zapomni_core.infra.threads import run_to_end
from zapomni_core.modules.codebase.languages import LANGUAGES, language_of
from zapomni_core.modules.codebase.models import FileEntry, SourceFile, Symbol
from zapomni_core.modules.codebase.parse import (
    FileStructure,
    SymbolShape,
    line_hashes,
    parse_structure,
)
from zapomni_core.modules.codebase.search import (
    Named,
    Outlines,
    find_lines,
    find_named,
    lines_digest,
    match_symbols,
    parse_named,
)
from zapomni_core.modules.codebase.tree import SourceTree
from zapomni_core.shared.folders import lies_in, real_path
from zapomni_db.code_models import CheckedCitation, Citation, CodeRepository, SymbolQuery
from zapomni_db.sqlite.code import SqliteCode

__all__ = [
    "GONE",
    "HISTORY_SECONDS",
    "MAX_TWINS",
    "Checkout",
    "CitationChecker",
    "Citer",
    "Fingerprint",
    "Verdict",
    "parse_named",
]


# How many others with the same body are stored; more of them say nothing anyway.
MAX_TWINS = 50
# Another way to read structures makes those that are stored incomparable.
STRUCTURES = "3"
# Of longer code a sample of its lines is kept: those with the smallest hashes.
KEPT_ROWS, KEPT_TEXT, KEPT_AROUND = 96, 64, 32
# What is read to find code that is in none of the places known: more would keep a search waiting.
MAX_FILES, MAX_BYTES, MAX_FILE_BYTES = 3000, 32 << 20, 1 << 20
# How many of the files that share most lines are parsed.
PARSED = 6
# The share of lines that must be alike for one to be the other. Measured by
# `benchmarks.citations`.
HEIR, SAME_FILE, SAME_FILE_NAME, SAME_SYMBOL, SAME_NAME, SAME_RANGE = 0.25, 0.4, 0.25, 0.5, 0.2, 0.5
LEAST_ROWS = 3
EDGE = 2
# Files whose history is read in one check, and commits of each.
MAX_HISTORIES, MAX_COMMITS = 20, 40
HISTORY_SECONDS = 3.0

_DEFINES = re.compile(
    rb"\b(?:def|class|function|func|fn|fun|interface|struct|trait|enum|type|const|let|var|val"
    rb"|static|object|module|record|macro_rules!|CREATE\s+TABLE)\s+\*?([A-Za-z_$][\w$]*)"
)


class Verdict(NamedTuple):
    """What became of cited code, and where it is now."""

    place: Literal["same", "moved", "gone"]
    content: Literal["", "same", "reworded", "changed"]
    now: str = ""
    changed: tuple[str, ...] = ()
    share: float | None = None
    path: str = ""
    """The file it is in now."""
    symbol: str = ""
    since: str = ""
    message: str = ""
    structure: str = ""
    """Its structure, if that was not stored and is known now."""


GONE = Verdict("gone", "")


class Fingerprint(NamedTuple):
    """What is kept of cited code to compare it with and to find it again."""

    reader: str
    """Who read it; only what the same one has read can be compared."""
    shape: SymbolShape
    row_count: int
    rows: list[int]
    """Hashes of its lines' structure: all in order, or a sample."""
    text_count: int
    text: list[int]
    """Hashes of its lines' text: all in order, or a sample."""
    around: list[int]
    """A sample of the hashes of its file's lines."""

    def pack(self) -> str:
        """Write it as text."""
        return json.dumps(
            [self.reader, *self.shape, self.row_count, _hex(self.rows), self.text_count,
             _hex(self.text), _hex(self.around)],
            separators=(",", ":"),
        )  # fmt: skip


def _hex(numbers: Iterable[int]) -> str:
    return "".join(f"{number:08x}" for number in numbers)


@lru_cache(maxsize=1000)
def _unpack(text: str, reader: str) -> Fingerprint | None:
    """Read what `pack` wrote; None if it is not there or was made in another way."""
    try:
        by, signature, body, row_count, rows, text_count, sample, near = json.loads(text or "[]")
        if by != reader:
            return None
        return Fingerprint(
            by,
            SymbolShape(signature, body),
            row_count,
            _numbers(rows),
            text_count,
            _numbers(sample),
            _numbers(near),
        )
    except (ValueError, TypeError):
        return None


def _numbers(text: str) -> list[int]:
    return [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]


def _sample(hashes: Sequence[int], most: int) -> list[int]:
    return list(hashes) if len(hashes) <= most else sorted(hashes)[:most]


class _Found(NamedTuple):
    """A symbol that may be the one that is cited."""

    path: str
    symbol: Symbol
    shape: SymbolShape
    likeness: float


@dataclass
class Checkout:
    """A working tree, each file read and parsed at most once; a context manager.

    Raises:
        ValidationError: The folder is not there any more.
    """

    root: str
    _sources: dict[str, SourceFile | None] = field(default_factory=dict)
    _structures: dict[str, FileStructure] = field(default_factory=dict)
    _histories: dict[tuple[str, str, str, str], list[FileCommit] | None] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self._tree = SourceTree(Path(self.root))
        self._outlines = Outlines()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._outlines.__exit__(*error)
        self._tree.__exit__(*error)

    # --- Citing -------------------------------------------------------------------------

    def cite(self, named: Named) -> Citation | None:
        """Return a citation of the code at a place; None if there is none."""
        source = self._source(named.path)
        if source is None:
            return None
        cited = Citation(
            root=self.root,
            path=named.path,
            file_hash=source.content_hash,
            content_hash=source.content_hash,
            commit=head_commit(self.root),
        )
        if named.symbol:
            structure = self._outlines.structure_of(source)
            matching = match_symbols(structure.symbols, named.symbol)
            if not matching:
                return None
            symbol = matching[0]
            place = structure.symbols.index(symbol)
            alike = zip(structure.symbols, structure.shapes, strict=True)
            twins = [
                f"{cited.path}:{other.qualified_name}"
                for other, shape in alike
                if other is not symbol
                and (other.body_hash == symbol.body_hash or shape == structure.shapes[place])
            ]
            cited = cited.model_copy(
                update={
                    "symbol": symbol.qualified_name,
                    "start_line": symbol.start_line,
                    "end_line": symbol.end_line,
                    "content_hash": symbol.content_hash,
                    "body_hash": symbol.body_hash,
                    "twins": twins[:MAX_TWINS],
                }
            )
        elif named.start_line:
            digest = lines_digest(source.data, named.start_line, named.end_line)
            if not digest:
                return None
            lines = {"start_line": named.start_line, "end_line": named.end_line}
            cited = cited.model_copy(update={**lines, "content_hash": digest})
        return cited.model_copy(update={"structure": self._fingerprint(cited).pack()})

    def _fingerprint(self, one: Citation) -> Fingerprint:
        """Return what is kept of code that is where a citation says."""
        structure = self._structure(one.path)
        source = self._source(one.path)
        assert source is not None
        first, last = (one.start_line, one.end_line) if one.start_line else (1, None)
        rows = [row for row in structure.rows[first - 1 : last] if row]
        shape = structure.shapes[0]
        if one.symbol:
            names = [symbol.qualified_name for symbol in structure.symbols]
            shape = structure.shapes[names.index(one.symbol)]
        elif one.start_line:
            shape = SymbolShape("", blake2b(_hex(rows).encode(), digest_size=8).hexdigest())
        every = self._text(one.path)
        text = [number for number in dict.fromkeys(every[first - 1 : last]) if number]
        is_part = one.symbol or one.start_line
        around = sorted({number for number in every if number} if is_part else ())
        return Fingerprint(
            _reader_of(source),
            shape,
            len(rows),
            _sample(rows, KEPT_ROWS),
            len(text),
            _sample(text, KEPT_TEXT),
            around[:KEPT_AROUND],
        )

    # --- Comparing what is in its place -------------------------------------------------

    def compare(self, citations: Iterable[Citation]) -> list[Verdict | None]:
        """Look at the place each citation names; None if it is not there."""
        return [self._compare(one) for one in citations]

    def _compare(self, one: Citation) -> Verdict | None:
        source = self._source(one.path)
        if source is None:
            return None
        same = Verdict("same", "same", path=one.path, symbol=one.symbol)
        if source.content_hash == one.file_hash:
            return self._with_structure(one, same)
        known = _unpack(one.structure, _reader_of(source))
        if one.symbol:
            plain = one.symbol.partition("#")[0]
            named = [
                (symbol, shape)
                for symbol, shape in self._symbols(one.path)
                if symbol.qualified_name.partition("#")[0] == plain
            ]
            return self._compare_named(one, known, named) if named else None
        if one.start_line:
            if lines_digest(source.data, one.start_line, one.end_line) == one.content_hash:
                return self._with_structure(one, same)
            return self._find_range(one, known, one.path)
        return self._compare_file(one, known, one.path)

    def _compare_named(
        self, one: Citation, known: Fingerprint | None, named: Sequence[tuple[Symbol, SymbolShape]]
    ) -> Verdict:
        """Compare a symbol with those of its name in its file; there may be several of them."""
        same = Verdict("same", "same", path=one.path, symbol=one.symbol)
        if any(symbol.content_hash == one.content_hash for symbol, _ in named):
            return self._with_structure(one, same)
        if known and any(shape == known.shape for _, shape in named):
            return same._replace(content="reworded")
        found = [self._found(known, one.path, symbol, shape) for symbol, shape in named]
        exact = [one_found for one_found in found if one_found.symbol.qualified_name == one.symbol]
        best = max(exact[:1] + found, key=lambda it: it.likeness)
        return self._differing(known, best, "same")

    def _compare_file(self, one: Citation, known: Fingerprint | None, path: str) -> Verdict:
        structure = self._structure(path)
        place: Literal["same", "moved"] = "same" if path == one.path else "moved"
        verdict = Verdict(place, "changed", "" if place == "same" else path, path=path)
        if known is None:
            return verdict
        if structure.shapes[0] == known.shape:
            return verdict._replace(content="reworded")
        return verdict._replace(share=1 - _contained(known.rows, set(structure.rows)))

    def _with_structure(self, one: Citation, verdict: Verdict) -> Verdict:
        """Add the structure of what is as it was, if it is not stored."""
        source = self._source(one.path)
        if source is None or _unpack(one.structure, _reader_of(source)) is not None:
            return verdict
        if one.symbol and one.symbol not in {s.qualified_name for s, _ in self._symbols(one.path)}:
            return verdict
        current = one
        if one.symbol:
            symbol = next(s for s, _ in self._symbols(one.path) if s.qualified_name == one.symbol)
            lines = {"start_line": symbol.start_line, "end_line": symbol.end_line}
            current = one.model_copy(update=lines)
        return verdict._replace(structure=self._fingerprint(current).pack())

    def _differing(
        self,
        known: Fingerprint | None,
        found: _Found,
        place: Literal["same", "moved"],
    ) -> Verdict:
        now = f"{found.path}:{found.symbol.qualified_name}"
        verdict = Verdict(
            place, "changed", "" if place == "same" else now,
            path=found.path, symbol=found.symbol.qualified_name,
        )  # fmt: skip
        if known is None:
            return verdict
        changed = [
            name
            for name, was, is_now in zip(SymbolShape._fields, known.shape, found.shape, strict=True)
            if was != is_now
        ]
        share = 1 - _contained(known.rows, set(self._rows(found.path, found.symbol)))
        return verdict._replace(changed=tuple(changed), share=round(share, 3))

    # --- Following what is not there any more -------------------------------------------

    def follow(
        self, citations: Sequence[Citation], indexed: Sequence[Sequence[str]]
    ) -> list[Verdict]:
        """Say where each of these is now; the index knows some files for each to look at."""
        near = self._sharing(citations)
        return [
            self._search(one, list(dict.fromkeys([one.path, *known, *shared]))) or GONE
            for one, known, shared in zip(citations, indexed, near, strict=True)
        ]

    def _search(self, one: Citation, paths: Sequence[str]) -> Verdict | None:
        if one.symbol:
            return self._search_symbol(one, paths)
        if one.start_line:
            for path in paths:
                source = self._source(path)
                if source is None or path in one.twins or path == one.path:
                    continue
                known = _unpack(one.structure, _reader_of(source))
                found = self._find_range(one, known, path)
                if found is not None:
                    return found
            # Edited beyond recognition, as far as they are anywhere.
            here = Verdict("same", "changed", path=one.path)
            return None if self._source(one.path) is None else here
        return self._search_file(one, paths)

    def _search_symbol(self, one: Citation, paths: Sequence[str]) -> Verdict | None:
        name = one.symbol.partition("#")[0].rpartition(".")[2]
        exact: list[_Found] = []
        alike: list[_Found] = []
        known: Fingerprint | None = None
        for path in paths:
            source = self._source(path)
            if source is None:
                continue
            known = _unpack(one.structure, _reader_of(source)) or known
            for symbol, shape in self._symbols(path)[1:]:
                if f"{path}:{symbol.qualified_name}" in one.twins:
                    continue
                is_named = symbol.name == name
                is_same_name = symbol.qualified_name == one.symbol
                # Of several alike the one in what its file became is meant.
                sure = is_named + 2 * is_same_name + 0.5 * (path in paths[:2])
                if symbol.body_hash == one.body_hash:
                    exact.append(_Found(path, symbol, shape, 1 + sure))
                elif known and shape == known.shape:
                    # Short functions are alike by chance.
                    if is_named or known.row_count > LEAST_ROWS:
                        exact.append(_Found(path, symbol, shape, sure))
                elif known is None:
                    if is_same_name:
                        alike.append(_Found(path, symbol, shape, sure))
                elif is_named or (
                    known.row_count >= LEAST_ROWS
                    and symbol.end_line - symbol.start_line >= SAME_SYMBOL * known.row_count - 1
                ):
                    found = self._found(known, path, symbol, shape)
                    least = SAME_NAME if is_named else SAME_SYMBOL
                    if is_same_name or found.likeness >= least:
                        alike.append(found._replace(likeness=found.likeness + sure))
        best = _only_best(exact)
        if best is not None:
            same = best.symbol.body_hash == one.body_hash
            now = f"{best.path}:{best.symbol.qualified_name}"
            content: Literal["same", "reworded"] = "same" if same else "reworded"
            return Verdict("moved", content, now, path=best.path, symbol=best.symbol.qualified_name)
        best = _only_best(alike)
        return None if best is None else self._differing(known, best, "moved")

    def _search_file(self, one: Citation, paths: Sequence[str]) -> Verdict | None:
        name = one.path.rpartition("/")[2]
        likely: tuple[float, str] = (0.0, "")
        for path in paths:
            source = self._source(path)
            if source is None or path in one.twins:
                continue
            if source.content_hash == one.file_hash:
                return Verdict("moved", "same", path, path=path)
            known = _unpack(one.structure, _reader_of(source))
            if known is None or not known.text:
                continue
            lines = set(self._text(path)) - {0}
            shared = _contained(known.text, lines) * known.text_count
            score = shared / max(known.text_count, len(lines))
            least = SAME_FILE_NAME if path.rpartition("/")[2] == name else SAME_FILE
            if score >= least:
                likely = max(likely, (score, path))
        if not likely[1]:
            return None
        source = self._source(likely[1])
        assert source is not None
        return self._compare_file(one, _unpack(one.structure, _reader_of(source)), likely[1])

    def _find_range(self, one: Citation, known: Fingerprint | None, path: str) -> Verdict | None:
        """Find lines in a file: exactly, by their structure, then those most alike."""
        source = self._source(path)
        assert source is not None
        count = one.end_line - one.start_line + 1
        text = self._text(path)
        # Without one of its lines it cannot be there as it was.
        if known is None or not set(known.text).difference(text):
            starts: set[int] | None = None
            if known and known.text and len(known.text) == known.text_count:
                # Before its first telling line there may be some that say little.
                marks = [line for line, number in enumerate(text, 1) if number == known.text[0]]
                starts = {line - before for line in marks for before in range(min(count, 5))}
            first = find_lines(source.data, count, one.content_hash, one.start_line, starts)
            if first:
                return _range(one, path, first, first + count - 1, "same")
        if known is None:
            return None
        rows = [(line, row) for line, row in enumerate(self._structure(path).rows, 1) if row]
        if known.rows and known.row_count == len(known.rows):
            hashes = [row for _, row in rows]
            size = known.row_count
            places = [at for at, row in enumerate(hashes) if row == known.rows[0]]
            places.sort(key=lambda at: abs(rows[at][0] - one.start_line))
            for start in places:
                if hashes[start : start + size] == known.rows:
                    lines = rows[start][0], rows[start + size - 1][0]
                    return _range(one, path, *lines, "reworded")
        # By what the lines do, then by what they say: comments do nothing.
        written = [(line, number) for line, number in enumerate(text, 1) if number]
        for sample, size, among in (
            (known.rows, known.row_count, rows),
            (known.text, known.text_count, written),
        ):
            likeness, held = _closest(set(sample), size, among, one.start_line)
            if likeness >= (SAME_RANGE if size > LEAST_ROWS else 1.0):
                there = {row for line, row in rows if held[0] <= line <= held[1]}
                found = _range(one, path, *held, "changed" if known.rows else "reworded")
                lost = 1 - _contained(known.rows, there) if known.rows else None
                return found._replace(share=None if lost is None else round(lost, 3))
        return None

    def _sharing(self, citations: Sequence[Citation]) -> list[list[str]]:
        """Return the files to look at for each citation.

        First what its own file became, if there is such a file, then those with most of its lines
        or that define its name.
        """
        wanted: list[set[int]] = []
        around: list[list[int]] = []
        for one in citations:
            # Whichever version stored it: hashes of lines are the same in all of them.
            known = _unpack(one.structure, json.loads(one.structure)[0]) if one.structure else None
            hashes = set(known.text) if known else set()
            if one.symbol:
                name = one.symbol.partition("#")[0].rpartition(".")[2]
                hashes.add(_name_hash(name.encode()))
            wanted.append(hashes)
            around.append(known.around if known else [])
        needed = set().union(*wanted, *around)
        holders: dict[int, list[str]] = {}
        sizes: dict[str, int] = {}
        for path, hashes_of in self._read_all():
            sizes[path] = len(hashes_of)
            for number in needed.intersection(hashes_of):
                holders.setdefault(number, []).append(path)
        near: list[list[str]] = []
        for one, hashes, of_file in zip(citations, wanted, around, strict=True):
            heirs = Counter(path for number in of_file for path in holders.get(number, ()))
            heirs.pop(one.path, None)
            heir = [path for path, count in heirs.most_common(1) if count >= len(of_file) * HEIR]
            shared: dict[str, float] = {}
            for number in hashes:
                among = holders.get(number, ())
                # A line that many files have says little.
                for path in among:
                    shared[path] = shared.get(path, 0.0) + 1 / len(among)
            if not one.symbol and not one.start_line:
                # A longer file has more lines of any other.
                ranked = sorted(shared, key=lambda path: -shared[path] / (100 + sizes[path]))
            else:
                ranked = sorted(shared, key=lambda path: -shared[path])
            near.append(list(dict.fromkeys([*heir, *ranked[:PARSED]])))
        return near

    def _read_all(self) -> Iterable[tuple[str, array[int]]]:
        """Yield the files of the tree with the hashes of their lines and of what they define."""
        kept = _lines.pop(self.root, {})
        seen: dict[str, tuple[str, array[int]]] = {}
        room = MAX_BYTES
        for number, entry in enumerate(self._tree.files()):
            if number == MAX_FILES or room < 0:
                break
            if entry.size > MAX_FILE_BYTES:
                continue
            room -= entry.size
            known = kept.get(entry.path)
            if known is None or known[0] != entry.stamp:
                known = self._read_lines(entry)
            if known is not None:
                seen[entry.path] = known
                yield entry.path, known[1]
        _lines[self.root] = seen
        if len(_lines) > ROOTS_KEPT:
            _lines.popitem(last=False)

    def _read_lines(self, entry: FileEntry) -> tuple[str, array[int]] | None:
        source = self._source(entry.path)
        if source is None:
            return None
        hashes = set(self._text(entry.path)) - {0}
        hashes.update(_name_hash(name) for name in _DEFINES.findall(source.data))
        return source.stamp, array("L", hashes)

    # --- Since when -----------------------------------------------------------------------

    def date(
        self, citations: Sequence[Citation], verdicts: Sequence[Verdict], seconds: float
    ) -> list[Verdict]:
        """Say of changed code which commit changed it first, as far as git knows soon enough."""
        head = head_commit(self.root)
        dated = list(verdicts)
        asked: set[str] = set()
        deadline = time.monotonic() + seconds
        for number, (one, verdict) in enumerate(zip(citations, verdicts, strict=True)):
            if verdict.content != "changed" or not one.commit or not head:
                continue
            source = self._source(verdict.path)
            if source is None:
                continue
            key = (self.root, one.content_hash, one.commit, head, source.content_hash, verdict.now)
            found = _dates.get(key)
            if found is None:
                found = "", ""
                if len(asked | {verdict.path}) <= MAX_HISTORIES and time.monotonic() < deadline:
                    asked.add(verdict.path)
                    found = self._first_change(one, verdict, source, head)
                elif seconds < HISTORY_SECONDS:
                    continue  # Who has more time may find it out.
                _dates[key] = found
                if len(_dates) > DATES_KEPT:
                    _dates.popitem(last=False)
            dated[number] = verdict._replace(since=found[0], message=found[1])
        return dated

    def _first_change(
        self, one: Citation, verdict: Verdict, source: SourceFile, head: str
    ) -> tuple[str, str]:
        repository = find_repository(self.root)
        if repository is None:
            return "", ""
        top = repository[0]
        path = os.path.relpath(os.path.join(self.root, verdict.path), top)  # noqa: PTH118
        asked = (top, one.commit, head, path)
        if asked not in self._histories:
            self._histories[asked] = read_file_history(*asked, MAX_COMMITS)
        commits = self._histories[asked]
        if commits is None:
            return "", ""
        known = _unpack(one.structure, _reader_of(source))
        # Oldest first, they are the same until one changes it.
        first = bisect_left(
            commits[::-1],
            True,
            key=lambda commit: not self._has_same(one, verdict, known, commit.data),
        )
        if first < len(commits):
            commit = commits[-1 - first]
            return commit.sha, commit.subject
        return ("uncommitted", "") if len(commits) < MAX_COMMITS else ("", "")

    def _has_same(
        self, one: Citation, verdict: Verdict, known: Fingerprint | None, data: bytes
    ) -> bool:
        """Return whether a file had at one time what is cited, as it was then."""
        if not one.symbol and one.start_line:
            count = one.end_line - one.start_line + 1
            return bool(find_lines(data, count, one.content_hash))
        digest = blake2b(data, digest_size=16).hexdigest()
        past = self._outlines.structure_of(SourceFile(verdict.path, "", f"past {digest}", data))
        if not one.symbol:
            return known is not None and past.shapes[0] == known.shape
        plain = {name.partition("#")[0] for name in (one.symbol, verdict.symbol)}
        return any(
            symbol.content_hash == one.content_hash or (known is not None and shape == known.shape)
            for symbol, shape in zip(past.symbols, past.shapes, strict=True)
            if symbol.qualified_name.partition("#")[0] in plain
        )

    # --- Files ----------------------------------------------------------------------------

    def _found(
        self, known: Fingerprint | None, path: str, symbol: Symbol, shape: SymbolShape
    ) -> _Found:
        if known is None or not known.rows:
            return _Found(path, symbol, shape, 0.0)
        rows = set(self._rows(path, symbol))
        shared = _contained(known.rows, rows) * known.row_count
        likeness = shared / max(known.row_count, len(rows))
        if shape.body == known.shape.body:
            likeness = max(likeness, 0.9)
        return _Found(path, symbol, shape, likeness)

    def _rows(self, path: str, symbol: Symbol) -> list[int]:
        rows = self._structure(path).rows
        return [row for row in rows[symbol.start_line - 1 : symbol.end_line] if row]

    def _symbols(self, path: str) -> list[tuple[Symbol, SymbolShape]]:
        source = self._source(path)
        if source is None:
            return []
        structure = self._structures.get(path) or self._outlines.structure_of(source)
        self._structures[path] = structure
        return list(zip(structure.symbols, structure.shapes, strict=True))

    def _structure(self, path: str) -> FileStructure:
        """Return a file's structure; by its words if there is no grammar for it."""
        found = self._structures.get(path)
        if found is None:
            source = self._source(path)
            assert source is not None
            try:
                found = self._outlines.structure_of(source)
            except ProcessingError:
                found = parse_structure(source, "text")
            self._structures[path] = found
        return found

    def _text(self, path: str) -> list[int]:
        """Return a hash of each line of a file."""
        source = self._source(path)
        if source is None:
            return []
        found = _texts.pop(source.content_hash, None)
        _texts[source.content_hash] = found = found or line_hashes(source.data.split(b"\n"))
        if len(_texts) > TEXTS_KEPT:
            _texts.popitem(last=False)
        return found

    def _source(self, path: str) -> SourceFile | None:
        if path not in self._sources:
            self._sources[path] = self._tree.read(path)
        return self._sources[path]


ROOTS_KEPT = 4
DATES_KEPT = 1000
TEXTS_KEPT = 100

_texts: OrderedDict[str, list[int]] = OrderedDict()
"""The hashes of the lines of files that are looked at, by contents."""

_lines: OrderedDict[str, dict[str, tuple[str, array[int]]]] = OrderedDict()
"""The hashes of each file's lines, by root: what is gone is looked for again and again."""
_dates: OrderedDict[tuple[str, ...], tuple[str, str]] = OrderedDict()
"""Since when code is changed, by everything that decides it."""


def _reader_of(source: SourceFile) -> str:
    language = language_of(source.path, source.data)
    return f"{STRUCTURES} {language} {_version_of(language)}"


@cache
def _version_of(language: str) -> str:
    """Return the version of a language's grammar; another one may read other trees."""
    from importlib.metadata import PackageNotFoundError, version

    if language == "text":
        return ""
    module = LANGUAGES[language].grammar.partition(":")[0]
    try:
        return version(module.replace("_", "-"))
    except PackageNotFoundError:
        return ""


def _name_hash(name: bytes) -> int:
    return crc32(b"\0" + name)


def _contained(known: Sequence[int], now: set[int]) -> float:
    """Return which share of known lines is there."""
    return sum(row in now for row in known) / len(known) if known else 0.0


def _closest(
    wanted: set[int], size: int, among: Sequence[tuple[int, int]], near: int
) -> tuple[float, tuple[int, int]]:
    """Return which share of some lines is close together, and from where to where.

    Args:
        wanted: Hashes of lines, or of a sample of them.
        size: How many lines there were.
        among: Numbers and hashes of the lines of a file.
        near: Of places alike, the one nearest to this line.
    """
    window = size + size // 4
    inside: Counter[int] = Counter()
    best, at = (0, 0), (0, 0)
    for end, (line, row) in enumerate(among):
        if row in wanted:
            inside[row] += 1
        if end >= window and (left := among[end - window][1]) in inside:
            inside[left] -= 1
            if not inside[left]:
                del inside[left]
        if (len(inside), -abs(line - near - size)) > best:
            best, at = (len(inside), -abs(line - near - size)), (max(0, end - window + 1), end)
    held = [line for line, row in among[at[0] : at[1] + 1] if row in wanted]
    return (best[0] / len(wanted), (held[0], held[-1])) if held else (0.0, (0, 0))


def _only_best(found: Sequence[_Found]) -> _Found | None:
    """Return the one that is most alike; None if several are."""
    ranked = sorted(found, key=lambda one: -one.likeness)
    if not ranked or (len(ranked) > 1 and ranked[0].likeness == ranked[1].likeness):
        return None
    return ranked[0]


def _range(
    one: Citation,
    path: str,
    first: int,
    last: int,
    content: Literal["same", "reworded", "changed"],
) -> Verdict:
    moved = path != one.path or first != one.start_line
    if content != "same" and path == one.path:
        # Lines at its edges may have been edited.
        moved = abs(first - one.start_line) > EDGE
    now = f"{path}:L{first}" if last == first else f"{path}:L{first}-L{last}"
    return Verdict("moved" if moved else "same", content, now if moved else "", path=path)


# --- Finds the code that a memory cites, and checks it -------------------------------------


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
