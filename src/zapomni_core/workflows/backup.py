"""Back up and restore: copies a user asks for, copies made before risky work, and daily ones.

All copies are made by one function, `back_up`, and lie in one folder, so that `purge` can reach
them. Whatever changes many memories at once calls it first with the reason.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, cast, get_args

from zapomni_core.exceptions import (
    DatabaseError,
    ProcessingError,
    SchemaError,
    ValidationError,
)
from zapomni_core.infra.encryption import decrypt_file, encrypt_file, is_encrypted
from zapomni_core.infra.locations import observations_path
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.places import note_export
from zapomni_core.settings import Settings
from zapomni_db.sqlite import backups
from zapomni_db.sqlite.connection import connect, prepare_file, translated
from zapomni_db.sqlite.upkeep import check_integrity

__all__ = [
    "Backup",
    "BackupReason",
    "BackupReport",
    "RestoreReport",
    "back_up",
    "back_up_if_due",
    "check_database",
    "find_backup",
    "keep_current",
    "list_backups",
    "private_folder",
    "remove_left_folders",
    "restore",
]

log = get_logger(__name__)

BackupReason = Literal[
    "manual",
    "daily",
    "before-import",
    "before-migration",
    "before-reembed",
    "before-repair",
    "before-restore",
]

DAYS_KEPT, WEEKS_KEPT = 7, 4
# Of each kind of copy made before risky work.
BEFORE_KEPT = 3
# What a private folder's name begins with.
STAGING = ".zapomni-staging-"
DAILY_AFTER = timedelta(hours=23)

_NAME = re.compile(
    r"(?P<stem>.+)-(?P<made>\d{8}T\d{6}Z)-(?P<reason>[a-z-]+)(?:-(?P<number>\d+))?\.db"
)


@dataclass(frozen=True)
class Backup:
    """A copy in the folder of backups."""

    path: Path
    reason: BackupReason
    made_at: datetime


@dataclass(frozen=True)
class BackupReport:
    """A copy that was made: where it is, what it holds, and which older ones it replaces."""

    path: Path
    size_bytes: int
    tables: dict[str, int]
    removed: list[Path] = field(default_factory=list)


@dataclass(frozen=True)
class RestoreReport:
    """What was put back, and where the copy of what was there before is, if there was any."""

    tables: dict[str, int]
    before: Path | None
    problems: Mapping[str, str]
    """What the checks of `zapomni doctor` found in it: nothing, if all is well."""


# --- Making copies ------------------------------------------------------------------------


async def back_up(
    settings: Settings,
    *,
    reason: BackupReason = "manual",
    to: Path | None = None,
    keep: int | None = None,
    compact: bool = False,
    passphrase: str | None = None,
) -> BackupReport | None:
    """Copy everything that is stored, while others go on writing.

    Args:
        settings: Where everything is.
        reason: Why; `manual` copies are the user's own and stay until the user deletes them.
        to: Another folder than `backups` in the home folder.
        keep: Delete the user's own older copies in that folder but this many.
        compact: Leave out free space.
        passphrase: Encrypt the copy with it.

    Returns:
        What was made; None if there is nothing to copy yet.

    Raises:
        SchemaError: The database is damaged; no copy was made.
        DatabaseError: It cannot be read, or the copy cannot be written.
    """
    database = observations_path(settings)
    if not database.exists():
        return None
    folder = to or settings.backups_path

    def work() -> BackupReport:
        with translated("backup"), backups.exclusive_folder(folder):
            path = _free_name(folder, database.stem, reason)
            if passphrase is None:
                tables = backups.copy_database(database, path, compact=compact)
            else:
                # Named as half made, so that the next backup removes it if this one is killed.
                plain = path.with_name(path.name + ".plain.part")
                try:
                    tables = backups.copy_database(database, plain, compact=compact)
                    path = _encrypt(plain, path, passphrase)
                finally:
                    plain.unlink(missing_ok=True)
            removed = _prune(folder, reason, keep)
            return BackupReport(path, path.stat().st_size, tables, removed)

    report = await asyncio.to_thread(work)
    note_export(settings, report.path, "backup")
    log.info(
        "backup_made", reason=reason, size_bytes=report.size_bytes, removed=len(report.removed)
    )
    return report


def _encrypt(plain: Path, path: Path, passphrase: str) -> Path:
    sealed = path.with_name(path.name + ".enc")
    part = path.with_name(path.name + ".enc.part")
    try:
        encrypt_file(plain, part, passphrase)
        with plain.open("rb") as stream:
            wanted = hashlib.file_digest(stream, "sha256").hexdigest()
        if decrypt_file(part, None, passphrase) != wanted:
            raise ProcessingError("The encrypted copy does not decrypt to what was encrypted.")
        part.replace(sealed)
        backups.sync_folder(sealed.parent)
    finally:
        part.unlink(missing_ok=True)
    return sealed


async def back_up_if_due(settings: Settings) -> BackupReport | None:
    """Make the day's copy if the last one is a day old; for processes that live long.

    Failing is logged and nothing else: the process has other work.
    """
    newest = max(
        (b.made_at for b in list_backups(settings) if b.reason == "daily"),
        default=datetime.min.replace(tzinfo=UTC),
    )
    if not settings.daily_backups or datetime.now(UTC) - newest < DAILY_AFTER:
        return None
    try:
        return await back_up(settings, reason="daily")
    except DatabaseError as error:
        log.warning("daily_backup_failed", error_code=error.error_code)
        return None


def _free_name(folder: Path, stem: str, reason: str) -> Path:
    path = folder / backups.make_name(stem, reason)
    number = 1
    while path.exists() or path.with_name(path.name + ".enc").exists():
        number += 1
        path = folder / backups.make_name(stem, f"{reason}-{number}")
    return path


# --- Which there are, and which stay ------------------------------------------------------


def list_backups(settings: Settings) -> list[Backup]:
    """Return the copies in the folders of backups, the newest first."""
    folders = {settings.backups_path, observations_path(settings).parent / backups.FOLDER}
    found = [backup for folder in folders for backup in _in_folder(folder)]
    return sorted(found, key=lambda backup: (backup.made_at, backup.path.name), reverse=True)


def _in_folder(folder: Path) -> Iterator[Backup]:
    for path in folder.glob("*.db*") if folder.is_dir() else ():
        named = _NAME.fullmatch(path.name.removesuffix(".enc"))
        if named and named["reason"] in get_args(BackupReason):
            made = datetime.strptime(named["made"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            yield Backup(path, cast("BackupReason", named["reason"]), made)


def find_backup(settings: Settings, given: str) -> Path:
    """Return the file a user means: a path, or the name of a copy in the folder of backups.

    Raises:
        ValidationError: There is no such file.
    """
    for path in (Path(given).expanduser(), settings.backups_path / given):
        if path.is_file():
            return path.absolute()
    raise ValidationError(
        "There is no such file. `zapomni restore` without one lists the backups there are.",
        "VAL_004",
    )


def _prune(folder: Path, reason: BackupReason, keep: int | None) -> list[Path]:
    same = sorted(
        (backup for backup in _in_folder(folder) if backup.reason == reason),
        key=lambda backup: (backup.made_at, backup.path.name),
        reverse=True,
    )
    stay = {backup.path for backup in _staying(same, reason, keep)}
    removed = [backup.path for backup in same if backup.path not in stay]
    for path in removed:
        path.unlink(missing_ok=True)
    return removed


def _staying(same: list[Backup], reason: BackupReason, keep: int | None) -> Iterable[Backup]:
    if reason == "manual":
        return same if keep is None else same[:keep]
    if reason != "daily":
        return same[:BEFORE_KEPT]
    days: dict[str, Backup] = {}
    weeks: dict[str, Backup] = {}
    for backup in same:  # the newest of each day and week comes first
        days.setdefault(f"{backup.made_at:%Y-%m-%d}", backup)
        weeks.setdefault(f"{backup.made_at:%G-%V}", backup)
    return [*list(days.values())[:DAYS_KEPT], *list(weeks.values())[:WEEKS_KEPT]]


# --- Putting a copy back ------------------------------------------------------------------


async def restore(settings: Settings, file: Path, passphrase: str | None = None) -> RestoreReport:
    """Put a copy in the place of everything that is stored, and keep what was there.

    Other processes may go on: the file stays the same file, readers see the old state until they
    begin anew, writers wait. A crash leaves the old state or the new one.

    Raises:
        ValidationError: The file is no backup of Zapomni, damaged, or of a newer version; or the
            passphrase is wrong.
        DatabaseError: It could not be put in place; what was there is still there.
    """
    database = observations_path(settings)
    if database.exists() and database.samefile(file):
        raise ValidationError("This is the database itself, not a backup of it.", "VAL_004")
    with private_folder(database.parent) as folder:
        if is_encrypted(file):
            if passphrase is None:
                raise ValidationError("This backup is encrypted: a passphrase is needed.")
            plain = folder / "decrypted.db"
            await asyncio.to_thread(decrypt_file, file, plain, passphrase)
            file = plain
        staged, tables = await asyncio.to_thread(backups.stage, file, folder)
        before = await keep_current(settings, "before-restore")
        await asyncio.to_thread(backups.install, staged, database)
    problems = await asyncio.to_thread(check_database, database)
    log.info("backup_restored", rows=sum(tables.values()), problems=len(problems))
    return RestoreReport(tables, before, problems)


def check_database(database: Path) -> Mapping[str, str]:
    """Run the checks of `zapomni doctor` on a file; return what is wrong by the check's name."""
    prepare_file(database)
    with translated("checking"), closing(connect(database)) as connection:
        return check_integrity(connection)


async def keep_current(settings: Settings, reason: BackupReason) -> Path | None:
    """Copy what is stored now; a damaged database byte by byte. None if there is nothing."""
    database = observations_path(settings)
    try:
        made = await back_up(settings, reason=reason)
    except SchemaError:
        name = backups.make_name(database.stem, "damaged").removesuffix(".db")
        folder = settings.backups_path / name
        return await asyncio.to_thread(backups.copy_damaged, database, folder)
    return None if made is None else made.path


@contextmanager
def private_folder(parent: Path) -> Iterator[Path]:
    """Make a folder only the user can read, on the same disk as `parent`; removed at the end."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_left_folders(parent)
    folder = Path(tempfile.mkdtemp(prefix=STAGING, dir=parent))
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_left_folders(parent: Path) -> None:
    """Remove private folders whose process was killed: their lock is free."""
    for left in parent.glob(STAGING + "*"):
        try:
            lock = os.open(left, os.O_RDONLY)
        except OSError:
            continue
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
        os.close(lock)
