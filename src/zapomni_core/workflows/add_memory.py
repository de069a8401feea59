"""Adding and changing memories with the code they cite."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import (
    AddMemoryRequest,
    AddMemoryResponse,
    UpdatedMemory,
    UpdateMemoryRequest,
)
from zapomni_core.modules.codebase import Citations
from zapomni_core.modules.memories import Memories
from zapomni_core.workflows.projects import Projects
from zapomni_db.models import MemoryRecord

__all__ = ["MemoryWriter"]

# Fields of a request for changes that are no changes themselves.
_NOT_CHANGED = {"memory_id", "folder", "agent", "redact"}

logger = get_logger(__name__)


@dataclass(frozen=True)
class MemoryWriter:
    """Writes memories and their citations, so that no cancellation comes between the two."""

    memories: Memories
    citations: Citations
    projects: Projects

    async def add(
        self, requests: Sequence[AddMemoryRequest], *, embed: bool = True
    ) -> list[AddMemoryResponse]:
        """Store texts, in order, with the code that they cite; without `embed`, vectors later."""
        started = time.perf_counter()
        placed = await self._place(requests)
        given = [await self.citations.read_given(r.cites, r.folder) for r in requests]

        async def cite(number: int, stored: AddMemoryRequest, response: AddMemoryResponse) -> None:
            # A repository may be meant by the name of its folder.
            name = requests[number].project.replace("*", "") or stored.project
            cites = given[number]
            if not cites and response.status != "created":
                # It was there already, and what it was said to cite then is still so.
                cites = await self.citations.keep_given(response.memory_id)
            await self.citations.keep(response.memory_id, stored.text, name, stored.folder, cites)

        responses = await self.memories.add(placed, cite, embed=embed)
        logger.info(
            "memories_added",
            memory_ids=[r.memory_id for r in responses[:10]],
            count=len(responses),
            created=sum(r.status == "created" for r in responses),
            text_chars=sum(len(r.text) for r in requests),
            chunks=sum(r.chunks_created for r in responses),
            pending_vectors=sum(r.pending_vectors for r in responses),
            duration_ms=_milliseconds_since(started),
        )
        return responses

    async def _place(self, requests: Sequence[AddMemoryRequest]) -> list[AddMemoryRequest]:
        """Return requests with the project that each memory is to carry."""
        asked = {(r.folder, r.project, r.agent) for r in requests if r.folder or r.project}
        place = self.projects.observations.place
        found = {one: await place(one[0], one[1], agent=one[2]) for one in asked}
        return [
            r.model_copy(update={"project": found.get((r.folder, r.project, r.agent), "")})
            for r in requests
        ]

    async def update(self, request: UpdateMemoryRequest) -> UpdatedMemory:
        """Change a memory, and cite again if its text or its citations changed."""
        started = time.perf_counter()
        if request.project is not None:
            project = await self.projects.observations.place(
                request.folder, request.project or "*", agent=request.agent
            )
            request = request.model_copy(update={"project": project})
        given = None
        if request.cites is not None:
            given = await self.citations.read_given(request.cites, request.folder)

        async def cite(record: MemoryRecord) -> None:
            if given is not None or request.text is not None:
                memory_id = record.memory_id
                cites = await self.citations.keep_given(memory_id) if given is None else given
                await self.citations.keep(
                    memory_id, record.text, record.project, request.folder, cites
                )

        (record,) = await self.projects.name([await self.memories.update(request, cite)])
        logger.info(
            "memory_updated",
            memory_id=record.memory_id,
            fields=sorted(request.model_dump(exclude_none=True, exclude=_NOT_CHANGED)),
            text_chars=None if request.text is None else len(request.text),
            duration_ms=_milliseconds_since(started),
        )
        return record


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)
