"""How far a task is, is one number over all its phases and attempts: it never goes back."""

from __future__ import annotations

import pytest

from zapomni_core.exceptions import TransactionError
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_core.modules.codebase import IndexRequest
from zapomni_core.modules.graph import BuildGraphRequest
from zapomni_core.scheduler import runner
from zapomni_db.sqlite.tasks import SqliteTasks

pytestmark = pytest.mark.anyio


@pytest.fixture
def seen(monkeypatch) -> list[float]:
    """Every progress that anybody could read, from the real store, as it is stored."""
    shares: list[float] = []
    monkeypatch.setattr(runner, "REPORT_SECONDS", 0.0)
    for name in ("renew", "finish", "give_back", "claim"):
        original = getattr(SqliteTasks, name)

        async def watched(self, *args, original=original, **kwargs):
            answer = await original(self, *args, **kwargs)
            shares.extend(task.progress for task in await self.list_tasks(None, 1))
            return answer

        monkeypatch.setattr(SqliteTasks, name, watched)
    return shares


def check(shares: list[float]) -> None:
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(set(shares)) > 3


async def run(engine, task_id: str) -> None:
    engine.tasks.start()
    async for status in engine.tasks.watch(task_id):
        last = status
    assert (last.status, last.progress) == ("completed", 1.0)


async def test_an_index_that_also_makes_vectors(engine, tmp_path, seen):
    folder = tmp_path / "shop"
    folder.mkdir()
    for number in range(12):
        source = "\n\n\n".join(
            f"def sell_{number}_{n}(basket):\n    return basket.total * {n}" for n in range(12)
        )
        (folder / f"part_{number}.py").write_text(source, encoding="utf-8")

    await run(engine, await engine.code.index(IndexRequest(path=str(folder), folder=str(folder))))

    check(seen)


async def test_an_index_without_a_model(wordy_engine, tmp_path, seen):
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "one.py").write_text("def one():\n    return 1\n", encoding="utf-8")

    await run(
        wordy_engine, await wordy_engine.code.index(IndexRequest(path=str(folder), folder="/"))
    )

    assert seen == sorted(seen)
    assert seen[-1] == 1.0


async def test_a_graph_that_is_built(wordy_engine, monkeypatch, seen):
    monkeypatch.setattr("zapomni_core.modules.graph.build.STORE_AT_ONCE", 2)
    await wordy_engine.add_memories(
        [AddMemoryRequest(text=f"Ada Lovelace works at Acme {n} in London.") for n in range(12)]
    )

    await run(wordy_engine, await wordy_engine.graph.build(BuildGraphRequest()))

    check(seen)


async def test_a_second_attempt_begins_where_the_first_one_ended(wordy_engine, seen):
    attempts = []

    async def handler(params, context):
        attempts.append(context.claim.attempt)
        if len(attempts) == 1:
            for done in range(5):
                await context.report(done, 8, "first")
            raise TransactionError("the database was busy")
        for done in range(5):
            await context.report(done, 4, "second")

    wordy_engine.tasks.register("twice", handler)

    await run(wordy_engine, await wordy_engine.tasks.submit_task("twice", {}))

    assert attempts == [1, 2]
    check(seen)
    # Four of eight, then the four that were left: the same units.
    assert {0.5, 0.625, 0.75, 0.875} <= set(seen)


async def test_a_handler_that_counts_anew_in_its_second_phase_does_not_go_back(wordy_engine, seen):
    async def handler(params, context):
        for done in range(5):
            await context.report(done, 5, "first")
        for done in range(101):
            await context.report(done, 100, "second")
        await context.report(3, None, "third")

    wordy_engine.tasks.register("phases", handler)

    await run(wordy_engine, await wordy_engine.tasks.submit_task("phases", {}))

    check(seen)
