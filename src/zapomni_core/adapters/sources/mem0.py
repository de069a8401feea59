"""mem0 and OpenMemory: the history that mem0 writes, exports, and OpenMemory's database and backup.

The history rebuilds every memory with its earlier texts and needs no vector store, which is where
mem0 has the texts otherwise, and which is often in a folder that a restart empties.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, LiteralString
from uuid import UUID

from zapomni_core.adapters.sources import (
    FoundFile,
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
    has_tables,
    is_archive,
    is_database,
    open_database,
    open_gzip,
    open_member,
    parse_mapping,
    read_pages,
    read_time,
    safe_members,
    short_hash,
    skip_damage,
    text_list,
)
from zapomni_core.adapters.sources.json_stream import UNREADABLE, stream_json

__all__ = ["SOURCE"]

# One memory after the other, each in the order in which it changed.
LIST_MEMORIES: LiteralString = (
    "SELECT DISTINCT memory_id AS place FROM history WHERE memory_id > ? ORDER BY memory_id LIMIT ?"
)
LIST_CHANGES: LiteralString = (
    "SELECT rowid AS place, * FROM history WHERE rowid > ? AND memory_id = ? ORDER BY rowid LIMIT ?"
)
SURVEY: LiteralString = (
    "SELECT count(DISTINCT memory_id) AS records, min(created_at) AS oldest FROM history"
)
OPEN_MEMORIES: LiteralString = (
    "SELECT memories.rowid AS place, memories.*, apps.name AS app FROM memories"
    " LEFT JOIN apps ON apps.id = memories.app_id"
    " WHERE memories.rowid > ? ORDER BY memories.rowid LIMIT ?"
)
OPEN_CATEGORIES: LiteralString = (
    "SELECT categories.name FROM memory_categories"
    " JOIN categories ON categories.id = memory_categories.category_id"
    " WHERE memory_categories.memory_id = ? LIMIT 50"
)


class _Mem0:
    name = "mem0"
    title = "mem0 and OpenMemory memories"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        folder = environment.environ.get("MEM0_DIR")
        base = Path(folder) if folder else environment.home / ".mem0"
        return find_named(
            environment, [base / "history.db"], _accepts,
            "mem0's history.db, openmemory.db, a JSON file of get_all() or a backup of OpenMemory",
            ".db", ".json", ".zip", survey=SURVEY,
        )  # fmt: skip

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - no offsets
        if is_archive(file.path):
            return skip_damage(_read_backup(file.path))
        if not is_database(file.path):
            return _read_export(file.path)
        if has_tables(file.path, "history"):
            return skip_damage(_read_history(file.path))
        return skip_damage(_read_openmemory(file.path))


SOURCE = _Mem0()


def _accepts(path: Path) -> bool:
    if is_archive(path):
        return bool(_backup_members(path))
    if is_database(path):
        return has_tables(path, "history") or has_tables(path, "memories", "apps")
    with open_regular(path) as stream:
        head = stream.read(1 << 16)
    return b'"memory"' in head or (b'"content"' in head and b'"app_id"' in head)


def _read_history(path: Path) -> Iterator[Item]:
    with closing(open_database(path)) as database:
        for memory in read_pages(database, LIST_MEMORIES, ""):
            texts: list[tuple[str, Any]] = []
            metadata: dict[str, Any] = {}
            deleted = False
            for row in read_pages(database, LIST_CHANGES, 0, memory["place"]):
                change = dict(row)
                deleted = change.get("event") == "DELETE" or bool(change.get("is_deleted"))
                new = change.get("new_memory")
                if isinstance(new, str) and new.strip() and not deleted:
                    when = read_time(change.get("updated_at"), change.get("created_at"))
                    texts.append((new.strip(), when))
                    metadata |= {k: change[k] for k in ("actor_id", "role") if change.get(k)}
            if deleted or not texts:
                yield SkippedRecord("deleted there" if deleted else "without text")
                continue
            earlier, last = "", len(texts) - 1
            for number, (text, when) in enumerate(texts):
                again = sum(one == text for one, _ in texts[:number])
                native_id = f"{memory['place']}:{short_hash(text)}" + (f":{again}" if again else "")
                if number == last:
                    native_id = _plain_id(memory["place"])  # The one that exports know.
                yield ImportedMemory(
                    native_id,
                    text,
                    when=when,
                    supersedes=earlier,
                    metadata=metadata,
                    follows=number == last,
                )
                earlier = native_id


def _read_export(path: Path) -> Iterator[Item]:
    with open_regular(path) as stream:
        for name, record in stream_json(stream):
            if name in ("", "results", "memories"):
                yield _read_record(record)


def _read_record(record: Any) -> Item:
    """Read one memory of an export: of mem0, its platform, or OpenMemory."""
    if not isinstance(record, dict):
        return SkippedRecord("too long" if record is UNREADABLE else "not a record")
    text = record.get("memory") or record.get("content") or record.get("data")
    number = record.get("id")
    if not isinstance(text, str) or not text.strip() or not isinstance(number, str) or not number:
        return SkippedRecord("without text or id")
    state = record.get("state") or "active"
    if state != "active":
        return SkippedRecord(f"{state} there" if state in _STATES else "not active there")
    metadata = parse_mapping(record.get("metadata"))
    metadata |= {
        name: record[name]
        for name in ("user_id", "agent_id", "run_id", "app_id", "app")
        if isinstance(record.get(name), str) and record[name]
    }
    project = metadata.get("project")
    return ImportedMemory(
        _plain_id(number),
        text.strip(),
        tags=tuple(text_list(record.get("categories"))),
        when=read_time(record.get("created_at"), record.get("updated_at")),
        project=project if isinstance(project, str) else "",
        metadata=metadata,
        follows=True,
    )


_STATES = frozenset(["paused", "archived", "deleted"])


def _plain_id(number: str) -> str:
    """Write an id as exports do: the database has it without hyphens."""
    try:
        return str(UUID(number))
    except ValueError:
        return number


def _read_openmemory(path: Path) -> Iterator[Item]:
    with closing(open_database(path)) as database:
        has_categories = has_tables(path, "categories", "memory_categories")
        for row in read_pages(database, OPEN_MEMORIES):
            record = {name: row[name] for name in row.keys() if name not in ("vector", "place")}  # noqa: SIM118 - a Row
            # Numbers of rows in their other tables, of no use elsewhere.
            record.pop("user_id", None)
            record.pop("app_id", None)
            if has_categories:
                named = database.execute(OPEN_CATEGORIES, (row["id"],)).fetchall()
                record["categories"] = [category["name"] for category in named]
            yield _read_record(record)


def _backup_members(path: Path) -> dict[str, Any]:
    return {
        base: member
        for name, member in safe_members(path).items()
        if (base := name.rsplit("/", 1)[-1]) in ("memories.json", "memories.jsonl.gz")
    }


def _read_backup(path: Path) -> Iterator[Item]:
    members = _backup_members(path)
    if packed := members.get("memories.jsonl.gz"):
        with open_member(path, packed) as stream, open_gzip(stream, packed.file_size) as lines:
            yield from _read_lines(lines)
    elif plain := members.get("memories.json"):
        with open_member(path, plain) as stream:
            for name, record in stream_json(stream):
                if name == "memories":
                    yield _read_record(record)


def _read_lines(stream: IO[bytes]) -> Iterator[Item]:
    for line in read_lines(stream):
        record = parse_object(line.data)
        if record is None:
            yield SkippedRecord("too long" if line.is_too_long else "not JSON")
        else:
            yield _read_record(record)
