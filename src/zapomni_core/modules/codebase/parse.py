"""Parses one file of code: its symbols, its passages, and what they say about others.

Symbols: where each begins and ends, its parent and its name.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from hashlib import blake2b
from inspect import cleandoc
from itertools import accumulate, islice
from operator import add
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from zapomni_core.modules.codebase.languages import CLASS_LIKE, LANGUAGES, LEAVES, load_grammar
from zapomni_core.modules.codebase.models import (
    Binding,
    BindingKind,
    Definition,
    Facts,
    Import,
    ParsedFile,
    Reference,
    ReferenceKind,
    SourceChunk,
    SourceFile,
    Symbol,
    mentioned_names,
    pack_facts,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tree_sitter import Node, Point, Tree

__all__ = [
    "PROSE",
    "UNKNOWN",
    "Captures",
    "Draft",
    "FileStructure",
    "Lines",
    "Outline",
    "SymbolShape",
    "chain_of",
    "chunk_code",
    "context_line",
    "dotted",
    "dotted_path",
    "line_hashes",
    "one_line",
    "parse_code",
    "parse_structure",
    "read_facts",
    "shape_symbols",
    "shape_words",
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
                 "name", "node", "own", "parent", "path", "qualified", "start")  # fmt: skip

    def __init__(self, captures: Captures) -> None:
        kind = _definition(tuple(captures))
        node = captures[kind][0]
        self.captures = captures
        self.kind = kind.removeprefix("definition.")
        self.name = captures["name"][0]
        self.node = node
        """With what belongs to it, such as decorators."""
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
                draft.node = wrapper
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
            # A script's private names are known without their `#`: it counts repeated names here.
            plain = dotted(written).removeprefix("#")
            written = one_line(written if draft.kind == "section" else plain)
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


# --- What a file's symbols say about each other and about other files -----------------


MAX_TYPE = 200
MAX_IMPORT_DEPTH = 5

_AS_ATTRIBUTE = re.compile(r"^(?:@@?|\$?this\.|cls\.)")
_BINDABLE = re.compile(r"(?:self\.)?[\w$]+")
_BOUND: tuple[BindingKind, ...] = ("type", "value", "element", "enter")


def read_facts(outline: Outline, language: str, matches: list[Captures]) -> Facts:
    """Return what the matches of a language's query say beyond the symbols themselves.

    Decorators and docstrings are handed to the outline, which completes its symbols with them.
    """
    reader = _FactReader(outline, language)
    for captures in matches:
        reader.read(captures)
    return reader.facts()


class _FactReader:
    def __init__(self, outline: Outline, language: str) -> None:
        self.outline = outline
        self.language = language
        self.imports: list[Import] = []
        self.bindings: list[Binding] = []
        self.references: list[Reference] = []

    def facts(self) -> Facts:
        for draft in self.outline.drafts:
            if "returns" in draft.captures:
                self._returns({}, draft.captures["returns"][0])
        return Facts(
            self.language,
            tuple(
                Definition(
                    one.name,
                    one.qualified_name,
                    one.kind,
                    one.parent,
                    tuple(decorator.partition("(")[0].strip() for decorator in one.decorators),
                    one.start_line,
                )
                for one in self.outline.symbols
            ),
            tuple(self.imports),
            tuple(self.bindings),
            tuple(self._worth_resolving()),
        )

    def _worth_resolving(self) -> Iterator[Reference]:
        """Yield the references, of the names used as values those that may mean a symbol."""
        known = {one.own for one in self.outline.drafts if one.kind not in LEAVES}
        known.update(one.alias for one in self.imports)
        has_stars = any(one.name == "*" for one in self.imports)
        selves = LANGUAGES[self.language].selves if self.language in LANGUAGES else ()
        attributes = {one.name[5:] for one in self.bindings if one.name.startswith("self.")}
        for reference in self.references:
            if reference.kind == "use":
                head, *rest = reference.target.split(".")
                if head in selves:
                    if len(rest) != 1 or rest[0] in attributes:
                        continue
                elif head not in known and not has_stars:
                    continue
            yield reference

    # --- Calls, bases, decorators

    def _call(self, captures: Captures, node: Node) -> None:
        chain = chain_of(node, self.outline.data, self.language)
        # Of `f(x)(y)` the first call is of `f`, the second of what that returned.
        if chain.endswith("()()" if "invocation" in captures else "()"):
            return
        call = node.parent
        if call is None or call.parent is None or call.parent.type != "decorator":
            self._refer("call", node, self.outline.scope(node.start_byte))

    def _use(self, _: Captures, node: Node) -> None:
        self._refer("use", node, self.outline.scope(node.start_byte))

    def _inherit(self, captures: Captures, node: Node) -> None:
        owner = self.outline.owner(node.start_byte)
        if "inheriting" in captures:
            name = dotted(self.outline.text(captures["inheriting"][0]))
            drafts = enumerate(self.outline.drafts, 1)
            owner = next((place for place, draft in drafts if draft.path == name), owner)
        self._refer("inherit", node, owner)

    def _decorate(self, _: Captures, node: Node) -> None:
        owner = self.outline.owner(node.start_byte)
        if owner:
            text = one_line(self.outline.text(node))[:MAX_TYPE]
            self.outline.drafts[owner - 1].decorators.append(text)
            self._refer("decorate", node, owner)

    def _refer(self, kind: ReferenceKind, node: Node, scope: int) -> None:
        target = chain_of(node, self.outline.data, self.language)
        while target.endswith(("()", "[]")):
            target = target[:-2]
        if target != UNKNOWN and "|" not in target and "*" not in target:
            line = self.outline.lines.of(node.end_byte - 1)
            self.references.append(Reference(scope, kind, target, line))

    def _document(self, _: Captures, node: Node) -> None:
        scope = self.outline.scope(node.start_byte)
        docs = self.outline.drafts[scope - 1].docs if scope else self.outline.docs
        docs.append(self.outline.text(node))

    # --- What names stand for

    def _bind(self, captures: Captures, node: Node) -> None:
        self._know(captures, node, self.outline.scope(node.start_byte))

    def _parameter(self, captures: Captures, node: Node) -> None:
        self._know(captures, node, self.outline.owner(node.start_byte))

    def _property(self, captures: Captures, node: Node) -> None:
        owner = self.outline.owner(node.start_byte)
        while owner and self.outline.drafts[owner - 1].kind not in CLASS_LIKE:
            owner = self.outline.drafts[owner - 1].parent
        self._know(captures, node, owner)

    def _hand_out(self, captures: Captures, node: Node) -> None:
        name = "return" if "return" in captures else "yield"
        self._value(self.outline.scope(node.start_byte), name, "value", node)

    def _returns(self, _: Captures, node: Node) -> None:
        self._value(self.outline.owner(node.start_byte), "return", "type", node)

    def _know(self, captures: Captures, node: Node, scope: int) -> None:
        name = self.outline.text(node)
        if not name.isidentifier():
            name = _AS_ATTRIBUTE.sub("self.", name.replace("->", ".")).lstrip("$#")
            name = name.replace("self.#", "self.")
            if not _BINDABLE.fullmatch(name):
                return
        known = False
        # Of most parameters nothing but the name is captured.
        for kind in _BOUND if len(captures) > 1 else ():
            if kind in captures:
                known = self._value(scope, name, kind, captures[kind][0]) or known
        if not known:
            self.bindings.append(Binding(scope, name, "value", ""))

    def _value(self, scope: int, name: str, kind: BindingKind, node: Node) -> bool:
        if kind == "type":
            value = one_line(self.outline.text(node))
            value = value if len(value) <= MAX_TYPE else ""
        else:
            value = chain_of(node, self.outline.data, self.language)
            value = "" if value.startswith(UNKNOWN) else value
        if value:
            self.bindings.append(Binding(scope, name, kind, value))
        return bool(value)

    # --- Imports

    def _import(self, captures: Captures, node: Node) -> None:
        scope = self.outline.scope(node.start_byte)
        if "tree" in captures:
            text = one_line(self.outline.text(captures["tree"][0])).removeprefix("import ")
            for module, name, alias in _import_tree(dotted_path(text)):
                self.imports.append(Import(scope, module, name, alias))
            return
        module = self._joined(captures.get("module", []))
        name = "*" if "star" in captures else self._joined(captures.get("imported", []))
        if "path" in captures:
            module, _, name = self._joined(captures["path"]).rpartition(".")
        if "default" in captures:
            name = "default"
        alias = self._joined(captures.get("default") or captures.get("alias", [])) or name
        if not alias and self.language == "python":
            # `import a.b` makes `a` known.
            module = alias = module.partition(".")[0]
        alias = alias or module.replace("/", ".").rpartition(".")[2]
        is_export = captures["import"][0].type == "export_statement"
        self.imports.append(Import(scope, module, name, alias, is_export))

    def _export(self, captures: Captures, node: Node) -> None:
        """Note by which name a script exports a value."""
        name = "default"
        if "default" not in captures:
            written = self.outline.text(captures.get("export", [node])[0])
            name = written.removeprefix("module.").removeprefix("exports").removeprefix(".")
        self._value(0, f"export.{name or 'default'}", "value", node)

    def _joined(self, nodes: list[Node]) -> str:
        return ".".join(dotted_path(self.outline.text(node)) for node in nodes)

    HANDLERS = {
        "exported": _export,
        "call": _call,
        "invocation": _call,
        "bind": _bind,
        "parameter": _parameter,
        "property": _property,
        "import": _import,
        "return": _hand_out,
        "yield": _hand_out,
        "doc": _document,
        "use": _use,
        "inherit": _inherit,
        "decorate": _decorate,
        "returns": _returns,
    }

    def read(self, captures: Captures) -> None:
        key, handle = _handler(tuple(captures))
        if handle is not None:
            handle(self, captures, captures[key][0])


@cache
def _handler(
    keys: tuple[str, ...],
) -> tuple[str, Callable[[_FactReader, Captures, Node], None] | None]:
    """Return what a match is about; of each pattern there are thousands."""
    handlers = _FactReader.HANDLERS.items()
    return next(((key, handle) for key, handle in handlers if key in keys), ("", None))


def _import_tree(text: str, above: str = "", depth: int = 0) -> Iterator[tuple[str, str, str]]:
    """Read `a.{b, c as d, e.{f}}`, from the outside in: module, name, alias."""
    head, brace, rest = text.partition("{")
    if brace and depth < MAX_IMPORT_DEPTH:
        module = f"{above}.{head}".strip(". ")
        for part in _split_outside_braces(rest.rpartition("}")[0]):
            yield from _import_tree(part, module, depth + 1)
        return
    path, _, alias = text.replace("=>", " as ").partition(" as ")
    module, _, name = f"{above}.{path.strip()}".strip(".").rpartition(".")
    name = "*" if name in ("_", "given") else name
    if name:
        yield module, name, alias.strip() or name


def _split_outside_braces(text: str) -> Iterator[str]:
    start = depth = 0
    for place, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == "," and not depth:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


# --- Turns the node of an expression into a chain, by the table of its language -------


UNKNOWN = "?"
# A longer one is useless, and a chain may be nested as deep as a file is long.
MAX_DEPTH = 30
MAX_LENGTH = 300

_PLAIN = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*+(?:\.[A-Za-z_\x80-\xff][\w\x80-\xff]*+)*+")
_RULE = re.compile(r"(\*?)([\w#.|-]+|!)(\(\)|\[\])?")

_Field = int | str
"""A child by its place, or by its name."""
_Rules = dict[str, tuple[str, list[list[_Field]], str]]
"""The prefix of a chain, what it is built of (nothing: a literal), and its suffix."""


@cache
def _rules(language: str) -> _Rules:
    rules: _Rules = {}
    for kind, rule in LANGUAGES[language].chains.items():
        match = _RULE.fullmatch(rule)
        assert match is not None
        choices = [] if match[2] == "!" else [_fields(part) for part in match[2].split("|")]
        rules[kind] = (match[1], choices, match[3] or "")
    return rules


def _fields(part: str) -> list[_Field]:
    return [int(name[1:]) if name.startswith("#") else name for name in part.split(".")]


def chain_of(node: Node, data: bytes, language: str) -> str:
    """Return the chain of an expression; "?" where it is none, "!" for a literal.

    Several that it may be are joined by `|`; `*` before it means a collection of such.
    """
    text = data[node.start_byte : node.end_byte]
    if len(text) <= MAX_LENGTH and _PLAIN.fullmatch(text):
        return text.decode()
    chain = _build(node, data, _rules(language), 0)
    return chain if len(chain) <= MAX_LENGTH else UNKNOWN


def _build(node: Node, data: bytes, rules: _Rules, depth: int) -> str:
    rule = rules.get(node.type)
    if rule is None:
        return _name(node, data)
    if depth == MAX_DEPTH:
        return UNKNOWN
    prefix, choices, suffix = rule
    if not choices:
        return "!"
    if len(choices) == 1:
        return prefix + _joined(node, choices[0], data, rules, depth) + suffix
    if depth:
        return UNKNOWN
    built = [_joined(node, fields, data, rules, depth) for fields in choices]
    return "|".join(chain for chain in built if chain != UNKNOWN)


def _joined(node: Node, fields: list[_Field], data: bytes, rules: _Rules, depth: int) -> str:
    chains = [
        _build(child, data, rules, depth + 1)
        for field in fields
        if (child := _child(node, field)) is not None
    ]
    return ".".join(chains) or UNKNOWN


def _name(node: Node, data: bytes) -> str:
    """Return the name that a node is; "?" if it is none."""
    start, end = node.byte_range
    if end - start < MAX_LENGTH and node.named_child_count == 0:
        text = data[start:end]
        # Ruby writes attributes of the instance as `@name`, scripts private ones as `#name`.
        name = text.lstrip(b"@$#")
        if _PLAIN.fullmatch(name):
            return ("self." if text.startswith(b"@") else "") + name.decode()
    return UNKNOWN


def _child(node: Node, field: _Field) -> Node | None:
    if isinstance(field, str):
        return node.child_by_field_name(field)
    count = node.named_child_count
    return node.named_child(field % count) if -count <= field < count else None


# --- Parses one file of code: its symbols, its passages, and what it says about others ---


PROSE = frozenset({"markdown", "text"})
"""Languages whose passages are cut as those of any other text."""

# Recovering from errors may take a grammar time that grows with the square of the file.
PARSE_SECONDS = 2.0
READ_STEP = 4096
# No one nests deeper, and below 32,767 levels a query slows down a thousandfold.
QUERY_DEPTH = 1000
# A query looks for the next named sibling of every node; among thousands of marks in a row there
# is none. So many such looks take about a second.
MAX_LOOKS = 100_000_000


def parse_code(source: SourceFile, language: str, size: int) -> ParsedFile:
    """Read a file's symbols, passages and facts; prose gets no passages yet.

    What is not valid in its language is passed over; the rest is read all the same.
    """
    data = source.data
    lines = Lines(data)
    outline = Outline(data, lines, source.path.rpartition("/")[2].partition(".")[0])
    matches: list[tuple[int, Captures]] = []
    has_errors = False
    if language != "text":
        matches, tree = _matches(data, language)
        has_errors = tree.root_node.has_error
    facts = read_facts(outline, language, outline.read(matches))
    symbols = outline.symbols
    prose = language in PROSE
    chunks = [] if prose else chunk_code(source.path, data, lines, symbols, outline.leads(), size)
    return ParsedFile(
        source.path,
        language,
        len(lines.starts) if data else 0,
        source.content_hash,
        tuple(symbols),
        tuple(chunks),
        pack_facts(facts),
        tuple(mentioned_names(facts)),
        has_errors,
    )


def parse_structure(source: SourceFile, language: str) -> FileStructure:
    """Read a file's symbols and their structure."""
    data = source.data
    outline = Outline(data, Lines(data), source.path.rpartition("/")[2].partition(".")[0])
    if language == "text":
        return shape_words(outline)
    matches, tree = _matches(data, language)
    outline.read(matches)
    return shape_words(outline) if language in PROSE else shape_symbols(outline, tree, language)


def _matches(data: bytes, language: str) -> tuple[list[tuple[int, Captures]], Tree]:
    """Return what the language's query finds, and the tree it is found in."""
    from tree_sitter import Parser, QueryCursor

    grammar, query = load_grammar(language)
    deadline = time.thread_time() + PARSE_SECONDS

    def read(byte: int, _: Point) -> bytes:
        # To a parser that took too long the file ends here; cancelling it would crash it.
        return data[byte : byte + READ_STEP] if time.thread_time() < deadline else b""

    tree = Parser(grammar).parse(read)
    if tree.root_node.has_error and _looks(tree) > MAX_LOOKS:
        return [], tree
    cursor = QueryCursor(query)
    cursor.set_max_start_depth(QUERY_DEPTH)
    return cursor.matches(tree.root_node), tree


def _looks(tree: Tree) -> int:
    """Return how often a query would look in vain for a named sibling."""
    cursor = tree.walk()
    looks = run = 0
    while True:
        node = cursor.node
        assert node is not None
        run = 0 if node.is_named else run + 1
        looks += run
        if cursor.goto_first_child():
            run = 0
            continue
        while not cursor.goto_next_sibling():
            run = 0
            if not cursor.goto_parent():
                return looks


# --- The structure of code: what it does, whatever its comments, formatting and docstrings are ---

# A symbol's structure is its syntax tree without its own name. Left out are comments, docstrings,
# blanks, marks that the tree expresses by itself (commas, semicolons, brackets, quotes) and, in
# Python, the annotations of parameters and results. Everything else counts: decorators, defaults,
# fields of classes, other languages' types.


class SymbolShape(NamedTuple):
    """Hashes of a symbol's structure."""

    signature: str
    """Of its head, without its own name."""
    body: str


class FileStructure(NamedTuple):
    """A file's symbols, and the structure of each of them."""

    symbols: tuple[Symbol, ...]
    shapes: tuple[SymbolShape, ...]
    """Of each symbol, the file's own first."""
    rows: tuple[int, ...]
    """A hash of each line's structure; 0: it has none."""


class _Token(NamedTuple):
    depth: int
    text: bytes
    row: int
    is_leaf: bool


# The tree expresses these by itself.
_TREE_MARKS = frozenset(", ; ( ) [ ] { } : \" ' \n".split(" ")) | {"\n"}
# `(x)` is `x`; one parameter of an arrow function may go without brackets.
_TRANSPARENT = frozenset(
    ["parenthesized_expression", "formal_parameters", "required_parameter", "typed_parameter"]
)
# `return a, b` is `return (a, b)`; a default is one with and without an annotation.
_SAME_AS = {
    "expression_list": b"tuple",
    "pattern_list": b"tuple_pattern",
    "typed_default_parameter": b"default_parameter",
}
_HAS_ANNOTATION = frozenset(["typed_parameter", "typed_default_parameter", "function_definition"])
_STRINGS = frozenset(["string", "concatenated_string"])
_BETWEEN = b" \t\r\n\f\v\\"


def shape_symbols(outline: Outline, tree: Tree, language: str) -> FileStructure:
    """Return the structure of a file that a grammar has read."""
    marked: set[int] = set()
    for draft in outline.drafts:
        marked.update((draft.node.id, draft.name.id))
        marked.update(node.id for node in draft.captures.get("body", ())[:1])
        marked.update(node.id for node in draft.above)
    tokens, spans = _walk(tree.root_node, outline.data, marked, python=language == "python")
    shapes = [SymbolShape("", _digest(tokens))]
    for draft in outline.drafts:
        start, end = spans.get(draft.node.id, (0, 0))
        name = spans.get(draft.name.id, (0, 0))
        body = draft.captures.get("body")
        split = spans.get(body[0].id, (start, end))[0] if body else start
        above = [tokens[slice(*spans[one.id])] for one in draft.above if one.id in spans]
        head = [one for part in above for one in part] + tokens[start:split]
        if name[0] < split:
            at = len(head) - (split - start) + name[0] - start
            head[at : at + name[1] - name[0]] = []
            rest = tokens[split:end]
        else:
            rest = tokens[split : name[0]] + tokens[name[1] : end]
        shapes.append(SymbolShape(_digest(head), _digest(rest)))
    rows = [0] * len(outline.lines.starts)
    for token in tokens:
        if token.is_leaf and token.row < len(rows):
            rows[token.row] = crc32(token.text, rows[token.row] or 1)
    return FileStructure(tuple(outline.symbols), tuple(shapes), tuple(rows))


def shape_words(outline: Outline) -> FileStructure:
    """Return the structure of prose: its words."""
    data = outline.data
    symbols = outline.symbols
    shapes = [SymbolShape("", _words(data[one.start_byte : one.end_byte])) for one in symbols]
    if len(symbols) > 1:
        for place, draft in enumerate(outline.drafts, 1):
            nameless = data[draft.start : draft.name.start_byte] + b" "
            nameless += data[draft.name.end_byte : draft.end]
            shapes[place] = SymbolShape("", _words(nameless))
    rows = [crc32(b" ".join(line.split())) if line.strip() else 0 for line in data.split(b"\n")]
    return FileStructure(tuple(symbols), tuple(shapes), tuple(rows))


def line_hashes(lines: Iterable[bytes]) -> list[int]:
    """Return a hash of each line's text without the blanks around it; 0 for one that says little.

    To find text again without parsing what may have it.
    """
    found = []
    for line in lines:
        text = line.strip()
        found.append(crc32(text) if len(text) > 3 else 0)
    return found


def _walk(
    root: Node, data: bytes, marked: Collection[int], *, python: bool
) -> tuple[list[_Token], dict[int, tuple[int, int]]]:
    """Return the tree's tokens in order, and which of them each marked node has."""
    tokens: list[_Token] = []
    spans: dict[int, tuple[int, int]] = {}
    # A node to read, or the end of a marked one.
    waiting: list[tuple[Node | int, int, str]] = [(root, 0, "")]
    while waiting:
        node, depth, parent = waiting.pop()
        if isinstance(node, int):
            spans[node] = (spans[node][0], len(tokens))
            continue
        kind = node.type
        if "comment" in kind or kind == "line_continuation":
            continue
        if python and _is_left_out(node, kind, parent):
            continue
        if node.id in marked:
            spans[node.id] = (len(tokens), len(tokens))
            waiting.append((node.id, 0, ""))
        start, end = node.byte_range
        row = node.start_point[0]
        children = node.children
        if not children:
            text = data[start:end].strip()
            if not node.is_named:
                # `a[1:]` is not `a[:1]`, and neither is `for (;x;)` what `for (x;;)` is.
                if kind not in _TREE_MARKS or "slice" in parent or parent.startswith("for_"):
                    tokens.append(_Token(depth, text, row, is_leaf=True))
            elif text:
                if python and kind in ("integer", "float"):
                    text = text.lower()
                tokens.append(_Token(depth, kind.encode() + b"\0" + text, row, is_leaf=True))
            continue
        if python and kind in _STRINGS:
            literal = _literal(node, data)
            if literal is not None:
                tokens.append(_Token(depth, b"string\0" + literal, row, is_leaf=True))
                continue
        if python and kind == "string":
            children = children[1:-1]
            prefix = data[start : children[0].start_byte] if children else b""
            tokens.append(_Token(depth, b"string\0" + _prefix(prefix), row, is_leaf=True))
            depth += 1
        elif kind not in _TRANSPARENT:
            tokens.append(_Token(depth, _SAME_AS.get(kind) or kind.encode(), row, is_leaf=False))
            depth += 1
            # Some grammars have no node for the text of a literal.
            at = start
            for child in children:
                between = data[at : child.start_byte].strip(_BETWEEN)
                if between:
                    tokens.append(_Token(depth, between, row, is_leaf=True))
                at = child.end_byte
            if between := data[at:end].strip(_BETWEEN):
                tokens.append(_Token(depth, between, row, is_leaf=True))
        waiting.extend((child, depth, kind) for child in reversed(children))
    return tokens, spans


def _is_left_out(node: Node, kind: str, parent: str) -> bool:
    """Return whether a node of Python is a docstring, an annotation, or says nothing."""
    if kind == "expression_statement":
        # A text that is a statement of its own documents something, wherever it is.
        child = node.named_children
        return len(child) == 1 and child[0].type in _STRINGS
    if parent in _HAS_ANNOTATION and kind in ("type", "->"):
        return True
    return parent == "class_definition" and kind == "argument_list" and not node.named_child_count


def _literal(node: Node, data: bytes) -> bytes | None:
    """Return a text of Python without its quotes, in one piece; None if values are put into it."""
    parts = node.named_children if node.type == "concatenated_string" else [node]
    prefixes: set[bytes] = set()
    content = b""
    for part in parts:
        if "comment" in part.type or part.type == "line_continuation":
            continue
        inner = part.children
        if part.type != "string" or len(inner) < 2 or any(c.type == "interpolation" for c in inner):
            return None
        prefix = _prefix(data[inner[0].start_byte : inner[0].end_byte])
        text = data[inner[0].end_byte : inner[-1].start_byte]
        if b"\\" not in text:
            prefix = prefix.replace(b"r", b"")
        elif b"r" not in prefix:
            text = text.replace(b"\\'", b"'").replace(b'\\"', b'"').replace(b"\\\n", b"")
        prefixes.add(prefix)
        content += text
    return min(prefixes) + b"\0" + content if len(prefixes) == 1 else None


def _prefix(start: bytes) -> bytes:
    letters = start.strip(b"\"'").lower().replace(b"u", b"")
    return bytes(sorted(letters))


def _digest(tokens: Sequence[_Token]) -> str:
    """Hash tokens with how deep each lies below the one before: wherever the whole of them is."""
    digest = blake2b(digest_size=8)
    before = tokens[0].depth if tokens else 0
    for token in tokens:
        digest.update(b"%d\0%b\0\n" % (token.depth - before, token.text))
        before = token.depth
    return digest.hexdigest()


def _words(text: bytes) -> str:
    return blake2b(b" ".join(text.split()), digest_size=8).hexdigest()
