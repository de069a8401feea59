"""The inbox: both texts side by side, one press each, undone."""

from __future__ import annotations

import json
import re

import pytest
from site_client import Client

from command import add, as_json, record_here
from zapomni_core.settings import load_settings

OLD, NEW = "We deploy to production on Tuesdays.", "We deploy to production on Thursdays."
RULE = "Always run make lint before pushing."


@pytest.fixture
def own(private_home, monkeypatch):
    """A site of its own, with a pair, an untrusted memory and a candidate."""
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    old, new = add(OLD, "--tag", "old"), add(NEW)
    event = {"session_id": "s", "cwd": "/nowhere/shop", "hook_event_name": "UserPromptSubmit"}
    record_here(json.dumps({**event, "prompt": RULE}).encode(), "--host", "claude-code")
    with Client(load_settings()) as one:
        yield one, old, new


def look(site):
    return site.follow(site.post("/review/look"))


def items(site, kind=""):
    return site.json(f"/review.json?kind={kind}" if kind else "/review.json")["items"]


def decide(site, kind, decision):
    (item,) = items(site, kind)
    return site.follow(site.post(f"/review/{item['id']}", {"decision": decision, "kind": kind}))


def test_opening_the_page_changes_nothing_and_looking_finds_more(own):
    site, _, _ = own
    page = site.get("/review")
    assert "2 memories are new or changed" in page.shown
    assert [one["kind"] for one in items(site)] == ["candidate"]

    done = look(site)

    assert "1 more waits for you." in done.shown
    assert [one["kind"] for one in items(site)] == ["candidate", "contradiction"]
    assert "new or changed" not in done.shown
    assert "Nothing new was found." in look(site).shown
    assert site.json("/review.json") == as_json("review")


def test_both_texts_are_shown_with_what_differs(own):
    site, old, new = own
    page = look(site)

    assert "production on <del>Tuesdays</del>." in page.text
    assert "production on <ins>Thursdays</ins>." in page.text
    assert page.text.index(f"/m/{old}") < page.text.index(f"/m/{new}")
    assert "tuesday became thursday" in page.shown


def test_a_candidate_is_kept_and_that_is_undone(own):
    site, _, _ = own

    done = decide(site, "candidate", "keep")

    assert f"Kept “{RULE}”." in done.shown
    (stored,) = site.json("/search.json?kind=preference")["items"]
    assert stored["preview"] == RULE
    assert "It waits for you again." in site.undo(done).shown
    assert site.json("/search.json?kind=preference")["items"] == []
    assert items(site, "candidate")


@pytest.mark.parametrize("decision", ["supersede", "merge"])
def test_the_newer_replaces_the_older_and_that_is_undone(own, decision):
    site, old, new = own
    look(site)

    done = decide(site, "contradiction", decision)

    assert site.json(f"/m/{old}.json")["superseded_by"] == new
    assert site.json(f"/m/{new}.json")["tags"] == (["old"] if decision == "merge" else [])
    site.undo(done)
    assert site.json(f"/m/{old}.json")["superseded_by"] is None
    assert site.json(f"/m/{new}.json")["tags"] == []
    assert len(items(site, "contradiction")) == 1


def test_forgetting_takes_the_older_and_other_questions_about_it_go_with_it(own):
    site, old, _ = own
    third = add("We deploy to production on Fridays.")
    look(site)
    assert len(items(site, "contradiction")) > 1
    pair = next(
        one
        for one in items(site, "contradiction")
        if [memory["memory_id"] for memory in one["memories"]] == [old, third]
    )

    done = site.follow(site.post(f"/review/{pair['id']}", {"decision": "forget"}))

    site.get(f"/m/{old}", 404)
    assert old not in {m["memory_id"] for one in items(site) for m in one["memories"]}
    site.undo(done)
    assert site.json(f"/m/{old}.json")["text"] == OLD


def test_no_conflict_is_not_asked_again(own):
    site, _, _ = own
    look(site)

    done = decide(site, "contradiction", "not_a_conflict")

    assert "this is not asked again" in done.shown
    assert "Nothing new was found." in look(site).shown
    assert items(site, "contradiction") == []


def test_an_untrusted_memory_is_trusted_and_that_is_undone(own):
    from zapomni_core.interfaces import AddMemoryRequest

    site, _, _ = own
    request = AddMemoryRequest(text="From elsewhere.", origin="import:notes", trusted=False)
    added = site.run(site.engine.add_memory(request))
    look(site)
    assert "it is not your own: import:notes" in site.get("/review?kind=untrusted").shown

    done = decide(site, "untrusted", "trust")

    assert site.json(f"/m/{added.memory_id}.json")["trusted"] is True
    site.undo(done)
    assert site.json(f"/m/{added.memory_id}.json")["trusted"] is False


def test_what_is_wrong_is_said(own):
    site, _, _ = own
    (item,) = items(site, "candidate")

    site.get("/review?kind=x", 400)
    site.post("/review/abc", {"decision": "keep"}, 404)
    site.post("/review/99999", {"decision": "keep"}, 404)
    site.post(f"/review/{item['id']}", {"decision": "x"}, 400)
    assert "takes one of" in site.post(f"/review/{item['id']}", {"decision": "merge"}, 400).shown


def test_an_empty_inbox_says_so(empty):
    assert "Nothing waits for you" in empty.get("/review").shown


def test_keys_decide_about_the_item_that_has_the_focus_and_undo(tab):
    page = tab.open("/review") or tab.page
    first, second = (page.locator(".inbox [data-item]").nth(n) for n in (0, 1))
    assert second.count() == 1
    target = second.locator("form").get_attribute("action")
    waiting = int(re.findall(r"\d+", page.locator(".tabs a").first.inner_text())[0])

    page.keyboard.press("j")
    page.keyboard.press("j")
    key = "n" if second.locator("[data-shortcut=n]").count() else "y"
    page.keyboard.press(key)
    page.wait_for_selector(".done")

    assert page.locator(f'form[action="{target}"]').count() == 0
    page.keyboard.press("u")
    page.wait_for_selector(f'form[action="{target}"]')
    again = int(re.findall(r"\d+", page.locator(".tabs a").first.inner_text())[0])
    assert again == waiting
    assert first.count() == 1
