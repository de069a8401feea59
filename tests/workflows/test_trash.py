"""The trash: what is forgotten comes back whole, and what is emptied does not."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from code_trees import Repository, index

from zapomni_core.engine import create_engine
from zapomni_core.exceptions import DatabaseError, NotFoundError, ValidationError
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest, UpdateMemoryRequest
from zapomni_core.modules.observations import PurgeSelection
from zapomni_core.settings import load_settings
from zapomni_core.workflows.copy_storage import compare_storages
from zapomni_core.workflows.trash import TRASH_DAYS
from zapomni_db.models import EmbeddingSpace
from zapomni_db.sqlite.deletions import SqliteTrash

pytestmark = pytest.mark.anyio

SECRET = "the vault code is tangerine-47"


@pytest.fixture(params=["sqlite", "falkordb"])
async def engine(request, anyio_backend, monkeypatch):
    if request.param == "falkordb":
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph")
        monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{server.socket}?graph={graph}")
    async with await create_engine(load_settings()) as opened:
        yield opened


async def add(engine, text: str, **fields) -> str:
    return (await engine.add_memory(AddMemoryRequest(text=text, **fields))).memory_id


async def contents(engine):
    stored, _ = await compare_storages(engine.storage, engine.storage, lambda _done, _total: None)
    return stored


async def find(engine, words: str) -> list[str]:
    response = await engine.search_memory(SearchRequest(query=words, limit=5))
    return [hit.memory_id for hit in response.results if hit.text and words in hit.text]


async def digest_ids(engine) -> set[str]:
    known, _ = await engine.memories.digest._file.read_digest()
    return set(known)


async def test_what_is_forgotten_is_nowhere_and_comes_back_whole(engine):
    older = await add(engine, "We deploy on Tuesdays.", tags=["b", "a"], pinned=True)
    newer = await add(
        engine, "We deploy on Thursdays.", supersedes=older, idempotency_key="k", metadata={"n": 1}
    )
    await engine.update_memory(UpdateMemoryRequest(memory_id=newer, text="We deploy on Fridays."))
    other = await add(engine, "The cache is Redis.", occurred_at=datetime(2020, 1, 2, tzinfo=UTC))
    before, digest = await contents(engine), await digest_ids(engine)
    history = await engine.get_history(newer)
    assert before.vectors == before.passages == 3
    assert await find(engine, "Fridays") == [newer]

    batch = await engine.trash.put([newer, other])
    assert (batch.batch, batch.count, batch.why) == ("f-1", 2, "forget")
    assert (batch.until - batch.forgotten_at).days == TRASH_DAYS
    assert await find(engine, "Fridays") == []
    assert await find(engine, "Tuesdays") == [older]
    assert await digest_ids(engine) == {older}
    (listed,) = await engine.trash.list_batches()
    assert (listed.batch, listed.count) == ("f-1", 2)
    assert listed.samples == ["The cache is Redis.", "We deploy on Fridays."]

    undone = await engine.trash.undo("f-1")
    assert (undone.restored, undone.count) == (2, 0)
    assert await contents(engine) == before
    assert await digest_ids(engine) == digest
    assert await engine.get_history(newer) == history
    assert await find(engine, "Fridays") == [newer]
    assert await engine.trash.list_batches() == []
    assert (await engine.trash.undo("f-1")).restored == 0
    assert await contents(engine) == before


async def test_memories_forgotten_one_by_one_find_each_other_again(engine):
    older = await add(engine, "We deploy on Tuesdays.")
    newer = await add(engine, "We deploy on Thursdays.", supersedes=older)
    before = await contents(engine)
    for first, second in ((older, newer), (newer, older)):
        for undone_first in (0, 1):
            batches = [(await engine.trash.put([one])).batch for one in (first, second)]
            await engine.trash.undo(batches[undone_first])
            await engine.trash.undo(batches[1 - undone_first])
            assert await contents(engine) == before


async def test_a_deletion_killed_between_its_steps_loses_nothing(engine, monkeypatch):
    memory_id = await add(engine, SECRET)
    before = await contents(engine)

    async def killed(*_args):
        raise DatabaseError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(engine.storage, "delete_memories", killed)
        with pytest.raises(DatabaseError, match="killed"):
            await engine.trash.put([memory_id])
    assert await contents(engine) == before
    # Emptying the trash deletes no memory that is still stored.
    assert await engine.trash.purge() is None
    assert await contents(engine) == before
    assert (await engine.trash.put([memory_id])).count == 1
    (batch,) = await engine.trash.list_batches()

    for step in ("get_summaries", "restore_memories"):
        with monkeypatch.context() as patched:
            patched.setattr(engine.storage, step, killed)
            with pytest.raises(DatabaseError, match="killed"):
                await engine.trash.undo(batch.batch)
    await engine.trash.undo(batch.batch)
    assert await contents(engine) == before


async def test_other_devices_are_shown_what_was_deleted_and_what_came_back(engine, monkeypatch):
    older = await add(engine, "We deploy on Tuesdays.")
    newer = await add(engine, "We deploy on Thursdays.", supersedes=older)

    async def noted() -> dict[str, tuple[bool, tuple[str, ...]]]:
        found = await engine.exports.deletions.list_all()
        return {one.memory_id: (one.undone_at is None, one.supersedes) for one in found}

    async def killed(*_args, **_kwargs):
        raise DatabaseError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteTrash, "note_deletions", killed)
        with pytest.raises(DatabaseError, match="killed"):
            await engine.delete_memory(newer)
    assert await noted() == {}
    await engine.trash.empty_expired()  # as a long-lived process does every hour
    assert await noted() == {newer: (True, (older,))}
    await engine.trash.undo("f-1")
    assert await noted() == {newer: (False, (older,))}
    await engine.delete_memory(newer)
    assert await noted() == {newer: (True, (older,))}


async def test_citations_are_forgotten_and_come_back(engine, tmp_path):
    repository = Repository(tmp_path / "shop", {"auth.py": "def check(token):\n    return token\n"})
    await index(engine, repository.root)
    memory_id = await add(
        engine, "Tokens are checked.", cites=["auth.py:check"], folder=str(repository.root)
    )
    cited = await engine.citations.get(memory_id)
    assert cited

    batch = (await engine.delete_memory(memory_id)).batch
    assert await engine.citations.get(memory_id) == []
    await engine.trash.undo(batch)
    assert await engine.citations.get(memory_id) == cited


async def test_a_key_used_again_meanwhile_does_not_stop_the_undo(engine):
    memory_id = await add(engine, "We deploy on Tuesdays.", idempotency_key="k")
    batch = (await engine.delete_memory(memory_id)).batch
    other = await add(engine, "We deploy on Thursdays.", idempotency_key="k")

    await engine.trash.undo(batch)
    assert (await engine.get_memory(memory_id)).text == "We deploy on Tuesdays."
    assert (await engine.get_memory(other)).text == "We deploy on Thursdays."


async def test_vectors_of_another_model_are_made_again(engine):
    memory_id = await add(engine, "We deploy on Tuesdays.")
    batch = (await engine.delete_memory(memory_id)).batch
    await engine.storage.activate_space(EmbeddingSpace(model="another", dimension=3))

    await engine.trash.undo(batch)
    assert (await engine.get_memory(memory_id)).text == "We deploy on Tuesdays."
    assert (await engine.get_stats())["pending_vectors"] == 1


async def test_what_is_too_old_is_emptied_and_cannot_be_undone(engine, monkeypatch):
    memory_id = await add(engine, SECRET)
    batch = (await engine.delete_memory(memory_id)).batch
    later = time.time() + TRASH_DAYS * 86_400 + 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert await engine.trash.list_batches() == []
    assert await engine.trash.empty_expired() == 1
    with pytest.raises(NotFoundError) as refused:
        await engine.trash.undo(batch)
    assert refused.value.error_code == "TRASH_001"


@pytest.mark.parametrize("by", ["trash", "search", "id"])
async def test_a_purge_finds_what_is_in_the_trash(engine, by):
    memory_id = await add(engine, SECRET, metadata={"note": 'a "quoted" lemon-12'})
    await add(engine, "We deploy on Tuesdays.")
    await engine.update_memory(UpdateMemoryRequest(memory_id=memory_id, text="The code changed."))
    await engine.delete_memory(memory_id)
    home = load_settings().home

    def traces() -> list[str]:
        files = [path for path in home.rglob("*") if path.is_file() and "falkordb" not in str(path)]
        return [path.name for path in files if b"tangerine-47" in path.read_bytes()]

    assert traces()
    if by == "trash":
        report = await engine.trash.purge()
    else:
        selection = PurgeSelection(ids=(memory_id,))
        if by == "search":
            assert not (
                await engine.observations.purge(PurgeSelection(search="apricot"), "memories")
            )["found"]
            selection = PurgeSelection(search='"quoted" LEMON-12')
        shown = await engine.observations.purge(selection, "memories")
        assert (shown["found"], shown["sample"][0]["type"]) == (1, "note in the trash")
        report = await engine.observations.purge(selection, "memories", dry_run=False)
    assert (report["deleted"], report["log_emptied"]) == (1, True)
    assert traces() == []
    assert await engine.trash.list_batches() == []
    with pytest.raises(NotFoundError):
        await engine.trash.undo("f-1")


async def test_bad_names_and_unknown_memories_are_refused(engine):
    with pytest.raises(NotFoundError):
        await engine.trash.put(["00000000-0000-4000-8000-000000000000"])
    for name in ("", "12", "f-", "f-x", "i-1", "f-" + "9" * 20):
        with pytest.raises(ValidationError):
            await engine.trash.undo(name)
    with pytest.raises(NotFoundError):
        await engine.trash.undo("f-12")
    assert await engine.trash.list_batches() == []
    assert await engine.trash.purge() is None
