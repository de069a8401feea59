"""`zapomni tasks`: long work in the background, and how other commands carry theirs out."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import (
    day,
    is_terminal,
    print_json,
    print_pairs,
    print_table,
    progress_bar,
    short_id,
)
from zapomni_cli.runtime import read_settings, with_engine
from zapomni_core.scheduler.task_manager import TaskManager, open_tasks
from zapomni_db.models import TaskStatus

if TYPE_CHECKING:
    from zapomni_core.engine import ZapomniEngine

__all__ = ["background_option", "carry_out", "print_queued", "tasks"]

T = TypeVar("T")

SHORT_ID_CHARS = 8
MOST_TASKS = 10_000
STATUSES = ["pending", "running", "completed", "failed", "cancelled"]

background_option = click.option(
    "--background", is_flag=True, help="Do not wait: a separate process does the work."
)
task_argument = click.argument("task_id", metavar="ID")


# --- For commands that start long work ----------------------------------------------------


def carry_out(
    submit: Callable[[ZapomniEngine], Awaitable[str]], label: str, *, background: bool
) -> TaskStatus:
    """Queue a task and work on it here, with a progress bar, or leave it to another process.

    If another process works on it already, the bar shows how far that is. Ctrl-C cancels a task
    that is worked on here.

    Args:
        submit: Queues the task and returns its id.
        label: What is being done, shown next to the bar until the task reports its own message.
        background: Return at once; a separate process works on the task.

    Returns:
        The task: completed, or where it was when it was left to the other process.

    Raises:
        click.ClickException: It failed or was cancelled.
    """

    async def work(engine: ZapomniEngine) -> TaskStatus:
        task_id = await submit(engine)
        if background:
            return await engine.tasks.get_task_status(task_id)
        with progress_bar(label) as report:
            return await engine.tasks.run_task(
                task_id, lambda status: report(status.done, status.total, status.message)
            )

    status = with_engine(work)
    if background:
        # -P: a module in the folder we are in must not be taken for one of ours.
        subprocess.Popen(
            [sys.executable, "-P", "-m", "zapomni_cli", "tasks", "run"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it outlives the terminal
        )
    elif status.status != "completed":
        raise click.ClickException(status.error or f"Task {status.task_id} was cancelled.")
    return status


def print_queued(status: TaskStatus) -> None:
    """Say that a task was left to another process, and how to follow it; in a pipe, its id."""
    if is_terminal():
        follow = f"zapomni tasks watch {short_id(status.task_id)}"
        click.echo(f"Working in the background. To follow it: {follow}")
    else:
        click.echo(status.task_id)


# --- The command --------------------------------------------------------------------------


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "zapomni tasks",
        "zapomni tasks --status failed",
        "zapomni tasks watch ID",
        "zapomni tasks run",
    ),
)
@click.option("--status", type=click.Choice(STATUSES), help="Only these.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="How many to show."
)
@json_option
@click.pass_context
def tasks(ctx: click.Context, *, status: str | None, limit: int, as_json: bool) -> None:
    """List background tasks; follow, cancel or retry one.

    The newest come first. Long work is done by the command that asked for it, by `zapomni serve`
    while an agent runs, or by `zapomni tasks run`. A task whose process died is taken over by
    the next of these. In a pipe each line is: id, type, status, progress, day, what it does or
    why it failed. Tasks that ended 30 days ago are forgotten.
    """
    if ctx.invoked_subcommand is not None:
        return
    found = _with_tasks(lambda manager: manager.list_tasks(status, limit))
    if as_json:
        print_json([task.model_dump(mode="json") for task in found])
    elif found:
        _print_tasks(found)
    else:
        click.echo("No tasks.", err=True)


@tasks.command(epilog=examples("zapomni tasks show ID", "zapomni tasks show ID --json"))
@task_argument
@json_option
def show(task_id: str, *, as_json: bool) -> None:
    """Show all about a task: progress, attempts, result, error."""

    async def read(manager: TaskManager) -> TaskStatus:
        return await manager.get_task_status(await _complete(manager, task_id))

    _print_task(_with_tasks(read), as_json=as_json)


@tasks.command(epilog=examples("zapomni tasks watch ID"))
@task_argument
@json_option
def watch(task_id: str, *, as_json: bool) -> None:
    """Follow a task until it has ended.

    It may run in any process. Ctrl-C stops watching; the task continues. Exits with 1 if the task
    failed or was cancelled.
    """

    async def work(manager: TaskManager) -> TaskStatus:
        whole = await _complete(manager, task_id)
        _hint([await manager.get_task_status(whole)])
        with progress_bar("Waiting") as report:
            async for status in manager.watch(whole):
                report(status.done, status.total, status.message or status.status)
        return status

    task = _with_tasks(work)
    _print_task(task, as_json=as_json)
    if task.status != "completed":
        click.get_current_context().exit(1)


@tasks.command(epilog=examples("zapomni tasks cancel ID"))
@task_argument
@json_option
def cancel(task_id: str, *, as_json: bool) -> None:
    """Stop a task. What it has stored so far stays.

    A running task stops at its next step, within seconds.
    """

    async def work(manager: TaskManager) -> TaskStatus:
        return await manager.cancel_task(await _complete(manager, task_id))

    status = _with_tasks(work)
    if as_json:
        print_json(status.model_dump(mode="json"))
    else:
        state = f"{status.task_id}\t{_state(status)}"
        click.echo(_cancel_message(status) if is_terminal() else state)


@tasks.command(epilog=examples("zapomni tasks retry ID", "zapomni tasks retry ID --background"))
@task_argument
@background_option
@json_option
def retry(task_id: str, *, background: bool, as_json: bool) -> None:
    """Do a failed or cancelled task again."""

    async def submit(engine: ZapomniEngine) -> str:
        return (await engine.tasks.retry_task(await _complete(engine.tasks, task_id))).task_id

    status = carry_out(submit, "Trying again", background=background)
    if background and not as_json:
        print_queued(status)
    else:
        _print_task(status, as_json=as_json)


@tasks.command(epilog=examples("zapomni tasks run"))
@json_option
def run(*, as_json: bool) -> None:
    """Work until the queue is empty.

    Takes what waits, and what a process that died has left. Several may run at once. Ctrl-C
    gives the task at hand back. Exits with 1 if a task failed.
    """
    ended: dict[str, TaskStatus] = {}

    async def work(engine: ZapomniEngine) -> None:
        with progress_bar("Working") as report:

            def shown(status: TaskStatus) -> None:
                report(status.done, status.total, status.message)
                if status.finished_at:
                    ended[status.task_id] = status

            await engine.tasks.run_all(shown)
        await engine.back_up_if_due()

    with_engine(work)
    if as_json:
        print_json([task.model_dump(mode="json") for task in ended.values()])
    elif ended:
        _print_tasks(list(ended.values()))
    else:
        click.echo("Nothing to do.", err=True)
    if any(task.status == "failed" for task in ended.values()):
        click.get_current_context().exit(1)


async def _complete(manager: TaskManager, given: str) -> str:
    """Return the whole id of a task, of which the first eight characters or more may be given."""
    if len(given) < SHORT_ID_CHARS:
        return given
    listed = await manager.list_tasks(limit=MOST_TASKS)
    found = [task.task_id for task in listed if task.task_id.startswith(given)]
    if len(found) > 1:
        raise click.UsageError("Several tasks have ids that begin like this: give more of it.")
    return found[0] if found else given


def _with_tasks(work: Callable[[TaskManager], Awaitable[T]]) -> T:
    """Open the tasks alone: looking after them needs no engine, and no server behind it."""
    manager = open_tasks(read_settings())

    async def run() -> T:
        try:
            return await work(manager)
        finally:
            await manager.close()

    return asyncio.run(run())


# --- How tasks look -----------------------------------------------------------------------


def _print_tasks(found: list[TaskStatus]) -> None:
    print_table(_row(task) for task in found)
    _hint(found)


def _hint(found: list[TaskStatus]) -> None:
    if any(task.status == "pending" or task.stalled for task in found):
        click.echo("`zapomni tasks run` works on what waits.", err=True)


def _row(task: TaskStatus) -> tuple[str, ...]:
    created = day(task.created_at) if task.created_at else ""
    said = (task.error or "") if task.status != "completed" else ""
    about = (short_id(task.task_id), task.task_type, _state(task), _share(task), created)
    return (*about, said or task.message)


def _state(task: TaskStatus) -> str:
    if task.status == "running" and task.stalled:
        return "stalled"
    return "stopping" if task.status == "running" and task.cancel_requested else task.status


def _share(task: TaskStatus) -> str:
    return f"{task.done}/{task.total}" if task.total is not None else ""


def _cancel_message(task: TaskStatus) -> str:
    if task.status == "running":
        return f"Task {short_id(task.task_id)} stops at its next step."
    return f"Task {short_id(task.task_id)} is {task.status}."


def _print_task(task: TaskStatus, *, as_json: bool) -> None:
    if as_json:
        print_json(task.model_dump(mode="json"))
    else:
        print_pairs(_lines(task))


def _lines(task: TaskStatus) -> Iterator[tuple[str, Any]]:
    yield "id", task.task_id
    yield "type", task.task_type
    if task.params is not None:
        yield "parameters", json.dumps(task.params, ensure_ascii=False)
    yield "status", _state(task)
    if _share(task):
        yield "progress", _share(task)
    yield "attempts", task.attempts
    said = {"message": task.message, "error": task.error, "error code": task.error_code}
    yield from ((name, value) for name, value in said.items() if value)
    if task.result is not None:
        yield "result", json.dumps(task.result, ensure_ascii=False)
    times = {"queued": task.created_at, "started": task.started_at, "ended": task.finished_at}
    yield from ((name, day(moment)) for name, moment in times.items() if moment)
