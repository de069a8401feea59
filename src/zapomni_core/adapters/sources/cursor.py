"""Cursor: the conversations in its global database.

The database is large, in use, and has keys of the user's account: rows are asked for by their
names, one conversation after the other, and no other rows are read.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import unquote

from zapomni_core.adapters.sources import (
    FoundFile,
    ImportedEvent,
    Item,
    SkippedRecord,
    SourceEnvironment,
)
from zapomni_core.adapters.sources.foreign import (
    find_named,
    has_tables,
    open_database,
    parse_mapping,
    read_time,
    skip_damage,
)

__all__ = ["SOURCE"]

HEADERS: LiteralString = (
    "SELECT value FROM ItemTable WHERE key = 'composer.composerHeaders'"
    " AND length(value) <= 64000000"
)
LIST_BUBBLES: LiteralString = (
    "SELECT key, length(value) AS size FROM cursorDiskKV WHERE key >= ? AND key < ? LIMIT 20001"
)
ONE_ROW: LiteralString = "SELECT value FROM cursorDiskKV WHERE key = ? AND length(value) <= 2000000"

MAX_BUBBLES = 20_000
_BUBBLE = re.compile(r"[\w-]{1,100}")
_USER, _ASSISTANT = 1, 2
_TOOL = 15


class _Cursor:
    name = "cursor"
    title = "Cursor conversations"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        bases = [
            environment.home / ".config" / "Cursor" / "User",
            environment.home / "Library" / "Application Support" / "Cursor" / "User",
        ]
        if roaming := environment.environ.get("APPDATA"):
            bases.append(Path(roaming) / "Cursor" / "User")
        usual = [base / "globalStorage" / "state.vscdb" for base in bases]
        return find_named(
            environment, usual, lambda path: has_tables(path, "ItemTable", "cursorDiskKV"),
            "Cursor's globalStorage/state.vscdb", "state.vscdb",
        )  # fmt: skip

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - no offsets
        return skip_damage(_read_database(file))


SOURCE = _Cursor()


def _read_database(file: FoundFile) -> Iterator[Item]:
    with closing(open_database(file.path)) as database:
        row = database.execute(HEADERS).fetchone()
        headers = parse_mapping(_text(row["value"]) if row else "").get("allComposers")
        if not isinstance(headers, list):
            yield SkippedRecord("no list of conversations")
            return
        for place, header in enumerate(headers):
            file.progress.bytes = file.bytes * place // len(headers)
            number = header.get("composerId") if isinstance(header, dict) else None
            if not isinstance(number, str) or not number or header.get("isDraft"):
                yield SkippedRecord("draft")
                continue
            folder = _folder(header)
            if not folder:
                yield SkippedRecord("conversation without a folder")
                continue
            yield from _read_conversation(database, header, number, folder)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _folder(header: dict[str, Any]) -> str:
    uri = parse_mapping(parse_mapping(header.get("workspaceIdentifier")).get("uri"))
    path = uri.get("fsPath") or uri.get("path")
    external = uri.get("external")
    if not path and isinstance(external, str) and external.startswith("file://"):
        path = unquote(external.removeprefix("file://"))
    if not isinstance(path, str):
        return ""
    # A window of several folders is named by a file.
    return str(Path(path).parent) if path.endswith(".code-workspace") else path


def _read_conversation(
    database: sqlite3.Connection, header: dict[str, Any], number: str, folder: str
) -> Iterator[Item]:
    prefix = f"bubbleId:{number}:"
    keys: list[tuple[str, str]] = []
    for row in database.execute(LIST_BUBBLES, (prefix, prefix[:-1] + ";")).fetchall():
        if len(keys) == MAX_BUBBLES:
            yield SkippedRecord("rest of a very long conversation")
            break
        if not _BUBBLE.fullmatch(row["key"].removeprefix(prefix)):
            yield SkippedRecord("the database is damaged")
        elif row["size"] and row["size"] <= 2_000_000:
            # Only when each was made: their texts are read one by one.
            bubble = _read_row(database, row["key"])
            keys.append((str(bubble.get("createdAt") or ""), row["key"]))
        else:
            yield SkippedRecord("too long")
    keys.sort()
    if not keys:
        return

    def event(suffix: str, when: Any, name: str, **fields: Any) -> ImportedEvent:
        payload = {
            "hook_event_name": name,
            "conversation_id": number,
            "workspace_roots": [folder],
            "cwd": folder,
            **fields,
        }
        return ImportedEvent(
            f"{number}/{suffix}", "cursor", payload, number, folder,
            read_time(when, header.get("createdAt")),
        )  # fmt: skip

    yield event("start", header.get("createdAt") or keys[0][0], "sessionStart", source="startup")
    reply: ImportedEvent | None = None
    for when, key in keys:
        bubble, name = _read_row(database, key), key.removeprefix(prefix)
        kind, text = bubble.get("type"), bubble.get("text")
        if kind == _USER and reply is not None:
            yield reply
            reply = None
        if bubble.get("capabilityType") == _TOOL or bubble.get("toolFormerData"):
            yield _read_tool(
                database, parse_mapping(bubble.get("toolFormerData")), name, when, event
            )
        elif not isinstance(text, str) or not text.strip() or kind not in (_USER, _ASSISTANT):
            yield SkippedRecord("without text" if bubble else "not JSON")
        elif kind == _USER:
            yield event(name, when, "beforeSubmitPrompt", prompt=text, generation_id=name)
        else:
            # The reply of a turn is its last message.
            reply = event(name, when, "afterAgentResponse", text=text)
    if reply is not None:
        yield reply


def _read_row(database: sqlite3.Connection, key: str) -> dict[str, Any]:
    row = database.execute(ONE_ROW, (key,)).fetchone()
    return parse_mapping(_text(row["value"])) if row else {}


def _read_tool(
    database: sqlite3.Connection, tool: dict[str, Any], number: str, when: str, event: Any
) -> Item:
    name, status = tool.get("name"), tool.get("status")
    if not isinstance(name, str) or status in ("loading", "cancelled", "pending", None):
        return SkippedRecord("tool that had not ended")
    given, result = parse_mapping(tool.get("params")), parse_mapping(tool.get("result"))
    made: ImportedEvent
    if name.startswith("run_terminal_c"):
        output, code = result.get("output"), result.get("exitCode")
        if code is None:
            code = result.get("exitCodeV2")
        made = event(
            number, when, "afterShellExecution", tool_use_id=tool.get("toolCallId") or number,
            command=given.get("command"), exit_code=code,
            output=output if isinstance(output, str) else "",
        )  # fmt: skip
        return made
    path = next(
        (given[key] for key in ("relativeWorkspacePath", "targetFile", "effectiveUri")
         if isinstance(given.get(key), str)), "",
    )  # fmt: skip
    if name.startswith(("edit_file", "search_replace", "write")):
        edits = _changed_part(database, result)
        made = event(
            number, when, "afterFileEdit", file_path=path, edits=edits,
            tool_use_id=tool.get("toolCallId") or number,
        )  # fmt: skip
        return made
    failed = status == "error"
    made = event(
        number, when, "postToolUseFailure" if failed else "postToolUse",
        tool_name=_NAMES.get(name.removesuffix("_v2"), name),
        tool_input={"path": path, **given} if path else given,
        tool_output=tool.get("result"),
        tool_use_id=tool.get("toolCallId") or number,
        **({"error_message": str(tool.get("error") or "failed")} if failed else {}),
    )  # fmt: skip
    return made


_NAMES = {
    "read_file": "Read",
    "ripgrep_raw_search": "Grep",
    "ripgrep": "Grep",
    "grep_search": "Grep",
    "grep": "Grep",
    "glob_file_search": "Glob",
    "list_dir": "LS",
    "web_search": "WebSearch",
    "task": "Task",
}


def _changed_part(database: sqlite3.Connection, result: dict[str, Any]) -> list[dict[str, str]]:
    """Return the lines of a file that an edit changed, before and after."""
    texts = []
    for side in ("beforeContentId", "afterContentId"):
        key = result.get(side)
        if not isinstance(key, str) or not key.startswith("composer.content."):
            return []
        row = database.execute(ONE_ROW, (key,)).fetchone()
        texts.append(_text(row["value"]).split("\n") if row else [])
    before, after = texts
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    return [{"old_string": "\n".join(old), "new_string": "\n".join(new)}]
