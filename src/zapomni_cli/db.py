"""`zapomni db`: a local FalkorDB server, and moving memories there and back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict
from typing import Any

import click
from pydantic import SecretStr

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, fit_install, print_json, print_pairs, progress_bar
from zapomni_cli.runtime import read_settings, with_engine
from zapomni_core.adapters.local_server import (
    describe_local_server,
    start_local_server,
    stop_local_server,
)
from zapomni_core.adapters.storages import open_storage
from zapomni_core.exceptions import DatabaseConnectionError
from zapomni_core.infra.places import note_export
from zapomni_core.settings import Settings
from zapomni_core.workflows.copy_storage import (
    Contents,
    LocalContents,
    compare_storages,
    copy_code,
    copy_observations,
    copy_storage,
)

__all__ = ["db"]

HOW_TO_USE = "Store memories there: export ZAPOMNI_STORAGE=falkordb://local"


@click.group(
    epilog=examples("zapomni db up", "zapomni db copy sqlite falkordb://local", "zapomni db status")
)
def db() -> None:
    """Run a local FalkorDB server, and move memories.

    Memories live in one file unless ZAPOMNI_STORAGE names a FalkorDB server. These commands run
    one on this machine, for you alone: on a socket in ZAPOMNI_HOME that only you can open,
    every write on disk before it is acknowledged. Needs `pip install 'zapomni[falkordb]'`.
    """


@db.command(epilog=examples("zapomni db up"))
def up() -> None:
    """Start the server, or find it running.

    Returns when it answers. It runs until `zapomni db down` or the end of the machine, and
    finds everything again after either.
    """
    with _with_own_message():
        pid = start_local_server(read_settings())
    click.echo(f"The FalkorDB server runs (process {pid}).")
    click.echo(HOW_TO_USE)


@db.command(epilog=examples("zapomni db down"))
def down() -> None:
    """Stop the server. What it stores stays on disk."""
    with _with_own_message():
        ran = stop_local_server(read_settings())
    click.echo("The FalkorDB server is stopped." if ran else "No FalkorDB server was running.")


@db.command(epilog=examples("zapomni db reindex"))
def reindex() -> None:
    """Index the words of stored memories as new ones are.

    Memories that an earlier version stored are found by their words as they are; afterwards also by
    other forms of them, in their own language. You can stop at any time, and run it again.
    """
    with progress_bar("Indexing words") as report:
        changed = with_engine(lambda engine: engine.memories.reindex_words(report))
    done = f"Indexed {count_of(changed, 'passage')} again."
    click.echo(done if changed else "Every passage is up to date.")


@db.command(epilog=examples("zapomni db status", "zapomni db status --json"))
@json_option
def status(*, as_json: bool) -> None:
    """Show whether the server runs, where, and what it stores."""
    with _with_own_message():
        found = describe_local_server(read_settings())
    if as_json:
        print_json(found)
    elif not found["running"]:
        click.echo("No FalkorDB server is running. Start it with `zapomni db up`.")
    else:
        print_pairs((name.replace("_", " "), _shown(value)) for name, value in found.items())


@db.command(
    epilog=examples(
        "zapomni db copy sqlite falkordb://local",
        "zapomni db copy falkordb://db.example:6379/team ~/team.db",
        "zapomni db copy configured ~/backup.db --with observations --with code",
    )
)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@click.option(
    "--with",
    "parts",
    multiple=True,
    type=click.Choice(["observations", "code"]),
    help="Also copy this; repeatable.",
)
@json_option
def copy(source: str, destination: str, parts: tuple[str, ...], *, as_json: bool) -> None:
    """Copy all memories to another store, and compare them.

    Both are named as ZAPOMNI_STORAGE names them: `sqlite` (the file in ZAPOMNI_HOME), a file,
    or the address of a FalkorDB server. `configured` is what ZAPOMNI_STORAGE names, so that no
    password has to be on the command line.

    Everything is copied: dates, keys, replaced memories, passages, vectors, entities. The
    destination must be empty, or an earlier copy of the same memories that was interrupted:
    then only the rest is copied.

    What agents did and the index of code are in the local file, whichever engine stores the
    memories; --with copies them, too, if the destination is another file.
    """
    settings = read_settings()
    origin, goal = (_naming(settings, given) for given in (source, destination))
    if _place(origin) == _place(goal):
        raise click.UsageError("Source and destination are the same.")
    if origin.server is None and not origin.database_path.exists():
        raise click.UsageError("The source is a file that does not exist.")
    files = origin.observations_path, goal.observations_path
    if parts and files[0].resolve() == files[1].resolve():
        raise click.UsageError("Both have the same local file: --with has nothing to copy.")
    there, original, copied = asyncio.run(_copy(origin, goal))
    local: dict[str, LocalContents] = {}
    for part in parts:
        work = copy_observations if part == "observations" else copy_code
        with progress_bar(f"Copying {part}") as report:
            local[part] = asyncio.run(work(*files, report))
    if goal.server is None:
        note_export(settings, goal.database_path, "copy")
    if there:
        click.echo(f"{count_of(there, 'memory', 'memories')} were there already.", err=True)
    counts = {name: number for one in local.values() for name, number in one.counts.items()}
    if as_json:
        hashes = {part: one.sha256 for part, one in local.items()}
        print_json(
            {
                **asdict(copied),
                **counts,
                "local": hashes,
                "there": there,
                "same": copied == original,
            }
        )
    else:
        print_pairs([*counts.items(), *asdict(copied).items()])
    if copied != original:
        raise click.ClickException(
            "The copy is not the same as its source. If something was written meanwhile, stop "
            "that and copy into an empty destination. The source is unchanged."
        )
    click.echo("Source and destination hold the same.", err=True)


def _naming(settings: Settings, storage: str) -> Settings:
    if storage == "configured":
        return settings
    return settings.model_copy(update={"storage": SecretStr(storage)})


def _place(settings: Settings) -> tuple[object, ...]:
    if (server := settings.server) is None:
        return (settings.database_path.resolve(),)
    return server.host, server.port, server.socket, server.graph


async def _copy(origin: Settings, goal: Settings) -> tuple[int, Contents, Contents]:
    async with AsyncExitStack() as opened:
        source = await open_storage(origin)
        opened.push_async_callback(source.close)
        target = await open_storage(goal)
        opened.push_async_callback(target.close)
        with progress_bar("Copying") as report:
            there = await copy_storage(source, target, report)
        with progress_bar("Comparing") as report:
            return there, *await compare_storages(source, target, report)


@contextmanager
def _with_own_message() -> Iterator[None]:
    """Print an error's own message: it is about this machine's server."""
    try:
        yield
    except DatabaseConnectionError as error:
        raise click.ClickException(fit_install(error.message)) from error


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)
