"""Background tasks as agents meet them: the tools over stdio, and the worker in the server."""

from __future__ import annotations

import anyio
import pytest
from counting import counting, queue, status_of
from mcp.client import Client

from command import UNKNOWN
from serving import in_process, piped

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("counting")]
assert counting  # the fixture


@pytest.fixture(params=["legacy", "2026-07-28"])
async def client(counting, request):
    async with in_process(mode=request.param) as connected:
        yield connected


async def call(client: Client, tool: str, progress=None, **arguments) -> dict:
    result = await client.call_tool(tool, arguments, progress_callback=progress)
    assert not result.is_error, result.content
    return result.structured_content


async def queued(**params) -> str:
    return await anyio.to_thread.run_sync(lambda: queue(**params))


async def begun(client: Client, task_id: str) -> None:
    """Wait for a worker to begin: each answer comes after a second, with how far the task is."""
    status = {"status": "pending"}
    with anyio.fail_after(180):
        while status["status"] == "pending":
            status = await call(client, "get_task_status", task_id=task_id, wait_seconds=1)
    assert status["status"] == "running"


async def test_the_server_works_on_what_is_queued_and_tells_how_far_it_is(client):
    task_id = await queued(to=30, pause=0.2)
    told = []

    async def progress(done, total, message):
        told.append((done, total, message))

    status = await call(client, "get_task_status", progress, task_id=task_id, wait_seconds=300)

    assert (status["status"], status["progress"]) == ("completed", 1.0)
    assert status["result"] == {"counted": 30}
    numbers = [done for done, _, _ in told]
    assert numbers == sorted(set(numbers))
    assert len(numbers) > 2
    assert told[-1][:2] == (1.0, 1.0)
    assert told[-1][2].startswith("counted [")


async def test_waiting_ends_in_time_with_how_far_the_task_is(client):
    task_id = await queued(to=10_000, pause=0.1)
    await begun(client, task_id)

    status = await call(client, "cancel_task", task_id=task_id)
    assert status["cancel_requested"] is True
    status = await call(client, "get_task_status", task_id=task_id, wait_seconds=300)
    assert status["status"] == "cancelled"


async def test_asking_without_waiting_answers_at_once(client):
    task_id = await queued(to=10_000, pause=0.1)
    status = await call(client, "get_task_status", task_id=task_id)
    assert status["status"] in ("pending", "running")
    assert status["task_id"] == task_id


@pytest.mark.parametrize("tool", ["get_task_status", "cancel_task"])
async def test_an_unknown_task_is_refused_with_what_to_do(client, tool):
    result = await client.call_tool(tool, {"task_id": UNKNOWN})
    assert result.is_error
    assert "TASK_001" in result.content[0].text
    assert "zapomni tasks" in result.content[0].text


@pytest.mark.parametrize("arguments", [{"task_id": ""}, {"task_id": "x", "wait_seconds": 301}])
async def test_arguments_out_of_range_are_refused(client, arguments):
    result = await client.call_tool("get_task_status", arguments)
    assert result.is_error
    assert "VAL_" in result.content[0].text


async def test_a_server_that_ends_gives_its_task_back(counting):
    task_id = await queued(to=10_000, pause=0.05)
    async with piped("--tools", "all") as client:
        await begun(client, task_id)
    status = await anyio.to_thread.run_sync(status_of, task_id)
    assert (status.status, status.attempts) == ("pending", 1)
