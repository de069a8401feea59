"""The graph as the engine offers it, read by the real rules out of real memories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from graph_builders import day
from zapomni_core.engine import create_engine, create_extractor
from zapomni_core.exceptions import EntityNotFoundError, NotFoundError, ValidationError
from zapomni_core.interfaces import AddMemoryRequest, UpdateMemoryRequest
from zapomni_core.modules.graph import (
    BuildGraphRequest,
    GraphExtractor,
    RelatedRequest,
    build_graph,
)
from zapomni_core.settings import load_settings
from zapomni_db.graph_models import EntityQuery, GraphScope

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(anyio_backend):
    async with await create_engine(load_settings(embedder="none")) as opened:
        yield opened


async def keep(engine, *texts, **fields) -> list[str]:
    requests = [AddMemoryRequest(text=text, **fields) for text in texts]
    return [response.memory_id for response in await engine.add_memories(requests)]


async def build(engine, **scope) -> dict:
    task_id = await engine.graph.build(BuildGraphRequest(**scope))
    status = await engine.tasks.run_task(task_id, lambda _: None)
    assert status.status == "completed", status.error
    return status.result


async def related(engine, entity, **request):
    return await engine.graph.get_related(RelatedRequest(entity=entity, **request))


async def facts(engine, entity, **request) -> list[tuple]:
    found = await related(engine, entity, depth=1, **request)
    return sorted(
        (hit.path[0].source, hit.path[0].type, hit.path[0].target) for hit in found.related
    )


NOTHING = {
    "passages_read": 0,
    "entities_added": 0,
    "relationships_added": 0,
    "mentions_added": 0,
    "notice": None,
}


# --- Building ---------------------------------------------------------------------------


async def test_building_reads_everything_once(engine):
    await keep(engine, "Celery depends on Redis.", "Django uses PostgreSQL.")

    first = await build(engine)
    second = await build(engine)

    assert first == {
        "passages_read": 2,
        "entities_added": 4,
        "relationships_added": 2,
        "mentions_added": 4,
        "notice": None,
    }
    assert second == NOTHING


async def test_a_task_tells_how_far_it_is_and_repeats_nothing_that_waits(engine):
    await keep(engine, "Celery depends on Redis.")
    first = await engine.graph.build(BuildGraphRequest())
    assert await engine.graph.build(BuildGraphRequest()) == first
    seen = []

    await engine.tasks.run_task(first, seen.append)

    assert (seen[-1].done, seen[-1].total, seen[-1].message) == (1, 1, "Reading passages")


async def test_only_a_project_or_certain_memories_can_be_read(engine):
    (first,) = await keep(engine, "Celery depends on Redis.", project="a")
    await keep(engine, "Django uses PostgreSQL.", "Flask uses Jinja.", project="b")

    assert (await build(engine, memory_ids=[first]))["passages_read"] == 1
    assert (await build(engine, project="b"))["passages_read"] == 2
    assert await build(engine) == NOTHING


async def test_unknown_memories_and_none_at_all_are_refused(engine):
    with pytest.raises(NotFoundError):
        await engine.graph.build(BuildGraphRequest(memory_ids=["nobody"]))
    for ids in ([], ["x"] * 1001):
        with pytest.raises(ValidationError):
            await engine.graph.build(BuildGraphRequest(memory_ids=ids))


async def test_a_changed_memory_is_read_again_and_its_former_text_is_history(engine):
    (memory_id,) = await keep(engine, "Celery depends on Redis.")
    await build(engine)
    before = datetime.now(UTC)
    await engine.update_memory(
        UpdateMemoryRequest(memory_id=memory_id, text="Celery depends on RabbitMQ.")
    )

    with pytest.raises(EntityNotFoundError):
        await related(engine, "Redis")
    assert (await build(engine))["passages_read"] == 1

    assert await facts(engine, "Celery") == [("Celery", "DEPENDS_ON", "RabbitMQ")]
    assert await facts(engine, "Celery", as_of=before) == [("Celery", "DEPENDS_ON", "Redis")]
    then, now = await engine.memories.get_history(memory_id)
    assert (then.text, now.text) == ("Celery depends on Redis.", "Celery depends on RabbitMQ.")
    (only,) = await engine.memories.get_history(memory_id, before)
    assert only.text == "Celery depends on Redis."
    assert await engine.memories.get_history(memory_id, before - timedelta(days=1)) == []


async def test_what_was_believed_in_march_has_an_answer(engine):
    (older,) = await keep(engine, "Anna Berger works at Brill GmbH.", occurred_at=day(2025, 1))
    await keep(
        engine, "Anna Berger works at Globex Inc.", occurred_at=day(2025, 5), supersedes=older
    )
    await build(engine)

    march = await facts(engine, "Anna Berger", as_of=day(2025, 3))
    today = await facts(engine, "Anna Berger")

    assert march == [("Anna Berger", "WORKS_AT", "Brill GmbH")]
    assert today == [("Anna Berger", "WORKS_AT", "Globex Inc")]


async def test_of_single_valued_facts_the_newer_wins_without_anybody_superseding(engine):
    await keep(engine, "Anna Berger works at Globex Inc.", occurred_at=day(2025, 5))
    await keep(engine, "Anna Berger works at Brill GmbH.", occurred_at=day(2025, 1))
    await build(engine)

    assert await facts(engine, "Anna Berger") == [("Anna Berger", "WORKS_AT", "Globex Inc")]
    assert await facts(engine, "Anna Berger", as_of=day(2025, 3)) == [
        ("Anna Berger", "WORKS_AT", "Brill GmbH")
    ]
    assert (await engine.graph.get_status()).closed_relationships == 1


async def test_the_texts_own_dates_say_when_a_fact_held(engine):
    await keep(engine, "Anna Berger worked at Brill GmbH from 2019 to 2021.")
    await build(engine)

    assert await facts(engine, "Anna Berger", as_of=day(2020, 6)) != []
    assert await facts(engine, "Anna Berger", types=["WORKS_AT"]) == []


async def test_deleting_a_memory_takes_its_entities_out_of_the_graph(engine):
    memory_id, _ = await keep(engine, "Celery depends on Redis.", "Redis is fast.")
    await build(engine)

    await engine.delete_memory(memory_id)

    assert [e.name for e in await engine.graph.find_entities(EntityQuery())] == ["Redis"]


async def test_a_misspelled_name_means_what_it_misspells_but_similar_names_do_not(engine):
    await keep(engine, "Anna Berger works at Northwind Ltd.", occurred_at=day(2025, 1))
    await build(engine)
    await keep(engine, "Anna Berger works at Nortwhind Ltd.", "We use Java and JavaScript.")
    await build(engine)

    (firm,) = await engine.graph.find_entities(EntityQuery(types=["ORG"]))
    assert (firm.name, firm.mentions) == ("Northwind Ltd", 2)
    assert "Nortwhind Ltd" in firm.aliases
    languages = await engine.graph.find_entities(EntityQuery(text="java"))
    assert [e.name for e in languages] == ["Java", "JavaScript"]


async def test_text_in_other_alphabets_and_a_line_of_a_megabyte_are_read(engine):
    line = "PostgreSQL " + "x" * 1_000_000 + " Redis"
    await keep(engine, "我们使用 Redis 和 PostgreSQL。", "Анна Каренина использует Redis.", line)

    await build(engine)

    (found,) = await engine.graph.find_entities(EntityQuery(text="Анна Каренина"))
    assert found.type == "PERSON"
    assert (await engine.graph.get_status()).unread_passages == 0


class Failing(GraphExtractor):
    """A model's extractor on a day the model is down: the rules' result, and a word about it."""

    down = True

    async def extract(self, text, reference_date=None):
        found = await super().extract(text, reference_date)
        return found._replace(notice="The model did not answer.") if self.down else found


async def test_what_a_missing_model_fell_short_of_is_kept_said_and_read_again(engine):
    await keep(engine, "Celery depends on Redis.")
    extractor = Failing(create_extractor(load_settings())._rules)

    async def ignore(done, total, message):
        pass

    first = await build_graph(engine.storage, extractor, GraphScope(), ignore)
    extractor.down = False
    second = await build_graph(engine.storage, extractor, GraphScope(), ignore)
    third = await build_graph(engine.storage, extractor, GraphScope(), ignore)

    assert (first["entities_added"], first["notice"]) == (2, "The model did not answer.")
    assert second == {**NOTHING, "passages_read": 1}
    assert third == NOTHING


async def test_a_slow_extractor_stores_what_it_has_now_and_then(engine, monkeypatch):
    monkeypatch.setattr("zapomni_core.modules.graph.build.STORE_AFTER_SECONDS", -1)
    await keep(engine, "Celery depends on Redis.", "Django uses PostgreSQL.", "Flask uses Jinja.")
    reports = []

    async def report(done, total, message):
        reports.append((done, total))

    extractor = create_extractor(load_settings())
    await build_graph(engine.storage, extractor, GraphScope(), report)

    assert reports == [(1, 3), (2, 3), (3, 3)]


# --- Walking ----------------------------------------------------------------------------


async def test_the_answer_has_ways_and_the_sentences_that_state_them(engine):
    (first, second) = await keep(engine, "Celery depends on Redis.", "Sentry uses Celery.")
    await build(engine)

    found = await related(engine, "redis")

    assert found.entity.name == "Redis"
    near, far = found.related
    assert (near.name, near.distance, near.score) == ("Celery", 1, 0.9)
    assert (far.name, far.distance, far.score) == ("Sentry", 2, 0.81)
    one, two = far.path
    assert (one.source, one.type, one.target, one.forward) == (
        "Celery", "DEPENDS_ON", "Redis", False,
    )  # fmt: skip
    assert (two.source, two.type, two.target, two.forward) == ("Sentry", "USES", "Celery", False)
    assert (one.evidence[0].text, one.evidence[0].memory_id) == ("Celery depends on Redis.", first)
    assert (two.evidence[0].text, two.evidence[0].memory_id) == ("Sentry uses Celery.", second)
    assert (await related(engine, found.entity.entity_id)).entity == found.entity


async def test_depth_limit_and_types_bound_the_walk(engine):
    await keep(
        engine,
        "Celery depends on Redis.",
        "Sentry uses Celery.",
        "Sentry depends on Kafka.",
        "Kafka depends on ZooKeeper.",
    )
    await build(engine)

    def names(found):
        return sorted(hit.name for hit in found.related)

    assert names(await related(engine, "Redis", depth=1)) == ["Celery"]
    assert names(await related(engine, "Redis", depth=3)) == ["Celery", "Kafka", "Sentry"]
    assert names(await related(engine, "Redis", depth=3, limit=1)) == ["Celery"]
    only = await related(engine, "Redis", depth=3, types=["depends on"])
    assert names(only) == ["Celery"]
    nothing = await related(engine, "Redis", types=["CAUSES"])
    assert (nothing.related, nothing.entity.name) == ([], "Redis")
    assert "Nothing is related" in nothing.notice


async def test_cycles_end_the_walk(engine):
    await keep(
        engine, "Celery depends on Redis.", "Redis depends on Kafka.", "Kafka depends on Celery."
    )
    await build(engine)

    found = await related(engine, "Celery", depth=3)

    assert sorted((hit.name, hit.distance) for hit in found.related) == [("Kafka", 1), ("Redis", 1)]


@pytest.mark.parametrize("request_", [{"depth": 0}, {"depth": 4}, {"limit": 0}, {"limit": 101}])
async def test_too_much_is_refused(engine, request_):
    with pytest.raises(ValidationError, match="must be from 1 to"):
        await related(engine, "anything", **request_)


@pytest.mark.parametrize("name", ["", "   ", "x" * 501])
async def test_names_must_be_names(engine, name):
    with pytest.raises(ValidationError):
        await related(engine, name)


async def test_an_unknown_name_is_answered_with_names_like_it(engine):
    with pytest.raises(EntityNotFoundError) as empty:
        await related(engine, "Redis")
    assert empty.value.near == []
    await keep(engine, "Celery depends on Redis.")
    await build(engine)

    with pytest.raises(EntityNotFoundError) as caught:
        await related(engine, "Reddis")
    assert caught.value.near == ["Redis"]
    assert "Redis" not in caught.value.message
    with pytest.raises(EntityNotFoundError):
        await related(engine, "half a character \ud83d")


async def test_an_alias_no_text_uses_is_understood(engine):
    await keep(engine, "Kubernetes runs on Linux.")
    await build(engine)

    assert (await related(engine, "k8s")).entity.name == "Kubernetes"


async def test_an_ambiguous_name_is_answered_with_the_candidates(engine):
    from graph_builders import entity

    await engine.storage.store_entities(
        [entity("Mercury", "PLACE"), entity("Mercury", "TECHNOLOGY")], []
    )

    found = await related(engine, "mercury")

    assert (found.entity, found.related) == (None, [])
    assert sorted(c.type for c in found.candidates) == ["PLACE", "TECHNOLOGY"]
    assert (await related(engine, found.candidates[0].entity_id)).entity == found.candidates[0]
    with pytest.raises(ValidationError, match="give an id"):
        await engine.graph.merge("Mercury", found.candidates[0].entity_id)


# --- Merging ----------------------------------------------------------------------------


async def test_entities_are_merged_and_parted_by_name(engine):
    await keep(engine, "Celery depends on Redis.", "Valkey uses Linux.")
    await build(engine)

    done = await engine.graph.merge("Valkey", "redis")

    assert (done.source, done.target) == ("Valkey", "Redis")
    assert (await related(engine, "Valkey")).entity.name == "Redis"
    assert {hit.name for hit in (await related(engine, "Redis", depth=1)).related} == {
        "Celery",
        "Linux",
    }
    undone = await engine.graph.undo("Valkey")
    assert (undone.source, undone.target) == ("Valkey", "Redis")
    assert (await related(engine, "Valkey")).entity.name == "Valkey"
    with pytest.raises(NotFoundError) as caught:
        await engine.graph.undo()
    assert caught.value.error_code == "GRAPH_002"


async def test_undo_by_the_survivors_name_asks_which_if_there_are_several(engine):
    await keep(engine, "Redis uses Linux.", "Valkey uses Linux.", "Kafka uses Linux.")
    await build(engine)
    await engine.graph.merge("Valkey", "Redis")
    first = await engine.graph.undo("Redis")
    assert first.source == "Valkey"
    await engine.graph.merge("Valkey", "Redis")
    await engine.graph.merge("Kafka", "Redis")

    with pytest.raises(ValidationError, match="give the id of one"):
        await engine.graph.undo("Redis")
    assert (await engine.graph.undo()).source == "Kafka"
    with pytest.raises(NotFoundError):
        await engine.graph.undo("Linux")


async def test_searches_for_entities_have_limits(engine):
    with pytest.raises(ValidationError):
        await engine.graph.find_entities(EntityQuery(text="x" * 501))
    with pytest.raises(ValidationError):
        await engine.graph.find_entities(EntityQuery(limit=0))
    assert await engine.graph.find_entities(EntityQuery(text="\ud83d")) == []


async def test_history_of_an_unknown_memory_is_an_error(engine):
    with pytest.raises(NotFoundError):
        await engine.memories.get_history("nobody")


# --- Names that memories teach -----------------------------------------------------------


async def test_an_abbreviation_is_what_any_memory_says_it_abbreviates(engine):
    await keep(
        engine,
        "Mails were sent by the GDA last year.",
        "The Government Digital Agency (GDA) runs it.",
    )
    await build(engine)
    await keep(engine, "We asked the GDA for help.")
    await build(engine)

    (found,) = await engine.graph.find_entities(EntityQuery(text="GDA"))

    assert (found.name, found.type) == ("Government Digital Agency", "ORG")
    assert found.mentions == 4


async def test_a_name_has_the_kind_that_one_memory_gives_it(engine):
    await keep(engine, "The cache of Quillon Vex is slow.", "Quillon Vex: I fixed it.")
    await build(engine)

    (found,) = await engine.graph.find_entities(EntityQuery(text="Quillon Vex"))

    assert (found.type, found.mentions) == ("PERSON", 2)


async def names(engine) -> dict[str, str]:
    return {e.name: e.type for e in await engine.graph.find_entities(EntityQuery())}


@pytest.mark.parametrize("order", [1, -1])
async def test_one_use_says_that_a_name_is_a_technology(engine, order):
    texts = ["The jobs are in Zolid.", "Retries of Zolid are slow.", "We are using Zolid."]
    await keep(engine, *texts[::order])
    await build(engine)
    assert await names(engine) == {"Zolid": "TECHNOLOGY"}


@pytest.mark.parametrize("order", [1, -1])
async def test_a_surname_is_the_one_person_who_has_it(engine, order):
    texts = [
        "The proposal of Schuijff is good.",
        "It was rejected in spite of Schuijff this time.",
        "Author: Arnout Schuijff <arnout@example.org>\n\nFix a typo.",
    ]
    await keep(engine, *texts[::order])
    await build(engine)
    (person,) = await engine.graph.find_entities(EntityQuery())
    assert (person.name, person.type, person.mentions) == ("Arnout Schuijff", "PERSON", 3)


async def test_a_surname_of_two_people_is_neither(engine):
    await keep(engine, "Author: Arnout Schuijff <a@example.org>\n\nFix a typo.")
    await keep(engine, "Author: Zibi Schuijff <z@example.org>\n\nFix another one.")
    await keep(engine, "The proposal of Schuijff is good.", "We voted for Schuijff after all.")
    await build(engine)
    assert (await names(engine))["Schuijff"] == "CONCEPT"


async def test_a_surname_behind_an_initial_may_be_someone_else(engine):
    await keep(engine, "Author: Arnout Schuijff <a@example.org>\n\nFix a typo.")
    await keep(engine, "The proposal of B. Schuijff is good.", "We voted for B. Schuijff then.")
    await build(engine)
    assert {*await names(engine)} == {"Arnout Schuijff", "B. Schuijff"}


async def test_who_has_employees_is_an_organization_wherever_it_is_named(engine):
    prose = "We all came to work there and liked it a lot. " * 8
    await keep(engine, f"{prose}Quxolan pays for it.", "Members of Quxolan met.")
    await keep(engine, f"{prose}Welcome to BlixActions, dear reader.")
    await keep(engine, f"{prose}All BlixActions employees and Quxolan employees sign it.")
    await build(engine)
    assert await names(engine) == {"BlixActions": "ORG", "Quxolan": "ORG"}


async def test_a_name_is_forgotten_with_the_memories_that_repeat_it(engine):
    first, _ = await keep(engine, "The jobs are in Zolid now.", "Retries of Zolid are slow.")
    await build(engine)
    assert [e.name for e in await engine.graph.find_entities(EntityQuery())] == ["Zolid"]

    await engine.memories.delete(first)

    assert await engine.graph.find_entities(EntityQuery()) == []


async def test_dates_versions_and_references_are_facts_and_no_nodes(engine):
    await keep(engine, "We use Redis 7.2 since 2024-05-01, see #4711 and https://example.org/x.")
    await build(engine)

    assert [e.name for e in await engine.graph.find_entities(EntityQuery())] == ["Redis"]
    assert [e.name for e in await engine.graph.find_entities(EntityQuery(types=["VERSION"]))] == [
        "Redis 7.2"
    ]
    assert (await related(engine, "Redis")).related == []
    assert (await engine.graph.get_status()).entity_types == {"TECHNOLOGY": 1}


async def test_what_documents_have_from_a_template_is_no_name(engine):
    form = "# {}\n\n## Signoff Frobs\n\n- [ ] (R) Ask the Frob Council QRS for approval\n\n{}\n"
    texts = [form.format(n, f"Zolid does it with `zed_{n}_part`.") for n in ("One", "Two", "Three")]
    await keep(engine, *texts)
    await build(engine)
    found = {one.name for one in await engine.graph.find_entities(EntityQuery(limit=100))}
    assert {"zed_One_part", "zed_Two_part"} <= found
    assert not {name for name in found if "Frob" in name or "QRS" in name}
