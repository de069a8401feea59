"""Merge the memories of another device into this home: of an export, or of a shared folder.

What both sides know of each memory is merged by `shared/merging.py`. The store gets what differs,
and so does the folder, if it is one that is kept in step. First everything is compared, so that
nothing is written if something is in the way; then it is written, memory by memory. A merge that
was interrupted is completed by the next one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from zapomni_core.exceptions import ValidationError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.device import device_id
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import UpdateMemoryRequest
from zapomni_core.modules.memories import without_code
from zapomni_core.shared.merging import (
    MemoryState,
    SameText,
    choose_successors,
    is_purged,
    join_same_texts,
    merge_states,
    place_of,
)
from zapomni_core.shared.records import (
    from_record,
    synced_origin,
    to_citations,
    to_record,
    to_tombstone,
    write_time,
)
from zapomni_core.workflows.export_memories import find_writer
from zapomni_db.models import MemoryFilter
from zapomni_db.sqlite.deletions import Deletion, SyncDevice
from zapomni_db.values import from_time, to_time

if TYPE_CHECKING:
    from zapomni_core.modules.codebase import Citations
    from zapomni_core.modules.memories import Memories
    from zapomni_core.modules.observations import Observations
    from zapomni_core.settings import Settings
    from zapomni_core.shared.redaction import Redactor
    from zapomni_core.workflows.trash import Trash
    from zapomni_db.copy_models import MemoryCopy
    from zapomni_db.interfaces import StorageProvider
    from zapomni_db.sqlite.deletions import SqliteDeletions

__all__ = [
    "TOMBSTONE_DAYS",
    "MemoryMerges",
    "MergeCounts",
    "MergeReport",
    "MergeSource",
    "MergeTarget",
    "SyncDevice",
    "check_state",
]

PAGE = 100
# How often a memory that another process keeps changing is merged again.
ATTEMPTS = 5
TOMBSTONE_DAYS = 180
"""How long devices remember that a memory was deleted."""
MAX_REASONS = 20
# A record from further ahead than any clock is wrong by would win for ever.
MAX_AHEAD = timedelta(days=366)

# What a session is given of a memory, or decides whether it is.
_CONTENT = ("text", "metadata", "project", "source", "kind", "tags", "pinned", "expires_at")

Progress = Callable[[int, int], None]

logger = get_logger(__name__)


class MergeSource(Protocol):
    """States to merge: of an export (`ExportStates`), or of a shared folder (`SyncFolder`)."""

    def ids(self) -> Iterable[str]:
        """Return the ids of all memories it knows of."""
        ...

    def get(self, memory_id: str) -> MemoryState:
        """Return what it knows of a memory."""
        ...


class MergeTarget(MergeSource, Protocol):
    """A source that gets what this home knows (`SyncFolder`, and the tests' own)."""

    def put(self, memory_id: str, state: MemoryState) -> None:
        """Make this what it knows of a memory."""
        ...


@dataclass
class MergeCounts:
    """What becomes of memories when they are merged into this home."""

    read: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    both_changed: int = 0
    """Memories changed on both sides: the later text is current, the other one a version."""
    deleted: int = 0
    purged: int = 0
    same_text: int = 0
    """Memories of the same text as another one, and one with it now."""
    links_dropped: int = 0
    """Memories were said to replace others that neither side has."""
    untrusted: dict[str, int] = field(default_factory=dict)
    """How many memories wait to be trusted, by the device that wrote them."""
    skipped_count: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    """Why records were passed over, by where they are; the first of them."""

    def skip(self, place: str, reason: str) -> None:
        """Count a record that is passed over."""
        self.skipped_count += 1
        if len(self.skipped) < MAX_REASONS:
            self.skipped[place] = reason


@dataclass
class MergeReport(MergeCounts):
    """What a merge did in this home. `read` counts the memories that the other side has."""

    given: int = 0
    """Memories and deletions that the folder got from here."""
    secrets: dict[str, int] = field(default_factory=dict)
    """What looks like a secret in what the folder gets, by memory."""
    added_ids: list[str] = field(default_factory=list)
    purged_ids: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {name: value for name, value in asdict(self).items() if name != "added_ids"}


class _HomeState(NamedTuple):
    """What this home knows besides its memories."""

    device: str
    deletions: dict[str, Deletion]
    writers: dict[str, tuple[int, str]]
    trusted: set[str]
    ids: list[str]
    trusts_all: bool = False


class _Compared(NamedTuple):
    """A memory on both sides, and what it becomes."""

    local: MemoryState
    other: MemoryState
    merged: MemoryState
    copy: MemoryCopy | None
    there: MemoryState
    """What the folder has that is kept in step; the other side if there is none."""


@dataclass
class _MergePlan:
    """What is to be written, and what must be known of all memories to decide it."""

    to_store: set[str] = field(default_factory=set)
    to_folder: set[str] = field(default_factory=set)
    joined: dict[str, MemoryState] = field(default_factory=dict)
    """States of memories that became one with others."""
    created: dict[str, str] = field(default_factory=dict)
    claims: dict[str, list[str]] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    """Which memory supersedes which in the store now."""
    aliases: dict[str, str] = field(default_factory=dict)
    places: dict[bytes, list[str]] = field(default_factory=dict)

    def note(self, memory_id: str, state: MemoryState) -> None:
        """Note what is known of a memory."""
        record = state.record
        if record is None:
            self.created.pop(memory_id, None)
            self.claims.pop(memory_id, None)
            if state.tombstone is not None and state.tombstone.get("same_as"):
                self.aliases[memory_id] = state.tombstone["same_as"]
            return
        self.created[memory_id] = record["created_at"]
        if record["supersedes"]:
            self.claims[memory_id] = record["supersedes"]


@dataclass(frozen=True)
class MemoryMerges:
    """MemoryMerges memories of other devices; a door calls it as `engine.merges`."""

    storage: StorageProvider
    memories: Memories
    citations: Citations
    observations: Observations
    deletions: SqliteDeletions
    settings: Settings
    trash: Trash
    get_redactor: Callable[[], Redactor]

    # --- devices ------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """The id of this home among others."""
        return device_id(self.settings.home)

    @operation()
    async def list_devices(self) -> list[SyncDevice]:
        """Return the devices whose memories were merged into this home."""
        return await self.deletions.list_devices()

    @operation()
    async def trust(self, device: str) -> int:
        """Trust what a device wrote and will write; return how many memories that concerns.

        What that device had imported from elsewhere is still to be reviewed.

        Raises:
            ValidationError: Nothing of such a device was merged here.
        """
        if device not in {one.device for one in await self.deletions.list_devices()}:
            raise ValidationError(
                "Nothing of a device of this id was merged here; `zapomni sync` lists the devices",
                "VAL_003",
            )
        await self.deletions.trust_device(device, int(time.time()))
        trusted = 0
        for page in _pages(await self._list_ids(), PAGE):
            for one in (await self.storage.get_summaries(page)).values():
                if not one.trusted and one.origin == synced_origin(device, ""):
                    # A decision of this home: for the others it is no change.
                    request = UpdateMemoryRequest(memory_id=one.memory_id, trusted=True)
                    await self.memories.update(request)
                    trusted += 1
        return trusted

    # --- merging ------------------------------------------------------------------------

    @operation()
    async def merge(
        self,
        source: MergeSource,
        target: MergeTarget | None = None,
        *,
        report: MergeReport | None = None,
        dry_run: bool = False,
        trusted: bool = False,
        check: Callable[[MergeReport], Awaitable[None]] | None = None,
        scan_all: bool = False,
        progress: Progress = lambda *_: None,
    ) -> MergeReport:
        """Merge what a source knows into this home, and let the target know the outcome.

        Args:
            source: What other devices know, and the target, too, if there is one.
            target: A folder that is kept in step.
            report: Where skipped records were counted already.
            dry_run: Compare, and write nothing.
            trusted: Whether sessions may be given what arrives, whichever device wrote it.
            check: Called before anything is written; what it raises stops the merge.
            scan_all: Look for secrets in all that the target will have, not only in what is new.
            progress: Called with how many memories are done, of how many.
        """
        report = report or MergeReport()
        known = await self._read_known()
        if trusted:
            known = known._replace(trusts_all=True)
        source_ids = set(source.ids())
        report.read = len(source_ids)
        ids = sorted({*known.ids, *known.deletions, *source_ids})
        plan = _MergePlan()
        for number, page in enumerate(_pages(ids, PAGE)):
            compared = await self._compare(page, known, source, target)
            for memory_id, one in compared.items():
                self._plan(plan, memory_id, one, target, report)
            progress(number * PAGE + len(page), 2 * len(ids))
        await self._join_same_texts(plan, known, source, target, report)
        report.unchanged = len(plan.created.keys() - plan.to_store)
        heard_of = set(ids)
        report.links_dropped = sum(
            older not in heard_of for claimed in plan.claims.values() for older in claimed
        )
        if target is not None:
            chosen = plan.created.keys() if scan_all else plan.to_folder
            await self._count_secrets(sorted(chosen), known, source, report)
        if dry_run:
            return report
        if check is not None and (plan.to_store or plan.to_folder):
            await check(report)
        todo = sorted(plan.to_store | plan.to_folder)
        for number, page in enumerate(_pages(todo, PAGE)):
            await self._write(page, plan, known, source, target, report)
            progress(len(ids) + number * PAGE + len(page), len(ids) + len(todo))
        await self._purge(report)
        await self._set_successors(plan)
        await self.deletions.prune(_oldest())
        logged = {name: n for name, n in report.to_json().items() if isinstance(n, int)}
        logger.info("memories_merged", **logged)
        return report

    async def _read_known(self) -> _HomeState:
        oldest = _oldest()
        found = await self.deletions.list_all()
        devices = await self.deletions.list_devices()
        return _HomeState(
            device=await asyncio.to_thread(device_id, self.settings.home),
            deletions={one.memory_id: one for one in found if one.deleted_at >= oldest},
            writers=await self.deletions.list_writers(),
            trusted={one.device for one in devices if one.trusted},
            ids=await self._list_ids(),
        )

    async def _list_ids(self) -> list[str]:
        return await self.storage.list_ids(without_code(MemoryFilter(include_superseded=True)))

    async def _compare(
        self,
        ids: Sequence[str],
        known: _HomeState,
        source: MergeSource,
        target: MergeTarget | None = None,
    ) -> dict[str, _Compared]:
        copies = {one.memory_id: one for one in await self.storage.get_copies(ids, passages=False)}
        others = await asyncio.to_thread(lambda: {one: source.get(one) for one in ids})
        there = others
        if target is not None and target is not source:
            there = await asyncio.to_thread(lambda: {one: target.get(one) for one in ids})
        oldest = write_time(from_time(_oldest()))
        found = {}
        for memory_id in ids:
            copy = copies.get(memory_id)
            local = _local_state(memory_id, copy, known)
            other = others[memory_id]
            if other.tombstone is not None and other.tombstone["deleted_at"] < oldest:
                other = MemoryState(other.record)
            merged = merge_states(local, other)
            found[memory_id] = _Compared(local, other, merged, copy, there[memory_id])
        return found

    def _plan(
        self,
        plan: _MergePlan,
        memory_id: str,
        one: _Compared,
        target: MergeTarget | None,
        report: MergeReport,
    ) -> None:
        local, merged = one.local, one.merged
        if local.record is not None:
            plan.current |= dict.fromkeys(local.record["supersedes"], memory_id)
        if not _same(local, merged):
            plan.to_store.add(memory_id)
            if merged.record is None:
                if local.record is not None:
                    report.deleted += not is_purged(merged)
                if is_purged(merged) and not is_purged(local):
                    report.purged += 1
                    report.purged_ids.append(memory_id)
            elif local.record is None:
                report.added += 1
                report.added_ids.append(memory_id)
            elif not _same_record(local.record, merged.record):
                report.changed += 1
                report.both_changed += not _same_record(merged.record, one.other.record)
        if target is not None and merged != one.there:
            plan.to_folder.add(memory_id)
        report.given += target is not None and merged != one.other
        plan.note(memory_id, merged)
        if merged.record is not None:
            place = hashlib.sha256(repr(place_of(merged.record)).encode()).digest()
            plan.places.setdefault(place, []).append(memory_id)

    async def _join_same_texts(
        self,
        plan: _MergePlan,
        known: _HomeState,
        source: MergeSource,
        target: MergeTarget | None,
        report: MergeReport,
    ) -> None:
        """Make one of memories that several devices added with the same text."""
        replaced = choose_successors(plan.claims, plan.created, plan.aliases)
        for group in plan.places.values():
            alive = [one for one in group if one not in replaced]
            if len(alive) < 2:
                continue
            states = {
                memory_id: one.merged
                for memory_id, one in (await self._compare(alive, known, source)).items()
            }
            kept, *others = sorted(alive)
            for other in others:
                pair = SameText(kept, other)
                states[kept], states[other] = join_same_texts(pair, states.__getitem__)
                report.same_text += 1
            plan.joined |= states
            plan.to_store |= states.keys()
            if target is not None:
                plan.to_folder |= states.keys()
            for memory_id, state in states.items():
                plan.note(memory_id, state)

    async def _count_secrets(
        self, ids: Sequence[str], known: _HomeState, source: MergeSource, report: MergeReport
    ) -> None:
        """Count what looks like a secret in what the folder is to have from here."""
        for page in _pages(ids, PAGE):
            compared = await self._compare(page, known, source)

            def count(given: Mapping[str, _Compared] = compared) -> None:
                for memory_id, one in given.items():
                    found: Counter[str] = Counter()
                    if one.merged.record is not None and one.local.record is not None:
                        self.count_secrets(one.merged.record, found)
                    if found:
                        report.secrets[memory_id] = sum(found.values())

            await asyncio.to_thread(count)

    def count_secrets(self, record: dict[str, Any], kinds: Counter[str]) -> None:
        """Count what looks like a secret in a record, by kind."""
        redactor = self.get_redactor()
        old = [one["text"] or "" for one in record.get("history", ())]
        others = json.dumps([record["metadata"], record["source"], record["tags"]])
        for text in (record["text"], others, *old):
            kinds.update(kind for _, _, kind in redactor.find(text))

    async def _write(
        self,
        ids: Sequence[str],
        plan: _MergePlan,
        known: _HomeState,
        source: MergeSource,
        target: MergeTarget | None,
        report: MergeReport,
    ) -> None:
        compared = await self._compare(ids, known, source)
        merged = {i: plan.joined.get(i, one.merged) for i, one in compared.items()}
        if target is not None:
            await asyncio.to_thread(_put_all, target, merged, plan.to_folder)
        deletions: list[Deletion] = []
        writers: list[tuple[str, int, str]] = []
        deleted: list[str] = []
        # Who wrote what is new is noted first: it counts for the memory of that time only, and a
        # merge that is interrupted must not make it this device's.
        new = [
            (memory_id, _to_microseconds(record), record.get("device") or "")
            for memory_id in ids
            if memory_id in plan.to_store
            and compared[memory_id].copy is None
            and (record := merged[memory_id].record) is not None
            and (record.get("device") or "") != known.device
        ]
        if new:
            await self.deletions.put_writers(new, int(time.time()))
        for memory_id in ids:
            if memory_id not in plan.to_store:
                continue
            one, state = compared[memory_id], merged[memory_id]
            if state.tombstone is not None and state.tombstone != one.local.tombstone:
                deletions.append(_to_deletion(state.tombstone, known.device))
            if state.record is not None:
                for _ in range(ATTEMPTS):
                    if state.record is None or await self._put(state.record, one, known, report):
                        break
                    # It was changed meanwhile; what is left over is merged by the next sync.
                    one = (await self._compare([memory_id], known, source))[memory_id]
                    state = one.merged
                if state.record is not None and (state.record.get("device") or "") != known.device:
                    device = state.record.get("device") or ""
                    writers.append((memory_id, _to_microseconds(state.record), device))
            elif one.copy is not None:
                is_same = bool(state.tombstone and state.tombstone.get("same_as"))
                if is_purged(state):
                    await self.memories.delete(memory_id)
                    await self.citations.forget(memory_id)
                elif not is_same:
                    deleted.append(memory_id)
                elif await self.storage.delete_memories({memory_id: one.copy.updated_at}):
                    await self.citations.forget(memory_id)
                    await self.memories.digest.refresh([memory_id])
        if deleted:
            await self.trash.put(deleted, "sync")
        if writers:
            await self.deletions.put_writers(writers, int(time.time()))
        if deletions:
            # After the trash, which notes a deletion of now.
            await self.deletions.put(deletions)

    async def _put(
        self, record: dict[str, Any], one: _Compared, known: _HomeState, report: MergeReport
    ) -> bool:
        """Store a memory as it was merged, and decide whether it is trusted.

        False, and nothing is stored, if it was changed here since it was compared.
        """
        copy, local = one.copy, one.local.record
        if local is not None and _same_record(local, record):
            return True
        device = record.get("device") or ""
        if copy is not None and local is not None and _same_content(local, record):
            origin, trusted = copy.origin, copy.trusted
        else:
            origin = synced_origin(device, record["origin"])
            was = copy.trusted if copy is not None else not record["origin"]
            trusted = known.trusts_all or (was and device in known.trusted)
        made = from_record({**record, "supersedes": []}, trusted=trusted)
        cites = to_citations(record)

        async def cite(memory_id: str) -> None:
            if cites:
                await self.citations.store.set_citations(memory_id, cites)

        made = made.model_copy(update={"origin": origin})
        seen = None if copy is None else copy.updated_at
        if not await self.memories.put_copy(made, seen, cite):
            return False
        if not trusted and (copy is None or copy.trusted or origin != copy.origin):
            counted = device or "unknown"
            report.untrusted[counted] = report.untrusted.get(counted, 0) + 1
        return True

    async def _purge(self, report: MergeReport) -> None:
        """Leave nothing of what another device purged: in the trash, in copies, anywhere."""
        if report.purged_ids:
            from zapomni_core.modules.observations import PurgeSelection

            chosen = PurgeSelection(ids=tuple(report.purged_ids))
            await self.observations.purge(chosen, "memories", dry_run=False, must_exist=False)
            # What was deleted by the merge left its traces in the file.
            await self.observations.purge(PurgeSelection(), "memories", dry_run=False)

    async def _set_successors(self, plan: _MergePlan) -> None:
        wanted = choose_successors(plan.claims, plan.created, plan.aliases)
        changes: dict[str, str | None] = {
            older: wanted.get(older)
            for older in plan.created
            if wanted.get(older) != plan.current.get(older)
        }
        if changes:
            await self.storage.set_successors(changes)
            await self.memories.digest.refresh(changes)


# --- States -----------------------------------------------------------------------------


def _local_state(memory_id: str, copy: MemoryCopy | None, known: _HomeState) -> MemoryState:
    """Return what this home knows of a memory."""
    deletion = known.deletions.get(memory_id)
    record = None
    if copy is not None:
        record = to_record(copy, device=find_writer(copy, known.writers, known.device))
        if deletion is not None and deletion.undone_at is not None:
            # Restored here: later than what others may know of the deletion.
            undone = write_time(from_time(deletion.undone_at))
            if undone > record["updated_at"]:
                record |= {"updated_at": undone, "device": known.device}
    if deletion is None or (deletion.undone_at is not None and copy is not None):
        return MemoryState(record)
    tombstone = to_tombstone(
        memory_id,
        from_time(deletion.deleted_at),
        purged=deletion.purged,
        same_as=deletion.same_as,
        supersedes=deletion.supersedes,
        device=deletion.device or known.device,
    )
    return merge_states(MemoryState(record), MemoryState(None, tombstone))


def _to_deletion(tombstone: Mapping[str, Any], own: str) -> Deletion:
    device = tombstone.get("device", "")
    return Deletion(
        tombstone["id"],
        to_time(datetime.fromisoformat(tombstone["deleted_at"])),
        None,
        bool(tombstone.get("purged")),
        tombstone.get("same_as", ""),
        tuple(tombstone.get("supersedes", ())),
        "" if device == own else device,
    )


def check_state(state: MemoryState) -> MemoryState:
    """Return a state whose times could be those of a clock.

    Raises:
        ValidationError: It is from too far in the future, and would win for ever.
    """
    limit = write_time(datetime.now(UTC) + MAX_AHEAD)
    for given, name in ((state.record, "updated_at"), (state.tombstone, "deleted_at")):
        if given is not None and given[name] > limit:
            raise ValidationError("its time is more than a year ahead", "VAL_003")
    return state


def _oldest() -> int:
    return to_time(datetime.now(UTC) - timedelta(days=TOMBSTONE_DAYS))


def _to_microseconds(record: Mapping[str, Any]) -> int:
    return to_time(datetime.fromisoformat(record["updated_at"]))


def _same(first: MemoryState, second: MemoryState) -> bool:
    return first.tombstone == second.tombstone and _same_record(first.record, second.record)


def _same_record(first: dict[str, Any] | None, second: dict[str, Any] | None) -> bool:
    """Compare records without what they supersede: the store has one successor of each."""
    if first is None or second is None:
        return first is second
    return {**first, "supersedes": []} == {**second, "supersedes": []}


def _same_content(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return all(first[name] == second[name] for name in _CONTENT)


def _put_all(target: MergeTarget, states: Mapping[str, MemoryState], chosen: set[str]) -> None:
    for memory_id in states.keys() & chosen:
        target.put(memory_id, states[memory_id])


def _pages(ids: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))
