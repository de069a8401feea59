"""Every source on its own: found, read, cut short, damaged, hostile."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import tracemalloc
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from foreign_stores import SECRET, STORES
from zapomni_core.adapters.sources import (
    FormatError,
    ImportedEvent,
    ImportedMemory,
    Item,
    SkippedRecord,
    SourceEnvironment,
    foreign,
    get_source,
)
from zapomni_core.adapters.sources.json_stream import UNREADABLE, stream_json

CUTS = 60


def read(name: str, home: Path, path: Path | None) -> list[Item]:
    source = get_source(name.split(" ", 1)[0])
    environment = SourceEnvironment(home, {}, home / "shop", path)
    return [item for file in source.find(environment) for item in source.read(file, 0)]


def ids(items: list[Item]) -> list[str]:
    return [item.native_id for item in items if not isinstance(item, SkippedRecord)]


@pytest.mark.parametrize("name", STORES)
def test_a_file_cut_at_any_byte_never_raises_and_has_no_other_records(name, tmp_path):
    path = STORES[name].build(tmp_path)
    whole = set(ids(read(name, tmp_path, path)))
    assert whole
    allowed = whole.union(STORES[name].taken_back)
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    files = [one for one in files if ".obsidian" not in one.parts]
    for file in files:
        content = file.read_bytes()
        step = max(1, len(content) // CUTS)
        for cut in range(0, len(content), step):
            file.write_bytes(content[:cut])
            try:
                found = read(name, tmp_path, path)
            except FormatError:
                continue  # So little is left that it is no such file.
            assert set(ids(found)) <= allowed
        file.write_bytes(content)
    assert set(ids(read(name, tmp_path, path))) == whole


@pytest.mark.parametrize("name", STORES)
def test_nothing_is_imported_that_its_program_hides_or_deleted(name, tmp_path):
    path = STORES[name].build(tmp_path)
    items = read(name, tmp_path, path)
    assert "zebra" not in repr([one for one in items if not isinstance(one, SkippedRecord)]).lower()
    for item in items:
        if isinstance(item, ImportedEvent | ImportedMemory):
            assert item.when is None or item.when.year == 2026
        assert not isinstance(item, SkippedRecord) or SECRET not in item.reason


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_database_that_is_being_read_can_be_written_to(mode, tmp_path):
    path = STORES["claude-mem"].build(tmp_path)
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as owner:
        owner.execute(f"PRAGMA journal_mode = {mode}")
        owner.execute("INSERT INTO observations SELECT id + 1000, memory_session_id, project, text,"
                      " type, title, subtitle, facts, narrative, concepts, files_read,"
                      " files_modified, prompt_number, created_at, created_at_epoch"
                      " FROM observations")  # fmt: skip
        source = get_source("claude-mem")
        (file,) = source.find(SourceEnvironment(tmp_path, {}, tmp_path))
        items = source.read(file, 0)
        assert isinstance(next(items), ImportedMemory)
        owner.execute("DELETE FROM observations WHERE id > 1002")
        assert len(ids(list(items))) >= 4


def test_a_database_of_another_program_cannot_be_changed(tmp_path):
    path = STORES["claude-mem"].build(tmp_path)
    before = path.read_bytes()
    read("claude-mem", tmp_path, path)
    assert path.read_bytes() == before
    with closing(foreign.open_database(path)) as database, pytest.raises(sqlite3.OperationalError):
        database.execute("DELETE FROM observations")


def test_a_database_that_stays_locked_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign, "BUSY_MS", 10)
    path = STORES["claude-mem"].build(tmp_path)
    source = get_source("claude-mem")
    (file,) = source.find(SourceEnvironment(tmp_path, {}, tmp_path, path))
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("PRAGMA journal_mode = DELETE")
        owner.execute("BEGIN EXCLUSIVE")
        assert list(source.read(file, 0)) == [
            SkippedRecord("the database is locked by another program")
        ]


def test_a_view_is_not_taken_for_a_table(tmp_path):
    path = tmp_path / "claude-mem.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE sdk_sessions (id); CREATE VIEW observations AS"
            " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n"
        )
    with pytest.raises(FormatError):
        read("claude-mem", tmp_path, path)


@pytest.mark.parametrize("name", ["auth.json", ".credentials.json", ".env"])
def test_a_file_with_credentials_is_not_read_even_if_it_is_named(name, tmp_path):
    path = tmp_path / name
    path.write_text(json.dumps({"results": [{"id": "1", "memory": SECRET}]}))
    with pytest.raises(FormatError):
        read("mem0", tmp_path, path)


def test_an_archive_cannot_reach_out_of_itself(tmp_path):
    inside = json.dumps([{"uuid": "k", "name": "n", "chat_messages": [
        {"sender": "human", "text": "Hello from the archive"}]}])  # fmt: skip
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../conversations.json", "/conversations.json", "a/../../projects.json"):
            archive.writestr(name, inside.replace("archive", "outside"))
        link = zipfile.ZipInfo("link/conversations.json")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("data/conversations.json", inside)
    (item,) = read("claude-ai", tmp_path, path)
    assert item.text == "User: Hello from the archive"


def test_an_archive_that_expands_without_end_is_refused(tmp_path):
    def bomb(name: str, data: bytes) -> Path:
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("conversations.json", b'[{"mapping": 1},' + data)
            archive.writestr("memories.jsonl.gz", gzip.compress(data))
        return path

    path = bomb("bomb.zip", b" " * 40_000_000)
    with pytest.raises(FormatError):
        read("chatgpt", tmp_path, path)
    # Its second layer expands too.
    assert read("mem0", tmp_path, path) == [
        SkippedRecord("the archive unpacks to far more than its size")
    ]


def test_a_large_export_is_read_in_the_memory_of_a_small_one(tmp_path):
    def peak(count: int) -> int:
        path = tmp_path / "conversations.json"
        one = json.dumps({"id": "c", "mapping": {"n": {"parent": None, "message": {
            "author": {"role": "user"}, "content": {"content_type": "text",
                                                    "parts": ["word " * 10_000]}}}},
            "current_node": "n"})  # fmt: skip
        path.write_text("[" + ",".join([one] * count) + "]")
        source = get_source("chatgpt")
        (file,) = source.find(SourceEnvironment(tmp_path, {}, tmp_path, path))
        tracemalloc.start()
        try:
            assert sum(isinstance(item, ImportedMemory) for item in source.read(file, 0)) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small, large = peak(10), peak(400)
    assert large < small * 1.2
    assert large < 2_000_000


def test_elements_that_cannot_be_read_are_counted_and_passed_over():
    deep = b"[" * 100_000 + b"]" * 100_000
    many = b'[{"a":"' + b"x" * 70_000 + b'","b":[' + b"[]," * 1_000_001 + b"0]},"
    for element in (deep, b'{"a": nope, "b": "}"}', b'"' + b"x" * 17_000_000 + b'"', many + b"1]"):
        document = b'{"memories": [1, ' + element + b', {"id": 2}], "after": "it"}'
        assert list(stream_json(io.BytesIO(document))) == [
            ("memories", 1), ("memories", UNREADABLE), ("memories", {"id": 2}), ("after", "it"),
        ]  # fmt: skip


class _Dripping(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        return super().read(3)


def test_a_document_is_the_same_in_whatever_pieces_it_comes_and_may_end_anywhere():
    document = {"a": 1, "b": [{"x": 'y\\" ]'}, -2.5e-3, "ž\u2028", [1, [2]], None, True],
                "c": {"d": [1]}, "e": []}  # fmt: skip
    data = json.dumps(document, ensure_ascii=False, indent=1).encode()
    whole = list(stream_json(io.BytesIO(data)))
    assert whole == [("a", 1), *(("b", one) for one in document["b"]), ("c", {"d": [1]})]
    for end in range(len(data) + 1):
        found = list(stream_json(_Dripping(data[:end])))
        assert found == whole[: len(found)]
        assert found == list(stream_json(io.BytesIO(data[:end])))


def test_times_are_those_of_the_records(tmp_path):
    path = STORES["mcp-memory-service"].build(tmp_path)
    days = {str(item.when)[:10] for item in read("mcp-memory-service", tmp_path, path)
            if isinstance(item, ImportedMemory)}  # fmt: skip
    assert days == {"2026-05-01"}  # `created_at` says the next day: a fault of its program.
    path = STORES["mem0 export"].build(tmp_path)
    assert str(read("mem0", tmp_path, path)[0].when) == "2026-05-01 17:00:00+00:00"


def test_a_changed_memory_of_mem0_replaces_its_earlier_text(tmp_path):
    found = read("mem0", tmp_path, STORES["mem0"].build(tmp_path))
    tea, coffee = found[0], found[1]
    assert (tea.text, coffee.text) == ("Drinks tea in the morning", "Drinks coffee in the morning")
    assert coffee.supersedes == tea.native_id
    assert not tea.supersedes


def test_a_very_long_conversation_becomes_several_documents_without_losing_any_of_it(tmp_path):
    said = [f"question {number} " + "word " * 20_000 for number in range(12)]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"uuid": "k", "name": "Long", "chat_messages": [
        {"sender": "human", "text": text} for text in [*said, "x" * 600_000]]}]))  # fmt: skip
    items = read("claude-ai", tmp_path, path)
    assert ids(items) == ["k", "k#2", "k#3", "k#4", "k#5"]
    assert {item.parent for item in items} == {"k"}
    assert all(len(item.text) < 510_000 for item in items)
    whole = "".join(item.text for item in items)
    assert all(text.strip() in whole for text in said)
    assert whole.count("x") >= 600_000


def test_settings_and_databases_of_nonsense_are_nothing_to_import(tmp_path):
    nonsense = json.dumps({
        "projects": {"a": "~stranger/x", "b": {"path": "with a \0"}, "c": 7, "d": None},
        "vaults": {"1": {"path": "\0"}, "2": 3, "4": {"path": ["x"]}},
    })  # fmt: skip
    for name in (".basic-memory/config.json", ".config/obsidian/obsidian.json",
                 ".gemini/projects.json", ".gemini/tmp/x/chats/session-1.jsonl",
                 ".copilot/session-state/s/events.jsonl", "Downloads/a.zip",
                 "Downloads/x/conversations.json", ".claude-mem/claude-mem.db",
                 ".mem0/history.db", ".local/share/mcp-memory/sqlite_vec.db",
                 ".local/share/opencode/opencode.db",
                 ".config/Cursor/User/globalStorage/state.vscdb"):  # fmt: skip
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text(nonsense)
    for name in {name.split(" ", 1)[0] for name in STORES}:
        assert get_source(name).find(SourceEnvironment(tmp_path, {}, tmp_path)) == []


def test_a_chat_of_gemini_is_what_is_left_of_its_log(tmp_path):
    def user(number: str, text: str) -> dict:
        return {"id": number, "type": "user", "timestamp": "2026-05-01T10:00:00Z", "content": text}

    lines = [
        {"sessionId": "s", "projectHash": "h", "directories": ["/w/shop"]},
        user("u1", "first"),
        user("u2", "second"),
        {"$set": {"messages": [user("u3", "third"), user("u4", "fourth")]}},
        user("u3", "third, corrected"),
        user("u5", "fifth"),
        {"$rewindTo": "u4"},
        user("u6", "sixth"),
    ]

    def prompts(count: int) -> list[str]:
        path = tmp_path / "chats" / "session-1.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines[:count]))
        items = read("gemini", tmp_path, path)
        return [item.payload["prompt"] for item in items if "prompt" in item.payload]

    assert prompts(3) == ["first", "second"]
    assert prompts(4) == ["third", "fourth"]
    assert prompts(6) == ["third, corrected", "fourth", "fifth"]
    assert prompts(8) == ["third, corrected", "sixth"]
    lines.append({"$rewindTo": "unknown"})
    assert prompts(9) == []


def test_the_reference_server_is_found_by_the_settings_of_its_client(tmp_path):
    notes = tmp_path / "notes" / "graph.jsonl"
    notes.parent.mkdir()
    notes.write_text('{"type": "relation", "from": "a", "to": "b", "relationType": "is"}\n')
    settings = tmp_path / ".cursor" / "mcp.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"mcpServers": {
        "memory": {"command": "npx", "env": {"MEMORY_FILE_PATH": str(notes)}},
        "other": {"url": "https://example.org"}, "odd": [],
    }}))  # fmt: skip
    assert ids(read("mcp-memory", tmp_path, None)) != []


def test_what_a_subagent_of_opencode_does_belongs_to_the_session_that_started_it(tmp_path):
    path = STORES["opencode"].build(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("INSERT INTO session (id, parent_id, directory) VALUES"
                         " ('ses_2', 'ses_1', '/w/shop')")  # fmt: skip
        database.execute("UPDATE part SET session_id = 'ses_2' WHERE id IN ('prt_1', 'prt_4')")
        database.commit()
    events = [one for one in read("opencode", tmp_path, path) if isinstance(one, ImportedEvent)]
    assert {one.session_id for one in events} == {"ses_1"}
    assert not any("prompt" in one.payload for one in events)
    assert [one.payload.get("agent_id") for one in events if "tool_name" in one.payload] == [
        "subagent"
    ]


@pytest.mark.parametrize("name", ["chatgpt", "chatgpt plain", "claude-ai"])
def test_how_far_an_export_is_read_is_known(name, tmp_path):
    path = STORES[name].build(tmp_path)
    source = get_source(name.split(" ", 1)[0])
    (file,) = source.find(SourceEnvironment(tmp_path, {}, tmp_path, path))
    steps = [file.progress.bytes for _ in source.read(file, 0)]
    assert steps == sorted(steps)
    assert 0 < steps[-1] <= file.bytes
