"""TaskManager on a real file: what users and handlers can rely on."""

from __future__ import annotations

import asyncio
import time

import pytest

from zapomni_core.exceptions import (
    EmbeddingError,
    NotFoundError,
    TransactionError,
    ValidationError,
)
from zapomni_core.infra.correlation import current_correlation_id, operation
from zapomni_core.infra.retry import RetryPolicy
from zapomni_core.scheduler import runner
from zapomni_core.scheduler.task_manager import TaskManager
from zapomni_db.sqlite.tasks import SqliteTasks

pytestmark = pytest.mark.anyio

QUICK = RetryPolicy(initial_delay_seconds=0.01, max_delay_seconds=0.01, jitter=False)
SECRET = "/home/ada/secret-token"


@pytest.fixture
async def open_manager(anyio_backend, tmp_path):
    """Make managers on the same file; each is a process of its own to the others."""
    opened = []

    def make(**options) -> TaskManager:
        store = SqliteTasks(tmp_path / "zapomni.db")
        manager = TaskManager(store, **{"policy": QUICK, **options})
        opened.append(manager)
        return manager

    yield make
    for manager in opened:
        await manager.close()


@pytest.fixture
async def manager(open_manager):
    return open_manager()


async def ended(manager, task_id):
    async with asyncio.timeout(180):
        return [status async for status in manager.watch(task_id)][-1]


async def until(manager, task_id, wanted):
    for _ in range(18_000):
        status = await manager.get_task_status(task_id)
        if wanted(status):
            return status
        await asyncio.sleep(0.01)
    raise AssertionError("the task never came so far")


class Steps:
    """A handler that stops after each step until it is told to go on."""

    def __init__(self, total: int = 3) -> None:
        self.total = total
        self.go = asyncio.Semaphore(0)
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.ended_by: BaseException | None = None
        self.calls = 0

    async def __call__(self, params, context):
        self.calls += 1
        self.begun.set()
        try:
            for number in range(self.total):
                await context.report(number, self.total, f"step {number}")
                await self.go.acquire()
        except BaseException as error:
            self.ended_by = error
            raise
        finally:
            self.ended.set()
        return {"steps": self.total, **params}


@pytest.fixture
def quick_reports(monkeypatch):
    monkeypatch.setattr(runner, "REPORT_SECONDS", 0.0)


# --- The course of a task -----------------------------------------------------------------


async def test_a_submitted_task_starts_at_once_and_tells_how_far_it_is(manager, quick_reports):
    steps = Steps()
    manager.register("steps", steps)
    manager.start()
    await asyncio.sleep(0)

    task_id = await manager.submit_task("steps", {"who": "ada"})
    steps.go.release()
    status = await until(manager, task_id, lambda s: s.done == 1)
    assert (status.status, status.progress, status.message) == ("running", 1 / 3, "step 1")

    steps.go.release()
    steps.go.release()
    status = await ended(manager, task_id)
    assert (status.status, status.progress) == ("completed", 1.0)
    assert status.result == {"steps": 3, "who": "ada"}
    assert (status.attempts, status.error) == (1, None)


async def test_the_same_work_twice_is_one_task(manager):
    steps = Steps()
    manager.register("steps", steps)
    manager.start()
    first = await manager.submit_task("steps")
    await steps.begun.wait()
    assert await manager.submit_task("steps", {}) == first
    assert len(await manager.list_tasks()) == 1


async def test_an_unknown_type_and_an_unknown_id_are_refused(manager):
    with pytest.raises(ValidationError):
        await manager.submit_task("nothing")
    for ask in (manager.get_task_status, manager.cancel_task, manager.retry_task):
        with pytest.raises(NotFoundError) as refused:
            await ask("nobody")
        assert refused.value.error_code == "TASK_001"
    with pytest.raises(NotFoundError):
        await anext(manager.watch("nobody"))


async def test_starting_twice_is_starting_once(manager):
    steps = Steps()
    manager.register("steps", steps)
    manager.start()
    manager.start()
    await manager.submit_task("steps", {"n": 1})
    await manager.submit_task("steps", {"n": 2})
    await steps.begun.wait()
    await asyncio.sleep(0.1)
    assert len(await manager.list_tasks("running")) == 1


async def test_a_task_has_a_correlation_id_of_its_own(manager):
    seen = []

    async def handler(params, context):
        seen.append(current_correlation_id())

    manager.register("note", handler)
    with operation() as outer:
        manager.start()
        for number in range(2):
            await ended(manager, await manager.submit_task("note", {"n": number}))
    assert len({outer, *seen}) == 3


async def test_reports_in_quick_succession_are_stored_once(manager):
    writes = []
    store = manager._store
    renew = store.renew

    async def counted(*args):
        writes.append(args)
        return await renew(*args)

    store.renew = counted

    async def handler(params, context):
        for number in range(1000):
            await context.report(number + 1, 1000)

    manager.register("many", handler)
    manager.start()
    status = await ended(manager, await manager.submit_task("many"))
    assert len(writes) < 20
    assert (status.done, status.total) == (1000, 1000)


async def test_a_busy_handler_that_reports_leaves_room_for_others(manager):
    """A handler that never waits for anything still lets a cancel through."""

    async def handler(params, context):
        number = 0
        while True:
            number += 1
            await context.report(number)

    manager.register("busy", handler)
    manager.start()
    task_id = await manager.submit_task("busy")
    await until(manager, task_id, lambda s: s.done > 0)
    await manager.cancel_task(task_id)
    assert (await ended(manager, task_id)).status == "cancelled"


# --- Failures -----------------------------------------------------------------------------


async def test_a_transient_error_is_tried_again_and_the_result_stands(manager):
    attempts = []

    async def handler(params, context):
        attempts.append(1)
        if len(attempts) < 3:
            raise EmbeddingError(f"cannot reach {SECRET}", "EMB_001")
        return "done"

    manager.register("flaky", handler)
    manager.start()
    status = await ended(manager, await manager.submit_task("flaky"))
    assert (status.status, status.result, status.attempts) == ("completed", "done", 3)
    assert status.error is None


async def test_a_transient_error_is_not_tried_for_ever(manager):
    async def handler(params, context):
        raise EmbeddingError(f"cannot reach {SECRET}", "EMB_001")

    manager.register("down", handler)
    manager.start()
    status = await ended(manager, await manager.submit_task("down"))
    assert (status.status, status.attempts, status.error_code) == ("failed", 3, "EMB_001")
    assert "correlation id" in status.error
    assert SECRET not in status.model_dump_json()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError(SECRET), "UNKNOWN"),
        (EmbeddingError(SECRET, "EMB_004"), "EMB_004"),
        (asyncio.CancelledError(), "UNKNOWN"),
    ],
)
async def test_an_error_that_trying_again_cannot_help_ends_the_task(manager, error, code):
    async def handler(params, context):
        raise error

    manager.register("bad", handler)
    manager.start()
    status = await ended(manager, await manager.submit_task("bad"))
    assert (status.status, status.attempts, status.error_code) == ("failed", 1, code)
    assert SECRET not in status.model_dump_json()


async def test_a_result_that_is_no_json_fails_the_task(manager):
    async def handler(params, context):
        return object()

    manager.register("odd", handler)
    manager.start()
    status = await ended(manager, await manager.submit_task("odd"))
    assert (status.status, status.error_code) == ("failed", "UNKNOWN")


async def test_a_failed_task_can_be_retried(manager):
    broken = True

    async def handler(params, context):
        if broken:
            raise ValueError

    manager.register("later", handler)
    manager.start()
    task_id = await manager.submit_task("later")
    assert (await ended(manager, task_id)).status == "failed"
    broken = False
    assert (await manager.retry_task(task_id)).status == "pending"
    assert (await ended(manager, task_id)).status == "completed"


async def test_a_file_that_is_busy_for_a_moment_neither_stops_nor_fails_a_task(manager):
    """Reports are skipped, the end is tried again."""
    store = manager._store
    renew, finish, failures = store.renew, store.finish, []

    async def busy(*args):
        failures.append("renew")
        raise TransactionError("locked")

    async def busy_once(*args):
        if "finish" not in failures:
            failures.append("finish")
            raise TransactionError("locked")
        return await finish(*args)

    store.renew, store.finish = busy, busy_once

    async def handler(params, context):
        await context.report(1, 1)
        return "done"

    manager.register("busy", handler)
    manager.start()
    status = await ended(manager, await manager.submit_task("busy"))
    assert (status.status, status.result) == ("completed", "done")
    assert failures == ["renew", "finish"]
    store.renew = renew


async def test_a_task_whose_end_cannot_be_stored_is_done_again(open_manager):
    manager = open_manager(lease_seconds=0.3, poll_seconds=0.1)
    store = manager._store
    finish, calls = store.finish, []

    async def broken(*args):
        raise TransactionError("locked")

    async def handler(params, context):
        calls.append(1)
        if len(calls) == 2:
            store.finish = finish
        return len(calls)

    store.finish = broken
    manager.register("end", handler)
    manager.start()
    status = await ended(manager, await manager.submit_task("end"))
    assert (status.status, status.result, status.attempts) == ("completed", 2, 2)


async def test_a_worker_outlives_a_failure_of_its_own(open_manager, monkeypatch):
    manager = open_manager(poll_seconds=0.05)
    store = manager._store
    claim, failures = store.claim, []

    async def broken(*args):
        if not failures:
            failures.append(1)
            raise RuntimeError(SECRET)
        return await claim(*args)

    store.claim = broken
    manager.register("steps", Steps(0))
    manager.start()
    task_id = await manager.submit_task("steps")
    assert (await ended(manager, task_id)).status == "completed"
    assert failures == [1]


# --- Cancelling ---------------------------------------------------------------------------


async def test_a_running_task_stops_at_its_next_report(manager, open_manager, quick_reports):
    steps = Steps()
    manager.register("steps", steps)
    manager.start()
    task_id = await manager.submit_task("steps")
    await until(manager, task_id, lambda s: s.message == "step 0")

    status = await open_manager().cancel_task(task_id)
    assert (status.status, status.cancel_requested) == ("running", True)
    steps.go.release()

    status = await ended(manager, task_id)
    assert (status.status, status.message, status.error) == ("cancelled", "step 1", None)
    assert isinstance(steps.ended_by, asyncio.CancelledError)


async def test_a_running_task_that_does_not_report_stops_all_the_same(open_manager):
    manager = open_manager(lease_seconds=0.3)

    async def handler(params, context):
        await asyncio.Event().wait()

    manager.register("silent", handler)
    manager.start()
    task_id = await manager.submit_task("silent")
    await until(manager, task_id, lambda s: s.status == "running")
    await manager.cancel_task(task_id)
    assert (await ended(manager, task_id)).status == "cancelled"


async def test_a_report_from_inside_a_group_stops_the_whole_handler(manager, quick_reports):
    both = []

    async def handler(params, context):
        async def forever(name):
            try:
                while True:
                    await context.report(0)
                    await asyncio.sleep(0.01)
            finally:
                both.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(forever("a"))
            group.create_task(forever("b"))

    manager.register("group", handler)
    manager.start()
    task_id = await manager.submit_task("group")
    await until(manager, task_id, lambda s: s.status == "running")
    await manager.cancel_task(task_id)
    assert (await ended(manager, task_id)).status == "cancelled"
    assert sorted(both) == ["a", "b"]


async def test_a_task_that_is_done_before_it_notices_is_completed(manager):
    steps = Steps(1)
    manager.register("steps", steps)
    manager.start()
    task_id = await manager.submit_task("steps")
    await until(manager, task_id, lambda s: s.message == "step 0")
    await manager.cancel_task(task_id)
    steps.go.release()
    assert (await ended(manager, task_id)).status == "completed"


# --- Several processes --------------------------------------------------------------------


async def test_an_attempt_that_was_taken_over_ends_without_a_trace(open_manager, quick_reports):
    first, second = open_manager(), open_manager()
    steps, others = Steps(), Steps(1)
    first.register("steps", steps)
    second.register("steps", others)
    first.start()
    task_id = await first.submit_task("steps", {"who": "ada"})
    await until(first, task_id, lambda s: s.message == "step 0")

    # The second process sees a lease that ran out: its clock is a minute ahead.
    second._store._clock = lambda: time.time() + 60
    second.start()
    await others.begun.wait()
    await until(first, task_id, lambda s: s.attempts == 2)
    steps.go.release()
    await asyncio.wait_for(steps.ended.wait(), 120)
    others.go.release()

    status = await ended(second, task_id)
    assert isinstance(steps.ended_by, asyncio.CancelledError)
    assert (status.status, status.attempts) == ("completed", 2)
    assert status.result == {"steps": 1, "who": "ada"}
    assert (steps.calls, others.calls) == (1, 1)


async def test_an_attempt_that_was_taken_over_cannot_finish(open_manager):
    first, second = open_manager(), open_manager()
    steps, others = Steps(1), Steps(1)
    first.register("steps", steps)
    second.register("steps", others)
    first.start()
    task_id = await first.submit_task("steps")
    await until(first, task_id, lambda s: s.message == "step 0")
    second._store._clock = lambda: time.time() + 60
    second.start()
    await others.begun.wait()
    finish, refused = first._store.finish, asyncio.Event()

    async def observed(*args):
        held = await finish(*args)
        assert held is False
        refused.set()
        return held

    first._store.finish = observed
    steps.go.release()
    await asyncio.wait_for(refused.wait(), 120)
    assert (await second.get_task_status(task_id)).status == "running"
    others.go.release()
    assert (await ended(second, task_id)).attempts == 2


async def test_a_process_that_ends_gives_its_task_back_at_once(open_manager):
    first, second = open_manager(), open_manager()
    steps, others = Steps(), Steps(0)
    first.register("steps", steps)
    second.register("steps", others)
    first.start()
    task_id = await first.submit_task("steps")
    await steps.begun.wait()

    await first.close()

    assert (await second.get_task_status(task_id)).status == "pending"
    second.start()
    status = await ended(second, task_id)
    assert (status.status, status.attempts) == ("completed", 2)


async def test_a_handler_that_does_not_stop_cannot_keep_its_process(open_manager, monkeypatch):
    monkeypatch.setattr(runner, "STOP_SECONDS", 0.05)
    manager, go = open_manager(), asyncio.Event()

    async def deaf(params, context):
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    manager.register("deaf", deaf)
    manager.start()
    task_id = await manager.submit_task("deaf")
    await until(manager, task_id, lambda s: s.status == "running")
    await manager.close()
    assert (await open_manager().get_task_status(task_id)).status == "pending"
    go.set()


async def test_a_worker_finds_what_others_left_behind(open_manager):
    first = open_manager(lease_seconds=0.2)
    first.register("steps", Steps())
    task_id = await first.submit_task("steps")
    await first._claim()  # and then it dies

    second = open_manager(poll_seconds=60)
    second.register("steps", Steps(0))
    second.start()

    status = await ended(second, task_id)
    assert (status.status, status.attempts) == ("completed", 2)


# --- In the foreground --------------------------------------------------------------------


async def test_one_task_can_be_worked_on_while_somebody_looks(manager, quick_reports):
    seen, shown = [], [asyncio.Event() for _ in range(3)]

    def show(status):
        seen.append(status)
        if (status.message or "").startswith("step"):
            shown[int(status.message[-1])].set()

    async def handler(params, context):
        for number in range(3):
            await context.report(number, 3, f"step {number}")
            await asyncio.wait_for(shown[number].wait(), 180)
        return "done"

    manager.register("slow", handler)
    other = await manager.submit_task("slow", {"n": 1})
    task_id = await manager.submit_task("slow", {"n": 2})

    status = await manager.run_task(task_id, show)

    assert (status.status, status.result) == ("completed", "done")
    assert [s.task_id for s in seen] == [task_id] * len(seen)
    assert {"step 0", "step 1", "step 2"} <= {s.message for s in seen}
    assert (await manager.get_task_status(other)).status == "pending"


async def test_a_task_another_process_works_on_is_watched(open_manager):
    first, second = open_manager(), open_manager()
    steps, unused = Steps(1), Steps()
    first.register("steps", steps)
    second.register("steps", unused)
    first.start()
    task_id = await first.submit_task("steps")
    await steps.begun.wait()

    seen = asyncio.Event()
    following = asyncio.create_task(second.run_task(task_id, lambda _: seen.set()))
    await seen.wait()
    steps.go.release()

    assert (await asyncio.wait_for(following, 120)).status == "completed"
    assert unused.calls == 0


@pytest.mark.parametrize("here", [True, False])
async def test_whoever_stops_looking_stops_only_what_is_done_here(open_manager, here):
    first, second = open_manager(), open_manager()
    steps = Steps()
    for manager in (first, second):
        manager.register("steps", steps)
    task_id = await first.submit_task("steps")
    if not here:
        first.start()
        await steps.begun.wait()  # else the second could claim it before
    seen = asyncio.Event()
    following = asyncio.create_task(second.run_task(task_id, lambda _: seen.set()))
    await asyncio.gather(steps.begun.wait(), seen.wait())

    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following

    wanted = "cancelled" if here else "running"
    assert (await first.get_task_status(task_id)).status == wanted


async def test_working_until_the_queue_is_empty_waits_for_second_attempts(manager):
    attempts = []

    async def handler(params, context):
        attempts.append(params["n"])
        if attempts.count(params["n"]) == 1 and params["n"] == 1:
            raise EmbeddingError("down", "EMB_001")

    manager.register("some", handler)
    for number in range(3):
        await manager.submit_task("some", {"n": number})
    seen = []

    async with asyncio.timeout(180):
        await manager.run_all(seen.append)

    assert sorted(attempts) == [0, 1, 1, 2]
    assert {s.status for s in await manager.list_tasks()} == {"completed"}
    assert len({s.task_id for s in seen if s.status == "completed"}) == 3


async def test_working_until_the_queue_is_empty_ends_at_once_if_it_is(manager):
    manager.register("steps", Steps())
    async with asyncio.timeout(180):
        await manager.run_all(lambda _: None)


async def test_working_until_the_queue_is_empty_takes_over_what_a_dead_process_left(open_manager):
    first = open_manager(lease_seconds=0.3)
    first.register("steps", Steps(0))
    task_id = await first.submit_task("steps")
    await first._claim()

    second = open_manager()
    second.register("steps", Steps(0))
    async with asyncio.timeout(180):
        await second.run_all(lambda _: None)

    assert (await second.get_task_status(task_id)).status == "completed"


async def test_working_until_the_queue_is_empty_leaves_what_others_work_on(open_manager):
    # Longer than a busy machine keeps the first one from renewing its own.
    first, second = open_manager(lease_seconds=6), open_manager(lease_seconds=7)
    steps = Steps()
    first.register("steps", steps)
    second.register("steps", Steps())
    first.start()
    task_id = await first.submit_task("steps")
    await steps.begun.wait()

    async with asyncio.timeout(180):
        await second.run_all(lambda _: None)

    status = await second.get_task_status(task_id)
    assert (status.status, status.attempts) == ("running", 1)


async def test_a_failure_of_the_runner_itself_is_not_hidden(manager, monkeypatch):
    async def broken(*args):
        raise RuntimeError

    manager.register("steps", Steps(0))
    task_id = await manager.submit_task("steps")
    monkeypatch.setattr(runner.TaskRunner, "_conclude", broken)
    with pytest.raises(RuntimeError):
        await manager.run_task(task_id, lambda _: None)
