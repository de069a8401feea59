"""Claude.ai: the export of conversations and projects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

from zapomni_core.adapters.sources import (
    FoundFile,
    ImportedMemory,
    Item,
    SkippedRecord,
    SourceEnvironment,
)
from zapomni_core.adapters.sources.chat_exports import (
    conversation,
    find_exports,
    read_records,
)
from zapomni_core.adapters.sources.foreign import read_time, short_hash, skip_damage
from zapomni_core.adapters.sources.json_stream import UNREADABLE

__all__ = ["SOURCE"]

# Not `users.json`: it has the account.
_PARTS = re.compile(r"(?:conversations|projects|memories)\.json")
_SPEAKERS = {"human": "User", "assistant": "Claude"}


class _ClaudeAi:
    name = "claude-ai"
    title = "Claude.ai conversations"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        return find_exports(environment, _PARTS, _accepts)

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - no offsets
        return skip_damage(_read_export(file))


SOURCE = _ClaudeAi()


def _accepts(stream: IO[bytes]) -> bool:
    head = stream.read(1 << 16)
    return b'"chat_messages"' in head or b'"conversations_memory"' in head or (
        b'"uuid"' in head and b'"docs"' in head
    )  # fmt: skip


def _read_export(file: FoundFile) -> Iterator[Item]:
    for record in read_records(file, _PARTS):
        if not isinstance(record, dict):
            yield SkippedRecord("too long" if record is UNREADABLE else "not a record")
        elif "chat_messages" in record:
            items = list(_read_conversation(record))
            # It is large, and not needed while the texts are stored.
            del record
            yield from items
        elif isinstance(record.get("docs"), list):
            yield from _read_project(record)
        elif isinstance(record.get("conversations_memory"), str):
            yield from _read_memory(record)
        else:
            yield SkippedRecord("unknown type of record")


def _read_conversation(record: dict[str, Any]) -> Iterator[Item]:
    number, messages = record.get("uuid"), record.get("chat_messages")
    if not isinstance(number, str) or not number or not isinstance(messages, list):
        yield SkippedRecord("not a conversation")
        return
    texts = []
    for message in messages:
        speaker = _SPEAKERS.get(str(message.get("sender"))) if isinstance(message, dict) else None
        if speaker:
            texts.append((speaker, _said(message)))
    title = record.get("name")
    when = read_time(record.get("created_at"), record.get("updated_at"))
    yield from conversation(number, title.strip() if isinstance(title, str) else "", when, texts)


def _said(message: dict[str, Any]) -> str:
    content = message.get("content")
    texts = [
        part["text"]
        for part in (content if isinstance(content, list) else [])
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part["text"], str)
    ]
    plain = message.get("text")
    # `text` of later exports is a rendering that names blocks it could not show.
    if not any(texts) and isinstance(plain, str):
        texts = [plain]
    attached = message.get("attachments")
    for file in attached if isinstance(attached, list) else []:
        body = file.get("extracted_content") if isinstance(file, dict) else None
        if isinstance(body, str) and body.strip():
            texts.append(f"[{file.get('file_name') or 'attachment'}]\n{body}")
    return "\n".join(texts)


def _read_project(record: dict[str, Any]) -> Iterator[Item]:
    number, name = record.get("uuid"), record.get("name")
    for doc in record["docs"]:
        body = doc.get("content") if isinstance(doc, dict) else None
        if not isinstance(body, str) or not body.strip() or not isinstance(number, str):
            yield SkippedRecord("document without text")
            continue
        title = doc.get("filename")
        title = title if isinstance(title, str) else ""
        yield ImportedMemory(
            f"{number}/{doc.get('uuid') or short_hash(title)}", body.strip(), "document",
            title=title, when=read_time(doc.get("created_at"), record.get("created_at")),
            parent=number, metadata={"claude_project": name} if isinstance(name, str) else {},
            follows=True,
        )  # fmt: skip


def _read_memory(record: dict[str, Any]) -> Iterator[Item]:
    """Read what Claude.ai remembers of the user, as one document that follows its changes."""
    text = record["conversations_memory"].strip()
    if text:
        yield ImportedMemory(
            f"memory/{record.get('account_uuid') or ''}", text, "document",
            title="Memory of Claude.ai", project="*", follows=True,
        )  # fmt: skip
    projects = record.get("project_memories")
    for number, body in (projects if isinstance(projects, dict) else {}).items():
        if isinstance(body, str) and body.strip():
            yield ImportedMemory(
                f"memory/{number}", body.strip(), "document", title="Memory of a Claude.ai project",
                follows=True,
            )  # fmt: skip
