"""The tools that find observations: search, get_observations, timeline, recent_context.

They read the local file and never open the memory engine, so they work while a storage server is
down. The answers are JSON arrays and objects as specified; in the text block they are fenced as
quoted data, and every character that could end the quotation or hide in it is written as an escape.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field

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
from zapomni_mcp.connection import current_folder
from zapomni_mcp.exceptions import ValidationError
from zapomni_mcp.tools.building import READS, as_tools, to_result, with_zone

if TYPE_CHECKING:
    from zapomni_core.modules.observations import FolderScope, Observations

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


class WholeObservations(BaseModel):
    """Observations, whole."""

    model_config = ConfigDict(title="Observations")

    data_notice: str = DATA_NOTICE
    result: list[Observation]


class TimelineAnswer(Timeline):
    """An observation and what happened around it."""

    data_notice: str = DATA_NOTICE


# --- Tools ------------------------------------------------------------------------------


class ObservationTools:
    """The tools and the observations they read, opened by the first call.

    Args:
        settings: Where the file is; None means they are read by the first call.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._observations: Observations | None = None

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
        """Close the observations, if they were opened."""
        observations, self._observations = self._observations, None
        if observations is not None:
            await observations.close()

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
        scope = await self._open().scope(current_folder())
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
    ) -> Annotated[CallToolResult, WholeObservations]:
        """Read past actions whole by their ids, from search, timeline or the session context.

        Returns full content, file, session, project, host, tool and metadata (exit code, commit,
        output) in the order of ids. Ids that are gone are left out.
        """
        scope = await self._open().scope(current_folder())
        found = [item for item in await self._open().get(ids) if _is_shown(item, scope)]
        return _answer(WholeObservations(result=found), found, scope)

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
        scope = await self._open().scope(current_folder())
        missing = "anchor observation not found"
        try:
            found = await self._open().timeline(anchor, before, after)
        except NotFoundError as error:
            raise ValidationError(missing, "VAL_003", original_exception=error) from error
        if not _is_shown(found.anchor, scope):
            raise ValidationError(missing, "VAL_003")
        around = {
            "before": [item for item in found.before if _is_shown(item, scope)],
            "after": [item for item in found.after if _is_shown(item, scope)],
        }
        found = found.model_copy(update=around)
        return _answer(TimelineAnswer(**dict(found)), [found], scope)

    async def recent_context(
        self, project: Project = "", limit: Limit = 30
    ) -> Annotated[CallToolResult, WholeObservations]:
        """Recall what was done last in this project: the newest actions, one per file.

        Catch up at the start of a task or after the context was lost: recent edits, commands,
        errors, prompts and commits, newest first; other projects fill up a short list.
        """
        scope = await self._open().scope(current_folder())
        recent = await self._open().recent(await self._projects(project, scope), limit)
        found = [item for item in recent if _is_shown(item, scope)]
        return _answer(WholeObservations(result=found), found, scope)

    def _open(self) -> Observations:
        if self._observations is None:
            from zapomni_core.modules.observations import Observations
            from zapomni_core.settings import load_settings

            self._observations = Observations(self._settings or load_settings())
        return self._observations

    async def _projects(self, project: str | None, scope: FolderScope) -> list[str] | None:
        if not scope.trusted:
            return [scope.key]
        return None if project is None else await self._open().project_keys(project or scope.key)


def _is_shown(item: Observation, scope: FolderScope) -> bool:
    """Return whether a folder may see an observation; one that is not trusted sees its own."""
    return scope.trusted or item.project == scope.key


# --- Formatting -------------------------------------------------------------------------


def _seconds(moment: datetime | None) -> int | None:
    zoned = with_zone(moment)
    return None if zoned is None else int(zoned.timestamp())


def _answer(answer: BaseModel, items: Iterable[BaseModel], scope: FolderScope) -> CallToolResult:
    lines = ",\n".join(_quoted_json(item.model_dump(mode="json")) for item in items)
    text = lines if isinstance(answer, Timeline) else f"[\n{lines}\n]" if lines else "[]"
    notice = DATA_NOTICE
    if not scope.trusted:
        from zapomni_core.modules.observations import UNTRUSTED

        notice = f"{UNTRUSTED}\n\n{DATA_NOTICE}"
    block = f"{notice}\n\n{fence(text, kind='observations')}"
    return to_result(answer.model_copy(update={"data_notice": notice}), block)


def _quoted_json(value: Any) -> str:
    """Write JSON on one line; what is not printable, and what could be a tag, is escaped."""
    return "".join(
        character
        if character.isprintable() and character not in "<>"
        else f"\\u{ord(character):04x}"
        if ord(character) < 0x10000
        else json.dumps(character)[1:-1]
        for character in json.dumps(value, ensure_ascii=False)
    )
