"""Words with their places, and sentences with theirs."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["TextSentence", "Token", "sentences", "tokens"]


# Chinese, Japanese and Korean are written next to Latin words without a blank. No rule here
# reads them, so they divide words as blanks do; so do backticks, dashes and dots beyond ASCII.
_WORD = re.compile(
    r"[^\s`\u2013\u2014\u2026\u2022\u2190-\u21ff\u3000-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+"
)
_OPENING = "([{\"'\u201c\u2018\u00ab*~,;:!?|"
_CLOSING = ".,;:!?)]}\"'\u201d\u2019\u00bb*~|"
_PAIRS = {")": "(", "]": "[", "}": "{"}
_STARTERS = frozenset("- . ? ! : * + >".split())
_POSSESSIVE = ("'s", "\u2019s")
# The look behind keeps a run of a million dots from being tried a million times.
_END = re.compile(r"(?<![.!?])[.!?]++[\"'\u201d\u2019)\]]{0,3}+(?=\s|$)|[\u3002\uff01\uff1f]|\n++")
_ABBREVIATIONS = frozenset("e.g i.e etc vs cf mr mrs ms dr prof st no approx incl ver fig".split())
LONGEST_SENTENCE = 1000
# Nothing longer is a word: encoded data, a minified file.
LONGEST_WORD = 500
MOST_TRIMMED = 20


class Token(NamedTuple):
    """A word without the punctuation around it."""

    text: str
    start: int
    end: int
    first: bool
    """It begins a sentence or a line."""
    comma: bool
    """Punctuation follows it."""


class TextSentence(NamedTuple):
    """Where a sentence is in a text."""

    start: int
    end: int
    question: bool


def tokens(text: str) -> list[Token]:
    """Return the words of a text, in order."""
    found: list[Token] = []
    done, first = 0, True
    for match in _WORD.finditer(text):
        start, end = match.span()
        word = match[0]
        gap = text[done:start]
        if "\n" in gap:
            first = True
        if "`" in gap and found:
            found[-1] = found[-1]._replace(comma=True)
        done = end
        if end - start > LONGEST_WORD:
            continue
        if not word.isalnum():
            begun = start
            start, end = _trimmed(text, start, end)
            if found and start > begun:
                found[-1] = found[-1]._replace(comma=True)
            if start == end:
                # A lone mark separates what is before it from what is after.
                if found:
                    found[-1] = found[-1]._replace(comma=True)
                first = first or word in _STARTERS
                continue
        found.append(Token(text[start:end], start, end, first, end != done))
        first = end != done and text[done - 1] in ".!?:" and text[end] in ".!?:)\"'"
    return found


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    furthest = min(end, start + MOST_TRIMMED)
    # In `*.py` and `~/.bashrc` the opening character is part of the word.
    while (
        start < furthest
        and text[start] in _OPENING
        and not (text[start] in "*~" and text.startswith((".", "/"), start + 1))
    ):
        start += 1
    furthest = max(start, end - MOST_TRIMMED)
    while furthest < end and text[end - 1] in _CLOSING:
        opening = _PAIRS.get(text[end - 1])
        if opening and text.count(opening, start, end) >= text.count(text[end - 1], start, end):
            break
        end -= 1
    if text.endswith(_POSSESSIVE, start, end):
        end -= 2
    if end - start == 1 and not text[start].isalnum():
        return start, start
    return start, end


def sentences(text: str) -> list[TextSentence]:
    """Return the sentences of a text; a very long one is cut."""
    found: list[TextSentence] = []
    begin = 0
    for match in _END.finditer(text):
        if match[0].startswith("\n"):
            if not _ends_line(text, match.start(), match.end()):
                continue
        elif match[0] == "." and _is_abbreviation(text, match.start()):
            continue
        _add(found, text, begin, match.end())
        begin = match.end()
    _add(found, text, begin, len(text))
    return found


def _ends_line(text: str, start: int, end: int) -> bool:
    """Whether a line break ends a sentence: not if the line was only wrapped."""
    if end - start > 1 or end == len(text):
        return True
    return not text[end].islower()


def _is_abbreviation(text: str, dot: int) -> bool:
    begin = max(text.rfind(" ", max(0, dot - 12), dot), text.rfind("(", max(0, dot - 12), dot)) + 1
    word = text[begin:dot].lower()
    return word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and begin > 0)


def _add(found: list[TextSentence], text: str, begin: int, end: int) -> None:
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    question = text.endswith(("?", "\uff1f"), begin, end)
    while begin < end:
        cut = min(end, begin + LONGEST_SENTENCE)
        if cut < end:
            cut = max(text.rfind(" ", begin + 1, cut), begin + LONGEST_SENTENCE // 2)
        found.append(TextSentence(begin, cut, question))
        begin = cut
