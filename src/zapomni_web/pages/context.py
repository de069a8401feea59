"""Context: what the next session of a project is given unasked, why, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from zapomni_core.exceptions import ValidationError
from zapomni_core.interfaces import UpdateMemoryRequest
from zapomni_core.modules.observations import ContextLine
from zapomni_db.observation_models import KnownProject, Observation
from zapomni_web.page import Done, PageRequest, PageView, address

__all__ = ["pin", "show", "switch"]

STARTS = {
    "startup": "A new session",
    "resume": "A resumed one",
    "clear": "After clearing",
    "compact": "After compacting",
}
# So many are asked for at once.
PAGE = 50
PROJECTS = 12


class GivenLine(NamedTuple):
    """A line of the context on the page."""

    line: ContextLine
    href: str
    is_memory: bool
    is_pinned: bool


class GivenSection(NamedTuple):
    """A section of the context, and where its part of the bar is."""

    name: str
    lines: list[GivenLine]
    tokens: int
    start: int


async def show(asked: PageRequest) -> PageView:
    """Show what a session that starts now would be given."""
    observations = asked.engine.observations
    projects = await observations.projects()
    source = asked.get("source") or "startup"
    if source not in STARTS:
        raise ValidationError(f"source must be one of: {', '.join(STARTS)}", "VAL_003")
    wanted = asked.project
    if wanted == "*" and not projects:
        return PageView("context.html", "Context", {}, ["zapomni", "context"], {"sections": None})
    (project, key, trusted), text, lines = given = await observations.context(
        source, projects[0].key if wanted == "*" else wanted
    )
    limit = asked.site.settings.context_tokens
    known = await _get_observations(asked, lines)
    called = Counter(one.name for one in projects)
    sections = _divide(lines, known)
    return PageView(
        "context.html",
        f"What the next session in {project.name} is given",
        {
            "project": key,
            "trusted": trusted,
            "source": source,
            "text": text,
            "lines": [line._asdict() for line in lines],
        },
        [
            *("zapomni", "context", "--why"),
            f"--project={key if called[project.name] > 1 else project.name}",
            *(() if source == "startup" else ("--source", source)),
        ],
        {
            "sections": sections,
            "text": text,
            "raw": asked.get("view") == "raw",
            "lines_href": asked.here(view=None),
            "raw_href": asked.here(view="raw"),
            "key": key,
            "source": source,
            "project": project,
            "tokens": given.tokens,
            "limit": limit,
            "around": given.tokens - sum(one.tokens for one in sections),
            "count": len(lines),
            "switches": await observations.switches(key),
            "starts": [
                (name, label, asked.here(source=None if name == "startup" else name))
                for name, label in STARTS.items()
            ],
            "projects": _choices(asked, projects, called, key),
        },
        live="memories observations",
    )


def _choices(
    asked: PageRequest, projects: Sequence[KnownProject], called: Counter[str], key: str
) -> list[tuple[KnownProject, str, str, bool]]:
    """Return projects to choose from, the last used first, the shown one always among them."""
    shown = list(projects[:PROJECTS])
    shown += [one for one in projects[PROJECTS:] if one.key == key]
    return [
        (
            one,
            # Two of one name differ by their keys; of a root commit the beginning is enough.
            f"{one.name} ({one.key[:13] if one.key.startswith('root:') else one.key})"
            if called[one.name] > 1
            else one.name,
            asked.here(project=one.key),
            one.key == key,
        )
        for one in shown
    ]


async def _get_observations(
    asked: PageRequest, lines: Sequence[ContextLine]
) -> dict[int, Observation]:
    ids = [line.id for line in lines if isinstance(line.id, int)]
    found = {}
    for start in range(0, len(ids), PAGE):
        for one in await asked.engine.observations.get(ids[start : start + PAGE]):
            found[one.id] = one
    return found


def _divide(lines: Sequence[ContextLine], known: dict[int, Observation]) -> list[GivenSection]:
    sections: list[GivenSection] = []
    start = 0
    for name in dict.fromkeys(line.section for line in lines):
        given = []
        for line in lines:
            if line.section != name:
                continue
            if isinstance(line.id, str):
                is_pinned = line.obs_type == "pinned"
                given.append(GivenLine(line, address("m", line.id), True, is_pinned))
            else:
                one = known.get(line.id)
                href = f"{address('s', one.session_id)}#o{line.id}" if one else ""
                given.append(GivenLine(line, href, False, bool(one and one.pinned)))
        tokens = sum(one.line.tokens for one in given)
        sections.append(GivenSection(name, given, tokens, start))
        start += tokens
    return sections


# --- Changes ----------------------------------------------------------------------------


async def switch(asked: PageRequest) -> Done:
    """Switch what sessions of a project, or of all projects, are given."""
    observations = asked.engine.observations
    what, on, to = asked.field("what"), asked.field("on") == "1", _back(asked)
    project = (await observations.context(project=asked.field("project"))).scope.project
    before = await observations.switches(project.key)
    if what == "context":
        await observations.switch_context(project, on=on)

        async def undo() -> str:
            await observations.switch_context(project, on=before.context)
            return "It is switched as it was."

        words = "are given a context again" if on else "are given nothing unasked"
        return Done(f"New sessions in {project.name} {words}.", to, undo)
    if what not in ("prompts", "prompts_everywhere"):
        raise ValidationError("what must be context, prompts or prompts_everywhere", "VAL_003")
    everywhere = what == "prompts_everywhere"
    await observations.switch_prompt_recall(None if everywhere else project.key, on=on)

    async def undo_prompts() -> str:
        if everywhere:
            await observations.switch_prompt_recall(None, on=before.prompts_everywhere)
            # That ended the switches of single projects, as it did before.
            for key, own in before.own.items():
                await observations.switch_prompt_recall(key, on=own)
        else:
            await observations.switch_prompt_recall(project.key, on=before.prompts)
        return "It is switched as it was."

    where = "in every project" if everywhere else f"in {project.name}"
    given = "bring back what memory has about them" if on else "bring back nothing"
    return Done(f"Prompts and failures {where} {given}.", to, undo_prompts)


async def pin(asked: PageRequest) -> Done:
    """Pin what a line is about, a memory or an observation, or unpin it."""
    item, on = asked.field("item"), asked.field("on") == "1"

    async def change(*, pinned: bool) -> None:
        if item.startswith("#"):
            number = item[1:]
            if not (number.isascii() and number.isdigit() and len(number) < 16):
                raise ValidationError("No observation has this id.", "VAL_003")
            await asked.engine.observations.pin(int(number), pinned=pinned)
        else:
            await asked.engine.update_memory(UpdateMemoryRequest(memory_id=item, pinned=pinned))

    async def undo() -> str:
        await change(pinned=not on)
        return "It is as it was."

    await change(pinned=on)
    kind = "observation" if item.startswith("#") else "memory"
    return Done(f"{'Pinned' if on else 'Unpinned'} the {kind}.", _back(asked), undo)


def _back(asked: PageRequest) -> str:
    given: dict[str, Any] = {name: asked.field(name) for name in ("project", "source")}
    if given["source"] == "startup":
        del given["source"]
    return address("context", **given)
