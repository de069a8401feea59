"""Observations: what agents did, found again, given to new sessions, and deleted in time."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.settings import Settings
from zapomni_db.observation_models import (
    ActivityCount,
    AskedIn,
    CaptureOverview,
    Failure,
    KnownProject,
    Observation,
    ObservationMatch,
    ObservationPreview,
    ObservationQuery,
    OutlineStep,
    SessionGroup,
    SessionStory,
    SessionSummary,
    SessionWork,
    Timeline,
    WorkCommit,
)
from zapomni_db.sqlite import observation_search
from zapomni_db.sqlite import observations as rows
from zapomni_db.sqlite.observation_reads import aliases_of, names_of_projects, switched_off
from zapomni_db.sqlite.observations import ObservationFile, Reach, open_for_writing
from zapomni_db.sqlite.project_folders import project_for, trust_folder, trusted_folders

# A search imports this file: what only other operations need is imported there.
if TYPE_CHECKING:
    import sqlite3

    from zapomni_core.infra.projects import Project
    from zapomni_core.modules.observations.context import ContextLine
    from zapomni_core.modules.observations.purge import PurgeReport, PurgeScope
    from zapomni_db.sqlite.purging import PurgeSelection

__all__ = ["FolderScope", "Observations", "Reach", "RecallSwitches", "SessionContext"]

MAX_IDS = 50
# So few observations are searched in less time than it takes to ask another thread.
FEW_OBSERVATIONS = 10_000
MAX_NEIGHBORS = 100


class FolderScope(NamedTuple):
    """Which observations a folder is given."""

    project: Project
    """The project that the folder claims to be."""
    key: str
    """The project whose observations it is given; its own path if it is not trusted."""
    trusted: bool


class SessionContext(NamedTuple):
    """What a session that starts now would be given."""

    scope: FolderScope
    text: str
    lines: list[ContextLine]

    @property
    def tokens(self) -> int:
        """What it costs, counted as the setting `context_tokens` counts: JSON bytes / 4."""
        return -(-len(json.dumps(self.text)) // 4) if self.text else 0


class RecallSwitches(NamedTuple):
    """Whether sessions of a project are given something unasked."""

    context: bool
    """At their start."""
    prompts: bool
    """With prompts and failures; nothing either if `context` is off."""
    prompts_everywhere: bool
    """With prompts and failures of projects that have no switch of their own."""
    own: dict[str, bool]
    """The switches of single projects for prompts and failures, by key."""


class Observations:
    """The recorded actions of agents.

    They are in a local file, whatever storage the memories are in. The file is opened by the first
    call; before anything was captured every answer is empty.

    Args:
        settings: Where the file is, which folders are trusted, and how long observations stay.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._file = ObservationFile(settings.observations_path)

    async def close(self) -> None:
        """Release files and threads. Safe to call again."""
        await self._file.close()

    # --- Finding ------------------------------------------------------------------------

    async def search(self, query: ObservationQuery) -> list[ObservationPreview]:
        """Return the observations that match, best first.

        Raises:
            ValidationError: The query's syntax is wrong, or a limit is broken.
        """
        # Here too: a wrong query is wrong before anything was captured as well.
        observation_search.check(query)
        return await self._file.read([], observation_search.search, query)

    async def match(self, terms: Sequence[str], query: ObservationQuery) -> list[ObservationMatch]:
        """Return observations that have any of the terms, best first: BM25, as for memories.

        `query` has the filters and the limit; its own words are not read. Terms that occur nearly
        everywhere find nothing by themselves.
        """
        newest, *_ = await self._file.get_version() or (0,)
        if not newest:
            return []
        if newest <= FEW_OBSERVATIONS:
            return self._file.read_here([], observation_search.match, terms, query)
        return await self._file.read([], observation_search.match, terms, query)

    async def get_version(self) -> tuple[int, ...]:
        """Return numbers that change with observations, whichever process changes them."""
        return await self._file.get_version()

    async def get(self, ids: Sequence[int]) -> list[Observation]:
        """Return those of the observations that exist, in the order of `ids`.

        Raises:
            ValidationError: There are no ids, or more than 50.
        """
        if not ids:
            raise ValidationError("ids array must not be empty", "VAL_001")
        if len(ids) > MAX_IDS:
            raise ValidationError(f"at most {MAX_IDS} ids per request", "VAL_003")
        return await self._file.read([], rows.get_observations, ids)

    async def timeline(self, anchor: int, before: int = 5, after: int = 5) -> Timeline:
        """Return an observation with its neighbors in the same session.

        Raises:
            NotFoundError: There is no such observation.
            ValidationError: A number is negative.
        """
        if before < 0 or after < 0:
            raise ValidationError("before and after must not be negative", "VAL_003")
        neighbors = min(before, MAX_NEIGHBORS), min(after, MAX_NEIGHBORS)
        found = await self._file.read(None, rows.get_timeline, anchor, *neighbors)
        if found is None:
            raise NotFoundError("anchor observation not found")
        return found

    async def recent(self, projects: Sequence[str] | None, limit: int = 30) -> list[Observation]:
        """Return the newest observations, one per file; a project's own before all others'."""
        return await self._file.read([], rows.list_recent, projects, _capped(limit))

    async def failures(self, projects: Sequence[str] | None, limit: int = 10) -> list[Failure]:
        """Return errors that came back, with what fixed them."""
        return await self._file.read([], rows.list_failures, projects, _capped(limit))

    async def sessions(
        self,
        projects: Sequence[str] | None,
        limit: int = 20,
        offset: int = 0,
        *,
        host: str | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> list[SessionSummary]:
        """Return sessions, the last used first.

        Args:
            projects: Keys; None: all.
            limit: How many.
            offset: How many to skip.
            host: Only of this one.
            since: Only those used since then.
            until: Only those that began before.
        """
        return await self._file.read(
            [],
            rows.list_sessions,
            projects,
            _capped(limit),
            offset,
            host=host,
            since=since,
            until=until,
        )

    async def session(self, session_id: str, limit: int = 500, offset: int = 0) -> SessionStory:
        """Return all that was done in a session, in order; the beginning of its id is enough.

        Raises:
            NotFoundError: There is no such session.
            ValidationError: Several sessions begin with this id.
        """
        story = await self._file.read(None, rows.get_session, _encodable(session_id), limit, offset)
        if story is None:
            raise NotFoundError("session not found")
        return story

    async def outline(self, session_id: str) -> list[OutlineStep]:
        """Return the observations of a session in short, in order; the id must be whole."""
        return await self._file.read([], rows.get_outline, _encodable(session_id))

    async def find_paths(self, name: str, reach: Reach) -> list[str]:
        """Return the files that sessions edited, by a path or its end, the last edited first."""
        from zapomni_db.sqlite.file_work import find_paths

        return await self._file.read([], find_paths, _encodable(name), reach.projects, reach.hidden)

    async def work_on(
        self, paths: Sequence[str], reach: Reach, limit: int, ids: Sequence[int] | None = None
    ) -> list[SessionWork]:
        """Return what the last sessions did about files, after which failure and with what result.

        Args:
            paths: The files, as the sessions named them.
            reach: Which projects may be shown.
            limit: How many sessions.
            ids: The edits that count; None: all of these files.
        """
        from zapomni_db.sqlite.file_work import get_work

        known = [_encodable(path) for path in paths]
        return await self._file.read(
            [], get_work, known, reach.projects, reach.hidden, limit, ids=ids
        )

    async def commits_of(self, path: str, reach: Reach, limit: int) -> list[WorkCommit]:
        """Return the newest commits of imported histories that changed a file."""
        from zapomni_db.sqlite.file_work import list_commits

        return await self._file.read(
            [], list_commits, _encodable(path), reach.projects, reach.hidden, limit
        )

    async def session_at(self, project: str, at: int) -> AskedIn | None:
        """Return the session of a project that was going on at a time, if it was the only one."""
        from zapomni_db.sqlite.file_work import session_at

        return await self._file.read(None, session_at, project, at)

    async def count_sessions(self) -> list[SessionGroup]:
        """Return how many sessions each host had in each project."""
        return await self._file.read([], rows.count_sessions)

    async def activity(
        self, projects: Sequence[str] | None, since: int, until: int
    ) -> list[ActivityCount]:
        """Return how much was done per project and quarter of an hour, by time."""
        return await self._file.read([], rows.count_activity, projects, since, until)

    async def capture(self) -> CaptureOverview:
        """Return how much is captured, and when each host was heard of last."""
        return await self._file.read(CaptureOverview(0, 0, []), rows.get_capture)

    # --- Projects and folders -----------------------------------------------------------

    async def project_keys(self, name: str) -> list[str]:
        """Return the keys of a project, given one of them, or of all that have this name.

        A name that no project has is its own key.
        """
        name = _encodable(name)
        return await self._file.read([name], rows.project_keys, name)

    async def scope(self, folder: str = "", *, trust: str | None = None) -> FolderScope:
        """Return which observations a folder is given.

        A folder that claims a project known from another folder is given what was done in itself.

        Args:
            folder: The current one if empty.
            trust: Used instead of the setting `trust`.
        """
        from zapomni_core.infra.projects import project_of

        roots = str(self._settings.home / "roots.json")
        here = folder or os.getcwd()  # noqa: PTH109 - as hooks call it
        project = await asyncio.to_thread(project_of, here, roots)
        root = "" if (trust or self._settings.trust) == "all" else project.root
        key, trusted = await self._file.read(
            (project.key, True), project_for, project.key, root, project.identity, project.main
        )
        return FolderScope(project, key, trusted)

    async def reach(self, folder: str, wanted: str = "", *, agent: bool = False) -> Reach:
        """Return which projects may answer a question that is asked in a folder.

        The project of the folder's repository and what is global, if no project is wanted. A folder
        that is not trusted is given its own and what is global: an agent always, a user unless a
        project is named. An agent is not given a private project from elsewhere.

        Args:
            folder: Where it is asked; empty: nowhere.
            wanted: A project's key or name; `*` for all of them.
            agent: Whether an agent asks.
        """
        own, trusted = "", True
        if folder:
            scope = await self.scope(folder)
            trusted = scope.trusted
            # A folder without a repository is no project to search in, and still its own.
            own = scope.key
            if trusted and not wanted and not scope.project.identity:
                wanted = "*"
        bound = not trusted and (agent or not wanted)
        only = Reach([own, ""]) if bound or (own and not wanted) else Reach(None)
        if only.projects is None and wanted not in ("", "*"):
            only = Reach([_encodable(wanted)])
        return self._file.read_here(
            only,
            rows.find_reach,
            own,
            _encodable(wanted),
            is_bound=bound,
            is_open=not agent,
        )

    async def place(self, folder: str, wanted: str = "", *, agent: bool = False) -> str:
        """Return the project that a memory added in a folder belongs to; empty: it is global.

        It is the folder's repository, if no project is wanted, and is recorded with the folder. An
        agent in a folder that is not trusted adds to that folder, whatever it wants.

        Args:
            folder: Where it is added; empty: nowhere.
            wanted: A project's key or name; `*` for a global memory.
            agent: Whether an agent adds it.

        Raises:
            ValidationError: Several projects have this name.
        """
        if wanted != _encodable(wanted):
            return wanted  # No memory may carry it, as the one who stores it will say.
        scope = await self.scope(folder) if folder else None
        if agent and scope is not None and not scope.trusted:
            wanted = ""
        if wanted == "*":
            return ""
        here = scope.project if scope is not None and scope.project.identity else None
        if scope is None or here is None:
            return await self._file.read(wanted, rows.find_project, wanted, "") if wanted else ""
        if wanted and (not scope.trusted or wanted not in (here.name, here.key, scope.key)):
            return await self._file.read(wanted, rows.find_project, wanted, "")
        root = "" if self._settings.trust == "all" else here.root
        known = await self._file.read(
            False, rows.is_noted, scope.key, root if scope.trusted else ""
        )
        if known:
            return scope.key
        facts = (here.key, here.name, root, here.identity, here.main)
        return await self._file.write(rows.note_project, *facts)

    async def everywhere(self, folder: str) -> list[str] | None:
        """Return the keys of all projects but those that a folder is not shown; None: of all."""
        hidden = (await self.reach(folder, "*")).hidden
        if not hidden:
            return None
        return [key for key in await self.names() if key not in hidden]

    async def add_matches(self, memory_ids: Sequence[str], name: str, project: str) -> None:
        """Record that memories are given a project's key because they carried its name."""
        await self._file.write(rows.add_matches, memory_ids, name, project)

    async def matches(self) -> list[tuple[str, str, str]]:
        """Return the memories that were given a key, the name each carried, and the key."""
        return await self._file.read([], rows.list_matches)

    async def delete_matches(self, memory_ids: Sequence[str]) -> None:
        """Forget that memories were given a key."""
        await self._file.write(rows.delete_matches, memory_ids)

    async def names(self) -> dict[str, str]:
        """Return what each project is called, by its key."""
        return self._file.read_here({}, names_of_projects)

    async def rule(self, wanted: str, rule: str, *, on: bool, folder: str = "") -> str:
        """Make a project `private` or `excluded`, or end that; return what it is called.

        Args:
            wanted: A project's key or name.
            rule: Which one.
            on: Whether it is to hold.
            folder: Instead of `wanted`, a folder of the project.

        Raises:
            ValidationError: Several projects have this name.
        """
        if folder:
            scope = await self.scope(folder)
            key, name = scope.key, scope.project.name
        else:
            key = await self._file.read(wanted, rows.find_project, _encodable(wanted), "")
            name = (await self.names()).get(key, "")
        await self._file.write(rows.rule_project, key, name, rule, on=on)
        return name or wanted

    async def projects(self) -> list[KnownProject]:
        """Return all projects, the last used first."""
        return await self._file.read([], rows.list_projects)

    async def join_projects(self, other: str, main: str) -> int:
        """Make `other` another key of `main`, now and later; return how many observations moved.

        Raises:
            ValidationError: They are the same, or no project has the key `main`.
        """
        return await self._file.write(rows.join_projects, other, main)

    async def trust(self, project: Project) -> int:
        """Trust a folder with the project it claims; return how many observations join that."""
        return await self._file.write(trust_folder, project.key, project.root, project.identity)

    # --- The context of a session -------------------------------------------------------

    async def context(self, source: str = "startup", project: str = "") -> SessionContext:
        """Return what a session that starts in the current folder would be given, and why.

        Args:
            source: How it starts; after "clear" and "compact" it is given more.
            project: A project's key or name, instead of the current folder's.

        Raises:
            ValidationError: Several projects have this name.
        """
        from zapomni_core.infra.git import changed_files
        from zapomni_core.modules.observations.context import Situation, session_context

        scope = await (self._scope_of(project) if project else self.scope())
        changed = await asyncio.to_thread(changed_files, scope.project.root)
        start = Situation(
            scope.key,
            scope.project.branch,
            changed,
            source,
            is_trusted=scope.trusted,
            root=scope.project.root,
            home=str(self._settings.home),
        )
        text, lines = await self._file.read(
            ("", []), session_context, start, self._settings.context_tokens
        )
        return SessionContext(scope, text, lines)

    async def _scope_of(self, wanted: str) -> FolderScope:
        """Return the scope of a project, in a folder of it that is still there."""
        from zapomni_core.infra.projects import Project, project_of

        key = await self._file.read(wanted, rows.find_project, _encodable(wanted), "")
        name = (await self.names()).get(key, wanted)
        folders = await self._file.read([], trusted_folders, key)
        for folder in [*folders, key]:
            if folder.startswith("/") and await asyncio.to_thread(os.path.isdir, folder):
                roots = str(self._settings.home / "roots.json")
                here = await asyncio.to_thread(project_of, folder, roots)
                return FolderScope(Project(key, name, here.branch, here.root), key, True)
        return FolderScope(Project(key, name), key, True)

    async def switches(self, project: str) -> RecallSwitches:
        """Return what sessions of a project are given unasked; the project is named by its key."""
        from zapomni_db.sqlite.prompt_reads import EVERY_PROJECT, read_switches

        def read(connection: sqlite3.Connection) -> RecallSwitches:
            keys = aliases_of(connection, project)
            own = read_switches(connection)
            everywhere = own.pop(EVERY_PROJECT, True)
            prompts = next((own[key] for key in keys if key in own), everywhere)
            is_on = switched_off(connection).isdisjoint(keys)
            return RecallSwitches(is_on, prompts, everywhere, own)

        return await self._file.read(RecallSwitches(True, True, True, {}), read)

    async def switch_context(self, project: Project, *, on: bool) -> None:
        """Switch the context of a project's new sessions on or off."""
        await self._file.write(rows.switch_context, project.key, project.name, on=on)

    async def switch_prompt_recall(self, project: str | None, *, on: bool) -> None:
        """Switch what prompts and failures bring back, in the project of a key or in every one."""
        from zapomni_db.sqlite.prompt_reads import EVERY_PROJECT, switch_prompt_recall

        await self._file.write(switch_prompt_recall, project or EVERY_PROJECT, on=on)

    # --- Retention ----------------------------------------------------------------------

    async def pin(self, observation_id: int, *, pinned: bool = True) -> None:
        """Pin an observation, so that it stays for ever, or unpin it.

        Raises:
            NotFoundError: There is no such observation.
        """
        if not await self._file.write(rows.pin_observation, observation_id, pinned=pinned):
            raise NotFoundError("No observation has this id.")

    async def usage(self) -> dict[str, Any]:
        """Count observations, their bytes by type, and what each host delivered."""
        found = await self._file.read(None, rows.count_usage)
        return await self._file.write(rows.count_usage) if found is None else found

    async def delete(self, ids: Sequence[int]) -> int:
        """Delete observations of this file; copies of it keep them, other than with `purge`."""
        from zapomni_db.sqlite.purging import delete_observations  # few calls need it

        def work() -> int:
            with open_for_writing(self._settings.observations_path) as connection:
                return delete_observations(connection, ids)

        return await asyncio.to_thread(work)

    async def purge(
        self,
        selection: PurgeSelection,
        scope: PurgeScope = "observations",
        *,
        pinned: bool = False,
        dry_run: bool = True,
        must_exist: bool = True,
    ) -> PurgeReport:
        """Delete what is selected so that nothing is left, in the file and in every copy.

        An empty selection deletes the traces of what was deleted before. Memories are those of the
        local file. Without `must_exist`, copies are purged also of ids that do not exist here.

        Raises:
            NotFoundError: Ids are given, and none of them exists.
        """
        from zapomni_core.modules.observations.purge import purge  # few calls need it

        return await asyncio.to_thread(
            purge,
            self._settings,
            selection,
            scope,
            pinned=pinned,
            dry_run=dry_run,
            must_exist=must_exist,
        )

    async def sweep(self, *, dry_run: bool = True) -> PurgeReport:
        """Delete observations that are past their retention or above the ceiling."""
        from zapomni_core.modules.observations.purge import purge_expired

        return await asyncio.to_thread(purge_expired, self._settings, dry_run=dry_run)

    # --- Exports ------------------------------------------------------------------------

    async def export_projects(self) -> list[dict[str, Any]]:
        """Return all projects as JSON objects."""
        from zapomni_db.sqlite import copying

        return await self._file.read([], copying.export_projects)

    async def import_projects(self, projects: Sequence[dict[str, Any]]) -> int:
        """Add the projects that are not here; return how many."""
        from zapomni_db.sqlite import copying

        return await self._file.write(copying.import_projects, projects)

    async def export_months(self, projects: Sequence[str] | None) -> list[str]:
        """Return the months that have observations of these projects."""
        from zapomni_db.sqlite import copying

        return await self._file.read([], copying.list_months, projects)

    async def export_month(
        self, month: str, projects: Sequence[str] | None
    ) -> list[dict[str, Any]]:
        """Return the observations of a month as JSON objects, by time."""
        from zapomni_db.sqlite import copying

        return await self._file.read([], copying.export_observations, month, projects)

    async def export_sessions(self, projects: Sequence[str] | None) -> list[dict[str, Any]]:
        """Return sessions as JSON objects, by id."""
        from zapomni_db.sqlite import copying

        return await self._file.read([], copying.export_sessions, projects)

    async def import_observations(
        self, observations: Sequence[dict[str, Any]], sessions: Sequence[dict[str, Any]] = ()
    ) -> int:
        """Add the sessions and observations that are not here; return how many observations."""
        from zapomni_db.sqlite import copying

        await self._file.write(copying.import_sessions, sessions)
        return await self._file.write(copying.import_observations, observations)

    async def drain_spool(self) -> int:
        """Store all events that wait in the spool; return how many."""
        from zapomni_core.modules.observations.purge import drain_spool

        def work() -> int:
            with open_for_writing(self._settings.observations_path) as connection:
                return drain_spool(connection, self._settings)

        return await asyncio.to_thread(work)


def _capped(limit: int) -> int:
    if limit < 1:
        raise ValidationError("limit must be at least 1", "VAL_003")
    return min(limit, observation_search.MAX_LIMIT)


def _encodable(text: str) -> str:
    # Half a character pair, from a command line of raw bytes, is found nowhere.
    return text.encode("utf-8", "replace").decode()
