"""`zapomni projects`: the projects agents worked on; joins two that are one, and trusts folders."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, day, is_terminal, one_line, print_json, print_table
from zapomni_cli.runtime import read_settings, with_observations
from zapomni_db.observation_models import KnownProject

__all__ = ["projects"]


@click.command(
    epilog=examples(
        "zapomni projects",
        "zapomni projects --join /home/ada/shop github.com/ada/shop",
        "zapomni projects --trust",
        "zapomni projects --trust ~/second-clone",
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
@json_option
def projects(join: tuple[str, str] | None, trust: str | None, *, yes: bool, as_json: bool) -> None:
    """List the projects agents worked on, join two, or trust a folder.

    A project is known by its git remote, else by its first commit, else by its folder. When a
    folder gets a remote later, or a remote moves, there are two: --join makes them one again. In
    a pipe each line is: key, name, observations, sessions, last day, other keys.

    Anyone can write a project's remote into a folder. So a second folder that claims a project is
    shown nothing of it until you trust it, once. Worktrees of a trusted folder, and a trusted
    folder that moved, need no word.
    """
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
        print_table(_row(project) for project in found)
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


def _row(project: KnownProject) -> tuple[str, ...]:
    last = day(datetime.fromtimestamp(project.last_at, UTC)) if project.last_at else ""
    counts = (count_of(project.observations, "observation"), count_of(project.sessions, "session"))
    return (project.key, project.name, *counts, last, ", ".join(project.aliases))
