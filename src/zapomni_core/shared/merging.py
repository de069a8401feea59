"""Merging the states that several devices have of a memory: pure functions over records.

A state is the record of a memory, its tombstone, or both. Merging is commutative, associative and
idempotent, so that devices which have seen the same changes agree, in whichever order they came:

- The record that was changed last is the current one, as a whole. Every other text and field that
  a device had is a version in its history.
- A tombstone ends what was written until then. What was written later lives, with the versions
  that are later than the tombstone. A purge ends everything.
- What a memory replaced stays replaced: ids are only added.

Times are the texts that records have, which sort as times do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from zapomni_core.shared.records import write_time
from zapomni_db.rules import FIELDS

__all__ = [
    "MemoryState",
    "SameText",
    "choose_successors",
    "is_purged",
    "join_same_texts",
    "later",
    "merge_states",
    "place_of",
]

_TRACKED: Final = (*FIELDS, "text")
_MICROSECOND: Final = timedelta(microseconds=1)

Record = dict[str, Any]


class MemoryState(NamedTuple):
    """What a device knows of one memory."""

    record: Record | None = None
    tombstone: Record | None = None


class _Wording(NamedTuple):
    """The fields that have a history, as they were from a time on; sorts by time, then content."""

    since: str
    content: str
    """As JSON with sorted keys."""


def later(moment: str, step: timedelta = _MICROSECOND) -> str:
    """Return the next time after one."""
    return write_time(datetime.fromisoformat(moment) + step)


def is_purged(state: MemoryState) -> bool:
    """Return whether nothing of a memory may be left."""
    return state.tombstone is not None and bool(state.tombstone.get("purged"))


def merge_states(first: MemoryState, second: MemoryState) -> MemoryState:
    """Return what is known of a memory to a device that has seen both states."""
    if first == second or second == MemoryState():
        return first
    if first == MemoryState():
        return second
    tombstone = _merge_tombstones(first.tombstone, second.tombstone)
    cut = "" if tombstone is None else str(tombstone["deleted_at"])
    records = [one for one in (first.record, second.record) if one is not None]
    superseded = {older for one in records for older in one["supersedes"]}
    if tombstone is None:
        return MemoryState(_merge_records(records, superseded, "") if records else None)
    if tombstone.get("purged"):
        return MemoryState(None, tombstone)
    superseded |= set(tombstone.get("supersedes", ()))
    if superseded:
        tombstone = {**tombstone, "supersedes": sorted(superseded)}
    alive = [one for one in records if one["updated_at"] > cut]
    return MemoryState(_merge_records(alive, superseded, cut) if alive else None, tombstone)


# --- Tombstones -------------------------------------------------------------------------


def _merge_tombstones(first: Record | None, second: Record | None) -> Record | None:
    given = [one for one in (first, second) if one is not None]
    if not given:
        return None
    newest = max(given, key=_order_of_tombstone)
    merged = {"id": newest["id"], "deleted_at": newest["deleted_at"]}
    if newest.get("device"):
        merged["device"] = newest["device"]
    if any(one.get("purged") for one in given):
        return {**merged, "purged": True}
    if newest.get("same_as"):
        merged["same_as"] = newest["same_as"]
    if superseded := {older for one in given for older in one.get("supersedes", ())}:
        merged["supersedes"] = sorted(superseded)
    return merged


def _order_of_tombstone(tombstone: Record) -> tuple[str, str, str]:
    return (
        tombstone["deleted_at"],
        str(tombstone.get("same_as", "")),
        str(tombstone.get("device", "")),
    )


# --- Records ----------------------------------------------------------------------------


def _merge_records(records: Collection[Record], superseded: Iterable[str], cut: str) -> Record:
    """Return the latest record with every other snapshot as a version of its history."""
    snapshots: set[_Wording] = set()
    currents: list[tuple[_Wording, bool, str, Record]] = []
    for record in records:
        own = _snapshots(record)
        snapshots.update(own)
        rest = {name: value for name, value in record.items() if name not in _NOT_COMPARED}
        # Of two that say the same, the one that says who wrote it.
        currents.append((own[-1], bool(record.get("device")), _canonical(rest), record))
    current, _, _, newest = max(currents, key=lambda one: one[:3])
    past = sorted(one for one in snapshots if one < current and one.since > cut)
    merged = {**newest, **json.loads(current.content)}
    merged["updated_at"] = current.since
    merged["supersedes"] = sorted(set(superseded) - {newest["id"]})
    merged["history"] = _history([*past, current], newest["created_at"])
    return merged


_NOT_COMPARED: Final = frozenset([*_TRACKED, "updated_at", "supersedes", "history"])


def _snapshots(record: Record) -> list[_Wording]:
    """Return what a memory was from its beginning on, oldest first, the current one last.

    A record without a history says nothing of the time before its last change.
    """
    content = {name: record[name] for name in _TRACKED}
    contents = [_canonical(content)]
    history = record.get("history")
    if history is None:
        return [_Wording(record["updated_at"], contents[0])]
    for version in reversed(history):
        content |= {name: version["fields"][name] for name in FIELDS if name in version["fields"]}
        if version.get("text") is not None:
            content["text"] = version["text"]
        contents.append(_canonical(content))
    beginnings = [record["created_at"], *(version["replaced_at"] for version in history)]
    found: list[_Wording] = []
    for since, written in zip(beginnings, reversed(contents), strict=True):
        _append(found, _Wording(since, written))
    # The last change may have been one of fields that have no history.
    if record["updated_at"] != found[-1].since:
        _append(found, _Wording(record["updated_at"], contents[0]))
    return found


def _append(found: list[_Wording], snapshot: _Wording) -> None:
    """Add a snapshot, later than the one before it: a clock may have been set back."""
    if found and snapshot <= found[-1]:
        snapshot = _Wording(later(found[-1].since), snapshot.content)
    found.append(snapshot)


def _history(snapshots: list[_Wording], created_at: str) -> list[Record]:
    """Return the versions between snapshots, oldest first."""
    made: list[Record] = []
    if snapshots[0].since != created_at:
        # What it was before is not known, or was deleted.
        made.append({"replaced_at": snapshots[0].since, "fields": {}, "text": None})
    pairs = list(pairwise(snapshots))
    if pairs and pairs[-1][0].content == pairs[-1][1].content:
        pairs.pop()  # The record itself says when it was changed last.
    for older, newer in pairs:
        before, after = json.loads(older.content), json.loads(newer.content)
        made.append(
            {
                "replaced_at": newer.since,
                "fields": {name: before[name] for name in FIELDS if before[name] != after[name]},
                "text": before["text"] if before["text"] != after["text"] else None,
            }
        )
    return made


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


# --- Several memories -------------------------------------------------------------------


class SameText(NamedTuple):
    """Two memories that say the same in the same place: the first one stays."""

    kept: str
    other: str


def place_of(record: Record) -> tuple[Any, ...]:
    """Return what two memories must have in common to be one: text, project and position."""
    return record["text"], record["project"], record["parent"], record["position"]


def join_same_texts(
    pair: SameText, get: Callable[[str], MemoryState]
) -> tuple[MemoryState, MemoryState]:
    """Return the states of two memories with the same text after the second became the first.

    The first one gets the other's versions, fields and what it replaced; the other one becomes a
    tombstone that names the first. A later change of the other one brings it back.
    """
    kept, other = get(pair.kept), get(pair.other)
    assert kept.record is not None
    assert other.record is not None
    moved = {
        **other.record,
        "id": pair.kept,
        "supersedes": [i for i in other.record["supersedes"] if i != pair.kept],
        "idempotency_key": kept.record.get("idempotency_key")
        or other.record.get("idempotency_key"),
        "created_at": min(kept.record["created_at"], other.record["created_at"]),
    }
    tombstone = {
        "id": pair.other,
        "deleted_at": later(other.record["updated_at"]),
        "same_as": pair.kept,
        "supersedes": other.record["supersedes"],
    }
    return (
        merge_states(kept, MemoryState(moved)),
        merge_states(other, MemoryState(None, tombstone)),
    )


def choose_successors(
    claims: Mapping[str, Collection[str]],
    created: Mapping[str, str],
    aliases: Mapping[str, str],
) -> dict[str, str]:
    """Return which memory each replaced one was replaced by: one each, and never in a circle.

    Args:
        claims: What each memory replaces.
        created: When each memory was made, of all that exist.
        aliases: Memories that became others, because they had the same text.
    """

    def find(memory_id: str) -> str:
        seen = {memory_id}
        while memory_id not in created and (target := aliases.get(memory_id)) is not None:
            if target in seen:
                break
            seen.add(target)
            memory_id = target
        return memory_id

    chosen: dict[str, str] = {}
    # The newest successor first: of several it is the one that counts.
    for newer in sorted(claims, key=lambda one: (created.get(one, ""), one), reverse=True):
        if newer not in created:
            continue
        for older in sorted({find(one) for one in claims[newer]}):
            if older == newer or older not in created or older in chosen:
                continue
            end = newer
            while end in chosen and end != older:
                end = chosen[end]
            if end != older:
                chosen[older] = newer
    return chosen
