"""Gemini CLI: its recorded chats.

A chat is a log of changes: a message is written again when it changes, and may be taken back. So
the log is read once for what is left of it and where, and a second time for the messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from zapomni_core.adapters.sources import (
    FoundFile,
    ImportedEvent,
    ImportedMemory,
    Item,
    SkippedRecord,
    SourceEnvironment,
    open_regular,
    parse_object,
    read_lines,
)
from zapomni_core.adapters.sources.foreign import (
    find_named,
    parse_mapping,
    read_text,
    read_time,
)
from zapomni_core.adapters.sources.json_stream import UNREADABLE, stream_json

__all__ = ["SOURCE"]

# What a tool call is once it has ended; others are still running in the file as it is now.
_ENDED = frozenset(["success", "error", "cancelled"])


class _Gemini:
    name = "gemini"
    title = "Gemini CLI sessions"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        base = environment.home / ".gemini" / "tmp"
        usual = [
            *sorted(base.glob("*/chats/session-*.json*")),
            *sorted(base.glob("*/chats/*/*.jsonl")),
        ]
        found = find_named(
            environment, usual, _accepts,
            "a folder of Gemini CLI, such as ~/.gemini/tmp, or one of its chats", ".jsonl", ".json",
        )  # fmt: skip
        roots = _project_roots(environment.home / ".gemini" / "projects.json")
        return [
            FoundFile(file.path, file.bytes, file.newest, file.oldest, data={"roots": roots})
            for file in found
        ]

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - see above
        with open_regular(file.path) as stream:
            header, messages = _read_messages(stream, file.path)
            session = header.get("sessionId")
            folder = _folder(file, header)
            if not isinstance(session, str) or not session:
                yield SkippedRecord("chat without a session")
                return
            if not folder:
                yield SkippedRecord("session without a folder")
                return
            yield from _replay(header, messages, session, folder)


SOURCE = _Gemini()


def _accepts(path: Path) -> bool:
    with open_regular(path) as stream:
        head = stream.read(4096)
    return b'"sessionId"' in head and (b'"projectHash"' in head or b'"startTime"' in head)


def _project_roots(registry: Path) -> dict[str, str]:
    """Return the folders of projects by the short names that their chats have."""
    try:
        listed = parse_mapping(read_text(registry, 1_000_000)).get("projects")
    except OSError:
        return {}
    names = listed if isinstance(listed, dict) else {}
    return {slot: folder for folder, slot in names.items() if isinstance(slot, str)}


def _folder(file: FoundFile, header: dict[str, Any]) -> str:
    slot = next((p.parent for p in file.path.parents if p.name == "chats"), file.path.parent)
    try:
        if root := read_text(slot / ".project_root", 4096).strip():
            return root
    except OSError:
        pass
    directories = header.get("directories")
    if isinstance(directories, list) and directories and isinstance(directories[0], str):
        return directories[0]
    found: str = file.data["roots"].get(slot.name, "")
    return found


def _read_messages(
    stream: IO[bytes], path: Path
) -> tuple[dict[str, Any], Iterator[dict[str, Any] | SkippedRecord]]:
    """Return what is known of a chat, and an iterator over the messages that are left of it."""
    if path.suffix == ".json":
        header = {
            name: value
            for name, value in stream_json(stream)
            if name != "messages" and value is not UNREADABLE
        }
        return header, _messages_of_document(stream)
    header = {}
    # Where each message is that is left: by its id, in the order of the first copies.
    places: dict[str, tuple[int, int]] = {}
    skipped = []
    for line in read_lines(stream):
        record = parse_object(line.data)
        if record is None:
            if line.is_whole:
                skipped.append(SkippedRecord("too long" if line.is_too_long else "not JSON"))
        elif isinstance(record.get("$set"), dict):
            changes = record["$set"]
            listed = changes.pop("messages", None)
            header |= changes
            if isinstance(listed, list):
                places = {
                    one["id"]: (line.start, number)
                    for number, one in enumerate(listed)
                    if isinstance(one, dict) and isinstance(one.get("id"), str)
                }
        elif "$rewindTo" in record:
            kept = list(places)
            target = record["$rewindTo"]
            kept = kept[: kept.index(target)] if target in places else []
            places = {name: places[name] for name in kept}
        elif isinstance(record.get("id"), str) and "type" in record:
            places[record["id"]] = (line.start, -1)
        elif "sessionId" in record:
            header |= record
        else:
            skipped.append(SkippedRecord("unknown type of record"))
    return header, _messages_of_log(stream, places, skipped)


def _messages_of_document(stream: IO[bytes]) -> Iterator[dict[str, Any] | SkippedRecord]:
    stream.seek(0)
    for name, message in stream_json(stream):
        if name == "messages":
            yield message if isinstance(message, dict) else SkippedRecord("not a message")


def _messages_of_log(
    stream: IO[bytes], places: dict[str, tuple[int, int]], skipped: list[SkippedRecord]
) -> Iterator[dict[str, Any] | SkippedRecord]:
    yield from skipped
    at, record = -1, None
    for start, number in places.values():
        if start != at:
            at, record = start, parse_object(next(read_lines(stream, start)).data)
        if record is not None:
            yield record if number < 0 else record["$set"]["messages"][number]


def _replay(
    header: dict[str, Any],
    messages: Iterator[dict[str, Any] | SkippedRecord],
    session: str,
    folder: str,
) -> Iterator[Item]:
    def event(number: str, when: Any, name: str, **fields: Any) -> ImportedEvent:
        payload = {"hook_event_name": name, "session_id": session, "cwd": folder, **fields}
        return ImportedEvent(
            f"{session}/{number}", "gemini", payload, session, folder, read_time(when)
        )

    is_agent = header.get("kind") == "subagent"
    yield event("start", header.get("startTime"), "SessionStart", source="startup")
    reply: ImportedEvent | None = None
    last: Any = header.get("startTime")
    for message in messages:
        if isinstance(message, SkippedRecord):
            yield message
            continue
        kind, number, when = message.get("type"), message.get("id"), message.get("timestamp")
        last = when or last
        if kind == "user" and isinstance(number, str):
            if reply is not None:
                yield reply
                reply = None
            text = _words(message.get("content"))
            # What an agent is asked comes from another agent, and a command is for the host.
            if is_agent or not text.strip() or text.startswith(("/", "?")):
                yield SkippedRecord("not a prompt of the user")
            else:
                yield event(number, when, "BeforeAgent", prompt=text)
        elif kind == "gemini" and isinstance(number, str):
            calls = message.get("toolCalls")
            for call in calls if isinstance(calls, list) else []:
                if isinstance(call, dict):
                    yield _tool(call, number, when, event)
            text = _words(message.get("content"))
            if text.strip() and not is_agent:
                reply = event(f"{number}/reply", when, "AfterAgent", prompt_response=text)
        else:
            yield SkippedRecord("message of the host" if kind else "unknown type of record")
    if reply is not None:
        yield reply
    scratch = header.get("memoryScratchpad")
    summary = scratch.get("workflowSummary") if isinstance(scratch, dict) else None
    summary = summary or header.get("summary")
    if isinstance(summary, str) and summary.strip():
        yield ImportedMemory(
            f"{session}/summary", summary.strip(), "summary", when=read_time(last),
            folder=folder, parent=session, follows=True, session_id=session,
        )  # fmt: skip


def _tool(call: dict[str, Any], number: str, when: Any, event: Any) -> Item:
    name, status = call.get("name"), call.get("status")
    if not isinstance(name, str) or status not in _ENDED:
        return SkippedRecord("tool that had not ended")
    if status == "cancelled":
        return SkippedRecord("tool that was cancelled")
    output, error = _answer(call.get("result"))
    display = call.get("resultDisplay")
    response: dict[str, Any] = {"llmContent": output}
    if isinstance(display, str):
        response["returnDisplay"] = display
    if status == "error":
        said = error or output or (display if isinstance(display, str) else "") or "failed"
        response["error"] = {"message": said}
    made: ImportedEvent = event(
        f"{number}/{call.get('id') or name}",
        call.get("timestamp") or when,
        "AfterTool",
        tool_name=name,
        tool_input=call.get("args") if isinstance(call.get("args"), dict) else {},
        tool_response=response,
    )
    return made


def _answer(result: Any) -> tuple[str, str]:
    """Return what a tool gave and what it failed with, out of the parts sent to the model."""
    outputs: list[str] = []
    errors: list[str] = []
    for part in result if isinstance(result, list) else [result]:
        given = part.get("functionResponse") if isinstance(part, dict) else None
        response = given.get("response") if isinstance(given, dict) else None
        if isinstance(response, dict):
            for name, texts in (("output", outputs), ("error", errors)):
                if isinstance(value := response.get(name), str):
                    texts.append(value)
                elif value is not None:
                    texts.append(json.dumps(value))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            outputs.append(part["text"])
        elif isinstance(part, str):
            outputs.append(part)
    return "\n".join(outputs), "\n".join(errors)


def _words(content: Any) -> str:
    if isinstance(content, dict):
        content = [content]
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "\n".join(part for part in parts if isinstance(part, str) and part)
    return content if isinstance(content, str) else ""
