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
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, cast, get_args

from pydantic import SecretStr

from zapomni_core.adapters.storages import open_storage
from zapomni_core.exceptions import (
    DatabaseError,
    ProcessingError,
    SchemaError,
    ValidationError,
)
from zapomni_core.infra.encryption import decrypt_file, encrypt_file, is_encrypted
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.places import note_export
from zapomni_core.modules.memories import EmbeddingChain
from zapomni_core.settings import Settings
from zapomni_core.workflows.copy_storage import compare_storages, copy_storage
from zapomni_db.interfaces import StorageProvider
from zapomni_db.sqlite import backups
from zapomni_db.sqlite.connection import connect, prepare_file, translated
from zapomni_db.sqlite.damage import check_integrity
from zapomni_db.sqlite.storage import SqliteStorage

__all__ = [
    "Backup",
    "BackupReason",
    "BackupReport",
    "RestoreReport",
    "back_up",
    "back_up_before_reembedding",
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
SERVER_ATTEMPTS = 2
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
    server_path: Path | None = None
    """The copy of the memories that live on a FalkorDB server."""
    server_tables: dict[str, int] = field(default_factory=dict)
    server_changed: bool = False
    """Whether memories changed on the server while they were read, one after another."""


@dataclass(frozen=True)
class RestoreReport:
    """What was put back, and where the copy of what was there before is, if there was any."""

    tables: dict[str, int]
    before: Path | None
    problems: Mapping[str, str]
    """What the checks of `zapomni doctor` found in it: nothing, if all is well."""
    server_tables: dict[str, int] | None = None
    """What was put back on the FalkorDB server; None if the backup holds none of its memories."""


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
    database = settings.observations_path
    if settings.server is not None:
        await asyncio.to_thread(prepare_file, database)
    if not database.exists():
        return None
    folder = to or settings.backups_path

    def work(on_server: Path | None) -> BackupReport:
        with translated("backup"), backups.exclusive_folder(folder):
            named = _free_name(folder, database.stem, reason)
            server_path: Path | None = None
            server_tables: dict[str, int] = {}
            if on_server is not None:
                companion = _memories_of(named)
                server_path, server_tables = _place(on_server, companion, compact, passphrase)
            path, tables = _place(database, named, compact, passphrase)
            removed = _prune(folder, reason, keep)
            size = sum(one.stat().st_size for one in (path, server_path) if one is not None)
            return BackupReport(path, size, tables, removed, server_path, server_tables)

    if _holds_server(settings, reason):
        with private_folder(database.parent) as staging:
            file = staging / "new" / "memories.db"
            changed = await _copy_from_server(settings, file)
            report = await asyncio.to_thread(work, file)
            report = replace(report, server_changed=changed)
    else:
        report = await asyncio.to_thread(work, None)
    for path in filter(None, (report.path, report.server_path)):
        note_export(settings, path, "backup")
    log.info(
        "backup_made", reason=reason, size_bytes=report.size_bytes, removed=len(report.removed)
    )
    return report


def _holds_server(settings: Settings, reason: BackupReason) -> bool:
    """Return whether a copy includes what is on the FalkorDB server.

    Not the daily one of a server that many machines share: each would copy all of it every day.
    """
    if settings.server is None or reason == "before-repair":
        return False
    return reason != "daily" or settings.uses_local_server


def _memories_of(path: Path) -> Path:
    """Return the name of the file with the server's memories, next to the local one."""
    name, _, rest = path.name.partition(".db")
    return path.with_name(f"{name}.memories.db{rest}")


def _place(
    source: Path, path: Path, compact: bool, passphrase: str | None
) -> tuple[Path, dict[str, int]]:
    if passphrase is None:
        return path, backups.copy_database(source, path, compact=compact)
    # Named as half made, so that the next backup removes it if this one is killed.
    plain = path.with_name(path.name + ".plain.part")
    try:
        tables = backups.copy_database(source, plain, compact=compact)
        return _encrypt(plain, path, passphrase), tables
    finally:
        plain.unlink(missing_ok=True)


async def _copy_from_server(settings: Settings, file: Path) -> bool:
    """Copy the memories of a server into a file; return whether they changed meanwhile."""
    async with AsyncExitStack() as opened:
        server = await open_storage(settings)
        opened.push_async_callback(server.close)
        for attempt in range(SERVER_ATTEMPTS):
            for suffix in ("", "-wal", "-shm"):
                file.with_name(file.name + suffix).unlink(missing_ok=True)
            async with SqliteStorage(file) as target:
                await copy_storage(server, target, _no_progress)
                original, copied = await compare_storages(server, target, _no_progress)
            if original == copied:
                return False
            log.warning("server_changed_during_backup", attempt=attempt + 1)
    return True


def _no_progress(_done: int, _total: int) -> None:
    return


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


async def back_up_before_reembedding(
    settings: Settings, storage: StorageProvider, chain: EmbeddingChain
) -> None:
    """Make a copy if the configured embedder's model is not the one of the stored vectors."""
    stored = await storage.get_space()
    configured = [await one.space() for one in chain.embedders[:1]]
    if stored is not None and configured not in ([], [stored]):
        await back_up(settings, reason="before-reembed")


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
    folders = {settings.backups_path, settings.observations_path.parent / backups.FOLDER}
    found = [backup for folder in folders for backup in _in_folder(folder)]
    return sorted(found, key=_age, reverse=True)


def _age(backup: Backup) -> tuple[datetime, int, str]:
    # The second copy of one second has `-2` in its name, encrypted or not.
    name = backup.path.name.removesuffix(".enc")
    return backup.made_at, len(name), name


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
        key=_age,
        reverse=True,
    )
    stay = {backup.path for backup in _staying(same, reason, keep)}
    removed = [backup.path for backup in same if backup.path not in stay]
    for path in removed:
        path.unlink(missing_ok=True)
        _memories_of(path).unlink(missing_ok=True)
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
    database = settings.observations_path
    if database.exists() and database.samefile(file):
        raise ValidationError("This is the database itself, not a backup of it.", "VAL_004")
    if ".memories.db" in file.name:
        raise ValidationError(
            "This is the half of a backup with a server's memories: name the file without .memories"
        )
    companion = _memories_of(file)
    if companion.exists() and settings.server is None:
        raise ValidationError(
            "This backup holds the memories of a FalkorDB server: set ZAPOMNI_STORAGE to one first."
        )
    with private_folder(database.parent) as folder:
        staged, tables = await asyncio.to_thread(_stage, file, folder / "local", passphrase)
        server_tables = None
        on_server = None
        if companion.exists():
            on_server, server_tables = await asyncio.to_thread(
                _stage, companion, folder / "memories", passphrase
            )
        before = await keep_current(settings, "before-restore")
        if on_server is None:
            await asyncio.to_thread(backups.install, staged, database)
        else:
            async with _copy_to_server(settings, on_server) as take_over:
                await asyncio.to_thread(backups.install, staged, database)
                await take_over()
    problems = await asyncio.to_thread(check_database, database)
    log.info("backup_restored", rows=sum(tables.values()), problems=len(problems))
    return RestoreReport(tables, before, problems, server_tables)


def _stage(file: Path, folder: Path, passphrase: str | None) -> tuple[Path, dict[str, int]]:
    folder.mkdir(mode=0o700)
    if is_encrypted(file):
        if passphrase is None:
            raise ValidationError("This backup is encrypted: a passphrase is needed.")
        plain = folder / "decrypted.db"
        decrypt_file(file, plain, passphrase)
        file = plain
    return backups.stage(file, folder)


@asynccontextmanager
async def _copy_to_server(
    settings: Settings, staged: Path
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Copy memories into a new graph, compare them, and yield what puts it in the place of ours.

    Until then the server's memories are unchanged; then they change in one step.
    """
    from zapomni_db.falkordb.client import FalkorDBClient

    address = settings.server
    assert address is not None
    # The braces keep both names on one machine of a cluster.
    aside = replace(address, graph=f"{{{address.graph}}}-restore-{uuid.uuid4().hex[:8]}")
    storage = {"storage": SecretStr(aside.url())}
    async with SqliteStorage(staged) as source:
        target = await open_storage(settings.model_copy(update=storage))
        assert isinstance(target, FalkorDBClient)
        moved = False

        async def take_over() -> None:
            nonlocal moved
            await target.rename_graph(address.graph)
            moved = True

        try:
            await copy_storage(source, target, _no_progress)
            original, copied = await compare_storages(source, target, _no_progress)
            if original != copied:
                raise DatabaseError("The server does not hold what was copied to it.")
            yield take_over
        finally:
            if not moved:
                await target.drop_graph()
            await target.close()


def check_database(database: Path) -> Mapping[str, str]:
    """Run the checks of `zapomni doctor` on a file; return what is wrong by the check's name."""
    prepare_file(database)
    with translated("checking"), closing(connect(database)) as connection:
        return check_integrity(connection)


async def keep_current(settings: Settings, reason: BackupReason) -> Path | None:
    """Copy what is stored now; a damaged database byte by byte. None if there is nothing."""
    database = settings.observations_path
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
