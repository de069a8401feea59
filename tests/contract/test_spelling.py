from __future__ import annotations

import pytest

from builders import memory
from zapomni_db.models import MemoryFilter

pytestmark = pytest.mark.anyio


async def test_misspelt_words_are_found_among_those_of_the_index(storage):
    await storage.store_memories(
        [
            memory("Deploying the Kubernetes cluster"),
            memory("Postgres listens on 5433"),
            memory("the postgres backup"),
            memory("Postgrey is a policy server"),
            memory("сервер настроен"),
        ]
    )

    found = await storage.find_near_words(
        ["postgers", "kubernets", "deplyoing", "clusterr", "serever", "unrelated", "настроин"],
        MemoryFilter(),
    )

    assert found == {
        "postgers": "postgres",
        "kubernets": "kubernetes",
        "deplyoing": "deploying",
        "clusterr": "cluster",
        "serever": "server",
        "настроин": "настроен",
    }


async def test_the_nearer_word_is_meant_and_of_two_the_frequent_one(storage):
    texts = ("render the page", "tender offers", "tender offers again", "a wonder")
    await storage.store_memories([memory(text) for text in texts])

    assert await storage.find_near_words(["tendre", "wrender"], MemoryFilter()) == {
        "tendre": "tender",
        "wrender": "render",
    }


async def test_words_of_memories_that_are_not_selected_are_not_given_away(storage):
    await storage.store_memories([memory("project chrysalis", project="secret")])

    assert await storage.find_near_words(["chrysalsi"], MemoryFilter(projects=["", "a"])) == {}
    assert await storage.find_near_words(["chrysalsi"], MemoryFilter(projects=["secret"])) == {
        "chrysalsi": "chrysalis"
    }


async def test_in_a_large_store_words_with_the_same_beginning_are_compared(storage, monkeypatch):
    monkeypatch.setattr("zapomni_db.sqlite.search.FEW_CHUNKS", 0)
    await storage.store_memories([memory("Postgres listens on 5433")])

    for wrong in ("postgers", "opstgres", "psotgres", "xpostgres"):
        assert await storage.find_near_words([wrong], MemoryFilter()) == {wrong: "postgres"}
