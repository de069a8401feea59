"""Whatever workers do in whatever order: who holds the latest claim is believed, nobody else."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from zapomni_db.sqlite.tasks import SqliteTasks
from zapomni_db.task_models import Claim

LEASE = 30.0
ENDED = ("completed", "failed", "cancelled")

workers = st.integers(0, 2)
steps = st.one_of(
    st.tuples(st.just("submit"), st.integers(0, 2)),
    st.tuples(st.just("claim"), workers),
    st.tuples(st.sampled_from(["renew", "give_back", "fail", "complete"]), workers),
    st.tuples(st.sampled_from(["cancel", "retry"]), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([1, 29, 31])),
)


class World:
    """Three workers on one file, and what should be true of every task."""

    def __init__(self, path: Path) -> None:
        self.now = 1_000_000.0
        self.store = SqliteTasks(path, lambda: self.now)
        self.claims: dict[int, Claim] = {}
        self.latest: dict[str, int] = {}
        self.ids: list[str] = []

    async def take(self, step: tuple[str, int]) -> None:
        action, number = step
        if action == "wait":
            self.now += number
        elif action == "submit":
            await self.submit(number)
        elif action == "claim":
            await self.claim(number)
        elif action in ("cancel", "retry"):
            await self.ask(action, number)
        elif number in self.claims:
            await self.settle(action, self.claims[number])

    async def submit(self, number: int) -> None:
        waiting = [t.task_id for t in await self.open_tasks() if t.params == {"n": number}]
        task_id = await self.store.submit("t", {"n": number})
        if waiting:
            assert task_id in waiting
        else:
            assert task_id not in self.ids
            self.ids.append(task_id)

    async def open_tasks(self):
        tasks = await self.store.list_tasks(None, 1000)
        return [t for t in tasks if t.status not in ENDED and not t.cancel_requested]

    async def claim(self, worker: int) -> None:
        before = {t.task_id: t for t in await self.store.list_tasks(None, 1000)}
        claim = await self.store.claim(["t"], LEASE)
        if claim is None:
            return
        was = before[claim.task_id]
        assert was.status == "pending" or was.stalled
        assert claim.attempt == self.latest.get(claim.task_id, 0) + 1
        self.latest[claim.task_id] = claim.attempt
        self.claims[worker] = claim

    async def settle(self, action: str, claim: Claim) -> None:
        before = await self.store.get(claim.task_id)
        holds = before.status == "running" and claim.attempt == self.latest[claim.task_id]
        if action == "renew":
            held = await self.store.renew(claim, LEASE, None) != "lost"
        elif action == "give_back":
            held = await self.store.give_back(claim, None, 0.0)
        else:
            status = "completed" if action == "complete" else "failed"
            held = await self.store.finish(claim, status, result=str(claim.attempt))
        assert held == holds
        after = await self.store.get(claim.task_id)
        if not holds:
            assert after == before
        elif action in ("complete", "fail"):
            assert after.status == ("completed" if action == "complete" else "failed")
            assert after.result == claim.attempt

    async def ask(self, action: str, number: int) -> None:
        if number >= len(self.ids):
            return
        task_id = self.ids[number]
        before = await self.store.get(task_id)
        if action == "cancel":
            after = await self.store.cancel(task_id)
            assert after == before if before.status in ENDED else after.cancel_requested
            assert before.status != "pending" or after.status == "cancelled"
        elif before.status in ("failed", "cancelled"):
            after = await self.store.retry(task_id)
            assert after.status in ("pending", "running")
            assert after.params == before.params


@given(st.lists(steps, max_size=40))
def test_only_the_latest_claim_counts_whatever_happens(taken):
    async def run(path: Path) -> None:
        world = World(path)
        try:
            for step in taken:
                await world.take(step)
        finally:
            await world.store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder) / "zapomni.db"))
