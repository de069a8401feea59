"""The patterns of an ignore file, with git's meaning and in time linear in the path.

Patterns come with the repository, which may be hostile: one such as `*a*a*a*a*b` keeps a matcher
that tries every way for each star busy for hours. Here each star takes the first way that works,
which is enough: whatever a later star needs, it can reach from there as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Rules", "parse_rules"]

# More than any real file has; every pattern is tried on every path.
MAX_PATTERNS = 2000
MAX_PATTERN = 1000

_STAR = "*"
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


class _Rule(NamedTuple):
    regex: re.Pattern[str]
    takes_in: bool
    """Written with `!`: what it matches is not left out."""
    folders_only: bool
    whole_path: bool
    """Otherwise the last component alone is looked at."""


class Rules:
    """The rules of one ignore file; the last one that matches decides."""

    def __init__(self, rules: list[_Rule]) -> None:
        self._latest_first = rules[::-1]

    def ignores(self, path: str, *, is_folder: bool) -> bool | None:
        """Say whether a path, relative to the file's folder, is left out; None: nothing said."""
        name = path.rpartition("/")[2]
        for rule in self._latest_first:
            if rule.folders_only and not is_folder:
                continue
            if rule.regex.match(path if rule.whole_path else name):
                return not rule.takes_in
        return None


def parse_rules(text: str) -> Rules:
    """Read an ignore file; lines git could not make sense of match nothing here either."""
    lines = text.removeprefix("\ufeff").split("\n")
    rules = (_rule(line.removesuffix("\r")) for line in lines)
    return Rules([rule for rule in rules if rule][:MAX_PATTERNS])


def _rule(line: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    pattern = _without_trailing_blanks(line)
    takes_in = pattern.startswith("!")
    pattern = pattern[takes_in:]
    folders_only = pattern.endswith("/")
    pattern = pattern[: len(pattern) - folders_only]
    whole_path = "/" in pattern
    pattern = pattern.removeprefix("/")
    if not pattern or len(pattern) > MAX_PATTERN:
        return None
    try:
        regex = re.compile(_translate(pattern), re.DOTALL)
    except (_NeverMatchesError, re.error):
        return None
    return _Rule(regex, takes_in, folders_only, whole_path)


def _without_trailing_blanks(line: str) -> str:
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and stripped != line else stripped


class _NeverMatchesError(Exception):
    """No path has two slashes in a row; or the pattern breaks off in a bracket."""


def _translate(pattern: str) -> str:
    """Return a regular expression for the whole of a path."""
    components: list[list[str]] = [[]]
    for piece in _pieces(pattern):
        if piece == "/":
            components.append([])
        else:
            components[-1].append(piece)
    if not all(components):
        raise _NeverMatchesError
    runs: list[list[str]] = [[]]
    for component in components:
        if len(component) > 1 and set(component) == {_STAR}:
            runs.append([])
        else:
            runs[-1].append(_component(component))
    first, *others = ["/".join(run) for run in runs]
    if not others:
        return first + r"\Z"
    regex = first + "/" if first else ""
    regex += "".join(rf"(?>(?:[^/]*/)*?{run}/)" for run in others[:-1] if run)
    return regex + (rf"(?:[^/]*/)*?{others[-1]}\Z" if others[-1] else r".+\Z")


def _component(pieces: list[str]) -> str:
    """Return a regular expression for one component, up to the slash behind it."""
    fixed = [""]
    for piece in pieces:
        if piece != _STAR:
            fixed[-1] += piece
        elif fixed[-1] or len(fixed) == 1:
            fixed.append("")
    first, *others = fixed
    if not others:
        return first
    middle = "".join(rf"(?>[^/]*?{part})" for part in others[:-1])
    return rf"{first}{middle}[^/]*{others[-1]}(?=/|\Z)"


def _pieces(pattern: str) -> Iterator[str]:
    """Yield `*`, `/`, and a regular expression for every other character or class."""
    place = 0
    while place < len(pattern):
        char = pattern[place]
        place += 1
        if char in "*/":
            yield char
        elif char == "?":
            yield "[^/]"
        elif char == "[":
            regex, place = _bracket(pattern, place)
            yield regex
        elif char == "\\":
            if place == len(pattern):
                raise _NeverMatchesError
            yield re.escape(pattern[place])
            place += 1
        else:
            yield re.escape(char)


def _bracket(pattern: str, place: int) -> tuple[str, int]:
    """Read a class from behind its bracket; return it and where it ends."""
    negated = pattern[place : place + 1] in ("!", "^")
    place += negated
    members: list[str] = []
    first = place
    while True:
        if place >= len(pattern):
            raise _NeverMatchesError
        if pattern[place] == "]" and place > first:
            break
        if pattern.startswith("[:", place) and (end := pattern.find(":]", place)) > 0:
            members.append(_class(pattern[place + 2 : end]))
            place = end + 2
            continue
        low, place = _member(pattern, place)
        members.append(re.escape(low))
        if pattern[place : place + 1] == "-" and pattern[place + 1 : place + 2] not in ("", "]"):
            high, place = _member(pattern, place + 1)
            if low <= high:
                members.append(f"{re.escape(low)}-{re.escape(high)}")
    return rf"(?!/)[{'^' if negated else ''}{''.join(members)}]", place + 1


def _member(pattern: str, place: int) -> tuple[str, int]:
    if pattern[place] == "\\":
        place += 1
    if place >= len(pattern):
        raise _NeverMatchesError
    return pattern[place], place + 1


def _class(name: str) -> str:
    if name not in _CLASSES:
        raise _NeverMatchesError
    return _CLASSES[name]
