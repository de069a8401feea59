"""The symbols of a file: where each begins and ends, its parent and its name."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from hashlib import blake2b
from inspect import cleandoc
from itertools import accumulate, islice
from operator import add
from typing import TYPE_CHECKING

from zapomni_core.modules.codebase.languages import CLASS_LIKE, LEAVES
from zapomni_core.modules.codebase.models import SourceChunk, Symbol

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = [
    "Captures",
    "Draft",
    "Lines",
    "Outline",
    "chunk_code",
    "context_line",
    "dotted",
    "dotted_path",
    "one_line",
]


Captures = dict[str, "list[Node]"]

MAX_SIGNATURE = 300
MAX_DOCSTRING = 4000
MAX_NAME = 200
MAX_KEY_DEPTH = 3
_ONE_LINERS = frozenset({"section", "key"})

# Rust's decorators stand between a symbol and its comment.
_ATTRIBUTE = "attribute_item"

_COMMENT_MARKS = re.compile(
    r"^[ \t]*(?:/\*+!?|\*+/|///?!?|\*(?!\w)|#+|--+)[ \t]?|[ \t]*\*+/\s*$", re.MULTILINE
)
_COMMENT_IN_HEAD = re.compile(r"^[ \t]*(?:# |//|/?\*)[^\n]*$|[ \t]{2}# [^\n]*$", re.MULTILINE)
_SEPARATORS = re.compile(r"::|->|[:\\]")
_GENERICS = re.compile(r"[<\[].*", re.DOTALL)


def dotted_path(text: str) -> str:
    """Write `a::b` as `a.b`."""
    return _SEPARATORS.sub(".", text)


def dotted(text: str) -> str:
    """Write `a::b<T>` as `a.b`."""
    return _GENERICS.sub("", dotted_path(text))


def one_line(text: str) -> str:
    """Return a text with every run of blanks as one."""
    return " ".join(text.split())


class Lines:
    """Return the line of a byte."""

    def __init__(self, data: bytes) -> None:
        lines = data.split(b"\n")
        # Before a line are the lines above it, and one line end for each of them.
        before = accumulate(map(len, lines), initial=0)
        self.starts = list(map(add, before, range(len(lines))))
        if len(self.starts) > 1 and self.starts[-1] == len(data):
            self.starts.pop()
        # Asked a few times for every line of a file, so there is no function in between.
        self.of = partial(bisect_right, self.starts)
        """Return the line of a byte, counted from 1."""


class Draft:
    """A symbol while its neighbours are not known yet."""

    __slots__ = ("above", "body", "captures", "decorators", "docs", "end", "head", "key", "kind",
                 "name", "own", "parent", "path", "qualified", "start")  # fmt: skip

    def __init__(self, captures: Captures) -> None:
        kind = _definition(tuple(captures))
        node = captures[kind][0]
        self.captures = captures
        self.kind = kind.removeprefix("definition.")
        self.name = captures["name"][0]
        self.key = (node.start_byte, self.name.start_byte)
        self.head = self.start = node.start_byte
        self.end = node.end_byte
        body = captures.get("body")
        self.body = body[0].start_byte if body else self.name.end_byte
        self.parent = 0
        self.own = self.path = self.qualified = ""
        self.docs: list[str] = []
        self.decorators: list[str] = []
        self.above: list[Node] = []


class Outline:
    """A file's symbols, numbered from 1; 0 is the file itself."""

    def __init__(self, data: bytes, lines: Lines, name: str) -> None:
        self.data = data
        self.lines = lines
        self.name = name
        self.drafts: list[Draft] = []
        self.docs: list[str] = []
        self._starts: list[int] = []
        self._comments: dict[int, Node] = {}

    def read(self, matches: list[tuple[int, Captures]]) -> list[Captures]:
        """Find the symbols; return the matches that are about something else."""
        others: list[Captures] = []
        wrappers: dict[int, Node] = {}
        drafts: dict[tuple[int, int], Draft] = {}
        for _, captures in matches:
            if "name" in captures:
                draft = Draft(captures)
                known = drafts.get(draft.key)
                # Two patterns may fit the same node; the one that says more is meant.
                if known is None or len(known.captures) < len(captures):
                    drafts[draft.key] = draft
            elif "wrapped" in captures:
                wrappers[captures["wrapped"][0].start_byte] = captures["wrapper"][0]
            elif "comment" in captures:
                comment = captures["comment"][0]
                self._comments[self.lines.of(comment.end_byte - 1)] = comment
            else:
                others.append(captures)
        for draft in drafts.values():
            wrapper = wrappers.get(draft.start)
            if wrapper is not None:
                draft.start, draft.end = wrapper.start_byte, wrapper.end_byte
        self._nest(sorted(drafts.values(), key=lambda one: (one.start, -one.end, one.head)))
        return others

    @cached_property
    def symbols(self) -> list[Symbol]:
        """The finished symbols, the file's own first."""
        digest = _hash(self.data)
        module = Symbol(
            self.name, "", "module", "", _docstring(self.docs), (), 1,
            len(self.lines.starts), 0, len(self.data), digest, digest, -1,
        )  # fmt: skip
        return [module, *map(self._symbol, self.drafts)]

    def leads(self) -> list[int]:
        """Return where the passage about each symbol begins: with the comments above it."""
        return [0, *(one.above[-1].start_byte if one.above else one.start for one in self.drafts)]

    def owner(self, byte: int) -> int:
        """Return the innermost symbol that contains a byte, its head included."""
        place = bisect_right(self._starts, byte)
        while place and self.drafts[place - 1].end <= byte:
            place = self.drafts[place - 1].parent
        return place

    def scope(self, byte: int) -> int:
        """Return the innermost symbol whose body contains a byte."""
        place = bisect_right(self._starts, byte)
        while place:
            draft = self.drafts[place - 1]
            if draft.body <= byte < draft.end and draft.kind not in LEAVES:
                return place
            place = draft.parent
        return 0

    def text(self, node: Node) -> str:
        """Return the text of a node."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _nest(self, drafts: list[Draft]) -> None:
        """Give every symbol its parent, and a name no other has."""
        open_ones: list[int] = []
        taken: dict[str, int] = {}
        for draft in drafts:
            while open_ones and self.drafts[open_ones[-1] - 1].end <= draft.start:
                open_ones.pop()
            if draft.kind == "key" and len(open_ones) == MAX_KEY_DEPTH:
                continue
            draft.parent = open_ones[-1] if open_ones else 0
            self._name(draft, self.drafts[open_ones[-1] - 1] if open_ones else None)
            taken[draft.path] = count = taken.get(draft.path, 0) + 1
            draft.qualified = draft.path if count == 1 else f"{draft.path}#{count}"
            draft.above = self._comments_above(draft)
            self.drafts.append(draft)
            open_ones.append(len(self.drafts))
        self._starts = [draft.start for draft in self.drafts]

    def _name(self, draft: Draft, above: Draft | None) -> None:
        written = self.text(draft.name)
        if not written.isidentifier():
            written = one_line(written if draft.kind == "section" else dotted(written))
            written = written.strip("\"'` .~")[:MAX_NAME] or "?"
        draft.own = written if draft.kind == "section" else written.rpartition(".")[2]
        owner = above.path if above else ""
        if "receiver" in draft.captures:
            owner = dotted(self.text(draft.captures["receiver"][0])).strip("*& ")
        draft.path = f"{owner}.{written}" if owner else written
        if draft.kind in LEAVES and len(draft.own) > 1 and draft.own.isupper():
            draft.kind = "constant"
        elif draft.kind == "function" and (
            (above and above.kind in CLASS_LIKE) or "receiver" in draft.captures or "." in written
        ):
            draft.kind = "method"

    def _symbol(self, draft: Draft) -> Symbol:
        data = self.data
        body = draft.captures.get("body")
        head_end = body[0].start_byte if body and draft.kind not in LEAVES else draft.end
        if draft.kind in _ONE_LINERS:
            head_end = draft.head + len(data[draft.head : draft.end].partition(b"\n")[0])
        nameless = data[draft.start : draft.name.start_byte] + data[draft.name.end_byte : draft.end]
        above = draft.above
        return Symbol(
            draft.own,
            draft.qualified,
            draft.kind,  # type: ignore[arg-type]  # the queries name kinds; a test reads them all
            self._signature(draft, head_end),
            _docstring(draft.docs or (self._comment_text(above) if above else [])),
            tuple(draft.decorators or (self._attributes(above) if above else ())),
            self.lines.of(draft.start),
            self.lines.of(draft.end - 1),
            draft.start,
            draft.end,
            _hash(data[draft.start : draft.end]),
            _hash(nameless),
            draft.parent,
        )

    def _signature(self, draft: Draft, end: int) -> str:
        text = self.data[draft.head : min(end, draft.head + 4 * MAX_SIGNATURE)].decode(
            "utf-8", "replace"
        )
        if draft.kind != "section" and ("# " in text or "//" in text or "*" in text):
            text = _COMMENT_IN_HEAD.sub("", text)
        text = one_line(text).rstrip(":{ =")
        return text if len(text) <= MAX_SIGNATURE else text[: MAX_SIGNATURE - 1] + "…"

    def _comment_text(self, above: list[Node]) -> list[str]:
        found = [self.text(one) for one in above if one.type != _ATTRIBUTE]
        return [_COMMENT_MARKS.sub("", "\n".join(reversed(found)))] if found else []

    def _attributes(self, above: list[Node]) -> list[str]:
        found = [self.text(one) for one in above if one.type == _ATTRIBUTE]
        return [one_line(text).removeprefix("#[").removesuffix("]") for text in reversed(found)]

    def _comments_above(self, draft: Draft) -> list[Node]:
        """Return the comments on lines of their own right above, the nearest first."""
        found: list[Node] = []
        line = self.lines.of(draft.start) - 1
        while (comment := self._comments.get(line)) is not None:
            line = self.lines.of(comment.start_byte)
            if self.data[self.lines.starts[line - 1] : comment.start_byte].strip():
                break
            found.append(comment)
            line -= 1
        return found


@cache
def _definition(keys: tuple[str, ...]) -> str:
    return next(key for key in keys if key.startswith("definition."))


def _docstring(docs: list[str]) -> str:
    return cleandoc("\n".join(docs)[:MAX_DOCSTRING]).strip() if docs else ""


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


# --- Passages: a file cut along its symbols, each small enough for the embedder --------------


# Of the embedding model's tokens every mark is one, and seven letters or digits of a word are two.
# Of 1,400 pieces of code 99 in 100 had no more than 1.27 times as many; the model reads 254.
_LETTERS = bytes(n for n in range(256) if bytes([n]).isalnum() or n >= 0x80)
_BLANKS = b" \t\r\v\f"
_MARKS = bytes(n for n in range(256) if n not in _LETTERS and n not in _BLANKS and n != 0x0A)
_NO_MARKS = _LETTERS + _BLANKS + b"\n"
_NO_LETTERS = _MARKS + _BLANKS + b"\n"
_TOKEN = re.compile(rb"[A-Za-z0-9\x80-\xff]{1,4}|[^\w\s\x80-\xff]|_")
_TWO_WORDS = re.compile(rb"[\w\x80-\xff][^\w\x80-\xff]++[\w\x80-\xff]")
# However long a path or a signature is, this much of a passage is text.
LEAST_TEXT = 80
LONGEST_CONTEXT = 400

_PART_OF_PARENT = frozenset({"constant", "variable", "field", "key"})
_KEPT_WHOLE = frozenset({"function", "method", "macro"})


def context_line(path: str, symbol: Symbol, *, with_signature: bool) -> str:
    """Return the place of a passage: path, qualified name and, if it is not in it, signature."""
    parts = [path, symbol.qualified_name.partition("#")[0]]
    if with_signature:
        parts.append(symbol.signature)
    return " ".join(filter(None, parts))[:LONGEST_CONTEXT]


def chunk_code(
    path: str,
    data: bytes,
    lines: Lines,
    symbols: Sequence[Symbol],
    leads: Sequence[int],
    size: int,
) -> list[SourceChunk]:
    """Return passages in order. A function that fits is one passage, whatever it contains.

    What is no function or class of its own (imports, constants, a class's head) makes passages of
    the symbol it is in.
    """
    return sorted(_Cutter(path, data, lines, symbols, leads, size).cut(), key=_start)


def _start(chunk: SourceChunk) -> tuple[int, int]:
    return chunk.start_byte, chunk.symbol


@dataclass
class _Cutter:
    path: str
    data: bytes
    lines: Lines
    symbols: Sequence[Symbol]
    leads: Sequence[int]
    size: int
    _inner: dict[int, list[int]] = field(default_factory=dict)
    _tokens: list[int] = field(default_factory=list)
    """How many stand before each line, and in all."""

    def __post_init__(self) -> None:
        marks = self.data.translate(None, _LETTERS + _BLANKS).split(b"\n")
        letters = self.data.translate(None, _MARKS + _BLANKS).split(b"\n")
        counts = map(_tokens, map(len, marks), map(len, letters))
        self._tokens = list(accumulate(counts, initial=0))

    def cut(self) -> Iterator[SourceChunk]:
        for place, symbol in enumerate(self.symbols):
            if symbol.parent >= 0 and symbol.kind not in _PART_OF_PARENT:
                self._inner.setdefault(symbol.parent, []).append(place)
        open_ones = [0]
        while open_ones:
            place = open_ones.pop()
            inner = self._inner.get(place, [])
            symbol = self.symbols[place]
            if symbol.kind in _KEPT_WHOLE and self._fits(place, self.leads[place], symbol.end_byte):
                inner = []
            yield from self._passages(place, inner)
            open_ones.extend(inner)

    def _passages(self, place: int, inner: list[int]) -> Iterator[SourceChunk]:
        """Yield the text of a symbol that is not in those inside it."""
        symbol = self.symbols[place]
        begin, first = self.leads[place], True
        for end, resume in [
            *((self.leads[one], self.symbols[one].end_byte) for one in inner),
            (symbol.end_byte, symbol.end_byte),
        ]:
            for start, stop in self._pieces(place, begin, end, first=first):
                yield self._chunk(place, start, stop, first=first)
                first = False
            begin = max(begin, resume)

    def _pieces(
        self, place: int, begin: int, end: int, *, first: bool
    ) -> Iterable[tuple[int, int]]:
        begin, end = self._stripped(begin, end)
        # Closing brackets between two methods make no passage.
        if begin >= end or (not first and not _TWO_WORDS.search(self.data, begin, end)):
            return ()
        if self._fits(place, begin, end):
            return ((begin, end),)
        return self._split(begin, end, self._room(place))

    def _stripped(self, begin: int, end: int) -> tuple[int, int]:
        """Leave out blank lines around; the first line keeps its indentation."""
        text = self.data[begin:end]
        stripped = text.lstrip()
        if not stripped:
            return end, end
        first = begin + len(text) - len(stripped)
        line = self.lines.starts[self.lines.of(first) - 1]
        indented = not self.data[line:first].strip()
        return line if indented else first, first + len(stripped.rstrip())

    def _room(self, place: int) -> int:
        context = context_line(self.path, self.symbols[place], with_signature=True)
        return max(self.size - _count(context.encode()), min(self.size, LEAST_TEXT))

    def _fits(self, place: int, begin: int, end: int) -> bool:
        whole_lines = self._tokens[self.lines.of(end - 1)] - self._tokens[self.lines.of(begin) - 1]
        if whole_lines <= LEAST_TEXT or whole_lines > self.size:
            return whole_lines <= self.size  # Whatever its context line takes.
        return whole_lines <= self._room(place)

    def _split(self, begin: int, end: int, room: int) -> Iterator[tuple[int, int]]:
        """Cut between lines: where the text is least indented, in the second half of a passage."""
        rows = self._rows(begin, end, room)
        sums = list(accumulate((weight for _, _, weight in rows), initial=0))
        row = 0
        while row < len(rows):
            last = max(row + 1, bisect_right(sums, sums[row] + room) - 1)
            if last < len(rows):
                half = bisect_left(sums, sums[row] + room // 2, row + 1, last)
                after = range(half, last + 1)
                last = min(after, key=lambda n: (self._indentation(rows, n), -n))
            yield self._stripped(rows[row][0], rows[last - 1][1])
            row = last

    def _rows(self, begin: int, end: int, room: int) -> list[tuple[int, int, int]]:
        """Return lines with their size, no blank ones; one too long for a passage in parts."""
        data, starts, tokens = self.data, self.lines.starts, self._tokens
        rows: list[tuple[int, int, int]] = []
        first, last = self.lines.of(begin), self.lines.of(end - 1)
        for line, stop in enumerate((*starts[first:last], end), first):
            weight = tokens[line] - tokens[line - 1]
            if weight > room:
                parts = self._parts(begin, stop, room)
                rows += [row for row in parts if data[row[0] : row[1]].strip()]
            elif not data[begin:stop].isspace():
                rows.append((begin, stop, weight))
            begin = stop
        return rows

    def _parts(self, begin: int, end: int, room: int) -> Iterator[tuple[int, int, int]]:
        """Cut a line by tokens; they end where characters do."""
        half = max(1, room // 2)
        while begin < end:
            found = islice(_TOKEN.finditer(self.data, begin, end), half)
            stop, weight = end, 0
            for weight, match in enumerate(found, 1):  # noqa: B007 - the last one is meant
                stop = match.end()
            while stop < end and self.data[stop] & 0xC0 == 0x80:
                stop += 1
            stop = stop if weight == half else end
            yield begin, stop, _count(self.data[begin:stop])
            begin = stop

    def _indentation(self, rows: list[tuple[int, int, int]], place: int) -> float:
        begin, end, _ = rows[place]
        text = self.data[begin:end].expandtabs(4)
        after_gap = rows[place - 1][1] < begin
        return len(text) - len(text.lstrip()) - (0.5 if after_gap else 0)

    def _chunk(self, place: int, begin: int, end: int, *, first: bool) -> SourceChunk:
        symbol = self.symbols[place]
        holds_head = first and symbol.start_byte < end
        return SourceChunk(
            self.data[begin:end].decode("utf-8", "replace"),
            context_line(self.path, symbol, with_signature=not holds_head),
            place,
            self.lines.of(begin),
            self.lines.of(end - 1),
            begin,
            end,
        )


def _tokens(marks: int, letters: int) -> int:
    return marks + (2 * letters + 6) // 7


def _count(text: bytes) -> int:
    marks = len(text.translate(None, _NO_MARKS))
    return _tokens(marks, len(text.translate(None, _NO_LETTERS)))
