"""Short ways to parse a text and to resolve a handful of files.

One parser serves the whole run: starting a process for each of a thousand tests takes minutes.
The fixture in conftest.py ends it.
"""

from __future__ import annotations

from functools import cache

from zapomni_core.modules.codebase import (
    CodeParser,
    ParsedFile,
    Resolver,
    Snapshot,
    SourceFile,
    SymbolEdge,
)
from zapomni_db.models import Chunk


class Paragraphs:
    """A text's paragraphs, as a chunker of prose would hand them out."""

    def chunk(self, text: str) -> list[Chunk]:
        chunks, place = [], 0
        for part in text.split("\n\n"):
            if part.strip():
                end = place + len(part)
                index = len(chunks)
                chunks.append(Chunk(text=part, index=index, start_char=place, end_char=end))
            place += len(part) + 2
        return chunks


OPEN: list[CodeParser] = []


@cache
def _parser(size: int) -> CodeParser:
    OPEN.append(CodeParser(Paragraphs(), size))
    return OPEN[-1]


def read(path: str, text: str | bytes, size: int = 200) -> ParsedFile:
    data = text if isinstance(text, bytes) else text.encode()
    return _parser(size).parse(SourceFile(path, "", "", data))


def outline(file: ParsedFile) -> list[str]:
    return [f"{one.kind} {one.qualified_name}" for one in file.symbols[1:]]


def calls(file: ParsedFile) -> list[str]:
    """Who calls what, unresolved."""
    names = [one.qualified_name for one in file.symbols]
    return [
        f"{names[r.scope] or 'module'} -> {r.target}"
        for r in file.facts.references
        if r.kind == "call"
    ]


def edges(files: dict[str, str], kind: str = "call") -> list[SymbolEdge]:
    snapshot = Snapshot({path: read(path, text).facts for path, text in files.items()})
    resolver = Resolver(snapshot)
    return [edge for path in files for edge in resolver.resolve(path) if edge.kind == kind]


def resolved(files: dict[str, str], kind: str = "call") -> list[str]:
    """`caller -> path:callee` of every edge that leads somewhere."""
    return [
        f"{edge.caller.qualified_name} -> {edge.callee.path}:{edge.callee.qualified_name}"
        for edge in edges(files, kind)
        if edge.callee
    ]
