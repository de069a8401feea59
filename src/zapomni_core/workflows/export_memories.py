"""Export memories: as a folder of JSON files that is kept up to date, or as lines of JSON.

The folder is what git likes: one file per memory, its name the id, and a file is written only if
it would change. Nothing that another device put there is lost: a file whose memory is newer than
here is left for `zapomni import`.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from zapomni_core.exceptions import ValidationError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.device import device_id
from zapomni_core.infra.export_folder import ExportFolder
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.places import list_exports, note_export
from zapomni_core.modules.memories import parse_filters, without_code
from zapomni_core.shared.records import (
    FORMAT,
    dump_line,
    dump_record,
    load_object,
    memory_path,
    parse_record,
    to_merge,
    to_record,
    to_tombstone,
    tombstone_path,
    write_time,
)
from zapomni_core.workflows.backup import list_backups
from zapomni_db.values import from_time, to_time

if TYPE_CHECKING:
    from zapomni_core.modules.codebase import Citations
    from zapomni_core.settings import Settings
    from zapomni_core.workflows.projects import Projects
    from zapomni_db.copy_models import MemoryCopy
    from zapomni_db.interfaces import StorageProvider
    from zapomni_db.sqlite.deletions import SqliteDeletions

__all__ = [
    "MARKER",
    "PARTS",
    "ExportPart",
    "ExportReport",
    "Exports",
    "check_folder",
    "find_writer",
]

PAGE = 200
MARKER = "zapomni.json"
"""The file that says a folder is an export, and in which format."""
MAX_LINES_BYTES = 1 << 30
HEADER = {"format": FORMAT, "zapomni": "export"}

ExportPart = Literal["history", "citations", "projects", "graph", "observations"]
PARTS: tuple[ExportPart, ...] = get_args(ExportPart)
"""What is exported on request: old texts, cited code, projects, merged entities, observations."""

Progress = Callable[[int, int], None]

logger = get_logger(__name__)


@dataclass
class ExportReport:
    """What an export did."""

    memories: int = 0
    """How many were selected."""
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    """Files of memories that are deleted or no longer selected."""
    tombstones: int = 0
    newer: int = 0
    """Files left alone because the memory in them is newer than the one here."""
    unreadable: int = 0
    """Files left alone because they are damaged."""
    projects: int = 0
    merges: int = 0
    observations: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return asdict(self)


def check_folder(folder: ExportFolder, *, new: bool = False, kind: str = "export") -> bool:
    """Check that a folder is an export that this version can read; return whether it is one.

    Args:
        folder: The folder.
        new: Accept one that is empty but for hidden files and a README: an export may begin there.
        kind: What its marker must say it is.

    Raises:
        ValidationError: It is something else, or written by a newer version.
    """
    marker = folder.read(MARKER, 1 << 20)
    if marker is None:
        others = [
            name
            for name in folder.names()
            if not name.startswith(".") and not name.upper().startswith(("README", "LICENSE"))
        ]
        if new and not others:
            return False
        raise ValidationError(
            f"This folder is no export of Zapomni (it has no {MARKER}). Name an empty folder, or "
            "one that `zapomni export` made.",
            "VAL_004",
        )
    said = load_object(marker)
    version = said.get("format")
    if said.get("zapomni") != kind:
        raise ValidationError(
            "This folder is an export of another kind: memories as Markdown and memories as JSON "
            "are in different folders. Name another one.",
            "VAL_004",
        )
    if not isinstance(version, int) or version < 1:
        raise ValidationError(f"The {MARKER} of this folder is damaged: it has no format.")
    if version > FORMAT:
        raise ValidationError(
            f"This folder has format {version}, and this version reads up to {FORMAT}. Upgrade "
            "Zapomni: pip install -U zapomni",
            "VAL_004",
        )
    return True


class StoredCopy(NamedTuple):
    """A backup, or what was exported to a file or folder, as it is on the disk now."""

    path: str
    kind: str
    """`backup`, or what kind of export."""
    reason: str
    """Why a backup was made."""
    bytes: int
    made_at: datetime
    """When it was made; of an export when it was last changed."""


def _list_copies(settings: Settings) -> list[StoredCopy]:
    copies = [
        StoredCopy(str(one.path), "backup", one.reason, _size(one.path), one.made_at)
        for one in list_backups(settings)
    ]
    exports = []
    for path, kind in list_exports(settings).items():
        with suppress(OSError):
            changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            exports.append(StoredCopy(str(path), kind, "", _size(path), changed))
    return [*copies, *sorted(exports, key=lambda one: one.made_at, reverse=True)]


def _size(path: Path) -> int:
    """Return the bytes of a file, or of the files of a folder, as far as they can be read."""
    with suppress(OSError):
        if not path.is_dir():
            return path.stat().st_size
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - many
    return total


@dataclass(frozen=True)
class Exports:
    """Writes memories out of the store; a door calls it as `engine.exports`."""

    storage: StorageProvider
    citations: Citations
    projects: Projects
    deletions: SqliteDeletions
    settings: Settings

    async def list_copies(self) -> list[StoredCopy]:
        """Return the backups and exports that are still there, the newest first of each."""
        return await asyncio.to_thread(_list_copies, self.settings)

    @operation()
    async def to_folder(
        self,
        path: Path,
        filters: dict[str, Any],
        parts: Sequence[ExportPart] = (),
        progress: Progress = lambda *_: None,
    ) -> ExportReport:
        """Bring an export folder up to date with the memories that match.

        Raises:
            ValidationError: The folder is something else, or written by a newer version.
            ProcessingError: Another process works in it.
            OSError: The disk is full or refuses. What was written is whole; run it again.
        """
        report = ExportReport()
        ids = await self.select(filters)
        report.memories = len(ids)
        folder = await asyncio.to_thread(ExportFolder, path, create=True)
        with folder:
            is_old = await asyncio.to_thread(check_folder, folder, new=True)
            note_export(self.settings, path, "export")
            if not is_old:
                await asyncio.to_thread(folder.write, MARKER, dump_record(HEADER))
            done = 0
            async for page in self._records(ids, parts):
                await asyncio.to_thread(_write_page, folder, page, report)
                done += len(page)
                progress(done, len(ids))
            await self._remove_others(folder, set(ids), report)
            graves = await self._tombstones()
            await asyncio.to_thread(
                _write_tombstones, folder, graves, report, only_known=bool(filters)
            )
            async for name, objects in self._parts(filters, parts, report):
                await asyncio.to_thread(_add_lines, folder, f"{name}.jsonl", objects)
            await asyncio.to_thread(folder.flush)
        logger.info("memories_exported", **report.to_json())
        return report

    async def to_lines(
        self,
        path: Path | None,
        filters: dict[str, Any],
        parts: Sequence[ExportPart] = (),
        progress: Progress = lambda *_: None,
        *,
        out: IO[bytes] | None = None,
    ) -> ExportReport:
        """Write the memories that match as lines of JSON, by id, into a file or a stream.

        Raises:
            ValidationError: There is a file of this name that is no export.
            OSError: The disk is full or refuses; a file is what it was.
        """
        report = ExportReport()
        ids = await self.select(filters)
        report.memories = report.written = len(ids)
        if path is None:
            assert out is not None
            await self._write_lines(out, ids, filters, parts, progress, report)
            return report
        before = await asyncio.to_thread(_hash_lines, path)
        try:
            handle, written = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise ValidationError(
                "The folder of this file is missing or may not be written to.", "VAL_004"
            ) from error
        note_export(self.settings, path, "export")
        try:
            with os.fdopen(handle, "wb") as file:
                digest = await self._write_lines(file, ids, filters, parts, progress, report)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            if digest != before:
                os.replace(written, path)  # noqa: PTH105 - a coroutine
            else:
                report.written, report.unchanged = 0, len(ids)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(written)  # noqa: PTH108 - a coroutine
        return report

    async def _write_lines(
        self,
        file: IO[bytes],
        ids: Sequence[str],
        filters: dict[str, Any],
        parts: Sequence[ExportPart],
        progress: Progress,
        report: ExportReport,
    ) -> str:
        digest = hashlib.sha256()
        done = 0

        def write(lines: bytes) -> None:
            digest.update(lines)
            file.write(lines)

        write(dump_line(HEADER))
        async for page in self._records(ids, parts):
            await asyncio.to_thread(write, b"".join(map(dump_line, page)))
            done += len(page)
            progress(done, len(ids))
        # A selection says nothing about what it leaves out.
        for grave in await self._tombstones() if not filters else ():
            write(dump_line({"part": "tombstone", **grave}))
        async for name, objects in self._parts(filters, parts, report):
            kind = _LINE_PARTS.get(name, "observation")
            lines = [dump_line({"part": kind, **one}) for one in objects]
            await asyncio.to_thread(write, b"".join(lines))
        return digest.hexdigest()

    # --- selecting ----------------------------------------------------------------------

    async def select(self, given: dict[str, Any]) -> list[str]:
        """Return the ids of the memories that match; what was replaced is selected, too."""
        filters = without_code(parse_filters({"include_superseded": True, **given}))
        if filters.project is not None:
            filters, _ = await self.projects.narrow(filters, "")
        return await self.storage.list_ids(filters)

    async def _records(
        self, ids: Sequence[str], parts: Sequence[ExportPart]
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield records page by page, sorted by id."""
        own = await asyncio.to_thread(device_id, self.settings.home)
        writers = await self.deletions.list_writers()
        for start in range(0, len(ids), PAGE):
            wanted = ids[start : start + PAGE]
            copies = await self.storage.get_copies(wanted, passages=False)
            cited = await self.citations.store.get_citations(wanted) if "citations" in parts else {}
            yield [
                to_record(
                    one,
                    citations=cited.get(one.memory_id, []) if "citations" in parts else None,
                    history="history" in parts,
                    device=find_writer(one, writers, own),
                )
                for one in sorted(copies, key=_id_of)
            ]

    async def _parts(
        self, filters: dict[str, Any], parts: Sequence[ExportPart], report: ExportReport
    ) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
        """Yield what else is asked for: the name of its file, and its objects."""
        observations = self.projects.observations
        chosen: list[str] | None = None
        if wanted := filters.get("project"):
            chosen = (await observations.reach("", wanted)).projects
        if "projects" in parts:
            found = await observations.export_projects()
            known = [one for one in found if chosen is None or one["key"] in chosen]
            report.projects = len(known)
            yield "projects", known
        if "graph" in parts:
            # The others are made again where the memories are read.
            merges = [one for one in await self.storage.export_merges() if not one.automatic]
            report.merges = len(merges)
            yield "graph/merges", [to_merge(one) for one in merges]
        if "observations" in parts:
            yield "observations/sessions", await observations.export_sessions(chosen)
            for month in await observations.export_months(chosen):
                rows = await observations.export_month(month, chosen)
                report.observations += len(rows)
                yield f"observations/{month}", rows

    async def _tombstones(self) -> list[dict[str, Any]]:
        """Return the tombstones of deleted memories, by id; one that is here again has none."""
        deleted = [one for one in await self.deletions.list_all() if one.undone_at is None]
        here: set[str] = set()
        for start in range(0, len(deleted), PAGE):
            page = [one.memory_id for one in deleted[start : start + PAGE]]
            here |= (await self.storage.get_summaries(page)).keys()
        return [
            to_tombstone(
                one.memory_id,
                from_time(one.deleted_at),
                purged=one.purged,
                same_as=one.same_as,
                supersedes=one.supersedes,
                device=one.device,
            )
            for one in deleted
            if one.memory_id not in here
        ]

    async def _remove_others(
        self, folder: ExportFolder, selected: set[str], report: ExportReport
    ) -> None:
        """Remove the files of memories that are here but not selected."""
        there = await asyncio.to_thread(lambda: list(folder.files("memories", ".json")))
        others = {path.rpartition("/")[2].removesuffix(".json"): path for path in there}
        unselected = sorted(others.keys() - selected)
        for start in range(0, len(unselected), PAGE):
            known = await self.storage.get_summaries(unselected[start : start + PAGE])
            for memory_id, summary in known.items():
                path = others[memory_id]
                if _state(folder.read(path), write_time(summary.updated_at)) == "older":
                    folder.remove(path)
                    report.removed += 1


def find_writer(memory: MemoryCopy, writers: Mapping[str, tuple[int, str]], own: str) -> str | None:
    """Return the device that changed a memory last: this one, unless that change was merged.

    Args:
        memory: The memory.
        writers: The time and the device of merged changes, by memory.
        own: The id of this home.
    """
    at, device = writers.get(memory.memory_id, (0, ""))
    return (device or None) if at == to_time(memory.updated_at) else own


def _id_of(memory: MemoryCopy) -> str:
    return memory.memory_id


def _state(data: bytes | None, updated_at: str) -> Literal["older", "newer", "unreadable"]:
    """Compare a file with the memory here."""
    if data is None:
        return "older"
    try:
        return "newer" if parse_record(data)["updated_at"] > updated_at else "older"
    except ValidationError:
        return "unreadable"


def _write_page(
    folder: ExportFolder, records: Sequence[dict[str, Any]], report: ExportReport
) -> None:
    for record in records:
        path, grave = memory_path(record["id"]), tombstone_path(record["id"])
        data, before = dump_record(record), folder.read(path)
        if before == data:
            report.unchanged += 1
            continue
        state = _state(before, record["updated_at"])
        tombstone = folder.read(grave)
        if tombstone is not None and _deleted_at(tombstone) >= record["updated_at"]:
            state = "newer"  # Deleted on another device: `zapomni import` deletes it here.
        if state == "older":
            folder.write(path, data)
            report.written += 1
            if tombstone is not None:
                folder.remove(grave)
        elif state == "newer":
            report.newer += 1
        else:
            report.unreadable += 1


def _write_tombstones(
    folder: ExportFolder,
    tombstones: Sequence[dict[str, Any]],
    report: ExportReport,
    *,
    only_known: bool,
) -> None:
    """Replace the files of deleted memories by tombstones; a memory changed later stays.

    With `only_known` those of memories that the folder does not know are left out.
    """
    for tombstone in tombstones:
        path, grave = memory_path(tombstone["id"]), tombstone_path(tombstone["id"])
        record, before = folder.read(path), folder.read(grave)
        if only_known and record is None and before is None:
            continue
        if record is not None and _state(record, tombstone["deleted_at"]) != "older":
            report.newer += 1
            continue
        report.tombstones += 1
        if before is None or _deleted_at(before) < tombstone["deleted_at"]:
            folder.write(grave, dump_record(tombstone))
        # The tombstone first: a process may be killed in between.
        report.removed += folder.remove(path)


# What lines of JSON are, by the name of the file they would be in; otherwise observations.
_LINE_PARTS = {
    "projects": "project",
    "graph/merges": "merge",
    "observations/sessions": "session",
}
_IDENTITY = ("timestamp", "merged_at", "key", "id", "source_id", "target_id", "event_hash")


def _add_lines(folder: ExportFolder, path: str, objects: Sequence[dict[str, Any]]) -> None:
    """Add lines to a file; what other devices wrote into it stays."""
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}

    def add(one: dict[str, Any]) -> None:
        lines[tuple(str(one.get(name, "")) for name in _IDENTITY)] = one

    for line in (folder.read(path, MAX_LINES_BYTES) or b"").split(b"\n"):
        with suppress(ValidationError):
            add(load_object(line))
    for one in objects:
        add(one)
    ordered = b"".join(dump_line(one) for _, one in sorted(lines.items()))
    folder.write(path, ordered, MAX_LINES_BYTES)


def _deleted_at(tombstone: bytes) -> str:
    try:
        return str(load_object(tombstone).get("deleted_at", ""))
    except ValidationError:
        return ""


def _hash_lines(path: Path) -> str:
    """Return the hash of an export of lines; "" if there is no file.

    Raises:
        ValidationError: The file is something else.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            first = file.readline(1 << 16)
            if first.strip() and first != dump_line(HEADER):
                raise ValidationError(
                    "There is a file of this name that is no export. Name another one.", "VAL_004"
                )
            digest.update(first)
            while block := file.read(1 << 20):
                digest.update(block)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()
