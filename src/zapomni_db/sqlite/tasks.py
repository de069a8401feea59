"""SqliteTasks: background tasks in the local file, shared by all processes."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, LiteralString, TypeVar

from zapomni_db.exceptions import ValidationError
from zapomni_db.models import TaskStatus
from zapomni_db.sqlite.connection import (
    fetch_value,
)
from zapomni_db.sqlite.file import SqliteFile
from zapomni_db.sqlite.rows import from_time
from zapomni_db.task_models import Claim, Hold, Progress, Queue

__all__ = ["SqliteTasks"]

T = TypeVar("T")

SECOND: Final = 1_000_000
KEPT_DAYS: Final = 30
KEPT_FINISHED: Final = 1000
# A task whose process dies every time may be what kills it.
MOST_LOSSES: Final = 10
LONGEST_MESSAGE: Final = 300
LONGEST_PARAMS: Final = 1_000_000

# The columns of a status. Parameters may be thousands of ids, which a status leaves out.
_COLUMNS: LiteralString = (
    "id, type, status, CASE WHEN length(params) <= 2000 THEN params END, done, total, message,"
    " result, error, error_code, attempts, cancel_requested, due_at,"
    " created_at, started_at, updated_at, finished_at"
)

_STATUS: LiteralString = "SELECT " + _COLUMNS + " FROM tasks WHERE id = ?"
_LIST: LiteralString = (
    "SELECT " + _COLUMNS + " FROM tasks WHERE :status IS NULL OR status = :status"
    " ORDER BY key DESC LIMIT :limit"
)
_IS_CANCELLED: LiteralString = "SELECT cancel_requested FROM tasks WHERE id = ?"
_FINISHED_WORK: LiteralString = "SELECT status, same_work FROM tasks WHERE id = ?"

# A task that may be claimed. No lease and no delay is longer than an hour: one that seems longer
# was made before the clock was set back.
_DUE: LiteralString = "due_at NOT BETWEEN :now + 1 AND :now + 3600000000"

# The task of a claim; a worker that lost its claim finds no row.
_HELD: LiteralString = "id = :id AND attempts = :attempt AND status = 'running'"

# A new task, due at once.
_INSERT: LiteralString = """
INSERT INTO tasks (id, type, params, same_work, due_at, created_at, updated_at)
VALUES (:id, :type, :params, :same_work, :now, :now, :now)"""

# An unfinished task of the same type with the same parameters.
_SAME_WORK: LiteralString = """
SELECT id FROM tasks
WHERE same_work = :same_work AND finished_at IS NULL AND cancel_requested = 0"""

# The same, also while it is being cancelled.
_UNFINISHED_WORK: LiteralString = """
SELECT id FROM tasks WHERE same_work = :same_work AND finished_at IS NULL ORDER BY key LIMIT 1"""

# Finished tasks that are too old, and all but the newest ones.
_FORGET_OLD: LiteralString = """
DELETE FROM tasks WHERE finished_at < :oldest OR finished_at <= (
    SELECT finished_at FROM tasks WHERE finished_at IS NOT NULL
    ORDER BY finished_at DESC LIMIT 1 OFFSET :most)"""

# How many tasks are pending and running, and when the next one is due.
_QUEUE: LiteralString = f"""
SELECT total(status = 'pending'), total(status = 'running'),
    min(CASE WHEN {_DUE} THEN 0 ELSE due_at - :now END)
FROM tasks WHERE finished_at IS NULL AND type IN (SELECT value FROM json_each(:types))"""

# The next task to claim; one that may have killed its process comes last.
_OLDEST_DUE: LiteralString = f"""
SELECT key, id, type, params, attempts + 1, failures, done, total FROM tasks
WHERE finished_at IS NULL AND {_DUE} AND type IN (SELECT value FROM json_each(:types))
    AND (:id IS NULL OR id = :id)
ORDER BY losses, key LIMIT 1"""

# A claim: a running task whose lease expired counts as lost once more.
_TAKE: LiteralString = """
UPDATE tasks SET losses = losses + (status = 'running'), status = 'running',
    attempts = attempts + 1, due_at = :until, updated_at = :now,
    started_at = coalesce(started_at, :now)
WHERE key = :key"""

# Expired tasks that were cancelled or lost too often end here.
_SETTLE: LiteralString = f"""
UPDATE tasks SET finished_at = :now, updated_at = :now,
    status = CASE cancel_requested WHEN 1 THEN 'cancelled' ELSE 'failed' END,
    error = CASE cancel_requested WHEN 1 THEN NULL ELSE :error END,
    error_code = CASE cancel_requested WHEN 1 THEN NULL ELSE 'TASK_002' END
WHERE finished_at IS NULL AND status = 'running' AND {_DUE}
    AND (cancel_requested = 1 OR losses + 1 >= :most_losses)"""

# A longer lease, with progress.
_RENEW: LiteralString = f"""
UPDATE tasks SET due_at = :until, updated_at = :now, done = coalesce(:done, done),
    total = coalesce(:total, total), message = coalesce(:message, message)
WHERE {_HELD}"""

# A task that another worker may claim after a delay.
_GIVE_BACK: LiteralString = f"""
UPDATE tasks SET due_at = :until, updated_at = :now, failures = failures + :failed,
    error = coalesce(:error, error), error_code = coalesce(:code, error_code),
    status = CASE cancel_requested WHEN 1 THEN 'cancelled' ELSE 'pending' END,
    finished_at = CASE cancel_requested WHEN 1 THEN :now END
WHERE {_HELD}"""

# The end of a task.
_FINISH: LiteralString = f"""
UPDATE tasks SET status = :status, finished_at = :now, updated_at = :now, result = :result,
    error = :error, error_code = :code, done = coalesce(:done, done),
    total = coalesce(:total, total), message = coalesce(:message, message)
WHERE {_HELD}"""

# A request to stop, which ends a task that no worker has.
_CANCEL: LiteralString = f"""
UPDATE tasks SET cancel_requested = 1, updated_at = :now,
    status = CASE WHEN status = 'pending' OR {_DUE} THEN 'cancelled' ELSE status END,
    finished_at = CASE WHEN status = 'pending' OR {_DUE} THEN :now END
WHERE id = :id AND finished_at IS NULL"""

# A finished task as if it were new.
_RETRY: LiteralString = """
UPDATE tasks SET status = 'pending', cancel_requested = 0, failures = 0, losses = 0,
    due_at = :now, updated_at = :now, done = 0, total = NULL, message = '', result = NULL,
    error = NULL, error_code = NULL, finished_at = NULL
WHERE id = :id"""


class SqliteTasks(SqliteFile):
    """Background tasks in the local file, where every process sees them and no restart loses them.

    Every change is one transaction: two processes never hold the same claim. Calls run on one
    thread with its own connection.

    Args:
        path: The file; created and migrated by the first call.
        clock: Seconds since 1970, the same for every process that uses the file.
    """

    # One thread with one connection: heartbeats are small.
    threads = 1
    opened_by_first_call = True

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        super().__init__(path)
        self._clock = clock

    async def submit(self, task_type: str, params: Mapping[str, Any]) -> str:
        """Queue a task; return its id, or that of the same work if it is queued or running.

        Tasks that finished long ago are deleted on this occasion.

        Raises:
            ValidationError: The parameters are no JSON, or too long.
        """
        try:
            text = _params_text(params)
        except (TypeError, ValueError) as error:
            raise ValidationError("A task's parameters must be JSON", "VAL_002") from error
        if len(text) > LONGEST_PARAMS:
            raise ValidationError(
                f"A task's parameters may have {LONGEST_PARAMS:,} characters as JSON", "VAL_003"
            )
        return await self.write("queueing a task", self._submit, task_type, text)

    async def find_unfinished(self, task_type: str, params: Mapping[str, Any]) -> str | None:
        """Return the id of the oldest unfinished task of this type with these parameters."""
        same_work = {"same_work": _same_work(task_type, _params_text(params))}
        return await self.read("reading a task", fetch_value, _UNFINISHED_WORK, same_work)

    async def get(self, task_id: str) -> TaskStatus | None:
        """Return the status of a task."""
        return await self.read("reading a task", self._find, _known(task_id))

    async def list_tasks(self, status: str | None, limit: int) -> list[TaskStatus]:
        """Return tasks, the newest first."""

        def work(db: sqlite3.Connection) -> list[TaskStatus]:
            rows = db.execute(_LIST, {"status": status, "limit": limit})
            return [self._status(row) for row in rows]

        return await self.read("listing tasks", work)

    async def read_queue(self, task_types: Sequence[str]) -> Queue:
        """Return what is left to do of these types. A cheap read."""
        return await self.read("reading the queue", self._read_queue, task_types)

    async def claim(
        self, task_types: Sequence[str], lease_seconds: float, task_id: str | None = None
    ) -> Claim | None:
        """Claim the oldest task that is due, or this one if it is.

        A task is due when it is pending and not delayed, or when its worker's lease has expired.
        """
        wanted = {"types": json.dumps(list(task_types)), "id": task_id}

        # Checked before the lock is taken: mostly there is nothing, and no writer should wait.
        def is_due(db: sqlite3.Connection) -> bool:
            return db.execute(_OLDEST_DUE, {**wanted, **self._now()}).fetchone() is not None

        if not await self.read("reading the queue", is_due):
            return None
        return await self.write("claiming a task", self._take, wanted, lease_seconds)

    async def renew(self, claim: Claim, lease_seconds: float, progress: Progress | None) -> Hold:
        """Extend a lease and store progress; nothing is written unless the claim still holds."""

        def work(db: sqlite3.Connection) -> Hold:
            if not self._change(db, _RENEW, claim, _fields(progress), lease_seconds):
                return "lost"
            return "cancelled" if fetch_value(db, _IS_CANCELLED, (claim.task_id,)) else "held"

        return await self.write("reporting progress", work)

    async def give_back(self, claim: Claim, error: tuple[str, str] | None, delay: float) -> bool:
        """Release a task for any worker to claim after a delay; return whether the claim held.

        With an error (code and message) the attempt counts as failed.
        """
        code, words = error or (None, None)
        failed = {"failed": int(error is not None), "error": words, "code": code}
        return await self.write(
            "giving a task back", self._change, _GIVE_BACK, claim, failed, delay
        )

    async def finish(
        self,
        claim: Claim,
        status: Literal["completed", "failed", "cancelled"],
        progress: Progress | None = None,
        result: str | None = None,
        error: tuple[str, str] | None = None,
    ) -> bool:
        """End a task for good; return whether the claim still held. If not, nothing changes.

        The result is JSON, the error its code and its message for the user.
        """
        code, words = error or (None, None)
        end = {"status": status, "result": result, "error": words, "code": code}
        end |= _fields(progress)
        return await self.write("finishing a task", self._change, _FINISH, claim, end)

    async def cancel(self, task_id: str) -> TaskStatus | None:
        """Cancel a task: at once if no worker has it, otherwise when its worker notices."""

        def work(db: sqlite3.Connection) -> TaskStatus | None:
            db.execute(_CANCEL, {"id": _known(task_id), **self._now()})
            return self._find(db, _known(task_id))

        return await self.write("cancelling a task", work)

    async def retry(self, task_id: str) -> TaskStatus | None:
        """Queue a failed or cancelled task again; return it, or the same work if it is queued.

        Raises:
            ValidationError: It is completed, or not finished yet.
        """
        return await self.write("retrying a task", self._retry, _known(task_id))

    # --- inside a transaction -----------------------------------------------------------

    def _submit(self, db: sqlite3.Connection, task_type: str, params: str) -> str:
        now = self._now()
        oldest = now["now"] - KEPT_DAYS * 86_400 * SECOND
        db.execute(_FORGET_OLD, {"oldest": oldest, "most": KEPT_FINISHED})
        same_work = _same_work(task_type, params)
        if known := fetch_value(db, _SAME_WORK, {"same_work": same_work}):
            return str(known)
        given = {"id": str(uuid.uuid4()), "type": task_type, "params": params}
        db.execute(_INSERT, {**given, "same_work": same_work, **now})
        return given["id"]

    def _read_queue(self, db: sqlite3.Connection, task_types: Sequence[str]) -> Queue:
        given = {"types": json.dumps(list(task_types)), **self._now()}
        pending, running, due = db.execute(_QUEUE, given).fetchone()
        return Queue(int(pending), int(running), None if due is None else due / SECOND)

    def _take(
        self, db: sqlite3.Connection, wanted: Mapping[str, Any], lease_seconds: float
    ) -> Claim | None:
        given = {**wanted, **self._now(lease_seconds)}
        words = f"Its process ended {MOST_LOSSES} times before it was done."
        db.execute(_SETTLE, {"error": words, "most_losses": MOST_LOSSES, **given})
        row = db.execute(_OLDEST_DUE, given).fetchone()
        if row is None:
            return None
        key, task_id, task_type, params, attempt, failures, done, total = row
        db.execute(_TAKE, {"key": key, **given})
        share = _share(done, total)
        return Claim(task_id, task_type, json.loads(params), attempt, failures, share)

    def _change(
        self,
        db: sqlite3.Connection,
        statement: LiteralString,
        claim: Claim,
        values: Mapping[str, Any],
        ahead: float = 0.0,
    ) -> bool:
        given = {"id": claim.task_id, "attempt": claim.attempt, **self._now(ahead), **values}
        return db.execute(statement, given).rowcount > 0

    def _retry(self, db: sqlite3.Connection, task_id: str) -> TaskStatus | None:
        row = db.execute(_FINISHED_WORK, (task_id,)).fetchone()
        if row is None:
            return None
        status, same_work = row
        if status not in ("failed", "cancelled"):
            raise ValidationError("Only a failed or cancelled task can be retried", "VAL_003")
        if queued := fetch_value(db, _SAME_WORK, {"same_work": same_work}):
            return self._find(db, queued)
        db.execute(_RETRY, {"id": task_id, **self._now()})
        return self._find(db, task_id)

    def _find(self, db: sqlite3.Connection, task_id: str) -> TaskStatus | None:
        row = db.execute(_STATUS, (task_id,)).fetchone()
        return None if row is None else self._status(row)

    def _status(self, row: tuple[Any, ...]) -> TaskStatus:
        (task_id, task_type, status, params, done, total, message, result, *rest) = row
        (error, code, attempts, cancel_requested, due_at, *times) = rest
        created_at, started_at, updated_at, finished_at = (
            None if moment is None else from_time(moment) for moment in times
        )
        share = _share(done, total)
        return TaskStatus(
            task_id=task_id,
            task_type=task_type,
            status=status,
            params=None if params is None else json.loads(params),
            progress=1.0 if status == "completed" else share,
            done=done,
            total=total,
            message=message,
            result=None if result is None else json.loads(result),
            error=error,
            error_code=code,
            attempts=attempts,
            cancel_requested=bool(cancel_requested),
            stalled=status == "running" and due_at <= self._now()["now"],
            created_at=created_at,
            started_at=started_at,
            updated_at=updated_at,
            finished_at=finished_at,
        )

    # --- The clock ----------------------------------------------------------------------

    def _now(self, ahead: float = 0.0) -> dict[str, int]:
        now = int(self._clock() * SECOND)
        return {"now": now, "until": now + int(ahead * SECOND)}


def _params_text(params: Mapping[str, Any]) -> str:
    # Escapes make half a surrogate pair writable; equal parameters become equal texts.
    return json.dumps(params, sort_keys=True, allow_nan=False, separators=(",", ":"))


def _same_work(task_type: str, params: str) -> bytes:
    return hashlib.sha256(f"{task_type}\0{params}".encode()).digest()


def _share(done: int, total: int | None) -> float:
    return min(max(done / total, 0.0), 1.0) if total else 0.0


def _known(task_id: str) -> str:
    # Half a surrogate pair cannot be bound; no id has one.
    return task_id.encode("utf-8", "replace").decode()


def _fields(progress: Progress | None) -> dict[str, Any]:
    if progress is None:
        return {"done": None, "total": None, "message": None}
    message = progress.message[:LONGEST_MESSAGE].encode("utf-8", "replace").decode()
    return {**progress._asdict(), "message": message}
