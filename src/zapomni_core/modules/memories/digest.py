"""The digest of memories: what a memory is to a new session, and its short text.

Hooks read nothing else of memories. It is written after every change; what could not be written is
made up for by the next change, by a server's start and by `zapomni doctor`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING

from zapomni_core.exceptions import ZapomniError
from zapomni_core.infra.logging import get_logger
from zapomni_core.modules.memories.rules import find_rule, unwrap
from zapomni_core.modules.memories.validation import without_code
from zapomni_core.shared.statements import read_status
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import MemoryData, MemoryFilter, MemoryRecord
from zapomni_db.sqlite.digest import LOADED_BY_HOSTS, DigestEntry, kind_of
from zapomni_db.values import to_time

if TYPE_CHECKING:
    from zapomni_core.shared.redaction import Redactor
    from zapomni_db.sqlite.digest_file import SqliteDigest

__all__ = ["Digest", "digest_class", "shorten"]

SHORT_CHARS = 400
# More than `shorten` ever reads.
READ_CHARS = 8000
BATCH = 100
PAGE = 500

_PREFERENCES = frozenset(["preference", "rule", "convention", "instruction", "guideline"])
_DECISIONS = frozenset(["decision", "adr"])
# Texts that describe what is or was; "always" in them is no rule for an agent.
_NOT_RULES = frozenset(["document", "commit", "code", "bug", "transcript", "conversation", "log"])

_SENTENCE_END = r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+"

logger = get_logger(__name__)


def digest_class(kind: str, pinned: bool, text: str) -> str:
    """Return what a memory is to a new session: one of `CLASSES`."""
    if pinned:
        return "pinned"
    if read_status(text).ended:
        return "note"  # Superseded, rejected or withdrawn by its own words: only searched.
    if kind in _PREFERENCES:
        return "preference"
    if kind in _DECISIONS:
        return "decision"
    stated = find_rule(text) if kind not in _NOT_RULES else None
    return stated[0] if stated else "note"


def shorten(text: str, *, from_rule: bool = False) -> str:
    """Return a text in one line of at most `SHORT_CHARS`: whole sentences, or from its rule on."""
    flat = " ".join(text.split())
    if len(flat) <= SHORT_CHARS:
        return flat
    _, start = (find_rule(text) if from_rule else None) or ("", 0)
    short = ""
    for sentence in re.split(_SENTENCE_END, unwrap(text[start : start + 4 * SHORT_CHARS])):
        longer = " ".join(filter(None, (short, *sentence.split())))
        if len(longer) > SHORT_CHARS:
            break
        short = longer
    if short:
        return f"{short} …"
    cut = " ".join(text[start : start + 4 * SHORT_CHARS].split())[:SHORT_CHARS]
    return f"{cut.rsplit(' ', 1)[0]} …"


class Digest:
    """Brings the digest in the local file up to date with the store.

    Args:
        file: The local file.
        storage: The store of memories.
        store: The storage server's name; empty if the memories are in the local file.
        get_redactor: Returns what masks secrets.
    """

    def __init__(
        self,
        file: SqliteDigest,
        storage: StorageProvider,
        store: str,
        get_redactor: Callable[[], Redactor],
    ) -> None:
        self._file = file
        self._storage = storage
        self._store = store
        self._get_redactor = get_redactor

    async def close(self) -> None:
        """Release the file."""
        await self._file.close()

    async def refresh(
        self, memory_ids: Iterable[str] = (), stored: Sequence[MemoryData] = ()
    ) -> None:
        """Follow changes of these memories, and all that is queued. Never raises for the store.

        Those given as they were just stored are not read again.
        """
        try:
            if not self._store:
                while await self._file.drain_queue(self._describe, BATCH) == BATCH:
                    pass
                return
            made = {memory.memory_id: self._entry(memory) for memory in stored if memory.trusted}
            wanted = list(dict.fromkeys(memory_ids))
            records = [await self._storage.get_memory(one) for one in wanted if one not in made]
            entries = [self._entry(record) for record in records if record and _may_give(record)]
            await self._file.apply_entries([*made.values(), *entries], wanted)
        except ZapomniError as error:
            # The memory itself is stored.
            logger.warning("digest_not_updated", error_code=error.error_code)

    async def catch_up(self) -> None:
        """Follow what other processes changed meanwhile, if anything was changed."""
        if self._store:
            _, state = await self._file.read_digest()
            if state.get(self._store) != await self._storage.get_version():
                await self.rebuild()
        else:
            await self.refresh()

    async def rebuild(self) -> int:
        """Compare the digest with every memory; return how many memories it has now."""
        if not self._store:
            await self._file.requeue()
            while await self._file.drain_queue(self._describe, BATCH) == BATCH:
                pass
            known, _ = await self._file.read_digest()
            return len(known)
        version = await self._storage.get_version()
        known, _ = await self._file.read_digest()
        current: dict[str, int] = {}
        filters = without_code(MemoryFilter())
        for offset in count(0, PAGE):
            page = await self._storage.list_memories(filters, PAGE, offset)
            current |= {one.memory_id: to_time(one.updated_at) for one in page.items if one.trusted}
            if len(page.items) < PAGE:
                break
        changed = [one for one, at in current.items() if known.get(one) != at]
        for start in range(0, len(changed), BATCH):
            records = [
                await self._storage.get_memory(one) for one in changed[start : start + BATCH]
            ]
            entries = [self._entry(record) for record in records if record and _may_give(record)]
            await self._file.apply_entries(entries, ())
        await self._file.apply_entries((), known.keys() - current.keys(), (self._store, version))
        return len(current)

    def _describe(self, kind: str, pinned: bool, text: str) -> tuple[str, str]:
        # Half of a secret would not be recognized: masked before it is cut.
        masked, _ = self._get_redactor().redact(text[:READ_CHARS])
        memory_class = digest_class(kind, pinned, text)
        # A decision is known by its title.
        return memory_class, shorten(masked, from_rule=memory_class != "decision")

    def _entry(self, record: MemoryRecord | MemoryData) -> DigestEntry:
        kind = kind_of(record.kind, record.source, record.parent)
        memory_class, short = self._describe(kind, record.pinned, record.text)
        return DigestEntry(
            record.memory_id,
            record.project,
            record.kind,
            memory_class,
            short,
            to_time(record.updated_at if isinstance(record, MemoryRecord) else record.timestamp),
            None if record.expires_at is None else to_time(record.expires_at),
        )


def _may_give(record: MemoryRecord) -> bool:
    is_given = record.kind != "code" and record.origin != LOADED_BY_HOSTS
    return record.trusted and record.superseded_by is None and is_given
