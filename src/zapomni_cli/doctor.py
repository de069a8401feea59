"""`zapomni doctor`: proves the whole loop, and has a remedy for whatever fails."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import (
    Card,
    count_of,
    is_terminal,
    one_line,
    print_cards,
    print_json,
    print_table,
    short_id,
    wrap,
)
from zapomni_cli.reading import citation_line
from zapomni_cli.runtime import read_settings, with_engine, with_observations
from zapomni_core.engine import create_engine
from zapomni_core.exceptions import ConfigurationError, ZapomniError
from zapomni_core.modules.codebase import StaleMemory
from zapomni_core.workflows.check_health import (
    REPAIR,
    CheckResult,
    check_machine,
    explain_closed_database,
)
from zapomni_core.workflows.repair import RepairReport, RepairSource, repair

__all__ = ["doctor"]

PREVIEW_CHARS = 80


@click.command(
    epilog=examples(
        "zapomni doctor",
        "zapomni doctor --json",
        "zapomni doctor --repair",
        "zapomni doctor --memories",
        "zapomni doctor --report zapomni-report.json",
    )
)
@click.option("--memories", is_flag=True, help="List the memories whose code changed, instead.")
@click.option(
    "--repair", "wants_repair", is_flag=True, help="Repair a damaged database, without asking."
)
@click.option(
    "--from",
    "source",
    type=click.Choice(["auto", "backup", "salvage"]),
    default="auto",
    show_default=True,
    help="What to repair from; auto takes what has more.",
)
@click.option(
    "--report",
    metavar="FILE",
    help="Write what a bug report needs into a new file; - for standard output.",
)
@json_option
def doctor(
    *, memories: bool, wants_repair: bool, source: RepairSource, report: str | None, as_json: bool
) -> None:
    """Prove that Zapomni works, or say what to fix.

    Adds a probe memory, finds it, reads it and deletes it again; checks the database, the
    model, the files and the versions. Exits with 1 if anything failed.

    A damaged database is repaired with --repair, or after a question on a terminal: from the newest
    backup that is whole, or table by table from what can still be read, whichever has more. The
    damaged file is kept, and events that waited in the spool are stored.

    With --memories it lists the memories that cite code which has changed, moved or gone, instead:
    first those whose code does something else or is missing, the most recalled first. What was only
    reworded is left out. "zapomni review" says with one key that such a memory is still true.
    In a pipe each line is: id, what is cited and what became of it, beginning of the text.

    With --report it writes versions, the results of the checks and counts into one file for a bug
    report: no text, no path, no address and no name of a project is in it.
    """
    if memories:
        stale = with_engine(lambda engine: engine.citations.list_stale())
        if as_json:
            print_json([memory.model_dump(mode="json") for memory in stale])
            return
        if not stale:
            click.echo("Every memory that cites code is fresh.", err=True)
        elif is_terminal():
            print_cards([_stale_card(memory) for memory in stale])
        else:
            print_table(_stale_fields(memory) for memory in stale)
        return
    if wants_repair:
        _repair(source, as_json=as_json)
        return
    results = asyncio.run(_collect())
    if report is not None:
        from zapomni_cli.report import write_report

        write_report(results, report)
        return
    failed = [result for result in results if result.status == "failed"]
    if as_json:
        print_json({"ok": not failed, "checks": [asdict(result) for result in results]})
    else:
        for result in results:
            color = {"ok": "green", "failed": "red"}.get(result.status, "yellow")
            word = click.style(f"{result.status:<7}", fg=color)
            # The color's own characters take no room.
            detail = wrap(result.detail, " " * 27).lstrip()
            click.echo(f"{word}  {result.name:<16}  {detail}".rstrip())
            if result.fix:
                click.echo(wrap(result.fix, " " * 27))
        click.echo()
        click.echo(f"{len(failed)} of {len(results)} checks failed." if failed else "All is well.")
    asked = not as_json and sys.stdin.isatty() and is_terminal()
    damaged = any(result.fix == REPAIR for result in failed)
    if asked and damaged and click.confirm("Repair the database now?", err=True):
        _repair(source, as_json=False)
        return
    if failed:
        click.get_current_context().exit(1)


def _repair(source: RepairSource, *, as_json: bool) -> None:
    settings = read_settings()
    report = asyncio.run(repair(settings, source))
    drained = 0
    if report.action != "nothing":
        drained = with_observations(lambda observations: observations.drain_spool(), settings)
    if as_json:
        paths = {
            name: value and str(value)
            for name, value in (("backup", report.backup), ("kept", report.kept))
        }
        print_json({**asdict(report), **paths, "drained": drained})
    else:
        _print_repair(report, drained)
    if report.problems:
        click.get_current_context().exit(1)


def _print_repair(report: RepairReport, drained: int) -> None:
    if report.action == "nothing":
        click.echo("The database is not damaged; nothing was changed.")
        return
    for problem in report.damage:
        click.echo(f"Damage: {problem}.")
    if report.backup is not None:
        click.echo(f"Restored the backup {report.backup.name}.")
    elif report.action == "salvaged":
        click.echo("Saved what could be read, table by table.")
    else:
        click.echo("Made the indexes again; no row was lost.")
    for table, count in report.tables.items():
        lost = report.lost.get(table, 0)
        gone = "unknown how many lost" if lost is None else f"{lost} lost"
        if count or lost != 0:
            click.echo(f"  {table}: {count} rows" + (f", {gone}" if lost != 0 else ""))
    if report.altered:
        texts = count_of(report.altered, "memory has", "memories have")
        click.echo(f"{texts} a text that is not the one stored: bytes were overwritten.")
    if drained:
        click.echo(f"Stored {count_of(drained, 'event')} that waited in the spool.")
    if report.kept is not None:
        click.echo(f"The damaged file is kept: {report.kept}", err=True)
    click.echo("Start agents that are running again.", err=True)
    for name, problem in report.problems.items():
        click.echo(f"{name}: {problem}", err=True)


def _stale_card(memory: StaleMemory) -> Card:
    cites = [f"cites {citation_line(one)}" for one in memory.citations]
    return Card(one_line(memory.preview, PREVIEW_CHARS), [short_id(memory.memory_id)], cites)


def _stale_fields(memory: StaleMemory) -> tuple[str, ...]:
    cited = "; ".join(citation_line(one) for one in memory.citations)
    return memory.memory_id, cited, one_line(memory.preview, PREVIEW_CHARS)


async def _collect() -> list[CheckResult]:
    try:
        settings = read_settings()
    except ConfigurationError as error:
        fix = "Correct the environment variable or config.toml."
        return [CheckResult("settings", "failed", error.message, fix)]
    # The cheapest come first.
    found = list(check_machine(settings))
    try:
        engine = await create_engine(settings)
    except ZapomniError as error:
        return [*found, await explain_closed_database(settings, error)]
    async with engine:
        return [*found, *[result async for result in engine.health.check()]]
