from __future__ import annotations

from datetime import UTC, datetime

import pytest

from zapomni_core.modules.graph import RuleExtractor, load_gazetteer
from zapomni_core.modules.graph.relations import SINGLE_VALUED, table, with_evidence
from zapomni_db.models import RelationshipData

pytestmark = pytest.mark.anyio
RULES = RuleExtractor(load_gazetteer())
NOW = datetime(2024, 5, 15, tzinfo=UTC)


async def stated(text: str, *, together: bool = False) -> list[str]:
    """Statements as `subject TYPE object`; with `together`, also names that stand together."""
    entities = await RULES.extract_entities(text, NOW)
    related = await RULES.relate(text, entities, NOW)
    names = {entity.entity_id: entity.name for entity in (*entities, *related.added)}
    return [
        f"{names[one.source_entity_id]} {'ended ' * (one.valid_to == NOW)}{one.relationship_type}"
        f" {names[one.target_entity_id]}"
        for one in related.relationships
        if together or one.source != "cooccurrence"
    ]


STATEMENTS = """\
Django uses Redis -> Django USES Redis
The Django service is now using our new Redis -> Django USES Redis
Vite is used by OpenAI -> OpenAI USES Vite
we use GitHub Actions -> we USES GitHub Actions
Kafka and Redis use Linux -> Kafka USES Linux; Redis USES Linux
FastAPI depends on Starlette and Pydantic -> FastAPI DEPENDS_ON Starlette; FastAPI DEPENDS_ON Pydantic
Flask was created by Armin Ronacher -> Flask CREATED_BY Armin Ronacher
Linus Torvalds wrote Git -> Git CREATED_BY Linus Torvalds
#12 fixes #7 -> #12 FIXES #7
KeyError is fixed in #12 -> #12 FIXES KeyError
Elasticsearch has been replaced by OpenSearch -> Elasticsearch REPLACED_BY OpenSearch
Vite replaced webpack -> webpack REPLACED_BY Vite
we moved the billing service from MySQL to PostgreSQL -> billing service ended USES MySQL; billing service USES PostgreSQL
we moved from MySQL to PostgreSQL -> MySQL REPLACED_BY PostgreSQL
Acme Corp uses PostgreSQL -> Acme USES PostgreSQL
TensorFlow was created by Google -> TensorFlow CREATED_BY Google
The billing service uses PostgreSQL -> billing service USES PostgreSQL
The billing service uses PostgreSQL, Redis and the auth service -> billing service USES PostgreSQL; billing service USES Redis; billing service USES auth service
our new billing service depends on Redis and is maintained by the payments team -> billing service DEPENDS_ON Redis; payments team OWNS billing service
Alice created Zephyr -> Zephyr CREATED_BY Alice
Flask is used by Netflix -> Netflix USES Flask
Celery, a task queue by Vinta, uses Redis -> Celery USES Redis
Celery (a queue) uses Redis -> Celery USES Redis
9f3c2ab was reverted by 1a2b3c4 -> 9f3c2ab REVERTED_BY 1a2b3c4
Django no longer depends on Redis -> Django ended DEPENDS_ON Redis
Requests drops support for Python 2.7 -> Python HAS_VERSION Python 2.7; Requests ended SUPPORTS Python 2.7
we no longer use MongoDB -> we ended USES MongoDB; we AVOIDS MongoDB
we stopped using Jenkins -> we ended USES Jenkins; we AVOIDS Jenkins
The billing service uses Redis instead of Memcached -> billing service USES Redis; Redis INSTEAD_OF memcached
The billing service stores its uploads in S3 -> billing service USES S3
The [billing service](https://example.org/Django) uses Redis -> billing service USES Redis
Fix an issue where `init` ignored the cache ([#12](https://example.org/pull/12)). -> #12 FIXES init
Add a `--sync` option to `update` (#34). -> #34 ADDS --sync; --sync PART_OF update
The `--list` option of the `config` command -> --list PART_OF config
Replace Moment.js with Day.js -> Moment.js REPLACED_BY Day.js
Rename `old_name` to `new_name` -> old_name REPLACED_BY new_name
Use ruff instead of flake8 -> ruff INSTEAD_OF flake8
Anna prefers pnpm over npm -> Anna PREFERS pnpm; pnpm PREFERRED_OVER npm
Guido van Rossum works at Microsoft -> Guido van Rossum WORKS_AT Microsoft
Priya from Spotify said no -> Priya WORKS_AT Spotify
Maria lives in Lisbon -> Maria LOCATED_IN Lisbon
Anna was born in Prague -> Anna COMES_FROM Prague
asyncio is part of Python -> asyncio PART_OF Python
Python's `unicodedata` module -> unicodedata PART_OF Python
Uvicorn ships with `--reload` -> --reload PART_OF Uvicorn
Ines maintains PyTorch -> Ines OWNS PyTorch
I prefer Vim -> I PREFERS Vim
we avoid MongoDB -> we AVOIDS MongoDB
we don't use Jenkins -> we AVOIDS Jenkins
we decided to use Kafka -> we DECIDED_ON Kafka
parse_config() raises KeyError -> parse_config RAISES KeyError
TypeError in merge_tags() -> merge_tags RAISES TypeError
`load` is defined in src/a.py -> load DEFINED_IN src/a.py
`load` in src/a.py -> load APPEARS_IN src/a.py
Uvicorn supports HTTP/2 -> Uvicorn SUPPORTS HTTP/2
Added Redis support for Celery -> Celery SUPPORTS Redis
Requests is available on PyPI -> Requests AVAILABLE_ON PyPI
Celery runs on Linux -> Celery RUNS_ON Linux
`Child` inherits from `Parent` -> Child EXTENDS Parent
`a_b()` calls `c_d()` -> a_b CALLS c_d
mypy is a linter for Python -> mypy IS_FOR Python
Rich is a Python library -> Rich IS_FOR Python
9f3c2ab introduced KeyError -> 9f3c2ab CAUSES KeyError
Python 3.12 -> Python HAS_VERSION Python 3.12
Update attrs from 22.1 to 23.2 -> attrs HAS_VERSION attrs 22.1; attrs HAS_VERSION attrs 23.2; attrs 22.1 REPLACED_BY attrs 23.2
we are migrating from Jenkins to Drone -> Jenkins REPLACED_BY Drone
We have migrated our caching and queuing to Kafka -> we USES Kafka
Fabrikam uses Elasticsearch -> Fabrikam USES Elasticsearch
Meridian is written in Rust -> Meridian WRITTEN_IN Rust
Nimbus, which Carol maintains, depends on libuv -> Nimbus DEPENDS_ON libuv
Contoso, a logistics company, adopted Snowflake -> Contoso USES Snowflake
The payments API no longer uses MongoDB -> payments API ended USES MongoDB
We use Vault instead of AWS Secrets Manager -> we USES Vault
Terraform and Packer are used by the deploy pipeline -> deploy pipeline USES Terraform; deploy pipeline USES Packer
Halcyon, a payments startup, moved from Heroku to Render -> Halcyon ended USES Heroku; Halcyon USES Render
Vega dropped support for Node 14 -> Node HAS_VERSION Node 14; Vega ended SUPPORTS Node 14
Sirius, which talks to Kafka, is owned by the data team -> Sirius CONNECTS_TO Kafka; data team OWNS Sirius
React was originally developed by Facebook -> React CREATED_BY Facebook
Мы перешли с MySQL на PostgreSQL -> MySQL REPLACED_BY PostgreSQL
"""  # noqa: E501, RUF001 - a line is a case, one of them in Russian


@pytest.mark.parametrize("line", STATEMENTS.splitlines())
async def test_what_a_sentence_states(line):
    text, _, expected = line.partition(" -> ")
    assert await stated(text) == expected.split("; ")


@pytest.mark.parametrize(
    "text",
    [
        "Django does not use Redis",
        "Django never uses Redis",
        "Python support for Requests was removed",
        "Remove support for Python in Requests",
        "we catch KeyError in `merge_tags()`",
        "the status changed from `live` to `draft`",
        "Fix an issue where Django uses Redis",
        "Redis can be replaced by Kafka",
        "the new service uses Redis",
        "Does Django use Redis?",
        "does Django use Redis",
        "**Why Django uses Redis?**",
        "If Django used Redis, it would be faster",
        "Django should use Redis",
        "maybe Django uses Redis",
        "I wonder whether Django uses Redis",
        "nobody knows if Kafka and the Django uses Redis",
        "let Django use Redis",
        "we tried to replace Django with Flask",
        "don't replace Django with Flask",
        "when Django uses Redis",
        "Removes `sudo` from README",
        "the client for Django uses Redis",
        "the Rust HTTP server uses Redis",
        "Cloudflare supports Vite's mission",
        "Django. Uses Redis",
        "Django (which one?) uses Redis",
        "fixes #1 fixes #2",
        "the default changed from 3.0 to 2.0",
        "we recommend avoiding Redis",
        "Migrating from Chrome to Firefox",
        "It would also make it possible to move functionality from Python to Rust",
        "Twitter is monitored by the marketing team",
        "We chose __Option 3__ over __Option 2__",
        "We use Chapter 13 of the book",
        "Neither Orion nor Lyra uses Redis",
        "We catch TimeoutError in the Gateway",
        "it is tempting that the billing service be written in Rust",
        "calling `a_b()` instead of allocating `c_d`",
        "Kibana is a tool in the billing service written in Rust",
        "additional Prometheus queries every `relist`",
    ],
)
async def test_what_is_denied_asked_wished_or_unclear_is_no_fact(text):
    assert await stated(text) == []


async def test_a_wrapped_line_is_one_sentence():
    line = "There is a part of this system that has been there for long: Django uses"
    assert await stated(f"{line}\nRedis for it.") == ["Django USES Redis"]
    assert await stated("A list: Django uses\nRedis for it.") == []
    assert await stated(f"{line}\n\nRedis for it.") == []
    assert await stated(f"{line}\n- Redis for it.") == []
    assert await stated(f"{line}\nAnna: Redis is fast.") == []


async def test_names_in_one_sentence_occur_together_without_any_strength_yet():
    text = "Redis, Kafka, Django, Flask, and Celery met. Then Linux."
    entities = await RULES.extract_entities(text)
    names = {entity.entity_id: entity.name for entity in entities}
    found = await RULES.extract_relationships(text, entities)
    pairs = {frozenset((names[one.source_entity_id], names[one.target_entity_id])) for one in found}
    assert {(one.relationship_type, one.strength) for one in found} == {("RELATED_TO", 0.0)}
    assert {frozenset(("Redis", "Kafka")), frozenset(("Redis", "Django"))} <= pairs
    assert frozenset(("Redis", "Flask")) not in pairs
    assert not [pair for pair in pairs if "Linux" in pair]


async def test_a_statement_takes_the_place_of_standing_together():
    assert await stated("Django uses Redis on Linux", together=True) == [
        "Django USES Redis",
        *sorted(await stated("Django uses Redis on Linux", together=True))[1:],
    ]
    text = "Django uses Redis"
    assert await stated(text, together=True) == ["Django USES Redis"]


@pytest.mark.parametrize(
    "text",
    ["Fix `expire_at` instead of `expires_at`", "Moved `load_it()` from src/a.py to src/b.py"],
)
async def test_what_was_mended_or_has_moved_is_not_so(text):
    assert not [one for one in await stated(text) if "INSTEAD_OF" in one or "a.py" in one]


async def test_two_names_always_stand_in_the_same_order():
    one = await stated("Kafka, Redis", together=True)
    assert await stated("Redis, Kafka", together=True) == one


async def test_a_name_is_not_related_to_itself():
    assert await stated("Redis replaced Redis", together=True) == []


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("Django uses Redis", None, None),
        ("In March 2024 Django used Redis", "2024-03-01", None),
        ("Since 2020 Anna works at IBM", "2020-01-01", None),
        ("Anna worked at IBM until 2022", None, "2023-01-01"),
        ("Anna worked at IBM between 2020 and 2022", "2020-01-01", "2023-01-01"),
        ("Last year Django used Redis", "2023-01-01", None),
        ("In 2019, 2020, and since 2021 Django used Redis", None, None),
    ],
)
async def test_a_sentence_may_say_since_when_and_until_when(text, since, until):
    entities = await RULES.extract_entities(text, NOW)
    fact = (await RULES.extract_relationships(text, entities))[0]
    days = [moment and moment.date().isoformat() for moment in (fact.valid_from, fact.valid_to)]
    assert days == [since, until]


async def test_an_unresolved_date_says_nothing_about_when():
    text = "Last year Django used Redis"
    entities = await RULES.extract_entities(text)
    fact = (await RULES.extract_relationships(text, entities))[0]
    assert fact.valid_from is None


async def test_the_evidence_is_the_sentence_and_where_it_stands():
    text = "Hello there.  FastAPI, e.g. here, is nice. Django uses Redis\nin production. Bye."
    entities = await RULES.extract_entities(text)
    fact = next(
        one
        for one in await RULES.extract_relationships(text, entities)
        if one.relationship_type == "USES"
    )
    assert fact.evidence == "Django uses Redis\nin production."
    assert text[fact.start_char : fact.end_char] == fact.evidence
    assert (fact.strength, fact.source) == (0.9, "rules")


async def test_what_somebody_else_found_gets_the_sentence_that_names_both():
    text = "Redis is here. Kafka feeds Redis. Django is there."
    entities = await RULES.extract_entities(text)
    ids = {entity.name: entity.entity_id for entity in entities}
    given = [
        RelationshipData(
            source_entity_id=ids[source],
            target_entity_id=ids[target],
            relationship_type="FEEDS",
            strength=0.5,
        )
        for source, target in (("Kafka", "Redis"), ("Django", "Kafka"))
    ]
    found = with_evidence(text, entities, given)
    assert [one.evidence for one in found] == ["Kafka feeds Redis.", "Django is there."]


def test_the_table_of_phrases_is_whole():
    every = [wording for wordings in table().values() for wording in wordings]
    assert {wording.type for wording in every} >= SINGLE_VALUED
    for wording in every:
        assert all(kind.isupper() for kind in wording.first | wording.second), wording
        assert 0 < wording.strength <= 1
    assert all(text == text.strip().lower() for text in table())
