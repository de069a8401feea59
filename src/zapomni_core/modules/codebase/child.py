"""The process that parses: `python -m zapomni_core.modules.codebase.child SIZE PARENT`.

It reads files from its standard input and writes what it found to its standard output, each as a
length and that many bytes, until its input ends.
"""

from __future__ import annotations

import gc
import pickle
import sys
from functools import partial
from typing import IO

from zapomni_core.infra.child import end_with_parent, limit_memory
from zapomni_core.modules.codebase.models import ParsedFile, SourceChunk, SourceFile, Symbol
from zapomni_core.modules.codebase.parse import (
    FileStructure,
    SymbolShape,
    parse_code,
    parse_structure,
)

__all__ = [
    "FILE",
    "READY",
    "STRUCTURE",
    "pack_file",
    "pack_structure",
    "read_message",
    "serve",
    "unpack_file",
    "unpack_structure",
    "write_message",
]


LENGTH = 8
READY = b"ready"
# What is wanted of a file: all that is indexed, or the structure of its symbols.
FILE, STRUCTURE = "file", "structure"
# Some grammars take gigabytes for a few kilobytes of nonsense. A file of code takes megabytes.
MAX_MEMORY = 2 << 30
COLLECT_EVERY = 200

_symbol = partial(tuple.__new__, Symbol)


def serve(requests: IO[bytes], answers: IO[bytes], size: int) -> None:
    """Say that we are here, then answer until there is nothing more to read."""
    write_message(answers, READY)
    count = 0
    while request := read_message(requests):
        wanted, path, language, data = pickle.loads(request)  # noqa: S301 - our parent's own words
        source = SourceFile(path, "", "", data)
        if wanted == STRUCTURE:
            answer = pack_structure(parse_structure(source, language))
        else:
            answer = pack_file(parse_code(source, language, size))
        write_message(answers, answer)
        count += 1
        if count % COLLECT_EVERY == 0:
            gc.collect()


def pack_file(file: ParsedFile) -> bytes:
    """Write what was read, as plain tuples: to pickle named ones takes four times as long.

    Who asked has the file, so the texts of its passages are left out.
    """
    symbols = tuple(map(tuple, file.symbols))
    chunks = tuple([chunk[1:] for chunk in file.chunks])
    rest = (file.packed_facts, file.mentions, file.has_errors)
    return pickle.dumps((file.language, file.lines, symbols, chunks, rest), protocol=5)


def unpack_file(answer: bytes, source: SourceFile) -> ParsedFile:
    """Read what `pack_file` wrote about a file.

    Who can make the process write what it should not gains nothing by it.
    """
    language, lines, symbols, chunks, rest = pickle.loads(answer)  # noqa: S301
    data = source.data
    return ParsedFile(
        source.path,
        language,
        lines,
        source.content_hash,
        tuple(map(_symbol, symbols)),
        tuple([SourceChunk(data[c[-2] : c[-1]].decode("utf-8", "replace"), *c) for c in chunks]),
        *rest,
    )


def pack_structure(structure: FileStructure) -> bytes:
    """Write what was read of a file's structure, as plain tuples."""
    symbols = tuple(map(tuple, structure.symbols))
    shapes = tuple(map(tuple, structure.shapes))
    return pickle.dumps((symbols, shapes, structure.rows), protocol=5)


def unpack_structure(answer: bytes) -> FileStructure:
    """Read what `pack_structure` wrote."""
    symbols, shapes, rows = pickle.loads(answer)  # noqa: S301
    return FileStructure(
        tuple(map(_symbol, symbols)), tuple(SymbolShape(*one) for one in shapes), rows
    )


def read_message(stream: IO[bytes]) -> bytes:
    """Return the next message, b"" if the other side is gone."""
    length = int.from_bytes(stream.read(LENGTH), "big")
    message = stream.read(length) if length else b""
    return message if len(message) == length else b""


def write_message(stream: IO[bytes], message: bytes) -> None:
    """Write a message at once."""
    stream.write(len(message).to_bytes(LENGTH, "big") + message)
    stream.flush()


if __name__ == "__main__":
    end_with_parent(int(sys.argv[2]))
    limit_memory(MAX_MEMORY)
    # Little of what parsing makes refers to itself: looking for it takes a sixth of the time.
    gc.disable()
    gc.freeze()
    serve(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]))
