from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

from builders import SPACE, memory, vector
from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_db.models import NEVER, EmbeddingSpace, MemoryFilter, MemoryPatch, TextSearchRequest

pytestmark = pytest.mark.anyio

# `make soak` adds five megabytes.
SIZES = [375_000, *map(int, os.environ.get("LONG_TEXTS", "").split())]

ALL = MemoryFilter()


async def test_a_memory_comes_back_as_it_went_in(storage):
    moment = datetime(2025, 3, 4, 5, 6, 7, 891011, tzinfo=UTC)
    given = memory(
        "first part | second part",
        vector(1),
        vector(0, 1),
        metadata={"deep": {"list": [1, 2.5, None, "ü"]}},
        timestamp=moment,
        project="p",
        source="s",
        kind="decision",
        tags=["b", "a"],
        pinned=True,
    )

    memory_id = await storage.store_memory(given)
    kept = await storage.get_memory(memory_id)

    assert kept.text == given.text
    assert kept.metadata == given.metadata
    assert (kept.project, kept.source, kept.kind, kept.tags) == ("p", "s", "decision", ["a", "b"])
    assert kept.pinned
    assert kept.created_at == moment
    assert kept.chunk_count == 2
    assert kept.superseded_by is None


async def test_end_origin_and_trust_come_back_and_change(storage):
    end = datetime(2031, 3, 4, 5, 6, tzinfo=UTC)
    given = memory("borrowed", expires_at=end, origin="import:notes", trusted=False)
    plain = await storage.store_memory(memory("own"))
    memory_id = await storage.store_memory(given)

    kept = await storage.get_memory(memory_id)
    assert (kept.expires_at, kept.origin, kept.trusted) == (end, "import:notes", False)
    (exported,) = [
        one for one in (await storage.export_memories(None, 9)).items if one.trusted is False
    ]
    assert (exported.expires_at, exported.origin) == (end, "import:notes")
    own = (await storage.get_summaries([plain]))[plain]
    assert (own.expires_at, own.origin, own.trusted) == (None, "", True)

    later = end + timedelta(days=1)
    assert await storage.update_memory(memory_id, MemoryPatch(trusted=True, expires_at=later))
    kept = await storage.get_memory(memory_id)
    assert (kept.expires_at, kept.origin, kept.trusted) == (later, "import:notes", True)
    assert await storage.update_memory(memory_id, MemoryPatch(expires_at=NEVER))
    assert (await storage.get_memory(memory_id)).expires_at is None


@pytest.mark.parametrize("size", SIZES)
async def test_a_long_text_comes_back_byte_equal(storage, size):
    text = "".join(chr(32 + (i * i + i // 7) % 500) for i in range(size))

    memory_id = await storage.store_memory(memory(text))

    assert (await storage.get_memory(memory_id)).text == text


async def test_text_with_nul_and_odd_characters_survives(storage):
    text = "nul\0inside \r\n\t \ufeff \u202e emoji 🧠 \U0010ffff end"

    memory_id = await storage.store_memory(memory(text))

    assert (await storage.get_memory(memory_id)).text == text
    assert await storage.delete_memory(memory_id)
    assert await storage.check_integrity() == {}


async def test_the_same_text_in_the_same_project_is_stored_once(storage):
    first = await storage.store_memories([memory("same", project="a")])
    again = await storage.store_memories([memory("same", project="a")])
    other = await storage.store_memories([memory("same", project="b")])

    assert again[0].status == "duplicate"
    assert again[0].memory_id == first[0].memory_id
    assert other[0].status == "created"
    assert await storage.find_existing("a", "same", None) == again[0]


async def test_duplicates_within_one_batch_are_stored_once(storage):
    first, second = await storage.store_memories([memory("twice"), memory("twice")])

    assert (first.status, second.status) == ("created", "duplicate")
    assert second.memory_id == first.memory_id


async def test_the_same_words_at_another_place_of_a_conversation_are_another_memory(storage):
    turns = [memory("ok", parent="chat", position=n) for n in (1, 7)]

    first = await storage.store_memories(turns)
    again = await storage.store_memories([memory("ok", parent="chat", position=7)])

    assert [stored.status for stored in first] == ["created", "created"]
    assert again[0] == first[1].model_copy(update={"status": "duplicate"})
    assert (await storage.list_memories(MemoryFilter(parent="chat"), 10, 0)).total == 2


async def test_a_memory_can_tell_of_another_day_than_it_was_stored_on(storage):
    then = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)

    memory_id = await storage.store_memory(
        memory("the walk", parent="p", position=3, occurred_at=then)
    )

    kept = await storage.get_memory(memory_id)
    assert (kept.occurred_at, kept.parent, kept.position) == (then, "p", 3)
    early = MemoryFilter(until=datetime(2024, 1, 1, tzinfo=UTC))
    assert (await storage.list_memories(early, 10, 0)).total == 1


async def test_an_idempotency_key_answers_with_what_it_stored(storage):
    first = await storage.store_memories([memory("once", idempotency_key="k")])
    again = await storage.store_memories([memory("once", idempotency_key="k", project="other")])

    assert again[0].status == "replayed"
    assert again[0].memory_id == first[0].memory_id


async def test_an_idempotency_key_used_for_another_text_is_refused(storage):
    await storage.store_memories([memory("once", idempotency_key="k")])

    with pytest.raises(ValidationError, match="already used for another text"):
        await storage.store_memories([memory("other", idempotency_key="k")])


async def test_a_batch_is_stored_whole_or_not_at_all(storage):
    batch = [memory("good"), memory("bad", supersedes="no-such-id")]

    with pytest.raises(NotFoundError):
        await storage.store_memories(batch)

    assert (await storage.list_memories(ALL, 10, 0)).total == 0


async def test_a_superseded_memory_is_left_out_until_asked_for(storage):
    old = await storage.store_memory(memory("the old port is 80", vector(1)))
    new = await storage.store_memory(memory("the new port is 443", vector(1), supersedes=old))

    assert (await storage.get_memory(old)).superseded_by == new
    assert [m.memory_id for m in (await storage.list_memories(ALL, 10, 0)).items] == [new]
    everything = MemoryFilter(include_superseded=True)
    assert (await storage.list_memories(everything, 10, 0)).total == 2


@pytest.mark.parametrize("by_update", [False, True])
async def test_what_was_true_and_what_was_known_at_a_time_are_two_questions(storage, by_update):
    """MySQL since January, noted on March 1st; Postgres since February, noted on March 10th."""
    january, february = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 2, 1, tzinfo=UTC)
    first, tenth = datetime(2025, 3, 1, tzinfo=UTC), datetime(2025, 3, 10, tzinfo=UTC)
    older = memory("we use MySQL", timestamp=first, occurred_at=january)
    await storage.store_memory(older)
    supersedes = None if by_update else older.memory_id
    newer = memory("we use Postgres", timestamp=tenth, occurred_at=february, supersedes=supersedes)
    await storage.store_memory(newer)
    if by_update:
        await storage.update_memory(newer.memory_id, MemoryPatch(supersedes=[older.memory_id]))

    async def listed(**moments):
        page = await storage.list_memories(MemoryFilter(**moments), 10, 0)
        return [item.preview for item in page.items]

    day = timedelta(1)
    assert await listed() == ["we use Postgres"]
    assert await listed(as_of=january - day) == []
    assert await listed(as_of=january) == ["we use MySQL"]
    assert await listed(as_of=february) == ["we use Postgres"]
    assert await listed(known_at=first - day) == []
    assert await listed(known_at=first) == ["we use MySQL"]
    assert await listed(known_at=tenth) == ["we use Postgres"]
    assert await listed(as_of=february + day, known_at=first) == ["we use MySQL"]
    assert await listed(as_of=january, known_at=tenth) == ["we use MySQL"]


async def test_an_update_replaces_several_memories_stored_before(storage):
    one, two, late = (memory(text, vector(1)) for text in ("one", "two", "late"))
    three = memory("three", vector(2))
    for each in (one, two, three, late):
        await storage.store_memory(each)

    patch = MemoryPatch(supersedes=[one.memory_id, two.memory_id])
    assert await storage.update_memory(three.memory_id, patch)

    page = await storage.list_memories(MemoryFilter(), 10, 0)
    assert {item.preview for item in page.items} == {"three", "late"}
    with pytest.raises(NotFoundError):
        await storage.update_memory(three.memory_id, MemoryPatch(supersedes=["missing"]))
    for refused in (late, three):
        with pytest.raises(ValidationError, match="stored before"):
            patch = MemoryPatch(supersedes=[refused.memory_id], source="not written")
            await storage.update_memory(three.memory_id, patch)
    assert (await storage.get_memory(three.memory_id)).source == ""
    exported = (await storage.export_memories(None, 10)).items
    assert [item.memory_id for item in exported] == [m.memory_id for m in (one, two, three, late)]
    copied = exported[2]
    assert [copied.supersedes, *copied.also_supersedes] == [one.memory_id, two.memory_id]
    await storage.delete_memory(three.memory_id)
    page = await storage.list_memories(MemoryFilter(), 10, 0)
    assert {item.preview for item in page.items} == {"one", "two", "late"}


async def test_texts_are_read_from_their_beginning(storage):
    texts = ["žluťoučký 🐎 kůň", "short"]
    ids = [await storage.store_memory(memory(text)) for text in texts]

    found = await storage.get_beginnings([*ids, "missing"], 11)

    assert found == dict(zip(ids, ["žluťoučký 🐎", "short"], strict=True))
    assert await storage.get_beginnings([], 11) == {}


async def test_deleting_the_newer_memory_brings_the_older_back(storage):
    old = await storage.store_memory(memory("old"))
    new = await storage.store_memory(memory("new", supersedes=old))

    await storage.delete_memory(new)

    assert (await storage.get_memory(old)).superseded_by is None


async def test_an_update_changes_only_what_it_names(storage):
    memory_id = await storage.store_memory(memory("text", metadata={"a": 1}, tags=["t"]))

    assert await storage.update_memory(memory_id, MemoryPatch(pinned=True, source="new"))

    kept = await storage.get_memory(memory_id)
    assert (kept.text, kept.metadata, kept.tags) == ("text", {"a": 1}, ["t"])
    assert (kept.pinned, kept.source) == (True, "new")
    assert kept.updated_at > kept.created_at


async def test_a_memory_moved_to_another_project_is_found_there_beside_its_new_neighbours(storage):
    ids = [
        await storage.store_memory(memory(text, project=project, parent="chat", position=n))
        for n, (text, project) in enumerate([("one", "a"), ("two", "b"), ("three", "a")])
    ]

    assert await storage.update_memory(ids[1], MemoryPatch(project="a"))

    wanted = MemoryFilter(project="a")
    assert (await storage.list_memories(wanted, 10, 0)).total == 3
    assert (await storage.list_memories(MemoryFilter(project="b"), 10, 0)).total == 0
    found = await storage.rank_by_words(TextSearchRequest(terms=["two"], filters=wanted))
    (place,) = (await storage.get_places(list(found), wanted)).values()
    texts = await storage.get_passages(place.neighbours)
    assert [texts[beside].text for beside in place.neighbours] == ["one", "three"]
    assert place.group_size == 3


async def test_a_key_used_twice_in_one_batch_stores_once_or_not_at_all(storage):
    first, again = await storage.store_memories(
        [memory("same", idempotency_key="k"), memory("same", project="b", idempotency_key="k")]
    )
    assert (first.status, again.status) == ("created", "replayed")
    assert again.memory_id == first.memory_id

    with pytest.raises(ValidationError, match="already used for another text"):
        await storage.store_memories(
            [memory("one", idempotency_key="l"), memory("two", idempotency_key="l")]
        )
    assert (await storage.list_memories(ALL, 10, 0)).total == 1
    assert await storage.store_memories([]) == []


async def test_a_text_superseded_within_the_batch_may_be_stored_again(storage):
    old = memory("port 80")
    batch = [old, memory("port 443", supersedes=old.memory_id), memory("port 80")]

    statuses = [stored.status for stored in await storage.store_memories(batch)]

    assert statuses == ["created", "created", "created"]
    assert (await storage.list_memories(ALL, 10, 0)).total == 2


async def test_every_write_changes_the_version_and_no_read_does(storage):
    before = await storage.get_version()
    memory_id = await storage.store_memory(memory("one | two", vector(1), None))
    stored = await storage.get_version()
    assert await storage.count_chunks() >= 2
    await storage.get_memory(memory_id)
    assert await storage.get_version() == stored != before
    await storage.delete_memory(memory_id)
    assert await storage.get_version() != stored


async def test_an_updated_text_is_found_by_its_new_words_only(storage):
    memory_id = await storage.store_memory(memory("elephant", vector(1)))
    replacement = memory("giraffe", vector(0, 1))

    await storage.update_memory(
        memory_id, MemoryPatch(text="giraffe", chunks=replacement.chunks, space=SPACE)
    )

    assert await _ids(storage, "elephant") == []
    assert await _ids(storage, "giraffe") == [memory_id]
    assert await storage.check_integrity() == {}


async def test_memories_are_counted_by_project_without_code(storage):
    old = memory("port 80", project="a")
    await storage.store_memories(
        [old, memory("port 443", project="a", supersedes=old.memory_id), memory("of none"),
         memory("def f(): pass", project="b", kind="code")]
    )  # fmt: skip

    assert await storage.count_by_project() == {"a": 2, "": 1}


async def test_a_deleted_memory_leaves_nothing_behind(storage):
    memory_id = await storage.store_memory(memory("vanishing words", vector(1), tags=["t"]))

    assert await storage.delete_memory(memory_id)

    assert await storage.get_memory(memory_id) is None
    assert await _ids(storage, "vanishing") == []
    assert (await storage.get_stats())["total_chunks"] == 0
    assert await storage.check_integrity() == {}


async def test_unknown_ids_are_answered_without_an_error(storage):
    assert await storage.get_memory("nobody") is None
    assert not await storage.delete_memory("nobody")
    assert not await storage.update_memory("nobody", MemoryPatch(pinned=True))
    assert await storage.get_summaries(["nobody"]) == {}


async def test_pages_are_pinned_first_then_newest_and_never_overlap(storage):
    start = datetime(2025, 1, 1, tzinfo=UTC)
    for number in range(7):
        await storage.store_memory(
            memory(
                f"note {number}",
                timestamp=start + timedelta(days=number),
                pinned=number == 2,
            )
        )

    pages = [await storage.list_memories(ALL, 3, offset) for offset in (0, 3, 6)]

    assert [page.total for page in pages] == [7, 7, 7]
    previews = [item.preview for page in pages for item in page.items]
    assert previews == [f"note {n}" for n in (2, 6, 5, 4, 3, 1, 0)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"project": "b"}, {"two"}),
        ({"projects": ["b", "none"]}, {"two"}),
        ({"projects": ["a", "b", ""]}, {"one", "two", "three"}),
        ({"projects": []}, set()),
        ({"not_projects": ["a", "none"]}, {"two"}),
        ({"not_projects": ["none"]}, {"one", "two", "three"}),
        ({"projects": ["a"], "not_projects": ["b"], "tags": ["x"]}, {"one"}),
        ({"source": "chat"}, {"one"}),
        ({"kind": "decision"}, {"two"}),
        ({"not_kind": "decision"}, {"one", "three"}),
        ({"tags": ["x"]}, {"one", "two"}),
        ({"tags": ["x", "y"]}, {"two"}),
        ({"pinned": True}, {"three"}),
        ({"since": datetime(2025, 1, 2, tzinfo=UTC)}, {"two", "three"}),
        ({"until": datetime(2025, 1, 2, tzinfo=UTC)}, {"one"}),
        ({"path": "src"}, {"three"}),
        ({"path": "auth.py"}, {"three"}),
        ({"path": "src/auth.py"}, {"three"}),
        ({"path": "uth.py"}, set()),
        ({"path": "%"}, set()),
        ({"parent": "talk"}, {"one"}),
        ({"as_of": datetime(2025, 1, 2, tzinfo=UTC)}, {"one", "two"}),
        ({"known_at": datetime(2025, 1, 2, tzinfo=UTC)}, {"one", "two"}),
        ({"project": "a", "tags": ["y"]}, set()),
    ],
)
async def test_filters_select_the_same_in_listing_words_and_vectors(storage, filters, expected):
    for day, (name, fields) in enumerate(
        {
            "one": {"project": "a", "source": "chat", "tags": ["x"], "parent": "talk"},
            "two": {"project": "b", "kind": "decision", "tags": ["x", "y"]},
            "three": {"project": "a", "pinned": True, "source": "/home/ada/src/auth.py"},
        }.items(),
        start=1,
    ):
        stamp = datetime(2025, 1, day, tzinfo=UTC)
        await storage.store_memory(memory(name, vector(1, day), timestamp=stamp, **fields))
    wanted = MemoryFilter(**filters)

    listed = await storage.list_memories(wanted, 10, 0)
    by_words = await storage.bm25_search(
        TextSearchRequest(terms=["one", "two", "three"], filters=wanted)
    )
    by_vector = await storage.vector_search(_near(vector(1), filters=wanted))

    assert {item.preview for item in listed.items} == expected
    assert {hit.text for hit in by_words} == expected
    assert {hit.text for hit in by_vector} == expected


async def test_a_vector_of_another_dimension_is_refused_and_nothing_is_kept(storage):
    await storage.store_memory(memory("four dimensions", vector(1)))
    wrong = memory("five", [1.0] * 5, space=EmbeddingSpace(model="test-model", dimension=5))

    with pytest.raises(ValidationError, match="dimension must be 4, got 5"):
        await storage.store_memory(wrong)

    assert (await storage.get_stats())["total_memories"] == 1


async def test_a_vector_of_another_model_is_refused(storage):
    await storage.store_memory(memory("first model", vector(1)))
    other = EmbeddingSpace(model="other-model", dimension=4)

    with pytest.raises(ValidationError, match="zapomni models reembed"):
        await storage.store_memory(memory("second model", vector(1), space=other))


@pytest.mark.parametrize("bad", [[0.0] * 4, [float("nan"), 1, 1, 1], [float("inf"), 1, 1, 1]])
async def test_a_vector_that_would_poison_the_index_is_refused(storage, bad):
    with pytest.raises(ValidationError, match="zero vector or has values"):
        await storage.store_memory(memory("poison", bad))


async def test_stats_count_what_is_there(storage):
    await storage.store_memory(memory("one | two", vector(1), vector(0, 1)))
    await storage.store_memory(memory("pending"))
    await storage.store_memory(memory("x = 1", vector(1, 1), kind="code"))

    stats = await storage.get_stats()

    assert stats["total_memories"] == 2
    assert stats["code_files"] == 1
    assert stats["total_chunks"] == 4
    assert stats["pending_vectors"] == 1
    assert stats["embedding_model"] == "test-model"
    assert stats["embedding_dimension"] == 4
    assert stats["database_size_mb"] > 0


async def test_health_is_told_without_raising(storage):
    assert await storage.health_check()
    await storage.close()
    assert not await storage.health_check()


def _near(query, **fields):
    from zapomni_db.models import VectorSearchRequest

    return VectorSearchRequest(query_embedding=query, min_similarity=-1.0, **fields)


async def _ids(storage, *terms):
    hits = await storage.bm25_search(TextSearchRequest(terms=list(terms)))
    return [hit.memory_id for hit in hits]
