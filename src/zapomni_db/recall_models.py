"""The recall log as every layer reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = [
    "OCCASIONS",
    "AskedQuestion",
    "DayTokens",
    "LoggedItem",
    "LoggedRecall",
    "RecallFilter",
    "RecallTotals",
    "SessionTokens",
    "name_project",
]

OCCASIONS = ("session_start", "prompt", "failure", "tool", "command", "page")
"""When something is recalled. The first three are those that no one asked for."""


@dataclass(frozen=True)
class RecallFilter:
    """Which recalls; every part given must match."""

    session: str | None = None
    """The beginning of its id is enough."""
    projects: Sequence[str] | None = None
    how: str | None = None
    item: str | None = None
    """The id of a memory or observation that was given."""
    since: int | None = None
    until: int | None = None
    used: bool | None = None
    """Whether something of it was used."""
    limit: int = 20
    offset: int = 0


@dataclass(frozen=True)
class LoggedItem:
    """An item as it was given, and how it was used first: opened, cited or named."""

    id: str
    kind: str
    tokens: int
    evidence: float | None
    used_at: int | None
    used_how: str | None


@dataclass(frozen=True)
class LoggedRecall:
    """One recall with its items, best first."""

    id: int
    at: int
    client: str
    session: str
    project: str
    how: str
    query: str
    tokens: int
    items: list[LoggedItem]

    def to_json(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return it as commands and pages write it, given what projects are called by key."""
        row = asdict(self)
        row["at"] = _iso(self.at)
        row |= {"project": name_project(self.project, names), "project_key": self.project}
        for item in row["items"]:
            item["used_at"] = item["used_at"] and _iso(item["used_at"])
        return row


def name_project(key: str, names: Mapping[str, str]) -> str:
    """Return what the user calls a project; of one that is not known, a path or an address."""
    return names.get(key, "" if key.startswith("root:") else key)


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


@dataclass(frozen=True)
class DayTokens:
    """What was given on one day of the local calendar."""

    day: str
    recalls: int
    tokens: int


@dataclass(frozen=True)
class SessionTokens:
    """What one session was given."""

    session: str
    client: str
    project: str
    last_at: int
    recalls: int
    tokens: int


@dataclass(frozen=True)
class RecallTotals:
    """How much was given, and how much of it was used."""

    recalls: int = 0
    tokens: int = 0
    items: int = 0
    used: int = 0
    by_day: Sequence[DayTokens] = ()
    """The latest days with a recall, newest first."""
    by_session: Sequence[SessionTokens] = ()
    """The latest sessions, newest first."""


@dataclass(frozen=True)
class AskedQuestion:
    """A question that was asked, and the items that were used after they were given for it."""

    query: str
    how: str
    project: str
    used: Sequence[tuple[str, str]]
    """Kind and id of each."""
