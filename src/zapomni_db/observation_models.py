"""What agents did, as every layer above the storage sees it. Times are seconds since 1970 UTC."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = [
    "ActivityCount",
    "AskedIn",
    "CaptureOverview",
    "Failure",
    "HostActivity",
    "KnownProject",
    "Observation",
    "ObservationMatch",
    "ObservationPreview",
    "ObservationQuery",
    "Order",
    "OutlineStep",
    "SessionGroup",
    "SessionStory",
    "SessionSummary",
    "SessionWork",
    "Timeline",
    "WorkCommit",
    "WorkStep",
]

Order = Literal["relevance", "blended", "recent"]


class ObservationModel(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)


class ObservationPreview(ObservationModel):
    """A hit: enough to judge it by, cheap to read."""

    id: int
    timestamp: int
    obs_type: str
    content_preview: str = Field(description="The first 120 characters.")
    file_path: str | None
    session_id: str


class Observation(ObservationModel):
    """One recorded action of an agent, whole."""

    id: int
    timestamp: int
    session_id: str
    project: str = Field(description="The project's key.")
    obs_type: str
    source_event: str
    tool_name: str | None
    content: str
    file_path: str | None
    metadata: dict[str, Any] | None
    host: str
    prompt_id: int | None = Field(description="The user_prompt this was done for.")
    pinned: bool


class ObservationMatch(ObservationModel):
    """An observation that has some of the query's words, and how well they fit it."""

    id: int
    timestamp: int
    session_id: str
    project: str
    obs_type: str
    content: str
    file_path: str | None
    pinned: bool
    score: float


class Timeline(ObservationModel):
    """An observation and what happened around it in its session, in order of time."""

    anchor: Observation
    before: list[Observation]
    after: list[Observation]


class SessionSummary(ObservationModel):
    """A session in one line."""

    session_id: str
    project: str
    project_name: str
    host: str
    branch: str
    started_at: int
    last_at: int
    ended_at: int | None
    observations: int
    prompts: int
    edits: int
    errors: int
    commits: int
    first_prompt: str = Field(description="Its first 120 characters.")


class SessionStory(ObservationModel):
    """A session and its observations from the first to the last."""

    summary: SessionSummary
    observations: list[Observation]
    omitted: int = Field(description="Later observations beyond the limit.")


class OutlineStep(NamedTuple):
    """An observation of a session in short; a session may have thousands."""

    id: int
    timestamp: int
    obs_type: str
    file_path: str | None
    summary: str
    """The first 200 characters, of a commit's message if it is one."""
    command: str
    """What was run; empty if it was no command."""
    failed: bool
    passed: bool
    """Whether it was a command that is known to have succeeded."""
    prompt_id: int | None
    pinned: bool


class SessionGroup(NamedTuple):
    """How many sessions a host had in a project."""

    project: str
    host: str
    sessions: int


class ActivityCount(NamedTuple):
    """How much was done in a project within a quarter of an hour."""

    project: str
    at: int
    """When the quarter of an hour began."""
    observations: int


class HostActivity(NamedTuple):
    """When a host was heard of last."""

    host: str
    captured: int
    """How many events its hooks delivered."""
    sessions: int
    last_at: int


class CaptureOverview(NamedTuple):
    """How much is captured, and by which hosts, the last heard of first."""

    observations: int
    sessions: int
    hosts: list[HostActivity]


class Failure(ObservationModel):
    """An error that came back, and what ended it."""

    project: str
    signature: str
    command: str
    times: int
    sessions: int
    last: ObservationPreview
    still_open: bool = Field(description="It came back after the last fix, or was never fixed.")
    fixed_by: list[ObservationPreview] = Field(
        description="What was changed before the command succeeded."
    )
    passed: ObservationPreview | None = Field(description="The run that succeeded, if any.")


class WorkStep(ObservationModel):
    """A command that failed or passed around an edit."""

    id: int
    timestamp: int
    command: str
    message: str = Field(default="", description="What it said; empty if it passed.")


class WorkCommit(ObservationModel):
    """A commit: made in a session, or of a repository's history."""

    id: int
    timestamp: int
    commit: str = Field(description="The beginning of its hash is enough for git.")
    subject: str
    author: str = Field(default="", description="Empty if a session made it.")


class SessionWork(ObservationModel):
    """What was done about some files in one session, and why as far as that is known."""

    session_id: str
    project: str
    host: str
    branch: str
    first_at: int
    last_at: int
    edits: int
    files: list[str] = Field(description="Those of the files that were edited, the last one first.")
    prompts: list[str] = Field(description="What the user had asked for, in order.")
    failure: WorkStep | None = Field(
        default=None,
        description="What had failed before the first edit: for the same prompt, or it passed "
        "after an edit.",
    )
    passed: WorkStep | None = Field(default=None, description="When that passed again.")
    failed_after: WorkStep | None = Field(
        default=None, description="What failed after the last edit, and did not pass later."
    )
    commits: list[WorkCommit] = []


class AskedIn(ObservationModel):
    """The session in which something was done at a time, and the prompt before it."""

    session_id: str
    host: str
    prompt: str


class KnownProject(ObservationModel):
    """A project, its name, its other keys, and how much is stored of it."""

    key: str
    name: str
    aliases: list[str]
    observations: int
    sessions: int
    last_at: int | None
    injection: bool = Field(description="Whether new sessions are given a context.")
    untrusted_folders: list[str] = Field(description="Folders that claim to be this project.")
    private: bool = Field(default=False, description="Whether no other project is shown it.")
    excluded: bool = Field(default=False, description="Whether hooks record nothing of it.")


class ObservationQuery(ObservationModel):
    """A search over observations. `projects` None means all of them."""

    query: str
    projects: list[str] | None = None
    not_projects: list[str] = []
    obs_type: str | None = None
    file: str | None = Field(default=None, description="A path, or the end or folder of one.")
    failed: bool | None = Field(default=None, description="Only failures, or only the rest.")
    session: str | None = None
    pinned: bool | None = None
    after: int | None = None
    before: int | None = None
    order_by: Order = "relevance"
    limit: int = 20
    offset: int = 0

    @field_validator("query", "obs_type", "file", "session")
    @classmethod
    def _encodable(cls, value: str | None) -> str | None:
        # Half a character pair, from a command line of raw bytes, is found nowhere.
        return None if value is None else value.encode("utf-8", "replace").decode()
