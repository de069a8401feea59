"""claude-mem: its database, and its export."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

from zapomni_core.adapters.sources import (
    FoundFile,
    ImportedEvent,
    ImportedMemory,
    Item,
    SkippedRecord,
    SourceEnvironment,
    open_regular,
)
from zapomni_core.adapters.sources.foreign import (
    LIST_TABLES,
    find_named,
    has_tables,
    is_database,
    open_database,
    read_pages,
    read_time,
    skip_damage,
    text_list,
)
from zapomni_core.adapters.sources.json_stream import UNREADABLE, stream_json

__all__ = ["SOURCE"]

# Columns come and go with its versions, so all are read: what a row lacks is not there.
SESSIONS: LiteralString = (
    "SELECT rowid AS place, * FROM sdk_sessions WHERE rowid > ? ORDER BY rowid LIMIT ?"
)
TABLES: dict[str, LiteralString] = {
    "observations": (
        "SELECT rowid AS place, * FROM observations WHERE rowid > ? ORDER BY rowid LIMIT ?"
    ),
    "session_summaries": (
        "SELECT rowid AS place, * FROM session_summaries WHERE rowid > ? ORDER BY rowid LIMIT ?"
    ),
    "user_prompts": (
        "SELECT rowid AS place, * FROM user_prompts WHERE rowid > ? ORDER BY rowid LIMIT ?"
    ),
}
_IN_EXPORT = {
    "observations": "observations",
    "summaries": "session_summaries",
    "prompts": "user_prompts",
}
_KINDS = {"decision": "decision", "bugfix": "bug"}
_PARTS = (
    ("request", "Request"),
    ("investigated", "Investigated"),
    ("learned", "Learned"),
    ("completed", "Completed"),
    ("next_steps", "Next steps"),
    ("notes", "Notes"),
)

SURVEY: LiteralString = (
    "SELECT (SELECT count(*) FROM observations) + (SELECT count(*) FROM session_summaries) AS"
    " records, (SELECT min(created_at_epoch) FROM observations) AS oldest"
)


class _ClaudeMem:
    name = "claude-mem"
    title = "claude-mem memories"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        folder = environment.environ.get("CLAUDE_MEM_DATA_DIR")
        base = Path(folder) if folder else environment.home / ".claude-mem"
        return find_named(
            environment, [base / "claude-mem.db"], _accepts,
            "claude-mem.db or an export of claude-mem", ".db", ".json", survey=SURVEY,
        )  # fmt: skip

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - no offsets
        if is_database(file.path):
            return skip_damage(_read_database(file.path))
        return _read_export(file.path)


SOURCE = _ClaudeMem()


def _accepts(path: Path) -> bool:
    if is_database(path):
        return has_tables(path, "observations", "sdk_sessions")
    with open_regular(path) as stream:
        head = stream.read(4096)
    return b'"exportedAt' in head or b'"totalObservations"' in head


def _read_database(path: Path) -> Iterator[Item]:
    with closing(open_database(path)) as database:
        tables = {row["name"] for row in database.execute(LIST_TABLES)}
        sessions: dict[str, _ClaudeMemSession] = {}
        if "sdk_sessions" in tables:
            for row in read_pages(database, SESSIONS):
                _note_session(dict(row), sessions)
        for table, query in TABLES.items():
            if table in tables:
                for row in read_pages(database, query):
                    yield _READERS[table](dict(row), sessions)


def _read_export(path: Path) -> Iterator[Item]:
    sessions: dict[str, _ClaudeMemSession] = {}
    with open_regular(path) as stream:
        for name, record in stream_json(stream):
            if name == "sessions" and isinstance(record, dict):
                _note_session(record, sessions)
        # An export names its sessions after the observations that refer to them.
        stream.seek(0)
        for name, record in stream_json(stream):
            if name not in _IN_EXPORT:
                continue
            if not isinstance(record, dict):
                yield SkippedRecord("too long" if record is UNREADABLE else "not a record")
            else:
                yield _READERS[_IN_EXPORT[name]](record, sessions)


class _ClaudeMemSession(NamedTuple):
    host_id: str
    """The id that the agent's host gave it."""
    project: str
    host: str


_NO_SESSION = _ClaudeMemSession("", "", "claude-code")
_HOSTS = {"claude": "claude-code", "codex": "codex", "cursor": "cursor", "gemini": "gemini"}


def _note_session(row: dict[str, Any], sessions: dict[str, _ClaudeMemSession]) -> None:
    """Remember a session by both of its ids, which had other names before version 17."""
    own = _text(row, "memory_session_id") or _text(row, "sdk_session_id")
    host_id = _text(row, "content_session_id") or _text(row, "claude_session_id")
    host = _HOSTS.get(_text(row, "platform_source") or "claude", "generic")
    if host_id:
        sessions[host_id] = _ClaudeMemSession(host_id, _text(row, "project"), host)
        if own:
            sessions[own] = sessions[host_id]


def _native_id(kind: str, row: dict[str, Any]) -> str:
    # A row that came from another device has that device's number, and the same one there.
    device, number = row.get("origin_device_id"), row.get("origin_local_id")
    if not device or number is None:
        device, number = "", row.get("id")
    return f"{kind}:{device}:{number}"


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


def _read_observation(row: dict[str, Any], sessions: dict[str, _ClaudeMemSession]) -> Item:
    kind = _text(row, "type")
    if kind == "sensitive":
        return SkippedRecord("marked as sensitive")
    body = _text(row, "narrative") or _text(row, "text") or _text(row, "subtitle")
    facts = [f"- {fact}" for fact in text_list(row.get("facts"))]
    text = "\n".join(filter(None, [_text(row, "title"), body, *facts]))
    if not text:
        return SkippedRecord("without text")
    changed = text_list(row.get("files_modified"))
    session = sessions.get(_text(row, "memory_session_id") or _text(row, "sdk_session_id"))
    return ImportedMemory(
        _native_id("obs", row),
        text,
        _KINDS.get(kind, "note"),
        tuple(text_list(row.get("concepts"))),
        _text(row, "title"),
        read_time(row.get("created_at_epoch"), row.get("created_at")),
        project=_text(row, "project"),
        parent=session.host_id if session else "",
        # Its repository is known by name only, so nothing there can be cited.
        metadata={"type": kind} | ({"files": changed[:50]} if changed else {}),
    )


def _read_summary(row: dict[str, Any], sessions: dict[str, _ClaudeMemSession]) -> Item:
    parts = [f"{label}: {_text(row, name)}" for name, label in _PARTS if _text(row, name)]
    if not parts:
        return SkippedRecord("without text")
    session = sessions.get(_text(row, "memory_session_id") or _text(row, "sdk_session_id"))
    return ImportedMemory(
        _native_id("summary", row),
        "\n".join(parts),
        "summary",
        when=read_time(row.get("created_at_epoch"), row.get("created_at")),
        project=_text(row, "project"),
        parent=session.host_id if session else "",
    )


def _read_prompt(row: dict[str, Any], sessions: dict[str, _ClaudeMemSession]) -> Item:
    text = _text(row, "prompt_text")
    number = _text(row, "content_session_id") or _text(row, "claude_session_id")
    if not text or not number:
        return SkippedRecord("without text")
    session = sessions.get(number, _NO_SESSION)
    # Which folder it was is not recorded: its project's name is.
    project = _text(row, "project") or session.project or "claude-mem"
    payload = {"host": session.host, "event": "prompt", "text": text,
               "session_id": number, "cwd": project}  # fmt: skip
    return ImportedEvent(
        _native_id("prompt", row),
        "generic",
        payload,
        number,
        "",
        read_time(row.get("created_at_epoch"), row.get("created_at")),
        project=project,
    )


_READERS = {
    "observations": _read_observation,
    "session_summaries": _read_summary,
    "user_prompts": _read_prompt,
}
