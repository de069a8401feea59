"""Facts that change, as people and agents meet them."""

from __future__ import annotations

import anyio
import pytest

from command import answer, as_json, on_terminal, zapomni
from serving import in_process

DEPLOYS = "We deploy to production on Tuesdays."
MOVED = "Production deploys happen on Thursdays."


@pytest.fixture(autouse=True)
def _words_only(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def test_add_shows_what_it_resembles_with_the_command_that_replaces_it():
    old = answer("add", DEPLOYS).strip()

    done = zapomni("add", MOVED)

    new, shown = done.stdout.decode().strip(), done.stderr.decode()
    assert DEPLOYS in shown
    command = next(line for line in shown.splitlines() if "zapomni update" in line)
    words = command.partition("zapomni ")[2].split()
    assert words == ["update", new, "--supersedes", old]
    answer(*words)
    assert [hit["text"] for hit in as_json("search", "deploy")["results"]] == [MOVED]
    similar = as_json("add", "Production deploys happen at noon.")["similar"]
    assert [one["memory_id"] for one in similar] == [new]


def test_what_was_true_then_and_what_was_known_then():
    old = answer("add", "We use MySQL.", "--when", "2025-01-01").strip()
    answer("add", "We use Postgres.", "--when", "2025-06-01", "--supersedes", old)

    def texts(*options):
        return [hit["text"] for hit in as_json("search", "we use", *options)["results"]]

    assert texts("--as-of", "2025-03-01") == ["We use MySQL."]
    assert texts("--as-of", "2025-07-01") == ["We use Postgres."]
    assert texts("--as-of", "2024-12-31") == texts("--known-at", "2025-07-01") == []
    assert as_json("list", "--known-at", "2025-07-01")["total"] == 0
    refusal = zapomni("search", "x", "--in", "observations", "--known-at", "1d")
    assert "--known-at" in refusal.stderr.decode()


def test_an_agent_is_shown_what_a_new_memory_resembles_and_replaces_it():
    async def work():
        async with in_process() as client:

            async def call(tool, **arguments):
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content
                return result.structured_content

            old = (await call("add_memory", text=DEPLOYS))["memory_id"]
            added = await call("add_memory", text=MOVED)
            assert added["similar"] == [{"memory_id": old, "text": DEPLOYS}]
            assert f'supersedes=["{old}"]' in added["notice"]
            await call("update_memory", memory_id=added["memory_id"], supersedes=[old])
            hits = (await call("search_memory", query="deploy"))["results"]
            assert [hit["text"] for hit in hits] == [MOVED]
            before = await call("search_memory", query="deploy", known_at="2025-01-01T00:00:00Z")
            assert before["results"] == []

    anyio.run(work)


def test_a_replaced_decision_says_by_what_to_people_and_agents():
    answer("add", "# ADR-2: Orders in MySQL\n\nStatus: Superseded by ADR-46", "--kind", "decision")
    new = answer("add", "# ADR-46: Orders in Postgres", "--kind", "decision").strip()

    _, shown = on_terminal("search", "orders MySQL")

    assert "superseded by ADR-46" in shown
    assert shown.index("Orders in Postgres") < shown.index("Orders in MySQL")
    lines = answer("search", "orders MySQL").splitlines()
    assert [line.endswith(f"superseded by ADR-46 ({new})") for line in lines] == [False, True]
    replaced = as_json("search", "orders MySQL")["results"][1]["replaced"]
    assert replaced == {"how": "superseded", "by": "ADR-46", "memory_id": new}

    async def work():
        async with in_process() as client:
            result = await client.call_tool("search_memory", {"query": "orders MySQL"})
            titles = [hit["title"] for hit in result.structured_content["results"]]
            assert titles[1].endswith(f"superseded by ADR-46 ({new})")

    anyio.run(work)
