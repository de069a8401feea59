"""A call that is cancelled, times out or fails halfway leaves nothing half done."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from zapomni_core.exceptions import NotFoundError, ProcessingError, SearchError
from zapomni_core.interfaces import (
    AddMemoryRequest,
    ListRequest,
    SearchRequest,
    UpdateMemoryRequest,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def repository(tmp_path):
    """A folder whose code memories can cite."""
    (tmp_path / "auth.py").write_text("def check():\n    return 1\n", encoding="utf-8")
    (tmp_path / "other.py").write_text("def other():\n    return 2\n", encoding="utf-8")
    return tmp_path


class Halted:
    """Holds every call of a method until it is let go on."""

    def __init__(self, owner: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        real = getattr(owner, name)

        async def halted(*args, **kwargs):
            self.reached.set()
            await self.go_on.wait()
            return await real(*args, **kwargs)

        monkeypatch.setattr(owner, name, halted)


async def cancel_at(halt: Halted, call) -> None:
    """Cancel a call while it is halted, and let it go on only then."""
    task = asyncio.create_task(call)
    await asyncio.wait_for(halt.reached.wait(), 180)
    task.cancel()
    await asyncio.sleep(0)
    halt.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_add_cancelled_between_its_writes_is_whole(wordy_engine, repository, monkeypatch):
    engine = wordy_engine
    request = AddMemoryRequest(
        text="check decides", cites=[str(repository / "auth.py")], folder=str(repository)
    )
    await cancel_at(Halted(engine._code, "set_citations", monkeypatch), engine.add_memory(request))
    (added,) = (await engine.memories.list_memories(ListRequest())).items
    assert len(await engine.citations.get(added.memory_id)) == 1


async def test_an_add_cancelled_before_it_writes_is_nothing(wordy_engine, monkeypatch):
    engine = wordy_engine
    halt = Halted(engine.storage, "find_existing", monkeypatch)
    await cancel_at(halt, engine.add_memory(AddMemoryRequest(text="never mind")))
    assert (await engine.get_stats())["total_memories"] == 0


async def test_an_update_cancelled_between_its_writes_is_whole(
    wordy_engine, repository, monkeypatch
):
    engine = wordy_engine
    given = {"folder": str(repository)}
    added = await engine.add_memory(
        AddMemoryRequest(text="check decides", cites=[str(repository / "auth.py")], **given)
    )
    change = UpdateMemoryRequest(
        memory_id=added.memory_id,
        text="other decides",
        cites=[str(repository / "other.py")],
        **given,
    )
    await cancel_at(
        Halted(engine._code, "set_citations", monkeypatch), engine.update_memory(change)
    )
    assert (await engine.memories.get(added.memory_id)).text == "other decides"
    (kept,) = await engine.citations.get(added.memory_id)
    assert kept.path == "other.py"


async def test_a_deletion_cancelled_between_its_writes_is_whole(
    wordy_engine, repository, monkeypatch
):
    engine = wordy_engine
    added = await engine.add_memory(
        AddMemoryRequest(
            text="check decides", cites=[str(repository / "auth.py")], folder=str(repository)
        )
    )
    await cancel_at(
        Halted(engine._code, "set_citations", monkeypatch), engine.delete_memory(added.memory_id)
    )
    with pytest.raises(NotFoundError):
        await engine.memories.get(added.memory_id)
    assert await engine.citations.get(added.memory_id) == []


async def test_closing_waits_for_a_write_whose_caller_was_cancelled_twice(
    wordy_engine, monkeypatch
):
    engine = wordy_engine
    halt = Halted(engine.storage, "store_memories", monkeypatch)
    task = asyncio.create_task(engine.add_memory(AddMemoryRequest(text="late")))
    await asyncio.wait_for(halt.reached.wait(), 180)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    halt.go_on.set()
    await closing
    with sqlite3.connect(engine.storage.path) as opened:
        assert opened.execute("SELECT count(*) FROM memories").fetchone() == (1,)
    opened.close()


# --- what fails halfway -------------------------------------------------------------------


def execute(engine, statement: str) -> None:
    opened = sqlite3.connect(engine.storage.path)
    with opened:
        opened.execute(statement)
    opened.close()


async def test_a_store_that_fails_in_the_midst_of_many_says_how_many_it_has(wordy_engine):
    engine = wordy_engine
    execute(
        engine,
        "CREATE TRIGGER full BEFORE INSERT ON memories WHEN (SELECT count(*) FROM memories) >= 64"
        " BEGIN SELECT raise(ABORT, 'full'); END",
    )
    requests = [AddMemoryRequest(text=f"memory {number}") for number in range(100)]
    with pytest.raises(ProcessingError) as failed:
        await engine.add_memories(requests)
    assert failed.value.error_code == "PROC_004"
    assert failed.value.details == {"stored": 64, "given": 100}
    execute(engine, "DROP TRIGGER full")

    again = await engine.add_memories(requests)

    assert [answer.status for answer in again].count("duplicate") == 64
    assert (await engine.get_stats())["total_memories"] == 100


async def test_vectors_that_cannot_be_compared_have_a_code_of_their_own(engine):
    await engine.add_memory(AddMemoryRequest(text="The kettle is red."))
    execute(engine, "ALTER TABLE chunk_vectors RENAME TO taken_away")
    with pytest.raises(SearchError) as failed:
        await engine.search_memory(SearchRequest(query="kettle"))
    assert failed.value.error_code == "SEARCH_001"
