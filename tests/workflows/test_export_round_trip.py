"""What is exported and imported into an empty home is exported again byte for byte."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from zapomni_core.engine import create_engine
from zapomni_core.exceptions import ProcessingError, ValidationError
from zapomni_core.infra import export_folder
from zapomni_core.infra.export_folder import ExportFolder
from zapomni_core.interfaces import (
    AddMemoryRequest,
    ListRequest,
    SearchRequest,
    UpdateMemoryRequest,
)
from zapomni_core.settings import load_settings
from zapomni_core.workflows.export_memories import PARTS
from zapomni_db.copy_models import MergeCopy
from zapomni_db.sqlite.deletions import SqliteDeletions

pytestmark = pytest.mark.anyio

LATER = datetime(2999, 1, 1, tzinfo=UTC)
SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture(params=["sqlite", "falkordb"])
def homes(request, tmp_path):
    """Two homes whose memories are in files, or in two graphs of a server."""
    folders = [tmp_path / "one", tmp_path / "two"]
    if request.param == "sqlite":
        yield [load_settings(home=home, embedder="none") for home in folders]
        return
    server = request.getfixturevalue("falkordb_server")
    graph = request.getfixturevalue("falkordb_graph")
    other = f"{graph}-other"
    found = [
        load_settings(home=home, embedder="none", storage=f"unix://{server.socket}?graph={name}")
        for home, name in zip(folders, (graph, other), strict=True)
    ]

    yield found
    with redis.Redis(unix_socket_path=str(server.socket), decode_responses=True) as connection:
        if other in connection.execute_command("GRAPH.LIST"):
            connection.execute_command("GRAPH.DELETE", other)


def contents(folder: Path) -> dict[str, bytes]:
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


async def fill(engine, repository: Path) -> list[str]:
    (repository / ".git").mkdir(parents=True)
    (repository / "pay.py").write_text("def charge():\n    return 1\n")
    first = await engine.add_memory(
        AddMemoryRequest(
            text='We chose Postgres.\r\n\u2028Über \N{ROCKET} \\ "quoted"',
            kind="decision",
            tags=["b", "a", "é"],
            metadata={"z": [1, 2.5, None, True], "a": {"é": "ü"}},
            pinned=True,
            idempotency_key="once",
            cites=["pay.py:charge"],
            folder=str(repository),
            project="*",
        )
    )
    await engine.update_memory(
        UpdateMemoryRequest(memory_id=first.memory_id, text="We chose SQLite.", tags=["a"])
    )
    second = await engine.add_memory(
        AddMemoryRequest(
            text="We chose DuckDB.",
            supersedes=first.memory_id,
            expires_at=LATER,
        )
    )
    third = await engine.add_memory(
        AddMemoryRequest(
            text=f"The token is {SECRET}.",
            parent="talk",
            position=7,
            source="meeting",
            project="shop",
            origin="import:mem0",
            trusted=False,
        )
    )
    return [one.memory_id for one in (first, second, third)]


async def fill_others(engine) -> None:
    """Add projects, sessions, observations and a merge of entities."""
    project = {"key": "example.org/ann/shop", "name": "Shop", "injection": False, "created_at": 7}
    rules = {"aliases": ["/old/shop"], "private": True, "excluded": False}
    await engine.observations.import_projects([{**project, **rules}])
    session = {"id": "s1", "project": "example.org/ann/shop", "host": "codex", "branch": "main"}
    times = {"started_at": 1_700_000_000, "last_at": 1_702_000_000, "ended_at": None}
    events = [
        {
            "session_id": "s1",
            "project": "example.org/ann/shop",
            "host": "codex",
            # Two months; the prompt has the later hash.
            "timestamp": 1_700_000_000 + number * 2_000_000,
            "obs_type": "command" if number else "user_prompt",
            "source_event": "PostToolUse",
            "tool_name": "Bash" if number else None,
            "file_path": None,
            "content": f"observation {number} \u2028",
            "metadata": {"exit": 1} if number else None,
            "signature": None,
            "pinned": bool(number),
            "event_hash": f"{255 - number:064x}",
            "prompt": f"{255:064x}" if number else None,
        }
        for number in range(2)
    ]
    await engine.observations.import_observations(events, [{**session, **times}])
    merge = MergeCopy(source_id="a", target_id="b", automatic=False, merged_at=LATER)
    await engine.storage.import_merges([merge])


async def test_a_round_trip_into_an_empty_home_is_equal_byte_for_byte(homes, tmp_path):
    source, target = homes
    async with await create_engine(source) as engine:
        ids = await fill(engine, tmp_path / "repository")
        await fill_others(engine)
        for name, parts in (("plain", ()), ("whole", PARTS)):
            await engine.exports.to_folder(tmp_path / name, {}, parts)
            await engine.exports.to_lines(tmp_path / f"{name}.jsonl", {}, parts)
    there = contents(tmp_path / "whole")
    assert [name for name in there if not name.startswith("memories/")] == [
        "graph/merges.jsonl",
        "observations/2023-11.jsonl",
        "observations/2023-12.jsonl",
        "observations/sessions.jsonl",
        "projects.jsonl",
        "zapomni.json",
    ]
    whole = {one.get("id"): one for one in map(json.loads, there.values())}
    assert whole[ids[0]]["history"][0]["text"].startswith("We chose Postgres.\r\n\u2028")
    assert whole[ids[0]]["citations"][0]["symbol"] == "charge"
    assert whole[ids[1]]["supersedes"] == [ids[0]]

    for given in (tmp_path / "whole", tmp_path / "whole.jsonl"):
        shutil.rmtree(target.home, ignore_errors=True)
        async with await create_engine(target) as engine:
            for memory_id in await engine.storage.list_ids(_everything()):
                await engine.storage.delete_memory(memory_id)
            report = await engine.record_imports.import_export(given, observations=True)
            assert (report.projects, report.observations) == (1, 2)
            assert (report.read, report.added, report.skipped_count) == (3, 3, 0)
            assert sum(report.secrets.values()) == 1
            for name, parts in (("plain", ()), ("whole", PARTS)):
                again = tmp_path / f"{given.name}-{name}"
                await engine.exports.to_folder(again, {}, parts)
                written = await engine.exports.to_folder(again, {}, parts)
                assert written.written == 0
                mine = {k: v for k, v in contents(again).items() if not k.startswith("tombstones")}
                assert mine == contents(tmp_path / name)
            await engine.exports.to_lines(tmp_path / "again.jsonl", {"project": "shop"}, PARTS)
            # Nothing of it is given to a session before the user trusts it, and all is found.
            listed = await engine.list_memories(ListRequest())
            assert not any(one.trusted for one in listed.items)
            found = await engine.search_memory(SearchRequest(query="DuckDB"))
            assert [hit.memory_id for hit in found.results] == [ids[1]]
            same = await engine.record_imports.import_export(given, observations=True)
            assert (same.projects, same.merges, same.observations) == (0, 0, 0)
            assert (same.added, same.unchanged, same.changed) == (0, 3, 0)


def _everything():
    from zapomni_db.models import MemoryFilter

    return MemoryFilter(include_superseded=True)


@pytest.fixture
async def engine(anyio_backend):
    async with await create_engine(load_settings(embedder="none")) as opened:
        yield opened


async def test_a_damaged_record_is_counted_and_the_rest_is_imported(engine, tmp_path):
    ids = await fill(engine, tmp_path / "repository")
    out = tmp_path / "out"
    await engine.exports.to_folder(out, {})
    paths = {path.stem: path for path in (out / "memories").rglob("*.json")}
    data = paths[ids[0]].read_bytes()
    for memory_id in ids:
        await engine.storage.delete_memory(memory_id)
    cut = [data[:length] for length in range(0, len(data) - 2, 37)]
    for broken in (b"", b"<<<<<<< HEAD\n" + data, b"[]", *cut):
        paths[ids[0]].write_bytes(broken)
        report = await engine.record_imports.import_export(out, dry_run=True)
        assert (report.read, report.added, report.skipped_count) == (3, 2, 1)
        assert list(report.skipped) == [str(paths[ids[0]].relative_to(out))]
    report = await engine.record_imports.import_export(out)
    # What it replaced is missing: the link cannot be kept.
    assert (report.added, report.links_dropped) == (2, 1)
    # A file that is damaged is not overwritten either.
    await engine.record_imports.import_export(out)
    before = paths[ids[0]].read_bytes()
    assert (await engine.exports.to_folder(out, {})).removed == 0
    assert paths[ids[0]].read_bytes() == before


async def test_what_is_newer_in_the_folder_is_left_for_the_import(engine, tmp_path):
    ids = await fill(engine, tmp_path / "repository")
    out = tmp_path / "out"
    await engine.exports.to_folder(out, {})
    path = out / "memories" / ids[1][:2] / f"{ids[1]}.json"
    record = json.loads(path.read_bytes())
    record |= {"text": "Written on another device.", "updated_at": "2999-01-01T00:00:00.000000Z"}
    path.write_text(json.dumps(record))
    report = await engine.exports.to_folder(out, {})
    assert (report.newer, report.written, report.unchanged) == (1, 0, 2)
    assert json.loads(path.read_bytes()) == record
    # Nor is it removed when it is no longer selected.
    await engine.exports.to_folder(out, {"tags": ["no memory has it"]})
    assert list((out / "memories").rglob("*.json")) == [path]


async def test_a_deleted_memory_becomes_a_tombstone_and_a_later_change_wins(engine, tmp_path):
    ids = await fill(engine, tmp_path / "repository")
    out = tmp_path / "out"
    await engine.exports.to_folder(out, {})
    await engine.delete_memory(ids[2])
    deletions = SqliteDeletions(engine._settings.home / "zapomni.db")
    if ids[2] not in {one.memory_id for one in await deletions.list_all()}:
        await deletions.note({ids[2]: 0}, 1_800_000_000_000_000)
    await deletions.close()
    report = await engine.exports.to_folder(out, {})
    assert (report.removed, report.tombstones) == (1, 1)
    assert not (out / "memories" / ids[2][:2] / f"{ids[2]}.json").exists()
    grave = json.loads((out / "tombstones" / f"{ids[2]}.json").read_bytes())
    assert grave["id"] == ids[2]
    before = contents(out)
    await engine.exports.to_folder(out, {})
    assert contents(out) == before
    # A selection says nothing about memories that were never in its folder.
    await engine.exports.to_folder(tmp_path / "some", {"kind": "decision"})
    assert not (tmp_path / "some" / "tombstones").exists()


async def test_filters_select_and_what_is_no_longer_selected_is_removed(engine, tmp_path):
    ids = await fill(engine, tmp_path / "repository")
    out = tmp_path / "out"

    def exported() -> set[str]:
        return {path.stem for path in (out / "memories").rglob("*.json")}

    await engine.exports.to_folder(out, {"project": "shop"})
    assert exported() == {ids[2]}
    await engine.exports.to_folder(out, {"kind": "decision"})
    assert exported() == {ids[0]}
    await engine.exports.to_folder(out, {})
    assert exported() == set(ids)


@pytest.mark.parametrize("marker", [None, "{}", '{"format": 2}', "no JSON", '{"format": "1"}'])
async def test_a_folder_that_is_not_ours_or_newer_is_refused_untouched(engine, tmp_path, marker):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    if marker is not None:
        (out / "zapomni.json").write_text(marker)
    before = contents(out)
    with pytest.raises(ValidationError):
        await engine.exports.to_folder(out, {})
    with pytest.raises(ValidationError):
        await engine.record_imports.import_export(out)
    assert contents(out) == before


async def test_links_are_not_followed_out_of_the_folder(engine, tmp_path):
    ids = await fill(engine, tmp_path / "repository")
    out, outside = tmp_path / "out", tmp_path / "outside"
    await engine.exports.to_folder(out, {})
    outside.mkdir()
    path = out / "memories" / ids[0][:2] / f"{ids[0]}.json"
    record = path.read_bytes()
    (outside / path.name).write_bytes(b"untouched")
    path.unlink()
    path.symlink_to(outside / path.name)
    with pytest.raises(ValidationError, match="link"):
        await engine.exports.to_folder(out, {})
    (outside / path.name).write_bytes(record)
    report = await engine.record_imports.import_export(out)
    assert report.skipped_count == 1
    path.unlink()
    shutil.rmtree(path.parent)
    path.parent.symlink_to(outside)
    with pytest.raises(ValidationError, match="link"):
        await engine.exports.to_folder(out, {})
    assert contents(outside) == {path.name: record}


async def test_a_full_disk_in_the_middle_leaves_every_file_whole(engine, tmp_path, monkeypatch):
    ids = await fill(engine, tmp_path / "repository")
    out = tmp_path / "out"
    await engine.exports.to_folder(out, {})
    before = contents(out)
    for memory_id in ids:
        await engine.update_memory(UpdateMemoryRequest(memory_id=memory_id, text=memory_id))
    written = 0

    def fsync(descriptor: int) -> None:
        nonlocal written
        written += 1
        if written == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_folder.os, "fsync", fsync)
    with pytest.raises(OSError, match="No space"):
        await engine.exports.to_folder(out, {})
    now = contents(out)
    assert now.keys() == before.keys()
    assert sum(now[name] != before[name] for name in now) == 1
    monkeypatch.undo()
    assert (await engine.exports.to_folder(out, {})).written == 2


async def test_a_folder_that_may_not_be_written_to_is_named_in_words(engine, tmp_path, monkeypatch):
    await fill(engine, tmp_path / "repository")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(export_folder.os, "fsync", refuse)
    with pytest.raises(ValidationError, match="may not be written to"):
        await engine.exports.to_folder(tmp_path / "out", {})
    assert contents(tmp_path / "out") == {}


async def test_one_process_at_a_time_works_in_a_folder(engine, tmp_path, monkeypatch):
    await engine.exports.to_folder(tmp_path / "out", {})
    monkeypatch.setattr(export_folder, "LOCK_SECONDS", 0.0)
    with ExportFolder(tmp_path / "out"), pytest.raises(ProcessingError) as refused:
        await engine.exports.to_folder(tmp_path / "out", {})
    assert refused.value.error_code == "EXPORT_001"


async def test_what_an_interrupted_export_left_is_removed(engine, tmp_path):
    await fill(engine, tmp_path / "repository")
    out = tmp_path / "out"
    await engine.exports.to_folder(out, {})
    (out / "memories" / ".zapomni-part-00").write_bytes(b"half")
    await engine.exports.to_folder(out, {})
    assert not list(out.rglob(".zapomni*"))


async def test_lines_are_refused_if_they_are_something_else(engine, tmp_path):
    file = tmp_path / "notes.jsonl"
    file.write_text('{"mine": 1}\n')
    with pytest.raises(ValidationError):
        await engine.exports.to_lines(file, {})
    with pytest.raises(ValidationError):
        await engine.record_imports.import_export(file)
    assert file.read_text() == '{"mine": 1}\n'
    file.write_text('{"format":9,"zapomni":"export"}\n')
    with pytest.raises(ValidationError, match="Upgrade"):
        await engine.record_imports.import_export(file)
    assert [path.name for path in tmp_path.iterdir() if "notes" in path.name] == ["notes.jsonl"]
