"""The tools that find what agents did: search, get_observations, timeline, recent_context.

They read the local file on a connection that cannot write and never open the memory engine. The
answers are JSON arrays and objects as specified; in the text block they are fenced as quoted data,
and every character that could end the quotation or hide in it is written as an escape.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from zapomni_core.exceptions import NotFoundError
from zapomni_core.settings import Settings
from zapomni_core.shared.fencing import DATA_NOTICE, fence
from zapomni_db.observation_models import (
    Observation,
    ObservationPreview,
    ObservationQuery,
    Order,
    Timeline,
)
from zapomni_db.observation_store import ObservationStore
from zapomni_mcp.exceptions import ValidationError
from zapomni_mcp.tools.building import READS, as_tools, to_result, with_zone

__all__ = ["ObservationTools"]

# --- Arguments --------------------------------------------------------------------------

Project = Annotated[
    str | None,
    Field(
        max_length=1000,
        description="A project's key or name. Absent: the current project. null: all projects.",
    ),
]
Limit = Annotated[int, Field(ge=1, description="Most results; capped at 100.")]
Moment = Annotated[
    datetime, Field(description="ISO 8601 (UTC without a zone) or seconds since 1970.")
]
Neighbours = Annotated[int, Field(ge=0, description="How many; capped at 100.")]


# --- Answers ----------------------------------------------------------------------------


class Previews(BaseModel):
    """Hits, best first."""

    data_notice: str = DATA_NOTICE
    result: list[ObservationPreview]


class Observations(BaseModel):
    """Observations, whole."""

    data_notice: str = DATA_NOTICE
    result: list[Observation]


class TimelineAnswer(Timeline):
    """An observation and what happened around it."""

    data_notice: str = DATA_NOTICE


# --- Tools ------------------------------------------------------------------------------


class ObservationTools:
    """The tools and the store they read, opened by the first call.

    Args:
        settings: Where the file is; None means they are read by the first call.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._store: ObservationStore | None = None

    def build(self) -> list[Tool]:
        """Return the tools of this family."""
        return as_tools(
            (
                (self.search, "Search past work", READS),
                (self.get_observations, "Read observations", READS),
                (self.timeline, "What happened around it", READS),
                (self.recent_context, "Recent work", READS),
            )
        )

    async def close(self) -> None:
        """Close the store, if it was opened."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def search(  # noqa: PLR0913 - every argument is part of the tool's schema
        self,
        *,
        query: Annotated[
            str,
            Field(
                max_length=10_000,
                description='Words; also AND, OR, NOT, "a phrase", prefix*, parentheses.',
            ),
        ],
        project: Project = "",
        obs_type: Annotated[
            str,
            Field(
                max_length=50,
                description="Only this type: file_read, file_write, file_edit, command, "
                "command_error, search, user_prompt, git_commit, git_push, mcp_call, "
                "task_spawn, web_fetch, web_search, session_start, session_end, ...",
            ),
        ]
        | None = None,
        limit: Limit = 20,
        offset: Annotated[int, Field(ge=0, le=10_000, description="Results to skip.")] = 0,
        order_by: Annotated[
            Order,
            Field(description="relevance (BM25), blended (with recency) or recent (newest)."),
        ] = "relevance",
        before: Moment | None = None,
        after: Moment | None = None,
        file: Annotated[
            str, Field(max_length=1000, description="Only this file or folder (path or its end).")
        ]
        | None = None,
        failed: Annotated[bool, Field(description="true: only failures; false: none.")]
        | None = None,
    ) -> Annotated[CallToolResult, Previews]:
        """Search what agents did before: commands run, errors, file edits, prompts, commits.

        The history of all sessions on this machine, recorded by hooks: shell commands and their
        failures, files read, written and edited, searches, web pages, user requests, git commits
        and pushes. Use it to find when something was done, how an error was fixed, what was
        tried. Returns 120-character previews with ids: follow with timeline or get_observations.
        """
        scope = await self._scope()
        found = await self._open().search(
            ObservationQuery(
                query=query,
                projects=await self._projects(project, scope),
                obs_type=obs_type or None,
                file=file or None,
                failed=failed,
                after=_seconds(after),
                before=_seconds(before),
                order_by=order_by,
                limit=limit,
                offset=offset,
            )
        )
        return _answer(Previews(result=found), found, scope)

    async def get_observations(
        self,
        ids: Annotated[list[int], Field(description="Observation ids; at most 50.")],
    ) -> Annotated[CallToolResult, Observations]:
        """Read past actions whole by their ids, from search, timeline or the session context.

        Returns full content, file, session, project, host, tool and metadata (exit code, commit,
        output) in the order of ids. Ids that are gone are left out.
        """
        scope = await self._scope()
        found = [item for item in await self._open().get_observations(ids) if scope.shows(item)]
        return _answer(Observations(result=found), found, scope)

    async def timeline(
        self,
        anchor: Annotated[int, Field(description="Id of the observation in the middle.")],
        before: Neighbours = 5,
        after: Neighbours = 5,
    ) -> Annotated[CallToolResult, TimelineAnswer]:
        """See what happened before and after an observation, in the same session, in order.

        Use it to understand the context of a hit: what led to an error, what was done next,
        which edit made a failing command pass.
        """
        scope = await self._scope()
        missing = "anchor observation not found"
        try:
            found = await self._open().timeline(anchor, before, after)
        except NotFoundError as error:
            raise ValidationError(missing, "VAL_003", original_exception=error) from error
        if not scope.shows(found.anchor):
            raise ValidationError(missing, "VAL_003")
        around = {
            "before": [item for item in found.before if scope.shows(item)],
            "after": [item for item in found.after if scope.shows(item)],
        }
        found = found.model_copy(update=around)
        return _answer(TimelineAnswer(**dict(found)), [found], scope)

    async def recent_context(
        self, project: Project = "", limit: Limit = 30
    ) -> Annotated[CallToolResult, Observations]:
        """Recall what was done last in this project: the newest actions, one per file.

        Catch up at the start of a task or after the context was lost: recent edits, commands,
        errors, prompts and commits, newest first; other projects fill up a short list.
        """
        scope = await self._scope()
        recent = await self._open().recent(await self._projects(project, scope), limit)
        found = [item for item in recent if scope.shows(item)]
        return _answer(Observations(result=found), found, scope)

    def _open(self) -> ObservationStore:
        if self._store is None:
            from zapomni_core.infra.locations import observations_path
            from zapomni_core.settings import load_settings
            from zapomni_db.sqlite.observations import SqliteObservations

            self._store = SqliteObservations(observations_path(self._settings or load_settings()))
        return self._store

    async def _scope(self) -> _Scope:
        """Return what the folder the server runs in may see; asked anew, the user may trust it."""
        from zapomni_core.infra.projects import project_of
        from zapomni_core.settings import load_settings

        settings = self._settings or load_settings()
        cwd = os.getcwd()  # noqa: PTH109 - as hooks call it
        project = await asyncio.to_thread(project_of, cwd, str(settings.home / "roots.json"))
        folder = "" if settings.trust == "all" else project.root
        key, trusted = await self._open().folder_project(
            project.key, folder, project.identity, project.main
        )
        return _Scope(key, trusted)

    async def _projects(self, project: str | None, scope: _Scope) -> list[str] | None:
        if not scope.trusted:
            return [scope.project]
        return (
            None if project is None else await self._open().project_keys(project or scope.project)
        )


class _Scope(NamedTuple):
    """The project whose observations this folder is given; in one that is not trusted, no other."""

    project: str
    trusted: bool

    def shows(self, item: Observation) -> bool:
        return self.trusted or item.project == self.project


# --- Formatting -------------------------------------------------------------------------


def _seconds(moment: datetime | None) -> int | None:
    zoned = with_zone(moment)
    return None if zoned is None else int(zoned.timestamp())


def _answer(answer: BaseModel, items: Iterable[BaseModel], scope: _Scope) -> CallToolResult:
    lines = ",\n".join(_quoted_json(item.model_dump(mode="json")) for item in items)
    text = lines if isinstance(answer, Timeline) else f"[\n{lines}\n]" if lines else "[]"
    notice = DATA_NOTICE
    if not scope.trusted:
        from zapomni_core.modules.observations import UNTRUSTED

        notice = f"{UNTRUSTED}\n\n{DATA_NOTICE}"
    block = f"{notice}\n\n{fence(text, kind='observations')}"
    return to_result(answer.model_copy(update={"data_notice": notice}), block)


def _quoted_json(value: Any) -> str:
    """Write JSON on one line in which only printable text stands as itself, and no tag."""
    return "".join(
        character
        if character.isprintable() and character not in "<>"
        else f"\\u{ord(character):04x}"
        if ord(character) < 0x10000
        else json.dumps(character)[1:-1]
        for character in json.dumps(value, ensure_ascii=False)
    )
