"""A session as a story: what was asked and done, what failed and was fixed, what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from zapomni_core.exceptions import NotFoundError
from zapomni_db.observation_models import Observation, OutlineStep, SessionStory, SessionSummary
from zapomni_web.page import Confirm, Done, PageRequest, PageView, address

__all__ = ["is_live", "last_page", "name_session", "show", "took"]

# So many observations on a page: it stays below 80 KB.
PER_PAGE = 60
NAME_CHARS = 90
PROMPT_CHARS, OUTCOME_CHARS, TITLE_CHARS, DETAIL_CHARS = 800, 1200, 160, 220
# Prompts and outcomes of a page together; where there are many, each is cut shorter.
SAID_CHARS = 24_000
WHOLE_CHARS = 20_000
LIVE_SECONDS = 15 * 60
LISTED = 10
AT_ONCE = 50
"""So many observations are fetched by id at once."""

EDITS = ("file_edit", "file_write")
COMMANDS = ("command", "command_error", "github")
COMMITS = ("git_commit", "git_push")
# Looking around is folded away; the story is what was changed, tried and said.
QUIET = {
    "file_read": ("read a file", "read {} files"),
    "search": ("searched once", "searched {} times"),
    "web_search": ("searched the web", "searched the web {} times"),
    "web_fetch": ("read a web page", "read {} web pages"),
    "tool_other": ("used a tool", "used {} tools"),
    "mcp_call": ("called a tool", "called {} tools"),
    "session_start": ("began", "began {} times"),
    "session_resume": ("was resumed", "was resumed {} times"),
    "session_clear": ("was cleared", "was cleared {} times"),
    "session_compact": ("was compacted", "was compacted {} times"),
    "session_end": ("ended", "ended {} times"),
}
VERBS = {
    "file_edit": "edited",
    "file_write": "wrote",
    "file_read": "read",
    "command": "ran",
    "command_error": "failed",
    "git_commit": "committed",
    "git_push": "pushed",
    "github": "GitHub",
    "task_spawn": "delegated",
    "assistant_message": "said",
    "user_answer": "you chose",
    "user_prompt": "asked",
    "marker": "noted",
    "web_fetch": "read",
    "web_search": "searched",
    "search": "searched",
    "mcp_call": "called",
    "session_start": "began",
    "session_resume": "resumed",
    "session_clear": "cleared",
    "session_compact": "compacted",
    "session_end": "ended",
}
# The views of a session, and what each shows.
ONLY: dict[str, tuple[str, tuple[str, ...]]] = {
    "prompts": ("Prompts", ("user_prompt", "user_answer")),
    "edits": ("Edits", EDITS),
    "failures": ("Failures", ()),
    "commands": ("Commands", COMMANDS),
    "commits": ("Commits", COMMITS),
    "pinned": ("Pinned", ()),
}


class StoryStep(NamedTuple):
    """One observation of the story."""

    observation: Observation
    tone: str
    """How it is drawn: edit, run, bad, good, talk or quiet."""
    verb: str
    title: str
    detail: str
    note: str
    """For a failure: what became of it."""
    note_href: str
    href: str
    is_open: bool
    """Whether it is shown whole."""
    facts: list[tuple[str, str]]


class QuietSteps(NamedTuple):
    """Steps in a row that changed nothing, in one line."""

    words: str
    steps: list[StoryStep]
    is_open: bool


class Turn(NamedTuple):
    """A prompt and what was done for it."""

    prompt: StoryStep | None
    is_continued: bool
    """Whether it began on the page before."""
    parts: list[StoryStep | QuietSteps]
    outcome: StoryStep | None
    after: list[StoryStep | QuietSteps]
    """What was done after that, such as the end of the session."""


class FailureNote(NamedTuple):
    """A failure of the session, and whether the command passed later."""

    step: OutlineStep
    fix: OutlineStep | None
    words: str


async def show(asked: PageRequest) -> PageView:
    """Show a session's story, a page of it at a time, or only some of it."""
    observations = asked.engine.observations
    # The numbers first: which observations the page has depends on the whole session.
    summary = (await observations.session(asked.path["id"], 1)).summary
    steps = await observations.outline(summary.session_id)
    failures = _follow_failures(steps)
    only, path = asked.get("only"), asked.get("file")
    chosen = [one.id for one in steps if _is_chosen(one, only, path)]
    opened = asked.get_int("at", 0, 1 << 53)
    start = asked.get_int("from", 0)
    if opened in chosen:
        start = chosen.index(opened) // PER_PAGE * PER_PAGE
    shown: list[Observation] = []
    ids = chosen[start : start + PER_PAGE]
    for first in range(0, len(ids), AT_ONCE):
        shown += await observations.get(ids[first : first + AT_ONCE])
    is_story = not only and not path
    turns = _make_turns(asked, shown, failures, opened, is_story=is_story)
    if turns and is_story and shown[0].prompt_id and turns[0].prompt is None:
        turns[0] = await _continue(asked, turns[0], shown[0].prompt_id)
    last = max(0, len(chosen) - 1) // PER_PAGE * PER_PAGE
    outcome = next((one for one in reversed(steps) if one.obs_type == "assistant_message"), None)
    return PageView(
        "session.html",
        name_session(summary),
        SessionStory(
            summary=summary,
            observations=shown,
            omitted=max(0, len(chosen) - start - len(shown)),
        ),
        [
            *("zapomni", "session", summary.session_id, "--limit", str(PER_PAGE)),
            *(("--offset", str(start)) if start else ()),
        ],
        {
            "summary": summary,
            "turns": turns,
            "is_live": is_live(summary),
            "took": took(summary),
            "views": _views(asked, steps, only if not path else "-"),
            "file": path,
            "all_href": asked.here(only=None, file=None, at=None, **{"from": None}),
            "files": _list_files(steps),
            "commits": [one for one in steps if one.obs_type == "git_commit"][-LISTED:],
            "failures": failures,
            "open_failures": sum(1 for one in failures.values() if one.fix is None),
            "outcome": outcome if is_story and len(steps) > 12 and not start else None,
            "remember": outcome or next((one for one in steps if one.prompt_id is not None), None),
            "next": _page(asked, start + PER_PAGE) if start < last else "",
            "previous": _page(asked, start - PER_PAGE) if start else "",
            "latest": _page(asked, last) if start < last else "",
            "range": f"{start + 1} to {start + len(shown)} of {len(chosen)}",
        },
        live="observations",
    )


def name_session(summary: SessionSummary) -> str:
    """Return what to call a session: its first prompt, else its id."""
    first = " ".join(summary.first_prompt.split())
    if not first:
        return f"Session {summary.session_id[:8]}"
    if len(first) <= NAME_CHARS:
        return first
    return f"{first[:NAME_CHARS].rpartition(' ')[0] or first[:NAME_CHARS]}…"


def is_live(summary: SessionSummary) -> bool:
    """Return whether a session goes on, as far as is known."""
    is_over = summary.ended_at is not None and summary.ended_at >= summary.last_at
    return not is_over and time.time() - summary.last_at < LIVE_SECONDS


def took(summary: SessionSummary) -> str:
    """Return how long a session lasted, in words."""
    return _span(max(0, summary.last_at - summary.started_at))


def last_page(summary: SessionSummary) -> str:
    """Return the address of the page that has a session's latest observations."""
    start = max(0, summary.observations - 1) // PER_PAGE * PER_PAGE
    return address("s", summary.session_id, **{"from": start or None})


def _span(seconds: int) -> str:
    if seconds < 60:
        return "under a minute"
    minutes, hours = round(seconds / 60), seconds / 3600
    if minutes < 60:
        return f"{minutes} min"
    if hours < 24:
        return f"{int(hours)} h {round(seconds % 3600 / 60)} min"
    return f"{round(hours / 24)} days" if hours >= 36 else "a day"


def _page(asked: PageRequest, start: int) -> str:
    return asked.here(at=None, **{"from": str(start) if start > 0 else None})


# --- What is shown ----------------------------------------------------------------------


def _is_chosen(step: OutlineStep, only: str, path: str) -> bool:
    if path:
        return step.file_path == path
    if only == "failures":
        return step.failed
    if only == "pinned":
        return step.pinned
    return only not in ONLY or step.obs_type in ONLY[only][1]


def _views(
    asked: PageRequest, steps: Sequence[OutlineStep], current: str
) -> list[tuple[str, str, int, bool]]:
    """Return the views that have something: label, address, how much, and whether it is shown."""
    here = {"from": None, "at": None, "file": None}
    views = [("Story", asked.here(only=None, **here), 0, current not in ONLY and current != "-")]
    for name, (label, _) in ONLY.items():
        if found := sum(1 for one in steps if _is_chosen(one, name, "")):
            views.append((label, asked.here(only=name, **here), found, name == current))
    return views


def _list_files(steps: Sequence[OutlineStep]) -> list[tuple[str, str, int]]:
    """Return the files that were changed most: path, short name, how often."""
    edits = [one for one in steps if one.obs_type in EDITS and one.file_path]
    names = {one.file_path or "": _name_file(one.file_path, one.summary) for one in edits}
    counts = Counter(one.file_path or "" for one in edits)
    return [(path, names[path], times) for path, times in counts.most_common(LISTED)]


def _name_file(path: str | None, summary: str) -> str:
    """Return a file's path in its project, which an edit begins with; else the path's end."""
    first = summary.partition("\n")[0].partition(" +")[0]
    if not path or path.endswith(f"/{first}"):
        return first
    return "/".join(path.rsplit("/", 2)[-2:])


def _count_lines(title: str) -> str:
    """Return the lines that an edit added and removed, as it says."""
    _, sign, numbers = title.rpartition(" +")
    return f" +{numbers}" if sign and numbers[:1].isdigit() else ""


def _follow_failures(steps: Sequence[OutlineStep]) -> dict[int, FailureNote]:
    """Return the failures of a session by id, each with the run that passed next."""
    passes: dict[str, OutlineStep] = {}
    edited: dict[int, list[OutlineStep]] = {}
    edits: list[OutlineStep] = []
    found: dict[int, FailureNote] = {}
    for step in reversed(steps):
        if step.obs_type in EDITS:
            edits.append(step)
        if step.passed:
            passes[step.command] = step
            edited[step.id] = edits[:]
        elif step.failed:
            fix = passes.get(step.command) if step.command else None
            words = "Not seen to pass in this session."
            if fix is not None:
                after = edits[len(edited[fix.id]) :]
                names = list(
                    dict.fromkeys(_name_file(one.file_path, one.summary) for one in after[::-1])
                )
                changed = f", after {', '.join(names[-2:])} changed" if names else ""
                words = f"Fixed: passed {_span(fix.timestamp - step.timestamp)} later{changed}."
            found[step.id] = FailureNote(step, fix, words)
    return dict(reversed(found.items()))


# --- The story --------------------------------------------------------------------------


def _make_turns(
    asked: PageRequest,
    observations: Sequence[Observation],
    failures: dict[int, FailureNote],
    opened: int,
    *,
    is_story: bool,
) -> list[Turn]:
    turns: list[Turn] = []
    steps = [_make_step(asked, one, failures, is_open=one.id == opened) for one in observations]
    if not is_story:
        return [Turn(None, False, list(steps), None, [])] if steps else []
    said_by = ("user_prompt", "assistant_message")
    talk = sum(1 for one in observations if one.obs_type in said_by)
    most = SAID_CHARS // max(1, talk)
    begin = 0
    for end in range(1, len(steps) + 1):
        if end < len(steps) and steps[end].observation.obs_type != "user_prompt":
            continue
        own = steps[begin:end]
        begin = end
        prompt = own.pop(0) if own[0].observation.obs_type == "user_prompt" else None
        said = [one for one in own if one.observation.obs_type == "assistant_message"]
        outcome = said[-1] if said else None
        after: list[StoryStep] = []
        if outcome is not None:
            place = own.index(outcome)
            own, after = own[:place], own[place + 1 :]
            outcome = outcome._replace(detail=_whole_or_cut(outcome, min(OUTCOME_CHARS, most)))
        if prompt is not None:
            prompt = prompt._replace(detail=_whole_or_cut(prompt, min(PROMPT_CHARS, most)))
        turns.append(Turn(prompt, False, _fold(own), outcome, _fold(after)))
    return turns


async def _continue(asked: PageRequest, turn: Turn, prompt_id: int) -> Turn:
    """Return a turn with its prompt, which is on the page before."""
    found = await asked.engine.observations.get([prompt_id])
    if not found:
        return turn
    step = _make_step(asked, found[0], {}, is_open=False)
    step = step._replace(detail=_cut(found[0].content, TITLE_CHARS))
    return turn._replace(prompt=step, is_continued=True)


def _fold(steps: Sequence[StoryStep]) -> list[StoryStep | QuietSteps]:
    """Return steps with those that changed nothing folded, where there are several in a row."""
    parts: list[StoryStep | QuietSteps] = []
    quiet: list[StoryStep] = []

    def flush() -> None:
        if len(quiet) < 2:
            parts.extend(quiet)
        else:
            counts = Counter(one.observation.obs_type for one in quiet)
            words = ", ".join(
                QUIET[kind][0] if number == 1 else QUIET[kind][1].format(number)
                for kind, number in counts.items()
            )
            words = words[0].upper() + words[1:]
            parts.append(QuietSteps(words, quiet[:], any(one.is_open for one in quiet)))
        quiet.clear()

    for step in steps:
        if step.tone == "quiet" and not step.observation.pinned:
            quiet.append(step)
        else:
            flush()
            parts.append(step)
    flush()
    return parts


def _make_step(
    asked: PageRequest, one: Observation, failures: dict[int, FailureNote], *, is_open: bool
) -> StoryStep:
    kind = one.obs_type
    failure = failures.get(one.id)
    tone = (
        "bad" if failure
        else "good" if kind in COMMITS
        else "edit" if kind in EDITS
        else "quiet" if kind in QUIET
        else "talk" if kind in ("assistant_message", "user_answer", "user_prompt", "marker")
        else "run"
    )  # fmt: skip
    title, _, detail = one.content.strip().partition("\n")
    if kind == "assistant_message":
        title, detail = "", one.content
    if kind in EDITS:
        title = _name_file(one.file_path, title) + _count_lines(title)
    message = (one.metadata or {}).get("commit_message")
    if kind == "git_commit" and isinstance(message, str) and message:
        title, _, detail = message.partition("\n")
    output = (one.metadata or {}).get("output")
    if kind in COMMANDS and not detail and isinstance(output, str):
        detail = output
    fix = failure.fix if failure else None
    return StoryStep(
        one,
        tone,
        VERBS.get(kind, kind.replace("_", " ")) if not failure else "failed",
        _cut(" ".join(title.split()), TITLE_CHARS),
        one.content[:WHOLE_CHARS] if is_open else _cut(detail.strip(), DETAIL_CHARS),
        failure.words if failure else "",
        f"{asked.here(at=str(fix.id), only=None, file=None, **{'from': None})}#o{fix.id}"
        if fix
        else "",
        f"{asked.here(at=str(one.id), **{'from': None})}#o{one.id}",
        is_open,
        _list_facts(one) if is_open else [],
    )


def _whole_or_cut(step: StoryStep, limit: int) -> str:
    return step.detail if step.is_open else _cut(step.observation.content, limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit].rstrip()} …"


def _list_facts(one: Observation) -> list[tuple[str, str]]:
    facts: dict[str, Any] = {"tool": one.tool_name, "file": one.file_path, **(one.metadata or {})}
    return [
        (name.replace("_", " "), _cut(str(value), 2 * WHOLE_CHARS // len(facts)))
        for name, value in facts.items()
        if value not in (None, "")
    ]


# --- Changes ----------------------------------------------------------------------------


async def pin(asked: PageRequest) -> Done:
    """Pin an observation, or unpin it."""
    on = bool(asked.field("pin"))
    given = asked.field("pin") or asked.field("unpin")
    if not (given.isascii() and given.isdigit() and len(given) < 16):
        raise NotFoundError("No observation has this id.")
    number = int(given)
    observations = asked.engine.observations
    await observations.pin(number, pinned=on)

    async def undo() -> str:
        await observations.pin(number, pinned=not on)
        return f"#{number} is as it was."

    words = f"Pinned #{number}: it stays for ever." if on else f"Unpinned #{number}."
    return Done(words, address("s", asked.path["id"], at=number), undo)


async def ask_purge(asked: PageRequest) -> Confirm:
    """Ask before a session is purged."""
    summary = (await asked.engine.observations.session(asked.path["id"], 1)).summary
    steps = await asked.engine.observations.outline(summary.session_id)
    pinned = sum(1 for one in steps if one.pinned)
    stays = f" {pinned} pinned stay{'s' if pinned == 1 else ''}." if pinned else ""
    count = len(steps) - pinned
    return Confirm(
        "Purge this session?",
        name_session(summary),
        f"{count} observation{' is' if count == 1 else 's are'} deleted so that nothing is left: "
        f"here, in backups and in the log of recalls.{stays} This cannot be undone.",
        "Purge the session",
        address("s", summary.session_id),
        is_dangerous=True,
    )


async def purge(asked: PageRequest) -> Done:
    """Delete a session so that nothing is left of it."""
    from zapomni_core.modules.observations import PurgeSelection  # few calls need it

    summary = (await asked.engine.observations.session(asked.path["id"], 1)).summary
    report = await asked.engine.observations.purge(
        PurgeSelection(session=summary.session_id), dry_run=False
    )
    deleted = report.get("deleted", 0)
    unreachable = len(report.get("unreachable", []))
    left = " Some files may still have it; `zapomni purge` names them." if unreachable else ""
    words = f"Purged {deleted} observation{'' if deleted == 1 else 's'} of a session.{left}"
    return Done(words, address("sessions"))
