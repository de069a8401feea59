"""`zapomni history`: earlier versions of a memory."""

from __future__ import annotations

from datetime import datetime

import click

from zapomni_cli.graph import as_of_option
from zapomni_cli.options import examples, json_option
from zapomni_cli.output import clean, day, is_terminal, print_json, print_table, short_id
from zapomni_cli.runtime import with_engine
from zapomni_core.engine import ZapomniEngine
from zapomni_db.graph_models import MemoryVersion

__all__ = ["history"]


@click.command(
    epilog=examples("zapomni history ID", "zapomni history ID --as-of 2026-03-31 --json")
)
@click.argument("memory_id", metavar="ID")
@as_of_option
@json_option
def history(memory_id: str, as_of: datetime | None, *, as_json: bool) -> None:
    """Show earlier versions of a memory.

    Every update is a version; so is every memory that this one superseded or that superseded it.
    The oldest comes first, what it is now last. In a pipe each line is: id, from, until, what was
    changed, text, separated by tabs. `zapomni purge` deletes a memory with all it ever was.
    """

    async def read(engine: ZapomniEngine) -> list[MemoryVersion]:
        return await engine.get_history(await engine.memories.complete_id(memory_id), as_of)

    found = with_engine(read)
    if as_json:
        print_json([version.model_dump(mode="json") for version in found])
    elif not found:
        click.echo("The memory did not exist then.", err=True)
    elif is_terminal():
        for version in found:
            click.echo(_heading(version))
            click.echo(clean(version.text) + "\n")
    else:
        print_table(_fields(version) for version in found)


def _heading(version: MemoryVersion) -> str:
    until = "now" if version.valid_to is None else day(version.valid_to)
    changed = f"changed {', '.join(version.changed)}" if version.changed else "added"
    words = f"── {day(version.valid_from)} to {until}: {changed}  {short_id(version.memory_id)}"
    by = version.superseded_by
    return f"{words}, superseded by {short_id(by)}" if by else words


def _fields(version: MemoryVersion) -> tuple[str, ...]:
    until = "" if version.valid_to is None else version.valid_to.isoformat()
    changed = ",".join(version.changed)
    return (version.memory_id, version.valid_from.isoformat(), until, changed, version.text)
