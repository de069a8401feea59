"""Reads a large JSON document element by element, in bounded memory.

Exports of chats and of memory stores are one array, or one object whose members are arrays; a
year of chats has hundreds of megabytes. Only one element is in memory at a time.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator, Iterator
from typing import IO, Any, Final

from zapomni_core.adapters.sources import MAX_LINE, MAX_VALUES

__all__ = ["UNREADABLE", "stream_json"]

_BLOCK = 1 << 16
_LARGE = 1 << 20
_SPACES = " \t\n\r"
_OUTSIDE = re.compile(r'["\[\]{}]')
_INSIDE = re.compile(r'["\\]')


class _Unreadable:
    """An element that is too long, too deep or not JSON."""


UNREADABLE: Final = _Unreadable()


def stream_json(stream: IO[bytes], max_element: int = MAX_LINE) -> Iterator[tuple[str, Any]]:
    """Yield the elements of an array, or the members of an object, in their order.

    An element of an array has the name of the member that holds the array, "" at the top. A member
    that is not an array comes whole. `UNREADABLE` comes instead of an element that cannot be read.
    The document may end anywhere: what is not complete by then is left out.
    """
    return _JsonStream(stream, max_element).read()


class _JsonStream:
    def __init__(self, stream: IO[bytes], max_element: int) -> None:
        self.stream, self.max_element = stream, max_element
        self.decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self.scan = json.JSONDecoder(strict=False).raw_decode
        self.text, self.at, self.ended = "", 0, False

    def read(self) -> Iterator[tuple[str, Any]]:
        first = self._next()
        if first == "[":
            self.at += 1
            yield from self._elements("")
        elif first == "{":
            self.at += 1
            yield from self._members()

    def _members(self) -> Iterator[tuple[str, Any]]:
        while True:
            first = self._next()
            if first == ",":
                self.at += 1
                continue
            name = self._value() if first == '"' else None
            if not isinstance(name, str) or self._next() != ":":
                return
            self.at += 1
            if self._next() == "[":
                self.at += 1
                closed = yield from self._elements(name)
                if not closed:
                    return
            else:
                value = self._value()
                if value is None and self.ended and not self._next():
                    return
                yield name, value

    def _elements(self, name: str) -> Generator[tuple[str, Any], None, bool]:
        """Yield the elements up to the closing bracket; return whether there is one."""
        while True:
            first = self._next()
            if first == "]":
                self.at += 1
                return True
            if first == ",":
                self.at += 1
                continue
            if first in ("", "}", ":"):
                return False
            # Handed on, not referred to: else two elements are in memory while the next is read.
            value = [self._value()]
            # Without what follows, a number may be the first half of one.
            if self._next() not in (",", "]"):
                return False
            yield name, value.pop()

    def _next(self) -> str:
        """Return the next character that is not white space, "" at the end."""
        while True:
            while self.at < len(self.text):
                character = self.text[self.at]
                if character not in _SPACES:
                    return character
                self.at += 1
            if not self._more():
                return ""

    def _more(self, least: int = _BLOCK) -> bool:
        """Read at least a block more, and forget what was used."""
        if self.ended:
            return False
        parts = [self.text[self.at :]]
        self.text, self.at = "", 0
        while least > 0 and not self.ended:
            block = self.stream.read(_BLOCK)
            self.ended = not block
            least -= len(block)
            parts.append(self.decode(block, final=self.ended))
        self.text = "".join(parts)
        return len(parts) > 2 or not self.ended

    def _value(self) -> Any:
        """Read one value; `UNREADABLE` if it was passed over, None at the end of the document."""
        while True:
            try:
                value, end = self.scan(self.text, self.at)
            except ValueError:
                # Cut off by the end of the text, most likely: with twice of it, the work spent on
                # an element stays in proportion to its length.
                left = len(self.text) - self.at
                if left > self.max_element or not self._more(left):
                    return self._pass_over()
                if self.text.count(",", self.at) + self.text.count("[", self.at) > MAX_VALUES:
                    return self._pass_over()
                continue
            except RecursionError:
                return self._pass_over()
            # A number may go on in the next block: "12" in "12.5", "1" in "1e-3".
            cut = end == len(self.text) or self.text[end] in ".eE+-"
            if cut and len(self.text) - self.at < self.max_element and self._more():
                continue
            if end - self.at > self.max_element:
                value = UNREADABLE
            self.at = end
            if end > _LARGE:
                # What was read is large, and not needed while it is used.
                self.text, self.at = self.text[end:], 0
            return value

    def _pass_over(self) -> Any:
        """Go to the end of a value by its brackets alone."""
        depth, inside = 0, False
        while True:
            match = (_INSIDE if inside else _OUTSIDE).search(self.text, self.at)
            if match is None:
                self.at = len(self.text)
                if not self._more():
                    return None
                continue
            self.at = match.end()
            mark = match[0]
            if mark == "\\":
                if self.at == len(self.text) and not self._more():
                    return None
                self.at += 1
            elif mark == '"':
                inside = not inside
            else:
                depth += 1 if mark in "[{" else -1
            if depth < 0:
                self.at = match.start()
                return UNREADABLE
            if depth == 0 and not inside:
                return UNREADABLE
