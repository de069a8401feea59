"""What was given to agents and people, and what it cost, without a browser."""

from __future__ import annotations

import time

import pytest
from site_client import Client

from command import add, as_json
from zapomni_core.settings import load_settings
from zapomni_db.sqlite.recalls import Recall, RecallUse, record_batch


@pytest.fixture
def own(private_home):
    """A site of its own, with a memory that was recalled on three days, and used once."""
    memory_id = add("Retries use jitter.")
    home, now = str(load_settings().home), time.time()

    def unchanged(text):
        return text, 0

    given = [(memory_id, "memory", 40, 0.9)]
    recalls = [
        Recall(now - 2 * 86_400, "codex", "s1", "", "session_start", "", given),
        Recall(now - 86_400, "claude-code", "s2", "", "prompt", "How do retries work?", given),
        Recall(
            now, "claude-code", "", "", "tool", "jitter", [*given, ("4711", "observation", 9, None)]
        ),
    ]
    record_batch(home, [*recalls, RecallUse(now + 1, "s2", "cited", [memory_id])], unchanged)
    with Client(load_settings()) as one:
        yield one, memory_id


def test_recalls_are_shown_with_what_was_given_and_its_cost(own):
    site, memory_id = own
    page = site.get("/recalls")

    assert "With a prompt" in page.shown
    assert "How do retries work?" in page.shown
    assert page.text.count(f'href="/m/{memory_id}"') == 3
    assert "strong evidence" in page.shown
    assert "observation 4711, deleted since" in page.shown
    assert "129 tokens given" in page.shown
    assert site.json("/recalls.json") == as_json("recalls")


def test_tokens_of_each_day_are_a_chart_and_a_table(own):
    site, _ = own
    page = site.get("/recalls")

    assert page.text.count("<title>20") == 30
    today = time.strftime("%Y-%m-%d")
    assert f"<title>{today}: 49 tokens in 1 recall</title>" in page.text
    table = page.text.partition("<tbody>")[2].partition("</tbody>")[0]
    assert table.count("<tr>") == 3
    assert today in table


def test_filters_are_those_of_the_command(own):
    site, memory_id = own

    for asked, options in [
        ("how=prompt", ["--how", "prompt"]),
        ("used=1", ["--used"]),
        ("used=0", ["--unused"]),
        ("session=s1", ["--session", "s1"]),
        (f"item={memory_id}", ["--item", memory_id]),
        ("item=4711", ["--item", "4711"]),
        ("since=36h", ["--since", "36h"]),
    ]:
        found = site.json(f"/recalls.json?{asked}")
        assert 1 <= len(found) <= 3, asked
        assert found == as_json("recalls", *options), asked


def test_one_memory_has_its_own_list(own):
    site, memory_id = own

    page = site.get(f"/recalls?item={memory_id}")

    assert "Where Retries use jitter. was given." in page.shown
    assert f"/recalls?item={memory_id}" in site.get(f"/m/{memory_id}").text
    assert "No recall passes" in site.get(f"/recalls?item={'9' * 40}").shown
    assert "how must be one of" in site.get("/recalls?how=x", 400).shown


def test_without_recalls_the_page_says_what_to_do(empty):
    assert "Nothing was recalled yet" in empty.get("/recalls").shown
