"""What leaves a store and enters it again is what it was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from builders import SPACE, memory, vector
from zapomni_db.copy_models import MemoryCopy, VersionCopy
from zapomni_db.exceptions import DatabaseError
from zapomni_db.models import (
    ChunkData,
    ChunkVector,
    EntityData,
    MemoryFilter,
    MemoryPatch,
    RelationshipData,
)

pytestmark = pytest.mark.anyio

LONG_AGO = datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


def whole(**fields) -> MemoryCopy:
    """A memory with something in every field."""
    given = {
        "metadata": {"nested": {"list": [1, 2.5, None, True, "ключ"]}},
        "project": "shop",
        "source": "meeting",
        "kind": "decision",
        "tags": ["a", "b"],
        "pinned": True,
        "parent": "conversation",
        "position": 7,
        "timestamp": LONG_AGO,
        "occurred_at": LONG_AGO - timedelta(days=1, microseconds=1),
    }
    made = memory("first part | second", vector(0.1, 0.2), vector(0.3), **{**given, **fields})
    first = made.chunks[0].model_copy(
        update={"tokens": b"\x00\xff", "context": "2026 05", "metadata": {"page": 3}}
    )
    chunks = [first, *made.chunks[1:]]
    return MemoryCopy(
        **{**dict(made), "chunks": chunks}, updated_at=LONG_AGO + timedelta(seconds=1)
    )


async def exported(storage, limit: int = 100) -> list[MemoryCopy]:
    found, after = [], None
    while True:
        page = await storage.export_memories(after, limit)
        found += page.items
        after = page.after
        if after is None:
            return found


def as_kept(copy: MemoryCopy) -> MemoryCopy:
    """Vectors are kept with at least 16 bits a number: here as far as all engines agree."""
    chunks = [
        c
        if c.embedding is None
        else c.model_copy(update={"embedding": [round(x, 4) for x in c.embedding]})
        for c in copy.chunks
    ]
    return copy.model_copy(update={"chunks": chunks})


async def test_an_empty_store_exports_nothing(storage):
    assert await exported(storage) == []
    assert await storage.export_entities(None, 10) == []
    assert await storage.export_relationships(None, 10) == []


async def test_what_is_imported_is_exported_the_same(storage):
    copy = whole(idempotency_key="once")
    await storage.import_memories([copy])

    assert [as_kept(one) for one in await exported(storage)] == [as_kept(copy)]
    record = await storage.get_memory(copy.memory_id)
    assert (record.created_at, record.updated_at) == (LONG_AGO, LONG_AGO + timedelta(seconds=1))
    replayed = await storage.find_existing("shop", copy.text, "once")
    assert (replayed.memory_id, replayed.status) == (copy.memory_id, "replayed")


async def test_what_is_imported_is_found_by_words_and_by_its_vector(storage):
    await storage.import_memories([whole()])
    assert await storage.get_space() == SPACE
    assert await storage.count_pending(None) == 0
    assert (await storage.get_embeddings(SPACE, ["second"])).keys() == {"second"}
    assert (await storage.list_memories(MemoryFilter(tags=["a"]), 10, 0)).total == 1


async def test_what_was_stored_is_exported_with_all_that_happened_to_it(storage):
    old = memory("old words", vector(1), project="p", tags=["z", "a"])
    await storage.store_memory(old)
    new = memory("new words", supersedes=old.memory_id)
    await storage.store_memory(new)
    await storage.update_memory(old.memory_id, MemoryPatch(pinned=True))
    (pending,) = await storage.get_pending(None, 10)
    made = ChunkVector(chunk_id=pending.chunk_id, embedding=vector(0, 1), tokens=b"\x01\x02")

    first, second = await exported(storage)
    assert (first.memory_id, first.pinned, first.tags) == (old.memory_id, True, ["a", "z"])
    assert first.timestamp == old.timestamp == first.occurred_at
    assert first.updated_at > first.timestamp
    assert (second.memory_id, second.supersedes) == (new.memory_id, old.memory_id)
    assert (second.space, second.chunks[0].embedding) == (None, None)

    await storage.store_vectors(SPACE, [made])
    _, second = await exported(storage)
    assert second.space == SPACE
    assert (second.chunks[0].embedding, second.chunks[0].tokens) == (vector(0, 1), b"\x01\x02")


async def test_a_superseded_memory_stays_superseded(storage):
    old, new = whole(position=1), whole(position=2)
    new = new.model_copy(update={"supersedes": old.memory_id})
    await storage.import_memories([old, new])
    assert (await storage.get_memory(old.memory_id)).superseded_by == new.memory_id
    assert (await storage.list_memories(MemoryFilter(), 10, 0)).total == 1


async def test_pages_keep_the_order_and_miss_nothing(storage):
    copies = [whole(position=number) for number in range(7)]
    await storage.import_memories(copies[:3])
    await storage.import_memories(copies[3:])
    for limit in (1, 2, 3, 7, 100):
        found = await exported(storage, limit)
        assert [copy.position for copy in found] == list(range(7))


async def test_what_is_deleted_between_two_pages_does_not_hide_the_rest(storage):
    copies = [whole(position=number) for number in range(4)]
    await storage.import_memories(copies)
    page = await storage.export_memories(None, 2)
    await storage.delete_memory(copies[1].memory_id)
    await storage.delete_memory(copies[2].memory_id)
    rest = await storage.export_memories(page.after, 10)
    assert [copy.position for copy in rest.items] == [3]


async def test_equal_texts_are_not_joined(storage):
    twins = [whole(), whole()]
    await storage.import_memories(twins)
    assert [copy.memory_id for copy in await exported(storage)] == [t.memory_id for t in twins]


async def test_an_id_that_is_here_already_is_refused(storage):
    copy = whole()
    await storage.import_memories([copy])
    with pytest.raises(DatabaseError):
        await storage.import_memories([copy])
    assert len(await exported(storage)) == 1


async def test_entities_and_relationships_are_exported_in_pages(storage):
    entities = [
        EntityData(
            entity_id=f"e{number}",
            name=f"Name {number}",
            type="tool",
            description="what it is",
            confidence=0.1 * number,
            source="rules",
        )
        for number in range(5)
    ]
    relationships = [
        RelationshipData(
            source_entity_id="e1",
            target_entity_id=target,
            relationship_type=kind,
            strength=0.3,
            evidence="says so",
        )
        for target in ("e0", "e1", "e2")
        for kind in ("KNOWS", "USES")
    ]
    await storage.store_entities(entities[::-1], relationships[::-1])

    found: list[EntityData] = []
    while page := await storage.export_entities(found[-1].entity_id if found else None, 2):
        found += page
    assert found == entities
    related: list[RelationshipData] = []
    last = None
    while batch := await storage.export_relationships(last, 4):
        related += batch
        last = (
            batch[-1].source_entity_id,
            batch[-1].target_entity_id,
            batch[-1].relationship_type,
        )
    assert related == relationships


async def test_copies_are_given_by_id_with_or_without_passages(storage):
    copies = [
        whole(memory_id=f"{n:08d}", idempotency_key=None, project=name)
        for n, name in enumerate(["shop", "", "shop"])
    ]
    await storage.import_memories(copies)
    found = await storage.get_copies(["00000002", "missing", "00000000"])
    assert [as_kept(one) for one in found] == [as_kept(copies[0]), as_kept(copies[2])]
    (bare,) = await storage.get_copies(["00000001"], passages=False)
    assert bare == copies[1].model_copy(update={"chunks": [], "space": None})
    assert await storage.list_ids(MemoryFilter(project="shop")) == ["00000000", "00000002"]
    assert len(await storage.list_ids(MemoryFilter())) == 3


async def test_a_memory_is_put_whether_it_is_there_or_not(storage):
    first = whole(idempotency_key="once")
    assert await storage.put_memory(first, None)
    assert not await storage.put_memory(first, None)
    assert [as_kept(one) for one in await exported(storage)] == [as_kept(first)]
    changed = first.model_copy(
        update={
            "text": "another text",
            "tags": ["c"],
            "pinned": False,
            "origin": "sync:other",
            "trusted": False,
            "expires_at": LONG_AGO,
            "updated_at": LONG_AGO + timedelta(days=2),
            "chunks": [ChunkData(text="another text", index=0, end_char=12)],
            "space": None,
            "history": [
                VersionCopy(
                    replaced_at=LONG_AGO + timedelta(days=1),
                    fields={"tags": ["a", "b"]},
                    text="first part | second",
                )
            ],
        }
    )
    assert not await storage.put_memory(changed, LONG_AGO)
    assert await storage.put_memory(changed, first.updated_at)
    assert await exported(storage) == [changed]
    # The same text keeps its passages, and another memory's key is not taken.
    same = changed.model_copy(update={"chunks": [], "kind": "note"})
    assert await storage.put_memory(same, changed.updated_at)
    assert await exported(storage) == [changed.model_copy(update={"kind": "note"})]
    other = whole(idempotency_key="once")
    assert not await storage.put_memory(other, LONG_AGO)
    assert await storage.put_memory(other, None)
    assert as_kept((await exported(storage))[1]) == as_kept(
        other.model_copy(update={"idempotency_key": None})
    )


async def test_successors_are_set_whatever_was_stored_first(storage):
    newer, older = whole(project="a"), whole(project="b")
    await storage.put_memory(newer, None)
    await storage.put_memory(older, None)
    await storage.set_successors({older.memory_id: newer.memory_id, "unknown": newer.memory_id})
    found = await storage.get_summaries([older.memory_id, newer.memory_id])
    assert found[older.memory_id].superseded_by == newer.memory_id
    await storage.set_successors({older.memory_id: None})
    found = await storage.get_summaries([older.memory_id])
    assert found[older.memory_id].superseded_by is None


async def test_a_change_is_later_than_the_one_before_whatever_the_clock_says(storage):
    ahead = datetime.now(UTC) + timedelta(days=30)
    copy = whole().model_copy(update={"updated_at": ahead})
    await storage.put_memory(copy, None)
    await storage.update_memory(copy.memory_id, MemoryPatch(pinned=False))
    (found,) = await exported(storage)
    assert found.updated_at == ahead + timedelta(milliseconds=1)
    assert found.history[-1].replaced_at == found.updated_at


async def test_trusting_a_memory_is_no_change_of_it(storage):
    copy = whole(trusted=False)
    await storage.import_memories([copy])
    assert await storage.update_memory(copy.memory_id, MemoryPatch(trusted=True))
    (now,) = await storage.get_copies([copy.memory_id])
    # Its history has it, and no other device is shown that.
    (version,) = now.history
    assert (version.fields, version.text) == ({"trusted": False}, None)
    same = {"trusted": True, "history": [version]}
    assert as_kept(now) == as_kept(copy).model_copy(update=same)
