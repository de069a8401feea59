"""Memories as a folder of Markdown notes, and the edits made there back into memories.

The folder remembers, in `.zapomni/notes.jsonl`, how every file was when it was last written or
read. So a file that an editor changed is never overwritten, one that it only formatted stays as it
is, and of a memory that was changed on both sides each field is taken from where it was changed.
Files are recognized by the id in their head, wherever they are moved.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import unicodedata
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.export_folder import ExportFolder
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.places import note_export
from zapomni_core.interfaces import AddMemoryRequest, UpdateMemoryRequest
from zapomni_core.shared.notes import (
    EDITABLE,
    Note,
    add_id,
    choose_name,
    parse_note,
    render_note,
    same_text,
    show_moment,
)
from zapomni_core.shared.records import dump_line, dump_record, load_object, write_time
from zapomni_core.workflows.backup import back_up
from zapomni_core.workflows.export_memories import MARKER, check_folder
from zapomni_core.workflows.projects import show_project
from zapomni_db.models import NEVER

if TYPE_CHECKING:
    from zapomni_core.settings import Settings
    from zapomni_core.shared.redaction import Redactor
    from zapomni_core.workflows.add_memory import MemoryWriter
    from zapomni_core.workflows.export_memories import Exports
    from zapomni_core.workflows.trash import Trash
    from zapomni_db.code_models import Citation
    from zapomni_db.copy_models import MemoryCopy
    from zapomni_db.interfaces import StorageProvider
    from zapomni_db.sqlite.imports import SqliteImports

__all__ = ["MarkdownNotes", "NotesExportReport", "NotesImportReport"]

STATE = ".zapomni/notes.jsonl"
HEADER = {"format": 1, "zapomni": "markdown"}
REPLACED = "Replaced"
"""The folder of memories that others replaced."""
PAGE = 100
TITLE_CHARS = 2000
MAX_NOTE_BYTES = 50 << 20
# An entity of more memories than this says little about what they have in common.
MAX_SHARED, MAX_RELATED = 8, 5
ORIGIN = "import:markdown"

Progress = Callable[[int, int], None]
Confirm = Callable[[Sequence[str]], bool]
"""Asked with the names of files that were deleted; returns whether their memories are, too."""

logger = get_logger(__name__)


@dataclass
class NotesExportReport:
    """What an export of notes did."""

    memories: int = 0
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    edited: int = 0
    """Files left alone because they were edited, moved away or deleted since: import them first."""

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return asdict(self)


@dataclass
class NotesImportReport:
    """What an import of notes did."""

    read: int = 0
    added: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    missing: int = 0
    """Files that were deleted, and whose memories stay."""
    conflicts: int = 0
    """Memories changed on both sides; the older text is in their history."""
    skipped: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, int] = field(default_factory=dict)
    batch: str = ""
    """What `zapomni import --undo` and `--trust` take; empty if nothing was added."""
    trash: str = ""
    """What `zapomni forget --undo` takes; empty if nothing was deleted."""

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return asdict(self)


@dataclass
class _KnownNote:
    """A file as it was when it was last written or read."""

    path: str
    sha256: str
    updated_at: str
    """Of its memory; empty if the memory has changes that the file has not."""
    fields: dict[str, str]
    """Hashes of the values that the file had."""
    is_edited: bool = False
    """Whether an editor wrote it last: then it stays as it is while the memory does."""


@dataclass(frozen=True)
class MarkdownNotes:
    """Writes and reads folders of notes; a door calls it as `engine.notes`."""

    storage: StorageProvider
    writer: MemoryWriter
    trash: Trash
    exports: Exports
    imports: SqliteImports
    settings: Settings
    get_redactor: Callable[[], Redactor]

    # --- writing ------------------------------------------------------------------------

    @operation()
    async def export(
        self, path: Path, filters: dict[str, Any], progress: Progress = lambda *_: None
    ) -> NotesExportReport:
        """Bring a folder of notes up to date with the memories that match.

        Raises:
            ValidationError: The folder is something else, or written by a newer version.
            ProcessingError: Another process works in it.
            OSError: The disk is full or refuses. Every file is whole; run it again.
        """
        report = NotesExportReport()
        ids = await self.exports.select(filters)
        report.memories = len(ids)
        folder = await asyncio.to_thread(ExportFolder, path, create=True)
        with folder:
            if not await asyncio.to_thread(check_folder, folder, new=True, kind="markdown"):
                await asyncio.to_thread(folder.write, MARKER, dump_record(HEADER))
            note_export(self.settings, path, "markdown")
            state = _read_state(folder)
            files, _ = await asyncio.to_thread(_scan, folder)
            try:
                await self._write(folder, ids, state, files, report, progress)
                for memory_id in [one for one in state if one not in set(ids)]:
                    _remove(folder, memory_id, state, files, report)
            finally:
                # Also after a full disk: what was written is known to be ours.
                await asyncio.to_thread(_write_state, folder, state)
            await asyncio.to_thread(folder.flush)
        logger.info("notes_exported", **report.to_json())
        return report

    async def _write(
        self,
        folder: ExportFolder,
        ids: Sequence[str],
        state: dict[str, _KnownNote],
        files: dict[str, str],
        report: NotesExportReport,
        progress: Progress,
    ) -> None:
        names = await self.writer.projects.observations.names()
        related = await self._find_related(ids)
        paths = {memory_id: state[memory_id].path for memory_id in ids if memory_id in state}
        paths |= {memory_id: path for memory_id, path in files.items() if memory_id in set(ids)}
        taken: dict[str, set[str]] = {}
        for path in (*paths.values(), *folder.files("", ".md")):
            inside, _, name = _folded(path).rpartition("/")
            taken.setdefault(inside, set()).add(name.removesuffix(".md"))
        # Twice over the memories: the texts of all of them may be more than fits in memory.
        new: list[tuple[datetime, str, str, str]] = []
        replaced: set[str | None] = set()
        async for page in self._copies(ids):
            for one in page:
                replaced |= {one.supersedes, *one.also_supersedes}
                if one.memory_id not in paths:
                    title = one.text[:TITLE_CHARS]
                    new.append((one.timestamp, one.memory_id, one.project, title))
        for _, memory_id, project, title in sorted(new):
            where = REPLACED if memory_id in replaced else show_project(project, names)
            paths[memory_id] = self._choose_path(where, memory_id, title, taken)

        def link(memory_id: str) -> str:
            stem = paths[memory_id].rpartition("/")[2].removesuffix(".md")
            return f"[[{stem}]]"

        def write_page(page: Sequence[MemoryCopy], cited: Mapping[str, list[Citation]]) -> None:
            for one in page:
                if one.memory_id not in paths:
                    continue  # It was added meanwhile.
                older = [i for i in (one.supersedes, *one.also_supersedes) if i in paths]
                fields = {
                    **_values_of(one, names),
                    "id": one.memory_id,
                    "happened": _shown(one.occurred_at, unless=one.timestamp),
                    "created": show_moment(one.timestamp),
                    "updated": show_moment(one.updated_at),
                    "supersedes": [link(i) for i in older if i],
                    "related": [link(i) for i in related.get(one.memory_id, ()) if i in paths],
                    "cites": [_place(cite) for cite in cited.get(one.memory_id, ())],
                }
                _write_note(folder, one, fields, paths[one.memory_id], state, report)

        done = 0
        async for page in self._copies(ids):
            wanted = [one.memory_id for one in page]
            cited = await self.writer.citations.store.get_citations(wanted)
            await asyncio.to_thread(write_page, page, cited)
            done += len(page)
            progress(done, len(ids))

    async def _copies(self, ids: Sequence[str]) -> AsyncIterator[list[MemoryCopy]]:
        for start in range(0, len(ids), PAGE):
            yield await self.storage.get_copies(ids[start : start + PAGE], passages=False)

    def _choose_path(
        self, where: str, memory_id: str, title: str, taken: dict[str, set[str]]
    ) -> str:
        # A name of a file is seen in more places than a text.
        title, _ = self.get_redactor().redact(title)
        inside = choose_name(where, (), "") if where else ""
        names = taken.setdefault(_folded(inside), set())
        name = choose_name(title, names, memory_id)
        names.add(_folded(name))
        return f"{inside}/{name}.md" if inside else f"{name}.md"

    async def _find_related(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the memories that name the same rare entities, the nearest first."""
        named: dict[str, set[str]] = {}
        for start in range(0, len(ids), PAGE):
            for reading in await self.storage.get_readings(ids[start : start + PAGE]):
                for passage in reading.passages:
                    for entity in passage.entities:
                        named.setdefault(entity.entity_id, set()).add(reading.memory_id)
        nearness: dict[str, Counter[str]] = {}
        for together in named.values():
            if 1 < len(together) <= MAX_SHARED:
                for one in together:
                    for other in together - {one}:
                        nearness.setdefault(one, Counter())[other] += 1
        return {
            one: [
                other for other, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))
            ][:MAX_RELATED]
            for one, found in nearness.items()
        }

    # --- reading ------------------------------------------------------------------------

    @operation()
    async def read_back(
        self,
        path: Path,
        confirm: Confirm,
        *,
        dry_run: bool = False,
        progress: Progress = lambda *_: None,
    ) -> NotesImportReport:
        """Bring what was edited, added and deleted in a folder of notes into the memories.

        Args:
            path: The folder.
            confirm: Asked once, if files were deleted.
            dry_run: Only count.
            progress: Called with how many files are done.

        Raises:
            ValidationError: The folder is something else, written by a newer version, or empty.
            ProcessingError: Another process works in it.
        """
        report = NotesImportReport()
        secrets: Counter[str] = Counter()
        folder = await asyncio.to_thread(ExportFolder, path)
        with folder:
            await asyncio.to_thread(check_folder, folder, kind="markdown")
            state = _read_state(folder)
            files, others = await asyncio.to_thread(_scan, folder)
            if state and not files and not others:
                raise ValidationError(
                    "There is no note left in this folder. If its memories shall be deleted, "
                    "use `zapomni forget`; else restore the files or export again.",
                    "VAL_004",
                )
            _restore_heads(state, files, others)
            run = _ReadBack(self, folder, state, report, secrets, dry_run=dry_run)
            total = len(files) + len(others)
            report.read = total
            try:
                for done, (memory_id, name) in enumerate(sorted(files.items()), 1):
                    await run.read(memory_id, name)
                    progress(done, total)
                for done, name in enumerate(others, len(files) + 1):
                    await run.read("", name)
                    progress(done, total)
                await run.delete_missing(files, confirm)
            finally:
                if not dry_run:
                    await asyncio.to_thread(_write_state, folder, state)
        if report.batch:
            counts = {"kept": report.added, "memories": report.added}
            await self.imports.end_batch(report.batch, counts, int(time.time()))
        report.secrets = dict(sorted(secrets.items()))
        logger.info("notes_read", read=report.read, added=report.added, updated=report.updated)
        return report


class _ReadBack:
    """One run over the files of a folder."""

    def __init__(
        self,
        notes: MarkdownNotes,
        folder: ExportFolder,
        state: dict[str, _KnownNote],
        report: NotesImportReport,
        secrets: Counter[str],
        *,
        dry_run: bool,
    ) -> None:
        self._notes = notes
        self._folder = folder
        self._state = state
        self._report = report
        self._secrets = secrets
        self._dry_run = dry_run
        self._is_backed_up = False

    async def read(self, memory_id: str, path: str) -> None:
        """Take over what one file says."""
        known = self._state.get(memory_id)
        try:
            data = self._folder.read(path, MAX_NOTE_BYTES) or b""
            if known is not None and known.sha256 == _hash(data):
                known.path = path
                self._report.unchanged += 1
                return
            note = parse_note(data)
            if memory_id and memory_id in await self._notes.storage.get_summaries([memory_id]):
                await self._update(memory_id, path, data, note)
            elif known is not None:
                self._report.skipped[path] = "its memory was deleted; take its id out to add it"
            else:
                await self._add(path, data, note)
        except ValidationError as error:
            self._report.skipped[path] = error.message

    async def _update(self, memory_id: str, path: str, data: bytes, note: Note) -> None:
        known = self._state.get(memory_id)
        names = await self._notes.writer.projects.observations.names()
        (copy,) = await self._notes.storage.get_copies([memory_id], passages=False)
        here = _values_of(copy, names)
        if not note.has_head:
            note = Note(memory_id, has_head=False, fields=here, text=note.text)
        if known is None and note.updated != show_moment(copy.updated_at):
            self._report.skipped[path] = "its memory was changed since it was written"
            return
        said = _value_hashes(note.fields, note.text)
        before = said if known is None else known.fields
        changed = {
            name: note.fields[name]
            for name in EDITABLE
            if note.fields[name] != here[name] and (known is None or said[name] != before.get(name))
        }
        is_text = not same_text(note.text, copy.text) and (
            known is None or said["text"] != before.get("text")
        )
        if (changed or is_text) and not note.text:
            raise ValidationError("it is empty; delete the file to delete its memory", "VAL_001")
        is_conflict = known is not None and known.updated_at != write_time(copy.updated_at)
        if changed or is_text:
            if not self._dry_run:
                await self._back_up()
                request = _to_update(memory_id, changed, note.text if is_text else None)
                await self._notes.writer.update(request)
            self._count_secrets(note.text if is_text else "")
            self._report.updated += 1
            self._report.conflicts += is_conflict and is_text
            if self._dry_run:
                return
            (copy,) = await self._notes.storage.get_copies([memory_id], passages=False)
        else:
            self._report.unchanged += 1
        # What was changed here only is still to be written into the file.
        updated_at = "" if is_conflict else write_time(copy.updated_at)
        self._state[memory_id] = _KnownNote(path, _hash(data), updated_at, said, is_edited=True)

    async def _add(self, path: str, data: bytes, note: Note) -> None:
        if not note.has_head:
            self._report.skipped[path] = "it has no head; `---` twice at its top makes it a memory"
            return
        if not note.text:
            self._report.skipped[path] = "it is empty"
            return
        self._count_secrets(note.text)
        if self._dry_run:
            self._report.added += 1
            return
        await self._back_up()
        expires = note.fields["expires"]
        request = AddMemoryRequest(
            text=note.text,
            kind=note.fields["kind"],
            tags=note.fields["tags"],
            project=note.fields["project"] or "*",
            pinned=note.fields["pinned"],
            source=note.fields["source"],
            occurred_at=note.happened,
            expires_at=datetime.fromisoformat(expires) if expires else None,
            origin=ORIGIN,
            trusted=False,
        )
        (added,) = await self._notes.writer.add([request])
        if added.status == "created":
            self._report.added += 1
            if not self._report.batch:
                begun = await self._notes.imports.begin_batch("markdown", {}, int(time.time()))
                self._report.batch = begun.id
            batch = self._report.batch
            await self._notes.imports.add_memories("markdown", batch, [added.memory_id])
        else:
            if added.memory_id in self._state:
                self._report.skipped[path] = "the same text is a memory already, in another file"
                return
            self._report.unchanged += 1  # A run that was killed added it, or there was no note.
        (copy,) = await self._notes.storage.get_copies([added.memory_id], passages=False)
        if not note.memory_id:
            data = add_id(data, added.memory_id)
        else:
            # A copy of another note: it gets an id of its own.
            data = data.replace(note.memory_id.encode(), added.memory_id.encode(), 1)
        self._folder.write(path, data)
        said = _value_hashes(note.fields, note.text)
        self._state[added.memory_id] = _KnownNote(
            path, _hash(data), write_time(copy.updated_at), said, is_edited=True
        )

    async def delete_missing(self, files: dict[str, str], confirm: Confirm) -> None:
        """Delete the memories whose files were deleted, if the user says so."""
        gone = [i for i in self._state if i not in files]
        gone = [i for i in gone if not self._is_there(self._state[i].path)]
        here = await self._notes.storage.get_summaries(gone)
        for memory_id in [i for i in gone if i not in here]:
            del self._state[memory_id]  # Deleted on both sides.
        names = [self._state[memory_id].path for memory_id in here]
        if not names:
            return
        if self._dry_run or not confirm(names):
            self._report.missing = len(names)
            return
        with suppress(NotFoundError):  # Another process was first.
            self._report.trash = (await self._notes.trash.put(list(here), "markdown")).batch
        for memory_id in here:
            del self._state[memory_id]
        self._report.deleted = len(here)

    def _is_there(self, path: str) -> bool:
        """Return whether a file is there, if only as a link or as one that is too large."""
        try:
            return self._folder.read(path, MAX_NOTE_BYTES) is not None
        except ValidationError:
            return True

    async def _back_up(self) -> None:
        if not self._is_backed_up:
            self._is_backed_up = True
            await back_up(self._notes.settings, reason="before-import")

    def _count_secrets(self, text: str) -> None:
        found = self._notes.get_redactor().find(text) if text else ()
        self._secrets.update(kind for _, _, kind in found)


# --- The values of memories and files ---------------------------------------------------


def _values_of(copy: MemoryCopy, names: dict[str, str]) -> dict[str, Any]:
    """Return the editable fields of a memory as a note has them."""
    return {
        "kind": copy.kind,
        "tags": sorted(set(copy.tags)),
        "project": show_project(copy.project, names) if copy.project else "",
        "pinned": copy.pinned,
        "source": copy.source,
        "expires": "" if copy.expires_at is None else show_moment(copy.expires_at),
    }


def _value_hashes(fields: dict[str, Any], text: str) -> dict[str, str]:
    written = {name: json.dumps(fields[name], sort_keys=True) for name in EDITABLE}
    written["text"] = text.replace("\r\n", "\n").strip()
    return {name: _hash(value.encode())[:16] for name, value in written.items()}


def _to_update(memory_id: str, changed: dict[str, Any], text: str | None) -> UpdateMemoryRequest:
    given = {name: value for name, value in changed.items() if name != "expires"}
    if "expires" in changed:
        ends = changed["expires"]
        given["expires_at"] = datetime.fromisoformat(ends) if ends else NEVER
    return UpdateMemoryRequest(memory_id=memory_id, text=text, **given)


def _shown(moment: datetime | None, *, unless: datetime) -> str:
    return "" if moment is None or moment == unless else show_moment(moment)


def _place(cite: Citation) -> str:
    if cite.symbol or not cite.start_line:
        return f"{cite.path}:{cite.symbol}" if cite.symbol else cite.path
    return f"{cite.path}:L{cite.start_line}-L{cite.end_line}"


# --- Files ------------------------------------------------------------------------------


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _read_state(folder: ExportFolder) -> dict[str, _KnownNote]:
    state: dict[str, _KnownNote] = {}
    for line in (folder.read(STATE, 1 << 30) or b"").split(b"\n"):
        with suppress(ValidationError, KeyError, TypeError):
            one = load_object(line)
            memory_id = str(one.pop("id"))
            state[memory_id] = _KnownNote(**one)
    return state


def _write_state(folder: ExportFolder, state: dict[str, _KnownNote]) -> None:
    lines = [
        dump_line({"id": memory_id, **asdict(state[memory_id])}) for memory_id in sorted(state)
    ]
    folder.write(STATE, b"".join(lines), 1 << 30)


def _scan(folder: ExportFolder) -> tuple[dict[str, str], list[str]]:
    """Return the notes by the ids in their heads, and all other Markdown files.

    Of two files with one id the first is the note, and the other a copy of it.
    """
    files: dict[str, str] = {}
    others: list[str] = []
    state = _read_state(folder)
    for path in folder.files("", ".md"):
        try:
            found = parse_note(folder.read(path, MAX_NOTE_BYTES) or b"").memory_id
        except ValidationError:
            found = ""
        before = files.get(found)
        if not found:
            others.append(path)
        elif before is None:
            files[found] = path
        elif found in state and state[found].path == path:
            files[found] = path
            others.append(before)
        else:
            others.append(path)
    return files, others


def _restore_heads(state: dict[str, _KnownNote], files: dict[str, str], others: list[str]) -> None:
    """Recognize files without an id by where they are: their head was taken out or is damaged."""
    places = {known.path: memory_id for memory_id, known in state.items() if memory_id not in files}
    for path in list(others):
        if path in places:
            files[places[path]] = path
            others.remove(path)


def _write_note(
    folder: ExportFolder,
    one: MemoryCopy,
    fields: dict[str, Any],
    path: str,
    state: dict[str, _KnownNote],
    report: NotesExportReport,
) -> None:
    known = state.get(one.memory_id)
    before = folder.read(path, MAX_NOTE_BYTES)
    updated_at = write_time(one.updated_at)
    extra: list[str] = []
    with suppress(ValidationError):
        extra = [] if before is None else parse_note(before).extra
    data = render_note(fields, one.text, extra).encode()
    if before == data:
        report.unchanged += 1
    elif known is None and before is not None:
        report.edited += 1  # A note of this memory that nothing is known about.
        return
    elif known is not None and (before is None or _hash(before) != known.sha256):
        report.edited += 1
        return
    elif known is not None and known.is_edited and known.updated_at == updated_at:
        known.path = path
        report.unchanged += 1
        return
    else:
        folder.write(path, data, MAX_NOTE_BYTES)
        report.written += 1
    note = parse_note(data)
    said = _value_hashes(note.fields, note.text)
    state[one.memory_id] = _KnownNote(path, _hash(data), updated_at, said)


def _remove(
    folder: ExportFolder,
    memory_id: str,
    state: dict[str, _KnownNote],
    files: dict[str, str],
    report: NotesExportReport,
) -> None:
    """Remove the note of a memory that is deleted or not selected, unless it was edited."""
    known = state[memory_id]
    path = files.get(memory_id, known.path)
    data = folder.read(path, MAX_NOTE_BYTES)
    if data is not None and _hash(data) != known.sha256:
        report.edited += 1
        return
    if folder.remove(path):
        report.removed += 1
    del state[memory_id]
