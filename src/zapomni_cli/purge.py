"""`zapomni purge`: deletes so that nothing is left, not even in the file's slack."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from zapomni_cli.options import examples, json_option, parse_when
from zapomni_cli.output import count_of, print_json, print_table
from zapomni_cli.record import capture_key
from zapomni_cli.runtime import read_settings
from zapomni_cli.spool import FOLDER, drain
from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.infra.locations import observations_path
from zapomni_core.settings import Settings
from zapomni_core.shared.redaction import Redactor
from zapomni_db.sqlite import purging
from zapomni_db.sqlite.connection import connect, prepare_file, translated
from zapomni_db.sqlite.purging import Selection

__all__ = ["drain_spool", "opened", "purge"]

SHOWN = 10
MAX_ROUNDS = 1000


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
@click.option("--expired", is_flag=True, help="What has outlived its retention, no more.")
@click.option("--traces", is_flag=True, help="Nothing stored: traces of what was deleted before.")
@click.option("--pinned", is_flag=True, help="Pinned ones too.")
@click.option(
    "--in",
    "where",
    type=click.Choice(["observations", "memories"]),
    default="observations",
    show_default=True,
    help="What to delete.",
)
@click.option("--yes", is_flag=True, help="Do it. Without, it only shows what would go.")
@json_option
def purge(
    *, where: str, expired: bool, traces: bool, pinned: bool, yes: bool, as_json: bool, **parts: Any
) -> None:
    """Delete so that nothing is left.

    Shows what would go, and deletes it with --yes: rows, word index, vectors, log, free space
    in the file, and copies in the folder backups. All options given must match. Pinned ones
    stay unless named with --id or --pinned is given. This rewrites the database: on a large
    one it takes a while, and agents wait or spool meanwhile.
    """
    selection = _selection(where, parts)
    if bool(selection) + expired + traces != 1:
        raise click.UsageError(
            "Say what to purge: options that select, or --expired, or --traces alone."
        )
    settings = read_settings()
    if where == "memories" and settings.server is not None:
        raise click.UsageError(
            "On a FalkorDB server, delete with `zapomni forget`; its log on disk drops what was "
            "deleted when it is rewritten: send the server BGREWRITEAOF."
        )
    answer: dict[str, Any] = {"in": where, "deleted": 0, "dry_run": not yes}
    database = settings.database_path if where == "memories" else observations_path(settings)
    with opened(database) as connection:
        if yes and where == "observations":
            drain_spool(connection, settings)
        if expired:
            answer |= _sweep(connection, settings, yes=yes)
        else:
            answer |= _purge(connection, selection, where, pinned=pinned, yes=yes)
    if yes and not expired:
        answer["backups"] = _purge_backups(database, selection, where, pinned=pinned)
        answer["spool_files"] = _purge_set_aside(settings, selection)
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    if answer.get("log_emptied") is False:
        click.get_current_context().exit(1)


@contextmanager
def opened(database: Path) -> Iterator[sqlite3.Connection]:
    """Open a database file, created and migrated as needed."""
    prepare_file(database)
    with translated("purging"), closing(connect(database)) as connection:
        yield connection


def _selection(where: str, parts: Mapping[str, Any]) -> Selection:
    if where == "memories" and (parts["session"] or parts["obs_type"]):
        raise click.UsageError("Memories have no session and no type.")
    before = None
    if parts["older_than"] is not None:
        before = int(_moment(parts["older_than"]).timestamp())
    if parts["search"] is not None and len(parts["search"].strip()) < 3:
        raise ValidationError("A text to purge by must have at least 3 characters", "VAL_003")
    return Selection(
        ids=parts["ids"],
        session=parts["session"],
        project=parts["project"],
        obs_type=parts["obs_type"],
        before=before,
        search=parts["search"],
    )


def _moment(value: str) -> datetime:
    try:
        return parse_when(value)
    except ValueError:
        raise click.BadParameter(
            "use how old (12h, 30d, 12w) or a date (2026-01-31)", param_hint="--older-than"
        ) from None


def _purge(
    connection: sqlite3.Connection, selection: Selection, where: str, *, pinned: bool, yes: bool
) -> dict[str, Any]:
    memories = where == "memories"
    keys, kept = _find(connection, selection, memories=memories, pinned=pinned)
    if selection.ids and not keys:
        raise NotFoundError(f"None of these ids is in {where}; nothing was deleted.")
    shown = purging.sample(connection, keys[:SHOWN], memories=memories)
    answer: dict[str, Any] = {
        "found": len(keys),
        "pinned_kept": kept,
        "sample": [{"id": key, "type": kind, "text": text} for key, kind, text in shown],
    }
    if yes and (keys or not selection):
        delete = purging.delete_memories if memories else purging.delete_observations
        answer["deleted"] = delete(connection, keys)
        answer["log_emptied"] = purging.scrub(connection)
    return answer


def _find(
    connection: sqlite3.Connection, selection: Selection, *, memories: bool, pinned: bool
) -> tuple[list[int], int]:
    look = purging.find_memories if memories else purging.find_observations
    found = look(connection, selection)
    if pinned or selection.ids:
        return list(found), 0
    keys = [key for key, is_pinned in found.items() if not is_pinned]
    return keys, len(found) - len(keys)


def _sweep(connection: sqlite3.Connection, settings: Settings, *, yes: bool) -> dict[str, Any]:
    now = int(time.time())
    days, max_bytes = settings.observation_retention_days, settings.observations_max_mb * 1_000_000
    due = purging.find_due(connection, now, retention_days=days, max_bytes=max_bytes)
    answer = {"found": len(due), "deleted": 0}
    while yes and (
        batch := purging.sweep(connection, now, retention_days=days, max_bytes=max_bytes)
    ):
        answer["deleted"] += batch
    return answer


def _purge_backups(
    database: Path, selection: Selection, where: str, *, pinned: bool
) -> dict[str, int]:
    """Do the same to every copy of the database that Zapomni made."""
    done: dict[str, int] = {}
    for path in sorted(database.parent.glob("backups/*.db")):
        done[path.name] = _purge_backup(path, selection, where, pinned=pinned)
    return done


def _purge_backup(path: Path, selection: Selection, where: str, *, pinned: bool) -> int:
    memories = where == "memories"
    delete: Callable[..., int]
    delete = purging.delete_memories if memories else purging.delete_observations
    with translated("purging a backup"), closing(connect(path)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < 2 and not memories:
            return 0
        keys, _ = _find(connection, selection, memories=memories, pinned=pinned)
        deleted = delete(connection, keys)
        purging.scrub(connection)
    return deleted


def drain_spool(connection: sqlite3.Connection, settings: Settings) -> int:
    """Store what waits in the spool, so that it can be found and purged too; return how many."""
    home = str(settings.home)
    redactor = Redactor(os.environ, capture_key(home))
    drained = 0
    # Bounded: a file that cannot be removed would be stored again and again.
    for _ in range(MAX_ROUNDS):
        taken = drain(connection, home, redactor)
        drained += taken
        if not taken:
            break
    return drained


def _purge_set_aside(settings: Settings, selection: Selection) -> int:
    """Delete files of the spool that nobody could read but that have the text searched for."""
    wanted = (selection.search or "").lower().encode()
    deleted = 0
    for path in (settings.home / FOLDER).rglob("*") if wanted else ():
        if path.is_file() and wanted in path.read_bytes().lower():
            path.unlink(missing_ok=True)
            deleted += 1
    return deleted


def _print(answer: Mapping[str, Any]) -> None:
    noun = ("memory", "memories") if answer["in"] == "memories" else ("observation",)
    if answer["dry_run"]:
        if answer.get("sample"):
            print_table((row["id"], row["type"], row["text"]) for row in answer["sample"])
        if answer["found"] > SHOWN:
            click.echo(f"and {answer['found'] - SHOWN} more", err=True)
        click.echo(f"{count_of(answer['found'], *noun)} would be deleted.", err=True)
        if answer["found"]:
            click.echo("Say --yes to delete for good.", err=True)
    else:
        click.echo(f"Purged {count_of(answer['deleted'], *noun)}.")
    for name, deleted in answer.get("backups", {}).items():
        click.echo(f"Purged {count_of(deleted, *noun)} in the backup {name}.")
    if answer.get("pinned_kept"):
        kept = count_of(answer["pinned_kept"], "pinned one")
        click.echo(f"{kept} stay; --pinned takes them too.", err=True)
    if answer.get("log_emptied") is False:
        click.echo(
            "Another process was reading, so the log still has traces. "
            "Run `zapomni purge --traces --yes` when it is done.",
            err=True,
        )
