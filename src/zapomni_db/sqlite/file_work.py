"""What sessions did about files: edits, the failures before them, later passes, commits.

Read when someone asks, out of the local file; nothing of it is stored elsewhere.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import LiteralString, NamedTuple

from zapomni_db.observation_models import AskedIn, SessionWork, WorkCommit, WorkStep
from zapomni_db.sqlite.observation_reads import command_of, has_unknown_outcome
from zapomni_db.sqlite.rows import from_json, to_json

__all__ = ["find_paths", "get_work", "list_commits", "session_at"]

# Of a file with more, the newest.
MOST_EDITS, MOST_STEPS, MOST_PATHS, MOST_COMMITS = 400, 5000, 20, 20_000
SHOWN_PROMPTS, SHOWN_COMMITS = 2, 3
MESSAGE_CHARS, PROMPT_CHARS = 300, 400

_SHOWN: LiteralString = (
    " AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)))"
    " AND project NOT IN (SELECT value FROM json_each(:hidden))"
)
# The files whose path is a text or ends with it.
_PATHS: LiteralString = (
    "SELECT file_path, max(timestamp) FROM observations WHERE file_path IS NOT NULL"
    " AND (file_path = :name OR substr(file_path, -length(:end)) = :end)"
    " AND obs_type IN ('file_edit', 'file_write')"
    + _SHOWN
    + " GROUP BY file_path ORDER BY 2 DESC LIMIT :most"
)
# The edits of files, the newest first: all, or those with some ids.
_EDITS: LiteralString = (
    "SELECT id, timestamp, session_id, project, host, file_path, prompt_id FROM observations"
    " WHERE file_path IN (SELECT value FROM json_each(:paths))"
    " AND obs_type IN ('file_edit', 'file_write')"
    " AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))"
    + _SHOWN
    + " ORDER BY timestamp DESC, id DESC LIMIT :most"
)
# All that was done in a session, in order.
_STEPS: LiteralString = """
SELECT id, timestamp, obs_type, content, metadata, prompt_id,
    obs_type = 'command_error' OR signature IS NOT NULL
FROM observations WHERE session_id = ? ORDER BY timestamp, id LIMIT ?"""
_BRANCH: LiteralString = "SELECT branch FROM sessions WHERE id = ?"
_CONTENT: LiteralString = "SELECT content FROM observations WHERE id = ?"
# Commits of imported histories that may name a file.
_COMMITS: LiteralString = (
    "SELECT id, timestamp, content, metadata FROM observations"
    " WHERE obs_type = 'git_commit' AND host = 'git-history' AND (instr(metadata, :path)"
    " OR instr(metadata, :escaped))" + _SHOWN + " ORDER BY timestamp DESC, id DESC LIMIT :most"
)
# Sessions of a project that were going on at a time; two are enough to know that it is not clear.
_SESSIONS_AT: LiteralString = """
SELECT id, host FROM sessions
WHERE project = :project AND started_at <= :at AND last_at >= :at AND host <> 'git-history'
LIMIT 2"""
_PROMPT_BEFORE: LiteralString = """
SELECT content FROM observations
WHERE session_id = ? AND +obs_type = 'user_prompt' AND timestamp <= ?
ORDER BY timestamp DESC, id DESC LIMIT 1"""


class _Edit(NamedTuple):
    """An edit of a file."""

    id: int
    timestamp: int
    session_id: str
    project: str
    host: str
    file_path: str
    prompt_id: int | None


class _Step(NamedTuple):
    """Something that was done in a session."""

    id: int
    timestamp: int
    obs_type: str
    content: str
    metadata: str | None
    prompt_id: int | None
    failed: int

    @property
    def command(self) -> str:
        return command_of(self.content, self.metadata)


def find_paths(
    connection: sqlite3.Connection,
    name: str,
    projects: Sequence[str] | None,
    hidden: Sequence[str],
) -> list[str]:
    """Return the edited files of a path or of its end, the last edited first."""
    bound = {"name": name, "end": f"/{name.strip('/')}", "most": MOST_PATHS}
    rows = connection.execute(_PATHS, {**bound, **_visible(projects, hidden)})
    return [path for path, _ in rows]


def _visible(projects: Sequence[str] | None, hidden: Sequence[str]) -> dict[str, str | None]:
    among = None if projects is None else to_json(list(projects))
    return {"projects": among, "hidden": to_json(list(hidden))}


def get_work(
    connection: sqlite3.Connection,
    paths: Sequence[str],
    projects: Sequence[str] | None,
    hidden: Sequence[str],
    limit: int,
    *,
    ids: Sequence[int] | None = None,
) -> list[SessionWork]:
    """Return what the last sessions did about files, the last one first.

    `ids` are the edits that count; None: all of these files.
    """
    bound = {
        "paths": to_json(list(paths)),
        "ids": None if ids is None else to_json(list(ids)),
        "most": MOST_EDITS,
        **_visible(projects, hidden),
    }
    sessions: dict[str, list[_Edit]] = {}
    for row in connection.execute(_EDITS, bound):
        edit = _Edit(*row)
        sessions.setdefault(edit.session_id, []).append(edit)
    return [_work(connection, edits) for edits in list(sessions.values())[:limit]]


def _work(connection: sqlite3.Connection, edits: Sequence[_Edit]) -> SessionWork:
    """Describe the edits of one session, the newest of which comes first."""
    last, first = edits[0], edits[-1]
    steps = [_Step(*row) for row in connection.execute(_STEPS, (first.session_id, MOST_STEPS))]
    order = {step.id: number for number, step in enumerate(steps)}
    begin, end = order.get(first.id, 0), order.get(last.id, 0)
    prompts = dict.fromkeys(edit.prompt_id for edit in reversed(edits) if edit.prompt_id)
    passes = _find_passes(steps)
    failure, passed = _failure_before(steps, begin, set(prompts), passes)
    (branch,) = connection.execute(_BRANCH, (first.session_id,)).fetchone() or ("",)
    asked = [connection.execute(_CONTENT, (one,)).fetchone() for one in prompts]
    return SessionWork(
        session_id=first.session_id,
        project=first.project,
        host=first.host,
        branch=branch,
        first_at=first.timestamp,
        last_at=last.timestamp,
        edits=len(edits),
        files=list(dict.fromkeys(edit.file_path for edit in edits)),
        prompts=[content[:PROMPT_CHARS] for (content,) in filter(None, asked)][-SHOWN_PROMPTS:],
        failure=failure,
        passed=passed,
        failed_after=_failure_after(steps, end, passes),
        commits=[
            commit
            for step in steps[begin:]
            if step.obs_type == "git_commit" and (commit := _to_commit(step))
        ][-SHOWN_COMMITS:],
    )


def _failure_before(
    steps: Sequence[_Step], begin: int, prompts: set[int], passes: Mapping[str, list[int]]
) -> tuple[WorkStep | None, WorkStep | None]:
    """Return the last failure that an edit may have answered, and when its command passed."""
    for number in range(begin - 1, -1, -1):
        failed = steps[number]
        if not failed.failed:
            continue
        own = passes.get(failed.command, [])
        later = own[bisect(own, number) :]
        if later and later[0] < begin:
            continue  # It had passed before.
        if later:
            run = steps[later[0]]
            end = WorkStep(id=run.id, timestamp=run.timestamp, command=run.command)
            return _to_step(failed), end
        if failed.prompt_id is not None and failed.prompt_id in prompts:
            return _to_step(failed), None
    return None, None


def _failure_after(
    steps: Sequence[_Step], end: int, passes: Mapping[str, list[int]]
) -> WorkStep | None:
    """Return the last failure after an edit, unless its command passed later."""
    for number in range(len(steps) - 1, end, -1):
        failed = steps[number]
        if failed.failed:
            passed = passes.get(failed.command, [-1])[-1] > number
            return None if passed else _to_step(failed)
    return None


def _find_passes(steps: Sequence[_Step]) -> dict[str, list[int]]:
    """Return when each command passed, by places in the session."""
    found: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        is_run = step.obs_type == "command" and not step.failed
        if is_run and not has_unknown_outcome(step.metadata):
            found.setdefault(step.command, []).append(number)
    return found


def _to_step(step: _Step) -> WorkStep:
    command = step.command
    message = step.content.removeprefix(command).strip()
    return WorkStep(
        id=step.id, timestamp=step.timestamp, command=command, message=message[:MESSAGE_CHARS]
    )


def _to_commit(step: _Step) -> WorkCommit | None:
    facts = from_json(step.metadata) if step.metadata else {}
    subject = facts.get("commit_message") or step.content.split("\n", 1)[0]
    commit = facts.get("commit_hash")
    if not isinstance(commit, str) or not isinstance(subject, str):
        return None
    return WorkCommit(
        id=step.id,
        timestamp=step.timestamp,
        commit=commit,
        subject=subject[:MESSAGE_CHARS],
        author=str(facts.get("author") or ""),
    )


def list_commits(
    connection: sqlite3.Connection,
    path: str,
    projects: Sequence[str] | None,
    hidden: Sequence[str],
    limit: int,
) -> list[WorkCommit]:
    """Return the newest commits of imported histories that changed a file, by its path there."""
    texts = {"path": to_json(path), "escaped": json.dumps(path)}
    bound = {**texts, "most": MOST_COMMITS, **_visible(projects, hidden)}
    found: list[WorkCommit] = []
    for rowid, moment, content, metadata in connection.execute(_COMMITS, bound):
        step = _Step(rowid, moment, "git_commit", content, metadata, None, 0)
        commit = _to_commit(step)
        if commit is not None and path in from_json(metadata).get("files", ()):
            found.append(commit)
            if len(found) == limit:
                break
    return found


def session_at(connection: sqlite3.Connection, project: str, at: int) -> AskedIn | None:
    """Return the session of a project that was going on at a time, if it was the only one."""
    rows = connection.execute(_SESSIONS_AT, {"project": project, "at": at}).fetchall()
    if len(rows) != 1:
        return None
    ((session, host),) = rows
    (prompt,) = connection.execute(_PROMPT_BEFORE, (session, at)).fetchone() or ("",)
    return AskedIn(session_id=session, host=host, prompt=prompt[:PROMPT_CHARS])
