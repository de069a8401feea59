"""GitHub Copilot CLI: the events of its sessions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from zapomni_core.adapters.sources import (
    MAX_LINE,
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
from zapomni_core.adapters.sources.chat_exports import conversation
from zapomni_core.adapters.sources.foreign import (
    find_named,
    first_text,
    parse_mapping,
    read_time,
)

__all__ = ["SOURCE"]

# Starts of tools without an end, at most: they are needed when the end comes.
MAX_RUNNING = 1000


class _Copilot:
    name = "copilot"
    title = "Copilot CLI sessions"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        folder = environment.environ.get("COPILOT_HOME")
        base = Path(folder) if folder else environment.home / ".copilot"
        usual = sorted(base.glob("session-state/*/events.jsonl"))
        usual += sorted(base.glob("session-state/*.jsonl"))
        usual += sorted(base.glob("history-session-state/*.json"))
        return find_named(
            environment, usual, _accepts,
            "a folder of Copilot CLI, such as ~/.copilot/session-state, or an events.jsonl",
            ".jsonl", ".json",
        )  # fmt: skip

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - see _replay
        return _read_old(file) if file.path.suffix == ".json" else _replay(file.path)


SOURCE = _Copilot()


def _accepts(path: Path) -> bool:
    with open_regular(path) as stream:
        if path.suffix == ".json":
            return b'"chatMessages"' in stream.read(1 << 20)
        line = next(read_lines(stream), None)
    record = parse_object(line.data) if line else None
    return record is not None and record.get("type") == "session.start" and "data" in record


def _read_old(file: FoundFile) -> Iterator[Item]:
    """Read a session of the first versions: one object, without the folder it was in.

    So it is no session of a project, but a conversation.
    """
    with open_regular(file.path) as stream:
        data = stream.read(MAX_LINE + 1)
    record = parse_object(data) if len(data) <= MAX_LINE else None
    messages = record.get("chatMessages") if record else None
    if record is None or not isinstance(messages, list):
        yield SkippedRecord("too long" if len(data) > MAX_LINE else "damaged file")
        return
    said = [
        (speaker, text)
        for one in messages
        if isinstance(one, dict)
        and (speaker := {"user": "User", "assistant": "Copilot"}.get(str(one.get("role"))))
        and isinstance(text := one.get("content"), str)
        and text.strip()
    ]
    title = next((text.strip().split("\n")[0][:100] for who, text in said if who == "User"), "")
    session = first_text(record, "sessionId") or file.path.stem
    yield from conversation(session, title, read_time(record.get("startTime")), said)


def _replay(path: Path) -> Iterator[Item]:
    """Read from the start every time: what a tool was given is in another line than its result."""
    session = folder = branch = ""
    running: dict[str, dict[str, Any]] = {}
    reply: ImportedEvent | None = None

    def event(record: dict[str, Any], suffix: str = "", **fields: Any) -> ImportedEvent:
        payload = {"sessionId": session, "cwd": folder, "timestamp": record.get("timestamp")}
        return ImportedEvent(
            f"{session}/{record['id']}{suffix}", "copilot", payload | fields, session, folder,
            read_time(record.get("timestamp")), branch,
        )  # fmt: skip

    with open_regular(path) as stream:
        for line in read_lines(stream):
            record = parse_object(line.data)
            data = record.get("data") if record else None
            if record is None or not isinstance(data, dict):
                if line.is_whole:
                    yield SkippedRecord("too long" if line.is_too_long else "not JSON")
                continue
            kind = record.get("type")
            if not isinstance(record.get("id"), str) or not record["id"]:
                yield SkippedRecord("event without an id")
                continue
            if kind == "session.start":
                context = parse_mapping(data.get("context"))
                session = str(data.get("sessionId") or path.parent.name)
                folder = str(context.get("cwd") or context.get("gitRoot") or "")
                branch = str(context.get("branch") or "")
                if folder:
                    yield event(record, source="new")
            elif not folder:
                yield SkippedRecord("session without a folder")
            elif kind == "user.message":
                if reply is not None:
                    yield reply
                    reply = None
                text = data.get("content")
                if isinstance(text, str) and text.strip():
                    yield event(record, prompt=text)
                else:
                    yield SkippedRecord("without text")
            elif kind == "assistant.message":
                text = data.get("content")
                if isinstance(text, str) and text.strip():
                    # The reply of a turn is its last message. Its hooks have none: the plain form.
                    plain = {"host": "copilot", "event": "reply", "text": text}
                    reply = replace(event(record, session_id=session, **plain), host="generic")
            elif kind == "tool.execution_start":
                if isinstance(number := data.get("toolCallId"), str) and len(running) < MAX_RUNNING:
                    running[number] = data
            elif kind == "tool.execution_complete":
                yield _tool(record, data, running.pop(str(data.get("toolCallId")), None), event)
            elif kind == "session.task_complete":
                text = data.get("summary")
                if isinstance(text, str) and text.strip():
                    yield ImportedMemory(
                        f"{session}/{record['id']}", text.strip(), "summary",
                        when=read_time(record.get("timestamp")), folder=folder, parent=session,
                        session_id=session,
                    )  # fmt: skip
            else:
                yield SkippedRecord("event of the host")
    if reply is not None:
        yield reply


def _tool(
    record: dict[str, Any], data: dict[str, Any], started: dict[str, Any] | None, event: Any
) -> Item:
    if started is None or not isinstance(started.get("toolName"), str):
        return SkippedRecord("result of an unknown tool")
    result = parse_mapping(data.get("result"))
    output = result.get("content") or result.get("detailedContent")
    output = output if isinstance(output, str) else ""
    failed = data.get("success") is False
    error = parse_mapping(data.get("error")).get("message") or data.get("error")
    if failed and not output:
        output = error if isinstance(error, str) else "failed"
    made: ImportedEvent = event(
        record,
        toolName=started["toolName"],
        toolArgs=started.get("arguments") or {},
        toolResult={
            "textResultForLlm": output,
            "resultType": "failure" if failed else "success",
        },
    )
    return made
