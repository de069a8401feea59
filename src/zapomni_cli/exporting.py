"""`zapomni export`, and `zapomni import` of what it wrote."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from zapomni_cli.options import chosen, examples, export_filter_options, json_option
from zapomni_cli.output import count_of, is_terminal, one_line, print_json, progress_bar
from zapomni_cli.runtime import naming, with_engine
from zapomni_core.exceptions import EmbeddingError

if TYPE_CHECKING:
    from zapomni_core.engine import ZapomniEngine
    from zapomni_core.workflows.export_memories import ExportPart, ExportReport
    from zapomni_core.workflows.import_records import RecordImportReport
    from zapomni_core.workflows.markdown_notes import NotesExportReport, NotesImportReport
    from zapomni_core.workflows.merge_memories import MergeReport

__all__ = ["describe_merge", "export", "import_export", "print_untrusted"]

SHOWN = 10
# As `zapomni_core.workflows.export_memories` has them; help does not import that.
PARTS = ["history", "citations", "projects", "graph", "observations", "all"]


@click.command(
    epilog=examples(
        "zapomni export ~/memories",
        "zapomni export ~/shop-notes --project shop --kind decision",
        "zapomni export --markdown ~/vault/memories",
        "zapomni export --jsonl - --since 7d | jq -r .text",
    )
)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--jsonl", metavar="FILE", help="Write lines of JSON instead; - for standard output.")
@click.option("--markdown", is_flag=True, help="Write Markdown notes, to be read and edited.")
@click.option(
    "--with",
    "parts",
    multiple=True,
    type=click.Choice(PARTS),
    help="Also export this; repeatable. history: earlier texts; graph: merged entities.",
)
@export_filter_options
@json_option
def export(
    folder: Path | None,
    jsonl: str | None,
    parts: tuple[str, ...],
    *,
    markdown: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Write memories into a folder, or as JSON lines.

    One JSON file per memory, which changes when the memory does: exporting twice writes nothing.
    All memories are exported, replaced ones too, or those that the filters select. Vectors and
    the graph are left out; they are made again. `zapomni import DIR` reads it.

    With --markdown the folder has one note per memory, for any editor or Obsidian: what you change,
    add or delete there comes back with `zapomni import DIR`. A file you edited is not overwritten.

    Texts are written as they are stored, secrets included: keep the folder to yourself, or
    check it first.
    """
    if (folder is None) == (jsonl is None):
        raise click.UsageError("Give a folder, or --jsonl FILE.")
    if as_json and jsonl == "-":
        raise click.UsageError("--json reports what was written; give --jsonl a file.")
    if markdown:
        if folder is None or parts:
            raise click.UsageError("--markdown goes with a folder, without --jsonl and --with.")
        _export_notes(folder, chosen(filters), as_json=as_json)
        return
    wanted = cast("list[ExportPart]", PARTS[:-1] if "all" in parts else list(parts))

    async def write(engine: ZapomniEngine) -> ExportReport:
        with progress_bar("Exporting", hidden=jsonl == "-" and is_terminal()) as report:
            if folder is not None:
                return await engine.exports.to_folder(folder, chosen(filters), wanted, report)
            file = None if jsonl == "-" else Path(jsonl or "")
            out = sys.stdout.buffer
            return await engine.exports.to_lines(file, chosen(filters), wanted, report, out=out)

    with naming(folder or Path(jsonl or "")):
        done = with_engine(write)
    if as_json:
        print_json(done.to_json())
        return
    _print_report(done)


def _export_notes(folder: Path, filters: dict[str, Any], *, as_json: bool) -> None:
    async def write(engine: ZapomniEngine) -> NotesExportReport:
        with progress_bar("Exporting") as report:
            return await engine.notes.export(folder, filters, report)

    done = with_engine(write)
    if as_json:
        print_json(done.to_json())
        return
    memories = count_of(done.memories, "memory", "memories")
    removed = f", {done.removed} removed" if done.removed else ""
    click.echo(
        f"{memories}: {done.written} written, {done.unchanged} unchanged{removed}.", err=True
    )
    if done.edited:
        files = count_of(done.edited, "file was", "files were")
        click.echo(f"{files} edited there, and left alone: `zapomni import` first.", err=True)


def _print_report(done: ExportReport) -> None:
    where = f"{count_of(done.memories, 'memory', 'memories')}: {done.written} written"
    rest = [f"{done.unchanged} unchanged"]
    rest += [f"{done.removed} removed"] if done.removed else []
    click.echo(", ".join([where, *rest]) + ".", err=True)
    if done.newer:
        files = count_of(done.newer, "file is newer than its memory", "files are newer")
        click.echo(f"{files}: read them with `zapomni import`.", err=True)
    if done.unreadable:
        files = count_of(done.unreadable, "file is damaged", "files are damaged")
        click.echo(f"{files} and was left alone; delete it and export again.", err=True)


def describe_merge(done: RecordImportReport | MergeReport) -> list[str]:
    """Return what a merge changed, in words."""
    words = (
        (done.changed, "changed"),
        (done.both_changed, "of them changed on both sides: the earlier text is in the history"),
        (done.deleted, "deleted"),
        (done.purged, "purged"),
        (done.same_text, "with the text of another one, and one with it now"),
    )
    return [f"{number} {word}" for number, word in words if number]


def print_untrusted(devices: Mapping[str, int]) -> None:
    """Say what arrived from devices that are not trusted yet, and how to trust them."""
    for device, number in sorted(devices.items()):
        click.echo(
            f"{count_of(number, 'memory', 'memories')} by the device {device}: given to no "
            f"session until you trust it once:\n  zapomni sync --trust {device}",
            err=True,
        )


def import_export(
    path: Path, *, dry_run: bool, observations: bool, yes: bool, as_json: bool
) -> None:
    """Import an export of ours: a folder of records or of notes, or a file of lines."""
    if (path / "zapomni.json").is_file() and '"markdown"' in (path / "zapomni.json").read_text(
        encoding="utf-8", errors="replace"
    ):
        _import_notes(path, dry_run=dry_run, yes=yes, as_json=as_json)
        return

    async def read(engine: ZapomniEngine) -> RecordImportReport:
        with progress_bar("Importing") as report:
            done = await engine.record_imports.import_export(
                path, dry_run=dry_run, observations=observations, progress=report
            )
        if done.added and not dry_run:
            with progress_bar("Making vectors") as report, suppress(EmbeddingError):
                await engine.memories.fill_pending(report)
        return done

    with naming(path):
        done = with_engine(read)
    if as_json:
        print_json({**done.to_json(), "dry_run": dry_run})
        return
    verb = "Would import" if dry_run else "Imported"
    click.echo(f"{verb} {count_of(done.added, 'memory', 'memories')}.")
    counts = [f"{done.read} read", f"{done.unchanged} known already"]
    counts += describe_merge(done)
    others = (
        (done.observations, "observation"),
        (done.projects, "project"),
        (done.merges, "merge"),
    )
    counts += [count_of(number, name) for number, name in others if number]
    click.echo("; ".join(counts) + ".", err=True)
    if done.skipped_count:
        click.echo(f"{count_of(done.skipped_count, 'record')} left out:", err=True)
        for place, why in done.skipped.items():
            click.echo(f"  {one_line(place)}: {why}", err=True)
    if done.secrets:
        found = ", ".join(f"{number} {kind}" for kind, number in done.secrets.items())
        click.echo(f"They seem to contain secrets, stored as they are: {found}.", err=True)
    print_untrusted(done.untrusted)
    if done.batch:
        click.echo(
            "No session is given what is new before you trust it: `zapomni review`, or all of it:\n"
            f"  zapomni import --trust {done.batch}\n"
            f"To take it back: zapomni import --undo {done.batch}",
            err=True,
        )


def _import_notes(path: Path, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    def confirm(names: Sequence[str]) -> bool:
        if yes:
            return True
        files = count_of(len(names), "file was", "files were")
        click.echo(f"{files} deleted from the folder:", err=True)
        for name in names[:SHOWN]:
            click.echo(f"  {one_line(name)}", err=True)
        if len(names) > SHOWN:
            click.echo(f"  and {len(names) - SHOWN} more", err=True)
        if not sys.stdin.isatty():
            click.echo("Their memories stay; to delete them, too, give --yes.", err=True)
            return False
        return click.confirm("Delete their memories, too?", err=True)

    async def read(engine: ZapomniEngine) -> NotesImportReport:
        with progress_bar("Reading notes") as report:
            return await engine.notes.read_back(path, confirm, dry_run=dry_run, progress=report)

    with naming(path):
        done = with_engine(read)
    if as_json:
        print_json({**done.to_json(), "dry_run": dry_run})
        return
    click.echo(
        f"{done.updated} updated, {done.added} added, {done.deleted} deleted, "
        f"{done.unchanged} unchanged."
    )
    if done.trash:
        click.echo(f"To bring deleted ones back: zapomni forget --undo {done.trash}", err=True)
    if done.conflicts:
        click.echo(
            f"{done.conflicts} of them were changed here, too: `zapomni history` has that text.",
            err=True,
        )
    for name, why in list(done.skipped.items())[:SHOWN]:
        click.echo(f"Left out: {one_line(name)}: {why}", err=True)
    if len(done.skipped) > SHOWN:
        click.echo(f"and {len(done.skipped) - SHOWN} more; --json lists them.", err=True)
    if done.secrets:
        found = ", ".join(f"{number} {kind}" for kind, number in done.secrets.items())
        click.echo(f"They seem to contain secrets, stored as they are: {found}.", err=True)
    if done.batch:
        click.echo(f"To give new ones to sessions: zapomni import --trust {done.batch}", err=True)
