"""What a new session is told about earlier ones: chosen, ranked, quoted, and never too long.

Standard library only: the hook of a session's start imports this.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from zapomni_core.modules.observations import strip_injected
from zapomni_core.shared.quoting import quoted
from zapomni_core.workflows.context_lines import (
    CELL,
    ContextLine,
    make_line,
    render,
    summary_of,
)
from zapomni_db.sqlite.observation_reads import (
    Recurring,
    Row,
    aliases_of,
    command_of,
    count_actions,
    has_unknown_outcome,
    newest,
    recurring_failures,
    switched_off,
)
from zapomni_db.sqlite.project_folders import untrusted_folders

__all__ = ["UNTRUSTED", "ContextLine", "explain_context", "session_context"]

UNTRUSTED = (
    "Zapomni shows nothing of this project here: the folder claims to be a project that is known "
    "from another folder. If it is the user's own, ask the user to run in it: "
    "zapomni projects --trust"
)

BUDGET = 8000
POOL = 600  # The newest rows of a project that are candidates.
OTHERS = 300  # The newest rows of all projects that are.
HALF_LIFE = 7 * 86_400
FAILURE_DAYS = 30

RECOVERY_SOURCES = ("compact", "clear")
# Marks of a session's course say nothing about its work.
QUIET = frozenset(
    ["session_start", "session_end", "session_resume", "session_clear", "session_compact"]
)
WEIGHTS = {
    "file_edit": 1.0,
    "git_commit": 1.0,
    "marker": 1.0,
    "file_write": 0.9,
    "command_error": 0.9,
    "git_push": 0.7,
    "command": 0.67,
    "github": 0.5,
    "task_spawn": 0.5,
    "mcp_call": 0.33,
    "web_fetch": 0.33,
    "web_search": 0.33,
    "file_read": 0.25,
    "search": 0.2,
}
OTHER_WEIGHT = 0.17
EDITS = ("file_edit", "file_write")
_LOOKING = ("ls", "cd ", "cat ", "pwd", "git status", "git diff", "git log", "which ", "echo ")


class _Limits(NamedTuple):
    threads: int
    intents: int
    local: int
    trail: int
    cross: int


NORMAL = _Limits(threads=3, intents=6, local=20, trail=0, cross=10)
# The agent has lost its context window: tell more, and what it just did.
RECOVERY = _Limits(threads=6, intents=12, local=30, trail=15, cross=15)


class _Seen(NamedTuple):
    """What lines are chosen from, and what about the present counts in the choice."""

    db: sqlite3.Connection
    projects: list[str]
    name: str
    branch: str
    changed: frozenset[str]
    rows: list[Row]
    branches: dict[str, str]
    limits: _Limits
    now: float


def session_context(
    db: sqlite3.Connection,
    project: str,
    branch: str,
    changed_files: Sequence[str],
    source: str,
    budget: int = BUDGET,
    *,
    is_trusted: bool = True,
) -> str:
    """Return the context of a new session as Markdown, shorter than `budget` characters.

    Empty if there is nothing to show, or if the project's context is switched off. A folder that is
    not trusted is given what was done in it, one line that says so, and nothing else.
    """
    notice = "" if is_trusted else UNTRUSTED + "\n\n"
    lines = explain_context(db, project, branch, changed_files, source, is_trusted=is_trusted)
    return (notice + (render(lines, budget - len(notice)) if lines else "")).rstrip()


def explain_context(
    db: sqlite3.Connection,
    project: str,
    branch: str,
    changed_files: Sequence[str],
    source: str,
    *,
    is_trusted: bool = True,
) -> list[ContextLine]:
    """Return the lines of the context, each with the reason it was chosen."""
    off = switched_off(db)
    projects = aliases_of(db, project)
    if off.intersection(projects):
        return []
    rows = [_own_words(row) for row in newest(db, projects, POOL) if row[4] not in QUIET]
    rows = [row for row in rows if row[7]]
    seen = _Seen(
        db,
        projects,
        _names(db).get(projects[0]) or projects[0].rsplit("/", 1)[-1],
        branch,
        frozenset(changed_files),
        rows,
        _branches(db, rows),
        RECOVERY if source in RECOVERY_SOURCES else NORMAL,
        time.time(),
    )
    intents, trail = _intents(seen), _trail(seen)
    shown = {line.id for line in trail}
    return [
        *_threads(seen),
        *intents,
        *_recent(seen, seen.limits.local - len(intents), shown),
        *trail,
        *(_cross_project(seen, off | untrusted_folders(db)) if is_trusted else ()),
    ]


def _own_words(row: Row) -> Row:
    """Return a prompt without what a host added; older captures have it, even whole contexts."""
    if row[4] != "user_prompt":
        return row
    return (*row[:7], strip_injected(row[7]).strip(), *row[8:])


def _ago(seen: _Seen, moment: int) -> str:
    hours = max(seen.now - moment, 0) / 3600
    return f"{hours:.0f} h ago" if hours < 48 else f"{hours / 24:.0f} days ago"


def _names(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT key, name FROM projects").fetchall())


def _branches(db: sqlite3.Connection, rows: Sequence[Row]) -> dict[str, str]:
    sessions = {row[2] for row in rows}
    found = (
        db.execute("SELECT id, branch FROM sessions WHERE id = ?", (session,)).fetchone()
        for session in sessions
    )
    return {row[0]: row[1] for row in found if row}


# --- What is worth telling --------------------------------------------------------------


def _value(seen: _Seen, row: Row, weight: float) -> float:
    """Return how much an observation is worth telling."""
    age = max(seen.now - row[1], 0)
    score = 0.5 * 0.5 ** (age / HALF_LIFE) + 0.3 * weight
    if row[8] and _is_changed(seen, row[8]):
        score += 0.6
    if seen.branch and seen.branches.get(row[2]) == seen.branch:
        score += 0.3
    return float(score + row[12])


def _reasons(seen: _Seen, row: Row) -> str:
    """Say what counted for it."""
    reasons = [_ago(seen, row[1])]
    if row[8] and _is_changed(seen, row[8]):
        reasons.append("the file has uncommitted changes")
    if seen.branch and seen.branches.get(row[2]) == seen.branch:
        reasons.append("same branch")
    if row[12]:
        reasons.append("pinned")
    return ", ".join(reasons)


def _is_changed(seen: _Seen, path: str) -> bool:
    """Compare a stored path, absolute or not, with paths relative to the checkout."""
    parts = path.split("/")
    return any("/".join(parts[start:]) in seen.changed for start in range(len(parts)))


def _weight(row: Row) -> float:
    if row[4] == "command" and row[7].startswith(_LOOKING):
        return OTHER_WEIGHT
    return WEIGHTS.get(row[4], OTHER_WEIGHT)


def _recent(seen: _Seen, limit: int, shown: set[int]) -> list[ContextLine]:
    valued: list[tuple[float, Row]] = []
    files: set[str] = set()
    for row in seen.rows:
        if row[4] == "user_prompt" or row[0] in shown or row[8] in files:
            continue
        if row[8]:
            files.add(row[8])
        valued.append((_value(seen, row, _weight(row)), row))
    chosen = sorted(valued, key=lambda item: -item[0])[:limit]
    section = f"Recent ({quoted(seen.name, 60)})"
    return [
        make_line(section, row, summary_of(row), f"{_reasons(seen, row)}; score {score:.2f}")
        for score, row in sorted(chosen, key=lambda item: (-item[1][1], -item[1][0]))
    ]


def _intents(seen: _Seen) -> list[ContextLine]:
    """Choose what was asked for: requests that were worked on, then, if there is room, talk."""
    prompts = [row for row in seen.rows if row[4] == "user_prompt"]
    if not prompts:
        return []
    actions = count_actions(seen.db, [row[0] for row in prompts])
    worked: list[tuple[float, Row]] = []
    talk: list[Row] = []
    said: set[str] = set()
    for row in prompts:
        if row[7] in said:
            continue
        said.add(row[7])
        if count := actions.get(row[0], 0):
            worked.append((_value(seen, row, min(count, 20) / 20), row))
        elif len(row[7].split()) >= 4:
            talk.append(row)
    limit = seen.limits.intents
    chosen = [row for _, row in sorted(worked, key=lambda item: -item[0])[:limit]]
    chosen.sort(key=lambda row: (-row[1], -row[0]))
    lines = []
    for row in (*chosen, *talk[: limit - len(chosen)]):
        count = actions.get(row[0], 0)
        followed = f"{count} actions" if count else "no action followed"
        why = f"{followed}, {_reasons(seen, row)}"
        lines.append(make_line("Intents", row, _intent(row, count), why))
    return lines


def _intent(row: Row, actions: int) -> str:
    ending = f" → {actions} actions" if actions > 1 else " → 1 action" if actions else ""
    return quoted(row[7], CELL - len(ending)) + ending


def _trail(seen: _Seen) -> list[ContextLine]:
    """Retell the last session's actions in order, for an agent that has just lost them."""
    if not seen.rows or not seen.limits.trail:
        return []
    last = [row for row in seen.rows if row[2] == seen.rows[0][2] and row[4] != "user_prompt"]
    return [
        make_line("Recent actions", row, summary_of(row), "the last session's actions, in order")
        for row in reversed(last[: seen.limits.trail])
    ]


def _cross_project(seen: _Seen, off: set[str]) -> list[ContextLine]:
    names = _names(seen.db)
    own = set(seen.projects)
    files: set[tuple[str, str]] = set()
    lines: list[ContextLine] = []
    for row in newest(seen.db, None, OTHERS):
        if row[3] in own or row[3] in off or row[4] in QUIET or _weight(row) < 0.5:
            continue
        if row[8] and (row[3], row[8]) in files:
            continue
        files.add((row[3], row[8]))
        ending = f" ({quoted(names.get(row[3]) or row[3].rsplit('/', 1)[-1], 40)})"
        summary = quoted(summary_of(row), CELL - len(ending)) + ending
        why = f"another project, {_ago(seen, row[1])}"
        lines.append(make_line("Cross-project", row, summary, why))
        if len(lines) == seen.limits.cross:
            break
    return lines


# --- Open threads -----------------------------------------------------------------------


def _threads(seen: _Seen) -> list[ContextLine]:
    failures = recurring_failures(seen.db, seen.projects, seen.limits.threads)
    lines = [line for line in (_unfinished(seen), *(_failing(seen, f) for f in failures)) if line]
    return lines[: seen.limits.threads]


def _left_open(last: Sequence[Row]) -> tuple[dict[str, Row], Row | None]:
    """Return a session's edits since its last commit, and the failure it ended with."""
    edits: dict[str, Row] = {}
    passed: set[str] = set()
    broken: Row | None = None
    committed = False
    for row in last:  # Newest first.
        if row[4] in EDITS and not committed:
            edits.setdefault(row[8] or row[7].split("\n", 1)[0], row)
        elif row[4] == "command" and not has_unknown_outcome(row[9]):
            passed.add(command_of(row[7], row[9]))
        elif row[4] == "command_error" and broken is None:
            broken = None if command_of(row[7], row[9]) in passed else row
        committed = committed or row[4] in ("git_commit", "git_push")
    return edits, broken


def _unfinished(seen: _Seen) -> ContextLine | None:
    """Describe the last session's work if edits were not committed or a failure stayed."""
    last = [row for row in seen.rows if row[2] == seen.rows[0][2]]
    edits, broken = _left_open(last)
    # In a checkout, git knows better whether anything is left to commit.
    if seen.branch:
        edits = {path: row for path, row in edits.items() if _is_changed(seen, path)}
    if not edits and broken is None:
        return None
    anchor = broken or next(iter(edits.values()))
    said = []
    if edits:
        named = ", ".join(path.rsplit("/", 1)[-1] for path in list(edits)[:3])
        said.append(f"{len(edits)} edited, not committed: {named}")
    if broken:
        said.append(f"last failure: {quoted(broken[7], 50)}")
    asked = next((row for row in last if row[0] == anchor[11]), None)
    start = f"“{quoted(asked[7], 40)}” " if asked else ""
    why = f"last session, {_ago(seen, anchor[1])}"
    return make_line("Open threads", anchor, start + "; ".join(said), why, "unfinished")


def _failing(seen: _Seen, failure: Recurring) -> ContextLine | None:
    changes = failure.fix.changes if failure.fix else []
    rows = _by_id(seen.db, [failure.last_id, *changes])
    last = rows[failure.last_id]
    if seen.now - last[1] > FAILURE_DAYS * 86_400:
        return None
    ending = f" failed {failure.times}x; " + ("no fix known" if failure.fix is None else "")
    if failure.fix:
        named = [rows[change] for change in changes if change in rows]
        changed = ", ".join(f"{quoted(_file(row), 30)} (#{row[0]})" for row in named[-2:])
        how = f"after {changed}" if changed else "when run again"
        ending += f"passed {how} in #{failure.fix.run_id}"
    state = "still open" if failure.still_open else "fixed since"
    why = f"came back in {failure.sessions} sessions, {state}, {_ago(seen, last[1])}"
    summary = quoted(failure.command, max(CELL - len(ending), 20)) + ending
    kind = "failing" if failure.still_open else "was failing"
    return make_line("Open threads", last, summary, why, kind)


def _file(row: Row) -> str:
    return str(row[8] or row[7]).rsplit("/", 1)[-1]


def _by_id(db: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Any]:
    found = (
        db.execute(
            "SELECT id, timestamp, session_id, project, obs_type, source_event, tool_name,"
            " content, file_path FROM observations WHERE id = ?",
            (rowid,),
        ).fetchone()
        for rowid in ids
    )
    return {row[0]: row for row in found if row}
