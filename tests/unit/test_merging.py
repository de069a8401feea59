"""Merging is commutative, associative and idempotent; no text is lost, whatever the clocks say."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zapomni_core.shared.merging import (
    MemoryState,
    SameText,
    choose_successors,
    join_same_texts,
    later,
    merge_states,
)

DEVICES = 3
NOTHING = MemoryState()


def moment(tick: int) -> str:
    return f"2026-03-01T00:{tick // 60:02d}:{tick % 60:02d}.000000Z"


def new_record(memory_id: str, text: str, at: str, device: str) -> dict[str, Any]:
    return {
        "id": memory_id, "text": text, "kind": "note", "tags": [], "project": "", "source": "",
        "pinned": False, "idempotency_key": None, "parent": "", "position": 0, "occurred_at": at,
        "created_at": at, "updated_at": at, "expires_at": None, "origin": "", "device": device,
        "supersedes": [], "metadata": {}, "history": [],
    }  # fmt: skip


def change(record: dict[str, Any], at: str, device: str, **changes: Any) -> dict[str, Any]:
    """Change a record as a store does: later than before, the old values in a version."""
    at = max(at, later(record["updated_at"]))
    fields = {
        name: record[name]
        for name, value in changes.items()
        if name in ("tags", "pinned") and record[name] != value
    }
    text = changes.get("text", record["text"])
    replaced = record["text"] if text != record["text"] else None
    versions = (
        [{"replaced_at": at, "fields": fields, "text": replaced}] if fields or replaced else []
    )
    return {
        **record,
        **changes,
        "updated_at": at,
        "device": device,
        "history": [*record["history"], *versions],
    }


def texts_of(state: MemoryState) -> set[str]:
    record = state.record
    if record is None:
        return set()
    return {record["text"], *(v["text"] for v in record["history"] if v["text"] is not None)}


# An act: which device, what it does, with which other device or memory, how much time passes.
ACTS = st.lists(
    st.tuples(
        st.integers(0, DEVICES - 1),
        st.sampled_from(
            ["text", "text", "tags", "expire", "supersede", "delete", "purge", "undo", "sync"]
        ),
        st.integers(0, 2),
        st.integers(0, 4),
    ),
    max_size=24,
)
SKEWS = st.lists(st.integers(-40, 40), min_size=DEVICES, max_size=DEVICES)


class Devices:
    """Three devices that edit one memory, each by its own clock."""

    def __init__(self, skews: list[int]) -> None:
        self.skews = skews
        self.states = [NOTHING] * DEVICES
        self.written: dict[str, str] = {}
        self.ended: list[str] = []
        self.purged = False
        self.number = 0
        start = new_record("m1", "text 0", moment(100), "d0")
        self.written["text 0"] = start["updated_at"]
        self.states[0] = MemoryState(start)

    def act(self, device: int, what: str, other: int, now: int) -> None:
        state, at, name = self.states[device], moment(100 + now + self.skews[device]), f"d{device}"
        record = state.record
        if what == "sync":
            merged = merge_states(self.states[device], self.states[other])
            self.states[device] = self.states[other] = merged
        elif what == "undo" and state.tombstone and not state.tombstone.get("purged"):
            # The trash has what was deleted.
            self.number += 1
            text = f"text {self.number}"
            back = new_record("m1", text, moment(100), name)
            back["updated_at"] = max(at, later(state.tombstone["deleted_at"]))
            self.written[text] = back["updated_at"]
            self.states[device] = merge_states(state, MemoryState(back))
        elif record is None:
            return
        elif what == "text":
            self.number += 1
            text = f"text {self.number}"
            changed = change(record, at, name, text=text)
            self.written[text] = changed["updated_at"]
            self.states[device] = MemoryState(changed, state.tombstone)
        elif what == "tags":
            changed = change(record, at, name, tags=[f"tag {other}"])
            self.states[device] = MemoryState(changed, state.tombstone)
        elif what == "expire":
            changed = change(record, at, name, expires_at=moment(200 + other))
            self.states[device] = MemoryState(changed, state.tombstone)
        elif what == "supersede":
            older = sorted({*record["supersedes"], f"older {other}"})
            changed = change(record, at, name, supersedes=older)
            self.states[device] = merge_states(
                MemoryState(changed), MemoryState(None, state.tombstone)
            )
        else:
            deleted = max(at, later(record["updated_at"]))
            tombstone = {"id": "m1", "deleted_at": deleted, "device": name}
            if what == "purge":
                tombstone["purged"] = True
                self.purged = True
            self.ended.append(deleted)
            self.states[device] = merge_states(state, MemoryState(None, tombstone))


def play(acts: list[tuple[int, str, int, int]], skews: list[int]) -> Devices:
    devices = Devices(skews)
    for step, (device, what, other, passed) in enumerate(acts):
        devices.act(device, what, other, step * 2 + passed)
    return devices


@given(ACTS, SKEWS)
def test_merging_is_commutative_associative_and_idempotent(acts, skews) -> None:
    a, b, c = play(acts, skews).states
    assert merge_states(a, b) == merge_states(b, a)
    assert merge_states(merge_states(a, b), c) == merge_states(a, merge_states(b, c))
    assert merge_states(a, a) == a
    both = merge_states(a, b)
    assert merge_states(both, both) == both == merge_states(both, a) == merge_states(b, both)


@given(ACTS, SKEWS)
def test_devices_agree_and_every_text_is_current_a_version_or_deleted(acts, skews) -> None:
    devices = play(acts, skews)
    a, b, c = devices.states
    merged = merge_states(merge_states(c, a), b)
    found = texts_of(merged)
    if devices.purged:
        assert merged.record is None
        return
    ended = max(devices.ended, default="")
    lost = {text for text, at in devices.written.items() if text not in found and at > ended}
    assert not lost
    if merged.record is None:
        assert all(at <= ended for at in devices.written.values())
    else:
        newest = max((s.record for s in (a, b, c) if s.record), key=lambda r: r["updated_at"])
        assert merged.record["updated_at"] == newest["updated_at"] > ended


def test_the_later_text_wins_and_the_other_one_is_a_version() -> None:
    start = new_record("m1", "port 80", moment(0), "a")
    ours = change(start, moment(5), "a", text="port 8080")
    theirs = change(start, moment(7), "b", text="port 9090")
    record = merge_states(MemoryState(ours), MemoryState(theirs)).record
    assert record is not None
    assert record["text"] == "port 9090"
    assert [version["text"] for version in record["history"]] == ["port 80", "port 8080"]
    assert record["device"] == "b"


def test_a_tombstone_and_an_edit_are_decided_by_time() -> None:
    record = new_record("m1", "a fact", moment(0), "a")
    tombstone = {"id": "m1", "deleted_at": moment(5), "device": "b"}
    early = change(record, moment(3), "a", text="an earlier fact")
    late = change(record, moment(7), "a", text="a later fact")
    deleted = MemoryState(None, tombstone)
    assert merge_states(MemoryState(early), deleted).record is None
    revived = merge_states(deleted, MemoryState(late)).record
    assert revived is not None
    assert revived["text"] == "a later fact"
    assert texts_of(MemoryState(revived)) == {"a later fact"}


def test_a_purge_wins_over_every_edit() -> None:
    record = new_record("m1", "a secret", moment(50), "a")
    purge = MemoryState(None, {"id": "m1", "deleted_at": moment(5), "purged": True})
    merged = merge_states(MemoryState(record), purge)
    assert merged.record is None
    assert "secret" not in str(merged)


def test_the_same_text_under_two_ids_becomes_one_memory_that_has_lost_nothing() -> None:
    first = change(new_record("a1", "x", moment(0), "a"), moment(3), "a", tags=["from a"])
    second = change(new_record("b1", "y", moment(1), "b"), moment(4), "b", text="x")
    second["supersedes"] = ["older"]
    states = {"a1": MemoryState(first), "b1": MemoryState(second)}
    kept, other = join_same_texts(SameText("a1", "b1"), states.__getitem__)
    assert other.record is None
    assert other.tombstone is not None
    assert other.tombstone["same_as"] == "a1"
    assert kept.record is not None
    assert kept.record["text"] == "x"
    assert kept.record["supersedes"] == ["older"]
    assert "y" in texts_of(kept)
    assert any(v["fields"].get("tags") == ["from a"] for v in kept.record["history"])
    assert join_same_texts(SameText("a1", "b1"), states.__getitem__) == (kept, other)


def test_a_memory_has_one_successor_and_no_two_replace_each_other() -> None:
    created = {"a": moment(1), "b": moment(2), "c": moment(3)}
    assert choose_successors({"b": ["a"], "c": ["a"]}, created, {}) == {"a": "c"}
    assert choose_successors({"a": ["b"], "b": ["a"]}, created, {}) == {"a": "b"}
    circle = {"a": ["b"], "b": ["c"], "c": ["a"]}
    assert choose_successors(circle, created, {}) == {"a": "c", "c": "b"}
    # What had the same text as another one is that one.
    assert choose_successors({"c": ["gone"]}, created, {"gone": "a"}) == {"a": "c"}
    assert choose_successors({"c": ["gone"]}, created, {"gone": "gone"}) == {}
