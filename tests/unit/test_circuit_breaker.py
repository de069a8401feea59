from __future__ import annotations

import asyncio
import json

import pytest

from zapomni_core.exceptions import CircuitBreakerOpenError, ValidationError
from zapomni_core.infra.circuit_breaker import CircuitBreaker, CircuitBreakerConfig, CircuitState
from zapomni_core.infra.logging import setup_logging

pytestmark = pytest.mark.anyio


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    config = CircuitBreakerConfig(failure_threshold=3, success_threshold=2, timeout_seconds=60)
    return CircuitBreaker(config, name="Ollama", clock=clock)


async def answer(value: str = "ok") -> str:
    return value


async def fail() -> None:
    raise RuntimeError("down")


async def fail_often(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        with pytest.raises(RuntimeError):
            await breaker.call(fail)


async def half_open(breaker: CircuitBreaker, clock: Clock) -> None:
    await fail_often(breaker, 3)
    clock.now += 60


async def test_the_defaults_are_the_specified_ones():
    assert CircuitBreaker().config == CircuitBreakerConfig(5, 2, 60)


async def test_a_closed_circuit_hands_arguments_and_answers_through(breaker):
    assert await breaker.call(answer, value="hello") == "hello"


async def test_enough_failures_in_a_row_open_it(breaker):
    await fail_often(breaker, 3)
    assert breaker.state is CircuitState.OPEN


async def test_a_success_in_between_starts_the_count_again(breaker):
    await fail_often(breaker, 2)
    await breaker.call(answer)
    await fail_often(breaker, 2)
    assert breaker.state is CircuitState.CLOSED


async def test_an_open_circuit_refuses_without_calling(breaker):
    await fail_often(breaker, 3)
    called = False

    async def touch() -> None:
        nonlocal called
        called = True

    with pytest.raises(CircuitBreakerOpenError, match="Ollama"):
        await breaker.call(touch)
    assert not called


async def test_it_refuses_until_the_very_end_of_the_timeout(breaker, clock):
    await fail_often(breaker, 3)
    clock.now += 59.9
    with pytest.raises(CircuitBreakerOpenError):
        await breaker.call(answer)


async def test_enough_successful_probes_close_it(breaker, clock):
    await half_open(breaker, clock)
    await breaker.call(answer)
    assert breaker.state is CircuitState.HALF_OPEN
    await breaker.call(answer)
    assert breaker.state is CircuitState.CLOSED
    await fail_often(breaker, 2)
    assert breaker.state is CircuitState.CLOSED


async def test_one_failed_probe_opens_it_for_the_whole_timeout_again(breaker, clock):
    await half_open(breaker, clock)
    await breaker.call(answer)
    await fail_often(breaker, 1)
    assert breaker.state is CircuitState.OPEN
    clock.now += 59.9
    with pytest.raises(CircuitBreakerOpenError):
        await breaker.call(answer)


async def test_only_one_probe_runs_at_a_time(breaker, clock):
    await half_open(breaker, clock)
    started, release = asyncio.Event(), asyncio.Event()

    async def probe() -> str:
        started.set()
        await release.wait()
        return "ok"

    task = asyncio.create_task(breaker.call(probe))
    await started.wait()
    with pytest.raises(CircuitBreakerOpenError):
        await breaker.call(answer)
    release.set()
    assert await task == "ok"
    assert await breaker.call(answer) == "ok"


async def test_a_cancelled_probe_neither_counts_nor_blocks_the_next(breaker, clock):
    await half_open(breaker, clock)
    started = asyncio.Event()

    async def probe() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(breaker.call(probe))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert breaker.state is CircuitState.HALF_OPEN
    assert await breaker.call(answer) == "ok"


async def test_a_mistake_of_the_caller_says_nothing_about_the_service(breaker):
    async def refuse() -> None:
        raise ValidationError("empty text")

    for _ in range(10):
        with pytest.raises(ValidationError):
            await breaker.call(refuse)
    assert breaker.state is CircuitState.CLOSED
    assert breaker.failure_count == 0


async def test_a_call_from_before_the_outage_does_not_decide_the_recovery(breaker, clock):
    release = asyncio.Event()

    async def slow() -> None:
        await release.wait()
        raise RuntimeError("down")

    started = [asyncio.create_task(breaker.call(slow)) for _ in range(2)]
    await asyncio.sleep(0)
    await half_open(breaker, clock)
    await breaker.call(answer)
    release.set()
    await asyncio.gather(*started, return_exceptions=True)
    assert breaker.state is CircuitState.HALF_OPEN
    await breaker.call(answer)
    assert breaker.state is CircuitState.CLOSED


async def test_every_change_of_state_is_logged(breaker, clock, capsys):
    setup_logging("INFO")
    await half_open(breaker, clock)
    await breaker.call(answer)
    await breaker.call(answer)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == [
        "circuit_breaker_opened",
        "circuit_breaker_half_open",
        "circuit_breaker_closed_recovered",
    ]
    assert {line["breaker"] for line in lines} == {"Ollama"}
