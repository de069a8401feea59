"""Which project memories belong to, and which projects answer a question.

Memories carry a project's key, as observations do; people and agents see its name. What keys and
names there are is in the local file, whichever engine stores the memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from zapomni_core.interfaces import ListRequest, UpdateMemoryRequest
from zapomni_core.modules.memories import parse_filters
from zapomni_db.models import FrozenModel, MemoryFields, MemoryFilter, MemoryPage

if TYPE_CHECKING:
    from zapomni_core.modules.memories import Memories
    from zapomni_core.modules.observations import Observations, Reach
    from zapomni_db.graph_models import MemoryVersion
    from zapomni_db.interfaces import StorageProvider

__all__ = ["NamedMemories", "Projects", "show_project"]

M = TypeVar("M", bound=MemoryFields)

PAGE = 500


class NamedMemories(FrozenModel):
    """Memories that carry a name instead of a project's key."""

    name: str
    memories: int
    projects: list[str]
    """The keys of the projects that are called so; one of several cannot be chosen."""


@dataclass(frozen=True)
class Projects:
    """The projects of memories and observations."""

    observations: Observations
    storage: StorageProvider
    memories: Memories

    async def narrow(
        self, filters: MemoryFilter, folder: str, *, agent: bool = False
    ) -> tuple[MemoryFilter, Reach]:
        """Return filters by what memories carry, for a question that is asked in a folder."""
        reach = await self.observations.reach(folder, filters.project or "", agent=agent)
        wanted = {
            "project": None,
            "projects": reach.projects,
            "not_projects": reach.hidden if reach.projects is None else [],
        }
        return filters.model_copy(update=wanted), reach

    async def reach(
        self, folder: str, wanted: str, agent: bool
    ) -> tuple[list[str] | None, list[str]]:
        """Return which projects answer in a folder (None: all but the second, hidden ones)."""
        found = await self.observations.reach(folder, wanted, agent=agent)
        return found.projects, found.hidden

    async def name(self, found: Sequence[M]) -> list[M]:
        """Return memories with the name of their project in the place of its key."""
        names = await self.observations.names() if any(one.project for one in found) else {}
        return [
            one.model_copy(
                update={"project": show_project(one.project, names), "project_key": one.project}
            )
            if one.project
            else one
            for one in found
        ]

    async def list_memories(self, request: ListRequest) -> MemoryPage:
        """List memories that answer in a folder, and how many more other projects have."""
        filters, reach = await self.narrow(parse_filters(request.filters), request.folder)
        narrowed = request.model_copy(update={"filters": filters})
        page = await self.memories.list_memories(narrowed)
        elsewhere = 0
        if reach.has_elsewhere:
            others = [*(reach.projects or ()), *reach.hidden]
            there = filters.model_copy(update={"projects": None, "not_projects": others})
            listed = await self.memories.list_memories(ListRequest(limit=1, filters=there))
            elsewhere = listed.total
        items = await self.name(page.items)
        return MemoryPage(items=items, total=page.total, elsewhere=elsewhere)

    async def get_history(
        self, memory_id: str, as_of: datetime | None = None
    ) -> list[MemoryVersion]:
        """Return the versions of a memory with the names of their projects."""
        names = await self.observations.names()
        named: list[MemoryVersion] = []
        for version in await self.memories.get_history(memory_id, as_of):
            project = show_project(version.fields["project"], names)
            fields = version.fields | {"project": project}
            named.append(version.model_copy(update={"fields": fields}))
        return named

    async def list_named(self) -> list[NamedMemories]:
        """Return which memories carry a name, and the projects that have it, in any case."""
        known = await self.observations.projects()
        untrusted = {folder for one in known for folder in one.untrusted_folders}
        keys = {key for one in known for key in (one.key, *one.aliases)}
        called: dict[str, list[str]] = {}
        for one in known:
            if one.key not in untrusted:
                called.setdefault(one.name.casefold(), []).append(one.key)
        counts = await self.storage.count_by_project()
        return [
            NamedMemories(name=name, memories=number, projects=called.get(name.casefold(), []))
            for name, number in sorted(counts.items())
            if name and name not in keys
        ]

    async def match(self) -> list[NamedMemories]:
        """Give memories the key of the one project that has the name they carry.

        What each carried is recorded first: `undo` restores it, also after half of a match.
        """
        matched = [one for one in await self.list_named() if len(one.projects) == 1]
        for one in matched:
            (key,) = one.projects
            filters = MemoryFilter(project=one.name, include_superseded=True)
            ids: list[str] = []
            while page := (await self.storage.list_memories(filters, PAGE, len(ids))).items:
                ids += [item.memory_id for item in page]
            await self.observations.add_matches(ids, one.name, key)
            for memory_id in ids:
                await self.memories.update(UpdateMemoryRequest(memory_id=memory_id, project=key))
        return matched

    async def undo(self) -> int:
        """Give memories back the names they carried before `match`; return how many.

        One that was moved to another project since, or deleted, stays so.
        """
        restored = 0
        matches = await self.observations.matches()
        for start in range(0, len(matches), PAGE):
            batch = matches[start : start + PAGE]
            ids = [memory_id for memory_id, _, _ in batch]
            now = await self.storage.get_summaries(ids)
            for memory_id, name, key in batch:
                if memory_id in now and now[memory_id].project == key:
                    request = UpdateMemoryRequest(memory_id=memory_id, project=name)
                    await self.memories.update(request)
                    restored += 1
            await self.observations.delete_matches(ids)
        return restored


def show_project(key: str, names: Mapping[str, str]) -> str:
    """Return what a project is called: its name if it is known, else the end of its key."""
    if key in names:
        return names[key]
    host, _, path = key.partition("/")
    # A remote or a folder of another machine; anything else is a name that was given.
    is_key = path and (not host or "." in host)
    return key.rstrip("/").rsplit("/", 1)[-1] if is_key else key
