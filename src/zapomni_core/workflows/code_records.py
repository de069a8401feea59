"""What is stored for a file of code: the memory it is, and what stands in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from zapomni_core.modules.codebase import ParsedFile, SourceFile, first_characters
from zapomni_core.shared.redaction import Redactor
from zapomni_core.shared.text import context_words
from zapomni_db.code_models import (
    CODE_KIND,
    CodeFile,
    CodeRepository,
    FileData,
    PassagePlace,
    SymbolRow,
)
from zapomni_db.models import ChunkData, Embedding, EmbeddingSpace, MemoryData

__all__ = ["Read", "file_data", "memory_data", "passage_digest", "read_masked"]


@dataclass(frozen=True)
class Read:
    """A file that was read and parsed."""

    source: SourceFile
    parsed: ParsedFile
    """Without secrets in what is stored of it; its hashes are those of the file as it is."""
    text: str
    """The file, every secret covered, everything else where it was."""


def read_masked(source: SourceFile, parsed: ParsedFile, redactor: Redactor) -> Read:
    """Cover the secrets of a file: in its text, its passages and what its symbols say.

    Covers are as long as what they cover, so that every line and offset stays right. Hashes are
    left as they are: citations compare them with the file on the disk.
    """
    text = source.data.decode("utf-8", "replace")
    spans = redactor.find(text)
    if not spans:
        return Read(source, parsed, text)
    masked = redactor.mask_in_place(text, spans)
    # A short password or a word may be part of other words; where it is one, it is found again.
    found = {text[start:end]: masked[start:end] for start, end, _ in spans}
    secrets = {one: cover for one, cover in found.items() if len(one) >= 8 and not one.isalpha()}

    def cover(words: str) -> str:
        for secret, covered in secrets.items():
            words = words.replace(secret, covered)
        return redactor.mask_in_place(words, redactor.find(words))

    starts = first_characters(source.data, parsed.chunks)
    chunks = []
    for chunk, start in zip(parsed.chunks, starts, strict=True):
        end = start + len(chunk.text)
        whole = text[start:end] == chunk.text
        words = masked[start:end] if whole else cover(chunk.text)
        chunks.append(chunk._replace(text=words, context=cover(chunk.context)))
    symbols = [
        symbol._replace(
            signature=cover(symbol.signature),
            docstring=cover(symbol.docstring),
            decorators=tuple(map(cover, symbol.decorators)),
        )
        for symbol in parsed.symbols
    ]
    facts = parsed.packed_facts
    for secret, covered in secrets.items():
        # Facts are JSON: what is in a string there may be escaped.
        facts = facts.replace(secret, covered)
    return Read(
        source,
        parsed._replace(chunks=tuple(chunks), symbols=tuple(symbols), packed_facts=facts),
        masked,
    )


def passage_digest(text: str) -> str:
    """Identify a passage of a file by its exact text."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def memory_data(
    repository: CodeRepository,
    file: CodeFile,
    read: Read,
    made: Mapping[str, Embedding],
    space: EmbeddingSpace | None,
    *,
    pinned: bool,
) -> MemoryData:
    """Return the memory that a file is."""
    parsed = read.parsed
    chunks = _chunks(read, made)
    # Not validated: its passages are, one by one, when they are made.
    return MemoryData.model_construct(
        memory_id=file.memory_id,
        text=read.text,
        chunks=chunks,
        metadata={
            "repository": repository.root,
            "language": parsed.language,
            "content_hash": parsed.content_hash,
        },
        timestamp=datetime.now(UTC),
        project=repository.project,
        source=parsed.path,
        kind=CODE_KIND,
        tags=[repository.tag, f"lang:{parsed.language}"],
        pinned=pinned,
        # Equal files stay apart, and passages stand beside those of their own file only.
        parent=f"{repository.root.rstrip('/')}/{parsed.path}",
        space=space if any(chunk.embedding is not None for chunk in chunks) else None,
    )


def _chunks(read: Read, made: Mapping[str, Embedding]) -> list[ChunkData]:
    chunks: list[ChunkData] = []
    passages = read.parsed.chunks
    starts = first_characters(read.source.data, passages)
    for index, (chunk, char) in enumerate(zip(passages, starts, strict=True)):
        vector = made.get(chunk.text)
        chunks.append(
            ChunkData(
                text=chunk.text,
                index=index,
                start_char=char,
                end_char=char + len(chunk.text),
                embedding=vector.vector if vector else None,
                tokens=vector.tokens if vector else None,
                context=f"{chunk.context} {context_words(f'{chunk.context} {chunk.text}')}",
            )
        )
    return chunks


def file_data(file: CodeFile, read: Read) -> FileData:
    """Return what is kept beside the memory: symbols, places of passages, facts."""
    parsed = read.parsed
    return FileData(
        key=file.key,
        stamp=read.source.stamp,
        content_hash=parsed.content_hash,
        language=parsed.language,
        lines=parsed.lines,
        has_errors=parsed.has_errors,
        symbols=tuple(map(SymbolRow._make, parsed.symbols)),
        passages=tuple(
            PassagePlace(passage_digest(c.text), c.symbol, c.start_line, c.end_line)
            for c in parsed.chunks
        ),
        facts=parsed.packed_facts,
        mentions=parsed.mentions,
    )
