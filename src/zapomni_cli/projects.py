"""`zapomni projects`: the projects there are, and what the user decides about them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import (
    Card,
    count_of,
    day,
    is_terminal,
    one_line,
    print_cards,
    print_json,
    print_table,
)
from zapomni_cli.runtime import read_settings, with_engine, with_observations
from zapomni_db.observation_models import KnownProject

if TYPE_CHECKING:
    from zapomni_core.engine import ZapomniEngine
    from zapomni_core.workflows.projects import NamedMemories

__all__ = ["projects"]


@click.command(
    epilog=examples(
        "zapomni projects",
        "zapomni projects --join /home/ada/shop github.com/ada/shop",
        "zapomni projects --trust",
        "zapomni projects --trust ~/second-clone",
        "zapomni projects --private client-x",
        "zapomni projects --exclude .",
        "zapomni projects --match --dry-run",
    )
)
@click.option(
    "--join",
    nargs=2,
    metavar="OTHER MAIN",
    help="Make OTHER a second key of MAIN, for what is stored and what comes.",
)
@click.option(
    "--trust",
    is_flag=False,
    flag_value=".",
    metavar="[FOLDER]",
    help="Show FOLDER (default: this one) what is stored of the project it claims to be.",
)
@click.option("--yes", is_flag=True, help="Do not ask before trusting.")
@click.option(
    "--private",
    metavar="PROJECT",
    help="Show nothing of it in answers to other projects. A name, a key, or a folder such as .",
)
@click.option("--exclude", metavar="PROJECT", help="Record nothing of it from now on.")
@click.option("--off", is_flag=True, help="End --private or --exclude.")
@click.option("--match", is_flag=True, help="Give older memories the project they name.")
@click.option("--undo", is_flag=True, help="Take back what --match did.")
@click.option("--dry-run", is_flag=True, help="Only show what --match would do.")
@json_option
def projects(  # noqa: PLR0913 - every option is an argument
    join: tuple[str, str] | None,
    trust: str | None,
    private: str | None,
    exclude: str | None,
    *,
    yes: bool,
    off: bool,
    match: bool,
    undo: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """List the projects there are, and decide about them.

    A project is known by its git remote, else by its first commit, else by its folder. When a
    folder gets a remote later, or a remote moves, there are two: --join makes them one again. In
    a pipe each line is: key, name, observations, sessions, last day, other keys, private or
    excluded.

    A private project is left out of every answer to another one: searches of all projects, the
    context of sessions, counts. On the command line it can be asked for by name. Of an excluded
    project hooks record nothing; what is recorded stays until `zapomni purge`.

    Memories of older versions carry a name that was given to them. --match gives them the one
    project that is called so; try it with --dry-run, take it back with --undo. What names no
    project stays as it is, and without a name a memory is global.

    Anyone can write a project's remote into a folder. So a second folder that claims a project is
    shown nothing of it until you trust it, once. Worktrees of a trusted folder, and a trusted
    folder that moved, need no word.
    """
    chosen = [join, trust, private, exclude, match or None, undo or None]
    if sum(one is not None for one in chosen) > 1:
        raise click.UsageError(
            "Give one of --join, --trust, --private, --exclude, --match, --undo."
        )
    if off and private is None and exclude is None:
        raise click.UsageError("--off goes with --private or --exclude.")
    if dry_run and not match:
        raise click.UsageError("--dry-run goes with --match.")
    if private is not None or exclude is not None:
        _rule(private if private is not None else exclude or "", private is not None, on=not off)
        return
    if match:
        _match(dry_run=dry_run, as_json=as_json)
        return
    if undo:
        restored = with_engine(lambda engine: engine.projects.undo())
        if as_json:
            print_json({"restored": restored})
        else:
            click.echo(f"Taken back: {_memories(restored)}.")
        return
    if trust is not None:
        _trust(trust, yes=yes)
        return
    if join is not None:
        other, main = join
        moved = with_observations(lambda observations: observations.join_projects(other, main))
        click.echo(f"Joined: {count_of(moved, 'observation')} moved.")
        return
    found = with_observations(lambda observations: observations.projects())
    if as_json:
        print_json([project.model_dump(mode="json") for project in found])
    elif found:
        if is_terminal():
            print_cards([_card(project) for project in found])
        else:
            print_table(_fields(project) for project in found)
        for project in found:
            for folder in project.untrusted_folders:
                click.echo(
                    f"{one_line(folder)} claims to be {one_line(project.name)}. If it is yours: "
                    "zapomni projects --trust FOLDER",
                    err=True,
                )
    else:
        click.echo("No project yet: nothing was captured. See `zapomni init`.", err=True)


def _trust(folder: str, *, yes: bool) -> None:
    settings = read_settings()
    given = Path(folder).expanduser()
    if not given.is_dir():
        raise click.UsageError("There is no such folder.")
    project, _, trusted = with_observations(
        # The folder itself is asked about, whatever the setting `trust` allows.
        lambda observations: observations.scope(str(given), trust="ask"),
        settings,
    )
    if trusted:
        click.echo(f"{one_line(project.root)} is trusted already.")
        return
    click.echo(
        f"{one_line(project.root)} claims to be {one_line(project.key)}. "
        "Agents that work there would be shown what is stored of it.",
        err=True,
    )
    if not yes:
        if not is_terminal():
            raise click.UsageError("To trust it without a question, add --yes.")
        click.confirm("Is this folder yours?", abort=True)
    moved = with_observations(lambda observations: observations.trust(project), settings)
    click.echo(f"Trusted: {count_of(moved, 'observation')} of this folder moved to the project.")


def _rule(wanted: str, is_private: bool, *, on: bool) -> None:
    folder = ""
    if wanted.startswith((".", "/", "~")):
        path = Path(wanted).expanduser()
        if path.is_dir():
            folder = str(path)
    rule = "private" if is_private else "excluded"
    name = one_line(
        with_observations(lambda o: o.rule(wanted, rule, on=on, folder=folder), read_settings())
    )
    said = {
        ("private", True): f"{name} is private: no answer to another project shows it.",
        ("private", False): f"{name} is no longer private.",
        ("excluded", True): f"{name} is excluded: nothing of it is recorded from now on.",
        ("excluded", False): f"{name} is recorded again.",
    }
    click.echo(said[rule, on])


def _match(*, dry_run: bool, as_json: bool) -> None:
    async def work(engine: ZapomniEngine) -> tuple[list[NamedMemories], dict[str, str]]:
        named = await engine.projects.list_named()
        if not dry_run:
            await engine.projects.match()
        return named, await engine.observations.names()

    named, names = with_engine(work)
    if as_json:
        found = [one.model_dump(mode="json") for one in named]
        print_json({"dry_run": dry_run, "names": found})
        return
    for one in named:
        what = f"{one_line(one.name)}: {_memories(one.memories)}"
        if len(one.projects) == 1:
            (key,) = one.projects
            done = "would go" if dry_run else "moved"
            click.echo(f"{what} {done} to {one_line(names.get(key, key))} ({one_line(key)})")
        else:
            why = "several projects have this name" if one.projects else "no project has this name"
            click.echo(f"{what} left alone: {why}.", err=True)
    if not named:
        click.echo("No memory carries a name: there is nothing to match.", err=True)
    elif not dry_run:
        click.echo("To take it back: zapomni projects --undo", err=True)


def _memories(number: int) -> str:
    return count_of(number, "memory", "memories")


def _card(project: KnownProject) -> Card:
    aliases = [f"also {one}" for one in project.aliases]
    return Card(project.name, (*_facts(project), _rules(project)), [project.key, *aliases])


def _fields(project: KnownProject) -> tuple[str, ...]:
    about = (*_facts(project), ", ".join(project.aliases), _rules(project))
    return (project.key, project.name, *about)


def _facts(project: KnownProject) -> tuple[str, ...]:
    last = day(datetime.fromtimestamp(project.last_at, UTC)) if project.last_at else ""
    counts = (count_of(project.observations, "observation"), count_of(project.sessions, "session"))
    return (*counts, last)


def _rules(project: KnownProject) -> str:
    return ", ".join(word for word in ("private", "excluded") if getattr(project, word))
