"""Aider: the history of chats that it writes into a repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from zapomni_core.adapters.sources import (
    FoundFile,
    ImportedEvent,
    Item,
    SkippedRecord,
    SourceEnvironment,
    open_regular,
    read_lines,
)
from zapomni_core.adapters.sources.foreign import find_named, short_hash

__all__ = ["SOURCE"]

HISTORY = ".aider.chat.history.md"
_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
_EDITED = re.compile(r"> Applied edit to (\S.*?)\s*$")
# Everything of one turn that is not the user's, at most: the rest of a reply is left out.
MAX_REPLY = 100_000


class _Aider:
    name = "aider"
    title = "Aider chats"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        named = environment.environ.get("AIDER_CHAT_HISTORY_FILE")
        usual = [environment.folder / (named or HISTORY)]
        folder = environment.folder
        usual += [parent / HISTORY for parent in folder.parents if (parent / ".git").exists()][:1]
        return find_named(
            environment, usual, _accepts, f"a repository with {HISTORY}, or that file",
            HISTORY, ".history.md",
        )  # fmt: skip

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - see _replay
        return _replay(file.path)


SOURCE = _Aider()


def _accepts(path: Path) -> bool:
    with open_regular(path) as stream:
        return b"# aider chat started at " in stream.read(65536)


class _AiderTurn:
    def __init__(self) -> None:
        self.prompt: list[str] = []
        self.edited: list[str] = []
        self.reply: list[str] = []
        self.length = 0
        self.is_asked = False


def _replay(path: Path) -> Iterator[Item]:
    """Read the chats; the last prompt counts once something follows it, it may still be written."""
    folder = str(path.parent)
    # A chat is known by when it began, and where: the folder's name, it may move.
    identity = short_hash(path.parent.name)
    session, when, number = "", None, 0
    turn = _AiderTurn()

    def events() -> Iterator[ImportedEvent]:
        texts: list[tuple[str, dict[str, Any]]] = []
        if prompt := "\n".join(turn.prompt).strip():
            texts.append(("prompt", {"text": prompt}))
        texts += [("edit", {"path": edited}) for edited in turn.edited]
        if reply := "\n".join(turn.reply).strip():
            texts.append(("reply", {"text": reply}))
        for place, (name, fields) in enumerate(texts):
            payload = {
                "host": "aider",
                "event": name,
                "session_id": session,
                "cwd": folder,
                # Only when the chat began is known, and it has no seconds within.
                **fields,
            }
            yield ImportedEvent(
                f"{session}/{number}/{name}{place}", "generic", payload, session, folder, when
            )

    with open_regular(path) as stream:
        for line in read_lines(stream):
            if not line.is_whole:
                break
            if line.is_too_long:
                yield SkippedRecord("too long")
                continue
            text = line.data.decode("utf-8", "replace")
            if start := _START.match(text):
                yield from events()
                turn, number = _AiderTurn(), 0
                # Local time without a zone: that of this machine, as far as can be known.
                when = _local(start[1])
                session = f"aider-{identity}-{start[1].replace(' ', 'T')}"
            elif not session:
                yield SkippedRecord("before the first chat")
            elif text.startswith("#### "):
                if turn.is_asked:
                    yield from events()
                    turn, number = _AiderTurn(), number + 1
                turn.prompt.append(text[5:].strip())
            else:
                turn.is_asked = turn.is_asked or bool(turn.prompt)
                if edited := _EDITED.match(text):
                    turn.edited.append(edited[1])
                elif not text.startswith("> ") and turn.prompt and turn.length < MAX_REPLY:
                    turn.reply.append(text)
                    turn.length += len(text)
    if turn.is_asked:
        turn.reply.clear()
        yield from events()


def _local(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None
