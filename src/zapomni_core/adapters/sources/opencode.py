"""OpenCode: its database, and the files that it had before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString

from zapomni_core.adapters.sources import (
    FoundFile,
    ImportedEvent,
    Item,
    SkippedRecord,
    SourceEnvironment,
    find_files,
    parse_object,
)
from zapomni_core.adapters.sources.foreign import (
    describe_file,
    find_named,
    has_tables,
    is_database,
    open_database,
    parse_mapping,
    read_pages,
    read_text,
    read_time,
    skip_damage,
)

__all__ = ["SOURCE"]

MAX_PART = 2_000_000

SURVEY: LiteralString = "SELECT count(*) AS records, min(time_created) AS oldest FROM session"
# Longer parts are images and files: they are counted, not read.
PARTS: LiteralString = (
    "SELECT part.rowid AS place, part.id AS part_id, part.message_id, part.session_id,"
    " CASE WHEN length(part.data) <= 2000000 THEN part.data END AS data,"
    " CASE WHEN length(message.data) <= 2000000 THEN message.data END AS message_data,"
    " session.directory, session.parent_id, session.time_created AS session_time"
    " FROM part JOIN message ON message.id = part.message_id"
    " JOIN session ON session.id = part.session_id"
    " WHERE part.rowid > ? ORDER BY part.rowid LIMIT ?"
)


class _OpenCode:
    name = "opencode"
    title = "OpenCode sessions"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        folder = environment.environ.get("XDG_DATA_HOME")
        base = (Path(folder) if folder else environment.home / ".local" / "share") / "opencode"
        usual = [
            base / "opencode.db",
            *find_files(base / "storage" / "session", ".json", depth=2),
        ]
        return find_named(
            environment, usual, _accepts,
            "opencode.db, or OpenCode's folder storage/session", ".db", ".json", survey=SURVEY,
        )  # fmt: skip

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - no offsets
        if is_database(file.path):
            return skip_damage(_read_database(file.path))
        return _read_session_file(file.path)


SOURCE = _OpenCode()


def _accepts(path: Path) -> bool:
    if is_database(path):
        return has_tables(path, "session", "message", "part")
    return path.stem.startswith("ses_") and path.parents[1].name == "session"


class _OpenCodeSession:
    """Turns the parts of messages into the events that OpenCode's plugin would have sent."""

    def __init__(self, number: str, parent: str, folder: str) -> None:
        # A subagent has a session of its own there; what it does belongs to the one above.
        self.number, self.is_agent, self.folder = parent or number, bool(parent), folder

    def event(self, number: str, when: Any, name: str, **fields: Any) -> ImportedEvent:
        payload = {
            "hook_event_name": name,
            "session_id": self.number,
            "cwd": self.folder,
            **fields,
        }
        if self.is_agent:
            payload["agent_id"] = "subagent"
        return ImportedEvent(number, "opencode", payload, self.number, self.folder, read_time(when))

    def read_part(self, number: str, part: dict[str, Any], message: dict[str, Any]) -> Item:
        kind = part.get("type")
        time = parse_mapping(message.get("time")).get("created")
        if kind == "text":
            return self._read_text(number, part, message, time)
        if kind == "tool":
            return self._read_tool(number, part, time)
        if kind == "compaction":
            return self.event(number, time, "session.compacted")
        return SkippedRecord(
            "part of the host" if kind in _HOST_PARTS else "unknown type of record"
        )

    def _read_text(
        self, number: str, part: dict[str, Any], message: dict[str, Any], time: Any
    ) -> Item:
        text, role = part.get("text"), message.get("role")
        if part.get("synthetic") or part.get("ignored") or not isinstance(text, str):
            return SkippedRecord("text of the host")
        if self.is_agent or not text.strip() or role not in ("user", "assistant"):
            return SkippedRecord("text of a subagent" if self.is_agent else "without text")
        if role == "user":
            return self.event(number, time, "chat.message", prompt=text, message_id=number)
        # Only a message that ended a turn is a reply; between tools an agent thinks aloud.
        if message.get("finish") != "stop":
            return SkippedRecord("text between tools")
        payload = {"host": "opencode", "event": "reply", "text": text,
                   "session_id": self.number, "cwd": self.folder}  # fmt: skip
        when = read_time(parse_mapping(message.get("time")).get("completed"), time)
        return ImportedEvent(number, "generic", payload, self.number, self.folder, when)

    def _read_tool(self, number: str, part: dict[str, Any], time: Any) -> Item:
        state = parse_mapping(part.get("state"))
        status, name = state.get("status"), part.get("tool")
        if status not in ("completed", "error") or not isinstance(name, str):
            return SkippedRecord("tool that had not ended")
        times = parse_mapping(state.get("time"))
        fields: dict[str, Any] = {
            "tool_name": name,
            "tool_input": parse_mapping(state.get("input")),
            "tool_use_id": part.get("callID") or number,
            "tool_response": {
                "output": state.get("output"),
                "metadata": parse_mapping(state.get("metadata")),
                "title": state.get("title"),
            },
        }
        event = "tool.execute.after"
        if status == "error":
            event, fields["error"] = "tool.failed", state.get("error")
        return self.event(number, times.get("end") or times.get("start") or time, event, **fields)


_HOST_PARTS = frozenset(
    "reasoning step-start step-finish patch file snapshot subtask agent retry".split()
)


def _read_database(path: Path) -> Iterator[Item]:
    seen: set[str] = set()
    with closing(open_database(path)) as database:
        for row in read_pages(database, PARTS):
            if not isinstance(row["data"], str):
                yield SkippedRecord("too long")
                continue
            part = parse_object(row["data"].encode())
            folder, number = row["directory"], row["session_id"]
            if part is None or not isinstance(folder, str) or not folder:
                yield SkippedRecord("not JSON" if part is None else "session without a folder")
                continue
            session = _OpenCodeSession(number, row["parent_id"] or "", folder)
            if number not in seen and not session.is_agent:
                seen.add(number)
                yield session.event(number, row["session_time"], "session.start", source="startup")
            yield session.read_part(row["part_id"], part, parse_mapping(row["message_data"]))


def _read_session_file(path: Path) -> Iterator[Item]:
    """Read a session that is a folder of messages, and a folder of parts for each of them."""
    storage = path.parents[2]
    record = parse_mapping(read_text(path))
    number, folder = record.get("id"), record.get("directory")
    if not isinstance(number, str) or not isinstance(folder, str) or not folder:
        yield SkippedRecord("session without a folder")
        return
    session = _OpenCodeSession(number, str(record.get("parentID") or ""), folder)
    if not session.is_agent:
        when = parse_mapping(record.get("time")).get("created")
        yield session.event(number, when, "session.start", source="startup")
    if "/" in number or number.startswith("."):
        return
    for message_path in find_files(storage / "message" / number, ".json", depth=0):
        message = parse_mapping(read_text(message_path, MAX_PART))
        for part_path in find_files(storage / "part" / message_path.stem, ".json", depth=0):
            file = describe_file(part_path)
            part = parse_mapping(read_text(part_path)) if file and file.bytes < MAX_PART else {}
            if part:
                yield session.read_part(part_path.stem, part, message)
            else:
                yield SkippedRecord("too long" if file and file.bytes >= MAX_PART else "not JSON")
