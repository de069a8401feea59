"""The code that memories cite: stored with them and checked at recall."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zapomni_core.exceptions import ZapomniError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import SearchResponse
from zapomni_core.shared.validation import validate_id
from zapomni_db.code_models import CheckedCitation, Citation
from zapomni_db.interfaces import StorageProvider
from zapomni_db.sqlite.code import SqliteCode
from zapomni_db.sqlite.recalls import feedback

if TYPE_CHECKING:
    from zapomni_core.modules.codebase.schemas import CitingMemory, StaleMemory

__all__ = ["Citations"]

IDS_AT_ONCE = 200
# A search is not kept waiting for git.
SEARCH_SECONDS = 0.5

logger = get_logger(__name__)


def _matters(citations: Sequence[CheckedCitation]) -> bool:
    return any(one.status in ("changed", "gone") for one in citations)


@dataclass(frozen=True)
class Citations:
    """Stores and checks citations. What parses code is imported when it is needed."""

    store: SqliteCode
    storage: StorageProvider
    home: str = ""
    """For the log of what was recalled; empty: as if nothing was."""

    async def read_given(self, cites: Sequence[str], folder: str) -> list[Citation]:
        """Return the citations that a caller gives, before the memory is stored.

        Raises:
            ValidationError: There is no such file, symbol or line.
        """
        if not cites:
            return []
        from zapomni_core.modules.codebase.citing import Citer

        return await Citer(self.store).given(cites, folder)

    async def keep(
        self, memory_id: str, text: str, project: str, folder: str, given: Sequence[Citation]
    ) -> None:
        """Let a memory cite what was given and what its text names."""
        found: list[Citation] = []
        if await self.store.list_repositories():
            from zapomni_core.modules.codebase.citing import Citer

            found = await Citer(self.store).found(text, project, folder)
        named = {(one.root, one.path, one.symbol) for one in given}
        new = [one for one in found if (one.root, one.path, one.symbol) not in named]
        if given or new or await self.store.get_citations([memory_id]):
            await self.store.set_citations(memory_id, [*given, *new])

    async def keep_given(self, memory_id: str) -> list[Citation]:
        """Return what a memory was said to cite, as opposed to what its text names."""
        kept = (await self.store.get_citations([memory_id])).get(memory_id, [])
        return [one for one in kept if one.given]

    async def forget(self, memory_id: str) -> None:
        """Forget what a deleted memory cited."""
        await self.store.set_citations(memory_id, [])

    async def check(
        self, memory_ids: Sequence[str], seconds: float | None = None
    ) -> dict[str, list[CheckedCitation]]:
        """Return the state of the cited code, of those memories that cite any.

        Args:
            memory_ids: The memories.
            seconds: How long git may be asked since when code is changed; None: long enough.
        """
        kept = await self.store.get_citations(memory_ids)
        if not kept:
            return {}
        from zapomni_core.modules.codebase.citing import CitationChecker

        flat = [(memory_id, one) for memory_id, citations in kept.items() for one in citations]
        checker = CitationChecker(self.store)
        if seconds is not None:
            checker = CitationChecker(self.store, seconds)
        found = await checker.check([one for _, one in flat])
        checked: dict[str, list[CheckedCitation]] = {}
        news: list[tuple[str, Citation, Citation]] = []
        for (memory_id, one), (state, now) in zip(flat, found, strict=True):
            checked.setdefault(memory_id, []).append(state)
            if one != now:
                news.append((memory_id, one, now))
        if news:
            try:
                await self.store.note_checks(news)
            except ZapomniError as error:
                logger.warning("checks_not_kept", error_code=error.error_code)
        return checked

    @operation()
    async def get(self, memory_id: str) -> list[CheckedCitation]:
        """Return the code that a memory cites, and whether it has changed since."""
        checked_id = validate_id(memory_id)
        return (await self.check([checked_id])).get(checked_id, [])

    async def annotate(self, response: SearchResponse) -> SearchResponse:
        """Let every result say what became of the code it cites."""
        try:
            ids = [hit.memory_id for hit in response.results if hit.memory_id]
            checked = await self.check(ids, SEARCH_SECONDS)
        except ZapomniError as error:
            logger.warning("citations_not_checked", error_code=error.error_code)
            return response
        if not checked:
            return response
        results = [
            hit.model_copy(update={"citations": checked[hit.memory_id]})
            if hit.memory_id in checked
            else hit
            for hit in response.results
        ]
        return response.model_copy(update={"results": results})

    @operation()
    async def find_citing(self, root: str, path: str, symbol: str = "") -> list[CitingMemory]:
        """Return the memories that cite a file or a symbol, those with changed code first."""
        from zapomni_core.modules.codebase.schemas import CitingMemory

        ids = (await self.store.find_citing(root, path, symbol))[:IDS_AT_ONCE]
        summaries = await self.storage.get_summaries(ids)
        found = []
        for memory_id, citations in (await self.check(list(summaries))).items():
            here = [
                one
                for one in citations
                if (one.repository, one.path) == (root, path)
                and (not symbol or one.symbol == symbol or one.symbol.startswith(f"{symbol}."))
            ]
            found.append(
                CitingMemory(
                    memory_id=memory_id,
                    preview=summaries[memory_id].preview,
                    kind=summaries[memory_id].kind,
                    citations=here,
                    is_fresh=all(one.status == "fresh" for one in here),
                )
            )
        return sorted(found, key=lambda one: one.is_fresh)

    @operation()
    async def list_stale(self) -> list[StaleMemory]:
        """Return the memories of which a citation is not fresh.

        First those whose code changed or is gone, the most recalled first; then those whose code
        is elsewhere and as it was.
        """
        from zapomni_core.modules.codebase.schemas import StaleMemory

        ids = await self.store.list_cited()
        stale: list[StaleMemory] = []
        for start in range(0, len(ids), IDS_AT_ONCE):
            batch = ids[start : start + IDS_AT_ONCE]
            summaries = await self.storage.get_summaries(batch)
            for gone in set(batch) - summaries.keys():
                await self.forget(gone)  # Deleted by a program that knows of no citations.
            for memory_id, citations in (await self.check(list(summaries))).items():
                old = [one for one in citations if one.status != "fresh"]
                if old:
                    summary = summaries[memory_id]
                    stale.append(
                        StaleMemory(
                            memory_id=memory_id,
                            preview=summary.preview,
                            project=summary.project,
                            citations=old,
                        )
                    )
        recalled = await asyncio.to_thread(feedback, self.home, [one.memory_id for one in stale])
        stale = [
            one.model_copy(update={"recalls": found.given + found.used})
            if (found := recalled.get(one.memory_id))
            else one
            for one in stale
        ]
        return sorted(stale, key=lambda one: (not _matters(one.citations), -one.recalls))

    @operation()
    async def confirm(self, memory_id: str) -> list[Citation]:
        """Say that a memory is still true: it cites its code as that is now, wherever it is.

        What is gone is cited no more. Returns what was cited before, for `restore`.
        """
        checked_id = validate_id(memory_id)
        before = (await self.store.get_citations([checked_id])).get(checked_id, [])
        if not before:
            return []
        from zapomni_core.modules.codebase.citing import CitationChecker, Citer

        found = await CitationChecker(self.store).check(before)
        citer = Citer(self.store)
        again = [
            await citer.again(old, checked.now or checked.cites)
            for old, (checked, _) in zip(before, found, strict=True)
            if checked.place != "gone"
        ]
        await self.store.set_citations(checked_id, [one for one in again if one is not None])
        return before

    async def restore(self, memory_id: str, citations: Sequence[Citation]) -> None:
        """Take back what `confirm` did."""
        await self.store.set_citations(memory_id, citations)
