"""The card of an entity, a file or a symbol: what memories say, and what sessions did about it.

Sessions and commits are read from the local file when a card is asked for. They are no part of the
graph: no export, sync or storage server has them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, NamedTuple

from zapomni_core.exceptions import EntityNotFoundError, NotFoundError
from zapomni_core.infra.correlation import operation
from zapomni_core.modules.codebase import SymbolRequest, SymbolResponse
from zapomni_core.modules.graph import CardMemory, EntityCard, RelatedRequest
from zapomni_core.shared.folders import lies_in, real_path
from zapomni_db.graph_models import Entity
from zapomni_db.models import FrozenModel
from zapomni_db.observation_models import AskedIn, SessionWork, WorkCommit

if TYPE_CHECKING:
    from zapomni_core.modules.codebase import Citations, CodeMemory
    from zapomni_core.modules.graph import KnowledgeGraph
    from zapomni_core.modules.observations import Observations, Reach
    from zapomni_db.interfaces import StorageProvider

__all__ = ["CardPlace", "CitingCard", "EntityCards", "EntityReport"]

SHOWN_SESSIONS, SHOWN_COMMITS, SHOWN_CITING, SHOWN_FILES = 4, 5, 8, 8
NEAR_NAMES = 5
# A memory that was stored when it happened was stored in the session that was going on.
AT_ONCE_SECONDS = 60
# What sessions work on, or is decided in one.
WORKED_ON = frozenset({"FILE", "CODE", "DECISION"})


class CardPlace(FrozenModel):
    """Where a file or a symbol is."""

    repository: str
    """The root of its project; empty: not known."""
    path: str
    symbol: str = ""
    kind: Literal["file", "symbol"] = "file"
    signature: str = ""
    start_line: int = 0


class CitingCard(CardMemory):
    """A memory that cites a file or a symbol."""

    status: str = ""
    """What became of the cited code: fresh, changed, moved, gone."""


class EntityReport(EntityCard):
    """A card with what this machine alone knows: where it is, what cites it, what was done."""

    place: CardPlace | None = None
    cited_by: list[CitingCard] = []
    work: list[SessionWork] = []
    """What sessions did about it, the last one first; of a decision, the nearest to it first."""
    commits: list[WorkCommit] = []
    """Of an imported history."""
    sessions: dict[str, AskedIn] = {}
    """In which session memories of this card were stored, by their ids, where that is clear."""


class _File(NamedTuple):
    """A file, the paths that sessions know it by, and the projects they are of."""

    place: CardPlace
    paths: list[str]
    reach: Reach


@dataclass(frozen=True)
class EntityCards:
    """Joins the graph, citations and observations."""

    graph: KnowledgeGraph
    code: Callable[[], CodeMemory]
    citations: Citations
    observations: Observations
    storage: StorageProvider

    @operation()
    async def show(self, request: RelatedRequest, folder: str = "") -> EntityReport:
        """Return all that is known about an entity, a file of the project or an indexed symbol.

        Raises:
            EntityNotFoundError: It is none of them; `near` has names that are like it.
        """
        reach = await self.observations.reach(folder, "*", agent=True)
        try:
            card = EntityReport(**dict(await self.graph.get_card(request, folder)))
            if card.entity is None:
                return card
        except EntityNotFoundError as error:
            return await self._show_unnamed(request.entity.strip(), folder, reach, error)
        entity = card.entity
        files = await self._cited_files(card)
        card = card.model_copy(update={"files": [*dict.fromkeys([*card.files, *files])]})
        if entity.type == "FILE":
            file = await self._find_file(entity.name, folder, reach)
            card = card if file is None else await self._with_file(card, file)
        elif entity.type == "CODE":
            with suppress(NotFoundError):
                found = await self._find_symbol(entity.name, folder)
                card = await self._with_symbol(card, found, reach)
        elif entity.type == "DECISION":
            card = await self._with_decision(card, files, folder, reach)
        if entity.type in WORKED_ON:
            card = card.model_copy(update={"sessions": await self._sessions(card)})
        return card

    async def _show_unnamed(
        self, name: str, folder: str, reach: Reach, error: EntityNotFoundError
    ) -> EntityReport:
        """Return the card of a file or a symbol that no memory names."""
        file = await self._find_file(name, folder, reach)
        if file is not None:
            card = await self._with_file(_unnamed(name, "FILE"), file)
        else:
            try:
                found = await self._find_symbol(name, folder)
            except NotFoundError as unknown:
                near = [*error.near, *getattr(unknown, "near", ())][:NEAR_NAMES]
                raise EntityNotFoundError(str(error), near=near) from error
            if found.symbol is None:
                near = [f"{one.path}:{one.qualified_name}" for one in found.candidates[:NEAR_NAMES]]
                raise EntityNotFoundError(str(error), near=near) from error
            card = await self._with_symbol(_unnamed(name, "CODE"), found, reach)
        return card.model_copy(update={"sessions": await self._sessions(card)})

    # --- Finding ------------------------------------------------------------------------

    async def _find_file(self, name: str, folder: str, reach: Reach) -> _File | None:
        """Return a file of the project of a folder, else one that sessions edited elsewhere."""
        own, root = reach, ""
        if folder:
            own = await self.observations.reach(folder)
            scope = await self.observations.scope(folder)
            root = real_path(scope.project.root or folder)
        if root and (path := await asyncio.to_thread(_find_on_disk, name, folder, root)):
            inside = str(PurePath(path).relative_to(root))
            # Other clones and worktrees of the project have the same path.
            known = await self.observations.find_paths(inside, own)
            paths = list(dict.fromkeys([path, *known]))
            return _File(CardPlace(repository=root, path=inside), paths, own)
        for among in (own, reach):
            if known := await self.observations.find_paths(name, among):
                is_here = root and lies_in(known[0], root)
                path = str(PurePath(known[0]).relative_to(root)) if is_here else known[0]
                return _File(CardPlace(repository=root if is_here else "", path=path), known, among)
        return None

    async def _find_symbol(self, name: str, folder: str) -> SymbolResponse:
        """Return an indexed symbol with what agents did to it, or the choices.

        Raises:
            NotFoundError: There is none, or nothing is indexed.
        """
        request = SymbolRequest(name=name, folder=folder, history=True)
        return await self.code().get_symbol(request)

    async def _cited_files(self, card: EntityCard) -> list[str]:
        """Return the files that the memories of a card cite."""
        ids = [one.memory_id for one in card.memories]
        kept = await self.citations.store.get_citations(ids) if ids else {}
        return list(dict.fromkeys(one.path for found in kept.values() for one in found))[
            :SHOWN_FILES
        ]

    # --- Joining ------------------------------------------------------------------------

    async def _with_file(self, card: EntityReport, file: _File) -> EntityReport:
        place, paths, reach = file
        return card.model_copy(
            update={
                "place": place,
                "cited_by": await self._citing(place, reach),
                "work": await self.observations.work_on(paths, reach, SHOWN_SESSIONS),
                "commits": await self.observations.commits_of(place.path, reach, SHOWN_COMMITS),
            }
        )

    async def _with_symbol(
        self, card: EntityReport, found: SymbolResponse, reach: Reach
    ) -> EntityReport:
        symbol = found.symbol
        if symbol is None:
            return card  # The name means several.
        place = CardPlace(
            repository=symbol.repository,
            path=symbol.path,
            symbol=symbol.qualified_name,
            kind="symbol" if symbol.qualified_name else "file",
            signature=symbol.signature,
            start_line=symbol.start_line,
        )
        paths = [str(PurePath(symbol.repository) / symbol.path), symbol.path]
        ids = [edit.observation_id for edit in found.edits]
        return card.model_copy(
            update={
                "place": place,
                "cited_by": await self._citing(place, reach),
                "work": await self.observations.work_on(paths, reach, SHOWN_SESSIONS, ids),
            }
        )

    async def _with_decision(
        self, card: EntityReport, cited: Sequence[str], folder: str, reach: Reach
    ) -> EntityReport:
        """Add what sessions did about the files of a decision, and who committed them.

        The sessions nearest to it come first.
        """
        paths: list[str] = []
        commits: dict[str, WorkCommit] = {}
        for name in dict.fromkeys([*cited, *card.files]):
            file = await self._find_file(name, folder, reach)
            if file is not None:
                paths += file.paths
                found = await self.observations.commits_of(
                    file.place.path, file.reach, SHOWN_COMMITS
                )
                commits |= {one.commit: one for one in found}
        work = await self.observations.work_on(paths, reach, 5 * SHOWN_SESSIONS)
        if card.first_mentioned:
            decided = card.first_mentioned.timestamp()
            work = sorted(work, key=lambda one: abs(one.first_at - decided))
        newest = sorted(commits.values(), key=lambda one: -one.timestamp)
        return card.model_copy(
            update={"work": work[:SHOWN_SESSIONS], "commits": newest[:SHOWN_COMMITS]}
        )

    async def _citing(self, place: CardPlace, reach: Reach) -> list[CitingCard]:
        if not place.repository:
            return []
        found = await self.citations.find_citing(place.repository, place.path, place.symbol)
        summaries = await self.storage.get_summaries([one.memory_id for one in found])
        return [
            CitingCard(
                memory_id=one.memory_id,
                title=" ".join(one.preview.strip().split("\n", 1)[0].split()),
                occurred_at=summaries[one.memory_id].occurred_at,
                kind=one.kind,
                status=next((c.status for c in one.citations if c.status != "fresh"), "fresh"),
            )
            for one in found
            if one.memory_id in summaries and _is_shown(summaries[one.memory_id].project, reach)
        ][:SHOWN_CITING]

    async def _sessions(self, card: EntityReport) -> dict[str, AskedIn]:
        """Return in which session the memories of a card were stored, where that is clear."""
        ids = list({one.memory_id for one in (*card.memories, *card.cited_by)})
        found: dict[str, AskedIn] = {}
        for memory_id, one in (await self.storage.get_summaries(ids)).items():
            late = abs((one.created_at - one.occurred_at).total_seconds())
            if one.project and late <= AT_ONCE_SECONDS:
                at = int(one.created_at.timestamp())
                session = await self.observations.session_at(one.project, at)
                if session is not None:
                    found[memory_id] = session
        return found


def _unnamed(name: str, kind: str) -> EntityReport:
    """Return the card of what no memory names."""
    entity = Entity(entity_id="", name=name, type=kind, confidence=1.0, source="project")
    return EntityReport(entity=entity, notice="No memory names it.")


def _find_on_disk(name: str, folder: str, root: str) -> str:
    """Return the path of a file in a project, named from a folder or from its root; else empty."""
    for start in (folder, root):
        path = real_path(name, start)
        if lies_in(path, root) and os.path.isfile(path):  # noqa: PTH113 - a moment's work
            return path
    return ""


def _is_shown(project: str, reach: Reach) -> bool:
    if project in reach.hidden:
        return False
    return reach.projects is None or project in reach.projects
