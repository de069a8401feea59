"""Evidence alongside the rank, through the engine: with the model, by words, with the graph."""

from __future__ import annotations

from contextlib import closing

import pytest

from observation_rows import observe, open_database
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.modules.graph import BuildGraphRequest
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

NOTES = (
    "We deploy the shop on Tuesdays, never on Fridays: support is not there on weekends.",
    "We chose PostgreSQL over MongoDB because orders, payments and stock change together.",
    "To renew the TLS certificate run certbot renew on the proxy, then reload nginx.",
    "Anna Petrova maintains the payment service; ask her before changing retries.",
    "The staging database listens on port 5433, production on 5432.",
    "Invoices are sent by the nightly job; it runs at two and takes ten minutes.",
    "The mobile app caches the catalogue for an hour.",
    "Search results are ranked by margin only on the sale page.",
)
ANSWERED = (
    ("on which day do we deploy the shop?", 0),
    ("why PostgreSQL and not MongoDB?", 1),
    ("how do I renew the certificate", 2),
    ("on which port does the staging database listen", 4),
)
UNANSWERED = (
    "how long do penguins sit on their eggs",
    "what do search parties eat on long nights at sea",
    "who won the chess championship in 1972",
    "quantum tunnelling in semiconductors",
)


async def add_notes(engine) -> list[str]:
    added = await engine.add_memories([AddMemoryRequest(text=text) for text in NOTES])
    return [response.memory_id for response in added]


async def search(engine, query, **fields):
    return await engine.search_memory(SearchRequest(query=query, **fields))


async def test_an_answer_is_strong_and_for_nonsense_nothing_is_close(engine):
    ids = await add_notes(engine)
    for question, answer in ANSWERED:
        response = await search(engine, question)
        assert response.results[0].memory_id == ids[answer]
        assert response.results[0].evidence_word == "strong", question
        assert not response.nothing_close
    paraphrase = await search(engine, "which day of the week do we ship the shop?")
    assert paraphrase.results[0].memory_id == ids[0]
    assert paraphrase.results[0].evidence_word != "none"
    answers = [await search(engine, question) for question in UNANSWERED]
    found = [response for response in answers if response.results]
    assert len(found) >= 2
    for response in found:
        assert response.nothing_close
        assert {hit.evidence_word for hit in response.results} == {"none"}
        # The rank is scaled among the hits: there is always a best one.
        assert response.results[0].score > 0.3


async def test_of_two_turns_the_one_that_answers_is_strong_and_the_one_that_asks_is_not(engine):
    await add_notes(engine)
    turns = (
        "Anna: Which queue do the mail workers read?",
        "Ben: The mail workers read the Redis queue outbox.",
    )
    requests = [
        AddMemoryRequest(text=text, parent="standup", position=number)
        for number, text in enumerate(turns)
    ]
    asks, answers = (added.memory_id for added in await engine.add_memories(requests))
    found = await search(engine, "mail workers queue")
    words = {hit.memory_id: hit.evidence_word for hit in found.results}
    assert (words[asks], words[answers]) == ("weak", "strong")


async def test_pages_of_distant_hits_join_as_any_other(engine):
    await add_notes(engine)
    whole = await search(engine, UNANSWERED[0], limit=6)
    pages = [await search(engine, UNANSWERED[0], limit=3, offset=offset) for offset in (0, 3)]
    assert [page.nothing_close for page in pages] == [True, True]
    joined = [hit.memory_id for page in pages for hit in page.results]
    assert joined == [hit.memory_id for hit in whole.results]


async def test_the_graph_never_raises_evidence(engine):
    await add_notes(engine)
    task = await engine.graph.build(BuildGraphRequest())
    await engine.tasks.run_task(task, lambda _: None)
    for question in (*(question for question, _ in ANSWERED), *UNANSWERED, "Anna Petrova"):
        plain = await search(engine, question, graph=False)
        linked = {hit.chunk_id: hit for hit in (await search(engine, question)).results}
        for hit in plain.results:
            if hit.chunk_id in linked:
                assert linked[hit.chunk_id].evidence <= hit.evidence


async def test_words_alone_are_evidence_enough_and_the_explanation_says_so(wordy_engine):
    ids = await add_notes(wordy_engine)
    response = await search(wordy_engine, "which port has the staging database", explain=True)
    assert response.results[0].memory_id == ids[4]
    assert response.results[0].evidence_word == "strong"
    assert response.results[0].explanation["evidence"]["calibration"] == "words"
    response = await search(wordy_engine, "do penguins run on a diet of small arctic fish")
    assert response.nothing_close


async def test_a_phrase_of_a_short_question_says_more_than_one_of_a_long_question(wordy_engine):
    ids = await add_notes(wordy_engine)
    short = "staging database port"
    long = f"{short}, rolling upgrades, blue whales, garden chairs"
    answers = [await search(wordy_engine, asked, explain=True) for asked in (short, long)]
    hits = [answer.results[0] for answer in answers]
    assert [hit.memory_id for hit in hits] == [ids[4], ids[4]]
    shares = [hit.explanation["evidence"]["phrases"] for hit in hits]
    assert shares[0] > 2 * shares[1] > 0
    assert hits[0].evidence > hits[1].evidence


async def test_observations_have_evidence_by_their_words(wordy_engine):
    with closing(open_database(load_settings().database_path)) as db:
        for number in range(3):
            observe(db, "command", f"pytest tests/unit -k number{number}")
        observe(db, "command_error", "alembic upgrade head: relation orders does not exist")
    response = await search(wordy_engine, "alembic upgrade: relation orders does not exist")
    assert response.results[0].kind == "command_error"
    assert response.results[0].evidence_word == "strong"
    response = await search(wordy_engine, "which unit has the most penguins per iceberg")
    assert response.nothing_close
