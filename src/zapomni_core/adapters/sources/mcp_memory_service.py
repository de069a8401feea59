"""mcp-memory-service: its SQLite database, and its JSON export."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString

from zapomni_core.adapters.sources import (
    FoundFile,
    ImportedMemory,
    Item,
    SkippedRecord,
    SourceEnvironment,
    open_regular,
)
from zapomni_core.adapters.sources.foreign import (
    find_named,
    has_tables,
    is_database,
    kind_or_note,
    open_database,
    parse_mapping,
    read_pages,
    read_time,
    skip_damage,
    text_list,
)
from zapomni_core.adapters.sources.json_stream import UNREADABLE, stream_json

__all__ = ["SOURCE"]

SURVEY: LiteralString = "SELECT count(*) AS records, min(created_at) AS oldest FROM memories"
MEMORIES: LiteralString = (
    "SELECT rowid AS place, * FROM memories WHERE rowid > ? ORDER BY rowid LIMIT ?"
)


class _McpMemoryService:
    name = "mcp-memory-service"
    title = "mcp-memory-service memories"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        home, environ = environment.home, environment.environ
        bases = [
            home / ".local" / "share" / "mcp-memory",
            home / "Library" / "Application Support" / "mcp-memory",
        ]
        if local := environ.get("LOCALAPPDATA"):
            bases.append(Path(local) / "mcp-memory")
        if base := environ.get("MCP_MEMORY_BASE_DIR"):
            bases = [Path(base)]
        usual = [base / "sqlite_vec.db" for base in bases]
        if path := environ.get("MCP_MEMORY_SQLITE_PATH"):
            usual = [Path(path)]
        return find_named(
            environment, usual, _accepts,
            "sqlite_vec.db or an export of mcp-memory-service", ".db", ".json", survey=SURVEY,
        )  # fmt: skip

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - no offsets
        if is_database(file.path):
            return skip_damage(_read_database(file.path))
        return _read_export(file.path)


SOURCE = _McpMemoryService()


def _accepts(path: Path) -> bool:
    if is_database(path):
        if not has_tables(path, "memories"):
            return False
        with closing(open_database(path)) as database:
            columns = {row["name"] for row in database.execute("PRAGMA table_info(memories)")}
        return "content_hash" in columns
    with open_regular(path) as stream:
        head = stream.read(4096)
    return b'"export_metadata"' in head or b'"content_hash"' in head


def _read_database(path: Path) -> Iterator[Item]:
    with closing(open_database(path)) as database:
        replaced: dict[str, str] = {}
        for row in read_pages(database, MEMORIES):
            old = dict(row)
            if old.get("superseded_by") and not old.get("deleted_at"):
                replaced[old["superseded_by"]] = old["content_hash"]
        for row in read_pages(database, MEMORIES):
            record = {**row}
            yield _read_record(record, replaced)


def _read_export(path: Path) -> Iterator[Item]:
    with open_regular(path) as stream:
        for name, record in stream_json(stream):
            if name not in ("", "memories"):
                continue
            if isinstance(record, dict):
                yield _read_record(record, {})
            else:
                yield SkippedRecord("too long" if record is UNREADABLE else "not a record")


def _read_record(record: dict[str, Any], replaced: dict[str, str]) -> Item:
    text, number = record.get("content"), record.get("content_hash")
    if record.get("deleted_at"):
        return SkippedRecord("deleted there")
    if not isinstance(text, str) or not text.strip() or not isinstance(number, str) or not number:
        return SkippedRecord("without text or hash")
    tags = record.get("tags")
    if isinstance(tags, str) and not tags.lstrip().startswith("["):
        tags = tags.split(",")
    metadata = parse_mapping(record.get("metadata"))
    store = record.get("store")
    if isinstance(store, str) and store not in ("", "default"):
        metadata["store"] = store
    kind = record.get("memory_type")
    project = metadata.get("project")
    return ImportedMemory(
        number,
        text.strip(),
        kind_or_note(kind),
        tuple(text_list(tags)),
        # A fault in one of its versions set `created_at` to the time of a synchronization.
        when=read_time(record.get("created_at_iso"), record.get("created_at")),
        project=project if isinstance(project, str) else "",
        supersedes=replaced.get(number, ""),
        metadata=metadata | ({"type": kind} if isinstance(kind, str) and kind else {}),
    )
