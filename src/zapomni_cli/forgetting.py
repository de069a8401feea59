"""`zapomni forget`: the trash, into it and out of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from zapomni_cli.observations import all_option
from zapomni_cli.options import examples, json_option, selection_options
from zapomni_cli.output import (
    count_of,
    day,
    one_line,
    print_json,
    print_table,
    progress_bar,
    short_id,
)
from zapomni_cli.purge import print_purged
from zapomni_cli.reading import chosen_filters
from zapomni_cli.runtime import read_settings, with_engine
from zapomni_cli.writing import fill_vectors
from zapomni_core.engine import ZapomniEngine
from zapomni_core.exceptions import NotFoundError
from zapomni_core.workflows.trash import TRASH_DAYS, TrashBatch

__all__ = ["forget"]

MEMORIES = ("memory", "memories")
REWRITE = (
    "The log of the FalkorDB server drops what was deleted when it is rewritten: send the server "
    "BGREWRITEAOF."
)


@click.command(
    epilog=examples(
        "zapomni forget ID",
        "zapomni forget --project shop --before 2025-01-01 --kind note",
        "zapomni forget --tag draft --all --yes",
        "zapomni forget --trash",
        "zapomni forget --undo f-12",
        "zapomni forget --trash --now",
    )
)
@click.argument("memory_ids", metavar="[ID]...", nargs=-1)
@selection_options
@all_option
@click.option("--undo", metavar="BATCH", help="Bring back what was forgotten as this batch.")
@click.option("--trash", is_flag=True, help="List what is in the trash.")
@click.option(
    "--now",
    is_flag=True,
    help="Leave nothing: without the trash; with --trash, empty it.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def forget(
    memory_ids: tuple[str, ...],
    *,
    undo: str | None,
    trash: bool,
    now: bool,
    yes: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Move memories into the trash, and take that back.

    Give ids, or filters as in `zapomni search`: then replaced memories are among those selected,
    and pinned ones only with --pinned. Shows how many they are and how they begin, and asks; in a
    script give --yes. If one id is unknown, nothing is deleted.

    For 30 days --undo brings a batch back whole; then it is deleted. --now deletes so that
    nothing is left, as `zapomni purge` does, in backups, too.
    """
    given = chosen_filters(filters)
    selects = bool(memory_ids) or bool(given)
    if memory_ids and given:
        raise click.UsageError("Give ids or filters, not both.")
    if (undo is not None) + trash + selects != 1 or (undo is not None and now):
        raise click.UsageError(
            "Say what to forget: ids or filters such as --project; or give --undo or --trash."
        )
    if given == {"project": "*"}:
        raise click.UsageError("--all needs a filter, such as --kind, --tag or --before.")
    if given.get("kind") == "code":
        raise click.UsageError("Files of indexed repositories are no memories to forget.")
    if undo is not None:
        _undo(undo, as_json=as_json)
    elif trash and not now:
        _print_trash(with_engine(lambda engine: engine.trash.list_batches()), as_json=as_json)
    else:
        _forget(memory_ids, given, trash=trash, now=now, yes=yes, as_json=as_json)


def _undo(batch: str, *, as_json: bool) -> None:
    async def work(engine: ZapomniEngine) -> TrashBatch:
        with progress_bar("Restoring") as report:
            undone = await engine.trash.undo(batch, report)
        if undone.restored:
            await fill_vectors(engine)
        return undone

    undone = with_engine(work)
    if as_json:
        print_json(undone.model_dump(mode="json"))
    elif undone.restored:
        click.echo(f"Restored {count_of(undone.restored, *MEMORIES)}.")
    else:
        click.echo(f"Nothing to restore: {undone.batch} was undone before.")


def _print_trash(batches: Sequence[TrashBatch], *, as_json: bool) -> None:
    if as_json:
        print_json([batch.model_dump(mode="json") for batch in batches])
        return
    print_table(_describe(batch) for batch in batches)
    if not batches:
        click.echo("The trash is empty.", err=True)


def _describe(batch: TrashBatch) -> tuple[str, ...]:
    return (
        batch.batch,
        day(batch.forgotten_at),
        batch.why,
        count_of(batch.count, *MEMORIES),
        " | ".join(one_line(text, 60) for text in batch.samples),
    )


def _forget(
    memory_ids: Sequence[str],
    filters: Mapping[str, Any],
    *,
    trash: bool,
    now: bool,
    yes: bool,
    as_json: bool,
) -> None:
    settings = read_settings()

    async def work(engine: ZapomniEngine) -> dict[str, Any]:
        ids: list[str] | None = None
        if trash:
            batches = await engine.trash.list_batches()
            for batch in batches:
                click.echo("  ".join(_describe(batch)), err=True)
            count = sum(batch.count for batch in batches)
        else:
            ids = await _choose(engine, memory_ids, filters, now=now)
            count = len(ids)
        answer: dict[str, Any] = {"count": count, "batch": None}
        if count:
            _confirm(count, now=now, yes=yes)
            if ids is not None:
                # With --now, all of them may be in the trash already.
                with (
                    progress_bar("Forgetting") as report,
                    suppress(*([NotFoundError] if now else [])),
                ):
                    made = await engine.trash.put(ids, "forget", report)
                    answer = made.model_dump(mode="json")
            if now:
                purged = await engine.trash.purge(ids)
                answer = {"count": count, "batch": None, "purged": purged}
        return answer

    answer = with_engine(work, settings)
    purged = answer.get("purged")
    if as_json:
        print_json(answer)
    elif purged:
        print_purged({"in": "memories", "dry_run": False, **purged})
    else:
        click.echo(f"Forgot {count_of(answer['count'], *MEMORIES)}.")
    if answer["batch"] is not None and not as_json:
        undo = f"zapomni forget --undo {answer['batch']}"
        click.echo(f"In the trash for {TRASH_DAYS} days: {undo}", err=True)
    if purged and settings.server is not None:
        click.echo(REWRITE, err=True)
    if purged and purged.get("log_emptied") is False:
        click.get_current_context().exit(1)


async def _choose(
    engine: ZapomniEngine, memory_ids: Sequence[str], filters: Mapping[str, Any], *, now: bool
) -> list[str]:
    """Show what is to be forgotten, and return the ids."""
    if memory_ids:
        whole = [await engine.memories.complete_id(one) for one in memory_ids]
        ids = list(dict.fromkeys(whole))
        trashed = await engine.trash.find(ids) if now else []
        for memory_id in ids:
            text = "in the trash"
            if memory_id not in trashed:
                text = (await engine.get_memory(memory_id)).preview
            click.echo(f"{short_id(memory_id)}  {one_line(text, 60)}", err=True)
        return ids
    selection = await engine.trash.select(dict(filters), str(Path.cwd()))
    for one in selection.samples:
        click.echo(f"{short_id(one.memory_id)}  {one_line(one.preview, 60)}", err=True)
    more = len(selection.memory_ids) - len(selection.samples)
    if more:
        click.echo(f"and {more} more", err=True)
    for title, counts in (("Projects", selection.by_project), ("Kinds", selection.by_kind)):
        if counts:
            named = (f"{one_line(name) or 'no project'} {n}" for name, n in counts.items())
            click.echo(f"{title}: {', '.join(named)}", err=True)
    if selection.pinned_kept:
        stay = count_of(selection.pinned_kept, "pinned one stays", "pinned ones stay")
        click.echo(f"{stay}; --pinned selects them.", err=True)
    return selection.memory_ids


def _confirm(count: int, *, now: bool, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(
            "There is no terminal to ask on; give --yes to delete without asking."
        )
    ending = " for good? Nothing is left of them" if now else ""
    click.confirm(f"Delete {count_of(count, *MEMORIES)}{ending}?", abort=True, err=True)
