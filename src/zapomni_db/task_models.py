"""Background tasks as the scheduler and the store exchange them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

__all__ = ["Claim", "Hold", "Progress", "Queue"]

Hold = Literal["held", "cancelled", "lost"]
"""The state of a claim: it holds, the task was cancelled, or another worker has taken it."""


class Claim(NamedTuple):
    """The right to work on a task. It ends when its lease expires and another worker claims it."""

    task_id: str
    task_type: str
    params: dict[str, Any]
    attempt: int
    """Grows with every claim: a worker with an older number can neither report nor finish."""
    failures: int
    """How many attempts ended in an error before this one."""
    share: float = 0.0
    """How much of it earlier attempts completed, 0 to 1."""


class Progress(NamedTuple):
    """How far a task is, in the handler's own units."""

    done: int
    total: int | None
    message: str


class Queue(NamedTuple):
    """What is left to do."""

    pending: int
    running: int
    due_in: float | None
    """Seconds until the first task may be claimed; None if there is none."""
