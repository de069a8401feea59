"""What is read in passages is kept, found, and withdrawn with them."""

from __future__ import annotations

import pytest

from builders import memory, vector
from graph_builders import (
    EVERYTHING,
    READER,
    REDIS,
    day,
    entity,
    extracted,
    learn,
    mentioned,
    read,
    stated,
)
from zapomni_core.exceptions import QueryError, ValidationError
from zapomni_db.graph_models import EdgeKey, EdgeQuery, EntityQuery, ExtractedChunk, GraphScope
from zapomni_db.models import MemoryPatch, RelationshipData

pytestmark = pytest.mark.anyio

USES = EdgeKey("TECHNOLOGY:shop", "TECHNOLOGY:redis", "USES")
TEXT = "Shop uses Redis."


async def shop(storage, **fields) -> str:
    return await learn(storage, TEXT, ["Shop", "Redis"], [("Shop", "USES", "Redis")], **fields)


async def names(storage, text="", **query) -> list[str]:
    return [e.name for e in await storage.find_entities(EntityQuery(text=text, **query))]


async def edges(storage, *ids, **query) -> list[tuple]:
    wanted = [f"TECHNOLOGY:{name}" for name in ids] or ["TECHNOLOGY:shop"]
    return [edge.key for edge in await storage.get_edges(wanted, EdgeQuery(**query))]


async def counts(storage) -> tuple[int, int, int]:
    stats = await storage.get_graph_stats(READER)
    return stats.entities, stats.relationships, stats.mentions


# --- Names that occur together --------------------------------------------------------------


async def together(storage, *names, **fields) -> str:
    pairs = [("Redis", "RELATED_TO", name, {"strength": 0.0, "source": "cooccurrence"})
             for name in names]  # fmt: skip
    return await learn(storage, f"Redis, {', '.join(names)}", ["Redis", *names], pairs, **fields)


async def test_names_that_occur_together_are_shown_once_they_have_a_strength(storage):
    await together(storage, "Kafka", "Shop")
    gone = await together(storage, "Kafka")
    await learn(storage, "Shop uses Redis now.", ["Shop", "Redis"], [("Shop", "USES", "Redis")])
    await storage.store_memory(memory("nothing"))

    pairs, total = await storage.get_cooccurring()
    kafka, shops = sorted(pairs, key=lambda pair: pair.key)
    assert total == 4
    assert (kafka.together, kafka.source_memories, kafka.target_memories) == (2, 3, 2)
    assert (kafka.strength, kafka.is_stated, shops.is_stated) == (0.0, False, True)
    assert await edges(storage, "redis") == [USES]
    stats = await storage.get_graph_stats(READER)
    assert (stats.relationship_types, stats.closed_relationships) == ({"USES": 1}, 0)

    await storage.set_associations([(kafka.key, 0.3), (EdgeKey("a", "b", "RELATED_TO"), 0.3)])

    assert sorted(await edges(storage, "redis")) == sorted([USES, kafka.key])
    (edge,) = await storage.get_edges(["TECHNOLOGY:kafka"], EdgeQuery())
    assert (edge.strength, edge.support, edge.weight) == (pytest.approx(0.3), 2, edge.strength)
    await storage.delete_memory(gone)
    left = {pair.key: pair for pair in (await storage.get_cooccurring())[0]}[kafka.key]
    assert (left.together, left.strength) == (1, pytest.approx(0.3))
    await storage.set_associations([(kafka.key, 0.0)])
    assert await edges(storage, "redis") == [USES]


# --- What later texts say is over -------------------------------------------------------------


async def test_a_later_statement_that_it_is_over_ends_a_relationship_and_deleting_it_revives(
    storage,
):
    await shop(storage, occurred_at=day(2025, 1))
    march = day(2025, 3)
    over = await learn(
        storage,
        "Shop no longer uses Redis.",
        ["Shop", "Redis"],
        [("Shop", "USES", "Redis", {"valid_to": march})],
        occurred_at=march,
    )
    await learn(storage, "Shop uses Kafka.", ["Shop", "Kafka"], [("Shop", "USES", "Kafka")])
    await storage.end_statements()

    assert USES not in await edges(storage)
    assert USES in await edges(storage, as_of=day(2025, 2))
    uses = ("Shop", "USES", "Redis")
    await learn(storage, "Shop uses Redis again.", uses[::2], [uses], occurred_at=day(2025, 5))
    await storage.end_statements()
    assert USES in await edges(storage)  # It was taken up again.
    assert USES not in await edges(storage, as_of=day(2025, 4))

    await storage.delete_memory(over)
    await storage.end_statements()
    assert USES in await edges(storage, as_of=day(2025, 4))


# --- Kept and found ---------------------------------------------------------------------


async def test_an_empty_graph_answers_with_nothing(storage):
    assert await names(storage) == []
    assert await names(storage, "anything") == []
    assert await storage.get_entities(["nobody"]) == {}
    assert await storage.get_edges(["nobody"], EdgeQuery()) == []
    assert await storage.get_evidence([USES], None, 3) == {USES: []}
    assert await storage.get_mentions(["nobody"], None, 3) == {"nobody": []}
    assert await storage.find_named(["nobody"], None) == []
    assert await storage.get_named(["1"], None) == {}
    assert await storage.list_entities(None, 10) == []
    assert await storage.undo_merge(None) is None
    assert await counts(storage) == (0, 0, 0)


async def test_what_a_passage_says_is_found_with_its_sentence_and_memory(storage):
    memory_id = await shop(storage, occurred_at=day(2025, 3, 4))

    (edge,) = await storage.get_edges(["TECHNOLOGY:redis"], EdgeQuery())
    (evidence,) = (await storage.get_evidence([edge.key], None, 3))[edge.key]
    (redis,) = await storage.find_entities(EntityQuery(text="redis"))

    assert edge.key == USES
    assert (edge.strength, edge.support, edge.weight) == (0.8, 1, pytest.approx(0.8))
    assert evidence.text == TEXT
    assert evidence.memory_id == memory_id
    assert (await storage.get_passages([evidence.chunk_id]))[evidence.chunk_id].text == TEXT
    assert (evidence.strength, evidence.source) == (0.8, "rules")
    assert evidence.said_at == evidence.valid_from == day(2025, 3, 4)
    assert evidence.valid_to is None
    assert (redis.entity_id, redis.name, redis.type) == ("TECHNOLOGY:redis", "Redis", "TECHNOLOGY")
    assert (redis.mentions, redis.confidence, redis.match) == (1, 0.9, 1.0)
    mentions = await storage.get_mentions(["TECHNOLOGY:redis"], None, 3)
    assert [m.chunk_id for m in mentions["TECHNOLOGY:redis"]] == [evidence.chunk_id]


async def test_passages_lead_to_what_they_name_and_back(storage):
    first = await learn(storage, "Redis beside Shop and Redis", ["Redis", "Shop"])
    await learn(storage, "We like k8s", [("Kubernetes", "TECHNOLOGY", "k8s")])
    await learn(storage, "Shop on Redis", ["Shop", "Redis"])
    (redis,) = await storage.find_named(["redis", "nobody"], None)
    assert redis == "TECHNOLOGY:redis"
    assert await storage.find_named(["k8s"], None) == ["TECHNOLOGY:kubernetes"]
    assert await storage.find_named(["Redis"], None) == []  # names come folded

    newest, oldest = (await storage.get_mentions([redis], None, 9))[redis]
    assert (newest.start_char, oldest.start_char) == (8, 0)
    assert len((await storage.get_mentions([redis], None, 1))[redis]) == 1
    named = await storage.get_named([newest.chunk_id, oldest.chunk_id, "999"], None)
    assert [m.entity_id for m in named[oldest.chunk_id]] == [redis, "TECHNOLOGY:shop"]
    assert [m.start_char for m in named[newest.chunk_id]] == [0, 8]
    assert named.keys() == {newest.chunk_id, oldest.chunk_id}

    await storage.merge_entities("TECHNOLOGY:shop", redis)
    named = await storage.get_named([oldest.chunk_id], None)
    assert [(m.entity_id, m.start_char) for m in named[oldest.chunk_id]] == [(redis, 0)]
    assert await storage.find_named(["shop"], None) == [redis]
    await storage.store_memory(memory("newer", supersedes=first))
    assert await storage.get_named([oldest.chunk_id], None) == {}
    assert len((await storage.get_mentions([redis], None, 9))[redis]) == 1


async def test_more_sentences_make_a_relationship_weightier(storage):
    await shop(storage)
    await learn(
        storage,
        "Again: Shop talks to Redis.",
        ["Shop", "Redis"],
        [("Shop", "USES", "Redis", {"strength": 0.5})],
    )

    (edge,) = await storage.get_edges(["TECHNOLOGY:shop"], EdgeQuery())
    sentences = (await storage.get_evidence([edge.key], None, 5))[edge.key]

    assert (edge.strength, edge.support) == (0.8, 2)
    assert edge.weight > 0.8
    assert [s.strength for s in sentences] == [0.8, 0.5]
    assert len((await storage.get_evidence([edge.key], None, 1))[edge.key]) == 1


async def test_only_the_weightiest_relationships_of_an_entity_are_looked_at(storage):
    text = "Hub Alpha Beta Gamma"
    await learn(
        storage,
        text,
        text.split(),
        [
            ("Hub", "USES", "Alpha", {"strength": 0.2}),
            ("Hub", "USES", "Beta", {"strength": 0.9}),
            ("Gamma", "USES", "Hub", {"strength": 0.5}),
            ("Alpha", "USES", "Hub", {"strength": 0.4}),
        ],
    )

    found = await edges(storage, "hub", limit=1)

    assert sorted(k.source_id + k.target_id for k in found) == [
        "TECHNOLOGY:gammaTECHNOLOGY:hub",
        "TECHNOLOGY:hubTECHNOLOGY:beta",
    ]


async def test_relationships_can_be_asked_for_by_type(storage):
    text = "Shop uses Redis and replaced Varnish"
    facts = [("Shop", "USES", "Redis"), ("Shop", "REPLACED", "Varnish")]
    await learn(storage, text, ["Shop", "Redis", "Varnish"], facts)

    assert await edges(storage, types=["USES"]) == [USES]
    assert await edges(storage, types=["USES", "REPLACED"]) != [USES]
    assert await edges(storage, types=["OTHER"]) == []


async def test_a_name_is_found_in_any_case_by_its_alias_its_part_and_its_misspelling(storage):
    await learn(
        storage,
        "We run k8s beside Kubeflow, ÜBERMUT and Анна",
        [
            ("Kubernetes", "TECHNOLOGY", "k8s"),
            "Kubeflow",
            ("Übermut", "ORG", "ÜBERMUT"),
            ("Анна", "PERSON"),
        ],
    )

    assert await names(storage, "KUBERNETES") == ["Kubernetes"]
    assert await names(storage, "K8S") == ["Kubernetes"]
    assert await names(storage, " übermut ") == ["Übermut"]
    assert await names(storage, "анна") == ["Анна"]
    assert sorted(await names(storage, "kube")) == ["Kubeflow", "Kubernetes"]
    assert await names(storage, "kube", exact=True) == []
    assert await names(storage, "k8s", exact=True) == ["Kubernetes"]
    assert await names(storage, "flow") == ["Kubeflow"]
    assert await names(storage, "kuberntes") == ["Kubernetes"]
    assert await names(storage, "kube", types=["PERSON"]) == []
    (found,) = await storage.find_entities(EntityQuery(text="kuberntes"))
    assert found.match < 0.6
    assert found.aliases == ["k8s"]


async def test_entities_are_listed_by_how_often_they_are_mentioned_and_page_by_page(storage):
    await learn(storage, "Redis and Shop", ["Redis", "Shop"])
    await learn(storage, "Redis alone", ["Redis"])
    await learn(storage, "Varnish last", ["Varnish"])

    assert await names(storage) == ["Redis", "Shop", "Varnish"]
    assert await names(storage, limit=1, offset=1) == ["Shop"]
    first = await storage.list_entities(None, 2)
    second = await storage.list_entities(first[-1].entity_id, 2)
    assert [e.name for e in [*first, *second]] == ["Redis", "Shop", "Varnish"]


async def test_two_things_of_one_name_are_two_entities(storage):
    await learn(storage, "Mercury the planet", [("Mercury", "PLACE")])
    await learn(storage, "Mercury the element", [("Mercury", "TECHNOLOGY")])

    found = await storage.find_entities(EntityQuery(text="mercury"))

    assert sorted(e.type for e in found) == ["PLACE", "TECHNOLOGY"]
    assert {e.match for e in found} == {1.0}


async def test_a_relationship_to_an_entity_of_another_passage_is_refused_whole(storage):
    memory_id = await storage.store_memory(memory(TEXT))
    (chunk,) = await storage.get_unread(READER, EVERYTHING, None, 10)
    lone = ExtractedChunk(
        chunk_id=chunk.chunk_id,
        entities=[mentioned(TEXT, "Shop")],
        relationships=[stated(TEXT, entity("Shop"), "USES", entity("Redis"))],
    )

    with pytest.raises(ValidationError):
        await storage.store_extractions(READER, [lone])

    assert await counts(storage) == (0, 0, 0)
    assert [c.memory_id for c in await storage.get_unread(READER, EVERYTHING, None, 9)] == [
        memory_id
    ]


# --- Told by a caller -------------------------------------------------------------------


async def test_what_a_caller_tells_needs_no_passage_and_can_be_told_again(storage):
    shop_, redis = entity("Shop"), entity("Redis")
    await storage.store_entities([shop_, redis], [stated("first", shop_, "USES", redis)])
    again = stated("second", shop_, "USES", redis, strength=0.5)
    await storage.store_entities([shop_], [again])

    (edge,) = await storage.get_edges([shop_.entity_id], EdgeQuery())
    (evidence,) = (await storage.get_evidence([edge.key], None, 5))[edge.key]
    assert (edge.strength, edge.support) == (0.5, 1)
    assert (evidence.text, evidence.memory_id, evidence.chunk_id) == ("second", None, None)
    assert evidence.valid_from is None


async def test_a_told_relationship_between_unknown_entities_stores_nothing(storage):
    with pytest.raises((QueryError, ValidationError)):
        await storage.store_entities([entity("A")], [stated("", entity("A"), "USES", entity("B"))])
    assert await names(storage) == []


async def test_what_was_told_outlives_the_passages_that_also_say_so(storage):
    memory_id = await shop(storage)
    told = RelationshipData(
        source_entity_id=USES[0], target_entity_id=USES[1], relationship_type="USES", strength=0.3
    )
    await storage.store_entities([entity("Shop"), entity("Redis")], [told])

    await storage.delete_memory(memory_id)

    (edge,) = await storage.get_edges(["TECHNOLOGY:shop"], EdgeQuery())
    assert (edge.strength, edge.support) == (0.3, 1)
    assert await storage.check_integrity() == {}


# --- Incremental ------------------------------------------------------------------------


async def test_a_passage_is_read_once_and_the_same_again_changes_nothing(storage):
    memory_id = await shop(storage)
    assert await storage.get_unread(READER, EVERYTHING, None, 10) == []
    assert await storage.count_unread(READER, EVERYTHING) == 0
    before = await counts(storage)

    growth = await read(
        storage, memory_id, ["Shop", "Redis"], [("Shop", "USES", "Redis")], reader="reader-2"
    )

    assert growth == (0, 0, 0)
    assert await counts(storage) == before
    assert await storage.count_unread("reader-2", EVERYTHING) == 0
    assert await storage.count_unread(READER, EVERYTHING) == 1


async def test_growth_counts_what_was_not_there(storage):
    first = await storage.store_memory(memory(TEXT))
    assert await read(storage, first, ["Shop", "Redis"], [("Shop", "USES", "Redis")]) == (2, 1, 2)
    second = await storage.store_memory(memory("Shop uses Redis and Go"))
    facts = [("Shop", "USES", "Redis"), ("Shop", "USES", "Go")]
    assert await read(storage, second, ["Shop", "Redis", "Go"], facts) == (1, 1, 3)


async def test_a_better_reader_replaces_what_a_passage_was_taken_to_say(storage):
    memory_id = await shop(storage)

    await read(storage, memory_id, ["Shop"], reader="reader-2")

    assert await names(storage) == ["Shop"]
    assert await edges(storage) == []
    assert await storage.check_integrity() == {}


async def test_unread_passages_come_in_order_by_project_or_memory_and_after_another(storage):
    a = await storage.store_memory(memory("first | second", vector(1), vector(0, 1), project="a"))
    b = await storage.store_memory(memory("third", project="b", occurred_at=day(2024, 1)))

    everything = await storage.get_unread(READER, EVERYTHING, None, 10)
    later = await storage.get_unread(READER, EVERYTHING, everything[0].chunk_id, 1)

    assert [c.text for c in everything] == ["first", "second", "third"]
    assert [c.memory_id for c in everything] == [a, a, b]
    assert everything[2].said_at == day(2024, 1)
    assert [c.text for c in later] == ["second"]
    for scope, texts in (
        (GraphScope(projects=["b"]), ["third"]),
        (GraphScope(memory_ids=[a]), ["first", "second"]),
        (GraphScope(projects=["b"], memory_ids=[a]), []),
        (GraphScope(memory_ids=["nobody"]), []),
    ):
        assert [c.text for c in await storage.get_unread(READER, scope, None, 9)] == texts
        assert await storage.count_unread(READER, scope) == len(texts)


async def test_a_name_may_move_from_one_passage_to_another_that_is_read_with_it(storage):
    facts = [("Shop", "USES", "Redis")]
    await learn(storage, "Shop uses Redis.", ["Shop", "Redis"], facts)
    await learn(storage, "Shop uses Redis, too.")

    first, second = await storage.get_unread("reader-2", EVERYTHING, None, 10)
    chunks = [extracted(first), extracted(second, ["Shop", "Redis"], facts)]
    growth = await storage.store_extractions("reader-2", chunks)

    assert growth.mentions == 2
    assert await edges(storage, "shop") == [USES]
    stats = await storage.get_graph_stats("reader-2")
    assert (stats.entities, stats.relationships, stats.mentions) == (2, 1, 2)


async def test_of_code_only_beginnings_of_files_and_manifests_are_read(storage):
    vectors = (vector(1), vector(2))
    for path in ("src/app.py", "web/package.json", "my-package.json"):
        text = f"begin {path} | end {path}"
        await storage.store_memory(memory(text, *vectors, kind="code", source=path))

    unread = await storage.get_unread(READER, EVERYTHING, None, 10)

    assert [chunk.text for chunk in unread] == [
        "begin src/app.py",
        "begin web/package.json",
        "end web/package.json",
        "begin my-package.json",
    ]
    assert await storage.count_unread(READER, EVERYTHING) == 4


async def test_an_overlapping_passage_says_how_much_it_repeats(storage):
    text = "one two three"
    given = memory(text, vector(1))
    first = given.chunks[0].model_copy(update={"text": "one two", "end_char": 7})
    second = first.model_copy(
        update={"text": "two three", "index": 1, "start_char": 4, "end_char": 13}
    )
    await storage.store_memory(given.model_copy(update={"chunks": [first, second]}))

    unread = await storage.get_unread(READER, EVERYTHING, None, 9)

    assert [chunk.repeated for chunk in unread] == [0, 3]


async def test_a_passage_deleted_meanwhile_is_passed_over(storage):
    memory_id = await storage.store_memory(memory(TEXT))
    (chunk,) = await storage.get_unread(READER, EVERYTHING, None, 10)
    await storage.delete_memory(memory_id)

    growth = await storage.store_extractions(READER, [extracted(chunk, ["Shop"])])

    assert growth == (0, 0, 0)
    assert await names(storage) == []


# --- Withdrawn --------------------------------------------------------------------------


async def test_deleting_a_memory_leaves_nothing_that_only_it_supported(storage):
    memory_id = await shop(storage)
    await learn(storage, "Redis is fast", ["Redis"])

    await storage.delete_memory(memory_id)

    assert await names(storage) == ["Redis"]
    assert await edges(storage, "redis") == []
    assert await counts(storage) == (1, 0, 1)
    assert await storage.get_entities(["TECHNOLOGY:shop"]) == {}
    assert await storage.check_integrity() == {}


async def test_deleting_one_of_two_witnesses_keeps_what_the_other_says(storage):
    first = await shop(storage)
    await learn(
        storage,
        "Shop still uses Redis",
        ["Shop", "Redis"],
        [("Shop", "USES", "Redis", {"strength": 0.4})],
    )

    await storage.delete_memory(first)

    (edge,) = await storage.get_edges(["TECHNOLOGY:shop"], EdgeQuery())
    assert (edge.key, edge.strength, edge.support) == (USES, 0.4, 1)


async def test_superseding_a_memory_ends_what_it_said_and_deleting_the_newer_revives_it(storage):
    older = await shop(storage, occurred_at=day(2025, 1))
    newer = await storage.store_memory(
        memory("No cache any more", supersedes=older, occurred_at=day(2025, 4))
    )

    assert await edges(storage) == []
    assert await names(storage) == []
    assert await counts(storage) == (0, 0, 0)
    assert (await storage.get_graph_stats(READER)).closed_relationships == 1
    assert await edges(storage, as_of=day(2025, 3)) == [USES]
    assert await names(storage, as_of=day(2025, 3)) == ["Redis", "Shop"]
    assert await names(storage, as_of=day(2024, 12)) == []
    (evidence,) = (await storage.get_evidence([USES], day(2025, 3), 3))[USES]
    assert evidence.valid_to == day(2025, 4)
    mentions = await storage.get_mentions(["TECHNOLOGY:redis"], day(2025, 3), 3)
    assert len(mentions["TECHNOLOGY:redis"]) == 1
    assert await storage.get_mentions(["TECHNOLOGY:redis"], None, 3) == {"TECHNOLOGY:redis": []}

    await storage.delete_memory(newer)

    assert await edges(storage) == [USES]
    assert await counts(storage) == (2, 1, 2)


async def test_a_memory_superseded_before_it_was_read_ended_all_the_same(storage):
    older = await storage.store_memory(memory(TEXT, occurred_at=day(2025, 1)))
    await storage.store_memory(memory("newer", supersedes=older, occurred_at=day(2025, 4)))

    await read(storage, older, ["Shop", "Redis"], [("Shop", "USES", "Redis")])

    assert await edges(storage) == []
    assert await edges(storage, as_of=day(2025, 3)) == [USES]


async def test_changing_a_text_ends_what_it_said_and_makes_it_unread(storage):
    memory_id = await shop(storage, occurred_at=day(2025, 1))
    changed = memory("Shop uses Varnish.")
    patch = MemoryPatch(text=changed.text, chunks=changed.chunks)
    await storage.update_memory(memory_id, patch)

    assert await edges(storage) == []
    assert await edges(storage, as_of=day(2025, 3)) == [USES]
    (evidence,) = (await storage.get_evidence([USES], day(2025, 3), 3))[USES]
    assert (evidence.text, evidence.memory_id, evidence.chunk_id) == (TEXT, memory_id, None)
    (chunk,) = await storage.get_unread(READER, EVERYTHING, None, 9)
    assert chunk.said_at == evidence.valid_to
    await read(storage, memory_id, ["Shop", "Varnish"], [("Shop", "USES", "Varnish")])
    assert [key.target_id for key in await edges(storage)] == ["TECHNOLOGY:varnish"]
    assert await edges(storage, as_of=day(2025, 3)) == [USES]

    await storage.delete_memory(memory_id)

    assert await edges(storage, as_of=day(2025, 3)) == []
    assert await names(storage, as_of=day(2025, 3)) == []
    assert await storage.check_integrity() == {}


async def test_an_update_that_leaves_the_text_alone_leaves_the_graph_alone(storage):
    memory_id = await shop(storage)
    same = memory(TEXT)

    await storage.update_memory(memory_id, MemoryPatch(pinned=True))
    await storage.update_memory(memory_id, MemoryPatch(text=TEXT, chunks=same.chunks))

    assert await edges(storage) == [USES]
    assert await storage.count_unread(READER, EVERYTHING) == 0


async def test_nodes_are_what_is_sure_or_repeats_and_no_facts(storage):
    """Counted from the mentions that are there: what is deleted or changed counts no longer."""

    async def named(**query) -> list[str]:
        return [e.name for e in await storage.find_entities(EntityQuery(nodes=True, **query))]

    async def write(text: str) -> str:
        memory_id = await storage.store_memory(memory(text))
        (chunk,) = await storage.get_unread(READER, GraphScope(memory_ids=[memory_id]), None, 1)
        weak = mentioned(text, "Zolid").model_copy(update={"confidence": 0.3, "source": "learned"})
        sure = [mentioned(text, "Redis"), mentioned(text, "2024", "DATE")]
        facts = [stated(text, sure[0], "USES", one) for one in (weak, sure[1])]
        found = ExtractedChunk(chunk_id=chunk.chunk_id, entities=[weak, *sure], relationships=facts)
        await storage.store_extractions(READER, [found])
        return memory_id

    async def around() -> set[str]:
        edges = await storage.get_edges([REDIS], EdgeQuery(nodes=True))
        return {edge.key.target_id for edge in edges}

    first = await write("Redis uses Zolid since 2024")
    assert await named() == ["Redis"]
    assert await around() == set()
    assert [e.name for e in await storage.list_entities(None, 9)] == ["Redis"]
    assert await storage.find_entities(EntityQuery(text="zolid", exact=True)) != []
    assert await named(types=["DATE"]) == ["2024"]
    second = await write("Again Redis uses Zolid in 2024")
    assert await named() == ["Redis", "Zolid"]
    assert await around() == {"TECHNOLOGY:zolid"}
    assert (await storage.get_graph_stats(READER)).entity_types == {"TECHNOLOGY": 2}
    await storage.delete_memory(first)
    assert await named() == ["Redis"]
    other = memory("Something else")
    await storage.update_memory(second, MemoryPatch(text=other.text, chunks=other.chunks))
    assert await named() == []


async def test_a_passage_read_again_is_as_sure_as_its_new_reader(storage):
    text = "Zolid is a queue"
    memory_id = await storage.store_memory(memory(text))
    (chunk,) = await storage.get_unread(READER, GraphScope(memory_ids=[memory_id]), None, 1)
    for reader, confidence, shown in (("a", 0.1, []), ("b", 0.9, ["Zolid"]), ("c", 0.2, [])):
        named = mentioned(text, "Zolid").model_copy(update={"confidence": confidence})
        found = ExtractedChunk(chunk_id=chunk.chunk_id, entities=[named], relationships=[])
        growth = await storage.store_extractions(reader, [found])
        assert growth.mentions == (reader == "a")
        entities = await storage.find_entities(EntityQuery(nodes=True))
        assert [e.name for e in entities] == shown
