"""`zapomni import`: what other programs keep on this machine, and our own exports."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zapomni_cli.exporting import import_export
from zapomni_cli.options import examples, json_option, when_value
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
from zapomni_cli.runtime import with_engine
from zapomni_cli.tasks import background_option, carry_out, print_queued

if TYPE_CHECKING:
    from zapomni_core.engine import ZapomniEngine
    from zapomni_core.workflows.import_sources import FoundSource, ImportReport
    from zapomni_db.models import TaskStatus

__all__ = ["describe_found", "import_", "run_import"]


@click.command(
    "import",
    epilog=examples(
        "zapomni import",
        "zapomni import claude-code --dry-run",
        "zapomni import claude-code --since 30d --yes",
        "zapomni import adr",
        "zapomni import chatgpt --path ~/Downloads/export.zip",
        "zapomni import --undo i-20261116-1",
        "zapomni import ~/memories",
    ),
)
@click.argument("source", required=False)
@click.option("--path", help="A file or folder to read instead of the program's own places.")
@click.option("--project", help="Put everything in this project; default: where it happened.")
@click.option("--since", callback=when_value, help="Leave out what is older: 2026-01-31, 30d, 2w.")
@click.option("--dry-run", is_flag=True, help="Read everything, store nothing, and report.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--undo", metavar="BATCH", help="Remove what an import stored.")
@click.option("--trust", metavar="BATCH", help="Let sessions be given the memories of an import.")
@click.option("--batches", is_flag=True, help="List the imports so far.")
@click.option("--observations", is_flag=True, help="Of an export: also what agents did.")
@background_option
@json_option
def import_(  # noqa: PLR0913 - the options of the command, all of them
    *,
    source: str | None,
    path: str | None,
    project: str | None,
    since: datetime | None,
    dry_run: bool,
    yes: bool,
    undo: str | None,
    trust: str | None,
    batches: bool,
    observations: bool,
    background: bool,
    as_json: bool,
) -> None:
    """Import what other programs keep on this machine.

    Without SOURCE it lists what there is: how much, how old, and what its program will soon delete.
    With a SOURCE of that list it imports it: what agents did becomes observations, as if hooks had
    captured it, and texts become memories. Secrets are masked, times are those of the records,
    projects are found as hooks find them, and sessions that hooks captured are left out. A backup
    is made first. Importing again adds only what is new; an import that was stopped continues.

    \b
    Sources:
      claude-code claude-memory instructions adr git codex
      claude-mem mem0 mcp-memory mcp-memory-service basic-memory
      gemini opencode copilot chatgpt claude-ai obsidian aider cursor

    A folder or a .jsonl file that `zapomni export` wrote is imported as it is: ids, times, history,
    secrets included.

    Imported memories are found by searches, and are given to no session before you trust them: with
    `zapomni review`, or all of an import with --trust.
    """  # noqa: D301 - the character that keeps lines as they are
    ways = [name for name, given in (("--undo", undo), ("--trust", trust)) if given]
    ways += ["--batches"] if batches else []
    if len(ways) > 1 or (ways and (source or path or dry_run or background)):
        raise click.UsageError(f"{ways[0]} goes with --yes and --json only.")
    if undo:
        _undo(undo, yes=yes, as_json=as_json)
    elif trust:
        _trust(trust, as_json=as_json)
    elif batches:
        _list_batches(as_json=as_json)
    elif source is None:
        if path or project or since or dry_run or background:
            raise click.UsageError("Name a source; `zapomni import` lists them.")
        _list_sources(as_json=as_json)
    elif (
        "/" in source
        or source in (".", "..")
        or source.endswith(".jsonl")
        or Path(source, "zapomni.json").is_file()
    ):
        if path or project or since or background:
            raise click.UsageError("For an export: --dry-run, --observations, --yes, --json.")
        import_export(
            Path(source), dry_run=dry_run, observations=observations, yes=yes, as_json=as_json
        )
    elif observations:
        raise click.UsageError("--observations is for exports of Zapomni.")
    else:
        run_import(
            source,
            path=path or "",
            project=project or "",
            since=since,
            dry_run=dry_run,
            yes=yes,
            background=background,
            as_json=as_json,
        )


def run_import(
    source: str,
    *,
    path: str = "",
    project: str = "",
    since: datetime | None = None,
    dry_run: bool = False,
    yes: bool = False,
    background: bool = False,
    as_json: bool = False,
) -> None:
    """Import from one source: ask, work with a progress bar, report."""
    from zapomni_core.workflows.import_sources import ImportReport, ImportRequest

    request = ImportRequest(
        source,
        path=str(Path(path).expanduser().absolute()) if path else "",
        project=project,
        since=int(since.timestamp()) if since else 0,
        folder=str(Path.cwd()),
    )
    if dry_run:
        report = with_engine(lambda engine: engine.imports.preview(request))
        _print_report(report, as_json=as_json, dry_run=True)
        return
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("There is no terminal to ask on; give --yes to go ahead.")
        _ask(request.source, request.folder, request.path)

    async def submit(engine: ZapomniEngine) -> str:
        return await engine.imports.submit(request)

    status: TaskStatus = carry_out(submit, "Reading", background=background)
    if background:
        print_json(status.model_dump(mode="json")) if as_json else print_queued(status)
        return
    _print_report(ImportReport(**status.result), as_json=as_json)


def _ask(source: str, folder: str, path: str) -> None:
    found = with_engine(lambda engine: engine.imports.list_sources(folder, path))
    for one in found:
        if one.name == source:
            click.echo(describe_found(one), err=True)
    click.confirm("Import this? A backup is made first.", abort=True, err=True)


def describe_found(found: FoundSource) -> str:
    """Describe what there is of a source in one line."""
    number = found.records or found.files
    size = f", {_size(found.bytes)}" if found.bytes else ""
    soon = "".join(f" {sentence}" for sentence in _soon(found))
    return f"{found.title}: {number}{size}, since {found.oldest:%Y-%m-%d}.{soon}"


def _size(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 100_000 else f"{number / 1e3:.1f} kB"


def _list_sources(*, as_json: bool) -> None:
    found = with_engine(lambda engine: engine.imports.list_sources(str(Path.cwd())))
    if as_json:
        print_json([asdict(one) for one in found])
        return
    if not found:
        click.echo(
            "Nothing to import was found on this machine. What is elsewhere, such as an export of "
            "ChatGPT, is read with --path; `zapomni import --help` names the sources.",
            err=True,
        )
        return
    if is_terminal():
        print_cards([_card(one) for one in found])
        click.echo()
    else:
        print_table(_fields(one) for one in found)
    new = [one for one in found if one.new_files]
    if new:
        files = count_of(sum(one.new_files for one in new), "file is", "files are")
        # What its program deletes soon comes first.
        first = next((one for one in new if one.deleted_soon), new[0])
        click.echo(f"{files} not imported yet. Import with: zapomni import {first.name}", err=True)
    else:
        click.echo("Everything found here is imported.", err=True)


def _card(found: FoundSource) -> Card:
    size = _size(found.bytes) if found.bytes else ""
    about = (found.name, size, f"since {found.oldest:%Y-%m-%d}", _news(found))
    return Card(f"{found.title}: {found.records or found.files}", about, _soon(found))


def _fields(found: FoundSource) -> tuple[str, ...]:
    about = (found.name, str(found.records or found.files), _size(found.bytes))
    soon = f"{found.deleted_soon} deleted within a week" if found.deleted_soon else ""
    return (*about, f"since {found.oldest:%Y-%m-%d}", _news(found), soon, found.title)


def _news(found: FoundSource) -> str:
    return count_of(found.new_files, "new file") if found.new_files else "imported"


def _soon(found: FoundSource) -> list[str]:
    if not (found.deleted_soon and found.next_deletion):
        return []
    days = max(0, (found.next_deletion - datetime.now(UTC)).days)
    when = "today" if not days else f"in {count_of(days, 'day')}"
    return [f"{found.deleted_soon} of them will be deleted within a week, the oldest {when}."]


def _list_batches(*, as_json: bool) -> None:
    found = with_engine(lambda engine: engine.imports.list_batches())
    if as_json:
        print_json([one._asdict() for one in found])
    elif found:
        print_table(
            (
                one.id,
                one.source,
                one.state,
                day(datetime.fromtimestamp(one.started_at, UTC)),
                f"{one.counts.get('kept', 0)} stored",
            )
            for one in found
        )
    else:
        click.echo("Nothing was imported yet.", err=True)


def _undo(batch: str, *, yes: bool, as_json: bool) -> None:
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("There is no terminal to ask on; give --yes to go ahead.")
        click.confirm(f"Remove everything that {batch} imported?", abort=True, err=True)
    done = with_engine(lambda engine: engine.imports.undo(batch))
    if as_json:
        print_json(asdict(done))
    else:
        click.echo(f"Removed {_kept(done.observations, done.memories)}.")
        if done.returned:
            texts = count_of(done.returned, "memory has", "memories have")
            click.echo(f"{texts} the earlier text again.")
        if done.trash:
            undo = f"zapomni forget --undo {done.trash}"
            click.echo(f"The memories are in the trash for 30 days: {undo}", err=True)


def _trust(batch: str, *, as_json: bool) -> None:
    trusted = with_engine(lambda engine: engine.imports.trust(batch))
    if as_json:
        print_json({"batch": batch, "memories": trusted})
    else:
        click.echo(f"{count_of(trusted, 'memory', 'memories')} may be given to sessions now.")


def _kept(observations: int, memories: int) -> str:
    parts = [
        count_of(observations, "observation"),
        count_of(memories, "memory", "memories"),
    ]
    return " and ".join(parts)


# Commits are too many for the start of a session, and hosts load instructions themselves.
_ONLY_SEARCHED = ("git", "instructions")


def _print_report(report: ImportReport, *, as_json: bool, dry_run: bool = False) -> None:
    found: dict[str, Any] = asdict(report)
    if as_json:
        print_json({**found, "dry_run": dry_run})
        return
    verb = "Would import" if dry_run else "Imported"
    click.echo(f"{verb} {_kept(report.observations, report.memories)}.")
    counts = [f"{count_of(report.read, 'record')} read", f"{report.duplicates} known already"]
    if report.updated:
        counts.append(f"{count_of(report.updated, 'memory', 'memories')} updated")
    if report.unchanged:
        counts.append(f"{count_of(report.unchanged, 'file')} unchanged")
    click.echo("; ".join(counts) + ".", err=True)
    if report.skipped:
        reasons = sorted(report.skipped.items(), key=lambda one: -one[1])
        click.echo("Left out: " + ", ".join(f"{why} ({n})" for why, n in reasons) + ".", err=True)
    for file, memories in report.gone.items():
        kept = count_of(len(memories), "memory is", "memories are")
        click.echo(
            f"No longer in {one_line(file)}: {kept} kept: zapomni forget {' '.join(memories)}",
            err=True,
        )
    if report.batch and report.memories and report.source not in _ONLY_SEARCHED:
        click.echo(
            "Searches find them. Sessions are given them once you trust them: "
            f"zapomni import --trust {report.batch}; or one by one: zapomni review",
            err=True,
        )
    if report.batch and is_terminal():
        click.echo(f"To take it back: zapomni import --undo {report.batch}", err=True)
