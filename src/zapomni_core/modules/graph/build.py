"""Reading memories into the graph, passage by passage, whatever interrupts it.

Every passage is stored together with the fact that it was read: a killed run resumes after its last
committed batch, and reading everything again changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from zapomni_core.modules.graph.extraction import Extraction, GraphExtractor
from zapomni_core.modules.graph.names import fuzzy_key, same_entity
from zapomni_core.modules.graph.relations import SINGLE_VALUED
from zapomni_db.graph_models import EntityName, ExtractedChunk, GraphGrowth, GraphScope, UnreadChunk
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import EntityData

__all__ = ["Report", "build_graph"]


Report = Callable[[int, int | None, str], Awaitable[None]]
"""Called with how many passages are done, how many there are, and a message without stored text."""

# A transaction is kept short for other writers; with a model it is one passage's.
STORE_AT_ONCE = 32
# The query for unread passages may scan all of them: not once per transaction.
PAGE = 4 * STORE_AT_ONCE
STORE_AFTER_SECONDS = 2.0

# Types of which a misspelling may be merged with what it misspells.
FORGIVING = ("ORG", "PLACE", "TECHNOLOGY")


async def build_graph(
    storage: StorageProvider, extractor: GraphExtractor, scope: GraphScope, report: Report
) -> dict[str, Any]:
    """Read what is unread; return what was added, and what could not be used."""
    total = await storage.count_unread(extractor.version, scope)
    known = _Known(await storage.get_names(FORGIVING) if total else [])
    done, growth, notice, after = 0, GraphGrowth(), None, None
    while page := await storage.get_unread(extractor.version, scope, after, PAGE):
        after = page[-1].chunk_id
        while page:
            batch, page = await _read(extractor, page)
            growth = _sum(growth, await _store(storage, extractor.version, batch, known))
            notice = next((found.notice for _, found in batch if found.notice), notice)
            done += len(batch)
            await report(done, max(done, total), "Reading passages")
    return {
        "passages_read": done,
        "entities_added": growth.entities,
        "relationships_added": growth.relationships,
        "mentions_added": growth.mentions,
        "notice": notice,
    }


_Batch = list[tuple[UnreadChunk, Extraction]]


async def _read(
    extractor: GraphExtractor, page: list[UnreadChunk]
) -> tuple[_Batch, list[UnreadChunk]]:
    """Read passages until it is time to store them; return the rest of the page."""
    batch: _Batch = []
    began = time.monotonic()
    for number, chunk in enumerate(page, start=1):
        batch.append((chunk, await extractor.extract(chunk.text, chunk.said_at)))
        await asyncio.sleep(0)  # Reading is work: let others have their turn.
        if number == STORE_AT_ONCE or time.monotonic() - began > STORE_AFTER_SECONDS:
            return batch, page[number:]
    return batch, []


async def _store(
    storage: StorageProvider, version: str, batch: _Batch, known: _Known
) -> GraphGrowth:
    """Store whole what was read whole; what a missing model fell short of is read again later."""
    growth = GraphGrowth()
    for is_whole, reader in ((True, version), (False, f"{version} without its model")):
        chosen = [(chunk, found) for chunk, found in batch if (found.notice is None) is is_whole]
        if chosen:
            same = [pair for _, found in chosen for pair in known.add(found.entities)]
            chunks = [
                ExtractedChunk.model_construct(
                    chunk_id=chunk.chunk_id,
                    entities=found.entities,
                    relationships=[
                        stated.model_copy(update={"exclusive": True})
                        if stated.relationship_type in SINGLE_VALUED
                        else stated
                        for stated in found.relationships
                        # The passage before has said so already.
                        if not chunk.repeated or stated.end_char > chunk.repeated
                    ],
                )
                for chunk, found in chosen
            ]
            growth = _sum(growth, await storage.store_extractions(reader, chunks, same))
    return growth


def _sum(first: GraphGrowth, second: GraphGrowth) -> GraphGrowth:
    return GraphGrowth(*(one + other for one, other in zip(first, second, strict=True)))


class _Known:
    """The names in the graph, to recognize a misspelling of one."""

    def __init__(self, names: Iterable[EntityName]) -> None:
        self._ids: set[str] = set()
        self._alike: dict[tuple[str, str], list[EntityData]] = {}
        for name in names:
            self._remember(
                EntityData.model_construct(
                    entity_id=name.entity_id, name=name.name, type=name.type, confidence=1.0
                )
            )

    def add(self, entities: Iterable[EntityData]) -> list[tuple[str, str]]:
        """Take in entities; return which of them mean one known before."""
        same = []
        for entity in entities:
            if entity.entity_id in self._ids or entity.type not in FORGIVING:
                continue
            alike = self._alike.get(_key(entity), [])
            if known := next((other for other in alike if same_entity(entity, other)), None):
                same.append((entity.entity_id, known.entity_id))
            self._remember(entity)
        return same

    def _remember(self, entity: EntityData) -> None:
        self._ids.add(entity.entity_id)
        self._alike.setdefault(_key(entity), []).append(entity)


def _key(entity: EntityData) -> tuple[str, str]:
    return entity.type, fuzzy_key(entity.name, entity.type)
