"""The tools that find observations: search, get_observations, timeline, recent_context.

They read the local file and never open the memory engine, so they work while a storage server is
down. The answers are JSON arrays and objects as specified; in the text block they are fenced as
quoted data, and every character that could end the quotation or hide in it is written as an escape.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field

from zapomni_core.exceptions import NotFoundError
from zapomni_core.infra.recall_log import RecalledItem, count_tokens, recall_log
from zapomni_core.settings import Settings
from zapomni_core.shared.compact import without_empty
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
from zapomni_mcp.tools.building import (
    READS,
    answer_data,
    as_tools,
    log_recall,
    to_result,
    with_zone,
)

if TYPE_CHECKING:
    from zapomni_core.modules.observations import FolderScope, Observations

__all__ = ["ObservationTools"]

# One observation of recent_context: 35 of them and the notice are read for 900 tokens.
BRIEF_BYTES = 90
AN_HOUR = 3600

# --- Arguments --------------------------------------------------------------------------

Project = Annotated[
    str | None,
    Field(
        max_length=1000,
        description="Left out: this one. null: all.",
    ),
]
Limit = Annotated[int, Field(ge=1)]
Neighbours = Annotated[int, Field(ge=0)]


# --- Answers ----------------------------------------------------------------------------


class Previews(BaseModel):
    """Hits, best first."""

    result: list[ObservationPreview]


class WholeObservations(BaseModel):
    """Observations, whole."""

    model_config = ConfigDict(title="Observations")

    result: list[Observation]


class TimelineAnswer(Timeline):
    """An observation and what happened around it."""


class BriefObservation(BaseModel):
    """An observation in one line; what is as in the one before it is left out."""

    id: int = Field(description="For get_observations.")
    timestamp: int | None = Field(description="If an hour or more from the last one given.")
    project: str = Field(description="If another than before.")
    obs_type: str
    content: str


class RecentObservations(BaseModel):
    """Observations in brief, newest first."""

    result: list[BriefObservation]


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
                (self.search, "Search past actions", READS),
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
            await asyncio.to_thread(recall_log(self._read_settings()).flush)

    async def search(  # noqa: PLR0913 - every argument is part of the tool's schema
        self,
        *,
        query: Annotated[
            str,
            Field(
                max_length=10_000,
                description='Words, "a phrase", prefix*, AND, OR, NOT, ().',
            ),
        ],
        project: Project = "",
        obs_type: Annotated[
            str,
            Field(
                max_length=50,
                description="command, command_error, user_prompt, file_read, file_write, "
                "file_edit, search, git_commit, git_push, mcp_call, web_fetch, web_search, ...",
            ),
        ]
        | None = None,
        limit: Limit = 20,
        offset: Annotated[int, Field(ge=0, le=10_000)] = 0,
        order_by: Order = "relevance",
        before: datetime | None = None,
        after: datetime | None = None,
        file: Annotated[
            str,
            Field(max_length=1000, description="File or folder, or its end."),
        ]
        | None = None,
        failed: Annotated[bool, Field(description="true: only failures; false: none.")]
        | None = None,
    ) -> Annotated[CallToolResult, Previews]:
        """Search the log of past actions: commands, errors, file edits, prompts, commits.

        When was it done, what was tried, how did an error go away? Returns previews with ids for
        timeline and get_observations. For knowledge use search_memory.
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
        self._log(query, found)
        return _answer(Previews(result=found), found, scope)

    async def get_observations(
        self,
        ids: Annotated[list[int], Field(description="At most 50.")],
    ) -> Annotated[CallToolResult, WholeObservations]:
        """Read past actions whole by their ids, from search, timeline or the session context.

        Returns content, file, session, tool and metadata (exit code, commit, output).
        """
        scope = await self._open().scope(current_folder())
        found = await self._shown(await self._open().get(ids), scope)
        self._log("", found, opened=[item.id for item in found])
        return _answer(WholeObservations(result=found), found, scope)

    async def timeline(
        self,
        anchor: Annotated[int, Field(description="An observation's id.")],
        before: Neighbours = 5,
        after: Neighbours = 5,
    ) -> Annotated[CallToolResult, TimelineAnswer]:
        """See what happened before and after an observation, in the same session, in order.

        What led to an error, what was done next, which edit made a failing command pass.
        """
        scope = await self._open().scope(current_folder())
        missing = "anchor observation not found"
        try:
            found = await self._open().timeline(anchor, before, after)
        except NotFoundError as error:
            raise ValidationError(missing, "VAL_003", original_exception=error) from error
        anchors = await self._shown([found.anchor], scope)
        if not anchors:
            raise ValidationError(missing, "VAL_003")
        around = {
            "anchor": anchors[0],
            "before": await self._shown(found.before, scope),
            "after": await self._shown(found.after, scope),
        }
        found = found.model_copy(update=around)
        self._log("", [*found.before, found.anchor, *found.after], opened=[anchor])
        return _answer(TimelineAnswer(**dict(found)), (), scope)

    async def recent_context(
        self, project: Project = "", limit: Limit = 30
    ) -> Annotated[CallToolResult, RecentObservations]:
        """Catch up on the newest actions in this project, briefly, one per file.

        For the start of a task or after the context was lost; other projects fill up a short
        list. get_observations reads one whole.
        """
        scope = await self._open().scope(current_folder())
        recent = await self._open().recent(await self._projects(project, scope), limit)
        found = _in_brief(await self._shown(recent, scope), scope.project.name)
        self._log("", found)
        return _answer(RecentObservations(result=found), found, scope)

    def _open(self) -> Observations:
        if self._observations is None:
            from zapomni_core.modules.observations import Observations

            self._observations = Observations(self._read_settings())
        return self._observations

    def _read_settings(self) -> Settings:
        if self._settings is None:
            from zapomni_core.settings import load_settings

            self._settings = load_settings()
        return self._settings

    def _log(
        self,
        query: str,
        found: Iterable[ObservationPreview | Observation | BriefObservation],
        opened: Iterable[int] = (),
    ) -> None:
        items = [
            RecalledItem("", item.id, count_tokens(_quoted_json(without_empty(item))))
            for item in found
        ]
        log_recall(
            recall_log(self._read_settings()),
            query,
            items,
            opened=[RecalledItem("", key) for key in opened],
        )

    async def _projects(self, project: str | None, scope: FolderScope) -> list[str] | None:
        if not scope.trusted:
            return [scope.key]
        if project is None or project == "*":
            return await self._open().everywhere(current_folder())
        if not project:
            return await self._open().project_keys(scope.key)
        return (await self._open().reach(current_folder(), project, agent=True)).projects

    async def _shown(self, items: Iterable[Observation], scope: FolderScope) -> list[Observation]:
        """Return what a folder may see, with the names of projects in the place of their keys.

        One that is not trusted sees its own; a private project is seen in its own folders.
        """
        from zapomni_core.workflows.projects import show_project

        names = await self._open().names()
        hidden = (await self._open().reach(current_folder(), "*")).hidden
        return [
            item.model_copy(update={"project": show_project(item.project, names)})
            for item in items
            if (item.project not in hidden if scope.trusted else item.project == scope.key)
        ]


# --- Formatting -------------------------------------------------------------------------


def _seconds(moment: datetime | None) -> int | None:
    zoned = with_zone(moment)
    return None if zoned is None else int(zoned.timestamp())


def _in_brief(found: list[Observation], project: str) -> list[BriefObservation]:
    """Return observations with their contents cut so that together they fit `BRIEF_BYTES`.

    Short contents stay whole, and leave their room to the long ones.
    """
    brief = []
    given = 0
    for item in found:
        timestamp = item.timestamp if abs(item.timestamp - given) >= AN_HOUR else None
        given = timestamp or given
        brief.append(
            BriefObservation(
                id=item.id,
                timestamp=timestamp,
                project=item.project if item.project != project else "",
                obs_type=item.obs_type,
                content=_one_line(item),
            )
        )
        project = item.project
    room = BRIEF_BYTES * max(len(found), 35)
    room -= sum(_size(item.model_copy(update={"content": "…"})) for item in brief)
    sizes = sorted(_size(item.content) for item in brief)
    most = 0
    for number, size in enumerate(sizes):
        most = room // (len(sizes) - number)
        if size > most:
            break
        room -= size
    return [item.model_copy(update={"content": _cut(item.content, most)}) for item in brief]


def _one_line(item: Observation) -> str:
    """Return the content as one line; of a long path its end."""
    words = item.content.split()
    if item.obs_type.startswith("file_") and words and words[0].count("/") > 2:
        words[0] = f"…/{'/'.join(words[0].split('/')[-2:])}"
    return " ".join(words)


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text that takes so many bytes as JSON."""
    if _size(text) <= most:
        return text
    kept = text[: max(most, 1)]
    while kept and _size(kept) > most:
        kept = kept[: -max((_size(kept) - most) // 12, 1)]
    return f"{kept.rstrip()}…"


def _size(value: BaseModel | str) -> int:
    data = without_empty(value) if isinstance(value, BaseModel) else value
    return len(_quoted_json(data).encode())


def _answer(answer: BaseModel, items: Iterable[BaseModel], scope: FolderScope) -> CallToolResult:
    if isinstance(answer, Timeline):
        text = _quoted_json(answer_data(answer))
    else:
        lines = ",\n".join(_quoted_json(without_empty(item)) for item in items)
        text = f"[\n{lines}\n]" if lines else "[]"
    notice = DATA_NOTICE
    if not scope.trusted:
        from zapomni_core.modules.observations import UNTRUSTED

        notice = f"{UNTRUSTED}\n\n{DATA_NOTICE}"
    block = f"{notice}\n\n{fence(text, kind='observations')}"
    return to_result(answer, block, notice=notice)


def _quoted_json(value: Any) -> str:
    """Write JSON on one line; what is not printable, and what could be a tag, is escaped."""
    return "".join(
        character
        if character.isprintable() and character not in "<>"
        else f"\\u{ord(character):04x}"
        if ord(character) < 0x10000
        else json.dumps(character)[1:-1]
        for character in json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )
