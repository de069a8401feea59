"""`zapomni purge`: deletes so that nothing is left, not even in the file's slack."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from zapomni_cli.options import examples, json_option, parse_when
from zapomni_cli.output import count_of, print_json, print_table
from zapomni_cli.runtime import read_settings
from zapomni_core.exceptions import NotFoundError, ValidationError, ZapomniError
from zapomni_core.infra.capture_key import capture_key
from zapomni_core.infra.locations import observations_path
from zapomni_core.infra.places import PLACES, find_files, find_text, list_exports
from zapomni_core.modules.observations import SPOOL_FOLDER, drain
from zapomni_core.settings import Settings
from zapomni_core.shared.redaction import Redactor
from zapomni_db.sqlite import purging
from zapomni_db.sqlite.backups import exclusive_folder
from zapomni_db.sqlite.connection import connect, prepare_file, translated
from zapomni_db.sqlite.migrations import migrate
from zapomni_db.sqlite.purging import Selection

__all__ = ["drain_spool", "opened", "purge"]

SHOWN = 10
STILL_THERE = (
    "It still has the text: in other memories or observations (--in all), in the name of a project "
    "(--project), or in something pinned (--pinned)."
)
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
    type=click.Choice(["observations", "memories", "all"]),
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
    in the file, the spool, and every copy Zapomni made in its home folder. All options given
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
            "Say what to purge: options that select, or --expired, or --traces alone."
        )
    settings = read_settings()
    if where != "observations" and settings.server is not None:
        raise click.UsageError(
            "On a FalkorDB server, delete with `zapomni forget`; its log on disk drops what was "
            "deleted when it is rewritten: send the server BGREWRITEAOF."
        )
    answer: dict[str, Any] = {"in": where, "deleted": 0, "dry_run": not yes}
    database = observations_path(settings)
    with ExitStack() as stack:
        connection = stack.enter_context(opened(database))
        if yes:
            # No backup may be made of what is being deleted.
            stack.enter_context(exclusive_folder(settings.backups_path))
        if yes and where != "memories":
            drain_spool(connection, settings)
        if expired:
            answer |= _sweep(connection, settings, yes=yes)
        else:
            answer |= _purge(connection, selection, where, pinned=pinned, yes=yes)
        if yes and not expired:
            answer |= _walk_places(settings, selection, where, pinned=pinned)
    if not expired:
        answer["unreachable"] = _name_unreachable(settings, selection, done=yes)
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
    if where != "observations" and (parts["session"] or parts["obs_type"]):
        raise click.UsageError("Memories have no session and no type.")
    if where == "all" and parts["ids"]:
        raise click.UsageError("An id is one of a memory or of an observation: say --in which.")
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
    found, kept, sample = {}, 0, []
    for kind in _kinds(where):
        keys, stay = _find(connection, selection, memories=kind == "memories", pinned=pinned)
        shown = purging.sample(connection, keys[:SHOWN], memories=kind == "memories")
        sample += [{"id": key, "type": what, "text": text} for key, what, text in shown]
        found[kind], kept = keys, kept + stay
    count = sum(map(len, found.values()))
    if selection.ids and not count:
        raise NotFoundError(f"None of these ids is in {where}; nothing was deleted.")
    answer: dict[str, Any] = {"found": count, "pinned_kept": kept, "sample": sample[:SHOWN]}
    if yes:
        answer["deleted"], mentions = _delete(connection, found, selection.search)
        answer["mentions"] = mentions
        if count or mentions or not selection:
            answer["log_emptied"] = purging.scrub(connection)
    return answer


def _kinds(where: str) -> tuple[str, ...]:
    return ("observations", "memories") if where == "all" else (where,)


def _find(
    connection: sqlite3.Connection, selection: Selection, *, memories: bool, pinned: bool
) -> tuple[list[int], int]:
    look = purging.find_memories if memories else purging.find_observations
    found = look(connection, selection)
    if pinned or selection.ids:
        return list(found), 0
    keys = [key for key, is_pinned in found.items() if not is_pinned]
    return keys, len(found) - len(keys)


def _delete(
    connection: sqlite3.Connection, found: Mapping[str, list[int]], search: str | None
) -> tuple[int, dict[str, int]]:
    deleted = purging.delete_memories(connection, found.get("memories", []))
    deleted += purging.delete_observations(connection, found.get("observations", []))
    mentions: dict[str, int] = {}
    for kind in found if search else ():
        assert search is not None
        mentions |= purging.delete_mentions(connection, search, memories=kind == "memories")
    return deleted, mentions


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


def _walk_places(
    settings: Settings, selection: Selection, where: str, *, pinned: bool
) -> dict[str, Any]:
    """Do to every place of text what its entry in the table says."""
    copies: dict[str, int] = {}
    files = entries = 0
    for place in PLACES:
        for path in find_files(settings, place):
            if place.treatment == "copies" and path.name not in copies:
                with suppress(ZapomniError):  # a damaged one is named afterwards
                    copies[path.name] = _purge_copy(path, selection, where, pinned=pinned)
            elif place.treatment == "files":
                files += _delete_file(path, selection)
            elif place.treatment == "entries":
                entries += _delete_entries(path, selection)
    return {"backups": copies, "spool_files": files, "entries": entries}


def _purge_copy(path: Path, selection: Selection, where: str, *, pinned: bool) -> int:
    with translated("purging a backup"), closing(connect(path)) as connection:
        # An older one is brought to the schema that is known here: being rid of the text is
        # worth more than going back to an older version.
        migrate(connection)
        found = {
            kind: _find(connection, selection, memories=kind == "memories", pinned=pinned)[0]
            for kind in _kinds(where)
        }
        deleted, _ = _delete(connection, found, selection.search)
        purging.scrub(connection)
    return deleted


def _delete_file(path: Path, selection: Selection) -> int:
    """Delete a file if it has the text searched for, or the event of a session or project."""
    try:
        content = path.read_bytes()
    except OSError:
        return 0
    texts = [selection.search, selection.session, selection.project]
    if not any(text and _has(content, text) for text in texts):
        return 0
    path.unlink(missing_ok=True)
    return 1


def _delete_entries(path: Path, selection: Selection) -> int:
    """Delete the lines of a list, or the entries of a JSON object, that have the text."""
    if not selection.search or not _has(path.read_bytes(), selection.search):
        return 0
    content = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".jsonl":
        lines = content.splitlines(keepends=True)
        stay = [line for line in lines if not _has(line.encode(), selection.search)]
        removed, content = len(lines) - len(stay), "".join(stay)
    else:
        try:
            entries = json.loads(content)
        except ValueError:
            entries = {}
        stays = {
            key: value
            for key, value in (entries.items() if isinstance(entries, dict) else ())
            if not _has(json.dumps({key: value}).encode(), selection.search)
        }
        removed, content = len(entries) - len(stays), json.dumps(stays)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(content)
    part.replace(path)
    return removed


def _has(content: bytes, text: str) -> bool:
    lowered = content.lower()
    # As it is, and as JSON writes what is not ASCII.
    return any(
        part in lowered for part in (text.lower().encode(), json.dumps(text.lower())[1:-1].encode())
    )


def _name_unreachable(
    settings: Settings, selection: Selection, *, done: bool
) -> list[dict[str, str]]:
    """Return the files a purge could not or must not change, and those that still have the text."""
    found: dict[Path, str] = {}
    for place in PLACES:
        hidden = place.name in ("encrypted backups", "damaged databases kept by a repair")
        if hidden:
            found |= dict.fromkeys(find_files(settings, place), place.why)
    if not (selection.search or selection.session or selection.project):
        aside = (settings.home / SPOOL_FOLDER / "bad").glob("*")
        found |= dict.fromkeys(aside, "It is an event that could not be stored. Delete the file.")
    found |= dict.fromkeys(list_exports(settings), "You exported it. Delete it or make it again.")
    if done and selection.search:
        for left, path in find_text(settings, selection.search):
            reason = left.why if left is not None and left.why else STILL_THERE
            found.setdefault(path, reason)
    return [{"path": str(path), "why": why} for path, why in found.items()]


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


def _print(answer: Mapping[str, Any]) -> None:
    nouns = {"memories": ("memory", "memories"), "observations": ("observation",)}
    noun = nouns.get(answer["in"], ("memory or observation", "memories and observations"))
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
    for what, count in answer.get("mentions", {}).items():
        click.echo(f"Purged the text from {what}: {count}.")
    for left in answer.get("unreachable", ()):
        click.echo(f"Not reached: {left['path']}: {left['why']}", err=True)
    if answer.get("pinned_kept"):
        kept = count_of(answer["pinned_kept"], "pinned one")
        click.echo(f"{kept} stay; --pinned takes them too.", err=True)
    if answer.get("log_emptied") is False:
        click.echo(
            "Another process was reading, so the log still has traces. "
            "Run `zapomni purge --traces --yes` when it is done.",
            err=True,
        )
