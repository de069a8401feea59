"""The prompts that a host keeps of all sessions: what is left of those it has deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from zapomni_core.adapters.sources import (
    FoundFile,
    ImportedEvent,
    Item,
    SkippedRecord,
    open_regular,
    parse_object,
    read_lines,
)

__all__ = ["HISTORY", "KeptPrompt", "read_history"]

HISTORY = "history.jsonl"


class KeptPrompt(NamedTuple):
    """What a line says."""

    session_id: str
    folder: str
    text: str
    seconds: float


def read_history(
    file: FoundFile, offset: int, host: str, parse: Callable[[dict[str, Any]], KeptPrompt | str]
) -> Iterator[Item]:
    """Yield the prompts; `parse` returns what a line says, or why it is left out."""
    with open_regular(file.path) as stream:
        for line in read_lines(stream, offset):
            record = parse_object(line.data)
            if record is None and not line.is_whole:
                yield SkippedRecord("half a line at the end", resume=line.start)
                return
            if record is None:
                reason = "line of more than 16 MB" if line.is_too_long else "damaged line"
                yield SkippedRecord(reason, resume=line.end)
                continue
            said = parse(record)
            if isinstance(said, str):
                yield SkippedRecord(said, resume=line.end)
                continue
            try:
                when = datetime.fromtimestamp(said.seconds, UTC)
            except (ValueError, OverflowError, OSError):
                yield SkippedRecord("prompt without a time", resume=line.end)
                continue
            payload = {
                "hook_event_name": "UserPromptSubmit",
                "prompt": said.text,
                "session_id": said.session_id,
                "cwd": said.folder,
            }
            digest = sha256(said.text.encode("utf-8", "replace")).hexdigest()[:16]
            yield ImportedEvent(
                f"history/{said.session_id}/{said.seconds:.3f}/{digest}",
                host,
                payload,
                said.session_id,
                said.folder,
                when,
                is_remnant=True,
                resume=line.end,
            )
