"""Background work: what runs, how far it is, and what became of it."""

from __future__ import annotations

import json
from typing import NamedTuple

from zapomni_core.exceptions import ValidationError
from zapomni_db.models import TaskStatus
from zapomni_web.page import Done, PageRequest, PageView, address

__all__ = ["cancel", "retry", "show"]

STATUSES = ("pending", "running", "completed", "failed", "cancelled")
AT_ONCE, AT_MOST = 20, 100
# A result may be a long report; `zapomni tasks show` prints all of it.
SHOWN_CHARS = 600
FULL = 100
NAMES = {
    "build_graph": "Build the graph",
    "import_source": "Import",
    "index_codebase": "Index code",
}
TONES = {"running": "accent", "completed": "good", "failed": "bad", "stalled": "warn"}


class ShownTask(NamedTuple):
    """A task with everything decided that the page shows."""

    task: TaskStatus
    name: str
    word: str
    tone: str
    percent: int
    share: str
    what: str
    """What it was asked to do."""
    result: str
    took: str
    has_bar: bool
    can_cancel: bool
    can_retry: bool


async def show(asked: PageRequest) -> PageView:
    """List tasks, the newest first."""
    status = asked.get("status")
    if status and status not in STATUSES:
        raise ValidationError(f"status must be one of {', '.join(STATUSES)}", "VAL_003")
    limit = max(1, asked.get_int("limit", AT_ONCE, AT_MOST))
    found = await asked.engine.tasks.list_tasks(status or None, limit + 1)
    has_more, found = len(found) > limit, found[:limit]
    more = min(limit + AT_ONCE, AT_MOST)
    return PageView(
        "tasks.html",
        "Tasks",
        found,
        ["zapomni", "tasks", *(["--status", status] if status else []), "--limit", str(limit)],
        {
            "shown": [_shown(one) for one in found],
            "views": [("All", asked.here(status=None, limit=None), not status)]
            + [
                (name.capitalize(), asked.here(status=name, limit=None), name == status)
                for name in STATUSES
            ],
            "status": status,
            "more": asked.here(limit=str(more)) if has_more and more > limit else "",
            "waits": any(one.status == "pending" or one.stalled for one in found),
        },
        live="tasks",
    )


def _shown(task: TaskStatus) -> ShownTask:
    word: str = "waiting" if task.status == "pending" else task.status
    if task.status == "running":
        word = "stalled" if task.stalled else "stopping" if task.cancel_requested else "running"
    percent = FULL if task.status == "completed" else round(FULL * task.progress)
    share = f"{task.done:,} of {task.total:,}" if task.total is not None else ""
    params = task.params or {}
    return ShownTask(
        task,
        NAMES.get(task.task_type, task.task_type.replace("_", " ").capitalize()),
        word,
        TONES.get(word, ""),
        percent,
        share,
        _shorten(", ".join(f"{name} {_value(value)}" for name, value in params.items() if value)),
        _shorten(_value(task.result)) if task.result else "",
        _took(task),
        has_bar=task.status in ("pending", "running")
        or (task.status != "completed" and bool(share)),
        can_cancel=task.status in ("pending", "running") and not task.cancel_requested,
        can_retry=task.status in ("failed", "cancelled"),
    )


def _took(task: TaskStatus) -> str:
    """Return how long it took, or takes already."""
    if task.started_at is None:
        return ""
    end = task.finished_at or task.updated_at
    seconds = round((end - task.started_at).total_seconds()) if end else 0
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest} s" if minutes else f"{max(1, rest)} s"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


async def cancel(asked: PageRequest) -> Done:
    """Stop a task; what it has stored stays."""
    task = await asked.engine.tasks.cancel_task(asked.path["id"])
    name = _shown(task).name
    if task.status == "running":
        return Done(f"“{name}” stops at its next step; what it stored stays.", address("tasks"))
    if task.status != "cancelled":
        return Done(f"“{name}” had ended already: {task.status}.", address("tasks"))

    async def undo() -> str:
        await asked.engine.tasks.retry_task(task.task_id)
        return f"“{name}” is queued again."

    return Done(f"“{name}” is cancelled.", address("tasks"), undo)


async def retry(asked: PageRequest) -> Done:
    """Queue a failed or cancelled task again."""
    task = await asked.engine.tasks.retry_task(asked.path["id"])
    name = _shown(task).name

    async def undo() -> str:
        await asked.engine.tasks.cancel_task(task.task_id)
        return f"“{name}” is cancelled again."

    return Done(f"“{name}” is queued again.", address("tasks"), undo)
