"""The present fact above the past one: similar memories, statements, the newer of two."""

from __future__ import annotations

import pytest

from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest, UpdateMemoryRequest

pytestmark = pytest.mark.anyio

DEPLOYS = "We deploy to production on Tuesdays."
MOVED = "Production deploys happen on Thursdays."


async def add(engine, text, **fields):
    return await engine.add_memory(AddMemoryRequest(text=text, project="shop", **fields))


async def found(engine, query, **fields):
    response = await engine.search_memory(SearchRequest(query=query, **fields))
    return [result.text for result in response.results]


OTHER_FACTS = (
    "The cafeteria serves soup on Mondays.",
    "Invoices are numbered per year.",
    "The mobile app is written in Flutter.",
    "Passwords are hashed with argon2.",
)
FUNCTIONS = (
    "contains a number", "has upper case letters", "is a palindrome", "holds a date",
    "begins with a vowel", "has only digits", "contains a word", "is empty",
    "contains a number sign",
)  # fmt: skip


# --- When one is added --------------------------------------------------------------------


async def test_a_new_fact_comes_back_with_those_it_may_replace_and_replaces_them_on_request(engine):
    old = await add(engine, DEPLOYS)
    again = await add(engine, "Production deploys happen every Tuesday morning.")
    await add(engine, "The cafeteria serves soup on Mondays.")
    await engine.add_memory(AddMemoryRequest(text=f"{DEPLOYS} Says the other team."))

    new = await add(engine, MOVED)

    assert {one.memory_id for one in new.similar} == {old.memory_id, again.memory_id}
    assert {one.text for one in new.similar} >= {DEPLOYS}
    assert all(one.similarity >= 0.7 for one in new.similar)
    replaced = [one.memory_id for one in new.similar]
    await engine.update_memory(UpdateMemoryRequest(memory_id=new.memory_id, supersedes=replaced))
    assert (await found(engine, "when do we deploy", filters={"project": "shop"}))[0] == MOVED
    assert DEPLOYS not in await found(engine, "when do we deploy", filters={"project": "shop"})
    assert (await add(engine, "We deploy on Thursdays, to production.")).similar[0].text == MOVED


async def test_without_a_model_similar_memories_share_half_of_their_words(wordy_engine):
    await add(wordy_engine, DEPLOYS)
    await add(wordy_engine, "We eat soup on Tuesdays.")

    (similar,) = (await add(wordy_engine, MOVED)).similar

    assert (similar.text, similar.similarity) == (DEPLOYS, None)


async def test_documents_commits_turns_and_other_projects_are_no_similar_memories(engine):
    await add(engine, f"{DEPLOYS} 1", kind="document")
    await add(engine, f"{DEPLOYS} 2", kind="commit")
    await add(engine, f"{DEPLOYS} 3", parent="standup")
    await engine.add_memory(AddMemoryRequest(text=f"{DEPLOYS} 4", project="other"))

    assert (await add(engine, MOVED)).similar == []
    assert (await add(engine, f"{MOVED} 5", kind="document")).similar == []
    assert (await add(engine, f"{MOVED} 6", parent="standup")).similar == []


async def test_a_similar_memory_is_shown_short_and_without_secrets(wordy_engine):
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    await add(wordy_engine, f"The deploy token is {secret}\nfor <production> deploys " + "x " * 200)

    (similar,) = (await add(wordy_engine, "The deploy token is for production deploys")).similar

    assert secret not in similar.text
    assert "\n" not in similar.text
    assert len(similar.text) <= 200


async def test_an_update_refuses_to_replace_what_it_cannot(wordy_engine):
    old, new = await add(wordy_engine, "one"), await add(wordy_engine, "two")

    async def replace(newer, older):
        await wordy_engine.update_memory(UpdateMemoryRequest(memory_id=newer, supersedes=[older]))

    with pytest.raises(NotFoundError):
        await replace(new.memory_id, "missing")
    with pytest.raises(ValidationError, match="stored before"):
        await replace(old.memory_id, new.memory_id)
    await replace(new.memory_id, old.memory_id)
    assert (await wordy_engine.memories.get(old.memory_id)).superseded_by == new.memory_id


async def test_what_resembles_an_earlier_wording_is_asked_about_the_current_one(engine):
    said = await add(engine, "The documentation is built with Sphinx.")
    again = await add(engine, "Sphinx builds all our pages.", supersedes=said.memory_id)

    (similar,) = (await add(engine, "The documentation is built with MkDocs.")).similar

    assert (similar.memory_id, similar.text) == (again.memory_id, "Sphinx builds all our pages.")


# --- When they are searched ---------------------------------------------------------------


async def hits(engine, query, **fields):
    request = SearchRequest(query=query, filters={"project": "shop"}, **fields)
    return (await engine.search_memory(request)).results


async def test_of_two_facts_that_are_alike_the_newer_comes_first(engine):
    await add(engine, "Access tokens are valid for 60 minutes.")
    await add(engine, "Access tokens are valid for 15 minutes, please refresh them more often.")

    first, second = await hits(engine, "How long is an access token valid?", explain=True)

    assert "15 minutes" in first.text
    assert first.explanation["boosts"]["newer"] > 0
    assert (first.replaced, second.replaced) == (None, None)


@pytest.mark.parametrize(
    ("older", "newer", "query"),
    [
        ("Staging deploys the branch develop.", "Staging follows main.", "what runs on staging?"),
        (
            "The docs site is deployed by running make publish-docs on a laptop.",
            "The docs site deploys itself from main through Netlify.",
            "how do we deploy the docs site?",
        ),
        ("Logs are retained for 14 days.", "Log retention is 90 days.", "how long are logs kept?"),
        (
            "Sentry tracks our errors.",
            "We switched error tracking to GlitchTip.",
            "which tool tracks errors?",
        ),
    ],
)
async def test_a_newer_fact_in_other_words_comes_first(engine, older, newer, query):
    for text in (older, *OTHER_FACTS, newer):
        await add(engine, text)

    assert (await found(engine, query))[0] == newer


@pytest.mark.parametrize(
    ("asked", "other", "query"),
    [
        (
            "API keys of the test environment are in the vault test-keys.",
            "API keys of the demo environment are in the vault demo-keys.",
            "Where are the API keys of the test environment?",
        ),
        (
            "Login is limited to 5 attempts a minute.",
            "Sign-up is limited to 20 attempts an hour.",
            "What is the limit for login attempts?",
        ),
    ],
)
async def test_a_newer_fact_with_another_name_in_place_of_the_one_asked_for_stays_below(
    engine, asked, other, query
):
    for text in (asked, *OTHER_FACTS, other):
        await add(engine, text)

    assert (await found(engine, query))[0] == asked


async def test_without_a_model_the_newer_of_two_with_half_of_their_words_in_common_comes_first(
    wordy_engine,
):
    newer = "Uploads are kept in the bucket blue, which is in Paris."
    for text in ("Uploads are kept in a red bucket.", "Lunch is at noon.", newer):
        await add(wordy_engine, text)

    assert (await found(wordy_engine, "which bucket has the uploads?"))[0] == newer


async def test_of_many_facts_that_are_all_alike_none_comes_first_for_being_newer(engine):
    texts = [f"Checks whether a string of text {what}." for what in FUNCTIONS]
    for text in texts:
        await add(engine, text)

    assert (await found(engine, "check whether a string contains a number"))[0] == texts[0]


@pytest.mark.parametrize(
    "labels",
    [{"kind": "document"}, {"kind": "commit"}, {"parent": "talk"}],
)
async def test_documents_commits_and_turns_keep_their_order(engine, labels):
    older = "Access tokens are valid for 60 minutes."
    await add(engine, older, **labels)
    await add(
        engine, "Access tokens are valid for 15 minutes, please refresh more often.", **labels
    )

    assert (await hits(engine, "How long is an access token valid? 60"))[0].text == older


async def test_a_newer_fact_about_another_thing_stays_below(engine):
    wanted = "The staging environment is hosted in eu-west-1."
    await add(engine, wanted)
    await add(engine, "The sandbox environment is hosted in us-east-2.")

    found_first, _ = await hits(engine, "Which region is the staging environment in?")

    assert found_first.text == wanted


@pytest.mark.parametrize(
    "change",
    [
        "The billing service moved from MySQL to PostgreSQL.",
        "We migrated the billing service from MySQL to PostgreSQL.",
        "The billing service is on PostgreSQL (was MySQL).",
        "The billing service does not use MySQL any more.",
    ],
)
async def test_what_a_newer_fact_says_is_over_ranks_below_it_and_says_so(wordy_engine, change):
    await add(
        wordy_engine, "Invoices of the billing service are stored in MySQL, database billing."
    )
    new = await add(wordy_engine, change)

    first, second = await hits(wordy_engine, "Which database stores invoices of billing? MySQL?")

    assert first.memory_id == new.memory_id
    assert (second.replaced.how, second.replaced.memory_id) == ("changed", new.memory_id)


ADRS = [
    ("# ADR-0002: Use MySQL for orders\n\n{old}\n\nOrders are stored in MySQL.", "0002-mysql.md"),
    ("# ADR-0046: Use Postgres\n\n{new}\n\nOrders go elsewhere.", "0046-use-postgres.md"),
]


@pytest.mark.parametrize("old_first", [True, False])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Status: Superseded by ADR046", "Status: Accepted"),
        ("## Status\n\nSuperseded by [ADR-0046](0046-use-postgres.md)", "Accepted"),
        ("REPLACED_BY: 0046-use-postgres.md", ""),
        ("Status: accepted", "Replaces ADR-0002"),
        ("Status: Superseded by Use Postgres", ""),
        ("Reverted by ADR-46", ""),
    ],
)
async def test_a_status_line_puts_the_replaced_one_below_and_says_by_what(
    wordy_engine, old, new, old_first
):
    texts = [text.format(old=old, new=new) for text, _ in ADRS]
    ids = {}
    for number in (0, 1) if old_first else (1, 0):
        source = f"docs/adr/{ADRS[number][1]}"
        answer = await add(wordy_engine, texts[number], kind="decision", source=source)
        ids[number] = answer.memory_id

    found = await hits(wordy_engine, "MySQL for orders: where are orders stored?")

    assert [hit.memory_id for hit in found] == [ids[1], ids[0]]
    assert found[1].replaced.memory_id == ids[1]
    assert found[1].replaced.how == ("reverted" if old.startswith("Reverted") else "superseded")
    assert found[0].replaced is None
    # Also if what replaced it is not among the hits.
    (alone,) = [h for h in await hits(wordy_engine, "MySQL") if h.memory_id == ids[0]]
    assert alone.replaced.memory_id == ids[1]


async def test_a_rejected_decision_is_demoted_and_a_heading_is_no_status(wordy_engine):
    rejected = "# Use Redis for sessions\n\n## Status\n\nRejected\n\nSessions in Redis, Redis."
    await add(wordy_engine, rejected, kind="decision")
    await add(wordy_engine, "# Sessions in signed cookies\n\n### Deprecated\n\nNot Redis.")

    first, second = await hits(wordy_engine, "Redis sessions", explain=True)

    by_text = {hit.text.splitlines()[0]: hit for hit in (first, second)}
    assert by_text["# Use Redis for sessions"].replaced.line() == "rejected"
    assert by_text["# Use Redis for sessions"].explanation["boosts"]["demoted"] < 0
    assert by_text["# Sessions in signed cookies"].replaced is None


async def test_a_status_far_from_the_passage_that_was_found_counts(engine):
    filler = "\n\n".join(f"Paragraph {n} about queues and their consumers." for n in range(80))
    await add(engine, f"# 7. Use RabbitMQ\n\nStatus: superseded by ADR-9\n\n{filler}\n\nZebra.")

    (hit,) = await hits(engine, "zebra", limit=1)

    assert "Zebra" in hit.text
    assert hit.replaced.line() == "superseded by ADR-9"


async def test_pages_join_though_hits_are_reordered(wordy_engine):
    for number in range(25):
        await add(
            wordy_engine, f"Kettle {number} stopped boiling; kettle {number - 1} was replaced."
        )

    whole = [hit.memory_id for hit in await hits(wordy_engine, "kettle", limit=25)]
    pages = [await hits(wordy_engine, "kettle", limit=10, offset=o) for o in (0, 10, 20)]

    assert [hit.memory_id for page in pages for hit in page] == whole
    assert len(set(whole)) == 25
