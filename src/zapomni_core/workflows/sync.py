"""Sync: share memories between devices through a git repository, without a server of ours.

The repository holds an export folder. A sync fetches what others pushed, merges it with the folder
and with this home (`workflows/merge_memories.py`), writes the outcome into both, commits and pushes
it. Files never conflict: what two sides know of a memory is merged as records, not as text. If
another device pushed meanwhile, it starts again from what is there now.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zapomni_core.exceptions import ProcessingError, ValidationError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.export_folder import ExportFolder
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.own_git import OwnRepository, TreeFile
from zapomni_core.infra.places import note_export
from zapomni_core.shared.merging import MemoryState, is_purged, merge_states
from zapomni_core.shared.records import (
    FORMAT,
    dump_record,
    load_object,
    memory_path,
    parse_record,
    parse_tombstone,
    tombstone_path,
)
from zapomni_core.workflows.export_memories import MARKER, check_folder
from zapomni_core.workflows.merge_memories import MergeReport, check_state

if TYPE_CHECKING:
    from zapomni_core.settings import Settings
    from zapomni_core.workflows.merge_memories import MemoryMerges, Progress

__all__ = ["Sync", "SyncReport"]

ATTEMPTS: Final = 8
PRIVATE: Final = "sync"
"""Where the repositories are, in the home folder, that talk to remotes."""
ATTRIBUTES: Final = ".gitattributes"
# A merge by hand puts no marks of conflicts into the files, and no other line ends.
ATTRIBUTES_TEXT: Final = b"memories/** -text -merge\ntombstones/** -text -merge\n*.json -text\n"
HEADER: Final = {"format": FORMAT, "zapomni": "export"}

logger = get_logger(__name__)


@dataclass
class SyncReport:
    """What a sync did."""

    merged: MergeReport
    committed: bool = False
    pushed: bool = False
    remote: bool = False
    """Whether the repository has a remote."""
    in_history: int = 0
    """Purged memories whose text is in earlier commits of the repository."""

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            **self.merged.to_json(),
            "committed": self.committed,
            "pushed": self.pushed,
            "remote": self.remote,
            "in_history": self.in_history,
        }


class FolderStates:
    """What the files of a folder, or of a commit, know of memories."""

    def __init__(self, report: MergeReport) -> None:
        self._report = report
        self._refused: set[str] = set()

    def read(self, path: str) -> bytes | None:
        """Return a file; None if there is none."""
        raise NotImplementedError

    def get(self, memory_id: str) -> MemoryState:
        """Return what is known of a memory; a file that is damaged says nothing."""
        record = tombstone = None
        if (data := self._read(memory_path(memory_id))) is not None:
            record = self._parse(memory_path(memory_id), memory_id, data)
        if (data := self._read(tombstone_path(memory_id))) is not None:
            tombstone = self._parse(tombstone_path(memory_id), memory_id, data)
        return merge_states(MemoryState(record), MemoryState(None, tombstone))

    def _read(self, path: str) -> bytes | None:
        try:
            return self.read(path)
        except ValidationError as error:
            self._refuse(path, error.message)
            return None

    def _parse(self, path: str, memory_id: str, data: bytes) -> dict[str, Any] | None:
        try:
            if path.startswith("memories/"):
                found = parse_record(data)
                check_state(MemoryState(found))
            else:
                found = parse_tombstone(data)
                check_state(MemoryState(None, found))
        except ValidationError as error:
            self._refuse(path, error.message)
            return None
        if found["id"] != memory_id:
            self._refuse(path, "its file has another name than its id")
            return None
        if path.startswith("memories/"):
            found.setdefault("history", [])
        return found

    def _refuse(self, path: str, why: str) -> None:
        if path not in self._refused:
            self._refused.add(path)
            self._report.skip(path, why)


class WorkTree(FolderStates):
    """The folder itself, which gets what is merged."""

    def __init__(self, folder: ExportFolder, report: MergeReport) -> None:
        super().__init__(report)
        self.folder = folder

    def read(self, path: str) -> bytes | None:
        """Return a file; None if there is none."""
        return self.folder.read(path)

    def ids(self) -> Iterable[str]:
        """Return the ids of all memories there are files of."""
        return {_id_of(path) for path in self.paths()}

    def paths(self) -> list[str]:
        """Return the files of memories and of deletions, links included."""
        found = [*self.folder.files("memories", ".json"), *self.folder.files("tombstones", ".json")]
        return [path for path in found if is_ours(path)]

    def put(self, memory_id: str, state: MemoryState) -> None:
        """Write what is known of a memory."""
        for path, content in (
            (memory_path(memory_id), state.record),
            (tombstone_path(memory_id), state.tombstone),
        ):
            if content is None:
                self.folder.remove(path)
                continue
            try:
                self.folder.write(path, dump_record(content))
            except ValidationError:
                # A link is in its place: that is removed, and not what it leads to.
                self.folder.remove(path)
                self.folder.write(path, dump_record(content))


class CommitFiles(FolderStates):
    """The files of a commit that another device pushed."""

    def __init__(self, files: Mapping[str, bytes], report: MergeReport) -> None:
        super().__init__(report)
        self._files = files

    def read(self, path: str) -> bytes | None:
        """Return a file; None if there is none."""
        return self._files.get(path)

    def ids(self) -> Iterable[str]:
        """Return the ids of all memories there are files of."""
        return {_id_of(path) for path in self._files}


class _BothSides:
    """What the folder and the others know together."""

    def __init__(self, tree: WorkTree, theirs: CommitFiles) -> None:
        self._sides = tree, theirs

    def ids(self) -> Iterable[str]:
        """Return the ids of all memories that either knows of."""
        return {one for side in self._sides for one in side.ids()}

    def get(self, memory_id: str) -> MemoryState:
        """Return what both know of a memory."""
        tree, theirs = self._sides
        return merge_states(tree.get(memory_id), theirs.get(memory_id))


@dataclass(frozen=True)
class Sync:
    """Shares memories through a repository; a door calls it as `engine.sync`."""

    merges: MemoryMerges
    settings: Settings

    @operation()
    async def run(
        self,
        path: Path,
        *,
        yes: bool = False,
        dry_run: bool = False,
        progress: Progress = lambda *_: None,
    ) -> SyncReport:
        """Bring this home, a repository and its remote into step.

        Args:
            path: The top of the work tree.
            yes: Push although anyone can read the remote, or a text seems to contain secrets.
            dry_run: Fetch and compare, and change nothing.
            progress: Called with how many memories are done, of how many.

        Raises:
            ValidationError: The folder is no repository, or no place for memories.
            ProcessingError: SYNC_001 the remote cannot be reached, SYNC_002 anyone can read it,
                SYNC_003 memories seem to contain secrets, SYNC_004 git failed, EXPORT_001 another
                process works in the folder.
        """
        private = self.settings.home / PRIVATE
        repository = await asyncio.to_thread(OwnRepository, path, private)
        await asyncio.to_thread(repository.identity)
        folder = await asyncio.to_thread(ExportFolder, path)
        with folder:
            await asyncio.to_thread(check_folder, folder, new=True)
            note_export(self.settings, path, "sync")
            for _ in range(ATTEMPTS):
                report = await self._attempt(
                    repository, folder, yes=yes, dry_run=dry_run, progress=progress
                )
                if report is not None:
                    logged = {n: v for n, v in report.to_json().items() if isinstance(v, int)}
                    logger.info("memories_synced", **logged)
                    return report
        raise ProcessingError(
            "Other devices push all the time, so this one could not. Everything is committed here.",
            "SYNC_001",
        )

    async def _attempt(
        self,
        repository: OwnRepository,
        folder: ExportFolder,
        *,
        yes: bool,
        dry_run: bool,
        progress: Progress,
    ) -> SyncReport | None:
        """Sync with what the remote has now; None if it had something else before the push."""
        address, branch = await asyncio.to_thread(repository.remote)
        ours = await asyncio.to_thread(repository.head)
        theirs = ""
        if address:
            theirs = await asyncio.to_thread(repository.find_remote_head, address, branch)
            if theirs:
                theirs = await asyncio.to_thread(repository.fetch, address, branch)
        is_first = bool(address) and not repository.is_checked(address)
        counted = MergeReport()
        tree = WorkTree(folder, counted)
        our_files = await asyncio.to_thread(repository.tree, ours)
        their_files = await asyncio.to_thread(repository.tree, theirs)
        base = await asyncio.to_thread(repository.base, ours, theirs)
        base_files = await asyncio.to_thread(repository.tree, base)
        taken = _merge_others(our_files, their_files, base_files) if theirs else {}
        await asyncio.to_thread(_check_others, repository, folder, our_files, taken)
        others = await asyncio.to_thread(_read_theirs, repository, our_files, their_files, counted)

        async def check(found: MergeReport) -> None:
            if address:
                await self._check_push(repository, address, found, is_first=is_first, yes=yes)

        merged = await self.merges.merge(
            _BothSides(tree, others),
            tree,
            report=counted,
            dry_run=dry_run,
            check=check,
            scan_all=is_first,
            progress=progress,
        )
        report = SyncReport(merged, remote=bool(address))
        if dry_run:
            return report
        if is_first:
            await check(merged)  # Also if there was nothing to write.
        new = await asyncio.to_thread(
            _commit, repository, tree, our_files, (ours, theirs, base), taken, merged
        )
        report.committed = new not in (ours, theirs)
        known = our_files.keys() | their_files.keys()
        report.in_history = await asyncio.to_thread(_count_purged, tree, known)
        if address and new and new != theirs:
            if not await asyncio.to_thread(repository.push, address, branch, new):
                now = await asyncio.to_thread(repository.find_remote_head, address, branch)
                if now != theirs:
                    return None
                raise ProcessingError(
                    "The remote refused the push. Everything is committed here.",
                    "SYNC_001",
                )
            report.pushed = True
        if address:
            repository.set_checked(address)
        return report

    async def _check_push(
        self,
        repository: OwnRepository,
        address: str,
        report: MergeReport,
        *,
        is_first: bool,
        yes: bool,
    ) -> None:
        """Refuse to push what others should hardly see, unless the user says so."""
        if yes:
            return
        if is_first and await asyncio.to_thread(repository.is_public, address):
            raise ProcessingError(
                "Anyone can read this remote: it answers without a password. Nothing was written.",
                "SYNC_002",
            )
        if report.secrets:
            ids = ", ".join(sorted(report.secrets)[:5])
            more = len(report.secrets) - 5
            raise ProcessingError(
                "Memories seem to contain secrets, which would stay in the history of the "
                f"repository. Nothing was written. They are: {ids}"
                + (f" and {more} more" if more > 0 else ""),
                "SYNC_003",
                details={"memories": len(report.secrets)},
            )


# --- Files ------------------------------------------------------------------------------


def is_ours(path: str) -> bool:
    """Return whether a path is that of a record or a tombstone, as this version names them."""
    memory_id = _id_of(path)
    try:
        return path in (memory_path(memory_id), tombstone_path(memory_id))
    except ValidationError:
        return False


def _id_of(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".json")


def _read_theirs(
    repository: OwnRepository,
    ours: Mapping[str, TreeFile],
    theirs: Mapping[str, TreeFile],
    report: MergeReport,
) -> CommitFiles:
    """Return the files of memories that differ from ours.

    Raises:
        ValidationError: Another device wrote them with a newer version.
    """
    if MARKER in theirs:
        (marker,) = repository.read([theirs[MARKER].oid])
        version = load_object(marker).get("format")
        if not isinstance(version, int) or version > FORMAT:
            raise ValidationError(
                f"Another device has written format {version}, and this version reads up to "
                f"{FORMAT}. Upgrade Zapomni: pip install -U zapomni",
                "VAL_004",
            )
    wanted: dict[str, str] = {}
    for path, file in theirs.items():
        if is_ours(path) and ours.get(path) != file:
            if file.mode not in ("100644", "100755"):
                report.skip(path, "it is a link")
            else:
                wanted[path] = file.oid
    contents = zip(wanted, repository.read(wanted.values()), strict=True)
    return CommitFiles(dict(contents), report)


def _merge_others(
    ours: Mapping[str, TreeFile], theirs: Mapping[str, TreeFile], base: Mapping[str, TreeFile]
) -> dict[str, TreeFile | None]:
    """Return the files that are not ours to merge and that others changed: None if removed.

    Raises:
        ProcessingError: SYNC_004, one was changed on both sides.
    """
    taken: dict[str, TreeFile | None] = {}
    for path in ours.keys() | theirs.keys():
        mine, other = ours.get(path), theirs.get(path)
        if mine == other or is_ours(path) or path in (MARKER, ATTRIBUTES):
            continue
        before = base.get(path)
        if other == before:
            continue
        if mine != before:
            raise ProcessingError(
                "A file of this repository that is not Zapomni's was changed on both sides. Merge "
                "it with git (git pull), and sync again.",
                "SYNC_004",
            )
        taken[path] = other
    return taken


def _check_others(
    repository: OwnRepository,
    folder: ExportFolder,
    ours: Mapping[str, TreeFile],
    taken: Mapping[str, TreeFile | None],
) -> None:
    """Refuse to write over changes of the user's that are not committed."""
    for path in taken:
        data = folder.read(path)
        mine = ours.get(path)
        if data is not None and (mine is None or repository.blob_id(data) != mine.oid):
            raise ProcessingError(
                "Others changed a file of this repository that has changes here, too, which are "
                "not committed. Commit them, and sync again.",
                "SYNC_004",
            )


def _commit(
    repository: OwnRepository,
    tree: WorkTree,
    ours: Mapping[str, TreeFile],
    commits: tuple[str, str, str],
    taken: Mapping[str, TreeFile | None],
    report: MergeReport,
) -> str:
    """Commit the files of the folder on top of ours and theirs; return the commit."""
    our_commit, their_commit, base = commits
    folder = tree.folder
    if folder.read(MARKER) is None:
        folder.write(MARKER, dump_record(HEADER))
    if folder.read(ATTRIBUTES) is None:
        folder.write(ATTRIBUTES, ATTRIBUTES_TEXT)
    regular = {path: file for path, file in taken.items() if file and file.mode.startswith("100")}
    contents = repository.read(file.oid for file in regular.values())
    for path, content in zip(regular, contents, strict=True):
        folder.write(path, content)
    for path, file in taken.items():
        if file is None:
            folder.remove(path)
    changes: dict[str, bytes | TreeFile | None] = dict(taken)
    after: dict[str, TreeFile | None] = dict(taken)
    paths = {*tree.paths(), MARKER, ATTRIBUTES}
    for path in sorted(paths):
        try:
            data = folder.read(path)
        except ValidationError:
            continue  # A link: it was counted, and is no file of ours.
        if data is not None and (path not in ours or ours[path].oid != repository.blob_id(data)):
            changes[path] = data
            after[path] = TreeFile("100644", repository.blob_id(data))
    for path in ours.keys() - paths:
        if is_ours(path):
            changes[path] = after[path] = None
    is_behind = bool(their_commit) and base != their_commit
    if not changes and not is_behind:
        return our_commit
    new = ""
    if is_behind and base == our_commit:
        # Nothing of ours is new: the branch moves forward, if the outcome is theirs.
        wanted = {**ours, **{path: file for path, file in after.items() if file}}
        for path, file in after.items():
            if file is None:
                wanted.pop(path, None)
        new = their_commit if wanted == repository.tree(their_commit) else ""
    if not new:
        parents = [one for one in (our_commit, their_commit if is_behind else "") if one]
        if not our_commit and their_commit:
            # A clone without a commit: what is theirs is the first.
            their_tree = repository.tree(their_commit)
            for path in their_tree.keys() - after.keys():
                if is_ours(path):
                    changes[path] = None
        received = report.added + report.changed
        message = f"zapomni sync: {report.given} from here, {received} from others\n"
        new = repository.commit(message, parents, changes, int(time.time()))
    repository.check_out(new, our_commit, after)
    folder.flush()
    return new


def _count_purged(tree: WorkTree, before: Iterable[str]) -> int:
    """Count the purged memories whose files were in a commit."""
    return sum(
        path.startswith("memories/") and is_ours(path) and is_purged(tree.get(_id_of(path)))
        for path in before
    )
