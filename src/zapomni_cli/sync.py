"""`zapomni sync`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zapomni_cli.exporting import describe_merge, print_untrusted
from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, one_line, print_json, print_table, progress_bar
from zapomni_cli.runtime import with_engine
from zapomni_core.exceptions import EmbeddingError

if TYPE_CHECKING:
    from zapomni_core.engine import ZapomniEngine
    from zapomni_core.workflows.merge_memories import SyncDevice
    from zapomni_core.workflows.sync import SyncReport

__all__ = ["sync"]


@click.command(
    epilog=examples(
        "zapomni sync ~/memories",
        "zapomni sync ~/memories --dry-run",
        "zapomni sync",
        "zapomni sync --trust 4f1c09aa77e2",
    )
)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--trust", metavar="DEVICE", help="Let sessions be given what a device wrote.")
@click.option("--dry-run", is_flag=True, help="Fetch and compare, and change nothing.")
@click.option(
    "--yes",
    is_flag=True,
    help="Push although anyone can read the remote, or a text seems to contain secrets.",
)
@json_option
def sync(
    folder: Path | None, trust: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Share memories between your devices through git.

    DIR is the top of a repository of yours: empty, cloned, or used for this before. What other
    devices pushed is fetched and merged, memory by memory; what is new here is committed and
    pushed. If two devices changed a memory, the later text is current and the other one is in its
    history. Nothing is ever pushed by force.

    What another device wrote is found by searches, and is given to no session before you trust that
    device once, with --trust. Without DIR, the devices are listed.
    """
    if trust is not None:
        if folder or dry_run or yes:
            raise click.UsageError("--trust goes with --json only.")
        _trust(trust, as_json=as_json)
    elif folder is None:
        if dry_run or yes:
            raise click.UsageError("Name the folder of a git repository.")
        _list_devices(as_json=as_json)
    else:
        _sync(folder, dry_run=dry_run, yes=yes, as_json=as_json)


def _sync(folder: Path, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    async def work(engine: ZapomniEngine) -> SyncReport:
        with progress_bar("Syncing") as report:
            done = await engine.sync.run(folder, yes=yes, dry_run=dry_run, progress=report)
        if (done.merged.added or done.merged.changed) and not dry_run:
            with progress_bar("Making vectors") as report, suppress(EmbeddingError):
                await engine.memories.fill_pending(report)
        return done

    done = with_engine(work)
    if as_json:
        print_json({**done.to_json(), "dry_run": dry_run})
        return
    merged = done.merged
    verb = "Would get" if dry_run else "Got"
    give = "would give" if dry_run else "gave"
    click.echo(f"{verb} {count_of(merged.added, 'memory', 'memories')}, {give} {merged.given}.")
    counts = [*describe_merge(merged), f"{merged.unchanged} unchanged"]
    click.echo("; ".join(counts) + ".", err=True)
    if merged.skipped_count:
        click.echo(f"{count_of(merged.skipped_count, 'file')} left alone:", err=True)
        for place, why in merged.skipped.items():
            click.echo(f"  {one_line(place)}: {why}", err=True)
    print_untrusted(merged.untrusted)
    if done.in_history:
        purged = count_of(done.in_history, "purged memory", "purged memories")
        click.echo(
            f"{purged}: deleted from the files and from every device that syncs, but earlier "
            "commits of this repository have the text. To be rid of it, delete the repository "
            "and its clones and begin a new one, or rewrite its history: docs, Moving memories.",
            err=True,
        )
    if not done.remote:
        click.echo(
            "The repository has no remote; everything is committed. To share it:\n"
            "  git remote add origin ADDRESS",
            err=True,
        )


def _list_devices(*, as_json: bool) -> None:
    async def read(engine: ZapomniEngine) -> tuple[str, list[SyncDevice]]:
        return engine.merges.device, await engine.merges.list_devices()

    own, devices = with_engine(read)
    if as_json:
        known = [{"device": one.device, "trusted": one.trusted} for one in devices]
        print_json({"device": own, "devices": known})
        return
    print_table(
        [
            (own, "this device"),
            *((one.device, "trusted" if one.trusted else "not trusted") for one in devices),
        ]
    )


def _trust(device: str, *, as_json: bool) -> None:
    trusted = with_engine(lambda engine: engine.merges.trust(device))
    if as_json:
        print_json({"device": device, "memories": trusted})
        return
    click.echo(f"Trusted, with {count_of(trusted, 'memory', 'memories')} of it.")
