from __future__ import annotations

import asyncio
import json

import pytest

from zapomni_core.exceptions import (
    DatabaseConnectionError,
    DatabaseTimeoutError,
    EmbeddingError,
    QueryError,
    SchemaError,
    ValidationError,
)
from zapomni_core.infra.logging import setup_logging
from zapomni_core.infra.retry import RetryPolicy, retry_with_backoff

pytestmark = pytest.mark.anyio


class Flaky:
    """Raises the given errors one after the other, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self, answer: str = "done") -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return answer


class Waits(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def policy(waits: Waits | None = None, **fields) -> RetryPolicy:
    return RetryPolicy(sleep=Waits() if waits is None else waits, **fields)


def down() -> DatabaseConnectionError:
    return DatabaseConnectionError("down")


def events(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


async def test_a_failure_that_passes_is_survived():
    func = Flaky(down())
    assert await retry_with_backoff(func, policy(), "hello") == "hello"
    assert func.calls == 2


async def test_keyword_arguments_reach_the_function():
    assert await retry_with_backoff(Flaky(), policy(), answer="hello") == "hello"


async def test_the_last_error_comes_out_unchanged_when_attempts_are_used_up():
    errors = [down(), down(), down()]
    func = Flaky(*errors)
    with pytest.raises(DatabaseConnectionError) as caught:
        await retry_with_backoff(func, policy())
    assert caught.value is errors[-1]
    assert func.calls == 3


@pytest.mark.parametrize(
    "error",
    [
        ValidationError("wrong"),
        SchemaError("wrong"),
        QueryError("syntax"),
        EmbeddingError("no such model", "EMB_004"),
        RuntimeError("unexpected"),
        asyncio.CancelledError(),
    ],
    ids=repr,
)
async def test_an_error_that_will_not_pass_is_raised_at_once(error):
    func = Flaky(error)
    with pytest.raises(type(error)):
        await retry_with_backoff(func, policy())
    assert func.calls == 1


@pytest.mark.parametrize(
    "error", [DatabaseTimeoutError("slow"), EmbeddingError("down"), ConnectionError()], ids=repr
)
async def test_an_error_that_may_pass_is_tried_again(error):
    assert await retry_with_backoff(Flaky(error), policy()) == "done"


async def test_an_error_that_says_it_is_permanent_is_not_retried_though_its_class_is_listed():
    func = Flaky(EmbeddingError("no such model", "EMB_004"))
    with pytest.raises(EmbeddingError):
        await retry_with_backoff(func, policy(retryable_exceptions=(EmbeddingError,)))
    assert func.calls == 1


async def test_never_wins_over_listed():
    func = Flaky(down())
    forbidding = policy(
        retryable_exceptions=(DatabaseConnectionError,),
        non_retryable_exceptions=(DatabaseConnectionError,),
    )
    with pytest.raises(DatabaseConnectionError):
        await retry_with_backoff(func, forbidding)
    assert func.calls == 1


async def test_waits_grow_by_the_base_up_to_the_maximum():
    waits = Waits()
    func = Flaky(*[down() for _ in range(5)])
    await retry_with_backoff(
        func, policy(waits, max_attempts=6, max_delay_seconds=5.0, jitter=False)
    )
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0]


@pytest.mark.parametrize(("drawn", "expected"), [(0.0, 2.0), (0.5, 4.0), (0.999, 5.996)])
async def test_jitter_spreads_a_wait_over_half_to_one_and_a_half(monkeypatch, drawn, expected):
    monkeypatch.setattr("random.random", lambda: drawn)
    assert RetryPolicy().delay(3) == pytest.approx(expected)


async def test_cancelling_while_waiting_stops_trying():
    waiting = asyncio.Event()

    async def forever(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    func = Flaky(down())
    task = asyncio.create_task(retry_with_backoff(func, RetryPolicy(sleep=forever)))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert func.calls == 1


async def test_the_log_tells_the_story_without_the_errors_words(capsys):
    setup_logging("INFO")
    secret = "postgres://user:secret@host"
    await retry_with_backoff(Flaky(ConnectionError(secret)), policy())
    with pytest.raises(ConnectionError):
        await retry_with_backoff(Flaky(*[ConnectionError(secret)] * 3), policy())
    with pytest.raises(ValidationError):
        await retry_with_backoff(Flaky(ValidationError("wrong")), policy())
    out, err = capsys.readouterr()
    assert out == ""
    assert secret not in err
    assert [line["event"] for line in events(err)] == [
        "retry_attempt",
        "retry_succeeded",
        "retry_attempt",
        "retry_attempt",
        "retry_exhausted",
        "non_retryable_error",
    ]
    assert events(err)[-1]["error_code"] == "VAL_004"
    assert events(err)[0]["error_type"] == "ConnectionError"
