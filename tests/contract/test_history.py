from __future__ import annotations

import pytest

from builders import memory
from graph_builders import day
from zapomni_db.models import NEVER, MemoryPatch

pytestmark = pytest.mark.anyio


async def change_text(storage, memory_id, text):
    await storage.update_memory(memory_id, MemoryPatch(text=text, chunks=memory(text).chunks))


async def test_a_memory_never_changed_has_one_version(storage):
    memory_id = await storage.store_memory(memory("as it is", timestamp=day(2025, 1), kind="fact"))

    (only,) = await storage.get_history(memory_id)

    assert (only.memory_id, only.text, only.fields["kind"]) == (memory_id, "as it is", "fact")
    assert (only.valid_from, only.valid_to, only.changed) == (day(2025, 1), None, [])


async def test_every_change_keeps_what_was_before(storage):
    given = memory("one", tags=["b", "a"], metadata={"n": 1}, timestamp=day(2025, 1))
    memory_id = await storage.store_memory(given)
    await change_text(storage, memory_id, "two")
    await storage.update_memory(memory_id, MemoryPatch(tags=["c"], pinned=True))
    await storage.update_memory(memory_id, MemoryPatch(tags=["c"], pinned=True))
    await change_text(storage, memory_id, "two")

    first, second, third = await storage.get_history(memory_id)

    assert [v.text for v in (first, second, third)] == ["one", "two", "two"]
    assert [v.changed for v in (first, second, third)] == [[], ["text"], ["tags", "pinned"]]
    assert first.fields == {
        "metadata": {"n": 1}, "project": "", "source": "", "kind": "note",
        "tags": ["a", "b"], "pinned": False, "expires_at": None, "trusted": True,
    }  # fmt: skip
    assert (second.fields["tags"], third.fields["tags"]) == (["a", "b"], ["c"])
    assert first.valid_to == second.valid_from < second.valid_to == third.valid_from
    assert third.valid_to is None


async def test_an_end_and_trust_that_change_are_versions(storage):
    memory_id = await storage.store_memory(memory("one", trusted=False))
    ends = day(2027, 1)
    for patch in (
        MemoryPatch(expires_at=ends),
        MemoryPatch(expires_at=ends),
        MemoryPatch(trusted=True),
        MemoryPatch(expires_at=NEVER, tags=["a"]),
        MemoryPatch(expires_at=NEVER),
    ):
        await storage.update_memory(memory_id, patch)

    versions = await storage.get_history(memory_id)

    at = "2027-01-01T00:00:00.000000Z"
    assert [(v.fields["expires_at"], v.fields["trusted"]) for v in versions] == [
        (None, False), (at, False), (at, True), (None, True),
    ]  # fmt: skip
    changed = [v.changed for v in versions]
    assert changed == [[], ["expires_at"], ["trusted"], ["tags", "expires_at"]]


async def test_a_superseded_memory_and_its_successors_have_one_history(storage):
    first = await storage.store_memory(memory("first", timestamp=day(2025, 1)))
    other = await storage.store_memory(memory("other", timestamp=day(2025, 2)))
    second = await storage.store_memory(memory("second", supersedes=first, timestamp=day(2025, 3)))
    await storage.store_memory(memory("aside", supersedes=other, timestamp=day(2025, 4)))
    third = await storage.store_memory(memory("third", supersedes=second, timestamp=day(2025, 5)))

    for asked in (first, second, third):
        line = await storage.get_history(asked)
        assert [v.memory_id for v in line] == [first, second, third]
        assert [v.superseded_by for v in line] == [second, third, None]
        assert [v.valid_to for v in line] == [day(2025, 3), day(2025, 5), None]


async def test_what_was_replaced_in_one_moment_is_in_the_order_it_was_stored(storage):
    at = day(2025, 1)
    first = await storage.store_memory(memory("first", timestamp=at))
    second = await storage.store_memory(memory("second", supersedes=first, timestamp=at))
    again = await storage.store_memory(memory("again", supersedes=second, timestamp=at))
    last = await storage.store_memory(memory("last", supersedes=again, timestamp=at))
    for asked in (first, last):
        line = await storage.get_history(asked)
        assert [v.memory_id for v in line] == [first, second, again, last]


async def test_history_goes_with_the_memory(storage):
    memory_id = await storage.store_memory(memory("one"))
    await change_text(storage, memory_id, "two")

    await storage.delete_memory(memory_id)

    assert await storage.get_history(memory_id) == []
    assert await storage.get_history("never was") == []
    assert await storage.check_integrity() == {}
