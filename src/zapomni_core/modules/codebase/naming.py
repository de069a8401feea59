"""How code is named in words: `src/auth.py`, `auth.py:42`, `Session.get`, `check_token()`."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Named", "find_named", "parse_named"]

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
