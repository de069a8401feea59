"""`zapomni purge`: deletes so that nothing is left, not even in the file's slack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, print_json, print_table
from zapomni_cli.runtime import read_settings, with_observations
from zapomni_core.exceptions import ValidationError
from zapomni_core.modules.observations import PurgeScope, PurgeSelection
from zapomni_core.shared.dates import parse_when

__all__ = ["print_purged", "purge"]

SHOWN = 10


@click.command(
    epilog=examples(
        "zapomni purge --search sk-live --yes",
        "zapomni purge --project shop --older-than 30d",
        "zapomni purge --session 5f2c --yes",
        "zapomni purge --in memories --id ID --yes",
        "zapomni purge --expired --yes",
    )
)
@click.option("--id", "ids", multiple=True, help="This one; repeatable.")
@click.option("--session", help="What was done in this session.")
@click.option("--project", help="Only this project: its key or its name.")
@click.option("--type", "obs_type", help="Only this type, such as file_read.")
@click.option("--older-than", help="Only older than: 30d, 12w, 2026-01-31.")
@click.option("--search", metavar="TEXT", help="Only where this text occurs, also inside words.")
@click.option("--expired", is_flag=True, help="Only what is past its retention.")
@click.option("--traces", is_flag=True, help="Only traces of what was deleted before.")
@click.option("--pinned", is_flag=True, help="Pinned ones too.")
@click.option(
    "--in",
    "where",
    type=click.Choice(["observations", "memories", "all"]),
    default="observations",
    show_default=True,
    help="What to delete.",
)
@click.option("--yes", is_flag=True, help="Delete. Without it, only show what would be deleted.")
@json_option
def purge(
    *,
    where: PurgeScope,
    expired: bool,
    traces: bool,
    pinned: bool,
    yes: bool,
    as_json: bool,
    **parts: Any,
) -> None:
    """Delete so that nothing is left.

    Shows what would be deleted, and deletes it with --yes: rows, word index, vectors, log, free
    space in the file, the spool, and every copy Zapomni made in its home folder. All options given
    must match. Pinned ones stay unless named with --id or --pinned is given. What a purge cannot
    reach it names: encrypted backups, files you exported, the log of a FalkorDB server. With
    --search every byte under the home folder is read afterwards, and files that still have the
    text are named. A purge makes no backup.

    This rewrites the database: on a large one it takes a while, and agents wait or spool
    meanwhile.
    """
    selection = _selection(where, parts)
    if bool(selection) + expired + traces != 1:
        raise click.UsageError(
            "Choose what to purge: options that select, or --expired, or --traces alone."
        )
    settings = read_settings()
    if where != "observations" and settings.server is not None:
        raise click.UsageError(
            "On a FalkorDB server, delete with `zapomni forget --now`; its log on disk drops what "
            "was deleted when it is rewritten: send the server BGREWRITEAOF."
        )
    report = with_observations(
        lambda observations: (
            observations.sweep(dry_run=not yes)
            if expired
            else observations.purge(selection, where, pinned=pinned, dry_run=not yes)
        ),
        settings,
    )
    answer = {"in": where, "deleted": 0, "dry_run": not yes, **report}
    if as_json:
        print_json(answer)
    else:
        print_purged(answer)
    if answer.get("log_emptied") is False:
        click.get_current_context().exit(1)


def _selection(where: PurgeScope, parts: Mapping[str, Any]) -> PurgeSelection:
    if where != "observations" and (parts["session"] or parts["obs_type"]):
        raise click.UsageError("Memories have no session and no type.")
    if where == "all" and parts["ids"]:
        raise click.UsageError("With --id give --in memories or --in observations.")
    before = None
    if parts["older_than"] is not None:
        try:
            before = int(parse_when(parts["older_than"]).timestamp())
        except ValueError:
            raise click.BadParameter(
                "use how old (12h, 30d, 12w) or a date (2026-01-31)", param_hint="--older-than"
            ) from None
    if parts["search"] is not None and len(parts["search"].strip()) < 3:
        raise ValidationError("A text to purge by must have at least 3 characters", "VAL_003")
    return PurgeSelection(
        ids=parts["ids"],
        session=parts["session"],
        project=parts["project"],
        obs_type=parts["obs_type"],
        before=before,
        search=parts["search"],
    )


def print_purged(answer: Mapping[str, Any]) -> None:
    """Print what a purge found, deleted and could not reach."""
    nouns = {"memories": ("memory", "memories"), "observations": ("observation",)}
    noun = nouns.get(answer["in"], ("memory or observation", "memories and observations"))
    if answer["dry_run"]:
        if answer.get("sample"):
            print_table((row["id"], row["type"], row["text"]) for row in answer["sample"])
        if answer["found"] > SHOWN:
            click.echo(f"and {answer['found'] - SHOWN} more", err=True)
        click.echo(f"{count_of(answer['found'], *noun)} would be deleted.", err=True)
        if answer["found"]:
            click.echo("Add --yes to delete for good.", err=True)
    else:
        click.echo(f"Purged {count_of(answer['deleted'], *noun)}.")
    for name, deleted in answer.get("backups", {}).items():
        click.echo(f"Purged {count_of(deleted, *noun)} in the backup {name}.")
    if answer.get("recalls"):
        click.echo(f"Purged {count_of(answer['recalls'], 'recall')} in the recall log.")
    for what, count in answer.get("mentions", {}).items():
        click.echo(f"Purged the text from {what}: {count}.")
    for left in answer.get("unreachable", ()):
        click.echo(f"Not reached: {left['path']}: {left['why']}", err=True)
    if answer.get("pinned_kept"):
        kept = count_of(answer["pinned_kept"], "pinned one")
        click.echo(f"{kept} stay; --pinned deletes them too.", err=True)
    if answer.get("log_emptied") is False:
        click.echo(
            "Another process was reading, so the log still has traces. "
            "Run `zapomni purge --traces --yes` when it is done.",
            err=True,
        )
