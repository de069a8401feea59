"""What is stored for a file of code: the memory it is, and what stands in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from zapomni_core.modules.codebase import ParsedFile, SourceFile, first_characters
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

__all__ = ["Read", "file_data", "memory_data", "passage_digest"]


@dataclass(frozen=True)
class Read:
    """A file that was read and parsed."""

    source: SourceFile
    parsed: ParsedFile


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
        text=read.source.data.decode("utf-8", "replace"),
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
