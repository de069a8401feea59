"""Cuts the text of a single file, as the index cuts those of a repository."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from zapomni_core.modules.codebase._languages import language_of
from zapomni_core.modules.codebase._models import SourceChunk, SourceFile
from zapomni_core.modules.codebase._parse import PROSE
from zapomni_core.modules.codebase._process import CodeParser
from zapomni_db.models import Chunk

if TYPE_CHECKING:
    from zapomni_core.interfaces import TextChunker

__all__ = ["ASTChunker", "first_characters"]


class ASTChunker:
    """A TextChunker that cuts code at its functions and classes, and other text as before.

    Args:
        path: The file's name, which tells the language.
        chunker: Cuts what is no code, and code while the extra `code` is not installed.
        size: The most tokens in a passage.
    """

    def __init__(self, path: str, chunker: TextChunker, size: int) -> None:
        self._path = path
        self._chunker = chunker
        self._size = size

    def chunk(self, text: str) -> list[Chunk]:
        """Cut a text into passages, in order."""
        data = text.encode("utf-8", "replace")
        is_prose = language_of(self._path, data) in PROSE
        if is_prose or importlib.util.find_spec("tree_sitter") is None:
            return self._chunker.chunk(text)
        with CodeParser(self._chunker, self._size) as parser:
            passages = parser.parse(SourceFile(self._path, "", "", data)).chunks
        if not passages:
            return self._chunker.chunk(text)
        starts = first_characters(data, passages)
        return [
            Chunk(text=one.text, index=index, start_char=start, end_char=start + len(one.text))
            for index, (one, start) in enumerate(zip(passages, starts, strict=True))
        ]


def first_characters(data: bytes, passages: Iterable[SourceChunk]) -> Iterator[int]:
    """Yield where each passage begins, counted in characters."""
    is_ascii = data.isascii()
    byte = char = 0
    for passage in passages:
        # Passages come in order, so characters are counted from the last one on.
        between = data[byte : passage.start_byte]
        char += len(between if is_ascii else between.decode("utf-8", "replace"))
        byte = passage.start_byte
        yield char
