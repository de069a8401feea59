"""ChatGPT: the export of all conversations.

A conversation is a tree: an edited question or a second answer starts another branch. What the user
sees is the branch that ends in `current_node`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

from zapomni_core.adapters.sources import (
    FoundFile,
    Item,
    SkippedRecord,
    SourceEnvironment,
)
from zapomni_core.adapters.sources.chat_exports import (
    conversation,
    find_exports,
    read_records,
)
from zapomni_core.adapters.sources.foreign import parse_mapping, read_time, skip_damage
from zapomni_core.adapters.sources.json_stream import UNREADABLE

__all__ = ["SOURCE"]

_PARTS = re.compile(r"conversations(?:[-_.]?\d+)?\.json")
_SPEAKERS = {"user": "User", "assistant": "ChatGPT"}


class _ChatGPT:
    name = "chatgpt"
    title = "ChatGPT conversations"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        return find_exports(environment, _PARTS, _accepts)

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - no offsets
        return skip_damage(_read_export(file))


SOURCE = _ChatGPT()


def _accepts(stream: IO[bytes]) -> bool:
    head = stream.read(1 << 16)
    return b'"mapping"' in head and b'"chat_messages"' not in head


def _read_export(file: FoundFile) -> Iterator[Item]:
    for record in read_records(file, _PARTS):
        items = list(_read_conversation(record))
        # Its tree is large, and not needed while the texts are stored.
        del record
        yield from items


def _read_conversation(record: Any) -> Iterator[Item]:
    if not isinstance(record, dict):
        yield SkippedRecord("too long" if record is UNREADABLE else "not a conversation")
        return
    number = record.get("conversation_id") or record.get("id")
    mapping, node = record.get("mapping"), record.get("current_node")
    if not isinstance(number, str) or not number or not isinstance(mapping, dict):
        yield SkippedRecord("not a conversation")
        return
    messages, first = [], None
    visited = set()
    while isinstance(node, str) and node in mapping and node not in visited:
        visited.add(node)
        entry = parse_mapping(mapping[node])
        message = parse_mapping(entry.get("message"))
        first = read_time(message.get("create_time")) or first
        if said := _said(message):
            messages.append(said)
        node = entry.get("parent")
    title = record.get("title")
    yield from conversation(
        number,
        title.strip() if isinstance(title, str) else "",
        read_time(record.get("create_time")) or first or read_time(record.get("update_time")),
        messages[::-1],
    )


def _said(message: dict[str, Any]) -> tuple[str, str] | None:
    speaker = _SPEAKERS.get(str(parse_mapping(message.get("author")).get("role")))
    hidden = parse_mapping(message.get("metadata")).get("is_visually_hidden_from_conversation")
    content = parse_mapping(message.get("content"))
    if speaker is None or hidden or content.get("content_type") not in ("text", "multimodal_text"):
        return None
    parts = content.get("parts")
    # Other parts are images and recordings.
    texts = [part for part in (parts if isinstance(parts, list) else []) if isinstance(part, str)]
    return speaker, "\n".join(texts)
