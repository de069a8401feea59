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
