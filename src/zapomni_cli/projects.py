"""`zapomni projects`: which projects agents worked on, and joining two that are one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, day, print_json, print_table
from zapomni_cli.runtime import read_settings
from zapomni_core.infra.locations import observations_path
from zapomni_db.sqlite.connection import connect, prepare_file, translated, write_transaction
from zapomni_db.sqlite.project_names import KnownProject, join_projects, list_projects

__all__ = ["projects"]

T = TypeVar("T")


@click.command(
    epilog=examples(
        "zapomni projects",
        "zapomni projects --join /home/ada/shop github.com/ada/shop",
    )
)
@click.option(
    "--join",
    nargs=2,
    metavar="OTHER MAIN",
    help="Make OTHER a second key of MAIN, for what is stored and what comes.",
)
@json_option
def projects(join: tuple[str, str] | None, *, as_json: bool) -> None:
    """List the projects agents worked on, or join two.

    A project is known by its git remote, else by its first commit, else by its folder. When a
    folder gets a remote later, or a remote moves, there are two: --join makes them one again. In
    a pipe each line is: key, name, observations, sessions, last day, other keys.
    """
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
    else:
        click.echo("No project yet: nothing was captured. See `zapomni init`.", err=True)


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
