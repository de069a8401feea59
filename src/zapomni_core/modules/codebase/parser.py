"""Has files parsed by a process of its own, which a bad file may take down and nothing else."""

from __future__ import annotations

import importlib.util
import os
import pickle
import selectors
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self

from zapomni_core.exceptions import ProcessingError
from zapomni_core.modules.codebase.child import (
    FILE,
    READY,
    STRUCTURE,
    read_message,
    unpack_file,
    unpack_structure,
    write_message,
)
from zapomni_core.modules.codebase.languages import language_of, require_grammar
from zapomni_core.modules.codebase.models import ParsedFile, SourceChunk, SourceFile
from zapomni_core.modules.codebase.parse import (
    PROSE,
    FileStructure,
    Lines,
    context_line,
    parse_code,
    parse_structure,
)
from zapomni_db.models import Chunk

if TYPE_CHECKING:
    from zapomni_core.interfaces import TextChunker

__all__ = ["ASTChunker", "CodeParser", "first_characters"]


CHUNK_SIZE = 200
# A file takes milliseconds, the worst one some seconds.
PATIENCE = 60.0
GOODBYE = 5.0


class CodeParser:
    """Parses files, one at a time; a context manager, because a process runs behind it.

    Args:
        chunker: Cuts prose: Markdown, and text of which no grammar is known.
        size: The most tokens in a passage of code, its context line included.
    """

    def __init__(self, chunker: TextChunker, size: int = CHUNK_SIZE) -> None:
        self._chunker = chunker
        self._size = size
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop(GOODBYE)

    def parse(self, source: SourceFile) -> ParsedFile:
        """Read a file's symbols, passages and facts.

        A file on which the parser breaks or takes too long is read as plain text.

        Raises:
            ProcessingError: The extra `code` is not installed (CODE_003), or no process could be
                started (CODE_004).
        """
        language = language_of(source.path, source.data)
        file = None
        if language != "text":
            require_grammar(language)
            answer = self._ask(FILE, source, language)
            file = unpack_file(answer, source) if answer else None
        if file is None:
            file = parse_code(source, "text", self._size)
            file = file._replace(has_errors=language != "text")
        if file.language in PROSE:
            file = file._replace(chunks=_prose(file, source.data, self._chunker))
        return file

    def read_structure(self, source: SourceFile) -> FileStructure:
        """Read a file's symbols and their structure; raises as `parse`."""
        language = language_of(source.path, source.data)
        if language != "text":
            require_grammar(language)
            if answer := self._ask(STRUCTURE, source, language):
                return unpack_structure(answer)
        return parse_structure(source, "text")

    def _ask(self, wanted: str, source: SourceFile, language: str) -> bytes:
        request = pickle.dumps((wanted, source.path, language, source.data), protocol=5)
        answer = b""
        if self._send(request) or self._send(request):  # It may have died since it last answered.
            answer = self._receive()
        if not answer:
            self._stop()
        return answer

    def _send(self, request: bytes) -> bool:
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            write_message(process.stdin, request)
        except OSError:
            self._stop()
            return False
        return True

    def _receive(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        # Not `select.select`, which refuses descriptors above 1023.
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            ready = selector.select(PATIENCE)
        return read_message(self._process.stdout) if ready else b""

    def _start(self) -> subprocess.Popen[bytes]:
        # Without -P a file named pickle.py in the folder we were started in would be run.
        module = "zapomni_core.modules.codebase.child"
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-P", "-m", module, str(self._size), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us to handle.
        )
        if self._receive() != READY:
            self._stop()
            raise ProcessingError("The process that parses code could not be started", "CODE_004")
        return self._process

    def _stop(self, patience: float = 0.0) -> None:
        """End the process; it ends by itself when there is nothing more to read."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.close()
        except OSError:
            patience = 0.0  # It is gone, and with it what it was not sent any more.
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _prose(file: ParsedFile, data: bytes, chunker: TextChunker) -> tuple[SourceChunk, ...]:
    """Cut a text as any other text is cut; a passage belongs to the section it begins in."""
    text = data.decode("utf-8", "replace")
    lines = Lines(data)
    chunks = []
    char = byte = 0
    for chunk in chunker.chunk(text):
        # Bytes are counted from where the last passage began: they come in order.
        start = byte + len(text[char : chunk.start_char].encode())
        end = start + len(text[chunk.start_char : chunk.end_char].encode())
        char, byte = chunk.start_char, start
        owner = 0
        for number, symbol in enumerate(file.symbols):
            if symbol.start_byte <= start < symbol.end_byte:
                owner = number
        context = context_line(file.path, file.symbols[owner], with_signature=False)
        chunks.append(
            SourceChunk(chunk.text, context, owner, lines.of(start), lines.of(end - 1), start, end)
        )
    return tuple(chunks)


# --- Cuts the text of a single file, as the index cuts those of a repository ----------


class ASTChunker:
    """A TextChunker that cuts code at its functions and classes, and other text as before.

    Args:
        path: The file's name, which decides the language.
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
