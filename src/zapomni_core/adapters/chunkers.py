"""Splits a text where a reader would: at sections, blocks, sentences, and only then at words.

The text is tokenised once. How many tokens a span has is then how many token starts lie in it,
two bisections away: no span is ever tokenised again to see whether it fits.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from zapomni_core.adapters.tokenizer import Tokenizer
from zapomni_core.exceptions import ProcessingError, ValidationError
from zapomni_db.models import Chunk

__all__ = ["SemanticChunker"]

# To the model a very long word is one unknown token, and blanks are none at all. A stretch
# longer than this many characters counts one token per CHARS_PER_TOKEN instead, so that no
# passage grows without limit.
LONGEST_TOKEN = 64
CHARS_PER_TOKEN = 4
LONGEST_HEADING = 120

# The possessive quantifiers and lookbehinds keep every pattern linear on hostile text.
_BLANK_LINES = re.compile(r"(?:[^\S\n]*+\n)++")
_LINE = re.compile(r"[^\n]*+\n?+")
_FENCE = re.compile(r"[ \t]*+(`{3,}+|~{3,}+)(.*+)")
_HEADING = re.compile(r" {0,3}+#{1,6}+(?=[ \t\r\n]|\Z)")
_LIST_OR_TABLE = re.compile(r"[ \t]*+(?:(?:[-*+]|\d{1,9}+[.)])[ \t]|\|)")
_LINE_END = re.compile(r"\n++")
_SENTENCE_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]*+\s++"  # noqa: RUF001 - quotes as people type them
    r"|[。！？]++[」』”’）]*+\s*+"  # noqa: RUF001 - Chinese and Japanese end sentences so
    r"|\n[^\S\n]*+\n\s*+"
)
_ABBREVIATIONS = frozenset(
    (
        *("al", "approx", "ca", "cf", "dr", "e.g", "ed", "eds", "eq", "etc", "fig", "figs", "i.e"),
        *("inc", "jr", "ltd", "mr", "mrs", "ms", "mt", "no", "nos", "pp", "prof", "resp", "sec"),
        *("sr", "st", "vol", "vs", "др", "напр", "рис", "см", "стр", "т.д", "т.к", "т.п", "ул"),
        *("т.е", "гг"),  # noqa: RUF001 - Cyrillic on purpose
    )
)

_Kind = Literal["prose", "lines", "code"]
_Splitter = Callable[[int, int], Iterable[tuple[int, int]]]


def _ticks(offsets: Sequence[tuple[int, int]], length: int) -> list[int]:
    """Return where tokens start, with starts of our own in stretches that have none."""
    ticks: list[int] = []
    last = 0
    for start, _ in offsets:
        if start - last > LONGEST_TOKEN:
            ticks.extend(range(last + CHARS_PER_TOKEN, start, CHARS_PER_TOKEN))
        ticks.append(start)
        last = start
    if length - last > LONGEST_TOKEN:
        ticks.extend(range(last + CHARS_PER_TOKEN, length, CHARS_PER_TOKEN))
    return ticks


def _line_ends(text: str, start: int, end: int) -> Iterator[int]:
    return (match.end() for match in _LINE_END.finditer(text, start, end))


def _sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(text, start, end):
        is_paragraph_end = match[0].count("\n") > 1
        if is_paragraph_end or match[0][0] in "。！？":  # noqa: RUF001 - see _SENTENCE_END
            yield match.end()
        elif text[match.end() : match.end() + 1].islower():
            continue
        elif match[0][0] != "." or not _is_abbreviation(text, start, match.start()):
            yield match.end()


def _is_abbreviation(text: str, start: int, dot: int) -> bool:
    words = text[max(start, dot - 12) : dot].rsplit(None, 1)
    word = words[-1].lstrip("([{\"'“„«").lower() if words else ""
    if word.isdigit():
        # A number that opens a line counts the items of a list.
        return text[dot - len(word) - 1 : dot - len(word)] in ("", "\n")
    return word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha())


def _spans(start: int, end: int, cuts: Iterable[int]) -> Iterator[tuple[int, int]]:
    for cut in cuts:
        if start < cut < end:
            yield start, cut
            start = cut
    if start < end:
        yield start, end


@dataclass(slots=True)
class _Section:
    """The text under one heading, and the headings above it."""

    start: int = 0
    headings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Block:
    """A paragraph, list, table or fence; `body` is past `start` when a heading opens it."""

    start: int
    body: int
    end: int
    kind: _Kind
    section: _Section
    growing: bool = True


@dataclass(slots=True)
class _Outline:
    """Reads lines and collects blocks that follow each other without gaps."""

    text: str
    blocks: list[_Block] = field(default_factory=list)
    section: _Section = field(default_factory=_Section)
    path: list[tuple[int, str]] = field(default_factory=list)
    fence: str = ""

    def read(self) -> list[_Block]:
        position = 0
        while position < len(self.text):
            match = None if self.fence else _BLANK_LINES.match(self.text, position)
            if match:
                end = match.end()
                if not self.blocks:
                    self.blocks.append(_Block(0, 0, end, "prose", self.section))
                last = self.blocks[-1]
                if last.body == last.end:
                    last.body = end
                last.end = end
                last.growing = False
            else:
                match = _LINE.match(self.text, position)
                assert match is not None
                self._line(match.start(), match.end())
            position = match.end()
        return self.blocks

    def _line(self, start: int, end: int) -> None:
        if self.fence:
            self.blocks[-1].end = end
            line = self.text[start:end].strip()
            if line.startswith(self.fence) and not line.strip(self.fence[0]):
                self.fence = ""
                self.blocks[-1].growing = False
        elif (match := _FENCE.match(self.text, start, end)) and not (
            match[1][0] == "`" and "`" in match[2]
        ):
            self.fence = match[1]
            self._begin(start, end, "code")
        elif match := _HEADING.match(self.text, start, end):
            self._heading(match, end)
        elif _LIST_OR_TABLE.match(self.text, start, end):
            self._extend(start, end, "lines")
        else:
            self._extend(start, end, "prose")

    def _heading(self, match: re.Match[str], end: int) -> None:
        level = match[0].count("#")
        # Far more than is kept, and still not a line of five megabytes.
        title = self.text[match.end() : min(end, match.end() + 1000)].strip()
        title = re.sub(r"(?:^|[ \t])#+$", "", title).strip()[:LONGEST_HEADING]
        self.path = [above for above in self.path if above[0] < level]
        if title:
            self.path.append((level, title))
        self.section = _Section(match.start(), tuple(title for _, title in self.path))
        self.blocks.append(_Block(match.start(), end, end, "prose", self.section))

    def _begin(self, start: int, end: int, kind: _Kind) -> None:
        last = self.blocks[-1] if self.blocks else None
        if last and last.start < last.body == last.end:
            last.kind, last.end, last.growing = kind, end, True
        else:
            self.blocks.append(_Block(start, start, end, kind, self.section))

    def _extend(self, start: int, end: int, kind: _Kind) -> None:
        last = self.blocks[-1] if self.blocks else None
        if last and last.growing and last.body < last.end and last.kind in ("lines", kind):
            last.end = end
        else:
            self._begin(start, end, kind)


@dataclass(slots=True)
class _Packer:
    """Fills one passage after another, as full as the text's own seams allow."""

    text: str
    ticks: list[int]
    size: int
    overlap: int
    chunks: list[Chunk] = field(default_factory=list)
    start: int = 0
    end: int = 0
    """The passage being filled; there is none while both are equal."""
    last_start: int = -1
    kind: _Kind = "prose"
    section: _Section = field(default_factory=_Section)

    def add(self, block: _Block) -> None:
        start = block.start
        half_full = 2 * self._count(self.start, self.end) >= self.size
        if half_full and start == block.section.start:
            self.close()
            half_full = False
        if start < block.body and self._count(start, block.end) > self.size:
            self._place(start, block.body, block, [self._words])
            start = block.body
        whole = block.kind == "code" or half_full
        splitters: dict[_Kind, list[_Splitter]] = {
            "code": [self._lines, self._words],
            "lines": [self._lines, self._sentences, self._words],
            "prose": [self._sentences, self._lines, self._words],
        }
        self._place(start, block.end, block, splitters[block.kind], whole=whole)

    def close(self) -> None:
        """Keep the passage being filled, without the blank lines around it."""
        stripped = self.text[self.start : self.end].strip()
        if stripped:
            first = self.text.index(stripped[0], self.start)
            start = max(self.start, self.text.rfind("\n", self.start, first) + 1)
            end = first + len(stripped)
            headings = list(self.section.headings)
            self.chunks.append(
                Chunk(
                    text=self.text[start:end],
                    index=len(self.chunks),
                    start_char=start,
                    end_char=end,
                    metadata={"headings": headings} if headings else {},
                )
            )
            self.last_start = start
        self.start = self.end

    def _place(
        self, start: int, end: int, block: _Block, splitters: list[_Splitter], *, whole: bool = True
    ) -> None:
        opening = self.start if self.start < self.end else start
        if self._count(opening, end) <= self.size:
            self._extend(start, end, block)
        elif not splitters or (whole and self._count(start, end) <= self.size):
            self.close()
            self._extend(start, end, block)
        else:
            for part_start, part_end in splitters[0](start, end):
                self._place(part_start, part_end, block, splitters[1:])

    def _extend(self, start: int, end: int, block: _Block) -> None:
        if start == end:
            return
        if self.start == self.end:
            self.section = block.section
            self.start = self._repeat_from(start, end)
        self.end = end
        self.kind = block.kind

    def _repeat_from(self, start: int, end: int) -> int:
        """Return where a passage starts so that it repeats the last sentences or lines."""
        if not self.overlap or not self.chunks:
            return start
        index = bisect_left(self.ticks, start) - self.overlap
        earliest = max(
            self.ticks[index - 1] if index > 0 else 0, self.section.start, self.last_start
        )
        breaks = _sentence_ends if self.kind == "prose" else _line_ends
        for place in breaks(self.text, earliest, start):
            if (
                self.last_start < place < start
                and self._count(place, start) <= self.overlap
                and self._count(place, end) <= self.size
            ):
                return place
        return start

    def _count(self, start: int, end: int) -> int:
        return bisect_left(self.ticks, end) - bisect_left(self.ticks, start)

    def _lines(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        return _spans(start, end, _line_ends(self.text, start, end))

    def _sentences(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        return _spans(start, end, _sentence_ends(self.text, start, end))

    def _words(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut after a blank near every quarter of a passage, inside a word if there is none."""
        step = max(1, self.size // 4)
        while self._count(start, end) > step:
            cut = self.ticks[bisect_left(self.ticks, start) + step]
            near = max(start, cut - LONGEST_TOKEN)
            blank = max(self.text.rfind(char, near, cut) for char in " \n\t")
            cut = max(cut if blank < 0 else blank + 1, start + 1)
            yield start, cut
            start = cut
        if start < end:
            yield start, end


class SemanticChunker:
    """Passages of at most `chunk_size` tokens; each repeats up to `overlap` tokens of the last.

    Implements `TextChunker`. A passage ends where a section, block, sentence or line does, as
    long as one of them fits. Its metadata carries `headings`, the Markdown headings it is
    under. Only sentences and lines of the same section are repeated, and only whole ones.
    """

    def __init__(self, tokenizer: Tokenizer, chunk_size: int = 200, overlap: int = 30) -> None:
        if chunk_size < 1 or not 0 <= overlap < chunk_size:
            raise ValidationError(
                "chunk_size must be at least 1, and overlap at least 0 and below it", "VAL_003"
            )
        self._tokenizer = tokenizer
        self._chunk_size = chunk_size
        self._overlap = overlap

    def chunk(self, text: str) -> list[Chunk]:
        """Return passages with exact offsets: `text[c.start_char:c.end_char] == c.text`.

        Raises:
            ProcessingError: The text could not be split (PROC_001).
        """
        try:
            ticks = _ticks(self._tokenizer.offsets(text), len(text))
            packer = _Packer(text, ticks, self._chunk_size, self._overlap)
            for block in _Outline(text).read():
                packer.add(block)
            packer.close()
        except Exception as error:
            raise ProcessingError(
                "The text could not be split into passages",
                "PROC_001",
                {"characters": len(text)},
                original_exception=error,
            ) from error
        return packer.chunks
