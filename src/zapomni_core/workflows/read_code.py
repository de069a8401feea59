"""Code as it is now on disk: a file's symbols, and lines of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Self

from zapomni_core.modules.codebase import CodeParser, SourceFile, SourceTree, Symbol
from zapomni_db.models import Chunk

__all__ = ["Outlines", "find_lines", "fingerprint", "lines_digest", "match_symbols"]

OUTLINES_KEPT = 200

Symbols = tuple[Symbol, ...]

_kept: OrderedDict[tuple[str, str], Symbols] = OrderedDict()
"""The last outlines, by path and contents: the same changed file is asked for again and again."""


class _NoPassages:
    """A chunker for those who want symbols only."""

    def chunk(self, text: str) -> list[Chunk]:  # noqa: ARG002
        return []


class Outlines:
    """The symbols of files; a context manager, because a process that parses may run behind it."""

    def __init__(self) -> None:
        self._parser = CodeParser(_NoPassages())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._parser.__exit__(*error)

    def of(self, source: SourceFile) -> Symbols:
        """Return a file's symbols, the file itself first."""
        key = (source.path, source.content_hash)
        found = _kept.pop(key, None)
        _kept[key] = found = self._parser.parse(source).symbols if found is None else found
        if len(_kept) > OUTLINES_KEPT:
            _kept.popitem(last=False)
        return found


def fingerprint(root: str) -> str:
    """Return a text that changes whenever a file worth reading does, comes or goes.

    Raises:
        ValidationError: The folder is not there any more.
    """
    digest = blake2b(digest_size=16)
    with SourceTree(Path(root)) as tree:
        for entry in tree.files():
            digest.update(f"{entry.path}\0{entry.stamp}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def match_symbols(symbols: Sequence[Symbol], name: str) -> list[Symbol]:
    """Return the symbols of a qualified name, or those whose qualified name ends so."""
    whole = [symbol for symbol in symbols if symbol.qualified_name == name]
    plain = [(symbol, symbol.qualified_name.partition("#")[0]) for symbol in symbols[1:]]
    ending = [symbol for symbol, known in plain if known == name or known.endswith(f".{name}")]
    return whole or ending


def lines_digest(data: bytes, first: int, last: int) -> str:
    """Identify lines by their text, whatever blanks they end with; "" if they are not all there."""
    lines = data.splitlines()
    return _digest(lines[first - 1 : last]) if first <= last <= len(lines) else ""


def find_lines(data: bytes, count: int, digest: str) -> int:
    """Return at which line a run of lines begins now; 0 if it is nowhere."""
    lines = data.splitlines()
    for start in range(len(lines) - count + 1):
        if _digest(lines[start : start + count]) == digest:
            return start + 1
    return 0


def _digest(lines: Sequence[bytes]) -> str:
    return blake2b(b"\n".join(line.rstrip() for line in lines), digest_size=16).hexdigest()
