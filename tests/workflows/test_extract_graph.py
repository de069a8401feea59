from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from servers import Answer, ollama_chat, openai_chat, serve
from zapomni_core.engine import create_extractor
from zapomni_core.exceptions import ConfigurationError
from zapomni_core.modules.graph import Extraction
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

TEXT = "Django uses Redis. The Blorb is fed by Kafka since 2023."
NOW = datetime(2024, 5, 15, tzinfo=UTC)


def telling(messages: list[dict[str, str]]) -> str:
    """A model that finds one thing the rules do not know, and what the text says about it."""
    if "Entities:" in messages[1]["content"]:
        facts = [
            {"source": "Blorb", "target": "Kafka", "type": "USES"},
            {"source": "Django", "target": "Redis", "type": "USES"},
        ]
        return json.dumps({"relationships": facts})
    return json.dumps(
        {
            "entities": [
                {"text": "Blorb", "type": "CONCEPT"},
                {"text": "Redis", "type": "ORG"},
                {"text": "postgres", "type": "TECHNOLOGY"},
            ]
        }
    )


async def extract(text: str = TEXT, **settings: object) -> Extraction:
    extractor = create_extractor(load_settings(**settings))
    try:
        return await extractor.extract(text, NOW)
    finally:
        await extractor.close()


def facts(extraction: Extraction) -> set[tuple[str, str, str, str]]:
    names = {entity.entity_id: entity.name for entity in extraction.entities}
    return {
        (
            names[one.source_entity_id],
            one.relationship_type,
            names[one.target_entity_id],
            one.source,
        )
        for one in extraction.relationships
        if one.relationship_type != "RELATED_TO"
    }


async def test_rules_alone_are_the_default():
    found = await extract()
    names = [entity.name for entity in found.entities]
    assert names == ["Django", "Redis", "Blorb", "Kafka", "2023"]
    assert facts(found) == {("Django", "USES", "Redis", "rules")}
    assert found.notice is None


async def test_a_model_adds_to_what_the_rules_found():
    with serve(ollama_chat(telling, "tiny")) as server:
        found = await extract(extractor="ollama", ollama_host=server.url, extraction_model="tiny")
    assert [(entity.name, entity.type) for entity in found.entities] == [
        ("Django", "TECHNOLOGY"),
        ("Redis", "TECHNOLOGY"),
        ("Blorb", "CONCEPT"),
        ("Kafka", "TECHNOLOGY"),
        ("2023", "DATE"),
    ]
    assert facts(found) == {
        ("Django", "USES", "Redis", "rules"),
        ("Blorb", "USES", "Kafka", "ollama"),
    }
    told = next(one for one in found.relationships if one.source == "ollama")
    assert told.evidence == "The Blorb is fed by Kafka since 2023."
    pairs = [frozenset((one.source_entity_id, one.target_entity_id)) for one in found.relationships]
    assert len(pairs) == len(set(pairs))
    assert found.notice is None


async def test_what_a_model_names_gets_the_canonical_name():
    said = json.dumps({"entities": [{"text": "pgsql thing", "type": "CONCEPT"}]})
    with serve(openai_chat(lambda messages: said, "tiny")) as server:
        found = await extract(
            "the pgsql thing",
            extractor="openai",
            openai_base_url=server.url + "/v1",
            extraction_model="tiny",
        )
    # The rules' own mention lies inside it, so theirs stands.
    assert [entity.name for entity in found.entities] == ["PostgreSQL"]


@pytest.mark.parametrize(
    "broken",
    [
        lambda request: Answer({"error": "out of memory"}, 400),
        lambda request: Answer({"message": {"content": "Sorry, I cannot do that."}}),
        lambda request: Answer({"message": {"content": '{"entities": [{"text": "Blo'}}),
        lambda request: Answer({}, hang=True),
    ],
    ids=["refuses", "prose", "truncated", "slow"],
)
async def test_a_model_that_fails_leaves_exactly_what_the_rules_found(broken):
    by_rules = await extract()
    with serve(broken) as server:
        found = await extract(
            extractor="ollama", ollama_host=server.url, extraction_timeout_seconds=0.2
        )
    assert found[:2] == by_rules[:2]
    assert found.notice is not None
    assert "What the rules found is used (EXTR_00" in found.notice
    assert server.url not in found.notice


async def test_a_model_that_fails_half_way_adds_nothing():
    def half(messages: list[dict[str, str]]) -> str:
        return "no idea" if "Entities:" in messages[1]["content"] else telling(messages)

    by_rules = await extract()
    with serve(ollama_chat(half, "llama3.2")) as server:
        found = await extract(extractor="ollama", ollama_host=server.url)
    assert found[:2] == by_rules[:2]
    assert "EXTR_003" in (found.notice or "")


async def test_spacy_that_is_not_there_is_said_and_the_rules_stand():
    found = await extract(extractor="spacy", extraction_model="no_such_pipeline")
    assert found[:2] == (await extract())[:2]
    assert "spacy download" in (found.notice or "")


async def test_nothing_is_asked_about_nothing():
    with serve(ollama_chat(telling, "llama3.2")) as server:
        assert await extract(" \n", extractor="ollama", ollama_host=server.url) == ([], [], None)
    assert server.requests == []


async def test_a_question_is_read_without_the_model():
    with serve(ollama_chat(telling, "llama3.2")) as server:
        extractor = create_extractor(load_settings(extractor="ollama", ollama_host=server.url))
        (entity,) = await extractor.recognize("what about postgres")
        await extractor.close()
    assert entity.name == "PostgreSQL"
    assert server.requests == []


async def test_a_long_text_is_read_as_well():
    found = await extract("Django uses Redis. " * 2000)
    assert len(found.entities) == 4000


async def test_the_version_names_all_that_decides_what_is_found(private_home):
    plain = create_extractor(load_settings()).version
    with_model = create_extractor(load_settings(extractor="ollama")).version
    assert with_model == f"{plain}+ollama/llama3.2"
    private_home.mkdir(exist_ok=True)
    (private_home / "gazetteer.txt").write_text("[technology]\nBlorb\n")
    own = create_extractor(load_settings())
    assert own.version not in (plain, with_model)
    assert [e.name for e in await own.recognize("the Blorb")] == ["Blorb"]


def test_openai_without_an_address_is_refused_with_the_setting():
    with pytest.raises(ConfigurationError, match="ZAPOMNI_OPENAI_BASE_URL"):
        create_extractor(load_settings(extractor="openai"))
