"""What the two exports of chats share: the archive, and a conversation as one document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from zapomni_core.adapters.sources import (
    FoundFile,
    ImportedMemory,
    Item,
    SkippedRecord,
    SourceEnvironment,
    open_regular,
)
from zapomni_core.adapters.sources.foreign import find_named, is_archive, open_member, safe_members
from zapomni_core.adapters.sources.json_stream import stream_json

__all__ = ["conversation", "find_exports", "read_records"]

# A reply is there to be found again; the tenth page of a generated text finds nothing.
MAX_REPLY = 4000
# A document of a conversation: what is longer is several, so that none is large in memory.
MAX_PART = 500_000


def find_exports(
    environment: SourceEnvironment, names: re.Pattern[str], accepts: Callable[[IO[bytes]], bool]
) -> list[FoundFile]:
    """Return the exports that the user named, otherwise those in the folder of downloads."""

    def is_export(path: Path) -> bool:
        for part in parts_of(path, names):
            with open_part(path, part) as stream:
                return accepts(stream)
        return False

    downloads = environment.home / "Downloads"
    usual = sorted([*downloads.glob("*.zip"), *downloads.glob("*/conversations*.json")])
    return find_named(
        environment, usual, is_export, "the .zip of the export, or its conversations.json",
        ".zip", ".json",
    )  # fmt: skip


def parts_of(path: Path, names: re.Pattern[str]) -> list[str]:
    """Return the names of the files in an export, "" if it is a plain file."""
    if is_archive(path):
        return sorted(name for name in safe_members(path) if names.fullmatch(name.split("/")[-1]))
    return [""] if names.fullmatch(path.name) else []


@contextmanager
def open_part(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open one file of an export, as a stream."""
    if name:
        with open_member(path, safe_members(path)[name]) as stream:
            yield stream
    else:
        with open_regular(path) as stream:
            yield stream


def read_records(file: FoundFile, names: re.Pattern[str]) -> Iterator[Any]:
    """Yield the elements of an export's files, one in memory at a time."""
    members = safe_members(file.path) if is_archive(file.path) else {}
    before = 0
    for name in parts_of(file.path, names):
        packed = members[name].compress_size if name else file.bytes
        share = packed / max(1, members[name].file_size) if name else 1.0
        with open_part(file.path, name) as stream:
            for element in map(list, stream_json(stream)):
                file.progress.bytes = before + int(stream.tell() * share)
                # Handed on, not referred to.
                yield element.pop()
        before += packed


def conversation(
    native_id: str,
    title: str,
    when: datetime | None,
    messages: list[tuple[str, str]],
) -> Iterator[Item]:
    """Yield a conversation as one document, a very long one as several: who said what."""
    parts: list[list[str]] = [[]]
    size = 0
    for speaker, text in messages:
        said = text.strip()
        if speaker != "User" and len(said) > MAX_REPLY:
            said = said[:MAX_REPLY].rstrip() + " […]"
        while said:
            if size and size + len(said) > MAX_PART:
                parts.append([])
                size = 0
            parts[-1].append(f"{speaker}: {said[:MAX_PART]}")
            size += len(said[:MAX_PART])
            said = said[MAX_PART:]
    if not parts[0]:
        yield SkippedRecord("conversation without text")
        return
    for number, texts in enumerate(parts):
        yield ImportedMemory(
            f"{native_id}#{number + 1}" if number else native_id,
            "\n\n".join(texts),
            "conversation",
            title=title,
            when=when,
            parent=native_id,
            position=number,
            follows=True,
        )
