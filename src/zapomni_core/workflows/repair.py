"""Repair a damaged database: from a backup, or from what can still be read in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from zapomni_core.exceptions import ValidationError
from zapomni_core.infra.logging import get_logger
from zapomni_core.settings import Settings
from zapomni_core.workflows.backup import (
    BackupReason,
    check_database,
    keep_current,
    list_backups,
    private_folder,
)
from zapomni_db.sqlite import backups
from zapomni_db.sqlite.damage import Damage, Salvage, find_damage, rebuild_indexes, salvage

__all__ = ["RepairReport", "RepairSource", "find_database_damage", "repair"]

log = get_logger(__name__)

RepairSource = Literal["auto", "backup", "salvage"]
REASON: BackupReason = "before-repair"


@dataclass(frozen=True)
class RepairReport:
    """What was done, what is in the database now, and where the damaged file is kept."""

    action: Literal["nothing", "rebuilt indexes", "restored", "salvaged"]
    damage: tuple[str, ...]
    tables: dict[str, int] = field(default_factory=dict)
    lost: Mapping[str, int | None] = field(default_factory=dict)
    """Rows of each table that could not be read; None: unknown how many."""
    altered: int = 0
    """Memories whose text is not the one that was stored."""
    backup: Path | None = None
    kept: Path | None = None
    problems: Mapping[str, str] = field(default_factory=dict)


async def find_database_damage(settings: Settings) -> Damage:
    """Name what is wrong with the local database; nothing is changed."""
    return await asyncio.to_thread(find_damage, settings.observations_path)


async def repair(settings: Settings, source: RepairSource = "auto") -> RepairReport:
    """Repair the local database; the damaged file is kept as it is.

    Indexes are made again where only they are damaged. Else both ways are tried on copies: the
    newest backup that is whole, and what can be read in the damaged file. What was read is taken
    if it has at least as many memories and observations as the backup, else the backup.

    Args:
        settings: Where everything is.
        source: `backup` or `salvage` takes that way whatever the other one has.

    Raises:
        ValidationError: The way asked for is not there.
        DatabaseError: Nothing could be repaired; the damaged file is where it was.
    """
    database = settings.observations_path
    damage = await find_database_damage(settings)
    if not damage:
        return RepairReport("nothing", ())
    if "a database of another program" in damage.problems:
        raise ValidationError(
            "The file is a database of another program. Point the setting storage at another one.",
            "VAL_004",
        )
    kept = await keep_current(settings, REASON)
    if damage.indexes_only and source == "auto":
        await asyncio.to_thread(rebuild_indexes, database)
        if not await find_database_damage(settings):
            return RepairReport("rebuilt indexes", damage.problems, kept=kept)
    with private_folder(database.parent) as folder:
        saved_file = folder / "new" / database.name
        copy = await asyncio.to_thread(backups.copy_damaged, database, folder / "damaged")
        saved = await asyncio.to_thread(salvage, copy, saved_file)
        newest = await asyncio.to_thread(_newest_good, settings, folder)
        report = _choose(source, saved, newest)
        staged = saved_file if report.action == "salvaged" or newest is None else newest[1]
        await asyncio.to_thread(backups.install, staged, database)
    problems = await asyncio.to_thread(check_database, database)
    log.warning("database_repaired", action=report.action, lost_tables=len(report.lost))
    return RepairReport(
        report.action,
        damage.problems,
        report.tables,
        report.lost,
        report.altered,
        report.backup,
        kept,
        problems,
    )


def _newest_good(settings: Settings, folder: Path) -> tuple[Path, Path, dict[str, int]] | None:
    """Return the newest backup that is whole, its staged copy, and the rows of its tables."""
    for number, backup in enumerate(list_backups(settings)):
        if backup.reason == REASON or backup.path.suffix == ".enc":
            continue
        staging = folder / str(number)
        staging.mkdir(mode=0o700)
        try:
            staged, tables = backups.stage(backup.path, staging)
        except ValidationError:
            continue
        return backup.path, staged, tables
    return None


def _choose(
    source: RepairSource,
    saved: Salvage | None,
    newest: tuple[Path, Path, dict[str, int]] | None,
) -> RepairReport:
    if source == "backup" and newest is None:
        raise ValidationError("There is no backup that is whole.", "VAL_004")
    if source == "salvage" and saved is None:
        raise ValidationError("Nothing can be read in the damaged file.", "VAL_004")
    if newest is not None and source != "salvage":
        path, _, tables = newest
        if source == "backup" or saved is None or _worth(saved.saved) < _worth(tables):
            return RepairReport("restored", (), tables, backup=path)
    if saved is None:
        # Nothing is readable and there is no backup: what is kept is the damaged file.
        return RepairReport("salvaged", (), {}, {"memories": None, "observations": None})
    return RepairReport("salvaged", (), saved.saved, saved.lost, saved.altered)


def _worth(tables: Mapping[str, int]) -> int:
    return tables.get("memories", 0) + tables.get("observations", 0)
