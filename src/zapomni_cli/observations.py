"""Commands that show observations: recent, timeline, sessions, session, context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zapomni_cli.options import chosen, examples, json_option, page_options, since_options
from zapomni_cli.output import (
    Card,
    count_of,
    day,
    is_terminal,
    one_line,
    print_cards,
    print_json,
    print_pairs,
    print_table,
    short_id,
    wrap,
)
from zapomni_cli.runtime import log_recall, with_engine, with_observations
from zapomni_core.exceptions import NotFoundError
from zapomni_core.infra.recall_log import RecalledItem, count_tokens
from zapomni_core.modules.observations import Observations
from zapomni_db.observation_models import (
    Failure,
    Observation,
    ObservationPreview,
    ObservationQuery,
    SessionSummary,
)

if TYPE_CHECKING:
    from zapomni_core.engine import ZapomniEngine
    from zapomni_core.modules.observations import ContextLine
    from zapomni_core.workflows.projects import NamedMemories
    from zapomni_db.observation_models import KnownProject

__all__ = [
    "all_option",
    "context",
    "observation_filters",
    "print_context",
    "print_if_unknown",
    "recent",
    "search_observations",
    "session",
    "sessions",
    "timeline",
    "without_filters",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

LINE_CHARS = 160
NOTHING = "Nothing recorded yet. Connect an agent with `zapomni init`."
ELSEWHERE = "Nothing was recorded in this folder. All projects:"
ONLY_OBSERVATIONS = {
    "obs_type": "--type",
    "order_by": "--order-by",
    "failed": "--failed",
}
ONLY_MEMORIES = {
    "tags": "--tag",
    "source": "--source",
    "pinned": "--pinned",
    "include_superseded": "--superseded",
    "as_of": "--as-of",
    "known_at": "--known-at",
}

project_option = click.option("--project", help="This project's key or name; default: this one.")
all_option = click.option("--all", "every_project", is_flag=True, help="All projects.")


def observation_filters(command: F) -> F:
    """Add the filters only observations have."""
    for option in reversed(
        [
            click.option("--type", "obs_type", help="Observations: only this type."),
            click.option("--failed", is_flag=True, help="Observations: only failures."),
            click.option(
                "--order-by",
                type=click.Choice(["relevance", "blended", "recent"]),
                help="Observations: how to order them.",
            ),
        ]
    ):
        command = option(command)
    return command


def without_filters(filters: dict[str, Any]) -> dict[str, Any]:
    """Return the filters of memories, refusing those only observations have."""
    _refuse(filters, ONLY_OBSERVATIONS, "--in observations")
    return {name: value for name, value in filters.items() if name not in ONLY_OBSERVATIONS}


def _refuse(filters: dict[str, Any], names: dict[str, str], meaning: str) -> None:
    given = sorted(option for name, option in names.items() if name in chosen(filters))
    if given:
        raise click.UsageError(f"{', '.join(given)} can only be used with {meaning}.")


def search_observations(
    query: str, limit: int, offset: int, *, as_json: bool, filters: dict[str, Any]
) -> None:
    """Print the observations that match."""
    _refuse(filters, ONLY_MEMORIES, "--in memories")
    given = chosen(filters)

    async def find(observations: Observations) -> list[ObservationPreview]:
        projects = await _projects(observations, given.get("project"), "every_project" in given)
        wanted = ObservationQuery(
            query=query,
            projects=projects,
            obs_type=given.get("obs_type") or given.get("kind"),
            session=given.get("session"),
            file=given.get("path"),
            failed=given.get("failed"),
            after=_seconds(given.get("since")),
            before=_seconds(given.get("until")),
            order_by=given.get("order_by", "relevance"),
            limit=limit,
            offset=offset,
        )
        return await observations.search(wanted)

    found = with_observations(find)
    if as_json:
        print_json([hit.model_dump(mode="json") for hit in found])
    elif not found:
        click.echo("Nothing found. Try other words, fewer filters or --all.", err=True)
        print_if_unknown(given.get("project"))
    else:
        print_table(_fields(hit, hit.content_preview) for hit in found)
    log_recall(query, [_recalled(hit.id, hit.content_preview) for hit in found])


@click.command(
    epilog=examples("zapomni recent", "zapomni recent --all --limit 50", "zapomni recent --failing")
)
@project_option
@all_option
@click.option("--limit", default=30, show_default=True, help="How many to show.")
@click.option("--failing", is_flag=True, help="Errors that came back, and what fixed them.")
@json_option
def recent(
    project: str | None, limit: int, *, every_project: bool, failing: bool, as_json: bool
) -> None:
    """Show what agents did last.

    Newest first, one line per file. If this project has little, others fill up. In a pipe each
    line is: id, time, type, file, session, content, separated by tabs.
    """

    async def find(observations: Observations) -> list[Observation] | list[Failure]:
        read = observations.failures if failing else observations.recent

        async def of(projects: list[str] | None) -> list[Observation] | list[Failure]:
            return await read(projects, limit)

        return await _here_or_everywhere(observations, of, project, every_project)

    found = with_observations(find)
    if as_json:
        print_json([item.model_dump(mode="json") for item in found])
    elif not found:
        click.echo(NOTHING if not failing else "No error came back.", err=True)
        print_if_unknown(project)
    else:
        print_table(_failure_row(f) if isinstance(f, Failure) else _row(f) for f in found)
    items = [
        _recalled(item.last.id, item.command)
        if isinstance(item, Failure)
        else _recalled(item.id, item.content)
        for item in found
    ]
    log_recall("", items)


@click.command(epilog=examples("zapomni timeline 4711", "zapomni timeline 4711 --before 20 --json"))
@click.argument("anchor", metavar="ID", type=int)
@click.option("--before", default=5, show_default=True, help="How many before it.")
@click.option("--after", default=5, show_default=True, help="How many after it.")
@json_option
def timeline(anchor: int, before: int, after: int, *, as_json: bool) -> None:
    """Show the actions before and after an observation.

    All of it is from the same session, in order.
    """
    found = _known(
        lambda observations: observations.timeline(anchor, before, after),
        "There is no observation with this id.",
    )
    around = [*found.before, found.anchor, *found.after]
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_table(_row(item) for item in around)
    items = [_recalled(item.id, item.content) for item in around]
    log_recall("", items, opened=[_recalled(anchor, "")])


@click.command(epilog=examples("zapomni sessions", "zapomni sessions --all --limit 5 --json"))
@project_option
@all_option
@click.option("--host", help="Only of this host, such as claude-code.")
@since_options
@page_options(default=20)
@json_option
def sessions(
    *,
    project: str | None,
    host: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    offset: int,
    every_project: bool,
    as_json: bool,
) -> None:
    """List agents' sessions.

    The last used comes first. In a pipe each line is: id, time, host, project, branch, what was
    done, first prompt.
    """

    async def find(observations: Observations) -> list[SessionSummary]:
        async def of(projects: list[str] | None) -> list[SessionSummary]:
            return await observations.sessions(
                projects, limit, offset, host=host, since=_seconds(since), until=_seconds(until)
            )

        return await _here_or_everywhere(observations, of, project, every_project)

    found = with_observations(find)
    if as_json:
        print_json([item.model_dump(mode="json") for item in found])
    elif not found:
        click.echo(NOTHING, err=True)
        print_if_unknown(project)
    elif is_terminal():
        # Ids that begin with a time are alike if two sessions begin in the same minute.
        ids = [item.session_id for item in found]
        chars = next(
            n for n in range(8, 65) if n == 64 or len({one[:n] for one in ids}) == len(ids)
        )
        print_cards([_session_card(item, chars) for item in found])
    else:
        print_table(_session_fields(item) for item in found)


@click.command(epilog=examples("zapomni session 4f7ea253", "zapomni session 4f7ea253 --json"))
@click.argument("session_id", metavar="ID")
@page_options(default=500)
@json_option
def session(session_id: str, limit: int, offset: int, *, as_json: bool) -> None:
    """Show everything an agent did in one session. The beginning of its id is enough."""
    story = _known(
        lambda observations: observations.session(session_id, limit, offset),
        "There is no session with this id.",
    )
    if as_json:
        print_json(story.model_dump(mode="json"))
        return
    if is_terminal():
        print_cards([_session_card(story.summary)])
    else:
        known = story.summary.model_dump(exclude={"started_at", "last_at", "ended_at"})
        known |= {"started": _day(story.summary.started_at), "last": _day(story.summary.last_at)}
        print_pairs((name, value) for name, value in known.items() if value)
    click.echo()
    print_table(_row(item) for item in story.observations)
    if story.omitted:
        click.echo(f"{story.omitted} more; see them with --offset or a higher --limit.", err=True)


@click.command(
    epilog=examples(
        "zapomni context",
        "zapomni context --why",
        "zapomni context --source compact",
        "zapomni context --off",
        "zapomni context --prompt off --all",
    )
)
@click.option(
    "--source",
    type=click.Choice(["startup", "resume", "clear", "compact"]),
    default="startup",
    show_default=True,
    help="How the session starts; after clear and compact it is given more.",
)
@click.option("--why", is_flag=True, help="Show why each line was chosen.")
@click.option("--project", help="Of this project, by key or name, instead of this folder's.")
@click.option("--off", "switch", flag_value="off", help="Give new sessions here no context.")
@click.option("--on", "switch", flag_value="on", help="Give them a context again.")
@click.option(
    "--prompt",
    "prompts",
    type=click.Choice(["on", "off"]),
    help="Whether prompts and failures here bring back what memory has about them.",
)
@click.option("--all", "every_project", is_flag=True, help="With --prompt: in every project.")
@json_option
def context(
    source: str,
    switch: str | None,
    prompts: str | None,
    project: str | None,
    *,
    why: bool,
    every_project: bool,
    as_json: bool,
) -> None:
    """Show the context a new session is given, and why.

    It is the one that would start in this folder, or in that of --project. --off and --on switch it
    for the project of this folder, on this machine; --off also ends what is given while a session
    works. --prompt switches that alone: what memory has about a prompt, and what came of a failure
    last time.
    """
    if every_project and not prompts:
        raise click.UsageError("--all can only be used with --prompt.")
    if project and (prompts or switch):
        raise click.UsageError("Switches are for the project of this folder: leave out --project.")
    if prompts:
        _switch_prompts(on=prompts == "on", every_project=every_project)
        return
    if switch:

        async def work(observations: Observations) -> str:
            here = (await observations.scope()).project
            await observations.switch_context(here, on=switch == "on")
            return here.name

        name = one_line(with_observations(work))
        given = "the context of earlier ones" if switch == "on" else "no context"
        click.echo(f"New sessions in {name} are given {given}.", err=True)
        return
    if project:
        print_if_unknown(project)
    (found_project, _, trusted), text, lines = with_observations(
        lambda observations: observations.context(source, project or "")
    )
    if as_json:
        found = {"project": found_project.key, "trusted": trusted, "source": source, "text": text}
        print_json({**found, "lines": [line._asdict() for line in lines]})
    elif not text:
        click.echo(
            "Nothing: no work is recorded here and no memory that you wrote or trust, or it was "
            "switched off with --off. What waits for your trust: zapomni review",
            err=True,
        )
    elif is_terminal():
        print_context(lines, why=why)
        click.echo("Exactly as it is given: zapomni context | cat", err=True)
    elif why:
        print_table((_line_id(n), n.section, n.why, one_line(n.summary, LINE_CHARS)) for n in lines)
    else:
        click.echo(text)


def print_context(lines: Sequence[ContextLine], *, why: bool = False) -> None:
    """Print the lines of a context for a person, section by section."""
    width = max((len(line.obs_type) for line in lines), default=0)
    for section, of_section in groupby(lines, key=lambda line: line.section):
        click.secho(one_line(section), bold=True)
        for line in of_section:
            about = f"  {_line_id(line)[:8]:<8}  {line.obs_type:<{width}}  "
            click.echo(wrap(one_line(line.summary), about, " " * len(about), always=True))
            if why:
                reason = wrap(one_line(line.why), " " * len(about), always=True)
                click.echo(click.style(reason, dim=True))
        click.echo()


def _line_id(line: ContextLine) -> str:
    return short_id(line.id) if isinstance(line.id, str) else f"#{line.id}"


def _switch_prompts(*, on: bool, every_project: bool) -> None:
    async def work(observations: Observations) -> str:
        if every_project:
            await observations.switch_prompt_recall(None, on=on)
            return ""
        scope = await observations.scope()
        await observations.switch_prompt_recall(scope.key, on=on)
        return scope.project.name

    name = one_line(with_observations(work))
    where = f"in {name}" if name else "in every project"
    given = "what memory has about them" if on else "nothing"
    click.echo(f"Prompts and failures {where} bring back {given}.", err=True)


def print_if_unknown(project: str | None) -> None:
    """Say that no project is called so, if that is the case, and which one may be meant."""
    if not project or project == "*":
        return

    async def read(engine: ZapomniEngine) -> tuple[list[KnownProject], list[NamedMemories]]:
        return await engine.observations.projects(), await engine.projects.list_named()

    known, named = with_engine(read)
    names = {one.name for one in known} | {one.name for one in named}
    if project in names.union(*([one.key, *one.aliases] for one in known)):
        return
    near = " or ".join(get_close_matches(project, sorted(names), n=2))
    meant = f" Did you mean {near}?" if near else ""
    click.echo(
        f"No project is called {one_line(project, 60)}.{meant} `zapomni projects` lists them.",
        err=True,
    )


# --- Queries ----------------------------------------------------------------------------


class _MissingError(click.ClickException):
    """There is nothing with this id."""

    exit_code = 3


def _known(work: Callable[[Observations], Awaitable[T]], otherwise: str) -> T:
    try:
        return with_observations(work)
    except NotFoundError:
        raise _MissingError(otherwise) from None


async def _projects(
    observations: Observations, project: str | None, every_project: bool
) -> list[str] | None:
    if every_project:
        return await observations.everywhere(str(Path.cwd()))
    return await observations.project_keys(project or (await observations.scope()).key)


async def _here_or_everywhere(
    observations: Observations,
    read: Callable[[list[str] | None], Awaitable[T]],
    project: str | None,
    every_project: bool,
) -> T:
    """Read this folder's project; if none was named and this one has nothing, all projects."""
    found = await read(await _projects(observations, project, every_project))
    if found or project or every_project:
        return found
    others = await read(await _projects(observations, None, every_project=True))
    if others:
        click.echo(ELSEWHERE, err=True)
    return others


# --- Lines -------------------------------------------------------------------------------


def _recalled(observation_id: int, text: str) -> RecalledItem:
    return RecalledItem("", observation_id, count_tokens(text))


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())


def _day(moment: int) -> str:
    return day(datetime.fromtimestamp(moment, UTC))


def _row(item: Observation) -> tuple[str, ...]:
    return _fields(item, item.content)


def _fields(item: Observation | ObservationPreview, text: str) -> tuple[str, ...]:
    about = (f"#{item.id}", _day(item.timestamp), item.obs_type)
    if is_terminal():
        return (*about, one_line(text, LINE_CHARS))
    return (*about, item.file_path or "", item.session_id, text)


def _session_card(item: SessionSummary, id_chars: int = 8) -> Card:
    about = (
        item.session_id[:id_chars],
        _day(item.last_at),
        item.host,
        item.project_name,
        item.branch,
    )
    return Card(one_line(item.first_prompt, LINE_CHARS) or "No prompt", (*about, _counts(item)))


def _session_fields(item: SessionSummary) -> tuple[str, ...]:
    about = (item.session_id, _day(item.last_at), item.host, item.project_name, item.branch)
    return (*about, _counts(item), one_line(item.first_prompt, LINE_CHARS))


def _counts(item: SessionSummary) -> str:
    names = ("prompt", "edit", "error", "commit")
    found = ((getattr(item, f"{name}s"), name) for name in names)
    return ", ".join(count_of(count, name) for count, name in found if count)


def _failure_row(item: Failure) -> tuple[str, ...]:
    fixed = ", ".join(f"#{hit.id} {hit.file_path or hit.obs_type}" for hit in item.fixed_by)
    passed = f"passed in #{item.passed.id}" if item.passed else "no fix known"
    how = f"{passed} after {fixed}" if fixed else passed
    state = "open" if item.still_open else "fixed"
    return (f"#{item.last.id}", f"{item.times}x", state, one_line(item.command, LINE_CHARS), how)
