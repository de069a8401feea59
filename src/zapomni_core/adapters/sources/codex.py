"""Rollouts of Codex: `sessions/YYYY/MM/DD/rollout-….jsonl`, older ones compressed with Zstandard.

A rollout is a log of what the model was given and gave, one JSON object a line. The events that
hooks would have reported are put together from it. A file that has grown is read from its start:
which prompts are the user's, and which folder they were written in, is only known from there.
"""

from __future__ import annotations

import io
import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from zapomni_core.adapters.sources import (
    KNOWN_SESSION,
    FormatError,
    FoundFile,
    ImportedEvent,
    ImportedMemory,
    Item,
    Line,
    MissingLibraryError,
    SkippedRecord,
    SourceEnvironment,
    find_files,
    open_regular,
    parse_object,
    read_lines,
)
from zapomni_core.adapters.sources.foreign import (
    ForeignFileError,
    describe_file,
    first_text,
    open_database,
    read_time,
)
from zapomni_core.adapters.sources.prompt_history import HISTORY, KeptPrompt, read_history
from zapomni_core.adapters.sources.repository import read_text

__all__ = ["SOURCE"]

HOST = "codex"
# An archive that expands to more than this, and to so many times its size, is not a log.
MAX_EXPANDED, MAX_RATIO = 64 << 20, 300
MAX_WINDOW = 128 << 20
MAX_CALLS, MAX_CALL_BYTES = 1000, 32 << 20
MAX_HELD = 20
MAX_TITLES = 100_000
MAX_MEMORY = 1 << 20
# Records that a fork copies from another session are written when it is made.
COPYING_SECONDS = 1.0
# After so long without a change a session has ended, and its last text is an answer.
QUIET_SECONDS = 3600

_NAME = re.compile(r"rollout-(?P<time>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)?.*\.jsonl(?:\.zst)?")
_THREAD = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SILENT = frozenset(
    "reasoning other ghost_snapshot compaction compaction_summary context_compaction "
    "compaction_trigger".split()
)
_RECORDS_OF_HOST = frozenset(
    "world_state inter_agent_communication inter_agent_communication_metadata security_risk_score"
    " turn_context".split()
)
# What Codex gives the model in the user's name: its contexts, in tags of their own.
_INJECTED = re.compile(
    r"\s*(?:<[a-z]+_[a-z_]+[\s>]|<(?:tools|skill|user_instructions|instructions|INSTRUCTIONS)[\s>]"
    r"|# AGENTS\.md instructions|The previously provided AGENTS\.md)"
)
_FOLDER = re.compile(r"(?:<cwd>|Current working directory: )(/[^<\n]{0,4000})")
_CWD = re.compile(r"(?m)^cwd:\s*(/.{0,4000})$")
_EXIT = re.compile(r"(?:Process exited with code|Exit code:) (-?\d{1,10})")
_PATCH = re.compile(r"\*\*\* Begin Patch\n.*?\*\*\* End Patch", re.DOTALL)
_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,39}")
_SHELLS = frozenset(["shell", "exec_command", "local_shell", "shell_command", "unified_exec"])
_OF_HOST = "record of the host itself"

_COLUMNS = "SELECT name FROM pragma_table_info('threads')"
_THREADS = "SELECT id, title, cwd FROM threads ORDER BY rowid DESC LIMIT ?"
_TITLES = "SELECT id, title, '' AS cwd FROM threads ORDER BY rowid DESC LIMIT ?"


class CodexRollouts:
    """Sessions that Codex keeps on disk."""

    name = "codex"
    title = "Codex sessions"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        """Return the rollouts, archived ones too, the oldest first."""
        configured = environment.environ.get("CODEX_HOME")
        home = Path(configured) if configured else environment.home / ".codex"
        named = environment.path
        if named is None:
            roots = [home / "sessions", home / "archived_sessions"]
            paths = [path for root in roots for path in find_files(root, *_SUFFIXES)]
        else:
            paths = [named] if named.is_file() else list(find_files(named, *_SUFFIXES))
            home = named if named.is_dir() else home
        index = _read_index(home)
        found = [one for path in paths if (one := _examine(path, index))]
        found.sort(key=lambda file: (file.oldest, file.path.name))
        if named is None or named.is_dir():
            # After the sessions: it counts where there is none.
            threads = {thread[0] for one in found if (thread := _THREAD.search(one.path.name))}
            folders = {name: folder for name, (_, folder) in index.items() if name not in threads}
            data = {"sessions": threads, "folders": folders}
            kept = describe_file(home / HISTORY, records=0, data=data)
            found += [kept] if kept else []
            found += [
                one
                for path in find_files(home / "memories", ".md", depth=1)
                # What it was made of, from which the other files are made.
                if path.name != "raw_memories.md"
                and (one := describe_file(path, records=0, data={"memory": True}))
            ]
        if named is not None and not found:
            raise FormatError("There is no rollout of Codex (rollout-….jsonl) at this path.")
        return found

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:
        """Yield what happened in a session."""
        if "folders" in file.data:
            yield from read_history(file, offset, HOST, lambda one: _kept(one, file.data))
            return
        if "memory" in file.data:
            yield _own_memory(file)
            return
        try:
            with _open(file.path) as stream:
                reader = _Rollout(str(file.data.get("title") or ""))
                for line in read_lines(stream):
                    yield from reader.read(line)
                if time.time() - file.newest.timestamp() > QUIET_SECONDS:
                    yield from reader.finish()
                elif reader.is_open:
                    # Not 0, by which it would have been read to its end.
                    yield SkippedRecord("turn that has not ended", resume=1)
        except _ExpandsError as error:
            yield SkippedRecord(str(error))


SOURCE = CodexRollouts()
_SUFFIXES = (".jsonl", ".jsonl.zst")


# --- Files ------------------------------------------------------------------------------


class _ExpandsError(Exception):
    """A compressed file cannot be read to its end; the message says why."""


class _Expanded(io.RawIOBase):
    """A compressed file as it was before, up to a limit; it can only be read once."""

    def __init__(self, packed: IO[bytes]) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise MissingLibraryError("compressed session", "codex") from error
        self._error = zstandard.ZstdError
        self._packed = packed
        self._size = 0
        machine = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        self._reader = machine.stream_reader(packed, read_across_frames=True)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._reader.read(len(buffer))
        except self._error as error:
            raise _ExpandsError("damaged archive") from error
        self._size += len(data)
        if self._size > MAX_EXPANDED and self._size > MAX_RATIO * max(self._packed.tell(), 1):
            raise _ExpandsError("archive that expands too far")
        buffer[: len(data)] = data
        return len(data)


class _Stream(io.BufferedReader):
    """A stream that cannot seek, and is at its start when a reader asks for that."""

    def seek(self, target: int, whence: int = 0) -> int:
        del target, whence
        return 0


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    with open_regular(path) as file:
        if path.suffix == ".zst":
            yield _Stream(_Expanded(file), 1 << 16)
        else:
            yield file


def _own_memory(file: FoundFile) -> Item:
    """Return a file of Codex's own memory as a document that follows it."""
    text = read_text(file.path, MAX_MEMORY)
    if isinstance(text, SkippedRecord) or not text.strip():
        return text if isinstance(text, SkippedRecord) else SkippedRecord("empty file")
    place = _CWD.search(text[:2000])
    name = "/".join(file.path.parts[file.path.parts.index("memories") + 1 :])
    return ImportedMemory(
        f"memories/{name}",
        text.strip(),
        kind="document",
        title=f"Codex: {name}",
        when=file.newest,
        folder=place[1].strip() if place else "",
        project="" if place else "*",
        metadata={"file": file.path.name, "format": "markdown", "time": "file"},
        follows=True,
    )


def _kept(record: dict[str, Any], known: Mapping[str, Any]) -> KeptPrompt | str:
    """Return a prompt of the history, unless the session has a rollout."""
    session, text, stamp = (
        first_text(record, "session_id"),
        first_text(record, "text"),
        record.get("ts"),
    )
    if session in known["sessions"]:
        return KNOWN_SESSION
    if not (session and text.strip() and isinstance(stamp, int | float)):
        return "prompt without a session or a time"
    folder = known["folders"].get(session)
    if not folder:
        return "prompt without a folder"
    return "command of the host" if text[0] == "/" else KeptPrompt(session, folder, text, stamp)


def _examine(path: Path, index: dict[str, tuple[str, str]]) -> FoundFile | None:
    named = _NAME.fullmatch(path.name)
    if named is None:
        return None
    try:
        status = path.lstat()
    except OSError:
        return None
    newest = datetime.fromtimestamp(status.st_mtime, UTC)
    try:
        # Its name has the local time.
        oldest = datetime.strptime(named["time"] or "", "%Y-%m-%dT%H-%M-%S").astimezone(UTC)
    except (ValueError, OverflowError):
        oldest = newest
    thread = _THREAD.search(path.name)
    title, _ = index.get(thread[0], ("", "")) if thread else ("", "")
    return FoundFile(path, status.st_size, newest, min(oldest, newest), data={"title": title})


def _read_index(home: Path) -> dict[str, tuple[str, str]]:
    """Return titles and folders of sessions by their ids, from the newest index of Codex."""
    try:
        files = sorted(home.glob("state_*.sqlite"), key=lambda path: path.stat().st_mtime)
    except OSError:
        return {}
    for file in reversed(files):
        try:
            with closing(open_database(file)) as database:
                columns = {row["name"] for row in database.execute(_COLUMNS)}
                if {"id", "title"} <= columns:
                    rows = database.execute(
                        _THREADS if "cwd" in columns else _TITLES, (MAX_TITLES,)
                    )
                    return {
                        str(row["id"]): (str(row["title"] or "")[:300], str(row["cwd"] or ""))
                        for row in rows
                    }
        except (ForeignFileError, sqlite3.Error):
            continue
    return {}


# --- Records ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Prompt:
    """A text in the user's name that may be the host's."""

    text: str
    when: datetime | None


@dataclass(slots=True)
class _ToolCall:
    name: str
    given: Any
    size: int


class _Rollout:
    """Turns the records of one session into items."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._thread = self._session = self._folder = self._branch = ""
        self._agent = ""
        self._begun: datetime | None = None
        self._first_own = 0
        self._copied_until = 0.0
        self._calls: dict[str, _ToolCall] = {}
        self._codes: dict[str, int] = {}
        self._prompts: list[_Prompt] = []
        self._confirmed: list[_Prompt] = []
        self._said: Counter[str] = Counter()
        self._is_bare = False
        self._has_events = False
        self._reply: tuple[str, str, datetime | None] | None = None

    def read(self, line: Line) -> Iterator[Item]:
        """Yield what a line brings."""
        if line.is_too_long:
            yield SkippedRecord("line of more than 16 MB")
            return
        record = parse_object(line.data)
        if record is None:
            yield SkippedRecord("damaged line" if line.is_whole else "half a line at the end")
            return
        kind, payload = record.get("type"), record.get("payload")
        if self._is_bare:
            # The first versions wrote what the model was given and gave, and nothing else.
            kind, payload = "response_item", record
        elif (
            not self._thread and kind is None and first_text(record, "id") and "timestamp" in record
        ):
            self._is_bare = True
            kind, payload = "session_meta", record
        if not isinstance(kind, str) or not isinstance(payload, dict):
            if not self._thread:
                raise FormatError("This is no rollout of Codex.")
            yield SkippedRecord("damaged line")
            return
        when = read_time(record.get("timestamp")) or self._begun
        if kind == "session_meta":
            yield from self._start(payload, when)
        elif not self._thread:
            yield SkippedRecord("record without a session")
        elif self._is_inherited(record, when):
            yield SkippedRecord("copied from another session")
        elif kind == "response_item":
            ordinal = record.get("ordinal")
            name = str(ordinal) if isinstance(ordinal, int) else _digest(line.data)
            yield from self._respond(payload, f"{self._thread}/{name}", when, len(line.data))
        elif kind == "event_msg":
            yield from self._note(payload, when)
        elif kind == "compacted":
            yield from self._compact(payload, f"{self._thread}/{_digest(line.data)}", when)
        elif kind in _RECORDS_OF_HOST:
            if kind == "turn_context":
                self._folder = first_text(payload, "cwd") or self._folder
            yield SkippedRecord(_OF_HOST)
        else:
            yield SkippedRecord(f"unknown record type{_named(kind)}")

    @property
    def is_open(self) -> bool:
        """Whether more of the file may change what the last records mean."""
        return bool(self._prompts or self._confirmed or self._reply or self._calls)

    def finish(self) -> Iterator[Item]:
        """Yield what the end of the file brings."""
        yield from self._settle()
        yield from self._end_turn()
        if self._calls:
            yield SkippedRecord("call without a result", len(self._calls))

    def _event(
        self, native_id: str, when: datetime | None, name: str, **fields: Any
    ) -> ImportedEvent:
        payload = {"hook_event_name": name, **fields}
        payload |= {"session_id": self._session, "cwd": self._folder}
        if self._agent:
            payload |= {"agent_id": self._thread, "agent_type": self._agent}
        return ImportedEvent(
            native_id, HOST, payload, self._session, self._folder, when, self._branch
        )

    def _start(self, meta: dict[str, Any], when: datetime | None) -> Iterator[Item]:
        if self._thread:
            # A fork repeats what its original begins with.
            yield SkippedRecord("copied from another session")
            return
        self._thread = first_text(meta, "id", "session_id")
        if not self._thread:
            raise FormatError("This is no rollout of Codex: it does not say which session it is.")
        self._session = first_text(meta, "session_id") or self._thread
        self._folder = first_text(meta, "cwd")
        git = meta.get("git")
        self._branch = first_text(git, "branch") if isinstance(git, dict) else ""
        source = meta.get("source")
        spawned = isinstance(source, dict) and "subagent" in source
        if spawned or first_text(meta, "parent_thread_id"):
            self._agent = first_text(meta, "agent_role", "agent_type", "agent_nickname") or "agent"
        first = meta.get("subagent_history_start_ordinal")
        self._first_own = first if isinstance(first, int) else 0
        begun = self._begun = when or read_time(meta.get("timestamp"))
        if first_text(meta, "forked_from_id") and begun:
            self._copied_until = begun.timestamp() + COPYING_SECONDS
        if self._agent:
            return
        yield self._event(f"{self._thread}/start", begun, "SessionStart", source="startup")
        if self._title:
            native_id = f"{self._thread}/title/{_digest(self._title.encode('utf-8', 'replace'))}"
            said = {"host": HOST, "event": "marker", "text": f"Session: {self._title}"}
            said |= {"session_id": self._session, "cwd": self._folder}
            yield ImportedEvent(
                native_id, "generic", said, self._session, self._folder, begun, self._branch
            )

    def _is_inherited(self, record: dict[str, Any], when: datetime | None) -> bool:
        ordinal = record.get("ordinal")
        if self._first_own and isinstance(ordinal, int) and ordinal < self._first_own:
            return True
        return bool(self._copied_until and when and when.timestamp() <= self._copied_until)

    # --- what the model was given and gave ------------------------------------------------

    def _respond(
        self, item: dict[str, Any], native_id: str, when: datetime | None, size: int
    ) -> Iterator[Item]:
        kind = first_text(item, "type")
        if kind == "message":
            yield from self._message(item, native_id, when)
            return
        yield from self._settle()
        call_id = first_text(item, "call_id", "id")
        if kind in ("function_call", "custom_tool_call", "local_shell_call"):
            given = item.get("arguments", item.get("input", item.get("action")))
            name = first_text(item, "name") or "local_shell"
            namespace = first_text(item, "namespace")
            if namespace.startswith("mcp__"):
                name = f"{namespace.removesuffix('__')}__{name}"
            waiting = sum(call.size for call in self._calls.values())
            if call_id and len(self._calls) < MAX_CALLS and waiting < MAX_CALL_BYTES:
                self._calls[call_id] = _ToolCall(name, _decode(given), size)
            else:
                yield SkippedRecord("call without a result")
        elif kind in ("function_call_output", "custom_tool_call_output"):
            call = self._calls.pop(call_id, None)
            if call is None:
                yield SkippedRecord("result without its call")
            else:
                yield self._tool(call_id, call, item.get("output"), when)
        elif kind == "web_search_call":
            action = item.get("action")
            query = first_text(action, "query") if isinstance(action, dict) else ""
            if query:
                given = {"tool_name": "WebSearch", "tool_input": {"query": query}}
                yield self._event(native_id, when, "PostToolUse", **given)
        elif kind in _SILENT:
            yield SkippedRecord(_OF_HOST)
        else:
            yield SkippedRecord(f"unknown record type{_named(kind)}")

    def _message(
        self, item: dict[str, Any], native_id: str, when: datetime | None
    ) -> Iterator[Item]:
        role, text = first_text(item, "role"), _text(item.get("content"))
        if role == "user":
            if self._agent or not text.strip():
                yield SkippedRecord("prompt of an agent to another" if self._agent else _OF_HOST)
            elif _INJECTED.match(text):
                if not self._folder and (named := _FOLDER.search(text)):
                    self._folder = named[1]
                yield SkippedRecord("context that the host injected")
            elif held := _take(self._confirmed, text):
                yield from self._prompt(held)
            else:
                self._prompts.append(_Prompt(text, when))
                if len(self._prompts) > MAX_HELD:
                    yield from self._settle()
        elif role == "assistant" and text.strip():
            yield from self._settle()
            self._reply = native_id, text, when
        else:
            # Among them the role `developer`: the host's own instructions.
            yield SkippedRecord(_OF_HOST)

    def _note(self, event: dict[str, Any], when: datetime | None) -> Iterator[Item]:
        kind, item = first_text(event, "type"), event.get("item")
        inner = first_text(item, "type").replace("_", "").lower() if isinstance(item, dict) else ""
        if kind == "user_message" or inner == "usermessage":
            # The same text again: it says that a text in the user's name is the user's.
            self._has_events = True
            said = first_text(event, "message") if kind == "user_message" else ""
            said = said or (_text(item.get("content")) if isinstance(item, dict) else "")
            if held := _take(self._prompts, said):
                yield from self._prompt(held)
            elif said.strip() and not self._agent:
                self._confirmed.append(_Prompt(said, when))
                if len(self._confirmed) > MAX_HELD:
                    yield from self._settle()
        elif kind in ("task_complete", "turn_complete", "turn_aborted"):
            yield from self._settle()
            yield from self._end_turn()
        elif inner == "commandexecution" and isinstance(item, dict):
            code = item.get("exit_code")
            if isinstance(code, int) and len(self._codes) < MAX_CALLS:
                self._codes[first_text(item, "id", "call_id")] = code
        yield SkippedRecord(_OF_HOST)

    def _settle(self) -> Iterator[Item]:
        """Decide about texts in the user's name that were written once, now that an answer came."""
        for prompt in self._confirmed:
            yield from self._prompt(prompt)
        held, self._prompts, self._confirmed = self._prompts, [], []
        for prompt in held:
            if self._has_events:
                yield SkippedRecord("context that the host injected")
            else:
                yield from self._prompt(prompt)

    def _prompt(self, prompt: _Prompt) -> Iterator[Item]:
        yield from self._end_turn()
        # The same whichever of the two records of it is read first: how often it was said so far.
        name = _digest(prompt.text.strip().encode("utf-8", "replace"))
        self._said[name] += 1
        native_id = f"{self._thread}/prompt/{name}/{self._said[name]}"
        yield self._event(native_id, prompt.when, "UserPromptSubmit", prompt=prompt.text)

    def _end_turn(self) -> Iterator[Item]:
        """Yield what was said last: it is the turn's answer."""
        if self._reply is not None:
            native_id, text, when = self._reply
            self._reply = None
            name = "SubagentStop" if self._agent else "Stop"
            yield self._event(native_id, when, name, last_assistant_message=text)

    def _compact(
        self, payload: dict[str, Any], native_id: str, when: datetime | None
    ) -> Iterator[Item]:
        yield from self._settle()
        yield self._event(f"{native_id}/compact", when, "PostCompact", trigger="")
        if summary := first_text(payload, "message").strip():
            yield ImportedMemory(
                f"{native_id}/summary",
                summary,
                kind="summary",
                when=when,
                folder=self._folder,
                parent=self._session,
                session_id=self._session,
            )

    # --- tools ------------------------------------------------------------------------------

    def _tool(self, call_id: str, call: _ToolCall, output: Any, when: datetime | None) -> Item:
        given, said = call.given, _output(output)
        if call.name in _SHELLS or call.name == "local_shell":
            command = given.get("command", given.get("cmd")) if isinstance(given, dict) else given
            script = (
                " ".join(map(str, command)) if isinstance(command, list) else str(command or "")
            )
            patch = _PATCH.search(script)
            if patch and "apply_patch" in script[: patch.start()]:
                return self._patch(call_id, patch[0], said, when)
            facts = _metadata(said)
            code = facts.get("exit_code")
            if code is None:
                head, mark, body = said.partition("Output:\n")
                found = _EXIT.search(head[:500])
                code = int(found[1]) if found else self._codes.get(call_id)
                said = body if mark and found else said
            else:
                said = first_text(facts, "output")
            response: Any = said
            if code is not None:
                response = {"output": said, "metadata": {"exit_code": code}}
            given = given if isinstance(given, dict) else {"command": script}
            return self._used(call_id, "shell", given, response, when)
        if call.name == "apply_patch":
            written = given if isinstance(given, str) else first_text(given, "input", "patch")
            return self._patch(call_id, written, said, when)
        response = _metadata(said).get("output", said)
        given = given if isinstance(given, dict) else {"input": str(given or "")}
        return self._used(call_id, call.name, given, response, when)

    def _patch(self, call_id: str, patch: str, said: str, when: datetime | None) -> Item:
        facts = _metadata(said)
        code = facts.get("exit_code")
        said = first_text(facts, "output") if facts else said
        if code and not said.startswith("Exit code"):
            said = f"Exit code: {code}\n{said}"
        return self._used(call_id, "apply_patch", {"input": patch}, said, when)

    def _used(
        self, call_id: str, name: str, given: dict[str, Any], response: Any, when: datetime | None
    ) -> Item:
        return self._event(
            f"{self._thread}/{call_id}",
            when,
            "PostToolUse",
            tool_name=name,
            tool_input=given,
            tool_response=response,
            tool_use_id=call_id,
        )


def _take(prompts: list[_Prompt], text: str) -> _Prompt | None:
    """Remove the first prompt with a text, and return it."""
    for place, prompt in enumerate(prompts):
        if prompt.text.strip() == text.strip():
            return prompts.pop(place)
    return None


def _text(content: Any) -> str:
    """Return the text of a message; images have none."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(filter(None, (first_text(part, "text") for part in parts)))


def _decode(given: Any) -> Any:
    """Return a tool's arguments: an object that came as JSON text, else what came."""
    if isinstance(given, str) and given.lstrip()[:1] == "{":
        value = parse_object(given.encode("utf-8", "replace"))
        return given if value is None else value
    return given


def _output(output: Any) -> str:
    """Return what a tool wrote: a text, a list of texts, or either as JSON text in an object."""
    if isinstance(output, dict):
        return _text(output.get("content")) or json.dumps(output)
    if isinstance(output, str) and output.startswith('"'):
        try:
            inner = json.loads(output)
        except (ValueError, RecursionError):
            return output
        return inner if isinstance(inner, str) else output
    return _text(output)


def _metadata(said: str) -> dict[str, Any]:
    """Return output and exit code of {"output": "…", "metadata": {"exit_code": 1}}."""
    if not said.startswith("{"):
        return {}
    value = parse_object(said.encode("utf-8", "replace")) or {}
    facts = value.get("metadata")
    if not isinstance(facts, dict) or "output" not in value:
        return {}
    code = facts.get("exit_code")
    return {
        "output": first_text(value, "output"),
        "exit_code": code if isinstance(code, int) else None,
    }


def _named(kind: str) -> str:
    return f" {kind}" if _PLAIN.fullmatch(kind) else ""


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:24]
