"""Which project memories belong to, and which projects answer a question.

Memories carry a project's key, as observations do; people and agents see its name. What keys and
names there are is in the local file, whichever engine stores the memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import MemoryFields, MemoryFilter

if TYPE_CHECKING:
    from zapomni_core.modules.observations import Observations, Reach

__all__ = ["Projects", "show_project"]

M = TypeVar("M", bound=MemoryFields)


@dataclass(frozen=True)
class Projects:
    """The projects of memories and observations."""

    observations: Observations
    storage: StorageProvider

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


def show_project(key: str, names: Mapping[str, str]) -> str:
    """Return what a project is called: its name if it is known, else the end of its key."""
    if key in names:
        return names[key]
    host, _, path = key.partition("/")
    # A remote or a folder of another machine; anything else is a name that was given.
    is_key = path and (not host or "." in host)
    return key.rstrip("/").rsplit("/", 1)[-1] if is_key else key
