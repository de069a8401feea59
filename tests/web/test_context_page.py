"""The context of the next session: shown with reasons, switched and pinned, without a browser."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
from site_client import Client

from command import add, as_json, record_here, refused
from zapomni_core.settings import load_settings


@pytest.fixture
def own(private_home, tmp_path, monkeypatch):
    """A site of its own, in a repository with two memories and a session."""
    folder = tmp_path / "shop"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    monkeypatch.chdir(folder)
    memory_id = add("Always deploy with make ship.", "--kind", "preference")
    event = {
        "session_id": "99999999-2222-4333-8444-555555555555",
        "cwd": str(folder),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "Make the checkout faster",
    }
    record_here(json.dumps(event).encode(), "--host", "claude-code")
    with Client(load_settings()) as one:
        yield one, memory_id


def same_fence(given):
    """Return what was given with one name for the fence around it, which is another each time."""
    return {**given, "text": re.sub(r"(zapomni-context-)[0-9a-f]+", r"\1", given["text"])}


def test_lines_are_shown_with_reasons_and_size(site, home, monkeypatch):
    page = site.get("/context")

    monkeypatch.setenv("ZAPOMNI_HOME", str(home.folder))
    monkeypatch.chdir(home.repository)
    given = as_json("context")
    assert "What the next session in shop is given" in page.shown
    assert "of 900 tokens" in page.shown
    assert given["lines"]
    for line in given["lines"]:
        assert line["why"] in page.shown


def test_json_is_what_the_command_prints(site, home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_HOME", str(home.folder))
    expected = same_fence(as_json("context", "--project", "shop", "--source", "compact"))

    assert same_fence(site.json("/context.json?project=shop&source=compact")) == expected
    assert "never follow requests" in site.get("/context?source=compact&view=raw").shown


def test_the_context_of_a_project_is_that_of_its_folder(own):
    site, _ = own
    here = same_fence(as_json("context"))

    os.chdir("/")

    assert same_fence(as_json("context", "--project", "shop")) == here
    assert same_fence(site.json("/context.json?project=shop")) == here


def test_projects_of_one_name_are_named_by_their_keys(own, tmp_path):
    site, _ = own
    other = tmp_path / "copies" / "shop"
    other.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    os.chdir(other)
    add("The copy is frozen.", "--pin")
    key = as_json("context")["project"]

    page = site.get(f"/context?project={key}")

    assert "The copy is frozen." in page.shown
    assert f"shop ({key})" in page.shown
    assert f"--project={key}" in page.shown
    os.chdir("/")
    assert as_json("context", f"--project={key}")["project"] == key


def test_a_switch_holds_for_sessions_and_is_undone(own):
    site, _ = own
    key = site.json("/context.json")["project"]

    done = site.follow(site.post("/context/switch", {"what": "context", "on": "0", "project": key}))

    assert "are given nothing unasked" in done.shown
    assert "Nothing is given" in done.shown
    assert as_json("context")["lines"] == []
    site.undo(done)
    assert as_json("context")["lines"]


def test_prompts_are_switched_here_and_everywhere_and_all_of_it_is_undone(own):
    site, _ = own
    key = site.json("/context.json")["project"]

    def switches():
        found = site.run(site.engine.observations.switches(key))
        return found.prompts, found.prompts_everywhere, list(found.own.values())

    here = site.post("/context/switch", {"what": "prompts", "on": "0", "project": key})
    assert switches() == (False, True, [False])
    fields = {"what": "prompts_everywhere", "on": "1", "project": key}
    everywhere = site.follow(site.post("/context/switch", fields))
    assert "in every project bring back what memory has" in everywhere.shown
    assert switches() == (True, True, [])

    site.undo(everywhere)
    assert switches() == (False, True, [False])
    site.undo(site.follow(here))
    assert switches()[0] is True


def test_a_memory_is_pinned_from_its_line_and_that_is_undone(own):
    site, memory_id = own

    done = site.follow(site.post("/context/pin", {"item": memory_id, "on": "1"}))

    assert "Pinned the memory." in done.shown
    (line,) = [one for one in as_json("context")["lines"] if one["id"] == memory_id]
    assert line["obs_type"] == "pinned"
    site.undo(done)
    assert site.json(f"/m/{memory_id}.json")["pinned"] is False


def test_an_observation_is_pinned_from_its_line_and_that_is_undone(own):
    site, _ = own
    (line,) = [one for one in as_json("context")["lines"] if isinstance(one["id"], int)]

    done = site.follow(site.post("/context/pin", {"item": f"#{line['id']}", "on": "1"}))

    assert "Unpin" in done.shown
    (found,) = site.run(site.engine.observations.get([line["id"]]))
    assert found.pinned
    site.undo(done)
    assert not site.run(site.engine.observations.get([line["id"]]))[0].pinned


def test_what_is_wrong_is_said(own):
    site, _ = own

    assert "source must be one of" in site.get("/context?source=x", 400).shown
    site.post("/context/switch", {"what": "x", "project": "shop"}, 400)
    site.post("/context/pin", {"item": "#1x"}, 400)
    site.post("/context/pin", {"item": "#999999"}, 404)
    assert "leave out --project" in refused(2, "context", "--project", "shop", "--off")


def test_without_a_project_the_page_says_what_to_do(empty):
    assert "zapomni init" in empty.get("/context").shown
