"""`zapomni projects`: which projects agents worked on, and joining two that are one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, day, is_terminal, one_line, print_json, print_table
from zapomni_cli.runtime import read_settings
from zapomni_core.infra.locations import observations_path
from zapomni_core.infra.projects import project_of
from zapomni_db.sqlite.connection import connect, prepare_file, translated, write_transaction
from zapomni_db.sqlite.project_folders import project_for, trust_folder
from zapomni_db.sqlite.project_names import KnownProject, join_projects, list_projects

__all__ = ["projects"]

T = TypeVar("T")


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
        moved = _with_database(lambda database: join_projects(database, other, main))
        click.echo(f"Joined: {count_of(moved, 'observation')} moved.")
        return
    found = _with_database(list_projects)
    if as_json:
        print_json([project._asdict() for project in found])
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
    if not Path(folder).expanduser().is_dir():
        raise click.UsageError("There is no such folder.")
    project = project_of(str(Path(folder).expanduser()), str(settings.home / "roots.json"))
    facts = (project.key, project.root, project.identity)
    _, trusted = _with_database(lambda database: project_for(database, *facts, project.main))
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
    moved = _with_database(lambda database: trust_folder(database, *facts))
    click.echo(f"Trusted: {count_of(moved, 'observation')} of this folder moved to the project.")


def _row(project: KnownProject) -> tuple[str, ...]:
    last = day(datetime.fromtimestamp(project.last_at, UTC)) if project.last_at else ""
    counts = (count_of(project.observations, "observation"), count_of(project.sessions, "session"))
    return (project.key, project.name, *counts, last, ", ".join(project.aliases))


def _with_database(work: Callable[[sqlite3.Connection], T]) -> T:
    path = observations_path(read_settings())
    prepare_file(path)
    with translated("reading projects"):
        connection = connect(path)
        try:
            with write_transaction(connection):
                return work(connection)
        finally:
            connection.close()
