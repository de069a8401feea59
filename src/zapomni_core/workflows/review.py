"""The inbox of `zapomni review`: what waits for the user's decision, found and decided.

Candidates are put into it by hooks. Everything else is found here, among the newest memories and
in small steps: memories that are alike are compared once, when they are new or changed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import AddMemoryRequest, UpdateMemoryRequest
from zapomni_core.modules.memories import (
    Progress,
    compare,
    digest_class,
    find_similar,
    is_fact,
    shorten,
    without_code,
)
from zapomni_core.shared.languages import reads_text
from zapomni_core.shared.statements import READ_CHARS, read_status
from zapomni_core.shared.validation import validate_page
from zapomni_core.workflows.projects import show_project
from zapomni_db.code_models import Citation
from zapomni_db.models import FrozenModel, MemoryFilter, MemoryPatch, MemorySummary
from zapomni_db.sqlite.recalls import feedback, recalled_items
from zapomni_db.sqlite.review import (
    OPEN,
    REVIEW_KINDS,
    NewReviewItem,
    ReviewRow,
    SqliteReview,
)
from zapomni_db.values import to_time

if TYPE_CHECKING:
    from zapomni_core.modules.codebase import Citations
    from zapomni_core.shared.redaction import Redactor
    from zapomni_core.workflows.add_memory import MemoryWriter
    from zapomni_core.workflows.projects import Projects
    from zapomni_core.workflows.trash import Trash
    from zapomni_db.interfaces import StorageProvider

__all__ = ["REVIEW_KINDS", "Decision", "ReviewInbox", "ReviewItem", "ReviewPage", "ReviewedMemory"]

# The newest memories are read, the newest facts are compared, and so many of them at a time.
MOST_READ, MOST_COMPARED, COMPARED_AT_ONCE = 5000, 2000, 500
PAGE = 500
# Of a kind that has thousands, the first are enough to begin with.
MOST_OF_A_KIND = 200
YEAR = timedelta(days=365)
# Older rows of the recall log are deleted after a year: a log of nearly a year is whole.
LOG_REACHES = timedelta(days=350)
# Where the comparison of memories and the reading of their status lines got to: when the last one
# was changed.
COMPARED, STATUS_READ = "compared", "status_read"

Decision = Literal["keep", "supersede", "merge", "forget", "trust", "not_a_conflict"]

_PAIR: tuple[Decision, ...] = ("supersede", "merge", "forget", "not_a_conflict")
_CHOICES: dict[str, tuple[Decision, ...]] = {
    "candidate": ("keep", "forget"),
    "contradiction": _PAIR,
    "duplicate": _PAIR,
    "replaced": ("keep", "forget"),
    "stale_citation": ("keep", "forget"),
    "untrusted": ("trust", "keep", "forget"),
    "never_recalled": ("keep", "forget"),
}
_WHY = {
    "candidate": "you said it in a prompt",
    "untrusted": "it is not your own: {origin}",
    "never_recalled": "recalled by no one for a year",
}

logger = get_logger(__name__)


class ReviewedMemory(FrozenModel):
    """A memory that an item is about."""

    memory_id: str
    text: str
    """Its beginning in one line, without secrets."""
    kind: str
    created_at: datetime
    recalls: int = 0
    """How often it was recalled."""


class ReviewItem(FrozenModel):
    """Something that waits for a decision, or was decided."""

    id: int
    kind: str
    project: str
    project_key: str = ""
    text: str = ""
    """What a candidate says."""
    why: str
    memories: list[ReviewedMemory] = []
    """What it is about, older first."""
    choices: list[Decision]
    state: str = OPEN
    """`open`, or what was decided."""
    can_undo: bool = False
    created_at: datetime


class ReviewPage(FrozenModel):
    """A page of the inbox."""

    items: list[ReviewItem]
    total: int
    counts: dict[str, int]
    """How many wait, by kind."""
    uncompared: int = 0
    """Memories that are compared by the next call that looks for what is new."""


@dataclass(frozen=True)
class ReviewInbox:
    """The inbox that every door calls as `engine.review`."""

    file: SqliteReview
    storage: StorageProvider
    writer: MemoryWriter
    trash: Trash
    citations: Citations
    projects: Projects
    get_redactor: Callable[[], Redactor]
    home: str

    # --- Reading ------------------------------------------------------------------------

    async def count(self) -> dict[str, int]:
        """Count what waits by kind, without looking for more."""
        return await self.file.count_open()

    @operation()
    async def list_items(
        self,
        kinds: Sequence[str] = (),
        limit: int = 20,
        offset: int = 0,
        *,
        folder: str = "",
        agent: bool = False,
        progress: Progress | None = None,
        refresh: bool = True,
    ) -> ReviewPage:
        """Find what is new, and return a page of what waits: by kind, the most recalled first.

        Args:
            kinds: Of `REVIEW_KINDS`; empty: all.
            limit: How many at most.
            offset: How many to pass over.
            folder: Where an agent asks.
            agent: Whether an agent asks: it is shown nothing of other folders' private projects.
            progress: Called while memories are compared.
            refresh: Whether to look for what is new; otherwise nothing is changed, and what is
                over since the last look is left out.

        Raises:
            ValidationError: There is no such kind, or a limit is broken.
        """
        validate_page(limit, offset)
        unknown = [kind for kind in kinds if kind not in REVIEW_KINDS]
        if unknown:
            raise ValidationError(f"kind must be one of: {', '.join(REVIEW_KINDS)}", "VAL_003")
        wanted = list(kinds or REVIEW_KINDS)
        uncompared = await (self._refresh(progress) if refresh else self._count_uncompared())
        projects, hidden = await self._reach(folder) if agent else (None, [])
        rows = await self.file.list_open(wanted, projects, hidden, limit, offset)
        if not refresh:
            rows = await self._without_ended(rows)
        items = await self._describe(rows)
        counts = await self.file.count_open(wanted, projects, hidden)
        return ReviewPage(
            items=items, total=sum(counts.values()), counts=counts, uncompared=uncompared
        )

    @operation()
    async def get(self, item_id: int) -> ReviewItem:
        """Return an item, decided or not.

        Raises:
            NotFoundError: There is no such item.
        """
        (item,) = await self._describe([await self._row(item_id)])
        return item

    async def _row(self, item_id: int, folder: str = "", *, agent: bool = False) -> ReviewRow:
        row = await self.file.get_item(item_id)
        if row is not None and agent:
            projects, hidden = await self._reach(folder)
            if row.project in hidden or (projects is not None and row.project not in projects):
                row = None
        if row is None:
            raise NotFoundError("No item of the inbox has this id.", "REVIEW_001")
        return row

    async def _without_ended(self, rows: Sequence[ReviewRow]) -> list[ReviewRow]:
        """Return the items whose memories are all there and current."""
        wanted = list(dict.fromkeys(one for row in rows for one in row.memory_ids))
        known = await self.storage.get_summaries(wanted) if wanted else {}
        current = {key for key, one in known.items() if one.superseded_by is None}
        return [row for row in rows if current.issuperset(row.memory_ids)]

    async def _count_uncompared(self) -> int:
        """Count those of the first page of memories that are new or changed since the last look."""
        since = await self.file.get_state(COMPARED)
        page = await self.storage.list_memories(without_code(MemoryFilter()), PAGE, 0)
        return sum(
            is_fact(one.kind, one.parent, one.chunk_count) and to_time(one.updated_at) > since
            for one in page.items
        )

    async def _reach(self, folder: str) -> tuple[list[str] | None, list[str]]:
        """Return the projects whose items an agent is shown, None for all, and those it is not."""
        reach = await self.projects.observations.reach(folder, "*", agent=True)
        return reach.projects, reach.hidden

    async def _describe(self, rows: Sequence[ReviewRow]) -> list[ReviewItem]:
        wanted = list(dict.fromkeys(one for row in rows for one in row.memory_ids))
        records = {one: await self.storage.get_memory(one) for one in wanted}
        recalls = await asyncio.to_thread(_count_recalls, self.home, wanted)
        names = await self.projects.observations.names()
        redactor = self.get_redactor()
        found = []
        for row in rows:
            about = [record for one in row.memory_ids if (record := records.get(one)) is not None]
            why = _WHY.get(row.kind, "")
            if row.kind in ("duplicate", "contradiction") and len(about) == 2:
                compared = compare(about[0].text, about[1].text)
                why = compared.why if compared is not None else "they are alike"
            elif about and row.kind == "replaced":
                status = read_status(about[0].text)
                why = " by ".join(filter(None, (f"it says: {status.ended}", status.by)))
            elif about:
                why = why.format(origin=about[0].origin or "unknown origin")
            why = why or "".join(row.subject.split(" | ")[1:2])
            memories = [
                ReviewedMemory(
                    memory_id=record.memory_id,
                    text=redactor.redact(shorten(record.text))[0],
                    kind=record.kind,
                    created_at=record.created_at,
                    recalls=recalls[record.memory_id],
                )
                for record in about
            ]
            found.append(
                ReviewItem(
                    id=row.id,
                    kind=row.kind,
                    project=show_project(row.project, names) if row.project else "",
                    project_key=row.project,
                    text=row.text,
                    why=redactor.redact(why)[0],
                    memories=memories,
                    choices=list(_CHOICES[row.kind]),
                    state=row.state,
                    can_undo=row.undo is not None,
                    created_at=datetime.fromtimestamp(row.created_at, UTC),
                )
            )
        return found

    # --- Deciding -----------------------------------------------------------------------

    @operation()
    async def decide(
        self, item_id: int, decision: str, *, folder: str = "", agent: bool = False
    ) -> ReviewItem:
        """Do what was decided about an item, and remember it: it is not asked again.

        Args:
            item_id: The item.
            decision: keep: a candidate becomes a memory, anything else stays as it is; one whose
                code changed is still true, and cites it as it is now. supersede: the newer of two
                replaces the older. merge: also with the older one's tags. forget: the memory, or
                the older of two, goes into the trash; a candidate is dropped. trust: it may be
                given to sessions. not_a_conflict: both stay.
            folder: Where an agent decides.
            agent: Whether an agent decides: only about what it is shown, and it cannot trust.

        Raises:
            NotFoundError: There is no such item, or a memory of it was deleted.
            ValidationError: It was decided before, or this cannot be decided about it.
        """
        row = await self._row(item_id, folder, agent=agent)
        choices = _CHOICES[row.kind]
        if decision not in choices:
            raise ValidationError(f"A {row.kind} takes one of: {', '.join(choices)}", "VAL_003")
        if agent and decision == "trust":
            raise ValidationError("Only the user can trust a memory: zapomni review", "VAL_003")
        if not await self.file.decide(item_id, decision, int(time.time())):
            raise ValidationError(f"Item {item_id} was decided before: {row.state}", "VAL_003")
        try:
            undo = await self._act(row, decision)
        except BaseException:
            await asyncio.shield(self.file.reopen(item_id))
            raise
        await self.file.set_undo(item_id, undo)
        logger.info("review_decided", kind=row.kind, decision=decision)
        return await self.get(item_id)

    async def _act(self, row: ReviewRow, decision: str) -> dict[str, Any]:
        """Do what was decided; return what takes it back."""
        ids = row.memory_ids
        if row.kind == "candidate":
            if decision == "forget":
                return {}
            rule = digest_class("note", False, row.text) == "rule"
            kind = "preference" if rule else "note"
            request = AddMemoryRequest(text=row.text, project=row.project or "*", kind=kind)
            (added,) = await self.writer.add([request])
            return {"delete": added.memory_id} if added.status == "created" else {}
        if row.kind == "stale_citation" and decision == "keep":
            before = await self.citations.confirm(ids[0])
            return {"cited": [one.model_dump(mode="json") for one in before], "memory": ids[0]}
        if decision in ("keep", "not_a_conflict"):
            return {}
        if decision == "trust":
            await self.writer.update(UpdateMemoryRequest(memory_id=ids[0], trusted=True))
            return {"distrust": ids[0]}
        if decision == "forget":
            return {"batch": (await self.trash.put(ids[:1], "review")).batch}
        older, newer = [await self.writer.memories.get(one) for one in ids]
        changes: dict[str, Any] = {}
        if decision == "merge":
            changes = {
                "tags": list(dict.fromkeys([*newer.tags, *older.tags])),
                "pinned": newer.pinned or older.pinned,
                "metadata": {**older.metadata, **newer.metadata},
            }
        record = await self.writer.update(
            UpdateMemoryRequest(memory_id=newer.memory_id, supersedes=[older.memory_id], **changes)
        )
        # What the newer one was before is in its history: an undo has no text of a memory.
        return {"release": ids, "merged_at": to_time(record.updated_at) if changes else 0}

    @operation()
    async def undo(self, item_id: int, *, folder: str = "", agent: bool = False) -> ReviewItem:
        """Take a decision back: the item waits again; arguments are as in `decide`.

        Raises:
            NotFoundError: There is no such item.
            ValidationError: It was not decided, or this decision cannot be taken back.
        """
        row = await self._row(item_id, folder, agent=agent)
        undo = row.to_undo
        if undo is None:
            reason = "is not decided" if row.state == OPEN else f"cannot be undone: {row.state}"
            raise ValidationError(f"Item {item_id} {reason}", "VAL_003")
        if "batch" in undo:
            await self.trash.undo(undo["batch"])
        try:
            if "delete" in undo:
                await self.trash.put([undo["delete"]], "review")
            if "release" in undo:
                await self._release(undo["release"], undo["merged_at"])
            if "cited" in undo:
                cited = [Citation.model_validate(one) for one in undo["cited"]]
                await self.citations.restore(undo["memory"], cited)
            if "distrust" in undo:
                await self.writer.update(
                    UpdateMemoryRequest(memory_id=undo["distrust"], trusted=False)
                )
        except NotFoundError:
            pass  # It was deleted meanwhile, which is what was wanted or leaves nothing to do.
        await self.file.reopen(item_id)
        return await self.get(item_id)

    async def _release(self, pair: Sequence[str], merged_at: int) -> None:
        """Make the older of two current again, and the newer one what it was before a merge."""
        older, newer = pair
        before: dict[str, Any] = {}
        if merged_at:
            before = next(
                (
                    {name: version.fields[name] for name in ("tags", "pinned", "metadata")}
                    for version in await self.storage.get_history(newer)
                    if version.memory_id == newer
                    and version.valid_to is not None
                    and to_time(version.valid_to) == merged_at
                ),
                {},
            )
        if before:
            await self.storage.update_memory(newer, MemoryPatch(**before))
        await self.trash.unlink(older, newer)
        await self.writer.memories.digest.refresh([newer])

    # --- Finding what waits -------------------------------------------------------------

    async def _refresh(self, progress: Progress | None) -> int:
        """Bring the inbox up to date; return how many memories are still to be compared."""
        memories = await self._read_memories()
        found: list[NewReviewItem] = []
        recalled = await asyncio.to_thread(_count_recalls, self.home, list(memories))

        def add(
            kind: str, ids: Sequence[str], project: str, what: str = "", mark: str = ""
        ) -> None:
            subject = " | ".join(filter(None, (" ".join(ids), what, mark)))
            priority = sum(recalled[one] for one in ids)
            found.append(NewReviewItem(kind, subject, project, priority))

        for one in memories.values():
            if not one.trusted:
                add("untrusted", [one.memory_id], one.project)
        for one in await self._never_recalled(memories):
            add("never_recalled", [one.memory_id], one.project)
        for stale in await self.citations.list_stale():
            known = memories.get(stale.memory_id)
            cites = [one for one in stale.citations if one.status in ("changed", "gone")][:5]
            if known is not None and cites:
                state = ", ".join(
                    f"{one.cites} {one.status}"
                    + (f" ({' and '.join(one.changed)})" if one.changed else "")
                    for one in cites
                )
                # Other changes of the code are asked about again.
                mark = "".join(one.content_hash[:6] for one in cites)
                add("stale_citation", [stale.memory_id], known.project, state, mark)
        limited: Counter[str] = Counter()
        chosen = []
        for item in sorted(found, key=lambda item: -item.priority):
            limited[item.kind] += 1
            if limited[item.kind] <= MOST_OF_A_KIND:
                chosen.append(item)
        found = chosen
        read, over = await self._read_statuses(memories)
        for one in over:
            add("replaced", [one.memory_id], one.project)
        fresh, left, compared = await self._compare_new(memories, progress)
        for kind, older, newer in fresh:
            add(kind, [older.memory_id, newer.memory_id], newer.project)
        current = {(item.kind, item.subject) for item in found}
        ended = []
        for key, (kind, subject) in (await self.file.list_subjects()).items():
            ids = subject.partition(" | ")[0].split()
            if kind in ("duplicate", "contradiction"):
                known_pair = await self.storage.get_summaries(ids)
                if len(known_pair) < 2 or any(one.superseded_by for one in known_pair.values()):
                    ended.append(key)
            elif kind == "replaced" and subject in memories and subject not in read:
                continue
            elif (kind, subject) not in current:
                ended.append(key)
        changed = max((to_time(memories[one].updated_at) for one in read), default=0)
        reached = {COMPARED: compared, STATUS_READ: changed}
        reached = {name: value for name, value in reached.items() if value}
        await self.file.put_items(found, ended, reached, int(time.time()))
        return left

    async def _read_memories(self) -> dict[str, MemorySummary]:
        """Return the newest current memories, without code."""
        filters = without_code(MemoryFilter())
        found: dict[str, MemorySummary] = {}
        for offset in range(0, MOST_READ, PAGE):
            page = await self.storage.list_memories(filters, PAGE, offset)
            found |= {one.memory_id: one for one in page.items}
            if len(page.items) < PAGE:
                break
        return found

    async def _never_recalled(self, memories: dict[str, MemorySummary]) -> list[MemorySummary]:
        now = datetime.now(UTC)
        old = [
            one
            for one in memories.values()
            if one.updated_at < now - YEAR
            and not one.pinned
            and is_fact(one.kind, one.parent, one.chunk_count)
        ]
        if not old:
            return []
        reaches = (now - LOG_REACHES).timestamp()
        recalled = await asyncio.to_thread(recalled_items, self.home, reaches)
        # A log that began later proves nothing.
        return [] if recalled is None else [one for one in old if one.memory_id not in recalled]

    async def _read_statuses(
        self, memories: dict[str, MemorySummary]
    ) -> tuple[set[str], list[MemorySummary]]:
        """Read the status lines of memories that are new or changed.

        Returns:
            The ids of those read, and those that say they are over.
        """
        since = await self.file.get_state(STATUS_READ)
        fresh = sorted(
            (one for one in memories.values() if to_time(one.updated_at) > since),
            key=lambda one: one.updated_at,
        )
        over = []
        for start in range(0, len(fresh), PAGE):
            batch = fresh[start : start + PAGE]
            texts = await self.storage.get_beginnings([one.memory_id for one in batch], READ_CHARS)
            over += [one for one in batch if read_status(texts.get(one.memory_id, "")).ended]
        return {one.memory_id for one in fresh}, over

    async def _compare_new(
        self, memories: dict[str, MemorySummary], progress: Progress | None
    ) -> tuple[list[tuple[str, MemorySummary, MemorySummary]], int, int]:
        """Compare facts that are new or changed with those that are alike.

        Returns:
            Pairs, older first, with what they are; how many facts are left; and when the last
            one compared was changed.
        """
        since = await self.file.get_state(COMPARED)
        facts = sorted(
            (
                one
                for one in memories.values()
                if is_fact(one.kind, one.parent, one.chunk_count)
                and to_time(one.updated_at) > since
            ),
            key=lambda one: one.updated_at,
        )[-MOST_COMPARED:]
        space = await self.storage.get_space()
        pairs: dict[tuple[str, str], tuple[str, MemorySummary, MemorySummary]] = {}
        chosen = facts[:COMPARED_AT_ONCE]
        for number, fact in enumerate(chosen, start=1):
            record = await self.storage.get_memory(fact.memory_id)
            if record is None:
                continue
            stored = {}
            if space is not None and reads_text(space.model, record.text):
                stored = await self.storage.get_embeddings(space, [record.text])
            made = stored.get(record.text)
            # `supersedes` keeps it from being found alike to itself.
            asked = AddMemoryRequest(
                text=record.text, project=record.project, supersedes=fact.memory_id
            )
            for alike in await find_similar(self.storage, asked, made.vector if made else None):
                other = await self.storage.get_memory(alike.memory_id)
                if other is None:
                    continue
                older, newer = sorted((record, other), key=lambda one: one.created_at)
                compared = compare(older.text, newer.text, alike.similarity)
                if compared is not None:
                    key = (older.memory_id, newer.memory_id)
                    pairs[key] = (compared.kind, older, newer)
            if progress is not None:
                progress(number, len(chosen))
        last = to_time(chosen[-1].updated_at) if chosen else 0
        return list(pairs.values()), len(facts) - len(chosen), last


def _count_recalls(home: str, memory_ids: Sequence[str]) -> Counter[str]:
    """Count how often memories were recalled or used."""
    counts: Counter[str] = Counter()
    for start in range(0, len(memory_ids), PAGE):
        for one, given in feedback(home, memory_ids[start : start + PAGE]).items():
            counts[one] = given.given + given.used
    return counts
