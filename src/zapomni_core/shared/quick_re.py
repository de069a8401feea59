"""Regular expressions as `re` has them, without loading it.

`re` reads a pattern with code in Python and hands the program it makes of it to code in C. To
load it and to read the patterns of one event is half of what a hook would cost. So a hook stores
these programs in a file (`use_programs`), and the next one hands them to the same code in C,
which checks them as it checks those of `re`. Other processes do not name a file and use `re`.
For patterns of our own: one made of a user's text would be stored.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH108, PTH118, PTH123

from __future__ import annotations

import os
import sys

from zapomni_core.shared.hashing import keyed_hash
from zapomni_core.shared.quick_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from re import Match, Pattern
    from typing import Any

__all__ = [
    "PROGRAMS_FILE",
    "compile",
    "findall",
    "finditer",
    "fullmatch",
    "match",
    "search",
    "split",
    "sub",
    "use_programs",
]

PROGRAMS_FILE = "patterns"
# All patterns of hooks take less; above it, a file holds those of Pythons that are gone.
MAX_BYTES = 2_000_000

try:
    import _sre  # type: ignore[import-not-found]

    # What a program is for: it means nothing to another Python.
    _MACHINE = f"{sys.hexversion:x} {_sre.MAGIC} {_sre.CODESIZE} {sys.byteorder}"
except (ImportError, AttributeError):  # pragma: no cover - another Python's insides
    _MACHINE = ""

_compiled: dict[str, Pattern[str]] = {}
# Where programs are, and what is there; none: `re` compiles.
_store: tuple[str, bytes] | None = None


def use_programs(home: str) -> None:
    """Take programs from a file in this folder, and add to it those that are not there."""
    global _store  # noqa: PLW0603 - one process is one hook
    if not _MACHINE:  # pragma: no cover - another Python's insides
        return
    file, programs = os.path.join(home, PROGRAMS_FILE), b""
    try:
        with open(file, "rb") as stream:
            programs = stream.read()
        if len(programs) > MAX_BYTES:
            os.unlink(file)
    except OSError:
        pass
    _store = file, programs


def compile(source: str) -> Pattern[str]:  # noqa: A001 - as `re` calls it
    """Return the pattern that a text describes; flags are in the text."""
    pattern = _compiled.get(source)
    if pattern is None:
        pattern = _compiled[source] = _read(source, *_store) if _store else _compile(source)
    return pattern


def _compile(source: str) -> Pattern[str]:
    import re

    return re.compile(source)


def finditer(source: str, text: str) -> Iterator[Match[str]]:
    return compile(source).finditer(text)


def findall(source: str, text: str) -> list[Any]:
    return compile(source).findall(text)


def fullmatch(source: str, text: str) -> Match[str] | None:
    return compile(source).fullmatch(text)


def match(source: str, text: str) -> Match[str] | None:
    return compile(source).match(text)


def search(source: str, text: str) -> Match[str] | None:
    return compile(source).search(text)


def split(source: str, text: str) -> list[str]:
    return compile(source).split(text)


def sub(source: str, replacement: str, text: str) -> str:
    return compile(source).sub(replacement, text)


# A line of the file: a hash of Python's version and the pattern, a hash of the rest, and as JSON
# the flags, how many groups there are, their names and the program in hexadecimal digits.


def _read(source: str, file: str, programs: bytes) -> Pattern[str]:
    name = keyed_hash(f"{_MACHINE} {source}", b"", 12).encode()
    # The last one: one before it may be damaged.
    start = programs.rfind(name)
    if start >= 0:
        _, _, rest = programs[start : programs.find(b"\n", start)].partition(b" ")
        check, _, rest = rest.partition(b" ")
        if check == keyed_hash(rest, name, 8).encode():
            try:
                return _load(source, rest)
            except (RuntimeError, TypeError, ValueError):
                return _compile(source)  # Whatever it is, an event must not be lost over it.
    pattern = _compile(source)
    _write(file, name, pattern)
    return pattern


def _load(source: str, stored: bytes) -> Pattern[str]:
    flags, groups, names, code = loads(stored.decode())
    indexes: list[str | None] = [None] * (groups + 1)
    for group, index in names.items():
        indexes[index] = group
    program = memoryview(bytes.fromhex(code)).cast("I").tolist()
    pattern: Pattern[str] = _sre.compile(source, flags, program, groups, names, tuple(indexes))
    return pattern


def _write(file: str, name: bytes, pattern: Pattern[str]) -> None:
    """Add the program of a pattern to the file; one that is written twice does no harm."""
    try:
        from re import _compiler, _parser  # type: ignore[attr-defined]

        program = _compiler._code(_parser.parse(pattern.pattern), 0)  # noqa: SLF001 - see above
        code = b"".join(one.to_bytes(4, sys.byteorder) for one in program).hex()
        rest = dumps([pattern.flags, pattern.groups, dict(pattern.groupindex), code]).encode()
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except (ImportError, AttributeError, TypeError, OSError):
        return  # Another Python's insides, or a disk that takes nothing: `re` will do.
    try:
        # At once, so that lines of simultaneous hooks do not mix; first the end of a torn one.
        os.write(descriptor, b"\n%s %s %s\n" % (name, keyed_hash(rest, name, 8).encode(), rest))
    except OSError:
        return
    finally:
        os.close(descriptor)
