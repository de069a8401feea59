"""A memory as an exported record: one JSON object, and back.

The record has everything that is stored about a memory but vectors, passages and its graph, which
are made again, and whether it is trusted, which each home decides for itself. A memory has one
record, byte for byte: keys and tags sorted, times in UTC with six decimals (so that they compare
as texts), numbers and texts as stored. `citations`, `device` and `history` are in it on request; a
missing key says nothing, an empty list says there are none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
)
from pydantic import ValidationError as PydanticError

from zapomni_core.shared.dates import in_calendar
from zapomni_db.code_models import Citation
from zapomni_db.copy_models import MemoryCopy, MergeCopy, VersionCopy
from zapomni_db.exceptions import ValidationError
from zapomni_db.models import FrozenModel
from zapomni_db.rules import HOME_FIELDS
from zapomni_db.values import write_time

__all__ = [
    "FORMAT",
    "MAX_RECORD_BYTES",
    "SYNCED",
    "RecordedMerge",
    "RecordedObservation",
    "RecordedProject",
    "RecordedSession",
    "check_fields",
    "check_record",
    "dump_line",
    "dump_record",
    "from_record",
    "load_object",
    "memory_path",
    "own_origin",
    "parse_record",
    "parse_tombstone",
    "synced_origin",
    "to_citations",
    "to_merge",
    "to_record",
    "to_tombstone",
    "tombstone_path",
    "write_time",
]

FORMAT = 1
"""The version of the format; a reader refuses a newer one."""
MAX_RECORD_BYTES = 64 << 20
SYNCED = "sync:"
"""How the origin of a memory begins that another device wrote."""
_MAX_DEPTH = 100
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{1,99}")
# As JSON writes it, and not a backslash followed by "u0000".
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _check_time(moment: datetime) -> datetime:
    if not in_calendar(moment):
        raise ValueError  # Some time zone could not show it.
    return moment


_Time = Annotated[
    AwareDatetime, AfterValidator(_check_time), PlainSerializer(write_time, return_type=str)
]
_Id = Annotated[str, StringConstraints(pattern=rf"^{_ID.pattern}$")]
_Name = Annotated[str, StringConstraints(max_length=1000)]
_Packed = Annotated[str, StringConstraints(max_length=4000)]
_Device = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_-]{0,64}$")]
_Text = Annotated[str, StringConstraints(max_length=10_000_000)]


class _RecordModel(FrozenModel):
    # Keys of a later version are passed over, so that it can add some without a new format.
    model_config = ConfigDict(
        frozen=True, hide_input_in_errors=True, defer_build=True, strict=False, extra="ignore"
    )


class RecordedVersion(_RecordModel):
    """What a change replaced."""

    replaced_at: _Time
    fields: dict[str, Any]
    text: _Text | None = None


class RecordedCitation(_RecordModel):
    """Code that a memory refers to."""

    root: _Name
    path: _Name
    symbol: _Name = ""
    start_line: int = 0
    end_line: int = 0
    given: bool = True
    file_hash: _Name
    content_hash: _Name
    body_hash: _Name = ""
    twins: list[_Name] = []
    commit: _Name = ""
    structure: _Packed = ""


class ExportedRecord(_RecordModel):
    """A record whose fields are valid."""

    id: _Id
    text: _Text
    kind: _Name = "note"
    tags: list[_Name] = []
    project: _Name = ""
    """The project's key; names of projects are exported on their own, since each home has its."""
    source: _Name = ""
    pinned: bool = False
    idempotency_key: _Name | None = None
    parent: _Name = ""
    position: int = Field(default=0, ge=-(1 << 63), lt=1 << 63)
    occurred_at: _Time
    created_at: _Time
    updated_at: _Time
    expires_at: _Time | None = None
    origin: _Name = ""
    supersedes: list[_Id] = Field(default=[], max_length=10_000)
    metadata: dict[str, Any] = {}
    device: _Device | None = None
    """The device that changed it last, a random id; left out if that is not known."""
    citations: list[RecordedCitation] | None = None
    history: list[RecordedVersion] | None = None


class RecordedTombstone(_RecordModel):
    """A memory that was deleted."""

    id: _Id
    deleted_at: _Time
    device: _Device = ""
    purged: bool = False
    """Nothing of it may be left, on any device."""
    same_as: _Id | None = None
    """The memory with the same text that took its place."""
    supersedes: list[_Id] = Field(default=[], max_length=10_000)


class RecordedProject(_RecordModel):
    """A project, its other keys, and what the user decided about it."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=1000)]
    name: _Name
    injection: bool = True
    created_at: int = Field(ge=0, lt=1 << 40)
    aliases: list[_Name] = []
    private: bool = False
    excluded: bool = False


class RecordedMerge(_RecordModel):
    """Two entities that the user said are one."""

    source_id: _Name
    target_id: _Name
    merged_at: _Time
    undone_at: _Time | None = None


class RecordedSession(_RecordModel):
    """One run of an agent."""

    id: _Name
    project: _Name
    host: _Name
    branch: _Name = ""
    started_at: int = Field(ge=0, lt=1 << 40)
    last_at: int = Field(ge=0, lt=1 << 40)
    ended_at: int | None = Field(default=None, ge=0, lt=1 << 40)


_Hash = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2}){1,64}$")]


class RecordedObservation(_RecordModel):
    """One recorded action of an agent."""

    session_id: _Name
    project: _Name
    host: _Name
    timestamp: int = Field(ge=0, lt=1 << 40)
    obs_type: _Name
    source_event: _Name
    tool_name: _Name | None = None
    file_path: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    content: _Text
    metadata: dict[str, Any] | None = None
    signature: _Name | None = None
    pinned: bool = False
    event_hash: _Hash
    prompt: _Hash | None = None


# --- Between the store and the record ---------------------------------------------------


def to_record(
    memory: MemoryCopy,
    *,
    citations: Sequence[Citation] | None = None,
    history: bool = True,
    device: str | None = None,
) -> dict[str, Any]:
    """Return the record of a stored memory; what is None is left out.

    What came from another device has the origin it has there: records are equal in all homes.
    """
    superseded = [] if memory.supersedes is None else [memory.supersedes]
    made: dict[str, Any] = {
        "id": memory.memory_id,
        "text": memory.text,
        "kind": memory.kind,
        "tags": sorted(set(memory.tags)),
        "project": memory.project,
        "source": memory.source,
        "pinned": memory.pinned,
        "idempotency_key": memory.idempotency_key,
        "parent": memory.parent,
        "position": memory.position,
        "occurred_at": write_time(memory.occurred_at or memory.timestamp),
        "created_at": write_time(memory.timestamp),
        "updated_at": write_time(memory.updated_at),
        "expires_at": None if memory.expires_at is None else write_time(memory.expires_at),
        "origin": own_origin(memory.origin),
        "supersedes": sorted({*superseded, *memory.also_supersedes}),
        "metadata": memory.metadata,
    }
    if device is not None:
        made["device"] = device
    if citations is not None:
        known = RecordedCitation.model_fields
        made["citations"] = [one.model_dump(mode="json", include=set(known)) for one in citations]
    if history:
        made["history"] = [
            {"replaced_at": write_time(one.replaced_at), "fields": fields, "text": one.text}
            for one in memory.history
            # A change that concerned this home alone is no version elsewhere.
            if (fields := {k: v for k, v in one.fields.items() if k not in HOME_FIELDS})
            or one.text is not None
            or not one.fields
        ]
    return made


def from_record(record: dict[str, Any], *, trusted: bool) -> MemoryCopy:
    """Return the memory of a valid record, without passages: they are made from its text."""
    valid = ExportedRecord(**record)
    return MemoryCopy(
        memory_id=valid.id,
        text=valid.text,
        chunks=[],
        kind=valid.kind,
        tags=valid.tags,
        project=valid.project,
        source=valid.source,
        pinned=valid.pinned,
        idempotency_key=valid.idempotency_key,
        parent=valid.parent,
        position=valid.position,
        occurred_at=valid.occurred_at,
        timestamp=valid.created_at,
        updated_at=valid.updated_at,
        expires_at=valid.expires_at,
        origin=valid.origin,
        trusted=trusted,
        supersedes=valid.supersedes[0] if valid.supersedes else None,
        also_supersedes=valid.supersedes[1:],
        metadata=valid.metadata,
        history=[
            VersionCopy(replaced_at=one.replaced_at, fields=one.fields, text=one.text)
            for one in valid.history or ()
        ],
    )


def synced_origin(device: str, origin: str) -> str:
    """Return the origin that a memory of another device is stored with."""
    return f"{SYNCED}{device or 'unknown'}" + (f"/{origin}" if origin else "")


def own_origin(origin: str) -> str:
    """Return the origin that a memory has on its own device."""
    return origin.partition("/")[2] if origin.startswith(SYNCED) else origin


def to_citations(record: dict[str, Any]) -> list[Citation] | None:
    """Return what the memory of a valid record cites; None if the record does not say."""
    given = record.get("citations")
    return None if given is None else [Citation(**one) for one in given]


def to_merge(merge: MergeCopy) -> dict[str, Any]:
    """Return what is exported of a merge."""
    return {
        "source_id": merge.source_id,
        "target_id": merge.target_id,
        "merged_at": write_time(merge.merged_at),
        "undone_at": None if merge.undone_at is None else write_time(merge.undone_at),
    }


def to_tombstone(
    memory_id: str,
    deleted_at: datetime,
    *,
    purged: bool = False,
    same_as: str = "",
    supersedes: Sequence[str] = (),
    device: str = "",
) -> dict[str, Any]:
    """Return what is exported of a deleted memory; what is empty is left out."""
    made = {
        "id": memory_id,
        "deleted_at": write_time(deleted_at),
        "purged": purged,
        "same_as": same_as,
        "supersedes": sorted(supersedes),
        "device": device,
    }
    return {name: value for name, value in made.items() if value}


# --- Between the record and its bytes ---------------------------------------------------


def dump_record(record: dict[str, Any]) -> bytes:
    """Return the file of a record or of a tombstone."""
    return (json.dumps(record, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode()


def dump_line(record: dict[str, Any]) -> bytes:
    """Return a record as a line of JSON."""
    compact = json.dumps(record, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return (compact + "\n").encode()


def load_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object in these bytes.

    Raises:
        ValidationError: They hold none, or one that is nested too deeply.
    """
    try:
        value = json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        # The message of the parser may quote what it read.
        raise ValidationError("it is not valid JSON in UTF-8", "VAL_004") from error
    if not isinstance(value, dict):
        raise ValidationError("it is not a JSON object", "VAL_004")
    if not _is_shallow(value, _MAX_DEPTH):
        raise ValidationError("it is nested too deeply", "VAL_004")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity are not JSON.


def _is_shallow(value: Any, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_shallow(one, depth - 1) for one in inner)


def check_record(value: dict[str, Any]) -> dict[str, Any]:
    """Return a record in its one form: valid, with every field, tags and links sorted.

    Raises:
        ValidationError: It is no record of a memory; the message names the field.
    """
    valid = check_fields(ExportedRecord, value)
    made = valid.model_dump(mode="json")
    made["tags"] = sorted(set(valid.tags))
    made["supersedes"] = sorted(set(valid.supersedes) - {valid.id})
    for optional in ("citations", "device", "history"):
        if made[optional] is None:
            del made[optional]
    return made


M = TypeVar("M", bound=_RecordModel)


def check_fields(model: type[M], value: dict[str, Any]) -> M:
    """Return an object of an export as a model.

    Raises:
        ValidationError: It is none; the message names the field.
    """
    try:
        valid = model(**value)
    except PydanticError as error:
        field = ".".join(str(part) for part in error.errors()[0]["loc"][:1])
        raise ValidationError(f"the field {field} is missing or not valid", "VAL_004") from error
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
        written.encode()
    except ValueError as error:
        raise ValidationError("it has a lone surrogate or an infinite number", "VAL_004") from error
    if _NUL.search(written):
        raise ValidationError("it has a NUL character", "VAL_004")
    return valid


def parse_record(data: bytes) -> dict[str, Any]:
    """Return the valid record in these bytes.

    Raises:
        ValidationError: They hold none.
    """
    return check_record(load_object(data))


def parse_tombstone(data: bytes) -> dict[str, Any]:
    """Return the valid tombstone in these bytes.

    Raises:
        ValidationError: They hold none.
    """
    try:
        valid = RecordedTombstone(**load_object(data))
    except PydanticError as error:
        field = ".".join(str(part) for part in error.errors()[0]["loc"][:1])
        raise ValidationError(f"the field {field} is missing or not valid", "VAL_004") from error
    return {name: value for name, value in valid.model_dump(mode="json").items() if value}


# --- Names of files ---------------------------------------------------------------------


def memory_path(memory_id: str) -> str:
    """Return where a memory's record is in an export folder.

    Raises:
        ValidationError: The id could not be the name of a file.
    """
    return f"memories/{_file_id(memory_id)[:2].lower()}/{memory_id}.json"


def tombstone_path(memory_id: str) -> str:
    """Return where a deleted memory's tombstone is in an export folder."""
    return f"tombstones/{_file_id(memory_id)}.json"


def _file_id(memory_id: str) -> str:
    if _ID.fullmatch(memory_id) is None:
        raise ValidationError("an id must be letters, digits, - and _ to be exported", "VAL_004")
    return memory_id
