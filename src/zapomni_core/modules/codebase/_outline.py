"""The symbols of a file: where each begins and ends, what it stands in, what it is called."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache, cached_property, partial
from hashlib import blake2b
from inspect import cleandoc
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING

from zapomni_core.modules.codebase._languages import CLASS_LIKE, LEAVES
from zapomni_core.modules.codebase._models import Symbol

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = [
    "Captures",
    "Draft",
    "Lines",
    "Outline",
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
    """Which line a byte stands on."""

    def __init__(self, data: bytes) -> None:
        lines = data.split(b"\n")
        # What stands before a line: the lines above it, and one line end for each of them.
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
        """Return the innermost symbol a byte stands in, its head included."""
        place = bisect_right(self._starts, byte)
        while place and self.drafts[place - 1].end <= byte:
            place = self.drafts[place - 1].parent
        return place

    def scope(self, byte: int) -> int:
        """Return the innermost symbol whose body a byte stands in."""
        place = bisect_right(self._starts, byte)
        while place:
            draft = self.drafts[place - 1]
            if draft.body <= byte < draft.end and draft.kind not in LEAVES:
                return place
            place = draft.parent
        return 0

    def text(self, node: Node) -> str:
        """Return what stands at a node."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _nest(self, drafts: list[Draft]) -> None:
        """Give every symbol the one it stands in, and a name no other has."""
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
