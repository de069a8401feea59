"""What the doors ask of the store of observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zapomni_db.observation_models import (
    Failure,
    Observation,
    ObservationMatch,
    ObservationPreview,
    ObservationQuery,
    SessionStory,
    SessionSummary,
    Timeline,
)

__all__ = ["ObservationStore"]


class ObservationStore(Protocol):
    """Finds what agents did; never writes.

    Implemented by `zapomni_db.sqlite.observations.SqliteObservations`. Before anything was
    captured every answer is empty.
    """

    async def close(self) -> None:
        """Release files and threads."""
        ...

    async def project_keys(self, name: str) -> list[str]:
        """Return the keys a project is kept under, given one of them or its name.

        A project nobody knows is its own key.


        Raises:
            ValidationError: Several projects have this name.
        """
        ...

    async def folder_project(
        self, key: str, folder: str, identity: str, main: str
    ) -> tuple[str, bool]:
        """Return the project whose observations a folder is given, and whether it is trusted.

        A folder that claims a project known from another folder is given what was done in itself.
        """
        ...

    async def search(self, query: ObservationQuery) -> list[ObservationPreview]:
        """Return the observations that match, best first.

        Raises:
            ValidationError: The query's syntax is wrong, or a limit is broken.
        """
        ...

    async def match(self, terms: Sequence[str], query: ObservationQuery) -> list[ObservationMatch]:
        """Return observations that have any of the terms, best first: BM25, as for memories.

        `query` says which of them count and how many are wanted; its own words are not read.
        Terms that stand nearly everywhere find nothing by themselves.
        """
        ...

    async def get_version(self) -> int:
        """Return a number that changes with every write by any process."""
        ...

    async def get_observations(self, ids: Sequence[int]) -> list[Observation]:
        """Return those of the observations that exist, in the order of `ids`.

        Raises:
            ValidationError: There are no ids, or more than 50.
        """
        ...

    async def timeline(self, anchor: int, before: int = 5, after: int = 5) -> Timeline:
        """Return an observation with its neighbours in the same session.

        Raises:
            NotFoundError: There is no such observation.
        """
        ...

    async def recent(self, projects: Sequence[str] | None, limit: int = 30) -> list[Observation]:
        """Return what was done last, newest first; one project's own before all others'."""
        ...

    async def sessions(
        self, projects: Sequence[str] | None, limit: int = 20, offset: int = 0
    ) -> list[SessionSummary]:
        """Return sessions, the last used first."""
        ...

    async def session(self, session_id: str, limit: int = 500) -> SessionStory:
        """Return all that was done in a session, in order.

        Raises:
            NotFoundError: There is no such session.
            ValidationError: Several sessions begin with this id.
        """
        ...

    async def failures(self, projects: Sequence[str] | None, limit: int = 10) -> list[Failure]:
        """Return errors that came back, with what fixed them."""
        ...
