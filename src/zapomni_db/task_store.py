"""What the scheduler asks of the store of background tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from zapomni_db.models import TaskStatus

__all__ = ["Claim", "Hold", "Progress", "Queue", "TaskStore"]

Hold = Literal["held", "cancelled", "lost"]
"""What became of a claim: it holds, somebody wants the task to stop, or somebody else has it."""


class Claim(NamedTuple):
    """The right to work on a task. It ends when its lease does and somebody else takes over."""

    task_id: str
    task_type: str
    params: dict[str, Any]
    attempt: int
    """Goes up with every claim: who holds an older number can neither report nor finish."""
    failures: int
    """How many attempts ended in an error before this one."""
    share: float = 0.0
    """How much of it earlier attempts had done, 0 to 1."""


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
    """Seconds until the first of it may be claimed; None if there is nothing."""


class TaskStore(Protocol):
    """Keeps tasks where every process sees them and no restart loses them.

    Implemented by `zapomni_db.sqlite.tasks.SqliteTasks`, in the local file whatever engine holds
    the memories. Every change is one transaction: two processes never hold the same claim.
    """

    async def close(self) -> None:
        """Release files and threads."""
        ...

    async def submit(self, task_type: str, params: Mapping[str, Any]) -> str:
        """Queue a task; return its id, or that of the same work if it waits or runs already.

        Tasks finished long ago are forgotten on this occasion.

        Raises:
            ValidationError: The parameters are no JSON, or too long.
        """
        ...

    async def get(self, task_id: str) -> TaskStatus | None:
        """Return how a task is getting on."""
        ...

    async def list_tasks(self, status: str | None, limit: int) -> list[TaskStatus]:
        """Return tasks, the newest first."""
        ...

    async def look(self, task_types: Sequence[str]) -> Queue:
        """Return what is left to do of these types. A cheap read."""
        ...

    async def claim(
        self, task_types: Sequence[str], lease_seconds: float, task_id: str | None = None
    ) -> Claim | None:
        """Take the oldest task that is due, or this one if it is.

        A task is due when it waits for nobody, or when its holder let the lease run out.
        """
        ...

    async def renew(self, claim: Claim, lease_seconds: float, progress: Progress | None) -> Hold:
        """Prolong a claim and store progress; nothing is written unless the claim still holds."""
        ...

    async def give_back(self, claim: Claim, error: tuple[str, str] | None, delay: float) -> bool:
        """Put a task back for anybody to claim after a delay; say whether the claim still held.

        With an error (code and words) the attempt counts as failed.
        """
        ...

    async def finish(
        self,
        claim: Claim,
        status: Literal["completed", "failed", "cancelled"],
        progress: Progress | None = None,
        result: str | None = None,
        error: tuple[str, str] | None = None,
    ) -> bool:
        """End a task for good; say whether the claim still held. If not, nothing changes.

        The result is JSON, the error its code and words for the user.
        """
        ...

    async def cancel(self, task_id: str) -> TaskStatus | None:
        """Stop a task: one nobody works on at once, another when its worker notices."""
        ...

    async def retry(self, task_id: str) -> TaskStatus | None:
        """Queue a failed or cancelled task again; return it, or the same work if it is queued.

        Raises:
            ValidationError: It is completed, or not finished yet.
        """
        ...
