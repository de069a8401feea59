"""What the store of background tasks promises, on a real file and with a clock of our own."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing

import pytest

from zapomni_core.exceptions import ValidationError
from zapomni_db.sqlite import tasks as tasks_module
from zapomni_db.sqlite.tasks import SqliteTasks
from zapomni_db.task_models import Progress

pytestmark = pytest.mark.anyio

TYPES = ["count"]
LEASE = 30.0


class Clock:
    """Seconds that pass when a test says so."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "zapomni.db"


@pytest.fixture
async def store(anyio_backend, path, clock):
    opened = SqliteTasks(path, clock)
    yield opened
    await opened.close()


@pytest.fixture
async def other(anyio_backend, path, clock):
    """Another process, as far as the file can tell."""
    opened = SqliteTasks(path, clock)
    yield opened
    await opened.close()


async def claimed(store, **params):
    await store.submit("count", params)
    claim = await store.claim(TYPES, LEASE)
    assert claim is not None
    return claim


# --- Queueing -----------------------------------------------------------------------------


async def test_a_task_is_there_after_a_restart_and_for_every_process(store, other, path):
    task_id = await store.submit("count", {"to": 3})
    await store.close()

    status = await other.get(task_id)

    assert (status.status, status.task_type, status.params) == ("pending", "count", {"to": 3})
    assert (status.progress, status.attempts, status.finished_at) == (0.0, 0, None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await store.get(task_id) == status


async def test_the_same_work_is_queued_once_while_it_waits_or_runs(store, other):
    first = await store.submit("count", {"a": 1, "b": 2})
    assert await other.submit("count", {"b": 2, "a": 1}) == first
    assert await other.submit("count", {"a": 1}) != first
    assert await other.submit("other", {"a": 1, "b": 2}) != first

    claim = await store.claim(TYPES, LEASE, first)
    assert await other.submit("count", {"a": 1, "b": 2}) == first
    await store.finish(claim, "completed")
    assert await other.submit("count", {"a": 1, "b": 2}) != first


async def test_work_that_is_being_cancelled_can_be_asked_for_again(store):
    claim = await claimed(store)
    await store.cancel(claim.task_id)

    again = await store.submit("count", {})

    assert again != claim.task_id
    assert (await store.claim(TYPES, LEASE)).task_id == again


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"x": object()}, "VAL_002"),
        ({"x": float("nan")}, "VAL_002"),
        ({"x": "y" * 10**6}, "VAL_003"),
    ],
)
async def test_parameters_must_be_json_of_a_sensible_size(store, params, code):
    with pytest.raises(ValidationError) as refused:
        await store.submit("count", params)
    assert refused.value.error_code == code


async def test_half_a_character_harms_nothing(store):
    task_id = await store.submit("count", {"x": "\ud800"})
    claim = await store.claim(TYPES, LEASE)
    await store.renew(claim, LEASE, Progress(1, 2, "\ud800"))
    assert (await store.get(task_id)).message == "?"
    assert await store.get("\ud800") is None
    assert await store.cancel("\ud800") is None
    assert await store.retry("\ud800") is None


async def test_tasks_are_listed_newest_first(store):
    ids = [await store.submit("count", {"n": n}) for n in range(3)]
    await store.claim(TYPES, LEASE)

    assert [task.task_id for task in await store.list_tasks(None, 2)] == [ids[2], ids[1]]
    assert [task.task_id for task in await store.list_tasks("running", 10)] == [ids[0]]


async def test_long_parameters_are_for_the_worker_alone(store):
    ids = [f"id-{number}" for number in range(1000)]
    task_id = await store.submit("count", {"ids": ids})
    assert (await store.get(task_id)).params is None
    assert (await store.claim(TYPES, LEASE)).params == {"ids": ids}


# --- Claims -------------------------------------------------------------------------------


async def test_tasks_are_claimed_in_order_each_by_one_worker(store, other):
    ids = [await store.submit("count", {"n": n}) for n in range(2)]

    first, second = await store.claim(TYPES, LEASE), await other.claim(TYPES, LEASE)

    assert [first.task_id, second.task_id] == ids
    assert (first.params, first.attempt, first.failures) == ({"n": 0}, 1, 0)
    assert await other.claim(TYPES, LEASE) is None
    assert (await store.get(ids[0])).status == "running"


async def test_a_worker_claims_only_what_it_can_do_or_what_it_asks_for(store):
    await store.submit("strange", {})
    wanted = await store.submit("count", {"n": 2})
    assert await store.claim([], LEASE) is None
    assert (await store.claim(["count", "strange"], LEASE, wanted)).task_id == wanted
    assert await store.claim(TYPES, LEASE) is None


async def test_a_silent_workers_task_is_taken_over_when_its_lease_runs_out(store, other, clock):
    claim = await claimed(store)
    clock.now += LEASE - 1
    assert await other.claim(TYPES, LEASE) is None
    assert not (await other.get(claim.task_id)).stalled

    clock.now += 2
    assert (await other.get(claim.task_id)).stalled
    taken = await other.claim(TYPES, LEASE)

    assert (taken.task_id, taken.attempt) == (claim.task_id, 2)
    assert not (await other.get(claim.task_id)).stalled


async def test_a_heartbeat_keeps_a_task(store, other, clock):
    claim = await claimed(store)
    for _ in range(5):
        clock.now += LEASE - 1
        assert await store.renew(claim, LEASE, None) == "held"
        assert await other.claim(TYPES, LEASE) is None


async def test_a_late_heartbeat_keeps_a_task_nobody_took(store, clock):
    claim = await claimed(store)
    clock.now += 10 * LEASE
    assert await store.renew(claim, LEASE, None) == "held"
    assert await store.claim(TYPES, LEASE) is None


async def test_who_was_taken_over_can_neither_report_nor_finish_nor_give_back(store, other, clock):
    stale = await claimed(store)
    clock.now += LEASE + 1
    taken = await other.claim(TYPES, LEASE)
    await other.renew(taken, LEASE, Progress(1, 9, "theirs"))
    before = await other.get(stale.task_id)

    assert await store.renew(stale, LEASE, Progress(8, 9, "mine")) == "lost"
    assert await store.finish(stale, "completed", result='"mine"') is False
    assert await store.give_back(stale, ("X", "y"), 0.0) is False
    assert await other.get(stale.task_id) == before

    assert await other.finish(taken, "completed", Progress(9, 9, "all"), '"theirs"') is True
    assert await other.finish(taken, "failed", error=("X", "y")) is False
    ended = await store.get(stale.task_id)
    assert (ended.status, ended.result, ended.progress) == ("completed", "theirs", 1.0)


async def test_a_claim_from_before_a_retry_is_worth_nothing(store):
    claim = await claimed(store)
    await store.finish(claim, "failed", error=("X", "y"))
    await store.retry(claim.task_id)
    again = await store.claim(TYPES, LEASE)
    assert again.attempt == 2
    assert await store.finish(claim, "completed") is False


async def test_a_clock_set_back_does_not_keep_a_dead_workers_task(store, other, clock):
    claim = await claimed(store)
    clock.now -= 86_400
    assert (await other.claim(TYPES, LEASE)).task_id == claim.task_id


async def test_a_task_whose_process_dies_every_time_is_given_up(store, clock):
    task_id = await store.submit("count", {})
    for attempt in range(1, tasks_module.MOST_LOSSES + 1):
        assert (await store.claim(TYPES, LEASE)).attempt == attempt
        clock.now += LEASE + 1

    assert await store.claim(TYPES, LEASE) is None

    status = await store.get(task_id)
    assert (status.status, status.error_code) == ("failed", "TASK_002")
    assert "10 times" in status.error


async def test_a_task_that_may_have_killed_its_process_comes_last(store, clock):
    deadly = await claimed(store, n=0)
    later = await store.submit("count", {"n": 1})
    clock.now += LEASE + 1
    assert (await store.claim(TYPES, LEASE)).task_id == deadly.task_id
    clock.now += LEASE + 1
    assert (await store.claim(TYPES, LEASE)).task_id == later


async def test_what_is_left_can_be_seen_without_a_claim(store, clock):
    assert await store.read_queue(TYPES) == (0, 0, None)
    claim = await claimed(store)
    assert await store.read_queue(TYPES) == (0, 1, LEASE)
    await store.give_back(claim, None, 7.0)
    assert await store.read_queue(TYPES) == (1, 0, 7.0)
    clock.now += 8
    assert await store.read_queue(TYPES) == (1, 0, 0.0)
    assert await store.read_queue(["strange"]) == (0, 0, None)


# --- Ends ---------------------------------------------------------------------------------


async def test_progress_is_what_was_reported_last(store):
    claim = await claimed(store)
    await store.renew(claim, LEASE, Progress(3, 12, "Reading"))
    await store.renew(claim, LEASE, None)
    status = await store.get(claim.task_id)
    assert (status.done, status.total, status.progress) == (3, 12, 0.25)
    assert status.message == "Reading"
    await store.renew(claim, LEASE, Progress(20, 12, "x" * 1000))
    status = await store.get(claim.task_id)
    assert status.progress == 1.0
    assert len(status.message) == tasks_module.LONGEST_MESSAGE


async def test_a_task_given_back_with_an_error_waits_and_says_why(store, clock):
    claim = await claimed(store)
    assert await store.give_back(claim, ("EMB_001", "No answer."), 5.0) is True

    status = await store.get(claim.task_id)
    assert (status.status, status.error_code, status.error) == ("pending", "EMB_001", "No answer.")
    assert await store.claim(TYPES, LEASE) is None
    clock.now += 6
    again = await store.claim(TYPES, LEASE)
    assert (again.attempt, again.failures) == (2, 1)
    await store.finish(again, "completed", result="[1]")
    ended = await store.get(claim.task_id)
    assert (ended.error, ended.error_code, ended.result, ended.attempts) == (None, None, [1], 2)


async def test_a_task_given_back_without_an_error_can_go_on_at_once(store, other):
    claim = await claimed(store)
    await store.give_back(claim, None, 0.0)
    again = await other.claim(TYPES, LEASE)
    assert (again.attempt, again.failures) == (2, 0)


async def test_a_waiting_task_is_cancelled_at_once(store):
    task_id = await store.submit("count", {})
    status = await store.cancel(task_id)
    assert status.status == "cancelled"
    assert status.finished_at is not None
    assert await store.claim(TYPES, LEASE) is None


async def test_a_running_task_is_cancelled_when_its_worker_notices(store, other):
    claim = await claimed(store)
    status = await other.cancel(claim.task_id)
    assert (status.status, status.cancel_requested) == ("running", True)
    assert await store.renew(claim, LEASE, Progress(1, 2, "")) == "cancelled"
    await store.finish(claim, "cancelled", Progress(1, 2, ""))
    assert (await other.get(claim.task_id)).status == "cancelled"


async def test_a_dead_workers_task_is_cancelled_at_once(store, clock):
    claim = await claimed(store)
    clock.now += LEASE + 1
    assert (await store.cancel(claim.task_id)).status == "cancelled"


async def test_a_task_whose_worker_died_before_it_noticed_is_cancelled_not_taken_over(store, clock):
    claim = await claimed(store)
    await store.cancel(claim.task_id)
    clock.now += LEASE + 1
    assert await store.claim(TYPES, LEASE) is None
    assert (await store.get(claim.task_id)).status == "cancelled"


async def test_a_task_given_back_while_it_is_being_cancelled_is_cancelled(store):
    claim = await claimed(store)
    await store.cancel(claim.task_id)
    await store.give_back(claim, None, 0.0)
    assert (await store.get(claim.task_id)).status == "cancelled"


async def test_cancelling_what_has_ended_changes_nothing(store):
    claim = await claimed(store)
    await store.finish(claim, "completed")
    before = await store.get(claim.task_id)
    assert await store.cancel(claim.task_id) == before
    assert await store.cancel("nobody") is None


async def test_a_failed_or_cancelled_task_can_be_retried_from_the_start(store):
    claim = await claimed(store)
    await store.finish(claim, "failed", Progress(3, 4, "half"), error=("EMB_001", "No answer."))

    status = await store.retry(claim.task_id)

    assert (status.status, status.error, status.done, status.message) == ("pending", None, 0, "")
    assert status.finished_at is None
    again = await store.claim(TYPES, LEASE)
    assert (again.task_id, again.attempt, again.failures) == (claim.task_id, 2, 0)
    await store.cancel(claim.task_id)
    await store.finish(again, "cancelled")
    assert not (await store.retry(claim.task_id)).cancel_requested


async def test_retrying_what_is_queued_again_already_returns_that(store):
    claim = await claimed(store)
    await store.finish(claim, "failed", error=("X", "y"))
    queued = await store.submit("count", {})
    assert (await store.retry(claim.task_id)).task_id == queued
    assert (await store.get(claim.task_id)).status == "failed"


async def test_only_what_failed_or_was_cancelled_can_be_retried(store):
    claim = await claimed(store)
    with pytest.raises(ValidationError):
        await store.retry(claim.task_id)
    await store.finish(claim, "completed")
    with pytest.raises(ValidationError):
        await store.retry(claim.task_id)
    assert await store.retry("nobody") is None


# --- Forgetting ---------------------------------------------------------------------------


async def test_tasks_that_ended_a_month_ago_are_forgotten(store, clock):
    old = await claimed(store, n=1)
    await store.finish(old, "completed")
    waiting = await store.submit("count", {"n": 2})
    clock.now += 31 * 86_400

    await store.submit("count", {"n": 3})

    assert await store.get(old.task_id) is None
    assert (await store.get(waiting)).status == "pending"


async def test_only_the_newest_finished_tasks_are_kept(store, clock, monkeypatch):
    monkeypatch.setattr(tasks_module, "KEPT_FINISHED", 3)
    ended = []
    for number in range(5):
        clock.now += 1
        claim = await claimed(store, n=number)
        await store.finish(claim, "completed")
        ended.append(claim.task_id)

    await store.submit("count", {"n": "last"})

    kept = [task.task_id for task in await store.list_tasks("completed", 10)]
    assert kept == [ended[4], ended[3], ended[2]]


async def test_polling_takes_no_lock_and_reads_only_what_is_open(store, path, other):
    await store.submit("strange", {})
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        # Would wait for the writer, and fail, if it wanted to write.
        assert await other.claim(TYPES, LEASE) is None
        assert await other.read_queue(TYPES) == (0, 0, None)
        plan = " ".join(
            row[3]
            for row in writer.execute(
                "EXPLAIN QUERY PLAN " + tasks_module._QUEUE, {"now": 1, "types": "[]"}
            )
        )
    assert "tasks_open" in plan
