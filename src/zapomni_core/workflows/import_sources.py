"""Importing what other programs keep: find it, read it, redact it, store it once.

A source (`adapters/sources/`) streams items; events pass the extractors of hooks and become
observations, texts become memories that are not trusted. Items are stored in small steps, each with
the offset its file is read to, in one transaction: a run that is killed continues there, and a
record that is read again is recognized by the id it has in its source.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zapomni_core.adapters.sources import (
    DATABASES,
    EDITED,
    KNOWN_SESSION,
    OF_FOLDER,
    SOURCES,
    FormatError,
    FoundFile,
    ImportedEvent,
    ImportedMemory,
    ImportSource,
    Item,
    SkippedRecord,
    SourceEnvironment,
    UnreadableFileError,
    get_source,
    open_regular,
)
from zapomni_core.exceptions import EmbeddingError, NotFoundError, ValidationError
from zapomni_core.infra.capture_key import capture_key
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.projects import Project, project_of
from zapomni_core.interfaces import AddMemoryRequest, UpdateMemoryRequest
from zapomni_core.modules.observations import (
    PayloadError,
    extract,
    hash_event,
    make_row,
    read_event,
    strip_injected,
)
from zapomni_core.settings import Settings
from zapomni_core.shared.folders import real_path
from zapomni_core.shared.privacy import PrivatePaths, strip_private
from zapomni_core.workflows.add_memory import MemoryWriter
from zapomni_core.workflows.backup import back_up
from zapomni_db.models import MemoryRecord
from zapomni_db.sqlite.imports import (
    ImportBatch,
    ImportChange,
    ImportFile,
    SqliteImports,
    add_counts,
)
from zapomni_db.values import to_time

if TYPE_CHECKING:
    from zapomni_core.shared.redaction import Redactor
    from zapomni_core.workflows.trash import Trash

__all__ = ["FoundSource", "ImportReport", "ImportRequest", "Imports", "UndoneImport", "has_sources"]

TASK = "import_source"
# One transaction: short enough for a hook that waits.
STEP_ITEMS, STEP_BYTES = 200, 4 * 1024 * 1024
# Texts of memories are cut into passages, each with its own copy.
STEP_TEXT = 1024 * 1024
HEAD = 4096
# What its program deletes within this time should be imported now.
SOON = timedelta(days=7)
# Hooks and transcripts take the time of an event a moment apart.
OVERLAP_SECONDS = 5
MAX_REASONS = 50
MAX_GONE = 100
MAX_PATH = 4096
# What a memory may have: a record that has more is cut, not left out.
MAX_TEXT, MAX_NAME, MAX_TAGS = 10_000_000, 200, 50
MAX_KEYS, MAX_VALUE, MAX_DEPTH, MAX_METADATA = 40, 1000, 8, 90_000

Report = Callable[..., Awaitable[None]]

logger = get_logger(__name__)


@dataclass(frozen=True)
class ImportRequest:
    """What to import."""

    source: str
    path: str = ""
    """A file or folder instead of the places that the source knows."""
    project: str = ""
    """A project's name for everything, instead of the one each record is from."""
    since: int = 0
    """Leave out what is older: seconds since 1970."""
    folder: str = ""
    """Where the user is, for sources that are part of a repository."""


@dataclass(frozen=True)
class FoundSource:
    """What there is of a source on this machine."""

    name: str
    title: str
    records: int
    files: int
    bytes: int
    oldest: datetime
    newest: datetime
    new_files: int
    """How many of the files were not imported, or were changed since."""
    deleted_soon: int
    """How many of those their program deletes within a week."""
    next_deletion: datetime | None


@dataclass
class ImportReport:
    """What an import did so far."""

    source: str
    batch: str | None = None
    """For `--undo`; None if nothing was stored."""
    read: int = 0
    kept: int = 0
    observations: int = 0
    memories: int = 0
    updated: int = 0
    """Memories whose records have changed."""
    duplicates: int = 0
    """Imported before, captured by a hook, or twice in the source."""
    files: int = 0
    unchanged: int = 0
    """Files that were read before."""
    skipped: dict[str, int] = field(default_factory=dict)
    """What was left out, by the reason."""
    gone: dict[str, list[str]] = field(default_factory=dict)
    """Files that are no longer there, and their memories, which are kept."""

    def skip(self, reason: str, count: int = 1) -> None:
        """Count what is left out; reasons of a hostile file do not grow without end."""
        if reason not in self.skipped and len(self.skipped) >= MAX_REASONS:
            reason = "other"
        self.skipped[reason] = self.skipped.get(reason, 0) + count


@dataclass(frozen=True)
class UndoneImport:
    """What taking an import back removed."""

    batch: str
    observations: int
    memories: int
    trash: str
    """The batch of the trash that has the memories; empty: none had to be removed."""
    returned: int = 0
    """Memories that the import had changed and that have their earlier text again."""


class Imports:
    """Imports from other programs. Doors call it as `engine.imports`."""

    def __init__(
        self,
        store: SqliteImports,
        settings: Settings,
        writer: MemoryWriter,
        trash: Trash,
        submit: Callable[[str, Mapping[str, Any]], Awaitable[str]],
        get_redactor: Callable[[], Redactor],
    ) -> None:
        self._store = store
        self._settings = settings
        self._writer = writer
        self._trash = trash
        self._submit = submit
        self._get_redactor = get_redactor

    # --- what there is ----------------------------------------------------------------------

    @operation()
    async def list_sources(self, folder: str = "", path: str = "") -> list[FoundSource]:
        """Return the sources that have something on this machine."""
        environment = _environment(folder, path)
        found = []
        for name in SOURCES:
            files = await asyncio.to_thread(_find_quietly, name, environment)
            if files:
                known = await self._store.list_files(name)
                found.append(await asyncio.to_thread(_summarize, name, files, known))
        return found

    async def list_batches(self) -> list[ImportBatch]:
        """Return what was imported, the newest first."""
        return await self._store.list_batches()

    # --- importing --------------------------------------------------------------------------

    async def submit(self, request: ImportRequest) -> str:
        """Queue an import as a background task and return its id.

        Raises:
            ValidationError: There is no such source, or nothing of it at the path.
        """
        await self._find(request)
        return await self._submit(TASK, asdict(request))

    @operation()
    async def preview(self, request: ImportRequest) -> ImportReport:
        """Read everything and return what an import would do, about; nothing is stored."""
        return await self._run(request, _report_nothing, dry_run=True)

    async def run(self, params: Mapping[str, Any], report: Report) -> dict[str, Any]:
        """Import, as the handler of a task; called again, it continues."""
        return asdict(await self._run(ImportRequest(**params), report, dry_run=False))

    async def _find(self, request: ImportRequest) -> tuple[ImportSource, list[FoundFile]]:
        if request.source not in SOURCES:
            raise ValidationError(f"There is no source of this name: {', '.join(SOURCES)}.")
        source = get_source(request.source)
        try:
            files = await asyncio.to_thread(source.find, _environment(request.folder, request.path))
        except FormatError as error:
            raise ValidationError(str(error), "VAL_004") from error
        except OSError as error:
            raise ValidationError("The path cannot be read.", "VAL_004") from error
        return source, files

    async def _run(self, request: ImportRequest, report: Report, *, dry_run: bool) -> ImportReport:
        source, files = await self._find(request)
        known = await self._store.list_files(source.name)
        run = _Run(self._store, self._settings, self._writer, self._get_redactor(), request)
        await run.prepare(dry_run=dry_run)
        plan = [
            (file, *await asyncio.to_thread(_choose_start, file, known, request)) for file in files
        ]
        total = sum(one.bytes - (start or 0) for one, start, _ in plan if start is not None)
        done, problem = 0, ""
        title = f"Reading {source.title}"
        for file, start, state in plan:
            if start is None or state is None:
                run.report.unchanged += 1
                continue
            if request.since and file.newest.timestamp() < request.since:
                run.report.skip("file older than --since")
                continue
            run.report.files += 1
            try:
                async for reached in run.read(source, file, state, start):
                    await report((done + reached - start) // 1024, total // 1024 or 1, title)
            except FormatError as error:
                problem = str(error)
                run.report.skip(error.reason)
            done += file.bytes - start
        if problem and not run.report.read:
            raise ValidationError(problem, "VAL_004")
        run.report.gone = await run.find_gone(source, known)
        await run.finish()
        if run.report.memories or run.report.updated:
            await self._embed(report)
        logger.info(
            "import_finished",
            source=source.name,
            batch=run.report.batch,
            dry_run=dry_run,
            read=run.report.read,
            kept=run.report.kept,
        )
        return run.report

    async def _embed(self, report: Report) -> None:
        """Make the vectors of what was imported; without a model they stay pending."""
        if not self._writer.memories.embeddings.embedders:
            return
        await report(0, None, "Making vectors")
        try:
            await self._writer.memories.fill_pending()
        except EmbeddingError as error:
            logger.warning("vectors_still_pending", error_code=error.error_code)

    # --- what was imported --------------------------------------------------------------------

    async def _batch(self, batch_id: str) -> ImportBatch:
        batch = await self._store.get_batch(batch_id)
        if batch is None or batch.state == "undone":
            raise NotFoundError("No import has this id, or it was undone.", "IMPORT_001")
        return batch

    @operation()
    async def undo(self, batch_id: str) -> UndoneImport:
        """Remove what a batch imported; it can be imported again.

        Raises:
            NotFoundError: There is no such batch.
        """
        batch = await self._batch(batch_id)
        observations, memories = await self._store.list_imported(batch.id)
        changes = await self._store.list_changes(batch.id)
        returned = [await self._return(one) for one in changes if one.memory not in memories]
        trash = ""
        if memories:
            with suppress(NotFoundError):  # The user was first.
                trash = (await self._trash.put(memories, "import")).batch
        removed = await self._writer.projects.observations.delete(observations)
        await self._store.forget_batch(batch.id, int(time.time()))
        return UndoneImport(batch.id, removed, len(memories), trash, sum(returned))

    async def _return(self, change: ImportChange) -> bool:
        """Give a memory the text it had before an import; False if it was changed since."""
        try:
            history = await self._writer.memories.get_history(change.memory)
        except NotFoundError:
            return False  # The user deleted it.
        versions = [one for one in history if one.memory_id == change.memory]
        times = [to_time(one.valid_from) for one in versions]
        if change.was_at not in times:
            return False
        before = times.index(change.was_at)
        if (change.changed_at or times[min(before + 1, len(times) - 1)]) != times[-1]:
            return False
        old = versions[before]
        await self._writer.update(
            UpdateMemoryRequest(
                memory_id=change.memory,
                text=old.text,
                trusted=bool(change.trusted),
                **{name: old.fields[name] for name in ("kind", "metadata", "tags")},
            )
        )
        return True

    async def list_untrusted(self, batch_id: str) -> list[str]:
        """Return the memories of a batch that no session is given yet.

        Raises:
            NotFoundError: There is no such batch.
        """
        batch = await self._batch(batch_id)
        _, memories = await self._store.list_imported(batch.id)
        found = await self._writer.projects.storage.get_summaries(memories)
        return [one for one in memories if one in found and not found[one].trusted]

    @operation()
    async def trust(self, batch_id: str) -> int:
        """Let sessions be given the memories of a batch; return how many there are.

        Raises:
            NotFoundError: There is no such batch.
        """
        batch = await self._batch(batch_id)
        _, memories = await self._store.list_imported(batch.id)
        changed = [one.memory for one in await self._store.list_changes(batch.id)]
        trusted = 0
        for memory_id in dict.fromkeys([*memories, *changed]):
            try:
                await self._writer.update(UpdateMemoryRequest(memory_id=memory_id, trusted=True))
            except NotFoundError:
                continue
            trusted += 1
        return trusted


def has_sources(folder: str) -> bool:
    """Return whether there is anything to import; without opening, or making, a database."""
    environment = _environment(folder, "")
    return any(_find_quietly(name, environment) for name in SOURCES)


def _find_quietly(name: str, environment: SourceEnvironment) -> list[FoundFile]:
    try:
        return get_source(name).find(environment)
    except (FormatError, OSError):
        return []


async def _report_nothing(*_: Any) -> None:
    await asyncio.sleep(0)


def _environment(folder: str, path: str) -> SourceEnvironment:
    here = Path(folder) if folder else Path.cwd()
    named = Path(path).expanduser().absolute() if path else None
    return SourceEnvironment(Path.home(), os.environ, here, named)


def _summarize(
    name: str, files: Sequence[FoundFile], known: Mapping[str, ImportFile]
) -> FoundSource:
    request = ImportRequest(name)
    new = [one for one in files if _choose_start(one, known, request)[0] is not None]
    limit = datetime.now(UTC) + SOON
    deletions = sorted(
        one.deleted_after for one in new if one.deleted_after is not None and one.records
    )
    return FoundSource(
        name,
        get_source(name).title,
        sum(one.records for one in files),
        len(files),
        sum(one.bytes for one in files),
        min(one.oldest for one in files),
        max(one.newest for one in files),
        len(new),
        sum(moment <= limit for moment in deletions),
        deletions[0] if deletions else None,
    )


def _list_missing(paths: Sequence[str]) -> list[str]:
    """Return files that are no longer there, unless all that was around them is missing, too."""
    return [
        path
        for path in paths
        if not os.path.lexists(path)
        and any(folder.is_dir() for folder in list(Path(path).parents)[:2])
    ]


def _choose_start(
    file: FoundFile, known: Mapping[str, ImportFile], request: ImportRequest
) -> tuple[int | None, ImportFile | None]:
    """Return where to begin reading, and the file's state; None: it was read as it is."""
    path = str(file.path)
    seen = known.get(path)
    head = str(file.data.get("stamp") or "").encode()
    try:
        state = file.path.stat()
        size, mtime = state.st_size, state.st_mtime_ns
        if file.path.suffix in DATABASES:
            # What was written last is in the log, and the database as it was.
            with contextlib.suppress(OSError):
                log = file.path.with_name(f"{file.path.name}-wal").stat()
                size += log.st_size
                mtime = max(mtime, log.st_mtime_ns) if log.st_size else mtime
        elif file.path.is_file():
            with open_regular(file.path) as stream:
                # A file that grows keeps its first line.
                head += stream.readline(HEAD)
        else:
            # What is in a folder changes without the folder.
            size, mtime = file.bytes, int(file.newest.timestamp())
        head = hashlib.blake2b(head, digest_size=16).digest()
    except OSError:
        return 0, ImportFile(path, 0, -1, 0, b"", 0, request.since)
    now = ImportFile(path, state.st_ino, size, mtime, head, 0, request.since)
    if seen is None or seen.since > request.since or seen.head != head:
        return 0, now
    now = now._replace(since=max(seen.since, request.since))
    if seen.size == size and seen.mtime == mtime:
        return None, now
    return (seen.byte_offset if seen.byte_offset <= size else 0), now


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _take(iterator: Iterator[Item], start: int) -> tuple[list[Item], bool]:
    """Return the items of the next step, and whether there may be more."""
    items: list[Item] = []
    size = 0
    for item in iterator:
        items.append(item)
        size += _weigh(item)
        if len(items) >= STEP_ITEMS or size >= STEP_TEXT or item.resume - start >= STEP_BYTES:
            return items, True
    return items, False


def _weigh(item: Item) -> int:
    """Return about how many characters an item has: a step must fit into memory."""
    if isinstance(item, SkippedRecord):
        return 0
    values: list[Any] = [item.text] if isinstance(item, ImportedMemory) else [item.payload]
    size = 0
    for _ in range(1000):
        if not values:
            break
        value = values.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            values += value
    return size


class _Run:
    """One run of an import: the files one after another, a step at a time."""

    def __init__(
        self,
        store: SqliteImports,
        settings: Settings,
        writer: MemoryWriter,
        redactor: Redactor,
        request: ImportRequest,
    ) -> None:
        self.report = ImportReport(request.source)
        self._store = store
        self._settings = settings
        self._writer = writer
        self._redactor = redactor
        self._request = request
        self._private = PrivatePaths(settings.private_paths)
        self._projects: dict[str, Project] = {}
        self._given: Project | None = None
        self._named: dict[str, Project | None] = {}
        self._captured: dict[str, tuple[int, int] | None] = {}
        self._has_work: dict[str, bool] = {}
        self._seen: set[bytes] = set()
        self._key = b""
        self._dry_run = False
        self._batch: ImportBatch | None = None

    async def prepare(self, *, dry_run: bool) -> None:
        """Find the project that was asked for, and the batch that was not ended."""
        self._dry_run = dry_run
        self._key = await asyncio.to_thread(capture_key, str(self._settings.home))
        if wanted := self._request.project:
            self._given = await self._find_project(wanted)
        if not dry_run:
            # What hooks captured counts, stored or waiting.
            await self._writer.projects.observations.drain_spool()
            asked = self._asked()
            self._batch = await self._store.find_running(self._request.source, asked)
        if self._batch is not None:
            self.report = ImportReport(**{**asdict(self.report), **self._batch.counts})
            self.report.batch = self._batch.id
            self.report.unchanged = 0

    async def _find_project(self, wanted: str) -> Project | None:
        observations = self._writer.projects.observations
        key = await observations.place("", wanted)
        return Project(key, (await observations.names()).get(key, wanted)) if key else None

    def _asked(self) -> dict[str, Any]:
        asked = asdict(self._request)
        del asked["source"], asked["folder"]
        if self._request.source in OF_FOLDER and not self._request.path:
            # The same import in another repository is another one.
            folder = self._request.folder or str(Path.cwd())
            asked["repository"] = self._project(folder).root or folder
        return asked

    async def read(
        self, source: ImportSource, file: FoundFile, state: ImportFile, start: int
    ) -> Any:
        """Read a file to its end; yield how far it is read after each step."""
        iterator = source.read(file, start)
        offset, more, count = start, True, 0
        natives: set[bytes] = set()
        try:
            while more:
                try:
                    items, more = await asyncio.to_thread(_take, iterator, offset)
                except OSError as error:
                    raise UnreadableFileError("The file cannot be read.") from error
                if items:
                    offset = items[-1].resume
                # What is still open at its end is read again, once it has grown or is quiet.
                is_read = not more and (offset == 0 or offset >= state.size)
                here = state._replace(byte_offset=offset, size=state.size if is_read else -1)
                await self._step(items, here, file.newest)
                count += len(items)
                if source.name in EDITED:
                    natives.update(
                        _hash(one.native_id) for one in items if isinstance(one, ImportedMemory)
                    )
                # Without offsets: what the source says, or by how many records there are.
                share = min(1.0, count / file.records) if file.records > 1 else 0.0
                reached = max(file.progress.bytes, int(share * file.bytes))
                yield max(offset, start, min(reached, file.bytes))
            if natives and not self._dry_run:
                await self._store.place_items(source.name, _hash(str(file.path)), list(natives))
        finally:
            await asyncio.to_thread(_close, iterator)

    async def find_gone(
        self, source: ImportSource, known: Mapping[str, ImportFile]
    ) -> dict[str, list[str]]:
        """Return what was imported and is no longer there: files, and their memories."""
        if source.name not in EDITED:
            return {}
        within = Path(real_path(self._request.path) if self._request.path else "/")
        files = {_hash(path): path for path in known if Path(path).is_relative_to(within)}
        found: dict[str, list[str]] = {}
        for file, memory in await self._store.list_gone(source.name):
            if file in files:
                found.setdefault(files[file], []).append(memory)
        for path in await asyncio.to_thread(_list_missing, list(files.values())):
            found[path] = await self._store.list_of_file(source.name, _hash(path))
        return {
            path: current
            for path, memories in sorted(found.items())[:MAX_GONE]
            if (current := [one for one in memories if await self._find_memory(one)])
        }

    async def _find_memory(self, memory_id: str) -> MemoryRecord | None:
        """Return a memory that was imported; None if the user has deleted it."""
        try:
            return await self._writer.memories.get(memory_id)
        except NotFoundError:
            return None

    async def finish(self) -> None:
        """Close the batch; one that stored nothing is not kept."""
        if self._batch is None:
            return
        if self.report.kept or self.report.updated:
            counts = {**asdict(self.report), "batch": self._batch.id}
            await self._store.end_batch(self._batch.id, counts, int(time.time()))
        else:
            await self._store.drop_batch(self._batch.id)
            self.report.batch = None

    # --- one step ---------------------------------------------------------------------------

    async def _step(self, items: Sequence[Item], file: ImportFile, newest: datetime) -> None:
        items = [_fit(one) if isinstance(one, ImportedMemory) else one for one in items]
        named = [one for one in items if not isinstance(one, SkippedRecord)]
        natives = {one.native_id: _hash(one.native_id) for one in named}
        known = await self._store.get_items(self._request.source, list(natives.values()))
        for session in {one.session_id for one in named if one.session_id} - set(self._captured):
            self._captured[session] = await self._store.find_captured(session)
        remnants = {
            one.session_id for one in named if isinstance(one, ImportedEvent) and one.is_remnant
        }
        for session in remnants - set(self._has_work):
            self._has_work[session] = await self._store.has_work(session)
        events: list[tuple[bytes, ImportedEvent]] = []
        texts: list[tuple[bytes, ImportedMemory]] = []
        changed: list[tuple[bytes, ImportedMemory, str]] = []
        linked: list[tuple[ImportedMemory, str]] = []
        if not self._dry_run:
            self._seen.clear()  # What earlier steps read is stored.
        for item in items:
            if isinstance(item, SkippedRecord):
                self.report.read += item.count
                self.report.skip(item.reason, item.count)
                continue
            self.report.read += 1
            native = natives[item.native_id]
            before = known.get(native)
            if isinstance(item, ImportedMemory) and before is not None and before.memory:
                # Which record it replaces may have become known since.
                linked.append((item, before.memory))
            if (
                isinstance(item, ImportedMemory)
                and item.follows
                and before is not None
                and before.memory
                and before.hash != _hash(_full_text(item))
            ):
                changed.append((native, item, before.memory))
            elif before is not None or native in self._seen:
                self.report.duplicates += 1
            elif reason := self._reason_to_skip(item):
                self.report.skip(reason)
            elif isinstance(item, ImportedEvent):
                self._seen.add(native)
                events.append((native, item))
            else:
                self._seen.add(native)
                texts.append((native, item))
        # Earlier texts of a record that is here already: they are in its history, or unknown here.
        earlier = {one for item, _ in linked if item.follows for one in _replaced(item)}
        for native, item in reversed(texts):
            if native in earlier and not item.follows:
                earlier.update(_replaced(item))
                self.report.skip("earlier text of a known record")
        texts = [(native, item) for native, item in texts if item.follows or native not in earlier]
        for project in {one.project for _, one in events if one.project} - set(self._named):
            self._named[project] = await self._find_project(self._redactor.redact(project)[0])
        rows = await asyncio.to_thread(self._make_rows, events, newest)
        if self._dry_run:
            self._count({"stored": len(rows)})
            self.report.memories += len(texts)
            self.report.kept += len(texts)
            self.report.updated += len(changed)
            return
        links = any(item.supersedes for item, _ in linked)
        if self._batch is None and not (rows or texts or changed or links):
            # Nothing to store: that takes no backup, and no batch to undo.
            await self._store.note_file(self._request.source, file)
            return
        batch = await self._begin()
        memories = [*await self._add(texts, newest), *await self._change(changed, newest)]
        ids = {native: memory_id for native, memory_id, _ in memories if memory_id}
        linked += [(item, ids[native]) for native, item in texts if native in ids]
        for item, memory_id in linked:
            if item.supersedes:
                await self._link(item, memory_id, ids)
        counts = {**asdict(self.report), "batch": batch.id}
        became = await self._store.store_step(
            self._request.source, batch.id, rows, memories, file, counts
        )
        self._count(became)

    def _count(self, became: Mapping[str, int]) -> None:
        self.report = ImportReport(**add_counts(asdict(self.report), became))

    def _reason_to_skip(self, item: ImportedEvent | ImportedMemory) -> str:
        when = item.when.timestamp() if item.when is not None else None
        if self._request.since and when is not None and when < self._request.since:
            return "older than --since"
        if isinstance(item, ImportedMemory):
            file = item.metadata.get("file")
            if isinstance(file, str) and self._private.match(file):
                return "private file"
        if captured := self._captured.get(item.session_id):
            first, last = captured[0] - OVERLAP_SECONDS, captured[1] + OVERLAP_SECONDS
            if when is None or first < when < last:
                return "captured by hooks already"
        if isinstance(item, ImportedEvent) and item.is_remnant and self._has_work[item.session_id]:
            return KNOWN_SESSION
        return ""

    async def _begin(self) -> ImportBatch:
        if self._batch is None:
            await back_up(self._settings, reason="before-import")
            self._batch = await self._store.begin_batch(
                self._request.source, self._asked(), int(time.time())
            )
            self.report.batch = self._batch.id
        return self._batch

    def _make_rows(
        self, events: Sequence[tuple[bytes, ImportedEvent]], newest: datetime
    ) -> list[tuple[bytes, dict[str, Any]]]:
        """Return the observations of events, as a hook would have made them."""
        rows = []
        for native, item in events:
            try:
                event = read_event(strip_private(item.payload), item.host)
            except PayloadError:
                self.report.skip("incomplete record")
                continue
            if event is None:
                self.report.skip("nothing to remember")
                continue
            event.cwd = event.cwd[:MAX_PATH]
            if self._private.concern(event.data):
                self.report.skip("private file")
                continue
            observation = extract(event, self._redactor, self._key)
            if observation is None:
                self.report.skip("nothing to remember")
                continue
            if item.when is None:
                observation.metadata["time"] = "file"
            named = self._given or self._named.get(item.project)
            project = named or self._project(event.cwd)
            trusts_all = named is not None or self._settings.trust == "all"
            mine = () if event.event_id else ("import", self._request.source, item.native_id)
            row = make_row(
                event,
                observation,
                Project(
                    project.key,
                    project.name,
                    item.branch or project.branch,
                    project.root,
                    project.identity,
                    project.main,
                ),
                self._redactor,
                hash_event(event, self._key, *mine),
                folder="" if trusts_all else project.root,
                moment=int((item.when or newest).timestamp()),
            )
            rows.append((native, row))
        return rows

    def _project(self, folder: str) -> Project:
        if folder not in self._projects:
            roots = str(self._settings.home / "roots.json")
            self._projects[folder] = project_of(folder, roots)
        return self._projects[folder]

    # --- memories ---------------------------------------------------------------------------

    async def _add(
        self, texts: Sequence[tuple[bytes, ImportedMemory]], newest: datetime
    ) -> list[tuple[bytes, str | None, bytes]]:
        stored: list[tuple[bytes, str | None, bytes]] = []
        ids: dict[bytes, str] = {}
        group: list[tuple[bytes, ImportedMemory, AddMemoryRequest]] = []

        async def flush() -> None:
            for native, item, memory_id in await self._store_group(group):
                if memory_id:
                    ids[native] = memory_id
                stored.append((native, memory_id, _hash(_full_text(item))))
            group.clear()

        for native, item in texts:
            replaced = None
            if older := _replaced(item)[:1]:
                if any(older[0] == other for other, _, _ in group):
                    await flush()
                replaced = next(iter(await self._find_replaced(older, ids)), None)
            group.append((native, item, await self._request_for(native, item, replaced, newest)))
        await flush()
        return stored

    async def _find_replaced(self, older: Sequence[bytes], ids: Mapping[bytes, str]) -> list[str]:
        """Return the memories of records that another one replaces, as far as they are imported."""
        before = await self._store.get_items(self._request.source, older)
        found = [ids.get(one) or (before[one].memory if one in before else None) for one in older]
        return [one for one in found if one]

    async def _link(self, item: ImportedMemory, memory_id: str, ids: Mapping[bytes, str]) -> None:
        """Let a memory replace those that its record does, if nothing has replaced them yet."""
        older = [
            one
            for one in await self._find_replaced(_replaced(item), ids)
            if one != memory_id
            and (found := await self._find_memory(one)) is not None
            and found.superseded_by is None
        ]
        if not older:
            return
        try:
            await self._writer.update(UpdateMemoryRequest(memory_id=memory_id, supersedes=older))
        except NotFoundError:
            self.report.skip("forgotten by the user")
        except ValidationError:
            self.report.skip("replaces a later record")

    async def _request_for(
        self, native: bytes, item: ImportedMemory, replaced: str | None, newest: datetime
    ) -> AddMemoryRequest:
        metadata = dict(item.metadata)
        if item.title:
            metadata.setdefault("title", item.title)
        if item.when is None:
            metadata.setdefault("time", "file")
        folder = item.folder[:MAX_PATH]
        project = self._request.project or self._redactor.redact(item.project)[0]
        if self._request.project:
            folder = ""
        elif folder:
            scope = await self._writer.projects.observations.scope(folder)
            if not scope.project.identity:
                # It is no longer there: what hooks did in it has its path as the key.
                folder, project = "", project or scope.key
        return AddMemoryRequest(
            text=_full_text(item),
            metadata=metadata,
            project=project,
            folder=folder,
            source=self._request.source,
            kind=item.kind,
            tags=list(item.tags),
            pinned=item.pinned,
            idempotency_key=f"import:{self._request.source}:{native.hex()}",
            supersedes=replaced,
            parent=self._redactor.redact(item.parent)[0],
            position=item.position,
            occurred_at=item.when or newest,
            origin=f"import:{self._request.source}",
            trusted=False,
            cites=list(item.cites) if folder else [],
            redact=True,
        )

    async def _store_group(
        self, group: Sequence[tuple[bytes, ImportedMemory, AddMemoryRequest]]
    ) -> list[tuple[bytes, ImportedMemory, str | None]]:
        if not group:
            return []
        try:
            answers = await self._writer.add([one[2] for one in group], embed=False)
        except (ValidationError, NotFoundError):
            if len(group) == 1:
                native, item, request = group[0]
                if request.cites:
                    # What it cites cannot be read there; the text can still be stored.
                    request = request.model_copy(update={"cites": []})
                    return await self._store_group([(native, item, request)])
                self.report.skip("not storable")
                return []
            # One of them is at fault: each by itself.
            single = [await self._store_group([one]) for one in group]
            return [found for part in single for found in part]
        for answer in answers:
            created = answer.status != "duplicate"  # Also by a run that was killed then.
            self.report.memories += created
            self.report.kept += created
            self.report.duplicates += not created
        # A text that was there already is not this import's: it must not follow a file, and taking
        # the import back must not remove it.
        return [
            (native, item, None if answer.status == "duplicate" else answer.memory_id)
            for (native, item, _), answer in zip(group, answers, strict=True)
            if answer.status != "duplicate" or not item.follows
        ]

    async def _change(
        self, changed: Sequence[tuple[bytes, ImportedMemory, str]], newest: datetime
    ) -> list[tuple[bytes, str, bytes]]:
        """Give memories the text that their records have now; the old one is in their history."""
        done = []
        for native, item, memory_id in changed:
            text = _full_text(item)
            record = await self._find_memory(memory_id)
            if record is None:
                self.report.skip("forgotten by the user")
                continue
            new = await self._request_for(native, item, None, newest)
            update = UpdateMemoryRequest(
                memory_id=memory_id,
                text=text,
                kind=item.kind,
                metadata={**record.metadata, **new.metadata},
                tags=list(dict.fromkeys([*record.tags, *item.tags])),
                cites=new.cites or None,
                folder=new.folder,
                # What a file says now was not there to be trusted.
                trusted=False,
                redact=True,
            )
            batch = await self._begin()
            await self._store.begin_change(
                batch.id,
                self._request.source,
                native,
                to_time(record.updated_at),
                trusted=record.trusted,
            )
            try:
                updated = await self._writer.update(update)
            except NotFoundError:
                self.report.skip("forgotten by the user")
            except ValidationError:
                self.report.skip("not storable")
            else:
                await self._store.end_change(batch.id, memory_id, to_time(updated.updated_at))
                self.report.updated += 1
                done.append((native, memory_id, _hash(text)))
        return done


def _close(iterator: Iterator[Item]) -> None:
    close = getattr(iterator, "close", None)
    if close is not None:
        close()


def _replaced(item: ImportedMemory) -> list[bytes]:
    named = (item.supersedes,) if isinstance(item.supersedes, str) else item.supersedes
    return [_hash(one) for one in named if one]


def _fit(item: ImportedMemory) -> ImportedMemory:
    """Make a record of another program one that can be stored: other limits hold there."""
    tags = dict.fromkeys(_encodable(tag).strip()[:MAX_NAME] for tag in item.tags)
    parent = _encodable(item.parent)
    if len(parent) > MAX_NAME:
        parent = f"{parent[: MAX_NAME - 33]}-{_hash(parent).hex()}"
    return replace(
        item,
        text=_encodable(item.text)[:MAX_TEXT],
        title=_encodable(item.title)[:MAX_VALUE],
        tags=tuple(tag for tag in tags if tag)[:MAX_TAGS],
        project=_encodable(item.project).strip()[:MAX_NAME],
        parent=parent,
        metadata=_fit_metadata(item.metadata),
    )


def _encodable(text: str) -> str:
    """Return a text without NUL characters and lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _fit_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    fitted: dict[str, Any] = {}
    for name, given in list(metadata.items())[:MAX_KEYS]:
        value = given
        if isinstance(value, dict | list | tuple | float):
            try:
                encoded = json.dumps(value, allow_nan=False)
            except (TypeError, ValueError, RecursionError):
                continue
            if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
                value = [_encodable(one)[:MAX_NAME] for one in value[:MAX_TAGS]]
            elif len(encoded) > MAX_VALUE or encoded.count("[") + encoded.count("{") > MAX_DEPTH:
                value = encoded  # As text: it is too long or too deep.
            elif "\\u" in encoded:
                value = json.loads(_encodable(json.dumps(value, ensure_ascii=False)))
        if isinstance(value, str):
            value = _encodable(value)[:MAX_VALUE]
        fitted[_encodable(str(name))[:MAX_NAME]] = value
    size = len(json.dumps(fitted, ensure_ascii=False, default=str).encode())
    return fitted if size < MAX_METADATA else {}


def _full_text(item: ImportedMemory) -> str:
    text = strip_injected(str(strip_private(item.text)))
    if not item.title or text.lstrip("# \n").startswith(item.title):
        return text
    return f"{item.title}\n\n{text}"
