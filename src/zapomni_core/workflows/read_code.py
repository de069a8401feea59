"""Code as it is now on disk: a file's symbols, and lines of it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from zapomni_core.modules.codebase import SourceFile, Symbol, parse
from zapomni_db.models import Chunk

__all__ = ["lines_digest", "match_symbols", "outline"]


class _NoPassages:
    """A chunker for those who want symbols only."""

    def chunk(self, text: str) -> list[Chunk]:  # noqa: ARG002
        return []


def outline(source: SourceFile) -> tuple[Symbol, ...]:
    """Return a file's symbols, the file itself first."""
    return parse(source, _NoPassages()).symbols


def match_symbols(symbols: Sequence[Symbol], name: str) -> list[Symbol]:
    """Return the symbols of a qualified name, or those whose qualified name ends so."""
    whole = [symbol for symbol in symbols if symbol.qualified_name == name]
    plain = [(symbol, symbol.qualified_name.partition("#")[0]) for symbol in symbols[1:]]
    ending = [symbol for symbol, known in plain if known == name or known.endswith(f".{name}")]
    return whole or ending


def lines_digest(data: bytes, first: int, last: int) -> str:
    """Identify lines by their text; "" if the file does not have them all."""
    lines = data.splitlines()
    return blocks_digest(lines[first - 1 : last]) if last <= len(lines) else ""


def blocks_digest(lines: Sequence[bytes]) -> str:
    """Identify a run of lines, whatever blanks they end with."""
    return blake2b(b"\n".join(line.rstrip() for line in lines), digest_size=16).hexdigest()
