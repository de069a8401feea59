"""Read what `zapomni export` wrote, and merge it with the memories that are here.

An export is read twice: first every record is checked, then they are merged. A record that is not
valid is counted and passed over; the rest is imported. Importing again changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from zapomni_core.exceptions import ValidationError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.export_folder import ExportFolder
from zapomni_core.infra.logging import get_logger
from zapomni_core.shared.folders import real_path
from zapomni_core.shared.merging import MemoryState, merge_states
from zapomni_core.shared.records import (
    FORMAT,
    MAX_RECORD_BYTES,
    RecordedMerge,
    RecordedObservation,
    RecordedProject,
    RecordedSession,
    check_fields,
    check_record,
    load_object,
    parse_record,
    parse_tombstone,
    tombstone_path,
)
from zapomni_core.workflows.backup import back_up
from zapomni_core.workflows.export_memories import MAX_LINES_BYTES, check_folder
from zapomni_core.workflows.merge_memories import (
    MemoryMerges,
    MergeCounts,
    MergeReport,
    check_state,
)
from zapomni_db.copy_models import MergeCopy

if TYPE_CHECKING:
    from zapomni_core.modules.observations import Observations
    from zapomni_core.settings import Settings
    from zapomni_db.interfaces import StorageProvider
    from zapomni_db.sqlite.imports import SqliteImports

__all__ = ["ExportSource", "RecordImportReport", "RecordImports", "is_export"]

BATCH = 64
OBSERVATIONS_AT_ONCE = 500

Progress = Callable[[int, int], None]

logger = get_logger(__name__)


@dataclass
class RecordImportReport(MergeCounts):
    """What an import of an export did."""

    secrets: dict[str, int] = field(default_factory=dict)
    """How many secrets the added memories seem to have, by kind."""
    projects: int = 0
    merges: int = 0
    observations: int = 0
    trusted: bool = False
    batch: str = ""
    """What `zapomni import --undo` and `--trust` take; empty if nothing was added."""

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return asdict(self)

    def take(self, merged: MergeReport) -> None:
        """Take over what a merge counted."""
        self.added, self.changed, self.unchanged = merged.added, merged.changed, merged.unchanged
        self.both_changed, self.same_text = merged.both_changed, merged.same_text
        self.deleted, self.purged = merged.deleted, merged.purged
        self.links_dropped, self.untrusted = merged.links_dropped, merged.untrusted


def is_export(path: Path) -> bool:
    """Return whether a path looks like something that `zapomni export` wrote."""
    if path.is_dir():
        return (path / "zapomni.json").is_file()
    try:
        with path.open("rb") as file:
            return _is_header(file.readline(1 << 12))
    except OSError:
        return False


def _is_header(line: bytes) -> bool:
    try:
        return load_object(line).get("zapomni") == "export"
    except ValidationError:
        return False


# Where a folder has other objects than memories: a folder, and how the file's name ends.
_PART_FILES = {
    "project": ("", "projects.jsonl"),
    "merge": ("graph", "merges.jsonl"),
    "session": ("observations", ".jsonl"),
    "observation": ("observations", ".jsonl"),
}

M = TypeVar("M", RecordedProject, RecordedMerge, RecordedSession, RecordedObservation)


class _Entry(NamedTuple):
    """A valid record, and where it is: a file of the folder, or an offset in the file."""

    memory_id: str
    place: str | int


class ExportSource(AbstractContextManager["ExportSource"]):
    """An export to read: a folder, or a file of lines.

    Raises:
        ValidationError: It is something else, or written by a newer version.
        ProcessingError: EXPORT_001, another process works in the folder.
    """

    def __init__(self, path: Path) -> None:
        self._opened = ExitStack()
        self._places: dict[str, list[int]] = {}
        self.folder: ExportFolder | None = None
        self._file: IO[bytes] | None = None
        if path.is_dir():
            self.folder = self._opened.enter_context(ExportFolder(path))
            try:
                check_folder(self.folder)
            except BaseException:
                self._opened.close()
                raise
            return
        try:
            self._file = self._opened.enter_context(path.open("rb"))
        except OSError as error:
            raise ValidationError(
                "There is no such file, or it cannot be read", "VAL_004"
            ) from error
        first = self._file.readline(1 << 16)
        if not _is_header(first):
            self._opened.close()
            raise ValidationError(
                "This is no export of Zapomni: its first line does not say so.", "VAL_004"
            )
        version = load_object(first).get("format")
        if not isinstance(version, int) or version > FORMAT:
            self._opened.close()
            raise ValidationError(
                f"This export has format {version}, and this version reads up to {FORMAT}. "
                "Upgrade Zapomni: pip install -U zapomni",
                "VAL_004",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened.close()

    def entries(self, report: RecordImportReport) -> dict[str, _Entry]:
        """Check every record; return the valid ones by id."""
        found: dict[str, _Entry] = {}
        for place, data in self._everything():
            where = place if isinstance(place, str) else f"byte {place}"
            try:
                record = _parse_at(place, data)
            except ValidationError as error:
                report.read += 1
                report.skip(where, error.message)
                continue
            if "part" in record:
                self._places.setdefault(record["part"], []).append(int(place))
                continue
            report.read += 1
            if record["id"] in found:
                report.skip(where, "its id occurs twice")
                continue
            found[record["id"]] = _Entry(record["id"], place)
        return found

    def record(self, entry: _Entry) -> dict[str, Any]:
        """Return a record that was checked before.

        Raises:
            ValidationError: It was changed or removed meanwhile.
        """
        if isinstance(entry.place, str):
            assert self.folder is not None
            data = self.folder.read(entry.place)
        else:
            assert self._file is not None
            self._file.seek(entry.place)
            data = self._file.readline()
        record = parse_record(data or b"")
        if record["id"] != entry.memory_id:
            raise ValidationError("The export was changed while it was read", "VAL_004")
        return record

    def part(self, name: str, model: type[M], report: RecordImportReport) -> Iterator[M]:
        """Return the other objects of this kind, after all records were checked."""
        for place, line in self._lines_of(name):
            try:
                yield check_fields(model, load_object(line))
            except ValidationError as error:
                report.skip(place, error.message)

    def _lines_of(self, name: str) -> Iterator[tuple[str, bytes]]:
        if self.folder is None:
            assert self._file is not None
            for offset in self._places.get(name, ()):
                self._file.seek(offset)
                yield f"byte {offset}", self._file.readline()
            return
        for path in self.folder.files(*_PART_FILES[name]):
            if (name == "session") == path.endswith("sessions.jsonl"):
                data = self.folder.read(path, MAX_LINES_BYTES) or b""
                for number, line in enumerate(data.split(b"\n"), 1):
                    if line:
                        yield f"{path}:{number}", line

    def tombstones(self, report: RecordImportReport) -> dict[str, dict[str, Any]]:
        """Return the tombstones of deleted memories, after all records were checked."""
        found: dict[str, dict[str, Any]] = {}
        for place, data in self._graves():
            try:
                tombstone = parse_tombstone(data)
            except ValidationError as error:
                report.skip(place, error.message)
                continue
            if self.folder is not None and place != tombstone_path(tombstone["id"]):
                report.skip(place, "its file has another name than its id")
                continue
            found[tombstone["id"]] = tombstone
        return found

    def _graves(self) -> Iterator[tuple[str, bytes]]:
        if self.folder is None:
            yield from self._lines_of("tombstone")
            return
        for path in self.folder.files("tombstones", ".json"):
            try:
                yield path, self.folder.read(path) or b""
            except ValidationError:
                yield path, b""

    def _everything(self) -> Iterator[tuple[str | int, bytes | None]]:
        if self.folder is not None:
            for path in self.folder.files("memories", ".json"):
                try:
                    yield path, self.folder.read(path)
                except ValidationError:
                    yield path, b""  # A link: not followed, counted as no record.
            return
        assert self._file is not None
        while True:
            offset = self._file.tell()
            line = self._file.readline(MAX_RECORD_BYTES + 1)
            if not line:
                return
            if len(line) > MAX_RECORD_BYTES:
                while line and not line.endswith(b"\n"):
                    line = self._file.readline(1 << 20)
                yield offset, None
            elif line.strip():
                yield offset, line


def _parse_at(place: str | int, data: bytes | None) -> dict[str, Any]:
    if data is None:
        raise ValidationError("it is too large", "VAL_003")
    given = load_object(data)
    if isinstance(place, int) and isinstance(given.get("part"), str):
        return given
    record = check_record(given)
    if isinstance(place, str) and place.rpartition("/")[2] != f"{record['id']}.json":
        raise ValidationError("its file has another name than its id", "VAL_004")
    return record


class ExportStates:
    """What an export knows of memories, for a merge."""

    def __init__(self, source: ExportSource, report: RecordImportReport) -> None:
        self._source = source
        self._report = report
        self._entries = source.entries(report)
        self._tombstones = source.tombstones(report)
        self._refused: set[str] = set()

    def ids(self) -> Iterable[str]:
        """Return the ids of all memories it knows of."""
        return self._entries.keys() | self._tombstones.keys()

    def get(self, memory_id: str) -> MemoryState:
        """Return what it knows of a memory."""
        entry = self._entries.get(memory_id)
        tombstone = self._tombstones.get(memory_id)
        if entry is None and tombstone is None:
            return MemoryState()
        try:
            record = None if entry is None else self._source.record(entry)
            # Together in the form that merging gives them.
            return merge_states(
                check_state(MemoryState(record)), check_state(MemoryState(None, tombstone))
            )
        except ValidationError as error:
            if memory_id not in self._refused:
                self._refused.add(memory_id)
                self._report.skip(memory_id, error.message)
            return MemoryState()


@dataclass(frozen=True)
class RecordImports:
    """Stores records of exports; a door calls it as `engine.record_imports`."""

    storage: StorageProvider
    observations: Observations
    imports: SqliteImports
    settings: Settings
    merges: MemoryMerges

    @operation()
    async def import_export(
        self,
        path: Path,
        *,
        trusted: bool = False,
        dry_run: bool = False,
        observations: bool = False,
        progress: Progress = lambda *_: None,
    ) -> RecordImportReport:
        """Import an export folder or file of lines.

        Args:
            path: The folder or file.
            trusted: Whether sessions may be given what is new; otherwise it waits for the user.
            dry_run: Only count.
            observations: Import what agents did, too. Sessions are given context from it, so only
                if the user knows where the export comes from.
            progress: Called with how many records are done.

        Raises:
            ValidationError: It is no export, or written by a newer version; nothing was stored.
        """
        report = RecordImportReport(trusted=trusted)
        secrets: Counter[str] = Counter()
        source = await asyncio.to_thread(ExportSource, path)
        with source:
            states = await asyncio.to_thread(ExportStates, source, report)

            async def prepare(found: MergeReport) -> None:
                await back_up(self.settings, reason="before-import")
                if found.added:
                    asked = {"path": await asyncio.to_thread(real_path, str(path))}
                    batch = await self.imports.find_running("export", asked)
                    if batch is None:
                        batch = await self.imports.begin_batch("export", asked, int(time.time()))
                    report.batch = batch.id
                    # Before they are stored: an import that is killed can be taken back, too.
                    await self.imports.add_memories("export", batch.id, found.added_ids)

            merged = await self.merges.merge(
                states, dry_run=dry_run, trusted=trusted, check=prepare, progress=progress
            )
            report.take(merged)
            for memory_id in merged.added_ids:
                record = (await asyncio.to_thread(states.get, memory_id)).record
                if record is not None:
                    await asyncio.to_thread(self.merges.count_secrets, record, secrets)
            if not dry_run:
                await self._import_parts(source, report, observations=observations)
        report.secrets = dict(sorted(secrets.items()))
        if report.batch:
            _, stored = await self.imports.list_imported(report.batch)
            counts = {"kept": len(stored), "memories": len(stored)}
            await self.imports.end_batch(report.batch, counts, int(time.time()))
        logged = report.to_json()
        logger.info(
            "records_imported",
            skipped=logged.pop("skipped_count"),
            **{name: value for name, value in logged.items() if isinstance(value, int)},
        )
        return report

    async def _import_parts(
        self, source: ExportSource, report: RecordImportReport, *, observations: bool
    ) -> None:
        projects = await asyncio.to_thread(
            lambda: [one.model_dump() for one in source.part("project", RecordedProject, report)]
        )
        if projects:
            report.projects = await self.observations.import_projects(projects)
        report.merges = await self._import_merges(
            await asyncio.to_thread(lambda: list(source.part("merge", RecordedMerge, report)))
        )
        if not observations:
            return
        sessions = [one.model_dump() for one in source.part("session", RecordedSession, report)]
        batch: list[dict[str, Any]] = []
        for one in source.part("observation", RecordedObservation, report):
            batch.append(one.model_dump())
            if len(batch) == OBSERVATIONS_AT_ONCE:
                report.observations += await self.observations.import_observations(batch, sessions)
                batch, sessions = [], []
        report.observations += await self.observations.import_observations(batch, sessions)

    async def _import_merges(self, merges: Sequence[RecordedMerge]) -> int:
        """Add merges of entities that were neither made nor undone here; return how many."""
        here = await self.storage.export_merges()
        known = {(one.source_id, one.target_id) for one in here}
        new = [
            MergeCopy(automatic=False, **one.model_dump())
            for one in merges
            if (one.source_id, one.target_id) not in known and one.source_id != one.target_id
        ]
        if new:
            everything = sorted([*here, *new], key=lambda one: one.merged_at)
            await self.storage.import_merges(everything)
        return len(new)
