"""Transcripts of Claude Code: `projects/<folder>/<session>.jsonl`, and those of its subagents.

A transcript is a log of records, one JSON object a line. The events that hooks would have reported
are put together from it: a tool's call and its result are two records, the answer of a turn is the
last text before the next prompt. What is still open keeps the offset to resume at, so that a file
that grew, or a run that was killed, continues without anything lost.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from zapomni_core.adapters.sources import (
    KNOWN_SESSION,
    FormatError,
    FoundFile,
    ImportedEvent,
    ImportedMemory,
    Item,
    Line,
    SkippedRecord,
    SourceEnvironment,
    find_files,
    open_regular,
    parse_object,
    read_lines,
)
from zapomni_core.adapters.sources.foreign import describe_file, first_text, read_time
from zapomni_core.adapters.sources.prompt_history import HISTORY, KeptPrompt, read_history

__all__ = ["SOURCE"]

HOST = "claude-code"
# What Claude Code keeps a transcript for, if its settings do not say otherwise.
CLEANUP_DAYS = 30
# After so long without a change a session has ended, and its last text is an answer.
QUIET_SECONDS = 3600
# Calls that wait for their results: more than any turn has.
MAX_OPEN, MAX_OPEN_BYTES = 256, 32 * 1024 * 1024
HEAD = 64 * 1024
# Records of a folder in which a title's is looked up: some 100 MB of them.
MAX_INDEXED = 200_000

# Records that only the host itself needs. `attachment` is the output of hooks: perhaps what another
# memory injected.
_OF_THE_HOST = frozenset(
    "agent-name agent-setting atis-latch attachment continued-in file-history-snapshot frame-link "
    "last-prompt mode permission-mode progress relocated system tag".split()
)
_TITLES = {"summary": 0, "ai-title": 1, "custom-title": 2}
_CONTINUED = "This session is being continued from a previous conversation"
# Texts in the name of the user that the host wrote.
_MACHINE = ("Caveat: The messages below", "<local-command-", "<bash-", "<user-memory-input>")
_COMMAND = re.compile(r"<command-name>\s*/?([^<]*?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_TIMESTAMP = re.compile(rb'"timestamp"\s*:\s*"([0-9T:.Z+-]{19,35})"')
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RECORD = re.compile(rb'"uuid"\s*:\s*"([0-9A-Za-z-]{1,64})"')
_PLAIN = re.compile(r"[a-z][a-z0-9_-]{0,29}")

_HOST_RECORD = "record of the host itself"


class ClaudeCodeTranscripts:
    """Sessions that Claude Code keeps on disk until it deletes them."""

    name = "claude-code"
    title = "Claude Code sessions"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        """Return the transcripts of all projects, the one that was changed first before the others.

        Raises:
            FormatError: The path that was given is no transcript and holds none.
        """
        given = environment.path
        configured = environment.environ.get("CLAUDE_CONFIG_DIR")
        homes = [Path(one).expanduser() for one in (configured or "").split(",") if one]
        homes = homes or [environment.home / ".claude", environment.home / ".config" / "claude"]
        if given is not None:
            paths = [given] if given.is_file() else list(find_files(given, ".jsonl"))
            kept = [path for path in paths if path.name == HISTORY]
        else:
            paths = [path for home in homes for path in find_files(home / "projects", ".jsonl")]
            kept = [home / HISTORY for home in homes]
        days = next((days for home in homes if (days := _cleanup_days(home))), CLEANUP_DAYS)
        found = [
            one
            for path in paths
            if path.name != HISTORY and (one := _examine(path, days)) is not None
        ]
        found.sort(key=lambda one: (one.newest, one.path))
        # After the transcripts: it counts where there is none.
        data = {"sessions": {one.path.stem: one.oldest for one in found}}
        found += [one for path in kept if (one := describe_file(path, records=0, data=data))]
        if given is not None and not found:
            raise FormatError("There is no transcript of Claude Code at this path.")
        # An original before its copies: a session that was resumed repeats earlier records.
        return found

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:
        """Yield what happened in a session, or in one of its subagents."""
        if "sessions" in file.data:
            sessions = file.data["sessions"]
            began = min(sessions.values(), default=file.newest).timestamp()
            yield from read_history(file, offset, HOST, lambda one: _kept(one, sessions, began))
            return
        with open_regular(file.path) as stream:
            reader = _Reader(file, is_first=offset == 0)
            for line in read_lines(stream, offset):
                items = reader.read(line)
                if items is None:
                    yield SkippedRecord("half a line at the end", resume=reader.resume(line.start))
                    return
                yield from _placed(items, line.start, reader.resume(line.end))
                offset = line.end
            yield from _placed(reader.finish(), offset, reader.resume(offset))


SOURCE = ClaudeCodeTranscripts()


def _kept(record: dict[str, Any], sessions: Mapping[str, Any], began: float) -> KeptPrompt | str:
    """Return a prompt of the history, unless the session has a transcript."""
    text, folder = first_text(record, "display").strip(), first_text(record, "project")
    stamp, session = record.get("timestamp"), first_text(record, "sessionId")
    if not isinstance(stamp, int | float) or not folder:
        return "prompt without a time or a folder"
    if not text or (text.startswith("/") and " " not in text) or text.startswith(("!", "#")):
        return "command of the host"
    if not session:
        # Older versions did not name it. What is younger than a transcript is in one.
        if stamp / 1000 >= began:
            return KNOWN_SESSION
        where = hashlib.sha256(folder.encode("utf-8", "replace")).hexdigest()[:8]
        session = f"history-{where}-{int(stamp // 86_400_000)}"
    return KNOWN_SESSION if session in sessions else KeptPrompt(session, folder, text, stamp / 1000)


def _cleanup_days(home: Path) -> int | None:
    try:
        with open_regular(home / "settings.json") as stream:
            days = json.loads(stream.read(1 << 20)).get("cleanupPeriodDays")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return days if isinstance(days, int) and 0 < days < 100_000 else None


def _examine(path: Path, days: int) -> FoundFile | None:
    """Return what a listing needs; None if it is no transcript."""
    try:
        with open_regular(path) as stream:
            head = stream.read(HEAD)
        state = path.stat()
    except OSError:
        return None
    first, line_feed, _ = head.lstrip().partition(b"\n")
    if first[:1] != b"{" or (line_feed and b'"type"' not in first):
        return None
    newest = datetime.fromtimestamp(state.st_mtime, UTC)
    stamped = _TIMESTAMP.search(head)
    oldest = read_time(stamped[1].decode()) if stamped else None
    # Which file is a subagent's is in its name or in its folder, depending on the version.
    is_agent = path.name.startswith("agent-") or "subagents" in path.parts
    return FoundFile(
        path,
        state.st_size,
        newest,
        min(oldest or newest, newest),
        records=0 if is_agent else 1,
        deleted_after=newest + timedelta(days=days),
        data={"agent": _agent_type(path) if is_agent else ""},
    )


def _agent_type(path: Path) -> str:
    try:
        with open_regular(path.with_suffix(".meta.json")) as stream:
            named = json.loads(stream.read(1 << 16)).get("agentType")
    except (OSError, ValueError, AttributeError, RecursionError):
        named = None
    return named if isinstance(named, str) and named else "agent"


def _placed(items: list[Item], start: int, resume: int) -> Iterator[Item]:
    """Yield the items of one record: only after the last of them it is not read again."""
    for number, item in enumerate(items, 1):
        yield replace(item, resume=resume if number == len(items) else min(start, resume))


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def _text(content: Any) -> str:
    """Return the text of a message: images, thoughts and calls have none."""
    if isinstance(content, str):
        return content
    parts = [first_text(one, "text") for one in _blocks(content) if one.get("type") == "text"]
    return "\n".join(filter(None, parts))


@dataclass(slots=True)
class _Call:
    """A tool's call that waits for its result."""

    start: int
    size: int
    name: str
    given: dict[str, Any]


@dataclass(slots=True)
class _Answer:
    """The last text of an agent, which answers if nothing follows it in its turn."""

    start: int
    record: dict[str, Any]
    message: str
    parts: list[str] = field(default_factory=list)
    is_final: bool = False


@dataclass(slots=True)
class _Queued:
    """What the user typed in the middle of a turn."""

    start: int
    text: str
    record: dict[str, Any]
    is_sent: bool = False


class _Reader:
    """Turns the records of one file into items."""

    def __init__(self, file: FoundFile, *, is_first: bool) -> None:
        self._path = file.path
        self._agent = str(file.data.get("agent") or "")
        self._is_quiet = time.time() - file.newest.timestamp() > QUIET_SECONDS
        self._session = file.path.stem if _UUID.fullmatch(file.path.stem) else ""
        self._is_first = is_first
        self._is_checked = not is_first
        self._started = False
        self._calls: dict[str, _Call] = {}
        self._answers: dict[str, _Answer] = {}
        self._title_rank = 0
        self._titles: list[str] = []
        self._queued: list[_Queued] = []
        self._main_folder = ""
        self._last: dict[str, Any] = {}
        self._last_start: int | None = None

    def resume(self, end: int) -> int:
        """Return the offset to go on at: before everything that is still open.

        The last record is open until the file has ended: only then it is known to be the last.
        """
        if self._is_first and not self._started and not self._agent:
            return 0  # The session's start is still to come.
        starts = [one.start for one in self._calls.values()]
        starts += [one.start for one in self._answers.values()]
        starts += [one.start for one in self._queued]
        return min(end, *starts, end if self._last_start is None else self._last_start)

    def read(self, line: Line) -> list[Item] | None:
        """Return what a line brings; None if it is the half of one."""
        if line.is_too_long:
            return [SkippedRecord("line of more than 16 MB")]
        record = parse_object(line.data)
        if record is None:
            return [SkippedRecord("damaged line")] if line.is_whole else None
        kind = record.get("type")
        if not isinstance(kind, str):
            if not self._is_checked:
                raise FormatError("This is no transcript of Claude Code.")
            return [SkippedRecord("damaged line")]
        self._is_checked = True
        if kind in ("user", "assistant") and not first_text(record, "sessionId"):
            return [SkippedRecord("record without a session")]
        items: list[Item] = []
        if (
            first_text(record, "sessionId")
            and first_text(record, "cwd")
            and record.get("timestamp")
        ):
            self._last, self._last_start = record, line.start
            items += self._start(record)
            items += self._show_titles()
        if kind == "user":
            items += self._user(record)
        elif kind == "assistant":
            items += self._assistant(record, line)
        elif kind == "queue-operation":
            items += self._typed(record, line)
        elif kind in _TITLES:
            items += self._name(kind, record)
        elif kind == "pr-link" and (address := first_text(record, "prUrl")) and self._last:
            items.append(self._mark(f"Pull request: {address}", {**self._last, **record}))
        elif kind == "compact_boundary" or record.get("subtype") == "compact_boundary":
            items += self._compacted(record)
        elif kind == "worktree-state":
            self._main_folder = _find_text(record, "originalCwd") or self._main_folder
        elif kind in _OF_THE_HOST:
            if kind == "system" and record.get("subtype") in ("stop_hook_summary", "turn_duration"):
                self._end_turn()
            items.append(SkippedRecord(_HOST_RECORD))
        else:
            named = f" {kind}" if _PLAIN.fullmatch(kind) else ""
            items.append(SkippedRecord(f"unknown record type{named}"))
        return items

    def finish(self) -> list[Item]:
        """Return what the end of the file brings."""
        items: list[Item] = []
        for name, answer in list(self._answers.items()):
            if self._is_quiet or answer.is_final:
                items += self._answer(name)
        if not self._is_quiet:
            return items
        if self._calls:
            items.append(SkippedRecord("call without a result", len(self._calls)))
        last, self._last_start = self._last, None
        self._calls.clear()
        self._queued.clear()
        if last and not self._agent:
            named = f"{first_text(last, 'sessionId')}/end/{first_text(last, 'uuid', 'timestamp')}"
            payload = {"hook_event_name": "SessionEnd", "reason": "other"}
            items.append(self._event(last, named, payload))
        return items

    # --- records --------------------------------------------------------------------------

    def _event(
        self,
        record: dict[str, Any],
        native_id: str,
        payload: dict[str, Any],
        host: str = HOST,
    ) -> ImportedEvent:
        session, folder = first_text(record, "sessionId"), first_text(record, "cwd")
        if self._main_folder and not Path(folder).is_dir():
            folder = self._main_folder  # A work tree that is no longer there.
        payload |= {"session_id": session, "cwd": folder}
        if host == HOST and (agent := self._agent_of(record)):
            payload |= {"agent_id": agent, "agent_type": self._agent or "agent"}
        when = read_time(record.get("timestamp")) or read_time(self._last.get("timestamp"))
        return ImportedEvent(
            native_id, host, payload, session, folder, when, first_text(record, "gitBranch")
        )

    def _agent_of(self, record: dict[str, Any]) -> str:
        """Return the subagent that a record is of; empty: the session's own agent."""
        if record.get("isSidechain") is True or self._agent:
            return first_text(record, "agentId") or "agent"
        return ""

    def _start(self, record: dict[str, Any]) -> list[Item]:
        session = first_text(record, "sessionId")
        if self._started or self._agent or (self._session and session != self._session):
            return []  # The first records of a resumed file are those of the session before.
        self._started, self._session = True, session
        if not self._is_first:
            return []
        payload = {"hook_event_name": "SessionStart", "source": "startup"}
        return [self._event(record, f"{session}/start", payload)]

    def _user(self, record: dict[str, Any]) -> list[Item]:
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        results = [one for one in _blocks(content) if one.get("type") == "tool_result"]
        if results:
            return self._results(record, results)
        text = _text(content)
        if record.get("isCompactSummary") is True or text.startswith(_CONTINUED):
            return self._summary(record, text)
        if record.get("isMeta") is True or text.startswith(_MACHINE):
            return [SkippedRecord(_HOST_RECORD)]
        if command := _COMMAND.search(text):
            arguments = _ARGUMENTS.search(text)
            said = arguments[1].strip() if arguments else ""
            if not said:
                return [SkippedRecord("command of the host")]
            text = f"/{command[1]} {said}"
        if self._agent_of(record):
            return [SkippedRecord("prompt of an agent to another")]
        items = self._end_turn(flush=True)
        items += self._show_typed(but=text.strip())
        self._queued.clear()
        if text.strip():
            items.append(self._prompt(record, first_text(record, "uuid"), text))
        else:
            items.append(SkippedRecord("message without a text"))
        return items

    def _prompt(self, record: dict[str, Any], native_id: str, text: str) -> ImportedEvent:
        payload = {"hook_event_name": "UserPromptSubmit", "prompt": text}
        return self._event(record, native_id, payload)

    def _typed(self, record: dict[str, Any], line: Line) -> list[Item]:
        """Note what the user typed in the middle of a turn.

        It is sent as a prompt of its own when the turn ends, or read by the agent in between, and
        then there is no other record of it.
        """
        operation, text = record.get("operation"), first_text(record, "content").strip()
        if operation == "enqueue" and text and not text.startswith(("/", "<")):
            self._queued = [*self._queued[-9:], _Queued(line.start, text, record)]
        elif operation == "dequeue":
            for one in self._queued[:1]:
                one.is_sent = True
        elif operation in ("remove", "popAll"):
            self._queued = [one for one in self._queued if one.is_sent]
        return [SkippedRecord(_HOST_RECORD)]

    def _show_typed(self, but: str = "") -> list[Item]:
        sent = [one for one in self._queued if one.is_sent and one.text != but]
        self._queued = [one for one in self._queued if not one.is_sent]
        return [
            self._prompt(
                {**self._last, **one.record},
                "/typed/".join(first_text(one.record, name) for name in ("sessionId", "timestamp")),
                one.text,
            )
            for one in sent
        ]

    def _assistant(self, record: dict[str, Any], line: Line) -> list[Item]:
        message = record.get("message")
        if not isinstance(message, dict) or record.get("isApiErrorMessage") is True:
            return [SkippedRecord(_HOST_RECORD)]
        agent = self._agent_of(record)
        items: list[Item] = [] if agent else self._show_typed()
        for block in _blocks(message.get("content")):
            text, kind = first_text(block, "text"), block.get("type")
            if kind == "text" and text.strip():
                said = self._answers.get(agent)
                if said is None or said.message != first_text(message, "id"):
                    said = _Answer(line.start, record, first_text(message, "id"))
                    self._answers[agent] = said
                said.parts.append(text)
                said.is_final = message.get("stop_reason") in ("end_turn", "stop_sequence")
            elif kind == "tool_use" and (call_id := first_text(block, "id")):
                given = block.get("input")
                self._calls[call_id] = _Call(
                    line.start,
                    len(line.data),
                    first_text(block, "name"),
                    given if isinstance(given, dict) else {},
                )
                if block.get("name") in ("AskUserQuestion", "ExitPlanMode"):
                    items += self._answer(agent)  # The user reads it before they answer.
        while len(self._calls) > MAX_OPEN or (
            len(self._calls) > 1 and sum(c.size for c in self._calls.values()) > MAX_OPEN_BYTES
        ):
            del self._calls[next(iter(self._calls))]
            items.append(SkippedRecord("call without a result"))
        return items

    def _results(self, record: dict[str, Any], results: list[dict[str, Any]]) -> list[Item]:
        items: list[Item] = []
        for block in results:
            call_id = first_text(block, "tool_use_id")
            call = self._calls.pop(call_id, None)
            if call is None:
                items.append(SkippedRecord("result without its call"))
                continue
            said = _text(block.get("content"))
            response = record.get("toolUseResult") if len(results) == 1 else None
            payload: dict[str, Any] = {
                "hook_event_name": "PostToolUse",
                "tool_name": call.name,
                "tool_input": call.given,
                "tool_response": said if response is None else response,
                "tool_use_id": call_id,
            }
            if block.get("is_error") is True:
                interrupted = isinstance(response, dict) and response.get("interrupted") is True
                payload |= {
                    "hook_event_name": "PostToolUseFailure",
                    "error": said or "failed",
                    "is_interrupt": interrupted,
                }
            items.append(self._event(record, call_id, payload))
        return items

    def _compacted(self, record: dict[str, Any]) -> list[Item]:
        facts = record.get("compactMetadata")
        payload = {"hook_event_name": "PostCompact", "trigger": first_text(facts, "trigger")}
        return [self._event(record, f"{first_text(record, 'uuid')}/compact", payload)]

    def _summary(self, record: dict[str, Any], text: str) -> list[Item]:
        event = self._event(record, "", {})
        return [
            *self._end_turn(flush=True),
            ImportedMemory(
                f"{first_text(record, 'uuid')}/summary",
                text,
                kind="summary",
                when=event.when,
                folder=event.folder,
                parent=event.session_id,
                session_id=event.session_id,
            ),
        ]

    def _name(self, kind: str, record: dict[str, Any]) -> list[Item]:
        names = ("summary", "title", "aiTitle", "customTitle", "ai_title", "custom_title")
        title = first_text(record, *names).strip()
        if title and (leaf := first_text(record, "leafUuid")):
            # Older versions put a title into any file of the folder, and name a record.
            named = _find_record(self._path.parent, leaf)
            if named is None:
                return [SkippedRecord("title of a session that is not here")]
            return [self._mark(f"Session: {title}", named)]
        if not title or _TITLES[kind] < self._title_rank:
            return [SkippedRecord(_HOST_RECORD)]
        self._title_rank = _TITLES[kind]
        self._titles = [title]
        return self._show_titles()

    def _show_titles(self) -> list[Item]:
        """Return the title as a mark in the session, as soon as it is known when and where."""
        if not self._titles or not self._last or self._agent:
            return []
        session = self._session or first_text(self._last, "sessionId")
        title = f"Session: {self._titles.pop()}"
        return [self._mark(title, {**self._last, "sessionId": session})]

    def _mark(self, text: str, record: dict[str, Any]) -> ImportedEvent:
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        payload = {"host": HOST, "event": "marker", "text": text[:300]}
        native = f"{first_text(record, 'sessionId')}/mark/{digest}"
        return self._event(record, native, payload, "generic")

    # --- turns ----------------------------------------------------------------------------

    def _end_turn(self, *, flush: bool = False) -> list[Item]:
        """End the turn: what was said last is its answer; calls without a result are over."""
        for answer in self._answers.values():
            answer.is_final = True
        if not flush:
            return []
        items: list[Item] = []
        for name in list(self._answers):
            items += self._answer(name)
        if self._calls:
            items.append(SkippedRecord("call without a result", len(self._calls)))
            self._calls.clear()
        return items

    def _answer(self, agent: str) -> list[Item]:
        answer = self._answers.pop(agent, None)
        if answer is None:
            return []
        name = "SubagentStop" if agent else "Stop"
        payload = {"hook_event_name": name, "last_assistant_message": "\n".join(answer.parts)}
        native = f"{first_text(answer.record, 'uuid')}/answer"
        return [self._event(answer.record, native, payload)]


@lru_cache(maxsize=1)
def _index_records(paths: tuple[Path, ...], _size: int) -> dict[bytes, Path]:
    """Return in which file of a folder each record is."""
    found: dict[bytes, Path] = {}
    for path in paths:
        try:
            with open_regular(path) as stream:
                for line in read_lines(stream):
                    if (named := _RECORD.search(line.data)) and len(found) < MAX_INDEXED:
                        found.setdefault(named[1], path)
        except OSError:
            continue
    return found


def _find_record(folder: Path, uuid: str) -> dict[str, Any] | None:
    """Return a record of any session in a folder."""
    wanted = uuid.encode("utf-8", "replace")
    paths = tuple(find_files(folder, ".jsonl", depth=0))
    try:
        size = sum(path.stat().st_size for path in paths)
        path = _index_records(paths, size).get(wanted)
        if path is None:
            return None
        with open_regular(path) as stream:
            for line in read_lines(stream):
                if wanted in line.data:
                    record = parse_object(line.data)
                    if record and record.get("uuid") == uuid and first_text(record, "cwd"):
                        return record
    except OSError:
        return None
    return None


def _find_text(value: Any, name: str, depth: int = 3) -> str:
    """Return a text of an object or of the objects in it."""
    if not isinstance(value, dict):
        return ""
    if found := first_text(value, name):
        return found
    inner = (_find_text(one, name, depth - 1) for one in value.values()) if depth else ()
    return next(filter(None, inner), "")
