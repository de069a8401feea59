"""A memory's page and its changes, without a browser."""

from __future__ import annotations

import html

import pytest
from site_client import Client

from command import add, as_json, zapomni
from zapomni_core.settings import load_settings


@pytest.fixture
def own(private_home):
    """A site of its own, with one memory."""
    memory_id = add("Retries use jitter.\n\nSecond paragraph.", "--tag", "net", "--kind", "note")
    with Client(load_settings()) as one:
        yield one, memory_id


def test_a_memory_is_shown_rendered_and_raw(site, home):
    rendered = site.get(f"/m/{home.document}")
    raw = site.get(f"/m/{home.document}?view=raw")

    assert "<strong>an hour</strong>" in rendered.text
    assert '<td class="right">too old</td>' in rendered.text
    assert "**an hour**" in raw.shown


def test_history_is_shown_as_diffs(site, home):
    page = site.get(f"/m/{home.deploy}")

    assert "<del>We deploy on Wednesdays.</del>" in page.text
    assert "<ins>We deploy on Tuesdays; Friday deploys are forbidden.</ins>" in page.text


def test_cited_code_is_shown_as_it_is_now(site, home):
    page = site.get(f"/m/{home.document}")

    assert "code fresh" in page.shown
    assert "def check_token(token):" in page.shown


def test_statements_are_shown_with_their_sentence(site, home):
    page = site.get(f"/m/{home.document}")

    statements = page.text.split("What was read in it")[1].split("</section>")[0]
    assert "<blockquote>Acme Corp uses PostgreSQL.</blockquote>" in statements


def test_json_is_what_get_prints(site, home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_HOME", str(home.folder))

    assert site.json(f"/m/{home.document}.json") == as_json("get", home.document)


def test_an_edit_is_saved_shown_and_undone(own):
    site, memory_id = own
    fields = {"text": "Retries use backoff.", "kind": "decision", "tags": "net, retry"}

    done = site.follow(site.post(f"/m/{memory_id}/edit", fields))

    assert "Changed text, kind, tags" in done.shown
    changed = site.json(f"/m/{memory_id}.json")
    assert (changed["text"], changed["kind"]) == ("Retries use backoff.", "decision")
    assert changed["tags"] == ["net", "retry"]
    assert "as it was" in site.undo(done).shown
    restored = site.json(f"/m/{memory_id}.json")
    assert (restored["text"], restored["kind"], restored["tags"]) == (
        "Retries use jitter.\n\nSecond paragraph.",
        "note",
        ["net"],
    )


def test_saving_a_form_unchanged_changes_nothing(own):
    site, memory_id = own
    text = "Retries use jitter.\r\n\r\nSecond paragraph."

    done = site.follow(site.post(f"/m/{memory_id}/edit", {"text": text, "tags": "net"}))

    assert "Nothing was changed" in done.shown


def test_pinning_is_one_press_and_can_be_undone_once(own):
    site, memory_id = own

    done = site.follow(site.post(f"/m/{memory_id}/pin", {"on": "1"}))

    assert "Pinned “Retries use jitter.”" in done.shown
    assert site.json(f"/m/{memory_id}.json")["pinned"] is True
    site.undo(done)
    assert site.json(f"/m/{memory_id}.json")["pinned"] is False
    change = done.text.split('action="/undo/')[1].partition('"')[0]
    assert "nothing to undo" in site.post(f"/undo/{change}", status=404).shown


def test_an_earlier_version_is_restored_and_that_is_undone(own):
    site, memory_id = own
    site.post(f"/m/{memory_id}/edit", {"text": "Something else."})
    question = site.get(f"/m/{memory_id}/restore?version=1")
    assert "Something else." in question.shown

    done = site.follow(site.post(f"/m/{memory_id}/restore", {"version": "1"}))

    assert site.json(f"/m/{memory_id}.json")["text"].startswith("Retries use jitter.")
    site.undo(done)
    assert site.json(f"/m/{memory_id}.json")["text"] == "Something else."


def test_trust_is_asked_for_by_name_and_undone(own):
    site, memory_id = own
    assert "Retries use jitter." in site.get(f"/m/{memory_id}/trust").shown

    done = site.follow(site.post(f"/m/{memory_id}/trust", {"on": "0"}))

    assert site.json(f"/m/{memory_id}.json")["trusted"] is False
    site.undo(done)
    assert site.json(f"/m/{memory_id}.json")["trusted"] is True


def test_forgetting_names_the_memory_first(own):
    site, memory_id = own
    question = site.get(f"/m/{memory_id}/forget")
    assert "Retries use jitter." in question.shown

    done = site.follow(site.post(f"/m/{memory_id}/forget"))

    assert "Forgot “Retries use jitter.”" in done.shown
    site.get(f"/m/{memory_id}", 404)
    assert "Retries use jitter." in site.get("/trash").shown
    assert "is back" in site.undo(done).shown
    assert site.json(f"/m/{memory_id}.json")["tags"] == ["net"]


def test_what_was_forgotten_comes_back_from_the_trash_page(own):
    site, memory_id = own
    site.post(f"/m/{memory_id}/forget")
    (batch,) = site.json("/trash.json")

    done = site.follow(site.post(f"/trash/{batch['batch']}/restore"))

    assert "1 memory is back." in done.shown
    assert "The trash is empty" in done.shown
    assert site.json(f"/m/{memory_id}.json")["text"].startswith("Retries use jitter.")


def test_a_newer_memory_replaces_an_older_one(own):
    site, memory_id = own
    newer = add("Retries are off since March.")
    choices = site.get(f"/m/{memory_id}/replace")
    assert f"/m/{memory_id}/supersede?by={newer}" in choices.text
    assert "No newer memory" in site.get(f"/m/{newer}/replace").shown
    question = site.get(f"/m/{memory_id}/supersede?by={newer}")
    assert "Retries use jitter." in question.shown
    assert "Retries are off since March." in question.shown

    done = site.follow(site.post(f"/m/{memory_id}/supersede", {"by": newer}))

    assert "is replaced by" in done.shown
    assert "What replaced what" in done.shown
    assert site.json(f"/m/{memory_id}.json")["superseded_by"] == newer
    assert "is current again" in site.undo(done).shown
    assert site.json(f"/m/{memory_id}.json")["superseded_by"] is None
    assert "What replaced what" not in site.get(f"/m/{memory_id}").shown


def test_a_memory_is_added_and_that_is_undone(own):
    site, _ = own
    assert "prefilled" in site.get("/add?text=prefilled").shown

    done = site.follow(
        site.post("/add", {"text": "Use uv, not pip.", "kind": "preference", "tags": "a, b"})
    )

    assert "Stored." in done.shown
    (found,) = site.json("/search.json?kind=preference")["items"]
    assert (found["preview"], found["tags"]) == ("Use uv, not pip.", ["a", "b"])
    assert "It is in the trash." in site.undo(done).shown
    assert site.json("/search.json?kind=preference")["items"] == []


def test_saving_what_cannot_be_seen_unchanged_changes_nothing(own):
    site, _ = own
    hidden = add("red \x1b[31m and \u202eesrever")
    page = site.get(f"/m/{hidden}/edit")
    shown = html.unescape(page.text.split("</textarea>")[0].rpartition(">")[2]).strip()
    assert shown == r"red \u001b[31m and \u202eesrever"

    done = site.follow(site.post(f"/m/{hidden}/edit", {"text": shown}))

    assert "Nothing was changed" in done.shown


def test_memories_about_the_same_are_shown(site, home):
    assert "Memories about the same" in site.get(f"/m/{home.document}").shown


def test_what_is_around_a_memory_is_drawn(own):
    site, plain = own
    memory_id = add("Grace Hopper works at Acme Corp.")
    add("Acme Corp uses PostgreSQL.")
    assert zapomni("graph", "build").returncode == 0

    page = site.get(f"/m/{memory_id}")

    drawing = page.text.partition('<svg class="graph"')[2].partition("</svg>")[0]
    assert f'class="node center" href="/m/{memory_id}"' in drawing
    assert "this memory mentions Acme" in drawing
    assert "Grace Hopper works at Acme\n“Grace Hopper works at Acme Corp.”" in drawing
    assert drawing.count('data-kind="memory"') == 2
    assert 'href="/graph?entity=' in drawing
    assert "Around it" not in site.get(f"/m/{plain}").shown
