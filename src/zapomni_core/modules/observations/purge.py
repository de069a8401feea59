"""Purging: deleting text so that nothing of it is left, in the file and in every copy of it."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Literal, TypedDict

from zapomni_core.exceptions import NotFoundError, ZapomniError
from zapomni_core.infra.capture_key import capture_key
from zapomni_core.infra.places import PLACES, find_files, find_text, list_exports
from zapomni_core.modules.observations.spool import BAD, SPOOL_FOLDER, drain
from zapomni_core.settings import Settings
from zapomni_core.shared.redaction import Redactor
from zapomni_db.sqlite import purging, recalls
from zapomni_db.sqlite.backups import exclusive_folder
from zapomni_db.sqlite.connection import connect, translated
from zapomni_db.sqlite.migrations import migrate
from zapomni_db.sqlite.observations import open_for_writing
from zapomni_db.sqlite.purging import PurgeSelection

__all__ = ["PurgeReport", "PurgeScope", "drain_spool", "purge", "purge_expired"]

SHOWN = 10
# How long another writer of the recall log may keep it.
LOCK_SECONDS = 5.0
MAX_ROUNDS = 1000
SYNCED_FOLDER = (
    "Run `zapomni sync` there: it purges memories in its files and on your other devices. Earlier "
    "commits of the repository keep the text."
)
STILL_THERE = (
    "It still has the text: in other memories or observations (--in all), in the name of a project "
    "(--project), or in something pinned (--pinned)."
)

PurgeScope = Literal["observations", "memories", "all"]


class PurgeReport(TypedDict, total=False):
    """What a purge found and deleted; a key is missing if its part was not done."""

    found: int
    deleted: int
    pinned_kept: int
    sample: list[dict[str, str]]
    mentions: dict[str, int]
    log_emptied: bool
    recalls: int
    backups: dict[str, int]
    spool_files: int
    entries: int
    unreachable: list[dict[str, str]]


def purge(
    settings: Settings,
    selection: PurgeSelection,
    scope: PurgeScope,
    *,
    pinned: bool,
    dry_run: bool,
    must_exist: bool = True,
) -> PurgeReport:
    """Delete what is selected, in the file, the spool and every copy in the home folder.

    An empty selection deletes no row, only the traces of rows that were deleted before.

    Args:
        settings: Where the files are.
        selection: Which rows.
        scope: Of which tables.
        pinned: Pinned rows, too; those named by id always are.
        dry_run: Only count and sample.
        must_exist: Otherwise copies are purged also of ids that do not exist here.

    Raises:
        NotFoundError: Ids are given, and none of them exists.
    """
    with ExitStack() as stack:
        connection = stack.enter_context(open_for_writing(settings.observations_path))
        if not dry_run:
            # No backup may be made of what is being deleted.
            stack.enter_context(exclusive_folder(settings.backups_path))
            if scope != "memories":
                drain_spool(connection, settings)
        report: PurgeReport = {"found": 0, "pinned_kept": 0, "sample": []}
        found: dict[str, list[int]] = {}
        for table in _tables(scope):
            found[table], stay = _find(connection, selection, table, pinned=pinned)
            rows = purging.sample(connection, found[table][:SHOWN], memories=table == "memories")
            report["sample"] += [
                {"id": key, "type": kind, "text": text} for key, kind, text in rows
            ]
            report["pinned_kept"] += stay
        trashed, stay = _find_trash(connection, selection, scope, pinned=pinned)
        report["pinned_kept"] += stay
        report["sample"] += [
            {"id": key, "type": kind, "text": text}
            for key, kind, text in purging.sample_trash(connection, trashed[:SHOWN])
        ]
        report["sample"] = report["sample"][:SHOWN]
        report["found"] = sum(map(len, found.values())) + len(trashed)
        if selection.ids and must_exist and not report["found"]:
            raise NotFoundError(f"None of these ids is in {scope}; nothing was deleted.")
        if not dry_run:
            items = [
                item
                for table, keys in found.items()
                for item in purging.item_ids(connection, keys, memories=table == "memories")
            ]
            items += trashed
            names = purging.project_keys(connection, selection.project)
            report["deleted"], mentions = _delete(connection, found, trashed, selection.search)
            report["mentions"] = mentions
            if report["found"] or mentions or not selection:
                report["log_emptied"] = purging.scrub(connection)
            _purge_recalls(settings, selection, scope, report, items=items, projects=names)
            _purge_places(settings, selection, scope, report, pinned=pinned)
    report["unreachable"] = _name_unreachable(settings, selection, done=not dry_run)
    return report


def purge_expired(settings: Settings, *, dry_run: bool) -> PurgeReport:
    """Delete observations that are past their retention or above the ceiling of the settings."""
    now = int(time.time())
    by_type, max_bytes = (
        settings.observation_retention_days, settings.observations_max_mb * 1_000_000
    )  # fmt: skip
    with ExitStack() as stack:
        connection = stack.enter_context(open_for_writing(settings.observations_path))
        if not dry_run:
            stack.enter_context(exclusive_folder(settings.backups_path))
            drain_spool(connection, settings)
        due = purging.find_due(connection, now, retention_days=by_type, max_bytes=max_bytes)
        report: PurgeReport = {"found": len(due), "deleted": 0}
        while not dry_run and (
            batch := purging.sweep(connection, now, retention_days=by_type, max_bytes=max_bytes)
        ):
            report["deleted"] += batch
        if not dry_run:
            days = settings.recall_retention_days
            report["recalls"] = recalls.sweep_recalls(str(settings.home), days, now)
    return report


def drain_spool(connection: sqlite3.Connection, settings: Settings) -> int:
    """Store all events that wait in the spool; return how many."""
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


def _tables(scope: PurgeScope) -> tuple[str, ...]:
    return ("observations", "memories") if scope == "all" else (scope,)


def _find(
    connection: sqlite3.Connection, selection: PurgeSelection, table: str, *, pinned: bool
) -> tuple[list[int], int]:
    """Return the keys of the rows to delete, and how many pinned ones stay."""
    find = purging.find_memories if table == "memories" else purging.find_observations
    found = find(connection, selection)
    if pinned or selection.ids:
        return list(found), 0
    keys = [key for key, is_pinned in found.items() if not is_pinned]
    return keys, len(found) - len(keys)


def _find_trash(
    connection: sqlite3.Connection,
    selection: PurgeSelection,
    scope: PurgeScope,
    *,
    pinned: bool,
) -> tuple[list[str], int]:
    """Return the ids of the memories to delete from the trash, and how many pinned ones stay."""
    if scope == "observations":
        return [], 0
    found = purging.find_trash(connection, selection)
    if pinned or selection.ids:
        return list(found), 0
    ids = [memory_id for memory_id, is_pinned in found.items() if not is_pinned]
    return ids, len(found) - len(ids)


def _delete(
    connection: sqlite3.Connection,
    found: Mapping[str, list[int]],
    trashed: Sequence[str],
    search: str | None,
) -> tuple[int, dict[str, int]]:
    """Delete rows, and the text searched for in other tables; return how many of each."""
    deleted = purging.delete_memories(connection, found.get("memories", []))
    deleted += purging.delete_trash(connection, trashed, int(time.time()))
    deleted += purging.delete_observations(connection, found.get("observations", []))
    mentions: dict[str, int] = {}
    if search:
        for table in found:
            mentions |= purging.delete_mentions(connection, search, memories=table == "memories")
    return deleted, mentions


def _purge_recalls(
    settings: Settings,
    selection: PurgeSelection,
    scope: PurgeScope,
    report: PurgeReport,
    *,
    items: list[str],
    projects: list[str],
) -> None:
    """Delete the recalls that gave what is purged, and those that match what was selected."""
    with translated("purging the recall log"):
        log = recalls.open_log(str(settings.home), create=False, wait=LOCK_SECONDS)
        if log is None:
            return
        with closing(log):
            # A selection by what only memories or observations have concerns those given alone.
            by_items = selection.ids or selection.obs_type or scope == "memories"
            before = None if by_items else selection.before
            count = recalls.purge_recalls(
                log,
                items=items,
                session=None if by_items else selection.session,
                projects=None if by_items or selection.project is None else projects,
                before=before,
                search=selection.search if not selection.obs_type else None,
            )
            if count or not selection:
                emptied = recalls.scrub_log(log)
                report["log_emptied"] = report.get("log_emptied", True) and emptied
            report["recalls"] = count


# --- Copies and other files ---------------------------------------------------------------


def _purge_places(
    settings: Settings,
    selection: PurgeSelection,
    scope: PurgeScope,
    report: PurgeReport,
    *,
    pinned: bool,
) -> None:
    """Treat every other place of text as its entry in the table says, and report it."""
    copies: dict[str, int] = {}
    report |= {"backups": copies, "spool_files": 0, "entries": 0}
    for place in PLACES:
        for path in find_files(settings, place):
            if place.treatment == "copies" and path.name not in copies:
                with suppress(ZapomniError):  # a damaged one is named afterwards
                    copies[path.name] = _purge_copy(path, selection, scope, pinned=pinned)
            elif place.treatment == "files":
                report["spool_files"] += _delete_file(path, selection)
            elif place.treatment == "entries":
                report["entries"] += _delete_entries(path, selection)


def _purge_copy(path: Path, selection: PurgeSelection, scope: PurgeScope, *, pinned: bool) -> int:
    with translated("purging a backup"), closing(connect(path)) as connection:
        # An older one is migrated: being rid of the text is worth more than going back to an
        # older version.
        migrate(connection)
        found = {
            table: _find(connection, selection, table, pinned=pinned)[0] for table in _tables(scope)
        }
        trashed, _ = _find_trash(connection, selection, scope, pinned=pinned)
        deleted, _ = _delete(connection, found, trashed, selection.search)
        purging.scrub(connection)
    return deleted


def _delete_file(path: Path, selection: PurgeSelection) -> int:
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


def _delete_entries(path: Path, selection: PurgeSelection) -> int:
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
    settings: Settings, selection: PurgeSelection, *, done: bool
) -> list[dict[str, str]]:
    """Return the files a purge could not or must not change, and those that still have the text."""
    found: dict[Path, str] = {}
    for place in PLACES:
        if place.name in ("encrypted backups", "damaged databases kept by a repair"):
            found |= dict.fromkeys(find_files(settings, place), place.why)
    if not (selection.search or selection.session or selection.project):
        aside = (settings.home / SPOOL_FOLDER / BAD).glob("*")
        found |= dict.fromkeys(aside, "It is an event that could not be stored. Delete the file.")
    found |= {
        path: SYNCED_FOLDER if kind == "sync" else "You exported it. Delete it or make it again."
        for path, kind in list_exports(settings).items()
    }
    if done and selection.search:
        for left, path in find_text(settings, selection.search):
            reason = left.why if left is not None and left.why else STILL_THERE
            found.setdefault(path, reason)
    return [{"path": str(path), "why": why} for path, why in found.items()]
